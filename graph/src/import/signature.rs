//! Whether the signature of a file is that of its graph.

use super::convert::value_error;
use super::schema::{Argument, GraphModule, Spec, SpecArg};
use crate::diag::Diagnostic;

/// Checks that the specifications are of the graph's inputs and outputs, in their order. A graph without a list of
/// either has those of its signature.
///
/// # Errors
/// The first input or output that differs.
pub(super) fn check(module: &GraphModule) -> Result<(), Diagnostic> {
    let (graph, signature) = (&module.graph, &module.signature);
    same("input", graph.inputs.as_deref(), &signature.input_specs)?;
    same("output", graph.outputs.as_deref(), &signature.output_specs)
}

fn same(what: &str, listed: Option<&[Argument]>, specified: &[Spec]) -> Result<(), Diagnostic> {
    let Some(listed) = listed else { return Ok(()) };
    if listed.len() != specified.len() {
        let (graph, signature) = (listed.len(), specified.len());
        let message = format!("the graph has {graph} {what}s, its signature {signature}");
        return Err(Diagnostic::new("import.signature", message));
    }
    for (at, (argument, spec)) in listed.iter().zip(specified).enumerate() {
        let Argument::Tensor(name) = argument else { continue };
        let stated = match &spec.body.arg {
            Some(SpecArg::Name(name) | SpecArg::Argument(Argument::Tensor(name))) => name,
            _ => return Err(value_error(name, format_args!("is {what} {at} of the graph, but not of its signature"))),
        };
        if stated != name {
            let message = format_args!("is {what} {at} of the graph, but its signature says `{stated}`");
            return Err(value_error(name, message));
        }
    }
    Ok(())
}
