//! Instructions that are written in fewer steps where it is known what their operands are: the same bits.

use fusewright_graph::{DType, Literal, NanRule, ReduceOp, ScalarFn, num};

use super::Column;
use super::gates::{self, Gate};
use crate::kernel::{Inst, InstOp, Over, Segment, Shape, Val};

/// The definitions of a segment's values, and how often each is used.
pub(super) struct Forms<'s> {
    segment: &'s Segment,
    defined: Vec<usize>,
    uses: Vec<u32>,
}

/// What an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// The exponential of a negative.
    ExpOfNegative { x: Val },
    /// The exponential of what is not above 0; whether it is used for its share of a sum of all of its row alone.
    ExpBelowOne { x: Val, share: bool },
    /// A sum of 1 and an exponential that is used nowhere else.
    OnePlusExp { one: Val, x: Val, negative: bool },
    /// A gate of a bf16 that is needed as a bf16 only.
    Narrow(Gate),
    /// A conversion of what lies within bounds that the conversion has anyway: of the value without them.
    Unbounded { x: Val },
    /// A comparison of the number of each lane with a scalar, both as `i64`: masks of attention are made of these. Vectors
    /// hold more numbers as `i32`, which those of lanes are.
    LaneAgainst { lane: Val, scalar: Val, lane_first: bool },
    /// A conversion of a sum of two numbers of at most 32 bits that was made in 64 and kept between bounds of 32: codes with
    /// a zero point are such sums. `bounds` are the functions that keep it, the inner one first.
    SumWithin { a: Val, b: Val, bounds: [(ScalarFn, i32); 2] },
    /// The lane of an extreme of floats that is not used itself.
    ExtremeLane { op: ReduceOp, x: Val },
    /// An extreme of floats that may be zeros of both signs, where someone sees the sign.
    ExtremeOfZeros { op: ReduceOp, x: Val },
}

/// What [`Form::LaneAgainst`] compares by.
pub(super) const ORDERINGS: [ScalarFn; 6] =
    [ScalarFn::Eq, ScalarFn::Ne, ScalarFn::Lt, ScalarFn::Le, ScalarFn::Gt, ScalarFn::Ge];

impl<'s> Forms<'s> {
    pub(super) fn of(segment: &'s Segment) -> Self {
        let mut forms = Forms { segment, defined: vec![0; segment.types.len()], uses: vec![0; segment.types.len()] };
        for (at, inst) in segment.insts.iter().enumerate() {
            inst.results.iter().for_each(|v| forms.defined[v.0 as usize] = at);
            inst.args.iter().for_each(|v| forms.uses[v.0 as usize] += 1);
        }
        forms
    }

    /// The form of an instruction, if it has one.
    pub(super) fn form(&self, inst: &Inst, column: Column) -> Option<Form> {
        // Few steps or one instruction give as many digits as a bf16 has.
        let gate = gates::narrow(self.segment, &self.defined, inst).filter(|gate| match gate {
            Gate::Sigmoid { .. } => column == Column::Cuda,
            // Where the exponential is an instruction, the function made of it is short.
            Gate::OnePlusTanh { .. } => !column.is_native(ScalarFn::Exp),
        });
        if let Some(gate) = gate {
            return Some(Form::Narrow(gate));
        }
        match (&inst.op, inst.args.as_slice()) {
            (InstOp::Map(ScalarFn::Exp), &[x]) if self.is_below_greatest(x) => {
                Some(Form::ExpBelowOne { x, share: self.is_share(inst.results[0]) })
            }
            (InstOp::Map(ScalarFn::Exp), &[x]) => {
                let x = self.f32_map(x, ScalarFn::Neg)?[0];
                Some(Form::ExpOfNegative { x })
            }
            (InstOp::Map(ScalarFn::Add), &[a, b]) => self.one_plus_exp(a, b).or_else(|| self.one_plus_exp(b, a)),
            (InstOp::Map(f), &[a, b]) if ORDERINGS.contains(f) => {
                let against = |lane: Val, scalar: Val, lane_first: bool| {
                    let lane = self.lane(lane).filter(|_| matches!(self.segment.ty(scalar).shape, Shape::Scalar))?;
                    Some(Form::LaneAgainst { lane, scalar, lane_first })
                };
                against(a, b, true).or_else(|| against(b, a, false))
            }
            (&InstOp::ArgReduce(op), &[x]) if self.uses[inst.results[0].0 as usize] == 0 => {
                let dtype = self.segment.ty(x).dtype;
                matches!(dtype, DType::F32 | DType::BF16 | DType::F16).then_some(Form::ExtremeLane { op, x })
            }
            // The maximum of zeros is any of them on NPUs.
            (&InstOp::Reduce { op: op @ (ReduceOp::Max | ReduceOp::Min), .. }, &[x])
                if column == Column::Ascend
                    && self.segment.ty(x).dtype.is_float()
                    && !self.has_no_minus_zero(x)
                    && !self.is_subtracted_below_exp(inst.results[0]) =>
            {
                Some(Form::ExtremeOfZeros { op, x })
            }
            // It helps where vectors of 64-bit integers are short or missing. GPUs add 64 bits in two instructions.
            (InstOp::Cast { to, .. }, &[x]) if column == Column::Cpu && to.is_int() && to.bits() <= 32 => {
                self.sum_within(x)
            }
            (InstOp::Cast { to, saturate: true, .. }, &[x]) if to.is_float() => {
                let x = self.within(x, *to)?;
                Some(Form::Unbounded { x })
            }
            _ => None,
        }
    }

    /// The numbers of lanes that a value has as `i64`.
    fn lane(&self, v: Val) -> Option<Val> {
        let inst = self.inst(v);
        let wide = matches!(inst.op, InstOp::Cast { to: DType::I64, .. });
        inst.args.first().copied().filter(|x| wide && matches!(self.inst(*x).op, InstOp::Iota(_)))
    }

    fn inst(&self, v: Val) -> &'s Inst {
        &self.segment.insts[self.defined[v.0 as usize]]
    }

    /// The operands of a map on `f32`.
    fn f32_map(&self, v: Val, f: ScalarFn) -> Option<&'s [Val]> {
        let inst = self.inst(v);
        let found = matches!(inst.op, InstOp::Map(of) if of == f) && self.segment.ty(v).dtype == DType::F32;
        found.then_some(inst.args.as_slice())
    }

    fn float(&self, v: Val) -> Option<f64> {
        match self.inst(v).op {
            InstOp::Literal(Literal::Float(_, x)) => Some(x),
            _ => None,
        }
    }

    /// Whether a value is an element of a row less the greatest of them, or NaN.
    fn is_below_greatest(&self, v: Val) -> bool {
        let Some(&[x, greatest]) = self.f32_map(v, ScalarFn::Sub) else { return false };
        let inst = self.inst(greatest);
        inst.args == [x] && matches!(inst.op, InstOp::Reduce { op: ReduceOp::Max, nan: NanRule::Propagate, .. })
    }

    /// Whether a value is used in a sum of its row and in quotients by that sum alone.
    fn is_share(&self, v: Val) -> bool {
        let sums = |inst: &Inst| matches!(inst.op, InstOp::Reduce { op: ReduceOp::Add, over: Over::Row, .. });
        let is_sum = |sum: Val| sums(self.inst(sum)) && self.inst(sum).args == [v];
        let users = || self.segment.insts.iter().filter(|user| user.args.contains(&v));
        let share =
            |user: &Inst| matches!(user.op, InstOp::Map(ScalarFn::Div)) && user.args[0] == v && is_sum(user.args[1]);
        let only_divides = |sum: Val| self.segment.insts.iter().filter(|user| user.args.contains(&sum)).all(share);
        users().all(|user| share(user) || sums(user) && user.results.iter().all(|sum| only_divides(*sum)))
    }

    /// Says whether a value is a magnitude or another that is never −0, by the instruction that makes it.
    fn has_no_minus_zero(&self, v: Val) -> bool {
        let inst = self.inst(v);
        match (&inst.op, inst.args.as_slice()) {
            (InstOp::Map(ScalarFn::Abs | ScalarFn::Exp), _) => true,
            (InstOp::Map(ScalarFn::Mul), [a, b]) => a == b,
            (InstOp::Cast { .. } | InstOp::Broadcast(_), &[x]) => {
                // Of an integer, a zero is +0.
                !self.segment.ty(x).dtype.is_float() || self.has_no_minus_zero(x)
            }
            _ => false,
        }
    }

    /// Says whether a value is only taken from others of which only exponentials are made: 1 for a difference of either zero.
    fn is_subtracted_below_exp(&self, v: Val) -> bool {
        let users = |v: Val| self.segment.insts.iter().filter(move |user| user.args.contains(&v));
        let is_exp = |user: &Inst| matches!(user.op, InstOp::Map(ScalarFn::Exp | ScalarFn::Exp2));
        users(v).all(|user| match user.op {
            InstOp::Map(ScalarFn::Sub) => user.args[1] == v && users(user.results[0]).all(is_exp),
            InstOp::Broadcast(_) | InstOp::Cast { to: DType::F32, .. } => self.is_subtracted_below_exp(user.results[0]),
            _ => false,
        })
    }

    fn one_plus_exp(&self, one: Val, e: Val) -> Option<Form> {
        let x = self.f32_map(e, ScalarFn::Exp).filter(|_| self.uses[e.0 as usize] == 1)?[0];
        self.float(one).filter(|one| *one == 1.0)?;
        let negated = self.f32_map(x, ScalarFn::Neg).map(|args| args[0]);
        Some(Form::OnePlusExp { one, x: negated.unwrap_or(x), negative: negated.is_some() })
    }

    /// The value between bounds on both sides that a saturating conversion to a float has as well. NaN passes either
    /// way.
    fn within(&self, v: Val, to: DType) -> Option<Val> {
        if to == DType::F8E8M0 {
            return None;
        }
        let most = num::max_finite(to);
        let below = |v: Val| self.bounded(v, ScalarFn::Min).filter(|(_, bound)| *bound >= most);
        let above = |v: Val| self.bounded(v, ScalarFn::Max).filter(|(_, bound)| *bound <= -most);
        let x = below(v).and_then(|(x, _)| above(x)).or_else(|| above(v).and_then(|(x, _)| below(x)));
        x.map(|(x, _)| x)
    }

    /// A sum between bounds, all of 64 bits, whose operands and bounds have 32.
    fn sum_within(&self, v: Val) -> Option<Form> {
        let (bounded, outer) = self.int_bound(v)?;
        let (sum, inner) = self.int_bound(bounded)?;
        let &[a, b] = self.inst(sum).args.as_slice() else { return None };
        if self.inst(sum).op != InstOp::Map(ScalarFn::Add) || outer.0 == inner.0 {
            return None;
        }
        let narrow = |v: Val| {
            let inst = self.inst(v);
            let x = *inst.args.first().filter(|_| matches!(inst.op, InstOp::Cast { to: DType::I64, .. }))?;
            let dtype = self.segment.ty(x).dtype;
            (dtype.is_int() && dtype.bits() <= 32).then_some(x)
        };
        Some(Form::SumWithin { a: narrow(a)?, b: narrow(b)?, bounds: [inner, outer] })
    }

    /// Takes an extreme of an integer of 64 bits and a constant of 32 apart: the integer, the function, and the constant.
    fn int_bound(&self, v: Val) -> Option<(Val, (ScalarFn, i32))> {
        let inst = self.inst(v);
        let InstOp::Map(f @ (ScalarFn::Min | ScalarFn::Max)) = inst.op else { return None };
        let &[a, b] = inst.args.as_slice() else { return None };
        let literal = |v: Val| match self.inst(v).op {
            InstOp::Literal(Literal::Int(DType::I64, n)) => i32::try_from(n).ok(),
            _ => None,
        };
        [(a, b), (b, a)].into_iter().find_map(|(x, bound)| Some((x, (f, literal(bound)?))))
    }

    /// What an extreme with a constant is of, and the constant.
    fn bounded(&self, v: Val, f: ScalarFn) -> Option<(Val, f64)> {
        let inst = self.inst(v);
        let &[a, b] = inst.args.as_slice() else { return None };
        let sides = [(a, b), (b, a)].into_iter().filter(|_| matches!(inst.op, InstOp::Map(of) if of == f));
        sides.into_iter().find_map(|(x, bound)| Some((x, self.float(bound)?)))
    }
}
