//! Comparisons of the numbers of lanes with a scalar, which masks of attention are made of.

use fusewright_graph::{DType, ScalarFn};

use super::emit::Emit;
use crate::kernel::{Val, verify};

impl Emit<'_> {
    /// A comparison of an `iota` with an `i64`, on `i32`, of which vectors hold more. The scalar is kept within the numbers
    /// of lanes and one more on either side: what lies further out compares as these do.
    pub(super) fn lane_against(&mut self, f: ScalarFn, lane: Val, scalar: Val, lane_first: bool) -> Val {
        let (before, behind) = (self.like_int(scalar, -1), self.like_int(scalar, verify::MAX_LANES));
        let less = self.lt(scalar, before);
        let near = self.select(less, before, scalar);
        let more = self.lt(behind, near);
        let near = self.select(more, behind, near);
        let near = self.cast(near, DType::I32);
        self.raw(f, &if lane_first { [lane, near] } else { [near, lane] })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fusewright_graph::DType;

    use crate::kernel::expand::forms::ORDERINGS;
    use crate::kernel::expand::{Column, expand};
    use crate::kernel::interp::{Buffer, run};
    use crate::kernel::{Kernel, Shape};

    const LANES: i64 = 5;

    fn evaluate(kernel: &Kernel, scalar: i64) -> Vec<u8> {
        let mut buffers = vec![Buffer::Bytes(scalar.to_le_bytes().into()), Buffer::Bytes(vec![2; LANES as usize])];
        run(kernel, &mut buffers, &BTreeMap::from([("n".to_owned(), LANES)]), 0..1).expect("runs");
        buffers[1].bytes().to_vec()
    }

    #[test]
    fn any_scalar_compares_with_numbers_of_lanes_as_i32() {
        let near = -2..=LANES + 1;
        let bits = [i64::from(i32::MIN), i64::from(i32::MAX), i64::from(u32::MAX)];
        let far = bits.into_iter().flat_map(|x| [x - 1, x, x + 1, x + 3]).chain([i64::MIN, i64::MAX]);
        let scalars: Vec<i64> = near.chain(far).collect();
        for (f, args) in ORDERINGS.iter().flat_map(|f| [(f, "%l, %s"), (f, "%s, %l")]) {
            let text = format!(
                "kernel @k(n) rows 1 {{ param %x: i64[1] in param %y: bool[n] out segment @m inner 1 {{ %i = iota n \
                 %l = cast %i to i64 rne %s = load x[0] : scalar<i64> %y = {} {args} store y[lane], %y }} }}",
                f.name()
            );
            let kernel: Kernel = text.parse().expect("the text is right");
            for column in Column::ALL {
                let expanded = expand(&kernel, column).expect("expands");
                let wide = |ty: &crate::kernel::Ty| ty.dtype == DType::I64 && matches!(ty.shape, Shape::Row(_));
                assert!(!expanded.segments[0].types.iter().any(wide), "{expanded}");
                for &scalar in &scalars {
                    assert_eq!(evaluate(&expanded, scalar), evaluate(&kernel, scalar), "{} {args}, {scalar}", f.name());
                }
            }
        }
    }
}
