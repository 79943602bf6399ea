//! Artifacts: a payload with its parameters, integer arguments, row count and content key.

use fusewright_abi::{
    ABI_VERSION, ContentKey, DType, DimArg, DimSource, KernelArtifact, Param, Payload, RowRange, Target,
};
use fusewright_graph::{Dim, dim};
use sha2::{Digest, Sha256};

use super::{Backend, BackendError};
use crate::kernel::{DimOrigin, Kernel};

/// The content key of a kernel: a hash of its text, the schedule, the target, the backend's fingerprint and the ABI
/// version.
pub fn kernel_key(kernel: &Kernel, schedule: &str, target: &Target, backend: &dyn Backend) -> ContentKey {
    let mut hash = Sha256::new();
    let parts = [
        kernel.to_string(),
        schedule.to_owned(),
        target.to_string(),
        backend.name().to_owned(),
        backend.fingerprint(),
        format!("{:?}", backend.payload_kind()),
        ABI_VERSION.to_string(),
    ];
    for part in parts {
        // The length keeps neighbouring parts apart.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    ContentKey(hash.finalize().into())
}

/// Emits a kernel and packs it for the runtime.
///
/// # Errors
/// What the backend does not take; a row count that is not a polynomial of integer arguments.
pub fn assemble(
    kernel: &Kernel,
    schedule: &str,
    target: &Target,
    backend: &dyn Backend,
) -> Result<KernelArtifact, BackendError> {
    let mut stages = backend.emit(kernel, target)?;
    let payload = stages.pop().ok_or_else(|| BackendError::Internal {
        backend: backend.name(),
        kernel: kernel.name.clone(),
        message: "no stage was emitted".to_owned(),
    })?;
    let unsupported = |place: String, reason: String| BackendError::Unsupported {
        backend: backend.name(),
        kernel: kernel.name.clone(),
        place,
        reason,
    };
    let rows = count(kernel, &kernel.rows).map_err(|reason| unsupported(format!("rows {}", kernel.rows), reason))?;
    let mut params = Vec::with_capacity(kernel.params.len());
    for param in &kernel.params {
        let elements = count(kernel, &dim::product(&param.shape))
            .map_err(|reason| unsupported(format!("parameter `{}`", param.name), reason))?;
        let (name, rank) = (param.name.clone(), param.shape.len() as u32);
        params.push(Param { name, dtype: param.dtype, access: param.access, rank, elements });
    }
    Ok(KernelArtifact {
        name: kernel.name.clone(),
        target: target.clone(),
        key: kernel_key(kernel, schedule, target, backend),
        params,
        dims: dims(kernel),
        rows,
        payload: Payload { kind: backend.payload_kind(), bytes: payload.bytes },
    })
}

fn dims(kernel: &Kernel) -> Vec<DimArg> {
    let source = |origin: &DimOrigin| match *origin {
        DimOrigin::Extent(param, axis) => DimSource::Extent { param: param.0 as usize, axis },
        DimOrigin::Stride(param, axis) => DimSource::Stride { param: param.0 as usize, axis },
        DimOrigin::Symbol => DimSource::Symbol,
    };
    kernel.dims.iter().map(|d| DimArg { name: d.name.clone(), source: source(&d.origin) }).collect()
}

/// A number of rows or elements in the runtime's terms.
fn count(kernel: &Kernel, dim: &Dim) -> Result<RowRange, String> {
    let terms = dim.as_polynomial().ok_or_else(|| format!("`{dim}` is no sum of products of integer arguments"))?;
    let index = |name: &str| {
        let found = kernel.dims.iter().position(|d| d.name == name);
        found.ok_or_else(|| format!("`{name}` is no integer argument"))
    };
    let term = |(coefficient, names): (i64, Vec<&str>)| {
        Ok((coefficient, names.into_iter().map(index).collect::<Result<Vec<_>, String>>()?))
    };
    Ok(RowRange { terms: terms.into_iter().map(term).collect::<Result<_, String>>()? })
}

/// Bytes of one element of a parameter; `None` for packed dtypes.
pub(crate) fn element_bytes(dtype: DType) -> Option<i64> {
    (dtype.bits() >= 8).then(|| i64::from(dtype.bits() / 8))
}

/// The constant term of a dim and the rest.
pub(crate) fn split_constant(dim: &Dim) -> (Dim, i64) {
    let constant = dim.constant_term();
    (dim - &Dim::constant(constant), constant)
}
