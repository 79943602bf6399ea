//! What becomes of a body: Kernel IR, a compiled kernel, and what is noted of it.

use std::sync::Arc;
use std::time::Instant;

use fusewright_abi::{KernelArtifact, ParamAccess};
use fusewright_codegen::kernel::{Kernel, ParamId};
use fusewright_codegen::lower::in_place::why_not;
use fusewright_graph::Graph;

/// How long the stages of one kernel took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compilation {
    /// Name of the kernel.
    pub name: String,
    /// Microseconds from the body to expanded Kernel IR.
    pub lower_us: u64,
    /// Microseconds from there to the payload, be it made or read.
    pub emit_us: u64,
    /// Size of the payload in bytes.
    pub bytes: usize,
    /// Whether the payload came from the cache on disk.
    pub from_disk: bool,
}

impl Compilation {
    /// What is noted of a kernel that took from `start` until now.
    pub(super) fn of(
        name: &str,
        start: Instant,
        forms: &Forms,
        artifact: &KernelArtifact,
        from_disk: bool,
    ) -> Compilation {
        let emit_us = start.elapsed().as_micros() as u64 - forms.lower_us;
        let bytes = artifact.payload.bytes.len();
        Compilation { name: name.to_owned(), lower_us: forms.lower_us, emit_us, bytes, from_disk }
    }
}

/// A kernel as lowered and as expanded for the target.
pub(super) struct Forms {
    pub lowered: Kernel,
    pub expanded: Kernel,
    pub lower_us: u64,
    /// Why the backend did not take outputs in the memory of inputs.
    pub refused: Option<String>,
}

/// A compiled body.
#[derive(Debug)]
pub(crate) struct Made {
    pub artifact: KernelArtifact,
    /// Outputs that update inputs and may not be written where those lie.
    pub apart: Vec<Apart>,
    /// The expanded kernel, where other code may be made of it.
    pub kernel: Option<Arc<Kernel>>,
    /// Whether its code is of a stage that a person changed.
    pub replaced: bool,
}

/// An output of a body that updates an input and may not be written where that lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Apart {
    /// Position of the output.
    pub output: usize,
    /// Position of the input.
    pub input: usize,
    /// Why not.
    pub reason: String,
}

impl Forms {
    /// Whether an output may lie in the memory of an input that its rows read whole.
    pub fn shares_memory(&self) -> bool {
        self.expanded.params.iter().any(|p| p.access == ParamAccess::Out && p.alias.is_some())
    }

    /// Which outputs of the body that update inputs may not be written where those lie.
    pub fn apart(&self, body: &Graph) -> Vec<Apart> {
        let inputs = body.inputs().len();
        let mut apart = Vec::new();
        for (i, output) in body.outputs().iter().enumerate() {
            let param = ParamId((inputs + i) as u32);
            let updated = output.updates.as_ref().and_then(|name| body.inputs().iter().position(|x| x.name == *name));
            let Some(input) = updated.filter(|_| self.lowered.param(param).alias.is_none()) else { continue };
            let why = why_not(&self.lowered, ParamId(input as u32), param).or_else(|| self.refused.clone());
            apart.extend(why.map(|reason| Apart { output: i, input, reason }));
        }
        apart
    }
}
