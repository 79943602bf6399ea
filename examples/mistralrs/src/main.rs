//! Half a decoder layer of mistral.rs with fused kernels between its products: the residual, the norm, the gated MLP.
//!
//! The projections are layers of mistral.rs (`QuantMethod`), as its models have them, with plain weights and with weights
//! that it quantises to 8 bits. Between them stand the ops of `examples/candle`, in place of an addition, of candle's
//! `rms_norm`, which is what the `RmsNorm` of mistral.rs calls, and of mistral.rs's `fused_glu`. Both ways give the same
//! bits in dtypes of 16 bits; f32 shows the order of a sum and the last place of `exp`. The weights are small and random.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use candle_core::{DType, Device, Error, Result, Tensor};
use candle_nn::ops::rms_norm;
use fusewright::graph::operands::Random;
use mistralrs_quant::{
    GluActivationType, IsqType, QuantMethod, QuantizeOntoGuard, ShardedSafeTensors, ShardedVarBuilder, fused_glu,
    linear_no_bias,
};

// The source of the ops for candle, compiled for the candle of mistral.rs.
#[path = "../../candle/src/lib.rs"]
#[allow(dead_code)]
mod fused;

use fused::bodies::SiluRounding;
use fused::{AddRmsNorm, SiluMul};

/// Lanes of the residual stream and of the gated activation.
const HIDDEN: usize = 256;
const GATED: usize = 704;
const EPS: f32 = 1e-6;
/// Tokens of the calls.
const TOKENS: [usize; 3] = [1, 3, 33];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The ops between the projections.
enum Between {
    /// Those of mistral.rs.
    Own,
    /// Fused kernels.
    Fused { add_rms_norm: AddRmsNorm, silu_mul: SiluMul },
}

/// The half of a decoder layer behind attention.
struct Layer {
    norm: Tensor,
    gate: Arc<dyn QuantMethod>,
    up: Arc<dyn QuantMethod>,
    down: Arc<dyn QuantMethod>,
}

impl Layer {
    /// From weights by the names that checkpoints have, quantised if `quantised` says to what.
    fn new(weights: &ShardedVarBuilder, quantised: Option<IsqType>) -> Result<Layer> {
        let layer = |name: &str, from: usize, to: usize| -> Result<Arc<dyn QuantMethod>> {
            let layer = linear_no_bias(from, to, &None, weights.pp(name))?;
            let Some(dtype) = quantised else { return Ok(layer) };
            layer.apply_isq(Some(dtype), Device::Cpu, &AtomicUsize::new(0), None, QuantizeOntoGuard::new())
        };
        Ok(Layer {
            norm: weights.get(HIDDEN, "norm.weight")?,
            gate: layer("gate_proj", HIDDEN, GATED)?,
            up: layer("up_proj", HIDDEN, GATED)?,
            down: layer("down_proj", GATED, HIDDEN)?,
        })
    }

    /// From the result of attention and the residual to the next residual.
    fn forward(&self, attention: &Tensor, residual: &Tensor, between: &Between) -> Result<Tensor> {
        let (norm, sum) = match between {
            Between::Own => {
                let sum = (attention + residual)?;
                (rms_norm(&sum, &self.norm, EPS)?, sum)
            }
            Between::Fused { add_rms_norm, .. } => add_rms_norm.forward(attention, residual, &self.norm)?,
        };
        let (gate, up) = (self.gate.forward_autocast(&norm)?, self.up.forward_autocast(&norm)?);
        let gated = match between {
            Between::Own => fused_glu(&gate, &up, GluActivationType::Silu)?,
            Between::Fused { silu_mul, .. } => silu_mul.forward(&gate, &up)?,
        };
        self.down.forward_autocast(&gated)? + sum
    }
}

fn random(name: &str, shape: &[usize], dtype: DType, largest: f64) -> Result<Tensor> {
    let mut random = Random::named(1, 0, name);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| (largest * random.unit()) as f32).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)
}

/// The weights of the layer, as a file of a model would hold them.
fn weights(dtype: DType) -> Result<ShardedVarBuilder> {
    let shapes = [("gate_proj", [GATED, HIDDEN]), ("up_proj", [GATED, HIDDEN]), ("down_proj", [HIDDEN, GATED])];
    let mut tensors = HashMap::from([("norm.weight".to_owned(), random("norm", &[HIDDEN], dtype, 1.0)?)]);
    for (name, shape) in shapes {
        tensors.insert(format!("{name}.weight"), random(name, &shape, dtype, 0.25)?);
    }
    Ok(ShardedSafeTensors::wrap(Box::new(tensors), dtype, Device::Cpu))
}

fn run() -> Result<()> {
    for (dtype, quantised) in
        [(DType::F16, None), (DType::F16, Some(IsqType::Q8_0)), (DType::BF16, Some(IsqType::Q8_0))]
    {
        let layer = Layer::new(&weights(dtype)?, quantised)?;
        let kernels = Between::Fused {
            add_rms_norm: AddRmsNorm::new(HIDDEN, dtype, EPS)?,
            silu_mul: SiluMul::new(GATED, dtype, SiluRounding::Once)?,
        };
        for tokens in TOKENS {
            let (attention, residual) = (
                random("attention", &[1, tokens, HIDDEN], dtype, 2.0)?,
                random("residual", &[1, tokens, HIDDEN], dtype, 2.0)?,
            );
            let ours = layer.forward(&attention, &residual, &kernels)?;
            let theirs = layer.forward(&attention, &residual, &Between::Own)?;
            let (ours, theirs) = (bits(&ours)?, bits(&theirs)?);
            let differing = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).count();
            if differing > 0 || ours.len() != theirs.len() || ours.iter().all(|&bits| bits == 0) {
                let message = format!("{tokens} tokens of {dtype:?}: {differing} of {} elements differ", ours.len());
                return Err(Error::Msg(message));
            }
        }
        let weights = quantised.map_or_else(|| format!("{dtype:?}"), |isq| format!("{isq:?}"));
        println!("{dtype:?} activations, {weights} weights, layers {}: the bits of mistral.rs", layer.gate.name());
    }
    Ok(())
}

/// The elements of a tensor of floats as f32, which holds them all, by their bits.
fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    Ok(values.into_iter().map(f32::to_bits).collect())
}
