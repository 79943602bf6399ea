//! Values of symbols from the shapes of inputs.

use std::collections::BTreeSet;

use super::{InterpError, Symbols};
use crate::dim::Dim;
use crate::graph::{Graph, Input};
use crate::tensor::Tensor;

/// Values of a graph's symbols that agree with the shapes of its inputs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Binding {
    symbols: Symbols,
}

/// An extent that an input must have.
struct Equation<'a> {
    input: &'a str,
    axis: usize,
    dim: &'a Dim,
    value: i64,
}

impl Binding {
    /// Solves the input shapes for the symbols: each extent that is linear in one unknown symbol gives its value.
    ///
    /// # Errors
    /// A tensor whose dtype, rank or extents do not fit its input, and symbols outside their range.
    pub fn of(graph: &Graph, inputs: &[Tensor], given: &Symbols) -> Result<Binding, InterpError> {
        let users: Vec<&Input> = user_inputs(graph).collect();
        if users.len() != inputs.len() {
            let (expected, got) = (users.len(), inputs.len());
            return Err(InterpError::InputCount { graph: graph.name().to_owned(), expected, got });
        }
        let mut equations = Vec::new();
        for (input, tensor) in users.into_iter().zip(inputs) {
            let ty = graph.ty(input.value);
            if tensor.dtype() != ty.dtype || tensor.shape().len() != ty.rank() {
                let message = format!("is {}{:?}, expected {ty}", tensor.dtype(), tensor.shape());
                return Err(InterpError::Input { name: input.name.clone(), message });
            }
            for (axis, (dim, &extent)) in ty.shape.iter().zip(tensor.shape()).enumerate() {
                let value = i64::try_from(extent).unwrap_or(i64::MAX);
                equations.push(Equation { input: &input.name, axis, dim, value });
            }
        }
        let mut binding = Binding { symbols: given.clone() };
        while equations.iter().any(|e| binding.solve(e.dim, e.value)) {}
        for equation in &equations {
            binding.check(equation)?;
        }
        binding.check_ranges(graph)?;
        Ok(binding)
    }

    /// Value of a symbol.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.symbols.get(name).copied()
    }

    /// Value of a dim.
    ///
    /// # Errors
    /// A symbol without a value, or a value beyond 64 bits, in words.
    pub fn eval(&self, dim: &Dim) -> Result<i64, String> {
        dim.eval(&|name| self.get(name)).map_err(|error| error.to_string())
    }

    /// Extents of a shape.
    ///
    /// # Errors
    /// As [`Binding::eval`], and negative extents.
    pub fn shape(&self, shape: &[Dim]) -> Result<Vec<usize>, String> {
        let extent = |dim: &Dim| {
            let value = self.eval(dim)?;
            usize::try_from(value).map_err(|_| format!("extent {dim} is {value}"))
        };
        shape.iter().map(extent).collect()
    }

    /// Binds the only unknown symbol of an extent; true if that made progress.
    fn solve(&mut self, dim: &Dim, value: i64) -> bool {
        let mut names = BTreeSet::new();
        dim.collect_symbols(&mut names);
        names.retain(|name| !self.symbols.contains_key(name));
        let mut names = names.into_iter();
        let (Some(name), None) = (names.next(), names.next()) else { return false };
        let Some((slope, rest)) = dim.split_linear(&name) else { return false };
        let (Ok(slope), Ok(rest)) = (self.eval(&slope), self.eval(&rest)) else { return false };
        let root = value.checked_sub(rest).and_then(|left| match left.checked_rem(slope)? {
            0 => left.checked_div(slope),
            _ => None,
        });
        root.is_some_and(|root| self.symbols.insert(name, root).is_none())
    }

    fn check(&self, equation: &Equation<'_>) -> Result<(), InterpError> {
        let Equation { input, axis, dim, value } = equation;
        let error = |message| Err(InterpError::Input { name: (*input).to_owned(), message });
        match self.eval(dim) {
            Ok(expected) if expected == *value => Ok(()),
            Ok(expected) if dim.as_const().is_some() => {
                error(format!("axis {axis} has extent {value}, expected {expected}"))
            }
            Ok(expected) => error(format!("axis {axis} has extent {value}, expected {dim} = {expected}")),
            Err(message) => error(format!("axis {axis} has extent {value}, which does not give {dim}: {message}")),
        }
    }

    fn check_ranges(&self, graph: &Graph) -> Result<(), InterpError> {
        for symbol in graph.symbols() {
            let Some(value) = self.get(&symbol.name) else { continue };
            if !symbol.admits(value) {
                let message = format!("{value} is outside {}", symbol.span());
                return Err(InterpError::Symbol { name: symbol.name.clone(), message });
            }
        }
        Ok(())
    }
}

/// The symbols that the shapes of user inputs give: each extent that is linear in one unknown symbol gives its value.
/// Whether the shapes fit is not asked.
pub fn solve(graph: &Graph, shapes: &[&[usize]]) -> Symbols {
    let mut binding = Binding::default();
    let mut open: Vec<(&Dim, i64)> = Vec::new();
    for (input, shape) in user_inputs(graph).zip(shapes) {
        for (dim, &extent) in graph.ty(input.value).shape.iter().zip(*shape) {
            let value = i64::try_from(extent).unwrap_or(i64::MAX);
            match dim.as_symbol() {
                Some(name) => {
                    binding.symbols.entry(name.to_owned()).or_insert(value);
                }
                None if dim.as_const().is_none() => open.push((dim, value)),
                None => {}
            }
        }
    }
    while open.iter().any(|(dim, value)| binding.solve(dim, *value)) {}
    binding.symbols
}

/// The inputs that a call gives, in order.
pub(super) fn user_inputs(graph: &Graph) -> impl Iterator<Item = &Input> {
    graph.inputs().iter().filter(|input| input.kind.is_given())
}
