//! Rows of the op tables: a name, the op's schema and the function that imports it.

use super::call::{Call, Imported};

/// How one op of the framework is imported.
pub(super) struct Row {
    /// Name without `torch.ops.` and a trailing `.default`.
    pub(super) target: &'static str,
    /// Parameters in schema order, `name` or `name=default`; `!` after a name marks an argument that the op overwrites.
    /// An argument that is not listed is refused.
    pub(super) schema: &'static str,
    /// Adds the op's meaning to the graph.
    pub(super) import: fn(&Call<'_>) -> Imported,
}

impl Row {
    /// Whether the op has a parameter of that name, and its default.
    pub(super) fn parameter(&self, name: &str) -> Option<Option<&'static str>> {
        self.parameters().find(|p| p.0 == name).map(|p| p.2)
    }

    /// The parameters that the op overwrites, in schema order.
    pub(super) fn overwritten(&self) -> impl Iterator<Item = &'static str> {
        self.parameters().filter(|p| p.1).map(|p| p.0)
    }

    /// Name, whether it is overwritten, and default.
    fn parameters(&self) -> impl Iterator<Item = (&'static str, bool, Option<&'static str>)> {
        self.schema.split(", ").map(|parameter| {
            let (name, default) = parameter.split_once('=').map_or((parameter, None), |(n, d)| (n, Some(d)));
            let plain = name.strip_suffix('!');
            (plain.unwrap_or(name), plain.is_some(), default)
        })
    }
}

/// The name under which tables list a target.
pub(super) fn short_target(target: &str) -> &str {
    let target = target.strip_prefix("torch.ops.").unwrap_or(target);
    target.strip_suffix(".default").unwrap_or(target)
}
