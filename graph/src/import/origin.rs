//! Where a node came from: its name, its op and the model's source line.

use super::schema::{Argument, NodeJson};
use super::table::short_target;
use crate::graph::Origin;

/// The origin of a node.
pub(super) fn origin(node: &NodeJson) -> Origin {
    Origin {
        node: Some(name(node).into()),
        op: Some(short_target(&node.target).into()),
        source: node.metadata.stack_trace.as_deref().and_then(source_line).map(Into::into),
    }
}

/// The node's name; before schema 8.17 that of its first result.
fn name(node: &NodeJson) -> &str {
    let from_result = || match node.outputs.first() {
        Some(Argument::Tensor(name)) => Some(name.as_str()),
        Some(Argument::Tensors(list)) => list.first().map(String::as_str),
        _ => None,
    };
    node.name.as_deref().or_else(from_result).unwrap_or(&node.target)
}

/// `file:line (function)` of the innermost frame of a Python stack trace that is not inside torch, else of the
/// innermost frame.
fn source_line(trace: &str) -> Option<String> {
    let frames = || trace.lines().rev().filter_map(frame);
    let (file, line, function) = frames().find(|(file, ..)| !inside_torch(file)).or_else(|| frames().next())?;
    Some(format!("{file}:{line} ({function})"))
}

/// The parts of `File "f", line n, in g`.
fn frame(line: &str) -> Option<(&str, u32, &str)> {
    let (file, rest) = line.trim().strip_prefix("File \"")?.split_once("\", line ")?;
    let (number, function) = rest.split_once(", in ")?;
    Some((file, number.parse().ok()?, function))
}

fn inside_torch(file: &str) -> bool {
    file.starts_with("torch/") || file.contains("/site-packages/torch/") || file.contains("/dist-packages/torch/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_model_frame_is_taken() {
        let trace = "File \"model.py\", line 69, in forward\n    pe = s.rope(x)\n  File \"nets/rope.py\", line 124, in \
                     forward\n    y = F.silu(x)\n  File \"/venv/site-packages/torch/nn/functional.py\", line 9, in silu";
        assert_eq!(source_line(trace), Some("nets/rope.py:124 (forward)".into()));
        assert_eq!(source_line("File \"torch/x.py\", line 1, in f"), Some("torch/x.py:1 (f)".into()));
        assert_eq!(source_line("no frames here"), None);
    }
}
