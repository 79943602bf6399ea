//! Operands of which an expansion takes lanes, as rotations do. Where such an operand is itself lanes of a wider value,
//! graphs hold one slice of that value, since `rewrite` merges the two.

use fusewright_graph::{Builder, Def, Dim, Graph, NodeId, Op, Prim, TensorType, TypeError, Value};

/// Lanes of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    of: Value,
    axis: usize,
    start: Dim,
    end: Dim,
    step: i64,
}

/// An operand of what is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A value.
    Value(Value),
    /// Lanes that no node cuts out by themselves.
    Lanes(Cut),
}

impl Cut {
    /// What a node cuts out.
    pub fn of(graph: &Graph, id: NodeId) -> Option<Cut> {
        let node = graph.node(id);
        let Op::Prim(Prim::Slice { axis, start, end, step }) = &node.op else { return None };
        Some(Cut { of: node.operands[0], axis: *axis, start: start.clone(), end: end.clone(), step: *step })
    }

    /// What makes a value, if neighbouring lanes of another.
    fn making(graph: &Graph, value: Value) -> Option<Cut> {
        let Def::Node(id, _) = graph.def(value) else { return None };
        Cut::of(graph, id).filter(|cut| cut.step == 1)
    }

    /// Whether a slice of these lanes and another slice, of what these are cut from, are the same lanes.
    pub fn holds(&self, inner: &Op, outer: &Op, outer_of: Value) -> bool {
        let Op::Prim(Prim::Slice { axis, start, end, step }) = inner else { return false };
        let moved = |d: &Dim| &self.start + d;
        let whole = Prim::Slice { axis: *axis, start: moved(start), end: moved(end), step: *step };
        self.of == outer_of && self.axis == *axis && *outer == Op::Prim(whole)
    }
}

impl Operand {
    /// The operand of which `whole` stands in the graph, or lanes, or both; `None` where they are not of one value.
    pub fn of(graph: &Graph, whole: Option<Value>, cuts: &[&Cut]) -> Option<Operand> {
        if let Some(value) = whole {
            let source = Cut::making(graph, value).map(|cut| cut.of);
            let fits = |cut: &&Cut| cut.of == value || Some(cut.of) == source;
            return cuts.iter().all(fits).then_some(Operand::Value(value));
        }
        let first = cuts.first()?;
        if cuts.iter().any(|cut| cut.of != first.of || cut.axis != first.axis) {
            return None;
        }
        let bounds = |of: fn(&Cut) -> &Dim| cuts.iter().map(|cut| of(cut).as_const()).collect::<Option<Vec<i64>>>();
        let start = bounds(|cut| &cut.start).and_then(|all| all.into_iter().min());
        let end = bounds(|cut| &cut.end).and_then(|all| all.into_iter().max());
        let extent = &graph.ty(first.of).shape[first.axis];
        match (start, end) {
            (Some(start), Some(end)) if start > 0 || extent.as_const() != Some(end) => {
                let [start, end] = [start, end].map(Dim::constant);
                Some(Operand::Lanes(Cut { of: first.of, axis: first.axis, start, end, step: 1 }))
            }
            _ => Some(Operand::Value(first.of)),
        }
    }

    /// The value that must be known.
    pub fn source(&self) -> Value {
        match self {
            Operand::Value(value) => *value,
            Operand::Lanes(cut) => cut.of,
        }
    }

    /// Type of the operand.
    pub fn ty(&self, graph: &Graph) -> TensorType {
        let mut ty = graph.ty(self.source()).clone();
        if let Operand::Lanes(cut) = self {
            ty.shape[cut.axis] = &cut.end - &cut.start;
        }
        ty
    }

    /// The lanes that the operand is of another value, if it is.
    pub fn cut(&self, graph: &Graph) -> Option<Cut> {
        match self {
            Operand::Value(value) => Cut::making(graph, *value),
            Operand::Lanes(cut) => Some(cut.clone()),
        }
    }

    /// The operand in a new graph, where its source is a given value.
    ///
    /// # Errors
    /// None where the source is what it was.
    pub fn emit(&self, b: &Builder, source: Value) -> Result<Value, TypeError> {
        match self {
            Operand::Value(_) => Ok(source),
            Operand::Lanes(cut) => b.slice(source, cut.axis, cut.start.clone(), cut.end.clone()),
        }
    }
}
