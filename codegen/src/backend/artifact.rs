//! Artifacts: a payload with its parameters, integer arguments, row count and content key.

use fusewright_abi::{
    ABI_VERSION, Claim, ContentKey, Count, CountOp, DimArg, DimSource, KernelArtifact, LaunchRule, ManyRows, Param,
    Payload, PayloadKind, Target,
};
use fusewright_graph::dim::{DimFn, DimFold};
use fusewright_graph::{Dim, dim};
use sha2::{Digest, Sha256};

use super::order::row_order;
use super::{Backend, BackendError, Blocks, Grid, Stage, Wanted};
use crate::kernel::{DimOrigin, Kernel};

/// Version and sources of the emitters.
const EMITTER: &str = env!("FUSEWRIGHT_EMITTER");

/// The way from a kernel to its code, as keys tell it from others: what is made, and the fingerprints of the backend and of
/// what comes behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Everything besides kernel and target that changes the code.
    pub fingerprint: String,
    /// The kind of code that is made.
    pub payload: PayloadKind,
}

impl Route {
    /// The way of a backend that nothing comes behind.
    pub fn of(backend: &dyn Backend) -> Route {
        Route { fingerprint: backend.fingerprint(), payload: backend.about().payload }
    }
}

/// The content key of a kernel: a hash of its text, the rule of its reduction trees, the schedule, the target, the backend's
/// name, the route to its code, the sources of the emitters and the ABI version.
pub fn kernel_key(
    kernel: &Kernel,
    schedule: &str,
    target: &Target,
    backend: &dyn Backend,
    route: &Route,
) -> ContentKey {
    let mut hash = Sha256::new();
    let parts = [
        kernel.to_string(),
        schedule.to_owned(),
        backend.schedules().map_or_else(String::new, |schedules| schedules.of(kernel).to_string()),
        target.to_string(),
        backend.about().name.to_owned(),
        route.fingerprint.clone(),
        format!("{:?}", route.payload),
        EMITTER.to_owned(),
        ABI_VERSION.to_string(),
    ];
    for part in parts {
        // The length keeps neighbouring parts apart.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    ContentKey(hash.finalize().into())
}

/// The key of a kernel whose code is made of a changed stage.
pub fn resumed_key(key: ContentKey, stage: &Stage) -> ContentKey {
    let mut hash = Sha256::new();
    hash.update(key.0);
    hash.update(stage.extension);
    hash.update(&stage.bytes);
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
    let route = Route::of(backend);
    let made = backend.emit(kernel, target, Wanted::Payload)?.pop();
    let payload = Payload { kind: route.payload, bytes: made.map(|stage| stage.bytes).unwrap_or_default() };
    pack(kernel, kernel_key(kernel, schedule, target, backend, &route), target, backend, payload)
}

/// Packs the payload that a backend made of a kernel, in this process or an earlier one, under the kernel's key.
///
/// # Errors
/// A row count that is not a polynomial of integer arguments.
pub fn pack(
    kernel: &Kernel,
    key: ContentKey,
    target: &Target,
    backend: &dyn Backend,
    payload: Payload,
) -> Result<KernelArtifact, BackendError> {
    let unsupported =
        |place: String, reason: String| BackendError::unsupported(backend.about().name, kernel, place, reason);
    let rows = count(kernel, &kernel.rows).map_err(|reason| unsupported(format!("rows {}", kernel.rows), reason))?;
    let Grid { blocks, many, dependent, shared, alignment, tables } = backend.grid(kernel, target);
    let per_row = |blocks: &Blocks| {
        let per_row = &blocks.per_row;
        count(kernel, per_row).map_err(|reason| unsupported(format!("blocks per row {per_row}"), reason))
    };
    let many = many.map(|(from, blocks)| {
        let Blocks { threads, shares, .. } = blocks;
        Ok(ManyRows { from, blocks_per_row: per_row(&blocks)?, shares, threads })
    });
    let many = many.transpose()?;
    let (blocks_per_row, Blocks { threads, shares, .. }) = (per_row(&blocks)?, blocks);
    let shared = count(kernel, &shared).map_err(|reason| unsupported(format!("shared memory {shared}"), reason))?;
    let mut params = Vec::with_capacity(kernel.params.len());
    for param in &kernel.params {
        let elements = count(kernel, &dim::product(&param.shape))
            .map_err(|reason| unsupported(format!("parameter `{}`", param.name), reason))?;
        let (name, rank) = (param.name.clone(), param.shape.len() as u32);
        let alias = param.alias.map(|p| p.0 as usize);
        let (dtype, access, early) = (param.dtype, param.access, param.early);
        params.push(Param { name, dtype, access, rank, elements, alias, early });
    }
    let claims = kernel.claims.iter().map(|claim| {
        let [least, most] = [&claim.least, &claim.most].map(|side| count(kernel, side));
        let place = || format!("claim {} <= {}", claim.least, claim.most);
        Ok(Claim {
            least: least.map_err(|e| unsupported(place(), e))?,
            most: most.map_err(|e| unsupported(place(), e))?,
        })
    });
    let claims = claims.collect::<Result<_, BackendError>>()?;
    Ok(KernelArtifact {
        name: kernel.name.clone(),
        target: target.clone(),
        key,
        params,
        dims: dims(kernel),
        claims,
        launch: LaunchRule {
            rows,
            order: row_order(kernel),
            blocks_per_row,
            shares,
            many,
            threads,
            dependent,
            shared,
            alignment,
            tables,
        },
        payload,
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

/// A number of rows, blocks or elements in the runtime's terms.
fn count(kernel: &Kernel, dim: &Dim) -> Result<Count, String> {
    dim.fold(&mut Counts { kernel })
}

/// Evaluates dims to expressions over a kernel's integer arguments.
struct Counts<'k> {
    kernel: &'k Kernel,
}

impl DimFold for Counts<'_> {
    type Value = Count;
    type Error = String;

    fn constant(&mut self, value: i64) -> Result<Count, String> {
        Ok(Count::Constant(value))
    }

    fn symbol(&mut self, name: &str) -> Result<Count, String> {
        let found = self.kernel.dims.iter().position(|d| d.name == name);
        found.map(Count::Dim).ok_or_else(|| format!("`{name}` is no integer argument"))
    }

    fn add(&mut self, a: Count, b: Count) -> Result<Count, String> {
        Ok(Count::Binary(CountOp::Add, Box::new(a), Box::new(b)))
    }

    fn mul(&mut self, a: Count, b: Count) -> Result<Count, String> {
        Ok(Count::Binary(CountOp::Mul, Box::new(a), Box::new(b)))
    }

    fn function(&mut self, f: DimFn, a: Count, b: Count) -> Result<Count, String> {
        let op = match f {
            DimFn::FloorDiv => CountOp::FloorDiv,
            DimFn::Mod => CountOp::Mod,
            DimFn::Max => CountOp::Max,
            DimFn::Min => CountOp::Min,
        };
        Ok(Count::Binary(op, Box::new(a), Box::new(b)))
    }
}
