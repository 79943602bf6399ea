//! Conversion of ops that overwrite arguments: the part of the importer that rebinds names.
//!
//! A buffer has one value per overwrite. The name that an op overwrites gets the new contents; the first name of its
//! buffer gets them written back to where they came from; every other view of the buffer is cut out of it again before
//! it is next read.

use std::collections::BTreeMap;

use super::alias::View as Shared;
use super::assume::Needed;
use super::call::{Call, Names, Refusal, wrap_axis};
use super::convert::{Importer, value_error};
use super::custom::{self, Custom, Form, Layout, View};
use super::schema::{Argument, NodeJson, SymIntArg};
use super::steps::Step;
use super::strided::{self, Strided};
use super::table::short_target;
use super::{alias, opaque, steps};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::graph::{Op, Symbol, Value};
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
    view: Option<(View<'a>, Vec<Step>)>,
    /// Where it lies in memory, if that is known.
    place: Option<Strided>,
}

/// What an op wrote into a part of a buffer.
pub(super) struct Written {
    /// The new contents of the buffer.
    whole: Value,
    place: Strided,
    contents: Value,
}

/// What became of a call.
pub(super) enum Imported {
    /// Its results, or what it overwrites, are bound.
    Bound,
    /// The functionalised call must stay opaque with the results that the file states; and why, if its op is known.
    Opaque(Option<Refusal>),
}

impl Importer<'_> {
    /// Imports the call.
    pub(super) fn overwriting(&mut self, at: usize, node: &NodeJson, op: &Custom<'_>) -> Result<Imported, Diagnostic> {
        let targets = match self.targets(node, op)? {
            Ok(targets) => targets,
            Err(refusal) => return Ok(Imported::Opaque(Some(refusal))),
        };
        let shared = if op.row.is_some() { self.shared(&targets) } else { None };
        if shared.is_some() && op.form != Form::InPlace {
            return Ok(Imported::Opaque(shared));
        }
        let types: Vec<TensorType> = targets.iter().map(|t| self.b.ty(t.before)).collect();
        let given: BTreeMap<&str, Value> = targets.iter().map(|t| (t.parameter, t.before)).collect();
        let mark = self.b.mark();
        self.b.take_unequal();
        let imported = op.row.filter(|_| !self.is_complex(node)).map(|row| {
            let call = Call { b: &self.b, names: &self.scope, node, row, results: &types, given, uncounted: 0 };
            shared.map_or(Ok(()), Err).and_then(|()| call.check_names()).and_then(|()| (row.import)(&call))
        });
        let imported = imported.map(|values| values.and_then(|values| self.fitting(&targets, values)));
        let reason = match imported {
            Some(Ok(values)) => {
                return self.bind_contents(at, node, op.form, &targets, &values).map(|()| Imported::Bound);
            }
            Some(Err(refusal)) => {
                self.note_unequal();
                Some(refusal)
            }
            None => None,
        };
        self.b.rollback(mark);
        if op.form != Form::InPlace {
            return Ok(Imported::Opaque(reason));
        }
        let refuse = |message: String| Diagnostic::new("import.node", message);
        let reason = reason.as_ref().map(|Refusal(why)| why.as_str());
        let (prim, operands) = opaque::opaque(node, &self.scope, &types, reason).map_err(refuse)?;
        let values = self.b.op(Op::Prim(prim), &operands)?;
        let bound = self.bind_contents(at, node, op.form, &targets, &values);
        // What is refused may be an argument that the op only reads.
        let unknown = |error: Diagnostic| {
            let message =
                format!("`{}` is not known, so that it may overwrite all it is given: ", short_target(&node.target));
            Diagnostic { message: message + &error.message, ..error }
        };
        let bound = bound.map(|()| Imported::Bound);
        bound.map_err(|error| if op.row.is_none() { unknown(error) } else { error })
    }

    /// New contents, if they are of the types of what they replace. Extents of either that would have to be equal are
    /// noted, unless something else keeps the op from fitting.
    fn fitting(&mut self, targets: &[Target<'_>], values: Vec<Value>) -> Result<Vec<Value>, Refusal> {
        if values.len() != targets.len() {
            return Err(format!("{} new contents of {} overwritten arguments", values.len(), targets.len()).into());
        }
        let types = |(target, &value): (&Target<'_>, &Value)| (self.b.ty(target.before), self.b.ty(value));
        let pairs: Vec<(TensorType, TensorType)> = targets.iter().zip(&values).map(types).collect();
        let fits = |(before, after): &(TensorType, TensorType)| self.scope.agree(after, before);
        let Some(other) = pairs.iter().position(|pair| !fits(pair)) else { return Ok(values) };
        if pairs.iter().all(|(before, after)| before.dtype == after.dtype && before.rank() == after.rank()) {
            let extents = pairs.iter().flat_map(|(before, after)| before.shape.iter().zip(&after.shape));
            let needed = extents.filter(|(a, b)| !self.scope.same_extent(a, b));
            self.needed.extend(needed.map(|(a, b)| Needed::Equal(a.clone(), b.clone())));
        }
        let (before, after) = &pairs[other];
        Err(format!("`{}`: {before}, where the op writes {after}", targets[other].parameter).into())
    }

    /// The overwritten arguments; refused if one is a view of its base that is not understood. Parameters of the model
    /// are no targets of an op that is not known.
    fn targets<'n>(&self, node: &'n NodeJson, op: &Custom<'n>) -> Result<Result<Vec<Target<'n>>, Refusal>, Diagnostic> {
        let value = |name: &str| self.scope.value(name).ok_or_else(|| value_error(name, "is not defined"));
        let mut targets: Vec<Target<'n>> = Vec::new();
        for overwritten in &op.overwritten {
            let parameter = overwritten.parameter;
            if let Some(name) = overwritten.name {
                if op.row.is_some() || !self.parameters.contains(name) {
                    let (before, place) = (value(name)?, self.scope.memory(name));
                    targets.push(Target { parameter, name: Some(name), before, view: None, place });
                }
                continue;
            }
            let refuse = |Refusal(why): Refusal| Ok(Err(Refusal(format!("`{parameter}`: {why}"))));
            let Some(view) = custom::view(node, parameter) else {
                return refuse("how it is a view of its base is not said as is known".into());
            };
            let base = value(view.base)?;
            let memory = self.memory(view.base, base);
            let cut = self.cut(base, memory.as_ref(), &view.layout);
            let (cut, before) = match cut.and_then(|cut| Ok((steps::apply(&self.b, base, &cut)?, cut))) {
                Ok((before, cut)) => (cut, before),
                Err(refusal) => return refuse(refusal),
            };
            let place = memory.and_then(|memory| self.placed(&memory, &view.layout).ok());
            targets.push(Target { parameter, name: None, before, view: Some((view, cut)), place });
        }
        Ok(Ok(targets))
    }

    /// Refuses overwritten arguments of which one element is at several places, or that are not known to share none.
    fn shared(&self, targets: &[Target<'_>]) -> Option<Refusal> {
        let of_one_buffer = |a: &Target<'_>, b: &Target<'_>| match (&a.view, &b.view, a.name, b.name) {
            (Some((a, _)), Some((b, _)), ..) => a.index == b.index,
            (.., Some(a), Some(b)) => self.aliases.view(a).root == self.aliases.view(b).root,
            _ => false,
        };
        targets.iter().enumerate().find_map(|(i, target)| {
            let place = target.place.as_ref();
            let why = match place {
                Some(place) if place.is_stretched() => Some(strided::several_places(place)),
                _ => targets[..i].iter().filter(|other| of_one_buffer(target, other)).find_map(|other| {
                    let both = place.zip(other.place.as_ref());
                    let apart = both.is_some_and(|(a, b)| strided::disjoint(a, b, &self.scope));
                    let view = place.map_or_else(|| "a view".to_owned(), Strided::to_string);
                    let other = other.parameter;
                    (!apart).then(|| format!("{view} may share elements with `{other}`, which is overwritten too"))
                }),
            };
            why.map(|why| Refusal(format!("`{}`: {why}", target.parameter)))
        })
    }

    /// Where a base lies in memory, as the file states.
    fn memory(&self, name: &str, value: Value) -> Option<Strided> {
        let shape = self.b.ty(value).shape;
        let memory = self.scope.memory(name).filter(|memory| memory.shape.len() == shape.len())?;
        Some(Strided { shape, ..memory })
    }

    fn size(&self, size: &SymIntArg) -> Result<Dim, Refusal> {
        match size {
            SymIntArg::Int(n) => Ok(Dim::constant(*n)),
            SymIntArg::Name(name) => {
                self.scope.size(name).ok_or_else(|| Refusal(format!("the size `{name}` is not defined")))
            }
        }
    }

    /// The axis of a shape and the range of it that a view takes.
    fn ranged(&self, shape: &[Dim], axis: i64, [start, end]: [&SymIntArg; 2]) -> Result<(usize, Dim, Dim), Refusal> {
        let axis = wrap_axis(axis, shape.len())?;
        let end = match end {
            SymIntArg::Int(i64::MAX) => shape[axis].clone(),
            end => self.size(end)?,
        };
        Ok((axis, self.size(start)?, end))
    }

    /// Where in the memory of its base a view lies.
    fn placed(&self, base: &Strided, layout: &Layout) -> Result<Strided, Refusal> {
        match layout {
            Layout::Base => Ok(base.clone()),
            Layout::Strided { sizes, strides, offset } => {
                let known = |list: &[SymIntArg]| list.iter().map(|size| self.size(size)).collect::<Result<_, _>>();
                Ok(Strided { shape: known(sizes)?, strides: known(strides)?, offset: self.size(offset)? })
            }
            Layout::Slice { axis, start, end } => {
                let (axis, start, end) = self.ranged(&base.shape, *axis, [start, end])?;
                let mut view = base.clone();
                view.offset = &view.offset + &(&start * &view.strides[axis]);
                view.shape[axis] = &end - &start;
                Ok(view)
            }
        }
    }

    /// How a view is cut out of a base.
    fn cut(&self, base: Value, memory: Option<&Strided>, layout: &Layout) -> Result<Vec<Step>, Refusal> {
        match layout {
            Layout::Base => Ok(Vec::new()),
            Layout::Strided { .. } => {
                let memory = memory.ok_or("the strides of its base are not stated")?;
                strided::cut(memory, &self.placed(memory, layout)?, &self.scope)
            }
            Layout::Slice { axis, start, end } => {
                let ty = self.b.ty(base);
                let (axis, start, end) = self.ranged(&ty.shape, *axis, [start, end])?;
                let extent = &ty.shape[axis];
                let inside = [&start, &(&end - &start), &(extent - &end)];
                if !inside.into_iter().all(|d| self.scope.never_negative(d)) {
                    return Err(format!("elements {start} to {end} of an axis of {extent}").into());
                }
                Ok(vec![Step::Op(Prim::Slice { axis, start, end, step: 1 })])
            }
        }
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
        bases.into_iter().try_for_each(|(index, value)| self.define_output(node, 1 + index, value))?;
        targets.iter().zip(values).for_each(|(target, &contents)| self.note_written(node, target, contents));
        Ok(())
    }

    /// Notes what was written where into a base.
    fn note_written(&mut self, node: &NodeJson, target: &Target<'_>, contents: Value) {
        let Target { view: Some((view, _)), place: Some(place), .. } = target else { return };
        let Some(Argument::Tensor(name)) = node.outputs.get(1 + view.index) else { return };
        self.note_part(view.base, name, place.clone(), contents);
    }

    /// Notes what stands where in a tensor that is a base with a part of it replaced.
    fn note_part(&mut self, base: &str, name: &str, place: Strided, contents: Value) {
        let memory = self.scope.memory(base).zip(self.scope.memory(name));
        let (Some((old, new)), Some(whole)) = (memory, self.scope.value(name)) else { return };
        if old.shape == new.shape && old.strides == new.strides {
            let offset = &(&place.offset - &old.offset) + &new.offset;
            self.written.entry(name.to_owned()).or_default().push(Written {
                whole,
                place: Strided { offset, ..place },
                contents,
            });
        }
    }

    /// Notes what a functional write leaves where: this one, and those before it that it leaves as they were.
    pub(super) fn note_scattered(&mut self, node: &NodeJson) {
        let named = ["self", "src"].map(|parameter| custom::tensor_argument(node, parameter));
        let ([Some(base), Some(src)], [Argument::Tensor(name)]) = (named, node.outputs.as_slice()) else { return };
        let values = self.scope.value(base).zip(self.scope.value(src));
        let (Some((whole, contents)), Some(memory)) = (values, self.scope.memory(base)) else { return };
        let Some(place) = self.scattered(node, &memory, self.b.ty(contents).shape) else { return };
        let before = self.written.get(base).into_iter().flatten();
        let kept: Vec<(Strided, Value)> = before
            .filter(|part| part.whole == whole && strided::disjoint(&part.place, &place, &self.scope))
            .map(|part| (part.place.clone(), part.contents))
            .collect();
        for (place, contents) in kept.into_iter().chain([(place, contents)]) {
            self.note_part(base, name, place, contents);
        }
    }

    /// Where a functional write of so many elements goes in the memory of its base.
    fn scattered(&self, node: &NodeJson, base: &Strided, shape: Vec<Dim>) -> Option<Strided> {
        let size = |name: &str, otherwise: &Dim| match custom::argument(node, name) {
            None | Some(Argument::None) => Some(otherwise.clone()),
            Some(Argument::Int(n)) => Some(Dim::constant(*n)),
            Some(Argument::SymInt(size)) => self.size(size).ok(),
            Some(_) => None,
        };
        let (zero, one) = (Dim::constant(0), Dim::constant(1));
        let axis = || wrap_axis(size("dim", &zero)?.as_const()?, base.shape.len()).ok();
        let at = |name: &str| size(name, &zero).filter(|at| self.scope.never_negative(at));
        let mut strides = base.strides.clone();
        let offset = match short_target(&node.target) {
            "aten.as_strided_scatter" => {
                strides = match custom::argument(node, "stride")? {
                    Argument::Ints(list) => list.iter().copied().map(Dim::constant).collect(),
                    Argument::SymInts(list) => list.iter().map(|n| self.size(n).ok()).collect::<Option<_>>()?,
                    _ => return None,
                };
                size("storage_offset", &base.offset)?
            }
            "aten.slice_scatter" => {
                let (axis, start) = (axis()?, at("start")?);
                let offset = &base.offset + &(&start * &strides[axis]);
                strides[axis] = &strides[axis] * &size("step", &one)?;
                offset
            }
            "aten.select_scatter" => &base.offset + &(&at("index")? * &strides.remove(axis()?)),
            _ => return None,
        };
        (shape.len() == strides.len()).then_some(Strided { shape, strides, offset })
    }

    /// What an op wrote, if a result of a node is a view of its base at that place: the functional form of a graph takes
    /// the view again, where the other one reads the argument.
    pub(super) fn as_written(&self, node: &NodeJson, name: &str, stated: &TensorType) -> Option<Value> {
        // The parts of complex numbers are other elements than these.
        if self.written.is_empty() || !alias::is_view(short_target(&node.target)) || self.is_complex(node) {
            return None;
        }
        let source = self.aliases.view(alias::first_operand(node)?);
        let (parts, memory) = (self.written.get(&source.root)?, self.scope.memory(name)?);
        // It may be a copy.
        source.steps?;
        let whole = self.scope.value(&source.root);
        let is_there = |part: &&Written| Some(part.whole) == whole && part.place.is_same(&memory);
        let part = parts.iter().find(is_there)?;
        (self.b.ty(part.contents) == *stated).then_some(part.contents)
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
        // What is written at chosen places is read from the buffer, which is written so too: nothing is written twice.
        let again = !readers.is_empty() && name != root && self.is_scattered(value);
        let refuse = |other: &str, why: &str| {
            let message =
                format!("`{name}` is overwritten while `{other}`, which may share its buffer, is still read: {why}");
            Diagnostic::new("import.alias", message)
                .with_help("export with run_decompositions(), which removes in-place updates")
        };
        let unfollowed = |which: &str, name: &str| match self.aliases.doubts(name) {
            [] => format!("how the {which} is cut out of the buffer is not known"),
            _ => format!("whether the {which} shares the buffer depends on the sizes of a call"),
        };
        if let Some(other) = readers.iter().find(|other| self.aliases.view(other).steps.is_none()) {
            let refused = refuse(other, &unfollowed("latter", other));
            self.decide(&other.clone());
            return Err(refused);
        }
        if let (Some(first), None) = (readers.first(), &steps) {
            let refused = refuse(first, &unfollowed("former", name));
            self.decide(name);
            return Err(refused);
        }
        if let Some(first) = readers.first() {
            let steps = steps.unwrap_or_default();
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
        if again {
            self.aliases.outdated(name.to_owned());
        } else {
            self.aliases.refresh(name);
        }
        self.overwritten.insert(root);
        Ok(())
    }

    /// Whether a value is what a write at chosen places leaves, in any layout.
    fn is_scattered(&self, mut value: Value) -> bool {
        loop {
            match self.b.definition(value) {
                Some((Op::Prim(Prim::Scatter { .. }), _)) => return true,
                Some((Op::Prim(Prim::Reshape { .. } | Prim::Permute { .. }), of)) => value = of[0],
                _ => return false,
            }
        }
    }

    /// Asks for what decides whether a name shares its buffer: that extents are more than one place, as exporters take them
    /// to be.
    fn decide(&mut self, name: &str) {
        let single = |symbol: &&Symbol| symbol.min < 2 && symbol.max.is_none_or(|max| max >= 2);
        let extents = self.aliases.doubts(name);
        let symbols = self.scope.symbols().iter().filter(single);
        let asked = symbols.filter(|symbol| extents.iter().any(|extent| extent.as_symbol() == Some(&symbol.name)));
        self.needed.extend(asked.map(|symbol| Needed::Range(Symbol { min: 2, ..symbol.clone() })));
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
