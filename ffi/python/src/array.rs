//! Tensors that cross the border: memory of the caller that is lent for a call, and results that Python owns.

use fusewright::{DType, HostTensor};
use pyo3::prelude::*;

use crate::dlpack::Borrowed;
use crate::errors::CallError;
use crate::memory;

/// A tensor of the caller: dtype, extents, and the address of its elements in row-major order, which the caller keeps.
pub type Lent = (String, Vec<usize>, usize);

/// A tensor in memory of the host that a program or a kernel gave.
#[pyclass(frozen, weakref, module = "fusewright._native")]
#[derive(Debug)]
pub struct Array(HostTensor);

impl From<HostTensor> for Array {
    fn from(tensor: HostTensor) -> Self {
        Array(tensor)
    }
}

#[pymethods]
impl Array {
    /// Name of the dtype.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.dtype.name()
    }

    /// Extents, outermost first.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.0.shape.clone()
    }

    /// Where its elements lie, as long as this object lives.
    #[getter]
    fn address(&self) -> usize {
        self.0.bytes.as_ptr() as usize
    }

    /// Bytes of its elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.bytes.len()
    }
}

/// Memory of an object that speaks DLPack, on the host: its dtype, extents and address.
///
/// The object must outlive what uses the address. Raises `CallError` for memory elsewhere or with gaps; `what` says what the
/// object is of a call.
#[pyfunction]
pub fn borrow(object: &Bound<'_, PyAny>, what: &str) -> PyResult<(&'static str, Vec<usize>, usize)> {
    crate::dlpack::refuse_elsewhere(object, None, || what.to_owned())?;
    let Borrowed { dtype, shape, address, .. } = Borrowed::of(object, None, 0, || what.to_owned())?;
    Ok((dtype.name(), shape, address))
}

/// A tensor that was lent, as a dtype and its bytes.
///
/// # Errors
/// A dtype that is none; more elements than memory has.
pub fn described(name: &str, lent: &Lent) -> PyResult<(DType, usize)> {
    let (dtype, shape, _) = lent;
    let dtype: DType = dtype.parse().map_err(|e| CallError::new_err(format!("`{name}`: {e}")))?;
    let elements = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
    let bytes = elements.map(|n| dtype.bytes_for(n)).filter(|&bytes| isize::try_from(bytes).is_ok());
    let beyond = || CallError::new_err(format!("`{name}` has more elements than memory: {shape:?}"));
    Ok((dtype, bytes.ok_or_else(beyond)?))
}

/// A copy of a tensor that was lent.
///
/// # Errors
/// As [`described`].
#[allow(unsafe_code)]
pub fn copied(name: &str, lent: &Lent) -> PyResult<HostTensor> {
    let (dtype, bytes) = described(name, lent)?;
    // SAFETY: the caller keeps a tensor of that dtype and shape at the address.
    let bytes = unsafe { memory::read(lent.2, bytes) }.to_vec();
    Ok(HostTensor { dtype, shape: lent.1.clone(), bytes })
}
