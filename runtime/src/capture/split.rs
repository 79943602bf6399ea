//! Pieces of a list of steps: what is recorded, and between that what is not.

use std::ops::Range;

/// Steps that follow each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Their numbers.
    pub steps: Range<usize>,
    /// Whether they are recorded as one graph; else they are enqueued by every call.
    pub captured: bool,
}

/// What becomes of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// It is recorded, with its neighbours.
    Captured,
    /// It is enqueued by every call, with the number of rows that the call has.
    Split,
    /// It does nothing, and belongs to whatever is beside it.
    Idle,
}

/// The pieces of a list of steps, which together are all of them that do something, in order.
pub fn split(parts: &[Part]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (step, part) in parts.iter().enumerate().filter(|(_, part)| **part != Part::Idle) {
        let captured = *part == Part::Captured;
        match pieces.last_mut() {
            Some(piece) if piece.captured == captured => piece.steps.end = step + 1,
            _ => pieces.push(Piece { steps: step..step + 1, captured }),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_kind_are_one_piece() {
        use Part::{Captured as C, Idle as I, Split as S};
        let of = |parts: &[Part]| -> Vec<(Range<usize>, bool)> {
            split(parts).into_iter().map(|piece| (piece.steps, piece.captured)).collect()
        };
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[I, I]), []);
        assert_eq!(of(&[C, C, C]), [(0..3, true)]);
        assert_eq!(of(&[C, S, S, C]), [(0..1, true), (1..3, false), (3..4, true)]);
        assert_eq!(of(&[I, C, I, C, I, S, I, S, C]), [(1..4, true), (5..8, false), (8..9, true)]);
    }
}
