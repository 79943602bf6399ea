//! Templates of kernel sources.
//!
//! A template holds what every kernel of a target has in common; its typed struct says what differs. Nothing here
//! knows Kernel IR: statements come as text from the backend, everything else as numbers and names.

pub mod ascend;
