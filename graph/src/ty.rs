//! Tensor types: a dtype and a shape of symbolic extents. Graph values have no strides; memory layout belongs to
//! weights and to the runtime.

use std::fmt;

use fusewright_abi::DType;

use crate::dim::{self, Dim};

/// Most axes of a tensor, as many as frameworks take.
pub const MAX_AXES: usize = 64;

/// Type of a graph value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first; empty for a 0-d tensor.
    pub shape: Vec<Dim>,
}

impl TensorType {
    /// A tensor type.
    pub fn new(dtype: DType, shape: impl IntoIterator<Item = Dim>) -> Self {
        TensorType { dtype, shape: shape.into_iter().collect() }
    }

    /// A 0-d tensor.
    pub fn scalar(dtype: DType) -> Self {
        TensorType { dtype, shape: Vec::new() }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> Dim {
        dim::product(&self.shape)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, extent) in self.shape.iter().enumerate() {
            write!(f, "{}{extent}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
