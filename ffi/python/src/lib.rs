//! `fusewright._native`: the compiler and the launches of kernels, for Python.
//!
//! The module knows no framework: a graph comes in as the JSON of an exported program, tensors as addresses and sizes, a
//! stream as the number that a driver calls it by. What a framework's objects are is known by the Python sources beside
//! it. The interpreter is let go while a graph is compiled and while kernels run.

mod array;
mod compile;
mod counters;
mod dlpack;
mod doctor;
mod errors;
mod judge;
mod kernel;
mod memory;
mod options;
mod program;
mod region;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::array::{Array, borrow};
    #[pymodule_export]
    use crate::compile::{compile, is_pattern, knows, version};
    #[pymodule_export]
    use crate::counters::counters;
    #[pymodule_export]
    use crate::doctor::doctor;
    #[pymodule_export]
    use crate::errors::{CallError, CompileError, DeviceError, Error, UnavailableError};
    #[pymodule_export]
    use crate::judge::{Judgement, enclose, judge};
    #[pymodule_export]
    use crate::kernel::Kernel;
    #[pymodule_export]
    use crate::program::{Program, State, load, picture};
    #[pymodule_export]
    use crate::region::Region;

    /// What is built in.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("HAS_CUDA", cfg!(feature = "cuda"))?;
        module.add("HAS_LLVM", cfg!(feature = "llvm"))
    }
}
