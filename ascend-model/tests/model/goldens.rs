//! Generated kernels, as blessed, run on the model with right results: immediately, with everything delayed, with other
//! padding, and in other orders of reduction. SIMULATED.

use crate::support::{self, A2, A5, bf16s, f32_bytes, from_bf16, from_f32, round_bf16, values};
use fusewright_ascend_model::{Argument, Chip, Counters, Dma, Kernel, Options, Poison, Source};

fn golden(file: &str, name: &str, chip: Chip) -> Option<Kernel> {
    let model = support::model()?;
    let text = support::read(&format!("codegen/tests/goldens/ascend/{file}"));
    let kernels = support::load(model, &[Source { name: file, text: &text }], chip);
    Some(kernels.kernel(name).unwrap_or_else(|e| panic!("{e}")))
}

fn variations() -> [Options; 4] {
    let plain = Options::default();
    [
        plain,
        Options { dma: Dma::Delayed, ..plain },
        Options { poison: Poison::Nan, ..plain },
        Options { seed: 7, order: true, ulps: 1, ..plain },
    ]
}

fn run(kernel: &Kernel, cores: u32, arguments: &mut [Argument<'_>], scalars: &[i64], options: &Options) -> Counters {
    kernel.launch(cores, arguments, scalars, options).unwrap_or_else(|e| panic!("{e}"))
}

/// Within one place of bf16.
fn close(name: &str, got: &[f32], wanted: &[f64]) {
    assert_eq!(got.len(), wanted.len());
    for (i, (g, w)) in got.iter().zip(wanted).enumerate() {
        let distance = (f64::from(*g) - w).abs();
        assert!(distance <= w.abs() / 128.0 + 1e-6, "{name}[{i}]: {g}, wanted {w}");
    }
}

fn add_rms_norm(file: &str, width: usize) {
    let Some(kernel) = golden(file, "add_rms_norm", A2) else { return };
    let rows = 5;
    let (x, x_bytes) = bf16s(1, rows * width);
    let (residual, residual_bytes) = bf16s(2, rows * width);
    let (weight, weight_bytes) = bf16s(3, width);
    let mut sum = Vec::new();
    let mut norm = Vec::new();
    for row in 0..rows {
        let at = row * width..(row + 1) * width;
        let added: Vec<f64> =
            x[at.clone()].iter().zip(&residual[at]).map(|(a, b)| f64::from(round_bf16(a + b))).collect();
        let mean = added.iter().map(|v| v * v).sum::<f64>() / width as f64;
        norm.extend(added.iter().zip(&weight).map(|(v, w)| v / (mean + 1e-6).sqrt() * f64::from(*w)));
        sum.extend(added);
    }
    for options in variations() {
        let mut residual = residual_bytes.clone();
        let mut y = vec![0; rows * width * 2];
        let counters = run(
            &kernel,
            3,
            &mut [
                Argument::In(&x_bytes),
                Argument::InOut(&mut residual),
                Argument::In(&weight_bytes),
                Argument::Out(&mut y),
            ],
            &[rows as i64, 0, rows as i64],
            &options,
        );
        close("residual", &from_bf16(&residual), &sum);
        close("y", &from_bf16(&y), &norm);
        assert_eq!(counters.bytes_in, (2 * rows * width + 3 * width) as u64 * 2, "the weight once per core");
        assert_eq!(counters.bytes_out, (2 * rows * width) as u64 * 2);
    }
}

#[test]
fn rows_that_are_normalised() {
    add_rms_norm("add_rms_norm.cpp", 4096);
}

#[test]
fn rows_whose_sums_are_the_vendors() {
    add_rms_norm("add_rms_norm_relaxed.cpp", 1000);
}

fn quantised(file: &str, name: &str, chip: Chip, most: f64, decode: fn(u8) -> f64, step: fn(f64) -> f64) {
    let Some(kernel) = golden(file, name, chip) else { return };
    let (rows, width) = (4, 5120);
    let (x, x_bytes) = bf16s(4, rows * width);
    let (residual, residual_bytes) = bf16s(5, rows * width);
    let (weight, weight_bytes) = bf16s(6, width);
    for options in variations() {
        let mut sum = residual_bytes.clone();
        let mut y = vec![0; rows * width];
        let mut scale = vec![0; rows * 4];
        let arguments = &mut [
            Argument::In(&x_bytes),
            Argument::InOut(&mut sum),
            Argument::In(&weight_bytes),
            Argument::Out(&mut y),
            Argument::Out(&mut scale),
        ];
        run(&kernel, 2, arguments, &[rows as i64, 0, rows as i64], &options);
        for (row, scale) in from_f32(&scale).into_iter().enumerate() {
            let at = row * width..(row + 1) * width;
            let added: Vec<f64> =
                x[at.clone()].iter().zip(&residual[at.clone()]).map(|(a, b)| f64::from(round_bf16(a + b))).collect();
            let mean = added.iter().map(|v| v * v).sum::<f64>() / width as f64;
            let norm: Vec<f64> =
                added.iter().zip(&weight).map(|(v, w)| v / (mean + 1e-6).sqrt() * f64::from(*w)).collect();
            let wanted = norm.iter().fold(0.0f64, |a, v| a.max(v.abs())) / most;
            let got = f64::from(scale);
            assert!((got - wanted).abs() <= wanted * 1e-5, "scale {row}: {got}, wanted {wanted}");
            for (i, (code, value)) in y[at].iter().zip(&norm).enumerate() {
                let wanted = value / got;
                let distance = (decode(*code) - wanted).abs();
                assert!(distance <= step(wanted) * 0.51, "y[{row}, {i}]: {}, wanted {wanted}", decode(*code));
            }
        }
    }
}

#[test]
fn rows_that_are_quantised_to_int8() {
    let decode = |code: u8| f64::from(code as i8);
    quantised("add_rms_norm_int8.cpp", "add_rms_norm_quant_i8", A2, 127.0, decode, |_| 1.0);
}

#[test]
fn rows_that_are_quantised_to_fp8() {
    let decode = |code: u8| {
        let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
        let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
        assert!(code & 0x7f != 0x7f, "a NaN");
        sign * if exponent == 0 { mantissa / 512.0 } else { (8.0 + mantissa) * 2f64.powi(exponent - 10) }
    };
    let step = |value: f64| 2f64.powi((value.abs().max(2f64.powi(-6)).log2().floor() as i32) - 3);
    quantised("add_rms_norm_fp8.cpp", "add_rms_norm_quant_f8e4m3", A5, 448.0, decode, step);
}

#[test]
fn rows_that_are_gated() {
    let Some(kernel) = golden("silu_mul.cpp", "silu_mul", A2) else { return };
    let (rows, width) = (3, 12288);
    let (x, x_bytes) = bf16s(8, rows * 2 * width);
    let mut wanted = Vec::new();
    for row in x.chunks_exact(2 * width) {
        wanted.extend(row[..width].iter().zip(&row[width..]).map(|(a, b)| {
            let a = f64::from(*a);
            f64::from(round_bf16((a / (1.0 + (-a).exp())) as f32)) * f64::from(*b)
        }));
    }
    for options in variations() {
        let mut y = vec![0; rows * width * 2];
        let arguments = &mut [Argument::In(&x_bytes), Argument::Out(&mut y)];
        run(&kernel, 2, arguments, &[rows as i64, 0, rows as i64], &options);
        close("y", &from_bf16(&y), &wanted);
    }
}

#[test]
fn rows_that_are_rotated_in_place() {
    let Some(kernel) = golden("rope.cpp", "rope", A2) else { return };
    let (rows, heads, width) = (5, 8, 128);
    let (q, q_bytes) = bf16s(9, rows * heads * width);
    let table = values(10, rows * width);
    let positions = [3i64, 0, 4, 4, 1];
    let position_bytes: Vec<u8> = positions.iter().flat_map(|p| p.to_le_bytes()).collect();
    let mut wanted = Vec::new();
    for (row, position) in q.chunks_exact(heads * width).zip(positions) {
        let table = &table[position as usize * width..][..width];
        for head in row.chunks_exact(width) {
            let turned = |i: usize, sign: f64| {
                let (a, b) = (f64::from(head[i % 64]), f64::from(head[i % 64 + 64]));
                let (cos, sin) = (f64::from(table[i % 64]), f64::from(table[i % 64 + 64]));
                if sign < 0.0 { a * cos - b * sin } else { b * cos + a * sin }
            };
            wanted.extend((0..64).map(|i| turned(i, -1.0)));
            wanted.extend((0..64).map(|i| turned(i, 1.0)));
        }
    }
    for options in variations() {
        let mut q = q_bytes.clone();
        let arguments = &mut [Argument::InOut(&mut q), Argument::In(&position_bytes), Argument::In(&f32_bytes(&table))];
        run(&kernel, 4, arguments, &[rows as i64, 0, rows as i64], &options);
        let got = from_bf16(&q);
        for (i, (g, w)) in got.iter().zip(&wanted).enumerate() {
            assert!((f64::from(*g) - w).abs() <= w.abs() / 128.0 + 1e-5, "q[{i}]: {g}, wanted {w}");
        }
    }
}
