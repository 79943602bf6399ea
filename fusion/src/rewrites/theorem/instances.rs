//! Left sides of a rewrite as graphs: dtypes, shapes, attributes and spellings of constants.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::text::{AttrPattern, Bindings, Rest, RuleOp, op_attrs, op_from_text};
use fusewright_graph::{Builder, DType, Dim, Graph, NanRule, Op, Prim, ReduceOp, Rounding, TensorType, Value, ops};

use super::super::Rewrite;
use super::{Effort, Sample};

/// A left side and the dtype of its last parameter.
pub(super) struct Instance {
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

/// Shapes for composites, whose lanes may have to be divisible.
const LANES: [Shapes; 2] = [&[&[4, 256]], &[&[4, 256], &[256]]];

/// Every left side of a sample that its ops admit, those of `given` first.
pub(super) fn instances(rewrite: &Rewrite, given: &[Sample], most: Effort) -> Vec<Instance> {
    let mut all = Vec::new();
    let mut start = |types: Vec<TensorType>, spelling, texts: &BTreeMap<String, String>| {
        if all.len() >= most.instances {
            return;
        }
        let mut budget = most.choices;
        grow(rewrite, &Start { types, spelling, texts }, &mut Vec::new(), &mut budget, &mut all);
    };
    let constants = rewrite.lhs.nodes.iter().any(|n| matches!(n.op, RuleOp::Constant(_)));
    let spellings =
        if constants { &[Spelling::Scalar, Spelling::Spread, Spelling::Stretched][..] } else { &[Spelling::Scalar] };
    let none = BTreeMap::new();
    for sample in given {
        for &spelling in spellings {
            start(sample.types.clone(), spelling, &sample.texts);
        }
    }
    for dtypes in dtypes(rewrite) {
        for shape in shapes(rewrite) {
            for &spelling in spellings {
                let types = dtypes.iter().enumerate().map(|(i, &dtype)| {
                    let extents = shape[i.min(shape.len() - 1)];
                    let dim = |&e: &i64| if e == 0 { Dim::symbol("s") } else { Dim::constant(e) };
                    TensorType::new(dtype, extents.iter().map(dim))
                });
                start(types.collect(), spelling, &none);
            }
        }
    }
    all
}

fn shapes(rewrite: &Rewrite) -> Vec<Shapes> {
    let named = |op: &RuleOp, wanted: &dyn Fn(&str) -> bool| match op {
        RuleOp::Pattern { name, .. } => wanted(name),
        RuleOp::Exact(op) => wanted(op.name()),
        RuleOp::Constant(_) => false,
    };
    let any = |wanted: &dyn Fn(&str) -> bool| rewrite.lhs.nodes.iter().any(|n| named(&n.op, wanted));
    let free_cast = |n: &RuleOp| matches!(n, RuleOp::Pattern { name, .. } if name == "cast");
    // Two casts have choices enough, and shapes do not matter to what computes each element by itself.
    let casts = rewrite.lhs.nodes.iter().any(|n| free_cast(&n.op));
    let mut shapes = if casts && !any(&|name| name == "reduce") { SHAPES[..2].to_vec() } else { SHAPES.to_vec() };
    if any(&|name| ops::by_name(name).is_some()) {
        shapes.extend(LANES);
    }
    shapes.retain(|s| s.len() == 1 || rewrite.lhs.params.len() > 1);
    shapes
}

/// Dtypes of the parameters: all alike as far as they admit it, or a `bool` first.
fn dtypes(rewrite: &Rewrite) -> Vec<Vec<DType>> {
    let params = &rewrite.lhs.params;
    let mut all: Vec<Vec<DType>> = Vec::new();
    for dtype in DType::ALL {
        let alike: Vec<DType> =
            params.iter().map(|p| if p.admits(dtype) { dtype } else { *p.dtypes.first().unwrap_or(&dtype) }).collect();
        let mut condition = alike.clone();
        let conditions = match condition.first_mut() {
            Some(first) if params.len() > 1 && params[0].admits(DType::Bool) => {
                *first = DType::Bool;
                vec![alike, condition]
            }
            _ => vec![alike],
        };
        for dtypes in conditions {
            if !all.contains(&dtypes) {
                all.push(dtypes);
            }
        }
    }
    all
}

struct Start<'a> {
    types: Vec<TensorType>,
    spelling: Spelling,
    /// What variables stand for.
    texts: &'a BTreeMap<String, String>,
}

/// Chooses ops for the nodes one after another; every complete choice is an instance.
fn grow(rewrite: &Rewrite, start: &Start<'_>, chosen: &mut Vec<Op>, budget: &mut usize, all: &mut Vec<Instance>) {
    let Some(built) = build(rewrite, start, chosen) else { return };
    let Some(node) = rewrite.lhs.nodes.get(chosen.len()) else {
        for name in &rewrite.lhs.yields {
            built.b.output(built.names[name.as_str()]);
        }
        let dtype = start.types.last().map_or(DType::F32, |t| t.dtype);
        all.push(Instance { graph: built.b.finish(), dtype });
        return;
    };
    let candidates = match &node.op {
        // A constant is made where it is read.
        RuleOp::Constant(_) => vec![Op::Prim(Prim::SizeOf(Dim::constant(0)))],
        RuleOp::Exact(op) => vec![op.clone()],
        RuleOp::Pattern { name, attrs, rest } => {
            let operand = node.operands.first().and_then(|name| built.names.get(name.as_str()));
            let ty = operand.map_or_else(|| TensorType::new(DType::F32, []), |&v| built.b.ty(v));
            candidates(name, attrs, rest, &ty, start.texts)
        }
    };
    for op in candidates {
        let constant = matches!(node.op, RuleOp::Constant(_));
        if *budget > 0 && (constant || node.op.matches(&op, &mut built.bindings.clone())) {
            *budget -= 1;
            chosen.push(op);
            grow(rewrite, start, chosen, budget, all);
            chosen.pop();
        }
    }
}

/// The ops that a pattern may stand for: those of the sample with the attributes that the pattern fixes.
fn candidates(
    name: &str,
    attrs: &[(String, AttrPattern)],
    rest: &Rest,
    ty: &TensorType,
    texts: &BTreeMap<String, String>,
) -> Vec<Op> {
    let fixed: Vec<(String, String)> = attrs
        .iter()
        .filter_map(|(key, pattern)| match pattern {
            AttrPattern::Text(text) => Some((key.clone(), text.clone())),
            AttrPattern::Variable(v) => texts.get(v).map(|text| (key.clone(), text.clone())),
        })
        .collect();
    let with_fixed = |op: &Op| {
        let others = op_attrs(op).into_iter().filter(|(key, _)| fixed.iter().all(|(k, _)| k != key));
        let all: Vec<(String, String)> = others.chain(fixed.iter().cloned()).collect();
        op_from_text(name, &all).ok()
    };
    let mut found: Vec<Op> = Vec::new();
    let alone = if *rest == Rest::Default { op_from_text(name, &fixed).ok() } else { None };
    for op in samples(name, ty).iter().filter_map(with_fixed).chain(alone) {
        if !found.contains(&op) {
            found.push(op);
        }
    }
    found
}

struct Built<'r> {
    b: Builder,
    bindings: Bindings,
    names: BTreeMap<&'r str, Value>,
}

/// The nodes chosen so far on inputs; `None` where an op does not take its operands.
fn build<'r>(rewrite: &'r Rewrite, start: &Start<'_>, chosen: &[Op]) -> Option<Built<'r>> {
    let b = Builder::new("left");
    let mut symbols = BTreeSet::from(["s".to_owned()]);
    start.types.iter().flat_map(|ty| &ty.shape).for_each(|dim| dim.collect_symbols(&mut symbols));
    for symbol in &symbols {
        b.symbol(symbol, 0, None);
    }
    let mut names: BTreeMap<&str, Value> = BTreeMap::new();
    let mut bindings = Bindings::default();
    for (param, ty) in rewrite.lhs.params.iter().zip(&start.types) {
        names.insert(&param.name, b.input(&param.name, ty.clone()));
    }
    let mut constants: BTreeMap<&str, &RuleOp> = BTreeMap::new();
    for (node, op) in rewrite.lhs.nodes.iter().zip(chosen) {
        if let RuleOp::Constant(_) = &node.op {
            constants.insert(&node.results[0], &node.op);
            continue;
        }
        let known = node.operands.iter().rev().find_map(|name| names.get(name.as_str()).copied());
        let mut operands = Vec::new();
        for name in &node.operands {
            operands.push(match names.get(name.as_str()) {
                Some(&value) => value,
                None => constant(&b, constants.get(name.as_str())?, known?, start.spelling)?,
            });
        }
        node.op.matches(op, &mut bindings);
        let results = b.op(op.clone(), &operands).ok()?;
        if results.len() != node.results.len() {
            return None;
        }
        names.extend(node.results.iter().map(String::as_str).zip(results));
    }
    Some(Built { b, bindings, names })
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
        _ => {
            return ops::by_name(name)
                .map_or_else(Vec::new, |spec| (spec.variants)().into_iter().map(Op::Composite).collect());
        }
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
