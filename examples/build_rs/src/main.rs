//! Quantises two rows twice and prints their scales.

use fusewright_example_build_rs::{add_rms_norm_fp8_token, silu_mul_fp8_group128};
use half::bf16;

const ROWS: usize = 2;
const HIDDEN: usize = 4096;
const GATED: usize = 1536;
const GROUP: usize = 128;

/// A wave whose height grows from row to row.
fn wave(lanes: usize) -> Vec<u16> {
    let value = |i: usize| (i as f32 * 0.37).sin() * (1 + i / lanes) as f32;
    (0..ROWS * lanes).map(|i| bf16::from_f32(value(i)).to_bits()).collect()
}

fn main() -> Result<(), String> {
    let misfit = |name: &str| format!("`{name}` has the wrong length");
    let (x, residual, weight) = (wave(HIDDEN), wave(HIDDEN), vec![bf16::ONE.to_bits(); HIDDEN]);
    let (mut codes, mut scales, mut sum) = (vec![0; ROWS * HIDDEN], vec![0.0; ROWS], vec![0; ROWS * HIDDEN]);
    add_rms_norm_fp8_token(ROWS, &x, &residual, &weight, &mut codes, &mut scales, &mut sum).map_err(misfit)?;
    println!("scales of the norm: {scales:?}");

    let (mut codes, mut scales) = (vec![0; ROWS * GATED], vec![0.0; ROWS * GATED / GROUP]);
    silu_mul_fp8_group128(ROWS, &wave(2 * GATED), &mut codes, &mut scales).map_err(misfit)?;
    println!("scales of the activation: {scales:?}");
    Ok(())
}
