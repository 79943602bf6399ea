//! `bench --suite compile`: how long compiling takes.

use fusewright::Error;
use fusewright::bench::compile_suite;
use serde_json::json;

use super::super::{Exit, OK};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress, table, warning};

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    let missing = || Error::Input("suite `compile` needs a MODEL".to_owned());
    let model = args.model.as_ref().ok_or_else(missing)?;
    progress(common.verbose, &format!("compiling {} × {}", args.layers, model.display()));
    let report = compile_suite(model, args.layers.into(), &args.target, &common.options()?)?;
    report.warning.iter().for_each(|said| warning(said));
    if args.json {
        line(json!({
            "layers": report.layers, "nodes": report.nodes, "regions": report.regions,
            "distinct": report.distinct, "compiled": report.compiled, "peak_bytes": report.peak_bytes,
            "us": {
                "import": report.import_us, "passes": report.passes_us,
                "regions": report.regions_us, "kernels": report.kernels_us,
                "kernels_kept": report.kept_us, "emit_median": report.emit_us,
            },
            "from_disk": report.from_disk,
        }));
        return Ok(OK);
    }
    let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
    let known = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), ms);
    let stages = [
        ("import", report.import_us),
        ("passes", report.passes_us),
        ("regions", report.regions_us),
        ("kernels", report.kernels_us),
    ];
    let more = [("kernels, from the cache", report.kept_us), ("compiler per kernel, median", report.emit_us)];
    let rows = stages.map(|(name, us)| vec![name.to_owned(), ms(us)]).into_iter();
    let rows: Vec<Vec<String>> = rows.chain(more.map(|(name, us)| vec![name.to_owned(), known(us)])).collect();
    table(&["stage", "ms"], &rows, &[1]);
    line(format!(
        "{} nodes in {} regions, {} of them distinct, {} kernels compiled, {} read from the cache",
        report.nodes, report.regions, report.distinct, report.compiled, report.from_disk
    ));
    if let Some(bytes) = report.peak_bytes {
        line(format!("peak memory {:.0} MB", bytes as f64 / 1e6));
    }
    Ok(OK)
}
