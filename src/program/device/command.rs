//! What a device is asked to do for one plan: the steps as launches, products and copies between places of its memories.
//!
//! Commands are made once for each plan. They are data: no device is touched here, and whoever carries them out knows
//! nothing of graphs.

use std::sync::Arc;

use fusewright_abi::DType;
use fusewright_runtime::MatMul;

use super::arena::{Arena, aligned};
use super::product::{Product, products};
use crate::Error;
use crate::program::copies::CopyKernel;
use crate::program::plan::{Landing, Place, Plan, Slot};
use crate::program::step::{CompiledKernel, Step, Work};
use crate::program::{Fallback, Program};

/// One of the memories that a call uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Memory {
    /// What the call computes.
    Arena,
    /// Values that the symbols fix.
    Constants,
    /// The weight of that graph input.
    Weight(usize),
    /// The caller's tensor of that number.
    User(usize),
}

/// Bytes of one of the memories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Region {
    pub memory: Memory,
    pub start: usize,
    pub bytes: usize,
}

/// An argument of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KernelArg {
    In(Region),
    Out(Region),
    /// The memory of the argument of that index.
    Same(usize),
}

/// One thing to do.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Launch {
        kernel: Arc<CompiledKernel>,
        args: Vec<KernelArg>,
        dims: Vec<i64>,
        rows: usize,
    },
    MatMul {
        product: MatMul,
        a: Region,
        b: Region,
        c: Region,
    },
    /// Copies the bytes of one region to another of the same length.
    Copy {
        from: Region,
        to: Region,
    },
    /// Sets all bytes to zero.
    Clear(Region),
    /// Evaluates the step of that number on the host, which waits for the device before and after.
    Host(usize),
}

/// One thing to do, and the number of the step that it is for; steps behind the last one bring results to their places.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub action: Action,
    pub step: usize,
}

/// The commands of a plan, and the memory that they need.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    pub commands: Vec<Command>,
    /// Bytes of the arena, and where in it the memory begins that steps have for themselves alone.
    pub arena: usize,
    pub scratch: usize,
    /// The bytes of [`Memory::Constants`].
    pub constants: Vec<u8>,
    /// Where each output of the graph is; none where it is in the caller's tensor that it updates.
    pub outputs: Vec<Option<Region>>,
}

/// A step that runs on the host in a program on a device, and why.
pub(in crate::program) fn on_host(step: &Step) -> Option<Fallback> {
    let reason = match &step.work {
        Work::Copy(None) => "no kernel copies the view",
        Work::GroupedMatMul => "no library of the device multiplies groups whose ends it has",
        Work::Attention(_) => "no library of the device takes its operands",
        // They are listed with a reason of their own.
        Work::Reference(_) | Work::Copy(Some(_)) => return None,
        Work::Kernel(_) | Work::MatMul { .. } | Work::View | Work::Constant(_) => return None,
    };
    Some(Fallback { label: step.label.clone(), reason: format!("{reason}; it runs on the host") })
}

/// Whether a step runs on the host in a program on a device: the device is waited for, and nothing of it is recorded.
pub(in crate::program) fn runs_on_host(step: &Step) -> bool {
    matches!(step.work, Work::Copy(None) | Work::GroupedMatMul | Work::Attention(_) | Work::Reference(_))
}

impl Commands {
    /// The commands of a plan of a program, for those of its steps that are wanted, and what brings results to their places.
    ///
    /// # Errors
    /// Elements that lie where no kernel or library takes them; symbols without a value.
    pub fn of(program: &Program, plan: &Plan, wanted: &dyn Fn(usize) -> bool) -> Result<Commands, Error> {
        let mut arena = Arena::of(&plan.buffers);
        let mut constants = Vec::new();
        for constant in &plan.constants {
            constants.extend(constant);
            constants.resize(aligned(constants.len()), 0);
        }
        let snapshots = snapshots(program, plan, &mut arena)?;
        let mut making = Making { plan, arena, places: Places::of(plan), commands: Vec::new(), step: 0 };
        for (at, step) in program.steps.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            making.step = at;
            making.arena.next_step();
            making.add(step).map_err(|error| error.about(&step.label))?;
        }
        making.step = program.steps.len();
        let outputs = making.results(program, &snapshots)?;
        let Making { commands, arena, .. } = making;
        Ok(Commands { commands, arena: arena.bytes(), scratch: arena.scratch(), constants, outputs })
    }
}

/// Where the places of a plan begin.
#[derive(Clone, Debug)]
pub(super) struct Places {
    buffers: Vec<usize>,
    constants: Vec<usize>,
}

impl Places {
    pub fn of(plan: &Plan) -> Places {
        let mut end = 0;
        let mut place = |constant: &Vec<u8>| {
            let start = end;
            end = aligned(end + constant.len());
            start
        };
        let constants = plan.constants.iter().map(&mut place).collect();
        Places { buffers: Arena::of(&plan.buffers).places, constants }
    }

    /// Where a place begins; its length is not known here.
    pub fn at(&self, place: Place) -> Region {
        let (memory, start) = match place {
            Place::User(user) => (Memory::User(user), 0),
            Place::Weight(input) => (Memory::Weight(input), 0),
            Place::Buffer(buffer) => (Memory::Arena, self.buffers[buffer]),
            Place::Constant(constant) => (Memory::Constants, self.constants[constant]),
        };
        Region { memory, start, bytes: 0 }
    }
}

/// Commands in the making.
struct Making<'a> {
    plan: &'a Plan,
    arena: Arena,
    places: Places,
    commands: Vec<Command>,
    step: usize,
}

impl Making<'_> {
    fn push(&mut self, action: Action) {
        self.commands.push(Command { action, step: self.step });
    }

    fn add(&mut self, step: &Step) -> Result<(), Error> {
        let inputs = step.inputs.iter().map(|&v| self.plan.get(v)).collect::<Result<Vec<_>, _>>()?;
        let outputs = step.outputs.iter().map(|&v| self.plan.get(v)).collect::<Result<Vec<_>, _>>()?;
        match &step.work {
            Work::View | Work::Constant(_) => Ok(()),
            Work::Kernel(kernel) => self.launch(kernel, &inputs, &outputs),
            Work::MatMul { transpose_b, .. } => self.multiply([inputs[0], inputs[1], outputs[0]], *transpose_b),
            Work::Copy(Some(copy)) => self.copy(copy, outputs[0]),
            Work::Copy(None) | Work::GroupedMatMul | Work::Attention(_) | Work::Reference(_) => {
                self.push(Action::Host(self.step));
                Ok(())
            }
        }
    }

    /// A launch; operands that are not aligned as the kernel needs them are moved first, and so is what it overwrites in
    /// part.
    fn launch(&mut self, kernel: &Arc<CompiledKernel>, inputs: &[&Slot], outputs: &[&Slot]) -> Result<(), Error> {
        let slots = inputs.iter().chain(outputs);
        let shapes: Vec<&[usize]> = slots.map(|slot| slot.shape.as_slice()).collect();
        let (dims, rows) = kernel.dims.resolve(&shapes, &self.plan.binding).map_err(Error::Call)?;
        let mut args = Vec::with_capacity(shapes.len());
        for slot in inputs {
            args.push(KernelArg::In(self.aligned(self.whole(slot)?, kernel.alignment)));
        }
        for slot in outputs {
            args.push(KernelArg::Out(self.whole(slot)?));
        }
        for alias in kernel.in_place.aliases() {
            let (old, new) = (inputs[alias.input], outputs[alias.output]);
            if old.place == new.place {
                args[alias.input] = KernelArg::Same(inputs.len() + alias.output);
            } else if alias.begins {
                let (from, to) = (self.whole(old)?, self.whole(new)?);
                self.push(Action::Copy { from, to });
            }
        }
        self.push(Action::Launch { kernel: Arc::clone(kernel), args, dims, rows });
        Ok(())
    }

    fn copy(&mut self, copy: &CopyKernel, output: &Slot) -> Result<(), Error> {
        let source = self.plan.get(copy.source)?;
        let stored: Vec<usize> = copy.order.iter().map(|&axis| source.shape[axis]).collect();
        let shapes = [stored.as_slice(), &output.shape];
        let (dims, rows) = copy.kernel.dims.resolve(&shapes, &self.plan.binding).map_err(Error::Call)?;
        // The elements of a value that has memory begin where it does, in whatever order they lie.
        let from = Region { bytes: source.bytes, ..self.places.at(source.place) };
        let args = vec![KernelArg::In(from), KernelArg::Out(self.whole(output)?)];
        self.push(Action::Launch { kernel: Arc::clone(&copy.kernel), args, dims, rows });
        Ok(())
    }

    fn multiply(&mut self, slots: [&Slot; 3], transpose_b: bool) -> Result<(), Error> {
        for Product { product, offsets } in products(slots, transpose_b) {
            if product.k == 0 {
                // The result of a step has all of its memory to itself, in whatever order its elements lie.
                let all = self.behind(slots[2], 0)?;
                self.push(Action::Clear(all));
                return Ok(());
            }
            product.column_major().map_err(|misfit| Error::Internal(misfit.to_string()))?;
            let region = |of: usize| self.behind(slots[of], offsets[of]);
            let (a, b, c) = (region(0)?, region(1)?, region(2)?);
            self.push(Action::MatMul { product, a, b, c });
        }
        Ok(())
    }

    /// The elements of a slot, which lie in row-major order.
    fn whole(&self, slot: &Slot) -> Result<Region, Error> {
        if !slot.strided.is_contiguous() {
            return Err(Error::Internal(format!("{}{:?} does not lie in row-major order", slot.dtype, slot.shape)));
        }
        let offset = if slot.bytes == 0 { 0 } else { bytes_before(slot.dtype, slot.strided.offset)? };
        let at = self.places.at(slot.place);
        Ok(Region { start: at.start + offset, bytes: slot.bytes, ..at })
    }

    /// The memory of a slot from its first element and some more on to its last one.
    fn behind(&self, slot: &Slot, elements: usize) -> Result<Region, Error> {
        let end = slot.strided.end().ok_or_else(|| Error::Internal("a view leaves the address space".to_owned()))?;
        let first = slot.strided.offset + elements;
        let at = self.places.at(slot.place);
        let start = at.start + bytes_before(slot.dtype, first)?;
        Ok(Region { start, bytes: slot.dtype.bytes_for(end - first), ..at })
    }

    /// The region, or a copy of it where it does not begin at a multiple of `alignment`.
    fn aligned(&mut self, region: Region, alignment: usize) -> Region {
        if region.bytes == 0 || region.start.is_multiple_of(alignment.max(1)) {
            return region;
        }
        let to = Region { memory: Memory::Arena, start: self.arena.take(region.bytes), bytes: region.bytes };
        self.push(Action::Copy { from: region, to });
        to
    }

    /// Brings results to their places: first what a tensor that is overwritten still holds, then the new values.
    fn results(&mut self, program: &Program, snapshots: &[Option<usize>]) -> Result<Vec<Option<Region>>, Error> {
        let mut regions = Vec::with_capacity(snapshots.len());
        for (output, snapshot) in program.graph.outputs().iter().zip(snapshots) {
            let slot = self.plan.get(output.value)?;
            // Results lie in row-major order, but for those of captured calls of fewer rows than a size has.
            let region = if slot.strided.is_contiguous() { self.whole(slot)? } else { self.behind(slot, 0)? };
            regions.push(match snapshot {
                Some(start) => {
                    let to = Region { memory: Memory::Arena, start: *start, bytes: region.bytes };
                    self.push(Action::Copy { from: region, to });
                    to
                }
                None => region,
            });
        }
        let mut outputs = Vec::with_capacity(regions.len());
        for (&from, landing) in regions.iter().zip(&self.plan.landings.clone()) {
            outputs.push(match landing {
                Landing::Returned => Some(from),
                Landing::There(_) => None,
                Landing::Copied(user) => {
                    self.push(Action::Copy { from, to: Region { memory: Memory::User(*user), start: 0, ..from } });
                    None
                }
            });
        }
        Ok(outputs)
    }
}

/// Memory for outputs that lie in a tensor of the caller which the new value of another one is copied to.
fn snapshots(program: &Program, plan: &Plan, arena: &mut Arena) -> Result<Vec<Option<usize>>, Error> {
    let copied: Vec<usize> = plan
        .landings
        .iter()
        .filter_map(|landing| if let Landing::Copied(user) = landing { Some(*user) } else { None })
        .collect();
    let outputs = program.graph.outputs().iter().zip(&plan.landings);
    outputs
        .map(|(output, landing)| {
            let slot = plan.get(output.value)?;
            let overwritten = matches!(slot.place, Place::User(user) if copied.contains(&user));
            let there = matches!(landing, Landing::There(_));
            Ok((overwritten && !there).then(|| arena.keep(slot.bytes)))
        })
        .collect()
}

/// Bytes before an element of packed memory.
fn bytes_before(dtype: DType, elements: usize) -> Result<usize, Error> {
    let bits = elements * dtype.bits() as usize;
    if bits.is_multiple_of(8) {
        return Ok(bits / 8);
    }
    Err(Error::Internal(format!("element {elements} of {dtype} does not begin at a byte")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::program::Placement;
    use crate::program::plan::Buffer;

    #[test]
    fn operands_that_vectors_do_not_divide_are_moved_to_memory_of_the_step() {
        let buffer = Buffer { bytes: 100, largest: (DType::F32, vec![25]) };
        let plan = Plan {
            binding: BTreeMap::new(),
            slots: Vec::new(),
            copies: BTreeMap::new(),
            buffers: vec![buffer],
            constants: Vec::new(),
            landings: Vec::new(),
            placement: Placement::default(),
            overwrites: Vec::new(),
        };
        let (arena, places) = (Arena::of(&plan.buffers), Places::of(&plan));
        let mut making = Making { plan: &plan, arena, places, commands: Vec::new(), step: 0 };
        let operand = |start, bytes| Region { memory: Memory::Weight(3), start, bytes };
        assert_eq!(making.aligned(operand(32, 8), 16), operand(32, 8));
        assert_eq!(making.aligned(operand(12, 0), 16), operand(12, 0), "there is nothing to read");
        let moved = Region { memory: Memory::Arena, start: 256, bytes: 8 };
        assert_eq!(making.aligned(operand(12, 8), 16), moved);
        assert_eq!(making.aligned(operand(20, 8), 16).start, 512, "both are read by one launch");
        making.arena.next_step();
        assert_eq!(making.aligned(operand(4, 300), 16).start, 256, "the step before has been enqueued");
        let [Command { action: Action::Copy { from, to }, .. }, ..] = making.commands.as_slice() else {
            panic!("a copy: {:?}", making.commands)
        };
        assert_eq!((*from, *to, making.commands.len(), making.arena.bytes()), (operand(12, 8), moved, 3, 768));
    }
}
