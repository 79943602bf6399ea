//! The rows of the table of ATen ops, and the names that several ops share.

mod complex;
mod elementwise;
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
    ("arccos", "acos"),
    ("arccosh", "acosh"),
    ("arcsin", "asin"),
    ("arcsinh", "asinh"),
    ("arctan", "atan"),
    ("arctan2", "atan2"),
    ("arctanh", "atanh"),
    ("clip", "clamp"),
    ("concat", "cat"),
    ("concatenate", "cat"),
    ("divide", "div"),
    ("fix", "trunc"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("moveaxis", "movedim"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("not_equal", "ne"),
    ("row_stack", "vstack"),
    ("special_erf", "erf"),
    ("special_erfc", "erfc"),
    ("special_exp2", "exp2"),
    ("special_expit", "sigmoid"),
    ("special_expm1", "expm1"),
    ("special_log1p", "log1p"),
    ("special_logit", "logit"),
    ("special_logsumexp", "logsumexp"),
    ("special_round", "round"),
    ("special_sinc", "sinc"),
    ("special_xlogy", "xlogy"),
    ("subtract", "sub"),
    ("swapdims", "swapaxes"),
    ("true_divide", "div"),
];
