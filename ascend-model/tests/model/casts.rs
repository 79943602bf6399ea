//! Conversions against a reference that knows formats as lists of their values: every rounding mode, ties, saturation,
//! infinities, NaN and subnormals. SIMULATED.

use crate::support::{self, A2, A5, values};
use fusewright_ascend_model::{Argument, Chip, Options, Source};
use half::{bf16, f16};

/// A type of elements: its name in C++, its bytes, and the value of each code (NaN for none).
#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    bytes: usize,
    value: fn(u32) -> f64,
    /// Bits of a code in which codes of one sign ascend with their values; 0 for integers.
    float: bool,
    infinite: bool,
}

const F32: Type =
    Type { name: "float", bytes: 4, value: |c| f64::from(f32::from_bits(c)), float: true, infinite: true };
const F16: Type =
    Type { name: "half", bytes: 2, value: |c| f16::from_bits(c as u16).to_f64(), float: true, infinite: true };
const BF16: Type =
    Type { name: "bfloat16_t", bytes: 2, value: |c| bf16::from_bits(c as u16).to_f64(), float: true, infinite: true };
const E4M3: Type = Type { name: "fp8_e4m3fn_t", bytes: 1, value: e4m3, float: true, infinite: false };
const E5M2: Type = Type { name: "fp8_e5m2_t", bytes: 1, value: e5m2, float: true, infinite: false };
const I8: Type = Type { name: "int8_t", bytes: 1, value: |c| f64::from(c as i8), float: false, infinite: false };
const U8: Type = Type { name: "uint8_t", bytes: 1, value: f64::from, float: false, infinite: false };
const I16: Type = Type { name: "int16_t", bytes: 2, value: |c| f64::from(c as i16), float: false, infinite: false };
const I32: Type = Type { name: "int32_t", bytes: 4, value: |c| f64::from(c as i32), float: false, infinite: false };

fn e4m3(code: u32) -> f64 {
    let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
    match (code >> 3 & 15, code & 7) {
        (15, 7) => f64::NAN,
        (0, m) => sign * f64::from(m) / 512.0,
        (e, m) => sign * f64::from(8 + m) * 2f64.powi(e as i32 - 10),
    }
}

fn e5m2(code: u32) -> f64 {
    let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
    match (code >> 2 & 31, code & 3) {
        (31, 0) => sign * f64::INFINITY,
        (31, _) => f64::NAN,
        (0, m) => sign * f64::from(m) / 65536.0,
        (e, m) => sign * f64::from(4 + m) * 2f64.powi(e as i32 - 17),
    }
}

impl Type {
    fn bits(&self) -> u32 {
        8 * self.bytes as u32
    }

    /// Finite values around `v`: the largest not above and the smallest not below; `None` where there is none.
    fn around(&self, v: f64) -> (Option<f64>, Option<f64>) {
        if !self.float {
            let least = if self.name == "uint8_t" { 0.0 } else { -(2f64.powi(self.bits() as i32 - 1)) };
            let most = if self.name == "uint8_t" { 255.0 } else { -least - 1.0 };
            let inside = |w: f64| (least..=most).contains(&w).then_some(w);
            return (
                inside(v.floor()).or((v > most).then_some(most)),
                inside(v.ceil()).or((v < least).then_some(least)),
            );
        }
        // The magnitude's code, by bisection over codes of positive values.
        let mut below = 0u32;
        let mut above = 1u32 << (self.bits() - 1);
        let finite = |c: u32| (self.value)(c).is_finite();
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if finite(middle) && (self.value)(middle) <= v.abs() { below = middle } else { above = middle }
        }
        let low = (self.value)(below);
        let high = if low == v.abs() { Some(low) } else { finite(above).then(|| (self.value)(above)) };
        if v.is_sign_negative() { (high.map(|h| -h), Some(-low)) } else { (Some(low), high) }
    }

    fn largest(&self) -> f64 {
        let (low, _) = self.around(f64::MAX);
        low.expect("a largest value")
    }
}

/// What a conversion from float to float yields: a whole number.
fn whole(v: f64, mode: &str) -> Option<f64> {
    let rounded = match mode {
        "FLOOR" => v.floor(),
        "CEIL" => v.ceil(),
        "ROUND" => v.round(),
        "TRUNC" => v.trunc(),
        _ => v.round_ties_even(),
    };
    (!v.is_nan()).then_some(rounded)
}

fn odd(to: Type, v: f64) -> bool {
    let codes = 1u32 << (to.bits() - 1);
    (0..codes).find(|c| (to.value)(*c) == v.abs()).is_some_and(|c| c % 2 == 1)
}

/// What a conversion yields; `None` for NaN.
fn wanted(v: f64, to: Type, mode: &str) -> Option<f64> {
    if v.is_nan() {
        return if to.float { None } else { Some(0.0) };
    }
    if v.is_infinite() && to.infinite {
        return Some(v);
    }
    let chosen = match to.around(v) {
        (Some(low), Some(high)) if low == high => Some(low),
        (low, high) => match mode {
            "FLOOR" => low,
            "CEIL" => high,
            "TRUNC" => {
                if v < 0.0 {
                    high
                } else {
                    low
                }
            }
            "ODD" => match (low, high) {
                (Some(l), Some(h)) => Some(if odd(to, l) { l } else { h }),
                _ => {
                    if v < 0.0 {
                        high
                    } else {
                        low
                    }
                }
            },
            // To nearest; beyond the last value the next one that the format would have decides.
            _ => nearest(v, to, mode, low, high),
        },
    };
    let beyond = if to.infinite { f64::INFINITY } else { to.largest() };
    let least = if to.float { -beyond } else { to.around(f64::MIN).1.expect("a least value") };
    Some(chosen.unwrap_or(if v < 0.0 { least } else { beyond }))
}

fn nearest(v: f64, to: Type, mode: &str, low: Option<f64>, high: Option<f64>) -> Option<f64> {
    let (l, h) = match (low, high) {
        (Some(l), Some(h)) => (l, h),
        // One beyond the end of a float format: as far as the last two are apart.
        (Some(l), None) if to.float => (l, l + (l - to.around(l * (1.0 - 1e-9)).0.unwrap_or(l))),
        (None, Some(h)) if to.float => (h + (h - to.around(h * (1.0 - 1e-9)).1.unwrap_or(h)), h),
        _ => return low.or(high),
    };
    let (down, up) = (v - l, h - v);
    let low_wins = if down != up {
        down < up
    } else if mode == "ROUND" {
        v < 0.0
    } else if to.float {
        // Every other value is even; those beyond the end count on.
        low.is_some_and(|l| !odd(to, l)) || high.is_some_and(|h| odd(to, h))
    } else {
        l % 2.0 == 0.0
    };
    if low_wins { low } else { high }
}

fn sources(from: Type) -> Vec<u32> {
    let mut numbers: Vec<f64> = vec![0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 1.0, -1.0, 3.7, -3.7];
    numbers.extend([126.5, 127.0, 127.5, 128.0, -128.0, -128.5, -129.0, 255.0, 255.5, 256.0, -0.3, 32767.5, -32769.0]);
    numbers
        .extend([65504.0, 65519.0, 65520.0, 70000.0, -65520.0, 448.0, 464.0, 465.0, 57344.0, 61440.0, 1e6, -1e6, 3e9]);
    numbers.extend([-3e9, 1e-3, 6e-8, 3e-8, 2.9e-8, 1e-40, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    numbers.extend(
        values(21, 256 - numbers.len()).iter().enumerate().map(|(i, v)| f64::from(*v) * [1.0, 9.0, 300.0][i % 3]),
    );
    let code = |v: f64| match from.name {
        "float" => (v as f32).to_bits(),
        "half" => f16::from_f64(v).to_bits().into(),
        "bfloat16_t" => bf16::from_f64(v).to_bits().into(),
        "int8_t" => v as i8 as u8 as u32,
        "uint8_t" => (v as u8).into(),
        "int16_t" => v as i16 as u16 as u32,
        "int32_t" => (v * 1000.0) as i32 as u32,
        _ => (v.abs() as u32) & 0xff,
    };
    numbers.into_iter().map(code).collect()
}

fn bytes(codes: &[u32], size: usize) -> Vec<u8> {
    codes.iter().flat_map(|c| c.to_le_bytes()[..size].to_vec()).collect()
}

fn codes(bytes: &[u8], size: usize) -> Vec<u32> {
    bytes.chunks_exact(size).map(|c| c.iter().rev().fold(0, |code, byte| code << 8 | u32::from(*byte))).collect()
}

const WHOLE: &[&str] = &["RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"];
const EXACT: &[&str] = &["NONE"];

fn check(chip: Chip, pairs: &[(Type, Type, &[&str])]) {
    let Some(model) = support::model() else { return };
    let mut text = String::new();
    for (from, to, modes) in pairs {
        for mode in *modes {
            text += &format!(
                "extern \"C\" __global__ __aicore__ void k_{}_{}_{mode}(GM_ADDR xs, GM_ADDR ys) {{ Frame<uint8_t> f(xs, ys); \
                 f.Load(1024); LocalTensor<{}> x = f.in.DeQue<{}>(); LocalTensor<{}> y = f.out.AllocTensor<{}>(); \
                 Duplicate(y.template ReinterpretCast<uint16_t>(), uint16_t(0), 512); PipeBarrier<PIPE_V>(); \
                 Cast(y, x, RoundMode::CAST_{mode}, 256); f.in.FreeTensor(x); f.out.EnQue(y); f.Store(1024); }}\n",
                from.name, to.name, from.name, from.name, to.name, to.name
            );
        }
    }
    let frame = support::read("ascend-model/tests/model/support/frame.h");
    let headers = [Source { name: "frame.h", text: &frame }];
    let object = model.compile(&[Source { name: "casts.cpp", text: &text }], &headers, chip);
    let kernels = model.load(&object.unwrap_or_else(|e| panic!("{e}"))).unwrap_or_else(|e| panic!("{e}"));
    for (from, to, modes) in pairs {
        let given = sources(*from);
        let mut x = bytes(&given, from.bytes);
        x.resize(1024, 0);
        for mode in *modes {
            let name = format!("k_{}_{}_{mode}", from.name, to.name);
            let kernel = kernels.kernel(&name).unwrap_or_else(|e| panic!("{e}"));
            let mut y = vec![0; 1024];
            let arguments = &mut [Argument::In(&x), Argument::InOut(&mut y)];
            kernel.launch(1, arguments, &[], &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
            for (source, code) in given.iter().zip(codes(&y, to.bytes)) {
                let v = (from.value)(*source);
                let got = (to.value)(code);
                let wanted = if from.name == to.name { whole(v, mode) } else { wanted(v, *to, mode) };
                match wanted {
                    None => assert!(got.is_nan(), "{name}({v}): {got}"),
                    Some(w) => assert_eq!(got, w, "{name}({v})"),
                }
            }
        }
    }
}

#[test]
fn conversions_of_910b_round_and_saturate() {
    check(
        A2,
        &[
            (F32, F16, &["NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD"]),
            (F32, BF16, WHOLE),
            (F32, F32, WHOLE),
            (F32, I32, WHOLE),
            (F32, I16, WHOLE),
            (F16, F32, EXACT),
            (F16, I8, &["NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"]),
            (F16, U8, WHOLE),
            (F16, I16, WHOLE),
            (F16, I32, WHOLE),
            (BF16, F32, EXACT),
            (BF16, I32, WHOLE),
            (I8, F16, EXACT),
            (U8, F16, EXACT),
            (I16, F16, &["NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"]),
            (I16, F32, EXACT),
            (I32, F32, &["NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"]),
            (I32, I16, EXACT),
        ],
    );
}

#[test]
fn conversions_of_950_reach_8_bit_floats() {
    check(
        A5,
        &[
            (F32, E4M3, &["RINT"]),
            (F32, E5M2, &["RINT"]),
            (E4M3, F32, EXACT),
            (F16, BF16, &["RINT"]),
            (BF16, F16, &["RINT"]),
        ],
    );
}

#[test]
fn the_route_to_int8_clamps_and_rounds_once() {
    let Some(model) = support::model() else { return };
    let text = "extern \"C\" __global__ __aicore__ void k(GM_ADDR xs, GM_ADDR ys) { Frame<float> f(xs, ys); f.Load(512); \
        LocalTensor<float> x = f.in.DeQue<float>(); LocalTensor<int32_t> w = f.work.Get<int32_t>(); \
        LocalTensor<half> n = f.work.Get<half>()[2048]; LocalTensor<int8_t> y = f.out.AllocTensor<int8_t>(); \
        Cast(w, x, RoundMode::CAST_RINT, 512); PipeBarrier<PIPE_V>(); SetDeqScale(static_cast<half>(1.0)); \
        Cast(n, w, RoundMode::CAST_NONE, 512); PipeBarrier<PIPE_V>(); Cast(y, n, RoundMode::CAST_TRUNC, 512); \
        f.in.FreeTensor(x); f.out.EnQue(y); f.Store(128); } \
        extern \"C\" __global__ __aicore__ void nibbles(GM_ADDR xs, GM_ADDR ys) { Frame<half> f(xs, ys); f.Load(1024); \
        LocalTensor<half> x = f.in.DeQue<half>(); LocalTensor<int4b_t> y = f.out.AllocTensor<int4b_t>(); \
        Cast(y, x, RoundMode::CAST_RINT, 1024); f.in.FreeTensor(x); f.out.EnQue(y); f.Store(256); }";
    let frame = support::read("ascend-model/tests/model/support/frame.h");
    let headers = [Source { name: "frame.h", text: &frame }];
    let object = model.compile(&[Source { name: "route.cpp", text }], &headers, A2).unwrap_or_else(|e| panic!("{e}"));
    let kernels = model.load(&object).unwrap_or_else(|e| panic!("{e}"));
    let launch = |name: &str, x: &[u8]| {
        let mut y = vec![0; 2048];
        let kernel = kernels.kernel(name).unwrap_or_else(|e| panic!("{e}"));
        let arguments = &mut [Argument::In(x), Argument::InOut(&mut y)];
        kernel.launch(1, arguments, &[], &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        y
    };
    let mut x: Vec<f32> = values(31, 512).iter().map(|v| v * 100.0).collect();
    x[..6].copy_from_slice(&[0.5, 1.5, -0.5, -127.5, 1e9, -1e9]);
    let y = launch("k", &support::f32_bytes(&x));
    for (code, v) in y.iter().zip(&x) {
        assert_eq!(f32::from(*code as i8), v.round_ties_even().clamp(-128.0, 127.0), "{v}");
    }
    let halves: Vec<f16> = values(32, 1024).iter().map(|v| f16::from_f32(v * 8.0)).collect();
    let y = launch("nibbles", &halves.iter().flat_map(|h| h.to_le_bytes()).collect::<Vec<_>>());
    for (i, h) in halves.iter().enumerate() {
        let code = i32::from(y[i / 2] >> (i % 2 * 4) & 15);
        let value = if code >= 8 { code - 16 } else { code };
        assert_eq!(value as f32, h.to_f32().round_ties_even().clamp(-8.0, 7.0), "{h}");
    }
}
