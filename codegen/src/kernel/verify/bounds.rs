//! Static bounds: indices over known ranges into parameters of known size.

use fusewright_graph::{Dim, dim};

use super::Verifier;
use crate::kernel::{INNER, LANE, Param, ROW, Segment, Shape, Source};

impl Verifier<'_> {
    /// Checks an index that is linear in row, inner row and lane with known counts against known extents.
    pub(super) fn in_bounds(&mut self, place: &str, index: &Dim, shape: &Shape, segment: &Segment, param: &Param) {
        let (Some(elements), Source::Memory) = (dim::product(&param.shape).as_const(), &param.source) else { return };
        let lanes = shape.elements();
        let Some((low, high)) = range(index, [(LANE, &lanes), (INNER, &segment.inner), (ROW, &self.kernel.rows)])
        else {
            return;
        };
        self.require(low >= 0 && high < elements, place, || {
            format!("elements {low}..={high} of %{}, which has {elements}", param.name)
        });
    }
}

/// Least and greatest value of a dim linear in counters, or `None` where unknown or where a counter is empty.
fn range(index: &Dim, counters: [(&str, &Dim); 3]) -> Option<(i64, i64)> {
    let (mut rest, mut low, mut high) = (index.clone(), 0i64, 0i64);
    for (symbol, count) in counters {
        let (slope, left) = rest.split_linear(symbol)?;
        let slope = slope.as_const()?;
        rest = left;
        let last = match (slope, count.as_const()) {
            (0, Some(0)) => return None,
            (0, _) => continue,
            (_, count) => count?.checked_sub(1)?,
        };
        if last < 0 {
            return None;
        }
        let reach = slope.checked_mul(last)?;
        low = low.checked_add(reach.min(0))?;
        high = high.checked_add(reach.max(0))?;
    }
    let rest = rest.as_const()?;
    Some((low.checked_add(rest)?, high.checked_add(rest)?))
}
