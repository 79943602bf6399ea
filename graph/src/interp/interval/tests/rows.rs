//! Reductions and products: every order and every choice of members lands inside.

use super::*;
use crate::interp::domain::{Head, Product};
use crate::interp::interval::{product, reduce};
use crate::interp::point::{arg_best, top_order};
use crate::prim::{NanRule, ReduceOp, Sdpa};

fn nearest(dtype: DType, x: f64) -> f64 {
    num::round_to(dtype, x, Rounding::NearestEven, false)
}

/// The sum in an order of its own, every partial sum rounded.
fn sum_somehow(random: &mut Random, dtype: DType, terms: &[f64]) -> f64 {
    let mut parts = terms.to_vec();
    while parts.len() > 1 {
        let x = parts.swap_remove(random.below(parts.len()));
        let at = random.below(parts.len());
        parts[at] = nearest(dtype, parts[at] + x);
    }
    parts.first().copied().unwrap_or(0.0)
}

fn points(values: &[f64]) -> Vec<Interval> {
    values.iter().map(|&x| Interval::point(x)).collect()
}

#[test]
fn sums_in_any_order_lie_inside() {
    let mut random = Random::new(11);
    for round in 0..4000 {
        let dtype = [DType::F32, DType::BF16, DType::F16][round % 3];
        let (ranges, members): (Vec<_>, Vec<_>) = match round % 4 {
            0 => (0..random.below(40)).map(|_| random.interval(dtype)).unzip(),
            _ => (0..random.below(60))
                .map(|_| nearest(dtype, random.unit() * 100.0))
                .map(|x| (Interval::point(x), vec![x]))
                .unzip(),
        };
        let range = reduce::reduce(ReduceOp::Add, NanRule::Propagate, dtype, &ranges);
        for _ in 0..4 {
            let terms: Vec<f64> = members.iter().map(|m| m[random.below(m.len())]).collect();
            let sum = sum_somehow(&mut random, dtype, &terms);
            assert!(range.contains(sum), "{dtype} {terms:?}: {range:?} lacks {sum}");
        }
    }
}

#[test]
fn sums_that_every_order_gives_are_single_values() {
    let sum = |values: &[f64]| reduce::reduce(ReduceOp::Add, NanRule::Propagate, DType::F32, &points(values));
    assert_eq!(sum(&[1.5; 4096]).single(), Some(6144.0));
    assert_eq!(sum(&[]).single(), Some(0.0));
    assert_eq!(sum(&[0.1f32.into(), 0.2f32.into()]).single(), Some(f64::from(0.1f32 + 0.2f32)));
    assert_eq!(sum(&[0.0, -0.0, 0.0]).single(), Some(0.0));
    assert!(sum(&[-0.0, -0.0, -0.0]).contains(-0.0));
    let three = sum(&[0.1f32.into(), 0.2f32.into(), 0.3f32.into()]);
    assert!(three.single().is_none() && three.hi - three.lo < 1e-6, "{three:?}");
    assert_eq!(sum(&[f64::INFINITY, 1.0, 2.0]).single(), Some(f64::INFINITY));
    assert!(sum(&[f64::INFINITY, 1.0, f64::NEG_INFINITY]).single().is_some_and(f64::is_nan));
    let over = sum(&[3e38, 3e38, -3e38]);
    assert!(over.contains(f64::INFINITY) && over.contains(nearest(DType::F32, 3e38)), "{over:?}");
}

#[test]
fn zeros_among_terms_round_nothing() {
    let sum = |values: &[f64]| reduce::reduce(ReduceOp::Add, NanRule::Propagate, DType::F32, &points(values));
    let (a, b) = (f64::from(0.1f32), f64::from(0.2f32));
    assert_eq!(sum(&[0.0, a, -0.0, 0.0]).single(), Some(a));
    assert_eq!(sum(&[0.0, a, 0.0, b, -0.0]).single(), Some(f64::from(0.1f32 + 0.2f32)));
    let few = [a, b, f64::from(0.3f32)];
    assert_eq!(sum(&[&few[..], &[0.0; 100]].concat()), sum(&few));
    let either = Interval::of(&[-0.0, 1.0]);
    let with =
        |zero: f64| reduce::reduce(ReduceOp::Add, NanRule::Propagate, DType::F32, &[either, Interval::point(zero)]);
    assert!(with(-0.0).contains(-0.0) && !with(0.0).contains(-0.0) && with(0.0).contains(0.0));
}

#[test]
fn products_and_extrema_hold_their_members() {
    let mut random = Random::new(12);
    for round in 0..4000 {
        let dtype = [DType::F32, DType::BF16][round % 2];
        let (ranges, members): (Vec<_>, Vec<_>) = (0..1 + random.below(6)).map(|_| random.interval(dtype)).unzip();
        for (op, nan) in [
            (ReduceOp::Mul, NanRule::Propagate),
            (ReduceOp::Max, NanRule::Propagate),
            (ReduceOp::Max, NanRule::Ignore),
            (ReduceOp::Min, NanRule::Ignore),
        ] {
            let range = reduce::reduce(op, nan, dtype, &ranges);
            let x: Vec<f64> = members.iter().map(|m| m[random.below(m.len())]).collect();
            let values = if op == ReduceOp::Mul {
                vec![x.iter().copied().reduce(|a, b| nearest(dtype, a * b)).unwrap_or(1.0)]
            } else {
                let extreme = reduce::reduce(op, nan, dtype, &points(&x));
                let both = vec![extreme.lo, extreme.hi];
                if is_either_zero(extreme) { both } else { vec![extreme.single().expect("extrema are exact")] }
            };
            for value in values {
                assert!(range.contains(value), "{op:?} {nan:?} {dtype} {ranges:?}: {range:?} lacks {value} of {x:?}");
            }
        }
    }
}

#[test]
fn places_hold_those_of_their_members() {
    let mut random = Random::new(13);
    let mut single = 0;
    for _ in 0..3000 {
        let (ranges, members): (Vec<_>, Vec<_>) =
            (0..2 + random.below(6)).map(|_| random.interval(DType::F8E4M3)).unzip();
        let x: Vec<f64> = members.iter().map(|m| m[random.below(m.len())]).collect();
        for op in [ReduceOp::Max, ReduceOp::Min] {
            let place = reduce::arg_floats(op, &ranges);
            let at = arg_best(op, x.iter().copied());
            assert!(place.contains(DType::I64, at), "{op:?} {ranges:?}: {place:?} lacks {at} of {x:?}");
            single += usize::from(place.single().is_some());
        }
        let (values, places) = reduce::top_floats(&ranges, 2);
        for (j, &i) in top_order(&x).iter().take(2).enumerate() {
            assert!(values[j].contains(x[i]), "{ranges:?} {x:?}");
            assert!(places[j].contains(DType::I64, i as i64), "{ranges:?}: {places:?} lack {i} of {x:?}");
        }
    }
    assert!(single > 600, "{single}");
}

#[test]
fn matrix_products_in_f32_lie_inside() {
    let mut random = Random::new(14);
    for round in 0..300 {
        let dtype = [DType::BF16, DType::F32, DType::F16][round % 3];
        let (m, n, k) = (1 + random.below(3), 1 + random.below(3), random.below(70));
        let mut operand = |count: usize| -> (Vec<Interval>, Vec<Vec<f64>>) {
            let entry = |_| match round % 5 {
                0 => random.interval(dtype),
                1 => {
                    let x = nearest(dtype, random.unit());
                    let members = vec![x, num::next_up(dtype, x)];
                    (Interval::of(&members), members)
                }
                _ => {
                    let x = nearest(dtype, random.unit() * 4.0);
                    (Interval::point(x), vec![x])
                }
            };
            (0..count).map(entry).unzip()
        };
        let ((a, some_a), (b, some_b)) = (operand(m * k), operand(n * k));
        let mut out = Vec::new();
        product::floats(Product { a: &a, b: &b, m, n, k, dtype, out: dtype }, &mut out);
        for (place, range) in out.iter().enumerate() {
            let (i, j) = (place / n, place % n);
            let terms: Vec<f64> = (0..k)
                .map(|l| {
                    let (x, y) = (&some_a[i * k + l], &some_b[j * k + l]);
                    nearest(DType::F32, x[random.below(x.len())] * y[random.below(y.len())])
                })
                .collect();
            let sum = nearest(dtype, sum_somehow(&mut random, DType::F32, &terms));
            assert!(range.contains(sum), "{dtype} k = {k}: {range:?} lacks {sum}; {terms:?}");
        }
    }
}

/// Attention in f32 with probabilities rounded to `dtype`, before or after normalising.
fn attention([q, k, v, bias]: [&[f64]; 4], dtype: DType, wide: bool, early: bool) -> f64 {
    let d = q.len();
    let f = |x: f64| x as f32;
    let dots = (0..v.len()).map(|j| q.iter().zip(&k[j * d..][..d]).fold(0.0f32, |s, (x, y)| s + f(*x) * f(*y)));
    let scores: Vec<f32> = dots.zip(bias).map(|(dot, bias)| dot * 0.25 + f(*bias)).collect();
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if largest == f32::NEG_INFINITY {
        return 0.0;
    }
    let weights: Vec<f32> = scores.iter().map(|s| (s - largest).exp()).collect();
    let total: f32 = weights.iter().sum();
    let short = |x: f32| if wide { x } else { f(nearest(dtype, x.into())) };
    let dot = |scale: f32| weights.iter().zip(v).fold(0.0f32, |s, (w, v)| s + short(w * scale) * f(*v));
    nearest(dtype, f64::from(if early { dot(1.0) / total } else { dot(1.0 / total) }))
}

#[test]
fn attention_in_f32_lies_inside() {
    let mut random = Random::new(15);
    let (mut single, mut elements) = (0, 0);
    for round in 0..400 {
        let dtype = [DType::BF16, DType::F32, DType::F16][round % 3];
        let (u, d) = (1 + random.below(40), 1 + random.below(16));
        let mut values =
            |count: usize| -> Vec<f64> { (0..count).map(|_| nearest(dtype, random.unit() * 3.0)).collect() };
        let (q, k, v) = (values(d), values(u * d), values(u));
        let attrs = Sdpa { causal: false, wide: round % 2 == 1, scale_bits: 0.25f64.to_bits() };
        let mut out = Vec::new();
        let (a, b, c) = (points(&q), points(&k), points(&v));
        // No mask, one that hides keys, one that pushes them far down.
        let hidden = [0.0, f64::NEG_INFINITY, f64::from(f32::MIN)][random.below(3)];
        let bias: Vec<f64> = (0..u)
            .map(|_| if random.below(3) == 0 { hidden } else { nearest(dtype, random.unit()) })
            .map(|x| if hidden == 0.0 { 0.0 } else { x })
            .collect();
        // A query all of whose keys are pushed down may see them all.
        if bias.iter().all(|&x| x == f64::from(f32::MIN)) {
            continue;
        }
        let mask = points(&bias);
        let mask = (hidden != 0.0).then_some(mask.as_slice());
        product::attend(Head { q: &a, k: &b, v: &c, t: 1, u, d, e: 1, dtype, attrs: &attrs, bias: mask }, &mut out);
        for early in [false, true] {
            let got = attention([&q, &k, &v, &bias], dtype, attrs.wide, early);
            assert!(out[0].contains(got), "{dtype} u = {u} d = {d}: {:?} lacks {got}", out[0]);
        }
        elements += 1;
        single += usize::from(out[0].single().is_some());
        let codes = num::key(dtype, out[0].hi) - num::key(dtype, out[0].lo);
        let scale = v.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        assert!(out[0].hi - out[0].lo <= scale * num::unit_roundoff(dtype) * 8.0 || dtype == DType::F32, "{codes}");
    }
    assert!(single > 0 && elements > 380, "{single} of {elements}");
}
