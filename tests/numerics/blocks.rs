//! Block formats: scales of 16 or 32 lanes, elements of four or eight bits.

use fusewright::graph::{DType, Tensor};

use crate::oracle::{e2m1, e4m3, of_e4m3};
use crate::ways::{Random, coded, differ, exact, floats};

rows! {
    "block.nvfp4" => nvfp4;
    "block.mxfp4_bits" => mxfp4_bits;
    "block.mxfp8_ceil" => mxfp8_ceil;
    "block.mx_floor" => mx_floor;
    "block.mx_bump" => mx_bump;
    "block.mx_nan" => mx_nan;
    "block.e2m1" => values_of_e2m1;
    "block.nibbles" => nibbles;
}

const ROWS: usize = 3;
const LANES: usize = 96;

fn values() -> Vec<f32> {
    let mut values = Random::new(31).wide(ROWS * LANES);
    values[32..64].fill(0.0);
    // Magnitudes in (448, 512)·2^k, where the rules for scales part.
    values[64] = 480.0;
    values[LANES..LANES + 32].iter_mut().for_each(|x| *x *= 2f32.powi(-30));
    values[2 * LANES + 5] = 1.96875;
    values
}

fn x() -> Tensor {
    floats(DType::F32, &[ROWS, LANES], &values())
}

/// The same with a block so small that its exponent is the least.
fn tiny() -> Vec<f32> {
    let mut values = values();
    values[LANES..LANES + 32].iter_mut().for_each(|x| *x *= 2f32.powi(-94));
    values[LANES] = 2f32.powi(-124);
    values
}

fn largest(block: &[f32]) -> f32 {
    block.iter().fold(0f32, |m, x| m.max(x.abs()))
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { x * 0.0 } else { x }
}

fn reciprocal(x: f32) -> f32 {
    flushed(1.0 / flushed(x))
}

fn nvfp4() {
    let text = "graph @nvfp4(s: 0..; %x: f32[s, 96], %g: f32[]) {\n%q, %b = quantize_nvfp4 %x, %g\nreturn %q, %b\n}";
    for global in [448.0 * 6.0 / 480.0, 1.0, 1e3f32] {
        exact(text, &[x(), floats(DType::F32, &[], &[global])], |_| {
            let (mut scales, mut codes) = (Vec::new(), Vec::new());
            for block in values().chunks(16) {
                let scale = e4m3(flushed(global * flushed(largest(block) * (1.0 / 6.0))).clamp(-448.0, 448.0));
                let stored = of_e4m3(scale);
                let factor = if stored == 0.0 { 0.0 } else { reciprocal(flushed(stored * reciprocal(global))) };
                scales.push(scale);
                codes.extend(block.iter().map(|x| e2m1(x * factor)));
            }
            let packed: Vec<u64> = codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect();
            vec![coded(DType::U8, &[ROWS, LANES / 2], &packed), coded(DType::F8E4M3, &[ROWS, LANES / 16], &scales)]
        });
    }
}

/// A block quantiser of 32 lanes: `scale` makes `%e`, exponents in i32, from `%largest`; `%f` is what lanes are multiplied
/// by, and `codes` makes `%c` from `%v`.
fn mx(scale: &str, codes: &str) -> String {
    format!(
        "graph @mx(s: 0..; %x: f32[s, 96]) {{
           %g = reshape %x {{shape = [s, 3, 32]}}
           %m = abs %g
           %largest = reduce %m {{op = max, axes = [2]}}
           {scale}
           %v = mul %g, %f
           {codes}
           %q = reshape %c {{shape = [s, 96]}}
           %e8 = cast %e {{to = u8, saturate}}
           %k = reshape %e8 {{shape = [s, 3]}}
           return %q, %k
         }}"
    )
}

/// The power of two of an exponent's field; 0 gives 0.
const POWER: &str = "%width = literal i32 23
    %shifted = shl %e, %width
    %power = bitcast %shifted {to = f32}";

/// The same blocks as one op; exponents are e8m0.
#[track_caller]
fn composite(attrs: &str, x: &[f32], exponent: impl Fn(f32) -> u32, code: impl Fn(f32, u32) -> u64) {
    let text = format!("graph @mx(s: 0..; %x: f32[s, 96]) {{\n%q, %k = quantize_mx %x {{{attrs}}}\nreturn %q, %k\n}}");
    exact(&text, &[floats(DType::F32, &[ROWS, LANES], x)], |_| {
        let (mut exponents, mut codes) = (Vec::new(), Vec::new());
        for block in x.chunks(32) {
            let e = exponent(largest(block));
            exponents.push(u64::from(e));
            codes.extend(block.iter().map(|&x| code(x, e)));
        }
        let codes = match attrs.split_once("f8") {
            None => {
                let packed: Vec<u64> = codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect();
                coded(DType::U8, &[ROWS, LANES / 2], &packed)
            }
            Some((_, rest)) if rest.starts_with("e5m2") => coded(DType::F8E5M2, &[ROWS, LANES], &codes),
            Some(_) => coded(DType::F8E4M3, &[ROWS, LANES], &codes),
        };
        vec![codes, coded(DType::F8E8M0, &[ROWS, 3], &exponents)]
    });
}

#[track_caller]
fn blocks(text: &str, x: &[f32], to: DType, exponent: impl Fn(f32) -> u32, code: impl Fn(f32, u32) -> u64) {
    exact(text, &[floats(DType::F32, &[ROWS, LANES], x)], |_| {
        let (mut exponents, mut codes) = (Vec::new(), Vec::new());
        for block in x.chunks(32) {
            let e = exponent(largest(block));
            exponents.push(u64::from(e));
            codes.extend(block.iter().map(|&x| code(x, e)));
        }
        vec![coded(to, &[ROWS, LANES], &codes), coded(DType::U8, &[ROWS, 3], &exponents)]
    });
}

fn power(e: u32) -> f32 {
    f32::from_bits(e << 23)
}

/// Rounded at bit 21 of the magnitude, so that what is nearer to 8 than to 6 times a power counts as 8.
fn mxfp4_bits() {
    let scale = format!(
        "%bits = bitcast %largest {{to = i32}}
         %bias = literal i32 2097152
         %up = add %bits, %bias
         %width23 = literal i32 23
         %field0 = shr %up, %width23
         %mask = literal i32 255
         %field = and %field0, %mask
         %two = literal i32 2
         %none = literal i32 0
         %big = gt %field, %two
         %less = sub %field, %two
         %e0 = select %big, %less, %none
         %top = literal i32 254
         %e = min %e0, %top
         {POWER}
         %zero = literal f32 0
         %one = literal f32 1
         %empty = eq %power, %zero
         %inverse = div %one, %power
         %f = select %empty, %zero, %inverse"
    );
    let exponent = |m: f32| {
        let field = (m.to_bits() + (1 << 21)) >> 23 & 255;
        if field > 2 { (field - 2).min(254) } else { 0 }
    };
    let code = |x: f32, e: u32| e2m1(x * if e == 0 { 0.0 } else { 1.0 / power(e) });
    blocks(&mx(&scale, "%c = cast %v {to = f4e2m1, saturate}"), &values(), DType::F4E2M1, exponent, code);
    composite("codes = f4e2m1, scale = nearest, least = zero", &tiny(), exponent, code);
    composite("codes = f4e2m1, scale = nearest", &tiny(), exponent, |x, e| e2m1(x * power(254 - e)));
}

/// The exponent of the least power of two that is no less than `absmax / 448`.
fn ceil_exponent(m: f32) -> u32 {
    let bits = (m.max(f32::MIN_POSITIVE) / 448.0).to_bits();
    let (field, mantissa) = (bits >> 23 & 255, bits & 0x7f_ffff);
    // A subnormal quotient is no less than 2⁻¹³⁵, and its power is below 2⁻¹²⁶.
    if field == 0 { u32::from(mantissa > 1 << 22) } else { field + u32::from(mantissa != 0) }
}

fn ceil_scale(inverse: &str) -> String {
    format!(
        "%least = literal f32 1.1754944e-38
         %bounded = max %largest, %least
         %bound = literal f32 448
         %ratio = div %bounded, %bound
         %bits = bitcast %ratio {{to = i32}}
         %width23 = literal i32 23
         %field = shr %bits, %width23
         %mask = literal i32 8388607
         %mantissa = and %bits, %mask
         %zero = literal i32 0
         %half = literal i32 4194304
         %subnormal = eq %field, %zero
         %some = ne %mantissa, %zero
         %more = gt %mantissa, %half
         %bump = select %subnormal, %more, %some
         %bump32 = cast %bump {{to = i32}}
         %e = add %field, %bump32
         {inverse}"
    )
}

/// Multiplied by 2^(127 − e), as the power itself may be subnormal.
fn mxfp8_ceil() {
    let inverse = "%all = literal i32 254
        %flipped = sub %all, %e
        %w = literal i32 23
        %shifted = shl %flipped, %w
        %f = bitcast %shifted {to = f32}";
    let text = mx(&ceil_scale(inverse), "%c = cast %v {to = f8e4m3, saturate}");
    blocks(&text, &values(), DType::F8E4M3, ceil_exponent, |x, e| e4m3(x * power(254 - e)));
    composite("codes = f8e4m3, scale = ceil", &tiny(), ceil_exponent, |x, e| e4m3(x * power(254 - e)));
}

fn mx_bump() {
    let inverse = format!("{POWER}\n%one = literal f32 1\n%f = div %one, %power");
    let text = mx(&ceil_scale(&inverse), "%c = cast %v {to = f8e4m3, saturate}");
    let rows: Vec<f32> = values().iter().map(|x| if *x == 0.0 { 1.0 } else { *x }).collect();
    blocks(&text, &rows, DType::F8E4M3, ceil_exponent, |x, e| e4m3(x * (1.0 / power(e))));
}

/// The exponent of the magnitude less that of the largest element: what is in (448, 512)·2^k saturates.
fn mx_floor() {
    let scale = format!(
        "%bits = bitcast %largest {{to = i32}}
         %width23 = literal i32 23
         %field = shr %bits, %width23
         %emax = literal i32 8
         %less = sub %field, %emax
         %none = literal i32 0
         %e = max %less, %none
         {POWER}
         %zero = literal f32 0
         %one = literal f32 1
         %empty = eq %power, %zero
         %inverse = div %one, %power
         %f = select %empty, %zero, %inverse"
    );
    let text = mx(&scale, "%c = cast %v {to = f8e4m3, saturate}");
    let exponent = |m: f32| (m.to_bits() >> 23).saturating_sub(8);
    let code = |x: f32, e: u32| e4m3(if e == 0 { x * 0.0 } else { x * (1.0 / power(e)) });
    blocks(&text, &values(), DType::F8E4M3, exponent, code);
    composite("codes = f8e4m3, scale = floor, least = zero", &tiny(), exponent, code);
    let other = mx(
        &ceil_scale(&format!("{POWER}\n%one = literal f32 1\n%f = div %one, %power")),
        "%c = cast %v {to = f8e4m3, saturate}",
    );
    differ(&text, &other, &[floats(DType::F32, &[ROWS, LANES], &[480.0; ROWS * LANES])]);
}

/// Of a block that holds NaN or infinity, every code and the exponent are NaN; NaN has no code of four bits.
fn mx_nan() {
    let text = "graph @mx(s: 0..; %x: f32[s, 96]) {
        %q, %k = quantize_mx %x {codes = f8e4m3, scale = floor, least = zero, nan = block}\nreturn %q, %k\n}";
    let mut x = [1.0; LANES];
    (x[3], x[40]) = (f32::NAN, f32::NEG_INFINITY);
    exact(text, &[floats(DType::F32, &[1, LANES], &x)], |_| {
        let codes: Vec<u64> = (0..LANES).map(|i| if i < 64 { 0x7f } else { e4m3(256.0) }).collect();
        vec![coded(DType::F8E4M3, &[1, LANES], &codes), coded(DType::F8E8M0, &[1, 3], &[255, 255, 119])]
    });
}

fn values_of_e2m1() {
    let text = "graph @codes(s: 0..; %x: f4e2m1[s, 16]) {\n%y = cast %x {to = f32}\nreturn %y\n}";
    let codes: Vec<u64> = (0..16).collect();
    exact(text, &[coded(DType::F4E2M1, &[1, 16], &codes)], |_| {
        let half = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        vec![floats(DType::F32, &[1, 16], &[half, half.map(|x: f32| -x)].concat())]
    });
}

/// The even element is in the low nibble.
fn nibbles() {
    let text = "graph @nibbles(s: 0..; %x: f32[s, 4]) {
        %c = cast %x {to = f4e2m1, saturate}
        %y = pack %c {ways = 2, to = u8}
        return %y
      }";
    exact(text, &[floats(DType::F32, &[1, 4], &[0.5, 6.0, -1.0, 3.0])], |_| {
        vec![coded(DType::U8, &[1, 2], &[0x71, 0x5a])]
    });
}
