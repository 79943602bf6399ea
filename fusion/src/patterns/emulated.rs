//! Codes that comparisons make of a value, as references of four-bit formats write them: by selections or by sums.

use std::collections::HashMap;

use fusewright_graph::{DType, Prim, ScalarFn, Value, num};

use super::skeleton::Skeleton;

/// Fewest comparisons that distinguish the magnitudes of e2m1.
const FEWEST: usize = 7;
/// Between two neighbours the nearest one changes: the numbers of interest are about these.
const MIDDLES: [f64; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
/// Code of −0.
const NEGATIVE_ZERO: f64 = 8.0;

/// Values that are the numbers of e2m1 nearest to a quotient or product, or their codes, and that quotient or product.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<(Value, Value)> {
    let maps = || s.nodes().filter_map(|(_, prim, node)| Some((map_of(prim)?, node.results[0])));
    let compares = |f| matches!(f, ScalarFn::Gt | ScalarFn::Ge | ScalarFn::Lt | ScalarFn::Le);
    if maps().filter(|&(f, _)| compares(f)).count() < FEWEST {
        return Vec::new();
    }
    let scaled: Vec<Value> =
        maps().filter(|(f, _)| matches!(f, ScalarFn::Mul | ScalarFn::Div)).map(|(_, v)| v).collect();
    let makes = |v: Value| {
        let dtype = s.body.ty(v).dtype;
        dtype.is_float() || dtype.is_int()
    };
    let results = maps().map(|(_, v)| v).filter(|&v| makes(v));
    results.filter_map(|v| Some((v, scaled.iter().copied().find(|&x| x != v && rounds(s, v, x))?))).collect()
}

fn map_of(prim: &Prim) -> Option<ScalarFn> {
    match prim {
        Prim::Map(f) => Some(*f),
        _ => None,
    }
}

/// Whether a value is the number of e2m1 that is nearest to `x`, or its code, by what it is about every number where that
/// changes. Which of two zeros a negative `x` gives is left open.
fn rounds(s: &Skeleton<'_>, value: Value, x: Value) -> bool {
    let largest = num::max_finite(DType::F4E2M1);
    let about = |m: f64| [m - m * 1e-6, m, m + m * 1e-6];
    let magnitudes = MIDDLES.into_iter().flat_map(about).chain([0.5, 1.0, largest, 2.0 * largest]);
    let is_code = s.body.ty(value).dtype.is_int();
    magnitudes.flat_map(|m| [m, -m]).chain([0.0]).all(|number| {
        let code = num::encode(DType::F4E2M1, number.clamp(-largest, largest));
        let nearest = num::decode(DType::F4E2M1, code);
        let found = of(s, value, x, number, &mut HashMap::new());
        found.is_some_and(|found| match is_code {
            true if nearest == 0.0 => found == 0.0 || found == NEGATIVE_ZERO,
            true => found == code as f64,
            false => found == nearest,
        })
    })
}

/// What a value is where nothing about its scale makes it zero, if something may: a selection between a zero and that.
fn unless_zeroed(s: &Skeleton<'_>, value: Value) -> Option<Value> {
    let (ScalarFn::Select, &[condition, yes, no]) = s.map(value)? else { return None };
    let (_, of_condition) = s.map(condition)?;
    let lanes = |v: Value| s.axes.flat(s.peel(v)).len();
    let zero = |v: Value| s.constant(v) == Some(0.0);
    let kept = if zero(yes) { no } else { Some(yes).filter(|_| zero(no))? };
    of_condition.iter().all(|&v| lanes(v) < lanes(kept)).then_some(kept)
}

/// What a value is where `x` is a number, if it depends on nothing else.
fn of(s: &Skeleton<'_>, value: Value, x: Value, number: f64, known: &mut HashMap<Value, Option<f64>>) -> Option<f64> {
    let value = s.peel(value);
    if value == s.peel(x) {
        return Some(number);
    }
    if let Some(found) = known.get(&value) {
        return *found;
    }
    let found = s.constant(value).or_else(|| {
        let (prim, node) = s.prim(value)?;
        if let Some(kept) = unless_zeroed(s, value) {
            return of(s, kept, x, number, known);
        }
        let operands: Option<Vec<f64>> = node.operands.iter().map(|&v| of(s, v, x, number, known)).collect();
        let operands = operands?;
        let dtype = s.body.ty(*node.operands.last()?).dtype;
        match prim {
            Prim::Map(f) if dtype.is_int() => {
                let whole: Vec<i64> = operands.iter().map(|&n| n as i64).collect();
                f.eval_int(&whole).map(|n| n as f64)
            }
            Prim::Map(f) => Some(f.eval(&operands)),
            Prim::Cast { .. } if !dtype.is_float() => Some(operands[0]),
            Prim::Bitcast { .. } if dtype == DType::F32 => {
                Some(f64::from((operands[0] as f32).to_bits().cast_signed()))
            }
            _ => None,
        }
    });
    known.insert(value, found);
    found
}
