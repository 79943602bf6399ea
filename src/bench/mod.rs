//! Measuring kernels: fused against one kernel per op, and against a copy of as many bytes, interleaved in one run.

mod against;
#[cfg(feature = "ascend")]
mod estimate;
pub mod gpu;
mod page;
mod stack;
mod suite;

use std::hint::black_box;
use std::time::Instant;

use fusewright_abi::Target;
use fusewright_graph::Graph;
use fusewright_graph::interp::Symbols;

use crate::host::zeroed;
use crate::inputs::{DEFAULT_SEED, Sizes, Values, symbols, tensors};
use crate::{Error, HostTensor, Options, Tiers, compile};

pub use against::{AGAINST_ROWS, Against, REPEATS, SLOWER, against, by_family};
#[cfg(feature = "ascend")]
pub use estimate::{
    Bound, ESTIMATE_COLUMNS, Estimate, EstimateBasis, EstimateRow, NEVER_MEASURED, estimate, estimate_cells,
    estimate_page,
};
pub use page::{PeerTimes, bench_page};
pub use stack::{CompileReport, compile_suite};
pub use suite::kernel_suite;

/// A graph to measure.
#[derive(Clone, Debug)]
pub struct BenchCase {
    /// Name in tables.
    pub name: String,
    /// What is measured; its symbols are row counts.
    pub graph: Graph,
}

/// Figures of one case at one number of rows. Times are medians, in microseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct BenchRow {
    /// Name of the case.
    pub name: String,
    /// Value of every symbol; `None` for a graph without symbols.
    pub rows: Option<usize>,
    /// The fused program.
    pub fused_us: f64,
    /// The same graph with one kernel per op.
    pub unfused_us: f64,
    /// A copy that moves as many bytes.
    pub copy_us: f64,
    /// Bytes that the fused program reads and writes.
    pub bytes: usize,
    /// Kernels of the fused program.
    pub kernels: usize,
}

impl BenchRow {
    /// Gigabytes per second where the bytes of this row take so many microseconds.
    pub fn bandwidth(&self, us: f64) -> f64 {
        self.bytes as f64 / us / 1e3
    }
}

/// The geometric mean of ratios; NaN of none.
pub fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Rows that are measured unless others are asked for, as far as they lie in the ranges of the symbols.
const DEFAULT_ROWS: [usize; 6] = [1, 8, 32, 128, 512, 4096];
/// Least time spent on one figure, in seconds.
const LEAST_SECONDS: f64 = 0.15;
/// Least and most samples of one figure.
const SAMPLES: std::ops::RangeInclusive<usize> = 5..=201;
/// Least seconds of one sample: shorter calls are timed many at once.
const SAMPLE_SECONDS: f64 = 2e-4;
/// Least seconds of calls before each sample, which are not timed: one call does not bring back all that the others drove
/// out of a cache.
const SETTLING_SECONDS: f64 = 4e-3;

/// The numbers of rows at which a graph is measured: those asked for, or else the usual ones that it takes. A graph
/// without symbols is measured once.
///
/// # Errors
/// A number that lies outside the range of a symbol.
pub fn rows_to_measure(graph: &Graph, asked: &[usize]) -> Result<Vec<Option<usize>>, Error> {
    if graph.symbols().is_empty() {
        return Ok(vec![None]);
    }
    if !asked.is_empty() {
        return asked.iter().map(|&rows| binding(graph, Some(rows)).map(|_| Some(rows))).collect();
    }
    let usual: Vec<Option<usize>> =
        DEFAULT_ROWS.into_iter().map(Some).filter(|&rows| binding(graph, rows).is_ok()).collect();
    let least = graph.symbols().iter().map(|symbol| symbol.min).max().and_then(|min| usize::try_from(min).ok());
    Ok(if usual.is_empty() { vec![least] } else { usual })
}

/// The symbols of a graph at a number of rows.
fn binding(graph: &Graph, rows: Option<usize>) -> Result<Symbols, Error> {
    let rows = rows.map(|rows| i64::try_from(rows).unwrap_or(i64::MAX));
    symbols(graph, &Sizes { rows, ..Sizes::default() }, DEFAULT_ROWS[0] as i64)
}

/// Measures a case at a number of rows on `threads` threads, as the target's own compiler makes it: code that another
/// compiler swaps in behind the calls would make a figure of both.
///
/// # Errors
/// A graph that does not compile or run, or does not take that number of rows.
pub fn measure(case: &BenchCase, target: &Target, rows: Option<usize>, threads: usize) -> Result<BenchRow, Error> {
    let fused = compile(&case.graph, target, &options(true))?;
    let unfused = compile(&case.graph, target, &options(false))?;
    let sizes = binding(&case.graph, rows)?;
    let inputs = inputs(&case.graph, rows)?;
    let inputs: Vec<&HostTensor> = inputs.iter().collect();
    let outputs = fused.program.run_at(&sizes, &inputs, threads)?;
    let bytes = inputs.iter().copied().chain(&outputs).map(|t| t.bytes.len()).sum::<usize>();
    let source = zeroed(bytes / 2)?;
    let mut sink = zeroed(bytes / 2)?;
    let mut variants: [Variant<'_>; 3] = [
        Box::new(|| fused.program.run_discarding_at(&sizes, &inputs, threads)),
        Box::new(|| unfused.program.run_discarding_at(&sizes, &inputs, threads)),
        Box::new(|| {
            sink.copy_from_slice(black_box(&source));
            black_box(&mut sink);
            Ok(())
        }),
    ];
    let [fused_us, unfused_us, copy_us] = medians(&mut variants)?;
    let kernels = fused.program.counts().kernels;
    Ok(BenchRow { name: case.name.clone(), rows, fused_us, unfused_us, copy_us, bytes, kernels })
}

/// Options of what is measured, fused or with one kernel per op.
pub fn options(fuse: bool) -> Options {
    Options { fuse, tiers: Tiers::Off, ..Options::default() }
}

type Variant<'a> = Box<dyn FnMut() -> Result<(), Error> + 'a>;

/// Medians in microseconds per call. The variants take turns; each finds the caches as its own calls before left them.
fn medians<const N: usize>(variants: &mut [Variant<'_>; N]) -> Result<[f64; N], Error> {
    let mut calls = [1; N];
    for (variant, calls) in variants.iter_mut().zip(&mut calls) {
        variant()?;
        let start = Instant::now();
        variant()?;
        *calls = ((SAMPLE_SECONDS / start.elapsed().as_secs_f64().max(1e-9)) as u32).max(1);
    }
    let mut samples = [const { Vec::new() }; N];
    let start = Instant::now();
    while samples[0].len() < *SAMPLES.start()
        || (start.elapsed().as_secs_f64() < N as f64 * LEAST_SECONDS && samples[0].len() < *SAMPLES.end())
    {
        for ((variant, &calls), samples) in variants.iter_mut().zip(&calls).zip(&mut samples) {
            let settling = Instant::now();
            while settling.elapsed().as_secs_f64() < SETTLING_SECONDS {
                variant()?;
            }
            let start = Instant::now();
            for _ in 0..calls {
                variant()?;
            }
            samples.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
        }
    }
    Ok(samples.map(|mut s| {
        s.sort_by(f64::total_cmp);
        s[s.len() / 2]
    }))
}

/// Inputs of each call with every symbol bound to `rows`: floats of ordinary size, integers zero or one.
///
/// # Errors
/// A number of rows outside the range of a symbol, an extent that has no value there, or more elements than memory
/// holds.
pub fn inputs(graph: &Graph, rows: Option<usize>) -> Result<Vec<HostTensor>, Error> {
    let made = tensors(graph, &binding(graph, rows)?, DEFAULT_SEED, Values::Ordinary)?;
    made.iter().map(HostTensor::of).collect()
}
