//! Extents that an op needs to be equal.

use crate::dim::{Dim, product};
use crate::prim::Prim;
use crate::ty::TensorType;

/// The first two extents that differ though the op needs them to be equal; `None` if its operands fail it otherwise.
pub(crate) fn unequal(prim: &Prim, operands: &[&TensorType]) -> Option<(Dim, Dim)> {
    needed(prim, operands).into_iter().find(|(a, b)| a != b).map(|(a, b)| (a.clone(), b.clone()))
}

fn needed(prim: &Prim, operands: &[&TensorType]) -> Vec<(Dim, Dim)> {
    match (prim, operands) {
        (Prim::Map(_), _) => broadcast(operands.iter().map(|ty| ty.shape.as_slice())),
        (Prim::Expand { shape }, [x]) => broadcast([shape.as_slice(), &x.shape]),
        (Prim::Reshape { shape }, [x]) => vec![(x.elements(), product(shape))],
        (Prim::Cat { axis }, [first, rest @ ..]) => {
            let others = rest.iter().flat_map(|other| first.shape.iter().zip(&other.shape).enumerate());
            others.filter(|(i, _)| i != axis).map(|(_, (a, b))| (a.clone(), b.clone())).collect()
        }
        (Prim::Scatter { axis } | Prim::ScatterReduce { axis, .. }, [x, indices, updates]) => {
            let mut chosen = x.shape.clone();
            if let (Some(extent), [count]) = (chosen.get_mut(*axis), indices.shape.as_slice()) {
                *extent = count.clone();
            }
            pairs(&chosen, &updates.shape)
        }
        (Prim::MatMul { transpose_b, .. }, [a, b]) => {
            let (Some((batch_a, [_, k])), Some((batch_b, [k_or_n, n_or_k]))) =
                (a.shape.split_last_chunk::<2>(), b.shape.split_last_chunk::<2>())
            else {
                return Vec::new();
            };
            let mut pairs = pairs(batch_a, batch_b);
            pairs.push((k.clone(), if *transpose_b { n_or_k } else { k_or_n }.clone()));
            pairs
        }
        (Prim::Sdpa(_), [q, k, v, mask @ ..]) if [q, k, v].iter().all(|ty| ty.rank() == 4) => {
            let mut needed = pairs(&k.shape[..3], &v.shape[..3]);
            needed.extend([0, 3].map(|axis| (q.shape[axis].clone(), k.shape[axis].clone())));
            let scores: Vec<Dim> = q.shape[..3].iter().chain([&k.shape[2]]).cloned().collect();
            needed.extend(mask.iter().flat_map(|mask| broadcast([scores.as_slice(), &mask.shape])));
            needed
        }
        _ => Vec::new(),
    }
}

fn pairs(a: &[Dim], b: &[Dim]) -> Vec<(Dim, Dim)> {
    a.iter().cloned().zip(b.iter().cloned()).collect()
}

/// Extents that meet when shapes broadcast; those of one meet nothing.
fn broadcast<'a>(shapes: impl IntoIterator<Item = &'a [Dim]>) -> Vec<(Dim, Dim)> {
    let (mut joined, mut pairs): (Vec<Dim>, Vec<(Dim, Dim)>) = (Vec::new(), Vec::new());
    for shape in shapes {
        for (i, extent) in shape.iter().rev().enumerate() {
            match joined.get_mut(i) {
                None => joined.push(extent.clone()),
                Some(known) if known.as_const() == Some(1) => *known = extent.clone(),
                Some(_) if extent.as_const() == Some(1) => {}
                Some(known) => pairs.push((known.clone(), extent.clone())),
            }
        }
    }
    pairs
}
