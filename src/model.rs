//! Opening models: `.pt2` files and the text form.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright_graph::{Graph, Op, Origin, Prim, import, verify};

use crate::{Error, map_file};

/// The graph in a file: an archive of `torch.export.save`, or the project's text form (`.fw`).
///
/// # Errors
/// A file that cannot be read, or what it holds is no graph; the message names the file and the thing in it.
pub fn open(path: &Path) -> Result<Graph, Error> {
    let bytes = map_file(path)?;
    let archive = bytes.starts_with(b"PK");
    let bad = |message: String| Error::Input(format!("{}: {message}", path.display()));
    let graph = if path.extension().is_some_and(|e| e == "fw") {
        let text = text_of(&bytes).map_err(bad)?;
        text.parse::<Graph>().map_err(|e| bad(e.to_string()))?
    } else {
        import::pt2(&bytes).map_err(|e| match std::str::from_utf8(&bytes) {
            Ok(text) if !archive && text.parse::<Graph>().is_ok() => {
                bad("holds the text form of a graph; give the file the ending `.fw`".to_owned())
            }
            _ => bad(e.to_string()),
        })?
    };
    verify::verify(&graph).map_err(|e| bad(Error::of_diagnostics(&e).to_string()))?;
    Ok(graph)
}

/// As [`open`], with the numbers of ranks of groups by name, for the collectives of which the file does not state it.
///
/// # Errors
/// As [`open`], and a group that no such collective has.
pub fn open_with_groups(path: &Path, groups: &BTreeMap<String, u32>) -> Result<Graph, Error> {
    let mut graph = open(path)?;
    for (group, &ranks) in groups {
        let mut found = false;
        let rebuilt = graph.rebuild(|b, _, node, operands| {
            let mut op = node.op.clone();
            if let Op::Prim(Prim::AllReduce(all)) = &mut op
                && all.group == *group
                && all.ranks.is_none()
            {
                (all.ranks, found) = (Some(ranks), true);
            }
            b.op(op, operands)
        });
        graph = rebuilt.map_err(|e| Error::Input(format!("{}: {e}", path.display())))?;
        if !found {
            let message = format!("{}: no collective over group `{group}` lacks its number of ranks", path.display());
            return Err(Error::Input(message));
        }
    }
    Ok(graph)
}

/// The bytes of a file as the text form of graphs or kernels.
///
/// # Errors
/// Bytes that are no text; of an archive, what takes one.
pub fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map(without_mark).map_err(|e| match bytes.starts_with(b"PK") {
        true => {
            "is an archive, not the text form of a graph; `run` and `explain` take it under the ending `.pt2`".into()
        }
        false => format!("is not text: {e}"),
    })
}

/// A file of text, such as a list of passes, patterns or schedules.
///
/// # Errors
/// A file that cannot be read or is no text.
pub fn read_text(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    Ok(without_mark(&text).to_owned())
}

/// A text without the byte order mark that some editors begin files with.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Why an op cannot be run here, if it cannot: it has no meaning here, or waits for other ranks.
pub(crate) fn not_run(op: &Op) -> Option<&'static str> {
    match op {
        Op::Prim(Prim::Opaque { .. }) => Some("no table says what it computes, so only its framework can run it"),
        Op::Prim(Prim::AllReduce(all)) if all.ranks != Some(1) => {
            Some("there is one device, and it waits for other ranks")
        }
        _ => None,
    }
}

/// Refuses a graph with ops of the host framework, which have no meaning here, and with collectives of other than one
/// rank: neither can be run.
///
/// # Errors
/// Every such op once, with how often it stands in the graph, where first, and why it was not taken apart.
pub fn check_runnable(graph: &Graph) -> Result<(), Error> {
    let (mut opaque, mut collectives) = (Found::default(), Found::default());
    for node in graph.nodes() {
        match &node.op {
            Op::Prim(Prim::Opaque { target, attrs, .. }) => {
                let reason = attrs.iter().find(|(name, _)| name == "reason").map(|(_, reason)| reason.as_str());
                opaque.entry(format!("`{target}`")).or_insert((0, graph.origin(node), reason)).0 += 1;
            }
            op @ Op::Prim(Prim::AllReduce(all)) if not_run(op).is_some() => {
                let op = format!("`{}` over {}", node.op.name(), all.described());
                collectives.entry(op).or_insert((0, graph.origin(node), None)).0 += 1;
            }
            _ => {}
        }
    }
    let host = "no table says what these ops compute, so only their framework can run them";
    let parts = [(host, opaque), ("there is one device, and these ops wait for other ranks", collectives)];
    let said =
        parts.iter().filter(|(_, found)| !found.is_empty()).map(|(why, found)| format!("{why}{}", listed(found)));
    let said: Vec<String> = said.collect();
    if said.is_empty() { Ok(()) } else { Err(Error::Input(format!("cannot be run: {}", said.join("\n")))) }
}

/// Ops by what they are: how often, where first, and why.
type Found<'g> = BTreeMap<String, (usize, Origin, Option<&'g str>)>;

fn listed(found: &Found<'_>) -> String {
    let line = |(op, (count, origin, reason)): (&String, &(usize, Origin, Option<&str>))| {
        let first = if *count > 1 { "first at" } else { "at" };
        let place = origin.node.as_deref().unwrap_or("<built>");
        let source = origin.source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        format!("\n  {count} × {op}, {first} {place}{source}{reason}")
    };
    found.iter().map(line).collect()
}
