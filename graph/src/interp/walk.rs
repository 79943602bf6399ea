//! Walking strided operands in step.
//!
//! Adjacent axes that every operand walks with one stride are merged, so that the innermost loop is as long as can be.

use super::fault::Fault;

/// A vector of a known length to come, or an error where it does not fit memory.
pub(super) fn reserve<T>(count: usize) -> Result<Vec<T>, Fault> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|_| Fault::Memory(count.saturating_mul(size_of::<T>())))?;
    Ok(values)
}

/// Strides of a dense row-major array, in elements.
pub(super) fn dense_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    strides
}

/// Strides that read a dense array of one shape as if broadcast to another.
pub(super) fn broadcast_strides(from: &[usize], to: &[usize]) -> Result<Vec<usize>, Fault> {
    let refuse = || format!("{from:?} does not broadcast to {to:?}");
    let skip = to.len().checked_sub(from.len()).ok_or_else(refuse)?;
    let mut strides = dense_strides(from);
    for ((stride, &extent), &target) in strides.iter_mut().zip(from).zip(&to[skip..]) {
        if extent == 1 {
            *stride = 0;
        } else if extent != target {
            return Err(refuse().into());
        }
    }
    strides.splice(0..0, std::iter::repeat_n(0, skip));
    Ok(strides)
}

/// A loop nest over `N` strided operands.
pub(super) struct Walk<const N: usize> {
    shape: Vec<usize>,
    strides: Vec<[usize; N]>,
    count: usize,
}

impl<const N: usize> Walk<N> {
    /// A nest over `shape` with the strides of each operand.
    pub fn new(shape: &[usize], operands: [&[usize]; N]) -> Self {
        let count = shape.iter().product();
        let (mut merged, mut strides): (Vec<usize>, Vec<[usize; N]>) = (Vec::new(), Vec::new());
        for (axis, &extent) in shape.iter().enumerate().filter(|(_, extent)| **extent != 1) {
            let step: [usize; N] = std::array::from_fn(|i| operands[i][axis]);
            match (merged.last_mut(), strides.last_mut()) {
                (Some(outer), Some(last)) if (0..N).all(|i| last[i] == step[i] * extent) => {
                    *outer *= extent;
                    *last = step;
                }
                _ => {
                    merged.push(extent);
                    strides.push(step);
                }
            }
        }
        if merged.is_empty() {
            merged.push(1);
            strides.push([0; N]);
        }
        Walk { shape: merged, strides, count }
    }

    /// Calls `row(bases, length, strides)` for each run of the innermost axis, in row-major order.
    pub fn rows(&self, mut row: impl FnMut([usize; N], usize, [usize; N])) {
        if self.count == 0 {
            return;
        }
        let inner = self.shape.len() - 1;
        let mut index = vec![0; inner];
        let mut base = [0; N];
        loop {
            row(base, self.shape[inner], self.strides[inner]);
            let mut axis = inner;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                (0..N).for_each(|i| base[i] += self.strides[axis][i]);
                if index[axis] < self.shape[axis] {
                    break;
                }
                (0..N).for_each(|i| base[i] -= self.shape[axis] * self.strides[axis][i]);
                index[axis] = 0;
            }
        }
    }
}

/// A dense operand and its shape.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a, T> {
    pub data: &'a [T],
    pub shape: &'a [usize],
}

/// `f` of one operand.
pub(super) fn zip1<A: Copy, R>(a: Operand<'_, A>, f: impl Fn(A) -> R) -> Result<Vec<R>, Fault> {
    let mut out = reserve(a.data.len())?;
    out.extend(a.data.iter().map(|&x| f(x)));
    Ok(out)
}

/// `f` of two operands, broadcast to `shape`.
pub(super) fn zip2<A: Copy, B: Copy, R>(
    shape: &[usize],
    a: Operand<'_, A>,
    b: Operand<'_, B>,
    f: impl Fn(A, B) -> R,
) -> Result<Vec<R>, Fault> {
    let (sa, sb) = (broadcast_strides(a.shape, shape)?, broadcast_strides(b.shape, shape)?);
    let walk = Walk::new(shape, [&sa, &sb]);
    let mut out = reserve(walk.count)?;
    walk.rows(|[i, j], n, strides| match strides {
        [1, 1] => out.extend(a.data[i..][..n].iter().zip(&b.data[j..][..n]).map(|(&x, &y)| f(x, y))),
        [1, 0] => {
            let y = b.data[j];
            out.extend(a.data[i..][..n].iter().map(|&x| f(x, y)));
        }
        [0, 1] => {
            let x = a.data[i];
            out.extend(b.data[j..][..n].iter().map(|&y| f(x, y)));
        }
        [s, t] => out.extend((0..n).map(|l| f(a.data[i + l * s], b.data[j + l * t]))),
    });
    Ok(out)
}

/// `f` of three operands, broadcast to `shape`.
pub(super) fn zip3<A: Copy, B: Copy, C: Copy, R>(
    shape: &[usize],
    (a, b, c): (Operand<'_, A>, Operand<'_, B>, Operand<'_, C>),
    f: impl Fn(A, B, C) -> R,
) -> Result<Vec<R>, Fault> {
    let strides = [a.shape, b.shape, c.shape].map(|from| broadcast_strides(from, shape));
    let [sa, sb, sc] = strides;
    let (sa, sb, sc) = (sa?, sb?, sc?);
    let walk = Walk::new(shape, [&sa, &sb, &sc]);
    let mut out = reserve(walk.count)?;
    walk.rows(|[i, j, k], n, [s, t, u]| {
        out.extend((0..n).map(|l| f(a.data[i + l * s], b.data[j + l * t], c.data[k + l * u])));
    });
    Ok(out)
}

/// The elements of a strided view, starting at `offset`.
pub(super) fn strided<T: Copy>(data: &[T], shape: &[usize], strides: &[usize], offset: usize) -> Result<Vec<T>, Fault> {
    let walk = Walk::new(shape, [strides]);
    let mut out = reserve(walk.count)?;
    walk.rows(|[base], n, [stride]| match stride {
        1 => out.extend_from_slice(&data[offset + base..][..n]),
        0 => out.extend(std::iter::repeat_n(data[offset + base], n)),
        _ => out.extend((0..n).map(|l| data[offset + base + l * stride])),
    });
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_counted() {
        let elements = isize::MAX as usize / 8;
        assert_eq!(reserve::<f64>(elements).err(), Some(Fault::Memory(elements * 8)));
        assert_eq!(reserve::<f64>(usize::MAX).err(), Some(Fault::Memory(usize::MAX)));
        assert!(reserve::<f64>(3).is_ok_and(|values| values.capacity() >= 3));
    }
}
