//! From the exported program to the graph: inputs by signature, nodes in order, outputs by signature.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::alias::{self, Aliases, Produced};
use super::assume::{self, Assumptions, Needed};
use super::call::{Call, Names, Refusal};
use super::custom::Custom;
use super::inplace::InPlace;
use super::origin::origin;
use super::overwrite::{Imported, Written};
use super::schema::{Argument, Device, NodeJson, Program, Spec, SpecArg, SymInt};
use super::strided::Strided;
use super::table::{Row, short_target};
use super::weights::Weights;
use super::{aten, collective, constants, inline, opaque, signature, sized, types, vendor};
use crate::builder::Builder;
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::dim_range::{Ranges, defined};
use crate::graph::{Graph, InputKind, Op, Symbol, Value};
use crate::prim::{Literal, Prim};
use crate::ty::TensorType;

/// Attempts beyond which no more is assumed of a file's symbols.
const MAX_ATTEMPTS: usize = 64;

/// The graph of a program.
///
/// Where nodes make no sense unless something holds of the symbols that the file does not say, the import starts again
/// with that.
pub(super) fn convert(model: &str, program: &Program, weights: &Weights<'_>) -> Result<Graph, Diagnostic> {
    let name: String = model.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let mut assumptions = Assumptions::default();
    for attempt in 1.. {
        let mut importer = Importer::new(&name, program, assumptions.clone(), weights.is_file());
        let result = importer.run(weights);
        let Importer { b, scope, needed, .. } = importer;
        if attempt == MAX_ATTEMPTS || !assumptions.adopt(needed, &scope.symbols, program) {
            return result.map(|()| b.finish());
        }
    }
    unreachable!("the last attempt returns")
}

pub(super) struct Scope<'a> {
    program: &'a Program,
    /// What is taken for granted of the symbols.
    assumptions: Assumptions,
    pub(super) values: BTreeMap<String, Value>,
    sizes: BTreeMap<String, Dim>,
    symbols: Vec<Symbol>,
    /// Ranks of the groups of which the file states how many there are.
    ranks: BTreeMap<String, u32>,
    /// Tensors of complex numbers.
    complex: BTreeSet<String>,
    /// The program is a file if this is set: a call that does not fit it is then a mistake of the caller. A live graph instead is run in
    /// every size, so that its framework keeps what only holds in some.
    is_file: bool,
    /// The op that is imported takes for granted that these are not negative.
    granted: RefCell<Vec<Dim>>,
}

impl Names for Scope<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        self.values.get(name).copied()
    }

    fn size(&self, name: &str) -> Option<Dim> {
        self.sizes.get(name).cloned()
    }

    fn ranks(&self, group: &str) -> Option<u32> {
        self.ranks.get(group).copied()
    }

    fn never_negative(&self, dim: &Dim) -> bool {
        Ranges::new(&self.symbols).bounds(dim).is_ok_and(|bounds| bounds.min >= 0)
    }

    fn takes_for_granted(&self, not_negative: &Dim) -> bool {
        if self.is_file {
            self.granted.borrow_mut().push(not_negative.clone());
        }
        self.is_file
    }

    fn is_complex(&self, name: &str) -> bool {
        self.complex.contains(name)
    }

    fn is_on_cpu(&self, name: &str) -> bool {
        let meta = self.program.graph_module.graph.tensor_values.get(name);
        meta.and_then(|meta| meta.device.as_ref()).is_some_and(Device::is_cpu)
    }

    fn memory(&self, name: &str) -> Option<Strided> {
        let meta = self.program.graph_module.graph.tensor_values.get(name)?;
        let dims = |list: &[SymInt]| list.iter().map(|size| self.extent(size).ok()).collect::<Option<Vec<Dim>>>();
        let offset = meta.storage_offset.as_ref().map_or_else(|| Some(Dim::constant(0)), |at| self.extent(at).ok());
        let (shape, strides, offset) = (dims(&meta.sizes)?, dims(&meta.strides)?, offset?);
        (shape.len() == strides.len()).then_some(Strided { shape, strides, offset })
    }

    fn same_extent(&self, a: &Dim, b: &Dim) -> bool {
        types::same_extent(a, b, &self.symbols)
    }
}

impl<'a> Scope<'a> {
    fn new(program: &'a Program, assumptions: Assumptions, is_file: bool) -> Self {
        Scope {
            is_file,
            granted: RefCell::default(),
            program,
            assumptions,
            values: BTreeMap::new(),
            sizes: BTreeMap::new(),
            symbols: Vec::new(),
            ranks: BTreeMap::new(),
            complex: BTreeSet::new(),
        }
    }

    /// A size of the file under what is assumed of its symbols.
    fn extent(&self, size: &SymInt) -> Result<Dim, String> {
        Ok(defined(&self.assumptions.apply(types::dim(size)?), &self.symbols))
    }

    pub(super) fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    pub(super) fn agree(&self, a: &TensorType, b: &TensorType) -> bool {
        types::agree(a, b, &self.symbols)
    }

    /// The range of the symbols for which an extent that depends on one of them is the number that the file states.
    fn assumed(&self, inferred: &TensorType, stated: &TensorType) -> Option<Symbol> {
        let fixed = inferred.shape.iter().zip(&stated.shape).find_map(|(a, b)| a.solve_quotient(b.as_const()?))?;
        let (name, min, max) = fixed;
        let known = self.symbols.iter().find(|s| s.name == name)?;
        let range = Symbol { name, min: min.max(known.min), max: Some(known.max.map_or(max, |m| m.min(max))) };
        (range != *known && range.max >= Some(range.min)).then_some(range)
    }
}

/// An input that is a number of the graph.
struct Number<'a> {
    name: &'a str,
    literal: Literal,
    shape: Vec<Dim>,
}

/// The importer at work.
pub(super) struct Importer<'a> {
    pub(super) b: Builder,
    program: &'a Program,
    pub(super) scope: Scope<'a>,
    pub(super) aliases: Aliases,
    /// Names of the inputs that are parameters of the model.
    pub(super) parameters: BTreeSet<String>,
    /// Names of the inputs that became numbers of the graph.
    numbers: BTreeSet<String>,
    /// First names of the buffers that a node overwrote.
    pub(super) overwritten: BTreeSet<String>,
    /// What ops wrote into parts of buffers, by the name of a buffer's new contents.
    pub(super) written: BTreeMap<String, Vec<Written>>,
    /// What more would have to be taken for granted of the symbols.
    pub(super) needed: Vec<Needed>,
}

pub(super) fn value_error(name: &str, message: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new("import.value", format!("`{name}` {message}"))
}

impl<'a> Importer<'a> {
    fn new(name: &str, program: &'a Program, assumptions: Assumptions, is_file: bool) -> Self {
        Importer {
            b: Builder::new(name),
            program,
            scope: Scope::new(program, assumptions, is_file),
            aliases: Aliases::new(program),
            parameters: BTreeSet::new(),
            numbers: BTreeSet::new(),
            overwritten: BTreeSet::new(),
            written: BTreeMap::new(),
            needed: Vec::new(),
        }
    }

    fn run(&mut self, weights: &Weights<'_>) -> Result<(), Diagnostic> {
        let program = self.program;
        let complex = program.graph_module.graph.tensor_values.iter().filter(|(_, meta)| types::is_complex(meta));
        self.scope.complex = complex.map(|(name, _)| name.clone()).collect();
        self.sizes()?;
        signature::check(&program.graph_module)?;
        self.scope.ranks = collective::ranks(&program.graph_module.graph.nodes)?;
        self.symbols()?;
        let overwritten = constants::overwritten(&program.graph_module.graph.nodes)?;
        let mut numbers = Vec::new();
        for spec in &program.graph_module.signature.input_specs {
            numbers.extend(self.input(spec, weights, &overwritten)?);
        }
        // Inputs come first.
        for Number { name, literal, shape } in numbers {
            let value = self.b.prim(Prim::Literal(literal), &[])?;
            let value = self.b.reshape(value, shape)?;
            self.introduce(name, value)?;
            self.numbers.insert(name.to_owned());
        }
        for (at, node) in program.graph_module.graph.nodes.iter().enumerate() {
            self.node(at, node)?;
        }
        self.updates()?;
        program.graph_module.signature.output_specs.iter().try_for_each(|spec| self.output(spec))
    }

    /// Symbolic integers have their expressions in a table of the file; the nodes that compute them are not needed.
    fn sizes(&mut self) -> Result<(), Diagnostic> {
        for (name, size) in &self.program.graph_module.graph.sym_int_values {
            let dim = types::dim(size).map_err(|message| value_error(name, message))?;
            let dim = self.scope.assumptions.apply(dim);
            self.scope.sizes.insert(name.clone(), dim);
        }
        Ok(())
    }

    /// Declares the symbols that occur in types, those of the inputs first.
    fn symbols(&mut self) -> Result<(), Diagnostic> {
        let program = self.program;
        let graph = &program.graph_module.graph;
        let inputs = program.graph_module.signature.input_specs.iter().filter_map(input_tensor);
        for name in inputs.chain(graph.tensor_values.keys().map(String::as_str)) {
            let Some(meta) = graph.tensor_values.get(name) else { continue };
            for size in &meta.sizes {
                let dim = types::dim(size).map_err(|message| value_error(name, message))?;
                self.declare(&self.scope.assumptions.apply(dim))?;
            }
        }
        let sizes: Vec<Dim> = self.scope.sizes.values().cloned().collect();
        sizes.iter().try_for_each(|dim| self.declare(dim))?;
        let Scope { sizes, symbols, .. } = &mut self.scope;
        sizes.values_mut().for_each(|dim| *dim = defined(dim, symbols));
        Ok(())
    }

    fn declare(&mut self, dim: &Dim) -> Result<(), Diagnostic> {
        let mut names = BTreeSet::new();
        dim.collect_symbols(&mut names);
        for name in names {
            if self.scope.symbols.iter().any(|s| s.name == name) {
                continue;
            }
            let Symbol { min, max, .. } = self.scope.assumptions.range(&name, self.program);
            if let Some(max) = max.filter(|max| *max < min) {
                return Err(value_error(&name, format_args!("has an empty range, {min} to {max}")));
            }
            self.b.symbol(&name, min, max);
            self.scope.symbols.push(Symbol { name, min, max });
        }
        Ok(())
    }

    pub(super) fn stated_type(&self, name: &str) -> Result<TensorType, Diagnostic> {
        let meta = self.program.graph_module.graph.tensor_values.get(name);
        let meta = meta.ok_or_else(|| value_error(name, "has no entry among the tensor values"))?;
        let mut ty = types::tensor_type(meta).map_err(|message| value_error(name, message))?;
        for dim in &mut ty.shape {
            *dim = self.scope.assumptions.apply(dim.clone());
            if dim.as_polynomial().is_none() {
                *dim = defined(dim, &self.scope.symbols);
            }
        }
        Ok(ty)
    }

    /// Adds what a specification describes, unless it is a number, which it gives.
    fn input(
        &mut self,
        spec: &'a Spec,
        weights: &Weights<'_>,
        overwritten: &BTreeSet<&str>,
    ) -> Result<Option<Number<'a>>, Diagnostic> {
        let Some(name) = input_tensor(spec) else { return Ok(None) };
        let ty = self.stated_type(name)?;
        let weight = |fqn: &Option<String>| {
            let fqn = fqn.as_deref().ok_or_else(|| value_error(name, "is a weight without a name"))?;
            weights.get(fqn, &ty)
        };
        let kind = match spec.kind.as_str() {
            "user_input" => InputKind::User,
            "parameter" => InputKind::Weight(weight(&spec.body.parameter_name)?),
            "buffer" => InputKind::Weight(weight(&spec.body.buffer_name)?),
            "tensor_constant" => {
                let weight = weight(&spec.body.tensor_constant_name)?;
                if !overwritten.contains(name)
                    && let Some(literal) = constants::number(name, &ty, weight.as_ref())?
                {
                    return Ok(Some(Number { name, literal, shape: ty.shape }));
                }
                InputKind::Weight(weight)
            }
            other => return Err(value_error(name, format_args!("is an input of the unsupported kind `{other}`"))),
        };
        if spec.kind == "parameter" {
            self.parameters.insert(name.to_owned());
        }
        let value = self.b.add_input(name, ty, kind);
        self.introduce(name, value).map(|()| None)
    }

    fn introduce(&mut self, name: &str, value: Value) -> Result<(), Diagnostic> {
        match self.scope.values.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(value_error(name, "is defined twice")),
        }
    }

    fn node(&mut self, at: usize, node: &NodeJson) -> Result<(), Diagnostic> {
        let origin = origin(node);
        self.b.set_origin(origin.clone());
        self.converted(at, node).map_err(|diagnostic| diagnostic.with_origin(&origin))
    }

    fn converted(&mut self, at: usize, node: &NodeJson) -> Result<(), Diagnostic> {
        let (target, names) = (short_target(&node.target), result_names(node));
        given_once(target, node)?;
        if names.is_empty() && aten::is_size_or_check(target) {
            let missing = alias::operands(node).find(|name| self.scope.value(name).is_none());
            return missing.map_or(Ok(()), |name| Err(value_error(name, "is not defined")));
        }
        for operand in alias::operands(node) {
            self.refresh(operand)?;
        }
        if let Some(op) = InPlace::of(node)? {
            return self.in_place(at, node, &op, &names);
        }
        let refused = match Custom::of(node).map(|op| self.overwriting(at, node, &op)).transpose()? {
            Some(Imported::Bound) => return Ok(()),
            Some(Imported::Opaque(refused)) => refused,
            None => None,
        };
        let types: Vec<TensorType> = names.iter().map(|name| self.stated_type(name)).collect::<Result<_, _>>()?;
        let values = match refused {
            Some(Refusal(reason)) => self.opaque(node, &types, Some(reason))?,
            None => self.values(node, &types)?,
        };
        for ((name, stated), &value) in names.iter().zip(&types).zip(&values) {
            let value = self.as_written(node, name, stated).unwrap_or(value);
            self.define(name, stated, value)?;
        }
        self.note_scattered(node);
        let operand = alias::first_operand(node).and_then(|name| self.scope.value(name));
        let results: Vec<(&str, Value)> = names.into_iter().zip(values).collect();
        if let Some(operand) = operand {
            let produced = Produced { target, node, operand, results: &results, names: &self.scope };
            self.aliases.note(&self.b, self.program, &produced);
        }
        Ok(())
    }

    /// Binds a name to a value of the type that the file states.
    pub(super) fn define(&mut self, name: &str, stated: &TensorType, value: Value) -> Result<(), Diagnostic> {
        let inferred = self.b.ty(value);
        if !self.scope.agree(&inferred, stated) {
            self.needed.extend(self.scope.assumed(&inferred, stated).map(Needed::Range));
            let message = format!("`{name}` is {stated} in the file, but the op yields {inferred}");
            return Err(Diagnostic::new("import.type", message));
        }
        let value = self.restated(value, &inferred, stated)?;
        self.introduce(name, value)
    }

    /// The value with extents written as the file writes them, where they are equal in another form.
    fn restated(&self, value: Value, inferred: &TensorType, stated: &TensorType) -> Result<Value, Diagnostic> {
        let other = inferred.shape.iter().zip(&stated.shape).enumerate().filter(|(_, (a, b))| a != b);
        let restate = |x, (axis, (_, end)): (usize, (&Dim, &Dim))| self.b.slice(x, axis, Dim::constant(0), end.clone());
        Ok(other.into_iter().try_fold(value, restate)?)
    }

    /// The values of a node's results: by its row in the op tables, else opaque.
    fn values(&mut self, node: &NodeJson, types: &[TensorType]) -> Result<Vec<Value>, Diagnostic> {
        let target = short_target(&node.target);
        let row = if self.is_complex(node) {
            aten::find_complex(target)
        } else {
            aten::find(target).or_else(|| vendor::find(target)).or_else(|| collective::find(target))
        };
        if let Some(row) = row {
            let call = self.call(row, node, types);
            if let Err(diagnostic) = sized::check(&call) {
                let from = call.tensor("self").map(|x| self.b.ty(x));
                let needed = from.ok().zip(types.first()).and_then(|(from, to)| assume::divisible(&from, to));
                self.needed.extend(needed);
                return Err(diagnostic);
            }
        }
        let refused = match row.map(|row| self.by_row(row, node, types)) {
            Some(Ok(values)) => {
                let granted = self.scope.granted.take();
                let ranges = granted.iter().filter_map(|dim| assume::not_negative(dim, &self.scope.symbols));
                self.needed.extend(ranges);
                return Ok(values);
            }
            Some(Err(Refusal(reason))) => {
                self.note_unequal();
                Some(reason)
            }
            None if self.is_complex(node) => Some("it is not known on complex numbers".to_owned()),
            None => inline::kept(node).map(str::to_owned),
        };
        self.opaque(node, types, refused)
    }

    /// The results of an op that is not taken apart, and why not.
    fn opaque(&self, node: &NodeJson, types: &[TensorType], refused: Option<String>) -> Result<Vec<Value>, Diagnostic> {
        let refuse = |message: String| Diagnostic::new("import.node", message);
        let (prim, operands) = opaque::opaque(node, &self.scope, types, refused.as_deref()).map_err(refuse)?;
        self.b.op(Op::Prim(prim), &operands).map_err(Diagnostic::from)
    }

    fn call<'c>(&'c self, row: &'c Row, node: &'c NodeJson, results: &'c [TensorType]) -> Call<'c> {
        let uncounted = usize::from(self.is_complex(node));
        Call { b: &self.b, names: &self.scope, node, row, results, given: BTreeMap::new(), uncounted }
    }

    /// Whether a node has complex operands or results.
    pub(super) fn is_complex(&self, node: &NodeJson) -> bool {
        let complex = |name: &str| self.scope.complex.contains(name);
        !self.scope.complex.is_empty()
            && (alias::operands(node).any(complex) || result_names(node).into_iter().any(complex))
    }

    fn by_row(&self, row: &Row, node: &NodeJson, results: &[TensorType]) -> Result<Vec<Value>, Refusal> {
        let mark = self.b.mark();
        self.b.take_unequal();
        self.scope.granted.take();
        let call = self.call(row, node, results);
        let imported = call.check_names().and_then(|()| (row.import)(&call)).and_then(|values| {
            let fits = values.len() == results.len();
            if fits { Ok(values) } else { Err(Refusal(format!("{} results of {}", values.len(), results.len()))) }
        });
        if imported.is_err() {
            self.b.rollback(mark);
        }
        imported
    }

    /// Notes the extents for which the last refused op would have been one.
    pub(super) fn note_unequal(&mut self) {
        self.needed.extend(self.b.take_unequal().map(|(a, b)| Needed::Equal(a, b)));
    }

    /// Inputs that nodes overwrote are returned first, where the signature does not list them as updated.
    fn updates(&mut self) -> Result<(), Diagnostic> {
        let signature = &self.program.graph_module.signature;
        let mut listed = BTreeSet::new();
        for spec in &signature.output_specs {
            listed.extend(self.updated(spec)?);
        }
        for name in signature.input_specs.iter().filter_map(input_tensor) {
            if self.numbers.contains(name) && self.overwritten.contains(name) {
                return Err(value_error(name, "is a constant of the model, and a view of it is overwritten")
                    .with_help("register the tensor as a buffer"));
            }
            if self.overwritten.contains(name) && !listed.contains(name) {
                let value = self.scope.value(name).ok_or_else(|| value_error(name, "is not defined"))?;
                self.b.add_output(value, Some(name.to_owned()));
            }
        }
        Ok(())
    }

    fn output(&mut self, spec: &Spec) -> Result<(), Diagnostic> {
        let name = match &spec.body.arg {
            Some(SpecArg::Name(name) | SpecArg::Argument(Argument::Tensor(name))) => name,
            // Constants and sizes that the model returns are known to the caller.
            _ => return Ok(()),
        };
        self.refresh(name)?;
        let value = self.scope.value(name).ok_or_else(|| value_error(name, "is returned but not defined"))?;
        let updates = self.updated(spec)?.map(str::to_owned);
        self.b.add_output(value, updates);
        Ok(())
    }

    /// The input that an output updates.
    fn updated(&self, spec: &Spec) -> Result<Option<&'a str>, Diagnostic> {
        let inputs = &self.program.graph_module.signature.input_specs;
        let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        let body = &spec.body;
        let input = match spec.kind.as_str() {
            "user_output" | "loss_output" => return Ok(None),
            "buffer_mutation" => inputs.iter().find(|s| same(&s.body.buffer_name, &body.buffer_name)),
            "parameter_mutation" => inputs.iter().find(|s| same(&s.body.parameter_name, &body.parameter_name)),
            "user_input_mutation" => inputs.iter().find(|s| input_tensor(s) == body.user_input_name.as_deref()),
            other => {
                let name = match &body.arg {
                    Some(SpecArg::Name(name) | SpecArg::Argument(Argument::Tensor(name))) => name,
                    _ => return Ok(None),
                };
                return Err(value_error(name, format_args!("is an output of the unsupported kind `{other}`")));
            }
        };
        let named = || match &body.arg {
            Some(SpecArg::Name(name) | SpecArg::Argument(Argument::Tensor(name))) => name.as_str(),
            _ => "an output",
        };
        let input = input.and_then(input_tensor);
        input.map(Some).ok_or_else(|| value_error(named(), "updates an input that does not exist"))
    }
}

/// The tensor that an input specification defines; `None` for constants, symbols, tokens and script objects.
fn input_tensor(spec: &Spec) -> Option<&str> {
    match &spec.body.arg {
        Some(SpecArg::Argument(Argument::Tensor(name))) => Some(name),
        Some(SpecArg::Name(name)) if !matches!(spec.kind.as_str(), "custom_obj" | "token") => Some(name),
        _ => None,
    }
}

/// Checks that no argument of a node is given twice.
fn given_once(target: &str, node: &NodeJson) -> Result<(), Diagnostic> {
    let mut given = BTreeSet::new();
    let mut named = node.inputs.iter().map(|input| input.name.as_str()).filter(|name| !name.is_empty());
    match named.find(|name| !given.insert(*name)) {
        Some(twice) => Err(Diagnostic::new("import.node", format!("`{target}` has the argument `{twice}` twice"))),
        None => Ok(()),
    }
}

/// Names of a node's tensor results; results that nothing uses may have none.
fn result_names(node: &NodeJson) -> Vec<&str> {
    let mut names = Vec::new();
    for output in &node.outputs {
        match output {
            Argument::Tensor(name) => names.push(name.as_str()),
            Argument::Tensors(list) => names.extend(list.iter().map(String::as_str)),
            Argument::OptionalTensors(list) => names.extend(list.iter().flatten().map(String::as_str)),
            _ => {}
        }
    }
    names
}
