//! In words: how a node of a graph differs from a node of a pattern.

use fusewright_graph::text::{AttrPattern, Bindings, RuleNode, RuleOp, RuleParam, op_attrs};
use fusewright_graph::{DType, Op};

/// What was expected, and what was found instead.
pub(super) type Difference = (String, String);

/// A name that stands for another value already.
pub(super) fn another_value(name: &str) -> Difference {
    (format!("the value that `{name}` stands for"), "another value".to_owned())
}

/// A dtype that a parameter does not admit.
pub(super) fn dtype(param: &RuleParam, found: DType) -> Difference {
    let admitted: Vec<String> = param.dtypes.iter().map(DType::to_string).collect();
    (format!("`{}` of {}", param.name, admitted.join(" | ")), found.to_string())
}

/// The name of a pattern's op.
pub(crate) fn op_name(op: &RuleOp) -> &str {
    match op {
        RuleOp::Constant(text) => text,
        RuleOp::Exact(op) => op.name(),
        RuleOp::Pattern { name, .. } => name,
    }
}

/// A pattern's op.
pub(super) fn op(op: &RuleOp) -> String {
    format!("`{}`", op_name(op))
}

/// An op of which a result is read that the pattern does not have there.
pub(super) fn result(found: &Op, place: Option<usize>) -> String {
    match place {
        Some(place) => format!("result {place} of `{}`", found.name()),
        None => format!("`{}`", found.name()),
    }
}

/// The first difference of two nodes: the op, the number of operands, an attribute.
pub(super) fn ops(node: &RuleNode, found: &Op, operands: usize, bound: &Bindings) -> Difference {
    let name = op_name(&node.op);
    if name != found.name() {
        return (format!("`{name}`"), format!("`{}`", found.name()));
    }
    if node.operands.len() != operands {
        return (format!("`{name}` of {} operands", node.operands.len()), format!("{operands}"));
    }
    let actual = op_attrs(found);
    let value = |key: &str| actual.iter().find(|(k, _)| k == key).map(|(_, text)| text.clone());
    let wanted = match &node.op {
        RuleOp::Exact(op) => op_attrs(op),
        RuleOp::Pattern { attrs, .. } => {
            let text = |pattern: &AttrPattern| match pattern {
                AttrPattern::Text(text) => Some(text.clone()),
                AttrPattern::Variable(v) => bound.texts.get(v).cloned(),
            };
            attrs.iter().filter_map(|(key, pattern)| Some((key.clone(), text(pattern)?))).collect()
        }
        RuleOp::Constant(_) => Vec::new(),
    };
    let differs = wanted.into_iter().find(|(key, text)| value(key).as_ref() != Some(text));
    if let Some((key, text)) = differs {
        let found = value(&key).map_or_else(|| format!("no `{key}`"), |found| format!("{key} = {found}"));
        return (format!("`{name}` with {key} = {text}"), found);
    }
    let all: Vec<String> = actual.iter().map(|(key, text)| format!("{key} = {text}")).collect();
    (format!("`{name}` with other attributes"), all.join(", "))
}
