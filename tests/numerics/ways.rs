//! One graph on given inputs: every way to run it, against what an oracle says.

use fusewright::diff::{Verdict, first_difference, graph_on};
use fusewright::graph::interp::{self, Symbols};
use fusewright::graph::{DType, Graph, Tensor};
use fusewright::{HostTensor, Options, Target, compile};
use fusewright_codegen::kernel::interp::put_bits;

/// The functions that machine code need not round correctly, as one way computes them.
#[derive(Clone, Copy)]
pub struct Functions {
    /// `1 / sqrt(x)`.
    pub rsqrt: fn(f32) -> f32,
}

/// Rounded once, as the graph says.
const GRAPH: Functions = Functions { rsqrt: |x| (1.0 / f64::from(x).sqrt()) as f32 };
/// Rounded twice, as kernels expand it.
const KERNEL: Functions = Functions { rsqrt: |x| 1.0 / x.sqrt() };

fn parsed(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs the graph every way and gives the results of the graph interpreter and of the program.
#[track_caller]
fn run(text: &str, inputs: &[Tensor], kernels_alone: bool) -> [Vec<Tensor>; 2] {
    let graph = parsed(text);
    let rows = inputs.first().and_then(|x| x.shape().first()).map_or(0, |&rows| rows as i64);
    let symbols = graph.symbols().iter().map(|s| (s.name.clone(), rows)).collect::<Symbols>();
    match graph_on(&graph, &symbols, inputs).unwrap_or_else(|e| panic!("{e}\n{text}")) {
        Verdict::Differ(difference) => panic!("{difference}\n{text}"),
        Verdict::Equal(agreement) => {
            assert!(!kernels_alone || agreement.fallbacks.is_empty(), "{:?}: {text}", agreement.fallbacks);
        }
    }
    let point = interp::run(&graph, inputs, &symbols).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = compile(&graph, &Target::Cpu, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let given = inputs.iter().map(HostTensor::of).collect::<Result<Vec<HostTensor>, _>>();
    let given = given.unwrap_or_else(|e| panic!("{e}"));
    let results = compiled.program.run(&given.iter().collect::<Vec<_>>(), 2).unwrap_or_else(|e| panic!("{e}"));
    let tensor = |t: &HostTensor| Tensor::from_bytes(t.dtype, &t.shape, &t.bytes).expect("bytes of its type");
    [point, results.iter().map(tensor).collect()]
}

#[track_caller]
fn compare(way: &str, text: &str, got: &[Tensor], want: &[Tensor]) {
    assert_eq!(got.len(), want.len(), "{way}: {text}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{way}, out{i}: {text}");
        if let Some(first) = first_difference(got.dtype(), &got.to_bytes(), &want.to_bytes()) {
            panic!("{way}: out{i}{first}\n{text}");
        }
    }
}

/// Every way gives the oracle's bits. Sums in the graph must be exact in f32, so that their order says nothing.
#[track_caller]
pub fn exact(text: &str, inputs: &[Tensor], oracle: impl Fn(Functions) -> Vec<Tensor>) {
    let [point, machine] = run(text, inputs, true);
    compare("graph interpreter", text, &point, &oracle(GRAPH));
    compare("machine code", text, &machine, &oracle(KERNEL));
}

/// As [`exact`], for graphs of which a part moves elements without a kernel.
#[track_caller]
pub fn reference(text: &str, inputs: &[Tensor], oracle: impl Fn(Functions) -> Vec<Tensor>) {
    let [point, program] = run(text, inputs, false);
    compare("graph interpreter", text, &point, &oracle(GRAPH));
    compare("program", text, &program, &oracle(KERNEL));
}

/// The graph interpreter gives the oracle's bits, and machine code codes next to them, of which most are the same: for
/// graphs of functions that are approximate.
#[track_caller]
pub fn near(text: &str, inputs: &[Tensor], oracle: impl Fn(Functions) -> Vec<Tensor>) {
    let [point, machine] = run(text, inputs, true);
    compare("graph interpreter", text, &point, &oracle(GRAPH));
    for (got, want) in machine.iter().zip(oracle(KERNEL)) {
        let difference = got.compare(&want).expect("the same type");
        let (ulps, off, all) = (difference.max_ulp, difference.mismatched, difference.elements);
        let allowed = if want.dtype() == DType::F32 { 8 } else { 1 };
        assert!(
            ulps <= allowed && (off * 8 <= all || want.dtype() == DType::F32),
            "{ulps} ulp, {off} of {all}: {text}"
        );
    }
}

/// Whether two graphs differ on some input: a variant that changes nothing would be no variant.
#[track_caller]
pub fn differ(text: &str, other: &str, inputs: &[Tensor]) {
    let [point, _] = run(text, inputs, true);
    let [other_point, _] = run(other, inputs, true);
    let bytes = |tensors: &[Tensor]| tensors.iter().map(Tensor::to_bytes).collect::<Vec<_>>();
    assert_ne!(bytes(&point), bytes(&other_point), "{text}\n{other}");
}

/// A tensor of values that the dtype holds.
pub fn floats(dtype: DType, shape: &[usize], values: &[f32]) -> Tensor {
    let values = values.iter().map(|&x| f64::from(x)).collect();
    Tensor::from_f64(dtype, shape, values).expect("as many values as the shape takes")
}

/// A tensor of integers.
pub fn ints(dtype: DType, shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_i64(dtype, shape, values.to_vec()).expect("as many values as the shape takes")
}

/// A tensor of codes.
pub fn coded(dtype: DType, shape: &[usize], codes: &[u64]) -> Tensor {
    let mut bytes = vec![0; dtype.bytes_for(codes.len())];
    codes.iter().enumerate().for_each(|(i, &code)| assert!(put_bits(dtype, &mut bytes, i, code)));
    Tensor::from_bytes(dtype, shape, &bytes).expect("as many codes as the shape takes")
}

/// A small generator with a stated sequence.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Multiples of `step` below `limit` in magnitude.
    pub fn steps(&mut self, count: usize, limit: i64, step: f32) -> Vec<f32> {
        (0..count).map(|_| (self.bits() % (2 * limit as u64 - 1)) as i64 - limit + 1).map(|n| n as f32 * step).collect()
    }

    /// bf16 values of many magnitudes.
    pub fn wide(&mut self, count: usize) -> Vec<f32> {
        let value = |bits: u64| (1.0 + (bits % 128) as f32 / 128.0) * 2f32.powi((bits >> 8) as i32 % 12 - 6);
        (0..count)
            .map(|_| self.bits() >> 20)
            .map(|bits| if bits & 128 == 0 { value(bits) } else { -value(bits) })
            .collect()
    }
}
