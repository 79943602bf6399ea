//! `test lower`: lowers the graph to one kernel, whose text is the output.
//!
//! For every `; run:` line (see `test interp`) the Kernel IR interpreter runs the kernel; its results, which follow,
//! must be those of the graph interpreter, to the bit.

use fusewright::graph::interp;
use fusewright::graph::text::value_names;
use fusewright::graph::{Graph, Tensor};
use fusewright_abi::Target;
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::kernel::interp::{Buffer, run as run_kernel};
use fusewright_codegen::lower::lower;
use fusewright_codegen::schedule::Schedule;

use super::interp::{operands, show};
use super::print::parse;
use super::{Case, Command, LineError, Outcome};

pub const COMMAND: Command = Command { name: "lower", has_output: true, run };

fn run(case: &Case, _: &[String]) -> Outcome {
    let graph = parse(case)?.graph;
    let failed = |message: String| vec![LineError::new(1, message)];
    let body = graph.expanded().map_err(|e| failed(e.to_string()))?;
    let kernel = lower(graph.name(), &body, &Schedule::of(&Target::Cpu)).map_err(|e| failed(e.to_string()))?;
    let mut text = kernel.to_string();
    for (line, given) in &case.runs {
        let results = evaluate(&graph, &kernel, given).map_err(|e| vec![LineError::new(*line, e)])?;
        text += &format!("{given}\n");
        let names = value_names(&graph);
        for (output, result) in graph.outputs().iter().zip(&results) {
            text += &format!("  {} = {}\n", names[output.value.0 as usize], show(result));
        }
    }
    Ok(text)
}

fn evaluate(graph: &Graph, kernel: &Kernel, given: &str) -> Result<Vec<Tensor>, String> {
    let (inputs, symbols) = operands(graph, given)?;
    let wanted = interp::run(graph, &inputs, &symbols).map_err(|e| e.to_string())?;
    let bytes = |tensor: &Tensor| Buffer::Bytes(tensor.to_bytes());
    let mut buffers: Vec<Buffer> = inputs.iter().chain(&wanted).map(bytes).collect();
    // What is not written shows.
    for buffer in &mut buffers[inputs.len()..] {
        if let Buffer::Bytes(bytes) = buffer {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    let rows = kernel.rows.eval(&|name| symbols.get(name).copied()).map_err(|e| e.to_string())?;
    run_kernel(kernel, &mut buffers, &symbols, 0..rows).map_err(|e| e.to_string())?;
    let mut results = Vec::new();
    for (i, (want, buffer)) in wanted.iter().zip(&buffers[inputs.len()..]).enumerate() {
        let got = Tensor::from_bytes(want.dtype(), want.shape(), buffer.bytes()).map_err(|e| e.to_string())?;
        let difference = got.compare(want).map_err(|e| e.to_string())?;
        if difference.first.is_some() {
            return Err(format!("out{i} is {}, should be {}", show(&got), show(want)));
        }
        results.push(got);
    }
    Ok(results)
}
