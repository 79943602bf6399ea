//! Rewrites of elementwise functions. `x + 0` is not here for floats: it turns −0 into +0.

use super::rewrites;

rewrites! {
    /// One is neutral.
    exact mul_one: "(x) y = mul x, 1; yield y" => "(x) yield x";
    /// Dividing by one changes nothing.
    exact div_one: "(x) y = div x, 1; yield y" => "(x) yield x";
    /// −0 is neutral for floats; +0 is not.
    exact add_minus_zero: "(x: float) y = add x, -0.0; yield y" => "(x) yield x";
    /// Zero is neutral for integers.
    exact add_zero: "(x: int) y = add x, 0; yield y" => "(x) yield x";
    /// Subtracting +0 changes nothing, −0 included.
    exact sub_zero: "(x: float | int) y = sub x, 0; yield y" => "(x) yield x";
    /// A square has no sign, so it does not matter which zero is kept.
    exact relu_squared: "(x: float) n = lt x, 0; r = select n, 0, x; y = mul r, r; yield y"
        => "(x) r = max x, 0; y = mul r, r; yield y";
    /// A square is a product; f64 has no longer type in which the power would be exact.
    exact pow_two: "(x: f32 | bf16 | f16) y = pow x, 2; yield y" => "(x) y = mul x, x; yield y";
    /// The first power is the base.
    exact pow_one: "(x: f32 | bf16 | f16) y = pow x, 1; yield y" => "(x) yield x";
    /// The power −1 is a quotient: none lies so near the middle of two numbers that a longer power would miss it.
    exact pow_minus_one: "(x: f32 | bf16 | f16) y = pow x, -1; yield y" => "(x) y = div 1, x; yield y";
    /// A reciprocal is a quotient.
    exact recip_is_div: "(x: float) y = recip x; yield y" => "(x) y = div 1, x; yield y";
    /// Multiplying by −1 flips the sign.
    exact mul_minus_one: "(x: float | int) y = mul x, -1; yield y" => "(x) y = neg x; yield y";
    /// Dividing by −1 flips the sign.
    exact div_minus_one: "(x: float | int) y = div x, -1; yield y" => "(x) y = neg x; yield y";
    /// Two signs cancel.
    exact neg_neg: "(x) y = neg x; z = neg y; yield z" => "(x) yield x";
    /// Adding the negative is subtracting.
    exact add_neg: "(x: float | int, y) n = neg y; z = add x, n; yield z" => "(x, y) z = sub x, y; yield z";
    /// Subtracting the negative is adding.
    exact sub_neg: "(x: float | int, y) n = neg y; z = sub x, n; yield z" => "(x, y) z = add x, y; yield z";
    /// Signs of two factors cancel.
    exact mul_neg_neg: "(x, y) a = neg x; b = neg y; z = mul a, b; yield z" => "(x, y) z = mul x, y; yield z";
    /// Signs of dividend and divisor cancel; not for the least integer.
    exact div_neg_neg: "(x: float, y) a = neg x; b = neg y; z = div a, b; yield z" => "(x, y) z = div x, y; yield z";
    /// A magnitude is its own magnitude.
    exact abs_abs: "(x) y = abs x; z = abs y; yield z" => "(x) y = abs x; yield y";
    /// The sign does not matter to the magnitude; unsigned integers wrap and have another.
    exact abs_neg: "(x: float | i64 | i32 | i16 | i8 | i4) y = neg x; z = abs y; yield z" => "(x) z = abs x; yield z";
    /// A square has no sign.
    exact square_of_abs: "(x: float | int) y = abs x; z = mul y, y; yield z" => "(x) z = mul x, x; yield z";
    /// The larger of equals.
    exact max_self: "(x) y = max x, x; yield y" => "(x) yield x";
    /// The smaller of equals.
    exact min_self: "(x) y = min x, x; yield y" => "(x) yield x";
    /// The larger of equals.
    exact maxnum_self: "(x) y = maxnum x, x; yield y" => "(x) yield x";
    /// The smaller of equals.
    exact minnum_self: "(x) y = minnum x, x; yield y" => "(x) yield x";
    /// A bound that holds already.
    exact max_twice: "(x, y) m = max x, y; z = max m, y; yield z" => "(x, y) m = max x, y; yield m";
    /// A bound that holds already.
    exact min_twice: "(x, y) m = min x, y; z = min m, y; yield z" => "(x, y) m = min x, y; yield m";
    /// An integral value is its own floor.
    exact floor_twice: "(x) y = floor x; z = floor y; yield z" => "(x) y = floor x; yield y";
    /// An integral value is its own ceiling.
    exact ceil_twice: "(x) y = ceil x; z = ceil y; yield z" => "(x) y = ceil x; yield y";
    /// An integral value has no fraction.
    exact trunc_twice: "(x) y = trunc x; z = trunc y; yield z" => "(x) y = trunc x; yield y";
    /// An integral value is its own nearest.
    exact round_twice: "(x) y = round x; z = round y; yield z" => "(x) y = round x; yield y";
    /// A product with one is exact, so that only the sum is rounded.
    exact fma_one: "(x: float, z) w = fma x, 1, z; yield w" => "(x, z) w = add x, z; yield w";
    /// f32 holds every product of two numbers of 11 digits, so that only the sum is rounded in any case.
    exact fma_of_widened:
        "(x: f16, y: f16, z: f32) a = cast x {to = f32, round = $r}; b = cast y {to = f32, round = $s}; w = fma a, b, z;
         yield w"
        => "(x, y, z) a = cast x {to = f32, round = $r}; b = cast y {to = f32, round = $s}; p = mul a, b; w = add p, z;
            yield w";
    /// Two complements cancel.
    exact not_not: "(x) y = not x; z = not y; yield z" => "(x) yield x";
    /// No bit is added.
    exact or_zero: "(x) y = or x, 0; yield y" => "(x) yield x";
    /// No bit is flipped.
    exact xor_zero: "(x) y = xor x, 0; yield y" => "(x) yield x";
    /// Every bit is kept.
    exact and_ones: "(x) y = and x, -1; yield y" => "(x) yield x";
    /// Truth is neutral.
    exact and_true: "(x: bool) y = and x, 1; yield y" => "(x) yield x";
    /// Untruth is neutral.
    exact or_false: "(x: bool) y = or x, 0; yield y" => "(x) yield x";
    /// The same bits.
    exact and_self: "(x) y = and x, x; yield y" => "(x) yield x";
    /// The same bits.
    exact or_self: "(x) y = or x, x; yield y" => "(x) yield x";
    /// A shift by nothing.
    exact shl_zero: "(x) y = shl x, 0; yield y" => "(x) yield x";
    /// A shift by nothing.
    exact shr_zero: "(x) y = shr x, 0; yield y" => "(x) yield x";
    /// Not equal; a NaN is not.
    exact not_eq: "(x, y) c = eq x, y; n = not c; yield n" => "(x, y) n = ne x, y; yield n";
    /// Equal; a NaN is not.
    exact not_ne: "(x, y) c = ne x, y; n = not c; yield n" => "(x, y) n = eq x, y; yield n";
    /// Both choices are one.
    exact select_same: "(c, x) y = select c, x, x; yield y" => "(c, x) yield x";
    /// Of truth values a choice is a conjunction.
    exact select_and: "(c, x: bool) y = select c, x, 0; yield y" => "(c, x) y = and c, x; yield y";
    /// Of truth values a choice is a disjunction.
    exact select_or: "(c, x: bool) y = select c, 1, x; yield y" => "(c, x) y = or c, x; yield y";
    /// The opposite condition chooses the other.
    exact select_not: "(c, x, y) n = not c; z = select n, x, y; yield z" => "(c, x, y) z = select c, y, x; yield z";
    /// The condition is known to hold inside.
    exact select_inner: "(c, x, y, z) a = select c, x, y; b = select c, a, z; yield b"
        => "(c, x, y, z) b = select c, x, z; yield b";
    /// The condition is known to fail inside.
    exact select_outer: "(c, x, y, z) a = select c, x, y; b = select c, z, a; yield b"
        => "(c, x, y, z) b = select c, z, y; yield b";
}
