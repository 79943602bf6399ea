//! What the kernels compute. The build script compiles it; the tests compile it again at run time and compare.

use fusewright::graph::ops::{Composite, Floor, QuantizeDynamic, RmsNorm, RmsRounding, Silu, SiluForm};
use fusewright::graph::{Builder, DType, Dim, Op, Prim, TensorType, TypeError, Value};

/// Lanes of the residual stream.
pub const HIDDEN: i64 = 4096;
/// Lanes of each half of the gated activation.
pub const GATED: i64 = 1536;
/// Lanes that share a scale.
pub const GROUP: i64 = 128;

/// Rows of the cache.
pub const SLOTS: i64 = 12;

fn rows(b: &Builder, lanes: i64) -> TensorType {
    TensorType::new(DType::BF16, [b.symbol("rows", 0, None), lanes.into()])
}

fn quantize(b: &Builder, x: Value, floor_of: Floor) -> Result<Vec<Value>, TypeError> {
    let floor = f64::from(1e-10f32);
    b.composite(Composite::new(QuantizeDynamic { floor, floor_of, ..QuantizeDynamic::default() }), &[x])
}

/// FP8 codes and a scale per token of the RMS norm of `x + residual`, and the sum.
pub fn add_rms_norm_fp8_token(b: &Builder) -> Result<Vec<Value>, TypeError> {
    let (x, residual) = (b.input("x", rows(b, HIDDEN)), b.input("residual", rows(b, HIDDEN)));
    let weight = b.input("weight", TensorType::new(DType::BF16, [HIDDEN.into()]));
    let sum = b.add(x, residual)?;
    let norm = RmsNorm::new(f64::from(1e-6f32), RmsRounding::BeforeWeight);
    let normal = b.composite(Composite::new(norm), &[sum, weight])?[0];
    let mut results = quantize(b, normal, Floor::Scale)?;
    results.push(sum);
    Ok(results)
}

/// The RMS norm of `x + residual` in the rows `slot` of a cache, and the sum in place of the residual.
pub fn add_rms_norm_cache(b: &Builder) -> Result<Vec<Value>, TypeError> {
    let (x, residual) = (b.input("x", rows(b, GATED)), b.input("residual", rows(b, GATED)));
    let weight = b.input("weight", TensorType::new(DType::BF16, [GATED.into()]));
    let cache = b.input("cache", TensorType::new(DType::BF16, [SLOTS.into(), GATED.into()]));
    let slot = b.input("slot", TensorType::new(DType::I64, [b.symbol("rows", 0, None)]));
    let sum = b.add(x, residual)?;
    let norm = RmsNorm::new(f64::from(1e-6f32), RmsRounding::Once);
    let normal = b.composite(Composite::new(norm), &[sum, weight])?[0];
    b.add_output(sum, Some("residual".to_owned()));
    b.op(Op::Prim(Prim::Scatter { axis: 0 }), &[cache, slot, normal])
}

/// FP8 codes and a scale per 128 lanes of `silu(a) · b`, where `x` is `[a | b]`.
pub fn silu_mul_fp8_group128(b: &Builder) -> Result<Vec<Value>, TypeError> {
    let x = b.input("x", rows(b, 2 * GATED));
    let (gate, up) = (b.slice(x, 1, 0.into(), GATED.into())?, b.slice(x, 1, GATED.into(), (2 * GATED).into())?);
    let gate = b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[gate])?[0];
    let shape = vec![Dim::symbol("rows"), (GATED / GROUP).into(), GROUP.into()];
    let groups = b.reshape(b.mul(gate, up)?, shape)?;
    quantize(b, groups, Floor::AbsMax)
}
