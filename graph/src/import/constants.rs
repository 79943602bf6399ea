//! Tensor constants of one element, as numbers of the graph: a bound that a model keeps as a tensor is one that rules and
//! names know. Parameters and buffers, which callers may replace, stay inputs, and so does what a node overwrites.

use std::collections::BTreeSet;

use super::alias;
use super::convert::value_error;
use super::custom::Custom;
use super::inplace::InPlace;
use super::schema::NodeJson;
use crate::diag::Diagnostic;
use crate::graph::Weight;
use crate::prim::Literal;
use crate::tensor::Tensor;
use crate::ty::TensorType;

/// Names that a node may overwrite.
pub(super) fn overwritten(nodes: &[NodeJson]) -> Result<BTreeSet<&str>, Diagnostic> {
    let mut names = BTreeSet::new();
    for node in nodes {
        if InPlace::of(node)?.is_some() || Custom::of(node).is_some() {
            names.extend(alias::operands(node));
        }
    }
    Ok(names)
}

/// The only element of a constant, if it has one.
///
/// # Errors
/// Data that is damaged.
pub(super) fn number(name: &str, ty: &TensorType, weight: Option<&Weight>) -> Result<Option<Literal>, Diagnostic> {
    let Some(weight) = weight.filter(|_| ty.elements().as_const() == Some(1)) else { return Ok(None) };
    let shape = vec![1; ty.rank()];
    let tensor = Tensor::from_weight(ty.dtype, &shape, weight).map_err(|error| value_error(name, error))?;
    let float = tensor.floats().map(|v| Literal::Float(ty.dtype, v[0]));
    Ok(float.or_else(|| tensor.ints().map(|v| Literal::Int(ty.dtype, v[0]))))
}
