//! Rewrites of layout ops and of reductions over what is reduced already. Layout moves the narrower elements: before a
//! cast to a wider dtype, after one to a narrower.

use super::rewrites;

rewrites! {
    /// A reshape to the same shape is the operand.
    exact reshape_same: "(x) y = reshape x {..}; yield y" => "(x) yield x";
    /// A reshape of a reshape is one reshape.
    exact reshape_twice: "(x) y = reshape x {..}; z = reshape y {$b}; yield z" => "(x) z = reshape x {$b}; yield z";
    /// A broadcast to the same shape is the operand.
    exact expand_same: "(x) y = expand x {..}; yield y" => "(x) yield x";
    /// A broadcast of a broadcast is one broadcast.
    exact expand_twice: "(x) y = expand x {..}; z = expand y {$b}; yield z" => "(x) z = expand x {$b}; yield z";
    /// A slice that keeps the extent keeps every element.
    exact slice_same: "(x) y = slice x {..}; yield y" => "(x) yield x";
    /// One operand is joined with nothing.
    exact cat_one: "(x) y = cat x {..}; yield y" => "(x) yield x";
    /// Two transpositions of a matrix cancel.
    exact transpose_twice: "(x) y = permute x {perm = [1, 0]}; z = permute y {perm = [1, 0]}; yield z" => "(x) yield x";
    /// A value of extent 1 along the axes is its own sum, maximum and so on, once reduced.
    exact reduce_twice: "(x) y = reduce x {$a}; z = reduce y {$a}; yield z" => "(x) y = reduce x {$a}; yield y";
    /// The largest magnitude is that of the extremes.
    exact absmax_of_extremes:
        "(x: float) a = reduce x {op = max, $a}; b = reduce x {op = min, $a}; n = neg b; z = max a, n; yield z"
        => "(x) m = abs x; z = reduce m {op = max, $a}; yield z";
    /// The largest magnitude is that of the extremes; over nothing the least number has the magnitude of the greatest.
    exact absmax_of_magnitudes:
        "(x: float) a = reduce x {op = max, $a}; b = reduce x {op = min, $a}; c = abs a; d = abs b; z = max c, d; yield z"
        => "(x) m = abs x; y = reduce m {op = max, $a}; z = abs y; yield z";
    /// The largest magnitude is that of the extremes: where the greatest is the larger of both, it is positive.
    exact absmax_of_least_magnitude:
        "(x: float) a = reduce x {op = max, $a}; b = reduce x {op = min, $a}; d = abs b; z = max a, d; yield z"
        => "(x) m = abs x; y = reduce m {op = max, $a}; z = abs y; yield z";
    /// The largest magnitude is that of the extremes, which zero lies between.
    exact absmax_about_zero:
        "(x: float) a = reduce x {op = max, $a}; b = reduce x {op = min, $a}; c = max a, 0; d = min b, 0; n = neg d;
         z = max c, n; yield z"
        => "(x) m = abs x; y = reduce m {op = max, $a}; z = max y, 0; yield z";
    /// Elements move before they are widened.
    exact reshape_of_widened:
        "(x: bf16 | f16 | f8e4m3 | f8e5m2) y = cast x {to = f32, $a}; z = reshape y {$b}; yield z"
        => "(x) y = reshape x {$b}; z = cast y {to = f32, $a}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_reshape_bf16:
        "(x: f32) y = reshape x {$b}; z = cast y {to = bf16, $a}; yield z"
        => "(x) y = cast x {to = bf16, $a}; z = reshape y {$b}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_reshape_f16:
        "(x: f32) y = reshape x {$b}; z = cast y {to = f16, $a}; yield z"
        => "(x) y = cast x {to = f16, $a}; z = reshape y {$b}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_reshape_f8e4m3:
        "(x: f32) y = reshape x {$b}; z = cast y {to = f8e4m3, $a}; yield z"
        => "(x) y = cast x {to = f8e4m3, $a}; z = reshape y {$b}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_reshape_f8e5m2:
        "(x: f32) y = reshape x {$b}; z = cast y {to = f8e5m2, $a}; yield z"
        => "(x) y = cast x {to = f8e5m2, $a}; z = reshape y {$b}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_reshape_i8:
        "(x: f32) y = reshape x {$b}; z = cast y {to = i8, $a}; yield z"
        => "(x) y = cast x {to = i8, $a}; z = reshape y {$b}; yield z";
    /// Elements move before they are widened.
    exact permute_of_widened:
        "(x: bf16 | f16 | f8e4m3 | f8e5m2) y = cast x {to = f32, $a}; z = permute y {$b}; yield z"
        => "(x) y = permute x {$b}; z = cast y {to = f32, $a}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_permute_bf16:
        "(x: f32) y = permute x {$b}; z = cast y {to = bf16, $a}; yield z"
        => "(x) y = cast x {to = bf16, $a}; z = permute y {$b}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_permute_f16:
        "(x: f32) y = permute x {$b}; z = cast y {to = f16, $a}; yield z"
        => "(x) y = cast x {to = f16, $a}; z = permute y {$b}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_permute_f8e4m3:
        "(x: f32) y = permute x {$b}; z = cast y {to = f8e4m3, $a}; yield z"
        => "(x) y = cast x {to = f8e4m3, $a}; z = permute y {$b}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_permute_f8e5m2:
        "(x: f32) y = permute x {$b}; z = cast y {to = f8e5m2, $a}; yield z"
        => "(x) y = cast x {to = f8e5m2, $a}; z = permute y {$b}; yield z";
    /// Elements move after they are narrowed.
    exact narrowed_permute_i8:
        "(x: f32) y = permute x {$b}; z = cast y {to = i8, $a}; yield z"
        => "(x) y = cast x {to = i8, $a}; z = permute y {$b}; yield z";
}
