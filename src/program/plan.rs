//! Memory plans: for one binding of the symbols, the shape of every value and the buffer it lives in.
//!
//! A plan is made once per binding and reused, so that a call of known shape computes no sizes. Buffers are reused by
//! liveness: a value's buffer is free again after the step of its last use. Reshapes share their operand's buffer.

use std::collections::BTreeMap;

use fusewright_abi::DType;
use fusewright_graph::{Graph, InputKind, Value};

use super::step::{Step, Work};
use crate::Error;

/// Values of the symbols, by name.
pub(crate) type Binding = BTreeMap<String, i64>;

/// Where a value's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The caller's tensor of that number.
    User(usize),
    /// The weight of that graph input.
    Weight(usize),
    /// A buffer of the workspace.
    Buffer(usize),
}

/// A value under a plan.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub bytes: usize,
    pub place: Place,
}

/// The plan of one binding.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub binding: Binding,
    /// By value; `None` for values inside kernels.
    pub slots: Vec<Option<Slot>>,
    /// Size of each buffer, in bytes.
    pub buffers: Vec<usize>,
}

impl Plan {
    /// Plans the steps of a graph.
    ///
    /// # Errors
    /// Extents that have no value, are negative, or whose product overflows.
    pub fn of(graph: &Graph, steps: &[Step], binding: Binding) -> Result<Plan, Error> {
        let mut plan = Plan { binding, slots: vec![None; graph.value_count()], buffers: Vec::new() };
        let mut users = 0;
        for (i, input) in graph.inputs().iter().enumerate() {
            let place = match input.kind {
                InputKind::User => {
                    users += 1;
                    Place::User(users - 1)
                }
                InputKind::Weight(_) => Place::Weight(i),
            };
            plan.slots[input.value.0 as usize] = Some(plan.slot(graph, input.value, place)?);
        }
        let last_use = last_uses(graph, steps);
        let mut free: Vec<usize> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            for &output in &step.outputs {
                // Computed again by a region that has its own copy of a constant or a view: the same bytes.
                if plan.slots[output.0 as usize].is_some() {
                    continue;
                }
                let slot = if matches!(step.work, Work::Alias) {
                    let place = plan.place(step.inputs[0])?;
                    plan.slot(graph, output, place)?
                } else {
                    let slot = plan.slot(graph, output, Place::Buffer(usize::MAX))?;
                    let buffer = plan.take_buffer(&mut free, slot.bytes);
                    Slot { place: Place::Buffer(buffer), ..slot }
                };
                plan.slots[output.0 as usize] = Some(slot);
            }
            let released = |v: &&Value| last_use[v.0 as usize] == Some(at);
            let mut ended: Vec<usize> = step
                .inputs
                .iter()
                .chain(&step.outputs)
                .filter(released)
                .filter_map(|v| match plan.place(*v) {
                    Ok(Place::Buffer(buffer)) => Some(buffer),
                    _ => None,
                })
                .collect();
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended);
        }
        Ok(plan)
    }

    /// The slot of a value that lives outside kernels.
    pub fn get(&self, value: Value) -> Result<&Slot, Error> {
        let slot = self.slots.get(value.0 as usize).and_then(Option::as_ref);
        slot.ok_or_else(|| Error::Internal(format!("value {value:?} was not planned")))
    }

    fn place(&self, value: Value) -> Result<Place, Error> {
        self.get(value).map(|slot| slot.place)
    }

    fn slot(&self, graph: &Graph, value: Value, place: Place) -> Result<Slot, Error> {
        let ty = graph.ty(value);
        let too_large = || Error::Call(format!("a tensor of type {ty} does not fit the address space"));
        let mut shape = Vec::with_capacity(ty.rank());
        let mut elements = 1usize;
        for extent in &ty.shape {
            let value = extent.eval(&|s| self.binding.get(s).copied()).map_err(|e| Error::Call(e.to_string()))?;
            let value = usize::try_from(value).map_err(|_| Error::Call(format!("extent {extent} is {value}")))?;
            elements = elements.checked_mul(value).filter(|e| *e <= isize::MAX as usize / 8).ok_or_else(too_large)?;
            shape.push(value);
        }
        Ok(Slot { dtype: ty.dtype, shape, bytes: ty.dtype.bytes_for(elements), place })
    }

    /// The smallest free buffer that is large enough, else the largest free one grown, else a new one.
    fn take_buffer(&mut self, free: &mut Vec<usize>, bytes: usize) -> usize {
        let fits = free.iter().enumerate().filter(|(_, b)| self.buffers[**b] >= bytes);
        let best = fits.min_by_key(|(_, b)| self.buffers[**b]).map(|(i, _)| i);
        let grown = || free.iter().enumerate().max_by_key(|(_, b)| self.buffers[**b]).map(|(i, _)| i);
        match best.or_else(grown) {
            Some(i) => {
                let buffer = free.swap_remove(i);
                self.buffers[buffer] = self.buffers[buffer].max(bytes);
                buffer
            }
            None => {
                self.buffers.push(bytes);
                self.buffers.len() - 1
            }
        }
    }
}

/// The step of each value's last use, seen through aliases; `None` for values that the graph returns.
fn last_uses(graph: &Graph, steps: &[Step]) -> Vec<Option<usize>> {
    let mut last: Vec<Option<usize>> = vec![Some(0); graph.value_count()];
    for (at, step) in steps.iter().enumerate() {
        for value in step.inputs.iter().chain(&step.outputs) {
            last[value.0 as usize] = Some(at);
        }
    }
    for output in graph.outputs() {
        last[output.value.0 as usize] = None;
    }
    // Aliases are one buffer, which lives as long as the last of them, wherever it was aliased from.
    let mut origin: Vec<usize> = (0..last.len()).collect();
    for step in steps.iter().filter(|s| matches!(s.work, Work::Alias)) {
        step.outputs.iter().for_each(|v| origin[v.0 as usize] = origin[step.inputs[0].0 as usize]);
    }
    let mut ends = last.clone();
    for (value, &origin) in origin.iter().enumerate() {
        ends[origin] = ends[origin].zip(last[value]).map(|(a, b)| a.max(b));
    }
    origin.into_iter().map(|origin| ends[origin]).collect()
}

/// Binds the symbols of a graph's user inputs to the shapes of a call.
///
/// # Errors
/// A wrong number of tensors, a wrong dtype, rank or extent, naming the input.
pub(crate) fn bind(graph: &Graph, given: &[(DType, &[usize])]) -> Result<Binding, Error> {
    let users: Vec<_> = graph.inputs().iter().filter(|i| matches!(i.kind, InputKind::User)).collect();
    if users.len() != given.len() {
        return Err(Error::Call(format!("`{}` takes {} inputs, got {}", graph.name(), users.len(), given.len())));
    }
    let mut binding = Binding::new();
    for (input, (dtype, shape)) in users.iter().zip(given) {
        let ty = graph.ty(input.value);
        let misfit = || Error::Call(format!("input `{}` is {ty}, got {dtype}{shape:?}", input.name));
        if ty.dtype != *dtype || ty.rank() != shape.len() {
            return Err(misfit());
        }
        for (extent, &got) in ty.shape.iter().zip(*shape) {
            let got = i64::try_from(got).map_err(|_| misfit())?;
            if let Some(symbol) = extent.as_symbol() {
                binding.entry(symbol.to_owned()).or_insert(got);
            }
        }
    }
    for (input, (dtype, shape)) in users.iter().zip(given) {
        let ty = graph.ty(input.value);
        for (axis, (extent, &got)) in ty.shape.iter().zip(*shape).enumerate() {
            let expected = extent.eval(&|s| binding.get(s).copied()).map_err(|e| Error::Call(e.to_string()))?;
            if usize::try_from(expected) != Ok(got) {
                let named = if extent.as_const().is_some() { String::new() } else { format!("{extent} = ") };
                let message = format!(
                    "input `{}` is {ty}, got {dtype}{shape:?}: axis {axis} must be {named}{expected}, not {got}",
                    input.name
                );
                return Err(Error::Call(message));
            }
        }
    }
    Ok(binding)
}
