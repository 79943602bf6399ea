//! The graph of `explain` as boxes and edges, each step by itself or those that repeat once.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_fusion::region::FusedRegion;
use fusewright_graph::{NodeId, Value};
use fusewright_templates::drawing::{Bracket, Drawing, Shape};

use super::repeats::{Read, Repeat, Unit};
use super::{CHARACTER, Drawn, NodePanels, drawn, hue_of, kernel_id, layout, percent_saved};
use crate::Fused;
use crate::explain::{Explanation, Kernels, RegionReport};

/// Characters of a word on a box; the rest is in what shows where the pointer rests.
const LONGEST: usize = 40;
/// Room for a bracket beside its number.
const BRACKET: i64 = 34;

/// The steps of a call as what repeats is found in.
pub(super) fn units(fused: &Fused, report: &Explanation) -> Vec<Unit> {
    let mut labels: BTreeMap<String, usize> = BTreeMap::new();
    let mut numbered = |text: String| {
        let next = labels.len();
        *labels.entry(text).or_insert(next)
    };
    let mut sources: BTreeMap<Value, Read> = BTreeMap::new();
    for (i, input) in fused.graph.inputs().iter().enumerate().filter(|(_, input)| input.kind.is_given()) {
        sources.insert(input.value, Read::Given(i, numbered(fused.graph.ty(input.value).to_string())));
    }
    let mut units = Vec::new();
    for (i, step) in fused.partition.steps.iter().enumerate() {
        let (label, reads, makes) = match drawn(fused, report, step) {
            Drawn::Kernel(region, facts) => (facts.key.clone(), &region.inputs, &region.outputs),
            Drawn::Node(id) => {
                let node = fused.graph.node(id);
                let types: Vec<String> =
                    node.operands.iter().chain(&node.results).map(|&v| fused.graph.ty(v).to_string()).collect();
                (format!("{:?} {}", node.op, types.join(" ")), &node.operands, &node.results)
            }
        };
        let reads = reads.iter().map(|value| sources.get(value).copied().unwrap_or(Read::Weight)).collect();
        units.push(Unit { label: numbered(label), reads });
        sources.extend(makes.iter().map(|&value| (value, Read::Step(i))));
    }
    units
}

/// Draws a graph, the steps of repeats once.
pub(super) fn drawing(
    fused: &Fused,
    report: &Explanation,
    kernels: &Kernels,
    nodes: &NodePanels,
    repeats: &[Repeat],
) -> Drawing {
    let mut boxes = Boxes { hidden: hidden_inputs(fused, report, repeats), ..Boxes::default() };
    boxes.inputs(fused);
    let mut of_step: Vec<usize> = Vec::new();
    for (i, step) in fused.partition.steps.iter().enumerate() {
        let repeat = repeats.iter().find(|repeat| repeat.first(i).is_some());
        let first = repeat.and_then(|repeat| repeat.first(i)).filter(|&first| first != i);
        let (id, makes) = match (drawn(fused, report, step), first) {
            (Drawn::Kernel(region, _), Some(first)) => (of_step[first], &region.outputs),
            (Drawn::Node(node), Some(first)) => (of_step[first], &fused.graph.node(node).results),
            (Drawn::Kernel(region, facts), None) => (boxes.region(region, facts), &region.outputs),
            (Drawn::Node(node), None) => {
                let panel = nodes.of_step.get(&i).cloned().unwrap_or_default();
                (boxes.node(fused, kernels, panel, node), &fused.graph.node(node).results)
            }
        };
        boxes.shapes[id].many |= repeat.is_some();
        boxes.makers.extend(makes.iter().map(|&value| (value, id)));
        if first.is_some() {
            boxes.repeated.extend(makes);
        }
        of_step.push(id);
    }
    boxes.outputs(fused);
    boxes.placed(repeats, &of_step)
}

/// The inputs that only steps read which are not drawn.
fn hidden_inputs(fused: &Fused, report: &Explanation, repeats: &[Repeat]) -> BTreeSet<Value> {
    let (mut hidden, mut shown) = (BTreeSet::new(), BTreeSet::new());
    for (i, step) in fused.partition.steps.iter().enumerate() {
        let reads = match drawn(fused, report, step) {
            Drawn::Kernel(region, _) => &region.inputs,
            Drawn::Node(node) => &fused.graph.node(node).operands,
        };
        let of = if repeats.iter().any(|repeat| repeat.hides(i)) { &mut hidden } else { &mut shown };
        of.extend(reads.iter().copied());
    }
    shown.extend(fused.graph.outputs().iter().map(|output| output.value));
    hidden.retain(|value| !shown.contains(value));
    hidden
}

/// A word as it stands on a box: of a long one its beginning and its end.
pub(super) fn shortened(word: &str) -> String {
    let characters: Vec<char> = word.chars().collect();
    if characters.len() <= LONGEST {
        return word.to_owned();
    }
    let (head, tail) = (LONGEST / 2, LONGEST - LONGEST / 2 - 1);
    characters[..head].iter().chain(&['\u{2026}']).chain(&characters[characters.len() - tail..]).collect()
}

/// Boxes and edges as they are added in running order.
#[derive(Default)]
struct Boxes {
    shapes: Vec<Shape>,
    edges: BTreeSet<(usize, usize)>,
    /// The box that makes a value.
    makers: BTreeMap<Value, usize>,
    hues: BTreeMap<String, usize>,
    /// Inputs without a box.
    hidden: BTreeSet<Value>,
    /// Values that steps make which are not drawn.
    repeated: BTreeSet<Value>,
}

impl Boxes {
    fn add(&mut self, name: &str, note: &str, class: &'static str, panel: String, hint: &str) -> usize {
        let (title, below) = (shortened(name), shortened(note));
        let cut = [(name, &title), (note, &below)].into_iter().filter(|(long, short)| long != short);
        let hints: Vec<&str> = cut.map(|(long, _)| long).chain([hint]).filter(|text| !text.is_empty()).collect();
        let longest = title.chars().count().max(below.chars().count() * 7 / 8) as i64;
        self.shapes.push(Shape {
            width: longest * CHARACTER + 24,
            height: if below.is_empty() { 27 } else { 42 },
            hue: if class == "region" { hue_of(&mut self.hues, name) } else { 0 },
            hint: hints.join("\n"),
            title,
            note: below,
            class,
            many: false,
            panel,
            x: 0,
            y: 0,
        });
        self.shapes.len() - 1
    }

    fn reads(&mut self, by: usize, values: &[Value]) {
        let makers = values.iter().filter_map(|value| self.makers.get(value));
        self.edges.extend(makers.map(|&maker| (maker, by)));
    }

    /// Adds the values that a caller gives; weights are left out.
    fn inputs(&mut self, fused: &Fused) {
        for input in fused.graph.inputs().iter().filter(|i| i.kind.is_given()) {
            if !self.hidden.contains(&input.value) {
                let id = self.add(&input.name, &fused.graph.ty(input.value).to_string(), "value", String::new(), "");
                self.makers.insert(input.value, id);
            }
        }
    }

    fn region(&mut self, region: &FusedRegion, facts: &RegionReport) -> usize {
        let note = match facts.ops.len() {
            1 => "1 op".to_owned(),
            ops => format!("{ops} ops, {} fewer bytes", percent_saved(facts.bytes_fused, facts.bytes_unfused)),
        };
        let id = self.add(&region.name, &note, "region", kernel_id(&facts.key), &facts.ops.join(" "));
        self.reads(id, &region.inputs);
        id
    }

    fn node(&mut self, fused: &Fused, kernels: &Kernels, panel: String, id: NodeId) -> usize {
        let node = fused.graph.node(id);
        let class = match kernels.apart.get(&id) {
            Some(&("reference" | "nothing here")) => "reference",
            Some(&("matrix product" | "attention")) => "library",
            _ => "single",
        };
        let id = self.add(node.op.name(), "", class, panel, &fused.graph.origin(node).to_string());
        self.reads(id, &node.operands);
        id
    }

    /// Adds what the graph returns. Of what every round of a repeat returns there is one box.
    fn outputs(&mut self, fused: &Fused) {
        let outputs = || fused.graph.outputs().iter();
        let returned: BTreeSet<usize> = outputs()
            .filter(|output| !self.repeated.contains(&output.value))
            .filter_map(|output| self.makers.get(&output.value).copied())
            .collect();
        for (i, output) in outputs().enumerate() {
            let maker = self.makers.get(&output.value);
            if self.repeated.contains(&output.value) && maker.is_some_and(|maker| returned.contains(maker)) {
                continue;
            }
            let name = output.updates.as_ref().map_or(format!("out{i}"), |input| format!("out{i}, updates {input}"));
            let id = self.add(&name, &fused.graph.ty(output.value).to_string(), "value", String::new(), "");
            self.reads(id, &[output.value]);
        }
    }

    /// Gives every box its place, and every repeat its bracket.
    fn placed(mut self, repeats: &[Repeat], of_step: &[usize]) -> Drawing {
        let sizes: Vec<(i64, i64)> = self.shapes.iter().map(|s| (s.width, s.height)).collect();
        let words: Vec<String> = repeats.iter().map(|repeat| format!("{} ×", repeat.rounds)).collect();
        let widest = words.iter().map(|word| word.chars().count() as i64 * CHARACTER + BRACKET).max();
        let placed = layout::layout(&sizes, &self.edges, widest.unwrap_or(0));
        for (shape, &(x, y)) in self.shapes.iter_mut().zip(&placed.boxes) {
            (shape.x, shape.y) = (x, y);
        }
        let bracket = |(repeat, text): (&Repeat, String)| {
            let round = of_step.get(repeat.start..repeat.start + repeat.period).unwrap_or_default();
            let shapes = || round.iter().filter_map(|&id| self.shapes.get(id));
            Bracket {
                x: BRACKET / 4,
                top: shapes().map(|shape| shape.y).min().unwrap_or(0),
                bottom: shapes().map(|shape| shape.y + shape.height).max().unwrap_or(0),
                text,
            }
        };
        let brackets: Vec<Bracket> = repeats.iter().zip(words).map(bracket).collect();
        Drawing {
            label: label(repeats),
            width: placed.width,
            height: placed.height,
            edges: placed.edges,
            shapes: self.shapes,
            brackets,
        }
    }
}

/// Describes a drawing in words.
fn label(repeats: &[Repeat]) -> String {
    let words = repeats.iter().map(|repeat| {
        let after = if repeat.carried { ", each on what the one before gives" } else { "" };
        format!("; {} steps are run {} times{after}", repeat.period, repeat.rounds)
    });
    format!("Graph of fused regions{}", words.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_keep_their_ends() {
        assert_eq!(shortened("rms_norm"), "rms_norm");
        let long = format!("model.layers.{}.weight", "é".repeat(99));
        let short = shortened(&long);
        assert_eq!(short.chars().count(), LONGEST);
        assert!(
            short.starts_with("model.layers.") && short.ends_with(".weight") && short.contains('\u{2026}'),
            "{short}"
        );
        let exact = "x".repeat(LONGEST);
        assert_eq!(shortened(&exact), exact);
    }
}
