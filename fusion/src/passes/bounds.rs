//! Equations on bounds that need to compare constants. The other equations are in [`crate::rewrites`].

use fusewright_graph::prim::Literal;
use fusewright_graph::{Builder, Op, Prim, ScalarFn, TypeError, Value};

use super::rewrite;
use crate::rewrites::{Form, uniform};

/// What a primitive is by the equations of this file, if one applies.
pub(crate) fn rule(b: &Builder, prim: &Prim, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    match (prim, operands) {
        (Prim::Map(ScalarFn::Max), &[x, y]) => match lower_last(b, x, y) {
            None => lower_first(b, lower_last(b, y, x)),
            found => lower_first(b, found),
        },
        (&Prim::Map(f), &[x]) if is_rounding(f) => rounded_first(b, f, x),
        _ => Ok(None),
    }
}

/// Whether a function takes numbers to whole ones, keeps their order and lets whole ones be.
fn is_rounding(f: ScalarFn) -> bool {
    matches!(f, ScalarFn::RoundEven | ScalarFn::Floor | ScalarFn::Ceil | ScalarFn::Trunc)
}

/// The bound of the rounded value, of the rounded value of a bound that is whole: a function that keeps the order and
/// the bound gives the larger of both results, and the smaller, as it gives the result of the larger and the smaller.
fn rounded_first(b: &Builder, f: ScalarFn, bounded: Value) -> Result<Option<Form>, TypeError> {
    let Some((Op::Prim(Prim::Map(bound)), parts)) = b.definition(bounded) else { return Ok(None) };
    if !matches!(bound, ScalarFn::Max | ScalarFn::Min | ScalarFn::MaxNum | ScalarFn::MinNum) {
        return Ok(None);
    }
    let (x, limit) = match (is_whole(b, parts[0]), is_whole(b, parts[1])) {
        (false, true) => (parts[0], parts[1]),
        (true, false) => (parts[1], parts[0]),
        _ => return Ok(None),
    };
    let rounded = rewrite::emit(b, &Op::Prim(Prim::Map(f)), &[x])?[0];
    Ok(Some(Form::prim(Prim::Map(bound), vec![rounded, limit])))
}

/// Whether every element is the same whole number, or the same infinity.
fn is_whole(b: &Builder, value: Value) -> bool {
    matches!(uniform(b, value), Some(Literal::Float(_, v)) if v == v.trunc())
}

/// `(x, low, high)` of `max(min(x, high), low)` with bounds in order: the lower bound may come first.
fn lower_last(b: &Builder, inner: Value, low: Value) -> Option<[Value; 3]> {
    let (Op::Prim(Prim::Map(ScalarFn::Min)), parts) = b.definition(inner)? else { return None };
    let low_bound = uniform(b, low)?;
    let (x, high) = match (uniform(b, parts[0]), uniform(b, parts[1])) {
        (None, Some(_)) => (parts[0], parts[1]),
        (Some(_), None) => (parts[1], parts[0]),
        _ => return None,
    };
    in_order(low_bound, uniform(b, high)?).then_some([x, low, high])
}

/// `min(max(x, low), high)`.
fn lower_first(b: &Builder, parts: Option<[Value; 3]>) -> Result<Option<Form>, TypeError> {
    let Some([x, low, high]) = parts else { return Ok(None) };
    let above = b.map(ScalarFn::Max, &[x, low])?;
    Ok(Some(Form::prim(Prim::Map(ScalarFn::Min), vec![above, high])))
}

/// Whether `low ≤ high`, +0 above −0. NaN is no bound.
fn in_order(low: Literal, high: Literal) -> bool {
    match (low, high) {
        (Literal::Float(_, low), Literal::Float(_, high)) => {
            !low.is_nan() && !high.is_nan() && low.total_cmp(&high).is_le()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::{BF16, F16, F32};
    use fusewright_graph::interp::{Symbols, run};
    use fusewright_graph::{Dim, Graph, Tensor, TensorType};

    use super::*;
    use crate::pass::{Cx, PassManager};

    const EDGES: [f64; 13] =
        [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -3.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, -1e-40];

    /// `outer(inner(x, first), last)`.
    fn clamp(outer: ScalarFn, inner: ScalarFn, first: f64, last: f64) -> Graph {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(F32, [Dim::constant(EDGES.len() as i64)]));
        let [first, last] = [first, last].map(|v| b.float(F32, v).expect("literal"));
        let y = b.map(inner, &[first, x]).expect("types");
        b.output(b.map(outer, &[y, last]).expect("types"));
        b.finish()
    }

    /// Whether the passes put the lower bound first; the bits are the same in any case.
    fn turned(outer: ScalarFn, inner: ScalarFn, first: f64, last: f64) -> bool {
        let graph = clamp(outer, inner, first, last);
        let (out, _) = PassManager::default().run(&graph, &mut Cx::default(), &mut []).expect("runs");
        let x = [Tensor::from_f64(F32, &[EDGES.len()], EDGES.to_vec()).expect("fits")];
        let [before, after] = [&graph, &out].map(|g| run(g, &x, &Symbols::new()).expect("runs"));
        assert_eq!(before, after, "{outer:?} {inner:?} {first} {last}");
        let last = out.nodes().last().map(|node| node.op.clone());
        outer == ScalarFn::Max && last == Some(Op::Prim(Prim::Map(ScalarFn::Min)))
    }

    /// The functions from the last on that make the result, after the passes; the bits are the same in any case.
    fn made_by(graph: &Graph, x: &Tensor) -> Vec<ScalarFn> {
        let (out, _) = PassManager::default().run(graph, &mut Cx::default(), &mut []).expect("runs");
        let [before, after] = [graph, &out].map(|g| run(g, std::slice::from_ref(x), &Symbols::new()).expect("runs"));
        assert_eq!(before, after, "{graph}");
        let functions = out.nodes().iter().rev().filter_map(|node| match node.op {
            Op::Prim(Prim::Map(f)) => Some(f),
            _ => None,
        });
        functions.collect()
    }

    #[test]
    fn whole_bounds_come_after_the_rounding() {
        use ScalarFn::{Ceil, Floor, Max, MaxNum, Min, MinNum, RoundEven, Trunc};
        let values = [EDGES.as_slice(), &[1.5, 2.5, -0.5, -0.3, 126.5, 127.5, -128.5, 448.0]].concat();
        for dtype in [F32, BF16, F16] {
            let x = Tensor::from_f64(dtype, &[values.len()], values.clone()).expect("fits");
            let bounds = |round| [Max, Min, MaxNum, MinNum].map(|bound| (round, bound));
            for (round, bound) in [RoundEven, Floor, Ceil, Trunc].into_iter().flat_map(bounds) {
                for limit in [-128.0, 127.0, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 0.5, -3.5, f64::NAN] {
                    let b = Builder::new("g");
                    let input = b.input("x", TensorType::new(dtype, [Dim::constant(values.len() as i64)]));
                    let limit_value = b.float(dtype, limit).expect("literal");
                    let y = b.map(bound, &[limit_value, input]).expect("types");
                    b.output(b.map(round, &[y]).expect("types"));
                    let found = made_by(&b.finish(), &x);
                    let whole = limit == limit.trunc();
                    let expected = if whole { [bound, round] } else { [round, bound] };
                    assert_eq!(found, expected, "{round:?} of {bound:?} with {limit} in {dtype}");
                }
            }
        }
    }

    #[test]
    fn both_bounds_come_after_the_rounding() {
        let x = Tensor::from_f64(F32, &[EDGES.len()], EDGES.to_vec()).expect("fits");
        let rounded = |high: f64| {
            let b = Builder::new("g");
            let input = b.input("x", TensorType::new(F32, [Dim::constant(EDGES.len() as i64)]));
            let [low, high] = [-2.0, high].map(|v| b.float(F32, v).expect("literal"));
            let y = b.clamp(input, low, high).expect("types");
            b.output(b.map(ScalarFn::RoundEven, &[y]).expect("types"));
            made_by(&b.finish(), &x)
        };
        assert_eq!(rounded(1.0), [ScalarFn::Min, ScalarFn::Max, ScalarFn::RoundEven]);
        // What is not whole is rounded with the rest, and what is below it.
        assert_eq!(rounded(1.5), [ScalarFn::RoundEven, ScalarFn::Min, ScalarFn::Max]);
    }

    #[test]
    fn the_lower_bound_comes_first_where_bounds_are_in_order() {
        use ScalarFn::{Max, MaxNum, Min, MinNum};
        for (high, low) in EDGES.iter().flat_map(|&high| EDGES.map(|low| (high, low))) {
            let ordered = !low.is_nan() && !high.is_nan() && low.total_cmp(&high).is_le();
            assert_eq!(turned(Max, Min, high, low), ordered, "{low} to {high}");
            assert!(!turned(MaxNum, MinNum, high, low) && !turned(Min, Max, low, high));
        }
    }
}
