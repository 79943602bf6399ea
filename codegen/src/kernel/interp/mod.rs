//! The interpreter of Kernel IR: the meaning of a kernel on byte buffers, to the bit.
//!
//! Values are the bits of their elements; a map decodes its operands, computes the exact value and rounds it once to
//! the dtype; a reduction follows its [`super::Tree`] step by step (`relaxed` is `tree(1)`). NaN results are the
//! canonical NaN of the dtype; loads, stores, selects and layout changes move bits as they are.
//!
//! Rows run in ascending order, yet no result may depend on it: an element that two rows write, or that a row reads
//! after another one wrote it, is an error. So are addresses outside a buffer; nothing is undefined.

mod elements;
mod machine;
mod memory;
mod reduce;
mod scalar;

use std::collections::BTreeMap;
use std::ops::Range;

use fusewright_graph::dim::DimError;

use super::{Kernel, VerifyError, verify};

pub use elements::{bits_at, put_bits};
pub use scalar::{cast, map};

/// Most elements of one value.
const MAX_ELEMENTS: i64 = 1 << 27;

/// The memory of one parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// Elements in order; 4-bit ones two in a byte, the even one in the low nibble.
    Bytes(Vec<u8>),
    /// The memory of the parameter with that index.
    Same(usize),
}

impl Buffer {
    /// The bytes of a parameter with memory of its own.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Same(_) => &[],
        }
    }
}

/// Why a kernel does not run on given buffers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// The kernel breaks an invariant.
    #[error(transparent)]
    Invalid(#[from] VerifyError),
    /// The caller's buffers do not go with the parameters.
    #[error("parameter %{param}: {message}")]
    Buffer {
        /// Name of the parameter.
        param: String,
        /// What is wrong.
        message: String,
    },
    /// A dim has no value.
    #[error("{place}: {error}")]
    Dim {
        /// Where it stands.
        place: String,
        /// Why.
        error: DimError,
    },
    /// A row does not go with the kernel: an extent, an operand or the row range is out of bounds.
    #[error("{place}: {message}")]
    Extent {
        /// Where: the instruction as printed, or a part of the kernel.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// An address outside a parameter.
    #[error("row {row}, inner row {inner}: {place}: element {element} of %{param} does not exist")]
    OutOfBounds {
        /// The instruction as printed.
        place: String,
        /// Name of the parameter.
        param: String,
        /// Element that was asked for.
        element: i64,
        /// Outer row.
        row: i64,
        /// Inner row.
        inner: i64,
    },
    /// Two rows touch one element, and one of them writes it.
    #[error("row {row}, inner row {inner}: {place}: row {writer} has written element {element} of %{param}")]
    Conflict {
        /// The instruction as printed.
        place: String,
        /// Name of the parameter.
        param: String,
        /// The element.
        element: i64,
        /// Outer row that touches it now.
        row: i64,
        /// Inner row.
        inner: i64,
        /// Outer row that wrote it before.
        writer: i64,
    },
}

/// Runs a range of outer rows. `buffers` go with the parameters, and `dims` hold every dim of the kernel.
///
/// # Errors
/// An invalid kernel, missing dims or buffers, or an access that is not allowed; buffers may then be half written.
pub fn run(
    kernel: &Kernel,
    buffers: &mut [Buffer],
    dims: &BTreeMap<String, i64>,
    rows: Range<i64>,
) -> Result<(), RunError> {
    verify(kernel)?;
    check_dims(kernel, dims, rows.is_empty())?;
    let mut memory = memory::Memory::new(kernel, buffers)?;
    let count = machine::eval(&kernel.rows, dims, "rows")?;
    if rows.start < 0 || rows.end > count {
        let message = format!("rows {}..{} of {count}", rows.start, rows.end);
        return Err(RunError::Extent { place: "rows".to_owned(), message });
    }
    let mut programs = kernel
        .segments
        .iter()
        .map(|segment| machine::Machine::new(kernel, segment, dims))
        .collect::<Result<Vec<_>, _>>()?;
    for row in rows {
        for program in &mut programs {
            program.row(row, &mut memory)?;
        }
    }
    Ok(())
}

/// Refuses integer arguments that a driver refuses.
fn check_dims(kernel: &Kernel, dims: &BTreeMap<String, i64>, nothing: bool) -> Result<(), RunError> {
    let negative = kernel.dims.iter().find_map(|dim| Some((dim, *dims.get(&dim.name).filter(|value| **value < 0)?)));
    if let Some((dim, value)) = negative {
        return Err(RunError::Extent { place: format!("dim {}", dim.name), message: format!("is {value}") });
    }
    // Without rows nothing is touched, and what claims say need not hold.
    for claim in kernel.claims.iter().filter(|_| !nothing) {
        let place = format!("claim {} <= {}", claim.least, claim.most);
        let (least, most) = (machine::eval(&claim.least, dims, &place)?, machine::eval(&claim.most, dims, &place)?);
        if least > most {
            return Err(RunError::Extent { place, message: format!("is {least} <= {most}") });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
