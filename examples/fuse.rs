//! Builds a graph, fuses it into one kernel, and compares that with the unfused ops.
//!
//! `cargo run --example fuse`. The graph is the end of a transformer layer: the residual, an RMS norm, and FP8 codes with
//! a scale per token.

use std::process::ExitCode;

use fusewright::check::{compare, reference};
use fusewright::explain::explain;
use fusewright::graph::ops::{Composite, QuantizeDynamic, RmsNorm, RmsRounding};
use fusewright::graph::{Builder, Graph, TensorType, TypeError};
use fusewright::inputs::{Sizes, Values, symbols, tensors};
use fusewright::{DType, Error, HostTensor, Options, Target, compile};

/// Lanes of a token.
const HIDDEN: i64 = 4096;
/// Tokens of the calls below. The kernel takes any number of them.
const TOKENS: [i64; 3] = [1, 7, 64];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// FP8 codes of the RMS norm of `x + residual`, a scale per token, and the sum.
fn layer_end() -> Result<Graph, TypeError> {
    let b = Builder::new("layer_end");
    let rows = TensorType::new(DType::BF16, [b.symbol("tokens", 0, None), HIDDEN.into()]);
    let (x, residual) = (b.input("x", rows.clone()), b.input("residual", rows));
    let weight = b.input("weight", TensorType::new(DType::BF16, [HIDDEN.into()]));
    let sum = b.add(x, residual)?;
    let norm = RmsNorm::new(f64::from(1e-6f32), RmsRounding::Once);
    let normal = b.composite(Composite::new(norm), &[sum, weight])?[0];
    for result in b.composite(Composite::new(QuantizeDynamic::default()), &[normal])? {
        b.output(result);
    }
    b.output(sum);
    Ok(b.finish())
}

fn run() -> Result<(), Error> {
    let graph = layer_end().map_err(|e| Error::Input(e.to_string()))?;
    println!("{graph}");

    let fused = compile(&graph, &Target::Cpu, &Options::default())?;
    let unfused = compile(&graph, &Target::Cpu, &Options { fuse: false, ..Options::default() })?;
    for region in explain(&fused.fused)?.regions {
        println!("one kernel, {}: {}", region.name, region.ops.join(" "));
    }
    let (few, many) = (fused.program.counts().kernels, unfused.program.counts().kernels);
    println!("launches of a call: {few} fused, {many} unfused");

    for tokens in TOKENS {
        let sizes = Sizes { rows: Some(tokens), ..Sizes::default() };
        let made = tensors(&graph, &symbols(&graph, &sizes, tokens)?, 1, Values::Ordinary)?;
        let inputs: Vec<HostTensor> = made.iter().map(HostTensor::of).collect::<Result<_, _>>()?;
        let given: Vec<&HostTensor> = inputs.iter().collect();
        let results = fused.program.run(&given, 2)?;

        if results != unfused.program.run(&given, 1)? {
            return Err(Error::Internal(format!("{tokens} tokens: the unfused kernels give other bits")));
        }
        // The interpreter rounds every op of the graph by itself. A sum may be taken in another order; how far that may
        // move each result is computed, not picked.
        let expected = reference(&graph, &given)?.into_iter().enumerate().collect::<Vec<_>>();
        for check in compare(&graph, &inputs, &expected, &results)? {
            if !check.passed() {
                return Err(Error::Internal(format!("{tokens} tokens, {}: {:?}", check.name, check.first_wrong)));
            }
        }
        println!("tokens = {tokens}: the bits of the unfused kernels, within the bounds of the interpreter");
    }
    Ok(())
}
