//! What `fusewright opt` does: one stage of the pipeline at a time, text in and text out.

use fusewright_abi::Target;
use fusewright_codegen::kernel::expand::expand;
use fusewright_codegen::kernel::{Kernel, parse_kernels, verify as verify_kernel};
use fusewright_fusion::pass::{Cx, Diagnostic, Verdict, bisect as bisect_passes};
use fusewright_fusion::passes::PIPELINE;
use fusewright_graph::text::parse_graphs;
use fusewright_graph::{Graph, verify as graph_verify};

mod run;

pub use run::{Compared, Evaluated, diff, diff_graph, only_graph, run};

use crate::compile::regions_for;
use crate::compiler::{Compiler, column};
use crate::{CompileError, Error, Options, fuse_graph};

enum Items {
    Graphs(Vec<Graph>),
    Kernels(Vec<Kernel>),
}

/// Parses a file of graphs or of kernels and verifies them.
fn items(text: &str) -> Result<Items, Error> {
    let first = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with(';') && !l.starts_with("test "));
    if first.is_some_and(|l| l.starts_with("kernel")) {
        let kernels = parse_kernels(text).map_err(|e| Error::Input(e.to_string()))?;
        for kernel in &kernels {
            verify_kernel(kernel).map_err(|e| Error::Input(e.to_string()))?;
        }
        return Ok(Items::Kernels(kernels));
    }
    let graphs: Vec<Graph> =
        parse_graphs(text).map_err(|e| Error::Input(e.to_string()))?.into_iter().map(|g| g.graph).collect();
    for graph in &graphs {
        graph_verify::verify(graph).map_err(|e| Error::of_diagnostics(&e))?;
    }
    if graphs.is_empty() {
        return Err(Error::Input("the text holds no graph and no kernel".to_owned()));
    }
    Ok(Items::Graphs(graphs))
}

fn graphs(text: &str, verb: &str) -> Result<Vec<Graph>, Error> {
    match items(text)? {
        Items::Graphs(graphs) => Ok(graphs),
        Items::Kernels(_) => Err(Error::Input(format!("`{verb}` takes graphs, the file holds kernels"))),
    }
}

/// Verifies and prints what the text holds.
///
/// # Errors
/// Text that does not parse or verify.
pub fn verify(text: &str) -> Result<String, Error> {
    Ok(match items(text)? {
        Items::Graphs(graphs) => join(graphs.iter().map(ToString::to_string)),
        Items::Kernels(kernels) => join(kernels.iter().map(ToString::to_string)),
    })
}

/// Runs one pass and prints the graphs.
///
/// # Errors
/// Text that does not parse, an unknown pass.
pub fn pass(text: &str, name: &str, options: &Options) -> Result<String, Error> {
    let known = || PIPELINE.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
    let pass = PIPELINE.iter().find(|p| p.name == name);
    let pass = pass.ok_or_else(|| Error::Input(format!("no pass `{name}`; there are {}", known())))?;
    let run = |graph: &Graph| -> Result<String, Diagnostic> {
        let patterns = options.pipeline.patterns().clone();
        let mut cx = Cx { relaxed: options.relaxed, patterns, ..Cx::default() };
        Ok((pass.run)(graph, &mut cx)?.0.to_string())
    };
    let printed = graphs(text, "pass")?.iter().map(run).collect::<Result<Vec<_>, _>>();
    Ok(join(printed.map_err(|e| Error::Internal(e.to_string()))?))
}

/// Finds, for every graph, the first pass and the change of it after which `holds` says no of the graph; prints
/// the graph before and after that change, and says whether `holds` said yes of every graph to the end.
///
/// # Errors
/// Text that does not parse, and what `holds` fails with.
pub fn bisect(
    text: &str,
    options: &Options,
    holds: &mut dyn FnMut(&Graph) -> Result<bool, Error>,
) -> Result<(String, bool), Error> {
    let (mut out, mut held) = (Vec::new(), true);
    for graph in graphs(text, "bisect")? {
        let verdict = bisect_passes(&graph, &options.pipeline, options.relaxed, holds)?;
        held &= matches!(verdict, Verdict::Holds);
        out.push(match verdict {
            Verdict::Holds => format!("; graph `{}`: the test passes after every pass", graph.name()),
            Verdict::Never => format!("; graph `{}`: the test fails before the first pass", graph.name()),
            Verdict::Broken(found) => format!(
                "; graph `{}`: the test fails after change {} of {} of pass `{}`, number {} of the pipeline\n\
                 ; before\n{}\n; after\n{}",
                graph.name(),
                found.change,
                found.changes,
                found.pass,
                found.stage + 1,
                found.before,
                found.after
            ),
        });
    }
    Ok((join(out), held))
}

/// Prints the bodies of the fused regions after all passes.
///
/// # Errors
/// Text that does not parse.
pub fn regions(text: &str, options: &Options) -> Result<String, Error> {
    let mut out = Vec::new();
    for graph in graphs(text, "regions")? {
        let fused = fuse_graph(&graph, options)?;
        for (i, region) in fused.partition.regions.iter().enumerate() {
            out.push(format!("; region {i} {}\n{}", region.name, region.body));
        }
        for unfused in &fused.partition.unfused {
            let node = fused.graph.node(unfused.node);
            out.push(format!("; unfused {} [{}]: {}\n", node.op.name(), fused.graph.origin(node), unfused.refusal));
        }
    }
    Ok(join(out))
}

/// The kernels of the text: its own, or those of its graphs' regions, expanded for a target.
fn expanded_kernels(text: &str, target: &Target, options: &Options) -> Result<Vec<(Option<Kernel>, Kernel)>, Error> {
    match items(text)? {
        Items::Kernels(kernels) => {
            let expanded =
                |k: Kernel| expand(&k, column(target)).map(|e| (None, e)).map_err(|e| Error::Input(e.to_string()));
            kernels.into_iter().map(expanded).collect()
        }
        Items::Graphs(graphs) => {
            let compiler = Compiler::new(target)?;
            let mut kernels = Vec::new();
            for graph in graphs {
                let fused = fuse_graph(&graph, options)?;
                for region in &regions_for(&fused, options, target).0.regions {
                    let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
                    let (lowered, expanded) = compiler.kernel(&region.name, &body).map_err(CompileError::into_error)?;
                    kernels.push((Some(lowered), expanded));
                }
            }
            Ok(kernels)
        }
    }
}

/// Prints the Kernel IR of every region: as lowered, then expanded for the target.
///
/// # Errors
/// Text that does not parse, regions without a row program.
pub fn lower(text: &str, target: &Target, options: &Options) -> Result<String, Error> {
    let mut out = Vec::new();
    for (lowered, expanded) in expanded_kernels(text, target, options)? {
        out.extend(lowered.map(|k| format!("; as lowered\n{k}")));
        out.push(format!("; expanded for {target}\n{expanded}"));
    }
    Ok(join(out))
}

/// Prints every readable stage of every kernel for the target.
///
/// # Errors
/// Text that does not parse, kernels that the backend refuses.
pub fn emit(text: &str, target: &Target, options: &Options) -> Result<String, Error> {
    options.schedules.fits(std::slice::from_ref(target))?;
    let compiler = Compiler::new(target)?.with_schedules(&options.schedules)?;
    let mut out: Vec<String> =
        compiler.warning().map(|warning| format!("; warning: {warning}\n")).into_iter().collect();
    for (_, kernel) in expanded_kernels(text, target, options)? {
        let stages = compiler.toolchain().stages(&kernel, target).map_err(|e| CompileError::from(e).into_error())?;
        for stage in stages {
            match std::str::from_utf8(&stage.bytes) {
                Ok(text) => out.push(format!("; {}.{}\n{text}", kernel.name, stage.extension)),
                Err(_) => out.push(format!("; {}.{}: {} bytes\n", kernel.name, stage.extension, stage.bytes.len())),
            }
        }
    }
    Ok(join(out))
}

fn join(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().map(|p| p.trim_end().to_owned() + "\n").collect::<Vec<_>>().join("\n")
}
