//! One graph run every way there is, and what must agree.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fusewright::graph::interp::{self, Symbols};
use fusewright::graph::verify::verify;
use fusewright::graph::{Graph, Tensor};
use fusewright::{Compiled, Compiler, HostTensor, Options, Target, compile};

use super::chain::Chain;
use super::random::operands;

/// Row counts of every case.
const ROWS: [usize; 5] = [33, 1, 0, 2, 7];

/// What went wrong.
#[derive(Debug)]
pub struct Failure {
    /// In a few words, the same for failures of one kind.
    pub kind: &'static str,
    /// All of it.
    pub message: String,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(kind: &'static str, message: impl std::fmt::Display) -> Self {
        Failure { kind, message: message.to_string() }
    }
}

/// What a graph that passed was like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Kernels of more than one op.
    pub fused: usize,
    /// Elements compared with their ranges.
    pub elements: usize,
    /// Those whose range is a single value.
    pub single_valued: usize,
    /// Whether ops ran without a kernel, for a reason of [`REFUSALS`].
    pub refused: bool,
}

/// Reasons for which an op may run without a kernel: a backend lacks an instruction.
const REFUSALS: [&str; 1] = ["cranelift: "];

/// Runs a graph every way and compares.
///
/// # Errors
/// The first disagreement; a panic is one.
pub fn judge(graph: &Graph, seed: u64) -> Result<Seen, Failure> {
    let text = |panic: Box<dyn std::any::Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or_else(|_| "a panic".to_owned(), |text| (*text).to_owned()),
    };
    catch_unwind(AssertUnwindSafe(|| agree(graph, seed))).unwrap_or_else(|p| Err(Failure::new("panic", text(p))))
}

fn agree(graph: &Graph, seed: u64) -> Result<Seen, Failure> {
    verify(graph).map_err(|e| Failure::new("verify", &e[0]))?;
    let (fused, unfused) = (compiled(graph, true)?, compiled(graph, false)?);
    let refused = !fused.fallbacks.is_empty() || !unfused.fallbacks.is_empty();
    let compiler = Compiler::new(&Target::Cpu).map_err(|e| Failure::new("target", e))?;
    // What runs without a kernel is rounded as the reference rounds, so only its intervals are comparable.
    let chain = if refused { None } else { Some(Chain::of(&fused.fused, &compiler)?) };
    let multiple = fused.fused.partition.regions.iter().filter(|r| r.nodes.len() > 1).count();
    let mut seen = Seen { fused: multiple, refused, ..Seen::default() };
    for rows in ROWS {
        let inputs = operands(graph, rows, seed);
        let got = run(&fused, &inputs, 1)?;
        let op_by_op = run(&unfused, &inputs, 1)?;
        same("threads change bits", rows, &run(&fused, &inputs, 3)?, &got)?;
        if let Some(chain) = &chain {
            same("code is not its kernel", rows, &got, &chain.run(&inputs, rows)?)?;
            same("fusion changes bits", rows, &op_by_op, &got)?;
        }
        let enclosed = interp::enclose(graph, &inputs, &Symbols::new()).map_err(|e| Failure::new("interpreter", e))?;
        for (i, range) in enclosed.iter().enumerate() {
            for (kind, tensors) in [("outside its interval", &got), ("op by op outside its interval", &op_by_op)] {
                let report = range.check(&tensors[i]).map_err(|e| Failure::new("type", e))?;
                seen.elements += report.elements;
                seen.single_valued += report.single_valued;
                if !report.is_ok() {
                    return Err(Failure::new(kind, format!("out{i} with {rows} rows: {report:?}")));
                }
            }
        }
    }
    Ok(seen)
}

fn compiled(graph: &Graph, fuse: bool) -> Result<Compiled, Failure> {
    let options = Options { fuse, ..Options::default() };
    let compiled = compile(graph, &Target::Cpu, &options).map_err(|e| Failure::new("compile", e))?;
    let known = |reason: &str| REFUSALS.iter().any(|known| reason.contains(known));
    match compiled.fallbacks.iter().find(|f| !known(&f.reason)) {
        None => Ok(compiled),
        Some(fallback) => Err(Failure::new("fallback", format!("{fallback:?}, fused: {fuse}"))),
    }
}

fn run(compiled: &Compiled, inputs: &[Tensor], threads: usize) -> Result<Vec<Tensor>, Failure> {
    let host = |t: &Tensor| HostTensor { dtype: t.dtype(), shape: t.shape().to_vec(), bytes: t.to_bytes() };
    let given: Vec<HostTensor> = inputs.iter().map(host).collect();
    let given: Vec<&HostTensor> = given.iter().collect();
    let results = compiled.program.run(&given, threads).map_err(|e| Failure::new("run", e))?;
    let tensor = |t: &HostTensor| Tensor::from_bytes(t.dtype, &t.shape, &t.bytes).map_err(|e| Failure::new("run", e));
    results.iter().map(tensor).collect()
}

fn same(kind: &'static str, rows: usize, got: &[Tensor], want: &[Tensor]) -> Result<(), Failure> {
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let difference = got.compare(want).map_err(|e| Failure::new("type", e))?;
        if let Some(first) = difference.first {
            let code = |t: &Tensor| t.code(first).unwrap_or_default();
            let (got, want) = (code(got), code(want));
            let message = format!("out{i} with {rows} rows: {difference:?}: {got:#x}, should be {want:#x}");
            return Err(Failure::new(kind, message));
        }
    }
    assert_eq!(got.len(), want.len(), "every way gives all outputs");
    Ok(())
}
