//! A whole graph, ready to run on the CPU.
//!
//! A program is a list of steps over values: launches of generated kernels, matrix products and attention by a library,
//! views that cost nothing, and reference ops for the rest. What a call of a new shape needs is planned once per binding of
//! the symbols and kept.

mod build;
mod layout;
mod plan;
mod step;
mod strided;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use fusewright_abi::DType;
use fusewright_graph::Graph;
use fusewright_graph::tensor::check_memory;

use crate::host::zeroed;
use crate::{Error, HostTensor};

pub use build::{Fallback, OpCounts};
pub(crate) use build::{build, single};
use layout::Layouts;
pub(crate) use plan::bind;
use plan::{Binding, Buffer, Plan};
pub(crate) use step::{InPlace, LaunchDims};
use step::{Memory, Step, Work};

/// How many steps of each kind a program has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StepCounts {
    /// Launches of generated kernels.
    pub kernels: usize,
    /// Matrix products.
    pub matmuls: usize,
    /// Attention.
    pub attentions: usize,
    /// Ops evaluated by the reference interpreter.
    pub references: usize,
    /// Layout ops whose elements are copied, because no strides give what their reader takes.
    pub copies: usize,
}

/// A compiled graph.
#[derive(Debug)]
pub struct Program {
    graph: Graph,
    steps: Vec<Step>,
    layouts: Layouts,
    weights: Vec<Option<Bytes>>,
    planned: Mutex<BTreeMap<Binding, Arc<Planned>>>,
}

#[derive(Debug)]
struct Planned {
    plan: Plan,
    /// Workspaces not in use; each concurrent call takes its own.
    workspaces: Mutex<Vec<Vec<Vec<u8>>>>,
}

/// Workspaces kept per shape; more concurrent calls than that allocate.
const KEPT_WORKSPACES: usize = 4;

impl Program {
    /// The graph that the program computes, after all passes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How many steps of each kind there are.
    pub fn counts(&self) -> StepCounts {
        let mut counts = StepCounts::default();
        for step in &self.steps {
            match step.work {
                Work::Kernel(_) => counts.kernels += 1,
                Work::MatMul { .. } => counts.matmuls += 1,
                Work::Attention(_) => counts.attentions += 1,
                Work::Reference(_) => counts.references += 1,
                Work::Copy => counts.copies += 1,
                Work::View | Work::Constant(_) => {}
            }
        }
        counts
    }

    /// Runs the program on `threads` threads. Results do not depend on the number of threads or of rows.
    ///
    /// # Errors
    /// Inputs that do not fit the graph, named; weights without data; a step that fails.
    pub fn run(&self, inputs: &[&HostTensor], threads: usize) -> Result<Vec<HostTensor>, Error> {
        self.run_then(inputs, threads, |planned, memory| self.outputs(planned, memory))
    }

    /// Runs the program and leaves the results in its workspace, for measurements.
    pub fn run_discarding(&self, inputs: &[&HostTensor], threads: usize) -> Result<(), Error> {
        self.run_then(inputs, threads, |_, _| Ok(()))
    }

    fn run_then<R>(
        &self,
        inputs: &[&HostTensor],
        threads: usize,
        finish: impl FnOnce(&Planned, &Memory<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let planned = self.planned(inputs)?;
        let mut buffers = planned.workspace()?;
        let mut memory = Memory {
            users: inputs,
            weights: &self.weights,
            inputs: self.graph.inputs(),
            buffers: &mut buffers,
            constants: &planned.plan.constants,
            threads: threads.max(1),
        };
        for step in &self.steps {
            step.run(&planned.plan, &mut memory)?;
        }
        let result = finish(&planned, &memory)?;
        planned.give_back(buffers);
        Ok(result)
    }

    fn outputs(&self, planned: &Planned, memory: &Memory<'_>) -> Result<Vec<HostTensor>, Error> {
        let mut outputs = Vec::with_capacity(self.graph.outputs().len());
        for output in self.graph.outputs() {
            let slot = planned.plan.get(output.value)?;
            check_memory::<u8>(slot.dtype.bytes_for(slot.elements()), slot.dtype, &slot.shape)?;
            let bytes = memory.elements(slot)?.into_owned();
            outputs.push(HostTensor { dtype: slot.dtype, shape: slot.shape.clone(), bytes });
        }
        Ok(outputs)
    }

    fn planned(&self, inputs: &[&HostTensor]) -> Result<Arc<Planned>, Error> {
        let given: Vec<(DType, &[usize])> = inputs.iter().map(|t| (t.dtype, t.shape.as_slice())).collect();
        for tensor in inputs {
            let expected = tensor.dtype.bytes_for(tensor.elements());
            if tensor.bytes.len() != expected {
                let (dtype, shape, got) = (tensor.dtype, &tensor.shape, tensor.bytes.len());
                return Err(Error::Call(format!("a tensor {dtype}{shape:?} takes {expected} bytes, has {got}")));
            }
        }
        let binding = bind(&self.graph, &given)?;
        let mut known = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planned) = known.get(&binding) {
            return Ok(Arc::clone(planned));
        }
        let plan = Plan::of(&self.graph, &self.steps, &self.layouts, binding.clone())?;
        let planned = Arc::new(Planned { plan, workspaces: Mutex::new(Vec::new()) });
        known.insert(binding, Arc::clone(&planned));
        Ok(planned)
    }
}

impl Planned {
    fn workspace(&self) -> Result<Vec<Vec<u8>>, Error> {
        let kept = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let made = |buffer: &Buffer| {
            let (dtype, shape) = &buffer.largest;
            check_memory::<u8>(buffer.bytes, *dtype, shape)?;
            zeroed(buffer.bytes)
        };
        kept.map_or_else(|| self.plan.buffers.iter().map(made).collect(), Ok)
    }

    fn give_back(&self, buffers: Vec<Vec<u8>>) {
        let mut kept = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_WORKSPACES {
            kept.push(buffers);
        }
    }
}
