//! What a target makes of each region: its kernel, or what is computed instead, and what that overwrites.
//!
//! Programs are built by the same code, so what is said here is what runs.

use std::collections::BTreeMap;

use fusewright_graph::{NodeId, Value};

use crate::check::output_names;
use crate::program::{self, CompiledKernel, Step, Work, made_by, outline};
use crate::{Compilation, Compiler, Error, Fallback, Fused, Placement, StepCounts, Target};

use super::Explanation;

/// What a target makes of a fused graph.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// One for each of [`Explanation::regions`].
    pub reports: Vec<KernelReport>,
    /// How many steps of each kind a program for the target has.
    pub steps: StepCounts,
    /// Where the new values of inputs go if all inputs that the graph updates are given to be overwritten, at the sizes
    /// at which bytes are counted; or why these sizes do not fit the graph.
    pub placement: Result<Placement, String>,
    /// The ops in no region that the reference interpreter computes, or for a device the host, and why; those of regions are
    /// in [`KernelReport::instead`].
    pub by_reference: Vec<Fallback>,
    /// The ops that nothing here computes, and why: a program with one is refused.
    pub not_run: Vec<Fallback>,
    /// What computes each op that is a step in no region: `copy`, `matrix product`, `attention`, `reference` or `nothing here`.
    pub(crate) apart: BTreeMap<NodeId, &'static str>,
    /// The kernels that were compiled, in order.
    pub compilations: Vec<Compilation>,
}

/// A region's kernel for one target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelReport {
    /// Name of the region.
    pub region: String,
    /// Its kernel, or why the target has none for it.
    pub kernel: Result<KernelFigures, String>,
    /// What computes its ops where it has no kernel, in order; views and constants are left out.
    pub instead: Vec<Instead>,
    /// Its outputs that are written over old values, or could have been.
    pub overwrites: Vec<OverwriteReport>,
}

/// A generated kernel in figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelFigures {
    /// Key of the kernel: everything that changes its code.
    pub key: String,
    /// Size of its code in bytes.
    pub bytes: usize,
}

/// An op of a region without a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instead {
    /// The op and where it came from.
    pub op: String,
    /// What computes it: `kernel`, `copy`, `matrix product`, `attention` or `reference`.
    pub by: &'static str,
    /// Its own kernel, if it has one.
    pub kernel: Option<KernelFigures>,
    /// Why it has none, where it was to have one.
    pub reason: Option<String>,
}

/// An output that is the new value of something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OverwriteReport {
    /// Name of the output: that of the graph's output, or of the value between kernels.
    pub output: String,
    /// What it overwrites, or would.
    pub old: String,
    /// Why it is written elsewhere; none if it is written in place.
    pub reason: Option<String>,
}

/// Compiles every region and every lone op for a target, which need not be here, and says what runs instead of the
/// kernels that it refuses, and what kernels overwrite at the sizes of the report.
///
/// # Errors
/// A target that is not available, and internal errors.
pub fn kernels(fused: &Fused, report: &Explanation, target: &Target) -> Result<Kernels, Error> {
    let compiler = Compiler::new(target)?;
    let built = outline(&fused.graph, &fused.partition, &compiler)?;
    let steps = built.program.steps();
    let mut reports: Vec<KernelReport> = Vec::with_capacity(report.regions.len());
    for (at, region) in fused.partition.kernels().enumerate() {
        let own = || steps.iter().filter(|step| step.kernel == Some(at));
        let (kernel, instead) = match built.refused.get(&at) {
            Some(reason) => {
                let instead = own().filter_map(|step| instead(step, &built.fallbacks)).collect();
                (Err(reason.clone()), instead)
            }
            None => (own().find_map(figures).ok_or_else(|| "nothing reads its results".to_owned()), Vec::new()),
        };
        reports.push(KernelReport { region: region.name.clone(), kernel, instead, overwrites: Vec::new() });
    }
    let placement = match built.program.overwrites(&report.bytes_at) {
        Ok((placement, overwrites)) => {
            let names = Names::of(fused);
            for overwrite in overwrites {
                let step = &steps[overwrite.step];
                let Some(of) = step.kernel.and_then(|kernel| reports.get_mut(kernel)) else { continue };
                let output = names.of_value(fused, step.outputs[overwrite.output]);
                of.overwrites.push(OverwriteReport { output, old: overwrite.old, reason: overwrite.reason });
            }
            Ok(placement)
        }
        Err(Error::Internal(message)) => return Err(Error::Internal(message)),
        Err(error) => Err(error.to_string()),
    };
    let outside = || steps.iter().filter(|step| step.kernel.is_none());
    let listed = |step: &&Step| {
        let on_host = built.fallbacks.iter().any(|fallback| fallback.label == step.label);
        matches!(step.work, Work::Reference(_)) || (on_host && by(step).is_some_and(|by| by != "kernel"))
    };
    let not_run = outside().filter_map(|step| {
        let label = step.label.clone();
        step.not_run().map(|reason| Fallback { label, reason: reason.to_owned() })
    });
    let not_run = not_run.collect();
    let by_reference = outside().filter(listed).filter(|step| step.not_run().is_none()).map(|step| {
        let reason = reason(step, &built.fallbacks).unwrap_or_default();
        Fallback { label: step.label.clone(), reason }
    });
    let by_reference = by_reference.collect();
    let apart = outside().filter_map(|step| Some((made_by(&fused.graph, step)?, by(step)?))).collect();
    let (steps, compilations) = (built.program.counts(), compiler.log());
    Ok(Kernels { reports, steps, placement, by_reference, not_run, apart, compilations })
}

/// The names of the graph's outputs, by value.
struct Names(BTreeMap<Value, String>);

impl Names {
    fn of(fused: &Fused) -> Self {
        let values = fused.graph.outputs().iter().map(|output| output.value);
        Names(values.zip(output_names(&fused.graph)).collect())
    }

    fn of_value(&self, fused: &Fused, value: Value) -> String {
        let named = self.0.get(&value).map(|name| format!("output `{name}`"));
        named.unwrap_or_else(|| program::value_name(&fused.graph, value))
    }
}

fn figures(step: &Step) -> Option<KernelFigures> {
    let Work::Kernel(kernel) = &step.work else { return None };
    let CompiledKernel { key, bytes, .. } = &**kernel;
    Some(KernelFigures { key: key.to_string(), bytes: *bytes })
}

/// What computes a step that does more than a view or a constant.
fn by(step: &Step) -> Option<&'static str> {
    Some(match step.work {
        Work::View | Work::Constant(_) => return None,
        Work::Kernel(_) => "kernel",
        Work::Copy(_) => "copy",
        Work::MatMul { .. } | Work::GroupedMatMul => "matrix product",
        Work::Attention(_) => "attention",
        Work::Reference(_) if step.not_run().is_some() => "nothing here",
        Work::Reference(_) => "reference",
    })
}

/// Why a step has no kernel, where it was to have one, or no library.
fn reason(step: &Step, fallbacks: &[Fallback]) -> Option<String> {
    fallbacks.iter().find(|fallback| fallback.label == step.label).map(|f| f.reason.clone())
}

/// A step of a region without a kernel.
fn instead(step: &Step, fallbacks: &[Fallback]) -> Option<Instead> {
    let by = by(step)?;
    Some(Instead { op: step.label.clone(), by, kernel: figures(step), reason: reason(step, fallbacks) })
}
