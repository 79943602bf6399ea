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
    /// The op takes the first half of a row; the second half multiplies its result, or is the op's second row.
    FirstHalf,
    /// The other way round.
    SecondHalf,
    /// Neighbours are what the op takes and what multiplies its result.
    Neighbours,
    /// Halves as in [`Form::FirstHalf`]; rows are those of experts, and beyond the number that each has the result is zero.
    Masked,
    /// The op works on groups of lanes, as norms of heads do.
    Heads,
}

impl Form {
    /// All of them.
    pub(super) const ALL: [Form; 8] = [
        Form::Plain,
        Form::Product,
        Form::Affine,
        Form::FirstHalf,
        Form::SecondHalf,
        Form::Neighbours,
        Form::Masked,
        Form::Heads,
    ];

    /// Whether a row holds an operand and a factor.
    pub(super) fn is_gate(self) -> bool {
        matches!(self, Form::FirstHalf | Form::SecondHalf | Form::Neighbours | Form::Masked)
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
            Form::Masked => "gate_masked",
            Form::Heads => "heads",
        })
    }
}

/// The scales of rows that are codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scales {
    /// One for all int8 codes.
    Tensor,
    /// One for each row of e4m3 codes.
    Token,
    /// One for each 64 lanes of e4m3 codes.
    Group,
    /// One for each 32 lanes of e2m1 codes, two in a byte.
    Block,
}

impl Scales {
    /// All of them.
    pub(super) const ALL: [Scales; 4] = [Scales::Tensor, Scales::Token, Scales::Group, Scales::Block];

    /// Dtype of the codes.
    pub(super) fn codes(self) -> DType {
        match self {
            Scales::Tensor => DType::I8,
            Scales::Token | Scales::Group => DType::F8E4M3,
            Scales::Block => DType::F4E2M1,
        }
    }

    /// Lanes of a group.
    pub(super) fn lanes(self) -> Option<i64> {
        match self {
            Scales::Tensor | Scales::Token => None,
            Scales::Group => Some(64),
            Scales::Block => Some(32),
        }
    }
}

/// How rows lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// One behind the other; the number of lanes is a constant.
    Contiguous,
    /// Cut out of wider rows, which begin anywhere.
    Strided,
    /// One behind the other; the number of lanes is a symbol, or a symbol times the largest group where groups divide it.
    Symbolic,
    /// One behind the other; those of results are cut out of wider ones.
    Slices,
    /// As codes with scales, from which rows are made first.
    Codes(Scales),
}

impl Layout {
    /// Those of rows that are there.
    const ALL: [Layout; 3] = [Layout::Contiguous, Layout::Strided, Layout::Symbolic];

    /// The word in a combination's name.
    pub(super) fn word(self) -> &'static str {
        match self {
            Layout::Contiguous => "contiguous",
            Layout::Strided => "strided",
            Layout::Symbolic => "symbolic",
            Layout::Slices => "slices",
            Layout::Codes(Scales::Tensor) => "int8_tensor",
            Layout::Codes(Scales::Token) => "fp8_token",
            Layout::Codes(Scales::Group) => "fp8_group64",
            Layout::Codes(Scales::Block) => "fp4_block32",
        }
    }
}

/// What an op is given beside its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operands {
    /// Every operand it takes.
    All,
    /// That many operands: those behind them are left out.
    First(usize),
    /// Every operand, one number per lane in f32 whatever the dtype of rows.
    Wide,
    /// One number per lane where its definition shows one for all.
    PerLane,
    /// One number for all where its definition shows one per lane.
    Single,
    /// As scale the largest magnitude of all rows over the bound of codes: of a quantiser that is given one.
    Tensor,
}

impl Operands {
    /// The word in a combination's name.
    pub(super) fn word(self) -> Option<String> {
        match self {
            Operands::All => None,
            Operands::First(n) => Some(format!("of_{n}")),
            Operands::Wide => Some("f32_weights".to_owned()),
            Operands::PerLane => Some("channel".to_owned()),
            Operands::Single => Some("single".to_owned()),
            Operands::Tensor => Some("tensor".to_owned()),
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

/// How many choices of a place come together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strength {
    /// Every choice is in some place. The number turns which of them meet.
    One(usize),
    /// Every two.
    Two,
    /// Every three.
    Three,
}

/// The places that a combination meets: 3, 9 or 27 of 81.
pub(super) fn places(strength: Strength) -> Vec<Place> {
    let mut places = Vec::new();
    for (l, layout) in Layout::ALL.into_iter().enumerate() {
        for (d, dtype) in DTYPES.into_iter().enumerate() {
            for (n, lanes) in LANES.into_iter().enumerate() {
                for (r, rows) in ROWS.into_iter().enumerate() {
                    let meets = match strength {
                        Strength::One(turn) => {
                            (l + turn) % 3 == d && (n + turn / 3) % 3 == d && (r + turn / 9) % 3 == d
                        }
                        Strength::Two => (l + d + n) % 3 == 0 && (l + 2 * d + r) % 3 == 0,
                        Strength::Three => (l + d + n + r) % 3 == 0,
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
    fn choices_come_together_as_the_strength_says() {
        let turned = (0..27).map(|turn| (Strength::One(turn), 1, 3));
        for (strength, chosen, count) in turned.chain([(Strength::Three, 3, 27), (Strength::Two, 2, 9)]) {
            let places = places(strength);
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
