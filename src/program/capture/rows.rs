//! Which ops keep rows apart: whether a row of a result depends on the same row of the operands alone, so that rows behind
//! those of a call change nothing.
//!
//! What the rows of a value are is said by its type: the one axis whose extent is a multiple of the symbol that counts
//! them. A value without such an axis is the same for every number of rows, or made by an op that does not keep rows apart.

use fusewright_graph::{Def, Dim, Graph, Node, Op, Prim, TensorType, Value, dim};

use crate::Error;
use crate::program::build::single;

/// The rows of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rows {
    /// It has none.
    None,
    /// They are along that axis, each so many of its elements.
    Along { axis: usize, each: i64 },
    /// Several axes count rows, or one does in another way.
    Other,
}

impl Rows {
    /// Of a type, whose rows a symbol counts.
    pub fn of(ty: &TensorType, symbol: &str) -> Rows {
        let mut axes = ty.shape.iter().enumerate().filter(|(_, extent)| extent.mentions(symbol));
        let Some((axis, extent)) = axes.next() else { return Rows::None };
        let each = extent.exact_div(&Dim::symbol(symbol)).and_then(|each| each.as_const());
        match (each, axes.next()) {
            (Some(each), None) if each > 0 => Rows::Along { axis, each },
            _ => Rows::Other,
        }
    }

    fn axis(self) -> Option<usize> {
        if let Rows::Along { axis, .. } = self { Some(axis) } else { None }
    }
}

/// Places that rows choose to write to: they must be told to choose none where they are padding.
pub(super) type Places = Vec<Value>;

/// Whether a node of a graph keeps the rows that `symbol` counts apart, and if so, the operands that choose places.
///
/// # Errors
/// A composite that does not expand, which is a bug.
pub(super) fn apart(graph: &Graph, node: &Node, symbol: &str) -> Result<Result<Places, String>, Error> {
    if let Op::Prim(prim) = &node.op {
        return Ok(prim_apart(graph, node, prim, symbol));
    }
    let internal = |e: &dyn std::fmt::Display| Error::Internal(format!("`{}`: {e}", node.op.name()));
    let body = single(graph, node).and_then(|body| body.expanded()).map_err(|e| internal(&e))?;
    let mut places = Places::new();
    for inner in body.nodes() {
        let Op::Prim(prim) = &inner.op else { return Err(internal(&"it does not expand")) };
        match prim_apart(&body, inner, prim, symbol) {
            Err(reason) => return Ok(Err(reason)),
            Ok(chosen) => {
                for place in chosen {
                    // As the node has it, if it has it.
                    let operand = origin(&body, place).and_then(|input| node.operands.get(input));
                    match operand {
                        Some(&operand) => places.push(operand),
                        None => return Ok(Err("it computes the places that rows write to".to_owned())),
                    }
                }
            }
        }
    }
    Ok(Ok(places))
}

/// The number of the input whose elements a value has, as they are or under another shape or width.
fn origin(graph: &Graph, mut value: Value) -> Option<usize> {
    loop {
        match graph.def(value) {
            Def::Input(_) => return graph.inputs().iter().position(|input| input.value == value),
            Def::Node(id, _) => {
                let node = graph.node(id);
                let integers = || [value, node.operands[0]].iter().all(|&v| graph.ty(v).dtype.is_int());
                match &node.op {
                    Op::Prim(Prim::Reshape { .. }) => value = node.operands[0],
                    Op::Prim(Prim::Cast { .. }) if integers() => value = node.operands[0],
                    _ => return None,
                }
            }
        }
    }
}

/// The number, among the caller's inputs, of the input that chooses places, if it is one whose padding can say that it
/// chooses none.
pub(super) fn chooser(graph: &Graph, places: Value) -> Option<usize> {
    let input = &graph.inputs()[origin(graph, places)?];
    let signed = graph.ty(input.value).dtype.is_signed_int();
    let users = graph.inputs().iter().filter(|i| i.kind.is_given());
    users.enumerate().find(|(_, user)| user.value == input.value).map(|(number, _)| number).filter(|_| signed)
}

fn prim_apart(graph: &Graph, node: &Node, prim: &Prim, symbol: &str) -> Result<Places, String> {
    let rows = |value: Value| Rows::of(graph.ty(value), symbol);
    let refuse = |reason: &str| Err(reason.to_owned());
    let mut values = node.operands.iter().chain(&node.results);
    if values.any(|&value| rows(value) == Rows::Other) {
        return refuse("rows are counted along two of its axes, or not by whole multiples");
    }
    let of = |operand: usize| node.operands.get(operand).map_or(Rows::None, |&value| rows(value));
    let result = node.results.first().map_or(Rows::None, |&value| rows(value));
    let aligned = || aligned(graph, node, symbol);
    match prim {
        Prim::Literal(_) => Ok(Places::new()),
        Prim::SizeOf(dim) if dim.mentions(symbol) => refuse("it counts the rows"),
        Prim::SizeOf(_) | Prim::Iota { .. } => Ok(Places::new()),
        Prim::Map(_) | Prim::Expand { .. } | Prim::Cast { .. } | Prim::Bitcast { .. } | Prim::AllReduce(_) => aligned(),
        Prim::Reduce { axes, .. } if of(0).axis().is_some_and(|axis| axes.contains(&axis)) => {
            refuse("it combines rows")
        }
        Prim::ArgReduce { axis, .. } if of(0).axis() == Some(*axis) => refuse("it searches among rows"),
        Prim::Reduce { .. } | Prim::ArgReduce { .. } => aligned(),
        Prim::TopK { .. } | Prim::Pack { .. } => {
            let last = graph.ty(node.operands[0]).rank().checked_sub(1);
            if of(0).axis().is_some() && of(0).axis() == last { refuse("it combines rows") } else { aligned() }
        }
        Prim::Reshape { .. } => reshaped(graph, node, symbol),
        Prim::Permute { perm } => match of(0).axis() {
            Some(axis) if result.axis().map(|to| perm[to]) != Some(axis) => refuse("it moves rows"),
            _ => Ok(Places::new()),
        },
        Prim::Slice { axis, start, end, .. } => {
            if of(0).axis() == Some(*axis) || start.mentions(symbol) || end.mentions(symbol) {
                return refuse("it takes some of the rows");
            }
            aligned()
        }
        Prim::Cat { axis } => {
            let joins = node.operands.iter().any(|&v| rows(v).axis() == Some(*axis)) || result.axis() == Some(*axis);
            if joins { refuse("it joins rows") } else { aligned() }
        }
        Prim::Gather { axis } => match (of(0).axis(), of(1).axis()) {
            (None, Some(_)) if result.axis() == Some(*axis) => Ok(Places::new()),
            (Some(x), None) if x != *axis => aligned(),
            (None, None) => Ok(Places::new()),
            _ => refuse("it reads rows that other rows choose"),
        },
        Prim::Scatter { axis } => match (of(0).axis(), of(1).axis(), of(2).axis()) {
            (None, Some(_), Some(updates)) if updates == *axis => Ok(vec![node.operands[1]]),
            (Some(x), None, Some(updates)) if x == updates && x != *axis => Ok(Places::new()),
            (None, None, None) => Ok(Places::new()),
            _ => refuse("it writes rows that other rows choose"),
        },
        Prim::MatMul { .. } => {
            let rank = graph.ty(node.operands[0]).rank();
            match (of(0).axis(), of(1).axis()) {
                (Some(a), None) if a + 2 <= rank => aligned_first(of(0), result),
                (Some(a), Some(b)) if a + 2 < rank && a == b => aligned_first(of(0), result),
                (None, None) => Ok(Places::new()),
                _ => refuse("it combines rows"),
            }
        }
        Prim::Sdpa(sdpa) => {
            let mask = of(3).axis().is_some_and(|axis| mask_rows(graph, node, axis));
            match (of(0).axis(), of(1), of(2), of(3)) {
                (Some(2), Rows::None, Rows::None, Rows::None) if !sdpa.causal => Ok(Places::new()),
                (Some(2), Rows::None, Rows::None, Rows::Along { .. }) if !sdpa.causal && mask => Ok(Places::new()),
                (None, Rows::None, Rows::None, Rows::None) => Ok(Places::new()),
                _ => refuse("its rows attend to each other"),
            }
        }
        Prim::ScatterReduce { .. } | Prim::GroupedMatMul { .. } => refuse("it combines rows"),
        Prim::Opaque { .. } => refuse("it is not known what it does"),
    }
}

/// Whether the rows of a mask are those of the queries.
fn mask_rows(graph: &Graph, node: &Node, axis: usize) -> bool {
    axis + 2 == graph.ty(node.operands[3]).rank()
}

/// Whether the first operand's rows are the result's, which has as many axes.
fn aligned_first(of: Rows, result: Rows) -> Result<Places, String> {
    if of == result { Ok(Places::new()) } else { Err("it moves rows".to_owned()) }
}

/// Whether the rows of every operand that has any are the rows of every result, where axes are counted from the last.
fn aligned(graph: &Graph, node: &Node, symbol: &str) -> Result<Places, String> {
    for &result in &node.results {
        let (to, to_rank) = (Rows::of(graph.ty(result), symbol), graph.ty(result).rank());
        for &operand in &node.operands {
            let rank = graph.ty(operand).rank();
            if let Rows::Along { axis, each } = Rows::of(graph.ty(operand), symbol)
                && !matches!(to, Rows::Along { axis: to, each: of } if of == each && to_rank - to == rank - axis)
            {
                return Err("it moves rows".to_owned());
            }
        }
    }
    Ok(Places::new())
}

/// A reshape keeps rows apart if as many elements lie before and behind them.
fn reshaped(graph: &Graph, node: &Node, symbol: &str) -> Result<Places, String> {
    let before = |value: Value| {
        let ty = graph.ty(value);
        Rows::of(ty, symbol).axis().map(|axis| dim::product(&ty.shape[..axis]))
    };
    let [from, to] = [node.operands[0], node.results[0]].map(before);
    if from == to { Ok(Places::new()) } else { Err("it divides rows anew".to_owned()) }
}
