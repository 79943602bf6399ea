//! The fused ops against candle's own: the same bits, or what another order of a sum may change.

use candle_core::{DType, Device, IndexOp, Result, Tensor};
use candle_nn::ops::rms_norm;
use fusewright::check::compare;
use fusewright::diff::first_difference;
use fusewright::graph::{Builder, Graph, TypeError, Value};
use fusewright::{HostTensor, graph};
use fusewright_example_candle::bodies::{self, SiluRounding};
use fusewright_example_candle::{AddRmsNorm, SiluMul, dtype};
use half::{bf16, f16};

const EPS: f32 = 1e-6;
const DTYPES: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// Values between −2 and 2, the same for the same seed.
fn random(seed: u64, shape: &[usize], dtype: DType) -> Result<Tensor> {
    let mut random = graph::operands::Random::new(seed, 0);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| 2.0 * random.unit() as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)
}

/// The elements of a tensor as the project takes them.
fn host(tensor: &Tensor) -> Result<HostTensor> {
    let flat = tensor.flatten_all()?;
    let bytes = match tensor.dtype() {
        DType::BF16 => flat.to_vec1::<bf16>()?.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::F16 => flat.to_vec1::<f16>()?.iter().flat_map(|v| v.to_le_bytes()).collect(),
        _ => flat.to_vec1::<f32>()?.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    let shape = vec![tensor.elem_count() / tensor.dim(candle_core::D::Minus1)?, tensor.dim(candle_core::D::Minus1)?];
    let shape = if tensor.rank() == 1 { tensor.dims().to_vec() } else { shape };
    Ok(HostTensor { dtype: dtype(tensor.dtype())?, shape, bytes })
}

fn graph_of(build: impl FnOnce(&Builder) -> std::result::Result<Vec<Value>, TypeError>) -> Graph {
    let b = Builder::new("candle");
    build(&b).expect("the dtypes are floats").into_iter().for_each(|value| b.output(value));
    b.finish()
}

/// Fails unless results of both lie where the graph's own arithmetic allows.
#[track_caller]
fn both_are_allowed(graph: &Graph, inputs: &[&Tensor], ours: &[&Tensor], theirs: &[&Tensor]) -> Result<()> {
    let all = |tensors: &[&Tensor]| tensors.iter().map(|tensor| host(tensor)).collect::<Result<Vec<_>>>();
    let expected: Vec<(usize, HostTensor)> = all(theirs)?.into_iter().enumerate().collect();
    let checks = compare(graph, &all(inputs)?, &expected, &all(ours)?).expect("they fit the graph");
    assert_eq!(checks.len(), ours.len());
    for check in checks {
        assert!(check.passed() && check.expected_outside == 0, "{check:?}");
    }
    Ok(())
}

/// Fails unless the bits are the same; those of a NaN are each compiler's own.
#[track_caller]
fn same_bits(ours: &Tensor, theirs: &Tensor) -> Result<()> {
    assert_eq!((ours.dims(), ours.dtype()), (theirs.dims(), theirs.dtype()));
    let (ours, theirs) = (host(ours)?, host(theirs)?);
    let difference = first_difference(ours.dtype, &ours.bytes, &theirs.bytes);
    assert!(difference.is_none(), "{}", difference.map(|first| first.to_string()).unwrap_or_default());
    Ok(())
}

#[test]
fn the_norm_is_candles() -> Result<()> {
    for dtype in DTYPES {
        for (lanes, rows) in [(64, vec![1]), (4096, vec![3]), (100, vec![2, 7]), (1, vec![5]), (256, vec![0])] {
            let shape: Vec<usize> = rows.iter().copied().chain([lanes]).collect();
            let (x, residual) = (random(1, &shape, dtype)?, random(2, &shape, dtype)?);
            let weight = random(3, &[lanes], dtype)?;
            let (norm, sum) = AddRmsNorm::new(lanes, dtype, EPS)?.forward(&x, &residual, &weight)?;
            let expected_sum = (&x + &residual)?;
            same_bits(&sum, &expected_sum)?;
            if norm.elem_count() > 0 {
                let expected = rms_norm(&expected_sum, &weight, EPS)?;
                let body = graph_of(|b| {
                    bodies::add_rms_norm(
                        b,
                        fusewright_example_candle::dtype(dtype).expect("a float"),
                        lanes as i64,
                        EPS,
                    )
                });
                both_are_allowed(&body, &[&x, &residual, &weight], &[&norm, &sum], &[&expected, &expected_sum])?;
            }
            assert_eq!(norm.dims(), x.dims());
        }
    }
    Ok(())
}

#[test]
fn the_gate_is_candles_for_every_value_of_16_bits() -> Result<()> {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let as_bf16 = all.iter().map(|&bits| bf16::from_bits(bits)).collect::<Vec<_>>();
    let as_f16 = all.iter().map(|&bits| f16::from_bits(bits)).collect::<Vec<_>>();
    let shape = (256, 256);
    let gates = [Tensor::from_vec(as_bf16, shape, &Device::Cpu)?, Tensor::from_vec(as_f16, shape, &Device::Cpu)?];
    for gate in gates {
        let up = random(4, &[256, 256], gate.dtype())?;
        let ours = SiluMul::new(256, gate.dtype(), SiluRounding::EachOp)?.forward(&gate, &up)?;
        same_bits(&ours, &(gate.silu()? * up)?)?;
    }
    Ok(())
}

#[test]
fn the_gate_of_f32_is_candles() -> Result<()> {
    let (gate, up) = (random(5, &[9, 1000], DType::F32)?, random(6, &[9, 1000], DType::F32)?);
    let ours = SiluMul::new(1000, DType::F32, SiluRounding::EachOp)?.forward(&gate, &up)?;
    let body = graph_of(|b| bodies::silu_mul(b, fusewright::DType::F32, 1000, SiluRounding::EachOp));
    both_are_allowed(&body, &[&gate, &up], &[&ours], &[&(gate.silu()? * &up)?])
}

#[test]
fn tensors_of_any_layout_are_taken() -> Result<()> {
    let wide = random(7, &[2, 6, 128], DType::BF16)?;
    // Halves of rows, as a projection gives gate and up together; rows of another order; rows from an offset on.
    let halves = (wide.narrow(2, 0, 64)?, wide.narrow(2, 64, 64)?);
    let turned = (wide.transpose(0, 1)?, random(8, &[6, 2, 128], DType::BF16)?);
    let behind = (wide.i((1, 2.., ..))?, random(9, &[4, 128], DType::BF16)?);
    for (a, b) in [halves, turned, behind] {
        let lanes = a.dim(candle_core::D::Minus1)?;
        let silu_mul = SiluMul::new(lanes, DType::BF16, SiluRounding::EachOp)?;
        same_bits(&silu_mul.forward(&a, &b)?, &(a.silu()? * &b)?)?;
        let (norm, sum) = AddRmsNorm::new(lanes, DType::BF16, EPS)?.forward(
            &a,
            &b,
            &Tensor::ones(lanes, DType::BF16, &Device::Cpu)?,
        )?;
        same_bits(&sum, &(&a + &b)?)?;
        assert_eq!(norm.dims(), a.dims());
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<()> {
    let refused = |result: Result<Tensor>, words: &str| {
        let error = result.expect_err("it does not fit").to_string();
        assert!(error.contains(words), "{error}");
    };
    let op = SiluMul::new(64, DType::BF16, SiluRounding::Once)?;
    let wide = random(10, &[3, 128], DType::BF16)?;
    let (gate, up) = (wide.narrow(1, 0, 64)?, wide.narrow(1, 64, 64)?);
    // Straight to the op, without what makes operands contiguous.
    refused(gate.apply_op2_no_bwd(&up, &op), "fused silu_mul: `gate` is not contiguous, its strides are [128, 1]");
    refused(op.forward(&wide, &wide), "64");
    refused(op.forward(&gate, &wide), "fused silu_mul: `up` is [3, 128], and `gate` [3, 64]");
    refused(op.forward(&gate.to_dtype(DType::F32)?, &up.to_dtype(DType::F32)?), "f32");
    refused(op.forward(&gate.to_dtype(DType::U32)?, &up), "`gate` is neither f32 nor bf16 nor f16");
    let norm = AddRmsNorm::new(64, DType::BF16, EPS)?;
    let weight = Tensor::ones(32, DType::BF16, &Device::Cpu)?;
    refused(norm.forward(&gate, &up, &weight).map(|(norm, _)| norm), "weight");
    refused(norm.forward(&gate, &wide, &weight).map(|(norm, _)| norm), "fused add_rms_norm: `residual` is [3, 128]");
    let integers = AddRmsNorm::new(64, DType::U8, EPS).expect_err("it takes floats").to_string();
    assert!(integers.contains("not U8"), "{integers}");
    Ok(())
}
