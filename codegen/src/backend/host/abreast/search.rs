//! Searches of rows side by side: each element moves down a list of the best so far, by compares and selects.

use fusewright_abi::DType;
use fusewright_graph::{Literal, ReduceOp, Rounding, ScalarFn};

use super::Abreast;
use crate::kernel::{InstOp, Val};

/// An element of a row and its lane.
#[derive(Clone, Copy)]
struct Found {
    value: Val,
    /// This orders as the value does, in vectors of every target.
    key: Val,
    lane: Val,
}

impl Abreast<'_> {
    /// Gives the `count` best elements of rows and their lanes: the first of equals, a NaN before everything. Keys, where there
    /// are some, are ordered in place of the elements.
    pub(super) fn largest(
        &mut self,
        op: ReduceOp,
        lanes: &[Val],
        keys: Option<&[Val]>,
        count: usize,
    ) -> Option<Vec<Vec<Val>>> {
        let dtype = self.b.ty(*lanes.first()?).dtype;
        if dtype == DType::Bool {
            return None;
        }
        let mut best: Vec<Found> = Vec::with_capacity(count);
        for (number, &value) in lanes.iter().enumerate() {
            let key = match keys {
                Some(keys) => *keys.get(number)?,
                None => self.key(value, dtype)?,
            };
            let number = Literal::Int(DType::I32, i64::try_from(number).ok()?);
            let x = Found { value, key, lane: self.push(InstOp::Literal(number), &[])? };
            let better = best.iter().map(|known| self.better(op, x, *known)).collect::<Option<Vec<Val>>>()?;
            let mut next = Vec::with_capacity(count);
            for place in 0..count.min(best.len() + 1) {
                // What is better than an element is better than all behind it.
                let here = match best.get(place) {
                    Some(known) => self.either(better[place], x, *known)?,
                    None => x,
                };
                let moved = place.checked_sub(1).map(|before| self.either(better[before], best[before], here));
                next.push(moved.unwrap_or(Some(here))?);
            }
            best = next;
        }
        (best.len() == count).then(|| {
            let values = best.iter().map(|found| found.value).collect();
            vec![values, best.iter().map(|found| found.lane).collect()]
        })
    }

    fn key(&mut self, value: Val, dtype: DType) -> Option<Val> {
        if !dtype.is_float() || dtype.bits() >= 32 {
            return Some(value);
        }
        self.push(InstOp::Cast { to: DType::F32, round: Rounding::NearestEven, saturate: false }, &[value])
    }

    /// Says whether an element replaces one ahead of it.
    fn better(&mut self, op: ReduceOp, x: Found, known: Found) -> Option<Val> {
        let max = op == ReduceOp::Max;
        let (x, known, is_float) = (x.key, known.key, self.b.ty(x.key).dtype.is_float());
        let mut map = |f, args: &[Val]| self.push(InstOp::Map(f), args);
        // Operands are computed in their order: the list before the next element, so that elements are loaded when they are due.
        if !is_float {
            return map(if max { ScalarFn::Lt } else { ScalarFn::Gt }, &[known, x]);
        }
        let behind = map(if max { ScalarFn::Ge } else { ScalarFn::Le }, &[known, x])?;
        let ahead = map(ScalarFn::Not, &[behind])?;
        let number = map(ScalarFn::Eq, &[known, known])?;
        map(ScalarFn::And, &[ahead, number])
    }

    fn either(&mut self, first: Val, a: Found, b: Found) -> Option<Found> {
        let mut select = |a, b| self.push(InstOp::Map(ScalarFn::Select), &[first, a, b]);
        let value = select(a.value, b.value)?;
        let key = if a.key == a.value && b.key == b.value { value } else { select(a.key, b.key)? };
        Some(Found { value, key, lane: select(a.lane, b.lane)? })
    }
}
