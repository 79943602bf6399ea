//! The time that kernels take for functions, memory and calls, by compiler and processor level.
//!
//! Functions and bytes were measured by `benches/costs.rs` on a Xeon with AVX-512, on one thread. A table is of a family of processors and not of the machine that
//! compiles, so that equal models are divided into equal kernels everywhere.

use fusewright_fusion::region::Costs;
use fusewright_graph::ScalarFn;

/// Cranelift, in vectors of 128 bits.
pub(super) const CRANELIFT: Costs = Costs { call: CALL, byte: 101, functions: &column(0) };
/// LLVM at level `x86-64-v3`.
pub(super) const AVX2: Costs = Costs { call: CALL, byte: 128, functions: &column(1) };
/// LLVM at level `x86-64-v4`.
pub(super) const AVX512: Costs = Costs { call: CALL, byte: 94, functions: &column(2) };

/// A call takes about a microsecond. It is not measured per compiler, as most of it is the host's.
const CALL: u64 = 1_000_000;

/// Picoseconds of an element, in the order of the tables above.
const FUNCTIONS: [(ScalarFn, [u64; 3]); 46] = [
    (ScalarFn::Add, [41, 39, 7]),
    (ScalarFn::Sub, [41, 44, 7]),
    (ScalarFn::Mul, [51, 52, 7]),
    (ScalarFn::Div, [82, 130, 66]),
    (ScalarFn::Rem, [44_289, 8_586, 7_331]),
    (ScalarFn::Fma, [41, 63, 17]),
    (ScalarFn::Max, [263, 160, 20]),
    (ScalarFn::Min, [223, 171, 30]),
    (ScalarFn::MaxNum, [528, 167, 7]),
    (ScalarFn::MinNum, [475, 173, 29]),
    (ScalarFn::Neg, [41, 35, 7]),
    (ScalarFn::Abs, [41, 36, 7]),
    (ScalarFn::Sqrt, [129, 179, 144]),
    (ScalarFn::Rsqrt, [385, 388, 354]),
    (ScalarFn::Recip, [133, 136, 102]),
    (ScalarFn::Exp, [922, 417, 166]),
    (ScalarFn::Exp2, [695, 391, 160]),
    (ScalarFn::Log, [1_913, 1_001, 425]),
    (ScalarFn::Log2, [2_461, 1_143, 575]),
    (ScalarFn::Sin, [17_020, 5_045, 1_997]),
    (ScalarFn::Cos, [19_457, 5_284, 2_163]),
    (ScalarFn::Tanh, [1_075, 935, 396]),
    (ScalarFn::Erf, [1_536, 1_423, 583]),
    (ScalarFn::Erfc, [2_429, 1_750, 858]),
    (ScalarFn::Erfinv, [3_911, 2_125, 1_241]),
    (ScalarFn::Atan2, [2_378, 875, 478]),
    (ScalarFn::Hypot, [1_475, 642, 285]),
    (ScalarFn::Pow, [7_444, 4_655, 2_187]),
    (ScalarFn::Floor, [41, 39, 7]),
    (ScalarFn::Ceil, [41, 41, 12]),
    (ScalarFn::Trunc, [41, 41, 7]),
    (ScalarFn::RoundEven, [41, 42, 11]),
    (ScalarFn::Ue8m0Ceil, [615, 57, 10]),
    (ScalarFn::Eq, [41, 53, 12]),
    (ScalarFn::Ne, [75, 52, 21]),
    (ScalarFn::Lt, [57, 55, 21]),
    (ScalarFn::Le, [41, 49, 28]),
    (ScalarFn::Gt, [41, 53, 25]),
    (ScalarFn::Ge, [41, 47, 7]),
    (ScalarFn::And, [41, 52, 14]),
    (ScalarFn::Or, [41, 49, 14]),
    (ScalarFn::Xor, [41, 44, 8]),
    (ScalarFn::Not, [41, 37, 7]),
    (ScalarFn::Shl, [485, 77, 12]),
    (ScalarFn::Shr, [499, 91, 30]),
    (ScalarFn::Select, [131, 94, 18]),
];

const fn column(of: usize) -> [(ScalarFn, u64); FUNCTIONS.len()] {
    let mut taken = [(FUNCTIONS[0].0, 0); FUNCTIONS.len()];
    let mut row = 0;
    while row < taken.len() {
        taken[row] = (FUNCTIONS[row].0, FUNCTIONS[row].1[of]);
        row += 1;
    }
    taken
}

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
