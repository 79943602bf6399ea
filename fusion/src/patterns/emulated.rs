//! Codes that comparisons and selections make of a value, as references of four-bit formats write them.

use std::collections::HashMap;

use fusewright_graph::{DType, Prim, ScalarFn, Value, num};

use super::skeleton::Skeleton;

/// Fewest selections that distinguish the magnitudes of e2m1.
const FEWEST: usize = 7;
/// Between two neighbours the nearest one changes: the numbers of interest are about these.
const MIDDLES: [f64; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];

/// Values that are those of e2m1 nearest to a quotient or product, and that quotient or product.
pub(super) fn find(s: &Skeleton<'_>) -> Vec<(Value, Value)> {
    let functions = |wanted: &[ScalarFn]| -> Vec<Value> {
        let found = s.nodes().filter(|(_, prim, _)| matches!(prim, Prim::Map(f) if wanted.contains(f)));
        found.map(|(_, _, node)| node.results[0]).collect()
    };
    let selections = functions(&[ScalarFn::Select]);
    if selections.len() < FEWEST {
        return Vec::new();
    }
    let scaled = functions(&[ScalarFn::Mul, ScalarFn::Div]);
    let results = functions(&[ScalarFn::Select, ScalarFn::Mul]).into_iter();
    let results = results.filter(|&v| s.body.ty(v).dtype.is_float());
    results.filter_map(|v| Some((v, scaled.iter().copied().find(|&x| x != v && rounds(s, v, x))?))).collect()
}

/// Whether a value is the number of e2m1 that is nearest to `x`, by what it is about every number where that changes.
fn rounds(s: &Skeleton<'_>, value: Value, x: Value) -> bool {
    let largest = num::max_finite(DType::F4E2M1);
    let about = |m: f64| [m - m * 1e-6, m, m + m * 1e-6];
    let magnitudes = MIDDLES.into_iter().flat_map(about).chain([0.0, 0.5, 1.0, largest, 2.0 * largest]);
    magnitudes.flat_map(|m| [m, -m]).all(|number| {
        let nearest = num::decode(DType::F4E2M1, num::encode(DType::F4E2M1, number.clamp(-largest, largest)));
        of(s, value, x, number, &mut HashMap::new()).is_some_and(|found| found == nearest)
    })
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
        let (f, operands) = s.map(value)?;
        let operands: Option<Vec<f64>> = operands.iter().map(|&v| of(s, v, x, number, known)).collect();
        Some(f.eval(&operands?))
    });
    known.insert(value, found);
    found
}
