//! Conversion of ops that overwrite arguments: the part of the importer that rebinds names.
//!
//! A buffer has one value per overwrite. The name that an op overwrites gets the new contents; the first name of its
//! buffer gets them written back to where they came from; every other view of the buffer is cut out of it again before
//! it is next read.

use std::collections::BTreeMap;

use super::alias::View as Shared;
use super::call::{Call, Names, Refusal};
use super::convert::{Importer, value_error};
use super::custom::{self, Custom, Form, Layout, View};
use super::schema::{Argument, NodeJson, SymIntArg};
use super::table::short_target;
use super::{opaque, steps};
use crate::axes::contiguous_strides;
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::graph::{Op, Value};
use crate::prim::Prim;
use crate::ty::TensorType;

/// Where the new contents of an overwritten argument go.
struct Target<'a> {
    parameter: &'a str,
    /// Name of the tensor in the forms that name it.
    name: Option<&'a str>,
    /// Contents before the call.
    before: Value,
    /// Of the third form: the view, and how it is cut out of its base.
    view: Option<(View<'a>, Vec<Prim>)>,
}

impl Importer<'_> {
    /// Imports the call; `false` if the functionalised call must stay opaque with the results that the file states.
    pub(super) fn overwriting(&mut self, at: usize, node: &NodeJson, op: &Custom<'_>) -> Result<bool, Diagnostic> {
        let Some(targets) = self.targets(node, op)? else { return Ok(false) };
        let types: Vec<TensorType> = targets.iter().map(|t| self.b.ty(t.before)).collect();
        let given: BTreeMap<&str, Value> = targets.iter().map(|t| (t.parameter, t.before)).collect();
        let mark = self.b.mark();
        self.b.take_unequal();
        let imported = op.row.filter(|_| !self.is_complex(node)).map(|row| {
            let call = Call { b: &self.b, names: &self.scope, node, row, results: &types, given, uncounted: 0 };
            call.check_names().and_then(|()| (row.import)(&call)).and_then(|values| {
                let fits = values.len() == types.len()
                    && values.iter().zip(&types).all(|(&v, ty)| self.scope.agree(&self.b.ty(v), ty));
                if fits { Ok(values) } else { Err(Refusal("results of other types than the arguments".into())) }
            })
        });
        let reason = match imported {
            Some(Ok(values)) => return self.bind_contents(at, node, op.form, &targets, &values).map(|()| true),
            Some(Err(Refusal(reason))) => {
                self.note_unequal();
                Some(reason)
            }
            None => None,
        };
        self.b.rollback(mark);
        if op.form != Form::InPlace {
            return Ok(false);
        }
        let refuse = |message: String| Diagnostic::new("import.node", message);
        let (prim, operands) = opaque::opaque(node, &self.scope, &types, reason.as_deref()).map_err(refuse)?;
        let values = self.b.op(Op::Prim(prim), &operands)?;
        let bound = self.bind_contents(at, node, op.form, &targets, &values);
        // What is refused may be an argument that the op only reads.
        let unknown = |error: Diagnostic| {
            let message =
                format!("`{}` is not known, so that it may overwrite all it is given: ", short_target(&node.target));
            Diagnostic { message: message + &error.message, ..error }
        };
        bound.map(|()| true).map_err(|error| if op.row.is_none() { unknown(error) } else { error })
    }

    /// The overwritten arguments; `None` if one is a view of its base that is not understood. Parameters of the model
    /// are no targets of an op that is not known.
    fn targets<'n>(&self, node: &'n NodeJson, op: &Custom<'n>) -> Result<Option<Vec<Target<'n>>>, Diagnostic> {
        let value = |name: &str| self.scope.value(name).ok_or_else(|| value_error(name, "is not defined"));
        let mut targets: Vec<Target<'n>> = Vec::new();
        for overwritten in &op.overwritten {
            let parameter = overwritten.parameter;
            if let Some(name) = overwritten.name {
                if op.row.is_some() || !self.parameters.contains(name) {
                    targets.push(Target { parameter, name: Some(name), before: value(name)?, view: None });
                }
                continue;
            }
            let Some(view) = custom::view(node, parameter) else { return Ok(None) };
            let base = value(view.base)?;
            let Some(cut) = self.cut(base, &view.layout) else { return Ok(None) };
            let others = targets.iter().filter_map(|t| t.view.as_ref()).filter(|(other, _)| other.index == view.index);
            if others.into_iter().any(|(_, other)| !self.disjoint(other, &cut)) {
                return Ok(None);
            }
            let Ok(before) = steps::apply(&self.b, base, &cut) else { return Ok(None) };
            targets.push(Target { parameter, name: None, before, view: Some((view, cut)) });
        }
        Ok(Some(targets))
    }

    /// How a view is cut out of a base, if it is the whole base in another shape or a range of an axis.
    fn cut(&self, base: Value, layout: &Layout) -> Option<Vec<Prim>> {
        let size = |size: &SymIntArg| match size {
            SymIntArg::Int(n) => Some(Dim::constant(*n)),
            SymIntArg::Name(name) => self.scope.size(name),
        };
        let ty = self.b.ty(base);
        match layout {
            Layout::Base => Some(Vec::new()),
            Layout::Strided(sizes, strides) => {
                let known = |list: &[SymIntArg]| list.iter().map(size).collect::<Option<Vec<Dim>>>();
                let (shape, strides) = (known(sizes)?, known(strides)?);
                let whole = strides == contiguous_strides(&shape) && crate::dim::product(&shape) == ty.elements();
                if shape == ty.shape && whole {
                    return Some(Vec::new());
                }
                whole.then(|| vec![Prim::Reshape { shape }])
            }
            Layout::Slice { axis, start, end } => {
                let axis = super::call::wrap_axis(*axis, ty.rank()).ok()?;
                let extent = &ty.shape[axis];
                let end = match end {
                    SymIntArg::Int(i64::MAX) => extent.clone(),
                    end => size(end)?,
                };
                let start = size(start)?;
                let inside = [&start, &(&end - &start), &(extent - &end)];
                let inside = inside.into_iter().all(|d| self.scope.never_negative(d));
                inside.then(|| vec![Prim::Slice { axis, start, end, step: 1 }])
            }
        }
    }

    /// Whether two cuts of one base have no element in common.
    fn disjoint(&self, a: &[Prim], b: &[Prim]) -> bool {
        let (
            [Prim::Slice { axis, start, end, .. }],
            [Prim::Slice { axis: other_axis, start: other_start, end: other_end, .. }],
        ) = (a, b)
        else {
            return false;
        };
        let apart = |end: &Dim, start: &Dim| self.scope.never_negative(&(start - end));
        axis == other_axis && (apart(end, other_start) || apart(other_end, start))
    }

    fn bind_contents(
        &mut self,
        at: usize,
        node: &NodeJson,
        form: Form,
        targets: &[Target<'_>],
        values: &[Value],
    ) -> Result<(), Diagnostic> {
        let mut bases: BTreeMap<usize, Value> = BTreeMap::new();
        for (position, (target, &value)) in targets.iter().zip(values).enumerate() {
            match (&target.view, form, target.name) {
                (Some((view, cut)), ..) => {
                    let first = || self.scope.value(view.base).ok_or_else(|| value_error(view.base, "is not defined"));
                    let base = bases.get(&view.index).copied().map_or_else(first, Ok)?;
                    let whole = steps::write_back(&self.b, base, cut, value);
                    let refuse = |Refusal(why): Refusal| Diagnostic::new("import.alias", why);
                    bases.insert(view.index, whole.map_err(refuse)?);
                }
                (None, Form::InPlace, Some(name)) => self.overwrite(at, name, value)?,
                (None, ..) => self.define_output(node, 1 + position, value)?,
            }
        }
        bases.into_iter().try_for_each(|(index, value)| self.define_output(node, 1 + index, value))
    }

    fn define_output(&mut self, node: &NodeJson, slot: usize, value: Value) -> Result<(), Diagnostic> {
        let Some(Argument::Tensor(name)) = node.outputs.get(slot) else { return Ok(()) };
        let stated = self.stated_type(name)?;
        self.define(name, &stated, value)
    }

    /// Binds a name to new contents, and with it the buffer that it is a view of.
    pub(super) fn overwrite(&mut self, at: usize, name: &str, value: Value) -> Result<(), Diagnostic> {
        let Shared { root, steps } = self.aliases.view(name);
        let readers = self.aliases.readers_after(&root, name, at);
        let refuse = |other: &str, why: &str| {
            let message =
                format!("`{name}` is overwritten while `{other}`, which may share its buffer, is still read: {why}");
            Diagnostic::new("import.alias", message)
                .with_help("export with run_decompositions(), which removes in-place updates")
        };
        if let Some(other) = readers.iter().find(|other| self.aliases.view(other).steps.is_none()) {
            return Err(refuse(other, "how the latter is cut out of the buffer is not known"));
        }
        if let Some(first) = readers.first() {
            let steps = steps.ok_or_else(|| refuse(first, "how the former is cut out of the buffer is not known"))?;
            let buffer = self.scope.value(&root).ok_or_else(|| value_error(&root, "is not defined"))?;
            let whole =
                steps::write_back(&self.b, buffer, &steps, value).map_err(|Refusal(why)| refuse(first, &why))?;
            self.scope.values.insert(root.clone(), whole);
        } else if name != root {
            // Nothing else sees the buffer any more.
            self.aliases.detach(name);
        }
        readers.into_iter().filter(|other| *other != root).for_each(|other| self.aliases.outdated(other));
        self.scope.values.insert(name.to_owned(), value);
        self.aliases.refresh(name);
        self.overwritten.insert(root);
        Ok(())
    }

    /// Cuts a view out of its buffer again if that was overwritten since.
    pub(super) fn refresh(&mut self, name: &str) -> Result<(), Diagnostic> {
        if !self.aliases.refresh(name) {
            return Ok(());
        }
        let Shared { root, steps } = self.aliases.view(name);
        let lost = || value_error(name, "is read after its buffer was overwritten, and how it shares it is not known");
        let (buffer, steps) = self.scope.value(&root).zip(steps).ok_or_else(lost)?;
        let value = steps::apply(&self.b, buffer, &steps).map_err(|Refusal(why)| value_error(name, why))?;
        self.scope.values.insert(name.to_owned(), value);
        Ok(())
    }
}
