//! What calls of a captured program are, wherever its steps run: which tensors they bring, which stay, and how many rows
//! there are.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fusewright_graph::tensor::check_memory;
use fusewright_graph::{DType, Dim, Input, Symbol, Value};
use fusewright_runtime::capture::{CaptureSizes, Part};

use super::parts::{self, SplitStep};
use super::resize::resized;
use super::rows::Rows;
use super::{CaptureOptions, users};
use crate::program::layout::Home;
use crate::program::plan::{Binding, Plan, bind, miscounted};
use crate::program::{Program, claims, state};
use crate::{Error, HostTensor};

/// What padding is filled with: places that choose none, else zeros.
const NOWHERE: u8 = 0xff;
const ZERO: u8 = 0;

/// A program whose calls differ in rows alone.
pub(in crate::program) struct Calls {
    pub program: Arc<Program>,
    pub parts: Vec<Part>,
    /// Counts rows.
    symbol: String,
    /// The other symbols.
    pub dims: Binding,
    /// The numbers of the caller's tensors that stay where they are from call to call; behind the inputs, the buffers of the
    /// model that its graph updates.
    pub kept: BTreeSet<usize>,
    /// Those of them that the graph updates.
    pub donated: BTreeSet<usize>,
    /// Those whose elements choose places to write to: padding chooses none.
    choosers: BTreeSet<usize>,
    /// Values whose rows lie in calls of fewer rows where a whole size has them.
    spread: BTreeSet<Value>,
    /// How many inputs the graph has for its caller.
    pub inputs: usize,
}

impl Calls {
    /// Divides the steps of a program whose values lie in `home`. With the sizes that the graph takes, and what is split off.
    ///
    /// # Errors
    /// A symbol that the graph has not or that has no value, a size that it does not take, a name that no step or input has,
    /// a kept input with rows.
    pub fn of(
        program: Arc<Program>,
        options: &CaptureOptions,
        home: Home,
    ) -> Result<(Calls, CaptureSizes, Vec<SplitStep>), Error> {
        let symbol = checked_symbols(&program, options)?;
        let sizes = sizes(&program, options, symbol)?;
        let parts = parts::parts(&program, &options.rows, &options.split_at, home)?;
        let mut kept = kept_numbers(&program, options)?;
        let users: Vec<&Input> = users(&program).collect();
        let updated = |name: &str| program.graph.outputs().iter().any(|o| o.updates.as_deref() == Some(name));
        let mut donated: BTreeSet<usize> = kept.iter().copied().filter(|&n| updated(&users[n].name)).collect();
        let inputs = users.len();
        kept.extend(program.state_numbers());
        donated.extend(program.state_numbers());
        let calls = Calls {
            parts: parts.parts,
            choosers: parts.choosers,
            spread: parts.spread,
            symbol: options.rows.clone(),
            dims: options.dims.clone(),
            kept,
            donated,
            inputs,
            program,
        };
        Ok((calls, sizes, parts.split))
    }

    /// The values of the symbols for so many rows.
    pub fn binding(&self, rows: usize) -> Result<Binding, Error> {
        let mut binding = self.dims.clone();
        let rows = i64::try_from(rows).map_err(|_| Error::Call(format!("{rows} rows")))?;
        binding.insert(self.symbol.clone(), rows);
        Ok(binding)
    }

    /// The plan of so many rows in memory of its own.
    ///
    /// # Errors
    /// A number of rows that the graph does not take.
    pub fn plan(&self, rows: usize) -> Result<Plan, Error> {
        let Program { graph, steps, layouts, .. } = &*self.program;
        let binding = self.claimed(rows)?;
        Plan::of(graph, steps, layouts, binding, &self.donated)
    }

    /// The plan of fewer rows in the memory of another.
    ///
    /// # Errors
    /// What fewer rows take more memory for.
    pub fn smaller(&self, plan: &Plan, rows: usize) -> Result<Plan, Error> {
        resized(&self.program, plan, self.binding(rows)?, &self.spread)
    }

    /// The values of the symbols, if they are what the graph claims of calls. A plan of more rows says nothing of that.
    ///
    /// # Errors
    /// A claim that these rows break.
    pub fn claimed(&self, rows: usize) -> Result<Binding, Error> {
        let binding = self.binding(rows)?;
        claims::check(&self.program.claims, &binding)?;
        Ok(binding)
    }

    /// All of the caller's tensors in order: inputs, and behind those the buffers of the model that the graph updates.
    pub fn tensors(&self) -> impl Iterator<Item = (usize, &Input)> {
        self.program.keepable()
    }

    /// The inputs that calls bring, with their numbers.
    pub fn called(&self) -> impl Iterator<Item = (usize, &Input)> {
        users(&self.program).enumerate().filter(|(number, _)| !self.kept.contains(number))
    }

    /// What an input's bytes behind those of a call are.
    pub fn padding(&self, number: usize) -> u8 {
        if self.choosers.contains(&number) { NOWHERE } else { ZERO }
    }

    /// What the kept tensors hold before anybody sets them: inputs zeros, buffers what the model's file has.
    ///
    /// # Errors
    /// A buffer without data; no memory.
    pub fn first_values(&self) -> Result<BTreeMap<usize, HostTensor>, Error> {
        let mut values = BTreeMap::new();
        let inputs = users(&self.program).enumerate().filter(|(number, _)| self.kept.contains(number));
        for (number, input) in inputs {
            values.insert(number, self.program.tensor_of(input, &self.dims)?);
        }
        let buffers = self.program.state()?.into_buffers();
        values.extend((self.inputs..).zip(buffers.map(|(_, tensor)| tensor)));
        Ok(values)
    }

    /// The number of what is kept under a name, and a tensor of its type.
    ///
    /// # Errors
    /// A name of nothing that is kept; no memory.
    pub fn kept_as(&self, name: &str) -> Result<(usize, HostTensor), Error> {
        let mut kept = self.tensors().filter(|(number, _)| self.kept.contains(number));
        let (number, input) = kept
            .find(|(_, input)| input.name == name)
            .ok_or_else(|| Error::Call(format!("the captured program keeps nothing of the name `{name}`")))?;
        Ok((number, self.program.tensor_of(input, &self.dims)?))
    }

    /// How many rows a call with these inputs has.
    ///
    /// # Errors
    /// Inputs that do not fit the graph or the sizes that were fixed, by name.
    pub fn rows(&self, inputs: &[&HostTensor]) -> Result<usize, Error> {
        let graph = &self.program.graph;
        if inputs.len() != self.called().count() {
            let names = self.called().map(|(_, input)| input.name.as_str());
            return Err(miscounted(&format!("captured `{}`", graph.name()), names, inputs.len()));
        }
        let mut given = inputs.iter();
        let mut all: Vec<Cow<'_, HostTensor>> = Vec::with_capacity(self.inputs);
        for (number, input) in users(&self.program).enumerate() {
            all.push(match self.kept.contains(&number) {
                true => Cow::Owned(self.program.shape_of(input, &self.dims)?),
                false => Cow::Borrowed(given.next().ok_or_else(|| Error::Call("an input is missing".to_owned()))?),
            });
        }
        for tensor in inputs {
            check_bytes(tensor)?;
        }
        let shapes: Vec<(DType, &[usize])> = all.iter().map(|t| (t.dtype, t.shape.as_slice())).collect();
        let binding = bind(graph, &shapes)?;
        for (name, value) in &self.dims {
            if let Some(got) = binding.get(name).filter(|got| *got != value) {
                return Err(Error::Call(format!("symbol `{name}` is {got}, captured for {value}")));
            }
        }
        let rows = binding.get(&self.symbol).and_then(|&rows| usize::try_from(rows).ok());
        rows.ok_or_else(|| Error::Call(format!("the inputs do not say what symbol `{}` is", self.symbol)))
    }
}

/// Refuses a tensor that has not as many bytes as its type takes.
fn check_bytes(tensor: &HostTensor) -> Result<(), Error> {
    let (expected, got) = (tensor.dtype.bytes_for(tensor.elements()), tensor.bytes.len());
    if expected == got {
        return Ok(());
    }
    Err(Error::Call(format!("a tensor {}{:?} takes {expected} bytes, has {got}", tensor.dtype, tensor.shape)))
}

/// The symbol that counts rows, when every other one has a value.
fn checked_symbols<'p>(program: &'p Program, options: &CaptureOptions) -> Result<&'p Symbol, Error> {
    let (name, symbols) = (program.graph.name(), program.graph.symbols());
    let known = |wanted: &str| symbols.iter().find(|symbol| symbol.name == *wanted);
    let rows = known(&options.rows);
    let rows = rows.ok_or_else(|| Error::Call(format!("`{name}` has no symbol `{}` to count rows", options.rows)))?;
    for (dim, &value) in &options.dims {
        let symbol = known(dim).filter(|symbol| symbol.name != rows.name);
        let symbol = symbol.ok_or_else(|| Error::Call(format!("`{name}` has no symbol `{dim}` beside its rows")))?;
        if !symbol.admits(value) {
            return Err(Error::Call(format!("symbol `{dim}` is {value}, outside {}", symbol.span())));
        }
    }
    match symbols.iter().find(|symbol| symbol.name != rows.name && !options.dims.contains_key(&symbol.name)) {
        Some(open) => Err(Error::Call(format!("the options do not say what symbol `{}` is", open.name))),
        None => Ok(rows),
    }
}

/// The sizes that the graph takes.
fn sizes(program: &Program, options: &CaptureOptions, symbol: &Symbol) -> Result<CaptureSizes, Error> {
    let takes = |&size: &usize| {
        let Ok(value) = i64::try_from(size) else { return false };
        let mut binding = options.dims.clone();
        binding.insert(options.rows.clone(), value);
        symbol.admits(value) && claims::check(&program.claims, &binding).is_ok()
    };
    let taken = CaptureSizes::new(options.sizes.all().iter().copied().filter(takes));
    taken.map_err(|e| Error::Call(format!("`{}` with {} in {}: {e}", program.graph.name(), symbol.name, symbol.span())))
}

/// The numbers of the inputs that are kept.
fn kept_numbers(program: &Program, options: &CaptureOptions) -> Result<BTreeSet<usize>, Error> {
    let number = |name: &String| {
        let found = users(program).enumerate().find(|(_, input)| input.name == *name);
        let (number, input) = found.ok_or_else(|| Error::Call(format!("there is no input `{name}` to be kept")))?;
        let ty = program.graph.ty(input.value);
        match Rows::of(ty, &options.rows) {
            Rows::None => Ok(number),
            _ => Err(Error::Call(format!("input `{name}` is {ty}: it has rows, and every call brings them"))),
        }
    };
    options.kept.iter().map(number).collect()
}

impl Program {
    /// A tensor of the type of an input, of zeros.
    fn tensor_of(&self, input: &Input, dims: &BTreeMap<String, i64>) -> Result<HostTensor, Error> {
        let tensor = self.shape_of(input, dims)?;
        let bytes = tensor.dtype.bytes_for(tensor.elements());
        check_memory::<u8>(bytes, tensor.dtype, &tensor.shape)?;
        Ok(HostTensor { bytes: vec![0; bytes], ..tensor })
    }

    /// The same without its bytes.
    pub(super) fn shape_of(&self, input: &Input, dims: &BTreeMap<String, i64>) -> Result<HostTensor, Error> {
        let ty = self.graph.ty(input.value);
        let extent = |dim: &Dim| {
            let value = dim.eval(&|symbol| dims.get(symbol).copied()).map_err(|e| Error::Call(e.to_string()))?;
            usize::try_from(value).map_err(|_| Error::Call(format!("input `{}`: extent {dim} is {value}", input.name)))
        };
        let shape = ty.shape.iter().map(extent).collect::<Result<Vec<usize>, Error>>()?;
        let elements = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        elements.ok_or_else(|| Error::Call(format!("input `{}` does not fit the address space", input.name)))?;
        Ok(HostTensor { dtype: ty.dtype, shape, bytes: Vec::new() })
    }

    /// The tensors that are kept, by their numbers, with their names: inputs, and behind those the buffers of a state.
    fn keepable(&self) -> impl Iterator<Item = (usize, &Input)> {
        users(self).chain(state::buffers(&self.graph).map(|(_, input)| input)).enumerate()
    }
}
