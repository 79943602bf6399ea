//! Composites between conversions. Training graphs hold norms and activations as ops; those that compute in f32 widen
//! their operand themselves, as the graphs do in which such an op is taken apart.

use super::rewrites;

rewrites! {
    /// A norm widens what it reads and narrows its result by itself.
    exact norm_of_widened_bf16:
        "(x: bf16, w: f32 | bf16 | f16) a = cast x {to = f32, round = $r}; n = rms_norm a, w {round = once, $a}; z = cast n {to = bf16, round = rne}; yield z"
        => "(x, w) z = rms_norm x, w {round = once, $a}; yield z";
    /// A norm without a weight does so, too.
    exact bare_norm_of_widened_bf16:
        "(x: bf16) a = cast x {to = f32, round = $r}; n = rms_norm a {round = once, $a}; z = cast n {to = bf16, round = rne}; yield z"
        => "(x) z = rms_norm x {round = once, $a}; yield z";
    /// An activation widens what it reads and narrows its result by itself.
    exact silu_of_widened_bf16:
        "(x: bf16) a = cast x {to = f32, round = $r}; n = silu a {$a}; z = cast n {to = bf16, round = rne}; yield z"
        => "(x) z = silu x {$a}; yield z";
    /// An activation that rounds once does so, too.
    exact gelu_of_widened_bf16:
        "(x: bf16) a = cast x {to = f32, round = $r}; n = gelu a {approximate = $f}; z = cast n {to = bf16, round = rne}; yield z"
        => "(x) z = gelu x {approximate = $f}; yield z";
    /// A function that rounds once does so, too.
    exact sigmoid_of_widened_bf16:
        "(x: bf16) a = cast x {to = f32, round = $r}; n = sigmoid a; z = cast n {to = bf16, round = rne}; yield z"
        => "(x) z = sigmoid x; yield z";
    /// A norm widens what it reads and narrows its result by itself.
    exact norm_of_widened_f16:
        "(x: f16, w: f32 | bf16 | f16) a = cast x {to = f32, round = $r}; n = rms_norm a, w {round = once, $a}; z = cast n {to = f16, round = rne}; yield z"
        => "(x, w) z = rms_norm x, w {round = once, $a}; yield z";
    /// A norm without a weight does so, too.
    exact bare_norm_of_widened_f16:
        "(x: f16) a = cast x {to = f32, round = $r}; n = rms_norm a {round = once, $a}; z = cast n {to = f16, round = rne}; yield z"
        => "(x) z = rms_norm x {round = once, $a}; yield z";
    /// An activation widens what it reads and narrows its result by itself.
    exact silu_of_widened_f16:
        "(x: f16) a = cast x {to = f32, round = $r}; n = silu a {$a}; z = cast n {to = f16, round = rne}; yield z"
        => "(x) z = silu x {$a}; yield z";
    /// An activation that rounds once does so, too.
    exact gelu_of_widened_f16:
        "(x: f16) a = cast x {to = f32, round = $r}; n = gelu a {approximate = $f}; z = cast n {to = f16, round = rne}; yield z"
        => "(x) z = gelu x {approximate = $f}; yield z";
    /// A function that rounds once does so, too.
    exact sigmoid_of_widened_f16:
        "(x: f16) a = cast x {to = f32, round = $r}; n = sigmoid a; z = cast n {to = f16, round = rne}; yield z"
        => "(x) z = sigmoid x; yield z";
}
