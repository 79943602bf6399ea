//! What a graph claims of the sizes of a call beyond the ranges of its symbols: that slices lie inside their axes, that
//! axes from which elements are gathered have one, that a top-k finds enough elements, and that what is made has no less than
//! no elements.
//!
//! An exporter that saw `y` shorter than `x` states `x[:len(y)]` as a slice of as many elements as `y` has. Whether it lies
//! inside `x` is known when a call gives both. Claims are those of the graph before passes, which may drop a slice.

use fusewright_graph::dim::DimFn;
use fusewright_graph::{Dim, Graph, Node, Op, Prim, dim_range};

use super::plan::Binding;
use super::words;
use crate::Error;

/// A claim is one statement about sizes.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    stated: Stated,
    /// What the claim is about, in words.
    what: String,
}

#[derive(Clone, PartialEq, Debug)]
enum Stated {
    /// A slice, or the first place that is gathered from, lies inside its axis.
    Inside { start: Dim, end: Dim, extent: Dim },
    /// An axis has as many elements as are taken of it.
    Enough { k: Dim, extent: Dim },
    /// An axis of something new has no negative extent.
    NotNegative(Dim),
}

impl Stated {
    /// Gives the dims that must not be negative.
    fn terms(&self) -> Vec<Dim> {
        match self {
            Stated::Inside { start, end, extent } => vec![start.clone(), end - start, extent - end],
            Stated::Enough { k, extent } => vec![k.clone(), extent - k],
            Stated::NotNegative(extent) => vec![extent.clone()],
        }
    }
}

/// The claims of a graph that its ranges do not decide.
pub(crate) fn claims(graph: &Graph) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    for (node, stated, how) in graph.nodes().iter().flat_map(|node| stated(graph, node)) {
        let holds = |dim: &Dim| dim_range(dim, graph.symbols()).is_some_and(|(least, _)| least >= 0);
        if stated.terms().iter().all(holds) || claims.iter().any(|claim| claim.stated == stated) {
            continue;
        }
        claims.push(Claim { stated, what: format!("{}{how}", named_with_source(graph, node)) });
    }
    claims
}

/// Gives the statements of a node about sizes, each with words for an error.
fn stated<'g>(graph: &Graph, node: &'g Node) -> Vec<(&'g Node, Stated, String)> {
    let of = |how: &str, axis: usize| format!(", {how} {} along axis {axis}", words::name(graph, node.operands[0]));
    let extent = |axis: usize| graph.ty(node.operands[0]).shape[axis].clone();
    match &node.op {
        &Op::Prim(Prim::Slice { axis, ref start, ref end, .. }) => {
            let inside = Stated::Inside { start: start.clone(), end: end.clone(), extent: extent(axis) };
            vec![(node, inside, of("a part of", axis))]
        }
        // An index is moved into its axis, which has to have a place for it.
        &Op::Prim(Prim::Gather { axis }) => {
            let elements = graph.ty(node.results[0]).elements();
            let end = Dim::function(DimFn::Min, &elements, &Dim::constant(1));
            let inside = Stated::Inside { start: Dim::constant(0), end, extent: extent(axis) };
            vec![(node, inside, of("gathered from", axis))]
        }
        Op::Prim(Prim::TopK { k }) => {
            let axis = graph.ty(node.operands[0]).rank().saturating_sub(1);
            let enough = Stated::Enough { k: k.clone(), extent: extent(axis) };
            vec![(node, enough, of("the largest of", axis))]
        }
        // What fills a tensor up to a length that the caller's is beyond, say.
        Op::Prim(Prim::Expand { shape } | Prim::Iota { shape, .. }) => {
            let along = |(axis, extent): (usize, &Dim)| {
                (node, Stated::NotNegative(extent.clone()), format!(" along axis {axis}"))
            };
            shape.iter().enumerate().map(along).collect()
        }
        _ => Vec::new(),
    }
}

fn named_with_source(graph: &Graph, node: &Node) -> String {
    let source = node.origin.source.as_ref().map_or_else(String::new, |source| format!(" at {source}"));
    format!("{}{source}", words::name(graph, node.results[0]))
}

/// Checks the claims of a graph for one call.
///
/// # Errors
/// A slice that leaves its axis, a top-k of too few elements, or an extent below zero, with its node.
pub(crate) fn check(claims: &[Claim], binding: &Binding) -> Result<(), Error> {
    let value = |dim: &Dim| dim.eval(&|s| binding.get(s).copied()).map_err(|e| Error::Call(e.to_string()));
    for Claim { stated, what } in claims {
        let values = stated.terms().iter().map(value).collect::<Result<Vec<i64>, Error>>()?;
        if values.iter().all(|&value| value >= 0) {
            continue;
        }
        let named = |dim: &Dim| {
            let value = value(dim)?;
            Ok::<_, Error>(dim.as_const().map_or_else(|| format!("{dim} = {value}"), |_| value.to_string()))
        };
        let why = match stated {
            Stated::Inside { start, end, extent } => {
                format!("goes from {} to {}, but the axis has {}", named(start)?, named(end)?, named(extent)?)
            }
            Stated::Enough { k, extent } => {
                format!("takes {} elements, but the axis has {}", named(k)?, named(extent)?)
            }
            Stated::NotNegative(extent) => format!("would have {} elements", named(extent)?),
        };
        return Err(Error::Call(format!("these sizes do not fit the model: {what} {why}")));
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
    fn a_top_k_finds_enough_elements() {
        let fixed = "  %v, %i = top_k %x {k = 4}\n  return %v, %i";
        assert_eq!((checked(fixed, 4, 2), checked(fixed, 9, 2)), (Ok(()), Ok(())));
        let error = checked(fixed, 3, 2).expect_err("4 of 3");
        assert!(
            error
                .ends_with("value `v`, the largest of input `x` along axis 1 takes 4 elements, but the axis has s = 3"),
            "{error}"
        );
        let symbolic = "  %v, %i = top_k %x {k = t}\n  return %v, %i";
        assert!(checked(symbolic, 5, 5).is_ok() && checked(symbolic, 5, 6).is_err_and(|e| e.contains("takes t = 6")));
    }

    #[test]
    fn nothing_is_made_of_less_than_no_elements() {
        let fill = "  %z = literal f32 0.0\n  %f = expand %z {shape = [2, t - s]}\n  \
                    %j = cat %x, %f {axis = 1}\n  return %j";
        assert_eq!((checked(fill, 5, 5), checked(fill, 5, 9)), (Ok(()), Ok(())));
        let error = checked(fill, 5, 4).expect_err("less than none");
        assert!(error.ends_with("value `f` along axis 1 would have -s + t = -1 elements"), "{error}");
        let count = "  %c = iota {type = i64[t - s], axis = 0}\n  return %c";
        assert!(checked(count, 5, 5).is_ok() && checked(count, 5, 4).is_err_and(|e| e.contains("value `c`")));
    }

    #[test]
    fn what_ranges_decide_is_no_claim() {
        let text = "graph @g(s: 2..; %x: f32[s]) {\n  %a = slice %x {axis = 0, start = 1, end = s - 1}\n  return %a\n}";
        assert!(claims(&text.parse().unwrap_or_else(|e| panic!("{e}"))).is_empty());
    }
}
