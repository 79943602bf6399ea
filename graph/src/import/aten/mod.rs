//! The table of ATen ops: name, schema, importer.
//!
//! A row's schema lists the parameters with their defaults, since a file leaves out arguments that equal them; a call
//! with an argument that the row does not list is refused, never half understood. Importers write every rounding as a
//! cast: an op on bf16 or f16 tensors is computed as PyTorch does, exactly rounded once per op, with Python scalars
//! kept in f32.

mod activation;
mod attention;
mod create;
mod elementwise;
mod index;
pub(super) mod layout;
mod matmul;
mod norm;
pub(super) mod promote;
pub(super) mod reduce;
mod update;

use super::call::{Call, Imported};
use super::table::Row;

const fn row(target: &'static str, schema: &'static str, import: fn(&Call<'_>) -> Imported) -> Row {
    Row { target, schema, import }
}

/// The row of an op by its short target.
pub(super) fn find(target: &str) -> Option<&'static Row> {
    TABLE.iter().flat_map(|rows| rows.iter()).find(|row| row.target == target)
}

/// Whether a node without tensor results only reads a size, computes with sizes or checks a property that the types
/// already state. Sizes have their expressions in a table of the file.
pub(super) fn is_size_or_check(target: &str) -> bool {
    const CHECKS: &[&str] = &[
        "aten._assert_tensor_metadata",
        "aten._assert_scalar",
        "aten._assert_async",
        "aten._assert_async.msg",
        "aten.sym_constrain_range",
        "aten.sym_constrain_range_for_size",
        "aten.sym_size.int",
        "aten.sym_stride.int",
        "aten.sym_numel",
        "aten.sym_storage_offset",
    ];
    let prefixes = ["_operator.", "math.", "torch.sym_", "sym_"];
    CHECKS.contains(&target) || prefixes.iter().any(|prefix| target.starts_with(prefix))
}

const TABLE: &[&[Row]] = &[ARITHMETIC, UNARY, ACTIVATION, COMPARE, CAST, LAYOUT, REDUCE, MATMUL, CREATE, INDEX, UPDATE];

const ARITHMETIC: &[Row] = &[
    row("aten.add.Tensor", "self, other, alpha=1", elementwise::add),
    row("aten.add.Scalar", "self, other, alpha=1", elementwise::add),
    row("aten.sub.Tensor", "self, other, alpha=1", elementwise::sub),
    row("aten.sub.Scalar", "self, other, alpha=1", elementwise::sub),
    row("aten.rsub.Tensor", "self, other, alpha=1", elementwise::rsub),
    row("aten.rsub.Scalar", "self, other, alpha=1", elementwise::rsub),
    row("aten.mul.Tensor", "self, other", elementwise::mul),
    row("aten.mul.Scalar", "self, other", elementwise::mul),
    row("aten.div.Tensor", "self, other", elementwise::div),
    row("aten.div.Scalar", "self, other", elementwise::div),
    row("aten.true_divide.Tensor", "self, other", elementwise::div),
    row("aten.pow.Tensor_Scalar", "self, exponent", elementwise::pow),
    row("aten.square", "self", elementwise::square),
    row("aten.maximum", "self, other", elementwise::maximum),
    row("aten.minimum", "self, other", elementwise::minimum),
    row("aten.clamp", "self, min=None, max=None", elementwise::clamp),
    row("aten.clamp.Tensor", "self, min=None, max=None", elementwise::clamp),
    row("aten.clip", "self, min=None, max=None", elementwise::clamp),
    row("aten.clamp_min", "self, min", elementwise::clamp_min),
    row("aten.clamp_max", "self, max", elementwise::clamp_max),
    row("aten.where.self", "condition, self, other", elementwise::select),
    row("aten.where.ScalarSelf", "condition, self, other", elementwise::select),
    row("aten.where.ScalarOther", "condition, self, other", elementwise::select),
    row("aten.where.Scalar", "condition, self, other", elementwise::select),
    row("aten.masked_fill.Scalar", "self, mask, value", elementwise::masked_fill),
    row("aten.masked_fill.Tensor", "self, mask, value", elementwise::masked_fill),
];

const UNARY: &[Row] = &[
    row("aten.neg", "self", elementwise::neg),
    row("aten.abs", "self", elementwise::abs),
    row("aten.round", "self", elementwise::round),
    row("aten.floor", "self", elementwise::floor),
    row("aten.ceil", "self", elementwise::ceil),
    row("aten.trunc", "self", elementwise::trunc),
    row("aten.sqrt", "self", elementwise::sqrt),
    row("aten.rsqrt", "self", elementwise::rsqrt),
    row("aten.reciprocal", "self", elementwise::reciprocal),
    row("aten.exp", "self", elementwise::exp),
    row("aten.exp2", "self", elementwise::exp2),
    row("aten.log", "self", elementwise::log),
    row("aten.log2", "self", elementwise::log2),
    row("aten.sin", "self", elementwise::sin),
    row("aten.cos", "self", elementwise::cos),
    row("aten.tanh", "self", elementwise::tanh),
    row("aten.erf", "self", elementwise::erf),
    row("aten.sign", "self", elementwise::sign),
];

const ACTIVATION: &[Row] = &[
    row("aten.relu", "self", activation::relu),
    row("aten.sigmoid", "self", activation::sigmoid),
    row("aten.silu", "self", activation::silu),
    row("aten.gelu", "self, approximate=none", activation::gelu),
    row("aten.log1p", "self", activation::log1p),
    row("aten.expm1", "self", activation::expm1),
    row("aten.softplus", "self, beta=1, threshold=20", activation::softplus),
    row("aten.elu", "self, alpha=1, scale=1, input_scale=1", activation::elu),
    row("aten.leaky_relu", "self, negative_slope=0.01", activation::leaky_relu),
    row("aten.relu6", "self", activation::relu6),
    row("aten.hardtanh", "self, min_val=-1, max_val=1", activation::hardtanh),
    row("aten.hardswish", "self", activation::hardswish),
    row("aten.hardsigmoid", "self", activation::hardsigmoid),
    row("aten.log_sigmoid", "self", activation::log_sigmoid),
    row("aten.mish", "self", activation::mish),
    row("aten.glu", "self, dim=-1", activation::glu),
];

const COMPARE: &[Row] = &[
    row("aten.eq.Tensor", "self, other", elementwise::eq),
    row("aten.eq.Scalar", "self, other", elementwise::eq),
    row("aten.ne.Tensor", "self, other", elementwise::ne),
    row("aten.ne.Scalar", "self, other", elementwise::ne),
    row("aten.lt.Tensor", "self, other", elementwise::lt),
    row("aten.lt.Scalar", "self, other", elementwise::lt),
    row("aten.le.Tensor", "self, other", elementwise::le),
    row("aten.le.Scalar", "self, other", elementwise::le),
    row("aten.gt.Tensor", "self, other", elementwise::gt),
    row("aten.gt.Scalar", "self, other", elementwise::gt),
    row("aten.ge.Tensor", "self, other", elementwise::ge),
    row("aten.ge.Scalar", "self, other", elementwise::ge),
    row("aten.isnan", "self", elementwise::isnan),
    row("aten.logical_not", "self", elementwise::logical_not),
    row("aten.logical_and", "self, other", elementwise::logical_and),
    row("aten.logical_or", "self, other", elementwise::logical_or),
    row("aten.logical_xor", "self, other", elementwise::logical_xor),
    row("aten.bitwise_not", "self", elementwise::bitwise_not),
    row("aten.bitwise_and.Tensor", "self, other", elementwise::bitwise_and),
    row("aten.bitwise_and.Scalar", "self, other", elementwise::bitwise_and),
    row("aten.__and__.Tensor", "self, other", elementwise::bitwise_and),
    row("aten.__and__.Scalar", "self, other", elementwise::bitwise_and),
    row("aten.bitwise_or.Tensor", "self, other", elementwise::bitwise_or),
    row("aten.bitwise_or.Scalar", "self, other", elementwise::bitwise_or),
    row("aten.__or__.Tensor", "self, other", elementwise::bitwise_or),
    row("aten.bitwise_xor.Tensor", "self, other", elementwise::bitwise_xor),
    row("aten.__xor__.Tensor", "self, other", elementwise::bitwise_xor),
];

const CAST: &[Row] = &[
    row("aten.to.dtype", "self, dtype, non_blocking=False, copy=False, memory_format=None", elementwise::to_dtype),
    row(
        "aten.to.device",
        "self, device, dtype, non_blocking=False, copy=False, memory_format=None",
        elementwise::to_dtype,
    ),
    row(
        "aten.to.dtype_layout",
        "self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, copy=False, memory_format=None",
        elementwise::to_dtype,
    ),
    row(
        "aten._to_copy",
        "self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None",
        elementwise::to_dtype,
    ),
    row("aten.to.other", "self, other, non_blocking=False, copy=False, memory_format=None", elementwise::type_as),
    row("aten.type_as", "self, other", elementwise::type_as),
    row("prims.convert_element_type", "a, dtype", elementwise::convert_element_type),
];

const LAYOUT: &[Row] = &[
    row("aten.alias", "self", layout::identity),
    row("aten.detach", "self", layout::identity),
    row("aten.detach_", "self", layout::identity),
    row("aten.clone", "self, memory_format=None", layout::identity),
    row("aten.contiguous", "self, memory_format=None", layout::identity),
    row("aten.lift_fresh_copy", "self", layout::identity),
    row("aten.lift_fresh", "self", layout::identity),
    row("aten.dropout", "input, p, train", layout::dropout),
    row("aten.native_dropout", "input, p, train", layout::dropout),
    row("aten.view", "self, size", layout::reshape),
    row("aten._unsafe_view", "self, size", layout::reshape),
    row("aten.reshape", "self, shape", layout::reshape),
    row("aten.view_as", "self, other", layout::reshape),
    row("aten.reshape_as", "self, other", layout::reshape),
    row("aten.flatten.using_ints", "self, start_dim=0, end_dim=-1", layout::reshape),
    row("aten.unflatten.int", "self, dim, sizes", layout::reshape),
    row("aten.unsqueeze", "self, dim", layout::reshape),
    row("aten.squeeze", "self", layout::reshape),
    row("aten.squeeze.dim", "self, dim", layout::reshape),
    row("aten.squeeze.dims", "self, dim", layout::reshape),
    row("aten.expand", "self, size, implicit=False", layout::expand),
    row("aten.expand_as", "self, other", layout::expand),
    row("aten.broadcast_to", "self, size", layout::expand),
    row("aten.permute", "self, dims", layout::permute),
    row("aten.transpose.int", "self, dim0, dim1", layout::transpose),
    row("aten.t", "self", layout::matrix_transpose),
    row("aten.numpy_T", "self", layout::reverse_axes),
    row("aten.slice.Tensor", "self, dim=0, start=None, end=None, step=1", layout::slice),
    row("aten.narrow", "self, dim, start, length", layout::narrow),
    row("aten.select.int", "self, dim, index", layout::select),
    row("aten.unbind.int", "self, dim=0", layout::unbind),
    row("aten.chunk", "self, chunks, dim=0", layout::split),
    row("aten.split.Tensor", "self, split_size, dim=0", layout::split),
    row("aten.split_with_sizes", "self, split_sizes, dim=0", layout::split),
    row("aten.cat", "tensors, dim=0", layout::cat),
    row("aten.stack", "tensors, dim=0", layout::stack),
    row("aten.repeat", "self, repeats", layout::repeat),
    row("aten.repeat_interleave.self_int", "self, repeats, dim=None, output_size=None", layout::repeat_interleave),
];

const REDUCE: &[Row] = &[
    row("aten.mean.dim", "self, dim, keepdim=False, dtype=None", reduce::mean),
    row("aten.mean", "self, dtype=None", reduce::mean),
    row("aten.sum.dim_IntList", "self, dim, keepdim=False, dtype=None", reduce::sum),
    row("aten.sum", "self, dtype=None", reduce::sum),
    row("aten.amax", "self, dim=[], keepdim=False", reduce::amax),
    row("aten.amin", "self, dim=[], keepdim=False", reduce::amin),
    row("aten.max", "self", reduce::amax),
    row("aten.min", "self", reduce::amin),
    row("aten.max.dim", "self, dim, keepdim=False", reduce::max_dim),
    row("aten.min.dim", "self, dim, keepdim=False", reduce::min_dim),
    row("aten.argmax", "self, dim, keepdim=False", reduce::argmax),
    row("aten.argmin", "self, dim, keepdim=False", reduce::argmin),
    row("aten.any", "self", reduce::any),
    row("aten.any.dim", "self, dim, keepdim=False", reduce::any),
    row("aten.any.dims", "self, dim=[], keepdim=False", reduce::any),
    row("aten.all", "self", reduce::all),
    row("aten.all.dim", "self, dim, keepdim=False", reduce::all),
    row("aten.cumsum", "self, dim, dtype=None", reduce::cumsum),
    row("aten.topk", "self, k, dim=-1, largest=True, sorted=True", reduce::topk),
    row("aten._softmax", "self, dim, half_to_float", norm::softmax),
    row("aten._safe_softmax", "self, dim, dtype=None", norm::safe_softmax),
    row("aten.softmax.int", "self, dim, dtype=None", norm::softmax),
    row("aten._log_softmax", "self, dim, half_to_float", norm::log_softmax),
    row("aten.log_softmax.int", "self, dim, dtype=None", norm::log_softmax),
    row("aten.rms_norm", "input, normalized_shape, weight=None, eps=None", norm::rms_norm),
    row(
        "aten.layer_norm",
        "input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True",
        norm::layer_norm,
    ),
    row("aten.native_layer_norm", "input, normalized_shape, weight, bias, eps", norm::layer_norm),
];

const MATMUL: &[Row] = &[
    row("aten.mm", "self, mat2", matmul::mm),
    row("aten.bmm", "self, mat2", matmul::mm),
    row("aten.matmul", "self, other", matmul::matmul),
    row("aten.addmm", "self, mat1, mat2, beta=1, alpha=1", matmul::addmm),
    row("aten.linear", "input, weight, bias=None", matmul::linear),
    row(
        "aten.scaled_dot_product_attention",
        "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False",
        attention::sdpa,
    ),
];

const CREATE: &[Row] = &[
    row("aten.full", "size, fill_value, dtype=None, layout=None, device=None, pin_memory=None", create::full),
    row(
        "aten.full_like",
        "self, fill_value, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None",
        create::full,
    ),
    row("aten.new_full", "self, size, fill_value, dtype=None, layout=None, device=None, pin_memory=None", create::full),
    row("aten.scalar_tensor", "s, dtype=None, layout=None, device=None, pin_memory=None", create::scalar_tensor),
    row("aten.zeros", "size, dtype=None, layout=None, device=None, pin_memory=None", create::zeros),
    row("aten.new_zeros", "self, size, dtype=None, layout=None, device=None, pin_memory=None", create::zeros),
    row(
        "aten.zeros_like",
        "self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None",
        create::zeros,
    ),
    row("aten.ones", "size, dtype=None, layout=None, device=None, pin_memory=None", create::ones),
    row("aten.new_ones", "self, size, dtype=None, layout=None, device=None, pin_memory=None", create::ones),
    row(
        "aten.ones_like",
        "self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None",
        create::ones,
    ),
    // The contents of a new tensor are unspecified; zero is one choice.
    row(
        "aten.empty.memory_format",
        "size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None",
        create::zeros,
    ),
    row(
        "aten.empty_like",
        "self, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None",
        create::zeros,
    ),
    row("aten.new_empty", "self, size, dtype=None, layout=None, device=None, pin_memory=None", create::zeros),
    row(
        "aten.new_empty_strided",
        "self, size, stride, dtype=None, layout=None, device=None, pin_memory=None",
        create::zeros,
    ),
    row("aten.arange", "end, dtype=None, layout=None, device=None, pin_memory=None", create::arange),
    row("aten.arange.start", "start, end, dtype=None, layout=None, device=None, pin_memory=None", create::arange),
    row(
        "aten.arange.start_step",
        "start, end, step=1, dtype=None, layout=None, device=None, pin_memory=None",
        create::arange,
    ),
    row("aten.tril", "self, diagonal=0", create::tril),
    row("aten.triu", "self, diagonal=0", create::triu),
];

const INDEX: &[Row] = &[
    row("aten.embedding", "weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False", index::embedding),
    row("aten.index_select", "self, dim, index", index::index_select),
    row("aten.index.Tensor", "self, indices", index::index),
    row("aten.diff", "self, n=1, dim=-1, prepend=None, append=None", index::diff),
];

const UPDATE: &[Row] = &[
    row("aten.copy", "self, src, non_blocking=False", update::copy),
    row("aten.zero", "self", update::zero),
    row("aten.fill.Scalar", "self, value", update::fill_scalar),
    row("aten.fill.Tensor", "self, value", update::fill_tensor),
    row("aten.slice_scatter", "self, src, dim=0, start=None, end=None, step=1", update::slice_scatter),
    row("aten.select_scatter", "self, src, dim, index", update::select_scatter),
    row("aten.index_put", "self, indices, values, accumulate=False", update::index_put),
    row("aten._unsafe_index_put", "self, indices, values, accumulate=False", update::index_put),
    row("aten.index_copy", "self, dim, index, source", update::index_copy),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_unique_and_schemas_well_formed() {
        let rows: Vec<&Row> = TABLE.iter().flat_map(|rows| rows.iter()).collect();
        assert!(rows.len() >= 150, "{}", rows.len());
        let mut targets: Vec<&str> = rows.iter().map(|r| r.target).collect();
        targets.sort_unstable();
        targets.dedup();
        assert_eq!(targets.len(), rows.len(), "two rows for one op");
        for row in rows {
            for parameter in row.schema.split(", ") {
                let name = parameter.split('=').next().unwrap_or_default();
                assert!(
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
                    "{}",
                    row.target
                );
            }
            assert!(!row.target.starts_with("torch.") && !row.target.ends_with(".default"), "{}", row.target);
        }
    }
}
