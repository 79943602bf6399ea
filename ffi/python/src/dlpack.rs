//! Tensors of any library that speaks DLPack, borrowed for a call.

use std::ffi::{CStr, c_void};

use fusewright::DType;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule};

use crate::errors::CallError;

/// What the protocol calls a tensor that nobody has taken yet.
const NAME: &CStr = c"dltensor";
/// Its number of memory of the host, and of an NVIDIA GPU.
const HOST: i32 = 1;
const CUDA: i32 = 2;

#[repr(C)]
struct Device {
    kind: i32,
    index: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// The head of a managed tensor, which is all that is read.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    axes: i32,
    dtype: DataType,
    shape: *const i64,
    strides: *const i64,
    offset: u64,
}

/// A tensor of the caller, which lives as long as this.
pub struct Borrowed<'py> {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Of its first element.
    pub address: usize,
    _owner: Bound<'py, PyCapsule>,
}

impl<'py> Borrowed<'py> {
    /// Borrows the memory of an object, on the host or on the GPU of a number. On a GPU its owner has `stream` wait for what
    /// was enqueued on it before. `what` says what the object is of a call.
    ///
    /// # Errors
    /// An object that does not speak DLPack; memory on another device; elements that do not lie in row-major order without gaps.
    #[allow(unsafe_code)]
    pub fn of(
        object: &Bound<'py, PyAny>,
        gpu: Option<usize>,
        stream: usize,
        what: impl Fn() -> String,
    ) -> PyResult<Self> {
        let capsule = match gpu {
            // The protocol's number of the default stream is 1, and its arguments are given by name.
            Some(_) => {
                object.call_method("__dlpack__", (), Some(&[("stream", stream.max(1))].into_py_dict(object.py())?))?
            }
            None => object.call_method0("__dlpack__")?,
        };
        let owner = capsule.cast_into::<PyCapsule>().map_err(|_| CallError::new_err("`__dlpack__` gave no capsule"))?;
        let at = owner.pointer_checked(Some(NAME))?.cast::<Tensor>();
        // SAFETY: a capsule of that name holds a managed tensor, which begins with these fields and lives as long as it.
        let tensor = unsafe { at.as_ref() };
        let dtype = dtype(&tensor.dtype).ok_or_else(|| {
            let DataType { code, bits, lanes } = tensor.dtype;
            CallError::new_err(format!("kernels have no elements of code {code}, {bits} bits and {lanes} lanes"))
        })?;
        lies_on(&tensor.device, gpu, &what)?;
        let axes = usize::try_from(tensor.axes).unwrap_or(0);
        // SAFETY: both are of as many integers as there are axes; strides may be absent.
        let (shape, strides) = unsafe { (integers(tensor.shape, axes), integers(tensor.strides, axes)) };
        let mut step = 1i64;
        let is_empty = shape.contains(&0);
        for (extent, stride) in shape.iter().zip(strides).rev() {
            if *extent > 1 && *stride != step && !is_empty {
                return Err(CallError::new_err(format!("{} is not in row-major order without gaps", what())));
            }
            step = step.saturating_mul(*extent);
        }
        let shape = shape.iter().map(|&n| usize::try_from(n).unwrap_or(0)).collect();
        let address = tensor.data as usize + usize::try_from(tensor.offset).unwrap_or(0);
        Ok(Borrowed { dtype, shape, address, _owner: owner })
    }
}

/// Refuses an object that says it lies elsewhere than kernels run. Asked of all objects of a call before one is exported: an
/// owner may refuse to export what lies elsewhere, in words of its own.
///
/// # Errors
/// An object on another device.
pub fn refuse_elsewhere(object: &Bound<'_, PyAny>, gpu: Option<usize>, what: impl Fn() -> String) -> PyResult<()> {
    let Some(device) = object.getattr_opt("__dlpack_device__")? else { return Ok(()) };
    let (kind, index): (i32, i32) = device.call0()?.extract()?;
    lies_on(&Device { kind, index }, gpu, &what)
}

/// Refuses memory that does not lie where kernels run: on the host, or on the GPU of a number.
fn lies_on(device: &Device, gpu: Option<usize>, what: &dyn Fn() -> String) -> PyResult<()> {
    let Device { kind, index } = *device;
    let lies = match kind {
        HOST => None,
        CUDA => Some(usize::try_from(index).unwrap_or(usize::MAX)),
        _ => return Err(CallError::new_err(format!("{} lies on device {index} of kind {kind}", what()))),
    };
    if lies == gpu {
        return Ok(());
    }
    let [lies, runs] = [lies, gpu].map(|gpu| gpu.map_or("the host".to_owned(), |gpu| format!("cuda:{gpu}")));
    Err(CallError::new_err(format!("{} lies on {lies}, the kernels run on {runs}", what())))
}

/// Integers at an address, none at null.
///
/// # Safety
/// The address is null or of so many integers, which outlive the result.
#[allow(unsafe_code)]
unsafe fn integers<'t>(at: *const i64, count: usize) -> &'t [i64] {
    if at.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(at, count) }
}

fn dtype(dtype: &DataType) -> Option<DType> {
    Some(match (dtype.code, dtype.bits, dtype.lanes) {
        (0, 8, 1) => DType::I8,
        (0, 16, 1) => DType::I16,
        (0, 32, 1) => DType::I32,
        (0, 64, 1) => DType::I64,
        (1, 8, 1) => DType::U8,
        (1, 16, 1) => DType::U16,
        (1, 32, 1) => DType::U32,
        (1, 64, 1) => DType::U64,
        (2, 16, 1) => DType::F16,
        (2, 32, 1) => DType::F32,
        (2, 64, 1) => DType::F64,
        (4, 16, 1) => DType::BF16,
        (6, 8, 1) => DType::Bool,
        (10, 8, 1) => DType::F8E4M3,
        (12, 8, 1) => DType::F8E5M2,
        (14, 8, 1) => DType::F8E8M0,
        _ => return None,
    })
}
