//! Measuring kernels: fused against one kernel per op, and against a copy of as many bytes, interleaved in one run.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use fusewright_abi::{DType, Target};
use fusewright_graph::ops::{Composite, Floor, QuantizeDynamic, RmsNorm, RmsRounding, RopeNeox, Silu, SiluForm};
use fusewright_graph::tensor::Tensor;
use fusewright_graph::{Builder, Dim, Graph, InputKind, Prim, TensorType, TypeError, Value};

use crate::check::from_tensor;
use crate::host::zeroed;
use crate::{Error, HostTensor, Options, compile};

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
    /// Value of every symbol.
    pub rows: usize,
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

/// Rows that are measured unless others are asked for.
pub const DEFAULT_ROWS: [usize; 4] = [1, 32, 512, 4096];
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
    let norm = RmsNorm { eps: f64::from(1e-6f32), round: RmsRounding::BeforeWeight };
    Ok(b.composite(Composite::new(norm), &[x, w])?[0])
}

fn quantize(b: &Builder, x: Value, floor_of: Floor) -> Result<Vec<Value>, TypeError> {
    let floor = f64::from(1e-10f32);
    b.composite(Composite::new(QuantizeDynamic { bound: 448.0, floor, floor_of }), &[x])
}

fn silu_mul(b: &Builder) -> Result<Value, TypeError> {
    let x = b.input("x", rows(&[24576]));
    let half =
        |start: i64| b.prim(Prim::Slice { axis: 1, start: start.into(), end: (start + 12288).into(), step: 1 }, &[x]);
    let gate = b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[half(0)?])?[0];
    b.mul(gate, half(12288)?)
}

/// A graph whose weights are inputs of each call, so that it runs without a model's data.
pub fn without_weights(graph: &Graph) -> Graph {
    let b = Builder::new(graph.name());
    for symbol in graph.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    for input in graph.inputs() {
        map.insert(input.value, b.input(&input.name, graph.ty(input.value).clone()));
    }
    for node in graph.nodes() {
        let operands: Vec<Value> = node.operands.iter().map(|v| map[v]).collect();
        let results = b.op(node.op.clone(), &operands).expect("the node was typed in the graph it comes from");
        map.extend(node.results.iter().copied().zip(results));
    }
    graph.outputs().iter().for_each(|o| b.output(map[&o.value]));
    b.finish()
}

/// Measures a case at a number of rows on `threads` threads.
///
/// # Errors
/// A graph that does not compile or run.
pub fn measure(case: &BenchCase, target: &Target, rows: usize, threads: usize) -> Result<BenchRow, Error> {
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
/// An extent that has no value there, or a dtype that cannot be filled.
pub fn inputs(graph: &Graph, rows: usize) -> Result<Vec<HostTensor>, Error> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let users = graph.inputs().iter().filter(|i| matches!(i.kind, InputKind::User));
    let symbols: BTreeMap<&str, i64> = graph.symbols().iter().map(|s| (s.name.as_str(), rows as i64)).collect();
    let mut tensors = Vec::new();
    for input in users {
        let ty = graph.ty(input.value);
        let extent = |e: &Dim| {
            let value = e.eval(&|s| symbols.get(s).copied()).map_err(|e| Error::Call(e.to_string()))?;
            usize::try_from(value).map_err(|_| Error::Call(format!("extent {e} is {value}")))
        };
        let shape = ty.shape.iter().map(extent).collect::<Result<Vec<usize>, Error>>()?;
        let count = shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e));
        let count = count.filter(|n| Vec::<f64>::new().try_reserve_exact(*n).is_ok());
        let no_memory = || Error::Call(format!("input `{}`: no memory for {}{shape:?}", input.name, ty.dtype));
        let count = count.ok_or_else(no_memory)?;
        let tensor = if ty.dtype.is_float() {
            // A sum of uniform numbers is near enough to the normal activations of a model.
            let mut unit = || (next() >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
            Tensor::from_f64(ty.dtype, &shape, (0..count).map(|_| unit() + unit() + unit()).collect())
        } else {
            Tensor::from_i64(ty.dtype, &shape, (0..count).map(|_| (next() % 2) as i64).collect())
        };
        tensors.push(from_tensor(&tensor.map_err(|e| Error::Call(e.to_string()))?));
    }
    Ok(tensors)
}
