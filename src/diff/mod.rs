//! One graph or kernel run every way there is, and the first place where two ways disagree.
//!
//! | way | compared with | how |
//! |---|---|---|
//! | the program of every target of this build that is the host | the intervals of the graph interpreter | inside |
//! | each of these, on one thread and on three | its kernels in the Kernel IR interpreter, as expanded for the target | to the bit |
//! | the program of `cpu` | the same, inputs that it updates overwritten in place | to the bit |
//! | a kernel as expanded | the same as lowered, unless a function of it is approximate | to the bit |
//! | the program of `cpu` | one kernel per op | to the bit |
//! | one kernel per op | the intervals of the graph interpreter | inside |
//!
//! No target is judged by another: what the graph and its kernels mean decides which of two is wrong, and the difference names it.
//!
//! For a target with a device of its own the order of its reductions is its own too: its program is compared with its
//! kernels in the Kernel IR interpreter, and with the intervals.
//!
//! Behind every buffer that machine code writes stand guard bytes, which are checked after each launch.
//!
//! Where a region or an op has no kernel, the reference rounds in its place, and the intervals alone are compared.

mod chain;
mod device;
mod kernel;
mod reduce;

use std::fmt;

use fusewright_abi::{DType, Target};
use fusewright_codegen::backend::HOST_TARGETS;
use fusewright_codegen::kernel::interp::bits_at;
use fusewright_graph::interp::{self, Symbols};
use fusewright_graph::tensor::Tensor;
use fusewright_graph::{Graph, num};
use fusewright_runtime::EachTime;

use crate::inputs::{Values, tensors};
use crate::{CacheChoice, Compiled, Compiler, Error, HostTensor, Options, ThreadPool, Tiers, compile};
use chain::Chain;

pub use kernel::{dims, kernel, kernel_targets, made_buffers};
pub use reduce::reduce;

/// Threads of the run that one thread is compared with.
const THREADS: usize = 3;

/// What every way gave alike.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agreement {
    /// Kernels of more than one op.
    pub fused: usize,
    /// Elements compared.
    pub elements: usize,
    /// Those whose range is a single value.
    pub single_valued: usize,
    /// What ran without a kernel, and why.
    pub fallbacks: Vec<String>,
}

/// Two ways that disagree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// In a few words, the same for differences of one kind.
    pub kind: &'static str,
    /// Where and how.
    pub message: String,
}

/// What a comparison found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing to object to.
    Equal(Agreement),
    /// The first disagreement.
    Differ(Difference),
}

impl Difference {
    pub(crate) fn new(kind: &'static str, message: impl fmt::Display) -> Self {
        Difference { kind, message: message.to_string() }
    }

    /// The same with the target whose program differs ahead of it.
    fn of(self, target: &Target) -> Self {
        Difference { message: format!("{target}: {}", self.message), ..self }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

/// Runs a graph every way that a target has, once per binding of its symbols, on inputs with every edge. `Target::Cpu`
/// stands for all targets that are the host.
///
/// # Errors
/// A graph that the graph interpreter refuses, inputs that cannot be made; no device of the target.
pub fn graph(graph: &Graph, target: &Target, cases: &[Symbols], seed: u64) -> Result<Verdict, Error> {
    if !is_host(target) {
        Compiler::of(target, &options())?.device(target)?;
    }
    against(graph, graph, target, cases, seed)
}

/// As [`graph`], with programs compiled from a graph that must compute the same.
fn against(meaning: &Graph, compiled: &Graph, target: &Target, cases: &[Symbols], seed: u64) -> Result<Verdict, Error> {
    let mut made: Vec<Case<'_>> = Vec::with_capacity(cases.len());
    for symbols in cases {
        let inputs = tensors(meaning, symbols, seed, Values::Edges)?;
        let ranges = interp::enclose(meaning, &inputs, symbols)?;
        made.push((symbols, inputs, ranges));
    }
    let agreed = if is_host(target) { agree(compiled, &made) } else { device::agree(compiled, target, &made) };
    Ok(agreed.map_or_else(Verdict::Differ, Verdict::Equal))
}

/// The targets that [`graph`] compares for one that is asked for.
pub fn graph_targets(target: &Target) -> Vec<Target> {
    if is_host(target) { HOST_TARGETS.to_vec() } else { vec![target.clone()] }
}

/// Whether a target's code runs on the host, by the order of reductions that all such targets share.
fn is_host(target: &Target) -> bool {
    HOST_TARGETS.contains(target)
}

/// As [`graph`] on the host, on given inputs.
///
/// # Errors
/// A graph that the graph interpreter refuses on these inputs.
pub fn graph_on(graph: &Graph, symbols: &Symbols, inputs: &[Tensor]) -> Result<Verdict, Error> {
    let ranges = interp::enclose(graph, inputs, symbols).map_err(|e| Error::Call(e.to_string()))?;
    Ok(agree(graph, &[(symbols, inputs.to_vec(), ranges)]).map_or_else(Verdict::Differ, Verdict::Equal))
}

/// One binding of the symbols, the inputs there and what they may give.
type Case<'s> = (&'s Symbols, Vec<Tensor>, Vec<interp::Enclosure>);

/// Every way to run a graph in every case.
fn agree(graph: &Graph, cases: &[Case<'_>]) -> Result<Agreement, Difference> {
    let ways = Ways::of(graph)?;
    let mut agreement = Agreement { fused: ways.multiple(), fallbacks: ways.fallbacks(), ..Agreement::default() };
    for (symbols, inputs, ranges) in cases {
        ways.agree(symbols, inputs, ranges, &mut agreement)?;
    }
    Ok(agreement)
}

/// The programs of one graph.
struct Ways {
    fused: Compiled,
    unfused: Compiled,
    /// The fused program for other targets that run here.
    others: Vec<(Target, Compiled)>,
    compiler: Compiler,
}

impl Ways {
    fn of(graph: &Graph) -> Result<Ways, Difference> {
        let compiled = |target: &Target, fuse| {
            let options = Options { fuse, ..options() };
            let failed = |e| Difference::new("compiling fails", format!("{target}: {e}"));
            compile(graph, target, &options).map_err(failed)
        };
        let compiler = Compiler::new(&Target::Cpu).map_err(|e| Difference::new("compiling fails", e))?;
        let others = HOST_TARGETS[1..].iter().map(|target| Ok((target.clone(), compiled(target, true)?)));
        let others = others.collect::<Result<Vec<_>, Difference>>()?;
        Ok(Ways { fused: compiled(&Target::Cpu, true)?, unfused: compiled(&Target::Cpu, false)?, others, compiler })
    }

    fn multiple(&self) -> usize {
        self.fused.fused.partition.regions.iter().filter(|r| r.nodes.len() > 1).count()
    }

    fn fallbacks(&self) -> Vec<String> {
        let mut said: Vec<String> = Vec::new();
        let others = self.others.iter().flat_map(|(_, compiled)| &compiled.fallbacks);
        for fallback in self.fused.fallbacks.iter().chain(&self.unfused.fallbacks).chain(others) {
            let text = format!("{}: {}", fallback.label, fallback.reason);
            if !said.contains(&text) {
                said.push(text);
            }
        }
        said
    }

    fn agree(
        &self,
        symbols: &Symbols,
        inputs: &[Tensor],
        ranges: &[interp::Enclosure],
        agreement: &mut Agreement,
    ) -> Result<(), Difference> {
        let cpu = |found: Difference| found.of(&Target::Cpu);
        let got = run(&self.fused, inputs, 1, symbols).map_err(cpu)?;
        inside("outside its interval", symbols, &got, ranges, agreement).map_err(cpu)?;
        for (target, compiled) in &self.others {
            let other = run(compiled, inputs, 1, symbols);
            // Elements are counted once, not for every target.
            let judged =
                |other: Vec<Tensor>| inside("outside its interval", symbols, &other, ranges, &mut Agreement::default());
            other.and_then(judged).map_err(|found| found.of(target))?;
        }
        let threaded = run(&self.fused, inputs, THREADS, symbols).map_err(cpu)?;
        same("threads change bits", symbols, &threaded, &got).map_err(cpu)?;
        let in_place = run_in_place(&self.fused, inputs, symbols).map_err(cpu)?;
        same("overwriting inputs changes bits", symbols, &in_place, &got).map_err(cpu)?;
        let op_by_op = run(&self.unfused, inputs, 1, symbols).map_err(cpu)?;
        if agreement.fallbacks.is_empty() {
            let meant = Chain::of(&self.fused.fused, &self.compiler, symbols)?.run(inputs)?;
            same("machine code is not its kernel", symbols, &got, &meant).map_err(cpu)?;
            for (target, compiled) in &self.others {
                for threads in [1, THREADS] {
                    let other = run(compiled, inputs, threads, symbols);
                    let judged = |other: Vec<Tensor>| same("machine code is not its kernel", symbols, &other, &meant);
                    other.and_then(judged).map_err(|found| found.of(target))?;
                }
            }
            same("fusion changes bits", symbols, &op_by_op, &got).map_err(cpu)?;
        }
        inside("op by op outside its interval", symbols, &op_by_op, ranges, agreement).map_err(cpu)
    }
}

/// Compares outputs with what they may be, and counts them.
fn inside(
    kind: &'static str,
    symbols: &Symbols,
    outputs: &[Tensor],
    ranges: &[interp::Enclosure],
    agreement: &mut Agreement,
) -> Result<(), Difference> {
    for (i, (range, output)) in ranges.iter().zip(outputs).enumerate() {
        let report = range.check(output).map_err(|e| Difference::new("another type", e))?;
        agreement.elements += report.elements;
        agreement.single_valued += report.single_valued;
        if let Some(outside) = report.outside {
            let (count, elements) = (report.elements - report.inside, report.elements);
            let place = format!("out{i}[{}]{}", outside.index, at(symbols));
            let found = format!("is {}, may be {}", outside.got, outside.range);
            return Err(Difference::new(kind, format!("{place} {found}; {count} of {elements} are outside")));
        }
    }
    Ok(())
}

/// How programs are compiled to be compared: by one compiler, not kept, and with every launch split as it is asked to be,
/// however small.
pub fn options() -> Options {
    let pool = ThreadPool::of(EachTime);
    Options { cache: CacheChoice::Off, tiers: Tiers::Off, pool, ..Options::default() }
}

fn run(compiled: &Compiled, inputs: &[Tensor], threads: usize, symbols: &Symbols) -> Result<Vec<Tensor>, Difference> {
    let failed = |e: Error| Difference::new("the program fails", format!("{e}{}", at(symbols)));
    let given = inputs.iter().map(HostTensor::of).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let given: Vec<&HostTensor> = given.iter().collect();
    let results = compiled.program.run_guarded(symbols, &given, threads).map_err(failed)?;
    results.iter().map(|t| crate::check::to_tensor(t).map_err(failed)).collect()
}

/// The results where every input that an output updates is overwritten.
fn run_in_place(compiled: &Compiled, inputs: &[Tensor], symbols: &Symbols) -> Result<Vec<Tensor>, Difference> {
    let failed = |e: Error| Difference::new("the program fails", format!("{e}{}", at(symbols)));
    let given = inputs.iter().map(HostTensor::of).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let (results, _) = compiled.program.run_overwriting(symbols, given, THREADS).map_err(failed)?;
    results.iter().map(|t| crate::check::to_tensor(t).map_err(failed)).collect()
}

/// Sizes in words.
fn at(symbols: &Symbols) -> String {
    let sizes: Vec<String> = symbols.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if sizes.is_empty() { String::new() } else { format!(" at {}", sizes.join(", ")) }
}

fn same(kind: &'static str, symbols: &Symbols, got: &[Tensor], want: &[Tensor]) -> Result<(), Difference> {
    if got.len() != want.len() {
        return Err(Difference::new(kind, format!("{} outputs and {} outputs", got.len(), want.len())));
    }
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
            return Err(Difference::new(kind, format!("out{i} is of another type{}", at(symbols))));
        }
        if let Some(first) = first_difference(got.dtype(), &got.to_bytes(), &want.to_bytes()) {
            return Err(Difference::new(kind, format!("out{i}{first}{}", at(symbols))));
        }
    }
    Ok(())
}

/// The first element in which two buffers differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirstDifference {
    /// Element type.
    pub dtype: DType,
    /// Index in row-major order.
    pub index: usize,
    /// Its bits in the first buffer.
    pub got: u64,
    /// Its bits in the second buffer.
    pub want: u64,
    /// Elements that differ, and all elements.
    pub count: (usize, usize),
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |bits: u64| match self.dtype.is_float() {
            true => format!("{:?}", num::decode(self.dtype, bits)),
            false => num::int_value(self.dtype, num::decode_int(self.dtype, bits)).to_string(),
        };
        let (index, got, want, (count, elements)) = (self.index, self.got, self.want, self.count);
        write!(f, "[{index}] is {} ({got:#x}), should be {} ({want:#x}); ", value(got), value(want))?;
        write!(f, "{count} of {elements} differ")
    }
}

/// The first element in which two buffers of a dtype differ; NaNs of 16 bits and more are alike, whatever their payload.
pub fn first_difference(dtype: DType, got: &[u8], want: &[u8]) -> Option<FirstDifference> {
    let elements = got.len() * 8 / dtype.bits() as usize;
    let nan = |bits| dtype.is_float() && dtype.bits() >= 16 && num::decode(dtype, bits).is_nan();
    let mut found: Option<FirstDifference> = None;
    for index in 0..elements {
        let (got, want) = (bits_at(dtype, got, index)?, bits_at(dtype, want, index)?);
        if got == want || nan(got) && nan(want) {
            continue;
        }
        let count = (0, elements);
        found.get_or_insert(FirstDifference { dtype, index, got, want, count }).count.0 += 1;
    }
    found
}

#[cfg(test)]
mod tests;
