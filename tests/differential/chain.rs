//! A fused graph evaluated region by region in the Kernel IR interpreter: what its program must compute, to the bit.

use std::collections::BTreeMap;

use fusewright::graph::interp::{self, Symbols};
use fusewright::graph::scalar::Accuracy;
use fusewright::graph::{Builder, Dim, Graph, Node, Op, Prim, Tensor, Value};
use fusewright::{CompileError, Compiler, Fused};
use fusewright_abi::ParamAccess;
use fusewright_codegen::kernel::interp::{Buffer, run};
use fusewright_codegen::kernel::{InstOp, Kernel};
use fusewright_fusion::region::Step as Planned;

use super::judge::Failure;

/// What outputs hold before a kernel runs, so that what it does not write shows.
const UNWRITTEN: u8 = 0xa5;

/// One kernel in both forms.
struct Pair {
    lowered: Kernel,
    expanded: Kernel,
    /// Whether the lowered form holds functions that the expanded form only approximates.
    approximate: bool,
}

enum Work {
    Kernel(Box<Pair>),
    /// Only moves elements, or has no kernel.
    Reference(Graph),
}

struct Step {
    work: Work,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

/// The steps of a fused graph.
pub struct Chain<'f> {
    graph: &'f Graph,
    steps: Vec<Step>,
}

impl<'f> Chain<'f> {
    /// Lowers every region, and every node between regions that has a row program.
    pub fn of(fused: &'f Fused, compiler: &Compiler) -> Result<Chain<'f>, Failure> {
        let graph = &fused.graph;
        let mut steps = Vec::new();
        for step in &fused.partition.steps {
            match *step {
                Planned::Region(i) => {
                    let region = &fused.partition.regions[i];
                    let body = region.expand_body().map_err(|e| Failure::new("expand", e))?;
                    let pair = pair(compiler, &region.name, &body)?;
                    let refused = || Failure::new("region without a kernel", &body);
                    let work = Work::Kernel(Box::new(pair.ok_or_else(refused)?));
                    steps.push(Step { work, inputs: region.inputs.clone(), outputs: region.outputs.clone() });
                }
                Planned::Node(id) => {
                    let node = graph.node(id);
                    let body = single(graph, node);
                    let expanded = body.expanded().map_err(|e| Failure::new("expand", e))?;
                    let moves = matches!(node.op, Op::Prim(Prim::Reshape { .. }));
                    let pair = if moves { None } else { pair(compiler, node.op.name(), &expanded)? };
                    let work = pair.map_or(Work::Reference(body), |pair| Work::Kernel(Box::new(pair)));
                    steps.push(Step { work, inputs: node.operands.clone(), outputs: node.results.clone() });
                }
            }
        }
        Ok(Chain { graph, steps })
    }

    /// The outputs on given inputs.
    pub fn run(&self, inputs: &[Tensor], rows: usize) -> Result<Vec<Tensor>, Failure> {
        let mut values: BTreeMap<Value, Tensor> =
            self.graph.inputs().iter().map(|i| i.value).zip(inputs.iter().cloned()).collect();
        for step in &self.steps {
            let operands: Vec<Tensor> = step.inputs.iter().map(|v| values[v].clone()).collect();
            let results = match &step.work {
                Work::Kernel(pair) => pair.run(&operands, rows)?,
                Work::Reference(body) => {
                    interp::run(body, &operands, &symbols(rows)).map_err(|e| Failure::new("interpreter", e))?
                }
            };
            values.extend(step.outputs.iter().copied().zip(results));
        }
        Ok(self.graph.outputs().iter().map(|o| values[&o.value].clone()).collect())
    }
}

impl Pair {
    /// The results of the expanded form; those of the lowered one must be the same where its functions are exact.
    fn run(&self, operands: &[Tensor], rows: usize) -> Result<Vec<Tensor>, Failure> {
        let expanded = launch(&self.expanded, operands, rows)?;
        let lowered = launch(&self.lowered, operands, rows)?;
        for (i, (theirs, ours)) in lowered.iter().zip(&expanded).enumerate() {
            if !self.approximate && theirs != ours {
                let found = ours.compare(theirs);
                let message = format!("out{i} with {rows} rows: {found:?}\n{}\n{}", self.lowered, self.expanded);
                return Err(Failure::new("expansion changes bits", message));
            }
        }
        Ok(expanded)
    }
}

/// The value of every symbol that a kernel or a single node may ask for.
fn symbols(rows: usize) -> Symbols {
    Symbols::from([("s".to_owned(), rows as i64)])
}

fn pair(compiler: &Compiler, name: &str, body: &Graph) -> Result<Option<Pair>, Failure> {
    let (lowered, expanded) = match compiler.kernel(name, body) {
        Ok(kernels) => kernels,
        Err(CompileError::Lower(_)) => return Ok(None),
        Err(error) => return Err(Failure::new("lowering", format!("{error}\n{body}"))),
    };
    let insts = lowered.segments.iter().flat_map(|s| &s.insts);
    let approximate = |op: &InstOp| matches!(op, InstOp::Map(f) if f.spec().accuracy != Accuracy::Exact);
    let approximate = insts.into_iter().any(|inst| approximate(&inst.op));
    Ok(Some(Pair { lowered, expanded, approximate }))
}

fn launch(kernel: &Kernel, operands: &[Tensor], rows: usize) -> Result<Vec<Tensor>, Failure> {
    let dims = symbols(rows);
    let extent = |dim: &Dim| dim.eval(&|name| dims.get(name).copied()).map_err(|e| Failure::new("dim", e));
    let mut shapes = Vec::new();
    let mut buffers = Vec::new();
    let mut given = operands.iter();
    for param in &kernel.params {
        let shape = param.shape.iter().map(|d| extent(d).map(|n| n as usize)).collect::<Result<Vec<usize>, _>>()?;
        let bytes = param.dtype.bytes_for(shape.iter().product());
        buffers.push(Buffer::Bytes(match param.access {
            ParamAccess::In => given.next().map(Tensor::to_bytes).unwrap_or_default(),
            _ => vec![UNWRITTEN; bytes],
        }));
        shapes.push(shape);
    }
    let outer = extent(&kernel.rows)?;
    run(kernel, &mut buffers, &dims, 0..outer)
        .map_err(|e| Failure::new("kernel interpreter", format!("{e}\n{kernel}")))?;
    let outputs = kernel.params.iter().zip(&shapes).zip(&buffers).filter(|((p, _), _)| p.access != ParamAccess::In);
    let tensor = |((param, shape), buffer): ((&fusewright_codegen::kernel::Param, &Vec<usize>), &Buffer)| {
        Tensor::from_bytes(param.dtype, shape, buffer.bytes()).map_err(|e| Failure::new("kernel interpreter", e))
    };
    outputs.map(tensor).collect()
}

/// A graph of one node.
fn single(graph: &Graph, node: &Node) -> Graph {
    let b = Builder::new("node");
    for symbol in graph.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let operands: Vec<Value> =
        node.operands.iter().enumerate().map(|(i, &v)| b.input(&format!("x{i}"), graph.ty(v).clone())).collect();
    for result in b.op(node.op.clone(), &operands).expect("a node of a verified graph has types") {
        b.output(result);
    }
    b.finish()
}
