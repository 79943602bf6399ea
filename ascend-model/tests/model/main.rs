//! The model: what it computes, what it finds wrong, and how it is compiled with kernels. SIMULATED.

mod address_spaces;
mod casts;
mod foreign;
mod goldens;
mod right;
mod support;
mod wrong;
