//! `compile`: kernels and a manifest in a folder.

use fusewright::{Target, aot};

use super::{Exit, OK};
use crate::args::{Common, CompileArgs};
use crate::output::{idle, line, progress, stages, table, warning};

pub fn main(args: &CompileArgs, common: &Common) -> Exit {
    let graph = common.open(&args.model)?;
    let targets: Vec<String> = args.target.iter().map(Target::to_string).collect();
    progress(common.verbose, &format!("compiling {} for {}", args.model.display(), targets.join(", ")));
    let options = common.options()?;
    idle(common.verbose, &options.pipeline.idle(&graph));
    let bundle = aot::write_bundle(&graph, &args.target, &args.out, &options)?;
    stages(common.verbose, &bundle.passes, &bundle.compilations);
    bundle.warnings.iter().for_each(|said| warning(said));
    let rows: Vec<Vec<String>> = bundle
        .entries
        .iter()
        .map(|e| vec![e.pattern.clone(), e.file.clone(), e.artifact.payload.bytes.len().to_string()])
        .collect();
    table(&["region", "file", "bytes"], &rows, &[2]);
    for header in &bundle.headers {
        line(format!("header: {}", header.file));
    }
    for file in bundle.project.iter().filter(|f| f.file.ends_with("README.md")) {
        line(format!("to build and launch them, read {}", args.out.join(&file.file).display()));
    }
    for replaced in &bundle.vendor {
        line(format!(
            "replaced by an op of the vendor: {} for {}: {}",
            replaced.pattern, replaced.target, replaced.call
        ));
    }
    for refusal in &bundle.refused {
        line(format!("no kernel: {} for {}: {}", refusal.pattern, refusal.target, refusal.reason));
    }
    line(format!("manifest: {}", args.out.join("manifest.json").display()));
    Ok(OK)
}
