//! The instruction set of the host: Cranelift's own detection, and what the emitter requires of it.

use std::sync::{Arc, OnceLock};

use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};

use super::half;

type Detected = Result<Arc<dyn TargetIsa>, String>;

/// The host's instruction set, detected once per process, or what it lacks.
pub(super) fn host() -> Result<Arc<dyn TargetIsa>, String> {
    static HOST: OnceLock<Detected> = OnceLock::new();
    HOST.get_or_init(|| detect(false)).clone()
}

/// As [`host`], for code that a linker places.
pub(super) fn host_pic() -> Result<Arc<dyn TargetIsa>, String> {
    static HOST: OnceLock<Detected> = OnceLock::new();
    HOST.get_or_init(|| detect(true)).clone()
}

fn detect(pic: bool) -> Detected {
    let mut flags = settings::builder();
    let mut set = |name: &str, value: &str| flags.set(name, value).map_err(|e| e.to_string());
    // Value numbering is the emitter's; the optimiser would hoist every constant out of the loops and spill it.
    set("opt_level", "none")?;
    set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
    set("is_pic", if pic { "true" } else { "false" })?;
    let builder = cranelift_native::builder().map_err(str::to_owned)?;
    let isa: OwnedTargetIsa = builder.finish(settings::Flags::new(flags)).map_err(|e| e.to_string())?;
    require(&*isa)?;
    Ok(isa)
}

/// Fused multiply-add and rounding are instructions; a library call would leave a relocation behind.
fn require(isa: &dyn TargetIsa) -> Result<(), String> {
    if isa.endianness() != cranelift_codegen::ir::Endianness::Little {
        return Err("the host is big-endian".to_owned());
    }
    if isa.name() != "x64" {
        return Ok(());
    }
    let on = |name: &str| isa.isa_flags().iter().any(|flag| flag.name == name && flag.as_bool() == Some(true));
    for feature in ["has_sse41", "has_fma"] {
        if !on(feature) {
            return Err(format!("the host's {} lacks {}", isa.name(), &feature["has_".len()..]));
        }
    }
    Ok(())
}

/// Everything about the instruction set that changes code.
pub(super) fn describe(isa: &dyn TargetIsa) -> String {
    let flags: Vec<String> = isa.isa_flags().iter().map(|flag| flag.to_string()).collect();
    format!("{} {} f16c={}", isa.triple(), flags.join(" "), half::exists(isa))
}
