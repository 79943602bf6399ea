//! Where two runs of a graph give other bits.

use super::{to_tensor, unravelled, word};
use crate::{Error, HostTensor};

/// Where two lists of results differ.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differing {
    /// In how many elements.
    pub elements: usize,
    /// The first of them: the position of its result, its index per axis, and both elements in words.
    pub first: Option<(usize, Vec<usize>, [String; 2])>,
}

/// Where two lists of results differ.
///
/// # Errors
/// Results of other types.
pub fn differing(left: &[HostTensor], right: &[HostTensor]) -> Result<Differing, Error> {
    let mut found = Differing::default();
    for (at, (left, right)) in left.iter().zip(right).enumerate() {
        let (left, right) = (to_tensor(left)?, to_tensor(right)?);
        let difference = left.compare(&right).map_err(|e| Error::Internal(e.to_string()))?;
        found.elements += difference.mismatched;
        if let (None, Some(index)) = (&found.first, difference.first) {
            let words = [&left, &right].map(|tensor| word(tensor, index));
            found.first = Some((at, unravelled(left.shape(), index), words));
        }
    }
    Ok(found)
}
