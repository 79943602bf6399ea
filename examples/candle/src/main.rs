//! The end of a gated MLP in candle, with and without fused kernels.

use std::process::ExitCode;

use candle_core::{DType, Device, Result, Tensor};
use fusewright::graph::operands::Random;
use fusewright_example_candle::bodies::SiluRounding;
use fusewright_example_candle::{AddRmsNorm, SiluMul};

/// Tokens, lanes of the residual stream, and lanes of the gated activation.
const TOKENS: usize = 16;
const HIDDEN: usize = 512;
const GATED: usize = 1408;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn random(name: &str, shape: &[usize], largest: f64) -> Result<Tensor> {
    let mut random = Random::named(1, 0, name);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| (largest * random.unit()) as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(DType::BF16)
}

fn run() -> Result<()> {
    let (x, residual) = (random("x", &[TOKENS, HIDDEN], 2.0)?, random("residual", &[TOKENS, HIDDEN], 2.0)?);
    let weight = random("weight", &[HIDDEN], 1.0)?;
    let (both, down) = (random("both", &[HIDDEN, 2 * GATED], 0.1)?, random("down", &[GATED, HIDDEN], 0.1)?);

    let add_rms_norm = AddRmsNorm::new(HIDDEN, DType::BF16, 1e-6)?;
    let silu_mul = SiluMul::new(GATED, DType::BF16, SiluRounding::EachOp)?;

    let (norm, sum) = add_rms_norm.forward(&x, &residual, &weight)?;
    println!("add_rms_norm: {:?} {:?}, one kernel for 2 ops of candle", norm.dtype(), norm.dims());
    // Gate and up are the halves of one product, so that neither is contiguous.
    let projected = norm.matmul(&both)?;
    let (gate, up) = (projected.narrow(1, 0, GATED)?, projected.narrow(1, GATED, GATED)?);
    let gated = silu_mul.forward(&gate, &up)?;
    println!("silu_mul: {:?} {:?}, one kernel for 2 ops of candle", gated.dtype(), gated.dims());
    let fused = (gated.matmul(&down)? + &sum)?;

    let unfused_sum = (&x + &residual)?;
    let projected = candle_nn::ops::rms_norm(&unfused_sum, &weight, 1e-6)?.matmul(&both)?;
    let (gate, up) = (projected.narrow(1, 0, GATED)?, projected.narrow(1, GATED, GATED)?);
    let unfused = ((gate.silu()? * up)?.matmul(&down)? + unfused_sum)?;

    let values = |tensor: &Tensor| tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
    let (fused, unfused) = (values(&fused)?, values(&unfused)?);
    let differing = fused.iter().zip(&unfused).filter(|(ours, theirs)| ours.to_bits() != theirs.to_bits()).count();
    println!("{differing} of {} results differ from candle's", fused.len());
    Ok(())
}
