//! How the scales of a quantiser lie in memory: what is done to them behind it.

use fusewright_abi::DType::{self, F8E4M3, F8E8M0, F32, I32, U8};
use fusewright_graph::ops::Composite;
use fusewright_graph::{Builder, Dim, Prim, Rounding, TypeError, Value};

/// Rows and columns of a tile.
const TILE: [i64; 2] = [128, 4];
/// Bytes of a word.
const WORD: i64 = 4;
/// Rows to which columns of words are filled up: 16 bytes.
const ALIGNED: i64 = 4;

/// The layout of scales, of which a row has one per group of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScaleLayout {
    /// As the quantiser gives them: row by row.
    Rows,
    /// One column after the other.
    Columns,
    /// Columns that begin at multiples of 16 bytes.
    Aligned,
    /// Four exponents in a word, a column of words after the other, filled up with zeros both ways.
    Words,
    /// Tiles of 128 rows by four columns, filled up with zeros both ways.
    Tiles,
    /// The same, read as words of four bytes.
    TileWords,
}

impl ScaleLayout {
    /// Those that are not what the quantiser gives.
    pub(super) const MOVED: [ScaleLayout; 5] =
        [ScaleLayout::Columns, ScaleLayout::Aligned, ScaleLayout::Words, ScaleLayout::Tiles, ScaleLayout::TileWords];

    /// The word in a combination's name.
    pub(super) fn word(self) -> Option<&'static str> {
        Some(match self {
            ScaleLayout::Rows => return None,
            ScaleLayout::Columns => "columns",
            ScaleLayout::Aligned => "aligned",
            ScaleLayout::Words => "words",
            ScaleLayout::Tiles => "tiles",
            ScaleLayout::TileWords => "tile_words",
        })
    }

    /// Whether scales of a quantiser may lie so: words are of exponents, and tiles of bytes.
    pub(super) fn takes(self, op: &Composite, scales: DType) -> bool {
        let exponents = scales == F8E8M0 || op.attrs().0.iter().any(|(_, text)| text == "power_of_two");
        match self {
            ScaleLayout::Rows | ScaleLayout::Columns => true,
            ScaleLayout::Aligned => scales == F32,
            ScaleLayout::Words => exponents,
            ScaleLayout::Tiles | ScaleLayout::TileWords => matches!(scales, F8E4M3 | F8E8M0),
        }
    }

    /// The scales of rows, `[s, groups]`, in this layout.
    pub(super) fn of(self, b: &Builder, scales: Value) -> Result<Value, TypeError> {
        let columns = |x| b.prim(Prim::Permute { perm: vec![1, 0] }, &[x]);
        match self {
            ScaleLayout::Rows => Ok(scales),
            ScaleLayout::Columns => columns(scales),
            ScaleLayout::Aligned => filled(b, columns(scales)?, 1, ALIGNED),
            ScaleLayout::Words => {
                let words = words(b, filled(b, bytes(b, scales)?, 1, WORD)?)?;
                filled(b, columns(words)?, 1, ALIGNED)
            }
            ScaleLayout::Tiles => tiles(b, scales),
            ScaleLayout::TileWords => words(b, tiles(b, scales)?),
        }
    }
}

/// Exponents or codes as bytes.
fn bytes(b: &Builder, scales: Value) -> Result<Value, TypeError> {
    let exponent = |x| b.prim(Prim::Cast { to: F8E8M0, round: Rounding::NearestEven, saturate: false }, &[x]);
    let codes = if b.dtype(scales) == F32 { exponent(scales)? } else { scales };
    b.bitcast(codes, U8)
}

fn words(b: &Builder, bytes: Value) -> Result<Value, TypeError> {
    b.prim(Prim::Pack { ways: WORD as u32, to: I32 }, &[bytes])
}

fn tiles(b: &Builder, scales: Value) -> Result<Value, TypeError> {
    let [rows, columns] = TILE;
    let wide = filled(b, bytes(b, scales)?, 1, columns)?;
    let whole = filled(b, wide, 0, rows)?;
    let shape = b.ty(whole).shape;
    let [down, across] = [(0, rows), (1, columns)].map(|(axis, tile): (usize, i64)| shape[axis].ceil_div(&tile.into()));
    let tiles = b.reshape(whole, vec![down, columns.into(), (rows / columns).into(), across, columns.into()])?;
    let moved = b.prim(Prim::Permute { perm: vec![0, 3, 2, 1, 4] }, &[tiles])?;
    b.reshape(moved, shape)
}

/// Zeros behind the end of an axis, up to a multiple.
fn filled(b: &Builder, x: Value, axis: usize, multiple: i64) -> Result<Value, TypeError> {
    let ty = b.ty(x);
    let by = Dim::constant(multiple);
    let missing = &(&ty.shape[axis].ceil_div(&by) * &by) - &ty.shape[axis];
    if missing.as_const() == Some(0) {
        return Ok(x);
    }
    let mut shape = ty.shape.clone();
    shape[axis] = missing;
    let zero = if ty.dtype.is_float() { b.float(ty.dtype, 0.0)? } else { b.int(ty.dtype, 0)? };
    b.cat(&[x, b.prim(Prim::Expand { shape }, &[zero])?], axis)
}
