//! `explain` as a picture: the steps of a call in order, each kernel beside the ops that would be kernels without fusion.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_fusion::region::{FusedRegion, is_constant, is_layout};
use fusewright_graph::NodeId;
use fusewright_templates::drawing::Bracket;
use fusewright_templates::picture::{Chip, StepsPicture};

use super::repeats::{Repeat, repeats};
use super::{Drawn, drawing, drawn, hue_of, percent_saved, printable};
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
/// Tenths of a pixel per character: of words on boxes, of heads, and of notes, about.
const WORD: i64 = 74;
const HEAD: i64 = 92;
const NOTE: i64 = 70;

/// The picture of a fused graph under a title.
///
/// # Errors
/// None for a graph that verifies.
pub fn steps_picture(title: &str, fused: &Fused, report: &Explanation, kernels: &Kernels) -> Result<String, Error> {
    let mut picture = Picture { y: 36, rounds: 1, ..Picture::default() };
    let repeats = repeats(&drawing::units(fused, report));
    for (i, step) in fused.partition.steps.iter().enumerate() {
        if repeats.iter().any(|repeat| repeat.hides(i)) {
            continue;
        }
        picture.bounds(&repeats, i);
        match drawn(fused, report, step) {
            Drawn::Kernel(region, facts) => picture.region(fused, region, facts),
            Drawn::Node(node) => picture.node(fused, kernels, node),
        }
    }
    picture.bounds(&repeats, fused.partition.steps.len());
    picture.text(title)
}

/// A step of a picture that somebody else divided into kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PictureStep {
    /// A kernel, the names of its ops, and the bytes that it moves and that these would move one by one, if they were counted.
    Kernel {
        /// Name.
        name: String,
        /// Names of its ops, in order.
        ops: Vec<String>,
        /// Bytes moved by the kernel.
        bytes_fused: Option<u64>,
        /// Bytes moved by its ops.
        bytes_unfused: Option<u64>,
    },
    /// An op that is computed elsewhere.
    Apart(String),
}

/// The picture of these steps under a title, in the form of [`steps_picture`].
///
/// # Errors
/// None.
pub fn picture_of(title: &str, steps: &[PictureStep]) -> Result<String, Error> {
    let mut picture = Picture { y: 36, rounds: 1, ..Picture::default() };
    for step in steps {
        match step {
            PictureStep::Kernel { name, ops, bytes_fused, bytes_unfused } => {
                let ops: Vec<&str> = ops.iter().map(String::as_str).collect();
                let counted = bytes_fused.is_some() && bytes_unfused.is_some();
                picture.kernel([name, name], &ops, counted.then_some((*bytes_fused, *bytes_unfused)));
            }
            PictureStep::Apart(op) => picture.apart(op, "library"),
        }
    }
    picture.text(title)
}

fn width_of(words: &str, tenths: i64) -> i64 {
    (words.chars().count() as i64 * tenths + 9) / 10
}

fn chip_width(word: &str) -> i64 {
    width_of(word, WORD) + AROUND
}

#[derive(Default)]
struct Picture {
    y: i64,
    ops: usize,
    kernels: usize,
    /// How often the steps that are met run.
    rounds: usize,
    /// The right edge of what is drawn.
    right: i64,
    hues: BTreeMap<String, usize>,
    chips: Vec<Chip>,
    arrows: Vec<(i64, i64, i64)>,
    brackets: Vec<Bracket>,
    notes: Vec<(i64, i64, String)>,
    /// A step outside of kernels, its class, and how often it was met in a row.
    open: Option<(String, &'static str, usize)>,
}

impl Picture {
    fn text(mut self, title: &str) -> Result<String, Error> {
        self.library();
        let kernels_of = |count: usize| if count == 1 { "1 kernel".to_owned() } else { format!("{count} kernels") };
        let right = format!("Fused: {}", kernels_of(self.kernels));
        let page = StepsPicture {
            title: title.to_owned(),
            left: format!("One kernel per op: {}", kernels_of(self.ops)),
            width: self.right.max(SECOND + width_of(&right, HEAD)) + MARGIN,
            right,
            height: self.y + MARGIN / 2,
            margin: MARGIN,
            second: SECOND,
            hues: self.hues.values().copied().collect::<BTreeSet<_>>().into_iter().collect(),
            chips: self.chips,
            arrows: self.arrows,
            brackets: self.brackets,
            notes: self.notes,
        };
        page.text().map(printable).map_err(|e| Error::Internal(format!("the picture of `explain`: {e}")))
    }

    fn chip(&mut self, text: &str, class: &str, (x, y): (i64, i64), height: i64) -> i64 {
        let text = drawing::shortened(text);
        let width = chip_width(&text);
        self.right = self.right.max(x + width);
        self.chips.push(Chip { text, class: class.to_owned(), x, y, width, height });
        width
    }

    /// Ends the bracket of a repeat that ends before a step, and begins that of one which begins there.
    fn bounds(&mut self, repeats: &[Repeat], step: usize) {
        if self.rounds > 1 && !repeats.iter().any(|repeat| repeat.start < step && step < repeat.end()) {
            self.library();
            self.rounds = 1;
            if let Some(bracket) = self.brackets.last_mut() {
                bracket.bottom = self.y - LINE + CHIP;
            }
            self.y += MARGIN / 2;
        }
        if let Some(repeat) = repeats.iter().find(|repeat| repeat.start == step) {
            self.library();
            self.rounds = repeat.rounds;
            let text = format!("{} times", repeat.rounds);
            self.y += LINE - MARGIN / 2;
            self.brackets.push(Bracket { x: MARGIN / 4, top: self.y, bottom: self.y, text });
        }
    }

    fn region(&mut self, fused: &Fused, region: &FusedRegion, facts: &RegionReport) {
        let op = |id: &NodeId| &fused.graph.node(*id).op;
        let computes = |id: &&NodeId| !is_layout(op(id)) && !is_constant(op(id));
        let ops: Vec<&str> = region.nodes.iter().filter(computes).map(|id| op(id).name()).collect();
        // A kernel of one op is told by that op.
        let name = if let [op] = facts.ops.as_slice() { op } else { &region.name };
        let bytes = (facts.ops.len() > 1).then_some((facts.bytes_fused, facts.bytes_unfused));
        self.kernel([&region.name, name], &ops, bytes);
    }

    /// Draws a kernel. All kernels of the name `of` have one hue.
    fn kernel(&mut self, [of, name]: [&str; 2], ops: &[&str], bytes: Option<(Option<u64>, Option<u64>)>) {
        self.library();
        let class = format!("h{}", hue_of(&mut self.hues, of));
        let (mut x, top) = (MARGIN, self.y);
        for op in ops {
            if x > MARGIN && x + chip_width(&drawing::shortened(op)) > MARGIN + LEFT {
                (x, self.y) = (MARGIN, self.y + LINE);
            }
            x += self.chip(op, &class, (x, self.y), CHIP) + 6;
            self.ops += self.rounds;
        }
        let end = if self.y > top { MARGIN + LEFT } else { x };
        let height = self.y - top + CHIP;
        self.arrows.push((end + 4, top + height / 2, SECOND - 6));
        let width = self.chip(name, &class, (SECOND, top), height);
        if let Some((fused, unfused)) = bytes {
            let saved = format!("{} fewer bytes", percent_saved(fused, unfused));
            self.right = self.right.max(SECOND + width + 10 + width_of(&saved, NOTE));
            self.notes.push((SECOND + width + 10, top + height / 2 + 4, saved));
        }
        self.kernels += self.rounds;
        self.y += LINE;
    }

    fn node(&mut self, fused: &Fused, kernels: &Kernels, id: NodeId) {
        let class = match kernels.apart.get(&id) {
            Some(&("reference" | "nothing here")) => "reference",
            Some(&("matrix product" | "attention")) => "library",
            _ => return,
        };
        self.apart(fused.graph.node(id).op.name(), class);
    }

    /// Adds a step that no kernel computes.
    fn apart(&mut self, name: &str, class: &'static str) {
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
