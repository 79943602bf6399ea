//! Between which bounds the `f32` values of a segment lie, NaN aside: what lets [`super::exact`] leave out the steps of
//! divisions and roots that are for operands which cannot come.

use fusewright_abi::DType;
use fusewright_graph::{Literal, ReduceOp, ScalarFn};

use crate::kernel::{Inst, InstOp, Segment, Val};

/// No value is between this and zero that a sum with, or a maximum of, an ordinary constant would show.
const TINY: f64 = 1.0 / (1u128 << 100) as f64;
/// A constant beside which what is tiny does not show.
const ORDINARY: f64 = 1.0 / (1u64 << 40) as f64;

/// Bounds of a value that is a number; infinity is within no upper bound.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Range {
    pub least: f64,
    /// The greatest finite value.
    pub most: f64,
}

impl Range {
    const ANY: Range = Range { least: f64::NEG_INFINITY, most: f32::MAX as f64 };
}

/// Bounds by value, and what uses each.
pub(super) struct Ranges<'s> {
    segment: &'s Segment,
    defining: &'s [usize],
    of: Vec<Range>,
}

impl<'s> Ranges<'s> {
    pub fn of(segment: &'s Segment, defining: &'s [usize]) -> Self {
        let of = vec![Range::ANY; segment.types.len()];
        let mut ranges = Ranges { segment, defining, of };
        for inst in &segment.insts {
            if let [result] = inst.results[..] {
                ranges.of[result.0 as usize] = ranges.result(inst);
            }
        }
        ranges
    }

    /// The bounds of a value.
    pub fn get(&self, value: Val) -> Range {
        self.of[value.0 as usize]
    }

    /// The constant that a value is.
    pub fn constant(&self, value: Val) -> Option<f64> {
        match self.segment.insts[self.defining[value.0 as usize]].op {
            InstOp::Literal(Literal::Float(DType::F32, x)) => Some(x),
            _ => None,
        }
    }

    /// Whether a value above zero is far from it, or wherever it is used it makes no difference how far.
    pub fn is_far_from_zero(&self, value: Val) -> bool {
        self.get(value).least >= TINY
    }

    /// Whether a value that is not negative is used only where its difference from zero does not show while that is tiny.
    pub fn hides_what_is_tiny(&self, value: Val) -> bool {
        let users = self.segment.insts.iter().filter(|inst| inst.args.contains(&value));
        let mut users = users.peekable();
        let used = users.peek().is_some();
        used && users.all(|user| match (&user.op, user.args.as_slice()) {
            (InstOp::Map(ScalarFn::Div), &[x, by]) if x == value => {
                self.constant(by).is_some_and(|by| by >= 1.0) && self.hides_what_is_tiny(user.results[0])
            }
            (InstOp::Map(ScalarFn::Add | ScalarFn::Max | ScalarFn::MaxNum), &[a, b]) => {
                self.constant(if a == value { b } else { a }).is_some_and(|constant| constant >= ORDINARY)
            }
            _ => false,
        })
    }

    fn result(&self, inst: &Inst) -> Range {
        let arg = |i: usize| inst.args.get(i).map_or(Range::ANY, |&value| self.get(value));
        let not_negative = Range { least: 0.0, ..Range::ANY };
        match &inst.op {
            InstOp::Literal(Literal::Float(_, x)) if x.is_finite() => Range { least: *x, most: *x },
            InstOp::Map(f) => self.map(*f, inst),
            InstOp::Reduce { op: ReduceOp::Add, .. } if arg(0).least >= 0.0 => not_negative,
            InstOp::Reduce { op: ReduceOp::Max | ReduceOp::Min, .. } | InstOp::Broadcast(_) => arg(0),
            InstOp::Cast { to: DType::F32, .. } if self.segment.ty(inst.args[0]).dtype.is_float() => arg(0),
            _ => Range::ANY,
        }
    }

    fn map(&self, f: ScalarFn, inst: &Inst) -> Range {
        // Rounding keeps the order, so that rounded bounds bound what is rounded.
        let rounded = |x: f64| f64::from(x as f32);
        let range = |least: f64, most: f64| Range { least: rounded(least), most: rounded(most).min(Range::ANY.most) };
        let values: Vec<Range> = inst.args.iter().map(|&value| self.get(value)).collect();
        match (f, values.as_slice()) {
            (ScalarFn::Abs, [_]) => Range { least: 0.0, ..Range::ANY },
            (ScalarFn::Mul, [_, _]) if inst.args[0] == inst.args[1] => Range { least: 0.0, ..Range::ANY },
            (ScalarFn::Add, [a, b]) => range(a.least + b.least, a.most + b.most),
            (ScalarFn::Max, [a, b]) => Range { least: a.least.max(b.least), most: a.most.max(b.most) },
            (ScalarFn::Min, [a, b]) => Range { least: a.least.min(b.least), most: a.most.min(b.most) },
            (ScalarFn::MaxNum, [a, b]) => {
                // A constant is no NaN, beside which the other might be what it is.
                let constants = inst.args.iter().filter_map(|&value| self.constant(value));
                let least = constants.fold(a.least.min(b.least), f64::max);
                Range { least, most: a.most.max(b.most) }
            }
            (ScalarFn::Div, [a, _]) => match self.constant(inst.args[1]) {
                Some(by) if by >= 1.0 && a.least >= 0.0 => range(a.least / by, a.most / by),
                _ => Range::ANY,
            },
            (ScalarFn::Sqrt, [a]) if a.least >= 0.0 => range(a.least.sqrt(), a.most.sqrt()),
            _ => Range::ANY,
        }
    }
}
