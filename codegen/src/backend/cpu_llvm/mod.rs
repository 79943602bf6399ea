//! Host CPUs, and named processors of their kind: Kernel IR to LLVM IR to machine code.
//!
//! A kernel becomes one function,
//! `extern "C" fn(buffers: *const *mut u8, dims: *const i64, row_begin: i64, row_end: i64)`, which runs all segments for
//! the outer rows of the range. The code is position-independent and needs nothing around it. Lanes go in chunks of
//! vectors as wide as the processor has them; every result is the same bits as the Kernel IR interpreter's, whatever the range
//! of rows and the width of vectors.
//!
//! The kernel must be expanded: functions of the table that are native to CPUs, on `f32`, integers and booleans.

mod address;
mod dialect;
mod eval;
mod extremes;
mod flat;
mod flow;
mod function;
mod kept;
mod lanes;
mod loops;
mod machine;
mod maps;
mod memory;
mod parts;
mod passes;
mod reduce;
mod scale;
mod search;
mod stages;

use std::sync::OnceLock;

use fusewright_abi::{Level, PayloadKind, Target};
use inkwell::context::Context;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::FileType;

use super::llvm::{BuildError, MEMORY};
use super::{About, Backend, BackendError, Stage, Wanted};
use crate::kernel::Kernel;
use machine::{Host, PASSES};

const NAME: &str = "llvm";

/// Compiles kernels for the host or a level of its kind of processors, with all of its vectors.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuLlvmBackend;

impl Backend for CpuLlvmBackend {
    fn about(&self) -> About {
        let (payload, file) = (PayloadKind::HostCode, PayloadKind::HostObject);
        About { name: NAME, payload, file, headers: &[], memory: MEMORY }
    }

    fn fingerprint(&self) -> String {
        // Every key of a kernel asks for it.
        static HOST: OnceLock<String> = OnceLock::new();
        let host = HOST.get_or_init(|| Host::of(None).map_or_else(|reason| reason, |host| host.describe()));
        format!("{host}, emitter {}", env!("CARGO_PKG_VERSION"))
    }

    /// Its file is the same function as a relocatable object whose symbol is the kernel's name.
    fn emit(&self, kernel: &Kernel, target: &Target, wanted: Wanted) -> Result<Vec<Stage>, BackendError> {
        let mut text = (wanted == Wanted::Stages).then(String::new);
        let object = object(kernel, target, text.as_mut())?;
        let code = if wanted == Wanted::File {
            Stage { extension: PayloadKind::HostObject.extension(), bytes: object }
        } else {
            let bytes = flat::link(&object, &kernel.name).map_err(|e| BackendError::internal(NAME, kernel, e))?;
            Stage { extension: PayloadKind::HostCode.extension(), bytes }
        };
        let text = text.map(|text| Stage { extension: "ll", bytes: text.into_bytes() });
        Ok(text.into_iter().chain([code]).collect())
    }
}

/// How wide vectors are, in bits, on the host or a processor of a level.
///
/// # Errors
/// The host lacks something, which this names.
pub(super) fn vector_bits(level: Option<Level>) -> Result<u32, String> {
    Host::of(level).map(|host| host.vectors)
}

/// The object file of a kernel; `text` becomes the module before its passes, below what was decided for it.
fn object(kernel: &Kernel, target: &Target, text: Option<&mut String>) -> Result<Vec<u8>, BackendError> {
    let Target::CpuLlvm { level } = *target else {
        return Err(BackendError::target(NAME, target, "this backend compiles for `cpu-llvm`"));
    };
    super::valid(NAME, kernel)?;
    let host = Host::of(level).map_err(|reason| BackendError::target(NAME, target, reason))?;
    let ctx = Context::create();
    let internal = |message: String| BackendError::internal(NAME, kernel, message);
    let not_built = |error: BuildError| match error {
        BuildError::Unsupported { place, what } => {
            BackendError::unsupported(NAME, kernel, place, format!("no CPU code for {what}"))
        }
        BuildError::Llvm(message) => internal(message),
    };
    let (module, mut decisions) = function::module(&ctx, kernel, &host).map_err(not_built)?;
    module.verify().map_err(|e| internal(e.to_string()))?;
    let written = text.is_some().then(|| module.print_to_string().to_string());
    let options = PassBuilderOptions::create();
    module.run_passes(PASSES, &host.machine, options).map_err(|e| internal(e.to_string()))?;
    decisions.extend(stages::split(&ctx, &module, host.vectors).map_err(not_built)?);
    debug_assert_eq!(module.verify().map_err(|e| e.to_string()), Ok(()));
    if let (Some(text), Some(written)) = (text, written) {
        *text = decisions.iter().map(|line| format!("; {line}\n")).chain([written]).collect();
    }
    let object = host.machine.write_to_memory_buffer(&module, FileType::Object).map_err(|e| internal(e.to_string()))?;
    Ok(object.as_slice().to_vec())
}
