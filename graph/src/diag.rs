//! What is wrong with an input, in words: a stable code, a message, the node and its origin, notes and help.
//!
//! A [`Diagnostic`] is about the user's input: an unsupported or ill-typed op, a violated invariant, a refused rewrite.
//! The caller may show it and fall back to the unfused op. Rendering is plain text without colour.

use std::fmt;

use crate::graph::{Graph, NodeId, Origin};
use crate::infer::TypeError;
use crate::text::TextError;

/// A note on something beside the node itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// What the note is on: a value, an operand, an attribute, another node's origin.
    pub subject: String,
    /// The note.
    pub text: String,
}

/// One thing that is wrong with an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Stable short name, e.g. `import.unknown-op`.
    pub code: &'static str,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The node it is about.
    pub node: Option<NodeId>,
    /// Where that node came from.
    pub origin: Origin,
    /// Notes, in order.
    pub labels: Vec<Label>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic that names no node yet.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Diagnostic { code, message, node: None, origin: Origin::default(), labels: Vec::new(), help: None }
    }

    /// The same, about something that came from `origin`.
    #[must_use]
    pub fn with_origin(mut self, origin: &Origin) -> Self {
        self.origin = origin.clone();
        self
    }

    /// The same, about a node of `graph`, with that node's origin.
    #[must_use]
    pub fn at(mut self, graph: &Graph, node: NodeId) -> Self {
        self.node = Some(node);
        self.with_origin(&graph.origin(graph.node(node)))
    }

    /// The same with one more note.
    #[must_use]
    pub fn with_label(mut self, subject: impl Into<String>, text: impl Into<String>) -> Self {
        self.labels.push(Label { subject: subject.into(), text: text.into() });
        self
    }

    /// The same with help.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Whether the origin says anything.
    fn has_origin(&self) -> bool {
        self.origin != Origin::default()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        match (self.node, self.has_origin()) {
            (Some(NodeId(id)), true) => write!(f, "\n  at node {id}, {}", self.origin)?,
            (Some(NodeId(id)), false) => write!(f, "\n  at node {id}")?,
            (None, true) => write!(f, "\n  at {}", self.origin)?,
            (None, false) => {}
        }
        for label in &self.labels {
            write!(f, "\n  note: {}: {}", label.subject, label.text)?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

impl From<TypeError> for Diagnostic {
    fn from(error: TypeError) -> Self {
        Diagnostic::new("type", error.to_string())
    }
}

impl From<TextError> for Diagnostic {
    fn from(error: TextError) -> Self {
        Diagnostic::new("text", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_shown() {
        let origin = Origin {
            node: Some("add_3".into()),
            op: Some("aten.add.Tensor".into()),
            source: Some("model.py:12 (forward)".into()),
        };
        let full =
            Diagnostic { node: Some(NodeId(7)), ..Diagnostic::new("import.dtype", "`complex64` is not supported") }
                .with_origin(&origin)
                .with_label("operand 0", "is complex64")
                .with_help("cast it before the export");
        let expected = "error[import.dtype]: `complex64` is not supported\n  \
            at node 7, add_3 (aten.add.Tensor) at model.py:12 (forward)\n  \
            note: operand 0: is complex64\n  \
            help: cast it before the export";
        assert_eq!(full.to_string(), expected);
        assert_eq!(Diagnostic::new("a", "b").to_string(), "error[a]: b");
    }
}
