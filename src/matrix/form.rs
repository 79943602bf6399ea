//! What stands around the op of a combination, and which layouts a combination meets.

use fusewright_abi::DType;

use super::{DTYPES, LANES, ROWS};

/// What becomes of the op's result, and of what it is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Nothing more.
    Plain,
    /// It is multiplied by a second tensor.
    Product,
    /// It is multiplied by one number per lane, and another is added.
    Affine,
    /// The op takes the first half of a row; the second half multiplies its result.
    FirstHalf,
    /// The other way round.
    SecondHalf,
    /// Neighbours are what the op takes and what multiplies its result.
    Neighbours,
}

impl Form {
    /// All of them.
    pub(super) const ALL: [Form; 6] =
        [Form::Plain, Form::Product, Form::Affine, Form::FirstHalf, Form::SecondHalf, Form::Neighbours];

    /// Whether a row holds an operand and a factor.
    pub(super) fn is_gate(self) -> bool {
        matches!(self, Form::FirstHalf | Form::SecondHalf | Form::Neighbours)
    }

    /// The word in a combination's name.
    pub(super) fn word(self) -> Option<&'static str> {
        Some(match self {
            Form::Plain => return None,
            Form::Product => "mul",
            Form::Affine => "affine",
            Form::FirstHalf => "gate_first",
            Form::SecondHalf => "gate_second",
            Form::Neighbours => "gate_neighbours",
        })
    }
}

/// How rows lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// One behind the other; the number of lanes is a constant.
    Contiguous,
    /// Cut out of wider rows, which begin anywhere.
    Strided,
    /// One behind the other; the number of lanes is a symbol.
    Symbolic,
}

impl Layout {
    /// All of them.
    const ALL: [Layout; 3] = [Layout::Contiguous, Layout::Strided, Layout::Symbolic];

    /// The word in a combination's name.
    pub(super) fn word(self) -> &'static str {
        match self {
            Layout::Contiguous => "contiguous",
            Layout::Strided => "strided",
            Layout::Symbolic => "symbolic",
        }
    }
}

/// One choice of layout, dtype, lanes and rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub layout: Layout,
    pub dtype: DType,
    pub lanes: i64,
    pub rows: i64,
    /// A residual is added, where there is one in half of the places only.
    pub odd: bool,
}

/// The places that a combination meets, 27 or 9 of 81: every three choices of the four come together, or every two.
pub(super) fn places(every_three: bool) -> Vec<Place> {
    let mut places = Vec::new();
    for (l, layout) in Layout::ALL.into_iter().enumerate() {
        for (d, dtype) in DTYPES.into_iter().enumerate() {
            for (n, lanes) in LANES.into_iter().enumerate() {
                for (r, rows) in ROWS.into_iter().enumerate() {
                    let meets = if every_three {
                        (l + d + n + r) % 3 == 0
                    } else {
                        (l + d + n) % 3 == 0 && (l + 2 * d + r) % 3 == 0
                    };
                    if meets {
                        places.push(Place { layout, dtype, lanes, rows, odd: (l + d) % 2 == 1 });
                    }
                }
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_two_or_three_choices_come_together() {
        for (every_three, chosen, count) in [(true, 3, 27), (false, 2, 9)] {
            let places = places(every_three);
            assert_eq!(places.len(), count);
            let choices =
                |p: &Place| [p.layout.word().to_owned(), p.dtype.to_string(), p.lanes.to_string(), p.rows.to_string()];
            for axes in 0..16u32 {
                if axes.count_ones() != chosen {
                    continue;
                }
                let of = |p: &Place| {
                    (0..4).filter(|i| axes >> i & 1 == 1).map(|i| choices(p)[i].clone()).collect::<Vec<_>>()
                };
                let met: BTreeSet<Vec<String>> = places.iter().map(of).collect();
                assert_eq!(met.len(), 3usize.pow(chosen), "{axes:b}");
            }
        }
    }
}
