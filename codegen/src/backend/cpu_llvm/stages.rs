//! Innermost loops in stages: while one pass is finished, the next ones are begun.
//!
//! A processor looks ahead over one or two hundred instructions of vectors. Where the operations of a pass hang on each
//! other for long (an exponential, a quotient, a rounding, a code), that is hardly more than one pass, and its units wait.
//! Cut in two, the halves of a pass run beside those of its neighbours, with a chain half as long in view; the first half
//! may be cut again. The loop computes the same values in the same order of stores; loads come earlier, which Kernel IR
//! allows, as it promises that a row's stores happen after its loads.

use std::collections::{BTreeSet, HashMap, HashSet};

use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::types::{AnyTypeEnum, BasicTypeEnum};
use inkwell::values::{
    AnyValue, BasicValue, BasicValueEnum, CallSiteValue, InstructionOpcode, InstructionValue, Operand, PhiValue,
};

use crate::backend::llvm::code::element_bits;
use crate::backend::llvm::{BuildError, Built};

/// Names of the blocks of loops that may be cut begin so; that of the segment and a point follow.
const NAME: &str = "passes.";
/// Cycles of a stage, about: as long as a processor looks ahead over by itself.
const STAGE: u32 = 26;
/// Stages at most.
const STAGES: u32 = 3;
/// Cycles within which a value is loaded and widened: the second half does so again rather than having it handed over.
const SHALLOW: u32 = 8;
/// Registers for values that are handed from one stage to the next, at most.
const CARRIED: u32 = 8;

type Inst<'c> = InstructionValue<'c>;
type Known<'c> = HashMap<Inst<'c>, BasicValueEnum<'c>>;

/// Says of a loop of a segment that it may be cut: it does not load what it stores.
pub(super) fn offer(head: BasicBlock<'_>, segment: &str) {
    head.set_name(&format!("{NAME}{segment}."));
}

/// Splits the loops of a module that are worth it, for vectors of so many bits; says which.
pub(super) fn split<'c>(ctx: &'c Context, module: &Module<'c>, vectors: u32) -> Built<Vec<String>> {
    let mut decisions = Vec::new();
    let blocks = module.get_functions().flat_map(|function| function.get_basic_blocks());
    for mut head in blocks.collect::<Vec<_>>() {
        let name = head.get_name().to_string_lossy().into_owned();
        let Some((segment, _)) = name.strip_prefix(NAME).and_then(|rest| rest.rsplit_once('.')) else { continue };
        let (mut stages, mut cuts) = (STAGES, 0);
        while stages > 1
            && let Some(found) = Counted::of(head)
            && let Some(cut) = Cut::of(&found, stages, vectors)
        {
            head = found.split(ctx, &cut)?;
            (stages, cuts) = (cut.left, cuts + 1);
        }
        if cuts > 0 {
            decisions.push(format!("segment `{segment}` has {} passes of a loop under way at once", cuts + 1));
        }
    }
    Ok(decisions)
}

/// What a loop hands from pass to pass.
struct Turned<'c> {
    phi: PhiValue<'c>,
    start: BasicValueEnum<'c>,
    back: BasicValueEnum<'c>,
    /// Whether it counts: the next one is the sum of this one and what no pass changes.
    counts: bool,
}

/// A loop of one block.
struct Counted<'c> {
    head: BasicBlock<'c>,
    before: BasicBlock<'c>,
    exit: BasicBlock<'c>,
    turned: Vec<Turned<'c>>,
    /// All but what is handed on and the branch at the end.
    body: Vec<Inst<'c>>,
    /// Whether another pass follows: if it is this.
    more: Inst<'c>,
    follows: bool,
}

impl<'c> Counted<'c> {
    fn of(head: BasicBlock<'c>) -> Option<Counted<'c>> {
        let again = head.get_terminator()?;
        let block = |at: u32| again.get_operand(at).and_then(Operand::block);
        // A branch has the block where it goes if the condition holds as its last operand.
        let (condition, no, yes) = (again.get_operand(0)?.value()?, block(1)?, block(2)?);
        let (follows, exit) = if yes == head { (true, no) } else { (false, yes) };
        if yes != head && no != head {
            return None;
        }
        let more = condition.as_instruction_value().filter(|inst| inst.get_parent() == Some(head))?;
        let (mut turned, mut before) = (Vec::new(), None);
        let mut body = Vec::new();
        for inst in head.get_instructions().filter(|inst| *inst != again) {
            let Ok(phi) = PhiValue::try_from(inst) else {
                body.push(inst);
                continue;
            };
            let incoming: Vec<_> = phi.get_incomings().collect();
            let (&[from_head], &[from_before]) = (
                &incoming.iter().filter(|(_, from)| *from == head).collect::<Vec<_>>()[..],
                &incoming.iter().filter(|(_, from)| *from != head).collect::<Vec<_>>()[..],
            ) else {
                return None;
            };
            before = Some(from_before.1);
            turned.push(Turned {
                phi,
                start: from_before.0,
                back: from_head.0,
                counts: counts(head, phi, from_head.0),
            });
        }
        let branches = |block: &BasicBlock<'c>| {
            block.get_terminator().is_some_and(|inst| inst.get_opcode() == InstructionOpcode::Br)
        };
        let before = before.filter(branches)?;
        Some(Counted { head, before, exit, turned, body, more, follows })
    }

    /// The loop becomes: the first half of the first pass; in a loop, the second half of a pass and the first half of the
    /// next; the second half of the last pass, in the block that was the loop. The new loop is given.
    fn split(&self, ctx: &'c Context, cut: &Cut<'c>) -> Built<BasicBlock<'c>> {
        let b = ctx.create_builder();
        let begin = ctx.prepend_basic_block(self.head, "");
        let turn = ctx.prepend_basic_block(self.head, "");
        self.enter(&b, begin)?;

        b.position_at_end(begin);
        let started = |t: &Turned<'c>| (t.phi.as_instruction(), t.start);
        let mut first: Known<'c> = self.turned.iter().filter(|t| t.counts).map(started).collect();
        copy(&b, cut.first.iter().chain(&cut.more), &mut first)?;
        self.turn(&b, &first, turn)?;

        b.position_at_end(turn);
        let carried: Vec<BasicValueEnum<'c>> = cut.carried.iter().map(|v| value(*v)).collect();
        let all = || self.turned.iter().map(|t| t.phi.as_basic_value()).chain(carried.iter().copied());
        let olds: Vec<Inst<'c>> = all().filter_map(|v| v.as_instruction_value()).collect();
        let in_turn = phis(&b, all())?;
        let mut known: Known<'c> = olds.iter().copied().zip(in_turn.iter().map(|phi| phi.as_basic_value())).collect();
        copy(&b, &cut.second, &mut known)?;
        let backs: Vec<BasicValueEnum<'c>> = self.turned.iter().map(|t| renamed(&known, t.back)).collect();
        let next = self.turned.iter().zip(&backs).filter(|(t, _)| t.counts);
        let mut ahead: Known<'c> = next.map(|(t, back)| (t.phi.as_instruction(), *back)).collect();
        copy(&b, cut.first.iter().chain(&cut.more), &mut ahead)?;
        self.turn(&b, &ahead, turn)?;

        let starts = self.turned.iter().map(|t| t.start).chain(carried.iter().map(|v| renamed(&first, *v)));
        let backs = backs.iter().copied().chain(carried.iter().map(|v| renamed(&ahead, *v)));
        let handed: Vec<_> = starts.zip(backs).collect();
        if let Some(old) = self.head.get_first_instruction() {
            b.position_before(&old);
        }
        let at_end = phis(&b, all())?;
        for phis in [&in_turn, &at_end] {
            for (phi, (start, back)) in phis.iter().zip(&handed) {
                phi.add_incoming(&[(start as &dyn BasicValue<'c>, begin), (back as &dyn BasicValue<'c>, turn)]);
            }
        }
        for (old, phi) in olds.iter().zip(&at_end) {
            old.replace_all_uses_with(&phi.as_instruction());
        }
        self.finish(&b, cut)?;
        Ok(turn)
    }

    /// Goes to another block where the loop was entered.
    fn enter(&self, b: &Builder<'c>, begin: BasicBlock<'c>) -> Built<()> {
        let missing = || BuildError::Llvm("a block before a loop does not end".to_owned());
        let old = self.before.get_terminator().ok_or_else(missing)?;
        let block = |at: u32| old.get_operand(at).and_then(Operand::block);
        let goes = |to: BasicBlock<'c>| if to == self.head { begin } else { to };
        b.position_at_end(self.before);
        match (old.get_operand(0), block(1), block(2)) {
            (Some(Operand::Block(_)), None, None) => b.build_unconditional_branch(begin)?,
            (Some(Operand::Value(condition)), Some(no), Some(yes)) => {
                b.build_conditional_branch(condition.into_int_value(), goes(yes), goes(no))?
            }
            _ => return Err(missing()),
        };
        old.erase_from_basic_block();
        Ok(())
    }

    /// Goes on with the pass that is begun: in the loop if another follows it, else behind the loop.
    fn turn(&self, b: &Builder<'c>, known: &Known<'c>, turn: BasicBlock<'c>) -> Built<()> {
        let more = renamed(known, value(self.more)).into_int_value();
        let (yes, no) = if self.follows { (turn, self.head) } else { (self.head, turn) };
        b.build_conditional_branch(more, yes, no)?;
        Ok(())
    }

    /// Leaves the second half of a pass in the block that was the loop.
    fn finish(&self, b: &Builder<'c>, cut: &Cut<'c>) -> Built<()> {
        if let Some(again) = self.head.get_terminator() {
            again.erase_from_basic_block();
        }
        b.position_at_end(self.head);
        b.build_unconditional_branch(self.exit)?;
        let second: HashSet<Inst<'c>> = cut.second.iter().copied().collect();
        for inst in self.body.iter().rev().filter(|inst| !second.contains(inst)) {
            inst.erase_from_basic_block();
        }
        for t in &self.turned {
            t.phi.as_instruction().erase_from_basic_block();
        }
        Ok(())
    }
}

/// Whether the next of what a loop hands on is the sum of this one and what no pass changes.
fn counts<'c>(head: BasicBlock<'c>, phi: PhiValue<'c>, back: BasicValueEnum<'c>) -> bool {
    let Some(next) = back.as_instruction_value() else { return false };
    let is_changed = |v: &BasicValueEnum<'c>| v.as_instruction_value().is_some_and(|i| i.get_parent() == Some(head));
    let mut others = operands(next).filter(|v| *v != phi.as_basic_value());
    next.get_opcode() == InstructionOpcode::Add && !others.any(|v| is_changed(&v))
}

/// Where a pass is cut.
struct Cut<'c> {
    /// What the first half computes, and what the second does; what both need both compute.
    first: Vec<Inst<'c>>,
    second: Vec<Inst<'c>>,
    /// What the first hands to the second.
    carried: Vec<Inst<'c>>,
    /// What says whether another pass follows, unless the first half computes it.
    more: Vec<Inst<'c>>,
    /// Stages that the first half may be cut into.
    left: u32,
}

impl<'c> Cut<'c> {
    /// The cut that leaves a last stage for the loop, unless what can be begun early is short.
    fn of(found: &Counted<'c>, most: u32, vectors: u32) -> Option<Cut<'c>> {
        let body = &found.body;
        let place: HashMap<Inst<'c>, usize> = body.iter().enumerate().map(|(i, inst)| (*inst, i)).collect();
        let from = |inst: Inst<'c>| operands(inst).filter_map(|v| place.get(&v.as_instruction_value()?).copied());
        let held: HashSet<Inst<'c>> =
            found.turned.iter().filter(|t| !t.counts).map(|t| t.phi.as_instruction()).collect();
        let is_held = |v: BasicValueEnum<'c>| v.as_instruction_value().is_some_and(|inst| held.contains(&inst));
        // When a value is there, in cycles from the start of a pass; and whether the pass before need not be over for it.
        let mut ready: Vec<(u32, bool)> = Vec::new();
        for &inst in body {
            let before = from(inst).map(|i| ready[i].0).max().unwrap_or(0);
            let free = !acts(inst) && !operands(inst).any(is_held) && from(inst).all(|i| ready[i].1);
            ready.push((before + latency(inst), free));
        }
        let chain = ready.iter().filter(|(_, free)| *free).map(|(at, _)| *at).max().unwrap_or(0);
        let stages = ((chain + STAGE / 2) / STAGE).min(most);
        let more = place.get(&found.more).copied()?;
        if stages < 2 || !ready[more].1 {
            return None;
        }
        // What passes are for: what acts, what the next pass has, and what is used behind the loop.
        let back = |t: &Turned<'c>| place.get(&t.back.as_instruction_value()?).copied();
        let turned: BTreeSet<usize> = found.turned.iter().filter_map(back).collect();
        let outside = |i: &usize| users(body[*i]).any(|user| user.get_parent() != Some(found.head));
        let kept: BTreeSet<usize> = (0..body.len()).filter(outside).chain(turned).collect();
        let ended: BTreeSet<usize> = (0..body.len()).filter(|i| acts(body[*i])).collect();
        // Until when each value is used that a first half can hand over.
        let mut until: Vec<u32> = ready.iter().map(|(at, _)| *at).collect();
        for (i, &inst) in body.iter().enumerate() {
            let at = if ready[i].1 && ready[i].0 > SHALLOW { ready[i].0 } else { u32::MAX };
            from(inst).for_each(|v| until[v] = until[v].max(at));
        }
        kept.iter().for_each(|i| until[*i] = u32::MAX);
        let early = |i: &usize| ready[*i].1 && ready[*i].0 > SHALLOW && registers(body[*i], vectors) > 0;
        let early: Vec<usize> = (0..body.len()).filter(early).collect();
        let carried = |depth: u32| {
            let crosses = |i: &usize| ready[*i].0 <= depth && depth < until[*i];
            early.iter().copied().filter(crosses).collect::<BTreeSet<usize>>()
        };
        let depths: BTreeSet<u32> = early.iter().map(|i| ready[*i].0).collect();
        let wanted = chain * (stages - 1) / stages;
        let counted = depths.into_iter().map(|depth| {
            let taken: u32 = carried(depth).into_iter().map(|i| registers(body[i], vectors)).sum();
            (depth, taken)
        });
        let (depth, _) = counted
            .filter(|(_, taken)| (1..=CARRIED).contains(taken))
            .min_by_key(|(depth, taken)| depth.abs_diff(wanted) + 2 * taken)?;
        let carried = carried(depth);
        let needed = |roots: &[&BTreeSet<usize>], stop: &BTreeSet<usize>| {
            let mut open: Vec<usize> = roots.iter().flat_map(|set| set.iter().copied()).collect();
            let mut taken = BTreeSet::new();
            while let Some(i) = open.pop() {
                if !stop.contains(&i) && taken.insert(i) {
                    open.extend(from(body[i]));
                }
            }
            taken
        };
        let first = needed(&[&carried], &BTreeSet::new());
        let second = needed(&[&ended, &kept], &carried);
        let more = needed(&[&BTreeSet::from([more])], &first);
        let insts = |places: BTreeSet<usize>| places.into_iter().map(|i| body[i]).collect();
        let (first, second, carried, more) = (insts(first), insts(second), insts(carried), insts(more));
        Some(Cut { first, second, carried, more, left: stages - 1 })
    }
}

/// Whether an instruction does more than to compute what it yields.
fn acts(inst: Inst<'_>) -> bool {
    match inst.get_opcode() {
        InstructionOpcode::Call => matches!(inst.get_type(), AnyTypeEnum::VoidType(_)),
        InstructionOpcode::Store
        | InstructionOpcode::Fence
        | InstructionOpcode::AtomicRMW
        | InstructionOpcode::AtomicCmpXchg => true,
        _ => false,
    }
}

/// Cycles after the operands of an instruction until its result is there: about those of LLVM's model of Zen 4.
fn latency(inst: Inst<'_>) -> u32 {
    use InstructionOpcode as Op;
    let Some(ty) = result(inst) else { return 0 };
    let is_float = |ty: BasicTypeEnum<'_>| match ty {
        BasicTypeEnum::VectorType(v) => v.get_element_type().is_float_type(),
        other => other.is_float_type(),
    };
    // Addresses and counters are ahead of everything.
    if !ty.is_vector_type() && !is_float(ty) {
        return 0;
    }
    match inst.get_opcode() {
        Op::BitCast => 0,
        Op::Load => 5,
        Op::FDiv => 11,
        Op::FAdd
        | Op::FSub
        | Op::FMul
        | Op::SIToFP
        | Op::UIToFP
        | Op::FPToSI
        | Op::FPToUI
        | Op::FPExt
        | Op::FPTrunc => 3,
        Op::FCmp | Op::ICmp | Op::Trunc => 3,
        Op::Call => {
            let called = CallSiteValue::try_from(inst).ok().and_then(|call| call.get_called_fn_value());
            let name = called.map(|f| f.get_name().to_string_lossy().into_owned()).unwrap_or_default();
            let begins = |of: &str| name.starts_with(of);
            match () {
                () if begins("llvm.sqrt") => 15,
                () if begins("llvm.fma") => 4,
                () if begins("llvm.masked") => 5,
                () if begins("llvm.fabs") || begins("llvm.copysign") => 1,
                () => 3,
            }
        }
        _ => 1,
    }
}

/// Vector registers that a value takes.
fn registers(inst: Inst<'_>, vectors: u32) -> u32 {
    match result(inst) {
        Some(ty @ BasicTypeEnum::VectorType(v)) => (element_bits(ty) * v.get_size()).div_ceil(vectors),
        Some(BasicTypeEnum::FloatType(_)) => 1,
        _ => 0,
    }
}

fn result(inst: Inst<'_>) -> Option<BasicTypeEnum<'_>> {
    BasicTypeEnum::try_from(inst.get_type()).ok()
}

/// What an instruction yields, which is not nothing.
fn value(inst: Inst<'_>) -> BasicValueEnum<'_> {
    BasicValueEnum::try_from(inst.as_any_value_enum()).expect("a value")
}

fn operands<'c>(inst: Inst<'c>) -> impl Iterator<Item = BasicValueEnum<'c>> {
    inst.get_operands().flatten().filter_map(Operand::value)
}

fn users<'c>(inst: Inst<'c>) -> impl Iterator<Item = Inst<'c>> {
    let uses = std::iter::successors(inst.get_first_use(), |one| one.get_next_use());
    uses.filter_map(|one| match one.get_user() {
        inkwell::values::AnyValueEnum::InstructionValue(user) => Some(user),
        other => BasicValueEnum::try_from(other).ok()?.as_instruction_value(),
    })
}

/// A place for each value that comes from several blocks.
fn phis<'c>(b: &Builder<'c>, like: impl Iterator<Item = BasicValueEnum<'c>>) -> Built<Vec<PhiValue<'c>>> {
    like.map(|v| Ok(b.build_phi(v.get_type(), "")?)).collect()
}

fn renamed<'c>(known: &Known<'c>, v: BasicValueEnum<'c>) -> BasicValueEnum<'c> {
    v.as_instruction_value().and_then(|inst| known.get(&inst).copied()).unwrap_or(v)
}

/// Writes copies of instructions, with other names for what is known by another.
fn copy<'a, 'c: 'a>(
    b: &Builder<'c>,
    insts: impl IntoIterator<Item = &'a Inst<'c>>,
    known: &mut Known<'c>,
) -> Built<()> {
    for &inst in insts {
        let new = inst.explicit_clone();
        for (at, operand) in inst.get_operands().enumerate() {
            if let Some(Operand::Value(old)) = operand {
                let other = renamed(known, old);
                if other != old {
                    new.set_operand(at as u32, other);
                }
            }
        }
        b.insert_instruction(&new, None);
        if result(inst).is_some() {
            known.insert(inst, value(new));
        }
    }
    Ok(())
}
