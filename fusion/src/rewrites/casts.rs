//! Rewrites of casts. A cast that saturates is no identity on infinities, not even to the same dtype.

use super::rewrites;

rewrites! {
    /// A cast to the same dtype rounds nothing.
    exact cast_same: "(x) y = cast x {to = $t, round = $r}; yield y" => "(x) yield x";
    /// Integers cannot exceed their own range.
    exact cast_same_int: "(x: int | bool) y = cast x {..}; yield y" => "(x) yield x";
    /// Floats without infinity cannot exceed their own range.
    exact cast_same_small: "(x: f8e4m3 | f4e2m1) y = cast x {..}; yield y" => "(x) yield x";
    /// f64 holds every shorter float.
    exact cast_of_f64:
        "(x: f32 | bf16 | f16 | f8e4m3 | f8e5m2 | f4e2m1) y = cast x {to = f64, round = $r}; z = cast y {$a}; yield z"
        => "(x) z = cast x {$a}; yield z";
    /// f32 holds every shorter float.
    exact cast_of_f32:
        "(x: bf16 | f16 | f8e4m3 | f8e5m2 | f4e2m1) y = cast x {to = f32, round = $r}; z = cast y {$a}; yield z"
        => "(x) z = cast x {$a}; yield z";
    /// bf16 holds every float of 8 bits and fewer.
    exact cast_of_bf16:
        "(x: f8e4m3 | f8e5m2 | f4e2m1) y = cast x {to = bf16, round = $r}; z = cast y {$a}; yield z"
        => "(x) z = cast x {$a}; yield z";
    /// f16 holds every float of 8 bits and fewer.
    exact cast_of_f16:
        "(x: f8e4m3 | f8e5m2 | f4e2m1) y = cast x {to = f16, round = $r}; z = cast y {$a}; yield z"
        => "(x) z = cast x {$a}; yield z";
    /// i64 holds every integer but the greatest of u64.
    exact cast_of_i64:
        "(x: i32 | i16 | i8 | u32 | u16 | u8 | i4 | u4 | bool) y = cast x {to = i64, ..}; z = cast y {$a}; yield z"
        => "(x) z = cast x {$a}; yield z";
    /// i32 holds every shorter integer.
    exact cast_of_i32:
        "(x: i16 | i8 | u16 | u8 | i4 | u4 | bool) y = cast x {to = i32, ..}; z = cast y {$a}; yield z"
        => "(x) z = cast x {$a}; yield z";
    /// A magnitude is the same before and after it is widened.
    exact widened_abs:
        "(x: bf16 | f16 | f8e4m3 | f8e5m2) y = abs x; z = cast y {to = f32, $a}; yield z"
        => "(x) y = cast x {to = f32, $a}; z = abs y; yield z";
    /// The largest is the largest after it is widened; both formats have an infinity to start from.
    exact widened_max:
        "(x: bf16 | f16) y = reduce x {op = max, $b}; z = cast y {to = f32, round = $r}; yield z"
        => "(x) y = cast x {to = f32, round = $r}; z = reduce y {op = max, $b}; yield z";
    /// The smallest is the smallest after it is widened.
    exact widened_min:
        "(x: bf16 | f16) y = reduce x {op = min, $b}; z = cast y {to = f32, round = $r}; yield z"
        => "(x) y = cast x {to = f32, round = $r}; z = reduce y {op = min, $b}; yield z";
    /// f32 holds every integer of 16 bits.
    exact cast_of_int_in_f32:
        "(x: i16 | i8 | u16 | u8 | i4 | u4 | bool) y = cast x {to = f32, ..}; z = cast y {$a}; yield z"
        => "(x) z = cast x {$a}; yield z";
}
