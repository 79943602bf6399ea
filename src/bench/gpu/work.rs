//! One kernel at one number of rows, with buffers of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fusewright_abi::{DType, DimSource, KernelArtifact};
use fusewright_codegen::kernel::{INNER, InstOp, Kernel, ROW, Val};
use fusewright_graph::interp::Symbols;
use fusewright_graph::{Dim, Graph, InputKind, Rounding, num};
use fusewright_runtime::driver::cuda::{DeviceKernel, DeviceMemory, Follow, Queue, Recording};

use crate::bench::options;
use crate::compiler::CompileError;
use crate::inputs::{DEFAULT_SEED, Random, shape};
use crate::{Compiler, Error, fuse_graph};

/// Elements that are made for a buffer; larger buffers repeat them.
const MADE: usize = 1 << 20;
/// Rows of a cache for each row that is written to it.
const CACHE_ROWS: i64 = 2;

/// A kernel, and what its launches take.
#[derive(Debug)]
pub(super) struct Work {
    kernel: Arc<DeviceKernel>,
    dims: Vec<i64>,
    rows: usize,
    /// Bytes that a launch reads and writes, each once.
    pub bytes: usize,
    /// By parameter.
    buffers: Vec<Buffer>,
    /// Weights, which all sets share, by parameter.
    shared: BTreeMap<usize, Arc<DeviceMemory>>,
}

/// What a parameter of a kernel is given.
#[derive(Debug)]
enum Buffer {
    /// A weight.
    Shared,
    /// Elements of its own.
    Filled(Vec<u8>, usize),
    /// Memory for what is written.
    Written(usize),
    /// The memory of another parameter.
    Same(usize),
}

/// Buffers of one launch.
#[derive(Debug)]
pub(super) struct Set {
    memory: Vec<Arc<DeviceMemory>>,
}

impl Set {
    /// The first and the last parameter.
    pub fn ends(&self) -> [&Arc<DeviceMemory>; 2] {
        [&self.memory[0], &self.memory[self.memory.len() - 1]]
    }
}

impl Work {
    /// The kernel of a graph, of which `s` is the number of rows.
    pub fn new(graph: &Graph, rows: usize, compiler: &Compiler, queue: &Queue) -> Result<Work, Error> {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let value = |name: &str| if name == "s" { rows } else { CACHE_ROWS * rows.max(8) };
        let symbols: Symbols = graph.symbols().iter().map(|s| (s.name.clone(), value(&s.name))).collect();
        let fused = fuse_graph(graph, &options(true))?;
        let [region] = &fused.partition.regions[..] else {
            return Err(Error::Internal(format!(
                "graph `{}` is {} kernels",
                graph.name(),
                fused.partition.regions.len()
            )));
        };
        let failed = |e: CompileError| e.into_error();
        let body = fused.graph.expanded().map_err(|e| Error::Internal(e.to_string()))?;
        let artifact = compiler.artifact(&region.name, &body).map_err(failed)?;
        let (lowered, _) = compiler.kernel(&region.name, &body).map_err(failed)?;
        Work::of(&body, &artifact, &lowered, &symbols, queue)
    }

    fn of(
        body: &Graph,
        artifact: &KernelArtifact,
        lowered: &Kernel,
        symbols: &Symbols,
        queue: &Queue,
    ) -> Result<Work, Error> {
        let values = body.inputs().iter().map(|input| input.value).chain(body.outputs().iter().map(|o| o.value));
        let extents = values.map(|value| shape(&body.ty(value).shape, symbols).map_err(Error::Call));
        let extents = extents.collect::<Result<Vec<_>, Error>>()?;
        let dims: Vec<i64> = artifact
            .dims
            .iter()
            .map(|dim| match dim.source {
                DimSource::Extent { param, axis } => Ok(extents[param][axis] as i64),
                DimSource::Stride { param, axis } => Ok(extents[param][axis + 1..].iter().product::<usize>() as i64),
                DimSource::Symbol => symbols.get(&dim.name).copied().ok_or_else(|| {
                    Error::Internal(format!("`{}` of kernel `{}` has no value", dim.name, artifact.name))
                }),
            })
            .collect::<Result<_, Error>>()?;
        let mut random = Random::named(DEFAULT_SEED, 0, &artifact.name);
        let (mut buffers, mut shared) = (Vec::new(), BTreeMap::new());
        for (i, (param, extents)) in artifact.params.iter().zip(&extents).enumerate() {
            let elements = extents.iter().product::<usize>();
            let bytes = param.dtype.bytes_for(elements);
            let input = body.inputs().get(i);
            let buffer = match (input.map(|input| &input.kind), param.alias) {
                // Elements that rows leave alone are the input's.
                (None, Some(other)) => Buffer::Same(other),
                (None, None) => Buffer::Written(bytes),
                (Some(kind), _) => {
                    let made = made(param.dtype, elements, &mut random);
                    if matches!(kind, InputKind::Weight(_)) {
                        shared.insert(i, queue.repeated(&made, bytes)?);
                        Buffer::Shared
                    } else {
                        Buffer::Filled(made, bytes)
                    }
                }
            };
            buffers.push(buffer);
        }
        let rows = artifact.launch.rows.count(&dims);
        let bytes = moved(lowered, symbols, rows);
        Ok(Work { kernel: queue.load(artifact)?, dims, rows, bytes, buffers, shared })
    }

    /// Registers of a thread, and its bytes in memory for want of them.
    pub fn resources(&self) -> Result<[i32; 2], Error> {
        Ok(self.kernel.resources(self.rows)?)
    }

    /// Buffers of a launch.
    pub fn set(&self, queue: &Queue) -> Result<Set, Error> {
        let mut memory: Vec<Arc<DeviceMemory>> = Vec::new();
        for (i, buffer) in self.buffers.iter().enumerate() {
            memory.push(match buffer {
                Buffer::Shared => Arc::clone(&self.shared[&i]),
                Buffer::Filled(made, bytes) => queue.repeated(made, *bytes)?,
                Buffer::Written(bytes) => queue.filled(*bytes, 0)?,
                Buffer::Same(other) => Arc::clone(&memory[*other]),
            });
        }
        Ok(Set { memory })
    }

    /// So many launches, over the sets in turn.
    pub fn record(&self, queue: &Queue, sets: &[Set], launches: usize, follow: Follow) -> Result<Recording, Error> {
        let mut recorder = queue.record()?;
        for set in sets.iter().cycle().take(launches) {
            // Places are all different: `made` has each once.
            recorder.launch(&self.kernel, &set.memory, &self.dims, follow, true)?;
        }
        Ok(recorder.finish()?)
    }

    /// That a replay writes what a set's outputs held before.
    pub fn check_that_it_writes(
        &self,
        queue: &Queue,
        recording: &Recording,
        set: &Set,
        poison: u8,
    ) -> Result<(), Error> {
        let written = self.buffers.iter().zip(&set.memory).filter(|(b, _)| matches!(b, Buffer::Written(n) if *n > 0));
        let written: Vec<&Arc<DeviceMemory>> = written.map(|(_, memory)| memory).collect();
        written.iter().try_for_each(|memory| queue.fill(memory, poison))?;
        queue.replay(recording)?;
        for memory in written {
            if queue.read(memory)?.iter().all(|&byte| byte == poison) {
                return Err(Error::Internal("a replay leaves an output as it was".to_owned()));
            }
        }
        Ok(())
    }
}

/// Elements of a normal distribution; integers are the numbers of rows in an order of their own, each once.
fn made(dtype: DType, elements: usize, random: &mut Random) -> Vec<u8> {
    /// A prime that no number of rows is a multiple of.
    const STEP: usize = 7919;
    let codes: Vec<u64> = if dtype.is_float() {
        let mut normal = || (0..6).map(|_| random.unit()).sum::<f64>() * std::f64::consts::FRAC_1_SQRT_2;
        let code = |x| num::encode(dtype, num::round_to(dtype, x, Rounding::NearestEven, true));
        (0..elements.min(MADE)).map(|_| code(normal())).collect()
    } else {
        (0..elements).map(|i| ((i * STEP) % elements) as u64).collect()
    };
    let bytes = dtype.bytes_for(1);
    codes.iter().flat_map(|code| code.to_le_bytes().into_iter().take(bytes)).collect()
}

/// Bytes that all rows of a kernel read and write, each once: what all rows have alike is read once.
fn moved(kernel: &Kernel, symbols: &Symbols, rows: usize) -> usize {
    let mut seen = BTreeSet::new();
    let value = |dim: &Dim| dim.eval(&|name| symbols.get(name).copied()).unwrap_or(0);
    let mut bits = 0;
    for segment in &kernel.segments {
        let accesses = segment.insts.iter().filter_map(|inst| match &inst.op {
            InstOp::Load { param, index, shape, .. } => Some((*param, index, shape.elements())),
            InstOp::Store { param, index, .. } => Some((*param, index, segment.ty(inst.args[0]).shape.elements())),
            _ => None,
        });
        for (param, index, elements) in accesses {
            let mut names = BTreeSet::new();
            index.collect_symbols(&mut names);
            let chosen = names.iter().any(|name| Val::from_symbol(name).is_some());
            let inner = if names.contains(INNER) { value(&segment.inner) } else { 1 };
            let each = if chosen || names.contains(ROW) { rows as i64 } else { 1 };
            // What several segments load alike is read once, but what one has of another's places is not.
            let whose = if inner > 1 { segment.name.as_str() } else { "" };
            if seen.insert((param, index.to_string(), whose)) {
                bits += value(&elements) * inner * each * i64::from(kernel.param(param).dtype.bits());
            }
        }
    }
    usize::try_from(bits / 8).unwrap_or(0)
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use fusewright_abi::Target;

    use super::*;
    use crate::bench::gpu_suite;

    #[test]
    fn bytes_are_those_of_each_input_and_output_once() {
        let target: Target = "cuda:sm_90".parse().expect("a target");
        let compiler = Compiler::new(&target).expect("the feature is on");
        let rows = 33;
        // The table's rows and the places are read by each row; a cache is written where rows are.
        let (norm, heads, cached) = (rows * 5120, rows * 72 * 128, rows * 80 * 128);
        let expected = [
            ("A", 4 * norm + 2 * 5120),
            ("B", 8 * norm + 2 * 5120),
            ("D", 7 * norm + 2 * 5120 + 4 * rows),
            ("H", rows * 5 * 25600 + 4),
            ("K", 4 * heads + rows * 256 + 8 * rows + 2 * 256),
            ("KC", 4 * cached + rows * 256 + 16 * rows + 2 * 256),
        ];
        for (name, bytes) in expected {
            let case = gpu_suite().expect("a suite").into_iter().find(|case| case.name == name).expect("a case");
            let fused = fuse_graph(&case.graph, &options(true)).expect("it fuses");
            let body = fused.graph.expanded().expect("it expands");
            let (kernel, _) = compiler.kernel("k", &body).expect("it lowers");
            let symbols = [("s".to_owned(), rows as i64), ("p".to_owned(), 2 * rows as i64)].into_iter().collect();
            assert_eq!(moved(&kernel, &symbols, rows), bytes, "{name}\n{kernel}");
        }
    }
}
