//! Tables of vendors' custom ops: vLLM's `_C`, SGLang's `sgl_kernel` and Ascend's `npu`.
//!
//! Each importer writes the vendor kernel's meaning with its rounding points. A parameter with `!` is overwritten by
//! the op; the importer returns the new contents of the overwritten arguments, in schema order, as an op without
//! effects would.

mod ascend;
mod ascend_dequant;
mod ascend_kv;
mod ascend_mx;
mod ascend_quant;
mod blocks;
mod caches;
mod gated;
mod groups;
mod norms;
mod rope;
mod routing;
mod sglang;
mod vllm;

use fusewright_abi::DType;

use super::aten::promote::convert;
use super::call::{Call, Imported, Refusal};
use super::table::Row;
use crate::graph::Value;
use crate::prim::{NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;

const fn row(target: &'static str, schema: &'static str, import: fn(&Call<'_>) -> Imported) -> Row {
    Row { target, schema, import }
}

/// The row of a custom op by its short target.
pub(super) fn find(target: &str) -> Option<&'static Row> {
    VLLM.iter().chain(SGLANG).chain(ASCEND).chain(REFUSED).find(|row| row.target == target)
}

const VLLM: &[Row] = &[
    row("_C.rms_norm", "result!, input, weight, epsilon", vllm::rms_norm),
    row("_C.fused_add_rms_norm", "input!, residual!, weight, epsilon", vllm::fused_add_rms_norm),
    row("_C.silu_and_mul", "result!, input", gated::silu_and_mul),
    row("_C.mul_and_silu", "out!, input", gated::mul_and_silu),
    row("_C.gelu_and_mul", "out!, input", gated::gelu_and_mul),
    row("_C.gelu_tanh_and_mul", "out!, input", gated::gelu_tanh_and_mul),
    row("_C.fatrelu_and_mul", "out!, input, threshold", gated::fatrelu_and_mul),
    row("_C.silu_and_mul_with_clamp", "result!, input, limit, alpha=1.0, beta=0.0", gated::silu_and_mul_with_clamp),
    row("_C.swigluoai_and_mul", "out!, input, alpha=1.702, limit=7.0", gated::swigluoai_and_mul),
    row("_C.swiglustep_and_mul", "out!, input, limit=7.0", gated::swiglustep_and_mul),
    row("_C.silu_and_mul_quant", "result!, input, scale", gated::silu_and_mul_quant),
    row(
        "_C.silu_and_mul_per_block_quant",
        "out!, input, scales!, group_size, scale_ub=None, is_scale_transposed=False",
        gated::silu_and_mul_per_block_quant,
    ),
    row(
        "_C.silu_and_mul_nvfp4_quant",
        "result!, result_block_scale!, input, input_global_scale",
        gated::silu_and_mul_nvfp4_quant,
    ),
    row("_C.rms_norm_static_fp8_quant", "result!, input, weight, scale, epsilon", norms::static_fp8),
    row(
        "_C.fused_add_rms_norm_static_fp8_quant",
        "result!, input, residual!, weight, scale, epsilon",
        norms::add_static_fp8,
    ),
    row(
        "_C.rms_norm_dynamic_per_token_quant",
        "result!, input, weight, scale!, epsilon, scale_ub=None, residual!=None",
        norms::dynamic_per_token,
    ),
    row(
        "_C.rms_norm_per_block_quant",
        "result!, input, weight, scale!, epsilon, scale_ub=None, residual!=None, group_size, is_scale_transposed=False",
        norms::per_block,
    ),
    row(
        "_C.fused_qk_norm_rope",
        "qkv!, num_heads_q, num_heads_k, num_heads_v, head_dim, eps, q_weight, k_weight, cos_sin_cache, is_neox, position_ids, forced_token_heads_per_warp=-1",
        norms::qk_norm_rope,
    ),
    row("vllm_ir.rms_norm", "x, weight=None, epsilon, variance_size=None", norms::native_norm),
    row(
        "vllm_ir.fused_add_rms_norm",
        "x, x_residual, weight=None, epsilon, variance_size=None",
        norms::native_add_norm,
    ),
    row("_C.static_scaled_fp8_quant", "result!, input, scale, group_shape=None", vllm::static_fp8),
    row("_C.dynamic_scaled_fp8_quant", "result!, input, scale!", vllm::tensor_fp8),
    row("_C.dynamic_per_token_scaled_fp8_quant", "result!, input, scale!, scale_ub=None", vllm::token_fp8),
    row(
        "_C.per_token_group_fp8_quant",
        "input, output_q!, output_s!, group_size, eps, fp8_min, fp8_max, scale_ue8m0, dummy_is_scale_transposed=False, dummy_is_tma_aligned=False",
        vllm::group_fp8,
    ),
    row("_C.static_scaled_int8_quant", "result!, input, scale, azp=None", vllm::static_int8),
    row("_C.dynamic_scaled_int8_quant", "result!, input, scale!, azp!=None", vllm::token_int8),
    row(
        "_C.scaled_fp4_quant",
        "output!, input, output_scale!, input_scale, is_sf_swizzled_layout=False",
        blocks::nvfp4,
    ),
    row("_C.scaled_fp4_quant.out", "input, input_scale, is_sf_swizzled_layout, output!, output_scale!", blocks::nvfp4),
    row(
        "_C.rotary_embedding",
        "positions, query!, key!=None, head_size, cos_sin_cache, is_neox, rope_dim_offset=0, inverse=False",
        rope::rotary_embedding,
    ),
    row("vllm.unified_attention", "query, key, value, layer_name", vllm::unified_attention),
    row(
        "vllm.unified_attention_with_output",
        "query, key, value, output!, layer_name, output_scale=None, output_block_scale=None, kv_cache_dummy_dep=None",
        vllm::unified_attention_with_output,
    ),
    row(
        "_C.per_token_group_quant_int8",
        "input, output_q!, output_s!, group_size, eps, int8_min, int8_max",
        groups::per_token_group_quant_int8,
    ),
    row(
        "_C.per_token_group_fp8_quant_packed",
        "input, output_q!, output_s_packed!, group_size, eps, fp8_min, fp8_max",
        groups::fp8_packed,
    ),
    row("_C.gelu_new", "out!, input", gated::gelu_new),
    row("_C.gelu_fast", "out!, input", gated::gelu_fast),
    row("_C.gelu_quick", "out!, input", gated::gelu_quick),
    row(
        "_C.apply_repetition_penalties_",
        "logits!, prompt_mask, output_mask, repetition_penalties",
        routing::apply_repetition_penalties,
    ),
    row(
        "_C_cache_ops.reshape_and_cache_flash",
        "key, value, key_cache!, value_cache!, slot_mapping, kv_cache_dtype, k_scale, v_scale",
        caches::reshape_and_cache_flash,
    ),
    row(
        "_C_cache_ops.reshape_and_cache",
        "key, value, key_cache!, value_cache!, slot_mapping, kv_cache_dtype, k_scale, v_scale",
        caches::reshape_and_cache,
    ),
    row(
        "_C_cache_ops.concat_and_cache_mla",
        "kv_c, k_pe, kv_cache!, slot_mapping, kv_cache_dtype, scale",
        caches::concat_and_cache_mla,
    ),
    row(
        "_moe_C.topk_softmax",
        "topk_weights!, topk_indices!, token_expert_indices!, gating_output, renormalize=False, bias=None",
        routing::topk_softmax,
    ),
    row("_moe_C.moe_sum", "input, output!", routing::moe_sum),
    row("_C.cutlass_scaled_mm", "out!, a, b, a_scales, b_scales, bias=None", vllm::scaled_mm),
];

const SGLANG: &[Row] = &[
    row("sgl_kernel.rmsnorm", "output!, input, weight, eps, enable_pdl=False", sglang::rmsnorm),
    row("sgl_kernel.gemma_rmsnorm", "output!, input, weight, eps, enable_pdl=False", sglang::gemma_rmsnorm),
    row("sgl_kernel.fused_add_rmsnorm", "input!, residual!, weight, eps, enable_pdl=False", sglang::fused_add_rmsnorm),
    row(
        "sgl_kernel.gemma_fused_add_rmsnorm",
        "input!, residual!, weight, eps, enable_pdl=False",
        sglang::gemma_fused_add_rmsnorm,
    ),
    row("sgl_kernel.silu_and_mul", "out!, input", sglang::silu_and_mul),
    row("sgl_kernel.gelu_and_mul", "out!, input", sglang::gelu_and_mul),
    row("sgl_kernel.gelu_tanh_and_mul", "out!, input", sglang::gelu_tanh_and_mul),
    row("sgl_kernel.sgl_per_token_quant_fp8", "input, output_q!, output_s!", sglang::per_token_quant_fp8),
    row(
        "sgl_kernel.sgl_per_token_group_quant_8bit",
        "input, output_q!, output_s!, group_size, eps, fp8_min, fp8_max, scale_ue8m0=False",
        sglang::per_token_group_quant_8bit,
    ),
    row(
        "sgl_kernel.sgl_per_token_group_quant_fp8",
        "input, output_q!, output_s!, group_size, eps, fp8_min, fp8_max, scale_ue8m0=False",
        sglang::per_token_group_quant_8bit,
    ),
];

/// Ops whose kernels are known not to be one function.
const REFUSED: &[Row] = &[
    row(
        "_moe_C.grouped_topk",
        "scores, scores_with_bias=None, n_group, topk_group, topk, renormalize, routed_scaling_factor, bias=None, scoring_func=0",
        |_| Err("its kernels multiply by the scaling factor in different places, by the number of experts".into()),
    ),
    row("_C.persistent_masked_m_silu_mul_quant", "input, counts, y_q!, y_s!, use_ue8m0", |_| {
        Err("its kernel approximates the exponential, and leaves rows beyond the counts unwritten".into())
    }),
    row("_C.poly_norm", "out!, input, weight, bias, epsilon", |_| Err("where it rounds is not known".into())),
    row("npu.npu_moe_gating_top_k_softmax", "x, finished=None, k=1", |_| {
        Err("whether it divides by the sum or multiplies by its reciprocal is not known".into())
    }),
];

const ASCEND: &[Row] = &[
    row("npu.npu_rms_norm", "self, gamma, epsilon=1e-06", ascend::rms_norm),
    row("npu.npu_gemma_rms_norm", "self, gamma, epsilon=1e-06", ascend::gemma_rms_norm),
    row("_C_ascend.npu_add_rms_norm_bias", "x1, x2, gamma, beta=None, epsilon=1e-06", ascend::add_rms_norm_bias),
    row("vllm.quantize", "x, scale, scale_reciprocal, offset", ascend_quant::quantize),
    row(
        "npu.npu_add_rms_norm_quant",
        "x1, x2, gamma, scales1, zero_points1=None, beta=None, scales2=None, zero_points2=None, axis=-1, epsilon=1e-06, div_mode=True, dst_type=None",
        ascend_quant::add_rms_norm_quant,
    ),
    row(
        "npu.npu_add_rms_norm_dynamic_quant",
        "x1, x2, gamma, smooth_scale1=None, smooth_scale2=None, beta=None, epsilon=1e-06, output_mask=None, y_dtype=None",
        ascend_quant::add_rms_norm_dynamic_quant,
    ),
    row(
        "npu.npu_swiglu_quant",
        "x, smooth_scales=None, offsets=None, group_index=None, activate_left=False, quant_mode=0, group_list_type=0, dst_type=None",
        ascend_quant::swiglu_quant,
    ),
    row("npu.npu_add_rms_norm", "x1, x2, gamma, epsilon=1e-06", ascend::add_rms_norm),
    row("npu.npu_add_rms_norm_cast", "x1, x2, gamma, epsilon=1e-06", ascend::add_rms_norm_cast),
    row("npu.npu_quantize", "self, scales, zero_points, dtype, axis=1, div_mode=True", ascend::quantize),
    row(
        "npu.npu_dynamic_quant",
        "input, smooth_scales=None, group_index=None, dst_type=None, quant_mode=pertoken, dst_type_max=0.0",
        ascend::dynamic_quant,
    ),
    row(
        "npu.npu_dynamic_mx_quant",
        "input, axis=-1, round_mode=rint, dst_type=296, block_size=32, scale_alg=0, dst_type_max=0.0, max_low_bound=0.0",
        ascend_mx::dynamic_mx_quant,
    ),
    row(
        "npu.npu_rms_norm_dynamic_mx_quant",
        "x, gamma, beta=None, epsilon=1e-06, scale_alg=0, round_mode=rint, dst_type=296",
        ascend_mx::rms_norm_dynamic_mx_quant,
    ),
    row(
        "npu.npu_add_rms_norm_dynamic_mx_quant",
        "x1, x2, gamma, beta=None, epsilon=1e-06, scale_alg=0, round_mode=rint, dst_type=296",
        ascend_mx::add_rms_norm_dynamic_mx_quant,
    ),
    row(
        "npu.npu_dynamic_quant_asymmetric",
        "input, smooth_scales=None, group_index=None, dst_type=None, quant_mode=pertoken, dst_type_max=0.0",
        ascend_quant::dynamic_quant_asymmetric,
    ),
    row(
        "npu.npu_rms_norm_quant",
        "x, gamma, beta, scale, offset, epsilon=1e-06, dst_dtype=None",
        ascend_quant::rms_norm_quant,
    ),
    row(
        "npu.npu_dequant_swiglu_quant",
        "x, weight_scale=None, activation_scale=None, bias=None, quant_scale=None, quant_offset=None, group_index=None, activate_left=False, quant_mode=0, dst_type=None, round_mode=None, activate_dim=None, swiglu_mode=0, clamp_limit=7.0, glu_alpha=1.702, glu_bias=1.0",
        ascend_dequant::dequant_swiglu_quant,
    ),
    row(
        "npu.npu_kv_rmsnorm_rope_cache",
        "kv, gamma, cos, sin, index, k_cache, ckv_cache, k_rope_scale=None, c_kv_scale=None, k_rope_offset=None, c_kv_offset=None, v=None, epsilon=1e-05, cache_mode=Norm, is_output_kv=False",
        ascend_kv::kv_rmsnorm_rope_cache,
    ),
    row(
        "npu.npu_kv_rmsnorm_rope_cache_v2_functional",
        "kv, gamma, cos, sin, index, k_cache, ckv_cache, k_rope_scale=None, c_kv_scale=None, k_rope_offset=None, c_kv_offset=None, v=None, epsilon=1e-05, cache_mode=Norm, is_output_kv=False, k_cache_dtype=None, ckv_cache_dtype=None",
        ascend_kv::kv_rmsnorm_rope_cache_functional,
    ),
    row("npu.npu_swiglu", "self, dim=-1", ascend::swiglu),
    row("npu.npu_interleave_rope", "x, cos, sin", rope::interleave_rope),
    row(
        "vllm.npu_rotary_embedding",
        "positions, query, key, cos_sin_cache, head_size, rotary_dim, is_neox_style, offsets=None, out_dtype=None",
        rope::npu_rotary_embedding,
    ),
    row("npu.npu_rotary_mul", "self, r1, r2, rotary_mode=half, rotate=None", ascend::rotary_mul),
    row(
        "npu.npu_apply_rotary_pos_emb",
        "query, key, cos, sin, layout=BSND, rotary_mode=half",
        ascend::apply_rotary_pos_emb,
    ),
];

type One = Result<Value, Refusal>;

/// An f32 constant.
fn f32(call: &Call<'_>, value: f64) -> One {
    Ok(call.b.float(DType::F32, f64::from(value as f32))?)
}

/// A tensor argument in f32.
fn wide(call: &Call<'_>, name: &str) -> One {
    Ok(convert(call.b, call.tensor(name)?, DType::F32)?)
}

/// The largest magnitude along axes; NaN is skipped.
fn absmax(call: &Call<'_>, x: Value, axes: Vec<usize>) -> One {
    let magnitude = call.b.map(ScalarFn::Abs, &[x])?;
    Ok(call.b.prim(Prim::Reduce { op: ReduceOp::Max, axes, nan: NanRule::Ignore }, &[magnitude])?)
}

/// The last axis of a tensor.
fn last_axis(call: &Call<'_>, x: Value) -> Result<usize, Refusal> {
    call.b.ty(x).rank().checked_sub(1).ok_or_else(|| Refusal("a 0-d operand".into()))
}
