//! Functions of single elements: every choice of members lands inside.

use super::*;
use crate::interp::domain::CastTo;
use crate::interp::interval::{arith, convert, int, reduce};
use crate::interp::point::int_fn;
use crate::prim::NanBits;
use crate::scalar::{Accuracy, ScalarFn, Yields};
use crate::tensor::Data;

const INTS: [DType; 7] = [DType::I64, DType::U64, DType::I32, DType::I8, DType::U8, DType::U4, DType::Bool];

fn float_functions() -> impl Iterator<Item = ScalarFn> {
    let logical =
        [ScalarFn::And, ScalarFn::Or, ScalarFn::Xor, ScalarFn::Not, ScalarFn::Shl, ScalarFn::Shr, ScalarFn::Select];
    ScalarFn::ALL.iter().copied().filter(move |f| !logical.contains(f))
}

/// All ways to take one member of each.
fn choices<T: Copy>(members: &[Vec<T>]) -> Vec<Vec<T>> {
    members.iter().fold(vec![Vec::new()], |ways, list| {
        let extend = |way: &Vec<T>| list.iter().map(|&x| [way.as_slice(), &[x]].concat()).collect::<Vec<_>>();
        ways.iter().flat_map(extend).collect()
    })
}

#[test]
fn float_functions_hold_their_members() {
    let mut random = Random::new(1);
    let mut single = 0;
    for f in float_functions() {
        for dtype in FLOATS {
            for _ in 0..400 {
                let (ranges, members): (Vec<_>, Vec<_>) = (0..f.arity()).map(|_| random.interval(dtype)).unzip();
                for x in choices(&members) {
                    if f.spec().yields == Yields::Bool {
                        let range = int::truth(arith::compare(f, ranges[0], ranges[1]));
                        let truth = f.eval(&x) as i64;
                        assert!(range.contains(DType::Bool, truth), "{f:?} {dtype} {ranges:?} {x:?} {range:?}");
                        continue;
                    }
                    let range = arith::apply(f, dtype, &ranges);
                    let points: Vec<Interval> = x.iter().map(|&x| Interval::point(x)).collect();
                    let point = arith::apply(f, dtype, &points);
                    let inside = (point.is_empty() || (range.contains(point.lo) && range.contains(point.hi)))
                        && (range.nan || !point.nan);
                    assert!(inside, "{f:?} {dtype} of {ranges:?}: {range:?} lacks {point:?} of {x:?}");
                    let exact = f.spec().accuracy == Accuracy::Exact;
                    let sure = point.single().is_some() || (arith::is_extreme(f) && is_either_zero(point));
                    assert!(!exact || sure, "{f:?} {dtype} {x:?} {point:?}");
                    single += usize::from(point.single().is_some());
                }
            }
        }
    }
    assert!(single > 50_000, "{single}");
}

#[test]
fn exact_functions_of_points_are_what_points_give() {
    let mut random = Random::new(2);
    for f in float_functions().filter(|f| f.spec().accuracy == Accuracy::Exact && f.spec().yields == Yields::Operand) {
        for _ in 0..300 {
            let x: Vec<f64> = (0..f.arity()).map(|_| random.value(DType::F32)).collect();
            let point = if f == ScalarFn::Fma {
                num::fma(DType::F32, x[0], x[1], x[2])
            } else {
                num::round_to(DType::F32, f.eval(&x), Rounding::NearestEven, false)
            };
            let ranges: Vec<Interval> = x.iter().map(|&x| Interval::point(x)).collect();
            let signs = x.iter().any(|x| x.is_sign_negative()) && x.iter().any(|x| x.is_sign_positive());
            if arith::is_extreme(f) && signs && x.iter().all(|x| *x == 0.0) {
                assert_eq!(arith::apply(f, DType::F32, &ranges).single(), None, "{f:?}");
                continue;
            }
            let got = arith::apply(f, DType::F32, &ranges).single().expect("a single value");
            assert!(got.to_bits() == point.to_bits() || (got.is_nan() && point.is_nan()), "{f:?} {x:?}");
        }
    }
}

#[test]
fn bounds_are_tight_where_they_can_be() {
    let range = |lo, hi| Interval { lo, hi, nan: false };
    let apply = |f, x: &[Interval]| arith::apply(f, DType::F32, x);
    assert_eq!(apply(ScalarFn::Mul, &[range(-2.0, 3.0), range(-1.0, 4.0)]), range(-8.0, 12.0));
    assert_eq!(apply(ScalarFn::Div, &[range(1.0, 2.0), range(4.0, 8.0)]), range(0.125, 0.5));
    assert_eq!(apply(ScalarFn::Abs, &[range(-2.0, 1.0)]), range(0.0, 2.0));
    assert_eq!(apply(ScalarFn::Sqrt, &[range(4.0, 9.0)]), range(2.0, 3.0));
    assert_eq!(apply(ScalarFn::Sqrt, &[range(-9.0, -4.0)]), Interval::NAN);
    assert_eq!(apply(ScalarFn::Max, &[range(-1.0, 5.0), range(0.0, 2.0)]), range(0.0, 5.0));
    assert_eq!(apply(ScalarFn::MaxNum, &[Interval::NAN, range(0.0, 2.0)]), range(0.0, 2.0));
    assert_eq!(apply(ScalarFn::Rem, &[range(5.25, 5.5), range(2.0, 2.0)]), range(1.25, 1.5));
    assert_eq!(apply(ScalarFn::Exp, &[range(f64::NEG_INFINITY, f64::NEG_INFINITY)]), range(0.0, 0.0));
    assert_eq!(apply(ScalarFn::Sin, &[range(0.0, 0.0)]), range(0.0, 0.0));
    // The unit of 1 is twice that of the numbers below it.
    let (one, below) = (apply(ScalarFn::Exp2, &[range(0.0, 0.0)]), apply(ScalarFn::Exp2, &[range(-1e-8, 0.0)]));
    assert_eq!((one.lo, below.lo), (1.0 - 2f64.powi(-22), 1.0 - 2f64.powi(-22)));
    let sine = apply(ScalarFn::Sin, &[range(1.0, 2.0)]);
    assert!(sine.lo > 0.84 && sine.hi >= 1.0 && sine.hi < 1.000_001, "{sine:?}");
}

#[test]
fn library_functions_of_f32_lie_inside() {
    type Function = fn(f32) -> f32;
    let functions: [(ScalarFn, Function); 9] = [
        (ScalarFn::Exp, f32::exp),
        (ScalarFn::Exp2, f32::exp2),
        (ScalarFn::Log, f32::ln),
        (ScalarFn::Log2, f32::log2),
        (ScalarFn::Sin, f32::sin),
        (ScalarFn::Cos, f32::cos),
        (ScalarFn::Tanh, f32::tanh),
        (ScalarFn::Sqrt, f32::sqrt),
        (ScalarFn::Rsqrt, |x| 1.0 / x.sqrt()),
    ];
    let mut random = Random::new(3);
    for (f, foreign) in functions {
        for _ in 0..20_000 {
            let x = random.value(DType::F32);
            let range = arith::apply(f, DType::F32, &[Interval::point(x)]);
            let got = f64::from(foreign(x as f32));
            assert!(range.contains(got), "{f:?} {x:e}: {range:?} lacks {got:e}");
            let short = arith::apply(f, DType::BF16, &[Interval::point(num::decode(DType::BF16, random.next()))]);
            assert!(short.is_empty() || num::key(DType::BF16, short.hi) - num::key(DType::BF16, short.lo) <= 1);
        }
    }
}

#[test]
fn library_functions_of_two_f32_lie_inside() {
    type Function = fn(f32, f32) -> f32;
    let functions: [(ScalarFn, Function); 2] = [(ScalarFn::Atan2, f32::atan2), (ScalarFn::Hypot, f32::hypot)];
    let mut random = Random::new(7);
    for (f, foreign) in functions {
        for _ in 0..20_000 {
            let (a, b) = (random.value(DType::F32), random.value(DType::F32));
            let range = arith::apply(f, DType::F32, &[Interval::point(a), Interval::point(b)]);
            let got = f64::from(foreign(a as f32, b as f32));
            assert!(range.contains(got), "{f:?} {a:e} {b:e}: {range:?} lacks {got:e}");
        }
    }
}

#[test]
fn casts_hold_their_members() {
    let mut random = Random::new(4);
    for from in FLOATS {
        for to in FLOATS.into_iter().chain(INTS) {
            for round in Rounding::ALL {
                for saturate in [false, true] {
                    for _ in 0..40 {
                        let (range, members) = random.interval(from);
                        float_cast_holds(range, &members, from, CastTo { to, round, saturate });
                    }
                }
            }
        }
    }
}

fn float_cast_holds(range: Interval, members: &[f64], from: DType, cast: CastTo) {
    let CastTo { to, round, saturate } = cast;
    let x = Intervals::new(from, vec![1], Data::Float(vec![range])).expect("one element");
    match convert::cast(&x, cast).expect("one element") {
        Data::Float(out) => {
            for &x in members {
                let y = num::round_to(to, x, round, saturate);
                assert!(out[0].contains(y), "{from} {range:?} to {to} {round:?} {saturate}: {:?} lacks {y}", out[0]);
            }
        }
        Data::Int(out) => {
            for &x in members {
                let y = num::float_to_int(to, x, round, saturate);
                assert!(
                    out[0].contains(to, y),
                    "{from} {range:?} to {to} {round:?} {saturate}: {:?} lacks {y}",
                    out[0]
                );
            }
        }
    }
}

/// A range of integers with some of its members.
fn int_interval(random: &mut Random, dtype: DType) -> (IntRange, Vec<i64>) {
    let (least, greatest) = num::int_range(dtype);
    let mut value = || {
        let edge = [0, 1, least as i64, greatest as i64, 2, -1, 7];
        let v = if random.below(2) == 0 {
            edge[random.below(edge.len())]
        } else {
            random.next() as i64 >> random.below(64)
        };
        num::wrap_int(dtype, v)
    };
    let members = [value(), value()];
    let range = int::join(dtype, IntRange::point(members[0]), IntRange::point(members[1]));
    (range, members.to_vec())
}

#[test]
fn integer_functions_and_casts_hold_their_members() {
    let mut random = Random::new(5);
    let defined = |f: &&ScalarFn| **f != ScalarFn::Select && f.eval_int(&[1, 1, 1]).is_some();
    for &f in ScalarFn::ALL.iter().filter(defined) {
        for dtype in INTS {
            for _ in 0..300 {
                let (ranges, members): (Vec<_>, Vec<_>) =
                    (0..f.arity()).map(|_| int_interval(&mut random, dtype)).unzip();
                let range = int::apply(f, dtype, &ranges);
                let to = if f.spec().yields == Yields::Bool { DType::Bool } else { dtype };
                for x in choices(&members) {
                    let y = int_fn(f, dtype, &x);
                    assert!(range.contains(to, y), "{f:?} {dtype} {ranges:?}: {range:?} lacks {y} of {x:?}");
                }
            }
        }
    }
    for (from, to) in INTS.into_iter().flat_map(|from| INTS.into_iter().chain(FLOATS).map(move |to| (from, to))) {
        for saturate in [false, true] {
            for _ in 0..60 {
                let (range, members) = int_interval(&mut random, from);
                let cast = CastTo { to, round: Rounding::NearestEven, saturate };
                let x = Intervals::new(from, vec![1], Data::Int(vec![range])).expect("one element");
                match convert::cast(&x, cast).expect("one element") {
                    Data::Int(out) => assert!(members.iter().all(|&v| {
                        let y = if saturate { num::saturate_int(from, v, to) } else { num::wrap_int(to, v) };
                        out[0].contains(to, y)
                    })),
                    Data::Float(out) => assert!(members.iter().all(|&v| {
                        out[0].contains(num::int_to_float(from, v, to, Rounding::NearestEven, saturate))
                    })),
                }
            }
        }
    }
}

#[test]
fn codes_of_ranges_hold_their_members() {
    let mut random = Random::new(6);
    let pairs =
        [(DType::F32, DType::I32), (DType::F16, DType::BF16), (DType::F8E4M3, DType::U8), (DType::F8E8M0, DType::I8)];
    for (from, to) in pairs {
        for _ in 0..2000 {
            let (range, members) = random.interval(from);
            let x = Intervals::new(from, vec![1], Data::Float(vec![range])).expect("one element");
            for &member in &members {
                let code = num::encode(from, member);
                let inside = match convert::bitcast(&x, to, NanBits::One).expect("one element") {
                    Data::Float(out) => out[0].contains(num::decode(to, code)),
                    Data::Int(out) => out[0].contains(to, num::decode_int(to, code)),
                };
                assert!(inside, "{from} {range:?} as {to} lacks the bits of {member}");
            }
        }
    }
    let nibbles = [(0.5, 1.0), (2.0, 2.0)].map(|(lo, hi)| Interval { lo, hi, nan: false });
    let x = Intervals::new(DType::F4E2M1, vec![2], Data::Float(nibbles.to_vec())).expect("two elements");
    let packed = convert::pack(&x, 2, DType::U8).expect("one byte");
    assert_eq!(packed, Data::Int(vec![IntRange { lo: 0x41, hi: 0x42 }]));
}

#[test]
fn zeros_of_both_signs_have_either_as_their_extreme() {
    let range = |lo, hi| Interval { lo, hi, nan: false };
    let point = Interval::point;
    let either = range(-0.0, 0.0);
    let bits = |x: Interval| (x.lo.to_bits(), x.hi.to_bits());
    let apply = |f, x: &[Interval]| arith::apply(f, DType::F32, x);
    for f in [ScalarFn::Max, ScalarFn::Min, ScalarFn::MaxNum, ScalarFn::MinNum] {
        assert_eq!(bits(apply(f, &[point(-0.0), point(0.0)])), bits(either), "{f:?}");
        assert_eq!(apply(f, &[point(-0.0), point(-0.0)]).single().map(f64::to_bits), Some((-0.0f64).to_bits()));
        assert_eq!(apply(f, &[point(0.0), point(0.0)]).single().map(f64::to_bits), Some(0));
    }
    // A negative number is no zero: the maximum is the zero that is there.
    assert_eq!(bits(apply(ScalarFn::Max, &[range(-2.0, -1.0), point(0.0)])), bits(point(0.0)));
    assert_eq!(bits(apply(ScalarFn::Max, &[range(-2.0, 1.0), point(0.0)])), bits(range(-0.0, 1.0)));
    assert_eq!(bits(apply(ScalarFn::Min, &[range(-2.0, 1.0), point(-0.0)])), bits(range(-2.0, 0.0)));
    for op in [crate::ReduceOp::Max, crate::ReduceOp::Min] {
        let row = [point(0.0), point(-0.0)];
        for nan in [crate::NanRule::Propagate, crate::NanRule::Ignore] {
            assert_eq!(bits(reduce::reduce(op, nan, DType::F32, &row)), bits(either), "{op:?}");
        }
    }
}

#[test]
fn a_nan_that_is_kept_may_have_any_code_of_a_nan() {
    for (from, to) in [("f8e4m3", "u8"), ("f8e5m2", "i8"), ("f8e8m0", "u8"), ("bf16", "i16"), ("f16", "u16")] {
        let dtype: DType = from.parse().expect("a dtype");
        let count = 1usize << dtype.bits();
        let bytes: Vec<u8> =
            (0..count).flat_map(|code| code.to_le_bytes()[..dtype.bits() as usize / 8].to_vec()).collect();
        let codes = Tensor::from_bytes(to.parse().expect("a dtype"), &[count], &bytes).expect("every code");
        let x = Tensor::from_bytes(dtype, &[count], &bytes).expect("every code");
        let read = |nan: &str| {
            let text =
                format!("graph @g(%x: {from}[{count}]) {{\n  %y = bitcast %x {{to = {to}{nan}}}\n  return %y\n}}\n");
            let graph: crate::Graph = text.parse().expect("the text is right");
            let ranges =
                enclose(&graph, std::slice::from_ref(&x), &crate::interp::Symbols::new()).expect("has a value");
            ranges[0].check(&codes).expect("of one type")
        };
        // Where it is not kept, a NaN has one code.
        assert_eq!(read("").single_valued, count, "{from}");
        if from == "f8e8m0" {
            continue;
        }
        let report = read(", nan = kept");
        assert!(report.is_ok(), "{from}: {report:?}");
        // What is no NaN has its own code alone.
        let nans = (0..count as u64).filter(|&code| num::decode(dtype, code).is_nan()).count();
        assert!(report.single_valued + nans >= count, "{from}: {report:?}");
        assert!(report.single_valued < count, "{from}: {report:?}");
    }
}
