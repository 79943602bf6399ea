//! Host CPUs: Kernel IR to machine code through Cranelift.
//!
//! A kernel becomes one function,
//! `extern "C" fn(buffers: *const *mut u8, dims: *const i64, row_begin: i64, row_end: i64)`, which runs all segments for
//! the outer rows of the range. The code is position-independent and needs nothing around it. Vectors are 128 bits
//! wide; every result is the same bits as the Kernel IR interpreter's, whatever the range of rows.
//!
//! The kernel must be expanded: functions of the table that are native to CPUs, on `f32`, integers and booleans.

mod cast;
mod code;
mod constants;
mod emit;
mod eval;
mod extremes;
mod forms;
mod half;
mod index;
mod isa;
mod lanes;
mod lookup;
mod map;
mod memory;
mod object;
mod operands;
mod pairs;
mod prefetch;
mod reduce;
mod round;
mod search;
mod slots;
mod stages;
mod tails;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::ir::types::F32;
use cranelift_codegen::isa::TargetIsa;
use fusewright_abi::{PayloadKind, Target};

use super::host::Refused;
use super::{About, Backend, BackendError, Grid, Stage, Wanted};
use crate::kernel::Kernel;
use lookup::Lookup;

const NAME: &str = "cranelift";

/// Compiles kernels for the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

impl Backend for CpuBackend {
    fn about(&self) -> About {
        let (payload, file) = (PayloadKind::HostCode, PayloadKind::HostObject);
        About { name: NAME, payload, file, headers: &[], memory: 0 }
    }

    fn fingerprint(&self) -> String {
        let host = match isa::host() {
            Ok(isa) => isa::describe(&*isa),
            Err(reason) => reason,
        };
        format!("cranelift {} for {host}, emitter {}", cranelift_codegen::VERSION, env!("CARGO_PKG_VERSION"))
    }

    fn grid(&self, kernel: &Kernel, _target: &Target) -> Grid {
        Grid { tables: lookup::lookups(kernel).len() as u32, ..Grid::loop_over_rows() }
    }

    /// Its file is the same function as a relocatable object whose symbol is the kernel's name. Whoever links it gives it
    /// buffers and nothing else, so that it computes what the code for this process looks up.
    fn emit(&self, kernel: &Kernel, target: &Target, wanted: Wanted) -> Result<Vec<Stage>, BackendError> {
        if wanted == Wanted::File {
            let isa = isa::host_pic().map_err(|reason| BackendError::target(NAME, target, reason))?;
            let (function, _) = function(kernel, &[], target, &*isa)?;
            let code = machine_code(kernel, function, &*isa)?;
            let bytes = object::write(&kernel.name, isa, &code);
            let bytes = bytes.map_err(|message| BackendError::internal(NAME, kernel, message))?;
            return Ok(vec![Stage { extension: PayloadKind::HostObject.extension(), bytes }]);
        }
        let isa = isa::host().map_err(|reason| BackendError::target(NAME, target, reason))?;
        let (function, decisions) = function(kernel, &lookup::lookups(kernel), target, &*isa)?;
        let text = (wanted == Wanted::Stages).then(|| {
            let mut text: String = decisions.iter().map(|line| format!("; {line}\n")).collect();
            text.push_str(&function.display().to_string());
            Stage { extension: "clif", bytes: text.into_bytes() }
        });
        let bytes = machine_code(kernel, function, &*isa)?.bytes;
        Ok(text.into_iter().chain([Stage { extension: PayloadKind::HostCode.extension(), bytes }]).collect())
    }
}

/// How wide vectors are, in bits: Cranelift has no wider ones.
///
/// # Errors
/// The host lacks something, which this names.
pub(super) fn vector_bits() -> Result<u32, String> {
    isa::host().map(|_| code::vector_of(F32).bits())
}

/// The function before instruction selection, and lines on what was decided for it.
fn function(
    kernel: &Kernel,
    lookups: &[Lookup],
    target: &Target,
    isa: &dyn TargetIsa,
) -> Result<(Function, Vec<String>), BackendError> {
    if *target != Target::Cpu {
        return Err(BackendError::target(NAME, target, "this backend compiles for `cpu`"));
    }
    super::valid(NAME, kernel)?;
    let refused = |r: Refused| BackendError::unsupported(NAME, kernel, r.place, r.reason);
    let (mut function, decisions) = emit::function(isa, kernel, lookups).map_err(refused)?;
    constants::hoist(&mut function);
    half::number(&mut function);
    Ok((function, decisions))
}

/// Code that needs nothing around it.
struct MachineCode {
    bytes: Vec<u8>,
    alignment: u32,
}

fn machine_code(kernel: &Kernel, function: Function, isa: &dyn TargetIsa) -> Result<MachineCode, BackendError> {
    let mut context = Context::for_function(function);
    context
        .compile(isa, &mut ControlPlane::default())
        .map_err(|e| BackendError::internal(NAME, kernel, format!("{:?}", e.inner)))?;
    let code = context.take_compiled_code().ok_or_else(|| BackendError::internal(NAME, kernel, "no code was made"))?;
    let internal = |message: String| BackendError::internal(NAME, kernel, message);
    let mut bytes = prefetch::linked(&code).map_err(internal)?;
    half::put(&code, &mut bytes).map_err(internal)?;
    Ok(MachineCode { bytes, alignment: code.buffer.alignment })
}
