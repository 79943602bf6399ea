//! Every code of the 8- and 16-bit types, every midpoint between neighbours, and the values that vendors agree on.

use fusewright_abi::DType;

use super::*;
use crate::prim::Rounding;

const SHORT: [DType; 6] = [DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2, DType::F8E8M0, DType::F4E2M1];

fn codes(dtype: DType) -> impl Iterator<Item = u64> {
    0..1u64 << dtype.bits()
}

fn nearest(dtype: DType, x: f64) -> f64 {
    round_to(dtype, x, Rounding::NearestEven, false)
}

#[track_caller]
fn same(got: f64, want: f64) {
    assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "got {got:e}, want {want:e}");
}

#[test]
fn every_code_round_trips() {
    for dtype in SHORT {
        let mut nans = 0;
        for code in codes(dtype) {
            let value = decode(dtype, code);
            if value.is_nan() {
                nans += 1;
                assert!(decode(dtype, encode(dtype, value)).is_nan());
                continue;
            }
            assert_eq!(encode(dtype, value), code, "{dtype} {value:e}");
            for rounding in Rounding::ALL {
                same(round_to(dtype, value, rounding, false), value);
            }
        }
        let expected = match dtype {
            DType::BF16 => 2 * 127,
            DType::F16 => 2 * 1023,
            DType::F8E5M2 => 6,
            DType::F8E4M3 => 2,
            DType::F8E8M0 => 1,
            _ => 0,
        };
        assert_eq!(nans, expected, "{dtype}");
    }
}

#[test]
fn an_element_has_the_code_that_it_was_made_of() {
    for dtype in SHORT {
        for at in codes(dtype) {
            let x = element(dtype, at);
            assert_eq!(code(dtype, x), at, "{dtype}");
            same(x, decode(dtype, at));
        }
        // What is computed has no code of its own, and neither has an element of another dtype.
        let one = encode(dtype, f64::NAN);
        for nan in [f64::NAN, -f64::NAN, element(DType::F32, 0xffff_ffff), element(DType::F64, u64::MAX)] {
            assert_eq!(code(dtype, nan), one, "{dtype}");
        }
        let own = codes(dtype).filter(|&at| decode(dtype, at).is_nan() && at != one).count();
        assert_eq!(has_nans(dtype), own > 0, "{dtype}");
    }
    for nan in [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0x7fff_ffff, 0xffff_ffff] {
        assert_eq!(code(DType::F32, element(DType::F32, nan)), nan);
    }
    for nan in [0x7ff8_0000_0000_0000, 0x7ff0_0000_0000_0001, u64::MAX] {
        assert_eq!(code(DType::F64, element(DType::F64, nan)), nan);
    }
}

#[test]
fn sixteen_bit_codes_agree_with_half() {
    for code in 0..=u16::MAX {
        same(decode(DType::F16, code.into()), half::f16::from_bits(code).to_f64());
        same(decode(DType::BF16, code.into()), half::bf16::from_bits(code).to_f64());
    }
}

/// Neighbouring finite values in ascending order, with the parity of the lower one's code.
fn neighbours(dtype: DType) -> Vec<(f64, f64, bool)> {
    let mut values: Vec<(f64, u64)> = codes(dtype)
        .map(|c| (decode(dtype, c), c))
        .filter(|(v, _)| v.is_finite() && (*v != 0.0 || v.is_sign_positive()))
        .collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    values.windows(2).map(|w| (w[0].0, w[1].0, w[0].1 & 1 == 0)).collect()
}

#[test]
fn rounding_decides_at_exact_midpoints() {
    for dtype in SHORT.into_iter().filter(|&d| d != DType::F8E8M0) {
        let pairs = neighbours(dtype);
        assert!(pairs.len() + 2 >= (1 << dtype.bits()) / 2);
        for (low, high, low_is_even) in pairs {
            let middle = low + (high - low) / 2.0;
            let (below, above) = (f64::from_bits(middle.to_bits() - 1), f64::from_bits(middle.to_bits() + 1));
            let (inner, outer) = if middle > 0.0 { (low, high) } else { (high, low) };
            for (x, near, away) in
                [(below, inner, inner), (middle, if low_is_even { low } else { high }, outer), (above, outer, outer)]
            {
                let check = |rounding, want: f64| same(round_to(dtype, x, rounding, false), want.abs().copysign(x));
                check(Rounding::NearestEven, near);
                check(Rounding::HalfAway, away);
                check(Rounding::TowardZero, inner);
                check(Rounding::Down, low);
                check(Rounding::Up, high);
            }
        }
    }
}

#[test]
fn beyond_the_range_overflows_or_saturates() {
    for dtype in SHORT.into_iter().chain([DType::F32]) {
        let max = max_finite(dtype);
        for x in [max * 4.0, f64::MAX, f64::INFINITY] {
            same(round_to(dtype, x, Rounding::NearestEven, true), max);
        }
        let open = nearest(dtype, f64::INFINITY);
        match dtype {
            DType::F8E4M3 | DType::F8E8M0 => assert!(open.is_nan()),
            DType::F4E2M1 => same(open, 6.0),
            _ => same(open, f64::INFINITY),
        }
    }
    same(nearest(DType::BF16, 3.395e38), max_finite(DType::BF16));
    same(nearest(DType::BF16, 3.4e38), f64::INFINITY);
    same(round_to(DType::F8E4M3, -1e30, Rounding::NearestEven, true), -448.0);
}

#[test]
fn values_that_pytorch_gives() {
    let e4m3 =
        [(-0.0, 0x80), (1.0625, 0x38), (1.1875, 0x3a), (17.0, 0x58), (19.0, 0x5a), (464.0, 0x7e), (f64::NAN, 0x7f)];
    let tiny = [(2f64.powi(-10), 0x00), (2f64.powi(-10) * 1.0001, 0x01)];
    for (x, code) in e4m3.into_iter().chain(tiny) {
        assert_eq!(encode(DType::F8E4M3, nearest(DType::F8E4M3, x)), code, "{x}");
    }
    assert!(nearest(DType::F8E4M3, 464.1).is_nan());
    assert_eq!(encode(DType::F8E5M2, nearest(DType::F8E5M2, 1e30)), 0x7c);
    let e8m0 = [(0.75, 127), (1.4999, 127), (1.5, 128), (3.0, 129), (0.0, 0), (f64::INFINITY, 255), (f64::NAN, 255)];
    for (x, code) in e8m0.into_iter().chain([(3.4e38, 255), (6e-39, 1), (5e-39, 0), (-3.0, 129)]) {
        assert_eq!(encode(DType::F8E8M0, nearest(DType::F8E8M0, x)), code, "{x}");
    }
    assert_eq!(encode(DType::F4E2M1, nearest(DType::F4E2M1, -0.0)), 8);
    assert_eq!(encode(DType::F4E2M1, nearest(DType::F4E2M1, f64::NAN)), 7);
    assert_eq!(
        [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0].map(|x| nearest(DType::F4E2M1, x)),
        [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    );
}

#[test]
fn one_rounding_where_f32_between_would_give_two() {
    // Just above the bf16 midpoint, by less than f32 can hold.
    let x = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
    same(nearest(DType::BF16, x), 1.0 + 2f64.powi(-7));
    same(nearest(DType::BF16, f64::from(x as f32)), 1.0);
}

#[test]
fn floats_become_integers() {
    let to = |dtype, x, saturate| float_to_int(dtype, x, Rounding::NearestEven, saturate);
    assert_eq!(to(DType::I8, 300.0, false), 44);
    assert_eq!(to(DType::I8, 300.0, true), 127);
    assert_eq!(to(DType::I8, -129.0, false), 127);
    assert_eq!(to(DType::I8, f64::NAN, true), 0);
    assert_eq!(to(DType::U8, -1.0, false), 255);
    assert_eq!(to(DType::I4, 8.0, false), -8);
    assert_eq!(to(DType::U4, 1e9, true), 15);
    assert_eq!(to(DType::I64, f64::INFINITY, true), i64::MAX);
    assert_eq!(to(DType::U64, f64::INFINITY, true), -1);
    assert_eq!(to(DType::I32, f64::NEG_INFINITY, false), 0);
    assert_eq!(to(DType::I64, 2f64.powi(64) + 2f64.powi(20), false), 1 << 20);
    assert_eq!(to(DType::Bool, 0.25, false), 1);
    assert_eq!([2.5, -2.5, 3.5].map(|x| to(DType::I8, x, true)), [2, -2, 4]);
    let modes = Rounding::ALL.map(|r| float_to_int(DType::I8, -2.5, r, true));
    assert_eq!(modes, [-2, -2, -3, -2, -3]);
}

#[test]
fn integers_become_floats_with_one_rounding() {
    let to = |v, to, rounding| int_to_float(DType::I64, v, to, rounding, false);
    // Beyond a bf16 midpoint by 1 in 2^62: a detour through f64 would round to even.
    let v = (1 << 62) + (1 << 54) + 1;
    same(to(v, DType::BF16, Rounding::NearestEven), 2f64.powi(62) + 2f64.powi(55));
    same(to(-v, DType::BF16, Rounding::Up), -(2f64.powi(62)));
    same(to(i64::MAX, DType::F64, Rounding::TowardZero), 2f64.powi(63) - 1024.0);
    same(to(i64::MAX, DType::F64, Rounding::NearestEven), i64::MAX as f64);
    same(int_to_float(DType::U64, -1, DType::F32, Rounding::NearestEven, false), 2f64.powi(64));
    for v in [i64::MIN, -3, 0, 1 << 53, (1 << 60) + 12345] {
        same(to(v, DType::F32, Rounding::NearestEven), f64::from(v as f32));
    }
}

#[test]
fn integers_wrap_and_keep_their_codes() {
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_float()) {
        let (least, greatest) = int_range(dtype);
        for v in [least, greatest, 0, 1] {
            let v = v as i64;
            assert_eq!(wrap_int(dtype, v), v);
            assert_eq!(decode_int(dtype, encode_int(dtype, v)), v, "{dtype}");
        }
    }
    assert_eq!(saturate_int(DType::U64, -1, DType::I64), i64::MAX);
    assert_eq!(saturate_int(DType::I32, -5, DType::U8), 0);
    assert_eq!(wrap_int(DType::Bool, 2), 1);
}

#[test]
fn neighbours_differ_by_one_key() {
    for dtype in SHORT {
        let mut line: Vec<f64> = codes(dtype).map(|c| decode(dtype, c)).filter(|v| !v.is_nan()).collect();
        line.sort_by(f64::total_cmp);
        for pair in line.windows(2) {
            assert_eq!(key(dtype, pair[0]) + 1, key(dtype, pair[1]), "{dtype} {pair:?}");
            if pair[0] != 0.0 || pair[0].is_sign_positive() {
                assert!(next_up(dtype, pair[0]) == pair[1] && next_down(dtype, pair[1]) == pair[0], "{dtype} {pair:?}");
            }
        }
        let top = line[line.len() - 1];
        same(next_up(dtype, top), top);
    }
    assert_eq!(ulp(DType::F32, 1.0), f64::from(f32::EPSILON));
    assert_eq!(ulp(DType::F8E4M3, 0.0), 2f64.powi(-9));
    assert_eq!(unit_roundoff(DType::BF16), 2f64.powi(-8));
}

#[test]
fn fma_rounds_once() {
    // 1.0078125² = 1 + 2⁻⁶ + 2⁻¹⁴; minus the even bf16 neighbour the tail decides.
    let a = 1.0 + 2f64.powi(-7);
    same(fma(DType::BF16, a, a, 0.0), nearest(DType::BF16, a * a));
    // The addend is far below the last place of f64 and still decides a tie.
    let (half, tiny) = (1.0 + 2f64.powi(-7), 2f64.powi(-100));
    let product = half * (1.0 + 2f64.powi(-1));
    same(nearest(DType::BF16, product), 1.5 + 2f64.powi(-6));
    same(fma(DType::BF16, half, 1.5, -tiny), 1.5 + 2f64.powi(-7));
    same(fma(DType::F32, 1e30, 1e30, f64::NEG_INFINITY), f64::NEG_INFINITY);
    assert!(fma(DType::F16, f64::INFINITY, 0.0, 1.0).is_nan());
}
