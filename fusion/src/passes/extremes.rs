//! Extremes of rows and of whole tensors, and the largest magnitude that two of them make.

use fusewright_graph::{Builder, NanRule, Op, Prim, ReduceOp, ScalarFn, TensorType, TypeError, Value};

use super::rewrite;
use crate::rewrites::Form;

/// Most values of which the extreme is found two at a time.
const FEW: usize = 4;

/// The largest or smallest of a tensor whose number of rows is a symbol: of each row first, in the kernel that computes
/// the rows, then of the rows. Their order says nothing to these two.
pub(super) fn of_rows(b: &Builder, prim: &Prim, x: Value, ty: &TensorType) -> Result<Option<Form>, TypeError> {
    let Prim::Reduce { op: op @ (ReduceOp::Max | ReduceOp::Min), axes, nan } = prim else { return Ok(None) };
    let symbolic = |&axis: &usize| ty.shape[axis].as_const().is_none();
    // The last axis is lanes in any case.
    let rows = axes.iter().rposition(symbolic).map_or(0, |last| (last + 1).min(axes.len() - 1));
    let (outer, inner) = axes.split_at(rows);
    if !outer.iter().any(symbolic) || inner.iter().all(|&axis| ty.shape[axis].as_const() == Some(1)) {
        return Ok(None);
    }
    let of = |axes: &[usize]| Prim::Reduce { op: *op, axes: axes.to_vec(), nan: *nan };
    let of_rows = b.prim(of(inner), &[x])?;
    Ok(Some(Form::prim(of(outer), vec![of_rows])))
}

/// The largest or smallest of a few values that are joined along an axis of their own: of each, then of two at a time.
pub(super) fn of_joined(b: &Builder, prim: &Prim, x: Value) -> Result<Option<Form>, TypeError> {
    let Prim::Reduce { op: op @ (ReduceOp::Max | ReduceOp::Min), axes, nan } = prim else { return Ok(None) };
    let Some((Op::Prim(Prim::Cat { axis }), parts)) = b.definition(x) else { return Ok(None) };
    let single = parts.iter().all(|&part| b.ty(part).shape[axis].as_const() == Some(1));
    if !single || !axes.contains(&axis) || parts.len() > FEW {
        return Ok(None);
    }
    let mut joined = parts[0];
    let step = Op::Prim(Prim::Map(op.step(*nan)));
    for &part in &parts[1..] {
        joined = rewrite::emit(b, &step, &[joined, part])?[0];
    }
    if *nan == NanRule::Ignore && b.dtype(x).is_float() {
        // What a reduction starts from is left where all are NaN.
        let start = b.prim(Prim::Literal(op.start(b.dtype(x))), &[])?;
        joined = rewrite::emit(b, &step, &[joined, start])?[0];
    }
    let shape = &b.ty(joined).shape;
    let others: Vec<usize> = axes.iter().copied().filter(|&i| shape[i].as_const() != Some(1)).collect();
    Ok(Some(match others.is_empty() {
        true => Form::Value(joined),
        false => Form::prim(Prim::Reduce { op: *op, axes: others, nan: *nan }, vec![joined]),
    }))
}

/// Whether a value is the largest magnitude over axes that hold something: over nothing it is the least number.
pub(super) fn is_largest_magnitude(b: &Builder, x: Value) -> bool {
    let Some((Op::Prim(Prim::Reduce { op: ReduceOp::Max, axes, .. }), of)) = b.definition(x) else { return false };
    let shape = b.ty(of[0]).shape;
    let filled = axes.iter().all(|&axis| shape[axis].as_const().is_some_and(|n| n > 0));
    filled && matches!(b.definition(of[0]), Some((Op::Prim(Prim::Map(ScalarFn::Abs)), _)))
}

/// The larger of the greatest element, or its magnitude, and of the least with the other sign or its magnitude: the
/// largest magnitude. The tables of rewrites say so of one reduction; here several may follow one another, with reshapes
/// between them.
pub(super) fn magnitude(b: &Builder, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    let &[first, second] = operands else { return Ok(None) };
    for (high, low) in [(first, second), (second, first)] {
        let Some((sign @ (ScalarFn::Neg | ScalarFn::Abs), least)) = signed(b, low) else { continue };
        let (size, greatest) = signed(b, high).unwrap_or((ScalarFn::Max, high));
        let ([high, low], [greatest, least]) = (
            [high, low].map(|v| b.ty(v)),
            [(greatest, ReduceOp::Max), (least, ReduceOp::Min)].map(|(v, op)| Extreme::of(b, v, op)),
        );
        let (Some(greatest), Some(least)) = (greatest, least) else { continue };
        // Single elements have any number of axes.
        let single = [&high, &low].iter().all(|ty| ty.elements().as_const() == Some(1));
        let alike = high == low || single && high.dtype == low.dtype;
        if size == ScalarFn::Neg || !alike || !high.dtype.is_float() || greatest != least {
            continue;
        }
        let high = if low.rank() > high.rank() { low } else { high };
        let mut value = rewrite::emit(b, &Op::Prim(Prim::Map(ScalarFn::Abs)), &[greatest.source])?[0];
        for (axes, nan) in greatest.over.into_iter().rev() {
            value = b.prim(Prim::Reduce { op: ReduceOp::Max, axes, nan }, &[value])?;
        }
        if b.ty(value) != high {
            value = b.reshape(value, high.shape)?;
        }
        // Over nothing the greatest is the least number, whose magnitude is the greatest.
        let sized = sign == ScalarFn::Abs || size == ScalarFn::Abs;
        return Ok(Some(if sized { Form::prim(Prim::Map(ScalarFn::Abs), vec![value]) } else { Form::Value(value) }));
    }
    Ok(None)
}

/// The function of one operand that yields a value, below reshapes, and that operand.
fn signed(b: &Builder, value: Value) -> Option<(ScalarFn, Value)> {
    match b.definition(value)? {
        (Op::Prim(Prim::Reshape { .. }), source) => signed(b, source[0]),
        (Op::Prim(Prim::Map(f @ (ScalarFn::Neg | ScalarFn::Abs))), source) => Some((f, source[0])),
        _ => None,
    }
}

/// An extreme as reductions one after the other, the last first.
#[derive(PartialEq)]
struct Extreme {
    source: Value,
    over: Vec<(Vec<usize>, NanRule)>,
}

impl Extreme {
    fn of(b: &Builder, mut value: Value, wanted: ReduceOp) -> Option<Extreme> {
        let mut over = Vec::new();
        while let Some((Op::Prim(prim), source)) = b.definition(value) {
            match prim {
                Prim::Reshape { .. } if over.is_empty() => {}
                Prim::Reduce { op, axes, nan } if op == wanted => over.push((axes, nan)),
                _ => break,
            }
            value = source[0];
        }
        (!over.is_empty()).then_some(Extreme { source: value, over })
    }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::F32;
    use fusewright_graph::Dim;

    use super::*;
    use crate::pass::{Cx, PassManager};
    use crate::passes::tests::{cut, ops};

    #[test]
    fn an_extreme_of_all_rows_is_that_of_the_extremes_of_rows() {
        use fusewright_graph::interp::{Symbols, run};
        use fusewright_graph::{NanRule, Tensor};
        let over = |op, axes: &[usize], nan| {
            let prim = Prim::Reduce { op, axes: axes.to_vec(), nan };
            ops(|b, x| b.prim(prim.clone(), &[x]))
        };
        let two = ["reduce", "reduce"];
        for op in [ReduceOp::Max, ReduceOp::Min] {
            assert_eq!(over(op, &[0, 1, 2], NanRule::Propagate), two);
            assert_eq!(over(op, &[0, 2], NanRule::Ignore), two);
            assert_eq!(over(op, &[1, 2], NanRule::Propagate), ["reduce"]);
            assert_eq!(over(op, &[0], NanRule::Propagate), ["reduce"]);
        }
        assert_eq!(over(ReduceOp::Add, &[0, 1, 2], NanRule::Propagate), ["reduce"]);
        let values = [f64::NAN, 1.0, -0.0, 0.0, f64::NEG_INFINITY, 3.0, f64::NAN, f64::NAN];
        for (op, nan) in [ReduceOp::Max, ReduceOp::Min]
            .into_iter()
            .flat_map(|op| [NanRule::Propagate, NanRule::Ignore].map(|nan| (op, nan)))
        {
            let b = Builder::new("g");
            let x = b.input("x", TensorType::new(F32, [Dim::symbol("s"), Dim::constant(2)]));
            b.symbol("s", 0, None);
            b.output(b.prim(Prim::Reduce { op, axes: vec![0, 1], nan }, &[x]).expect("types"));
            let graph = b.finish();
            let (out, _) = PassManager::default().run(&graph, &mut Cx::default(), &mut []).expect("runs");
            for rows in 0..=4 {
                let x = [Tensor::from_f64(F32, &[rows, 2], values[8 - 2 * rows..].to_vec()).expect("fits")];
                let [before, after] = [&graph, &out].map(|g| run(g, &x, &Symbols::new()).expect("runs"));
                assert_eq!(before, after, "{op:?} {nan:?} of {rows} rows");
            }
        }
    }

    #[test]
    fn an_extreme_of_stacked_values_is_found_two_at_a_time() {
        let of = |axes: &'static [usize], parts: usize, op: ReduceOp| {
            ops(move |b, x| {
                let row = b.reduce_last(ReduceOp::Add, x)?;
                let parts: Vec<Value> =
                    (0..parts).map(|i| b.mul(row, b.float(F32, 2.0 + i as f64)?)).collect::<Result<_, _>>()?;
                b.prim(Prim::Reduce { op, axes: axes.to_vec(), nan: NanRule::Propagate }, &[b.cat(&parts, 2)?])
            })
        };
        let products = |n: usize, behind: &[&'static str]| [&["reduce"], &vec!["mul"; n][..], behind].concat();
        let computed = |ops: Vec<String>| ops.into_iter().filter(|op| op != "literal").collect::<Vec<_>>();
        assert_eq!(computed(of(&[2], 2, ReduceOp::Max)), products(2, &["max"]));
        assert_eq!(computed(of(&[2], 2, ReduceOp::Min)), products(2, &["min"]));
        assert_eq!(computed(of(&[1, 2], 2, ReduceOp::Max)), products(2, &["max", "reduce"]));
        // Sums have an order, other axes are not joined, and many are one reduction.
        assert_eq!(computed(of(&[2], 2, ReduceOp::Add)), products(2, &["cat", "reduce"]));
        assert_eq!(computed(of(&[1], 2, ReduceOp::Max)), products(2, &["cat", "reduce"]));
        assert_eq!(computed(of(&[2], 5, ReduceOp::Max)), products(5, &["cat", "reduce"]));
    }

    #[test]
    fn the_extreme_of_stacked_nans_that_are_passed_over_is_that_of_nothing() {
        use fusewright_graph::Tensor;
        use fusewright_graph::interp::{Symbols, run};
        for (op, nan) in [ReduceOp::Max, ReduceOp::Min]
            .into_iter()
            .flat_map(|op| [NanRule::Propagate, NanRule::Ignore].map(|nan| (op, nan)))
        {
            let b = Builder::new("g");
            let [x, y] = ["x", "y"].map(|name| b.input(name, TensorType::new(F32, [3, 1].map(Dim::constant))));
            let joined = b.cat(&[x, y], 1).expect("shapes");
            b.output(b.prim(Prim::Reduce { op, axes: vec![1], nan }, &[joined]).expect("types"));
            let graph = b.finish();
            let (out, _) = PassManager::default().run(&graph, &mut Cx::default(), &mut []).expect("runs");
            assert!(!out.to_string().contains("reduce"), "{out}");
            let values = [[f64::NAN, 1.0, -0.0], [f64::NAN, f64::NAN, f64::NEG_INFINITY]];
            let inputs = values.map(|v| Tensor::from_f64(F32, &[3, 1], v.to_vec()).expect("fits"));
            let [before, after] = [&graph, &out].map(|g| run(g, &inputs, &Symbols::new()).expect("runs"));
            assert_eq!(before, after, "{op:?} {nan:?}");
        }
    }

    #[test]
    fn a_largest_magnitude_has_no_sign_unless_it_is_of_nothing() {
        let largest = |lanes: i64| {
            ops(move |b, x| {
                let magnitude = |v| b.map(ScalarFn::Abs, &[v]);
                let x = cut(b, x, 0, lanes)?;
                let [high, low] = [b.reduce_last(ReduceOp::Max, x)?, b.reduce_last(ReduceOp::Min, x)?];
                b.map(ScalarFn::Max, &[magnitude(low)?, magnitude(high)?])
            })
        };
        assert_eq!(largest(8), ["abs", "reduce"]);
        assert_eq!(largest(0), ["slice", "abs", "reduce", "abs"]);
    }

    #[test]
    fn the_largest_magnitude_of_a_tensor_is_that_of_its_extremes() {
        let left = |sign: [Option<ScalarFn>; 2], of: ReduceOp, shape: &'static [i64], lanes: i64| {
            ops(move |b, x| {
                let x = cut(b, x, 0, lanes)?;
                let [high, low] = [ReduceOp::Max, of].map(|op| {
                    let prim = Prim::Reduce { op, axes: vec![0, 1, 2], nan: fusewright_graph::NanRule::Propagate };
                    b.reshape(b.prim(prim, &[x])?, shape.iter().map(|&e| Dim::constant(e)).collect())
                });
                let [high, low] = [(high, sign[0]), (low, sign[1])].map(|(v, f)| match f {
                    Some(f) => b.map(f, &[v?]),
                    None => v,
                });
                b.map(ScalarFn::Max, &[low?, high?])
            })
        };
        let one = ["abs", "reduce", "reduce", "reshape"];
        let (neg, abs) = (Some(ScalarFn::Neg), Some(ScalarFn::Abs));
        assert_eq!(left([None, neg], ReduceOp::Min, &[], 8), one);
        assert_eq!(left([None, neg], ReduceOp::Min, &[1, 1, 1], 8), one[..3]);
        assert_eq!(left([None, neg], ReduceOp::Min, &[1], 0), [&["slice"], &one[..]].concat());
        for sign in [[None, abs], [abs, abs], [abs, neg]] {
            assert_eq!(left(sign, ReduceOp::Min, &[], 8), [&one[..], &["abs"]].concat(), "{sign:?}");
        }
        // In one line, whose extreme is looked for.
        let line = ops(|b, x| {
            let [high, low] = [ReduceOp::Max, ReduceOp::Min].map(|op| {
                let prim = Prim::Reduce { op, axes: vec![0, 1, 2], nan: fusewright_graph::NanRule::Propagate };
                b.reshape(b.prim(prim, &[x])?, Vec::new())
            });
            let line = |v| b.reshape(v, vec![Dim::constant(1)]);
            let both = b.cat(&[line(high?)?, line(b.map(ScalarFn::Neg, &[low?])?)?], 0)?;
            let prim = Prim::Reduce { op: ReduceOp::Max, axes: vec![0], nan: fusewright_graph::NanRule::Propagate };
            b.prim(prim, &[both])
        });
        assert_eq!(line, one);
        // The other sign of the greatest, no sign, and the greatest twice.
        for (sign, of) in [([neg, neg], ReduceOp::Min), ([None, None], ReduceOp::Min), ([None, neg], ReduceOp::Max)] {
            assert!(left(sign, of, &[], 8).contains(&"max".to_owned()), "{sign:?}");
        }
    }
}
