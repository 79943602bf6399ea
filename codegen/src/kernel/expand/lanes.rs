//! The numbers of lanes: compared with a scalar, which masks of attention are made of, and found by their value.

use fusewright_graph::{DType, Dim, NanRule, ReduceOp, ScalarFn};

use super::emit::Emit;
use crate::kernel::{InstOp, Order, Over, Tree, Val, verify};

/// An order whose accumulators are vectors. All orders give the same extreme.
const ORDER: Order = Order::Tree(Tree::interleaved(16));

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

    /// Integers that are ordered as a search orders `f32` values: both zeros alike, a NaN above all others.
    pub(super) fn order_key(&mut self, x: Val) -> Val {
        let zero = self.c(0.0);
        let alike = self.add(x, zero);
        let bits = self.bits(alike);
        let (none, below_sign, most) = (self.i(0), self.i(i32::MAX), self.i(i32::MAX));
        let negative = self.lt(bits, none);
        let turned = self.raw(ScalarFn::Xor, &[bits, below_sign]);
        let key = self.select(negative, turned, bits);
        let is_nan = self.ne(x, x);
        self.select(is_nan, most, key)
    }

    /// An extreme and the first lane that equals it, or is NaN if it is: two loops over vectors in place of one over
    /// lanes. A row of no lanes has its extreme in lane 0.
    pub(super) fn extreme_lane(&mut self, op: ReduceOp, x: Val, lanes: Dim) -> Vec<Val> {
        let x = if self.dtype(x) == DType::F32 { x } else { self.cast(x, DType::F32) };
        let row = |op| InstOp::Reduce { op, over: Over::Row, nan: NanRule::Propagate, order: ORDER };
        let extreme = self.one(row(op), &[x]);
        let (equal, is_nan) = (self.eq(x, extreme), self.ne(x, x));
        let is_it = self.or(equal, is_nan);
        let lane = self.one(InstOp::Iota(lanes), &[]);
        let (first, behind) = (self.i(0), self.i(i32::MAX));
        let lane = self.select(is_it, lane, behind);
        let lane = self.one(row(ReduceOp::Min), &[lane]);
        let none = self.eq(lane, behind);
        vec![extreme, self.select(none, first, lane)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fusewright_graph::{DType, num};

    use crate::kernel::expand::forms::ORDERINGS;
    use crate::kernel::expand::{Column, expand};
    use crate::kernel::interp::{Buffer, put_bits, run};
    use crate::kernel::{Kernel, Shape};

    const LANES: i64 = 5;

    #[test]
    fn the_lane_of_an_extreme_is_the_first_that_has_it() {
        const NAN: f32 = f32::NAN;
        const INF: f32 = f32::INFINITY;
        let rows = [
            [1.0, 3.0, 2.0, 3.0, 0.0],
            [0.0, -0.0, 0.0, -0.0, -1.0],
            [-0.0, 0.0, 1.0, 1.0, 0.0],
            [-INF; 5],
            [INF, INF, -INF, -INF, 0.0],
            [1.0, NAN, INF, NAN, -INF],
            [NAN; 5],
            [1e-45, -1e-45, 0.0, 1e-45, -1e-45],
        ];
        for (op, dtype) in ["max", "min"].into_iter().flat_map(|op| [(op, DType::F32), (op, DType::BF16)]) {
            let text = format!(
                "kernel @k(n) rows 1 {{ param %x: {dtype}[n] in param %y: i32[1] out segment @m inner 1 {{ \
                 %a = load x[lane] : row<{dtype}, n> %v, %i = arg_reduce {op} %a store y[0], %i }} }}"
            );
            let kernel: Kernel = text.parse().expect("the text is right");
            let expanded = expand(&kernel, Column::Cpu).expect("expands");
            assert!(!expanded.to_string().contains("arg_reduce"), "{expanded}");
            for row in rows {
                let mut bytes = vec![0; dtype.bytes_for(row.len())];
                for (i, x) in row.into_iter().enumerate() {
                    assert!(put_bits(dtype, &mut bytes, i, num::encode(dtype, f64::from(x))));
                }
                let lane = |kernel: &Kernel| {
                    let mut buffers = vec![Buffer::Bytes(bytes.clone()), Buffer::Bytes(vec![9; 4])];
                    run(kernel, &mut buffers, &BTreeMap::from([("n".to_owned(), LANES)]), 0..1).expect("runs");
                    buffers[1].bytes().to_vec()
                };
                assert_eq!(lane(&expanded), lane(&kernel), "{op} of {dtype} {row:?}");
            }
        }
    }

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
