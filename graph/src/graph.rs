//! The graph itself: values in SSA form, nodes in topological order.
//!
//! A graph is never edited in place: passes rebuild it through [`Graph::rebuild`], which keeps the order and the
//! origins right by construction.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::builder::Builder;
use crate::checksum::Checksum;
use crate::ops::Composite;
use crate::prim::Prim;
use crate::ty::TensorType;

/// A value of a graph: an index into its value table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u32);

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A node of a graph: an index into its node list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

/// What a node computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// A primitive.
    Prim(Prim),
    /// A composite; means its expansion.
    Composite(Composite),
}

impl Op {
    /// Name in text forms.
    pub fn name(&self) -> &str {
        match self {
            Op::Prim(prim) => prim.name(),
            Op::Composite(composite) => composite.name(),
        }
    }
}

/// Where a node came from, for messages only; two graphs that differ in origins alone are the same graph.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Origin {
    /// Name of the node in the framework's graph.
    pub node: Option<Arc<str>>,
    /// The framework's op.
    pub op: Option<Arc<str>>,
    /// The model's source line, `file:line (function)`.
    pub source: Option<Arc<str>>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.node.as_deref().unwrap_or("<built>"))?;
        if let Some(op) = &self.op {
            write!(f, " ({op})")?;
        }
        if let Some(source) = &self.source {
            write!(f, " at {source}")?;
        }
        Ok(())
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it computes.
    pub op: Op,
    /// Operands.
    pub operands: Vec<Value>,
    /// Results.
    pub results: Vec<Value>,
    /// Where it came from.
    pub origin: Origin,
}

/// A named extent and the range it may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Name.
    pub name: String,
    /// Least value.
    pub min: i64,
    /// Greatest value, if bounded.
    pub max: Option<i64>,
}

impl Symbol {
    /// Whether a value lies in the range.
    pub fn admits(&self, value: i64) -> bool {
        value >= self.min && self.max.is_none_or(|max| value <= max)
    }

    /// The range for people, who may not know that `1..8` holds 8: `1 to 8`, or `1 and above` without a greatest value.
    pub fn span(&self) -> String {
        match self.max {
            Some(max) => format!("{} to {max}", self.min),
            None => format!("{} and above", self.min),
        }
    }

    /// The range as in the text form: `1..8`, or `1..` without a greatest value.
    pub fn range(&self) -> String {
        format!("{}..{}", self.min, self.max.map_or(String::new(), |max| max.to_string()))
    }
}

/// Bytes of a parameter: a strided view of a storage that may be shared and memory-mapped.
#[derive(Clone)]
pub struct Weight {
    /// The storage, little endian.
    pub storage: Bytes,
    /// First element, in elements.
    pub offset: usize,
    /// Stride per axis, in elements.
    pub strides: Vec<usize>,
    /// Of the storage, where the file has one.
    pub checksum: Option<Arc<Checksum>>,
}

impl Weight {
    /// The storage, once its checksum is known to hold; see [`Checksum::check`] for the cost.
    ///
    /// # Errors
    /// A damaged entry, by its name.
    pub fn checked(&self) -> Result<&Bytes, String> {
        self.checksum.as_deref().map_or(Ok(()), Checksum::check).map(|()| &self.storage)
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weight({} bytes, offset {}, strides {:?})", self.storage.len(), self.offset, self.strides)
    }
}

/// What a graph input is.
#[derive(Clone, Debug)]
pub enum InputKind {
    /// Given at each call, in order.
    User,
    /// Given at each call likewise, and complete before the launch that comes before those of the graph begins: between
    /// that and what wrote it lies a launch that waited for all before it. On a GPU a dependent launch reads it while the
    /// launch before it still runs.
    Settled,
    /// Fixed with the model; `None` where the file came without data.
    Weight(Option<Weight>),
}

impl InputKind {
    /// Whether it is given at each call.
    pub fn is_given(&self) -> bool {
        matches!(self, InputKind::User | InputKind::Settled)
    }
}

/// An input of a graph.
#[derive(Clone, Debug)]
pub struct Input {
    /// The value it defines.
    pub value: Value,
    /// Name, unique among inputs.
    pub name: String,
    /// What it is.
    pub kind: InputKind,
}

/// An output of a graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// The value returned.
    pub value: Value,
    /// Name of the input that the host framework overwrites with it, for in-place updates.
    pub updates: Option<String>,
}

/// What defines a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Def {
    /// Graph input of that index.
    Input(usize),
    /// Result `.1` of node `.0`.
    Node(NodeId, usize),
}

#[derive(Clone, Debug)]
struct ValueInfo {
    ty: TensorType,
    def: Def,
    name: Option<Arc<str>>,
}

/// A graph. See the module documentation for its invariants.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    name: String,
    symbols: Vec<Symbol>,
    inputs: Vec<Input>,
    nodes: Vec<Node>,
    values: Vec<ValueInfo>,
    outputs: Vec<Output>,
}

impl Graph {
    /// An empty graph; fill it through [`Builder`].
    pub(crate) fn new(name: &str) -> Self {
        Graph { name: name.to_owned(), ..Graph::default() }
    }

    /// Name in text forms.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Symbols of the shapes, in order of first declaration.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Inputs in order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Nodes in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Outputs in order.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Ids of all nodes in order.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Number of values; their ids are `0..count`.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> &TensorType {
        &self.values[value.0 as usize].ty
    }

    /// What defines a value.
    pub fn def(&self, value: Value) -> Def {
        self.values[value.0 as usize].def
    }

    /// Name of a value in text forms, if it has one of its own; an input has the input's.
    pub fn value_name(&self, value: Value) -> Option<&str> {
        match self.def(value) {
            Def::Input(index) => Some(&self.inputs[index].name),
            Def::Node(..) => self.values[value.0 as usize].name.as_deref(),
        }
    }

    /// Says where a node of the graph came from. One that no framework made is called by its first result, as the text
    /// form has it.
    pub fn origin(&self, node: &Node) -> Origin {
        let own =
            || node.results.first().and_then(|&value| self.value_name(value)).map(|name| format!("%{name}").into());
        if node.origin == Origin::default() { Origin { node: own(), ..Origin::default() } } else { node.origin.clone() }
    }

    /// The node that defines a value, or `None` for an input.
    pub fn def_node(&self, value: Value) -> Option<&Node> {
        match self.def(value) {
            Def::Node(id, _) => Some(self.node(id)),
            Def::Input(_) => None,
        }
    }

    /// For each value, the nodes that use it, in order; graph outputs are not counted.
    pub fn users(&self) -> Vec<Vec<NodeId>> {
        let mut users = vec![Vec::new(); self.values.len()];
        for id in self.node_ids() {
            for operand in &self.node(id).operands {
                let list: &mut Vec<NodeId> = &mut users[operand.0 as usize];
                if list.last() != Some(&id) {
                    list.push(id);
                }
            }
        }
        users
    }

    /// Whether a value is returned.
    pub fn is_output(&self, value: Value) -> bool {
        self.outputs.iter().any(|o| o.value == value)
    }

    /// A new graph made by visiting the nodes in order. `visit` gets the new graph's builder, the node and its
    /// operands in the new graph, and returns the new values of its results. Inputs, symbols, outputs and value names
    /// carry over; nodes that `visit` adds without setting an origin get the visited node's.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn rebuild<E>(
        &self,
        visit: impl FnMut(&Builder, NodeId, &Node, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Graph, E> {
        self.rebuild_in(self.node_ids(), visit)
    }

    /// As [`Graph::rebuild`], but the nodes are visited in another order, in which each still stands behind those that it
    /// reads.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn rebuild_in<E>(
        &self,
        order: impl IntoIterator<Item = NodeId>,
        mut visit: impl FnMut(&Builder, NodeId, &Node, &[Value]) -> Result<Vec<Value>, E>,
    ) -> Result<Graph, E> {
        let builder = Builder::new(&self.name);
        // Values of the new graph by those of this one; each is set before it is read.
        let mut map: Vec<Value> = vec![Value(u32::MAX); self.values.len()];
        for symbol in &self.symbols {
            builder.symbol(&symbol.name, symbol.min, symbol.max);
        }
        for input in &self.inputs {
            let value = builder.add_input(&input.name, self.ty(input.value).clone(), input.kind.clone());
            map[input.value.0 as usize] = value;
        }
        for id in order {
            let node = self.node(id);
            let operands: Vec<Value> = node.operands.iter().map(|v| map[v.0 as usize]).collect();
            builder.set_origin(node.origin.clone());
            let results = visit(&builder, id, node, &operands)?;
            assert_eq!(results.len(), node.results.len(), "a rebuilt node keeps its number of results");
            for (&old, &new) in node.results.iter().zip(&results) {
                if let Some(name) = self.value_name(old) {
                    builder.name_unnamed(new, name);
                }
            }
            node.results.iter().zip(results).for_each(|(old, new)| map[old.0 as usize] = new);
        }
        for output in &self.outputs {
            builder.add_output(map[output.value.0 as usize], output.updates.clone());
        }
        Ok(builder.finish())
    }

    /// The same graph, whose output at that position overwrites the input of that name, or none.
    pub fn with_update(mut self, output: usize, input: Option<String>) -> Graph {
        self.outputs[output].updates = input;
        self
    }

    /// The same graph, whose input at that position is of that kind.
    pub fn with_kind(mut self, input: usize, kind: InputKind) -> Graph {
        self.inputs[input].kind = kind;
        self
    }

    /// Number of nodes and of values.
    pub(crate) fn extent(&self) -> (usize, usize) {
        (self.nodes.len(), self.values.len())
    }

    /// Drops the nodes and values added since `extent`.
    pub(crate) fn truncate(&mut self, (nodes, values): (usize, usize)) {
        self.nodes.truncate(nodes);
        self.values.truncate(values);
    }

    pub(crate) fn push_symbol(&mut self, symbol: Symbol) {
        if self.symbols.iter().all(|s| s.name != symbol.name) {
            self.symbols.push(symbol);
        }
    }

    pub(crate) fn push_input(&mut self, name: &str, ty: TensorType, kind: InputKind) -> Value {
        let value = self.push_value(ty, Def::Input(self.inputs.len()));
        self.inputs.push(Input { value, name: name.to_owned(), kind });
        value
    }

    pub(crate) fn push_node(
        &mut self,
        op: Op,
        operands: &[Value],
        results: Vec<TensorType>,
        origin: Origin,
    ) -> Vec<Value> {
        let id = NodeId(self.nodes.len() as u32);
        let results: Vec<Value> =
            results.into_iter().enumerate().map(|(i, ty)| self.push_value(ty, Def::Node(id, i))).collect();
        self.nodes.push(Node { op, operands: operands.to_vec(), results: results.clone(), origin });
        results
    }

    pub(crate) fn set_value_name(&mut self, value: Value, name: &str) {
        self.values[value.0 as usize].name = Some(name.into());
    }

    pub(crate) fn push_output(&mut self, output: Output) {
        self.outputs.push(output);
    }

    fn push_value(&mut self, ty: TensorType, def: Def) -> Value {
        self.values.push(ValueInfo { ty, def, name: None });
        Value(self.values.len() as u32 - 1)
    }
}
