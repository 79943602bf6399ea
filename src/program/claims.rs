//! What a graph claims of the sizes of a call beyond the ranges of its symbols: that slices lie inside their axes, and that
//! axes from which elements are gathered have one.
//!
//! An exporter that saw `y` shorter than `x` states `x[:len(y)]` as a slice of as many elements as `y` has. Whether it lies
//! inside `x` is known when a call gives both. Claims are those of the graph before passes, which may drop a slice.

use fusewright_graph::dim::DimFn;
use fusewright_graph::{Dim, Graph, Node, Op, Prim, dim_range};

use super::plan::Binding;
use super::words;
use crate::Error;

/// That a slice, or the first place of what is gathered from, lies inside its axis.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    start: Dim,
    end: Dim,
    extent: Dim,
    /// What the claim is about, in words.
    what: String,
}

/// The claims of a graph that its ranges do not decide.
pub(crate) fn claims(graph: &Graph) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    for node in graph.nodes() {
        let (axis, start, end, how) = match &node.op {
            Op::Prim(Prim::Slice { axis, start, end, .. }) => (axis, start.clone(), end.clone(), "a part of"),
            // An index is moved into its axis, which has to have a place for it.
            Op::Prim(Prim::Gather { axis }) => {
                let elements = graph.ty(node.results[0]).elements();
                let one = Dim::function(DimFn::Min, &elements, &Dim::constant(1));
                (axis, Dim::constant(0), one, "gathered from")
            }
            _ => continue,
        };
        let (start, end) = (&start, &end);
        let extent = &graph.ty(node.operands[0]).shape[*axis];
        let holds = |dim: &Dim| dim_range(dim, graph.symbols()).is_some_and(|(least, _)| least >= 0);
        let known = [start, &(end - start), &(extent - end)].into_iter().all(holds);
        let same = |c: &Claim| [&c.start, &c.end, &c.extent] == [start, end, extent];
        if known || claims.iter().any(same) {
            continue;
        }
        let source = words::name(graph, node.operands[0]);
        let what = format!("{}, {how} {source} along axis {axis}", named_with_source(graph, node));
        claims.push(Claim { start: start.clone(), end: end.clone(), extent: extent.clone(), what });
    }
    claims
}

fn named_with_source(graph: &Graph, node: &Node) -> String {
    let source = node.origin.source.as_ref().map_or_else(String::new, |source| format!(" at {source}"));
    format!("{}{source}", words::name(graph, node.results[0]))
}

/// Checks the claims of a graph for one call.
///
/// # Errors
/// A slice that leaves its axis, with its node.
pub(crate) fn check(claims: &[Claim], binding: &Binding) -> Result<(), Error> {
    let value = |dim: &Dim| dim.eval(&|s| binding.get(s).copied()).map_err(|e| Error::Call(e.to_string()));
    for claim in claims {
        let (start, end, extent) = (value(&claim.start)?, value(&claim.end)?, value(&claim.extent)?);
        if 0 <= start && start <= end && end <= extent {
            continue;
        }
        let named = |dim: &Dim, value: i64| match dim.as_const() {
            Some(_) => value.to_string(),
            None => format!("{dim} = {value}"),
        };
        let (from, to) = (named(&claim.start, start), named(&claim.end, end));
        return Err(Error::Call(format!(
            "these sizes do not fit the model: {} goes from {from} to {to}, but the axis has {}",
            claim.what,
            named(&claim.extent, extent)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(body: &str, s: i64, t: i64) -> Result<(), String> {
        let text = format!("graph @g(s: 2.., t: 2..; %x: f32[2, s], %y: f32[t]) {{\n{body}\n}}");
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        check(&claims(&graph), &Binding::from([("s".into(), s), ("t".into(), t)])).map_err(|e| e.to_string())
    }

    #[test]
    fn a_slice_that_leaves_its_axis_but_not_its_tensor_is_an_error() {
        let front = "  %a = slice %x {axis = 1, start = 0, end = t}\n  return %a";
        assert_eq!(checked(front, 5, 5), Ok(()));
        let error = checked(front, 5, 6).expect_err("6 of 5");
        assert_eq!(
            error,
            "these sizes do not fit the model: value `a`, a part of input `x` along axis 1 goes from 0 to t = 6, but \
             the axis has s = 5"
        );
        let back = "  %a = slice %x {axis = 1, start = s - t, end = s}\n  return %a";
        assert_eq!(checked(back, 5, 2), Ok(()));
        assert!(checked(back, 5, 6).is_err_and(|e| e.contains("from s - t = -1 to s = 5")));
        let reversed = "  %a = slice %x {axis = 1, start = t, end = s - t}\n  return %a";
        assert!(checked(reversed, 5, 2).is_ok() && checked(reversed, 5, 3).is_err());
    }

    #[test]
    fn elements_are_gathered_from_an_axis_that_has_some() {
        let text =
            "graph @g(s: 0.., t: 0..; %x: f32[t, 4], %i: i64[s]) {\n  %y = gather %x, %i {axis = 0}\n  return %y\n}";
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let checked = |s: i64, t: i64| check(&claims(&graph), &Binding::from([("s".into(), s), ("t".into(), t)]));
        assert!(checked(0, 0).is_ok() && checked(3, 1).is_ok() && checked(0, 2).is_ok());
        let error = checked(3, 0).expect_err("from nothing").to_string();
        assert!(error.contains("value `y`, gathered from input `x` along axis 0"), "{error}");
        let fixed = text.replace("s: 0.., t: 0..", "s: 1..").replace("f32[t, 4]", "f32[5, 4]");
        assert!(claims(&fixed.parse().unwrap_or_else(|e| panic!("{e}"))).is_empty());
    }

    #[test]
    fn what_ranges_decide_is_no_claim() {
        let text = "graph @g(s: 2..; %x: f32[s]) {\n  %a = slice %x {axis = 0, start = 1, end = s - 1}\n  return %a\n}";
        assert!(claims(&text.parse().unwrap_or_else(|e| panic!("{e}"))).is_empty());
    }
}
