//! Patterns: expansions of composites, matched by shape alone.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fusewright_graph::ops::{AttrText, AttrValue, Composite, LIST};
use fusewright_graph::prim::Literal;
use fusewright_graph::{Builder, DType, Def, Graph, NodeId, Op, Prim, TensorType, Value};

use super::cut::{Cut, Operand};
use super::equal::before_reshape;

/// The expansion of one variant of a composite on operands of some dtypes.
pub struct Pattern {
    composite: Composite,
    body: Graph,
    /// Constants of the body that are attributes.
    captures: BTreeMap<Value, &'static str>,
}

/// What a pattern stands for in a graph.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// The operands, in order.
    pub operands: Vec<Operand>,
    /// Attributes and the constants they are bound to.
    attrs: Vec<(String, f64)>,
}

/// Dtypes that activations, weights and tables come in.
const DTYPES: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// How far back ops are compared before a match is tried.
const LOOK: usize = 3;

/// The patterns that end in an op of that name, largest first.
pub fn ending_in(name: &str) -> &'static [Pattern] {
    static PATTERNS: OnceLock<BTreeMap<String, Vec<Pattern>>> = OnceLock::new();
    let by_root = PATTERNS.get_or_init(|| {
        let mut by_root: BTreeMap<String, Vec<Pattern>> = BTreeMap::new();
        for pattern in patterns() {
            let Some(root) = pattern.output().and_then(|output| pattern.body.def_node(output)) else { continue };
            by_root.entry(root.op.name().to_owned()).or_default().push(pattern);
        }
        by_root
    });
    by_root.get(name).map_or(&[], Vec::as_slice)
}

/// Every pattern, largest first.
fn patterns() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for spec in LIST {
        for composite in (spec.variants)() {
            let mut bodies: Vec<Pattern> = Vec::new();
            for types in spec.samples(DType::F32) {
                for dtypes in choices(&types) {
                    let operands = types.iter().zip(dtypes).map(|(t, dtype)| TensorType { dtype, ..t.clone() });
                    let Some(pattern) = Pattern::of(&composite, operands.collect()) else { continue };
                    // Dtypes that expand to the same functions and casts are one pattern.
                    let shape = pattern.shape();
                    if bodies.iter().all(|other| other.shape() != shape) {
                        bodies.push(pattern);
                    }
                }
            }
            patterns.append(&mut bodies);
        }
    }
    patterns.sort_by_key(|p| std::cmp::Reverse(p.body.nodes().len()));
    patterns
}

/// Every assignment of dtypes to operands that are float in the sample types.
fn choices(types: &[TensorType]) -> Vec<Vec<DType>> {
    let mut all = vec![Vec::new()];
    for ty in types {
        let dtypes = if ty.dtype.is_float() { &DTYPES[..] } else { std::slice::from_ref(&ty.dtype) };
        all = all.iter().flat_map(|c: &Vec<DType>| dtypes.iter().map(|&d| [&c[..], &[d]].concat())).collect();
    }
    all
}

impl Pattern {
    fn of(composite: &Composite, operands: Vec<TensorType>) -> Option<Pattern> {
        let b = Builder::new("pattern");
        let values: Vec<Value> =
            operands.into_iter().enumerate().map(|(i, ty)| b.input(&format!("x{i}"), ty)).collect();
        let results = composite.expand(&b, &values).ok()?;
        results.into_iter().for_each(|r| b.output(r));
        let captures = b.captures().into_iter().collect();
        Some(Pattern { composite: composite.clone(), body: b.finish(), captures })
    }

    fn shape(&self) -> Vec<(&Op, &[Value])> {
        self.body.nodes().iter().map(|node| (&node.op, node.operands.as_slice())).collect()
    }

    /// The value that the pattern is rooted at.
    fn output(&self) -> Option<Value> {
        Some(before_reshape(&self.body, self.body.outputs().first()?.value))
    }

    /// The pattern rooted at a node, if the node could be the last of the composite. Operands that play the same role,
    /// as in a product of two inputs, are bound as they come, or, if `swapped`, the other way round.
    pub fn find(&self, graph: &Graph, root: NodeId, swapped: bool) -> Option<Bound> {
        let output = self.output()?;
        let value = *graph.node(root).results.first()?;
        // Most patterns end here, before anything is allocated.
        if !self.may_be(graph, output, value, LOOK) {
            return None;
        }
        let mut state = State { operands: vec![None; self.body.inputs().len()], swapped, ..State::default() };
        if !self.value(graph, output, value, &mut state) {
            return None;
        }
        let operand = |(i, whole): (usize, &Option<Value>)| {
            let cuts = state.cuts.iter().filter(|(input, _)| *input == i).map(|(_, cut)| cut);
            Operand::of(graph, *whole, &cuts.collect::<Vec<_>>())
        };
        let operands = state.operands.iter().enumerate().map(operand).collect::<Option<Vec<Operand>>>()?;
        Some(Bound { operands, attrs: state.attrs })
    }

    /// The composite with the attributes that were found.
    pub fn composite(&self, bound: &Bound) -> Option<Composite> {
        let attrs = bound
            .attrs
            .iter()
            .fold(self.composite.attrs().clone(), |attrs, (name, value)| attrs.with(name, AttrValue::Float(*value)));
        (self.composite.spec().parse)(&attrs).ok()
    }

    /// Whether the ops behind two values are alike, as far as that many steps back.
    fn may_be(&self, graph: &Graph, p: Value, v: Value, steps: usize) -> bool {
        let (pn, vn) = match (self.body.def(p), graph.def(v)) {
            (Def::Input(_), _) => return true,
            (Def::Node(pn, pr), Def::Node(vn, vr)) if pr == vr => (self.body.node(pn), graph.node(vn)),
            _ => return false,
        };
        if !alike(&pn.op, &vn.op) || pn.operands.len() != vn.operands.len() {
            return false;
        }
        let Some(steps) = steps.checked_sub(1) else { return true };
        let fits = |(&p, &v): (&Value, &Value)| self.may_be(graph, p, v, steps);
        let commutes = matches!(&vn.op, Op::Prim(Prim::Map(f)) if f.spec().commutative);
        let swapped = || vn.operands.len() != 2 || pn.operands.iter().rev().zip(&vn.operands).all(fits);
        pn.operands.iter().zip(&vn.operands).all(fits) || (commutes && swapped())
    }

    fn value(&self, graph: &Graph, p: Value, v: Value, state: &mut State) -> bool {
        if let Some(&seen) = state.values.get(&p) {
            return seen == v;
        }
        let fits = match (self.body.def(p), graph.def(v)) {
            (Def::Input(i), _) => match state.operands[i] {
                Some(bound) => bound == v,
                None => {
                    state.operands[i] = Some(v);
                    true
                }
            },
            (Def::Node(..), Def::Input(_)) => false,
            (Def::Node(pn, pr), Def::Node(vn, vr)) => pr == vr && self.node(graph, pn, vn, state),
        };
        if fits {
            state.values.insert(p, v);
        }
        fits
    }

    fn node(&self, graph: &Graph, p: NodeId, v: NodeId, state: &mut State) -> bool {
        let (pattern, node) = (self.body.node(p), graph.node(v));
        if !alike(&pattern.op, &node.op) || pattern.operands.len() != node.operands.len() {
            return false;
        }
        if let Op::Prim(Prim::Literal(literal)) = &node.op {
            return self.constant(pattern.results[0], *literal, state);
        }
        if let (Op::Composite(p), Op::Composite(v)) = (&pattern.op, &node.op)
            && !self.numbers(p, v, state)
        {
            return false;
        }
        if let (Op::Prim(Prim::Slice { .. }), Def::Input(i)) = (&pattern.op, self.body.def(pattern.operands[0])) {
            // Graphs cut lanes out of a slice in one step, so what is cut may be the operand or more.
            state.cuts.extend(Cut::of(graph, v).map(|cut| (i, cut)));
            return true;
        }
        let commutes = matches!(&node.op, Op::Prim(Prim::Map(f)) if f.spec().commutative);
        if !commutes {
            // Where this does not fit, the state is given up by whoever had a choice.
            return pattern.operands.iter().zip(&node.operands).all(|(&p, &v)| self.value(graph, p, v, state));
        }
        let mut other = node.operands.clone();
        other.swap(0, 1);
        let orders = if state.swapped { [&other, &node.operands] } else { [&node.operands, &other] };
        for operands in orders {
            let mut attempt = state.clone();
            if pattern.operands.iter().zip(operands).all(|(&p, &v)| self.value(graph, p, v, &mut attempt)) {
                *state = attempt;
                return true;
            }
        }
        false
    }

    /// A constant binds the attribute it stands for; any other is checked on the actual expansion.
    fn constant(&self, p: Value, literal: Literal, state: &mut State) -> bool {
        let Some(&name) = self.captures.get(&p) else { return true };
        let Literal::Float(_, found) = literal else { return false };
        state.bind(name, found)
    }

    /// A composite inside the expansion may differ in numbers that are attributes of both: they are bound.
    fn numbers(&self, p: &Composite, v: &Composite, state: &mut State) -> bool {
        let own = self.composite.attrs();
        let (theirs, found) = (p.attrs(), v.attrs());
        found.0.iter().filter(|(name, text)| theirs.text(name) != Ok(text)).all(|(name, _)| {
            let known = own.0.iter().any(|(own, _)| own == name);
            known && found.float(name).is_ok_and(|value| state.bind(name, value))
        })
    }
}

#[derive(Clone, Default)]
struct State {
    values: BTreeMap<Value, Value>,
    operands: Vec<Option<Value>>,
    /// Lanes that stand where the pattern cuts lanes out of an operand.
    cuts: Vec<(usize, Cut)>,
    attrs: Vec<(String, f64)>,
    /// Whether commutative operands are tried in reversed order first.
    swapped: bool,
}

impl State {
    /// Binds an attribute, unless it is bound to another number already.
    fn bind(&mut self, name: &str, found: f64) -> bool {
        match self.attrs.iter().find(|(n, _)| n == name) {
            Some((_, bound)) => bound.to_bits() == found.to_bits(),
            None => {
                self.attrs.push((name.to_owned(), found));
                true
            }
        }
    }
}

/// The attributes of a composite that are no numbers.
fn words(op: &Composite) -> impl Iterator<Item = &(String, AttrText)> {
    op.attrs().0.iter().filter(|(_, text)| text.parse::<f64>().is_err())
}

/// Whether two ops are the same but for constants, extents and axes, which depend on the operands.
fn alike(p: &Op, v: &Op) -> bool {
    match (p, v) {
        (Op::Composite(p), Op::Composite(v)) => p.name() == v.name() && words(p).eq(words(v)),
        (Op::Prim(p), Op::Prim(v)) => match (p, v) {
            (Prim::Literal(p), Prim::Literal(v)) => p.dtype() == v.dtype(),
            (Prim::Reduce { op: p, nan: pn, .. }, Prim::Reduce { op: v, nan: vn, .. }) => (p, pn) == (v, vn),
            (Prim::Slice { step: p, .. }, Prim::Slice { step: v, .. }) => p == v,
            (Prim::Reshape { .. }, Prim::Reshape { .. })
            | (Prim::Expand { .. }, Prim::Expand { .. })
            | (Prim::Permute { .. }, Prim::Permute { .. })
            | (Prim::Iota { .. }, Prim::Iota { .. })
            | (Prim::Cat { .. }, Prim::Cat { .. })
            | (Prim::ArgReduce { .. }, Prim::ArgReduce { .. })
            | (Prim::SizeOf(_), Prim::SizeOf(_)) => true,
            (p, v) => p == v,
        },
        _ => false,
    }
}
