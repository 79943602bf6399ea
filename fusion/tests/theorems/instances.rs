//! Left sides of a rewrite as graphs: dtypes, shapes, attributes and spellings of constants.

use std::collections::BTreeMap;

use fusewright_fusion::rewrites::Rewrite;
use fusewright_graph::text::{Bindings, RuleOp};
use fusewright_graph::{Builder, DType, Dim, Graph, NanRule, Op, Prim, ReduceOp, Rounding, TensorType, Value};

/// A left side and the dtype of its last parameter.
pub struct Instance {
    pub graph: Graph,
    pub dtype: DType,
}

/// The shape of each parameter: 0 is an extent of the symbol `s`.
type Shapes = &'static [&'static [i64]];

const SHAPES: [Shapes; 14] = [
    &[&[30, 31]],
    &[&[]],
    &[&[1, 1]],
    &[&[0, 5, 2]],
    &[&[2, 0, 4]],
    &[&[7, 1, 5]],
    // Where a permutation does not show in the shape.
    &[&[8, 8]],
    &[&[3, 3, 3]],
    &[&[30, 31], &[31]],
    &[&[30, 31], &[30, 1]],
    &[&[30, 31], &[]],
    &[&[31], &[30, 31]],
    &[&[1, 5], &[4, 1]],
    &[&[2, 29], &[2, 29], &[29], &[2, 1]],
];

/// How a constant is spelled.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    Scalar,
    Spread,
    Stretched,
}

/// Every left side of a sample that its ops admit.
pub fn instances(rewrite: &Rewrite) -> Vec<Instance> {
    let mut all = Vec::new();
    let constants = rewrite.lhs.nodes.iter().any(|n| matches!(n.op, RuleOp::Constant(_)));
    let casts = rewrite.lhs.nodes.iter().filter(|n| matches!(&n.op, RuleOp::Pattern { name, .. } if name == "cast"));
    // Two casts have choices enough; shapes do not matter to them.
    let shapes = if casts.count() > 0 { &SHAPES[..2] } else { &SHAPES[..] };
    let spellings =
        if constants { &[Spelling::Scalar, Spelling::Spread, Spelling::Stretched][..] } else { &[Spelling::Scalar] };
    for dtypes in dtypes(rewrite) {
        for shape in shapes.iter().filter(|s| s.len() == 1 || rewrite.lhs.params.len() > 1) {
            for &spelling in spellings {
                let types = dtypes.iter().enumerate().map(|(i, &dtype)| {
                    let extents = shape[i.min(shape.len() - 1)];
                    let dim = |&e: &i64| if e == 0 { Dim::symbol("s") } else { Dim::constant(e) };
                    TensorType::new(dtype, extents.iter().map(dim))
                });
                grow(rewrite, &Start { types: types.collect(), spelling }, &mut Vec::new(), &mut all);
            }
        }
    }
    all
}

/// Dtypes of the parameters: all alike, a `bool` first, or the only ones that they admit.
fn dtypes(rewrite: &Rewrite) -> Vec<Vec<DType>> {
    let params = &rewrite.lhs.params;
    let alike = DType::ALL.into_iter().map(|d| vec![d; params.len()]);
    let conditions = DType::ALL.into_iter().map(|d| {
        let mut dtypes = vec![d; params.len()];
        dtypes[0] = DType::Bool;
        dtypes
    });
    let only = params.iter().map(|p| match p.dtypes.as_slice() {
        &[dtype] => Some(dtype),
        _ => None,
    });
    let mut all: Vec<Vec<DType>> = alike.chain(conditions.filter(|_| params.len() > 1)).collect();
    all.extend(only.collect::<Option<Vec<DType>>>().filter(|dtypes| !all.contains(dtypes)));
    all.retain(|dtypes| dtypes.iter().zip(params).all(|(d, p)| p.admits(*d)));
    all
}

struct Start {
    types: Vec<TensorType>,
    spelling: Spelling,
}

/// Chooses ops for the nodes one after another; every complete choice is an instance.
fn grow(rewrite: &Rewrite, start: &Start, chosen: &mut Vec<Op>, all: &mut Vec<Instance>) {
    let Some((graph, bindings)) = build(rewrite, start, chosen) else { return };
    let Some(node) = rewrite.lhs.nodes.get(chosen.len()) else {
        let dtype = start.types.last().map_or(DType::F32, |t| t.dtype);
        all.push(Instance { graph, dtype });
        return;
    };
    let candidates = match &node.op {
        RuleOp::Constant(_) => vec![Op::Prim(Prim::SizeOf(Dim::constant(0)))],
        RuleOp::Exact(op) => vec![op.clone()],
        RuleOp::Pattern { name, .. } => {
            let last = graph.outputs()[0].value;
            let operand = rewrite.lhs.params.iter().position(|p| p.name == node.operands[0]);
            let ty = operand.map_or_else(|| graph.ty(last).clone(), |i| start.types[i].clone());
            samples(name, &ty)
        }
    };
    for op in candidates {
        let constant = matches!(node.op, RuleOp::Constant(_));
        if constant || node.op.matches(&op, &mut bindings.clone()) {
            chosen.push(op);
            grow(rewrite, start, chosen, all);
            chosen.pop();
        }
    }
}

/// The nodes chosen so far on inputs, the last one returned; `None` where an op does not take its operands.
fn build(rewrite: &Rewrite, start: &Start, chosen: &[Op]) -> Option<(Graph, Bindings)> {
    let b = Builder::new("left");
    b.symbol("s", 0, None);
    let mut names: BTreeMap<&str, Value> = BTreeMap::new();
    let mut bindings = Bindings::default();
    let mut last = None;
    for (param, ty) in rewrite.lhs.params.iter().zip(&start.types) {
        let value = b.input(&param.name, ty.clone());
        names.insert(&param.name, value);
        last = Some(value);
    }
    let mut constants: BTreeMap<&str, &RuleOp> = BTreeMap::new();
    for (node, op) in rewrite.lhs.nodes.iter().zip(chosen) {
        if let RuleOp::Constant(_) = &node.op {
            constants.insert(&node.results[0], &node.op);
            continue;
        }
        let known = node.operands.iter().rev().find_map(|name| names.get(name.as_str()).copied())?;
        let mut operands = Vec::new();
        for name in &node.operands {
            operands.push(match names.get(name.as_str()) {
                Some(&value) => value,
                None => constant(&b, constants.get(name.as_str())?, known, start.spelling)?,
            });
        }
        node.op.matches(op, &mut bindings);
        let value = *b.op(op.clone(), &operands).ok()?.first()?;
        names.insert(&node.results[0], value);
        last = Some(value);
    }
    b.output(last?);
    Some((b.finish(), bindings))
}

fn constant(b: &Builder, op: &RuleOp, beside: Value, spelling: Spelling) -> Option<Value> {
    let ty = b.ty(beside);
    let literal = b.prim(Prim::Literal(op.constant(ty.dtype)?), &[]).ok()?;
    let mut shape = ty.shape;
    match spelling {
        Spelling::Scalar => return Some(literal),
        Spelling::Spread => {}
        // Broadcasting against it adds elements.
        Spelling::Stretched => shape.insert(0, Dim::constant(2)),
    }
    b.prim(Prim::Expand { shape }, &[literal]).ok()
}

/// Ops of a name with attributes that an operand of the type may have.
fn samples(name: &str, ty: &TensorType) -> Vec<Op> {
    let rank = ty.rank();
    let prims: Vec<Prim> = match name {
        "cast" => casts(),
        "reshape" => reshapes(&ty.shape).into_iter().map(|shape| Prim::Reshape { shape }).collect(),
        "expand" => expansions(&ty.shape).into_iter().map(|shape| Prim::Expand { shape }).collect(),
        "permute" => {
            let turned = (0..rank).map(|i| (i + 1) % rank.max(1)).collect();
            [(0..rank).collect(), (0..rank).rev().collect(), turned].map(|perm| Prim::Permute { perm }).to_vec()
        }
        "slice" => (0..rank).flat_map(|axis| cuts(axis, &ty.shape[axis])).collect(),
        "cat" => (0..rank).map(|axis| Prim::Cat { axis }).collect(),
        "reduce" => reductions(rank),
        _ => panic!("no sample attributes of `{name}`"),
    };
    prims.into_iter().map(Op::Prim).collect()
}

fn casts() -> Vec<Prim> {
    let mut all = Vec::new();
    for to in DType::ALL {
        for round in [Rounding::NearestEven, Rounding::TowardZero, Rounding::Up] {
            all.extend([false, true].map(|saturate| Prim::Cast { to, round, saturate }));
        }
    }
    all
}

fn reshapes(shape: &[Dim]) -> Vec<Vec<Dim>> {
    let one = Dim::constant(1);
    let flat = vec![fusewright_graph::dim::product(shape)];
    let (before, after) = ([std::slice::from_ref(&one), shape].concat(), [shape, std::slice::from_ref(&one)].concat());
    vec![shape.to_vec(), flat, before, after, shape.iter().rev().cloned().collect()]
}

fn expansions(shape: &[Dim]) -> Vec<Vec<Dim>> {
    let wide = |d: &Dim| if d.as_const() == Some(1) { Dim::constant(3) } else { d.clone() };
    vec![shape.to_vec(), shape.iter().map(wide).collect(), [&[Dim::constant(2)], shape].concat()]
}

fn cuts(axis: usize, extent: &Dim) -> Vec<Prim> {
    let dim = Dim::constant;
    let cut = |start: Dim, end: Dim, step| Prim::Slice { axis, start, end, step };
    let whole = [1, 2].map(|step| cut(dim(0), extent.clone(), step));
    let part = extent.as_const().map_or(Vec::new(), |n| vec![cut(dim(1), dim(n), 1), cut(dim(0), dim(n - 1), 1)]);
    [whole.to_vec(), part].concat()
}

fn reductions(rank: usize) -> Vec<Prim> {
    let mut all = Vec::new();
    for axes in [vec![0], vec![rank.saturating_sub(1)], (0..rank).collect()] {
        for op in ReduceOp::ALL {
            all.extend([NanRule::Propagate, NanRule::Ignore].map(|nan| Prim::Reduce { op, axes: axes.clone(), nan }));
        }
    }
    all
}
