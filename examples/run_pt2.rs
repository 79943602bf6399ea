//! Loads a model that PyTorch exported, says what was fused, and runs it.
//!
//! `cargo run --example run_pt2 -- MODEL.pt2 TENSORS.safetensors` takes a model of `torch.export.save` and its inputs `in0`,
//! `in1` and so on. Results `out0` and so on that the file holds as well are compared. Without arguments the example takes
//! a Qwen3 layer from `fixtures/`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fusewright::check::{cases, compare};
use fusewright::explain::explain;
use fusewright::graph::tensor::Tensor;
use fusewright::{Error, HostTensor, Options, Target, compile, model, read_safetensors};

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let result = match &arguments[..] {
        [] => {
            run(&fixtures.join("qwen3_tiny_layer_bf16.train.pt2"), &fixtures.join("qwen3_tiny_layer_bf16.safetensors"))
        }
        [model, tensors] => run(model, tensors),
        _ => Err(Error::Call("run_pt2 takes a model and a file of tensors, or nothing".to_owned())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(model: &Path, tensors: &Path) -> Result<(), Error> {
    let graph = model::open(model)?;
    let compiled = compile(&graph, &Target::Cpu, &Options::default())?;

    println!("{} nodes were read; what was fused:", graph.nodes().len());
    let regions = explain(&compiled.fused)?.regions;
    for region in regions.iter().filter(|region| region.ops.len() > 1) {
        let Some((fused, unfused)) = region.bytes_fused.zip(region.bytes_unfused) else { continue };
        println!(
            "  {}: {} ops, {:.1} × less memory moved",
            region.name,
            region.ops.len(),
            unfused as f64 / fused as f64
        );
    }
    let counts = compiled.program.counts();
    println!(
        "one call: {} kernels, {} matrix products, {} attention",
        counts.kernels, counts.matmuls, counts.attentions
    );

    // A file of tensors may hold several cases, of other numbers of rows: the kernels take them all.
    for case in cases(&graph, &read_safetensors(tensors)?)? {
        let inputs: Vec<&HostTensor> = case.inputs.iter().collect();
        let results = compiled.program.run(&inputs, 1)?;
        for result in &results {
            println!("{}{:?} = {}", result.dtype, result.shape, first_values(result)?);
        }
        // Every element must lie where the roundings of the graph allow, whoever computed it.
        for check in compare(&graph, &case.inputs, &case.expected.unwrap_or_default(), &results)? {
            println!("  {}: {} of {} elements differ from PyTorch's", check.name, check.mismatched, check.elements);
            if !check.passed() {
                return Err(Error::Internal(format!("{}: {:?}", check.name, check.first_wrong)));
            }
        }
    }
    Ok(())
}

/// The first four elements of a tensor.
fn first_values(tensor: &HostTensor) -> Result<String, Error> {
    let tensor = Tensor::from_bytes(tensor.dtype, &tensor.shape, &tensor.bytes)?;
    let values: Vec<String> = match (tensor.floats(), tensor.ints()) {
        (Some(floats), _) => floats.iter().take(4).map(f64::to_string).collect(),
        (None, ints) => ints.unwrap_or_default().iter().take(4).map(i64::to_string).collect(),
    };
    Ok(format!("[{}, …]", values.join(", ")))
}
