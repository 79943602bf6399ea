//! Comparison by bits and by distance on the dtype's own line of values.

use super::{Data, Tensor, TensorError};
use crate::num;

/// How two tensors of one type differ.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Difference {
    /// Number of elements.
    pub elements: usize,
    /// Elements whose bits differ; −0 and +0 differ, two NaNs do not.
    pub mismatched: usize,
    /// Largest distance in units in the last place (codes); −0 and +0 are one apart. `u64::MAX` between a NaN and a
    /// number.
    pub max_ulp: u64,
    /// Largest absolute difference; NaN between a NaN and a number.
    pub max_abs: f64,
    /// First element that differs.
    pub first: Option<usize>,
}

impl Difference {
    fn add(&mut self, index: usize, ulps: u64, abs: f64) {
        self.mismatched += 1;
        self.first.get_or_insert(index);
        self.max_ulp = self.max_ulp.max(ulps);
        self.max_abs = if abs.is_nan() || self.max_abs.is_nan() { f64::NAN } else { self.max_abs.max(abs) };
    }
}

impl Tensor {
    /// How the tensor differs from another of the same dtype and shape.
    ///
    /// # Errors
    /// Another dtype or shape.
    pub fn compare(&self, other: &Tensor) -> Result<Difference, TensorError> {
        let mut difference = Difference { elements: self.len(), ..Difference::default() };
        let dtype = self.dtype();
        match (self.data(), other.data()) {
            _ if dtype != other.dtype() || self.shape() != other.shape() => {
                let (shape, other_shape) = (self.shape().to_vec(), other.shape().to_vec());
                return Err(TensorError::Type(dtype, shape, other.dtype(), other_shape));
            }
            (Data::Float(a), Data::Float(b)) => {
                for (i, (&x, &y)) in a.iter().zip(b).enumerate() {
                    if x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()) {
                        continue;
                    }
                    let nan = x.is_nan() || y.is_nan();
                    let ulps = if nan { u64::MAX } else { num::key(dtype, x).abs_diff(num::key(dtype, y)) };
                    difference.add(i, ulps, if x == y { 0.0 } else { (x - y).abs() });
                }
            }
            (Data::Int(a), Data::Int(b)) => {
                for (i, (&x, &y)) in a.iter().zip(b).enumerate().filter(|(_, (x, y))| x != y) {
                    let codes = num::int_value(dtype, x).abs_diff(num::int_value(dtype, y)) as u64;
                    difference.add(i, codes, codes as f64);
                }
            }
            _ => {}
        }
        Ok(difference)
    }
}

/// Equal to the bit; −0 and +0 differ, two NaNs do not.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        self.compare(other).is_ok_and(|difference| difference.mismatched == 0)
    }
}

/// With an absolute bound; the default of zero leaves only the two zeros equal.
impl approx::AbsDiffEq for Tensor {
    type Epsilon = f64;

    fn default_epsilon() -> f64 {
        0.0
    }

    fn abs_diff_eq(&self, other: &Tensor, epsilon: f64) -> bool {
        self.compare(other).is_ok_and(|difference| difference.max_abs <= epsilon)
    }
}

/// With a bound in units in the last place of the tensors' own dtype; the default is bit equality. The tensors pass
/// if all elements are within one of the bounds.
impl approx::UlpsEq for Tensor {
    fn default_max_ulps() -> u32 {
        0
    }

    fn ulps_eq(&self, other: &Tensor, epsilon: f64, max_ulps: u32) -> bool {
        self.compare(other).is_ok_and(|difference| {
            difference.max_ulp <= u64::from(max_ulps) || (epsilon > 0.0 && difference.max_abs <= epsilon)
        })
    }
}
