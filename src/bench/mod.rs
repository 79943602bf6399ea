//! Measuring kernels: fused against one kernel per op, and against a copy of as many bytes, interleaved in one run.

mod stack;

use std::hint::black_box;
use std::time::Instant;

use fusewright_abi::{DType, Target};
use fusewright_graph::interp::Symbols;
use fusewright_graph::ops::{Composite, Floor, QuantizeDynamic, RmsNorm, RmsRounding, RopeNeox, Silu, SiluForm};
use fusewright_graph::{Builder, Dim, Graph, Prim, TensorType, TypeError, Value};

use crate::host::zeroed;
use crate::inputs::{DEFAULT_SEED, Sizes, Values, symbols, tensors};
use crate::{Error, HostTensor, Options, compile};

pub use stack::{CompileReport, compile_suite};

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

/// Rows that are measured unless others are asked for, as far as they lie in the ranges of the symbols.
const DEFAULT_ROWS: [usize; 4] = [1, 32, 512, 4096];
/// Least time spent on one figure, in seconds.
const LEAST_SECONDS: f64 = 0.15;
/// Least and most samples of one figure.
const SAMPLES: std::ops::RangeInclusive<usize> = 5..=201;

/// The kernel suite: the main families at the row lengths of current models.
///
/// # Errors
/// None; the bodies are well typed.
pub fn kernel_suite() -> Result<Vec<BenchCase>, Error> {
    type Build = fn(&Builder) -> Result<Vec<Value>, TypeError>;
    let cases: [(&str, Build); 5] = [
        ("rms_norm_4096", |b| {
            let (x, w) = (b.input("x", rows(&[4096])), b.input("w", bf16(&[4096])));
            norm(b, x, w).map(|y| vec![y])
        }),
        ("add_rms_norm_fp8_token_4096", |b| {
            let (x, r) = (b.input("x", rows(&[4096])), b.input("r", rows(&[4096])));
            let h = b.add(x, r)?;
            let y = norm(b, h, b.input("w", bf16(&[4096])))?;
            let mut results = quantize(b, y, Floor::Scale)?;
            results.push(h);
            Ok(results)
        }),
        ("silu_mul_12288", |b| Ok(vec![silu_mul(b)?])),
        ("silu_mul_fp8_group128_12288", |b| {
            let groups = b.reshape(silu_mul(b)?, vec![Dim::symbol("s"), 96.into(), 128.into()])?;
            quantize(b, groups, Floor::AbsMax)
        }),
        ("qk_norm_rope_32x128", |b| {
            let (x, w) = (b.input("x", rows(&[32, 128])), b.input("w", bf16(&[128])));
            let (cos, sin) = (b.input("cos", rows(&[1, 128])), b.input("sin", rows(&[1, 128])));
            let y = norm(b, x, w)?;
            b.composite(Composite::new(RopeNeox), &[y, cos, sin])
        }),
    ];
    let case = |(name, build): (&str, Build)| {
        let b = Builder::new(name);
        b.symbol("s", 0, None);
        let outputs = build(&b).map_err(|e| Error::Internal(format!("suite case `{name}`: {e}")))?;
        outputs.into_iter().for_each(|value| b.output(value));
        Ok(BenchCase { name: name.to_owned(), graph: b.finish() })
    };
    cases.into_iter().map(case).collect()
}

fn rows(extents: &[i64]) -> TensorType {
    TensorType::new(DType::BF16, [Dim::symbol("s")].into_iter().chain(extents.iter().map(|&e| e.into())))
}

fn bf16(extents: &[i64]) -> TensorType {
    TensorType::new(DType::BF16, extents.iter().map(|&e| e.into()))
}

fn norm(b: &Builder, x: Value, w: Value) -> Result<Value, TypeError> {
    let norm = RmsNorm::new(f64::from(1e-6f32), RmsRounding::BeforeWeight);
    Ok(b.composite(Composite::new(norm), &[x, w])?[0])
}

fn quantize(b: &Builder, x: Value, floor_of: Floor) -> Result<Vec<Value>, TypeError> {
    let floor = f64::from(1e-10f32);
    b.composite(Composite::new(QuantizeDynamic { floor, floor_of, ..QuantizeDynamic::default() }), &[x])
}

fn silu_mul(b: &Builder) -> Result<Value, TypeError> {
    let x = b.input("x", rows(&[24576]));
    let half =
        |start: i64| b.prim(Prim::Slice { axis: 1, start: start.into(), end: (start + 12288).into(), step: 1 }, &[x]);
    let gate = b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[half(0)?])?[0];
    b.mul(gate, half(12288)?)
}

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

/// Measures a case at a number of rows on `threads` threads.
///
/// # Errors
/// A graph that does not compile or run, or does not take that number of rows.
pub fn measure(case: &BenchCase, target: &Target, rows: Option<usize>, threads: usize) -> Result<BenchRow, Error> {
    let fused = compile(&case.graph, target, &Options::default())?;
    let unfused = compile(&case.graph, target, &Options { fuse: false, ..Options::default() })?;
    let inputs = inputs(&case.graph, rows)?;
    let inputs: Vec<&HostTensor> = inputs.iter().collect();
    let outputs = fused.program.run(&inputs, threads)?;
    let bytes = inputs.iter().copied().chain(&outputs).map(|t| t.bytes.len()).sum::<usize>();
    let source = zeroed(bytes / 2)?;
    let mut sink = zeroed(bytes / 2)?;
    let mut variants: [Box<dyn FnMut() -> Result<(), Error> + '_>; 3] = [
        Box::new(|| fused.program.run_discarding(&inputs, threads)),
        Box::new(|| unfused.program.run_discarding(&inputs, threads)),
        Box::new(|| {
            sink.copy_from_slice(black_box(&source));
            black_box(&mut sink);
            Ok(())
        }),
    ];
    let mut samples: [Vec<f64>; 3] = Default::default();
    let start = Instant::now();
    while samples[0].len() < *SAMPLES.start()
        || (start.elapsed().as_secs_f64() < 3.0 * LEAST_SECONDS && samples[0].len() < *SAMPLES.end())
    {
        for (variant, samples) in variants.iter_mut().zip(&mut samples) {
            let start = Instant::now();
            variant()?;
            samples.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    let [fused_us, unfused_us, copy_us] = samples.map(|mut s| {
        s.sort_by(f64::total_cmp);
        s[s.len() / 2]
    });
    let kernels = fused.program.counts().kernels;
    Ok(BenchRow { name: case.name.clone(), rows, fused_us, unfused_us, copy_us, bytes, kernels })
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
