//! `explain` as one self-contained page: the graph with its regions, and behind every box its ops, why it ends where it
//! ends, and its kernel.

mod drawing;
mod layout;
mod repeats;
mod steps;

use std::collections::BTreeMap;

use fusewright_fusion::explain::said;
use fusewright_fusion::region::{FusedRegion, Refusal, Step, is_constant};
use fusewright_graph::{NodeId, Op, Prim, Value};
use fusewright_templates::colours::HUES;
use fusewright_templates::page::{ExplainPage, Occurrence, Panel, Table};

use crate::explain::{Explanation, KernelReport, Kernels, OverwriteReport, RegionReport, Unmatched};
use crate::{Compiler, Error, Fused, PatternReport, VendorReport};

use repeats::Repeat;

pub use steps::{PictureStep, picture_of, steps_picture};

/// Pixels per character of a title, about.
const CHARACTER: i64 = 8;

/// The page of a fused graph under a title. `kernels` is what the target of `compiler` makes of it.
///
/// # Errors
/// None for a graph that verifies.
pub fn explain_page(
    title: &str,
    fused: &Fused,
    report: &Explanation,
    kernels: &Kernels,
    compiler: &Compiler,
) -> Result<String, Error> {
    let nodes = NodePanels::new(fused, kernels);
    let found = repeats::repeats(&drawing::units(fused, report));
    let draw = |repeats: &[Repeat]| drawing::drawing(fused, report, kernels, &nodes, repeats);
    let mut panels = region_panels(fused, report, &kernels.reports, compiler)?;
    let summary = summary(fused, report, panels.len());
    let whole = draw(&[]);
    let folded = (!found.is_empty()).then(|| draw(&found));
    panels.extend(nodes.panels);
    let page =
        ExplainPage { model: title.to_owned(), summary, folded, whole, panels, tables: tables(fused, report, kernels) };
    page.text().map(printable).map_err(|e| Error::Internal(format!("the page of `explain`: {e}")))
}

/// Pages have no control characters but these, and what a file calls its ops may have some.
fn printable(text: String) -> String {
    let stray = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(stray) { text.replace(stray, "\u{fffd}") } else { text }
}

/// A step of a call, as it is drawn.
enum Drawn<'f> {
    Kernel(&'f FusedRegion, &'f RegionReport),
    Node(NodeId),
}

fn drawn<'f>(fused: &'f Fused, report: &'f Explanation, step: &Step) -> Drawn<'f> {
    let partition = &fused.partition;
    match *step {
        Step::Region(region) => Drawn::Kernel(&partition.regions[region], &report.regions[region]),
        Step::Lone(op) => Drawn::Kernel(&partition.lone[op], &report.regions[partition.regions.len() + op]),
        Step::Node(node) => Drawn::Node(node),
    }
}

/// Gives the hue of a name: that of all kernels of this name.
fn hue_of(hues: &mut BTreeMap<String, usize>, name: &str) -> usize {
    let next = hues.len() * 5 % HUES;
    *hues.entry(name.to_owned()).or_insert(next)
}

/// One panel per distinct kernel.
fn region_panels(
    fused: &Fused,
    report: &Explanation,
    kernels: &[KernelReport],
    compiler: &Compiler,
) -> Result<Vec<Panel>, Error> {
    let mut panels: Vec<Panel> = Vec::new();
    let mut of_key: BTreeMap<&str, usize> = BTreeMap::new();
    for ((region, facts), made) in fused.partition.kernels().zip(&report.regions).zip(kernels) {
        let occurrence = occurrence(fused, region, made);
        if let Some(&panel) = of_key.get(facts.key.as_str()) {
            panels[panel].occurrences.push(occurrence);
            continue;
        }
        of_key.insert(&facts.key, panels.len());
        let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
        let kernel = compiler.kernel(&region.name, &body).map_or_else(|why| why.to_string(), |(k, _)| k.to_string());
        let code = match &made.kernel {
            Ok(figures) => format!("{} bytes", grouped(figures.bytes as u64)),
            Err(why) if made.instead.is_empty() => format!("none: {why}"),
            Err(why) => format!("none: {why}; instead: {}", instead(made)),
        };
        let fact = |what: &str, value: String| (what.to_owned(), value);
        panels.push(Panel {
            id: kernel_id(&facts.key),
            title: region.name.clone(),
            facts: vec![
                fact("bytes moved", counted(facts.bytes_fused)),
                fact("with one kernel per op", counted(facts.bytes_unfused)),
                fact(&format!("code for {}", compiler.target()), code),
                fact("key", facts.key.clone()),
            ],
            occurrences: vec![occurrence],
            origins: Vec::new(),
            kernel,
        });
    }
    Ok(panels)
}

/// What computes the ops of a region without a kernel.
fn instead(made: &KernelReport) -> String {
    let ops = made.instead.iter().map(|op| format!("{} by {}", op.op, op.by));
    ops.collect::<Vec<_>>().join(", ")
}

fn occurrence(fused: &Fused, region: &FusedRegion, made: &KernelReport) -> Occurrence {
    let describe = |id: NodeId| {
        let node = fused.graph.node(id);
        (node.op.name().to_owned(), fused.graph.origin(node).to_string())
    };
    let constant = |id: &&NodeId| matches!(fused.graph.node(**id).op, Op::Prim(Prim::Literal(_) | Prim::SizeOf(_)));
    let ends = region.ends.iter().map(|end| {
        let (op, origin) = describe(end.node);
        (op, said(&fused.graph.node(end.node).op, end.refusal), origin)
    });
    Occurrence {
        ops: region.nodes.iter().filter(|id| !constant(id)).map(|&id| describe(id)).collect(),
        ends: ends.collect(),
        overwrites: made.overwrites.iter().map(written).collect(),
    }
}

/// An output, what it overwrites or would, and how it is written.
fn written(overwrite: &OverwriteReport) -> (String, String, String) {
    let how = overwrite.reason.as_ref().map_or_else(|| "in place".to_owned(), |why| format!("elsewhere: {why}"));
    (overwrite.output.clone(), overwrite.old.clone(), how)
}

/// The panels of steps that are nodes by themselves, one for all that are alike.
struct NodePanels {
    panels: Vec<Panel>,
    /// The id of the panel of a step.
    of_step: BTreeMap<usize, String>,
}

impl NodePanels {
    fn new(fused: &Fused, kernels: &Kernels) -> NodePanels {
        let why: BTreeMap<NodeId, Refusal> = fused.partition.unfused.iter().map(|u| (u.node, u.refusal)).collect();
        let mut nodes = NodePanels { panels: Vec::new(), of_step: BTreeMap::new() };
        let mut alike: BTreeMap<(String, Vec<(String, String)>), usize> = BTreeMap::new();
        for (i, step) in fused.partition.steps.iter().enumerate() {
            let Step::Node(id) = *step else { continue };
            let node = fused.graph.node(id);
            let reason = why.get(&id).map_or_else(String::new, |&refusal| said(&node.op, refusal));
            let facts = node_facts(fused, kernels, id, reason);
            let title = node.op.name().to_owned();
            let panel = *alike.entry((title.clone(), facts.clone())).or_insert_with(|| {
                let (id, occurrences, origins) = (format!("n{i}"), Vec::new(), Vec::new());
                nodes.panels.push(Panel { id, title, facts, occurrences, origins, kernel: String::new() });
                nodes.panels.len() - 1
            });
            let panel = &mut nodes.panels[panel];
            panel.origins.push(fused.graph.origin(node).to_string());
            nodes.of_step.insert(i, panel.id.clone());
        }
        nodes
    }
}

fn node_facts(fused: &Fused, kernels: &Kernels, id: NodeId, reason: String) -> Vec<(String, String)> {
    let node = fused.graph.node(id);
    let types = |values: &[Value]| {
        let types = values.iter().map(|&value| fused.graph.ty(value).to_string());
        types.collect::<Vec<_>>().join(", ")
    };
    let by = kernels.apart.get(&id).copied().unwrap_or(if is_constant(&node.op) { "a constant" } else { "a view" });
    let facts = [
        ("not fused", reason),
        ("computed by", by.to_owned()),
        ("operands", types(&node.operands)),
        ("results", types(&node.results)),
    ];
    facts.map(|(what, value)| (what.to_owned(), value)).into()
}

fn summary(fused: &Fused, report: &Explanation, distinct: usize) -> Vec<(String, String)> {
    let total = |bytes: fn(&crate::explain::RegionReport) -> Option<u64>| {
        report.regions.iter().try_fold(0u64, |sum, region| sum.checked_add(bytes(region)?))
    };
    let (moved, unfused) = (total(|r| r.bytes_fused), total(|r| r.bytes_unfused));
    let at: Vec<String> = report.bytes_at.iter().map(|(symbol, n)| format!("{symbol} = {n}")).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
    let ops: usize = report.regions.iter().map(|r| r.ops.len()).sum();
    [
        (fused.partition.regions.len().to_string(), "fused regions".to_owned()),
        (distinct.to_string(), "distinct kernels".to_owned()),
        (ops.to_string(), "ops in regions".to_owned()),
        (report.refused.len().to_string(), "ops outside of regions".to_owned()),
        (counted(moved), format!("bytes moved by regions{at}")),
        (percent_saved(moved, unfused), "fewer than with one kernel per op".to_owned()),
    ]
    .to_vec()
}

fn tables(fused: &Fused, report: &Explanation, kernels: &Kernels) -> Vec<Table> {
    let table = |title: &str, head: &[&str], rows: Vec<Vec<String>>| Table {
        title: title.to_owned(),
        head: head.iter().map(ToString::to_string).collect(),
        rows,
    };
    let patterns = report.patterns.iter().map(|(name, count)| vec![name.clone(), count.to_string()]).collect();
    let refused = report.refused.iter().map(|r| vec![r.op.clone(), r.reason.clone(), r.origin.clone()]).collect();
    let passes = fused.passes.iter().map(|p| vec![p.name.clone(), p.changed.to_string(), p.us.to_string()]).collect();
    let mut tables = vec![table("Names", &["name", "regions"], patterns)];
    if !report.user_patterns.is_empty() {
        let rows = report.user_patterns.iter().map(user_pattern).collect();
        tables.push(table("Your patterns", &["name", "class", "times", "why not", "expected", "found", "at"], rows));
    }
    let vendor: Vec<Vec<String>> = fused.vendor.reports.iter().flat_map(|op| vendor_op(fused, op)).collect();
    if !vendor.is_empty() {
        tables.push(table("Ops of the vendor", &["op", "region", "call, or why not"], vendor));
    }
    let of_region = |kernel: &KernelReport, overwrite: &OverwriteReport| {
        let (output, old, how) = written(overwrite);
        vec![kernel.region.clone(), output, old, how]
    };
    let overwrites = kernels.reports.iter().flat_map(|k| k.overwrites.iter().map(move |o| of_region(k, o)));
    let overwrites: Vec<Vec<String>> = overwrites.collect();
    if !overwrites.is_empty() {
        tables.push(table("Written in place", &["region", "output", "overwrites", "how"], overwrites));
    }
    tables.push(table("Not fused", &["op", "reason", "origin"], refused));
    if !kernels.by_reference.is_empty() {
        let rows = kernels.by_reference.iter().map(|op| vec![op.label.clone(), op.reason.clone()]).collect();
        tables.push(table("By the interpreter", &["op", "reason"], rows));
    }
    if !kernels.not_run.is_empty() {
        let rows = kernels.not_run.iter().map(|op| vec![op.label.clone(), op.reason.clone()]).collect();
        tables.push(table("Not run here", &["op", "reason"], rows));
    }
    tables.push(table("Passes", &["pass", "nodes changed", "µs"], passes));
    tables
}

/// The regions that an op of the vendor's replaces, and those that it comes near to; a line of its own where there is none.
fn vendor_op(fused: &Fused, report: &VendorReport) -> Vec<Vec<String>> {
    let region = |place: &usize| {
        let name = fused.partition.regions.get(*place).map_or("", |region| region.name.as_str());
        format!("{} {name}", place + 1)
    };
    let call = |place: &usize| fused.vendor.calls.get(place).map_or_else(String::new, ToString::to_string);
    let replaced = report.regions.iter().map(|place| vec![report.name.to_owned(), region(place), call(place)]);
    let near = report.near.iter().map(|(place, near)| {
        let relaxed = if report.but_for_rounding.contains(place) { "; `--relaxed` may take it" } else { "" };
        vec![report.name.to_owned(), region(place), format!("not replaced: {near}{relaxed}")]
    });
    let rows: Vec<Vec<String>> = replaced.chain(near).collect();
    if rows.is_empty() {
        vec![vec![report.name.to_owned(), String::new(), "no region comes near".to_owned()]]
    } else {
        rows
    }
}

/// How often a pattern of the user was replaced, and the place that comes nearest where it was nowhere.
fn user_pattern(report: &PatternReport) -> Vec<String> {
    let mut cells = vec![report.name.clone(), report.class.to_string(), report.times.to_string()];
    match &report.unmatched {
        Some(Unmatched::Near(near)) => {
            cells.push(format!("{} of {} nodes match", near.matched, near.nodes));
            cells.extend([near.expected.clone(), near.found.clone(), near.origin.clone().unwrap_or_default()]);
        }
        Some(other) => cells.push(other.to_string()),
        None => {}
    }
    cells
}

fn kernel_id(key: &str) -> String {
    format!("k-{key}")
}

fn percent_saved(moved: Option<u64>, unfused: Option<u64>) -> String {
    let (Some(moved), Some(unfused)) = (moved, unfused) else { return "some".to_owned() };
    // Rounded down: only what moves nothing saves all.
    let saved = u128::from(unfused.saturating_sub(moved)) * 100 / u128::from(unfused.max(1));
    format!("{saved} %")
}

/// A number of bytes, which may be beyond what is counted.
fn counted(bytes: Option<u64>) -> String {
    bytes.map_or("2^63 or more".to_owned(), grouped)
}

/// A number with its digits in groups of three.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join("\u{202f}")
}
