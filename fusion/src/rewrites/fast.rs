//! Rewrites that change roundings, for relaxed mode. None but the dropped casts makes an intermediate value less exact.

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
}
