//! Matrix products of programs on the CPU: operands widened to f32, products summed in f32 by `matrixmultiply`'s SIMD
//! kernels (through `ndarray`), the result rounded once.
//!
//! Each element of the result is summed over `k` in an order that does not depend on the number of rows.

use fusewright_abi::DType;
use fusewright_graph::num;
use half::{bf16, f16};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

/// The shape of a batched product `[batch, m, k] × [k, n]` or `[batch, k, n]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatMulShape {
    /// Number of left matrices.
    pub batch: usize,
    /// Whether the right operand has one matrix per left matrix.
    pub batched_b: bool,
    /// Rows of the left matrices.
    pub m: usize,
    /// Columns of the left, rows of the right.
    pub k: usize,
    /// Columns of the right.
    pub n: usize,
    /// Whether the right is stored `[n, k]`.
    pub transpose_b: bool,
}

/// Widens the elements of a float tensor to f32; 8-bit codes are exact too.
pub(crate) fn widen(dtype: DType, bytes: &[u8]) -> Option<Vec<f32>> {
    Some(match dtype {
        DType::F32 => bytes.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect(),
        DType::BF16 => bytes.as_chunks().0.iter().map(|c| bf16::from_le_bytes(*c).to_f32()).collect(),
        DType::F16 => bytes.as_chunks().0.iter().map(|c| f16::from_le_bytes(*c).to_f32()).collect(),
        DType::F8E4M3 | DType::F8E5M2 => bytes.iter().map(|&c| num::decode(dtype, u64::from(c)) as f32).collect(),
        _ => return None,
    })
}

/// Rounding of f32 values to a float dtype, kept as f32.
pub(crate) fn rounding(dtype: DType) -> Option<fn(f32) -> f32> {
    match dtype {
        DType::F32 => Some(|x| x),
        DType::BF16 => Some(|x| bf16::from_f32(x).to_f32()),
        DType::F16 => Some(|x| f16::from_f32(x).to_f32()),
        _ => None,
    }
}

/// Rounds f32 values to a float dtype.
pub(crate) fn narrow(dtype: DType, values: &[f32], out: &mut [u8]) -> Option<()> {
    match dtype {
        DType::F32 => out.as_chunks_mut().0.iter_mut().zip(values).for_each(|(o, v)| *o = v.to_le_bytes()),
        DType::BF16 => {
            out.as_chunks_mut().0.iter_mut().zip(values).for_each(|(o, v)| *o = bf16::from_f32(*v).to_le_bytes());
        }
        DType::F16 => {
            out.as_chunks_mut().0.iter_mut().zip(values).for_each(|(o, v)| *o = f16::from_f32(*v).to_le_bytes());
        }
        _ => return None,
    }
    Some(())
}

/// The product of f32 operands.
pub(crate) fn matmul(shape: MatMulShape, a: &[f32], b: &[f32]) -> Vec<f32> {
    let MatMulShape { batch, batched_b, m, k, n, transpose_b } = shape;
    let mut c = vec![0.0f32; batch * m * n];
    if m == 0 || n == 0 || k == 0 {
        return c;
    }
    // Without a batch on the right, the left matrices are one tall matrix.
    let (count, m) = if batched_b { (batch, m) } else { (batch.min(1), batch * m) };
    for i in 0..count {
        let (a, b, c) = (&a[i * m * k..][..m * k], &b[i * k * n..][..k * n], &mut c[i * m * n..][..m * n]);
        let a = ArrayView2::from_shape((m, k), a).expect("the slice is m·k long");
        let b_shape = if transpose_b { (n, k) } else { (k, n) };
        let b = ArrayView2::from_shape(b_shape, b).expect("the slice is k·n long");
        let b = if transpose_b { b.reversed_axes() } else { b };
        let mut c = ArrayViewMut2::from_shape((m, n), c).expect("the slice is m·n long");
        general_mat_mul(1.0, &a, &b, 0.0, &mut c);
    }
    c
}

/// The product of `[m, k]` rows with the `[k, n]` matrices of their groups: row `i` is in the first group with `i` before
/// its end, and zero if there is none.
pub(crate) fn grouped_matmul([m, k, n]: [usize; 3], rows: &[f32], matrices: &[f32], ends: &[i64]) -> Vec<f32> {
    let mut c = Vec::with_capacity(m * n);
    for (group, &end) in ends.iter().enumerate() {
        let begin = c.len().checked_div(n).unwrap_or(m);
        let end = usize::try_from(end).unwrap_or(0).min(m);
        if end > begin {
            let shape = MatMulShape { batch: 1, batched_b: false, m: end - begin, k, n, transpose_b: false };
            c.extend(matmul(shape, &rows[begin * k..end * k], &matrices[group * k * n..][..k * n]));
        }
    }
    c.resize(m * n, 0.0);
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_alone_is_the_row_of_a_batch() {
        let (m, k, n) = (67, 130, 33);
        let value = |i: usize| ((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5;
        let a: Vec<f32> = (0..m * k).map(value).collect();
        let b: Vec<f32> = (0..n * k).map(|i| value(i + 7)).collect();
        let shape = MatMulShape { batch: 1, batched_b: false, m, k, n, transpose_b: true };
        let all = matmul(shape, &a, &b);
        for row in [0, 1, m - 1] {
            let alone = matmul(MatMulShape { m: 1, ..shape }, &a[row * k..][..k], &b);
            assert_eq!(alone, all[row * n..][..n]);
        }
        let exact: f64 = (0..k).map(|i| f64::from(a[i]) * f64::from(b[i])).sum();
        assert!((f64::from(all[0]) - exact).abs() < 1e-5);
    }

    #[test]
    fn rows_meet_the_matrix_of_their_group() {
        let rows: Vec<f32> = (0..5).flat_map(|i| [i as f32, 1.0]).collect();
        let matrices = [1.0, 0.0, 10.0, 0.5, 2.0, 100.0];
        // Groups of two rows, none, and two; the fifth row is in none.
        let product = grouped_matmul([5, 2, 1], &rows, &matrices, &[2, 1, 4]);
        assert_eq!(product, [0.0, 1.0, 104.0, 106.0, 0.0]);
        assert_eq!(grouped_matmul([2, 2, 0], &rows[..4], &[], &[1, 2]), [0.0f32; 0]);
    }
}
