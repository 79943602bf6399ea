//! Rows that are too long for unified buffer, or of a length that is known at run time: every lane becomes an inner row,
//! and each reduction a pass over the row that folds its tiles into accumulators. What is needed again is computed again
//! from what is loaded again. A segment's own inner rows are taken one by one.

use std::collections::BTreeMap;

use fusewright_graph::Dim;

use super::EmitError;
use super::segment::Made;
use crate::kernel::expand::rename_index;
use crate::kernel::{INNER, Inst, InstOp, LANE, Over, Segment, Shape, Ty, Val};

/// Symbol, and C++ variable, of the segment's own inner row, as [`INNER`] counts lanes.
pub(super) const INNER_ROW: &str = "innerRow";

/// One pass over the tiles of a row.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    /// Its instructions, each lane an inner row.
    pub segment: Segment,
    /// Inner rows of the segment that it is a pass over.
    pub inner_rows: Dim,
    /// Results of earlier passes, with their places among all results.
    pub given: Vec<(Val, u64)>,
    /// Reductions of this pass, with the places of their results.
    pub wanted: Vec<(Val, u64)>,
}

/// The passes of a segment.
///
/// # Errors
/// Something in it needs lanes beside each other.
pub(super) fn passes(segment: &Segment) -> Made<Vec<Pass>> {
    let lanes = row_lanes(segment)?;
    let rank = ranks(segment);
    let last = rank.iter().copied().max().unwrap_or(0);
    let slots: BTreeMap<Val, u64> = reductions(segment).enumerate().map(|(i, v)| (v, i as u64)).collect();
    let mut passes = Vec::new();
    for depth in 1..=last {
        let wanted: Vec<Val> = slots.keys().copied().filter(|v| rank[v.0 as usize] == depth).collect();
        let roots = |inst: &Inst| inst.results.iter().any(|v| wanted.contains(v));
        passes
            .push(Cutter::new(segment, &slots, &format!("{}Fold{depth}", segment.name), &lanes).cut(&roots, &wanted)?);
    }
    let stored = |inst: &Inst, row: bool| {
        let is_row = |v: &Val| matches!(segment.ty(*v).shape, Shape::Row(_));
        matches!(inst.op, InstOp::Store { .. }) && is_row(&inst.args[0]) == row
    };
    if segment.insts.iter().any(|inst| stored(inst, false)) {
        let name = format!("{}Scalars", segment.name);
        let one = Dim::constant(1);
        passes.push(Cutter::new(segment, &slots, &name, &one).cut(&|inst| stored(inst, false), &[])?);
    }
    if segment.insts.iter().any(|inst| stored(inst, true)) {
        let name = format!("{}Lanes", segment.name);
        passes.push(Cutter::new(segment, &slots, &name, &lanes).cut(&|inst| stored(inst, true), &[])?);
    }
    Ok(passes)
}

/// The one length that all rows have.
fn row_lanes(segment: &Segment) -> Made<Dim> {
    let mut found: Option<&Dim> = None;
    for ty in &segment.types {
        match (&ty.shape, found) {
            (Shape::Scalar, _) => {}
            (Shape::Row(lanes), None) => found = Some(lanes),
            (Shape::Row(lanes), Some(known)) if lanes == known => {}
            (shape, _) => return Err(EmitError::unsupported(format!("{shape} in a row that does not fit"))),
        }
    }
    found.cloned().ok_or_else(|| EmitError::unsupported("a segment without rows"))
}

fn reductions(segment: &Segment) -> impl Iterator<Item = Val> {
    let reduces = |inst: &&Inst| matches!(inst.op, InstOp::Reduce { over: Over::Row, .. });
    segment.insts.iter().filter(reduces).map(|inst| inst.results[0])
}

/// By value: how many passes it is behind.
fn ranks(segment: &Segment) -> Vec<usize> {
    let mut ranks = vec![0; segment.types.len()];
    for inst in &segment.insts {
        let own = usize::from(matches!(inst.op, InstOp::Reduce { over: Over::Row, .. }));
        let before = inst.args.iter().map(|v| ranks[v.0 as usize]).max().unwrap_or(0);
        inst.results.iter().for_each(|v| ranks[v.0 as usize] = before + own);
    }
    ranks
}

struct Cutter<'s> {
    from: &'s Segment,
    slots: &'s BTreeMap<Val, u64>,
    renamed: Vec<Val>,
    pass: Pass,
}

impl<'s> Cutter<'s> {
    fn new(from: &'s Segment, slots: &'s BTreeMap<Val, u64>, name: &str, inner: &Dim) -> Self {
        let segment = Segment { name: name.to_owned(), inner: inner.clone(), insts: Vec::new(), types: Vec::new() };
        let renamed = vec![Val(u32::MAX); from.types.len()];
        let pass = Pass { segment, inner_rows: from.inner.clone(), given: Vec::new(), wanted: Vec::new() };
        Cutter { from, slots, renamed, pass }
    }

    /// What the instructions at the root need.
    fn cut(mut self, roots: &dyn Fn(&Inst) -> bool, wanted: &[Val]) -> Made<Pass> {
        let mut needed = vec![false; self.from.types.len()];
        let mut kept = vec![false; self.from.insts.len()];
        for (at, inst) in self.from.insts.iter().enumerate().rev() {
            let result = inst.results.first().copied();
            let given = result.is_some_and(|v| self.slots.contains_key(&v) && !wanted.contains(&v));
            let used = inst.results.iter().any(|v| needed[v.0 as usize]);
            if roots(inst) || (used && !given) {
                kept[at] = true;
                inst.args.iter().for_each(|v| needed[v.0 as usize] = true);
                if let Some(index) = inst.op.index() {
                    let mut names = std::collections::BTreeSet::new();
                    index.collect_symbols(&mut names);
                    names.iter().filter_map(|n| Val::from_symbol(n)).for_each(|v| needed[v.0 as usize] = true);
                }
            }
        }
        let given: Vec<Val> =
            self.slots.keys().copied().filter(|v| needed[v.0 as usize] && !wanted.contains(v)).collect();
        for old in given {
            let new = self.value(old);
            self.pass.given.push((new, self.slots[&old]));
        }
        for (inst, _) in self.from.insts.iter().zip(&kept).filter(|(_, kept)| **kept) {
            self.inst(inst)?;
        }
        for old in wanted {
            self.pass.wanted.push((self.renamed[old.0 as usize], self.slots[old]));
        }
        Ok(self.pass)
    }

    /// The value under its new number, with one lane for every row.
    fn value(&mut self, old: Val) -> Val {
        let ty = self.from.ty(old);
        let shape = if ty.shape == Shape::Scalar { Shape::Scalar } else { Shape::Row(Dim::constant(1)) };
        self.pass.segment.types.push(Ty { dtype: ty.dtype, shape });
        let new = Val(self.pass.segment.types.len() as u32 - 1);
        self.renamed[old.0 as usize] = new;
        new
    }

    fn inst(&mut self, inst: &Inst) -> Made<()> {
        let by_inner = |index: &Dim| {
            index.substitute(&|name| match name {
                LANE => Some(Dim::symbol(INNER)),
                INNER => Some(Dim::symbol(INNER_ROW)),
                _ => None,
            })
        };
        let one = |shape: &Shape| if *shape == Shape::Scalar { Shape::Scalar } else { Shape::Row(Dim::constant(1)) };
        let op = match rename_index(&inst.op, &self.renamed) {
            InstOp::Load { param, index, shape, otherwise: None } => {
                InstOp::Load { param, index: by_inner(&index), shape: one(&shape), otherwise: None }
            }
            InstOp::Store { param, index, otherwise: None } => {
                InstOp::Store { param, index: by_inner(&index), otherwise: None }
            }
            InstOp::Broadcast(shape) => InstOp::Broadcast(one(&shape)),
            InstOp::Index(index) => InstOp::Index(by_inner(&index)),
            op @ (InstOp::Literal(_)
            | InstOp::Iota(_)
            | InstOp::Map(_)
            | InstOp::Bitcast(_)
            | InstOp::Cast { .. }
            | InstOp::Reduce { over: Over::Row, .. }) => op,
            other => return Err(EmitError::unsupported(format!("`{}` of a row that does not fit", other.name()))),
        };
        let args = inst.args.iter().map(|v| self.renamed[v.0 as usize]).collect();
        let results = inst.results.iter().map(|v| self.value(*v)).collect();
        self.pass.segment.insts.push(Inst { op, args, results });
        Ok(())
    }
}
