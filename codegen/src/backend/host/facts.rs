//! What can be told of values without computing them.

use fusewright_abi::DType;
use fusewright_graph::{Literal, ScalarFn, num};

use crate::kernel::{Inst, InstOp, Segment, Val};

/// What is known of an operand before it is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::backend) struct Known {
    /// The sign bit is clear, of a NaN too.
    pub sign_clear: bool,
    /// A finite constant other than zero.
    pub constant: bool,
    /// The constant +0.
    pub zero: bool,
    /// An f32 or bf16, or the bits of one, whose low 16 bits are clear if it is a NaN.
    pub short_nan: bool,
    /// An f32 whose low 16 bits are clear: a bf16 as it stands.
    pub short: bool,
    /// A float that is NaN or, rounded to an integer in any direction, an `i32`.
    pub bounded: bool,
    /// A float that is NaN or, rounded to an integer in any direction, of at most 23 bits.
    pub small: bool,
    /// A float that is no number with a fraction.
    pub integral: bool,
}

/// Facts about every value of a segment.
pub(in crate::backend) fn known_facts(segment: &Segment) -> Vec<Known> {
    let mut facts = vec![Known::default(); segment.types.len()];
    let mut sides = vec![(f64::NEG_INFINITY, f64::INFINITY); segment.types.len()];
    let mut low_clear = vec![false; segment.types.len()];
    for inst in &segment.insts {
        let args: Vec<Known> = inst.args.iter().map(|a| facts[a.0 as usize]).collect();
        let (sign_clear, constant) = sign(segment, inst, &args);
        let zero = is_zero(inst, &args);
        let (low, high) = bounds(inst, &inst.args.iter().map(|a| sides[a.0 as usize]).collect::<Vec<_>>(), &args);
        let within = |bound: f64| low >= -bound && high <= bound;
        let clear = has_low_clear(segment, inst, &low_clear);
        let known = Known {
            sign_clear,
            constant,
            zero,
            short_nan: short_nan(segment, inst, &args) || clear && matches!(inst.op, InstOp::Bitcast(DType::F32)),
            short: is_short(segment, inst, &args) || clear && matches!(inst.op, InstOp::Bitcast(DType::F32)),
            bounded: within(BOUND),
            small: within(SMALL),
            integral: is_integral(inst, &args),
        };
        for result in &inst.results {
            let at = result.0 as usize;
            (facts[at], sides[at], low_clear[at]) = (known, (low, high), clear);
        }
    }
    facts
}

/// Far inside what an `i32` holds, so that no rounding of a float leads out.
const BOUND: f64 = 1e9;
/// Added to `1.5 · 2²³`, what is no larger leaves it in its binade.
const SMALL: f64 = 4_194_000.0;

/// The least and the greatest that a value which is no NaN may be.
fn bounds(inst: &Inst, args: &[(f64, f64)], known: &[Known]) -> (f64, f64) {
    let unknown = (f64::NEG_INFINITY, f64::INFINITY);
    let least = |a: &(f64, f64), b: &(f64, f64)| (a.0.min(b.0), a.1.max(b.1));
    let all = |args: &[(f64, f64)]| args.iter().copied().reduce(|a, b| least(&a, &b)).unwrap_or(unknown);
    let (lower, upper) = all(args);
    // Where NaNs are passed over, only what is none bounds the result.
    let passes = matches!(inst.op, InstOp::Map(ScalarFn::MaxNum | ScalarFn::MinNum));
    let sure = || args.iter().zip(known).filter(|(_, known)| !passes || known.constant).map(|(a, _)| *a);
    match &inst.op {
        InstOp::Literal(Literal::Float(_, x)) if !x.is_nan() => (*x, *x),
        InstOp::Map(ScalarFn::Max | ScalarFn::MaxNum) => (sure().map(|a| a.0).fold(lower, f64::max), upper),
        InstOp::Map(ScalarFn::Min | ScalarFn::MinNum) => (lower, sure().map(|a| a.1).fold(upper, f64::min)),
        InstOp::Map(ScalarFn::RoundEven | ScalarFn::Floor | ScalarFn::Ceil | ScalarFn::Trunc)
        | InstOp::Slice { .. }
        | InstOp::Broadcast(_)
        | InstOp::Cat
        | InstOp::Zip => (lower, upper),
        InstOp::Map(ScalarFn::Select) => all(&args[1..]),
        // Formats of this range round to no more than half as much again.
        InstOp::Cast { to: DType::BF16 | DType::F32 | DType::F64, .. } => {
            (lower.min(lower * 1.5), upper.max(upper * 1.5))
        }
        _ => unknown,
    }
}

/// Whether a value is no number with a fraction.
fn is_integral(inst: &Inst, args: &[Known]) -> bool {
    match &inst.op {
        InstOp::Literal(Literal::Float(_, x)) => x.fract() == 0.0,
        InstOp::Map(ScalarFn::RoundEven | ScalarFn::Floor | ScalarFn::Ceil | ScalarFn::Trunc) => true,
        InstOp::Map(ScalarFn::Max | ScalarFn::MaxNum | ScalarFn::Min | ScalarFn::MinNum)
        | InstOp::Slice { .. }
        | InstOp::Broadcast(_)
        | InstOp::Cat
        | InstOp::Zip => args.iter().all(|a| a.integral),
        InstOp::Map(ScalarFn::Select) => args[1..].iter().all(|a| a.integral),
        _ => false,
    }
}

/// Whether a value is an f32 that a bf16 holds.
fn is_short(segment: &Segment, inst: &Inst, args: &[Known]) -> bool {
    if inst.results.first().is_none_or(|v| segment.ty(*v).dtype != DType::F32) {
        return false;
    }
    match &inst.op {
        InstOp::Literal(Literal::Float(_, x)) => (*x as f32).to_bits() & 0xffff == 0,
        // All floats and integers of a byte are bf16; the largest f32, which a saturating cast makes of infinities, is none.
        InstOp::Cast { saturate, .. } => {
            let from = segment.ty(inst.args[0]).dtype;
            let has_infinity = matches!(from, DType::F32 | DType::BF16 | DType::F8E5M2);
            !(*saturate && has_infinity) && (from == DType::BF16 || from.bits() <= 8 || args[0].short)
        }
        InstOp::Map(ScalarFn::Neg | ScalarFn::Abs)
        | InstOp::Slice { .. }
        | InstOp::Broadcast(_)
        | InstOp::Cat
        | InstOp::Zip => args.iter().all(|a| a.short),
        InstOp::Map(ScalarFn::Select) => args[1..].iter().all(|a| a.short),
        _ => false,
    }
}

/// Whether the low 16 bits of an `i32` value are clear.
fn has_low_clear(segment: &Segment, inst: &Inst, clear: &[bool]) -> bool {
    let all = || inst.args.iter().all(|a| clear[a.0 as usize]);
    match &inst.op {
        InstOp::Literal(Literal::Int(_, n)) => n & 0xffff == 0,
        InstOp::Map(ScalarFn::Shl) => literal_shift(segment, inst).is_some_and(|by| by >= 16),
        InstOp::Map(ScalarFn::And) => inst.args.iter().any(|a| clear[a.0 as usize]),
        InstOp::Map(ScalarFn::Add | ScalarFn::Sub | ScalarFn::Or) => all(),
        InstOp::Bitcast(DType::F32) => all(),
        _ => false,
    }
}

/// Whether the sign bit is clear, and whether it is a finite constant other than zero.
fn sign(segment: &Segment, inst: &Inst, args: &[Known]) -> (bool, bool) {
    let all = args.iter().all(|a| a.sign_clear);
    match &inst.op {
        InstOp::Literal(Literal::Float(dtype, x)) if !x.is_nan() => {
            let held = num::decode(*dtype, num::encode(*dtype, *x));
            (x.is_sign_positive(), held.is_finite() && held != 0.0)
        }
        InstOp::Map(ScalarFn::Abs) => (segment.ty(inst.args[0]).dtype == DType::F32, false),
        // A conversion keeps the sign, or makes a positive NaN. A wider format holds every constant of the narrower one.
        InstOp::Cast { to, .. } if to.is_float() && segment.ty(inst.args[0]).dtype.is_float() => {
            let widens = *to == DType::F32 && segment.ty(inst.args[0]).dtype.bits() < 32;
            (all && *to != DType::F64, widens && args[0].constant)
        }
        InstOp::Map(ScalarFn::Max)
        | InstOp::Slice { .. }
        | InstOp::Broadcast(_)
        | InstOp::AsRow
        | InstOp::AsGroup { .. } => (all, false),
        _ => (false, false),
    }
}

/// Says whether a value is the constant +0.
fn is_zero(inst: &Inst, args: &[Known]) -> bool {
    match &inst.op {
        InstOp::Literal(Literal::Float(dtype, x)) => num::decode(*dtype, num::encode(*dtype, *x)).to_bits() == 0,
        // Zeros keep their sign. One format has none.
        InstOp::Cast { to, .. } => to.is_float() && *to != DType::F8E8M0 && args[0].zero,
        InstOp::Broadcast(_) => args[0].zero,
        _ => false,
    }
}

/// Whether the low 16 bits are clear of every NaN that an f32 or bf16 value may be. An arithmetic instruction hands on
/// the NaN of an operand, made quiet, or makes one whose fraction is its first bit.
fn short_nan(segment: &Segment, inst: &Inst, args: &[Known]) -> bool {
    let result = inst.results.first().map(|v| segment.ty(*v).dtype);
    let operand = inst.args.first().map(|v| segment.ty(*v).dtype);
    let all = args.iter().all(|a| a.short_nan);
    match &inst.op {
        _ if result == Some(DType::BF16) => true,
        InstOp::Bitcast(DType::I32 | DType::F32) => all,
        InstOp::Map(ScalarFn::And | ScalarFn::Or) if result == Some(DType::I32) => {
            // The magnitude of one number, the sign of another.
            let [a, b] = [0, 1].map(|i| (args[i].short_nan, inst.args[i]));
            let magnitude = |v| literal_of(segment, v) == Some(i64::from(i32::MAX));
            let other =
                |v| if matches!(inst.op, InstOp::Map(ScalarFn::And)) { magnitude(v) } else { is_sign(segment, v) };
            a.0 && other(b.1) || b.0 && other(a.1)
        }
        _ if result != Some(DType::F32) => false,
        InstOp::Literal(Literal::Float(_, x)) => !x.is_nan(),
        InstOp::Cast { .. } => match operand {
            Some(DType::F32) => all,
            // Their NaNs have up to ten bits, of which the last are below the upper half.
            Some(DType::F16 | DType::F64) | None => false,
            Some(_) => true,
        },
        InstOp::Map(ScalarFn::Select) => args[1..].iter().all(|a| a.short_nan),
        InstOp::Map(f) => {
            let arithmetic = matches!(
                f,
                ScalarFn::Add
                    | ScalarFn::Sub
                    | ScalarFn::Mul
                    | ScalarFn::Div
                    | ScalarFn::Fma
                    | ScalarFn::Sqrt
                    | ScalarFn::Neg
                    | ScalarFn::Abs
            );
            arithmetic && all
        }
        InstOp::Slice { .. } | InstOp::Broadcast(_) | InstOp::Cat | InstOp::Zip => all,
        // Sums start from numbers.
        InstOp::Reduce { .. } => all,
        _ => false,
    }
}

/// An integer constant.
fn literal_of(segment: &Segment, v: Val) -> Option<i64> {
    match segment.insts.iter().find(|i| i.results.first() == Some(&v))?.op {
        InstOp::Literal(Literal::Int(_, n)) => Some(n),
        _ => None,
    }
}

/// Whether an `i32` has no bit but that of a sign.
fn is_sign(segment: &Segment, v: Val) -> bool {
    let inst = segment.insts.iter().find(|i| i.results.first() == Some(&v));
    let sign = |v: &Val| literal_of(segment, *v) == Some(i64::from(i32::MIN));
    inst.is_some_and(|inst| matches!(inst.op, InstOp::Map(ScalarFn::And)) && inst.args.iter().any(sign))
}

/// The number of bits, if an instruction shifts a signed 32- or 64-bit integer by a constant below its width.
pub(in crate::backend) fn literal_shift(segment: &Segment, inst: &Inst) -> Option<u32> {
    let InstOp::Map(ScalarFn::Shl | ScalarFn::Shr) = inst.op else { return None };
    let dtype = segment.ty(inst.args[0]).dtype;
    let by = segment.insts.iter().find(|i| i.results.first() == inst.args.get(1))?;
    match by.op {
        InstOp::Literal(Literal::Int(_, by)) if matches!(dtype, DType::I32 | DType::I64) => {
            u32::try_from(by).ok().filter(|by| *by < dtype.bits())
        }
        _ => None,
    }
}
