//! One spelling for matrix products.
//!
//! A transposed right operand becomes `transpose_b`, and a product of flattened rows, `matmul(reshape(x), w)`, is
//! computed on `x` as it is, with the reshape after the product, where it meets its inverse. Where the inner extent is 1,
//! each element is the product of two, so that no matrix product is left: angles of positions, say.

use fusewright_graph::{Builder, DType, Dim, Graph, Op, Prim, ScalarFn, TensorType, TypeError, Value, dim};

use crate::pass::{Cx, Diagnostic, Outcome, Pass, PassResult};
use crate::passes::rewrite;

/// The pass.
pub const PASS: Pass = Pass { name: "matmul", required: false, run };

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let spelled = if cx.is_spent() { Ok(None) } else { respelled(b, &node.op, operands) };
        let results = match spelled {
            Ok(Some(results)) => {
                cx.spend();
                changed += 1;
                Ok(results)
            }
            Ok(None) => b.op(node.op.clone(), operands),
            Err(error) => Err(error),
        };
        results.map_err(|e| Diagnostic::rebuilt("matmul", &node.origin, &e))
    });
    Ok((rebuilt?, Outcome { changed }))
}

/// The results of a node in another spelling, if it has one.
fn respelled(b: &Builder, op: &Op, operands: &[Value]) -> Result<Option<Vec<Value>>, TypeError> {
    match (op, operands) {
        (Op::Prim(Prim::MatMul { transpose_b, out }), &[a, right]) => {
            if let Some(value) = outer(b, a, right, *transpose_b, *out)? {
                return Ok(Some(vec![value]));
            }
            let (w, transpose_b) = untransposed(b, right, *transpose_b);
            let prim = Prim::MatMul { transpose_b, out: *out };
            match unflattened(b, &prim, a, w)? {
                Some(value) => Ok(Some(vec![value])),
                None if w != right => b.op(Op::Prim(prim), &[a, w]).map(Some),
                None => Ok(None),
            }
        }
        (Op::Prim(Prim::Reshape { .. }), &[x]) if flattens_product(b, x) => rewrite::emit(b, op, operands).map(Some),
        _ => Ok(None),
    }
}

/// A product of columns with rows, element by element; `None` if it sums several products, or if no dtype holds them.
///
/// A sum starts from +0, so that a product of −0 becomes +0: the product is exact before +0 is added, and rounded once.
fn outer(b: &Builder, a: Value, w: Value, transpose_b: bool, out: DType) -> Result<Option<Value>, TypeError> {
    use DType::{BF16, F8E4M3, F8E5M2, F16, F32, F64};
    let TensorType { dtype, shape } = b.ty(a);
    if shape.last().and_then(Dim::as_const) != Some(1) {
        return Ok(None);
    }
    let wide = match (dtype, out) {
        // What is rounded to f32 here is rounded below the least value of the narrower dtypes, or not at all.
        (BF16 | F16 | F8E4M3 | F8E5M2, BF16 | F16 | F32) | (F32, F32) => F32,
        (F64, F64) => F64,
        _ => return Ok(None),
    };
    let columns = if transpose_b {
        let mut shape = b.ty(w).shape;
        let last = shape.len() - 1;
        shape.swap(last - 1, last);
        b.reshape(w, shape)?
    } else {
        w
    };
    let (x, y, zero) = (b.cast(a, wide)?, b.cast(columns, wide)?, b.float(wide, 0.0)?);
    let value = if wide == F64 { b.add(b.mul(x, y)?, zero)? } else { b.map(ScalarFn::Fma, &[x, y, zero])? };
    b.cast(value, out).map(Some)
}

/// Whether a value is a product with a reshape after it, which a further reshape undoes.
fn flattens_product(b: &Builder, x: Value) -> bool {
    let Some((Op::Prim(Prim::Reshape { .. }), source)) = b.definition(x) else { return false };
    matches!(b.definition(source[0]), Some((Op::Prim(Prim::MatMul { .. }), _)))
}

/// The right operand without a permutation that swaps its last two axes.
fn untransposed(b: &Builder, w: Value, transpose_b: bool) -> (Value, bool) {
    if let Some((Op::Prim(Prim::Permute { perm }), operands)) = b.definition(w)
        && let [batch @ .., row, column] = &perm[..]
        && batch.iter().copied().eq(0..batch.len())
        && (*row, *column) == (batch.len() + 1, batch.len())
    {
        return (operands[0], !transpose_b);
    }
    (w, transpose_b)
}

/// The product on the unflattened left operand, flattened again; `None` if `a` is not a flattening of leading axes.
fn unflattened(b: &Builder, prim: &Prim, a: Value, w: Value) -> Result<Option<Value>, TypeError> {
    let Some((Op::Prim(Prim::Reshape { shape: flat }), operands)) = b.definition(a) else { return Ok(None) };
    let source = b.ty(operands[0]);
    let ([rows, lanes], [leading @ .., last]) = (&flat[..], &source.shape[..]) else { return Ok(None) };
    if b.ty(w).rank() != 2 || leading.len() < 2 || lanes != last || dim::product(leading) != *rows {
        return Ok(None);
    }
    let product = b.prim(prim.clone(), &[operands[0], w])?;
    let width: Option<Dim> = b.ty(product).shape.last().cloned();
    let width = width.unwrap_or_else(|| Dim::constant(1));
    b.reshape(product, vec![rows.clone(), width]).map(Some)
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::{BF16, F16, F32, F64};
    use fusewright_graph::interp::{Symbols, run as value};
    use fusewright_graph::tensor::Tensor;
    use fusewright_graph::{Rounding, num};

    use super::*;
    use crate::passes::dce;

    #[test]
    fn products_of_columns_with_rows_are_those_of_elements_to_the_bit() {
        let least = |dtype| if dtype == F64 { 5e-324 } else { num::decode(dtype, 1) };
        for (dtype, out) in [(BF16, BF16), (BF16, F32), (F16, F16), (F16, BF16), (F32, F32), (F64, F64)] {
            let tiny = least(dtype);
            let edges = [0.0, -0.0, 1.0, -1.5, tiny, -tiny, tiny * 3.0, 0.75, f64::INFINITY, f64::NAN];
            let more = [num::max_finite(dtype), 1.0 / 3.0, -tiny.sqrt() * 0.75, tiny.sqrt() * 1.25, tiny.sqrt()];
            let numbers: Vec<f64> = edges.into_iter().chain(more).collect();
            let n = numbers.len();
            for transpose_b in [false, true] {
                let b = Builder::new("g");
                let column = [2, n, 1];
                let row = if transpose_b { [n, 1] } else { [1, n] };
                let ty = |shape: &[usize]| TensorType::new(dtype, shape.iter().map(|&n| Dim::constant(n as i64)));
                let (x, w) = (b.input("x", ty(&column)), b.input("w", ty(&row)));
                b.output(b.prim(Prim::MatMul { transpose_b, out }, &[x, w]).expect("mm"));
                let graph = b.finish();
                let (other, outcome) = run(&graph, &mut Cx::default()).expect("runs");
                assert_eq!(outcome.changed, 1);
                assert!(!other.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::MatMul { .. }))));
                let tensor = |shape: &[usize], times| {
                    let values = numbers.iter().map(|&x| num::round_to(dtype, x, Rounding::NearestEven, false));
                    Tensor::from_f64(dtype, shape, values.collect::<Vec<_>>().repeat(times)).expect("fits")
                };
                let given = [tensor(&column, 2), tensor(&row, 1)];
                let bits = |graph: &Graph| {
                    let values = value(graph, &given, &Symbols::new()).expect("runs");
                    let canonical = |x: &f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
                    values[0].floats().expect("floats").iter().map(canonical).collect::<Vec<u64>>()
                };
                assert_eq!(bits(&graph), bits(&other), "{dtype} to {out}");
            }
        }
    }

    #[test]
    fn products_that_no_dtype_holds_and_sums_of_products_stay() {
        for (dtype, out, inner) in [(F32, BF16, 1), (F32, F32, 2), (DType::I32, DType::I32, 1)] {
            let b = Builder::new("g");
            let ty = |shape: [i64; 2]| TensorType::new(dtype, shape.map(Dim::constant));
            let (x, w) = (b.input("x", ty([4, inner])), b.input("w", ty([inner, 4])));
            b.output(b.prim(Prim::MatMul { transpose_b: false, out }, &[x, w]).expect("mm"));
            assert_eq!(run(&b.finish(), &mut Cx::default()).expect("runs").1.changed, 0);
        }
    }

    #[test]
    fn core_and_training_spellings_become_one() {
        let b = Builder::new("g");
        let (one, s, h, n) = (Dim::constant(1), Dim::symbol("s"), Dim::constant(64), Dim::constant(32));
        let x = b.input("x", TensorType::new(BF16, [one.clone(), s.clone(), h.clone()]));
        let w = b.input("w", TensorType::new(BF16, [n.clone(), h.clone()]));
        let flat = b.reshape(x, vec![s.clone(), h]).expect("reshape");
        let t = b.prim(Prim::Permute { perm: vec![1, 0] }, &[w]).expect("permute");
        let y = b.prim(Prim::MatMul { transpose_b: false, out: BF16 }, &[flat, t]).expect("mm");
        b.output(b.reshape(y, vec![one, s, n]).expect("reshape"));
        let (out, outcome) = run(&b.finish(), &mut Cx::default()).expect("runs");
        // The product, and the reshape that undoes its flattening.
        assert_eq!(outcome.changed, 2);
        let (out, _) = dce(&out);
        let [node] = out.nodes() else { panic!("{:?}", out.nodes()) };
        assert_eq!(node.op, Op::Prim(Prim::MatMul { transpose_b: true, out: BF16 }));
        assert_eq!(node.operands, [x, w]);
    }

    #[test]
    fn a_flattening_that_splits_lanes_stays() {
        let b = Builder::new("g");
        let (s, h) = (Dim::symbol("s"), Dim::constant(64));
        let x = b.input("x", TensorType::new(BF16, [s.clone(), Dim::constant(2), Dim::constant(128)]));
        let w = b.input("w", TensorType::new(BF16, [h.clone(), h.clone()]));
        let flat = b.reshape(x, vec![&s * &Dim::constant(4), h]).expect("reshape");
        b.output(b.prim(Prim::MatMul { transpose_b: false, out: BF16 }, &[flat, w]).expect("mm"));
        assert_eq!(run(&b.finish(), &mut Cx::default()).expect("runs").1.changed, 0);
    }
}
