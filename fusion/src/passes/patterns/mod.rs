//! Replaces what patterns of users find.
//!
//! It runs after composites are recognised, so that a pattern written over composites is met in every spelling of them.
//! Patterns apply in their order, each as long as the graph gets smaller. A match reads nothing that is read elsewhere
//! except what it yields, and its replacement stands where all its operands are known and none of its results is read.
//! For a pattern that is found nowhere the report says how near the nearest place came.

mod find;
mod nearest;
mod order;

use std::collections::BTreeMap;

use fusewright_graph::text::{Rule, RuleOp};
use fusewright_graph::{Graph, NodeId, Op, TypeError, Value};

use crate::pass::{Cx, Diagnostic, NearMiss, Outcome, Pass, PassResult, PatternReport, Unmatched};
use crate::rewrites::{Class, UserPattern};
use find::{Finder, Match};
use nearest::nearest;

/// The pass.
pub const PASS: Pass = Pass { name: "patterns", required: false, run };

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let patterns = cx.patterns.clone();
    if patterns.is_empty() {
        return Ok((graph.clone(), Outcome::default()));
    }
    // What nothing reads would count as a reader.
    let (given, mut graph) = (graph, super::dce(graph).0);
    let mut outcome = Outcome::default();
    for pattern in &patterns {
        let relaxed = pattern.class() == Class::Exact || cx.relaxed;
        let mut times = 0;
        let mut unmatched = (!relaxed).then_some(Unmatched::NeedsRelaxed);
        while relaxed && !cx.is_spent() {
            let mut found = Finder::new(&graph, pattern, None).all();
            found.truncate(cx.fuel.unwrap_or(usize::MAX));
            if found.is_empty() {
                unmatched = (times == 0).then(|| Unmatched::Near(nearest(&graph, pattern)));
                break;
            }
            found.iter().for_each(|_| cx.spend());
            times += found.len();
            let next = replace(&graph, &found).map_err(|e| failed(pattern, &graph, &found, &e))?;
            let next = super::dce(&next).0;
            let smaller = next.nodes().len() < graph.nodes().len();
            graph = next;
            if !smaller {
                break;
            }
        }
        outcome.changed += times;
        let name = pattern.name().to_owned();
        report(cx, PatternReport { name, class: pattern.class(), times, unmatched });
    }
    Ok((if outcome.changed > 0 { graph } else { given.clone() }, outcome))
}

fn failed(pattern: &UserPattern, graph: &Graph, found: &[Match], error: &TypeError) -> Diagnostic {
    let origin = found.first().map(|m| graph.node(m.place).origin.clone());
    Diagnostic { pass: PASS.name, message: format!("pattern `{}`: {error}", pattern.name()), origin }
}

/// Adds what one run of the pass did to what earlier ones did.
fn report(cx: &mut Cx, report: PatternReport) {
    match cx.pattern_reports.iter_mut().find(|r| r.name == report.name) {
        None => cx.pattern_reports.push(report),
        Some(known) => {
            known.times += report.times;
            known.unmatched = if known.times == 0 { report.unmatched } else { None };
        }
    }
}

/// The graph with every match of a pattern replaced, if there is one.
pub(crate) fn once(graph: &Graph, pattern: &UserPattern) -> Result<Option<Graph>, TypeError> {
    let found = Finder::new(graph, pattern, None).all();
    if found.is_empty() { Ok(None) } else { replace(graph, &found).map(Some) }
}

/// Why a pattern that applies nowhere in a graph does not apply at the place that comes nearest.
pub(crate) fn nearest_miss(graph: &Graph, pattern: &UserPattern) -> NearMiss {
    nearest(graph, pattern)
}

/// The nodes of a left side that no other reads, each by its first result, the last one first.
pub(crate) fn roots(lhs: &Rule) -> Vec<&str> {
    let read = |name: &String| lhs.nodes.iter().any(|n| n.operands.contains(name));
    let computing = lhs.nodes.iter().rev().filter(|n| !matches!(n.op, RuleOp::Constant(_)));
    computing.filter(|n| !n.results.iter().any(read)).map(|n| n.results[0].as_str()).collect()
}

/// The graph with the matches replaced; what they found is left unused.
fn replace(graph: &Graph, found: &[Match]) -> Result<Graph, TypeError> {
    let order = order::of(graph, found).expect("matches that leave no order are not found");
    // Inputs are the first values of a rebuilt graph.
    let inputs = graph.inputs().iter().zip(0..).map(|(input, i)| (input.value, Value(i)));
    let mut map: BTreeMap<Value, Value> = inputs.collect();
    let mut made: BTreeMap<Value, Value> = BTreeMap::new();
    let yields: BTreeMap<NodeId, usize> =
        found.iter().enumerate().flat_map(|(i, m)| m.yielding(graph).into_iter().map(move |id| (id, i))).collect();
    let mut built = vec![false; found.len()];
    graph.rebuild_in(order, |b, id, node, operands| {
        if let Some(&i) = yields.get(&id).filter(|&&i| !built[i]) {
            built[i] = true;
            let Match { plan, yields, .. } = &found[i];
            let results = plan.build(&|v| map[&v], &mut |op: Op, operands| b.op(op, operands))?;
            made.extend(yields.iter().copied().zip(results));
        }
        let known: Vec<Option<Value>> = node.results.iter().map(|r| made.get(r).copied()).collect();
        let results = match known.iter().copied().collect::<Option<Vec<Value>>>() {
            Some(results) => results,
            None => {
                let old = b.op(node.op.clone(), operands)?;
                known.into_iter().zip(old).map(|(new, old)| new.unwrap_or(old)).collect()
            }
        };
        map.extend(node.results.iter().copied().zip(results.iter().copied()));
        Ok(results)
    })
}

#[cfg(test)]
mod tests;
