//! Runs of a row as rows of their own.
//!
//! What is added up over leading lanes is a sum of runs of one row. A product of a run is that of a run of each factor:
//! loads begin where the run does, and a factor that all lanes of a run share is one number, which is loaded once. Of rows
//! that are joined, a run is part of one.

use std::collections::BTreeMap;

use fusewright_graph::{Dim, ScalarFn};

use super::emit::Emitter;
use crate::kernel::{InstOp, LANE, Shape, Val};

/// One of the runs of equal length that a row has.
pub(super) struct Run<'a> {
    number: i64,
    len: &'a Dim,
    /// Which value of each row has been cut.
    known: BTreeMap<Val, Val>,
}

impl<'a> Run<'a> {
    pub fn new(number: i64, len: &'a Dim) -> Self {
        Run { number, len, known: BTreeMap::new() }
    }

    fn start(&self) -> Dim {
        self.len * &Dim::constant(self.number)
    }
}

impl Emitter<'_> {
    /// The lanes of a row in a run.
    pub(super) fn run(&mut self, row: Val, run: &mut Run<'_>) -> Result<Val, String> {
        match self.cut(row, run)? {
            Some(cut) => Ok(cut),
            None => self.sliced(row, run),
        }
    }

    fn sliced(&mut self, row: Val, run: &mut Run<'_>) -> Result<Val, String> {
        let slice = InstOp::Slice { start: run.start(), len: run.len.clone(), step: 1 };
        let cut = self.push(slice, &[row])?[0];
        run.known.insert(row, cut);
        Ok(cut)
    }

    /// A value in a run: lanes of a row, or the number that all lanes have. `None` where it has no such form of its own.
    fn cut(&mut self, value: Val, run: &mut Run<'_>) -> Result<Option<Val>, String> {
        if let Some(&known) = run.known.get(&value) {
            return Ok(Some(known));
        }
        let Some(inst) = self.segment.definition(value).cloned() else { return Ok(None) };
        let shape = match &self.segment.ty(value).shape {
            Shape::Scalar => return Ok(Some(value)),
            Shape::Group { size, .. } if size == run.len => Shape::Scalar,
            Shape::Group { .. } => return Ok(None),
            Shape::Row(_) => Shape::Row(run.len.clone()),
        };
        let (op, args) = match inst.op {
            InstOp::Load { param, index, otherwise: None, .. } => {
                let first = match shape {
                    Shape::Scalar => Dim::constant(run.number),
                    _ => &Dim::symbol(LANE) + &run.start(),
                };
                let index = index.substitute(&|name| (name == LANE).then(|| first.clone()));
                (InstOp::Load { param, index, shape: shape.clone(), otherwise: None }, Vec::new())
            }
            // A value that is kept of the row is not computed once more.
            op @ (InstOp::Cast { .. } | InstOp::Map(ScalarFn::Add | ScalarFn::Sub | ScalarFn::Mul | ScalarFn::Neg)) => {
                let mut args = Vec::with_capacity(inst.args.len());
                for &arg in &inst.args {
                    let cut = match self.cut(arg, run)? {
                        Some(cut) => cut,
                        None if matches!(self.segment.ty(arg).shape, Shape::Row(_)) => self.sliced(arg, run)?,
                        None => return Ok(None),
                    };
                    args.push(cut);
                }
                (op, args)
            }
            InstOp::Cat => {
                let Some((piece, start)) = self.piece(&inst.args, &run.start(), run.len) else { return Ok(None) };
                if self.segment.ty(piece).shape == shape {
                    run.known.insert(value, piece);
                    return Ok(Some(piece));
                }
                (InstOp::Slice { start, len: run.len.clone(), step: 1 }, vec![piece])
            }
            _ => return Ok(None),
        };
        let is_number = |v: &Val| self.segment.ty(*v).shape == Shape::Scalar;
        if shape != Shape::Scalar && !args.is_empty() && args.iter().all(is_number) {
            return Ok(None);
        }
        let cut = self.push(op, &args)?[0];
        run.known.insert(value, cut);
        Ok(Some(cut))
    }

    /// The row, of those that are joined, that has all of `len` lanes from `start` on, and where in it they begin.
    fn piece(&self, joined: &[Val], start: &Dim, len: &Dim) -> Option<(Val, Dim)> {
        let mut begin = Dim::constant(0);
        for &piece in joined {
            let Shape::Row(lanes) = &self.segment.ty(piece).shape else { return None };
            let (from, behind) = (start - &begin, &begin + lanes);
            let left = &(&behind - start) - len;
            // Of symbolic lengths, only whole rows are known to have all of them.
            let is_whole = from == Dim::constant(0) && left == Dim::constant(0);
            if is_whole || (from.as_const()? >= 0 && left.as_const().is_some_and(|left| left >= 0)) {
                return Some((piece, from));
            }
            begin = behind;
        }
        None
    }
}
