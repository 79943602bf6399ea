//! Ops that are not taken apart: operands, printed arguments, result types.
//!
//! The attribute `operands` says which argument each operand is, in order, so that a host framework can be given the
//! op back; `form` says which op of the framework calls it, if one does; `reason` says why
//! an op that has a row in the tables was not taken apart.

use super::call::Names;
use super::schema::{Argument, NodeJson, SymIntArg};
use super::table::short_target;
use crate::graph::Value;
use crate::prim::Prim;
use crate::ty::TensorType;

/// The opaque form of a node and its operands.
///
/// # Errors
/// A tensor argument that no earlier node defines; the message names it.
pub(super) fn opaque(
    node: &NodeJson,
    names: &dyn Names,
    results: &[TensorType],
    reason: Option<&str>,
) -> Result<(Prim, Vec<Value>), String> {
    let mut parts = Parts { names, values: Vec::new(), roles: Vec::new(), attrs: Vec::new() };
    for (index, input) in node.inputs.iter().enumerate() {
        let name = if input.name.is_empty() { format!("arg{index}") } else { input.name.clone() };
        parts.push(&name, &input.arg)?;
    }
    let Parts { values, roles, mut attrs, .. } = parts;
    if !roles.is_empty() {
        attrs.push(("operands".into(), roles.join(", ")));
    }
    attrs.extend(reason.map(|text| ("reason".to_owned(), text.to_owned())));
    let form = short_target(&node.target);
    let called = node.inputs.iter().find_map(|input| match &input.arg {
        Argument::Operator(target) => Some(short_target(target)),
        _ => None,
    });
    attrs.extend(called.map(|_| ("form".to_owned(), form.to_owned())));
    let target = called.unwrap_or(form).to_owned();
    Ok((Prim::Opaque { target, attrs, results: results.to_vec() }, values))
}

struct Parts<'a> {
    names: &'a dyn Names,
    values: Vec<Value>,
    roles: Vec<String>,
    attrs: Vec<(String, String)>,
}

impl Parts<'_> {
    fn push(&mut self, name: &str, argument: &Argument) -> Result<(), String> {
        match argument {
            // It is the op.
            Argument::Operator(_) => Ok(()),
            Argument::Tensor(tensor) => self.tensor(name.to_owned(), tensor),
            Argument::Tensors(list) => {
                list.iter().enumerate().try_for_each(|(i, t)| self.tensor(format!("{name}[{i}]"), t))
            }
            Argument::OptionalTensors(list) => list.iter().enumerate().try_for_each(|(i, t)| match t {
                Some(tensor) => self.tensor(format!("{name}[{i}]"), tensor),
                None => Ok(()),
            }),
            other => {
                self.attrs.push((name.to_owned(), self.print(other)));
                Ok(())
            }
        }
    }

    fn tensor(&mut self, role: String, name: &str) -> Result<(), String> {
        let value = self.names.value(name).ok_or_else(|| format!("the tensor `{name}` is not defined"))?;
        self.values.push(value);
        self.roles.push(role);
        Ok(())
    }

    fn print(&self, argument: &Argument) -> String {
        print(argument, self.names)
    }
}

/// An argument in words.
pub(super) fn describe(argument: &Argument, names: &dyn Names) -> String {
    let tensors = |list: Vec<&str>| format!("the tensors {}", list.join(", "));
    match argument {
        Argument::Tensor(name) => format!("the tensor `{name}`"),
        Argument::Tensors(list) => tensors(list.iter().map(String::as_str).collect()),
        Argument::OptionalTensors(list) => tensors(list.iter().map(|t| t.as_deref().unwrap_or("none")).collect()),
        Argument::Device(text) | Argument::Str(text) => format!("\"{text}\""),
        other => print(other, names),
    }
}

/// An argument other than a tensor.
fn print(argument: &Argument, names: &dyn Names) -> String {
    let print_size = |size: &SymIntArg| match size {
        SymIntArg::Int(n) => n.to_string(),
        SymIntArg::Name(name) => names.size(name).map_or_else(|| name.clone(), |d| d.to_string()),
    };
    match argument {
        Argument::Int(n) => n.to_string(),
        Argument::Ints(list) => format!("{list:?}"),
        Argument::Float(v) => format!("{v:?}"),
        Argument::Floats(list) => format!("{list:?}"),
        Argument::Bool(b) => b.to_string(),
        Argument::Bools(list) => format!("{list:?}"),
        Argument::SymInt(size) => print_size(size),
        Argument::SymInts(list) => {
            format!("[{}]", list.iter().map(print_size).collect::<Vec<_>>().join(", "))
        }
        Argument::ScalarType(code) => super::types::dtype(*code).map_or_else(|e| e, |d| d.to_string()),
        Argument::MemoryFormat(code) => format!("memory_format {code}"),
        Argument::Layout(code) => format!("layout {code}"),
        Argument::Device(text) | Argument::Str(text) => text.clone(),
        Argument::Operator(target) => short_target(target).to_owned(),
        Argument::Graph(called) => called.name.clone(),
        Argument::Unknown(kind) => format!("<{kind}>"),
        Argument::None | Argument::Tensor(_) | Argument::Tensors(_) | Argument::OptionalTensors(_) => "none".into(),
    }
}
