//! Kernel IR: row programs.
//!
//! A [`Kernel`] computes `rows` independent *outer rows* (tokens). It is made of one or more [`Segment`]s, each of
//! which runs `inner` *inner rows* (heads) for every outer row; a plain row program has one segment with `inner = 1`.
//! A segment is a list of instructions in SSA form over these values:
//!
//! | shape | what it is |
//! |---|---|
//! | `row<T, n>` | `n` lanes |
//! | `group<T, n, g>` | one element per `g` lanes of a row of `n`, the last group possibly shorter: `⌈n/g⌉` elements |
//! | `scalar<T>` | one element |
//!
//! A value's *level* is inferred: `kernel` if it depends on no row index (a parameter vector, an eps), `outer` if it
//! is the same for all inner rows of an outer row (position, cos/sin), `inner` otherwise.
//!
//! **Indices** are integer polynomials ([`Dim`]) with `floordiv`, `mod`, `min`, `max` over: dims of the kernel, the
//! reserved symbols [`ROW`], [`INNER`] and [`LANE`], and gathered integers, written `%v` for an integer scalar value `v`.
//! They count elements from the start of a parameter.
//!
//! **Meaning.** Maps broadcast scalars and groups over rows; every result is the exact value rounded once to its dtype.
//! A reduction combines in the order its [`Order`] states, every partial result in the operand's dtype. Loads and
//! stores move bits. A predicated load yields `otherwise` where the predicate is false; a predicated store writes
//! `otherwise` there if it has one (a padding store), else nothing. Stores of a row happen after all its loads, so a
//! parameter may alias another row by row. No two rows write one element, and none reads what another writes: outer
//! rows, segments and inner rows may run in any order or side by side. Where values choose the places of stores, rows may
//! choose the same one, and what the last of them writes stays.

mod build;
mod cut_rows;
pub mod expand;
mod infer;
mod inst;
pub mod interp;
pub(crate) mod parts;
pub mod simplify;
pub mod text;
pub mod verify;

use std::fmt;

use fusewright_abi::{DType, ParamAccess};
use fusewright_graph::Dim;

pub use build::SegmentBuilder;
pub use infer::InstError;
pub use inst::{Inst, InstOp, Order, Over, Tree};
pub use text::parse_kernels;
pub use verify::{VerifyError, Violation, verify};

/// Symbol of the outer row index in indices.
pub const ROW: &str = "row";
/// Symbol of the inner row index.
pub const INNER: &str = "inner";
/// Symbol of the lane (for a group: the group's number).
pub const LANE: &str = "lane";

/// A value of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Val(pub u32);

impl Val {
    /// The value as an index symbol, for gathered integers.
    pub fn symbol(self) -> Dim {
        Dim::symbol(&format!("%{}", self.0))
    }

    /// The value that an index symbol stands for.
    pub fn from_symbol(symbol: &str) -> Option<Val> {
        symbol.strip_prefix('%')?.parse().ok().map(Val)
    }
}

impl fmt::Debug for Val {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// Shape of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// One element.
    Scalar,
    /// That many lanes.
    Row(Dim),
    /// One element per `size` lanes of a row of `lanes`.
    Group {
        /// Lanes of the row.
        lanes: Dim,
        /// Lanes per group.
        size: Dim,
    },
}

impl Shape {
    /// Number of elements.
    pub fn elements(&self) -> Dim {
        match self {
            Shape::Scalar => Dim::constant(1),
            Shape::Row(lanes) => lanes.clone(),
            Shape::Group { lanes, size } => lanes.ceil_div(size),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Scalar => f.write_str("a scalar"),
            Shape::Row(lanes) => write!(f, "a row of {lanes} lanes"),
            Shape::Group { lanes, size } => write!(f, "groups of {size} in {lanes} lanes"),
        }
    }
}

/// Type of a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ty {
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
}

impl Ty {
    /// One element.
    pub fn scalar(dtype: DType) -> Self {
        Ty { dtype, shape: Shape::Scalar }
    }

    /// `lanes` lanes.
    pub fn row(dtype: DType, lanes: Dim) -> Self {
        Ty { dtype, shape: Shape::Row(lanes) }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Scalar => write!(f, "scalar<{}>", self.dtype),
            Shape::Row(lanes) => write!(f, "row<{}, {lanes}>", self.dtype),
            Shape::Group { lanes, size } => write!(f, "group<{}, {lanes}, {size}>", self.dtype),
        }
    }
}

/// How often a value changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// The same for all rows.
    Kernel,
    /// The same for all inner rows of an outer row.
    Outer,
    /// Per inner row.
    Inner,
}

/// An index into [`Kernel::params`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParamId(pub u32);

/// A buffer argument.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// Name, unique in the kernel.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents of the tensor, outermost first.
    pub shape: Vec<Dim>,
    /// How it is touched.
    pub access: ParamAccess,
    /// The parameter that may be the same memory, row by row.
    pub alias: Option<ParamId>,
    /// Whether the kernel may keep the memory for other purposes once it is read.
    pub donated: bool,
    /// Whether it may be loaded before the wait for the preceding kernel, because no running kernel writes it.
    pub early: bool,
}

/// Where an integer argument comes from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DimOrigin {
    /// The extent of an axis of a parameter.
    Extent(ParamId, usize),
    /// The stride, in elements, of an axis of a parameter.
    Stride(ParamId, usize),
    /// Given by the caller.
    Symbol,
}

/// A named integer argument.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DimDecl {
    /// Name, unique in the kernel and not a reserved symbol.
    pub name: String,
    /// Where it comes from.
    pub origin: DimOrigin,
}

/// A claim says that one number is not above another. A driver refuses launches of which it does not hold.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Claim {
    /// This side is not the larger.
    pub least: Dim,
    /// This side is not the smaller.
    pub most: Dim,
}

/// A row program over the inner rows of each outer row.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Segment {
    /// Name in text forms.
    pub name: String,
    /// Inner rows per outer row.
    pub inner: Dim,
    /// Instructions in SSA order.
    pub insts: Vec<Inst>,
    /// Types of the values, by [`Val`].
    pub types: Vec<Ty>,
}

impl Segment {
    /// Type of a value.
    pub fn ty(&self, value: Val) -> &Ty {
        &self.types[value.0 as usize]
    }

    /// The instruction that defines each value, by [`Val`].
    pub fn definitions(&self) -> Vec<usize> {
        let mut at = vec![0; self.types.len()];
        for (i, inst) in self.insts.iter().enumerate() {
            for result in &inst.results {
                at[result.0 as usize] = i;
            }
        }
        at
    }

    /// The level of every value, by [`Val`].
    pub fn levels(&self) -> Vec<Level> {
        let mut levels = vec![Level::Kernel; self.types.len()];
        for inst in &self.insts {
            let of_index = inst.op.index().map_or(Level::Kernel, |index| {
                let mut names = std::collections::BTreeSet::new();
                index.collect_symbols(&mut names);
                let level = |name: &String| match (name.as_str(), Val::from_symbol(name)) {
                    (INNER, _) => Level::Inner,
                    (ROW, _) => Level::Outer,
                    (_, Some(value)) => levels[value.0 as usize],
                    _ => Level::Kernel,
                };
                names.iter().map(level).max().unwrap_or(Level::Kernel)
            });
            let level = inst.args.iter().map(|v| levels[v.0 as usize]).fold(of_index, Level::max);
            for result in &inst.results {
                levels[result.0 as usize] = level;
            }
        }
        levels
    }
}

/// One kernel. See the module documentation for its meaning.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    /// Name, valid as a C identifier.
    pub name: String,
    /// Integer arguments.
    pub dims: Vec<DimDecl>,
    /// These hold of the integer arguments of every launch that computes a row.
    pub claims: Vec<Claim>,
    /// Buffer arguments.
    pub params: Vec<Param>,
    /// Number of outer rows.
    pub rows: Dim,
    /// Row programs of every outer row; they are independent of each other.
    pub segments: Vec<Segment>,
}

impl Kernel {
    /// One parameter.
    pub fn param(&self, id: ParamId) -> &Param {
        &self.params[id.0 as usize]
    }
}
