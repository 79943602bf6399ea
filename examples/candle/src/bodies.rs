//! The bodies of the kernels, op by op as candle computes them on a CPU.
//!
//! Every op of a graph rounds once to its dtype, and candle's ops round as often, so that a fused kernel has candle's bits.
//! Only a sum may be taken in another order.

use fusewright::DType;
use fusewright::graph::prim::ReduceOp;
use fusewright::graph::{Builder, ScalarFn, TensorType, TypeError, Value};

/// Where `silu(gate) · up` rounds to the dtype of its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiluRounding {
    /// Behind every op of `gate / (1 + e^−gate)`: candle's own `silu`.
    EachOp,
    /// Behind the quotient: mistral.rs and PyTorch, which compute it in f32.
    Once,
}

fn rows(b: &Builder, dtype: DType, lanes: i64) -> TensorType {
    TensorType::new(dtype, [b.symbol("rows", 0, None), lanes.into()])
}

/// The RMS norm of `x + residual` as `candle_nn::ops::rms_norm` rounds it, and the sum.
///
/// # Errors
/// None for a float dtype.
pub fn add_rms_norm(b: &Builder, dtype: DType, lanes: i64, eps: f32) -> Result<Vec<Value>, TypeError> {
    let (x, residual) = (b.input("x", rows(b, dtype, lanes)), b.input("residual", rows(b, dtype, lanes)));
    let weight = b.input("weight", TensorType::new(dtype, [lanes.into()]));
    let sum = b.add(x, residual)?;
    // Squares and their mean are in f32; the root is rounded, then the quotient, then the product.
    let wide = b.cast(sum, DType::F32)?;
    let mean = b.div(b.reduce_last(ReduceOp::Add, b.mul(wide, wide)?)?, b.float(DType::F32, lanes as f64)?)?;
    let root = b.map(ScalarFn::Sqrt, &[b.add(mean, b.float(DType::F32, f64::from(eps))?)?])?;
    let norm = b.mul(b.div(sum, b.cast(root, dtype)?)?, weight)?;
    Ok(vec![norm, sum])
}

/// `silu(gate) · up`.
///
/// # Errors
/// None for a float dtype.
pub fn silu_mul(b: &Builder, dtype: DType, lanes: i64, rounding: SiluRounding) -> Result<Vec<Value>, TypeError> {
    let (gate, up) = (b.input("gate", rows(b, dtype, lanes)), b.input("up", rows(b, dtype, lanes)));
    let inside = if rounding == SiluRounding::EachOp { dtype } else { DType::F32 };
    let x = b.cast(gate, inside)?;
    let power = b.map(ScalarFn::Exp, &[b.map(ScalarFn::Neg, &[x])?])?;
    let silu = b.div(x, b.add(b.float(inside, 1.0)?, power)?)?;
    Ok(vec![b.mul(b.cast(silu, dtype)?, up)?])
}
