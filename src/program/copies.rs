//! Copies of views on a device, by kernels: the layout ops between a value that has memory and the view are a body like
//! those of regions.

use std::sync::Arc;

use fusewright_graph::{Builder, Def, Graph, Op, Prim, TensorType, TypeError, Value};

use super::layout::{Layouts, layout_op};
use super::step::CompiledKernel;

/// A kernel that copies the elements of a view.
#[derive(Clone, Debug)]
pub(crate) struct CopyKernel {
    pub kernel: Arc<CompiledKernel>,
    /// The value that has memory.
    pub source: Value,
    /// Its axes in the order of memory: the kernel's operand has them so.
    pub order: Vec<usize>,
}

/// The body of a copy.
pub(super) struct CopyBody {
    pub body: Graph,
    pub source: Value,
    pub order: Vec<usize>,
}

/// What copies a view that is made by layout ops; `None` if the memory behind it is not walked in any order of its axes.
///
/// # Errors
/// None for a graph that verifies.
pub(super) fn body(graph: &Graph, layouts: &Layouts, result: Value) -> Result<Option<CopyBody>, TypeError> {
    let mut ops: Vec<&Prim> = Vec::new();
    let mut source = result;
    loop {
        let (Def::Node(id, _), Some(op)) = (graph.def(source), layout_op(graph, source)) else { return Ok(None) };
        ops.push(op);
        source = graph.node(id).operands[0];
        match layouts.views.get(&source) {
            Some(view) if view.base == source => break,
            Some(_) => {}
            None => return Ok(None),
        }
    }
    let (ty, layout) = (graph.ty(source), &layouts.views[&source].layout);
    let Some(order) = layout.memory_order(&ty.shape) else { return Ok(None) };
    let b = Builder::new("copy");
    for symbol in graph.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let stored = order.iter().map(|&axis| ty.shape[axis].clone());
    let mut value = b.input("x0", TensorType::new(ty.dtype, stored));
    if !order.is_sorted() {
        let place = |axis: usize| order.iter().position(|&stored| stored == axis).unwrap_or(axis);
        value = b.prim(Prim::Permute { perm: (0..order.len()).map(place).collect() }, &[value])?;
    }
    for &op in ops.iter().rev() {
        value = b.op(Op::Prim(op.clone()), &[value])?[0];
    }
    b.output(value);
    Ok(Some(CopyBody { body: b.finish(), source, order }))
}
