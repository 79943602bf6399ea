//! Vector constants of inner loops, moved before the loop as far as registers go.
//!
//! A vector constant is a load in every pass unless a register holds it. The optimiser would move all of them, and spill
//! most; here those that a pass uses most are moved, as many as registers are left by what it computes.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Block, Function, Inst, InstBuilder, InstructionData, Opcode, Value};

/// Vector registers, less one for a constant that is not moved.
const REGISTERS: usize = 15;
/// Registers that constants get at least: a pass that needs more spills something that it uses less.
const LEAST: usize = 5;

/// Moves the most used vector constants out of every innermost loop.
pub(super) fn hoist(function: &mut Function) {
    let blocks: Vec<Block> = function.layout.blocks().collect();
    for block in blocks {
        if let Some(before) = preheader(function, block) {
            hoist_from(function, block, before);
        }
    }
}

/// The block before a loop of one block.
pub(super) fn preheader(function: &Function, block: Block) -> Option<Block> {
    let targets = |b: Block| -> Vec<Block> {
        let Some(last) = function.layout.last_inst(b) else { return Vec::new() };
        let dfg = &function.dfg;
        let jumps = dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        jumps.iter().map(|jump| jump.block(&dfg.value_lists)).collect()
    };
    if !targets(block).contains(&block) {
        return None;
    }
    let mut outside = function.layout.blocks().filter(|&b| b != block && targets(b).contains(&block));
    let first = outside.next()?;
    outside.next().is_none().then_some(first)
}

fn hoist_from(function: &mut Function, block: Block, before: Block) {
    let mut uses: BTreeMap<(u32, String), Vec<Inst>> = BTreeMap::new();
    for inst in function.layout.block_insts(block) {
        if let InstructionData::UnaryConst { opcode: Opcode::Vconst, constant_handle } = function.dfg.insts[inst] {
            let ty = function.dfg.value_type(function.dfg.first_result(inst));
            uses.entry((constant_handle.as_u32(), ty.to_string())).or_default().push(inst);
        }
    }
    let mut groups: Vec<Vec<Inst>> = uses.into_values().collect();
    groups.sort_by_key(|insts| std::cmp::Reverse(insts.len()));
    let room = REGISTERS.saturating_sub(pressure(function, block)).max(LEAST);
    for insts in groups.into_iter().take(room) {
        let InstructionData::UnaryConst { constant_handle, .. } = function.dfg.insts[insts[0]] else { continue };
        let ty = function.dfg.value_type(function.dfg.first_result(insts[0]));
        let Some(last) = function.layout.last_inst(before) else { continue };
        let hoisted = FuncCursor::new(function).at_inst(last).ins().vconst(ty, constant_handle);
        for inst in insts {
            let old = function.dfg.first_result(inst);
            function.layout.remove_inst(inst);
            function.dfg.clear_results(inst);
            function.dfg.change_to_alias(old, hoisted);
        }
    }
}

/// The most vector registers that a loop of one block needs at once, its constants aside.
fn pressure(function: &Function, block: Block) -> usize {
    let dfg = &function.dfg;
    let in_register = |v: &Value| dfg.value_type(*v).is_vector() || dfg.value_type(*v).is_float();
    let is_constant = |v: &Value| {
        let defined = dfg.value_def(*v).inst();
        defined.is_some_and(|inst| dfg.insts[inst].opcode() == Opcode::Vconst)
    };
    let insts: Vec<Inst> = function.layout.block_insts(block).collect();
    let mut last: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, &inst) in insts.iter().enumerate() {
        let used = dfg.inst_values(inst).map(|v| dfg.resolve_aliases(v));
        last.extend(used.filter(|v| in_register(v) && !is_constant(v)).map(|v| (v, at)));
    }
    let results: BTreeSet<Value> = insts.iter().flat_map(|&inst| dfg.inst_results(inst)).copied().collect();
    // What comes from outside or from the pass before is there all along.
    let mut live = last.keys().filter(|v| !results.contains(v)).count();
    let mut most = live;
    let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
    last.iter().filter(|(v, _)| results.contains(v)).for_each(|(_, at)| *ends.entry(*at).or_default() += 1);
    for (at, &inst) in insts.iter().enumerate() {
        live -= ends.get(&at).copied().unwrap_or(0);
        live += dfg.inst_results(inst).iter().filter(|v| last.contains_key(v)).count();
        most = most.max(live);
    }
    most
}
