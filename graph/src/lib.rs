//! Tensor graphs: what a model computes, to the bit.
//!
//! A [`Graph`] is a list of nodes in SSA form over values of static dtype and symbolic shape. The primitive ops
//! ([`Prim`]) are a closed set; composites ([`ops`]) are an open list whose meaning *is* their expansion into
//! primitives. Rounding happens in `cast` nodes and in the result dtype of each node, nowhere else.
//!
//! This crate does no I/O and knows no device.

pub mod axes;
pub mod diag;
pub mod dim;
pub mod graph;
pub mod import;
pub mod interp;
pub mod num;
pub mod operands;
pub mod ops;
pub mod padding;
pub mod prim;
pub mod scalar;
pub mod tensor;
pub mod text;
pub mod verify;

mod builder;
mod checksum;
mod dim_range;
mod equal;
mod expand;
mod infer;
mod same;
mod ty;

pub use builder::Builder;
pub use checksum::Checksum;
pub use diag::Diagnostic;
pub use dim::Dim;
pub use dim_range::range as dim_range;
pub use fusewright_abi::DType;
pub use graph::{Def, Graph, Input, InputKind, Node, NodeId, Op, Origin, Output, Symbol, Value, Weight};
pub use infer::{TypeError, infer};
pub use prim::{AllReduce, Literal, NanBits, NanRule, Prim, ReduceOp, Rounding};
pub use scalar::ScalarFn;
pub use tensor::Tensor;
pub use ty::{MAX_AXES, TensorType};
