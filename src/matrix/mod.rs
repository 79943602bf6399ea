//! The feature matrix: what may be fused with what, generated from the list of composites.
//!
//! A combination is a chain over rows: an optional residual add, an op that keeps the type of its operand (a norm, an
//! activation, a gate of two rows, a rotation, softmax) or gives a factor for the row from a prefix of it, a [`Form`] around
//! it, an optional quantiser, per row or per group of lanes; for contiguous rows, rows cut out of wider ones, rows of a
//! symbolic length and rows made of codes, three dtypes, lanes that vectors divide and lanes that they do not, and three
//! numbers of rows beside none. Results may be slices of wider tensors, and scales lie in columns, words or tiles. Nothing
//! here names an op: a composite that joins the list joins the matrix. A combination exists where its graph types.
//!
//! Ops and quantisers in their first variants meet in every form, and every two choices of layout, dtype, lanes and rows
//! come together, or every three where the form is plain. Other variants meet the first variants of the others: every two
//! choices come together in the plain form, and every choice is there in the others. Operands that are left out or are
//! wider than rows, and rows made of codes, meet first variants in the plain form.
//!
//! A combination passes if it fuses into the fewest kernels there can be, [`KERNELS`] or, where the scale is that of the
//! whole tensor, [`TENSOR_KERNELS`], and all ways to run it agree (see [`diff`](crate::diff)).

mod build;
mod form;
mod run;
mod scales;
mod slices;

use std::fmt;

use fusewright_abi::{DType, Target};
use fusewright_graph::interp::Symbols;
use fusewright_graph::ops::{Composite, LIST};

use crate::inputs::Random;

pub use form::{Form, Layout, Operands, Scales};
pub use run::{Outcome, Passed, prepare};
pub use scales::ScaleLayout;

use form::{Place, Strength};

/// Kernels of a combination that is all work on independent rows.
pub const KERNELS: usize = 1;

const DTYPES: [DType; 3] = [DType::BF16, DType::F16, DType::F32];
/// A multiple of every vector and group; not a multiple of four, for ops on pairs; odd.
const LANES: [i64; 3] = [256, 198, 193];
const ROWS: [i64; 3] = [1, 3, 257];
/// Lanes that share a scale, where the row does not.
const GROUPS: [i64; 2] = [64, 128];
/// Scales of a row, if they lie in words or tiles that it does not fill.
const SCALES: i64 = 11;
/// Lanes of a head.
const HEAD: i64 = 64;
/// The name of the row count in every graph.
const ROW_SYMBOL: &str = "s";
/// The name of the symbol in a symbolic row length.
const LANE_SYMBOL: &str = "n";

/// Kernels where the scale is that of the whole tensor: the rows with the largest magnitude of each, the largest of these
/// and the scale, and the codes.
pub const TENSOR_KERNELS: usize = 3;

/// A quantiser and the lanes that share a scale.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quantiser {
    /// The op.
    pub op: Composite,
    /// What it is given beside rows.
    pub operands: Operands,
    /// Lanes of a group; `None` is the row.
    pub group: Option<i64>,
    /// How its scales lie.
    pub scales: ScaleLayout,
}

/// One cell of the matrix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Combination {
    /// Whether a residual is added first; the sum is an output too.
    pub residual: bool,
    /// The op in the middle.
    pub op: Option<Composite>,
    /// What it is given beside rows.
    pub operands: Operands,
    /// What stands around it.
    pub form: Form,
    /// The quantiser at the end.
    pub quantiser: Option<Quantiser>,
    /// How the rows of the first input lie.
    pub layout: Layout,
    /// Dtype of rows.
    pub dtype: DType,
    /// Lanes of a row.
    pub lanes: i64,
    /// Rows at which it is run.
    pub rows: i64,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Vec::new();
        if self.residual {
            steps.push("add".to_owned());
        }
        steps.extend(self.op.as_ref().map(name));
        steps.extend(self.operands.word());
        steps.extend(self.form.word().map(str::to_owned));
        if let Some(quantiser) = &self.quantiser {
            let group = quantiser.group.map_or(String::new(), |lanes| format!("/{lanes}"));
            steps.push(name(&quantiser.op) + &group);
            steps.extend(quantiser.operands.word());
            steps.extend(quantiser.scales.word().map(str::to_owned));
        }
        let layout = self.layout.word();
        write!(f, "{} {} {layout} {}x{}", steps.join("."), self.dtype, self.rows, self.lanes)
    }
}

/// Name and discrete attributes.
fn name(op: &Composite) -> String {
    let attrs = op.attrs();
    let words: Vec<&str> =
        attrs.0.iter().map(|(_, text)| text.as_str()).filter(|t| t.parse::<f64>().is_err()).collect();
    if words.is_empty() { op.name().to_owned() } else { format!("{}[{}]", op.name(), words.join(",")) }
}

/// An op or a quantiser, and whether it is the first variant of its spec.
type Variant<T> = (bool, T);

/// What may stand in the middle.
fn ops() -> Vec<Variant<Option<Composite>>> {
    let in_rows = |op: &Composite| build::keeps_type(op) || build::gives_factor(op);
    let kept = variants().filter(|(_, op)| in_rows(op)).map(|(first, op)| (first, Some(op)));
    [(true, None)].into_iter().chain(kept).collect()
}

/// What may stand at the end.
fn quantisers() -> Vec<Variant<Option<Quantiser>>> {
    let mut quantisers: Vec<Variant<Option<Quantiser>>> = vec![(true, None)];
    for (first, op) in variants().filter(|(_, op)| build::quantises(op)) {
        let others = if first { build::other_scales(&op) } else { Vec::new() };
        for operands in [Operands::All].into_iter().chain(others) {
            let first = first && operands == Operands::All;
            let groups = match (build::has_scales(&op), first) {
                (false, _) => &[][..],
                (true, false) => &GROUPS[1..],
                (true, true) => &GROUPS[..],
            };
            for group in [None].into_iter().chain(groups.iter().copied().map(Some)) {
                let scales = ScaleLayout::Rows;
                quantisers.push((first, Some(Quantiser { op: op.clone(), operands, group, scales })));
            }
        }
    }
    quantisers
}

fn variants() -> impl Iterator<Item = Variant<Composite>> {
    LIST.iter().flat_map(|spec| (spec.variants)().into_iter().enumerate().map(|(i, op)| (i == 0, op)))
}

/// Every combination that exists, in a fixed order. Of the op and the quantiser at most one is another variant than the
/// first of its spec: every variant meets every op, but not every variant of it.
pub fn combinations() -> Vec<Combination> {
    let quantisers = quantisers();
    let mut all = Vec::new();
    for (i, (op_first, op)) in ops().into_iter().enumerate() {
        for (j, (quantiser_first, quantiser)) in quantisers.iter().enumerate().filter(|(_, q)| q.0 || op_first) {
            let pair = Pair { op: &op, quantiser, both: op_first && *quantiser_first, turn: i + 5 * j };
            pair.forms(&mut all);
            if pair.both {
                pair.operands_and_codes(&mut all);
            }
            if op_first {
                pair.moved_scales(&mut all);
            }
        }
    }
    all
}

/// An op and a quantiser that meet.
struct Pair<'a> {
    op: &'a Option<Composite>,
    quantiser: &'a Option<Quantiser>,
    /// Whether both are first variants.
    both: bool,
    turn: usize,
}

impl Pair<'_> {
    fn forms(&self, all: &mut Vec<Combination>) {
        for form in Form::ALL {
            let strength = match (self.both, form) {
                (true, Form::Plain) => Strength::Three,
                (true, _) | (false, Form::Plain) => Strength::Two,
                (false, _) => Strength::One(self.turn),
            };
            for place in form::places(strength) {
                let residuals = [false, true].into_iter();
                let thinned = !(self.both && form == Form::Plain || form.is_gate());
                for residual in residuals.filter(|&residual| !thinned || residual == place.odd) {
                    self.cell(Operands::All, form, place, residual, all);
                }
            }
        }
    }

    fn operands_and_codes(&self, all: &mut Vec<Combination>) {
        for place in form::places(Strength::One(self.turn)) {
            for operands in self.op.iter().flat_map(build::other_operands) {
                self.cell(operands, Form::Plain, place, place.odd, all);
            }
            let to_slices = self.quantiser.as_ref().is_none_or(|q| q.operands != Operands::Tensor);
            if to_slices {
                self.cell(Operands::All, Form::Plain, Place { layout: Layout::Slices, ..place }, place.odd, all);
            }
            for scales in Scales::ALL {
                // Lanes that groups divide come with every dtype.
                let lanes = if scales.lanes().is_some() { LANES[0] } else { place.lanes };
                let place = Place { layout: Layout::Codes(scales), lanes, ..place };
                self.cell(Operands::All, Form::Plain, place, place.odd, all);
            }
        }
    }

    /// Scales in other layouts than rows, where groups of lanes have one each: of as many groups as words and tiles hold,
    /// and of others. Words are of exponents, which first variants may not have.
    fn moved_scales(&self, all: &mut Vec<Combination>) {
        let Some((quantiser, unit)) = self.quantiser.as_ref().and_then(|q| Some((q, build::lanes_of_scale(q)?))) else {
            return;
        };
        for scales in ScaleLayout::MOVED {
            let fits = scales.takes(&quantiser.op, build::scale_dtype(&quantiser.op));
            let wanted = self.both || scales == ScaleLayout::Words;
            if quantiser.operands != Operands::All || !fits || !wanted {
                continue;
            }
            let moved = Some(Quantiser { scales, ..quantiser.clone() });
            let pair = Pair { quantiser: &moved, ..*self };
            for (i, place) in form::places(Strength::One(self.turn)).into_iter().enumerate() {
                let lanes = if i % 2 == 0 { unit * SCALES } else { LANES[0] };
                let place = Place { layout: Layout::Contiguous, lanes, ..place };
                pair.cell(Operands::All, Form::Plain, place, place.odd, all);
            }
        }
    }

    fn cell(&self, operands: Operands, form: Form, place: Place, residual: bool, all: &mut Vec<Combination>) {
        let (op, quantiser) = (self.op.clone(), self.quantiser.clone());
        let Place { layout, dtype, lanes, rows, .. } = place;
        let cell = Combination { residual, op, operands, form, quantiser, layout, dtype, lanes, rows };
        if cell.is_sound() && cell.graph().is_ok() {
            all.push(cell);
        }
    }
}

/// `count` different combinations chosen by a seed, or all if there are no more.
pub fn sample(count: usize, seed: u64) -> Vec<Combination> {
    chosen(combinations(), count, seed)
}

/// As [`sample`], of those of whose dtypes the target lacks none: others are refused there as a whole.
pub fn sample_for(target: &Target, count: usize, seed: u64) -> Vec<Combination> {
    let mut all = combinations();
    all.retain(|combination| run::is_taken(target, combination));
    chosen(all, count, seed)
}

fn chosen(mut all: Vec<Combination>, count: usize, seed: u64) -> Vec<Combination> {
    let mut random = Random::new(seed, 0);
    let count = count.min(all.len());
    for i in 0..count {
        let chosen = i + random.below(all.len() - i);
        all.swap(i, chosen);
    }
    all.truncate(count);
    all
}

impl Combination {
    /// Whether there are two ops at the least, and the form has what it is around. A gate has no residual: what is added
    /// is no row of halves. f32 rows have no wider operands, and an op that divides its lanes no symbolic length.
    fn is_sound(&self) -> bool {
        let (op, quantiser) = (self.op.is_some(), self.quantiser.is_some());
        let codes = matches!(self.layout, Layout::Codes(_));
        let steps = [self.residual, op, self.form != Form::Plain, quantiser, codes];
        let fits = !self.form.is_gate() || (op && !self.residual);
        let heads = self.form != Form::Heads || op;
        let wider = self.operands != Operands::Wide || self.dtype != DType::F32;
        let length = self.layout != Layout::Symbolic || self.op.as_ref().is_none_or(build::takes_any_length);
        fits && heads && wider && length && steps.iter().filter(|&&there| there).count() >= 2
    }

    /// The fewest kernels there can be.
    pub fn kernels(&self) -> usize {
        let of_tensor = self.quantiser.as_ref().is_some_and(|q| q.operands == Operands::Tensor);
        if of_tensor { TENSOR_KERNELS } else { KERNELS }
    }

    /// Its op and its quantiser, as far as it has them.
    pub fn family(&self) -> String {
        let op = self.op.as_ref().map(|op| op.name());
        let quantiser = self.quantiser.as_ref().map(|quantiser| quantiser.op.name());
        let words: Vec<&str> = op.into_iter().chain(quantiser).collect();
        if words.is_empty() { "add".to_owned() } else { words.join(".") }
    }

    /// What the symbols of the graph stand for: the rows, and the row length where it is symbolic.
    pub fn symbols(&self) -> Symbols {
        self.symbols_at(self.rows)
    }

    /// The same at another number of rows.
    pub fn symbols_at(&self, rows: i64) -> Symbols {
        let mut symbols = Symbols::from([(ROW_SYMBOL.to_owned(), rows)]);
        if self.layout == Layout::Symbolic {
            symbols.insert(LANE_SYMBOL.to_owned(), self.lanes / self.lane_unit());
        }
        symbols
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_tell_combinations_apart() {
        let all = combinations();
        let names: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() >= 1500, "{} combinations", all.len());
        assert!(all.len() < 60_000, "{} combinations take too long", all.len());
        for spec in LIST {
            assert!(names.iter().any(|n| n.contains(spec.name)), "`{}` is in no combination", spec.name);
        }
    }

    /// Packed codes of groups are lanes of the row that a norm reduces: one kernel, whatever the group.
    #[test]
    fn codes_packed_out_of_groups_share_the_kernel_of_a_norm() {
        let plain = |op: &Composite| op.name().ends_with("_norm") && (op.spec().variants)().first() == Some(op);
        let norm = |c: &Combination| c.op.as_ref().is_some_and(plain) && c.residual;
        let packs = |c: &Combination| {
            c.quantiser.as_ref().is_some_and(|q| q.op.name() == "quantize_nvfp4" && q.group.is_some())
        };
        let chosen = combinations().into_iter().filter(|c| norm(c) && packs(c) && c.form == Form::Plain);
        let chosen: Vec<Combination> = chosen.filter(|c| c.dtype == DType::BF16).collect();
        assert!(chosen.len() >= 2 * GROUPS.len(), "{} combinations", chosen.len());
        for combination in chosen {
            let passed = combination.check(&Target::Cpu, 1).expect("checks");
            assert!(passed.is_ok(), "{combination}: {passed:?}");
        }
    }

    #[test]
    fn a_seed_names_a_sample() {
        let (one, same, other) = (sample(40, 7), sample(40, 7), sample(40, 8));
        assert!(one == same && one != other);
        let names: BTreeSet<String> = one.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), 40);
    }
}
