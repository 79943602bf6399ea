//! Matrix products as libraries take them: where the elements of matrices lie, and the same in the terms of a library
//! whose matrices are stored column by column. Nothing here touches a device.

use std::fmt;

use fusewright_abi::DType;

/// A matrix of a batch: where element `(i, j)` of matrix `b` lies. Strides count elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Matrix {
    /// Element type.
    pub dtype: DType,
    /// From row to row.
    pub row_stride: usize,
    /// From column to column.
    pub column_stride: usize,
    /// From matrix to matrix of the batch; zero where all products share one matrix.
    pub batch_stride: usize,
}

/// `c[m, n] = a[m, k] · b[k, n]` for every matrix of a batch: products are summed in f32, and the sum is rounded once to
/// the dtype of `c`; of i8 the sums are exact, in i32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MatMul {
    /// Matrices of the batch.
    pub batch: usize,
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// Left operand.
    pub a: Matrix,
    /// Right operand.
    pub b: Matrix,
    /// Result.
    pub c: Matrix,
}

/// A matrix that is stored column by column, as column-major libraries take it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stored {
    /// Rows as stored.
    pub rows: usize,
    /// Columns as stored.
    pub columns: usize,
    /// Elements from column to column, at least as many as there are rows.
    pub leading: usize,
    /// Whether the product takes the transpose of it.
    pub transposed: bool,
    /// Elements from matrix to matrix of the batch.
    pub batch_stride: usize,
}

impl Stored {
    /// One past the place of the last element of a batch; zero if there is none.
    pub fn span(&self, batch: usize) -> usize {
        if batch == 0 || self.rows == 0 || self.columns == 0 {
            return 0;
        }
        (batch - 1) * self.batch_stride + (self.columns - 1) * self.leading + self.rows
    }
}

/// A product in the terms of a column-major library: `out[rows, columns] = op(left) · op(right)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ColumnMajor {
    /// Whether the operands change places: the library computes the transpose, `cᵀ = bᵀ · aᵀ`, so that `b` is its left one.
    pub swapped: bool,
    /// Left operand.
    pub left: Stored,
    /// Right operand.
    pub right: Stored,
    /// Result, which is never transposed.
    pub out: Stored,
}

/// A matrix whose elements lie so that no library takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// Which of them: `left`, `right` or `result`.
    pub which: &'static str,
    /// How it lies.
    pub matrix: Matrix,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Matrix { row_stride, column_stride, .. } = self.matrix;
        let which = self.which;
        write!(f, "the {which} matrix lies at strides {row_stride} and {column_stride}, of which neither is one")
    }
}

impl MatMul {
    /// Whether there is nothing to compute.
    pub fn is_empty(&self) -> bool {
        self.batch == 0 || self.m == 0 || self.n == 0
    }

    /// The product as a library takes it whose matrices are stored column by column.
    ///
    /// # Errors
    /// A matrix whose neighbours along neither axis are neighbours in memory, or whose rows overlap.
    pub fn column_major(&self) -> Result<ColumnMajor, Misfit> {
        let MatMul { m, n, k, a, b, c, .. } = *self;
        let misfit = |which, matrix| move || Misfit { which, matrix };
        let result = |rows, columns, by_row, by_column| {
            stored(rows, columns, by_row, by_column, c.batch_stride).filter(|out| !out.transposed)
        };
        // Rows of the result are what is contiguous as a rule; its transpose then lies column by column.
        let transposed = result(n, m, c.column_stride, c.row_stride);
        let (swapped, out) = match transposed {
            Some(out) => (true, out),
            None => (false, result(m, n, c.row_stride, c.column_stride).ok_or_else(misfit("result", c))?),
        };
        let (left, right) = if swapped {
            let left = stored(n, k, b.column_stride, b.row_stride, b.batch_stride).ok_or_else(misfit("right", b))?;
            (left, stored(k, m, a.column_stride, a.row_stride, a.batch_stride).ok_or_else(misfit("left", a))?)
        } else {
            let left = stored(m, k, a.row_stride, a.column_stride, a.batch_stride).ok_or_else(misfit("left", a))?;
            (left, stored(k, n, b.row_stride, b.column_stride, b.batch_stride).ok_or_else(misfit("right", b))?)
        };
        Ok(ColumnMajor { swapped, left, right, out })
    }
}

/// How a matrix of so many rows and columns at such strides is stored column by column, or its transpose; `None` if
/// neither is. Strides of axes of one element say nothing.
fn stored(rows: usize, columns: usize, by_row: usize, by_column: usize, batch_stride: usize) -> Option<Stored> {
    let leading = |stored_rows: usize, stored_columns: usize, inner: usize, outer: usize| {
        let leading = if stored_columns <= 1 { stored_rows } else { outer }.max(1);
        ((stored_rows <= 1 || inner == 1) && leading >= stored_rows).then_some(leading)
    };
    let plain = leading(rows, columns, by_row, by_column);
    let plain = plain.map(|leading| Stored { rows, columns, leading, transposed: false, batch_stride });
    plain.or_else(|| {
        let leading = leading(columns, rows, by_column, by_row)?;
        Some(Stored { rows: columns, columns: rows, leading, transposed: true, batch_stride })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(row_stride: usize, column_stride: usize, batch_stride: usize) -> Matrix {
        Matrix { dtype: DType::F32, row_stride, column_stride, batch_stride }
    }

    /// The product as it is meant.
    fn meant(p: &MatMul, a: &[f32], b: &[f32]) -> Vec<(usize, f32)> {
        let at = |x: Matrix, batch: usize, i: usize, j: usize| {
            batch * x.batch_stride + i * x.row_stride + j * x.column_stride
        };
        let mut out = Vec::new();
        for (batch, i, j) in
            (0..p.batch).flat_map(|batch| (0..p.m).flat_map(move |i| (0..p.n).map(move |j| (batch, i, j))))
        {
            let sum = (0..p.k).map(|l| a[at(p.a, batch, i, l)] * b[at(p.b, batch, l, j)]).sum();
            out.push((at(p.c, batch, i, j), sum));
        }
        out
    }

    /// The product as a column-major library reads what it is given.
    fn by_library(p: &MatMul, form: &ColumnMajor, a: &[f32], b: &[f32]) -> Vec<(usize, f32)> {
        let at = |x: &Stored, batch: usize, i: usize, j: usize| {
            let (row, column) = if x.transposed { (j, i) } else { (i, j) };
            assert!(row < x.rows && column < x.columns && x.leading >= x.rows, "{x:?}");
            batch * x.batch_stride + column * x.leading + row
        };
        let (left, right) = if form.swapped { (b, a) } else { (a, b) };
        let (rows, columns) = (form.out.rows, form.out.columns);
        let mut out = Vec::new();
        for (batch, i, j) in
            (0..p.batch).flat_map(|batch| (0..rows).flat_map(move |i| (0..columns).map(move |j| (batch, i, j))))
        {
            let term = |l| left[at(&form.left, batch, i, l)] * right[at(&form.right, batch, l, j)];
            out.push((at(&form.out, batch, i, j), (0..p.k).map(term).sum()));
        }
        out
    }

    #[test]
    fn a_library_of_columns_computes_what_is_meant() {
        // Extents, then strides of the operands and of the result; the last three are views into wider memory.
        let (m, n, k, batch) = (3, 4, 5, 2);
        let row_major = [matrix(k, 1, m * k), matrix(n, 1, k * n), matrix(n, 1, m * n)];
        let table: Vec<([usize; 4], [Matrix; 3])> = vec![
            ([batch, m, n, k], row_major),
            ([batch, m, n, k], [row_major[0], matrix(1, k, k * n), row_major[2]]),
            ([batch, m, n, k], [row_major[0], matrix(n, 1, 0), row_major[2]]),
            ([batch, m, n, k], [matrix(1, m, m * k), row_major[1], row_major[2]]),
            ([batch, m, n, k], [row_major[0], row_major[1], matrix(1, m, m * n)]),
            ([batch, m, n, k], [matrix(1, m, m * k), matrix(1, k, k * n), matrix(1, m, m * n)]),
            ([batch, m, n, k], [matrix(2 * k, 1, k), matrix(2 * n, 1, n), matrix(2 * n, 1, n)]),
            ([batch, 1, n, k], [matrix(0, 1, k), row_major[1], matrix(7, 1, n)]),
            ([batch, m, 1, k], [row_major[0], matrix(1, 9, k), matrix(1, 8, m)]),
            ([batch, m, n, 1], [matrix(1, 3, m), matrix(0, 1, n), row_major[2]]),
            ([1, 1, 1, 1], [matrix(0, 0, 0), matrix(0, 0, 0), matrix(0, 0, 0)]),
        ];
        for ([batch, m, n, k], [a, b, c]) in table {
            let p = MatMul { batch, m, n, k, a, b, c };
            let form = p.column_major().unwrap_or_else(|e| panic!("{p:?}: {e}"));
            let values = |seed: usize| (0..200).map(|i| ((i * 7 + seed) % 11) as f32).collect::<Vec<f32>>();
            let (a, b) = (values(1), values(4));
            let (mut expected, mut got) = (meant(&p, &a, &b), by_library(&p, &form, &a, &b));
            expected.sort_by_key(|(at, _)| *at);
            got.sort_by_key(|(at, _)| *at);
            assert_eq!(got, expected, "{p:?} as {form:?}");
        }
    }

    #[test]
    fn what_lies_row_by_row_is_given_transposed() {
        let p = MatMul { batch: 2, m: 3, n: 4, k: 5, a: matrix(5, 1, 15), b: matrix(1, 5, 0), c: matrix(4, 1, 12) };
        let stored = |rows, columns, leading, transposed, batch_stride| Stored {
            rows,
            columns,
            leading,
            transposed,
            batch_stride,
        };
        let form = ColumnMajor {
            swapped: true,
            left: stored(5, 4, 5, true, 0),
            right: stored(5, 3, 5, false, 15),
            out: stored(4, 3, 4, false, 12),
        };
        assert_eq!(p.column_major(), Ok(form));
    }

    #[test]
    fn what_no_library_takes_is_named() {
        let good = MatMul { batch: 1, m: 3, n: 4, k: 5, a: matrix(5, 1, 0), b: matrix(4, 1, 0), c: matrix(4, 1, 0) };
        let said = |p: MatMul| p.column_major().expect_err("it lies badly").which;
        assert_eq!(said(MatMul { a: matrix(10, 2, 0), ..good }), "left");
        assert_eq!(said(MatMul { b: matrix(0, 1, 0), ..good }), "right", "all rows are one");
        assert_eq!(said(MatMul { c: matrix(8, 2, 0), ..good }), "result");
    }
}
