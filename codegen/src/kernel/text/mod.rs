//! The text form of kernels: what is printed parses back to an equal kernel.
//!
//! ```text
//! kernel @scale(s = extent(x, 0)) rows s {
//!   param %x: f32[s, 64] in
//!   param %y: f32[s, 64] out
//!   segment @main inner 1 {
//!     %0 = load x[row*64 + lane] : row<f32, 64>
//!     %1 = literal f32 0.5
//!     %2 = mul %0, %1
//!     store y[row*64 + lane], %2
//!   }
//! }
//! ```
//! Values may have any names; they are numbered in order of definition when read. A text may hold several kernels.

mod parse;
mod print;

pub use parse::{parse_kernel, parse_kernels};
pub(crate) use print::InstText;

#[cfg(test)]
mod tests;
