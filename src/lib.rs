//! Fusewright: fuses the memory-bound parts of LLM inference graphs into generated kernels.

mod error;
mod host;
mod map;
mod matmul;

pub use error::Error;
pub use host::{HostTensor, read_safetensors, write_safetensors, write_whole};
pub use map::map_file;
