//! Bytes, views and comparison.

use approx::{assert_abs_diff_ne, assert_ulps_eq, assert_ulps_ne};
use bytes::Bytes;
use fusewright_abi::DType;

use super::*;
use crate::graph::Weight;

fn tensor(dtype: DType, values: &[f64]) -> Tensor {
    Tensor::from_f64(dtype, &[values.len()], values.to_vec()).expect("one axis")
}

#[test]
fn bytes_round_trip_for_every_dtype() {
    let bytes: Vec<u8> = (0..=255).collect();
    for dtype in DType::ALL {
        let count = bytes.len() * 8 / dtype.bits() as usize;
        let x = Tensor::from_bytes(dtype, &[2, count / 2], &bytes).expect("fits");
        let canonical = x.to_bytes();
        assert_eq!(canonical.len(), bytes.len(), "{dtype}");
        assert_eq!(Tensor::from_bytes(dtype, &[2, count / 2], &canonical).expect("fits"), x);
        let lossless = dtype.is_int() || dtype == DType::F4E2M1 || dtype == DType::F8E8M0;
        assert!(!lossless || canonical == bytes, "{dtype}");
    }
}

#[test]
fn odd_counts_of_nibbles_fill_a_byte() {
    let x = Tensor::from_i64(DType::I4, &[3], vec![1, -1, 7]).expect("fits");
    assert_eq!(x.to_bytes(), [0xf1, 0x07]);
    assert_eq!(Tensor::from_bytes(DType::I4, &[3], &[0xf1, 0x07]), Ok(x));
    assert!(Tensor::from_bytes(DType::I4, &[3], &[0xf1]).is_err());
}

#[test]
fn views_are_strided_and_stay_inside() {
    let storage = Bytes::from((0u8..12).collect::<Vec<_>>());
    let view = |offset, strides: &[usize]| Weight {
        storage: storage.clone(),
        offset,
        strides: strides.to_vec(),
        checksum: None,
    };
    let read = |shape: &[usize], w: &Weight| Tensor::from_weight(DType::U8, shape, w);
    let transposed = read(&[4, 3], &view(0, &[1, 4])).expect("inside");
    assert_eq!(transposed.ints(), Some(&[0i64, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11][..]));
    let repeated = read(&[2, 2], &view(3, &[0, 1])).expect("inside");
    assert_eq!(repeated.ints(), Some(&[3i64, 4, 3, 4][..]));
    assert!(read(&[0, 5], &view(1 << 40, &[9, 9])).expect("empty").is_empty());
    assert!(read(&[4, 3], &view(1, &[1, 4])).is_err());
    assert!(read(&[2], &view(0, &[usize::MAX])).is_err());
    assert!(read(&[usize::MAX, usize::MAX], &view(0, &[0, 0])).is_err());
    assert!(read(&[2], &view(0, &[1, 1])).is_err());
}

#[test]
fn comparison_is_by_bits_and_codes() {
    let a = tensor(DType::F8E4M3, &[1.0, 0.0, f64::NAN, 448.0, -0.0]);
    let b = tensor(DType::F8E4M3, &[1.25, -0.0, f64::NAN, 448.0, -0.0]);
    let d = a.compare(&b).expect("same type");
    assert_eq!((d.elements, d.mismatched, d.max_ulp, d.first), (5, 2, 2, Some(0)));
    assert_eq!(d.max_abs, 0.25);
    assert_ulps_eq!(a, b, max_ulps = 2);
    assert_ulps_ne!(a, b, max_ulps = 1);
    let c = tensor(DType::F8E4M3, &[1.0, 0.0, 1.0, 448.0, -0.0]);
    assert_eq!(a.compare(&c).expect("same type").max_ulp, u64::MAX);
    assert_abs_diff_ne!(a, c, epsilon = 1e300);
    assert!(a.compare(&tensor(DType::F8E5M2, &[0.0; 5])).is_err());
}

#[test]
fn elements_must_fit_the_type() {
    assert!(Tensor::from_f64(DType::I8, &[1], vec![1.0]).is_err());
    assert!(Tensor::from_i64(DType::F32, &[1], vec![1]).is_err());
    assert!(Tensor::from_f64(DType::F32, &[2, 3], vec![0.0; 5]).is_err());
    assert_eq!(Tensor::from_i64(DType::I8, &[1], vec![300]).expect("fits").ints(), Some(&[44i64][..]));
    assert_eq!(tensor(DType::BF16, &[1.001]).floats(), Some(&[1.0][..]));
}
