//! The C interface: its header, a program of it, what it refuses, and kernels on streams of a GPU.

mod gpu;
mod header;
mod program;
mod refusals;
mod support;
