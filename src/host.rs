//! Tensors in host memory: the arguments and results of programs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fusewright_abi::DType;
use fusewright_graph::tensor::Tensor;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::{Error, map_file};

/// A contiguous tensor in host memory, little endian.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostTensor {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Row-major elements.
    pub bytes: Vec<u8>,
}

impl HostTensor {
    /// A tensor of zero bytes.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Self {
        let elements = shape.iter().product();
        HostTensor { dtype, shape: shape.to_vec(), bytes: vec![0; dtype.bytes_for(elements)] }
    }

    /// The bytes of a tensor.
    ///
    /// # Errors
    /// The machine has no memory for them.
    pub fn of(tensor: &Tensor) -> Result<Self, Error> {
        let bytes = tensor.try_to_bytes()?;
        Ok(HostTensor { dtype: tensor.dtype(), shape: tensor.shape().to_vec(), bytes })
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |n: usize, &extent| n.saturating_mul(extent))
    }
}

const NAMES: [(Dtype, DType); 14] = [
    (Dtype::BOOL, DType::Bool),
    (Dtype::U8, DType::U8),
    (Dtype::I8, DType::I8),
    (Dtype::F8_E5M2, DType::F8E5M2),
    (Dtype::F8_E4M3, DType::F8E4M3),
    (Dtype::F8_E8M0, DType::F8E8M0),
    (Dtype::I16, DType::I16),
    (Dtype::U16, DType::U16),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::I32, DType::I32),
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
    (Dtype::I64, DType::I64),
];

/// Reads all tensors of a safetensors file.
///
/// # Errors
/// An unreadable or malformed file, or a dtype that has no counterpart.
pub fn read_safetensors(path: &Path) -> Result<BTreeMap<String, HostTensor>, Error> {
    let data = map_file(path)?;
    let bad = |message: String| Error::Input(format!("{}: {message}", path.display()));
    let file = SafeTensors::deserialize(&data).map_err(|e| bad(format!("not a safetensors file: {e}")))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter() {
        let dtype = NAMES.iter().find(|(theirs, _)| *theirs == view.dtype()).map(|(_, ours)| *ours);
        let dtype = dtype.ok_or_else(|| bad(format!("tensor `{name}` has unsupported dtype {:?}", view.dtype())))?;
        let tensor = HostTensor { dtype, shape: view.shape().to_vec(), bytes: view.data().to_vec() };
        tensors.insert(name.to_owned(), tensor);
    }
    Ok(tensors)
}

/// Writes tensors to a safetensors file; the file appears whole or not at all.
///
/// # Errors
/// A dtype that the format lacks, or a file that cannot be written.
pub fn write_safetensors(path: &Path, tensors: &BTreeMap<String, HostTensor>) -> Result<(), Error> {
    let mut views = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let dtype = NAMES.iter().find(|(_, ours)| *ours == tensor.dtype).map(|(theirs, _)| *theirs);
        let lacking = || Error::Input(format!("tensor `{name}`: safetensors has no dtype {}", tensor.dtype));
        let view = TensorView::new(dtype.ok_or_else(lacking)?, tensor.shape.clone(), &tensor.bytes)
            .map_err(|e| Error::Internal(format!("tensor `{name}`: {e}")))?;
        views.push((name.as_str(), view));
    }
    let bytes = safetensors::serialize(views, None).map_err(|e| Error::Internal(e.to_string()))?;
    write_whole(path, &bytes)
}

/// Files written by this process so far.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Writes a file through a temporary neighbour and a rename, so that a full disk leaves no partial file. A link is
/// followed; what is no regular file (a device, a pipe) is written to as it is.
///
/// # Errors
/// The file cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let fail = |source| Error::File { path: path.to_owned(), source };
    let target = match std::fs::metadata(path) {
        Ok(there) if !there.is_file() && !there.is_dir() => {
            let mut file = std::fs::OpenOptions::new().write(true).open(path).map_err(fail)?;
            return file.write_all(bytes).map_err(fail);
        }
        Ok(_) => std::fs::canonicalize(path).map_err(fail)?,
        Err(_) => path.to_owned(),
    };
    let name = target.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // Another thread or process may be writing the same file.
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let partial = target.with_file_name(format!(".{name}.{}.{number}.partial", std::process::id()));
    let result = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, &target));
    if result.is_err() {
        // The error being reported is the write's; a leftover that cannot be removed either adds nothing to it.
        let _ = std::fs::remove_file(&partial);
    }
    result.map_err(fail)
}

/// A buffer of zeros, or an error where the machine has no such memory.
///
/// # Errors
/// Too little memory, with the size.
pub(crate) fn zeroed(bytes: usize) -> Result<Vec<u8>, Error> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).map_err(|_| Error::Memory(format!("no memory for a buffer of {bytes} bytes")))?;
    buffer.resize(bytes, 0);
    Ok(buffer)
}
