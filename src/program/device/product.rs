//! Matrix products of slots: which products of a library they are. Axes of the batch become one stride where they can, rows
//! of a batch that share the right matrix become rows of one matrix, and what is left is a list of products.

use fusewright_runtime::{MatMul, Matrix};

use crate::program::plan::Slot;

/// A product, and at which elements of the operands and the result it begins, counted from those of the slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Product {
    pub product: MatMul,
    /// Of the left, the right and the result.
    pub offsets: [usize; 3],
}

/// An axis of a batch: its extent, and its strides in the left, the right and the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Axis {
    extent: usize,
    strides: [usize; 3],
}

/// The products of `a[…, m, k]` and `b[…, k, n]` (`b[…, n, k]` if `transpose_b`) into `c[…, m, n]`; none where there is
/// nothing to compute.
pub(super) fn products([a, b, c]: [&Slot; 3], transpose_b: bool) -> Vec<Product> {
    let rank = a.shape.len();
    let (left, right, result) = (matrix(a), matrix(b), matrix(c));
    let right = if transpose_b {
        Matrix { row_stride: right.column_stride, column_stride: right.row_stride, ..right }
    } else {
        right
    };
    let (m, k, n) = (a.shape[rank - 2], a.shape[rank - 1], c.shape[rank - 1]);
    let shared = b.shape.len() < rank;
    let axis = |axis: usize| Axis {
        extent: a.shape[axis],
        strides: [a.strided.strides[axis], if shared { 0 } else { b.strided.strides[axis] }, c.strided.strides[axis]],
    };
    let mut axes = merged((0..rank - 2).map(axis));
    let mut product = MatMul { batch: 1, m, n, k, a: left, b: right, c: result };
    if product.is_empty() || axes.iter().any(|axis| axis.extent == 0) {
        return Vec::new();
    }
    // Rows of matrices that follow each other at the stride of their rows, and meet one matrix, are rows of one.
    if let Some(&Axis { extent, strides: [x, y, z] }) = axes.last()
        && y == 0
        && follows(m, left.row_stride, x)
        && follows(m, result.row_stride, z)
    {
        let stride = |own: usize, of_axis: usize| if m == 1 { of_axis } else { own };
        product.a.row_stride = stride(left.row_stride, x);
        product.c.row_stride = stride(result.row_stride, z);
        product.m = m * extent;
        axes.pop();
    }
    // The longest axis is the library's batch, the others are a product each.
    if let Some(at) = (0..axes.len()).max_by_key(|&at| axes[at].extent) {
        let Axis { extent, strides: [x, y, z] } = axes.remove(at);
        product.batch = extent;
        (product.a.batch_stride, product.b.batch_stride, product.c.batch_stride) = (x, y, z);
    }
    let mut all = vec![[0; 3]];
    for Axis { extent, strides } in axes {
        let moved = |from: &[usize; 3]| {
            let from = *from;
            (0..extent).map(move |i| std::array::from_fn(|of| from[of] + i * strides[of]))
        };
        all = all.iter().flat_map(moved).collect();
    }
    all.into_iter().map(|offsets| Product { product, offsets }).collect()
}

/// The last two axes of a slot.
fn matrix(slot: &Slot) -> Matrix {
    let strides = &slot.strided.strides;
    let rank = strides.len();
    Matrix { dtype: slot.dtype, row_stride: strides[rank - 2], column_stride: strides[rank - 1], batch_stride: 0 }
}

/// Whether matrices of `m` rows lie so that the first row of one stands where the next row of the one before would.
fn follows(m: usize, row_stride: usize, batch_stride: usize) -> bool {
    m == 1 || batch_stride == m * row_stride
}

/// Axes without those of one element, neighbours that are one axis in all three as one.
fn merged(axes: impl Iterator<Item = Axis>) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::new();
    for axis in axes.filter(|axis| axis.extent != 1) {
        match merged.last_mut() {
            Some(outer) if (0..3).all(|of| outer.strides[of] == axis.extent * axis.strides[of]) => {
                *outer = Axis { extent: outer.extent * axis.extent, strides: axis.strides };
            }
            _ => merged.push(axis),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use fusewright_abi::DType;

    use super::*;
    use crate::program::plan::Place;
    use crate::program::strided::Strided;

    fn slot(shape: &[usize], strides: &[usize]) -> Slot {
        let strided = Strided { shape: shape.to_vec(), strides: strides.to_vec(), offset: 0 };
        let bytes = DType::F32.bytes_for(shape.iter().product());
        Slot { dtype: DType::F32, shape: shape.to_vec(), bytes, place: Place::Buffer(0), strided }
    }

    fn row_major(shape: &[usize]) -> Slot {
        slot(shape, &Strided::contiguous(shape).strides)
    }

    /// Places of operands and result of every element, by the products and by the slots.
    fn agree(slots: [&Slot; 3], transpose_b: bool, count: usize) -> Vec<Product> {
        let found = products(slots, transpose_b);
        assert_eq!(found.len(), count, "{found:?}");
        let mut got = Vec::new();
        for Product { product: p, offsets } in &found {
            for (batch, i, j) in
                (0..p.batch).flat_map(|batch| (0..p.m).flat_map(move |i| (0..p.n).map(move |j| (batch, i, j))))
            {
                let at = |x: &Matrix, of: usize, row: usize, column: usize| {
                    offsets[of] + batch * x.batch_stride + row * x.row_stride + column * x.column_stride
                };
                let terms = (0..p.k).map(|l| (at(&p.a, 0, i, l), at(&p.b, 1, l, j))).collect::<Vec<_>>();
                got.push((at(&p.c, 2, i, j), terms));
            }
        }
        let [a, b, c] = slots;
        let mut meant = Vec::new();
        let rank = a.shape.len();
        for flat in 0..c.shape.iter().product::<usize>() {
            let mut index = vec![0; rank];
            let mut rest = flat;
            for axis in (0..rank).rev() {
                (index[axis], rest) = (rest % c.shape[axis], rest / c.shape[axis]);
            }
            let place =
                |x: &Slot, index: &[usize]| index.iter().zip(&x.strided.strides).map(|(i, s)| i * s).sum::<usize>();
            let mut terms = Vec::new();
            for l in 0..a.shape[rank - 1] {
                let mut left = index.clone();
                left[rank - 1] = l;
                let mut right = index.clone();
                let (row, column) = if transpose_b { (index[rank - 1], l) } else { (l, index[rank - 1]) };
                (right[rank - 2], right[rank - 1]) = (row, column);
                let right = &right[rank - b.shape.len()..];
                terms.push((place(a, &left), place(b, right)));
            }
            meant.push((place(c, &index), terms));
        }
        got.sort();
        meant.sort();
        assert_eq!(got, meant);
        found
    }

    #[test]
    fn rows_of_a_batch_that_share_a_matrix_are_rows_of_one() {
        let found = agree([&row_major(&[2, 3, 4, 5]), &row_major(&[5, 6]), &row_major(&[2, 3, 4, 6])], false, 1);
        assert_eq!((found[0].product.m, found[0].product.batch), (24, 1));
        // One row each, at a stride of its own.
        let found = agree([&slot(&[7, 1, 5], &[50, 5, 1]), &row_major(&[6, 5]), &row_major(&[7, 1, 6])], true, 1);
        assert_eq!((found[0].product.m, found[0].product.a.row_stride), (7, 50));
    }

    #[test]
    fn heads_are_a_batch() {
        // Keys lie [rows, heads, width].
        let (q, k, scores) = (row_major(&[1, 3, 4, 5]), slot(&[1, 3, 6, 5], &[90, 5, 15, 1]), row_major(&[1, 3, 4, 6]));
        let found = agree([&q, &k, &scores], true, 1);
        assert_eq!((found[0].product.batch, found[0].product.b.batch_stride), (3, 5));
        // So do results.
        let out = slot(&[1, 3, 4, 5], &[60, 5, 15, 1]);
        agree([&scores, &k, &out], false, 1);
    }

    #[test]
    fn what_is_no_one_stride_is_several_products() {
        let (q, k) = (row_major(&[2, 3, 4, 5]), slot(&[2, 3, 6, 5], &[90, 5, 15, 1]));
        let found = agree([&q, &k, &row_major(&[2, 3, 4, 6])], true, 2);
        assert_eq!(found.iter().map(|p| p.product.batch).collect::<Vec<_>>(), [3, 3]);
        // Heads that share their keys are rows of one matrix again.
        let stretched = slot(&[2, 3, 6, 5], &[30, 0, 5, 1]);
        let found = agree([&q, &stretched, &row_major(&[2, 3, 4, 6])], true, 1);
        assert_eq!((found[0].product.batch, found[0].product.m), (2, 12));
    }

    #[test]
    fn nothing_is_no_product() {
        for (a, b, c) in
            [([0, 4, 5], [5, 6], [0, 4, 6]), ([2, 0, 5], [5, 6], [2, 0, 6]), ([2, 4, 5], [5, 0], [2, 4, 0])]
        {
            assert_eq!(products([&row_major(&a), &row_major(&b), &row_major(&c)], false), []);
        }
    }
}
