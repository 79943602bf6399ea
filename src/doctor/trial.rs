//! Compiling and running a kernel, as any other is: the one way to know that it works.

use std::time::Instant;

use fusewright_abi::{DType, Target};
use fusewright_codegen::backend;
use fusewright_graph::{Builder, Graph, ReduceOp, ScalarFn, TensorType, TypeError};

use super::machine::loaded;
use super::{Finding, Section, settings};
use crate::knobs::{self, Knob};
use crate::{AssemblerChoice, CacheChoice, Error, HostTensor, Options, ScheduleChoice, Tiers, compile};

/// Rows and lanes of the trial.
const SHAPE: [usize; 2] = [3, 40];

/// Kernels for this processor, by each compiler of this build, and as the environment chooses among them.
pub(super) fn of_processor() -> Vec<Finding> {
    let mut findings = vec![by("Cranelift", Tiers::Off, "made before the first call; in every build".to_owned())];
    let linked = if cfg!(feature = "llvm-shared") { "the system's library" } else { "built in" };
    let version = backend::llvm_version().map(|(major, minor, patch)| format!("{major}.{minor}.{patch}"));
    match version {
        Some(version) if cfg!(feature = "llvm") => {
            let file = loaded("libLLVM").map_or_else(String::new, |file| format!(" {file}"));
            findings.push(by("LLVM", Tiers::Llvm, format!("version {version}, {linked}{file}")));
        }
        Some(version) => {
            let found = format!("version {version}, {linked}, for GPUs alone");
            findings.push(Finding::new(Section::Cpu, "LLVM", found, "Cranelift makes all kernels for `cpu`"));
        }
        None => {
            let used = "Cranelift makes all kernels for `cpu`; feature `llvm` adds faster ones";
            findings.push(Finding::new(Section::Cpu, "LLVM", "not in this build", used));
        }
    }
    findings
}

/// A trial of one compiler.
fn by(name: &str, tiers: Tiers, about: String) -> Finding {
    if let Some(spoiled) = settings::spoiled(&STAGES) {
        return Finding::new(Section::Cpu, name, about, spoiled);
    }
    let options = Options { tiers, ..apart() };
    match tried(&Target::Cpu, &options) {
        Ok(said) => Finding::new(Section::Cpu, name, about, said),
        Err(error) => {
            Finding::new(Section::Cpu, name, about, format!("kernels do not work: {error}")).failing(remedy())
        }
    }
}

/// Variables that name folders from which stages are read and to which they are written.
const STAGES: [Knob; 2] = [knobs::OVERRIDE_DIR, knobs::DUMP_DIR];

/// Gives the remedy of a trial that fails: variables that read or write stages may be the reason.
fn remedy() -> String {
    match STAGES.into_iter().find(|knob| knob.path().is_some()) {
        Some(knob) => format!("unset {}, or name a folder that can be used", knob.name),
        None => "report it with this text".to_owned(),
    }
}

/// Options that nothing outside of this process changes.
pub(super) fn apart() -> Options {
    let schedules = ScheduleChoice::Rule;
    Options { cache: CacheChoice::Off, assembler: AssemblerChoice::Off, schedules, ..Options::default() }
}

/// Compiles a kernel for a target, runs it, and looks at what it computed.
///
/// # Errors
/// No code, no device, or another result.
pub(super) fn tried(target: &Target, options: &Options) -> Result<String, Error> {
    let graph = graph().map_err(|error| Error::Internal(error.to_string()))?;
    let start = Instant::now();
    let compiled = compile(&graph, target, options)?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    if let Some(fallback) = compiled.fallbacks.first() {
        return Err(Error::Unavailable(format!("a kernel is not compiled: {}", fallback.reason)));
    }
    let x: Vec<f32> = (0..SHAPE.iter().product()).map(|i| i as f32 - 50.0).collect();
    let results = compiled.program.run(&[&tensor(&x)], 1)?;
    let expected: Vec<f32> = x.chunks(SHAPE[1]).flat_map(row).collect();
    if results != [tensor(&expected)] {
        return Err(Error::Internal("a kernel computed another result than it should".to_owned()));
    }
    let warning = compiled.warning.map_or_else(String::new, |warning| format!("; {warning}"));
    Ok(format!("a kernel was compiled in {ms:.0} ms, ran, and its result is right{warning}"))
}

/// `max(x, 0) + Σ x` of each row, in whole numbers, so that there is one right result.
fn graph() -> Result<Graph, TypeError> {
    let b = Builder::new("doctor");
    let x = b.input("x", TensorType::new(DType::F32, [b.symbol("s", 0, None), (SHAPE[1] as i64).into()]));
    let positive = b.map(ScalarFn::Max, &[x, b.float(DType::F32, 0.0)?])?;
    b.output(b.add(positive, b.reduce_last(ReduceOp::Add, x)?)?);
    Ok(b.finish())
}

fn row(x: &[f32]) -> Vec<f32> {
    let sum: f32 = x.iter().sum();
    x.iter().map(|x| x.max(0.0) + sum).collect()
}

fn tensor(values: &[f32]) -> HostTensor {
    HostTensor {
        dtype: DType::F32,
        shape: SHAPE.to_vec(),
        bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_this_processor_are_tried() {
        for finding in of_processor() {
            assert_eq!(finding.problem, None, "{finding:?}");
        }
        let cranelift = &of_processor()[0];
        assert!(cranelift.used.contains("is right"), "{cranelift:?}");
    }

    #[test]
    fn what_does_not_compile_is_an_error() {
        let nowhere: Target = "cuda:sm_12".parse().expect("a target");
        assert!(tried(&nowhere, &apart()).is_err(), "there is no such architecture");
    }
}
