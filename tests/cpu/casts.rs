//! Conversions: every code of the short types, and every value next to a rounding decision.

use fusewright_abi::DType;
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_graph::num;

use crate::support::{check_on, kernel};

const SHORT: [DType; 6] = [DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2, DType::F8E8M0, DType::F4E2M1];

fn cast(from: DType, to: DType, round: &str, saturate: bool) -> String {
    let saturate = if saturate { " sat" } else { "" };
    format!(
        "kernel @c(n = extent(x, 0)) rows 1 {{
           param %x: {from}[n] in
           param %y: {to}[n] out
           segment @m inner 1 {{
             %0 = load x[lane] : row<{from}, n>
             %1 = cast %0 to {to} {round}{saturate}
             store y[lane], %1
           }}
         }}"
    )
}

#[track_caller]
fn run(from: DType, to: DType, round: &str, saturate: bool, codes: &[u64]) {
    let kernel = kernel(&cast(from, to, round, saturate));
    let mut x = vec![0; from.bytes_for(codes.len())];
    for (i, &code) in codes.iter().enumerate() {
        fusewright_codegen::kernel::interp::put_bits(from, &mut x, i, code);
    }
    check_on(&kernel, &[("n", codes.len() as i64)], vec![x, vec![0xa5; to.bytes_for(codes.len())]], 1);
}

/// Every float next to a value of `to` or to the middle of two, and many others; an odd number of them.
fn floats(to: DType) -> Vec<u64> {
    let mut values = Vec::new();
    for code in 0..1u64 << to.bits().min(16) {
        let value = num::decode(to, code);
        values.push(value);
        values.push(value + num::ulp(to, value) / 2.0);
    }
    values.extend([f64::NAN, -f64::NAN, f64::INFINITY, -f64::INFINITY, 3.4028234663852886e38, 1e-45, -1e-45, 5.9e-39]);
    let mut bits: Vec<u64> = values
        .into_iter()
        .flat_map(|v| {
            let bits = u64::from((v as f32).to_bits());
            [bits, bits.wrapping_add(1) & 0xffff_ffff, bits.wrapping_sub(1) & 0xffff_ffff, bits ^ 1 << 31]
        })
        .collect();
    bits.extend((0..1 << 13).map(|i: u64| i * 524_341 % (1 << 32)));
    if bits.len().is_multiple_of(2) {
        bits.push(0);
    }
    bits
}

#[test]
fn every_code_widens_and_comes_back() {
    for dtype in SHORT.into_iter().filter(|d| d.bits() >= 8) {
        let mut codes: Vec<u64> = (0..1u64 << dtype.bits()).collect();
        codes.extend(0..5);
        run(dtype, DType::F32, "rne", false, &codes);
    }
    run(DType::F4E2M1, DType::F32, "rne", false, &(0..16).chain(0..3).collect::<Vec<_>>());
}

#[test]
fn infinities_saturate_in_wide_floats_too() {
    let largest = |dtype| num::decode(dtype, num::encode(dtype, f64::MAX));
    for from in [DType::F8E5M2, DType::F16, DType::BF16, DType::F32, DType::F64] {
        let values = [f64::INFINITY, -f64::INFINITY, f64::NAN, 0.0, -0.0, 1.5, -2.0, largest(from), -largest(from)];
        let codes: Vec<u64> = values.iter().map(|x| num::encode(from, *x)).collect();
        for to in [DType::F32, DType::F64] {
            for saturate in [false, true] {
                run(from, to, "rne", saturate, &codes);
            }
        }
    }
}

/// A format without a zero makes a number of one, which is larger than other zeros.
#[test]
fn a_zero_that_a_format_lacks_is_none() {
    let text = "kernel @none(n = extent(x, 0)) rows 1 {
           param %x: f32[n] in
           param %y: f32[n] out
           segment @m inner 1 {
             %0 = load x[lane] : row<f32, n>
             %1 = literal f32 0.0
             %2 = cast %1 to f8e8m0 rne
             %3 = cast %2 to f32 rne
             %4 = max %0, %3
             store y[lane], %4
           }
         }";
    let values = [0.0f32, -0.0, 1.5, -1.5, f32::NAN, 1e-45, f32::INFINITY, 2e-38, 6e-39, 3.0, -4.0];
    let x = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    check_on(&kernel(text), &[("n", values.len() as i64)], vec![x, vec![0xa5; 4 * values.len()]], 1);
}

#[test]
fn floats_round_to_short_floats() {
    for to in [DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2] {
        let codes = floats(to);
        for saturate in [false, true] {
            run(DType::F32, to, "rne", saturate, &codes);
        }
    }
    let codes = floats(DType::F8E8M0);
    for round in ["rne", "trunc", "floor", "ceil", "half_away"] {
        for saturate in [false, true] {
            run(DType::F32, DType::F8E8M0, round, saturate, &codes);
        }
    }
}

#[test]
fn floats_round_in_every_direction() {
    for to in [DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2] {
        let codes = floats(to);
        for round in ["trunc", "floor", "ceil", "half_away"] {
            for saturate in [false, true] {
                run(DType::F32, to, round, saturate, &codes);
            }
            let codes: Vec<u64> =
                codes.iter().step_by(61).map(|&bits| f64::from(f32::from_bits(bits as u32)).to_bits()).collect();
            if to != DType::BF16 {
                run(DType::F64, to, round, false, &codes);
            }
        }
    }
    // Every value of 16 bits is between two of 8 bits.
    for from in [DType::BF16, DType::F16] {
        for round in ["rne", "trunc", "floor", "ceil", "half_away"] {
            run(from, DType::F8E4M3, round, true, &(0..1 << 16).collect::<Vec<u64>>());
        }
    }
}

#[test]
fn codes_of_four_bits_are_stored_in_pairs() {
    let codes = floats(DType::F8E4M3);
    for round in ["rne", "trunc", "floor", "ceil", "half_away"] {
        for saturate in [false, true] {
            for n in [2, 6, 8, 16, 30, 4096] {
                let text = cast(DType::F32, DType::F4E2M1, round, saturate);
                let text = text.replace("(n = extent(x, 0)) rows 1", "(s = extent(x, 0)) rows s");
                let text = text.replace("[n]", &format!("[s, {n}]")).replace(", n>", &format!(", {n}>"));
                let kernel = kernel(&text.replace("[lane]", &format!("[row*{n} + lane]")));
                let rows = codes.len() / n;
                let x = codes[..rows * n].iter().flat_map(|&code| (code as u32).to_le_bytes()).collect();
                check_on(&kernel, &[("s", rows as i64)], vec![x, vec![0xa5; rows * n / 2]], 3);
            }
        }
    }
    let nibbles: Vec<u64> = (0..5000).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60).collect();
    for from in [DType::F4E2M1, DType::I4, DType::U4] {
        for n in [4999, 5000] {
            run(from, DType::F32, "rne", false, &nibbles[..n]);
        }
    }
}

#[test]
fn wide_integers_round_once_to_short_floats() {
    let mut wide: Vec<u64> = (0..20000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 64)).collect();
    // Next to the middle of two bf16 values, and of two f16 values.
    for power in 8..63 {
        for below in [9, 8, 12, 11] {
            let middle = (1u64 << power) | (1u64 << power >> below);
            wide.extend([middle, middle + 1, middle - 1, middle.wrapping_neg(), (middle + 1).wrapping_neg()]);
        }
    }
    for from in [DType::I32, DType::U32, DType::I64, DType::U64] {
        let codes: Vec<u64> = wide.iter().map(|w| if from.bits() == 64 { *w } else { w & 0xffff_ffff }).collect();
        for to in [DType::BF16, DType::F16, DType::F8E4M3, DType::F8E8M0] {
            for round in ["rne", "trunc", "floor", "ceil", "half_away"] {
                run(from, to, round, false, &codes);
                run(from, to, round, true, &codes);
            }
        }
    }
}

/// What is known to be small needs no care for what lies beyond the integers.
#[test]
fn clamped_floats_become_integers_that_wrap() {
    let mut codes = floats(DType::F8E5M2);
    codes.extend([1e9f32, -1e9, 4e9, 2f32.powi(63)].map(|x| u64::from(x.to_bits())));
    for (max, min, low, high) in [
        ("max", "min", "-128.0", "127.0"),
        ("maxnum", "minnum", "-128.0", "127.0"),
        ("max", "min", "-1e9", "1e9"),
        ("max", "min", "-1e10", "1e9"),
        ("maxnum", "min", "-inf", "300.5"),
    ] {
        for to in [DType::I8, DType::U8, DType::I32, DType::U16] {
            for round in ["trunc", "rne", "floor"] {
                let text = cast(DType::F32, to, round, false).replace(
                    "%1 = cast %0",
                    &format!(
                        "%l = literal f32 {low}
                         %h = literal f32 {high}
                         %a = {max} %0, %l
                         %b = {min} %a, %h
                         %1 = cast %b"
                    ),
                );
                let x: Vec<u8> = codes.iter().flat_map(|&code| (code as u32).to_le_bytes()).collect();
                let y = vec![0xa5; to.bytes_for(codes.len())];
                check_on(&kernel(&text), &[("n", codes.len() as i64)], vec![x, y], 1);
            }
        }
    }
}

#[test]
fn floats_become_integers_and_back() {
    for to in [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::Bool] {
        let mut codes = floats(DType::F8E5M2);
        codes.extend(
            [2f32.powi(31), -(2f32.powi(31)), 2f32.powi(63), 2f32.powi(64), 2f32.powi(40) * 1.5]
                .map(|x| u64::from(x.to_bits())),
        );
        for round in ["rne", "trunc", "floor", "ceil", "half_away"] {
            for saturate in [false, true] {
                run(DType::F32, to, round, saturate, &codes);
            }
        }
    }
    let wide: Vec<u64> = (0..5000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 40)).collect();
    for from in [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::Bool] {
        let codes: Vec<u64> = match from {
            DType::Bool => wide.iter().map(|w| w & 1).collect(),
            _ if from.bits() == 64 => wide.clone(),
            _ => wide.iter().map(|w| w & ((1 << from.bits()) - 1)).collect(),
        };
        run(from, DType::F32, "rne", false, &codes);
        for to in [DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::Bool] {
            for saturate in [false, true] {
                run(from, to, "rne", saturate, &codes);
            }
        }
        if from.bits() < 32 {
            run(from, DType::F8E4M3, "rne", true, &codes);
            run(from, DType::BF16, "rne", false, &codes);
        }
    }
}

#[test]
fn doubles_round_once() {
    for to in [DType::BF16, DType::F16, DType::F8E4M3, DType::F32] {
        let mut codes = Vec::new();
        for bits in floats(DType::BF16).into_iter().step_by(61) {
            let x = f64::from(f32::from_bits(bits as u32));
            codes.extend([x, x * (1.0 + 2f64.powi(-40)), x * (1.0 - 2f64.powi(-40))].map(f64::to_bits));
        }
        for saturate in [false, true] {
            run(DType::F64, to, "rne", saturate, &codes);
        }
    }
    for from in SHORT {
        run(from, DType::F64, "rne", false, &(0..16).collect::<Vec<_>>());
    }
}

/// Codes of NaNs that carry into or out of the upper half when they are rounded.
#[test]
fn nans_of_any_payload_stay_nans() {
    let f32s = [0x7fff_ffffu32, 0xffff_ffff, 0x7f80_0001, 0x7fff_8000, 0xff80_ffff, 0x7fc0_7fff, 0x7f80_0000, 0];
    let bf16s = [0x7fffu16, 0xffff, 0x7f81, 0xff81, 0x7fc0, 0x7f80, 0xff80, 0x3f80];
    let text = "kernel @nans(s = extent(x, 0)) rows s {
           param %x: f32[s, 24] in
           param %y: bf16[s, 24] in
           param %a: bf16[s, 24] out
           param %b: bf16[s, 24] out
           param %c: bf16[s, 24] out
           segment @m inner 1 {
             %x = load x[row*24 + lane] : row<f32, 24>
             %y = load y[row*24 + lane] : row<bf16, 24>
             %yf = cast %y to f32 rne
             %p = mul %x, %yf
             %a = cast %p to bf16 rne
             store a[row*24 + lane], %a
             %q = fma %yf, %yf, %yf
             %n = neg %q
             %m = abs %n
             %d = div %m, %yf
             %b = cast %d to bf16 rne
             store b[row*24 + lane], %b
             %zero = literal f32 0.0
             %less = lt %yf, %zero
             %s = select %less, %x, %yf
             %t = add %s, %yf
             %c = cast %t to bf16 rne
             store c[row*24 + lane], %c
           }
         }";
    let kernel = kernel(text);
    let x: Vec<u8> =
        (0..8).flat_map(|i| (0..24).map(move |j| (i, j))).flat_map(|(i, j)| f32s[(i + j) % 8].to_le_bytes()).collect();
    let y: Vec<u8> = (0..8).flat_map(|_| 0..24).flat_map(|j: usize| bf16s[j % 8].to_le_bytes()).collect();
    let out = vec![0u8; 8 * 24 * 2];
    check_on(&kernel, &[("s", 8)], vec![x, y, out.clone(), out.clone(), out], 1);
}

/// The integer steps inside an expansion must not turn a NaN into a number.
#[test]
fn expanded_functions_keep_nans_of_any_payload() {
    let nans =
        [0x7fff_ffffu32, 0xffff_ffff, 0x7f80_0001, 0x7fff_ff00, 0xff80_ffff, 0x7fc0_0001, 0x7fbf_ffff, 0x7fc0_0000];
    for function in ["exp", "exp2", "log", "log2", "tanh", "erf", "erfc", "erfinv", "sin", "cos", "rsqrt"] {
        let text = format!(
            "kernel @f(n = extent(x, 0)) rows 1 {{
               param %x: f32[n] in
               param %y: f32[n] out
               segment @m inner 1 {{
                 %0 = load x[lane] : row<f32, n>
                 %1 = {function} %0
                 store y[lane], %1
               }}
             }}"
        );
        let lowered = kernel(&text);
        let expanded = expand(&lowered, Column::Cpu).expect("the function expands");
        let x: Vec<u8> = nans.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        check_on(&expanded, &[("n", 8)], vec![x, vec![0u8; 32]], 1);
    }
}

/// Conversions of f16 in either order, of one lane and of many: ties, what is beyond the range, subnormals, NaNs.
#[test]
fn halves_are_rounded_and_widened() {
    let edges = [0u32, 0x8000_0000, 0x3300_0000, 0x3300_0001, 0x3880_0000, 0x387f_ffff, 0x477f_e000, 0x477f_efff];
    let beyond =
        [0x477f_f000u32, 0xc77f_f000, 0x7f80_0000, 0xff80_0000, 0x7f80_0001, 0xffff_ffff, 0x3f80_1000, 0x3f80_3000];
    let xs: Vec<u32> = edges.into_iter().chain(beyond).collect();
    let codes = [0u16, 0x8000, 1, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7c01, 0xffff, 0x3c00, 0x5555];
    for n in [1usize, 3, 4, 17, 40] {
        let narrow_first = "%h = cast %x to f16 rne %y = cast %h to f32 rne store y[row*n + lane], %y \
                            %c = load c[row*n + lane] : row<f16, n> %w = cast %c to f32 rne \
                            %s = cast %x to f16 rne sat %z = cast %s to f32 rne %t = add %z, %w store z[row*n + lane], %t";
        let wide_first = "%c = load c[row*n + lane] : row<f16, n> %w = cast %c to f32 rne %t = add %w, %x \
                          %h = cast %t to f16 rne %y = cast %h to f32 rne store y[row*n + lane], %y \
                          %z = cast %h to f8e5m2 rne %u = cast %z to f32 rne store z[row*n + lane], %u";
        for body in [narrow_first, wide_first] {
            let text = format!(
                "kernel @halves(s = extent(x, 0), n = extent(x, 1)) rows s {{ param %x: f32[s, n] in param %c: f16[s, n] in \
                 param %y: f32[s, n] out param %z: f32[s, n] out segment @m inner 1 {{ \
                 %x = load x[row*n + lane] : row<f32, n> {body} }} }}"
            );
            let rows = 16;
            let x = (0..rows * n).flat_map(|i| xs[(i * 7 + i / n) % xs.len()].to_le_bytes()).collect();
            let c = (0..rows * n).flat_map(|i| codes[(i * 5 + i / n) % codes.len()].to_le_bytes()).collect();
            let out = vec![0u8; rows * n * 4];
            check_on(&kernel(&text), &[("s", rows as i64), ("n", n as i64)], vec![x, c, out.clone(), out], 1);
        }
    }
}
