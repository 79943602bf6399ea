//! Rewrites that change roundings, for relaxed mode. None but the dropped casts makes an intermediate value less exact;
//! functions of 16-bit floats whose operand was rounded just before are computed in f32 instead, and rounded after.

use super::rewrites;

rewrites! {
    /// An intermediate rounding to bf16 is left out.
    fast drop_bf16: "(x: f32) y = cast x {to = bf16}; z = cast y {to = f32}; yield z" => "(x) yield x";
    /// An intermediate rounding to f16 is left out; what would overflow there does not.
    fast drop_f16: "(x: f32) y = cast x {to = f16}; z = cast y {to = f32}; yield z" => "(x) yield x";
    /// A factor that is the same along a sum is applied once.
    fast sum_of_scaled:
        "(x: float, c) y = mul x, c; z = reduce y {op = add, axes = $a}; yield z"
        => "(x, c) s = reduce x {op = add, axes = $a}; z = mul s, c; yield z";
    /// A divisor that is the same along a sum is applied once.
    fast sum_of_divided:
        "(x: float, c) y = div x, c; z = reduce y {op = add, axes = $a}; yield z"
        => "(x, c) s = reduce x {op = add, axes = $a}; z = div s, c; yield z";
    /// One function instead of two roundings.
    fast recip_of_sqrt: "(x: float) y = sqrt x; z = recip y; yield z" => "(x) z = rsqrt x; yield z";
    /// One function instead of two roundings.
    fast one_over_sqrt: "(x: float) y = sqrt x; z = div 1, y; yield z" => "(x) z = rsqrt x; yield z";
    /// A product of quotients divides once.
    fast div_div: "(x: float, y, z) q = div x, y; r = div q, z; yield r" => "(x, y, z) p = mul y, z; r = div x, p; yield r";
    /// A rounded factor stays in f32, and so does the function of it.
    fast wide_mul_bf16:
        "(x: f32, y: bf16) a = cast x {to = bf16}; z = mul a, y; yield z"
        => "(x, y) w = cast y {to = f32}; p = mul x, w; z = cast p {to = bf16}; yield z";
    /// A rounded term stays in f32, and so does the function of it.
    fast wide_add_bf16:
        "(x: f32, y: bf16) a = cast x {to = bf16}; z = add a, y; yield z"
        => "(x, y) w = cast y {to = f32}; p = add x, w; z = cast p {to = bf16}; yield z";
    /// A rounded dividend stays in f32, and so does the function of it.
    fast wide_dividend_bf16:
        "(x: f32, y: bf16) a = cast x {to = bf16}; z = div a, y; yield z"
        => "(x, y) w = cast y {to = f32}; p = div x, w; z = cast p {to = bf16}; yield z";
    /// A rounded divisor stays in f32, and so does the function of it.
    fast wide_divisor_bf16:
        "(x: f32, y: bf16) a = cast x {to = bf16}; z = div y, a; yield z"
        => "(x, y) w = cast y {to = f32}; p = div w, x; z = cast p {to = bf16}; yield z";
    /// A rounded factor stays in f32, and so does the function of it.
    fast wide_mul_f16:
        "(x: f32, y: f16) a = cast x {to = f16}; z = mul a, y; yield z"
        => "(x, y) w = cast y {to = f32}; p = mul x, w; z = cast p {to = f16}; yield z";
    /// A rounded term stays in f32, and so does the function of it.
    fast wide_add_f16:
        "(x: f32, y: f16) a = cast x {to = f16}; z = add a, y; yield z"
        => "(x, y) w = cast y {to = f32}; p = add x, w; z = cast p {to = f16}; yield z";
    /// A rounded dividend stays in f32, and so does the function of it.
    fast wide_dividend_f16:
        "(x: f32, y: f16) a = cast x {to = f16}; z = div a, y; yield z"
        => "(x, y) w = cast y {to = f32}; p = div x, w; z = cast p {to = f16}; yield z";
    /// A rounded divisor stays in f32, and so does the function of it.
    fast wide_divisor_f16:
        "(x: f32, y: f16) a = cast x {to = f16}; z = div y, a; yield z"
        => "(x, y) w = cast y {to = f32}; p = div w, x; z = cast p {to = f16}; yield z";
}
