//! Rows of the op tables: a name, the op's schema and the function that imports it.

use super::call::{Call, Imported};

/// How one op of the framework is imported.
pub(super) struct Row {
    /// Name without `torch.ops.` and a trailing `.default`.
    pub(super) target: &'static str,
    /// Parameters in schema order, `name` or `name=default`; an argument that is not listed is refused.
    pub(super) schema: &'static str,
    /// Adds the op's meaning to the graph.
    pub(super) import: fn(&Call<'_>) -> Imported,
}

impl Row {
    /// Whether the op has a parameter of that name, and its default.
    pub(super) fn parameter(&self, name: &str) -> Option<Option<&'static str>> {
        let parameters = self.schema.split(", ").map(|p| match p.split_once('=') {
            Some((name, default)) => (name, Some(default)),
            None => (p, None),
        });
        parameters.into_iter().find(|(n, _)| *n == name).map(|(_, default)| default)
    }
}

/// The name under which tables list a target.
pub(super) fn short_target(target: &str) -> &str {
    let target = target.strip_prefix("torch.ops.").unwrap_or(target);
    target.strip_suffix(".default").unwrap_or(target)
}
