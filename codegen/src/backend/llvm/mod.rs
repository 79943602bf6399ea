//! LLVM IR of what all of its targets have in common: conversions, functions, index expressions.
//!
//! Everything here is the same for one element and for a vector of lanes, and exact: nothing carries fast-math flags.
//! Where a target has an instruction for a conversion or needs a certain one, its [`Dialect`] says so.

#![cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "GPUs take lanes one by one"))]

pub(in crate::backend) mod cast;
pub(in crate::backend) mod code;
pub(in crate::backend) mod index;
pub(in crate::backend) mod integer;
pub(in crate::backend) mod map;
pub(in crate::backend) mod narrow;
pub(in crate::backend) mod ops;
mod round;

use inkwell::builder::BuilderError;
use inkwell::values::BasicValueEnum;

use crate::kernel::{Inst, Segment};
use cast::Cast;
use code::Code;

/// An element, or a vector of lanes.
pub(in crate::backend) type Value<'c> = BasicValueEnum<'c>;
pub(in crate::backend) type Built<T> = Result<T, BuildError>;

/// Memory that LLVM should find when it compiles a kernel; without, it ends the process. Of that it takes 15 MiB for a
/// layer's kernels, and the allocator of a thread reserves 128 MiB.
pub(in crate::backend) const MEMORY: usize = 256 << 20;

/// Why a kernel has no LLVM IR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend) enum BuildError {
    /// The kernel uses something that there is no code for.
    Unsupported {
        /// Segment and instruction.
        place: String,
        /// What it is, and why not.
        what: String,
    },
    /// LLVM refused what was built, which is a defect of the backend.
    Llvm(String),
}

impl BuildError {
    pub fn unsupported(what: impl Into<String>) -> Self {
        BuildError::Unsupported { place: String::new(), what: what.into() }
    }

    /// Names the place, unless an operand has already named its own.
    pub fn at(self, segment: &Segment, inst: &Inst) -> Self {
        match self {
            BuildError::Unsupported { place, what } if place.is_empty() => {
                let result = inst.results.first().map_or_else(String::new, |r| format!(" {r:?}"));
                let place = format!("segment `{}`, {}{result}", segment.name, inst.op.name());
                BuildError::Unsupported { place, what }
            }
            other => other,
        }
    }
}

#[cfg(feature = "llvm")]
impl From<super::host::Refused> for BuildError {
    fn from(refused: super::host::Refused) -> Self {
        BuildError::Unsupported { place: refused.place, what: refused.reason }
    }
}

impl From<BuilderError> for BuildError {
    fn from(error: BuilderError) -> Self {
        BuildError::Llvm(error.to_string())
    }
}

/// What a target does its own way.
pub(in crate::backend) trait Dialect {
    /// The correctly rounded quotient of two floats.
    fn divide<'c>(&self, code: &Code<'c>, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>>;

    /// The correctly rounded square root of a float.
    fn sqrt<'c>(&self, code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>>;

    /// The larger or the smaller of two floats where one that is NaN is passed over: `name` is the intrinsic.
    fn extreme_number<'c>(&self, code: &Code<'c>, name: &str, x: &[Value<'c>]) -> Built<Value<'c>> {
        code.same(name, x)
    }

    /// Whether a division by zero traps, so that no index may do one.
    fn division_traps(&self) -> bool {
        false
    }

    /// A float of at most 16 bits as `f32`, where the target is better at it than shifts and products.
    fn widen<'c>(&self, code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Option<Value<'c>>>;

    /// An `f32` as a float of at most 16 bits, where the target is better at it than integer arithmetic.
    fn narrow<'c>(&self, code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Option<Value<'c>>>;
}
