//! What the library of a GPU does not take, in ops that it or kernels take: products of 8-bit codes as products of bf16,
//! which holds each code exactly; products of i8 with their right matrix transposed and a sum in i32, which is exact; results
//! of other dtypes as a sum in f32 and a cast; attention as two products and what
//! kernels compute between them.
//!
//! It is not a pass: attention is one op of one rounding, and what comes out here rounds as a library would, within the
//! op's interval. Results are judged by the graph before it.
//!
//! A weight of zero makes no infinity or NaN of a value disappear in a product, so that the values of keys that a query
//! does not see have to be finite.

use std::collections::BTreeSet;

use fusewright_abi::DType;
use fusewright_graph::prim::Sdpa;
use fusewright_graph::{Builder, Def, Dim, Graph, Node, NodeId, Op, Prim, ReduceOp, ScalarFn, TypeError, Value};

use crate::Error;

/// A graph for a GPU.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub graph: Graph,
    /// The nodes that attention was taken apart into.
    pub attention: BTreeSet<NodeId>,
}

/// The graph with the ops that a GPU has no code for taken apart.
///
/// # Errors
/// None for a graph that verifies.
pub(crate) fn for_gpu(graph: &Graph) -> Result<Lowered, Error> {
    let mut attended: Vec<(Value, Vec<Value>)> = Vec::new();
    let lowered = graph.rebuild(|b, _, node, operands| match (&node.op, operands) {
        (Op::Prim(Prim::MatMul { transpose_b, out }), &[x, y]) if multiplies(b.dtype(x)) => {
            Ok(vec![product(b, *transpose_b, *out, x, y)?])
        }
        (Op::Prim(Prim::MatMul { transpose_b, out }), &[x, y]) if fits_ints(b, *transpose_b, *out, [x, y]) => {
            Ok(vec![exact_product(b, *transpose_b, *out, [x, y])?])
        }
        (Op::Prim(Prim::Sdpa(sdpa)), &[q, k, v, ref mask @ ..]) if multiplies(b.dtype(q)) => {
            let result = attention(b, sdpa, [q, k, v], mask.first().copied())?;
            attended.push((result, operands.to_vec()));
            Ok(vec![result])
        }
        _ => b.op(node.op.clone(), operands),
    });
    let graph = lowered.map_err(|e: TypeError| Error::Internal(format!("lowering for a GPU: {e}")))?;
    let mut attention = BTreeSet::new();
    for (result, operands) in &attended {
        between(&graph, *result, operands, &mut attention);
    }
    Ok(Lowered { graph, attention })
}

/// Adds the nodes that a result is computed by, from those operands on.
fn between(graph: &Graph, result: Value, operands: &[Value], found: &mut BTreeSet<NodeId>) {
    let mut open = vec![result];
    while let Some(value) = open.pop() {
        if let Def::Node(id, _) = graph.def(value)
            && !operands.contains(&value)
            && found.insert(id)
        {
            open.extend(&graph.node(id).operands);
        }
    }
}

/// Whether products of a dtype are products of one that the library takes.
fn multiplies(dtype: DType) -> bool {
    is_taken(dtype) || is_code(dtype)
}

/// Whether the library takes operands of a dtype.
pub(crate) fn is_taken(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::F16)
}

/// Whether the library takes a product of i8 as it stands, which is exact: its right matrix lies transposed.
pub(crate) fn takes_ints(graph: &Graph, node: &Node) -> bool {
    let Op::Prim(Prim::MatMul { transpose_b: true, out: DType::I32 }) = &node.op else { return false };
    graph.ty(node.operands[0]).dtype == DType::I8 && int_lengths(&graph.ty(node.operands[1]).shape)
}

/// Whether the last two extents of the right matrix are what instructions take, and sums of so many products fit i32.
fn int_lengths(right: &[Dim]) -> bool {
    const STEP: i64 = 16;
    const MOST: i64 = 1 << 16;
    let fits = |extent: &Dim| extent.as_const().is_some_and(|n| n > 0 && n <= MOST && n % STEP == 0);
    right.iter().rev().take(2).all(fits)
}

/// Whether a product is one of i8 that the library takes behind a transposition and before a cast.
fn fits_ints(b: &Builder, transpose_b: bool, out: DType, [x, y]: [Value; 2]) -> bool {
    let as_it_stands = transpose_b && out == DType::I32;
    let cast = out == DType::I32 || matches!(out, DType::F32 | DType::BF16 | DType::F16);
    b.dtype(x) == DType::I8 && !as_it_stands && cast && int_lengths(&b.ty(y).shape)
}

/// A product of i8 as the library takes it: what is summed is exact, so that the cast rounds once.
fn exact_product(b: &Builder, transpose_b: bool, out: DType, [x, y]: [Value; 2]) -> Result<Value, TypeError> {
    let mut perm: Vec<usize> = (0..b.ty(y).rank()).collect();
    let last = perm.len() - 1;
    perm.swap(last - 1, last);
    let right = if transpose_b { y } else { b.prim(Prim::Permute { perm }, &[y])? };
    let sum = b.prim(Prim::MatMul { transpose_b: true, out: DType::I32 }, &[x, right])?;
    b.cast(sum, out)
}

fn is_code(dtype: DType) -> bool {
    matches!(dtype, DType::F8E4M3 | DType::F8E5M2)
}

fn product(b: &Builder, transpose_b: bool, out: DType, x: Value, y: Value) -> Result<Value, TypeError> {
    let operands = if is_code(b.dtype(x)) { [b.cast(x, DType::BF16)?, b.cast(y, DType::BF16)?] } else { [x, y] };
    let direct = out == DType::F32 || out == b.dtype(operands[0]);
    let sum = if direct { out } else { DType::F32 };
    let product = b.prim(Prim::MatMul { transpose_b, out: sum }, &operands)?;
    b.cast(product, out)
}

fn attention(b: &Builder, sdpa: &Sdpa, [q, k, v]: [Value; 3], mask: Option<Value>) -> Result<Value, TypeError> {
    let (queries, keys, values) = (b.ty(q), b.ty(k).shape, b.ty(v).shape);
    let dtype = queries.dtype;
    let [batch, heads, rows, depth] = four(&queries.shape);
    let (groups, seen, width) = (keys[1].clone(), keys[2].clone(), values[3].clone());
    // Queries that share a key head are rows of one matrix.
    let shared = heads.exact_div(&groups).unwrap_or_else(|| Dim::constant(1));
    let tall = &shared * &rows;
    let q = b.reshape(q, vec![batch.clone(), groups.clone(), tall.clone(), depth])?;
    let scores = product(b, true, DType::F32, q, k)?;
    let scores = b.reshape(scores, vec![batch.clone(), heads.clone(), rows.clone(), seen.clone()])?;
    let scores = masked(b, sdpa, scores, mask)?;
    let weights = probabilities(b, scores)?;
    let weights = b.reshape(weights, vec![batch.clone(), groups, tall, seen])?;
    let result = if sdpa.wide {
        product(b, false, dtype, weights, b.cast(v, DType::F32)?)?
    } else {
        // Of 8-bit codes the products are of bf16, so the probabilities lose no more than there.
        let narrow = if is_code(dtype) { DType::BF16 } else { dtype };
        product(b, false, dtype, b.cast(weights, narrow)?, b.cast(v, narrow)?)?
    };
    b.reshape(result, vec![batch, heads, rows, width])
}

/// The scaled scores `[b, h, t, u]`, −inf where a query does not see a key.
fn masked(b: &Builder, sdpa: &Sdpa, scores: Value, mask: Option<Value>) -> Result<Value, TypeError> {
    let (ty, scale) = (b.ty(scores), f64::from_bits(sdpa.scale_bits) as f32);
    let hidden = b.float(DType::F32, f64::NEG_INFINITY)?;
    let mut scores = b.mul(scores, b.float(DType::F32, f64::from(scale))?)?;
    if let Some(mask) = mask {
        scores = match b.dtype(mask) {
            DType::Bool => b.map(ScalarFn::Select, &[mask, scores, hidden])?,
            _ => b.add(scores, b.cast(mask, DType::F32)?)?,
        };
    }
    if sdpa.causal {
        let shape = ty.shape[2..].to_vec();
        let index = |axis| b.prim(Prim::Iota { dtype: DType::I32, shape: shape.clone(), axis }, &[]);
        let seen = b.map(ScalarFn::Ge, &[index(0)?, index(1)?])?;
        scores = b.map(ScalarFn::Select, &[seen, scores, hidden])?;
    }
    Ok(scores)
}

/// Softmax over the last axis in f32, of zeros where every score is −inf.
fn probabilities(b: &Builder, scores: Value) -> Result<Value, TypeError> {
    let (zero, one) = (b.float(DType::F32, 0.0)?, b.float(DType::F32, 1.0)?);
    let largest = b.reduce_last(ReduceOp::Max, scores)?;
    let none = b.map(ScalarFn::Eq, &[largest, b.float(DType::F32, f64::NEG_INFINITY)?])?;
    let largest = b.map(ScalarFn::Select, &[none, zero, largest])?;
    let powers = b.map(ScalarFn::Exp, &[b.sub(scores, largest)?])?;
    let sum = b.reduce_last(ReduceOp::Add, powers)?;
    let sum = b.map(ScalarFn::Select, &[none, one, sum])?;
    b.div(powers, sum)
}

/// The extents of four axes, which inference has counted.
fn four(shape: &[Dim]) -> [Dim; 4] {
    std::array::from_fn(|axis| shape[axis].clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fusewright_graph::tensor::Tensor;
    use fusewright_graph::{TensorType, interp};

    use super::*;
    use crate::inputs::{Sizes, Values, symbols, tensors};

    /// Attention of four query heads on two key heads, over `t` queries and `u` keys.
    fn graph(sdpa: Sdpa, dtype: DType, mask: Option<DType>) -> Graph {
        let b = Builder::new("attention");
        let (t, u) = (b.symbol("t", 1, None), b.symbol("u", 1, None));
        let ty = |heads: i64, rows: &Dim, width: i64| {
            TensorType::new(dtype, [2.into(), heads.into(), rows.clone(), width.into()])
        };
        let mut operands = vec![b.input("q", ty(4, &t, 8)), b.input("k", ty(2, &u, 8)), b.input("v", ty(2, &u, 6))];
        if let Some(mask) = mask {
            operands.push(b.input("mask", TensorType::new(mask, [t, u])));
        }
        b.output(b.prim(Prim::Sdpa(sdpa), &operands).expect("the operands fit"));
        b.finish()
    }

    #[test]
    fn attention_stays_in_its_interval() {
        for (dtype, mask, causal, wide) in [
            (DType::BF16, None, true, false),
            (DType::F16, Some(DType::F16), false, false),
            (DType::F32, Some(DType::Bool), true, false),
            (DType::BF16, Some(DType::Bool), false, true),
            (DType::F8E4M3, None, false, false),
        ] {
            let graph = graph(Sdpa { causal, wide, scale_bits: 0.3f64.to_bits() }, dtype, mask);
            let Lowered { graph: lowered, attention } = for_gpu(&graph).expect("lowers");
            let elsewhere = lowered.node_ids().filter(|id| !attention.contains(id));
            assert!(
                elsewhere.into_iter().all(|id| lowered.node(id).operands.is_empty()),
                "constants that nobody reads"
            );
            assert!(attention.len() + 1 >= lowered.nodes().len());
            let whole = |node: &Node| matches!(node.op, Op::Prim(Prim::Sdpa(_)));
            assert!(!lowered.nodes().iter().any(whole));
            for (t, u) in [(1, 1), (5, 7), (7, 5)] {
                let dims = [("t".to_owned(), t), ("u".to_owned(), u)].into();
                let sizes = symbols(&graph, &Sizes { rows: None, dims }, 1).expect("all have values");
                let inputs = tensors(&graph, &sizes, 3, Values::Ordinary).expect("typed");
                let given = BTreeMap::new();
                let got = interp::run(&lowered, &inputs, &given).expect("runs").remove(0);
                let range = interp::enclose(&graph, &inputs, &given).expect("runs").remove(0);
                let report = range.check(&got).expect("of one type");
                assert_eq!(report.inside, report.elements, "{dtype} {mask:?} {causal} {wide} at {t}, {u}: {report:?}");
            }
        }
    }

    #[test]
    fn queries_that_see_nothing_give_zeros() {
        let graph =
            graph(Sdpa { causal: false, wide: false, scale_bits: 1f64.to_bits() }, DType::F32, Some(DType::Bool));
        let lowered = for_gpu(&graph).expect("lowers").graph;
        let float = |shape: &[usize]| {
            let count = shape.iter().product::<usize>();
            let bytes: Vec<u8> = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
            Tensor::from_bytes(DType::F32, shape, &bytes).expect("as many bytes")
        };
        let mask = Tensor::from_bytes(DType::Bool, &[2, 3], &[0, 0, 0, 1, 0, 1]).expect("as many bytes");
        let inputs = [float(&[2, 4, 2, 8]), float(&[2, 2, 3, 8]), float(&[2, 2, 3, 6]), mask];
        let got = interp::run(&lowered, &inputs, &BTreeMap::new()).expect("runs").remove(0);
        let floats = got.floats().expect("floats");
        assert!(floats[..6].iter().all(|&x| x == 0.0) && floats[6..12].iter().all(|&x| x.is_finite() && x != 0.0));
    }

    #[test]
    fn products_are_of_what_the_library_takes() {
        for (dtype, out) in [(DType::F8E5M2, DType::BF16), (DType::BF16, DType::F16), (DType::F32, DType::BF16)] {
            let b = Builder::new("product");
            let x = b.input("x", TensorType::new(dtype, [3.into(), 4.into()]));
            let w = b.input("w", TensorType::new(dtype, [5.into(), 4.into()]));
            b.output(b.prim(Prim::MatMul { transpose_b: true, out }, &[x, w]).expect("fits"));
            let lowered = for_gpu(&b.finish()).expect("lowers").graph;
            let products = lowered.nodes().iter().filter(|node| matches!(node.op, Op::Prim(Prim::MatMul { .. })));
            for node in products {
                let (from, to) = (lowered.ty(node.operands[0]).dtype, lowered.ty(node.results[0]).dtype);
                assert!(is_taken(from) && (to == from || to == DType::F32), "{from} to {to}");
            }
            assert_eq!(lowered.ty(lowered.outputs()[0].value).dtype, out);
        }
    }
}
