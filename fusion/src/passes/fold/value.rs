//! What constants are, and what an op makes of them.

use fusewright_graph::interp::{self, Symbols};
use fusewright_graph::tensor::Tensor;
use fusewright_graph::{Builder, Literal, Op, Prim, TensorType, Value};

use super::{MOST, spread};

/// A constant.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// The same element everywhere, whatever the shape.
    Same(Literal),
    /// A small tensor of elements that differ.
    Tensor(Tensor),
}

/// What an op of constants gives, if that is a constant.
pub(super) fn of(b: &Builder, op: &Op, operands: &[Value], known: &[&Known]) -> Option<Known> {
    let elements = known.iter().map(|known| match known {
        Known::Same(element) => Some(*element),
        Known::Tensor(_) => None,
    });
    let found = elements.collect::<Option<Vec<Literal>>>().and_then(|elements| same(op, &elements));
    if found.is_some() {
        return found.map(Known::Same);
    }
    match op {
        // Their values come from outside or depend on it.
        Op::Prim(Prim::Opaque { .. } | Prim::AllReduce(_)) => None,
        _ => {
            let types: Vec<TensorType> = operands.iter().map(|&v| b.ty(v)).collect();
            types.iter().all(is_small).then(|| computed(op, &types, known)).flatten()
        }
    }
}

/// The element that an op gives everywhere, where that follows from the elements of its operands alone.
pub(super) fn same(op: &Op, elements: &[Literal]) -> Option<Literal> {
    let Op::Prim(prim) = op else { return None };
    match prim {
        Prim::Literal(literal) => Some(*literal),
        Prim::Map(_) | Prim::Cast { .. } | Prim::Bitcast { .. } => {
            let types: Vec<TensorType> = elements.iter().map(|e| TensorType::scalar(e.dtype())).collect();
            let known: Vec<Known> = elements.iter().copied().map(Known::Same).collect();
            match computed(op, &types, &known.iter().collect::<Vec<_>>())? {
                Known::Same(element) => Some(element),
                Known::Tensor(_) => None,
            }
        }
        Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. } => {
            elements.first().copied()
        }
        Prim::Cat { .. } => {
            let (first, rest) = elements.split_first()?;
            rest.iter().all(|other| other == first).then_some(*first)
        }
        _ => None,
    }
}

fn is_small(ty: &TensorType) -> bool {
    ty.elements().as_const().is_some_and(|n| n <= MOST)
}

/// The op on constants of the given types, where it has one result, a small one.
fn computed(op: &Op, types: &[TensorType], known: &[&Known]) -> Option<Known> {
    let b = Builder::new("constant");
    let mut tensors = Vec::new();
    let mut operands = Vec::with_capacity(types.len());
    for (ty, known) in types.iter().zip(known) {
        operands.push(match known {
            Known::Same(element) => spread(&b, *element, &ty.shape).ok()?,
            Known::Tensor(tensor) => {
                tensors.push(tensor.clone());
                b.input(&format!("x{}", tensors.len()), ty.clone())
            }
        });
    }
    let results = b.op(op.clone(), &operands).ok()?;
    let &[result] = results.as_slice() else { return None };
    if !is_small(&b.ty(result)) {
        return None;
    }
    b.output(result);
    // What has no value, such as a gather out of range, is left to whoever runs the graph.
    let tensor = interp::run(&b.finish(), &tensors, &Symbols::new()).ok()?.pop()?;
    // A constant has the canonical NaN and no other.
    if (0..tensor.len()).any(|i| element(&tensor, i).map(|e| e.code()) != tensor.code(i)) {
        return None;
    }
    Some(match uniform(&tensor) {
        Some(element) => Known::Same(element),
        None if tensor.is_empty() => return None,
        None => Known::Tensor(tensor),
    })
}

/// The element that a tensor has everywhere.
fn uniform(tensor: &Tensor) -> Option<Literal> {
    let first = tensor.code(0)?;
    if (1..tensor.len()).any(|i| tensor.code(i) != Some(first)) {
        return None;
    }
    element(tensor, 0)
}

/// One element of a tensor.
pub(super) fn element(tensor: &Tensor, at: usize) -> Option<Literal> {
    let float = tensor.floats().and_then(|v| Some(Literal::Float(tensor.dtype(), *v.get(at)?)));
    float.or_else(|| tensor.ints().and_then(|v| Some(Literal::Int(tensor.dtype(), *v.get(at)?))))
}
