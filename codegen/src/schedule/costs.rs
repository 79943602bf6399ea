//! The time that kernels take for functions, memory and calls, by compiler and processor level.
//!
//! Measured by `cargo bench --features llvm --bench costs` on a Xeon with AVX-512, one thread. A table is of a family of processors
//! and not of the machine that compiles, so that equal models are divided into equal kernels everywhere.

use fusewright_fusion::region::Costs;
use fusewright_graph::ScalarFn;

/// Cranelift, in vectors of 128 bits.
pub(super) const CRANELIFT: Costs = Costs {
    call: 1_000_000,
    byte: 101,
    functions: &[
        (ScalarFn::Add, 41),
        (ScalarFn::Sub, 41),
        (ScalarFn::Mul, 51),
        (ScalarFn::Div, 82),
        (ScalarFn::Rem, 44_289),
        (ScalarFn::Fma, 41),
        (ScalarFn::Max, 263),
        (ScalarFn::Min, 223),
        (ScalarFn::MaxNum, 528),
        (ScalarFn::MinNum, 475),
        (ScalarFn::Neg, 41),
        (ScalarFn::Abs, 41),
        (ScalarFn::Sqrt, 129),
        (ScalarFn::Rsqrt, 385),
        (ScalarFn::Recip, 133),
        (ScalarFn::Exp, 922),
        (ScalarFn::Exp2, 695),
        (ScalarFn::Log, 1_913),
        (ScalarFn::Log2, 2_461),
        (ScalarFn::Sin, 17_020),
        (ScalarFn::Cos, 19_457),
        (ScalarFn::Tanh, 1_075),
        (ScalarFn::Erf, 1_536),
        (ScalarFn::Erfc, 2_429),
        (ScalarFn::Erfinv, 3_911),
        (ScalarFn::Atan2, 2_378),
        (ScalarFn::Hypot, 1_475),
        (ScalarFn::Pow, 7_444),
        (ScalarFn::Floor, 41),
        (ScalarFn::Ceil, 41),
        (ScalarFn::Trunc, 41),
        (ScalarFn::RoundEven, 41),
        (ScalarFn::Ue8m0Ceil, 615),
        (ScalarFn::Eq, 41),
        (ScalarFn::Ne, 75),
        (ScalarFn::Lt, 57),
        (ScalarFn::Le, 41),
        (ScalarFn::Gt, 41),
        (ScalarFn::Ge, 41),
        (ScalarFn::And, 41),
        (ScalarFn::Or, 41),
        (ScalarFn::Xor, 41),
        (ScalarFn::Not, 41),
        (ScalarFn::Shl, 485),
        (ScalarFn::Shr, 499),
        (ScalarFn::Select, 131),
    ],
};

/// LLVM at level `x86-64-v3`.
pub(super) const AVX2: Costs = Costs {
    call: 1_000_000,
    byte: 128,
    functions: &[
        (ScalarFn::Add, 39),
        (ScalarFn::Sub, 44),
        (ScalarFn::Mul, 52),
        (ScalarFn::Div, 130),
        (ScalarFn::Rem, 8_586),
        (ScalarFn::Fma, 63),
        (ScalarFn::Max, 160),
        (ScalarFn::Min, 171),
        (ScalarFn::MaxNum, 167),
        (ScalarFn::MinNum, 173),
        (ScalarFn::Neg, 35),
        (ScalarFn::Abs, 36),
        (ScalarFn::Sqrt, 179),
        (ScalarFn::Rsqrt, 388),
        (ScalarFn::Recip, 136),
        (ScalarFn::Exp, 417),
        (ScalarFn::Exp2, 391),
        (ScalarFn::Log, 1_001),
        (ScalarFn::Log2, 1_143),
        (ScalarFn::Sin, 5_045),
        (ScalarFn::Cos, 5_284),
        (ScalarFn::Tanh, 935),
        (ScalarFn::Erf, 1_423),
        (ScalarFn::Erfc, 1_750),
        (ScalarFn::Erfinv, 2_125),
        (ScalarFn::Atan2, 875),
        (ScalarFn::Hypot, 642),
        (ScalarFn::Pow, 4_655),
        (ScalarFn::Floor, 39),
        (ScalarFn::Ceil, 41),
        (ScalarFn::Trunc, 41),
        (ScalarFn::RoundEven, 42),
        (ScalarFn::Ue8m0Ceil, 57),
        (ScalarFn::Eq, 53),
        (ScalarFn::Ne, 52),
        (ScalarFn::Lt, 55),
        (ScalarFn::Le, 49),
        (ScalarFn::Gt, 53),
        (ScalarFn::Ge, 47),
        (ScalarFn::And, 52),
        (ScalarFn::Or, 49),
        (ScalarFn::Xor, 44),
        (ScalarFn::Not, 37),
        (ScalarFn::Shl, 77),
        (ScalarFn::Shr, 91),
        (ScalarFn::Select, 94),
    ],
};

/// LLVM at level `x86-64-v4`.
pub(super) const AVX512: Costs = Costs {
    call: 1_000_000,
    byte: 94,
    functions: &[
        (ScalarFn::Add, 7),
        (ScalarFn::Sub, 7),
        (ScalarFn::Mul, 7),
        (ScalarFn::Div, 66),
        (ScalarFn::Rem, 7_331),
        (ScalarFn::Fma, 17),
        (ScalarFn::Max, 20),
        (ScalarFn::Min, 30),
        (ScalarFn::MaxNum, 7),
        (ScalarFn::MinNum, 29),
        (ScalarFn::Neg, 7),
        (ScalarFn::Abs, 7),
        (ScalarFn::Sqrt, 144),
        (ScalarFn::Rsqrt, 354),
        (ScalarFn::Recip, 102),
        (ScalarFn::Exp, 166),
        (ScalarFn::Exp2, 160),
        (ScalarFn::Log, 425),
        (ScalarFn::Log2, 575),
        (ScalarFn::Sin, 1_997),
        (ScalarFn::Cos, 2_163),
        (ScalarFn::Tanh, 396),
        (ScalarFn::Erf, 583),
        (ScalarFn::Erfc, 858),
        (ScalarFn::Erfinv, 1_241),
        (ScalarFn::Atan2, 478),
        (ScalarFn::Hypot, 285),
        (ScalarFn::Pow, 2_187),
        (ScalarFn::Floor, 7),
        (ScalarFn::Ceil, 12),
        (ScalarFn::Trunc, 7),
        (ScalarFn::RoundEven, 11),
        (ScalarFn::Ue8m0Ceil, 10),
        (ScalarFn::Eq, 12),
        (ScalarFn::Ne, 21),
        (ScalarFn::Lt, 21),
        (ScalarFn::Le, 28),
        (ScalarFn::Gt, 25),
        (ScalarFn::Ge, 7),
        (ScalarFn::And, 14),
        (ScalarFn::Or, 14),
        (ScalarFn::Xor, 8),
        (ScalarFn::Not, 7),
        (ScalarFn::Shl, 12),
        (ScalarFn::Shr, 30),
        (ScalarFn::Select, 18),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_every_function_once() {
        for table in [CRANELIFT, AVX2, AVX512] {
            let functions: Vec<ScalarFn> = table.functions.iter().map(|(f, _)| *f).collect();
            assert_eq!(functions, ScalarFn::ALL);
            assert!(table.call > 0 && table.byte > 0 && table.functions.iter().all(|(_, cost)| *cost > 0));
        }
    }
}
