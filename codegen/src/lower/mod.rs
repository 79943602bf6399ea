//! From the body of a fused region to a row program.
//!
//! The body is a graph of primitives whose axes fall into *rows* (independent of each other), and *lanes* (what
//! reductions run over and slices cut). `Space` finds that division; then every output is emitted on demand:
//! layout ops on inputs become index maps of loads (`View`), layout ops on computed values are free or become
//! lane instructions, everything else is one instruction per node.
//!
//! Lowering refuses what has no row program, naming the node; the caller then runs the body unfused.

mod bits;
mod claims;
mod counted;
mod emit;
pub mod in_place;
mod places;
mod reduce;
mod repeat;
mod run;
mod space;
mod spread;
mod strides;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeSet;

use fusewright_abi::ParamAccess;
use fusewright_fusion::region::{self, Lanes, Piece, RowForm, Stored};
use fusewright_graph::axes::AxisMap;
use fusewright_graph::{Dim, Graph, Input, InputKind, NodeId};

use crate::kernel::verify::MAX_LANES;
use crate::kernel::{
    DimDecl, DimOrigin, INNER, InstOp, Kernel, LANE, Order, Over, Param, ParamId, ROW, Segment, Val, simplify,
};

use emit::Emitter;
pub(crate) use space::Space;
pub use strides::{Outputs, stride_name};
pub(crate) use view::View;

/// Why a body has no row program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{message}", node.map(|n| format!("node {}: ", n.0)).unwrap_or_default())]
pub struct LowerError {
    /// The node of the body at fault, if one is.
    pub node: Option<NodeId>,
    /// What is missing.
    pub message: String,
}

impl LowerError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        LowerError { node: None, message: message.into() }
    }

    pub(crate) fn at(node: NodeId, message: impl ToString) -> Self {
        LowerError { node: Some(node), message: message.to_string() }
    }
}

/// What lowering leaves to the target: the order of a reduction over that many lanes.
pub trait Orders {
    /// Order of a reduction over a whole row.
    fn row(&self, lanes: &Dim) -> Order;
    /// Order of each of some reductions over whole rows of which one waits for another.
    fn chained(&self, lanes: &Dim) -> Order {
        self.row(lanes)
    }
    /// Order of a reduction over a group of lanes.
    fn group(&self, size: &Dim) -> Order;
    /// Says that the target searches groups of lanes for their largest in one instruction.
    fn searches_groups(&self) -> bool {
        false
    }
}

/// Gives all reductions over whole rows their order where one waits for another.
fn order_chains(kernel: &mut Kernel, orders: &dyn Orders) {
    if !kernel.segments.iter().any(has_chain) {
        return;
    }
    for segment in &mut kernel.segments {
        for inst in &mut segment.insts {
            if let InstOp::Reduce { over: Over::Row, order, .. } = &mut inst.op {
                *order = orders.chained(&segment.types[inst.args[0].0 as usize].shape.elements());
            }
        }
    }
}

/// Whether one reduction over whole rows waits for another.
fn has_chain(segment: &Segment) -> bool {
    let mut waits = vec![false; segment.types.len()];
    segment.insts.iter().any(|inst| {
        let reduces = matches!(inst.op, InstOp::Reduce { over: Over::Row, .. });
        let late = inst.args.iter().any(|arg| waits[arg.0 as usize]);
        inst.results.iter().for_each(|result| waits[result.0 as usize] = late || reduces);
        reduces && late
    })
}

/// Lowers a body of primitives to one kernel. Its parameters are the body's inputs, then its outputs, in order; all
/// are contiguous. What a scatter writes into is in place: the output's memory holds the input's elements before. An output
/// that updates an input may lie in its memory if [`in_place::why_not`] lets it.
///
/// # Errors
/// Ops or layouts without a row program, outputs over different rows, too many lanes.
pub fn lower(name: &str, body: &Graph, orders: &dyn Orders) -> Result<Kernel, LowerError> {
    lower_to(name, body, orders, Outputs::Contiguous)
}

/// As [`lower`], with outputs that may lie in wider memory.
///
/// # Errors
/// As [`lower`].
pub fn lower_to(name: &str, body: &Graph, orders: &dyn Orders, outputs: Outputs) -> Result<Kernel, LowerError> {
    let (form, axes) = form(body)?;
    // Bits do not depend on it: a reduction over leading lanes adds up in the order of one over a row.
    let wide = Lanes::beside_reductions(&form.body, &axes);
    let mut with = |lanes| lower_lanes(name, body, (form.clone(), &axes, lanes), orders, outputs);
    match wide.map(&mut with) {
        Some(Ok(kernel)) => Ok(kernel),
        _ => with(Lanes::of(&form.body, &axes)),
    }
}

/// Lowers a body whose lanes are known.
fn lower_lanes(
    name: &str,
    body: &Graph,
    (mut form, axes, lanes): (RowForm, &AxisMap, Lanes),
    orders: &dyn Orders,
    outputs: Outputs,
) -> Result<Kernel, LowerError> {
    let views = View::all(&form.body, axes)?;
    let space = Space::of(&form, axes, &views, lanes)?;
    let mut params = params(body, &form);
    if outputs == Outputs::Strided {
        strides::declare(body, &mut form, &mut params);
    }
    let mut segments: Vec<Segment> = Vec::new();
    for inner in space.segments() {
        let mut segment = Emitter::new(&form, axes, &views, &space, &params, orders).segment(inner)?;
        if segments.iter().any(|s| s.name == segment.name) {
            segment.name = format!("{}_{}", segment.name, segments.len());
        }
        segments.push(segment);
    }
    let types = segments.iter().flat_map(|s| &s.types);
    if let Some(lanes) = types.filter_map(|ty| ty.shape.elements().as_const()).find(|&n| n > MAX_LANES) {
        return Err(LowerError::new(format!("{lanes} lanes, at most {MAX_LANES}")));
    }
    let rows = space.rows(axes);
    let mut kernel =
        Kernel { name: name.to_owned(), dims: Vec::new(), claims: claims::claims(&form.body), params, rows, segments };
    kernel = simplify::without_unused(&kernel);
    order_chains(&mut kernel, orders);
    in_place::settle(&mut kernel);
    kernel.dims = dims(&kernel);
    Ok(kernel)
}

/// The row program of a body and its axes, as the analysis of the region has them where it takes the body.
fn form(body: &Graph) -> Result<(RowForm, AxisMap), LowerError> {
    match region::Space::find(body, true) {
        Ok(space) => Ok((space.form.unwrap_or_else(|| RowForm::plain(body)), space.axes)),
        Err(_) => {
            let axes = AxisMap::of(body).map_err(|e| LowerError::at(e.node, e.message))?;
            Ok((RowForm::plain(body), axes))
        }
    }
}

/// The parameters of a body: its inputs, then its outputs.
fn params(body: &Graph, form: &RowForm) -> Vec<Param> {
    let param = |name: String, value, access, early| {
        let ty = body.ty(value);
        let (dtype, shape) = (ty.dtype, ty.shape.clone());
        Param { name, dtype, shape, access, alias: None, donated: false, early }
    };
    let inputs = body.inputs().iter().map(|input| {
        let early = !matches!(input.kind, InputKind::User);
        param(input.name.clone(), input.value, ParamAccess::In, early)
    });
    let outputs = body.outputs().iter().enumerate().map(|(i, o)| {
        let plain = param(format!("out{i}"), o.value, ParamAccess::Out, false);
        let position = |found: &dyn Fn(&Input) -> bool| body.inputs().iter().position(found).map(|i| ParamId(i as u32));
        match (scattered(form, i), &o.updates) {
            (Some(input), _) => {
                let alias = Some(ParamId(input as u32));
                Param { access: ParamAccess::InOut, alias, ..plain }
            }
            (None, Some(name)) => {
                let alias = position(&|input| input.name == *name && body.ty(input.value) == body.ty(o.value));
                Param { alias, ..plain }
            }
            (None, None) => plain,
        }
    });
    inputs.chain(outputs).collect()
}

/// The input that an output overwrites in part, if it is a scatter into one.
fn scattered(form: &RowForm, output: usize) -> Option<usize> {
    let own = form.body.outputs().iter().zip(&form.pieces);
    let mut scatters = own.filter(|(_, Piece { output: of, .. })| *of == output);
    let into = scatters.find_map(|(o, _)| Some(Stored::of(&form.body, o.value).scatter?.input))?;
    let input = form.body.inputs().iter().position(|input| input.value == into)?;
    Some(form.inputs[input])
}

/// Declares every symbol that the kernel mentions, as the extent of a parameter's axis where it is one.
fn dims(kernel: &Kernel) -> Vec<DimDecl> {
    let mut names = BTreeSet::new();
    kernel.rows.collect_symbols(&mut names);
    kernel.claims.iter().flat_map(|c| [&c.least, &c.most]).for_each(|side| side.collect_symbols(&mut names));
    kernel.params.iter().flat_map(|p| &p.shape).for_each(|e| e.collect_symbols(&mut names));
    for segment in &kernel.segments {
        segment.inner.collect_symbols(&mut names);
        segment.types.iter().for_each(|ty| ty.shape.elements().collect_symbols(&mut names));
        segment.insts.iter().filter_map(|i| i.op.index()).for_each(|index| index.collect_symbols(&mut names));
    }
    names.retain(|name| ![ROW, INNER, LANE].contains(&name.as_str()) && Val::from_symbol(name).is_none());
    let origin = |name: &str| {
        let axis_of = |p: &Param| p.shape.iter().position(|extent| extent.as_symbol() == Some(name));
        let found = kernel.params.iter().enumerate().find_map(|(i, p)| Some((ParamId(i as u32), axis_of(p)?)));
        found.map_or(DimOrigin::Symbol, |(param, axis)| DimOrigin::Extent(param, axis))
    };
    names.iter().map(|name| DimDecl { name: name.clone(), origin: origin(name) }).collect()
}
