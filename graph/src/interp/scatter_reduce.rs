//! Slices combined with what stands at places along an axis.

use super::domain::{ArrayOf, DataOf, Domain};
use super::fault::Fault;
use super::layout::{around, inside, ranges};
use crate::prim::{Literal, NanRule, ReduceOp};
use crate::tensor::Data;

/// `x` with the slices of `updates` along an axis combined with what stands at indices, those outside the axis skipped. What stood at a
/// place is a term of what comes there; no order is promised. An update whose index may have several values is a term at each of them, or
/// is none.
pub(super) fn scatter_reduce<D: Domain>(
    domain: &D,
    [x, indices, updates]: [&ArrayOf<D>; 3],
    op: ReduceOp,
    axis: usize,
) -> Result<DataOf<D>, Fault> {
    let (outer, extent, inner) = around(x.shape(), axis);
    let chosen = ranges(domain, indices)?;
    let mut added: Vec<Vec<(usize, bool)>> = vec![Vec::new(); extent];
    for (row, &(low, high)) in chosen.iter().enumerate() {
        for place in inside(low, high, extent) {
            added[place as usize].push((row, low == high));
        }
    }
    let terms = Terms { added: &added, outer, inner, rows: chosen.len() };
    let dtype = x.dtype();
    match (x.data().clone(), updates.data()) {
        (Data::Float(mut out), Data::Float(new)) => {
            let nothing = domain.float(match op.start(dtype) {
                // What leaves −0 as it is.
                Literal::Float(..) if op == ReduceOp::Add => -0.0,
                Literal::Float(_, start) => start,
                Literal::Int(..) => return Err("an integer to start from among floats".into()),
            });
            let maybe = |term| domain.join_floats(nothing, term);
            terms.put(&mut out, new, maybe, |row| domain.reduce_floats(op, NanRule::Propagate, dtype, row));
            Ok(Data::Float(out))
        }
        (Data::Int(mut out), Data::Int(new)) => {
            let Literal::Int(_, start) = op.start(dtype) else {
                return Err("a float to start from among integers".into());
            };
            let nothing = domain.int(start);
            let maybe = |term| domain.join_ints(dtype, nothing, term);
            terms.put(&mut out, new, maybe, |row| domain.reduce_ints(op, dtype, row));
            Ok(Data::Int(out))
        }
        _ => Err("operands of different classes".into()),
    }
}

/// The terms of each place.
struct Terms<'a> {
    /// By place: the updates, and whether they are terms there for certain.
    added: &'a [Vec<(usize, bool)>],
    outer: usize,
    inner: usize,
    /// Updates of a block.
    rows: usize,
}

impl Terms<'_> {
    fn put<T: Copy>(&self, out: &mut [T], new: &[T], maybe: impl Fn(T) -> T, combined: impl Fn(&[T]) -> T) {
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
                    out[slot] = combined(&terms);
                }
            }
        }
    }
}
