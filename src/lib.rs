//! Fusewright: fuses the memory-bound parts of LLM inference graphs into generated kernels.
//!
//! ```text
//! model file ── open ──▶ Graph ── fuse_graph ──▶ Fused ── compile ──▶ Program ── run ──▶ tensors
//! ```
//!
//! [`fuse`] is the short way for a few ops: a closure over a [`Builder`](graph::Builder) in, a [`Callable`] over
//! borrowed slices out. [`aot`] writes kernels at build time.

pub mod aot;
pub mod bench;
pub mod check;
pub mod devices;
pub mod explain;
pub mod knobs;
pub mod model;
pub mod text_tool;

mod attention;
mod callable;
mod compile;
mod compiler;
mod error;
mod host;
mod map;
mod matmul;
mod program;

pub use callable::{Callable, Element, TensorMut, TensorRef, fuse};
pub use compile::{Compiled, Fused, Options, PassTime, compile, fuse_graph};
pub use compiler::{CompileError, Compiler};
pub use error::Error;
pub use fusewright_abi::{DType, Target};
pub use fusewright_fusion::region::FusedRegion;
pub use fusewright_graph as graph;
pub use host::{HostTensor, read_safetensors, write_safetensors, write_whole};
pub use map::map_file;
pub use program::{Fallback, Program, StepCounts};
