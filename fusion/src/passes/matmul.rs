//! One spelling for matrix products.
//!
//! A transposed right operand becomes `transpose_b`, and a product of flattened rows, `matmul(reshape(x), w)`, is
//! computed on `x` as it is, with the reshape after the product, where it meets its inverse.

use fusewright_graph::{Builder, Dim, Graph, Op, Prim, TypeError, Value, dim};

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
    use fusewright_graph::{DType::BF16, TensorType};

    use super::*;
    use crate::passes::dce;

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
