//! Conversions of every 8- and 16-bit code to every dtype, and of f32: a sample, or all of them where
//! `FUSEWRIGHT_LONG` is set (`cargo run -p xtask -- long`). Graph interpreter, interpreter of Kernel IR and machine code
//! against an oracle of their own; rows of many lanes, that vectors divide and that they do not, and rows of tails alone.

use std::sync::atomic::{AtomicU64, Ordering};

use fusewright::graph::interp::{self, Symbols};
use fusewright::graph::{DType, Graph, Rounding, Tensor};
use fusewright::{CacheChoice, Compiler, HostTensor, Options, Program, Target, Tiers, compile};
use fusewright_codegen::backend::HOST_TARGETS;
use fusewright_codegen::kernel::interp::{Buffer, bits_at, cast as kernel_cast, put_bits, run as run_kernel};
use xtask::pieces;

use crate::oracle::{Line, e8m0, integer, value};

/// Set by `xtask long`: the number of threads that convert all f32.
const LONG: &str = "FUSEWRIGHT_LONG";

#[derive(Clone, Copy, Debug)]
struct Cast {
    from: DType,
    to: DType,
    round: Rounding,
    saturate: bool,
}

/// A conversion with what judges it.
struct Judge {
    cast: Cast,
    line: Option<Line>,
}

impl Judge {
    fn of(cast: Cast) -> Judge {
        Judge { cast, line: Line::of(cast.to) }
    }

    /// The code that a value becomes.
    fn code(&self, x: f64) -> u64 {
        let Cast { to, round, saturate, .. } = self.cast;
        let nearest = round == Rounding::NearestEven && !saturate;
        match (to, &self.line) {
            (DType::F64, _) => x.to_bits(),
            (DType::F32, _) => u64::from((x as f32).to_bits()),
            // Operands are exact in f32.
            (DType::BF16, _) if nearest => u64::from(half::bf16::from_f32(x as f32).to_bits()),
            (DType::F16, _) if nearest => u64::from(half::f16::from_f32(x as f32).to_bits()),
            (DType::F8E8M0, _) => e8m0(x, round, saturate),
            (_, Some(line)) => line.code(x, round, saturate),
            _ => integer(to, x, round, saturate),
        }
    }

    /// The codes that f32 become, which are neighbours in the order of their bits and of one sign. Rounding is monotone
    /// and NaNs are alike, so between two values of one code all have it; an integer that wraps is judged by itself.
    fn codes(&self, operands: &[u32], codes: &mut [u64]) {
        let code = |operand: &u32| self.code(f64::from(f32::from_bits(*operand)));
        let [first, .., last] = operands else {
            codes.iter_mut().zip(operands).for_each(|(to, operand)| *to = code(operand));
            return;
        };
        let wraps = !self.cast.to.is_float() && !self.cast.saturate;
        if !wraps && code(first) == code(last) {
            codes.fill(code(first));
            return;
        }
        let middle = operands.len() / 2;
        let (low, high) = codes.split_at_mut(middle);
        self.codes(&operands[..middle], low);
        self.codes(&operands[middle..], high);
    }

    /// Whether a code is right; NaNs of 16 bits and more are alike.
    fn allows(&self, want: u64, got: u64) -> bool {
        let wide = self.cast.to.is_float() && self.cast.to.bits() >= 16;
        got == want || (wide && value(self.cast.to, got).is_nan() && value(self.cast.to, want).is_nan())
    }
}

fn graph(cast: Cast, lanes: usize) -> Graph {
    let Cast { from, to, round, saturate } = cast;
    let saturate = if saturate { ", saturate" } else { "" };
    let text = format!(
        "graph @cast(s: 0..; %x: {from}[s, {lanes}]) {{
           %y = cast %x {{to = {to}, round = {}{saturate}}}
           return %y
         }}",
        round.name()
    );
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The program of a graph by each of [`HOST_TARGETS`].
fn compiled(graph: &Graph) -> Vec<(&'static Target, Program)> {
    let options = Options { cache: CacheChoice::Off, tiers: Tiers::Off, ..Options::default() };
    let program = |target| {
        let compiled = compile(graph, target, &options).unwrap_or_else(|e| panic!("{target}: {e}\n{graph}"));
        assert!(compiled.fallbacks.is_empty() && compiled.program.counts().kernels == 1, "{target}: {graph}");
        (target, compiled.program)
    };
    HOST_TARGETS.iter().map(program).collect()
}

fn bytes(dtype: DType, codes: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(codes.len())];
    codes.iter().enumerate().for_each(|(i, &code)| assert!(put_bits(dtype, &mut bytes, i, code)));
    bytes
}

#[track_caller]
fn judged(judge: &Judge, way: &str, codes: &[u64], got: &[u8]) {
    let Cast { from, to, .. } = judge.cast;
    for (i, &code) in codes.iter().enumerate() {
        let bits = bits_at(to, got, i).expect("as many results as operands");
        let x = value(from, code);
        let want = judge.code(x);
        if judge.allows(want, bits) {
            continue;
        }
        panic!("{way}: {:?} of {x:e} ({code:#x}) is {bits:#x}, not {want:#x}", judge.cast);
    }
}

/// Machine code on rows of so many lanes; both interpreters too where there is one row.
fn check(cast: Cast, codes: &[u64], lanes: usize) {
    let (judge, graph) = (Judge::of(cast), graph(cast, lanes));
    let rows = codes.len() / lanes;
    let codes = &codes[..rows * lanes];
    let x = bytes(cast.from, codes);
    let input = HostTensor { dtype: cast.from, shape: vec![rows, lanes], bytes: x.clone() };
    for (target, program) in compiled(&graph) {
        let got = program.run(&[&input], 1).unwrap_or_else(|e| panic!("{e}"));
        judged(&judge, &format!("machine code for {target}"), codes, &got[0].bytes);
    }
    if rows > 1 {
        return;
    }
    // What both interpreters do with an element; and all of both for the rounding that graphs ask for.
    let Cast { from, to, round, saturate } = cast;
    let meaning: Vec<u64> = codes.iter().map(|&code| kernel_cast(from, code, to, round, saturate)).collect();
    judged(&judge, "the interpreters", codes, &bytes(to, &meaning));
    if round != Rounding::NearestEven {
        return;
    }
    let tensor = Tensor::from_bytes(from, &[rows, lanes], &x).expect("bytes of its type");
    let point = interp::run(&graph, &[tensor], &Symbols::new()).unwrap_or_else(|e| panic!("{e}"));
    judged(&judge, "graph interpreter", codes, &point[0].to_bytes());
    let compiler = Compiler::new(&Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
    let (_, kernel) = compiler.kernel("cast", &graph).unwrap_or_else(|e| panic!("{e}"));
    let mut buffers = [Buffer::Bytes(x), Buffer::Bytes(vec![0xa5; to.bytes_for(codes.len())])];
    let dims = kernel.dims.iter().map(|d| (d.name.clone(), rows as i64)).collect();
    run_kernel(&kernel, &mut buffers, &dims, 0..1).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    judged(&judge, "Kernel IR", codes, buffers[1].bytes());
}

/// Roundings and saturation, one of each where neither changes anything.
fn modes(from: DType, to: DType) -> Vec<Cast> {
    let of = |round, saturate| Cast { from, to, round, saturate };
    if matches!(to, DType::F32 | DType::F64) {
        return vec![of(Rounding::NearestEven, false)];
    }
    Rounding::ALL.into_iter().flat_map(|round| [of(round, false), of(round, true)]).collect()
}

/// Every code of a dtype to every other, in one row and in rows of three lanes (six where two share a byte).
fn every_code(from: DType) {
    let all = 1u64 << from.bits();
    // One row ends in a tail, which begins with codes that have been in a vector.
    let codes: Vec<u64> = (0..all + 6).map(|code| code % all).collect();
    for to in DType::ALL.into_iter().filter(|&to| to != from) {
        let shared = from.bits().min(to.bits()) < 8;
        for cast in modes(from, to) {
            check(cast, &codes[..codes.len() - usize::from(!shared)], codes.len() - usize::from(!shared));
            check(cast, &codes, if shared { 6 } else { 3 });
        }
    }
}

#[test]
fn every_bf16() {
    every_code(DType::BF16);
}

#[test]
fn every_f16() {
    every_code(DType::F16);
}

#[test]
fn every_code_of_eight_and_four_bits() {
    pieces::each(&[DType::F8E4M3, DType::F8E5M2, DType::F8E8M0, DType::F4E2M1], |from| every_code(*from));
}

/// Next to every code of a short format and every middle between two, and others all over the line.
fn sample(to: DType) -> Vec<u64> {
    let mut codes: Vec<u64> = (0..1 << 16).map(|i: u64| (i * 65_521) & 0xffff_ffff).collect();
    if let Some(line) = Line::of(to) {
        let step = if to.bits() > 8 { 13 } else { 1 };
        let values = (0..1u64 << to.bits()).step_by(step).map(|code| (line.value(code), line.value(code + 1)));
        for x in values.filter(|(low, high)| low.is_finite() && high.is_finite()).flat_map(|(l, h)| [l, (l + h) / 2.0])
        {
            let bits = u64::from((x as f32).to_bits());
            codes.extend([bits, (bits + 1) & 0xffff_ffff, bits.wrapping_sub(1) & 0xffff_ffff]);
        }
    }
    let specials =
        [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0, 1e-45, 5.9e-39, 464.0, 480.0, 61440.0, 65520.0];
    codes.extend(specials.into_iter().flat_map(|x| [x, -x]).map(|x| u64::from(x.to_bits())));
    codes.extend((0..300).map(|i| u64::from((i as f32 - 150.0 + 0.5 * (i % 2) as f32).to_bits())));
    codes
}

#[test]
fn a_sample_of_f32() {
    for to in DType::ALL.into_iter().filter(|&to| to != DType::F32) {
        let codes = sample(to);
        // Rows of six lanes hold no vector of eight.
        let (odd, even) = (codes.len() - 1 + codes.len() % 2, codes.len() & !1);
        for cast in modes(DType::F32, to) {
            check(cast, &codes, if to.bits() < 8 { even } else { odd });
            check(cast, &codes, 6);
        }
    }
}

/// The conversions that quantisers end in.
const STORED: [(DType, Rounding, bool); 11] = [
    (DType::BF16, Rounding::NearestEven, false),
    (DType::F16, Rounding::NearestEven, false),
    (DType::F8E4M3, Rounding::NearestEven, true),
    (DType::F8E5M2, Rounding::NearestEven, false),
    (DType::I8, Rounding::NearestEven, true),
    (DType::F8E4M3, Rounding::NearestEven, false),
    (DType::F8E5M2, Rounding::NearestEven, true),
    (DType::I8, Rounding::TowardZero, false),
    (DType::F4E2M1, Rounding::NearestEven, true),
    (DType::F8E8M0, Rounding::NearestEven, false),
    (DType::F8E8M0, Rounding::Up, true),
];

/// Values that are converted at once, all of one sign.
const CHUNK: u64 = 1 << 16;

/// Converts one of every `step` f32, in the order of their bits, and gives how many there were.
fn chunk(programs: &[(&Target, Program)], judge: &Judge, start: u64, step: u64) -> u64 {
    let Cast { from, to, round, saturate } = judge.cast;
    let codes: Vec<u32> = (0..CHUNK).map(|i| (start + i * step + i * 4099 % step) as u32).collect();
    let x: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
    let input = HostTensor { dtype: from, shape: vec![1, codes.len()], bytes: x };
    let mut wanted = vec![0; codes.len()];
    judge.codes(&codes, &mut wanted);
    let meaning: Vec<u64> = codes.iter().map(|&code| kernel_cast(from, code.into(), to, round, saturate)).collect();
    let fail = |way: &str, i: usize, bits: u64| {
        let (code, want) = (codes[i], wanted[i]);
        panic!("{way}: {:?} of {:e} ({code:#x}) is {bits:#x}, not {want:#x}", judge.cast, f32::from_bits(code));
    };
    let expected = bytes(to, &wanted);
    for (target, program) in programs {
        let got = program.run(&[&input], 1).unwrap_or_else(|e| panic!("{e}"));
        // Nearly always the bytes are equal; else NaNs have other payloads, or a result is wrong.
        if got[0].bytes == expected {
            continue;
        }
        for (i, &want) in wanted.iter().enumerate() {
            let bits = bits_at(to, &got[0].bytes, i).expect("as many results as operands");
            if !judge.allows(want, bits) {
                fail(&format!("machine code for {target}"), i, bits);
            }
        }
    }
    for (i, (&want, &bits)) in wanted.iter().zip(&meaning).enumerate() {
        if !judge.allows(want, bits) {
            fail("the interpreters", i, bits);
        }
    }
    codes.len() as u64
}

/// All 2³² values if asked for, else 2¹⁸ of them.
#[test]
fn every_f32() {
    let threads: Option<u64> = std::env::var(LONG).ok().map(|n| n.parse().expect("a number of threads"));
    let step = if threads.is_some() { 1 } else { 1 << 14 };
    for (to, round, saturate) in STORED {
        let judge = Judge::of(Cast { from: DType::F32, to, round, saturate });
        let programs = compiled(&graph(judge.cast, CHUNK as usize));
        let (next, seen) = (AtomicU64::new(0), AtomicU64::new(0));
        let started = std::time::Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads.unwrap_or(1) {
                scope.spawn(|| {
                    loop {
                        let start = next.fetch_add(CHUNK * step, Ordering::Relaxed);
                        if start >= 1 << 32 {
                            break;
                        }
                        seen.fetch_add(chunk(&programs, &judge, start, step), Ordering::Relaxed);
                    }
                });
            }
        });
        let seen = seen.into_inner();
        assert_eq!(seen, (1 << 32) / step);
        if threads.is_some() {
            println!("{:?}: {seen} values in {} s", judge.cast, started.elapsed().as_secs());
        }
    }
}
