//! What values are called for people: as in the graph that they gave, never as in the body of a kernel.

use fusewright_graph::{Def, Graph, Value};

use super::step::Step;

/// What to call a step: what it is a part of by the number that tables of regions give it.
pub(super) fn step(step: &Step) -> String {
    step.kernel.map_or_else(|| format!("`{}`", step.label), |kernel| format!("region {} `{}`", kernel + 1, step.label))
}

/// What to call a value: an input by its name, what a node makes by its own name or else that of the node it came from.
pub(crate) fn name(graph: &Graph, value: Value) -> String {
    match (graph.def(value), graph.value_name(value)) {
        (Def::Input(_), Some(name)) => format!("input `{name}`"),
        (_, Some(name)) => format!("value `{name}`"),
        (Def::Node(id, _), None) => {
            let node = graph.node(id);
            let op = || format!("a result of `{}`", node.op.name());
            node.origin.node.as_ref().map_or_else(op, |name| format!("value `{name}`"))
        }
        (Def::Input(_), None) => "an input".to_owned(),
    }
}

/// What is said of a kernel, with the names of its parameters replaced: of the inputs `x0`, `x1` …, and of the outputs
/// `out0`, `out1` ….
pub(super) fn of_user(graph: &Graph, said: &str, inputs: &[Value], outputs: &[Value]) -> String {
    let numbered = |word: &str, prefix: &str, values: &[Value]| -> Option<Value> {
        let number: usize = word.strip_prefix(prefix)?.parse().ok()?;
        values.get(number).copied()
    };
    let mut words = said.split('`');
    let mut text = words.next().unwrap_or_default().to_owned();
    while let Some(word) = words.next() {
        let param = word.strip_prefix('%').unwrap_or(word);
        let value = numbered(param, "x", inputs).or_else(|| numbered(param, "out", outputs));
        match value {
            Some(value) => text.push_str(&name(graph, value)),
            None => text.extend(["`", word, "`"]),
        }
        text.push_str(words.next().unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_named_as_in_the_graph() {
        let text = "graph @g(s: 1..; %x: f32[s, 8], %cache: f32[s, 8]) {\n  %sum = add %x, %cache\n  \
                    return %sum updates %cache\n}\n";
        let graph: Graph = text.parse().expect("parses");
        let inputs = [graph.inputs()[1].value, graph.inputs()[0].value];
        let outputs = [graph.outputs()[0].value];
        let said = "`store`: it may overwrite `x0` and `%x1` that `out0` reads, not `x2`";
        let expected = "`store`: it may overwrite input `cache` and input `x` that value `sum` reads, not `x2`";
        assert_eq!(of_user(&graph, said, &inputs, &outputs), expected);
        assert_eq!(of_user(&graph, "no names", &inputs, &outputs), "no names");
    }
}
