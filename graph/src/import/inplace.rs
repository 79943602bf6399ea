//! ATen ops that overwrite an operand and return it: `add_`, `copy_`, `index_put_`, and calls with `out=`.
//!
//! Each is the op without the underscore, converted to the dtype of the operand, and an overwrite of the operand by it.
//! The result is another name of the operand.

use std::collections::BTreeMap;

use super::call::{Call, Names, Refusal};
use super::convert::{Importer, value_error};
use super::custom::tensor_argument;
use super::schema::NodeJson;
use super::table::{Row, short_target};
use super::{aten, opaque};
use crate::diag::Diagnostic;
use crate::graph::{Op, Value};
use crate::ty::TensorType;

/// Ops that may give a tensor other memory.
const REPLACING: &[&str] = &["aten.resize_", "aten.resize_as_", "aten.set_"];

/// In-place ops whose overloads are named otherwise than those of the op without the underscore.
const RENAMED: &[(&str, &str)] = &[
    ("aten.pow_.Scalar", "aten.pow.Tensor_Scalar"),
    ("aten.__iand__.Tensor", "aten.__and__.Tensor"),
    ("aten.__iand__.Scalar", "aten.__and__.Scalar"),
    ("aten.__ior__.Tensor", "aten.__or__.Tensor"),
    ("aten.__ior__.Scalar", "aten.__or__.Scalar"),
    ("aten.__ixor__.Tensor", "aten.__xor__.Tensor"),
    ("aten.__ixor__.Scalar", "aten.__xor__.Scalar"),
    ("aten.__ilshift__.Tensor", "aten.__lshift__.Tensor"),
    ("aten.__ilshift__.Scalar", "aten.__lshift__.Scalar"),
    ("aten.__irshift__.Tensor", "aten.__rshift__.Tensor"),
    ("aten.__irshift__.Scalar", "aten.__rshift__.Scalar"),
    ("aten.floor_divide_.Tensor", "aten.floor_divide"),
    ("aten.pow_.Tensor", "aten.pow.Tensor_Tensor"),
];

/// An op that overwrites an operand and returns it.
pub(super) struct InPlace<'a> {
    parameter: &'static str,
    /// Name of the tensor that is overwritten.
    name: &'a str,
    /// The op without the effect.
    row: Option<&'static Row>,
}

impl<'a> InPlace<'a> {
    /// The node as such an op, or `None` if it is none.
    ///
    /// # Errors
    /// An op that may give its operand other memory, or overwrites several tensors.
    pub(super) fn of(node: &'a NodeJson) -> Result<Option<Self>, Diagnostic> {
        let target = short_target(&node.target);
        let Some((op, overload)) = split(target) else { return Ok(None) };
        let refuse = |what: &str| Err(Diagnostic::new("import.alias", format!("`{target}` {what}")));
        if REPLACING.contains(&op) {
            return refuse("may give a tensor other memory");
        }
        let by_out = overload == "out" || overload.ends_with("_out");
        let found = |parameter: &'static str, row: Option<&'static Row>| {
            tensor_argument(node, parameter).map(|name| InPlace { parameter, name, row })
        };
        if by_out {
            let rows = [op.to_owned(), format!("{op}.Tensor"), format!("{op}.self")];
            let row = rows.iter().find_map(|target| aten::find(target));
            return found("out", row).map_or_else(|| refuse("overwrites tensors other than `out`"), |op| Ok(Some(op)));
        }
        if let Some((_, pure)) = RENAMED.iter().find(|(from, _)| *from == target) {
            return Ok(found("self", aten::find(pure)));
        }
        let Some(pure) = op.strip_suffix('_').filter(|pure| !pure.ends_with('_') && *pure != "aten.detach") else {
            return Ok(None);
        };
        let row = aten::find(&if overload.is_empty() { pure.to_owned() } else { format!("{pure}.{overload}") });
        Ok(found("self", row))
    }
}

/// An ATen target as op and overload.
fn split(target: &str) -> Option<(&str, &str)> {
    let dot = target.strip_prefix("aten.")?.find('.').map(|at| at + "aten.".len());
    Some(dot.map_or((target, ""), |dot| (&target[..dot], &target[dot + 1..])))
}

impl Importer<'_> {
    /// Imports the call: the operand and its result have the new contents.
    pub(super) fn in_place(
        &mut self,
        at: usize,
        node: &NodeJson,
        op: &InPlace<'_>,
        results: &[&str],
    ) -> Result<(), Diagnostic> {
        let before = self.scope.value(op.name).ok_or_else(|| value_error(op.name, "is not defined"))?;
        let value = self.new_contents(node, op, before)?;
        self.overwrite(at, op.name, value)?;
        for result in results {
            let stated = self.stated_type(result)?;
            self.define(result, &stated, value)?;
            self.aliases.share(result, op.name, Some(Vec::new()));
            if self.aliases.is_outdated(op.name) {
                self.aliases.outdated((*result).to_owned());
            }
        }
        Ok(())
    }

    fn new_contents(&mut self, node: &NodeJson, op: &InPlace<'_>, before: Value) -> Result<Value, Diagnostic> {
        let types = [self.b.ty(before)];
        let mark = self.b.mark();
        self.b.take_unequal();
        let row = op.row.filter(|_| !self.is_complex(node));
        let reason = match row.map(|row| self.without_effect(node, op, row, before, &types)) {
            Some(Ok(value)) => return Ok(value),
            Some(Err(Refusal(reason))) => {
                self.note_unequal();
                Some(reason)
            }
            None => None,
        };
        self.b.rollback(mark);
        let refuse = |message: String| Diagnostic::new("import.node", message);
        let (prim, operands) = opaque::opaque(node, &self.scope, &types, reason.as_deref()).map_err(refuse)?;
        Ok(self.b.op(Op::Prim(prim), &operands)?[0])
    }

    fn without_effect(
        &self,
        node: &NodeJson,
        op: &InPlace<'_>,
        row: &Row,
        before: Value,
        types: &[TensorType],
    ) -> Result<Value, Refusal> {
        let mut given = BTreeMap::new();
        if op.parameter != "self" {
            given.insert(op.parameter, before);
        }
        let call = Call { b: &self.b, names: &self.scope, node, row, results: types, given, uncounted: 0 };
        call.check_names()?;
        let values = (row.import)(&call)?;
        let [value] = values.as_slice() else { return Err(Refusal(format!("{} results", values.len()))) };
        let value = aten::promote::convert(&self.b, *value, types[0].dtype)?;
        let yields = self.b.ty(value);
        if self.scope.agree(&yields, &types[0]) {
            Ok(value)
        } else {
            Err(Refusal(format!("a result of {yields} for an operand of {}", types[0])))
        }
    }
}
