//! One element of a map or cast, on bits.

use fusewright_abi::DType;
use fusewright_graph::{Rounding, ScalarFn, num};

/// The value of a scalar function on elements of one dtype (a boolean first operand for `select`), as bits of the
/// result's dtype. Operands are bits of that dtype.
pub fn map(f: ScalarFn, dtype: DType, x: &[u64]) -> u64 {
    if f == ScalarFn::Select {
        return if x[0] != 0 { x[1] } else { x[2] };
    }
    let mut operands = [0f64; 3];
    if dtype.is_float() {
        for (slot, &bits) in operands.iter_mut().zip(x) {
            *slot = num::decode(dtype, bits);
        }
        let [a, b, c] = operands;
        let exact = if f == ScalarFn::Fma { num::fma(dtype, a, b, c) } else { f.eval(&operands) };
        return match f.spec().yields {
            fusewright_graph::scalar::Yields::Bool => exact as u64,
            fusewright_graph::scalar::Yields::Operand => num::encode(dtype, exact),
        };
    }
    let mut operands = [0i64; 3];
    for (slot, &bits) in operands.iter_mut().zip(x) {
        *slot = num::decode_int(dtype, bits);
    }
    let value = if dtype == DType::U64 { unsigned(f, operands) } else { None };
    let value = value.or_else(|| f.eval_int(&operands)).unwrap_or(0);
    match f.spec().yields {
        fusewright_graph::scalar::Yields::Bool => value as u64,
        // `not` of a boolean is logical: wrapping takes every number but zero for true.
        _ if dtype == DType::Bool && f == ScalarFn::Not => u64::from(operands[0] == 0),
        fusewright_graph::scalar::Yields::Operand => num::encode_int(dtype, num::wrap_int(dtype, value)),
    }
}

/// The functions whose value on `u64` is not that of the same bits as `i64`.
fn unsigned(f: ScalarFn, x: [i64; 3]) -> Option<i64> {
    let (a, b) = (x[0] as u64, x[1] as u64);
    Some(match f {
        ScalarFn::Div => a.checked_div(b).unwrap_or(0) as i64,
        ScalarFn::Rem => a.checked_rem(b).unwrap_or(0) as i64,
        ScalarFn::Max | ScalarFn::MaxNum => a.max(b) as i64,
        ScalarFn::Min | ScalarFn::MinNum => a.min(b) as i64,
        ScalarFn::Abs => x[0],
        ScalarFn::Lt => i64::from(a < b),
        ScalarFn::Le => i64::from(a <= b),
        ScalarFn::Gt => i64::from(a > b),
        ScalarFn::Ge => i64::from(a >= b),
        ScalarFn::Shr => u32::try_from(b).ok().and_then(|n| a.checked_shr(n)).unwrap_or(0) as i64,
        _ => return None,
    })
}

/// The bits of a result, with the canonical NaN for every other one.
pub(super) fn with_one_nan(dtype: DType, bits: u64) -> u64 {
    let nan = dtype.is_float() && num::decode(dtype, bits).is_nan();
    if nan { num::encode(dtype, f64::NAN) } else { bits }
}

/// A conversion, as the graph's `cast`.
pub fn cast(from: DType, bits: u64, to: DType, round: Rounding, saturate: bool) -> u64 {
    match (from.is_float(), to.is_float()) {
        (true, true) => num::encode(to, num::round_to(to, num::decode(from, bits), round, saturate)),
        (true, false) => num::encode_int(to, num::float_to_int(to, num::decode(from, bits), round, saturate)),
        (false, true) => num::encode(to, num::int_to_float(from, num::decode_int(from, bits), to, round, saturate)),
        (false, false) => {
            let v = num::decode_int(from, bits);
            num::encode_int(to, if saturate { num::saturate_int(from, v, to) } else { num::wrap_int(to, v) })
        }
    }
}
