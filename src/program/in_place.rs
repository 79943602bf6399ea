//! Which values share the memory of what they overwrite, and why others do not.
//!
//! A kernel says which of its outputs may lie in the memory of which input. A plan lets them where nothing reads the old
//! value any more: the buffer of an intermediate value, or an input that the caller gives to be overwritten. Where the
//! old value is still wanted, its elements are copied first, and the plan says why.

use std::collections::BTreeSet;

use fusewright_abi::{KernelArtifact, ParamAccess};
use fusewright_graph::{Graph, Value};

use super::layout::Layouts;
use super::step::{Step, Work};
use super::words;

/// An output of a kernel that may lie in the memory of one of its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Alias {
    /// Index of the input.
    pub input: usize,
    /// Index of the output.
    pub output: usize,
    /// Whether the output holds the input's elements before: the kernel overwrites them in part.
    pub begins: bool,
}

/// The outputs of a kernel that may lie in the memory of inputs.
#[derive(Clone, Debug)]
pub(crate) struct InPlace(Vec<Alias>);

impl InPlace {
    /// Of an artifact whose parameters are inputs, then outputs.
    pub fn of(artifact: &KernelArtifact, inputs: usize) -> Self {
        let outputs = artifact.params.iter().skip(inputs).enumerate();
        let alias = outputs.filter_map(|(output, param)| {
            Some(Alias { input: param.alias?, output, begins: param.access == ParamAccess::InOut })
        });
        InPlace(alias.collect())
    }

    /// In the order of the outputs.
    pub fn aliases(&self) -> impl Iterator<Item = Alias> + '_ {
        self.0.iter().copied()
    }

    /// Of one output.
    pub fn of_output(&self, output: usize) -> Option<Alias> {
        self.aliases().find(|alias| alias.output == output)
    }
}

/// The end of each value's life, seen through views: they are one memory, which lives as long as the last of them.
pub(super) struct Lives<'a> {
    graph: &'a Graph,
    steps: &'a [Step],
    /// By value, the value whose memory it lies in.
    base: Vec<Value>,
    /// By value, one past the step of the last use of its memory; `None` if the graph returns it.
    ends: Vec<Option<usize>>,
}

impl<'a> Lives<'a> {
    pub fn of(graph: &'a Graph, steps: &'a [Step], layouts: &Layouts) -> Self {
        let mut last: Vec<Option<usize>> = vec![Some(0); graph.value_count()];
        for (at, step) in steps.iter().enumerate() {
            for value in step.inputs.iter().chain(&step.outputs) {
                last[value.0 as usize] = Some(at + 1);
            }
        }
        for output in graph.outputs() {
            last[output.value.0 as usize] = None;
        }
        let mut base: Vec<Value> = (0..last.len() as u32).map(Value).collect();
        layouts.views.iter().for_each(|(value, view)| base[value.0 as usize] = view.base);
        let mut ends = last.clone();
        for (value, base) in base.iter().enumerate() {
            let end = &mut ends[base.0 as usize];
            *end = end.zip(last[value]).map(|(a, b)| a.max(b));
        }
        let ends = base.iter().map(|base| ends[base.0 as usize]).collect();
        Lives { graph, steps, base, ends }
    }

    /// The value whose memory a value lies in.
    pub fn base(&self, value: Value) -> Value {
        self.base[value.0 as usize]
    }

    /// Whether a value's memory is not used after a step.
    pub fn ends_by(&self, value: Value, step: usize) -> bool {
        self.ends[value.0 as usize].is_some_and(|end| end <= step + 1)
    }

    /// Whether a value's memory is last used before a step.
    pub fn ends_before(&self, value: Value, step: usize) -> bool {
        self.ends[value.0 as usize].is_some_and(|end| end <= step)
    }

    /// Why a value may not be overwritten by a step that reads it at `operand`.
    pub fn still_wanted(&self, value: Value, at: usize, operand: usize) -> Result<(), String> {
        let (name, step, base) = (self.name(value), &self.steps[at], self.base(value));
        if self.ends[value.0 as usize].is_none() {
            return Err(format!("{name} is returned as it was"));
        }
        let reads = |step: &Step| step.inputs.iter().any(|&v| self.base(v) == base);
        if let Some(reader) = self.steps[at + 1..].iter().filter(|s| !matches!(s.work, Work::View)).find(|s| reads(s)) {
            return Err(format!("`{}` reads {name} afterwards", reader.label));
        }
        if !self.ends_by(value, at) {
            return Err(format!("{name} is read afterwards"));
        }
        let mut others = step.inputs.iter().enumerate().filter(|(i, _)| *i != operand);
        if others.any(|(_, &v)| self.base(v) == base) {
            return Err(format!("`{}` reads {name} in another form too", step.label));
        }
        Ok(())
    }

    /// What to call a value.
    pub fn name(&self, value: Value) -> String {
        words::name(self.graph, value)
    }
}

/// An output of a kernel that could lie where what it is the new value of does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Overwrite {
    /// The step, and the position of the output among its outputs.
    pub step: usize,
    pub output: usize,
    /// What it overwrites, or would.
    pub old: String,
    /// Why it does not.
    pub reason: Option<String>,
}

/// Where the new values of inputs go in a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// One for each output that updates an input, in the order of the outputs.
    pub updates: Vec<Update>,
    /// Elements that are copied because memory could not be shared: old ones before a kernel overwrites some of them,
    /// new ones into the caller's tensors.
    pub copies: Vec<UpdateCopy>,
}

/// An output that updates an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// Position of the output.
    pub output: usize,
    /// Name of the input.
    pub input: String,
    /// Whether it is written where the input lies.
    pub in_place: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// Elements that are copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateCopy {
    /// The kernel that overwrites a part of them, or the output that they are and the kernel that makes it.
    pub of: String,
    /// How many bytes.
    pub bytes: usize,
    /// Why.
    pub reason: String,
}

impl Placement {
    /// Bytes that a call copies.
    pub fn copied(&self) -> usize {
        self.copies.iter().map(|copy| copy.bytes).sum()
    }
}

/// The buffers among `freed` that no value keeps that a step has put there.
pub(super) fn unless_kept(mut freed: Vec<usize>, kept: &BTreeSet<usize>) -> Vec<usize> {
    freed.sort_unstable();
    freed.dedup();
    freed.retain(|buffer| !kept.contains(buffer));
    freed
}
