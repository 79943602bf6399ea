//! The form in which a body is a row program: which tensor each of its inputs reads, and where its outputs are stored.

use fusewright_graph::axes::contiguous_strides;
use fusewright_graph::{Dim, Graph};

/// A body whose inputs and outputs stand for those of another: a tensor may be read by several inputs, and an output
/// may be stored in pieces.
#[derive(Clone, Debug)]
pub struct RowForm {
    /// The row program.
    pub body: Graph,
    /// By input of the row program, the position of the input of the other body that it reads.
    pub inputs: Vec<usize>,
    /// By output of the row program, where it is stored.
    pub pieces: Vec<Piece>,
}

/// Where a value is stored: all of an output, or a part of it that no other piece has. Of writes at chosen places, each
/// piece is all of the output, and no place of one is a place of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The position of the output.
    pub output: usize,
    /// First element, counted from the start of the output.
    pub offset: Dim,
    /// Distance of neighbours along each dim of the value, in elements of the output.
    pub strides: Vec<Dim>,
}

impl RowForm {
    /// A body as it stands.
    pub fn plain(body: &Graph) -> RowForm {
        let outputs = body.outputs().iter().enumerate();
        let pieces = outputs.map(|(i, o)| Piece::whole(i, &body.ty(o.value).shape)).collect();
        RowForm { body: body.clone(), inputs: (0..body.inputs().len()).collect(), pieces }
    }

    /// The form in which another body is a row program, whose own form is this one's body and stores all outputs whole.
    pub(super) fn of(self, other: &RowForm) -> RowForm {
        let inputs = self.inputs.iter().map(|&input| other.inputs[input]).collect();
        let of = |piece: Piece| Piece { output: other.pieces[piece.output].output, ..piece };
        RowForm { body: self.body, inputs, pieces: self.pieces.into_iter().map(of).collect() }
    }

    /// Number of outputs of the other body. Each has a piece.
    pub fn output_count(&self) -> usize {
        self.pieces.iter().map(|piece| piece.output + 1).max().unwrap_or(0)
    }
}

impl Piece {
    /// All of an output of the given shape.
    pub(super) fn whole(output: usize, shape: &[Dim]) -> Piece {
        Piece { output, offset: Dim::constant(0), strides: contiguous_strides(shape) }
    }
}
