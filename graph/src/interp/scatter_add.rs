//! Slices added at places along an axis.

use super::domain::{ArrayOf, DataOf, Domain};
use super::fault::Fault;
use super::layout::{around, ranges};
use crate::prim::{NanRule, ReduceOp};
use crate::tensor::Data;

/// `x` with the slices of `updates` along an axis added at indices. What stood at a place is a term of its sum; no order
/// is promised. An update whose index may have several values is added at each of them, or is not.
pub(super) fn scatter_add<D: Domain>(
    domain: &D,
    [x, indices, updates]: [&ArrayOf<D>; 3],
    axis: usize,
) -> Result<DataOf<D>, Fault> {
    let (outer, extent, inner) = around(x.shape(), axis);
    let chosen = ranges(domain, indices)?;
    let mut added: Vec<Vec<(usize, bool)>> = vec![Vec::new(); extent];
    for (row, &(low, high)) in chosen.iter().enumerate() {
        for place in low.max(0)..=high {
            let slot = usize::try_from(place).ok().and_then(|place| added.get_mut(place));
            let slot = slot.ok_or_else(|| format!("index {low}..={high} on an axis of extent {extent}"))?;
            slot.push((row, low == high));
        }
    }
    let sums = Sums { added: &added, outer, inner, rows: chosen.len() };
    let dtype = x.dtype();
    match (x.data().clone(), updates.data()) {
        (Data::Float(mut out), Data::Float(new)) => {
            let zero = domain.float(-0.0);
            let maybe = |term| domain.join_floats(zero, term);
            sums.put(&mut out, new, maybe, |row| domain.reduce_floats(ReduceOp::Add, NanRule::Propagate, dtype, row));
            Ok(Data::Float(out))
        }
        (Data::Int(mut out), Data::Int(new)) => {
            let zero = domain.int(0);
            let maybe = |term| domain.join_ints(dtype, zero, term);
            sums.put(&mut out, new, maybe, |row| domain.reduce_ints(ReduceOp::Add, dtype, row));
            Ok(Data::Int(out))
        }
        _ => Err("operands of different classes".into()),
    }
}

/// What is added where.
struct Sums<'a> {
    /// By place: the updates, and whether they are added there for certain.
    added: &'a [Vec<(usize, bool)>],
    outer: usize,
    inner: usize,
    /// Updates of a block.
    rows: usize,
}

impl Sums<'_> {
    fn put<T: Copy>(&self, out: &mut [T], new: &[T], maybe: impl Fn(T) -> T, sum: impl Fn(&[T]) -> T) {
        let mut terms = Vec::new();
        for block in 0..self.outer {
            for (place, added) in self.added.iter().enumerate().filter(|(_, added)| !added.is_empty()) {
                for lane in 0..self.inner {
                    let slot = (block * self.added.len() + place) * self.inner + lane;
                    terms.clear();
                    terms.push(out[slot]);
                    terms.extend(added.iter().map(|&(row, certain)| {
                        let term = new[(block * self.rows + row) * self.inner + lane];
                        if certain { term } else { maybe(term) }
                    }));
                    out[slot] = sum(&terms);
                }
            }
        }
    }
}
