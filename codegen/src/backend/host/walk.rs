//! What a sink touches: every load, group and border below it, at lanes as functions of the sink's own.

use std::collections::HashSet;

use fusewright_graph::{Dim, ScalarFn};

use super::Forms;
use super::facts::{known_facts, literal_shift};
use super::index::{at_least, borders, one_group};
use super::plan::{is_sink, roots, sink_value};
use super::stash::Stored;
use crate::kernel::{Inst, InstOp, LANE, Over, ParamId, Segment, Shape, Val};

/// A group value spread over lanes: lane `i` of the sink takes the group of lane `scale · i + offset`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::backend) struct GroupUse {
    pub lanes: Dim,
    pub size: Dim,
    pub scale: i64,
    pub offset: Dim,
}

/// A load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::backend) struct Touch {
    /// What is loaded.
    pub value: Val,
    pub param: ParamId,
    /// Lane `i` of the sink reads element `slope · i + start`, if that is so for constants.
    pub linear: Option<(i64, Dim)>,
    /// Lane `i` of the sink reads the index at lane `i + offset`, if that is so.
    pub shifted: Option<(Dim, Dim)>,
}

/// Lanes of a group of which a chunk that begins with the group, or with a whole number of chunks in it, has one group.
pub(super) const WHOLE: i64 = 16;

/// How groups are spread over the lanes of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    None,
    /// A chunk lies in one group of each size.
    Whole,
    /// A chunk can lie in several groups.
    Across,
}

/// Facts about a sink, or about part of its lanes.
#[derive(Clone)]
pub(in crate::backend) struct Walk<'k> {
    segment: &'k Segment,
    forms: &'k dyn Forms,
    found: &'k Stored,
    /// By value, whether loops before that of the sink store it.
    stored: Vec<bool>,
    piece: Option<(Dim, Dim)>,
    /// Values at lanes, and whether they were met below a group.
    seen: HashSet<((Val, i64, Dim), bool)>,
    below_group: bool,
    /// Group values that were walked below, at lanes of the sink.
    seen_groups: HashSet<(Val, i64, Dim)>,
    pub touches: Vec<Touch>,
    pub groups: Vec<GroupUse>,
    /// Lanes of the sink where a concatenation goes on with its next operand.
    pub cuts: Vec<Dim>,
    /// Whether chunks of lanes can be taken.
    pub vector: bool,
    /// Whether a zip chooses among lanes that groups are spread over.
    zips_groups: bool,
    /// How many lanes the sink has, if that is known.
    lanes: Option<i64>,
}

/// By value, whether loops before that of instruction `at` store it.
fn stored(segment: &Segment, at: usize, found: &Stored) -> Vec<bool> {
    let mut stored = vec![false; segment.types.len()];
    found.rows(segment).for_each(|(_, v)| stored[v.0 as usize] = true);
    // Loops before the inner rows do not wait for each other.
    if !segment.insts[at].results.iter().any(|v| found.outer[v.0 as usize]) {
        found.shared.keys().for_each(|v| stored[v.0 as usize] = true);
    }
    segment.insts[at].results.iter().for_each(|v| stored[v.0 as usize] = false);
    stored
}

impl<'k> Walk<'k> {
    /// Walks a store, a reduction or a value that is kept over all its lanes, or those of a piece.
    pub fn of(
        segment: &'k Segment,
        found: &'k Stored,
        at: usize,
        piece: Option<(&Dim, &Dim)>,
        forms: &'k dyn Forms,
    ) -> Self {
        let mut walk = Walk {
            segment,
            forms,
            found,
            stored: stored(segment, at, found),
            piece: piece.map(|(start, end)| (start.clone(), end.clone())),
            seen: HashSet::new(),
            below_group: false,
            seen_groups: HashSet::new(),
            touches: Vec::new(),
            groups: Vec::new(),
            cuts: Vec::new(),
            vector: true,
            zips_groups: false,
            lanes: segment.ty(sink_value(segment, at)).shape.elements().as_const(),
        };
        if is_sink(segment, at) {
            walk.check(&segment.insts[at]);
        }
        if found.stashed[at] && segment.insts[at].op == InstOp::AsRow {
            walk.unordered(segment.insts[at].args[0]);
            return walk;
        }
        let shape = &segment.ty(sink_value(segment, at)).shape;
        for &v in roots(segment, at) {
            walk.value(v, shape, 1, &Dim::constant(0));
        }
        // A loop over groups begins chunks where its groups begin.
        walk.vector &= !walk.zips_groups || walk.groups.is_empty();
        walk
    }

    /// What cannot run in vectors.
    fn check(&mut self, inst: &Inst) {
        let ty = |v: &Val| self.segment.ty(*v);
        let wide =
            inst.args.iter().chain(&inst.results).any(|v| ty(v).dtype.bits() == 64 && ty(v).shape != Shape::Scalar);
        let vector = match &inst.op {
            InstOp::Map(f) => inst.args.last().is_some_and(|a| {
                let dtype = ty(a).dtype;
                *f == ScalarFn::Select || self.forms.map(*f, dtype) || literal_shift(self.segment, inst).is_some()
            }),
            InstOp::Cast { to, saturate, .. } => {
                let bounded = || known_facts(self.segment)[inst.args[0].0 as usize].bounded;
                self.forms.cast(ty(&inst.args[0]).dtype, *to, *saturate, &bounded)
            }
            InstOp::Reduce { order, .. } => self.forms.reduction(*order, ty(&inst.args[0]).dtype),
            InstOp::Slice { step, .. } => *step <= 2,
            InstOp::Zip => inst.args.len() == 2,
            InstOp::Pack { ways, .. } => *ways == 2 && ty(&inst.args[0]).dtype.bits() < 32,
            InstOp::AsRow | InstOp::AsGroup { .. } => false,
            _ => true,
        };
        self.vector &= vector && (self.forms.wide_lanes() || !wide);
    }

    fn value(&mut self, v: Val, shape: &Shape, scale: i64, offset: &Dim) {
        let own = &self.segment.ty(v).shape;
        match (own, shape) {
            (Shape::Scalar, _) => return,
            (Shape::Group { size, .. }, Shape::Row(_)) if self.is_one_group(size, scale, offset) => {
                return self.below_group(v, scale, offset);
            }
            (Shape::Group { lanes, size }, Shape::Row(_)) => {
                let (lanes, size) = (lanes.clone(), size.clone());
                let used = GroupUse { lanes, size, scale, offset: offset.clone() };
                if !self.groups.contains(&used) {
                    self.groups.push(used);
                }
                return self.below_group(v, scale, offset);
            }
            _ => {}
        }
        // What was met below a group alone has not been asked for vectors.
        let place = (v, scale, offset.clone());
        if self.seen.contains(&(place.clone(), false)) || !self.seen.insert((place, self.below_group)) {
            return;
        }
        let segment = self.segment;
        let inst = &segment.insts[self.found.definitions[v.0 as usize]];
        if self.stored[v.0 as usize] {
            return;
        }
        self.check(inst);
        let arg_shape = |i: usize| &segment.ty(inst.args[i]).shape;
        match &inst.op {
            InstOp::Load { param, index, .. } => {
                self.touch(v, *param, index, scale, offset);
                inst.args.iter().for_each(|&p| self.value(p, own, scale, offset));
            }
            InstOp::Slice { start, step, .. } => {
                let by = Dim::constant(*step);
                self.value(inst.args[0], arg_shape(0), scale.saturating_mul(*step), &(&(offset * &by) + start));
            }
            InstOp::Cat => self.cat(inst, scale, offset),
            InstOp::Pack { ways, .. } => {
                let by = Dim::constant(i64::from(*ways));
                for way in 0..i64::from(*ways) {
                    let first = &(offset * &by) + &Dim::constant(way);
                    self.value(inst.args[0], arg_shape(0), scale.saturating_mul(i64::from(*ways)), &first);
                }
            }
            InstOp::Zip => {
                // Which lanes an operand is read at is no affine function of the sink's.
                self.vector &= scale % 2 == 0 || scale == 1;
                self.vector &= offset.as_const().is_some_and(|o| o % 2 == 0);
                let starts_even = scale == 1 && self.piece.is_none() && *offset == Dim::constant(0);
                for &arg in &inst.args {
                    let spread = self.spread(arg);
                    self.vector &= spread == Spread::None || (spread == Spread::Whole && starts_even);
                    self.zips_groups |= spread == Spread::Whole;
                }
                inst.args.iter().for_each(|&a| self.unordered(a));
            }
            InstOp::AsRow | InstOp::AsGroup { .. } => inst.args.iter().for_each(|&a| self.unordered(a)),
            InstOp::Reduce { over: Over::Group(_), .. } => self.unordered(inst.args[0]),
            // Stored by their own loop.
            InstOp::Reduce { .. } | InstOp::TopK { .. } => {}
            _ => inst.args.iter().for_each(|&a| self.value(a, own, scale, offset)),
        }
    }

    /// Whether all lanes of the sink are of one group, whose number is known.
    fn is_one_group(&self, size: &Dim, scale: i64, offset: &Dim) -> bool {
        let known = self.lanes.zip(size.as_const()).zip(offset.as_const());
        self.piece.is_none()
            && known.is_some_and(|((lanes, size), offset)| {
                lanes > 0 && one_group(size, offset, scale.saturating_mul(lanes - 1).saturating_add(offset)).is_some()
            })
    }

    /// Loads below a group value: the lanes of the group, which the sink's lanes are in.
    fn below_group(&mut self, v: Val, scale: i64, offset: &Dim) {
        if !self.seen_groups.insert((v, scale, offset.clone())) {
            return;
        }
        let segment = self.segment;
        let inst = &segment.insts[self.found.definitions[v.0 as usize]];
        match &inst.op {
            InstOp::Reduce { over: Over::Group(_), .. } => {
                // Chunks of the reduction are its own matter.
                let (vector, below) = (self.vector, std::mem::replace(&mut self.below_group, true));
                let shape = &segment.ty(inst.args[0]).shape;
                self.value(inst.args[0], shape, scale, offset);
                (self.vector, self.below_group) = (vector, below);
            }
            InstOp::Load { param, .. } => {
                self.touches.push(Touch { value: v, param: *param, linear: None, shifted: None })
            }
            InstOp::AsGroup { .. } => {
                // A group takes one lane of the row, whatever its own lanes are taken in.
                let vector = self.vector;
                self.unordered(inst.args[0]);
                self.vector = vector;
            }
            _ => inst
                .args
                .iter()
                .filter(|a| segment.ty(**a).shape != Shape::Scalar)
                .for_each(|&a| self.below_group(a, scale, offset)),
        }
    }

    /// How groups are spread over the lanes of a row that chunks are taken of, from its first lane on.
    fn spread(&self, v: Val) -> Spread {
        let shape = |v: Val| &self.segment.ty(v).shape;
        let (mut open, mut seen, mut spread) = (vec![(v, true)], HashSet::new(), Spread::None);
        while let Some((v, in_place)) = open.pop() {
            if !matches!(shape(v), Shape::Row(_)) || !seen.insert((v, in_place)) || self.stored[v.0 as usize] {
                continue;
            }
            let inst = &self.segment.insts[self.found.definitions[v.0 as usize]];
            for &arg in &inst.args {
                match shape(arg) {
                    Shape::Group { size, .. } if in_place && size.as_const().is_some_and(|n| n % WHOLE == 0) => {
                        spread = Spread::Whole;
                    }
                    Shape::Group { .. } => return Spread::Across,
                    _ => {}
                }
            }
            let lanewise =
                matches!(inst.op, InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Broadcast(_));
            open.extend(inst.args.iter().map(|&arg| (arg, in_place && lanewise)));
        }
        spread
    }

    /// Everything below a value, at lanes that are not known.
    fn unordered(&mut self, v: Val) {
        let mut open = vec![v];
        let mut seen = HashSet::new();
        while let Some(v) = open.pop() {
            let at = self.found.definitions[v.0 as usize];
            let inst = &self.segment.insts[at];
            if self.segment.ty(v).shape == Shape::Scalar || !seen.insert(v) || self.stored[v.0 as usize] {
                continue;
            }
            self.check(inst);
            self.vector &= !matches!(inst.op, InstOp::Cat);
            if let InstOp::Load { param, .. } = &inst.op {
                self.touches.push(Touch { value: v, param: *param, linear: None, shifted: None });
            }
            if !matches!(inst.op, InstOp::Reduce { over: Over::Row, .. } | InstOp::TopK { .. }) {
                open.extend(&inst.args);
            }
        }
    }

    fn touch(&mut self, value: Val, param: ParamId, index: &Dim, scale: i64, offset: &Dim) {
        let linear = index.split_linear(LANE).and_then(|(slope, rest)| {
            let slope = slope.as_const()?;
            let start = &rest + &(&Dim::constant(slope) * offset);
            Some((slope.checked_mul(scale)?, start))
        });
        let shifted = (scale == 1).then(|| (index.clone(), offset.clone()));
        self.touches.push(Touch { value, param, linear, shifted });
    }

    fn cat(&mut self, inst: &Inst, scale: i64, offset: &Dim) {
        let borders = borders(self.segment, inst);
        let by = Dim::constant(scale);
        if let Some((start, end)) = &self.piece {
            let (from, to) = (&(start * &by) + offset, &(end * &by) + offset);
            let holds = |i: &usize| at_least(&from, &borders[*i]) && at_least(&borders[*i + 1], &to);
            if let Some(operand) = (0..inst.args.len()).find(holds) {
                let arg = inst.args[operand];
                let shape = &self.segment.ty(arg).shape;
                return self.value(arg, shape, scale, &(offset - &borders[operand]));
            }
        }
        for border in &borders[1..borders.len() - 1] {
            match (border - offset).exact_div(&by) {
                Some(cut) if !self.cuts.contains(&cut) => self.cuts.push(cut),
                Some(_) => {}
                // A border within a lane of the sink.
                None => self.vector = false,
            }
        }
        for (i, &arg) in inst.args.iter().enumerate() {
            let shape = &self.segment.ty(arg).shape;
            self.value(arg, shape, scale, &(offset - &borders[i]));
        }
    }
}
