//! Matrix products of the host model of an NPU: what a library of the vendor would compute, by the host's.

use fusewright_abi::DType;
use fusewright_runtime::{MatMul, Matrix};

use crate::matmul::{MatMulShape, matmul, narrow, widen};

/// Computes a product of the elements of two operands; gaps between the elements of the result stay as they are.
pub(super) fn multiply(product: &MatMul, operands: &[&[u8]], result: &mut [u8]) {
    let &[a, b] = operands else { return };
    if product.c.dtype == DType::I32 {
        return multiply_ints(product, [a, b], result);
    }
    let (Some(left), Some(right)) = (widen(product.a.dtype, a), widen(product.b.dtype, b)) else { return };
    let &MatMul { batch, m, n, k, .. } = product;
    let width = product.c.dtype.bytes_for(1);
    let mut narrowed = vec![0; m * n * width];
    let shape = MatMulShape { batch: 1, batched_b: false, m, k, n, transpose_b: false };
    for i in 0..batch {
        let gather = |of: &[f32], matrix: &Matrix, rows: usize, columns: usize| -> Vec<f32> {
            places(matrix, i, rows, columns).map(|place| of[place]).collect()
        };
        let values = matmul(shape, &gather(&left, &product.a, m, k), &gather(&right, &product.b, k, n));
        narrow(product.c.dtype, &values, &mut narrowed);
        for (place, element) in places(&product.c, i, m, n).zip(narrowed.chunks_exact(width)) {
            result[place * width..][..width].copy_from_slice(element);
        }
    }
}

/// Of 8-bit codes, whose sums are exact.
fn multiply_ints(product: &MatMul, [a, b]: [&[u8]; 2], result: &mut [u8]) {
    let &MatMul { batch, m, n, k, .. } = product;
    for i in 0..batch {
        for (at, place) in places(&product.c, i, m, n).enumerate() {
            let (row, column) = (at / n, at % n);
            let term = |l: usize| {
                let [x, y] = [place_of(&product.a, i, row, l), place_of(&product.b, i, l, column)];
                i32::from(a[x] as i8) * i32::from(b[y] as i8)
            };
            let sum: i32 = (0..k).map(term).fold(0, i32::wrapping_add);
            result[place * 4..][..4].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

/// Where the elements of a matrix of a batch lie, row by row.
fn places(matrix: &Matrix, batch: usize, rows: usize, columns: usize) -> impl Iterator<Item = usize> {
    let matrix = *matrix;
    (0..rows).flat_map(move |row| (0..columns).map(move |column| place_of(&matrix, batch, row, column)))
}

fn place_of(matrix: &Matrix, batch: usize, row: usize, column: usize) -> usize {
    batch * matrix.batch_stride + row * matrix.row_stride + column * matrix.column_stride
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(dtype: DType, row_stride: usize, column_stride: usize, batch_stride: usize) -> Matrix {
        Matrix { dtype, row_stride, column_stride, batch_stride }
    }

    #[test]
    fn products_read_and_write_by_strides() {
        let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        // Two products of rows of three; the right matrix is stored by columns, and the result has gaps.
        let product = MatMul {
            batch: 2,
            m: 1,
            n: 2,
            k: 3,
            a: matrix(DType::F32, 3, 1, 3),
            b: matrix(DType::F32, 1, 3, 0),
            c: matrix(DType::F32, 2, 1, 3),
        };
        let (a, b) = (bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), bytes(&[1.0, 0.0, 1.0, 0.0, 2.0, 0.0]));
        let mut c = bytes(&[-1.0; 5]);
        multiply(&product, &[&a, &b], &mut c);
        assert_eq!(c, bytes(&[4.0, 4.0, -1.0, 10.0, 10.0]));
    }

    #[test]
    fn products_of_codes_are_exact() {
        let product = MatMul {
            batch: 1,
            m: 2,
            n: 1,
            k: 2,
            a: matrix(DType::I8, 2, 1, 0),
            b: matrix(DType::I8, 1, 2, 0),
            c: matrix(DType::I32, 1, 1, 0),
        };
        let codes = |values: &[i8]| values.iter().map(|&v| v as u8).collect::<Vec<u8>>();
        let mut c = vec![0; 8];
        multiply(&product, &[&codes(&[-128, 127, 3, -4]), &codes(&[-128, 127])], &mut c);
        assert_eq!(c, [32_513i32.to_le_bytes(), (-892i32).to_le_bytes()].concat());
    }
}
