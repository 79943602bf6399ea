//! Equations on bounds that need to compare constants. The other equations are in [`crate::rewrites`].

use fusewright_graph::prim::Literal;
use fusewright_graph::{Builder, Op, Prim, ScalarFn, TypeError, Value};

use crate::rewrites::{Form, uniform};

/// What a primitive is by the equations of this file, if one applies.
pub(crate) fn rule(b: &Builder, prim: &Prim, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    match (prim, operands) {
        (Prim::Map(ScalarFn::Max), &[x, y]) => match lower_last(b, x, y) {
            None => lower_first(b, lower_last(b, y, x)),
            found => lower_first(b, found),
        },
        _ => Ok(None),
    }
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
    use fusewright_graph::DType::F32;
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
