//! `explain` as a picture: the steps of a call in order, each kernel beside the ops that would be kernels without fusion.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_fusion::region::{FusedRegion, is_constant, is_layout};
use fusewright_graph::NodeId;
use fusewright_templates::picture::{Chip, StepsPicture};

use super::{CHARACTER, Drawn, drawn, hue_of, percent_saved, printable};
use crate::explain::{Explanation, Kernels, RegionReport};
use crate::{Error, Fused};

const MARGIN: i64 = 12;
/// The left column is at most this wide.
const LEFT: i64 = 440;
const SECOND: i64 = MARGIN + LEFT + 60;
/// From the upper edge of one line of boxes to that of the next.
const LINE: i64 = 28;
const CHIP: i64 = 22;
/// Pixels around the word of a box.
const AROUND: i64 = 16;

/// The picture of a fused graph under a title.
///
/// # Errors
/// None for a graph that verifies.
pub fn steps_picture(title: &str, fused: &Fused, report: &Explanation, kernels: &Kernels) -> Result<String, Error> {
    let mut picture = Picture { y: 36, ..Picture::default() };
    for step in &fused.partition.steps {
        match drawn(fused, report, step) {
            Drawn::Kernel(region, facts) => picture.region(fused, region, facts),
            Drawn::Node(node) => picture.node(fused, kernels, node),
        }
    }
    picture.library();
    let kernels_of = |count: usize| if count == 1 { "1 kernel".to_owned() } else { format!("{count} kernels") };
    let page = StepsPicture {
        title: title.to_owned(),
        left: format!("One kernel per op: {}", kernels_of(picture.ops)),
        right: format!("Fused: {}", kernels_of(picture.kernels)),
        width: SECOND + 330,
        height: picture.y + MARGIN / 2,
        margin: MARGIN,
        second: SECOND,
        hues: picture.hues.values().copied().collect::<BTreeSet<_>>().into_iter().collect(),
        chips: picture.chips,
        arrows: picture.arrows,
        notes: picture.notes,
    };
    page.text().map(printable).map_err(|e| Error::Internal(format!("the picture of `explain`: {e}")))
}

fn width_of(word: &str) -> i64 {
    word.chars().count() as i64 * CHARACTER + AROUND
}

#[derive(Default)]
struct Picture {
    y: i64,
    ops: usize,
    kernels: usize,
    hues: BTreeMap<String, usize>,
    chips: Vec<Chip>,
    arrows: Vec<(i64, i64, i64)>,
    notes: Vec<(i64, i64, String)>,
    /// A step outside of kernels, its class, and how often it was met in a row.
    open: Option<(String, &'static str, usize)>,
}

impl Picture {
    fn chip(&mut self, text: &str, class: &str, (x, y): (i64, i64), height: i64) -> i64 {
        let width = width_of(text);
        self.chips.push(Chip { text: text.to_owned(), class: class.to_owned(), x, y, width, height });
        width
    }

    fn region(&mut self, fused: &Fused, region: &FusedRegion, facts: &RegionReport) {
        self.library();
        let class = format!("h{}", hue_of(&mut self.hues, &region.name));
        let computes = |id: &&NodeId| {
            let op = &fused.graph.node(**id).op;
            !is_layout(op) && !is_constant(op)
        };
        let (mut x, top) = (MARGIN, self.y);
        for &id in region.nodes.iter().filter(computes) {
            let name = fused.graph.node(id).op.name();
            if x > MARGIN && x + width_of(name) > MARGIN + LEFT {
                (x, self.y) = (MARGIN, self.y + LINE);
            }
            x += self.chip(name, &class, (x, self.y), CHIP) + 6;
            self.ops += 1;
        }
        let end = if self.y > top { MARGIN + LEFT } else { x };
        let height = self.y - top + CHIP;
        self.arrows.push((end + 4, top + height / 2, SECOND - 6));
        // A kernel of one op is told by that op.
        let name = if let [op] = facts.ops.as_slice() { op } else { &region.name };
        let width = self.chip(name, &class, (SECOND, top), height);
        if facts.ops.len() > 1 {
            let saved = format!("{} fewer bytes", percent_saved(facts.bytes_fused, facts.bytes_unfused));
            self.notes.push((SECOND + width + 10, top + height / 2 + 4, saved));
        }
        self.kernels += 1;
        self.y += LINE;
    }

    fn node(&mut self, fused: &Fused, kernels: &Kernels, id: NodeId) {
        let class = match kernels.apart.get(&id) {
            Some(&"reference") => "reference",
            Some(&("matrix product" | "attention")) => "library",
            _ => return,
        };
        let name = fused.graph.node(id).op.name();
        match &mut self.open {
            Some((open, of, count)) if open == name && *of == class => *count += 1,
            _ => {
                self.library();
                self.open = Some((name.to_owned(), class, 1));
            }
        }
    }

    /// Draws the steps outside of kernels that are met so far: they are the same in both columns.
    fn library(&mut self) {
        let Some((name, class, count)) = self.open.take() else { return };
        let text = if count == 1 { name } else { format!("{count} × {name}") };
        let width = self.chip(&text, class, (MARGIN, self.y), CHIP);
        self.arrows.push((MARGIN + width + 10, self.y + CHIP / 2, SECOND - 6));
        self.chip(&text, class, (SECOND, self.y), CHIP);
        self.y += LINE;
    }
}
