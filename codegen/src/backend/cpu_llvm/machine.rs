//! The code generator of the host, or of a level of its kind of processors: the instructions, and the passes before it.

use fusewright_abi::Level;
use inkwell::OptimizationLevel;
use inkwell::support::get_llvm_version;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetMachineOptions};

/// What the row programs need of LLVM's optimiser: the emitter has numbered values and hoisted loads, and no pass may
/// make a call of a loop.
pub(super) const PASSES: &str = "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse,instcombine<no-verify-fixpoint>)";

/// The host as a target of LLVM, or a processor of a level.
pub(super) struct Host {
    pub machine: TargetMachine,
    cpu: String,
    features: String,
    /// Whether conversions of half precision are instructions.
    pub half: bool,
    /// Whether masked accesses of bytes and 16-bit elements are instructions.
    pub masks: bool,
    /// Whether products of a vector with powers of two are an instruction.
    pub scales: bool,
    /// Bits of the vectors to use.
    pub vectors: u32,
}

impl Host {
    /// Detects the host, or takes a processor of a level; or says what it lacks.
    pub fn of(level: Option<Level>) -> Result<Host, String> {
        Target::initialize_native(&InitializationConfig::default())?;
        let triple = TargetMachine::get_default_triple();
        let (cpu, features) = match level {
            None => {
                (TargetMachine::get_host_cpu_name().to_string(), TargetMachine::get_host_cpu_features().to_string())
            }
            Some(level) if cfg!(target_arch = "x86_64") => (level.name().to_owned(), named(level.features())),
            Some(level) => return Err(format!("the host is no x86-64, of which `{level}` is a level")),
        };
        let has = |name: &str| features.split(',').any(|feature| feature.strip_prefix('+') == Some(name));
        if cfg!(target_endian = "big") {
            return Err("the host is big-endian".to_owned());
        }
        let x86 = cfg!(target_arch = "x86_64");
        // Fused multiply-add and rounding are instructions; a library call would be a symbol to link.
        for feature in ["sse4.1", "fma"] {
            if x86 && !has(feature) {
                return Err(format!("{cpu} lacks {feature}"));
            }
        }
        let wide = has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq");
        let (half, masks) = (!x86 || has("f16c"), wide);
        let options = TargetMachineOptions::new()
            .set_cpu(&cpu)
            .set_features(&features)
            .set_level(OptimizationLevel::Default)
            .set_reloc_mode(RelocMode::PIC)
            .set_code_model(CodeModel::Small);
        let target = Target::from_triple(&triple).map_err(|e| e.to_string())?;
        let machine = target.create_target_machine_from_options(&triple, options);
        let machine = machine.ok_or_else(|| format!("LLVM has no code generator for {cpu}"))?;
        Ok(Host { machine, cpu, features, half, masks, scales: x86 && wide, vectors: if wide { 512 } else { 256 } })
    }

    /// String attributes of functions.
    pub fn attributes(&self) -> [(&'static str, String); 3] {
        [
            ("target-cpu", self.cpu.clone()),
            ("target-features", self.features.clone()),
            ("prefer-vector-width", self.vectors.to_string()),
        ]
    }

    /// Everything about LLVM and the host that changes code.
    pub fn describe(&self) -> String {
        let (major, minor, patch) = get_llvm_version();
        let triple = self.machine.get_triple();
        let triple = triple.as_str().to_string_lossy();
        format!("llvm {major}.{minor}.{patch} for {triple} {} {}", self.cpu, self.features)
    }
}

/// Features as LLVM takes them; two have other names there.
fn named(features: &[&str]) -> String {
    let name = |feature: &&str| match *feature {
        "bmi1" => "+bmi".to_owned(),
        "cmpxchg16b" => "+cx16".to_owned(),
        other => format!("+{other}"),
    };
    features.iter().map(name).collect::<Vec<_>>().join(",")
}
