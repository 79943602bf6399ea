//! A fused graph evaluated region by region in the Kernel IR interpreter: what its program must compute, to the bit.

use std::collections::BTreeMap;

use fusewright_abi::{ParamAccess, Target};
use fusewright_codegen::kernel::interp::{Buffer, run};
use fusewright_codegen::kernel::{DimOrigin, InstOp, Kernel, Param};
use fusewright_fusion::region::{Kind, Step as Planned};
use fusewright_graph::interp::{self, Symbols};
use fusewright_graph::scalar::Accuracy;
use fusewright_graph::tensor::Tensor;
use fusewright_graph::{Graph, Op, Prim, Value};

use super::{Difference, options, same};
use crate::inputs::shape;
use crate::program::single;
use crate::{CompileError, Compiled, Compiler, Fused, Options, compile};

/// What outputs hold before a kernel runs, so that what it does not write shows.
const UNWRITTEN: u8 = 0xa5;

/// One kernel in both forms.
struct Pair {
    lowered: Kernel,
    expanded: Kernel,
}

enum Work {
    Kernel(Box<Pair>),
    /// A matrix product or attention, by the library that the program uses: its order of summation is its own.
    Library(Box<Compiled>),
    /// Only moves elements, or has no kernel.
    Reference(Graph),
}

struct Step {
    work: Work,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

/// A graph of one node as a program.
fn library(body: &Graph) -> Result<Work, Difference> {
    let compiled = compile(body, &Target::Cpu, &Options { fuse: false, ..options() });
    compiled.map(|c| Work::Library(Box::new(c))).map_err(|e| Difference::new("compiling fails", e))
}

/// The steps of a fused graph at one binding of its symbols.
pub(super) struct Chain<'f> {
    graph: &'f Graph,
    symbols: &'f Symbols,
    steps: Vec<Step>,
}

impl<'f> Chain<'f> {
    /// Lowers every region, and every lone op that has a row program.
    pub fn of(fused: &'f Fused, compiler: &Compiler, symbols: &'f Symbols) -> Result<Chain<'f>, Difference> {
        let graph = &fused.graph;
        let mut steps = Vec::new();
        for &step in &fused.partition.steps {
            match (fused.partition.kernel(step), step) {
                (Some(region), _) => {
                    let body = region.expand_body().map_err(|e| Difference::new("expanding fails", e))?;
                    let pair = pair(compiler, &region.name, &body)?;
                    let work = match pair {
                        Some(pair) => Work::Kernel(Box::new(pair)),
                        None if region.kind == Kind::Op => Work::Reference(region.body.clone()),
                        None => return Err(Difference::new("a region has no kernel", &body)),
                    };
                    steps.push(Step { work, inputs: region.inputs.clone(), outputs: region.outputs.clone() });
                }
                (None, Planned::Node(id)) => {
                    let node = graph.node(id);
                    let body = single(graph, node).map_err(|e| Difference::new("expanding fails", e))?;
                    let (inputs, outputs) = (node.operands.clone(), node.results.clone());
                    let work = match &node.op {
                        Op::Prim(Prim::MatMul { .. } | Prim::GroupedMatMul { .. } | Prim::Sdpa(_)) => library(&body)?,
                        _ => Work::Reference(body),
                    };
                    steps.push(Step { work, inputs, outputs });
                }
                (None, _) => return Err(Difference::new("a step of the partition is missing", graph)),
            }
        }
        Ok(Chain { graph, symbols, steps })
    }

    /// The outputs on given inputs.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Difference> {
        let mut values: BTreeMap<Value, Tensor> =
            self.graph.inputs().iter().map(|i| i.value).zip(inputs.iter().cloned()).collect();
        for step in &self.steps {
            let operands: Vec<Tensor> = step.inputs.iter().map(|v| values[v].clone()).collect();
            let results = match &step.work {
                Work::Kernel(pair) => pair.run(&operands, &self.shapes(step)?, self.symbols)?,
                Work::Library(compiled) => super::run(compiled, &operands, 1, self.symbols)?,
                Work::Reference(body) => interp::run(body, &operands, self.symbols)
                    .map_err(|e| Difference::new("the graph interpreter fails", e))?,
            };
            values.extend(step.outputs.iter().copied().zip(results));
        }
        Ok(self.graph.outputs().iter().map(|o| values[&o.value].clone()).collect())
    }

    /// Shapes of what a step reads and writes, in the order of its kernel's parameters.
    fn shapes(&self, step: &Step) -> Result<Vec<Vec<usize>>, Difference> {
        let of = |&value: &Value| shape(&self.graph.ty(value).shape, self.symbols);
        let shapes = step.inputs.iter().chain(&step.outputs).map(of).collect::<Result<_, _>>();
        shapes.map_err(|e| Difference::new("a shape has no value", e))
    }
}

impl Pair {
    /// The results of the expanded form; those of the lowered one must be the same where its functions are exact.
    fn run(&self, operands: &[Tensor], shapes: &[Vec<usize>], symbols: &Symbols) -> Result<Vec<Tensor>, Difference> {
        let expanded = launch(&self.expanded, operands, shapes, symbols)?;
        if !approximate(&self.lowered) {
            let lowered = launch(&self.lowered, operands, shapes, symbols)?;
            same("expansion changes bits", symbols, &expanded, &lowered)
                .map_err(|d| Difference { message: format!("{}\n{}", d.message, self.lowered), ..d })?;
        }
        Ok(expanded)
    }
}

/// Whether a kernel holds functions that its expanded form only approximates.
pub(super) fn approximate(kernel: &Kernel) -> bool {
    let inexact = |op: &InstOp| matches!(op, InstOp::Map(f) if f.spec().accuracy != Accuracy::Exact);
    kernel.segments.iter().flat_map(|s| &s.insts).any(|inst| inexact(&inst.op))
}

fn pair(compiler: &Compiler, name: &str, body: &Graph) -> Result<Option<Pair>, Difference> {
    match compiler.kernel(name, body) {
        Ok((lowered, expanded)) => Ok(Some(Pair { lowered, expanded })),
        Err(CompileError::Lower(_)) => Ok(None),
        Err(error) => Err(Difference::new("lowering fails", format!("{error}\n{body}"))),
    }
}

fn launch(
    kernel: &Kernel,
    operands: &[Tensor],
    shapes: &[Vec<usize>],
    symbols: &Symbols,
) -> Result<Vec<Tensor>, Difference> {
    let failed = |message: String| Difference::new("the Kernel IR interpreter fails", format!("{message}\n{kernel}"));
    let value = |origin: &DimOrigin, name: &str| match origin {
        DimOrigin::Extent(param, axis) => Some(shapes.get(param.0 as usize)?.get(*axis).copied()? as i64),
        DimOrigin::Stride(param, axis) => {
            Some(shapes.get(param.0 as usize)?.get(axis + 1..)?.iter().product::<usize>() as i64)
        }
        DimOrigin::Symbol => symbols.get(name).copied(),
    };
    let mut dims = BTreeMap::new();
    for dim in &kernel.dims {
        let bound = value(&dim.origin, &dim.name).ok_or_else(|| failed(format!("`{}` has no value", dim.name)))?;
        dims.insert(dim.name.clone(), bound);
    }
    let mut given = operands.iter();
    let begins_as =
        |param: &Param| param.alias.and_then(|p| operands.get(p.0 as usize)).map_or(Vec::new(), Tensor::to_bytes);
    let buffer = |(param, shape): (&Param, &Vec<usize>)| {
        // What may lie in the memory of an input does, so that rows that overwrite what others read are met.
        if let (ParamAccess::Out, Some(input)) = (param.access, param.alias) {
            return Buffer::Same(input.0 as usize);
        }
        Buffer::Bytes(match param.access {
            ParamAccess::In => given.next().map(Tensor::to_bytes).unwrap_or_default(),
            ParamAccess::InOut if param.alias.is_some() => begins_as(param),
            _ => vec![UNWRITTEN; param.dtype.bytes_for(shape.iter().product())],
        })
    };
    let mut buffers: Vec<Buffer> = kernel.params.iter().zip(shapes).map(buffer).collect();
    let rows = kernel.rows.eval(&|name| dims.get(name).copied()).map_err(|e| failed(e.to_string()))?;
    run(kernel, &mut buffers, &dims, 0..rows).map_err(|e| failed(e.to_string()))?;
    let outputs = kernel.params.iter().zip(shapes).zip(&buffers).filter(|((p, _), _)| p.access != ParamAccess::In);
    let tensor = |((param, shape), buffer): ((&Param, &Vec<usize>), &Buffer)| {
        let buffer = if let Buffer::Same(input) = buffer { &buffers[*input] } else { buffer };
        Tensor::from_bytes(param.dtype, shape, buffer.bytes()).map_err(|e| failed(e.to_string()))
    };
    outputs.map(tensor).collect()
}
