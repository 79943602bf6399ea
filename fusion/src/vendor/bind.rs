//! Which arguments make an op compute what a region computes, if any do.
//!
//! Every way to make the region's inputs the op's tensors is tried, as far as types allow it, with every small constant of the
//! region as epsilon and every choice of the other parameters.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use fusewright_graph::import::{CustomCall, Plain};
use fusewright_graph::{Graph, Literal, Op, Prim, TensorType};

use super::VendorCall;
use super::same::Numbers;
use super::table::{Role, VendorOp};
use crate::pass::{Cx, PassManager, Pipeline, Relaxation};
use crate::region::with_layout_first;

/// Most calls that are tried for a region.
const MOST_TRIED: usize = 4096;
/// What a constant inside a root is at most.
const LARGEST_EPSILON: f64 = 0.01;

/// What an op is to a region.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Verdict {
    /// It computes the same by this call.
    Same(VendorCall),
    /// It computes the same, if roundings in between do not count.
    ButForRounding,
    /// It computes something else.
    Other,
}

/// What an op is to the body of a region in primitives.
pub(super) fn find(op: &VendorOp, body: &Graph, pipeline: &Pipeline, relaxed: bool) -> Verdict {
    let own = forms(body.clone());
    let mut roughly = None;
    let mut but_for_rounding = false;
    for call in arguments(op, body, true).take(MOST_TRIED) {
        let Ok(meaning) = meaning(op, body, &call) else { continue };
        let Some((exact, _)) = through(&meaning, pipeline, relaxed) else { continue };
        if let Some(results) = alike(op, &own, &exact, &call) {
            let plain = call.plain.into_iter().filter(|chosen| !op.fixed.contains(chosen)).collect();
            return Verdict::Same(VendorCall { op: op.name, tensors: call.tensors, plain, results });
        }
        if !relaxed && !but_for_rounding {
            let body = roughly.get_or_insert_with(|| through(body, pipeline, true));
            let Some((body, _)) = body else { continue };
            but_for_rounding =
                through(&meaning, pipeline, true).is_some_and(|(rough, _)| alike(op, body, &rough, &call).is_some());
        }
    }
    if but_for_rounding { Verdict::ButForRounding } else { Verdict::Other }
}

/// The arguments of a call.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    tensors: Vec<(&'static str, String)>,
    plain: Vec<(&'static str, Plain)>,
}

impl Arguments {
    /// The input that a parameter is.
    pub fn input(&self, parameter: &str) -> Option<&str> {
        self.tensors.iter().find(|(name, _)| *name == parameter).map(|(_, input)| input.as_str())
    }
}

/// Every call whose tensors are inputs of a body, each once: all of them, or else some, the fewest first.
pub(super) fn arguments<'a>(op: &'a VendorOp, body: &'a Graph, all: bool) -> impl Iterator<Item = Arguments> + 'a {
    let inputs: Vec<(&str, &TensorType)> =
        body.inputs().iter().map(|input| (input.name.as_str(), body.ty(input.value))).collect();
    let left = inputs.len().checked_sub(op.tensors.len());
    let most = left.map(|left| left.min(op.optional.len()));
    let counts = match (all, left, most) {
        (true, Some(left), Some(most)) if left == most => left..=left,
        (false, _, Some(most)) => 0..=most,
        // None at all.
        _ => RangeInclusive::new(1, 0),
    };
    let chosen = counts.flat_map(|count| subsets(op.optional, count));
    let plain = plains(op, body);
    chosen.flat_map(move |optional| {
        let parameters: Vec<(&'static str, Role)> = op.tensors.iter().chain(&optional).copied().collect();
        let plain = plain.clone();
        assignments(&parameters, &inputs).into_iter().flat_map(move |tensors| {
            plain.clone().into_iter().map(move |plain| Arguments { tensors: tensors.clone(), plain })
        })
    })
}

/// The subsets of so many parameters, in order.
fn subsets(parameters: &[(&'static str, Role)], count: usize) -> Vec<Vec<(&'static str, Role)>> {
    let chosen =
        |bits: &u32| parameters.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, p)| *p).collect();
    let all = 0..1u32 << parameters.len();
    all.filter(|bits| bits.count_ones() as usize == count).map(|bits| chosen(&bits)).collect()
}

/// Every way to give each parameter an input of its own that it takes.
fn assignments(
    parameters: &[(&'static str, Role)],
    inputs: &[(&str, &TensorType)],
) -> Vec<Vec<(&'static str, String)>> {
    let mut partial: Vec<Vec<usize>> = vec![Vec::new()];
    for (_, role) in parameters {
        let extended = partial.iter().flat_map(|chosen| {
            let free = (0..inputs.len()).filter(|i| !chosen.contains(i));
            let rows = |i: usize| inputs[chosen.first().copied().unwrap_or(i)].1;
            free.filter(move |&i| role.takes(inputs[i].1, rows(i)))
                .map(|i| [chosen.as_slice(), &[i]].concat())
                .collect::<Vec<_>>()
        });
        partial = extended.collect();
    }
    let named = |chosen: Vec<usize>| {
        parameters.iter().zip(chosen).map(|((name, _), i)| (*name, inputs[i].0.to_owned())).collect()
    };
    partial.into_iter().map(named).collect()
}

/// Every choice of the parameters that are no tensors.
fn plains(op: &VendorOp, body: &Graph) -> Vec<Vec<(&'static str, Plain)>> {
    let mut all = vec![op.fixed.to_vec()];
    if let Some(name) = op.epsilon {
        let with = |rest: &Vec<(&'static str, Plain)>| {
            epsilons(body)
                .into_iter()
                .map(|eps| [rest.as_slice(), &[(name, Plain::Float(eps))]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    for (name, values) in op.choices {
        let with = |rest: &Vec<(&'static str, Plain)>| {
            values.iter().map(|value| [rest.as_slice(), &[(*name, *value)]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// Small constants of a body, as the shortest numbers that are them.
fn epsilons(body: &Graph) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for node in body.nodes() {
        if let Op::Prim(Prim::Literal(Literal::Float(_, value))) = &node.op
            && *value > 0.0
            && *value <= LARGEST_EPSILON
        {
            let shortest = (*value as f32).to_string().parse().unwrap_or(*value);
            if !found.contains(&shortest) {
                found.push(shortest);
            }
        }
    }
    found
}

/// What a call computes.
pub(super) fn meaning(op: &VendorOp, body: &Graph, call: &Arguments) -> Result<Graph, String> {
    let ty =
        |name: &str| body.inputs().iter().find(|input| input.name == name).map(|input| body.ty(input.value).clone());
    let tensors = call.tensors.iter().map(|(parameter, input)| Some((*parameter, ty(input)?)));
    let tensors: Vec<(&str, TensorType)> = tensors.collect::<Option<_>>().ok_or("an input that is not there")?;
    let rows = &tensors.first().ok_or("an op without tensors")?.1;
    let results = (op.stated)(rows);
    CustomCall { target: op.target, symbols: body.symbols(), tensors: &tensors, plain: &call.plain, results: &results }
        .graph()
}

/// A graph in primitives in two forms: with layout where the passes leave it, and in front of functions. Equal programs are
/// alike in one of them.
pub(super) type Forms = [Graph; 2];

pub(super) fn forms(graph: Graph) -> Forms {
    let hoisted = with_layout_first(&graph);
    [graph, hoisted]
}

/// A graph after the passes, and where relaxed mode changed roundings.
pub(super) fn through(graph: &Graph, pipeline: &Pipeline, relaxed: bool) -> Option<(Forms, Vec<Relaxation>)> {
    let mut cx = Cx { relaxed, ..Cx::default() };
    let (graph, _) = PassManager::new(pipeline.clone()).run(graph, &mut cx, &mut []).ok()?;
    Some((forms(crate::region::expand(&graph).ok()?), cx.relaxations))
}

/// As [`results`], in the form in which both are alike.
fn alike(op: &VendorOp, body: &Forms, meaning: &Forms, call: &Arguments) -> Option<Vec<(&'static str, Option<usize>)>> {
    body.iter().zip(meaning).find_map(|(body, meaning)| results(op, body, meaning, call))
}

/// Which outputs of the body the results of the op are, if every output is one.
fn results(
    op: &VendorOp,
    body: &Graph,
    meaning: &Graph,
    call: &Arguments,
) -> Option<Vec<(&'static str, Option<usize>)>> {
    let mut numbers = Numbers::default();
    let of_input = |name: &str| body.inputs().iter().position(|input| input.name == name);
    let of_parameter = |name: &str| of_input(call.input(name)?);
    let wanted = numbers.of_outputs(body, of_input);
    let made = numbers.of_outputs(meaning, of_parameter);
    let is_made = |number: &Option<usize>| number.is_some() && made.contains(number);
    if !wanted.iter().all(is_made) {
        return None;
    }
    let mut taken = BTreeSet::new();
    let output = |number: &Option<usize>| {
        let place = wanted.iter().enumerate().position(|(i, want)| want == number && !taken.contains(&i))?;
        taken.insert(place);
        Some(place)
    };
    let places: Vec<Option<usize>> = made.iter().map(output).collect();
    Some(op.results.iter().copied().zip(places).collect())
}
