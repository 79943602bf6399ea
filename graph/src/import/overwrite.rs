//! Conversion of ops that overwrite arguments: the part of the importer that rebinds names.

use std::collections::BTreeMap;

use super::call::{Call, Names, Refusal};
use super::convert::{Importer, value_error};
use super::custom::{self, Custom, Form, View};
use super::opaque;
use super::schema::{Argument, NodeJson};
use super::types;
use crate::axes::contiguous_strides;
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::graph::{Op, Value};
use crate::ty::TensorType;

/// Where the new contents of an overwritten argument go.
struct Target<'a> {
    parameter: &'a str,
    /// Contents before the call.
    before: Value,
    view: Option<View<'a>>,
}

impl Importer<'_> {
    /// Imports the call; `false` if the functionalised call must stay opaque with the results that the file states.
    pub(super) fn overwriting(&mut self, at: usize, node: &NodeJson, op: &Custom<'_>) -> Result<bool, Diagnostic> {
        let Some(targets) = self.targets(node, op)? else { return Ok(false) };
        let types: Vec<TensorType> = targets.iter().map(|t| self.b.ty(t.before)).collect();
        let given: BTreeMap<&str, Value> = targets.iter().map(|t| (t.parameter, t.before)).collect();
        let mark = self.b.mark();
        let imported = op.row.map(|row| {
            let call = Call { b: &self.b, names: &self.scope, node, row, results: &types, given };
            call.check_names().and_then(|()| (row.import)(&call)).and_then(|values| {
                let fits = values.len() == types.len()
                    && values.iter().zip(&types).all(|(&v, ty)| types::agree(&self.b.ty(v), ty));
                if fits { Ok(values) } else { Err(Refusal("results of other types than the arguments".into())) }
            })
        });
        let reason = match imported {
            Some(Ok(values)) => return self.bind_contents(at, node, op.form, &targets, &values).map(|()| true),
            Some(Err(Refusal(reason))) => Some(reason),
            None => None,
        };
        self.b.rollback(mark);
        if op.form != Form::InPlace {
            return Ok(false);
        }
        let refuse = |message: String| Diagnostic::new("import.node", message);
        let (prim, operands) = opaque::opaque(node, &self.scope, &types, reason.as_deref()).map_err(refuse)?;
        let values = self.b.op(Op::Prim(prim), &operands)?;
        self.bind_contents(at, node, op.form, &targets, &values).map(|()| true)
    }

    /// The overwritten arguments; `None` if one is a view that is not a reshape of its whole base.
    fn targets<'n>(&self, node: &'n NodeJson, op: &Custom<'n>) -> Result<Option<Vec<Target<'n>>>, Diagnostic> {
        let value = |name: &str| self.scope.value(name).ok_or_else(|| value_error(name, "is not defined"));
        let mut targets: Vec<Target<'n>> = Vec::new();
        for &parameter in &op.overwritten {
            if op.form != Form::PerBase {
                let Some(name) = custom::tensor_argument(node, parameter) else { continue };
                targets.push(Target { parameter, before: value(name)?, view: None });
                continue;
            }
            let Some(view) = custom::view(node, parameter) else { return Ok(None) };
            let Some(before) = self.viewed(value(view.base)?, &view) else { return Ok(None) };
            if targets.iter().any(|t| t.view.as_ref().is_some_and(|other| other.index == view.index)) {
                return Ok(None);
            }
            targets.push(Target { parameter, before, view: Some(view) });
        }
        Ok(Some(targets))
    }

    /// The contents of a view of `base`, if it is the whole base in another shape.
    fn viewed(&self, base: Value, view: &View<'_>) -> Option<Value> {
        let Some((sizes, strides)) = &view.layout else { return Some(base) };
        let known = |list: &[super::schema::SymIntArg]| -> Option<Vec<Dim>> {
            list.iter()
                .map(|size| match size {
                    super::schema::SymIntArg::Int(n) => Some(Dim::constant(*n)),
                    super::schema::SymIntArg::Name(name) => self.scope.size(name),
                })
                .collect()
        };
        let (shape, strides) = (known(sizes)?, known(strides)?);
        let whole = strides == contiguous_strides(&shape);
        if whole { self.b.reshape(base, shape).ok() } else { None }
    }

    fn bind_contents(
        &mut self,
        at: usize,
        node: &NodeJson,
        form: Form,
        targets: &[Target<'_>],
        values: &[Value],
    ) -> Result<(), Diagnostic> {
        for (position, (target, &value)) in targets.iter().zip(values).enumerate() {
            let (slot, value) = match (form, &target.view) {
                (Form::InPlace, _) => {
                    if let Some(name) = custom::tensor_argument(node, target.parameter) {
                        self.overwrite(at, name, value)?;
                    }
                    continue;
                }
                (_, Some(view)) => {
                    let base = self.scope.value(view.base).ok_or_else(|| value_error(view.base, "is not defined"))?;
                    (1 + view.index, self.b.reshape(value, self.b.ty(base).shape)?)
                }
                (_, None) => (1 + position, value),
            };
            if let Some(Argument::Tensor(name)) = node.outputs.get(slot) {
                let stated = self.stated_type(name)?;
                self.define(name, &stated, value)?;
            }
        }
        Ok(())
    }

    /// Binds a name to new contents. A buffer of which the name is a reshape gets them too; any other name that shares
    /// the buffer must not be read any more.
    fn overwrite(&mut self, at: usize, name: &str, value: Value) -> Result<(), Diagnostic> {
        let root = self.aliases.root(name).to_owned();
        for other in self.aliases.sharing(&root, name) {
            if !self.aliases.read_after(&other, at) {
                continue;
            }
            let old = self.scope.value(&other).ok_or_else(|| value_error(&other, "is not defined"))?;
            let shape = self.b.ty(old).shape;
            let whole = self.aliases.is_whole(name) && self.aliases.is_whole(&other);
            if !whole {
                let message =
                    format!("`{name}` is overwritten while `{other}`, a view of the same buffer, is still read");
                return Err(Diagnostic::new("import.alias", message)
                    .with_help("export with run_decompositions(), which removes in-place updates"));
            }
            let fresh = self.b.reshape(value, shape)?;
            self.scope.values.insert(other, fresh);
        }
        self.scope.values.insert(name.to_owned(), value);
        Ok(())
    }
}
