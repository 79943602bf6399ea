//! Tables of a whole layer on GPUs beside PyTorch, made from the files that `layer.sh` of the pack writes, in
//! `benches/results/gpu-layer/`, one for each device.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

/// Where the files are, below the root. There need be none.
const FOLDER: &str = "benches/results/gpu-layer";
/// The variant that others are compared with.
const OURS: &str = "fused";

/// What one device measured.
#[derive(Deserialize)]
pub struct Layer {
    device: String,
    torch: String,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    what: String,
    variant: String,
    #[serde(rename = "T")]
    tokens: u64,
    us: f64,
    hot_us: f64,
    chained_us: Option<f64>,
}

/// A figure of a row, and what the caches held.
type Figure = (&'static str, fn(&Row) -> Option<f64>);

const FIGURES: [Figure; 3] =
    [("empty", |row| Some(row.us)), ("hot", |row| Some(row.hot_us)), ("hot, chained", |row| row.chained_us)];

/// All devices by the names of their files.
///
/// # Errors
/// A file that cannot be read, or is not what the script writes.
pub fn layers(root: &Path) -> Result<BTreeMap<String, Layer>, String> {
    let folder = root.join(FOLDER);
    let mut found = BTreeMap::new();
    if !folder.exists() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|e| said(&e))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, serde_json::from_str(&text).map_err(|e| said(&e))?);
    }
    Ok(found)
}

/// Microseconds of ours, and how often as long every other variant takes, for each part, number of tokens and state of the
/// caches.
pub fn tables(layers: &BTreeMap<String, Layer>) -> String {
    let mut text = String::new();
    for (name, layer) in layers {
        let (device, torch) = (&layer.device, &layer.torch);
        let _ = write!(
            text,
            "\n`gpu-layer/{name}.json`: {device}, torch {torch}; µs, and how often as long others take\n\n"
        );
        let mut variants: Vec<&str> = Vec::new();
        for row in layer.rows.iter().filter(|row| row.variant != OURS) {
            if !variants.contains(&row.variant.as_str()) {
                variants.push(&row.variant);
            }
        }
        let _ = writeln!(text, "| part | tokens | caches | {OURS} µs | {} |", variants.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(4 + variants.len()));
        for ours in layer.rows.iter().filter(|row| row.variant == OURS) {
            for (caches, figure) in FIGURES {
                let Some(us) = figure(ours) else { continue };
                let of = |variant: &&str| {
                    let same = |row: &&Row| {
                        (&row.what, row.tokens, row.variant.as_str()) == (&ours.what, ours.tokens, variant)
                    };
                    let other = layer.rows.iter().find(same).and_then(figure);
                    other.map_or_else(|| "-".to_owned(), |other| format!("{:.2}", other / us))
                };
                let ratios: Vec<String> = variants.iter().map(of).collect();
                let (what, tokens) = (&ours.what, ours.tokens);
                let _ = writeln!(text, "| {what} | {tokens} | {caches} | {us:.2} | {} |", ratios.join(" | "));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_say_how_often_as_long_others_take() {
        let file = r#"{"device": "G", "torch": "2", "far": [], "rows": [
            {"what": "whole", "variant": "fused", "T": 1, "us": 2.0, "hot_us": 1.0, "chained_us": null, "nodes": 9},
            {"what": "whole", "variant": "unfused", "T": 1, "us": 3.0, "hot_us": 2.5, "chained_us": null, "nodes": 19},
            {"what": "pieces", "variant": "fused", "T": 1, "us": 2.0, "hot_us": 1.0, "chained_us": 0.5, "nodes": 4},
            {"what": "pieces", "variant": "compiled", "T": 1, "us": 4.0, "hot_us": 3.0, "chained_us": 1.0, "kernels": 6}]}"#;
        let layer = serde_json::from_str(file).expect("it is what the script writes");
        let text = tables(&BTreeMap::from([("g".to_owned(), layer)]));
        assert!(text.contains("| whole | 1 | empty | 2.00 | 1.50 | - |"), "{text}");
        assert!(text.contains("| pieces | 1 | hot, chained | 0.50 | - | 2.00 |"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("| whole")).count(), 2, "{text}");
    }
}
