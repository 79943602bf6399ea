//! Outputs in wider memory: the distance of their rows is an integer argument of the kernel.

use fusewright_abi::ParamAccess;
use fusewright_fusion::region::{Piece, RowForm};
use fusewright_graph::dim::{DimFn, product};
use fusewright_graph::{Dim, Graph};

use crate::kernel::Param;

/// Where the elements of a kernel's outputs lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outputs {
    /// One behind the other.
    #[default]
    Contiguous,
    /// Those of one step along the first axis one behind the other, and these steps as far apart as the argument
    /// [`stride_name`] says: of outputs of two axes or more that overwrite no input.
    Strided,
}

/// The integer argument that says how many elements lie between the beginnings of two rows of an output.
pub fn stride_name(output: usize) -> String {
    format!("out{output}_stride")
}

/// Gives outputs their strides, where their pieces let them have some, and the memory that these span.
pub(super) fn declare(body: &Graph, form: &mut RowForm, params: &mut [Param]) {
    let outputs = params.iter_mut().skip(body.inputs().len()).zip(body.outputs());
    for (i, (param, output)) in outputs.enumerate() {
        let shape = &body.ty(output.value).shape;
        let [rows, row @ ..] = &shape[..] else { continue };
        let plain = param.access == ParamAccess::Out && output.updates.is_none();
        let step = product(row);
        let own = |piece: &Piece| piece.output == i;
        let pieces = form.body.outputs().iter().zip(&form.pieces).filter(|(_, piece)| own(piece));
        let mut in_steps = pieces.map(|(o, piece)| has_part_of_each(&form.body.ty(o.value).shape, piece, rows, &step));
        if row.is_empty() || !plain || !in_steps.all(|holds| holds) {
            continue;
        }
        let stride = Dim::symbol(&stride_name(i));
        let before = &(rows - &Dim::constant(1)) * &stride;
        param.shape = vec![Dim::function(DimFn::Max, &(&before + &step), &Dim::constant(0))];
        for piece in form.pieces.iter_mut().filter(|piece| own(piece)) {
            piece.strides[0] = stride.clone();
        }
    }
}

/// Whether a piece of an output has a part of each step along the first axis, and walks these steps by its own first axis.
fn has_part_of_each(shape: &[Dim], piece: &Piece, steps: &Dim, step: &Dim) -> bool {
    shape.first() == Some(steps) && piece.strides.first() == Some(step)
}
