//! The fused ops on a GPU against themselves on the CPU: what the order of a sum and the last place of `exp` may change.
#![cfg(feature = "cuda")]

use candle_core::{DType, Device, Result, Tensor};
use fusewright::HostTensor;
use fusewright::check::compare;
use fusewright::graph::operands::Random;
use fusewright::graph::{Builder, TypeError, Value};
use fusewright_example_candle::bodies::{self, SiluRounding};
use fusewright_example_candle::{AddRmsNorm, SiluMul, dtype};
use half::bf16;

const LANES: usize = 1024;

/// The first GPU, or none, which is said under the name of the test.
fn gpu(test: &str) -> Option<Device> {
    Device::new_cuda(0).inspect_err(|why| eprintln!("skipped: {test} ({why})")).ok()
}

fn random(seed: u64, shape: &[usize]) -> Result<Tensor> {
    let mut random = Random::new(seed, 0);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| 2.0 * random.unit() as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(DType::BF16)
}

fn host(tensor: &Tensor) -> Result<HostTensor> {
    let values = tensor.to_device(&Device::Cpu)?.flatten_all()?.to_vec1::<bf16>()?;
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Ok(HostTensor { dtype: dtype(DType::BF16)?, shape: tensor.dims().to_vec(), bytes })
}

/// Fails unless results of both lie where the graph's own arithmetic allows.
#[track_caller]
fn both_are_allowed(
    build: impl FnOnce(&Builder) -> std::result::Result<Vec<Value>, TypeError>,
    inputs: &[&Tensor],
    on_gpu: &[&Tensor],
    on_cpu: &[&Tensor],
) -> Result<()> {
    let b = Builder::new("candle");
    build(&b).expect("bf16 is a float").into_iter().for_each(|value| b.output(value));
    let all = |tensors: &[&Tensor]| tensors.iter().map(|tensor| host(tensor)).collect::<Result<Vec<_>>>();
    let expected: Vec<(usize, HostTensor)> = all(on_cpu)?.into_iter().enumerate().collect();
    for check in compare(&b.finish(), &all(inputs)?, &expected, &all(on_gpu)?).expect("they fit the graph") {
        assert!(check.passed(), "{check:?}");
    }
    Ok(())
}

#[test]
fn ops_give_on_a_gpu_what_they_give_on_the_cpu() -> Result<()> {
    let Some(gpu) = gpu("ops_give_on_a_gpu_what_they_give_on_the_cpu") else { return Ok(()) };
    let bf16 = dtype(DType::BF16)?;
    let norm = AddRmsNorm::new(LANES, DType::BF16, 1e-6)?;
    let silu_mul = SiluMul::new(LANES, DType::BF16, SiluRounding::EachOp)?;
    let weight = random(3, &[LANES])?;
    for rows in [1, 7, 300] {
        let (a, b) = (random(1, &[rows, LANES])?, random(2, &[rows, LANES])?);
        let [a_there, b_there, weight_there] = [&a, &b, &weight].map(|tensor| tensor.to_device(&gpu));
        let (a_there, b_there, weight_there) = (a_there?, b_there?, weight_there?);

        let (got, expected) = (norm.forward(&a_there, &b_there, &weight_there)?, norm.forward(&a, &b, &weight)?);
        let body = |b: &Builder| bodies::add_rms_norm(b, bf16, LANES as i64, 1e-6);
        both_are_allowed(body, &[&a, &b, &weight], &[&got.0, &got.1], &[&expected.0, &expected.1])?;

        let (got, expected) = (silu_mul.forward(&a_there, &b_there)?, silu_mul.forward(&a, &b)?);
        let body = |b: &Builder| bodies::silu_mul(b, bf16, LANES as i64, SiluRounding::EachOp);
        both_are_allowed(body, &[&a, &b], &[&got], &[&expected])?;
    }
    Ok(())
}
