//! The table of scalar functions: one row each.
//!
//! From a row come the enum variant, the text name, the arity, the accuracy class, the reference on f64 and how each
//! target spells the function. A function is evaluated at its operands' dtype as: exact value, rounded once to that
//! dtype. Integer semantics live in [`ScalarFn::eval_int`].

/// How close an implementation must come to the correctly rounded value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accuracy {
    /// Correctly rounded; every implementation gives the same bits.
    Exact,
    /// Within this many units in the last place of f32.
    Approx(u32),
}

/// How a target computes a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelling {
    /// One instruction or a fixed exact sequence of that name.
    Native(&'static str),
    /// Rewritten into other functions before emission; the same polynomial on every target.
    Expand,
}

/// What dtype a function yields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Yields {
    /// The dtype of the operands.
    Operand,
    /// `bool`.
    Bool,
}

/// One row of the table.
#[derive(Debug)]
pub struct ScalarSpec {
    /// Name in text forms.
    pub name: &'static str,
    /// Number of operands.
    pub arity: usize,
    /// Accuracy class.
    pub accuracy: Accuracy,
    /// Result dtype.
    pub yields: Yields,
    /// Whether the first two operands may be swapped without changing a bit (NaN payloads aside).
    pub commutative: bool,
    /// Cranelift and LLVM on CPUs.
    pub cpu: Spelling,
    /// LLVM for NVIDIA.
    pub cuda: Spelling,
    /// Ascend C.
    pub ascend: Spelling,
    /// What the function is.
    pub doc: &'static str,
}

macro_rules! scalar_fns {
    ($( #[doc = $doc:literal] $variant:ident($($arg:ident),*) $name:literal
        { $reference:expr } $class:ident$(($ulp:literal))? $(-> $yields:ident)? $(, $commutative:ident)?
        [$($cpu:tt)+] [$($cuda:tt)+] [$($ascend:tt)+]; )*) => {
        /// A function of one to three scalars.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ScalarFn {
            $( #[doc = $doc] $variant, )*
        }

        impl ScalarFn {
            /// Every function, in table order.
            pub const ALL: &'static [ScalarFn] = &[$( ScalarFn::$variant ),*];

            /// The function's row.
            pub const fn spec(self) -> &'static ScalarSpec {
                match self {
                    $( ScalarFn::$variant => const { &ScalarSpec {
                        name: $name,
                        arity: [$( stringify!($arg) ),*].len(),
                        accuracy: Accuracy::$class$(($ulp))?,
                        yields: scalar_fns!(@yields $($yields)?),
                        commutative: scalar_fns!(@commutative $($commutative)?),
                        cpu: scalar_fns!(@spelling $($cpu)+),
                        cuda: scalar_fns!(@spelling $($cuda)+),
                        ascend: scalar_fns!(@spelling $($ascend)+),
                        doc: $doc,
                    } }, )*
                }
            }

            /// The value on real operands, to f64 accuracy. Booleans are 0 and 1.
            ///
            /// # Panics
            /// If `x` has fewer elements than the function's arity; verified graphs and kernels never do.
            pub fn eval(self, x: &[f64]) -> f64 {
                match self {
                    $( ScalarFn::$variant => scalar_fns!(@call x, $reference, $($arg),*), )*
                }
            }
        }
    };
    (@yields) => { Yields::Operand };
    (@yields Bool) => { Yields::Bool };
    (@commutative) => { false };
    (@commutative commutative) => { true };
    (@spelling expand) => { Spelling::Expand };
    (@spelling $name:literal) => { Spelling::Native($name) };
    (@call $x:ident, $f:expr, $a:ident) => { { let f: fn(f64) -> f64 = $f; f($x[0]) } };
    (@call $x:ident, $f:expr, $a:ident, $b:ident) => { { let f: fn(f64, f64) -> f64 = $f; f($x[0], $x[1]) } };
    (@call $x:ident, $f:expr, $a:ident, $b:ident, $c:ident) => {
        { let f: fn(f64, f64, f64) -> f64 = $f; f($x[0], $x[1], $x[2]) }
    };
}

scalar_fns! {
    /// `a + b`.
    Add(a, b) "add" { |a, b| a + b } Exact, commutative ["fadd"] ["fadd"] ["Add"];
    /// `a - b`.
    Sub(a, b) "sub" { |a, b| a - b } Exact ["fsub"] ["fsub"] ["Sub"];
    /// `a * b`.
    Mul(a, b) "mul" { |a, b| a * b } Exact, commutative ["fmul"] ["fmul"] ["Mul"];
    /// `a / b`; integers divide toward zero.
    Div(a, b) "div" { |a, b| a / b } Exact ["fdiv"] ["fdiv"] ["Div"];
    /// Remainder with the sign of the dividend.
    Rem(a, b) "rem" { |a, b| a % b } Exact [expand] [expand] [expand];
    /// `a * b + c` with one rounding.
    Fma(a, b, c) "fma" { |a, b, c| a.mul_add(b, c) } Exact, commutative ["fma"] ["llvm.fma"] ["MulAddDst"];
    /// The larger; NaN if either is NaN; `+0 > -0`.
    Max(a, b) "max" { max_propagating } Exact, commutative ["max"] ["llvm.maximum"] ["Max"];
    /// The smaller; NaN if either is NaN; `-0 < +0`.
    Min(a, b) "min" { min_propagating } Exact, commutative ["min"] ["llvm.minimum"] ["Min"];
    /// The larger; a NaN operand is ignored; `+0 > -0`.
    MaxNum(a, b) "maxnum" { |a, b| if a.is_nan() { b } else if b.is_nan() { a } else { max_propagating(a, b) } }
        Exact, commutative ["maxnum"] ["llvm.maxnum"] [expand];
    /// The smaller; a NaN operand is ignored; `-0 < +0`.
    MinNum(a, b) "minnum" { |a, b| if a.is_nan() { b } else if b.is_nan() { a } else { min_propagating(a, b) } }
        Exact, commutative ["minnum"] ["llvm.minnum"] [expand];
    /// `-a`; flips the sign of zero and NaN.
    Neg(a) "neg" { |a| -a } Exact ["fneg"] ["fneg"] ["Neg"];
    /// `|a|`.
    Abs(a) "abs" { f64::abs } Exact ["fabs"] ["llvm.fabs"] ["Abs"];
    /// Square root.
    Sqrt(a) "sqrt" { f64::sqrt } Exact ["sqrt"] ["llvm.nvvm.sqrt.rn.f"] ["Sqrt"];
    /// `1 / sqrt(a)`.
    Rsqrt(a) "rsqrt" { |a| 1.0 / a.sqrt() } Approx(2) [expand] [expand] [expand];
    /// `1 / a`.
    Recip(a) "recip" { |a| 1.0 / a } Exact [expand] [expand] [expand];
    /// Natural exponential.
    Exp(a) "exp" { f64::exp } Approx(2) [expand] [expand] ["Exp"];
    /// `2^a`.
    Exp2(a) "exp2" { f64::exp2 } Approx(2) [expand] [expand] [expand];
    /// Natural logarithm.
    Log(a) "log" { f64::ln } Approx(2) [expand] [expand] ["Ln"];
    /// Binary logarithm.
    Log2(a) "log2" { f64::log2 } Approx(2) [expand] [expand] [expand];
    /// Sine of an angle in radians.
    Sin(a) "sin" { f64::sin } Approx(2) [expand] [expand] ["Sin"];
    /// Cosine of an angle in radians.
    Cos(a) "cos" { f64::cos } Approx(2) [expand] [expand] ["Cos"];
    /// Hyperbolic tangent.
    Tanh(a) "tanh" { f64::tanh } Approx(4) [expand] [expand] [expand];
    /// Error function.
    Erf(a) "erf" { erf } Approx(4) [expand] [expand] [expand];
    /// One less the error function.
    Erfc(a) "erfc" { erfc } Approx(4) [expand] [expand] [expand];
    /// Inverse of the error function; NaN beyond ±1.
    Erfinv(a) "erfinv" { erfinv } Approx(4) [expand] [expand] [expand];
    /// Angle of the point `(b, a)` from the positive first axis, in radians, with the sign of `a`.
    Atan2(a, b) "atan2" { f64::atan2 } Approx(4) [expand] [expand] [expand];
    /// `sqrt(a² + b²)`; infinite if either is, even beside NaN.
    Hypot(a, b) "hypot" { libm::hypot } Approx(2), commutative [expand] [expand] [expand];
    /// `a` to the power `b`.
    Pow(a, b) "pow" { f64::powf } Approx(4) [expand] [expand] ["Power"];
    /// Toward minus infinity.
    Floor(a) "floor" { f64::floor } Exact ["floor"] ["llvm.floor"] ["Floor"];
    /// Toward plus infinity.
    Ceil(a) "ceil" { f64::ceil } Exact ["ceil"] ["llvm.ceil"] ["Ceil"];
    /// Toward zero.
    Trunc(a) "trunc" { f64::trunc } Exact ["trunc"] ["llvm.trunc"] ["Trunc"];
    /// To the nearest integer, ties to even.
    RoundEven(a) "round" { f64::round_ties_even } Exact ["nearest"] ["llvm.roundeven"] ["Rint"];
    /// Smallest power of two not below `max(|a|, 1e-10)`, by bits of f32; exponent 255 stays.
    Ue8m0Ceil(a) "ue8m0_ceil" { ue8m0_ceil } Exact [expand] [expand] [expand];
    /// `a == b`.
    Eq(a, b) "eq" { |a, b| f64::from(a == b) } Exact -> Bool, commutative ["eq"] ["oeq"] ["EQ"];
    /// `a != b`; true if either is NaN.
    Ne(a, b) "ne" { |a, b| f64::from(a != b) } Exact -> Bool, commutative ["ne"] ["une"] ["NE"];
    /// `a < b`.
    Lt(a, b) "lt" { |a, b| f64::from(a < b) } Exact -> Bool ["lt"] ["olt"] ["LT"];
    /// `a <= b`.
    Le(a, b) "le" { |a, b| f64::from(a <= b) } Exact -> Bool ["le"] ["ole"] ["LE"];
    /// `a > b`.
    Gt(a, b) "gt" { |a, b| f64::from(a > b) } Exact -> Bool ["gt"] ["ogt"] ["GT"];
    /// `a >= b`.
    Ge(a, b) "ge" { |a, b| f64::from(a >= b) } Exact -> Bool ["ge"] ["oge"] ["GE"];
    /// Bitwise and of integers, logical and of booleans.
    And(a, b) "and" { |a, b| f64::from(a != 0.0 && b != 0.0) } Exact, commutative ["and"] ["and"] ["And"];
    /// Bitwise or of integers, logical or of booleans.
    Or(a, b) "or" { |a, b| f64::from(a != 0.0 || b != 0.0) } Exact, commutative ["or"] ["or"] ["Or"];
    /// Bitwise exclusive or of integers, logical of booleans.
    Xor(a, b) "xor" { |a, b| f64::from((a != 0.0) != (b != 0.0)) } Exact, commutative ["xor"] ["xor"] [expand];
    /// Bitwise complement of integers, logical not of booleans.
    Not(a) "not" { |a| f64::from(a == 0.0) } Exact ["not"] ["not"] ["Not"];
    /// `a << b` of integers; zero when `b` is not below the width.
    Shl(a, b) "shl" { |a, b| a * b.exp2() } Exact ["ishl"] ["shl"] ["ShiftLeft"];
    /// `a >> b` of integers, arithmetic for signed ones; the sign fill when `b` is not below the width.
    Shr(a, b) "shr" { |a, b| (a / b.exp2()).floor() } Exact ["sshr"] ["ashr"] ["ShiftRight"];
    /// `b` where the boolean `a` is true, else `c`.
    Select(a, b, c) "select" { |a, b, c| if a != 0.0 { b } else { c } } Exact ["select"] ["select"] ["Select"];
}

impl ScalarFn {
    /// Name in text forms.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Number of operands.
    pub const fn arity(self) -> usize {
        self.spec().arity
    }

    /// The function of that name.
    pub fn by_name(name: &str) -> Option<ScalarFn> {
        ScalarFn::ALL.iter().copied().find(|f| f.name() == name)
    }

    /// The value on integers (booleans as 0 and 1) before wrapping to the result dtype, or `None` where the function
    /// is not defined on integers. Division by zero gives 0.
    pub fn eval_int(self, x: &[i64]) -> Option<i64> {
        Some(match self {
            ScalarFn::Add => x[0].wrapping_add(x[1]),
            ScalarFn::Sub => x[0].wrapping_sub(x[1]),
            ScalarFn::Mul => x[0].wrapping_mul(x[1]),
            ScalarFn::Div if x[1] == 0 => 0,
            ScalarFn::Div => x[0].wrapping_div(x[1]),
            ScalarFn::Rem if x[1] == 0 => 0,
            ScalarFn::Rem => x[0].wrapping_rem(x[1]),
            ScalarFn::Max | ScalarFn::MaxNum => x[0].max(x[1]),
            ScalarFn::Min | ScalarFn::MinNum => x[0].min(x[1]),
            ScalarFn::Neg => x[0].wrapping_neg(),
            ScalarFn::Abs => x[0].wrapping_abs(),
            ScalarFn::Eq => i64::from(x[0] == x[1]),
            ScalarFn::Ne => i64::from(x[0] != x[1]),
            ScalarFn::Lt => i64::from(x[0] < x[1]),
            ScalarFn::Le => i64::from(x[0] <= x[1]),
            ScalarFn::Gt => i64::from(x[0] > x[1]),
            ScalarFn::Ge => i64::from(x[0] >= x[1]),
            ScalarFn::And => x[0] & x[1],
            ScalarFn::Or => x[0] | x[1],
            ScalarFn::Xor => x[0] ^ x[1],
            ScalarFn::Not => !x[0],
            ScalarFn::Shl => u32::try_from(x[1]).ok().and_then(|n| x[0].checked_shl(n)).unwrap_or(0),
            ScalarFn::Shr => x[0] >> x[1].clamp(0, 63),
            ScalarFn::Select => {
                if x[0] != 0 {
                    x[1]
                } else {
                    x[2]
                }
            }
            _ => return None,
        })
    }
}

fn max_propagating(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_positive() { a } else { b }
    } else {
        a.max(b)
    }
}

fn min_propagating(a: f64, b: f64) -> f64 {
    -max_propagating(-a, -b)
}

/// Definition by bits: `b = bits(max(|a|, 1e-10))`; the exponent, plus one if any mantissa bit is set; `2^(e − 127)`.
fn ue8m0_ceil(a: f64) -> f64 {
    let bits = (a.abs().max(f64::from(1e-10f32)) as f32).to_bits();
    let exponent = ((bits >> 23) & 0xff) + u32::from(bits & 0x7f_ffff != 0);
    f64::from(f32::from_bits(exponent.min(255) << 23))
}

/// Error function to a few 1e-16: series near zero, continued fraction of the complement elsewhere.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() || a == 0.0 {
        return x;
    }
    if a >= 6.0 {
        return x.signum();
    }
    let two_over_sqrt_pi = std::f64::consts::FRAC_2_SQRT_PI;
    if a < 2.5 {
        // erf(x) = 2/√π · e^−x² · Σ 2ⁿ·x^(2n+1)/(2n+1)!!: no term cancels another. The square is split for the exponent.
        let (mut term, mut sum) = (x, x);
        for n in 0..200u32 {
            term *= 2.0 * x * x / f64::from(2 * n + 3);
            sum += term;
            if term.abs() < sum.abs() * 1e-18 {
                break;
            }
        }
        let square = x * x;
        return two_over_sqrt_pi * sum * (-square).exp() * (1.0 - x.mul_add(x, -square));
    }
    (1.0 - erfc_from_one(a)).copysign(x)
}

/// `1 − erf(x)` with its own relative accuracy, about 1e-15.
fn erfc(x: f64) -> f64 {
    if x < 1.0 || x.is_nan() { 1.0 - erf(x) } else { erfc_from_one(x) }
}

/// The complement of the error function where `a ≥ 1`.
fn erfc_from_one(a: f64) -> f64 {
    // The least positive number is that of 27.3; infinity has no square to split.
    if a > 28.0 {
        return 0.0;
    }
    // erfc(a) = exp(-a²)/(√π·(a + (1/2)/(a + 1/(a + (3/2)/(a + …)))))
    let tail = (1..=240u32).rev().fold(a, |acc, n| a + f64::from(n) / 2.0 / acc);
    let square = a * a;
    let power = (-square).exp() * (1.0 - a.mul_add(a, -square));
    power / tail * std::f64::consts::FRAC_2_SQRT_PI / 2.0
}

/// The number of which the error function is `x`, to a few 1e-16: an estimate, and Newton's steps from it. Near ±1 they
/// are of the complement, which keeps what is left of 1.
fn erfinv(x: f64) -> f64 {
    let a = x.abs();
    if a == 0.0 || x.is_nan() {
        return x;
    }
    if a >= 1.0 {
        return if a == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
    }
    // Winitzki: within 0.4 %.
    let (log, shift) = (((1.0 - a) * (1.0 + a)).ln(), 4.330_746_750_799_873);
    let half = shift + log / 2.0;
    let mut y = ((half * half - log / 0.147).sqrt() - half).max(0.0).sqrt();
    for _ in 0..4 {
        let missing = if a < 0.5 { a - erf(y) } else { erfc(y) - (1.0 - a) };
        // Of the second order: the slope falls as it goes.
        let step = missing / (std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp());
        y += step / (1.0 - y * step);
    }
    y.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        assert!(ScalarFn::ALL.len() >= 40);
        for &f in ScalarFn::ALL {
            assert_eq!(ScalarFn::by_name(f.name()), Some(f));
        }
    }

    #[test]
    fn max_and_min_treat_nan_and_zero_as_stated() {
        assert!(ScalarFn::Max.eval(&[f64::NAN, 1.0]).is_nan());
        assert_eq!(ScalarFn::MaxNum.eval(&[f64::NAN, 1.0]), 1.0);
        assert!(ScalarFn::Max.eval(&[-0.0, 0.0]).is_sign_positive());
        assert!(ScalarFn::Min.eval(&[0.0, -0.0]).is_sign_negative());
    }

    #[test]
    fn erf_matches_known_values() {
        for (x, y) in [(0.5, 0.520_499_877_813_046_5), (1.0, 0.842_700_792_949_714_9), (3.0, 0.999_977_909_503_001_4)] {
            assert!((ScalarFn::Erf.eval(&[x]) - y).abs() < 1e-15, "{x}");
            assert_eq!(ScalarFn::Erf.eval(&[-x]), -ScalarFn::Erf.eval(&[x]));
        }
    }

    #[test]
    fn erfc_keeps_its_relative_accuracy() {
        let known = [
            (-1.0, 1.842_700_792_949_715),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_13),
            (3.0, 2.209_049_699_858_544e-5),
            (10.0, 2.088_487_583_762_545e-45),
            (26.0, 5.663_192_408_856_143e-296),
        ];
        for (x, y) in known {
            assert!((ScalarFn::Erfc.eval(&[x]) / y - 1.0).abs() < 2e-15, "{x}");
        }
        assert_eq!([f64::NEG_INFINITY, -0.0, f64::INFINITY].map(|x| ScalarFn::Erfc.eval(&[x])), [2.0, 1.0, 0.0]);
        assert!(ScalarFn::Erfc.eval(&[f64::NAN]).is_nan());
    }

    #[test]
    fn erfinv_is_the_inverse_and_has_an_end() {
        let known = [
            (0.5, 0.476_936_276_204_469_9),
            (-0.9, -1.163_087_153_676_674),
            (0.99999, 3.123_413_274_341_571),
            (1e-10, 8.862_269_254_527_58e-11),
            (1e-300, 8.862_269_254_527_58e-301),
        ];
        for (x, y) in known {
            assert!((ScalarFn::Erfinv.eval(&[x]) / y - 1.0).abs() < 1e-15, "{x}");
        }
        for y in [1e-5, 0.1, 0.47, 0.48, 1.0, 2.0, 3.0] {
            assert!((ScalarFn::Erfinv.eval(&[erf(y)]) / y - 1.0).abs() < 1e-12, "{y}");
        }
        let last = 1.0 - f64::EPSILON / 2.0;
        assert!((ScalarFn::Erfinv.eval(&[last]) / 5.863_584_748_755_168 - 1.0).abs() < 1e-15);
        assert_eq!([1.0, -1.0].map(|x| ScalarFn::Erfinv.eval(&[x])), [f64::INFINITY, f64::NEG_INFINITY]);
        assert!(ScalarFn::Erfinv.eval(&[-0.0]).is_sign_negative());
        assert!([1.5, -f64::INFINITY, f64::NAN].iter().all(|&x| ScalarFn::Erfinv.eval(&[x]).is_nan()));
    }

    #[test]
    fn ue8m0_is_defined_by_bits() {
        let up = f64::from(f32::from_bits(1.0f32.to_bits() + 1));
        assert_eq!(ScalarFn::Ue8m0Ceil.eval(&[1.0]), 1.0);
        assert_eq!(ScalarFn::Ue8m0Ceil.eval(&[up]), 2.0);
        assert_eq!(ScalarFn::Ue8m0Ceil.eval(&[0.0]), f64::from(2f32.powi(-33)));
    }
}
