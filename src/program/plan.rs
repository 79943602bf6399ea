//! Memory plans: for one binding of the symbols, the shape of every value and the buffer it lives in.
//!
//! A plan is made once per binding and reused, so that a call of known shape computes no sizes. Buffers are reused by
//! liveness: a value's buffer is free again after the step of its last use. Views share the memory of what they view.

use std::collections::BTreeMap;

use fusewright_abi::DType;
use fusewright_graph::{Dim, Graph, InputKind, TensorType, Value, interp};

use super::layout::{Layouts, View};
use super::step::{Step, Work};
use super::strided::Strided;
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
    /// What the plan computed itself.
    Constant(usize),
}

/// A value under a plan.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// Of its elements in row-major order.
    pub bytes: usize,
    pub place: Place,
    /// Where in the memory of the place the elements lie.
    pub strided: Strided,
}

impl Slot {
    /// The same elements, each once: stretched axes have extent one.
    pub fn unstretched(&self) -> Slot {
        let strided = self.strided.unstretched();
        let bytes = self.dtype.bytes_for(strided.elements());
        Slot { shape: strided.shape.clone(), bytes, strided, ..*self }
    }
}

/// The plan of one binding.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub binding: Binding,
    /// By value; `None` for values inside kernels.
    pub slots: Vec<Option<Slot>>,
    /// What a copy reads, by the value that it makes.
    pub copies: BTreeMap<Value, Slot>,
    /// The buffers of the workspace.
    pub buffers: Vec<Buffer>,
    /// Values that depend on the symbols alone.
    pub constants: Vec<Vec<u8>>,
}

/// A buffer that values share, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Buffer {
    /// Its size.
    pub bytes: usize,
    /// Dtype and shape of its largest value.
    pub largest: (DType, Vec<usize>),
}

impl Slot {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Plan {
    /// Plans the steps of a graph.
    ///
    /// # Errors
    /// Extents that have no value, are negative, or whose product overflows; slices that leave their operand.
    pub fn of(graph: &Graph, steps: &[Step], layouts: &Layouts, binding: Binding) -> Result<Plan, Error> {
        let slots = vec![None; graph.value_count()];
        let (copies, buffers, constants) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut plan = Plan { binding, slots, copies, buffers, constants };
        let mut users = 0;
        for (i, input) in graph.inputs().iter().enumerate() {
            let place = match input.kind {
                InputKind::User => {
                    users += 1;
                    Place::User(users - 1)
                }
                InputKind::Weight(_) => Place::Weight(i),
            };
            plan.slots[input.value.0 as usize] = Some(plan.own(graph, layouts, input.value, place)?);
        }
        let last_use = last_uses(graph, steps, layouts);
        let mut free: Vec<usize> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            for &output in &step.outputs {
                // Computed again by a region that has its own copy of a constant or a view: the same bytes.
                if plan.slots[output.0 as usize].is_some() {
                    continue;
                }
                let slot = match &step.work {
                    Work::View => plan.view(graph.ty(output), layouts.get(output)?)?,
                    Work::Constant(body) => plan.constant(graph, layouts, output, body)?,
                    _ => {
                        let slot = plan.own(graph, layouts, output, Place::Buffer(usize::MAX))?;
                        let buffer = plan.take_buffer(&mut free, &slot);
                        Slot { place: Place::Buffer(buffer), ..slot }
                    }
                };
                plan.slots[output.0 as usize] = Some(slot);
                if let Some(view) = layouts.copies.get(&output) {
                    let source = plan.view(graph.ty(output), view)?;
                    plan.copies.insert(output, source);
                }
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

    /// The slot of a value that has memory of its own.
    fn own(&self, graph: &Graph, layouts: &Layouts, value: Value, place: Place) -> Result<Slot, Error> {
        let (ty, view) = (graph.ty(value), layouts.get(value)?);
        self.slot(ty, view, place)
    }

    /// The slot of a part of another value's memory.
    fn view(&self, ty: &TensorType, view: &View) -> Result<Slot, Error> {
        let base = self.get(view.base)?;
        let slot = self.slot(ty, view, base.place)?;
        // A base is written in some order of its axes, without gaps.
        let end = slot.strided.end().filter(|&end| end <= base.strided.elements());
        end.ok_or_else(|| Error::Call(format!("a view of type {ty} leaves the tensor that it is a part of")))?;
        Ok(slot)
    }

    fn slot(&self, ty: &TensorType, view: &View, place: Place) -> Result<Slot, Error> {
        let too_large = || Error::Call(format!("a tensor of type {ty} does not fit the address space"));
        let mut shape = Vec::with_capacity(view.shape.len());
        let mut elements = 1usize;
        for extent in &view.shape {
            let extent = self.value("extent", extent)?;
            elements = elements.checked_mul(extent).filter(|e| *e <= isize::MAX as usize / 8).ok_or_else(too_large)?;
            shape.push(extent);
        }
        let mut strided = Strided::contiguous(&shape);
        if elements > 0 {
            strided.offset = self.value("offset", &view.layout.offset)?;
            let strides = view.layout.strides.iter().map(|stride| self.value("stride", stride));
            strided.strides = strides.collect::<Result<_, _>>()?;
        }
        Ok(Slot { dtype: ty.dtype, bytes: ty.dtype.bytes_for(elements), shape, place, strided })
    }

    fn value(&self, what: &str, dim: &Dim) -> Result<usize, Error> {
        let value = dim.eval(&|s| self.binding.get(s).copied()).map_err(|e| Error::Call(e.to_string()))?;
        usize::try_from(value).map_err(|_| Error::Call(format!("{what} {dim} is {value}")))
    }

    /// The slot of a value that depends on the symbols alone, computed here.
    fn constant(&mut self, graph: &Graph, layouts: &Layouts, value: Value, body: &Graph) -> Result<Slot, Error> {
        let results = interp::run(body, &[], &self.binding).map_err(|e| Error::Call(e.to_string()))?;
        let slot = self.own(graph, layouts, value, Place::Constant(self.constants.len()))?;
        self.constants.extend(results.first().map(|tensor| tensor.to_bytes()));
        Ok(slot)
    }

    /// The smallest free buffer that is large enough, else the largest free one grown, else a new one.
    fn take_buffer(&mut self, free: &mut Vec<usize>, slot: &Slot) -> usize {
        let bytes = |buffer: usize| self.buffers[buffer].bytes;
        let fits = free.iter().enumerate().filter(|(_, b)| bytes(**b) >= slot.bytes);
        let best = fits.min_by_key(|(_, b)| bytes(**b)).map(|(i, _)| i);
        let grown = || free.iter().enumerate().max_by_key(|(_, b)| bytes(**b)).map(|(i, _)| i);
        let needed = Buffer { bytes: slot.bytes, largest: (slot.dtype, slot.shape.clone()) };
        match best.or_else(grown) {
            Some(i) => {
                let buffer = free.swap_remove(i);
                if self.buffers[buffer].bytes < needed.bytes {
                    self.buffers[buffer] = needed;
                }
                buffer
            }
            None => {
                self.buffers.push(needed);
                self.buffers.len() - 1
            }
        }
    }
}

/// The step of each value's last use, seen through aliases; `None` for values that the graph returns.
fn last_uses(graph: &Graph, steps: &[Step], layouts: &Layouts) -> Vec<Option<usize>> {
    let mut last: Vec<Option<usize>> = vec![Some(0); graph.value_count()];
    for (at, step) in steps.iter().enumerate() {
        for value in step.inputs.iter().chain(&step.outputs) {
            last[value.0 as usize] = Some(at);
        }
    }
    for output in graph.outputs() {
        last[output.value.0 as usize] = None;
    }
    // Views are one buffer, which lives as long as the last of them, whatever they are a view of.
    let mut origin: Vec<usize> = (0..last.len()).collect();
    layouts.views.iter().for_each(|(value, view)| origin[value.0 as usize] = view.base.0 as usize);
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
