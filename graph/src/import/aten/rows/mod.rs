//! The rows of the table of ATen ops, and the names that several ops share.

mod complex;
mod elementwise;
mod loss;
mod tensor;

use super::super::call::{Call, Imported};
use super::super::table::Row;

const fn row(target: &'static str, schema: &'static str, import: fn(&Call<'_>) -> Imported) -> Row {
    Row { target, schema, import }
}

/// All rows, in groups.
pub(super) const TABLE: &[&[Row]] = &[
    elementwise::ARITHMETIC,
    elementwise::UNARY,
    elementwise::ACTIVATION,
    elementwise::COMPARE,
    elementwise::CAST,
    loss::TABLE,
    tensor::LAYOUT,
    tensor::REDUCE,
    tensor::MATMUL,
    tensor::CREATE,
    tensor::INDEX,
    tensor::UPDATE,
];

/// Rows of ops that complex operands or results give another meaning.
pub(super) const COMPLEX: &[Row] = complex::TABLE;

/// Ops whose rows hold for complex tensors too.
pub(super) const COMPLEX_MOVED: &[&str] = complex::MOVED;

/// Further names of ops, which the training IR keeps, and the names that the rows have.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("absolute", "abs"),
    ("alias_copy", "alias"),
    ("arccos", "acos"),
    ("arccosh", "acosh"),
    ("arcsin", "asin"),
    ("arcsinh", "asinh"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("arctanh", "atanh"),
    ("as_strided_copy", "as_strided"),
    ("clip", "clamp"),
    ("concat", "cat"),
    ("concatenate", "cat"),
    ("detach_copy", "detach"),
    ("divide", "div"),
    ("expand_copy", "expand"),
    ("fix", "trunc"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("linalg_matrix_power", "matrix_power"),
    ("moveaxis", "movedim"),
    ("multiply", "mul"),
    ("narrow_copy", "narrow"),
    ("native_channel_shuffle", "channel_shuffle"),
    ("negative", "neg"),
    ("nll_loss2d", "nll_loss"),
    ("nll_loss_nd", "nll_loss"),
    ("not_equal", "ne"),
    ("permute_copy", "permute"),
    ("row_stack", "vstack"),
    ("select_copy", "select"),
    ("slice_copy", "slice"),
    ("special_erf", "erf"),
    ("special_erfc", "erfc"),
    ("special_erfinv", "erfinv"),
    ("special_exp2", "exp2"),
    ("special_expit", "sigmoid"),
    ("special_expm1", "expm1"),
    ("special_log1p", "log1p"),
    ("special_logit", "logit"),
    ("special_logsumexp", "logsumexp"),
    ("special_round", "round"),
    ("special_sinc", "sinc"),
    ("special_xlogy", "xlogy"),
    ("split_copy", "split"),
    ("split_with_sizes_copy", "split_with_sizes"),
    ("squeeze_copy", "squeeze"),
    ("subtract", "sub"),
    ("t_copy", "t"),
    ("transpose_copy", "transpose"),
    ("trapz", "trapezoid"),
    ("true_divide", "div"),
    ("unbind_copy", "unbind"),
    ("unfold_copy", "unfold"),
    ("unsqueeze_copy", "unsqueeze"),
    ("view_copy", "view"),
];
