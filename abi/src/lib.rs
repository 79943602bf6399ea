//! What crosses from compiling to running, and nothing else.
//!
//! The compiler crates produce these values, the runtime consumes them; neither side needs the other's code.
//! This crate has no dependencies and does no I/O.

mod artifact;
mod count;
mod dtype;
mod key;
mod level;
mod target;

pub use artifact::{
    Claim, DimArg, DimSource, KernelArtifact, LaunchRule, ManyRows, Param, ParamAccess, Payload, PayloadKind, RowOrder,
};
pub use count::{Count, CountOp};
pub use dtype::{DType, ParseDTypeError};
pub use key::{ContentKey, ParseKeyError};
pub use level::Level;
pub use target::{ParseTargetError, Target};

/// Version of the contract between generated kernels and the runtime. It enters every cache key and manifest;
/// a runtime refuses artifacts of another version.
pub const ABI_VERSION: u32 = 5;
