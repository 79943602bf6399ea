//! The verifier: what every graph must satisfy. [`verify`] reports all violations, not only the first.
//!
//! | code | invariant |
//! |---|---|
//! | `verify.order` | an operand is an input or a result of an earlier node |
//! | `verify.operands` | an op takes the number and types of operands that it has |
//! | `verify.results` | results have the number and types that the op yields |
//! | `verify.symbol` | symbols are declared once, with a bare name and a range that is not empty |
//! | `verify.undeclared` | symbols in types and attributes are declared |
//! | `verify.extent` | extents are not negative and divide by no zero, as far as ranges tell; bytes can be counted |
//! | `verify.rank` | tensors have no more axes than there is use for |
//! | `verify.input` | names of inputs are not empty and distinct |
//! | `verify.output` | outputs are values of the graph |
//! | `verify.update` | an updated input exists, has the output's type, and is updated once |
//! | `verify.literal` | a literal is a value of its dtype |
//! | `verify.slice` | a slice lies inside its axis, and `top_k` takes no more than there is, as far as ranges tell |
//! | `verify.weight` | a weight has static extents, one stride per axis, and all its elements inside its storage |
//! | `verify.expansion` | the expansion of a composite satisfies all of the above |
//!
//! That every value is defined once, by the input or node that its definition names, holds by construction.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::dim_range::Ranges;
use crate::graph::{Graph, Input, InputKind, Node, NodeId, Op, Value, Weight};
use crate::infer::infer;
use crate::ops::{Composite, Known};
use crate::prim::Prim;
use crate::text::lexer::is_bare;
use crate::text::{holds, print_literal};
use crate::ty::{MAX_AXES, TensorType};

/// Most elements of a tensor, of 64 bits each: what a signed number of bytes can count.
const MAX_ELEMENTS: u64 = 1 << 60;

/// Checks a graph.
///
/// # Errors
/// All violations, those of symbols and inputs first, then by node, then those of outputs.
pub fn verify(graph: &Graph) -> Result<(), Vec<Diagnostic>> {
    let declared = graph.symbols().iter().map(|s| s.name.as_str()).collect();
    let (ranges, composites) = (Ranges::new(graph.symbols()), Known::default());
    let mut verifier = Verifier { graph, declared, ranges, composites, fine: HashSet::new(), found: Vec::new() };
    verifier.symbols();
    verifier.inputs();
    let mut defined = vec![false; graph.value_count()];
    graph.inputs().iter().for_each(|input| defined[input.value.0 as usize] = true);
    for id in graph.node_ids() {
        verifier.node(id, &defined);
        graph.node(id).results.iter().for_each(|result| defined[result.0 as usize] = true);
    }
    verifier.outputs(&defined);
    if verifier.found.is_empty() { Ok(()) } else { Err(verifier.found) }
}

struct Verifier<'g> {
    graph: &'g Graph,
    declared: BTreeSet<&'g str>,
    ranges: Ranges<'g>,
    /// Result types of composites, and what is wrong with their expansions.
    composites: Known<(Vec<TensorType>, Vec<String>)>,
    /// Extents that nothing is wrong with.
    fine: HashSet<Dim>,
    found: Vec<Diagnostic>,
}

impl Verifier<'_> {
    fn report(&mut self, node: Option<NodeId>, code: &'static str, message: String) {
        let diagnostic = Diagnostic::new(code, message);
        self.found.push(match node {
            Some(id) => diagnostic.at(self.graph, id),
            None => diagnostic,
        });
    }

    fn symbols(&mut self) {
        for symbol in self.graph.symbols() {
            let name = &symbol.name;
            if !is_bare(name) {
                self.report(None, "verify.symbol", format!("`{}` is no name of a symbol", name.escape_debug()));
            }
            if let Some(max) = symbol.max.filter(|max| *max < symbol.min) {
                self.report(
                    None,
                    "verify.symbol",
                    format!("symbol `{name}` has the empty range {}..{max}", symbol.min),
                );
            }
        }
    }

    fn inputs(&mut self) {
        let mut names = BTreeSet::new();
        for input in self.graph.inputs() {
            let name = &input.name;
            if name.is_empty() {
                self.report(None, "verify.input", "an input has an empty name".to_owned());
            } else if !names.insert(name) {
                self.report(None, "verify.input", format!("two inputs are named `{name}`"));
            }
            let ty = self.graph.ty(input.value);
            self.extents(None, &|| format!("input `{name}`"), &ty.shape);
            if let InputKind::Weight(Some(weight)) = &input.kind {
                self.weight(input, ty, weight);
            }
        }
    }

    fn weight(&mut self, input: &Input, ty: &TensorType, weight: &Weight) {
        if let Err(reason) = weight_fits(ty, weight) {
            self.report(None, "verify.weight", format!("weight `{}`: {reason}", input.name));
        }
    }

    /// Declared symbols, no zero divisors, no negative extents.
    fn extents(&mut self, node: Option<NodeId>, what: &dyn Fn() -> String, dims: &[Dim]) {
        for dim in dims {
            if dim.as_const().map_or_else(|| self.fine.contains(dim), |extent| extent >= 0) {
                continue;
            }
            if !self.dim(node, what, dim) {
                continue;
            }
            if self.ranges.bounds(dim).is_ok_and(|b| b.is_negative()) {
                self.report(node, "verify.extent", format!("{}: extent {dim} is negative", what()));
            } else {
                self.fine.insert(dim.clone());
            }
        }
        if dims.len() > MAX_AXES {
            let rank = dims.len();
            self.report(node, "verify.rank", format!("{}: a tensor of {rank} axes, more than {MAX_AXES}", what()));
        }
        let known = || dims.iter().filter_map(Dim::as_const).map(i64::unsigned_abs);
        let elements = known().try_fold(1u64, u64::checked_mul);
        if elements.is_none_or(|n| n > MAX_ELEMENTS) && known().all(|n| n > 0) {
            self.report(node, "verify.extent", format!("{}: a tensor of more than 2^60 elements", what()));
        }
    }

    /// Declared symbols, no zero divisors.
    fn dim(&mut self, node: Option<NodeId>, what: &dyn Fn() -> String, dim: &Dim) -> bool {
        if dim.as_const().is_some() {
            return true;
        }
        let mut names = BTreeSet::new();
        dim.collect_symbols(&mut names);
        let unknown: Vec<&String> = names.iter().filter(|n| !self.declared.contains(n.as_str())).collect();
        for name in &unknown {
            let message = format!("{}: symbol `{name}` of {dim} is not declared", what());
            self.report(node, "verify.undeclared", message);
        }
        let divides = self.ranges.bounds(dim).is_ok();
        if !divides {
            self.report(node, "verify.extent", format!("{}: {dim} divides by zero", what()));
        }
        unknown.is_empty() && divides
    }

    fn node(&mut self, id: NodeId, defined: &[bool]) {
        let node = self.graph.node(id);
        let mut ordered = true;
        for (i, operand) in node.operands.iter().enumerate() {
            if !defined.get(operand.0 as usize).is_some_and(|known| *known) {
                ordered = false;
                let message = format!("operand {i} of `{}` is not defined before it", node.op.name());
                self.report(Some(id), "verify.order", message);
            }
        }
        if ordered {
            self.types(id, node);
        }
        let what = &|| format!("`{}`", node.op.name());
        if let Op::Prim(prim) = &node.op {
            for dim in prim.dims() {
                self.dim(Some(id), what, dim);
            }
            self.literal(id, prim);
        }
        for &result in &node.results {
            self.extents(Some(id), what, &self.graph.ty(result).shape);
        }
    }

    fn literal(&mut self, id: NodeId, prim: &Prim) {
        if let Prim::Literal(literal) = prim
            && !holds(literal)
        {
            self.report(Some(id), "verify.literal", format!("`{}` is no value of its dtype", print_literal(literal)));
        }
    }

    /// Operands are known to be defined.
    fn types(&mut self, id: NodeId, node: &Node) {
        let operands: Vec<&TensorType> = node.operands.iter().map(|&v| self.graph.ty(v)).collect();
        let inferred = match &node.op {
            Op::Prim(prim) => infer(prim, &operands),
            Op::Composite(composite) => self.composite(id, composite, &operands),
        };
        let inferred = match inferred {
            Ok(inferred) => inferred,
            Err(error) => return self.report(Some(id), "verify.operands", error.to_string()),
        };
        let actual: Vec<TensorType> = node.results.iter().map(|&v| self.graph.ty(v).clone()).collect();
        if actual != inferred {
            let message = format!("`{}` yields {inferred:?}, the graph says {actual:?}", node.op.name());
            self.report(Some(id), "verify.results", message);
        }
        if let Op::Prim(prim) = &node.op {
            self.ranges_of(id, prim, &operands);
        }
    }

    fn composite(
        &mut self,
        id: NodeId,
        composite: &Composite,
        operands: &[&TensorType],
    ) -> Result<Vec<TensorType>, crate::infer::TypeError> {
        let (types, wrong) = self.composites.of(composite, operands, || {
            let body = composite.body(operands)?;
            // Symbols are declared here with no range; undeclared ones are reported on the operands.
            let inner = verify(&body).err().unwrap_or_default().into_iter();
            let wrong = inner.map(|d| format!("expansion of `{}`: {} ({})", composite.name(), d.message, d.code));
            Ok((body.outputs().iter().map(|o| body.ty(o.value).clone()).collect(), wrong.collect()))
        })?;
        for message in wrong {
            self.report(Some(id), "verify.expansion", message);
        }
        Ok(types)
    }

    /// Operands are known to fit.
    fn ranges_of(&mut self, id: NodeId, prim: &Prim, operands: &[&TensorType]) {
        let negative = |ranges: &mut Ranges<'_>, dim: Dim| ranges.bounds(&dim).is_ok_and(|b| b.is_negative());
        let message = match prim {
            Prim::Slice { axis, start, end, .. } => {
                let extent = &operands[0].shape[*axis];
                let outside = [start.clone(), end - start, extent - end].map(|dim| negative(&mut self.ranges, dim));
                outside.contains(&true).then(|| format!("[{start}..{end}] of extent {extent}"))
            }
            Prim::TopK { k } => operands[0].shape.last().and_then(|extent| {
                let outside = [k.clone(), extent - k].map(|dim| negative(&mut self.ranges, dim));
                outside.contains(&true).then(|| format!("{k} elements of an axis of {extent}"))
            }),
            _ => None,
        };
        if let Some(message) = message {
            self.report(Some(id), "verify.slice", format!("`{}` takes {message}", prim.name()));
        }
    }

    fn outputs(&mut self, defined: &[bool]) {
        let inputs: BTreeMap<&str, Value> = self.graph.inputs().iter().map(|i| (i.name.as_str(), i.value)).collect();
        let mut updated = BTreeSet::new();
        for (i, output) in self.graph.outputs().iter().enumerate() {
            if !defined.get(output.value.0 as usize).is_some_and(|known| *known) {
                self.report(None, "verify.output", format!("output {i} is no value of the graph"));
                continue;
            }
            let Some(name) = &output.updates else { continue };
            let ty = self.graph.ty(output.value);
            match inputs.get(name.as_str()).map(|&v| self.graph.ty(v)) {
                None => self.report(None, "verify.update", format!("output {i} updates `{name}`, which is no input")),
                Some(input) if input != ty => {
                    self.report(None, "verify.update", format!("output {i} is {ty}, the input `{name}` {input}"));
                }
                Some(_) if !updated.insert(name) => {
                    self.report(None, "verify.update", format!("the input `{name}` is updated twice"));
                }
                Some(_) => {}
            }
        }
    }
}

/// Whether a strided view lies inside its storage.
fn weight_fits(ty: &TensorType, weight: &Weight) -> Result<(), String> {
    if weight.strides.len() != ty.rank() {
        return Err(format!("{} strides for {ty}", weight.strides.len()));
    }
    let mut last = Some(weight.offset);
    for (dim, stride) in ty.shape.iter().zip(&weight.strides) {
        let extent = dim.as_const().and_then(|n| usize::try_from(n).ok());
        let extent = extent.ok_or_else(|| format!("{ty} is not static"))?;
        if extent == 0 {
            return Ok(());
        }
        last = last.and_then(|at| (extent - 1).checked_mul(*stride).and_then(|step| at.checked_add(step)));
    }
    let bits = last.and_then(|at| at.checked_add(1)?.checked_mul(ty.dtype.bits() as usize));
    match bits {
        Some(bits) if bits.div_ceil(8) <= weight.storage.len() => Ok(()),
        _ => Err(format!("elements of {ty} lie outside of {} bytes", weight.storage.len())),
    }
}

#[cfg(test)]
mod tests;
