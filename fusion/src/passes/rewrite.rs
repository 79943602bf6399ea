//! Replaces nodes by simpler ones that compute the same: the tables of [`crate::rewrites`], and the equations of
//! `layout.rs` that need arithmetic on extents.
//!
//! Rules look at the operands of a node as already rebuilt, so one sweep reaches their fixed point. Equal nodes are
//! merged on the way, since a rule that reads a value twice needs it to be one. `rewrite` keeps all
//! bits, −0 and infinities included; only NaN payloads may differ. `relax` also applies what is tagged `fast`; it does
//! nothing unless relaxed mode is on, and runs after composites are recognised, since it takes their expansions apart.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use fusewright_graph::{Builder, Graph, Op, Origin, TypeError, Value};

use super::{cse, dce};
use crate::pass::{Cx, Diagnostic, Outcome, Pass, PassResult, Relaxation};
use crate::rewrites::{Class, Counts, Rules, all, form};

/// What keeps every bit.
pub const PASS: Pass =
    Pass { name: "rewrite", required: false, run: |graph, cx| run(graph, cx, "rewrite", exact(), &mut |_, _, _| ()) };

/// What changes roundings.
pub const RELAX: Pass = Pass { name: "relax", required: false, run: relax };

fn exact() -> &'static Rules<'static> {
    static RULES: OnceLock<Rules<'static>> = OnceLock::new();
    RULES.get_or_init(|| Rules::new(all().iter().filter(|r| r.class == Class::Exact), true))
}

/// Takes composites apart, so that roundings inside them are seen, unless nothing is found.
fn relax(graph: &Graph, cx: &mut Cx) -> PassResult {
    static RULES: OnceLock<Rules<'static>> = OnceLock::new();
    static FAST: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    if !cx.relaxed || cx.is_spent() {
        return Ok((graph.clone(), Outcome::default()));
    }
    let fast = FAST.get_or_init(|| all().iter().filter(|r| r.class == Class::Fast).map(|r| r.name.as_str()).collect());
    let expanded =
        graph.expanded().map_err(|e| Diagnostic { pass: RELAX.name, message: e.to_string(), origin: None })?;
    let (flat, _) = cse::merge(&expanded)?;
    let mut found: Vec<Relaxation> = Vec::new();
    let rules = RULES.get_or_init(|| Rules::new(all(), true));
    let (relaxed, outcome) = run(&flat, cx, RELAX.name, rules, &mut |value, counts, origin| {
        let relaxations = counts.iter().filter(|(name, _)| fast.contains(name.as_str()));
        found.extend(relaxations.map(|(rewrite, &times)| Relaxation {
            value,
            rewrite: rewrite.clone(),
            times,
            origin: origin.clone(),
        }));
    })?;
    if found.is_empty() {
        return Ok((graph.clone(), Outcome::default()));
    }
    // Values are reported as they are numbered at the end: `dce`, which alone may follow, numbers a graph without unused
    // nodes as it is.
    let (pruned, map, _) = dce::without_unneeded(&relaxed, &mut Cx::default());
    let inputs: BTreeSet<Value> = relaxed.inputs().iter().map(|input| input.value).collect();
    cx.relaxations = found
        .into_iter()
        .filter_map(|r| {
            let value = if inputs.contains(&r.value) { r.value } else { *map.get(&r.value)? };
            Some(Relaxation { value, ..r })
        })
        .collect();
    Ok((pruned, outcome))
}

/// Rewrites every node; `seen` is told of each that changed.
fn run(
    graph: &Graph,
    cx: &mut Cx,
    pass: &'static str,
    rules: &Rules<'_>,
    seen: &mut dyn FnMut(Value, &Counts, &Origin),
) -> PassResult {
    let (mut changed, mut met) = (0, cse::Met::default());
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let error = |e: TypeError| Diagnostic::rebuilt(pass, &node.origin, &e);
        if cx.is_spent() {
            return b.op(node.op.clone(), operands).map_err(error);
        }
        let mut counts = Counts::new();
        let make = || form(b, rules, &node.op, operands, &mut counts).map_err(error);
        let (results, merged) = met.merged(&node.op, operands, true, make)?;
        if merged || !counts.is_empty() {
            cx.spend();
            changed += 1;
        }
        if !counts.is_empty() {
            seen(results[0], &counts, &node.origin);
        }
        Ok(results)
    });
    Ok((rebuilt?, Outcome { changed }))
}

/// Adds a node in its simplest form that computes the same bits.
pub(crate) fn emit(b: &Builder, op: &Op, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
    form(b, exact(), op, operands, &mut Counts::new())
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::{BF16, Bool, F32};
    use fusewright_graph::{DType, Dim, Prim, Rounding, ScalarFn, TensorType};

    use super::*;

    /// Runs the pass on one expression of `x: bf16[s, 8]`; whether only `x` is left.
    fn vanishes(build: impl Fn(&Builder, Value) -> Result<Value, TypeError>) -> bool {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(BF16, [Dim::symbol("s"), Dim::constant(8)]));
        let y = build(&b, x).expect("types");
        b.output(y);
        let (out, _) = run(&b.finish(), &mut Cx::default(), "rewrite", exact(), &mut |_, _, _| ()).expect("runs");
        dce::prune(&out).0.nodes().is_empty()
    }

    fn cast(b: &Builder, x: Value, to: DType) -> Result<Value, TypeError> {
        b.prim(Prim::Cast { to, round: Rounding::NearestEven, saturate: false }, &[x])
    }

    #[test]
    fn neutral_operands_vanish() {
        assert!(vanishes(|b, x| b.mul(x, b.float(BF16, 1.0)?)));
        assert!(vanishes(|b, x| b.mul(b.float(BF16, 1.0)?, x)));
        assert!(vanishes(|b, x| b.div(x, b.float(BF16, 1.0)?)));
        assert!(vanishes(|b, x| b.add(x, b.float(BF16, -0.0)?)));
        assert!(vanishes(|b, x| b.sub(x, b.float(BF16, 0.0)?)));
        assert!(vanishes(|b, x| b.map(ScalarFn::Neg, &[b.map(ScalarFn::Neg, &[x])?])));
    }

    #[test]
    fn operands_that_change_a_bit_or_the_shape_stay() {
        assert!(!vanishes(|b, x| b.add(x, b.float(BF16, 0.0)?)));
        assert!(!vanishes(|b, x| b.sub(x, b.float(BF16, -0.0)?)));
        assert!(!vanishes(|b, x| b.div(b.float(BF16, 1.0)?, x)));
        assert!(!vanishes(|b, x| b.mul(x, b.float(BF16, 1.5)?)));
        let stretch = |b: &Builder, x: Value| {
            let shape = vec![Dim::constant(3), Dim::symbol("s"), Dim::constant(8)];
            b.mul(x, b.prim(Prim::Expand { shape }, &[b.float(BF16, 1.0)?])?)
        };
        assert!(!vanishes(stretch));
    }

    #[test]
    fn only_lossless_casts_are_looked_through() {
        assert!(vanishes(|b, x| cast(b, x, BF16)));
        assert!(vanishes(|b, x| cast(b, cast(b, x, F32)?, BF16)));
        assert!(!vanishes(|b, x| cast(b, cast(b, x, DType::F16)?, BF16)));
        assert!(!vanishes(|b, x| cast(b, cast(b, x, DType::F8E4M3)?, BF16)));
        assert!(!vanishes(|b, x| cast(b, cast(b, x, Bool)?, BF16)));
        // An infinity does not survive saturation.
        assert!(!vanishes(|b, x| b.cast_saturating(x, BF16)));
        assert!(!vanishes(|b, x| cast(b, b.cast_saturating(x, F32)?, BF16)));
    }

    #[test]
    fn roundings_are_dropped_in_relaxed_mode_only() {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(F32, [Dim::symbol("s"), Dim::constant(8)]));
        b.output(b.cast(b.cast(x, BF16).expect("narrow"), F32).expect("wide"));
        let graph = b.finish();
        for relaxed in [false, true] {
            let (out, outcome) = relax(&graph, &mut Cx { relaxed, ..Cx::default() }).expect("runs");
            assert_eq!(outcome.changed, usize::from(relaxed));
            assert_eq!(dce::prune(&out).0.nodes().is_empty(), relaxed);
        }
    }
}
