//! Claims of a body about its sizes: slices lie inside their axes, axes that elements are gathered from have some, and a top-k has
//! enough lanes. The kernel carries them, and a driver refuses every launch of which one does not hold.

use std::collections::BTreeSet;

use fusewright_graph::{Dim, Graph, Op, Prim, Symbol, dim_range};

use crate::kernel::Claim;

/// The claims of a body that do not hold of all sizes, each once.
pub(super) fn claims(body: &Graph) -> Vec<Claim> {
    let mut claims = BTreeSet::new();
    let (zero, one) = (Dim::constant(0), Dim::constant(1));
    for node in body.nodes() {
        let extent = |axis: usize| body.ty(node.operands[0]).shape[axis].clone();
        match &node.op {
            Op::Prim(Prim::Slice { axis, start, end, .. }) => {
                claims.insert(Claim { least: zero.clone(), most: start.clone() });
                claims.insert(Claim { least: end.clone(), most: extent(*axis) });
            }
            Op::Prim(Prim::Gather { axis }) => {
                claims.insert(Claim { least: one.clone(), most: extent(*axis) });
            }
            Op::Prim(Prim::TopK { k }) => {
                let axis = body.ty(node.operands[0]).rank().saturating_sub(1);
                claims.insert(Claim { least: k.clone(), most: extent(axis) });
            }
            // Elsewhere the kernel asks whether there is a place at all.
            Op::Prim(Prim::Scatter { axis }) if has_places(body, &extent(*axis)) => {
                claims.insert(Claim { least: one.clone(), most: extent(*axis) });
            }
            _ => {}
        }
    }
    claims.into_iter().filter(|claim| !is_certain(claim)).collect()
}

/// Says whether an axis has a place under the ranges of a body's symbols.
pub(super) fn has_places(body: &Graph, extent: &Dim) -> bool {
    dim_range(extent, body.symbols()).is_some_and(|(least, _)| least >= 1)
}

/// Says whether a claim holds of all sizes.
fn is_certain(claim: &Claim) -> bool {
    let difference = &claim.most - &claim.least;
    let mut names = BTreeSet::new();
    difference.collect_symbols(&mut names);
    let sizes: Vec<Symbol> = names.into_iter().map(|name| Symbol { name, min: 0, max: None }).collect();
    dim_range(&difference, &sizes).is_some_and(|(least, _)| least >= 0)
}
