//! What is known of composites on operands of given types: of equal layers one is expanded.

use std::collections::HashMap;

use super::Composite;
use crate::ty::TensorType;

/// Name of a composite and its operand types.
type Key = (&'static str, Vec<TensorType>);

/// Results by composite and operand types. It is only looked up, so its order cannot show.
#[derive(Debug)]
pub(crate) struct Known<T>(HashMap<Key, Vec<(Composite, T)>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Known(HashMap::new())
    }
}

impl<T: Clone> Known<T> {
    /// What was found before, or what `find` finds; a failure is not remembered.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn of<E>(
        &mut self,
        composite: &Composite,
        operands: &[&TensorType],
        find: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let types = operands.iter().map(|&ty| ty.clone()).collect();
        let alike = self.0.entry((composite.name(), types)).or_default();
        if let Some((_, known)) = alike.iter().find(|(other, _)| other == composite) {
            return Ok(known.clone());
        }
        let found = find()?;
        alike.push((composite.clone(), found.clone()));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use fusewright_abi::DType::{BF16, F32};

    use super::*;
    use crate::dim::Dim;
    use crate::ops::{RmsNorm, RmsRounding};

    #[test]
    fn equal_composites_on_equal_types_are_found_once() {
        let ty = |dtype, lanes| TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(lanes)]);
        let norm = |eps| Composite::new(RmsNorm::new(eps, RmsRounding::Once));
        let mut known: Known<u32> = Known::default();
        let mut found = 0;
        let mut find = |composite: Composite, operands: &[TensorType]| {
            known.of(&composite, &operands.iter().collect::<Vec<_>>(), || {
                found += 1;
                if found == 1 { Err("not yet") } else { Ok(found) }
            })
        };
        assert_eq!(find(norm(0.5), &[ty(F32, 8)]), Err("not yet"));
        assert_eq!(find(norm(0.5), &[ty(F32, 8)]), Ok(2), "a failure is found again");
        assert_eq!(find(norm(0.5), &[ty(F32, 8)]), Ok(2));
        assert_eq!(find(norm(0.25), &[ty(F32, 8)]), Ok(3));
        assert_eq!(find(norm(0.5), &[ty(F32, 16)]), Ok(4));
        assert_eq!(find(norm(0.5), &[ty(BF16, 8)]), Ok(5));
        assert_eq!(find(norm(0.5), &[ty(F32, 8), ty(F32, 8)]), Ok(6));
    }
}
