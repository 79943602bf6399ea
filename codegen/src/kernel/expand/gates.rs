//! Functions that gate activations, and where one of a bf16 is needed as a bf16 only: there instructions that are right in
//! more bits than that give what exact functions give.

use fusewright_graph::{DType, Literal, Rounding, ScalarFn};

use super::emit::Emit;
use crate::kernel::{Inst, InstOp, Segment, Shape, Val};

/// A gate as instructions spell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// `over / (one + exp(−x))`, of `x` itself or of 1.
    Sigmoid { over: Val, one: Val, x: Val },
    /// `one + tanh(u)`.
    OnePlusTanh { one: Val, u: Val },
}

/// The gate that an instruction is.
fn gate(segment: &Segment, defined: &[usize], inst: &Inst) -> Option<Gate> {
    let maps = Maps { segment, defined };
    let InstOp::Map(f) = inst.op else { return None };
    match (f, inst.args.as_slice()) {
        (ScalarFn::Div, &[over, divisor]) => {
            let &[a, b] = maps.args(divisor, ScalarFn::Add)? else { return None };
            let of = |one: Val, power: Val| {
                let x = *maps.args(*maps.args(power, ScalarFn::Exp)?.first()?, ScalarFn::Neg)?.first()?;
                let fits = maps.is(one, 1.0) && (over == x || maps.is(over, 1.0));
                fits.then_some(Gate::Sigmoid { over, one, x })
            };
            of(a, b).or_else(|| of(b, a))
        }
        (ScalarFn::Add, &[a, b]) => {
            let of = |one: Val, tanh: Val| {
                let u = *maps.args(tanh, ScalarFn::Tanh)?.first()?;
                maps.is(one, 1.0).then_some(Gate::OnePlusTanh { one, u })
            };
            of(a, b).or_else(|| of(b, a))
        }
        _ => None,
    }
}

/// A gate that is of a bf16 and needed as a bf16 only.
pub(crate) fn narrow(segment: &Segment, defined: &[usize], inst: &Inst) -> Option<Gate> {
    let (maps, found) = (Maps { segment, defined }, gate(segment, defined, inst)?);
    let result = *inst.results.first()?;
    let fits = match found {
        Gate::Sigmoid { over, x, .. } if over == x => maps.is_narrow(x) && maps.is_rounded(result),
        // By itself, or in a product with its operand.
        Gate::Sigmoid { x, .. } => {
            let product = |user: &Inst| matches!(user.op, InstOp::Map(ScalarFn::Mul)) && user.args.contains(&x);
            let rounded = |user: &Inst| rounds(user) || product(user) && maps.is_rounded(user.results[0]);
            maps.is_narrow(x) && maps.users(result).all(rounded)
        }
        Gate::OnePlusTanh { u, .. } => {
            let x = maps.bent(u).filter(|x| maps.is_narrow(*x))?;
            maps.users(result).all(|user| {
                let half = user.args.iter().find(|arg| **arg != result).and_then(|arg| maps.scaled(*arg, 0.5));
                matches!(user.op, InstOp::Map(ScalarFn::Mul)) && half == Some(x) && maps.is_rounded(user.results[0])
            })
        }
    };
    fits.then_some(found)
}

impl Emit<'_> {
    /// A gate in the functions that it is made of, which the target has as one.
    pub(super) fn whole_gate(&mut self, gate: Gate, new: impl Fn(Val) -> Val) -> Val {
        match gate {
            Gate::Sigmoid { over, one, x } => {
                let negative = self.raw(ScalarFn::Neg, &[new(x)]);
                let power = self.raw(ScalarFn::Exp, &[negative]);
                let divisor = self.add(new(one), power);
                self.div(new(over), divisor)
            }
            Gate::OnePlusTanh { one, u } => {
                let tanh = self.raw(ScalarFn::Tanh, &[new(u)]);
                self.add(new(one), tanh)
            }
        }
    }
}

/// `0.044715` and `√(2/π)` of `gelu`'s approximation.
const CUBIC: f64 = 0.044_715;
const BETA: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;

/// Maps on `f32` by what they are of.
struct Maps<'s> {
    segment: &'s Segment,
    defined: &'s [usize],
}

impl<'s> Maps<'s> {
    fn inst(&self, v: Val) -> &'s Inst {
        &self.segment.insts[self.defined[v.0 as usize]]
    }

    fn args(&self, v: Val, f: ScalarFn) -> Option<&'s [Val]> {
        let inst = self.inst(v);
        let found = matches!(inst.op, InstOp::Map(of) if of == f) && self.segment.ty(v).dtype == DType::F32;
        found.then_some(inst.args.as_slice())
    }

    /// Whether a value is a number, rounded to `f32`.
    fn is(&self, v: Val, number: f64) -> bool {
        matches!(self.inst(v).op, InstOp::Literal(Literal::Float(_, value)) if value as f32 == number as f32)
    }

    /// What a number is multiplied with in a product.
    fn scaled(&self, v: Val, number: f64) -> Option<Val> {
        let &[a, b] = self.args(v, ScalarFn::Mul)? else { return None };
        if self.is(b, number) { Some(a) } else { Some(b).filter(|_| self.is(a, number)) }
    }

    /// The `x` of `(x + x³·0.044715)·√(2/π)` or of `(x·√(2/π))·(1 + (x·0.044715)·x)`.
    fn bent(&self, u: Val) -> Option<Val> {
        let both = |v: Val, f: ScalarFn| match self.args(v, f) {
            Some(&[a, b]) => [(a, b), (b, a)],
            _ => [(v, v); 2],
        };
        let by_cube = || {
            let sum = self.scaled(u, BETA)?;
            both(sum, ScalarFn::Add).into_iter().find_map(|(x, rest)| {
                let cube = self.scaled(rest, CUBIC)?;
                let square =
                    both(cube, ScalarFn::Mul).into_iter().find_map(|(square, by)| (by == x).then_some(square))?;
                (self.args(square, ScalarFn::Mul)? == [x, x]).then_some(x)
            })
        };
        let by_slope = || {
            both(u, ScalarFn::Mul).into_iter().find_map(|(start, slope)| {
                let x = self.scaled(start, BETA)?;
                let bend =
                    both(slope, ScalarFn::Add).into_iter().find_map(|(one, b)| self.is(one, 1.0).then_some(b))?;
                let part = both(bend, ScalarFn::Mul).into_iter().find_map(|(part, by)| (by == x).then_some(part))?;
                (self.scaled(part, CUBIC)? == x).then_some(x)
            })
        };
        by_cube().or_else(by_slope)
    }

    fn users(&self, v: Val) -> impl Iterator<Item = &'s Inst> {
        self.segment.insts.iter().filter(move |user| user.args.contains(&v))
    }

    /// Whether lanes are those of a bf16.
    fn is_narrow(&self, x: Val) -> bool {
        let from = self.inst(x);
        let converted = matches!(from.op, InstOp::Cast { .. }) && self.segment.ty(from.args[0]).dtype == DType::BF16;
        converted && matches!(self.segment.ty(x).shape, Shape::Row(_))
    }

    /// Whether a value is only rounded to bf16.
    fn is_rounded(&self, v: Val) -> bool {
        self.users(v).all(rounds)
    }
}

fn rounds(user: &Inst) -> bool {
    matches!(user.op, InstOp::Cast { to: DType::BF16, round: Rounding::NearestEven, saturate: false })
}
