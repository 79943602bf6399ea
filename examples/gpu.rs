//! Runs a kernel on an NVIDIA GPU, on memory and a stream of the caller's choice.
//!
//! `cargo run --release --features cuda --example gpu`. Inputs are uploaded once. Calls are enqueued on a stream and wait
//! for nothing; a CUDA graph replays them. The results are compared with the reference interpreter. Without a GPU, or in a
//! build without the feature `cuda`, the example says `skipped: gpu` and why.

use std::process::ExitCode;

use fusewright::check::{compare, reference};
use fusewright::graph::ops::{Composite, RmsNorm, RmsRounding};
use fusewright::graph::{Builder, Graph, TensorType, TypeError};
use fusewright::inputs::{Sizes, Values, symbols, tensors};
use fusewright::{DType, DeviceArgument, DeviceTensor, Error, HostTensor, Options, Target, compile};

/// Lanes of a token, tokens of a call, and replays of the captured call.
const HIDDEN: i64 = 4096;
const TOKENS: i64 = 512;
const REPLAYS: usize = 100;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Unavailable(reason)) => {
            println!("skipped: gpu ({reason})");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// The RMS norm of `x + residual`, and the sum.
fn add_rms_norm() -> Result<Graph, TypeError> {
    let b = Builder::new("add_rms_norm");
    let rows = TensorType::new(DType::BF16, [b.symbol("tokens", 0, None), HIDDEN.into()]);
    let (x, residual) = (b.input("x", rows.clone()), b.input("residual", rows));
    let weight = b.input("weight", TensorType::new(DType::BF16, [HIDDEN.into()]));
    let sum = b.add(x, residual)?;
    let norm = RmsNorm::new(f64::from(1e-6f32), RmsRounding::Once);
    b.output(b.composite(Composite::new(norm), &[sum, weight])?[0]);
    b.output(sum);
    Ok(b.finish())
}

fn run() -> Result<(), Error> {
    let graph = add_rms_norm().map_err(|e| Error::Input(e.to_string()))?;
    // Code for this architecture runs on every later one as well.
    let target: Target = "cuda:sm_80".parse().map_err(|e| Error::Input(format!("{e}")))?;
    let program = compile(&graph, &target, &Options::default())?.program;
    let on = program.on_gpu().ok_or_else(|| Error::Internal("the program is for no GPU".to_owned()))?;
    println!("{}: {} kernel", on.gpu().name(), program.counts().kernels);

    let sizes = Sizes { rows: Some(TOKENS), ..Sizes::default() };
    let made = tensors(&graph, &symbols(&graph, &sizes, TOKENS)?, 1, Values::Ordinary)?;
    let inputs: Vec<HostTensor> = made.iter().map(HostTensor::of).collect::<Result<_, _>>()?;

    let mut stream = on.gpu().stream()?;
    let mut uploaded = Vec::new();
    for HostTensor { dtype, shape, bytes } in &inputs {
        let buffer = on.gpu().buffer(bytes.len())?;
        buffer.upload(&stream, bytes)?;
        uploaded.push(DeviceTensor { dtype: *dtype, shape: shape.clone(), buffer });
    }
    let arguments: Vec<DeviceArgument<'_>> = uploaded.iter().map(DeviceArgument::Read).collect();
    let call = on.bind(&arguments, true)?;
    call.enqueue(&stream)?;

    let mut results = Vec::new();
    for output in call.outputs().iter().flatten() {
        let mut host = HostTensor::zeros(output.dtype, &output.shape);
        // This waits for the stream.
        output.buffer.download(&stream, 0, &mut host.bytes)?;
        results.push(host);
    }
    let expected = reference(&graph, &inputs.iter().collect::<Vec<_>>())?.into_iter().enumerate();
    for check in compare(&graph, &inputs, &expected.collect::<Vec<_>>(), &results)? {
        if !check.passed() {
            return Err(Error::Device(format!("{}: {:?}", check.name, check.first_wrong)));
        }
    }
    println!("{TOKENS} tokens: within the bounds of the interpreter");

    let mut failed = None;
    let captured = stream.capture(|stream| {
        failed = call.enqueue(stream).err();
        Ok(())
    })?;
    failed.map_or(Ok(()), Err)?;
    let (start, end) = (on.gpu().event()?, on.gpu().event()?);
    captured.launch(&stream)?;
    start.record(&stream)?;
    for _ in 0..REPLAYS {
        captured.launch(&stream)?;
    }
    end.record(&stream)?;
    println!("{:.1} µs a call, replayed {REPLAYS} times", start.us_until(&end)? / REPLAYS as f64);
    Ok(())
}
