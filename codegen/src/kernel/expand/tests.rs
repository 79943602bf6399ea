//! The expansions against the table: exact functions to the bit, the others by their greatest distance.

use std::collections::BTreeMap;

use fusewright_graph::{DType, ScalarFn, num};

use super::{Column, expand};
use crate::kernel::interp::{Buffer, bits_at, put_bits, run};
use crate::kernel::{InstOp, Kernel, verify};

/// A kernel that maps its inputs by one function.
fn kernel(f: ScalarFn, dtype: DType) -> Kernel {
    try_kernel(f, dtype).expect("the function takes the dtype")
}

/// `None` if the function does not take the dtype.
fn try_kernel(f: ScalarFn, dtype: DType) -> Option<Kernel> {
    let out = if f.spec().yields == fusewright_graph::scalar::Yields::Bool { DType::Bool } else { dtype };
    let names: Vec<String> = (0..f.arity()).map(|i| format!("x{i}")).collect();
    let mut params: String = names.iter().map(|n| format!("param %{n}: {dtype}[n] in\n")).collect();
    let loads: String = names.iter().map(|n| format!("%{n} = load {n}[lane] : row<{dtype}, n>\n")).collect();
    let args = names.iter().map(|n| format!("%{n}")).collect::<Vec<_>>().join(", ");
    let loads = if f == ScalarFn::Select {
        params = params.replacen(&format!("x0: {dtype}"), "x0: bool", 1);
        loads.replacen(&format!("row<{dtype}"), "row<bool", 1)
    } else {
        loads
    };
    let text = format!(
        "kernel @k(n) rows 1 {{ {params} param %y: {out}[n] out segment @m inner 1 {{ {loads} \
         %y = {} {args}\n store y[lane], %y }} }}",
        f.name()
    );
    text.parse().ok()
}

fn evaluate(kernel: &Kernel, dtype: DType, operands: &[Vec<u64>]) -> Vec<u64> {
    let n = operands[0].len();
    let mut buffers: Vec<Buffer> = operands
        .iter()
        .map(|codes| {
            let mut bytes = vec![0; dtype.bytes_for(n)];
            codes.iter().enumerate().for_each(|(i, &c)| assert!(put_bits(dtype, &mut bytes, i, c)));
            Buffer::Bytes(bytes)
        })
        .collect();
    let out = kernel.params.last().expect("the result").dtype;
    buffers.push(Buffer::Bytes(vec![0; out.bytes_for(n)]));
    run(kernel, &mut buffers, &BTreeMap::from([("n".to_owned(), n as i64)]), 0..1).unwrap_or_else(|e| panic!("{e}"));
    let bytes = buffers.last().expect("the result").bytes();
    (0..n).map(|i| bits_at(out, bytes, i).expect("in range")).collect()
}

/// Numbers from a fixed seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn edges(dtype: DType) -> Vec<u64> {
    let max = num::max_finite(dtype);
    let values =
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, max, -max, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 88.0, 1e-3];
    let mut codes: Vec<u64> = values.iter().map(|&v| num::encode(dtype, v)).collect();
    // The least subnormals and normals, and their negatives.
    let mantissa_bits = [DType::F32, DType::BF16, DType::F16].iter().position(|d| *d == dtype).map(|i| [23, 7, 10][i]);
    for code in [1u64, 2, 3].into_iter().chain(mantissa_bits.map(|m| 1 << m)) {
        codes.extend([code, code | 1 << (dtype.bits() - 1)]);
    }
    codes
}

fn same(dtype: DType, a: u64, b: u64) -> bool {
    a == b || dtype.is_float() && num::decode(dtype, a).is_nan() && num::decode(dtype, b).is_nan()
}

/// Whether an expanded map equals the direct one to the bit on all pairs of edges and random operands.
fn assert_exact(f: ScalarFn, dtype: DType, column: Column) {
    let direct = kernel(f, dtype);
    let expanded = expand(&direct, column).unwrap_or_else(|e| panic!("{e}"));
    let mut random = Random(f as u64);
    let mask = u64::MAX >> (64 - dtype.bits());
    let mut operands = vec![Vec::new(); f.arity()];
    let edge = if dtype.bits() == 8 { (0..256).collect() } else { edges(dtype) };
    for &a in &edge {
        for &b in &edge {
            for (slot, code) in operands.iter_mut().zip([a, b, random.next() & mask]) {
                slot.push(code);
            }
        }
    }
    for i in 0..12_000 {
        let base = random.next() & mask;
        for (k, slot) in operands.iter_mut().enumerate() {
            // Half of the operands have nearby exponents.
            let near = base ^ (random.next() & mask >> (dtype.bits() / 4));
            slot.push(if k == 0 {
                base
            } else if i % 2 == 0 {
                near
            } else {
                random.next() & mask
            });
        }
    }
    let (a, b) = (evaluate(&direct, dtype, &operands), evaluate(&expanded, dtype, &operands));
    let out = direct.params.last().expect("the result").dtype;
    for (i, (&x, &y)) in a.iter().zip(&b).enumerate() {
        let at: Vec<f64> = operands.iter().map(|o| num::decode(dtype, o[i])).collect();
        assert!(same(out, x, y), "{} {dtype} {column:?} of {at:?}: {x:#x}, expanded {y:#x}", f.name());
    }
}

#[test]
fn narrow_maps_equal_the_direct_meaning() {
    use ScalarFn::*;
    for dtype in [DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2] {
        for f in [Add, Sub, Mul, Div, Sqrt, Rem, Fma, Max, Min, MaxNum, MinNum, Neg, Abs, Recip] {
            assert_exact(f, dtype, Column::Cpu);
        }
        for f in [Floor, Ceil, Trunc, RoundEven, Eq, Ne, Lt, Le, Gt, Ge] {
            assert_exact(f, dtype, Column::Cuda);
        }
    }
}

#[test]
fn exact_functions_equal_the_table() {
    use ScalarFn::*;
    for column in Column::ALL {
        for f in [Recip, MaxNum, MinNum, Ue8m0Ceil, Rem] {
            assert_exact(f, DType::F32, column);
        }
    }
}

/// Greatest distance in ulp of f32 from the exact value, over all exponents and a number of mantissas, and the number
/// of special results that are wrong.
fn greatest_error(f: ScalarFn, column: Column, operands: &[Vec<u64>]) -> f64 {
    let expanded = expand(&kernel(f, DType::F32), column).unwrap_or_else(|e| panic!("{e}"));
    let results = evaluate(&expanded, DType::F32, operands);
    let mut greatest = 0f64;
    for (i, &bits) in results.iter().enumerate() {
        let x: Vec<f64> = operands.iter().map(|o| num::decode(DType::F32, o[i])).collect();
        let (exact, got) = (f.eval(&x), num::decode(DType::F32, bits));
        let rounded = f64::from(exact as f32);
        if same(DType::F32, num::encode(DType::F32, exact), bits) {
            continue;
        }
        assert!(!exact.is_nan() && !got.is_nan(), "{} of {x:?}: {got}, exact {exact}", f.name());
        let limit =
            |v: f64| if v.is_infinite() { f64::from(f32::MAX) * (1.0 + 2f64.powi(-24)) * v.signum() } else { v };
        let error = (limit(got) - limit(exact)).abs() / num::ulp(DType::F32, rounded);
        assert!(error < 50.0, "{} of {x:?}: {got}, exact {exact}, {error} ulp", f.name());
        greatest = greatest.max(error);
    }
    greatest
}

/// Every sign and exponent with some mantissas.
fn sweep(mantissas: usize) -> Vec<u64> {
    let mut random = Random(7);
    let mut codes = edges(DType::F32);
    for top in 0..512u64 {
        codes.extend([top << 23, top << 23 | 0x7f_ffff]);
        codes.extend((0..mantissas).map(|_| top << 23 | random.next() & 0x7f_ffff));
    }
    codes
}

fn between(low: f32, high: f32, count: usize) -> Vec<u64> {
    let mut random = Random(11);
    let unit = |r: u64| (r >> 11) as f64 / (1u64 << 53) as f64;
    let values = (0..count).map(|_| f64::from(low) + unit(random.next()) * (f64::from(high) - f64::from(low)));
    values.map(|v| num::encode(DType::F32, v)).collect()
}

fn assert_within(f: ScalarFn, bound: f64, operands: &[Vec<u64>]) {
    assert_within_on(Column::Cpu, f, bound, operands);
}

fn assert_within_on(column: Column, f: ScalarFn, bound: f64, operands: &[Vec<u64>]) {
    let error = greatest_error(f, column, operands);
    println!("{} {error:.3} ulp", f.name());
    assert!(error <= bound, "{}: {error} ulp, stated are {bound}", f.name());
    let fusewright_graph::scalar::Accuracy::Approx(class) = f.spec().accuracy else { return };
    assert!(bound <= f64::from(class), "{}: the table says {class}", f.name());
}

#[test]
fn exponentials_are_as_accurate_as_stated() {
    let codes = [sweep(150), between(-104.0, 89.0, 60_000), between(-1.0, 1.0, 20_000)].concat();
    assert_within(ScalarFn::Exp, 1.0, &[codes]);
    let codes = [sweep(150), between(-150.0, 128.0, 60_000), between(-1.0, 1.0, 20_000)].concat();
    assert_within(ScalarFn::Exp2, 1.0, &[codes]);
}

#[test]
fn roots_and_logarithms_are_as_accurate_as_stated() {
    assert_within(ScalarFn::Rsqrt, 1.5, &[sweep(150)]);
    let codes = [sweep(150), between(0.5, 2.0, 60_000)].concat();
    assert_within(ScalarFn::Log, 1.0, std::slice::from_ref(&codes));
    assert_within(ScalarFn::Log2, 1.0, &[codes]);
}

#[test]
fn hyperbolic_and_error_function_are_as_accurate_as_stated() {
    let codes = [sweep(150), between(-10.0, 10.0, 60_000), between(-1.0, 1.0, 20_000)].concat();
    assert_within(ScalarFn::Tanh, 2.7, std::slice::from_ref(&codes));
    assert_within(ScalarFn::Erf, 1.5, std::slice::from_ref(&codes));
    assert_within_on(Column::Ascend, ScalarFn::Tanh, 2.0, std::slice::from_ref(&codes));
    assert_within_on(Column::Ascend, ScalarFn::Erf, 2.0, &[codes]);
}

#[test]
fn the_complement_of_the_error_function_is_as_accurate_as_stated() {
    let codes = [sweep(150), between(-4.0, 10.1, 80_000), between(-1.0, 1.0, 20_000)].concat();
    assert_within(ScalarFn::Erfc, 3.0, &[codes]);
}

#[test]
fn the_inverse_of_the_error_function_is_as_accurate_as_stated() {
    // Beside one, a step of the operand is a large one of the result.
    let ends = (1..2000u64).flat_map(|i| [0x3f80_0000 - i, 0xbf80_0000 - i]).collect();
    let codes = [sweep(150), between(-1.0, 1.0, 60_000), ends].concat();
    assert_within(ScalarFn::Erfinv, 3.0, std::slice::from_ref(&codes));
    assert_within_on(Column::Ascend, ScalarFn::Erfinv, 3.5, &[codes]);
}

#[test]
fn angles_and_distances_are_as_accurate_as_stated() {
    let (edge, mut random) = (edges(DType::F32), Random(13));
    let mut operands = vec![Vec::new(), Vec::new()];
    let mut push = |a: u64, b: u64| operands.iter_mut().zip([a, b]).for_each(|(slot, code)| slot.push(code));
    edge.iter().for_each(|&a| edge.iter().for_each(|&b| push(a, b)));
    for a in sweep(80) {
        // Any point, one of a near magnitude, and the function of one operand.
        push(a, random.next() & 0xffff_ffff);
        push(a, (a ^ random.next() & 0x80ff_ffff) & 0xffff_ffff);
        push(a, num::encode(DType::F32, 1.0));
    }
    assert_within(ScalarFn::Atan2, 3.0, &operands);
    assert_within(ScalarFn::Hypot, 1.0, &operands);
}

#[test]
fn sine_and_cosine_are_as_accurate_as_stated() {
    let codes = [sweep(150), between(-10.0, 10.0, 40_000), between(-140_000.0, 140_000.0, 60_000)].concat();
    assert_within(ScalarFn::Sin, 1.6, std::slice::from_ref(&codes));
    assert_within(ScalarFn::Cos, 1.6, &[codes]);
}

#[test]
fn powers_are_as_accurate_as_stated() {
    let edge = edges(DType::F32);
    let mut operands = vec![Vec::new(), Vec::new()];
    for &a in &edge {
        for &b in &edge {
            operands[0].push(a);
            operands[1].push(b);
        }
    }
    let mut random = Random(3);
    for base in sweep(80) {
        // Exponents whose results are in range.
        let log = num::decode(DType::F32, base).abs().log2();
        let unit = (random.next() >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
        operands[0].push(base);
        operands[1].push(num::encode(DType::F32, unit * 150.0 / log));
        operands[0].push(base);
        operands[1].push(num::encode(DType::F32, f64::from((random.next() % 9) as u32) - 4.0));
    }
    assert_within(ScalarFn::Pow, 3.0, &operands);
}

#[test]
fn what_is_left_is_native() {
    let mut expanded_maps = 0;
    for column in Column::ALL {
        for &f in ScalarFn::ALL {
            for dtype in DType::ALL {
                let Some(direct) = try_kernel(f, dtype) else { continue };
                let Ok(expanded) = expand(&direct, column) else {
                    let transcendental = f.spec().accuracy != fusewright_graph::scalar::Accuracy::Exact;
                    let wide = dtype == DType::F64 || f == ScalarFn::Rem && column == Column::Ascend;
                    assert!(transcendental && wide || dtype == DType::F64, "{} on {dtype}, {column:?}", f.name());
                    continue;
                };
                verify(&expanded).unwrap_or_else(|e| panic!("{e}"));
                expanded_maps += 1;
                let segment = &expanded.segments[0];
                for inst in &segment.insts {
                    let InstOp::Map(g) = inst.op else { continue };
                    let of = segment.ty(*inst.args.last().expect("an operand")).dtype;
                    let legal = g == ScalarFn::Select || !of.is_float() || of.bits() >= 32;
                    assert!(legal && column.is_native(g), "{} on {dtype}, {column:?}: {} on {of}", f.name(), g.name());
                }
            }
        }
    }
    assert!(expanded_maps > 1000, "{expanded_maps}");
}

#[test]
fn narrow_orderings_equal_the_direct_meaning() {
    let text = "kernel @k(n) rows 1 { claim 2 <= n param %x: bf16[n] in param %m: bf16[floordiv(n + 2, 3)] out param %t: bf16[2] out \
        param %l: i32[2] out param %a: bf16[1] out param %i: i32[1] out segment @m inner 1 { \
        %x = load x[lane] : row<bf16, n> %m = reduce max %x over group 3 nan ignore order tree(2) store m[lane], %m \
        %t, %l = top_k %x k 2 store t[lane], %t store l[lane], %l \
        %a, %i = arg_reduce min %x store a[0], %a store i[0], %i } }";
    let direct: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let expanded = expand(&direct, Column::Cuda).unwrap_or_else(|e| panic!("{e}"));
    let mut random = Random(5);
    for _ in 0..200 {
        let x: Vec<u8> = (0..14).map(|_| random.next() as u8).collect();
        let run_on = |kernel: &Kernel| {
            let mut buffers: Vec<Buffer> = [14, 6, 4, 8, 2, 4].map(|n| Buffer::Bytes(vec![0; n])).to_vec();
            buffers[0] = Buffer::Bytes(x.clone());
            run(kernel, &mut buffers, &BTreeMap::from([("n".to_owned(), 7)]), 0..1).unwrap_or_else(|e| panic!("{e}"));
            buffers
        };
        let (a, b) = (run_on(&direct), run_on(&expanded));
        for (at, (a, b)) in a.iter().zip(&b).enumerate() {
            let dtype = direct.params[at].dtype;
            let count = a.bytes().len() * 8 / dtype.bits() as usize;
            for i in 0..count {
                let bits = |buffer: &Buffer| bits_at(dtype, buffer.bytes(), i).expect("in range");
                assert!(same(dtype, bits(a), bits(b)), "{} {i} of {x:?}", direct.params[at].name);
            }
        }
    }
}

/// A kernel of one `f32` row `%x` with a body that defines `%y`.
fn body(out: DType, body: &str) -> Kernel {
    let text = format!(
        "kernel @k(n) rows 1 {{ param %x0: f32[n] in param %y: {out}[n] out segment @m inner 1 {{ \
         %x = load x0[lane] : row<f32, n> {body} store y[lane], %y }} }}"
    );
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn expanded(kernel: &Kernel) -> Kernel {
    let expanded = expand(kernel, Column::Cpu).unwrap_or_else(|e| panic!("{e}"));
    verify(&expanded).unwrap_or_else(|e| panic!("{e}"));
    expanded
}

fn maps(kernel: &Kernel) -> usize {
    kernel.segments.iter().flat_map(|s| &s.insts).filter(|i| matches!(i.op, InstOp::Map(_))).count()
}

#[test]
fn one_and_an_exponential_are_the_sum_of_both() {
    let codes = [sweep(100), between(-110.0, 92.0, 60_000), between(-110.0, -60.0, 10_000)].concat();
    for negative in [false, true] {
        let of = if negative { "%z = neg %x %e = exp %z" } else { "%e = exp %x" };
        let whole = expanded(&body(DType::F32, &format!("{of} %y = abs %e")));
        let sum = expanded(&body(DType::F32, &format!("{of} %one = literal f32 1.0 %y = add %one, %e")));
        assert!(maps(&sum) < maps(&whole), "one factor:\n{sum}");
        assert!(!sum.to_string().contains("neg"), "constants have the sign:\n{sum}");
        let codes = std::slice::from_ref(&codes);
        let (powers, sums) = (evaluate(&whole, DType::F32, codes), evaluate(&sum, DType::F32, codes));
        for ((&x, &e), &y) in codes[0].iter().zip(&powers).zip(&sums) {
            let exact = f32::from_bits(e as u32) + 1.0;
            assert!(same(DType::F32, u64::from(exact.to_bits()), y), "{x:#x}: {y:#x}, expected {exact}");
        }
    }
}

#[test]
fn an_exponential_below_one_has_the_bits_of_any_other() {
    let below = "%m = reduce max %x over row nan propagate order tree(16) %d = sub %x, %m %y = exp %d";
    let (below, any) = (expanded(&body(DType::F32, below)), expanded(&body(DType::F32, "%y = exp %x")));
    assert!(maps(&below) + 3 < maps(&any), "no upper bound, one power:\n{below}");
    let minus_infinity = u64::from(f32::NEG_INFINITY.to_bits());
    let codes = [between(-160.0, 0.0, 80_000), between(-104.5, -86.0, 80_000), vec![0, minus_infinity]].concat();
    let codes = std::slice::from_ref(&codes);
    let (below, any) = (evaluate(&below, DType::F32, codes), evaluate(&any, DType::F32, codes));
    for ((x, below), any) in codes[0].iter().zip(below).zip(any) {
        assert_eq!(below, any, "of {x:#x}");
    }
}

#[test]
fn shares_of_a_sum_are_those_of_whole_exponentials() {
    let start = "%m = reduce max %x over row nan propagate order tree(16) %d = sub %x, %m %e = exp %d \
                 %s = reduce add %e over row nan propagate order tree(16)";
    let (share, whole) = ("%y = div %e, %s", "%q = div %e, %s %y = max %q, %e");
    let [share, whole] = [share, whole].map(|end| expanded(&body(DType::F32, &format!("{start} {end}"))));
    assert_eq!(maps(&share) + 2, maps(&whole), "one factor less:\n{share}");
    let wide = [between(-105.0, 0.0, 5000), vec![0, u64::from(f32::NEG_INFINITY.to_bits())]].concat();
    for codes in [between(-80.0, 0.0, 5000), wide] {
        let found = evaluate(&share, DType::F32, std::slice::from_ref(&codes));
        let powers: Vec<f64> = codes.iter().map(|&code| num::decode(DType::F32, code).exp()).collect();
        let sum: f64 = powers.iter().sum();
        for (power, found) in powers.iter().zip(found) {
            let (exact, found) = (power / sum, num::decode(DType::F32, found));
            // Sums of one accumulator out of sixteen round as often as it has lanes.
            let roundings = codes.len() as f64 / 16.0 + 8.0;
            assert!(
                (found - exact).abs() <= exact * roundings * 2f64.powi(-24) + 2f64.powi(-149),
                "{found}, not {exact}"
            );
        }
    }
}

#[test]
fn an_exponential_that_is_read_elsewhere_is_whole() {
    let text = "%e = exp %x %one = literal f32 1.0 %s = add %one, %e %y = div %e, %s";
    let codes = [between(-104.0, -60.0, 2000)];
    let kernel = expanded(&body(DType::F32, text));
    for (&x, y) in codes[0].iter().zip(evaluate(&kernel, DType::F32, &codes)) {
        let (exact, y) = (num::decode(DType::F32, x).exp(), num::decode(DType::F32, y));
        assert!((y - exact).abs() <= 2.0 * num::ulp(DType::F32, exact), "{x:#x}: {y}, exact {exact}");
    }
}

#[test]
fn bounds_before_a_saturating_conversion_add_nothing() {
    for to in [DType::F8E4M3, DType::F8E5M2, DType::F4E2M1, DType::F16, DType::BF16] {
        let most = num::max_finite(to);
        let mut codes = sweep(60);
        for step in -40..=40i64 {
            let near = (most as f32).to_bits() as i64 + step * 0x1000;
            codes.extend([near as u64, (near | 1 << 31) as u64]);
        }
        for bound in [most, 2.0 * most, f64::INFINITY, most / 2.0] {
            let constants = format!("%low = literal f32 {:?} %high = literal f32 {bound:?}", -bound);
            for order in ["%a = max %x, %low %b = min %high, %a", "%a = min %x, %high %b = max %low, %a"] {
                let direct = body(to, &format!("{constants} {order} %y = cast %b to {to} rne sat"));
                let without = expanded(&direct);
                assert_eq!(maps(&without) == 0, bound >= most, "{to} within {bound}:\n{without}");
                let codes = std::slice::from_ref(&codes);
                let (a, b) = (evaluate(&direct, DType::F32, codes), evaluate(&without, DType::F32, codes));
                for ((x, &a), &b) in codes[0].iter().zip(&a).zip(&b) {
                    assert!(same(to, a, b), "{x:#x} to {to} within {bound}: {b:#x}, expected {a:#x}");
                }
            }
        }
    }
    // Neither crossed bounds nor extremes that pass over NaN are those of the conversion.
    for wrong in ["%a = max %x, %high %y0 = min %a, %low", "%a = maxnum %x, %low %y0 = minnum %a, %high"] {
        let constants = "%low = literal f32 -448.0 %high = literal f32 448.0";
        let kernel = expanded(&body(DType::F8E4M3, &format!("{constants} {wrong} %y = cast %y0 to f8e4m3 rne sat")));
        assert!(maps(&kernel) > 0, "{kernel}");
    }
}

#[test]
fn a_gelu_of_every_bf16_is_that_of_the_exact_function() {
    let by_cube = "%square = mul %x, %x %cube = mul %square, %x %part = mul %cube, %c %sum = add %x, %part \
                   %u = mul %sum, %beta";
    let by_slope = "%start = mul %x, %beta %part = mul %x, %c %bend = mul %part, %x %slope = add %one, %bend \
                    %u = mul %start, %slope";
    let codes: Vec<u64> = (0..=u64::from(u16::MAX)).collect();
    for bent in [by_cube, by_slope] {
        let text = format!(
            "kernel @k(n) rows 1 {{ param %x0: bf16[n] in param %y: bf16[n] out segment @m inner 1 {{
               %narrow = load x0[lane] : row<bf16, n>
               %x = cast %narrow to f32 rne
               %one = literal f32 1.0 %half = literal f32 0.5
               %c = literal f32 0.044714998453855515 %beta = literal f32 0.7978845834732056
               {bent}
               %t = tanh %u %s = add %one, %t %h = mul %x, %half %p = mul %h, %s
               %y = cast %p to bf16 rne
               store y[lane], %y }} }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let short = expanded(&kernel);
        assert!(maps(&short) < 36, "the short form:\n{short}");
        let codes = std::slice::from_ref(&codes);
        let (exact, found) = (evaluate(&kernel, DType::BF16, codes), evaluate(&short, DType::BF16, codes));
        let differ = codes[0].iter().zip(exact.iter().zip(&found)).filter(|(_, (a, b))| !same(DType::BF16, **a, **b));
        let differ: Vec<_> = differ.collect();
        assert!(differ.is_empty(), "{} differ: {:x?}", differ.len(), &differ[..differ.len().min(8)]);
    }
}
