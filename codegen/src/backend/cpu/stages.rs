//! Innermost loops in stages: while one pass is finished, the next ones are begun.
//!
//! A processor looks ahead over some two hundred instructions. Where the operations of a pass hang on each other for
//! long (an exponential, a quotient and two roundings take some eighty cycles), that is hardly more than one pass, and
//! its units wait. Cut in two, the halves of a pass run beside those of its neighbours, with a chain half as long in
//! view; the first half may be cut again. The loop computes the same values in the same order of stores; loads come
//! earlier, which Kernel IR allows, as it promises that a row's stores happen after its loads.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Block, BlockArg, BlockCall, Function, Inst, InstBuilder, InstructionData, Opcode, Value};

use super::constants::preheader;

/// Cycles of a stage, about: as long as a processor looks ahead over by itself.
const STAGE: u32 = 26;
/// Stages at most.
const STAGES: u32 = 3;
/// Cycles within which a value is loaded and widened: the second half does so again rather than having it handed over.
const SHALLOW: u32 = 6;
/// Values that are carried from one stage to the next at most: what is more than registers hold goes through memory.
const CARRIED: usize = 8;

/// Splits those of the loops with such heads that are worth it. They may not load what they store.
pub(super) fn split(function: &mut Function, heads: &[Block]) {
    for &head in heads {
        let mut stages = STAGES;
        while stages > 1
            && let Some(found) = Counted::of(function, head)
            && let Some(cut) = Cut::of(function, &found, stages)
        {
            found.split(function, &cut);
            stages = cut.left;
        }
    }
}

/// A loop of one block, entered if there is a first pass, whose counter says whether there is another.
struct Counted {
    head: Block,
    /// The branch before the loop, and the one that ends a pass.
    enter: Inst,
    again: Inst,
    /// The counter, and whether another pass follows.
    i: Value,
    more: Value,
}

impl Counted {
    fn of(function: &Function, head: Block) -> Option<Counted> {
        let dfg = &function.dfg;
        let before = preheader(function, head)?;
        let (enter, again) = (function.layout.last_inst(before)?, function.layout.last_inst(head)?);
        let goes_to_head = |inst: Inst| match dfg.insts[inst] {
            InstructionData::Brif { blocks: [first, _], .. } => first.block(&dfg.value_lists) == head,
            _ => false,
        };
        let InstructionData::Brif { arg, .. } = dfg.insts[again] else { return None };
        if !goes_to_head(enter) || !goes_to_head(again) {
            return None;
        }
        let i = *dfg.block_params(head).first()?;
        Some(Counted { head, enter, again, i, more: dfg.resolve_aliases(arg) })
    }

    fn body(&self, function: &Function) -> Vec<Inst> {
        function.layout.block_insts(self.head).filter(|inst| *inst != self.again).collect()
    }

    /// The loop becomes: the first half of the first pass; in a loop the second half of a pass and the first half of the
    /// next; the second half of the last pass.
    fn split(&self, function: &mut Function, cut: &Cut) {
        let InstructionData::Brif { arg: any, blocks: [enter, over], .. } = function.dfg.insts[self.enter] else {
            return;
        };
        let InstructionData::Brif { blocks: [back, exit], .. } = function.dfg.insts[self.again] else { return };
        let [start, skip, back, left] = [enter, over, back, exit].map(|call| arguments(function, call));
        let [over, exit] = [over, exit].map(|call| call.block(&function.dfg.value_lists));
        let body = self.body(function);
        let (begin, end) = (function.dfg.make_block(), function.dfg.make_block());
        function.layout.insert_block(begin, self.head);
        function.layout.insert_block_after(end, self.head);

        FuncCursor::new(function).at_inst(self.enter).ins().brif(any, begin, &[], over, &passed(&skip));
        function.layout.remove_inst(self.enter);
        let mut known = BTreeMap::from([(self.i, start[0])]);
        copy(function, &cut.first, begin, &mut known);
        let started: Vec<Value> = start.into_iter().chain(cut.carried.iter().map(|v| known[v])).collect();
        self.turn(function, cut, begin, end, &started);

        let mut known = BTreeMap::new();
        for param in function.dfg.block_params(self.head).to_vec().iter().chain(&cut.carried) {
            let ty = function.dfg.value_type(*param);
            known.insert(*param, function.dfg.append_block_param(end, ty));
        }
        copy(function, &cut.second, end, &mut known);
        let left: Vec<Value> = left.iter().map(|v| renamed(&known, *v)).collect();
        FuncCursor::new(function).at_bottom(end).ins().jump(exit, &passed(&left));

        let mut known = BTreeMap::new();
        for v in &cut.carried {
            let ty = function.dfg.value_type(*v);
            known.insert(*v, function.dfg.append_block_param(self.head, ty));
        }
        copy(function, &cut.second, self.head, &mut known);
        let mut turned: Vec<Value> = back.iter().map(|v| renamed(&known, *v)).collect();
        let mut ahead = BTreeMap::from([(self.i, turned[0])]);
        copy(function, &cut.first, self.head, &mut ahead);
        turned.extend(cut.carried.iter().map(|v| ahead[v]));
        for inst in body.into_iter().chain([self.again]) {
            function.layout.remove_inst(inst);
        }
        self.turn(function, cut, self.head, end, &turned);
    }

    /// Goes on with the pass that is begun: in the loop if another follows it, else behind the loop.
    fn turn(&self, function: &mut Function, cut: &Cut, from: Block, end: Block, args: &[Value]) {
        let mut known = BTreeMap::from([(self.i, args[0])]);
        copy(function, &cut.more, from, &mut known);
        let args = passed(args);
        let more = renamed(&known, self.more);
        FuncCursor::new(function).at_bottom(from).ins().brif(more, self.head, &args, end, &args);
    }
}

/// Where a pass is cut.
struct Cut {
    /// What the first half computes, and what the second does; what both need both compute.
    first: Vec<Inst>,
    second: Vec<Inst>,
    /// What the first hands to the second.
    carried: Vec<Value>,
    /// What says whether another pass follows.
    more: Vec<Inst>,
    /// Stages that the first half may be cut into.
    left: u32,
}

impl Cut {
    /// The cut that leaves a last stage for the loop, unless what can be begun early is short.
    fn of(function: &Function, found: &Counted, most: u32) -> Option<Cut> {
        let dfg = &function.dfg;
        let body = found.body(function);
        let args = |inst: Inst| dfg.inst_values(inst).map(|v| dfg.resolve_aliases(v)).collect::<Vec<Value>>();
        let acts = |inst: Inst| dfg.insts[inst].opcode().can_store() || dfg.insts[inst].opcode().is_call();
        let inside: BTreeMap<Value, Inst> =
            body.iter().flat_map(|inst| dfg.inst_results(*inst).iter().map(|v| (*v, *inst))).collect();
        let params: BTreeSet<Value> =
            dfg.block_params(found.head).iter().copied().filter(|param| *param != found.i).collect();
        // When a value is there, in cycles from the start of a pass; and whether the pass before need not be over for it.
        let mut ready: BTreeMap<Value, (u32, bool)> = BTreeMap::new();
        for &inst in &body {
            let from = args(inst);
            let before = from.iter().filter_map(|v| ready.get(v)).map(|(at, _)| *at).max().unwrap_or(0);
            let free =
                !acts(inst) && from.iter().all(|v| !params.contains(v) && ready.get(v).is_none_or(|(_, free)| *free));
            let at = before + latency(function, inst);
            ready.extend(dfg.inst_results(inst).iter().map(|v| (*v, (at, free))));
        }
        let chain = ready.values().filter(|(_, free)| *free).map(|(at, _)| *at).max().unwrap_or(0);
        let stages = ((chain + STAGE / 2) / STAGE).min(most);
        if stages < 2 || !ready.get(&found.more).is_some_and(|(_, free)| *free) {
            return None;
        }
        let ended: Vec<Inst> = body.iter().copied().filter(|inst| acts(*inst)).collect();
        let InstructionData::Brif { blocks, .. } = dfg.insts[found.again] else { return None };
        let turned: Vec<Value> = blocks.iter().flat_map(|call| arguments(function, *call)).collect();
        let needed = |roots: Vec<Value>, whole: &[Inst], stop: &BTreeSet<Value>| {
            let (mut open, mut kept) = (roots, BTreeSet::new());
            open.extend(whole.iter().flat_map(|inst| args(*inst)));
            while let Some(v) = open.pop() {
                if !stop.contains(&v)
                    && let Some(inst) = inside.get(&v)
                    && kept.insert(*inst)
                {
                    open.extend(args(*inst));
                }
            }
            body.iter().copied().filter(|inst| kept.contains(inst) || whole.contains(inst)).collect::<Vec<Inst>>()
        };
        // The values that a first half can hand over: when they are there, and until when they are used.
        let free = ready.iter().filter(|(_, (at, free))| *free && *at > SHALLOW);
        let mut early: BTreeMap<Value, (u32, u32)> = free.map(|(v, (at, _))| (*v, (*at, *at))).collect();
        for &inst in &body {
            let at = dfg.inst_results(inst).first().and_then(|v| early.get(v)).map_or(u32::MAX, |(at, _)| *at);
            for v in args(inst) {
                early.entry(v).and_modify(|(_, until)| *until = at.max(*until));
            }
        }
        for v in &turned {
            early.entry(*v).and_modify(|(_, until)| *until = u32::MAX);
        }
        let carried = |depth: u32| early.iter().filter(move |(_, (at, until))| *at <= depth && depth < *until);
        let depths: BTreeSet<u32> = early.values().map(|(at, _)| *at).collect();
        let wanted = chain * (stages - 1) / stages;
        let counted = depths.into_iter().map(|depth| (depth, carried(depth).count()));
        let (depth, _) = counted
            .filter(|(_, count)| (1..=CARRIED).contains(count))
            .min_by_key(|(depth, count)| depth.abs_diff(wanted) + 2 * *count as u32)?;
        let carried: BTreeSet<Value> = carried(depth).map(|(v, _)| *v).collect();
        let first = needed(carried.iter().copied().collect(), &[], &BTreeSet::new());
        let second = needed(turned, &ended, &carried);
        let more = needed(vec![found.more], &[], &BTreeSet::new());
        Some(Cut { first, second, carried: carried.into_iter().collect(), more, left: stages - 1 })
    }
}

/// Cycles after the operands of an instruction until its result is there: about those of LLVM's model of Zen 4.
fn latency(function: &Function, inst: Inst) -> u32 {
    let dfg = &function.dfg;
    let Some(&result) = dfg.inst_results(inst).first() else { return 0 };
    let ty = dfg.value_type(result);
    match dfg.insts[inst].opcode() {
        // Addresses and counters are ahead of everything.
        _ if !ty.is_vector() && ty.is_int() => 0,
        Opcode::Vconst | Opcode::F32const | Opcode::F64const | Opcode::Bitcast => 0,
        Opcode::Load => 5,
        Opcode::Fdiv => 11,
        Opcode::Sqrt => 15,
        Opcode::Fma => 4,
        Opcode::Fadd | Opcode::Fsub | Opcode::Fmul | Opcode::FcvtFromSint | Opcode::Nearest => 3,
        _ => 1,
    }
}

/// The arguments of a jump.
fn arguments(function: &Function, call: BlockCall) -> Vec<Value> {
    let values = call.args(&function.dfg.value_lists).filter_map(|arg| arg.as_value());
    values.map(|v| function.dfg.resolve_aliases(v)).collect()
}

fn passed(values: &[Value]) -> Vec<BlockArg> {
    values.iter().map(|v| BlockArg::Value(*v)).collect()
}

fn renamed(known: &BTreeMap<Value, Value>, v: Value) -> Value {
    known.get(&v).copied().unwrap_or(v)
}

/// Appends copies of instructions to a block, with other names for what is known by another.
fn copy(function: &mut Function, insts: &[Inst], block: Block, known: &mut BTreeMap<Value, Value>) {
    for &inst in insts {
        let dfg = &mut function.dfg;
        let new = dfg.clone_inst(inst);
        function.srclocs[new] = function.srclocs[inst];
        let dfg = &mut function.dfg;
        let values: Vec<Value> = dfg.inst_values(inst).map(|v| renamed(known, dfg.resolve_aliases(v))).collect();
        dfg.overwrite_inst_values(new, values.into_iter());
        known.extend(dfg.inst_results(inst).iter().copied().zip(dfg.inst_results(new).iter().copied()));
        function.layout.append_inst(new, block);
    }
}
