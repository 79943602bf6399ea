//! A host model of Ascend C: our own stand-in for `kernel_operator.h`, against which a C++ compiler of the host compiles
//! kernels, and the library that runs them and objects to what the documentation does not allow.
//!
//! [`Model::build`] writes the sources of the model, which this crate carries as text, and compiles its library.
//! [`Model::compile`] makes a shared object of kernels, [`Model::load`] loads it, [`Kernel::launch`] runs one on memory
//! of the caller. `README.md` of this folder says what is modelled and what is not. Results are SIMULATED.

mod address_spaces;
mod compiler;
mod error;
mod files;
mod kernel;
mod launch;
mod limit;
mod stand_in;
mod together;
mod whole;

pub use address_spaces::clang;
pub use compiler::{Chip, Model, Runner, Source};
pub use error::Error;
pub use kernel::{Kernel, Kernels};
pub use launch::{Argument, Counters, Dma, Options, Poison};
pub use stand_in::{ARGUMENTS_HEADER, Device, StandIn, Version, described};
pub use together::Entry;

use stand_in::arguments_of;
