//! Kernels made ahead of time equal those made at run time, to the bit, and refuse what does not fit.

#[path = "../bodies.rs"]
mod bodies;

use fusewright::diff::first_difference;
use fusewright::{Callable, DType, TensorMut, TensorRef, fuse};
use fusewright_example_build_rs::{add_rms_norm_cache, add_rms_norm_fp8_token, silu_mul_fp8_group128};

/// Bits of bf16 values that arithmetic trips over: zeros, denormals, the largest, infinities, NaNs, ties.
const EDGES: [u16; 16] = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x3F80, 0xBF80,
    0x43E0, 0x3F81,
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Ordinary activations: magnitudes between 2⁻⁷ and 2.
    fn activation(&mut self) -> u16 {
        let bits = self.next();
        (bits as u16 & 0x8000) | (((120 + (bits >> 16) % 8) as u16) << 7) | ((bits >> 32) as u16 & 0x7F)
    }

    /// Rows of every kind in turn: ordinary, with a few edge values, of any bits, zero, one edge value throughout.
    fn rows(&mut self, rows: usize, lanes: usize) -> Vec<u16> {
        let mut values = Vec::with_capacity(rows * lanes);
        for row in 0..rows {
            let edge = EDGES[row / 5 % EDGES.len()];
            for _ in 0..lanes {
                values.push(match row % 5 {
                    1 if self.next().is_multiple_of(64) => EDGES[(self.next() % 16) as usize],
                    0 | 1 => self.activation(),
                    2 => self.next() as u16,
                    3 => 0,
                    _ => edge,
                });
            }
        }
        values
    }
}

fn bytes(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Calls a kernel made at run time; outputs are `(dtype, shape)`.
fn call(kernel: &Callable, inputs: &[(&[u16], &[usize])], outputs: &[(DType, &[usize])]) -> Vec<Vec<u8>> {
    let inputs: Vec<(Vec<u8>, &[usize])> = inputs.iter().map(|(values, shape)| (bytes(values), *shape)).collect();
    let reads: Vec<TensorRef<'_>> = inputs.iter().map(|(b, shape)| TensorRef::raw(DType::BF16, b, shape)).collect();
    let mut results: Vec<Vec<u8>> =
        outputs.iter().map(|(dtype, shape)| vec![0xA5; dtype.bytes_for(shape.iter().product())]).collect();
    let mut writes: Vec<TensorMut<'_>> =
        results.iter_mut().zip(outputs).map(|(b, (dtype, shape))| TensorMut::raw(*dtype, b, shape)).collect();
    kernel.call(&reads, &mut writes, 1).expect("the tensors have the shapes of the kernel");
    results
}

#[test]
fn what_is_overwritten_is_one_argument_and_equals_the_kernel_made_at_run_time() {
    let (lanes, slots) = (bodies::GATED as usize, bodies::SLOTS as usize);
    let kernel = fuse(bodies::add_rms_norm_cache).expect("the body makes one kernel");
    assert_eq!(kernel.overwrites(), [(0, "residual"), (1, "cache")]);
    assert_eq!((kernel.inputs().len(), kernel.apart().len()), (3, 0));
    let mut random = Random(7);
    for slot in [&[][..], &[3], &[-1], &[0, 11, -1, 5, 2]] {
        let (rows, shape) = (slot.len(), [slot.len(), lanes]);
        let (x, weight) = (random.rows(rows, lanes), random.rows(1, lanes));
        let (mut residual, mut cache) = (random.rows(rows, lanes), random.rows(slots, lanes));
        let (mut sum, mut written) = (bytes(&residual), bytes(&cache));
        let old = cache.clone();
        assert_eq!(add_rms_norm_cache(rows, &x, &mut residual, &weight, &mut cache, slot), Ok(()));
        let (x, weight, slot_shape, weight_shape) = (bytes(&x), bytes(&weight), [rows], [lanes]);
        let inputs = [
            TensorRef::raw(DType::BF16, &x, &shape),
            TensorRef::raw(DType::BF16, &weight, &weight_shape),
            TensorRef::new(slot, &slot_shape),
        ];
        let cache_shape = [slots, lanes];
        let mut outputs =
            [TensorMut::raw(DType::BF16, &mut sum, &shape), TensorMut::raw(DType::BF16, &mut written, &cache_shape)];
        kernel.call(&inputs, &mut outputs, 2).expect("the tensors have the shapes of the kernel");
        assert_eq!((bytes(&residual), bytes(&cache)), (sum, written), "slots {slot:?}");
        for row in (0..slots).filter(|row| !slot.contains(&(*row as i64))) {
            assert_eq!(cache[row * lanes..][..lanes], old[row * lanes..][..lanes], "row {row} is kept");
        }
    }
    assert_eq!(add_rms_norm_cache(1, &[0; 1536], &mut [0; 1535], &[0; 1536], &mut [], &[0]), Err("residual"));
}

#[test]
fn norm_equals_the_kernel_made_at_run_time() {
    norm_equals(add_rms_norm_fp8_token);
}

#[cfg(all(feature = "llvm", target_arch = "x86_64"))]
#[test]
fn norm_of_levels_equals_the_kernel_made_at_run_time() {
    if fusewright::Level::V3.is_supported() {
        norm_equals(fusewright_example_build_rs::add_rms_norm_fp8_token_of_levels);
    } else {
        let weight = vec![0; bodies::HIDDEN as usize];
        let norm = fusewright_example_build_rs::add_rms_norm_fp8_token_of_levels;
        assert_eq!(norm(0, &[], &[], &weight, &mut [], &mut [], &mut []), Err("the processor"));
    }
}

/// Rows, `x`, the residual, the weight; codes, scales, the sum.
type Norm = fn(usize, &[u16], &[u16], &[u16], &mut [u8], &mut [f32], &mut [u16]) -> Result<(), &'static str>;

#[track_caller]
fn norm_equals(norm: Norm) {
    let lanes = bodies::HIDDEN as usize;
    let kernel = fuse(bodies::add_rms_norm_fp8_token).expect("the body makes one kernel");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for rows in [0, 1, 2, 7, 85] {
        let (x, residual) = (random.rows(rows, lanes), random.rows(rows, lanes));
        let weight: Vec<u16> = (0..lanes).map(|_| random.activation()).collect();
        let (mut codes, mut scales, mut sum) = (vec![0u8; rows * lanes], vec![0f32; rows], vec![0u16; rows * lanes]);
        let called = norm(rows, &x, &residual, &weight, &mut codes, &mut scales, &mut sum);
        assert_eq!(called, Ok(()));
        let shape = [rows, lanes];
        let inputs: [(&[u16], &[usize]); 3] = [(&x, &shape), (&residual, &shape), (&weight, &[lanes])];
        let outputs: [(DType, &[usize]); 3] =
            [(DType::F8E4M3, &shape), (DType::F32, &[rows, 1]), (DType::BF16, &shape)];
        let expected = call(&kernel, &inputs, &outputs);
        let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_ne_bytes()).collect();
        let got = [(DType::F8E4M3, codes), (DType::F32, scales), (DType::BF16, bytes(&sum))];
        for ((dtype, got), expected) in got.iter().zip(&expected) {
            // Bits inside of a NaN are each compiler's own.
            let difference = first_difference(*dtype, got, expected).map(|first| first.to_string());
            assert_eq!(difference, None, "{dtype} of {rows} rows");
        }
    }
}

#[test]
fn activation_equals_the_kernel_made_at_run_time() {
    let (lanes, groups) = (bodies::GATED as usize, (bodies::GATED / bodies::GROUP) as usize);
    let kernel = fuse(bodies::silu_mul_fp8_group128).expect("the body makes one kernel");
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    for rows in [0, 1, 3, 64, 85] {
        let x = random.rows(rows, 2 * lanes);
        let (mut codes, mut scales) = (vec![0u8; rows * lanes], vec![0f32; rows * groups]);
        assert_eq!(silu_mul_fp8_group128(rows, &x, &mut codes, &mut scales), Ok(()));
        let outputs: [(DType, &[usize]); 2] =
            [(DType::F8E4M3, &[rows, groups, bodies::GROUP as usize]), (DType::F32, &[rows, groups, 1])];
        let expected = call(&kernel, &[(&x, &[rows, 2 * lanes])], &outputs);
        assert_eq!(codes, expected[0], "codes of {rows} rows");
        assert_eq!(bits(&scales).iter().flat_map(|s| s.to_ne_bytes()).collect::<Vec<_>>(), expected[1]);
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused_by_name() {
    let lanes = bodies::GATED as usize;
    let call = |rows: usize, x: usize, codes: usize, scales: usize| {
        let (mut codes, mut scales) = (vec![7u8; codes], vec![7f32; scales]);
        let called = silu_mul_fp8_group128(rows, &vec![0; x], &mut codes, &mut scales);
        let untouched = codes.iter().all(|&c| c == 7) && scales.iter().all(|&s| s == 7.0);
        (called, untouched)
    };
    assert_eq!(call(1, 2 * lanes - 1, lanes, 12), (Err("x"), true));
    assert_eq!(call(1, 2 * lanes, lanes + 1, 12), (Err("out0"), true));
    assert_eq!(call(1, 2 * lanes, lanes, 0), (Err("out1"), true));
    assert_eq!(call(0, 0, 0, 1), (Err("out1"), true));
    // The product of 2⁵⁶ and the lanes wraps to zero.
    assert_eq!(call(1 << 56, 0, 0, 0), (Err("x"), true));
    assert_eq!(call(usize::MAX, 0, 0, 0), (Err("rows"), true));
}
