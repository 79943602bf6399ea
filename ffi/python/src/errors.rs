//! Exceptions, one for each party whose fault it may be.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(
    fusewright,
    Error,
    PyException,
    "What went wrong. `op` and `source`, where known, are the op and the line of the model that it is about."
);
create_exception!(fusewright, CompileError, Error, "A graph, a file or an option is malformed or unsupported.");
create_exception!(fusewright, CallError, Error, "Tensors of a call do not fit the kernels.");
create_exception!(fusewright, UnavailableError, Error, "A target, driver, tool or memory is not available here.");
create_exception!(fusewright, DeviceError, Error, "A kernel cannot be loaded or launched.");

/// The exception for an error of the facade.
pub fn raised(error: fusewright::Error) -> PyErr {
    let message = error.to_string();
    match error {
        fusewright::Error::File { .. } | fusewright::Error::Input(_) => CompileError::new_err(message),
        fusewright::Error::Call(_) => CallError::new_err(message),
        fusewright::Error::Unavailable(_) | fusewright::Error::Memory(_) => UnavailableError::new_err(message),
        fusewright::Error::Device(_) => DeviceError::new_err(message),
        _ => Error::new_err(message),
    }
}
