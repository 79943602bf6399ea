//! Memory plans: for one binding of the symbols, the shape of every value and the buffer it lives in.
//!
//! A plan is made once per binding and reused, so that a call of known shape computes no sizes. Buffers are reused by
//! liveness: a value's buffer is free again after the step of its last use. Views share the memory of what they view, and
//! what a kernel overwrites shares that of the old value where `in_place` lets it.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_abi::DType;
use fusewright_graph::graph::Symbol;
use fusewright_graph::{Dim, Graph, TensorType, Value, interp};

use super::in_place::{Lives, Overwrite, Placement, Update, UpdateCopy, unless_kept};
use super::layout::{Layouts, View};
use super::state;
use super::step::{Step, Work};
use super::strided::Strided;
use super::words;
use crate::Error;

/// Values of the symbols, by name.
pub(crate) type Binding = BTreeMap<String, i64>;

/// Where a value's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The caller's tensor of that number: an input, or behind those a buffer of its state.
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
    /// Where each output of the graph goes.
    pub landings: Vec<Landing>,
    /// The same for those that update inputs, in words.
    pub placement: Placement,
    /// What kernels overwrite, or could and do not, in the order of the steps.
    pub overwrites: Vec<Overwrite>,
}

/// Where an output goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Landing {
    /// To the caller, as a tensor of its own.
    Returned,
    /// It lies in the caller's tensor of that number.
    There(usize),
    /// It is copied to the caller's tensor of that number.
    Copied(usize),
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
    /// Plans the steps of a graph. The inputs in `donated`, numbers of the caller's tensors, may be overwritten.
    ///
    /// # Errors
    /// Extents that have no value, are negative, or whose product overflows; slices that leave their operand.
    pub fn of(
        graph: &Graph,
        steps: &[Step],
        layouts: &Layouts,
        binding: Binding,
        donated: &BTreeSet<usize>,
    ) -> Result<Plan, Error> {
        let plan = Plan {
            binding,
            slots: vec![None; graph.value_count()],
            copies: BTreeMap::new(),
            buffers: Vec::new(),
            constants: Vec::new(),
            landings: Vec::new(),
            placement: Placement::default(),
            overwrites: Vec::new(),
        };
        let lives = Lives::of(graph, steps, layouts);
        let mut planner = Planner {
            plan,
            graph,
            steps,
            layouts,
            lives,
            users: BTreeMap::new(),
            donated: BTreeMap::new(),
            free: Vec::new(),
            overwritten: BTreeSet::new(),
            refused: BTreeMap::new(),
        };
        planner.inputs(donated)?;
        for at in 0..steps.len() {
            planner.step(at)?;
        }
        planner.landings()?;
        Ok(planner.plan)
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

    pub(super) fn slot(&self, ty: &TensorType, view: &View, place: Place) -> Result<Slot, Error> {
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

/// What lies in the caller's tensor that a value is the new value of, and that tensor, or why the value may not be
/// written there.
type NewValue = (Value, Result<usize, String>);

/// A plan in the making.
struct Planner<'a> {
    plan: Plan,
    graph: &'a Graph,
    steps: &'a [Step],
    layouts: &'a Layouts,
    lives: Lives<'a>,
    /// The numbers of the caller's tensors, by name.
    users: BTreeMap<&'a str, usize>,
    /// What lies in each of the caller's tensors that may be overwritten.
    donated: BTreeMap<usize, Value>,
    /// Buffers that hold nothing.
    free: Vec<usize>,
    /// Values whose memory another value has taken.
    overwritten: BTreeSet<Value>,
    /// Why a value does not lie where it could have.
    refused: BTreeMap<Value, String>,
}

impl<'a> Planner<'a> {
    fn inputs(&mut self, donated: &BTreeSet<usize>) -> Result<(), Error> {
        let users = self.graph.inputs().iter().enumerate().filter(|(_, input)| input.kind.is_given());
        // Behind the caller's inputs, the buffers of its state.
        let numbered = users.chain(state::buffers(self.graph)).enumerate();
        let numbers: BTreeMap<usize, usize> = numbered.map(|(number, (i, _))| (i, number)).collect();
        for (i, input) in self.graph.inputs().iter().enumerate() {
            let number = numbers.get(&i).copied();
            let given = number.filter(|n| input.kind.is_given() || donated.contains(n));
            let place = given.map_or(Place::Weight(i), Place::User);
            if let Some(number) = given {
                self.users.insert(&input.name, number);
                if donated.contains(&number) {
                    self.donated.insert(number, input.value);
                }
            }
            let slot = self.plan.own(self.graph, self.layouts, input.value, place)?;
            self.plan.slots[input.value.0 as usize] = Some(slot);
        }
        Ok(())
    }

    fn step(&mut self, at: usize) -> Result<(), Error> {
        let (step, layouts) = (&self.steps[at], self.layouts);
        for (i, &output) in step.outputs.iter().enumerate() {
            // Computed again by a region that has its own copy of a constant or a view: the same bytes.
            if self.plan.slots[output.0 as usize].is_some() {
                continue;
            }
            let slot = match &step.work {
                Work::View => self.plan.view(self.graph.ty(output), layouts.get(output)?)?,
                Work::Constant(body) => self.plan.constant(self.graph, layouts, output, body)?,
                _ => {
                    let slot = self.plan.own(self.graph, layouts, output, Place::Buffer(usize::MAX))?;
                    let place = self.place(at, i, &slot)?;
                    Slot { place, ..slot }
                }
            };
            self.plan.slots[output.0 as usize] = Some(slot);
            if let Some(view) = layouts.copies.get(&output) {
                let source = self.plan.view(self.graph.ty(output), view)?;
                self.plan.copies.insert(output, source);
            }
        }
        let buffer = |v: &Value| match self.plan.place(*v) {
            Ok(Place::Buffer(buffer)) => Some(buffer),
            _ => None,
        };
        let ended = step.inputs.iter().chain(&step.outputs).filter(|v| self.lives.ends_by(**v, at));
        let kept = step.outputs.iter().filter(|v| !self.lives.ends_by(**v, at)).filter_map(buffer).collect();
        let freed = unless_kept(ended.filter_map(buffer).collect(), &kept);
        self.free.extend(freed);
        Ok(())
    }

    /// Where a step's output goes: into the memory of what it overwrites, into that of the input that it is the new value
    /// of, else into a buffer.
    fn place(&mut self, at: usize, output: usize, slot: &Slot) -> Result<Place, Error> {
        let step = &self.steps[at];
        let value = step.outputs[output];
        let (alias, apart) = match &step.work {
            Work::Kernel(kernel) => {
                (kernel.in_place.of_output(output), kernel.apart.iter().find(|a| a.output == output))
            }
            _ => (None, None),
        };
        let mut old = apart.map(|apart| step.inputs[apart.input]);
        let mut reason = apart.map(|apart| words::of_user(self.graph, &apart.reason, &step.inputs, &step.outputs));
        if let Some(alias) = alias {
            let input = step.inputs[alias.input];
            old = Some(input);
            match self.shared(at, alias.input, slot)? {
                Ok(place) => {
                    self.note(at, output, input, None);
                    self.overwritten.insert(self.lives.base(input));
                    if let Place::User(user) = place {
                        self.donated.insert(user, value);
                    }
                    return Ok(place);
                }
                Err(why) if alias.begins && slot.bytes > 0 => {
                    let copy = UpdateCopy { of: words::step(step), bytes: slot.bytes, reason: why.clone() };
                    self.plan.placement.copies.push(copy);
                    reason = Some(why);
                }
                Err(why) => reason = Some(why),
            }
        }
        match self.new_value(at, value, slot)? {
            Some((there, Ok(user))) => {
                self.note(at, output, there, None);
                self.donated.insert(user, value);
                return Ok(Place::User(user));
            }
            Some((there, Err(why))) => {
                old = old.or(Some(there));
                let why = reason.get_or_insert(why);
                self.refused.insert(value, why.clone());
            }
            None => {}
        }
        if let Some((old, reason)) = old.zip(reason) {
            self.note(at, output, old, Some(reason));
        }
        Ok(Place::Buffer(self.plan.take_buffer(&mut self.free, slot)))
    }

    /// Notes that a step's output overwrites a value, or why it does not.
    fn note(&mut self, step: usize, output: usize, old: Value, reason: Option<String>) {
        let old = self.lives.name(old);
        self.plan.overwrites.push(Overwrite { step, output, old, reason });
    }

    /// The memory of a step's operand, or why its output may not lie there.
    fn shared(&self, at: usize, operand: usize, slot: &Slot) -> Result<Result<Place, String>, Error> {
        let old = self.steps[at].inputs[operand];
        let (base, name) = (self.lives.base(old), self.lives.name(old));
        let (read, whole) = (self.plan.get(old)?, self.plan.get(base)?);
        let given = match read.place {
            Place::Buffer(_) => Ok(()),
            Place::User(user) if self.donated.contains_key(&user) => Ok(()),
            Place::User(_) => Err(format!("{name} is given to be read only")),
            Place::Weight(_) => Err(format!("{name} is a weight of the model")),
            Place::Constant(_) => Err(format!("{name} is a constant")),
        };
        let fits = || {
            let alike = read.strided.offset == 0 && read.bytes == whole.bytes && slot.bytes == read.bytes;
            let in_order = read.strided.is_contiguous() && slot.strided.is_contiguous();
            if alike && in_order { Ok(()) } else { Err(format!("{name} is a part of another tensor")) }
        };
        let alone = || match self.overwritten.contains(&base) {
            true => Err(format!("another result overwrites {name}")),
            false => Ok(()),
        };
        let wanted = || self.lives.still_wanted(old, at, operand);
        Ok(given.and_then(|()| fits()).and_then(|()| alone()).and_then(|()| wanted()).map(|()| read.place))
    }

    /// Whether a value is the new value of one of the caller's tensors.
    fn new_value(&self, at: usize, value: Value, slot: &Slot) -> Result<Option<NewValue>, Error> {
        for output in self.graph.outputs() {
            let Some(&user) = output.updates.as_deref().and_then(|name| self.users.get(name)) else { continue };
            let Some(&there) = self.donated.get(&user) else { continue };
            let view = self.layouts.get(output.value)?;
            if view.base != value {
                continue;
            }
            let whole = slot.bytes == self.plan.get(there)?.bytes;
            let in_order = view.layout.offset == Dim::constant(0) && view.layout.is_contiguous(&view.shape) && whole;
            let name = self.lives.name(there);
            let found = if !in_order {
                Err(elsewhere(&self.lives.name(value), whole))
            } else if self.lives.ends_before(there, at) {
                Ok(user)
            } else if self.lives.ends_by(there, at) {
                Err(format!("`{}` reads {name} while it writes", self.steps[at].label))
            } else {
                Err(self.lives.still_wanted(there, at, usize::MAX).err().unwrap_or_else(|| format!("{name} is in use")))
            };
            return Ok(Some((there, found)));
        }
        Ok(None)
    }

    /// Where the outputs of the graph end up.
    fn landings(&mut self) -> Result<(), Error> {
        for (at, output) in self.graph.outputs().iter().enumerate() {
            let Some(name) = &output.updates else {
                self.plan.landings.push(Landing::Returned);
                continue;
            };
            let user = self.users.get(name.as_str()).copied();
            let (landing, mut reason) = match user.filter(|user| self.donated.contains_key(user)) {
                Some(user) => self.lands(user, output.value)?,
                None if user.is_some() => (Landing::Returned, Some(format!("input `{name}` is given to be read only"))),
                None => (Landing::Returned, Some(format!("input `{name}` is a buffer of the model, without a state"))),
            };
            if let (Landing::Copied(_), Some(reason)) = (landing, &reason) {
                let base = self.lives.base(output.value);
                let maker = self.steps.iter().find(|step| step.outputs.contains(&base)).map(words::step);
                let by = maker.map_or_else(String::new, |maker| format!(", made by {maker}"));
                let (of, bytes) = (format!("the new value of input `{name}`{by}"), self.plan.get(output.value)?.bytes);
                self.plan.placement.copies.push(UpdateCopy { of, bytes, reason: reason.clone() });
            }
            let mut in_place = matches!(landing, Landing::There(_));
            let copied = if in_place { self.copied_on_the_way(output.value, name)? } else { Vec::new() };
            for (writer, bytes) in copied {
                (in_place, reason) = (false, Some(format!("{writer} runs by reference, and writes into a copy")));
                let (of, reason) = (format!("input `{name}` for {writer}"), "it runs by reference".to_owned());
                self.plan.placement.copies.push(UpdateCopy { of, bytes, reason });
            }
            self.plan.placement.updates.push(Update { output: at, input: name.clone(), in_place, reason });
            self.plan.landings.push(landing);
        }
        Ok(())
    }

    /// The writes that run by reference between an input and its new value, with the bytes that each copies.
    fn copied_on_the_way(&self, value: Value, input: &str) -> Result<Vec<(String, usize)>, Error> {
        let by_reference = |step: &&Step| step.copies_first() && !matches!(step.work, Work::Copy(_));
        if !self.steps.iter().any(|step| by_reference(&step)) {
            return Ok(Vec::new());
        }
        let input = self.graph.inputs().iter().find(|own| own.name == *input).map(|own| own.value);
        let maker = |value: Value| self.steps.iter().find(|step| step.outputs.contains(&value));
        let (mut open, mut seen, mut found) = (vec![value], BTreeSet::new(), Vec::new());
        while let Some(value) = open.pop() {
            let Some(step) = maker(value).filter(|_| seen.insert(value)) else { continue };
            open.extend(&step.inputs);
            let mut root = value;
            while let Some(step) = maker(root).filter(|step| step.copies_first() || matches!(step.work, Work::View)) {
                root = step.inputs[0];
            }
            if by_reference(&step) && Some(root) == input {
                found.push((words::step(step), self.plan.get(value)?.bytes));
            }
        }
        Ok(found)
    }

    /// Whether the new value of one of the caller's tensors lies there, and why not.
    fn lands(&self, user: usize, value: Value) -> Result<(Landing, Option<String>), Error> {
        let (slot, base) = (self.plan.get(value)?, self.lives.base(value));
        let there = slot.place == Place::User(user) && slot.strided.offset == 0 && slot.strided.is_contiguous();
        if there {
            return Ok((Landing::There(user), None));
        }
        let reason = self.refused.get(&base).cloned();
        let (name, whole) = (self.lives.name(base), self.plan.get(base)?.bytes == slot.bytes);
        let other = || match slot.place {
            Place::User(_) | Place::Weight(_) => format!("it is {name}"),
            Place::Constant(_) => format!("{name} is a constant"),
            Place::Buffer(_) => elsewhere(&name, whole),
        };
        Ok((Landing::Copied(user), Some(reason.unwrap_or_else(other))))
    }
}

/// Why a value that has a name is no new value as it stands: its elements lie in another order, or among others.
fn elsewhere(name: &str, whole: bool) -> String {
    if whole { format!("{name} is stored in another order") } else { format!("the new value is a part of {name}") }
}

/// The error of a call with another number of inputs than those of the names.
pub(crate) fn miscounted<'g>(of: &str, names: impl Iterator<Item = &'g str>, given: usize) -> Error {
    let names: Vec<&str> = names.collect();
    let (noun, inputs) = match &names[..] {
        [] => ("inputs", String::new()),
        [name] => ("input", format!("; it is {name}")),
        names => ("inputs", format!("; they are {}", names.join(", "))),
    };
    Error::Call(format!("{of} takes {} {noun}, got {given}{inputs}", names.len()))
}

/// Binds the symbols of a graph's user inputs to the shapes of a call.
///
/// # Errors
/// A wrong number of tensors, a wrong dtype, rank or extent, naming the input; a symbol outside its range.
pub(crate) fn bind(graph: &Graph, given: &[(DType, &[usize])]) -> Result<Binding, Error> {
    bind_told(graph, &Binding::new(), given)
}

/// As [`bind`], where these are the values of the symbols that no input tells.
///
/// # Errors
/// As [`bind`].
pub(crate) fn bind_told(graph: &Graph, told: &Binding, given: &[(DType, &[usize])]) -> Result<Binding, Error> {
    let users: Vec<_> = graph.inputs().iter().filter(|i| i.kind.is_given()).collect();
    if users.len() != given.len() {
        let names = users.iter().map(|input| input.name.as_str());
        return Err(miscounted(&format!("`{}`", graph.name()), names, given.len()));
    }
    for (input, (dtype, shape)) in users.iter().zip(given) {
        let ty = graph.ty(input.value);
        if ty.dtype != *dtype || ty.rank() != shape.len() {
            return Err(Error::Call(format!("input `{}` is {ty}, got {dtype}{shape:?}", input.name)));
        }
    }
    let mut binding: Binding = interp::solve(graph, &given.iter().map(|(_, shape)| *shape).collect::<Vec<_>>());
    for symbol in graph.symbols() {
        if let (Some(&value), false) = (told.get(&symbol.name), binding.contains_key(&symbol.name)) {
            binding.insert(symbol.name.clone(), value);
        }
    }
    for (input, (dtype, shape)) in users.iter().zip(given) {
        let ty = graph.ty(input.value);
        for (axis, (extent, &got)) in ty.shape.iter().zip(*shape).enumerate() {
            let expected = extent.eval(&|s| binding.get(s).copied()).map_err(|e| {
                let message = format!("axis {axis} is {got}, which does not give {extent}: {e}");
                Error::Call(format!("input `{}` is {ty}, got {dtype}{shape:?}: {message}", input.name))
            })?;
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
    // Passes and claims rely on the ranges.
    let value = |symbol: &Symbol| binding.get(&symbol.name).copied();
    match graph.symbols().iter().find(|s| value(s).is_some_and(|value| !s.admits(value))) {
        None => Ok(binding),
        Some(symbol) => {
            let (name, value) = (&symbol.name, binding[&symbol.name]);
            let told = users.iter().find_map(|input| {
                let axis = graph.ty(input.value).shape.iter().position(|extent| extent.mentions(name))?;
                Some(format!(", by axis {axis} of input `{}`", input.name))
            });
            let told = told.unwrap_or_default();
            Err(Error::Call(format!("symbol `{name}` is {value}{told}, outside {}", symbol.span())))
        }
    }
}
