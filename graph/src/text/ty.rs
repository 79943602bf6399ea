//! Tensor types: `bf16[s, 4096]`.

use crate::dim::Dim;
use crate::ty::{MAX_AXES, TensorType};

use super::cursor::Cursor;
use super::dim::parse_shape;
use super::error::TextError;
use super::literal::parse_dtype;

/// Most terms that the number of elements of a written or inferred type may have; products of larger extents are
/// refused, so that hostile text costs little.
pub const MAX_ELEMENT_TERMS: usize = 4096;

/// Reads a tensor type.
///
/// # Errors
/// No tensor type, or one of too many axes or whose extents are too large expressions.
pub fn parse_type(cursor: &mut Cursor<'_>) -> Result<TensorType, TextError> {
    let start = cursor.peek();
    let dtype = parse_dtype(cursor)?;
    let shape = parse_shape(cursor)?;
    if shape.len() > MAX_AXES {
        return Err(cursor.error_at(&start, format!("a type of {} axes, more than {MAX_AXES}", shape.len())));
    }
    if element_terms(&shape) > MAX_ELEMENT_TERMS {
        return Err(cursor.error_at(&start, "the extents are too large expressions"));
    }
    Ok(TensorType { dtype, shape })
}

/// At most so many terms has the product of the extents.
pub(super) fn element_terms(shape: &[Dim]) -> usize {
    shape.iter().fold(1, |acc: usize, dim| acc.saturating_mul(dim.term_count().max(1)))
}
