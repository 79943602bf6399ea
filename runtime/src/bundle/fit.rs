//! What a kernel of a bundle is launched with, from the shapes of its tensors.

use fusewright_abi::DimSource;

use super::Entry;
use crate::RuntimeError;

/// A launch on tensors of some shapes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fitted {
    /// The integers, in the order of the kernel's dims.
    pub dims: Vec<i64>,
    /// Number of rows.
    pub rows: usize,
    /// Bytes of each tensor.
    pub bytes: Vec<usize>,
}

impl Entry {
    /// What to launch with on dense tensors, row-major, of these shapes, in elements, one for each parameter.
    ///
    /// # Errors
    /// Shapes of a wrong number or rank, that contradict each other or the shapes that the kernel was compiled for, or that
    /// no memory holds; a kernel that takes an integer which is in no shape.
    pub fn fit(&self, shapes: &[&[i64]]) -> Result<Fitted, RuntimeError> {
        let refuse = |reason: String| RuntimeError::Arguments { kernel: self.name.clone(), reason };
        if shapes.len() != self.params.len() {
            return Err(refuse(format!("{} tensors, expected {}", shapes.len(), self.params.len())));
        }
        let dense = self.params.iter().zip(shapes).map(|(param, shape)| {
            let about = |reason: String| refuse(format!("`{}` {reason}", param.name));
            if shape.len() != param.rank as usize {
                return Err(about(format!("has {} axes, expected {}", shape.len(), param.rank)));
            }
            dense_strides(shape).ok_or_else(|| about(format!("is of shape {shape:?}, which no memory holds")))
        });
        let dense = dense.collect::<Result<Vec<Dense>, _>>()?;
        let dims = self.dims.iter().map(|dim| match dim.source {
            DimSource::Extent { param, axis } => Ok(shapes[param][axis]),
            DimSource::Stride { param, axis } => Ok(dense[param].strides[axis]),
            DimSource::Symbol => Err(refuse(format!("it takes `{}`, which is in no shape", dim.name))),
        });
        let dims = dims.collect::<Result<Vec<i64>, _>>()?;
        let mut bytes = Vec::with_capacity(shapes.len());
        for (at, param) in self.params.iter().enumerate() {
            self.check_extents(at, shapes[at], &dims)?;
            let touched = param.elements.eval(&dims);
            if touched.is_none_or(|touched| touched > dense[at].elements) {
                return Err(refuse(format!(
                    "`{}` is of shape {:?}, too small beside the others",
                    param.name, shapes[at]
                )));
            }
            let bits = usize::try_from(dense[at].elements).ok();
            let bits = bits.and_then(|elements| elements.checked_mul(param.dtype.bits() as usize));
            bytes.push(bits.ok_or_else(|| refuse(format!("`{}` is larger than memory", param.name)))?.div_ceil(8));
        }
        let rows = self.launch.rows.eval(&dims).and_then(|rows| usize::try_from(rows).ok());
        let rows = rows.ok_or_else(|| refuse("the shapes give no number of rows".to_owned()))?;
        Ok(Fitted { dims, rows, bytes })
    }

    /// Compares the extents of a tensor with those that the manifest states as a number, or as one of the kernel's dims.
    fn check_extents(&self, at: usize, shape: &[i64], dims: &[i64]) -> Result<(), RuntimeError> {
        for (axis, (stated, &extent)) in self.shapes[at].iter().zip(shape).enumerate() {
            let of_dim = || self.dims.iter().position(|dim| dim.name == *stated).map(|dim| dims[dim]);
            let Some(expected) = stated.parse().ok().or_else(of_dim).filter(|expected| *expected != extent) else {
                continue;
            };
            let name = &self.params[at].name;
            let reason = format!("axis {axis} of `{name}` is {extent}, expected {expected} (`{stated}`)");
            return Err(RuntimeError::Arguments { kernel: self.name.clone(), reason });
        }
        Ok(())
    }
}

/// A row-major tensor.
struct Dense {
    elements: i64,
    strides: Vec<i64>,
}

/// None where an extent is negative, or the elements are more than a count holds.
fn dense_strides(shape: &[i64]) -> Option<Dense> {
    let mut strides = vec![1; shape.len()];
    let mut elements: i64 = 1;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = elements;
        elements = elements.checked_mul(Some(extent).filter(|extent| *extent >= 0)?)?;
    }
    Some(Dense { elements, strides })
}
