//! Steps that shift a tensor along an axis, of rows or of lanes: a slice that constants, or the rest of the tensor, fill up to the
//! old length, beside what it is a slice of. Results overwrite inputs where they may.

use fusewright::graph::{Builder, Dim, Prim, Value};
use fusewright::inputs::Random;

use super::{BINARY, Gen, Profile, UNARY};

/// Most places that a step takes away.
const FURTHEST: i64 = 3;

/// Outputs, each with the input that it overwrites, if the profile has such.
pub(super) fn updates(
    b: &Builder,
    random: &mut Random,
    given: &[(String, Value)],
    profile: Profile,
    outputs: Vec<Value>,
) -> Vec<(Value, Option<String>)> {
    let mut free: Vec<&(String, Value)> = given.iter().collect();
    let mut over = |value: Value| {
        (profile == Profile::Shifted && random.once_in(2)).then_some(())?;
        let at = free.iter().position(|(_, input)| b.ty(*input) == b.ty(value))?;
        Some(free.remove(at).0.clone())
    };
    outputs.into_iter().map(|value| (value, over(value))).collect()
}

impl Gen {
    /// Tensors with rows that can be taken away whatever their number.
    pub(super) fn inputs_to_shift(&mut self) {
        let least = Dim::constant(self.random.below(FURTHEST as usize + 1) as i64);
        let rows = &self.s + &least;
        self.inputs_of(rows);
    }

    /// A shifted tensor beside itself, beside a function of itself, beside another shift of it, or alone.
    pub(super) fn shift(&mut self) -> Option<Value> {
        let x = self.float()?;
        let rows = self.shape(x).iter().position(|extent| extent.as_const().is_none());
        let axis = match rows.filter(|_| self.random.once_in(2)) {
            Some(axis) => axis,
            None => self.axis(x)?,
        };
        let moved = self.shifted(x, axis)?;
        let other = match self.random.below(6) {
            0 => return Some(moved),
            1 => self.shifted(x, axis)?,
            2 => {
                let f = self.random.pick(&UNARY);
                self.map(f, &[x])?
            }
            _ => x,
        };
        let f = self.random.pick(&BINARY);
        let operands = if self.random.once_in(2) { [moved, other] } else { [other, moved] };
        self.map(f, &operands)
    }

    /// A tensor of the same length: some places are taken away at either end, and as many added at either end.
    fn shifted(&mut self, x: Value, axis: usize) -> Option<Value> {
        let extent = self.shape(x)[axis].clone();
        // The verifier wants slices that stay inside for the least number of rows.
        let least = extent.eval(&|name| (name == "s").then_some(0)).ok()?.min(FURTHEST);
        let taken = 1 + self.random.below(usize::try_from(least).ok().filter(|&n| n > 0)?) as i64;
        let (start, ahead) = (self.part_of(taken), self.part_of(taken));
        let end = &extent - &Dim::constant(taken - start);
        let kept = self.sliced(x, axis, start, end)?;
        let fill = |this: &mut Self, places: i64, from: Dim| match this.random.once_in(5) {
            true => this.slice_of(x, axis, from.clone(), &from + &Dim::constant(places)),
            false => this.filling(x, axis, &Dim::constant(places)),
        };
        let mut parts = Vec::new();
        if ahead > 0 {
            parts.push(fill(self, ahead, &extent - &Dim::constant(ahead))?);
        }
        parts.push(kept);
        if ahead < taken {
            parts.push(fill(self, taken - ahead, Dim::constant(0))?);
        }
        self.prim(Prim::Cat { axis }, &parts)
    }

    /// None of so many, all of them, or some.
    fn part_of(&mut self, places: i64) -> i64 {
        match self.random.below(3) {
            0 => 0,
            1 => places,
            _ => self.random.below(places as usize + 1) as i64,
        }
    }

    fn slice_of(&mut self, x: Value, axis: usize, start: Dim, end: Dim) -> Option<Value> {
        self.prim(Prim::Slice { axis, start, end, step: 1 }, &[x])
    }

    /// One slice, or a slice of a slice.
    fn sliced(&mut self, x: Value, axis: usize, start: i64, end: Dim) -> Option<Value> {
        if self.random.once_in(4) {
            let long = self.slice_of(x, axis, 0.into(), end.clone())?;
            return self.slice_of(long, axis, start.into(), end);
        }
        self.slice_of(x, axis, start.into(), end)
    }
}
