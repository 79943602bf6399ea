//! The closed set of primitive ops.
//!
//! Every pass, interpreter and lowering matches this enum exhaustively. Each variant's doc states its operands, its
//! result and its meaning to the bit; shape rules are in `infer.rs`.

use fusewright_abi::DType;

use crate::dim::Dim;
use crate::num;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// How a cast rounds when the target type cannot hold the value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rounding {
    /// To nearest, ties to even.
    NearestEven,
    /// Toward zero.
    TowardZero,
    /// Toward minus infinity.
    Down,
    /// Toward plus infinity.
    Up,
    /// To nearest, ties away from zero.
    HalfAway,
}

impl Rounding {
    /// Every mode, in declaration order.
    pub const ALL: [Rounding; 5] =
        [Rounding::NearestEven, Rounding::TowardZero, Rounding::Down, Rounding::Up, Rounding::HalfAway];

    /// Name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            Rounding::NearestEven => "rne",
            Rounding::TowardZero => "trunc",
            Rounding::Down => "floor",
            Rounding::Up => "ceil",
            Rounding::HalfAway => "half_away",
        }
    }
}

/// What a reduction combines with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReduceOp {
    /// Sum; starts from +0.
    Add,
    /// Product; starts from 1.
    Mul,
    /// Largest; starts from −inf (or the least integer).
    Max,
    /// Smallest; starts from +inf (or the greatest integer).
    Min,
}

impl ReduceOp {
    /// Every op, in declaration order.
    pub const ALL: [ReduceOp; 4] = [ReduceOp::Add, ReduceOp::Mul, ReduceOp::Max, ReduceOp::Min];

    /// Name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Add => "add",
            ReduceOp::Mul => "mul",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
        }
    }

    /// The function that combines two partial results.
    pub const fn step(self, nan: NanRule) -> ScalarFn {
        match (self, nan) {
            (ReduceOp::Add, _) => ScalarFn::Add,
            (ReduceOp::Mul, _) => ScalarFn::Mul,
            (ReduceOp::Max, NanRule::Propagate) => ScalarFn::Max,
            (ReduceOp::Max, NanRule::Ignore) => ScalarFn::MaxNum,
            (ReduceOp::Min, NanRule::Propagate) => ScalarFn::Min,
            (ReduceOp::Min, NanRule::Ignore) => ScalarFn::MinNum,
        }
    }

    /// What accumulators start from: 0, 1, or the value that every other one beats (the largest number of either sign
    /// where a float format has no infinity).
    pub fn start(self, dtype: DType) -> Literal {
        if dtype.is_float() {
            let infinite = num::decode(dtype, num::encode(dtype, f64::INFINITY)).is_infinite();
            let top = if infinite { f64::INFINITY } else { num::max_finite(dtype) };
            let value = match self {
                ReduceOp::Add => 0.0,
                ReduceOp::Mul => 1.0,
                // e8m0 has no sign.
                ReduceOp::Max if dtype == DType::F8E8M0 => num::decode(dtype, 0),
                ReduceOp::Max => -top,
                ReduceOp::Min => top,
            };
            // What a format cannot hold, such as an e8m0 zero, starts from its code.
            return Literal::Float(dtype, num::decode(dtype, num::encode(dtype, value)));
        }
        let (least, greatest) = num::int_range(dtype);
        let value = match self {
            ReduceOp::Add => 0,
            ReduceOp::Mul => 1,
            ReduceOp::Max => least as i64,
            ReduceOp::Min => greatest as i64,
        };
        Literal::Int(dtype, value)
    }
}

/// What a max or min reduction does with NaN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NanRule {
    /// One NaN makes the result NaN (PyTorch).
    Propagate,
    /// NaN operands are skipped (`fmaxf`).
    Ignore,
}

impl NanRule {
    /// Name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            NanRule::Propagate => "propagate",
            NanRule::Ignore => "ignore",
        }
    }
}

/// What a bitcast of floats reads of a NaN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum NanBits {
    /// The canonical NaN, whatever it is: which NaN a computation gives is nobody's promise.
    #[default]
    One,
    /// Its own bits. Only an element that was moved and not computed has bits of its own.
    Kept,
}

impl NanBits {
    /// Name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            NanBits::One => "one",
            NanBits::Kept => "kept",
        }
    }
}

/// A typed constant. Equality is by bits, so −0 differs from +0 and a NaN equals itself.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// A float dtype and a value that it can hold.
    Float(DType, f64),
    /// An integer dtype or `bool` and a value that it can hold.
    Int(DType, i64),
}

impl Literal {
    /// Element type.
    pub fn dtype(&self) -> DType {
        match *self {
            Literal::Float(dtype, _) | Literal::Int(dtype, _) => dtype,
        }
    }

    /// The code of the value in its dtype.
    pub fn code(&self) -> u64 {
        match *self {
            Literal::Float(dtype, v) => num::encode(dtype, v),
            Literal::Int(dtype, v) => num::encode_int(dtype, v),
        }
    }

    fn key(&self) -> (DType, u64, bool) {
        match *self {
            Literal::Float(dtype, v) => (dtype, if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() }, true),
            Literal::Int(dtype, v) => (dtype, v as u64, false),
        }
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Literal {}

impl std::hash::Hash for Literal {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// How attention masks scores.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sdpa {
    /// Position i attends to positions ≤ i.
    pub causal: bool,
    /// Probabilities stay in f32 or wider.
    pub wide: bool,
    /// Scores are multiplied by this (bits of an f64).
    pub scale_bits: u64,
}

/// What ranks combine, and who they are.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AllReduce {
    /// Combining op.
    pub op: ReduceOp,
    /// Name of the group.
    pub group: String,
    /// Number of ranks, if it is known.
    pub ranks: Option<u32>,
}

impl AllReduce {
    /// The group in words.
    pub fn described(&self) -> String {
        match self.ranks {
            Some(1) => format!("group `{}` of one rank", self.group),
            Some(ranks) => format!("group `{}` of {ranks} ranks", self.group),
            None => format!("group `{}` of an unknown number of ranks", self.group),
        }
    }
}

/// A primitive op.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Prim {
    /// `() → T[]`: a constant.
    Literal(Literal),
    /// `() → i64[]`: the value of a dim expression.
    SizeOf(Dim),
    /// `() → dtype[shape]`: the index along `axis`, for integer dtypes and f32/f64.
    Iota {
        /// Result dtype.
        dtype: DType,
        /// Result shape.
        shape: Vec<Dim>,
        /// Axis that is counted.
        axis: usize,
    },
    /// Elementwise; operands have one dtype (a `bool` condition for `select`) and broadcast as in NumPy. Computed as
    /// the exact value rounded once to nearest even in the operands' dtype.
    Map(ScalarFn),
    /// `(x) → to[shape]`: conversion. Float to float rounds by `round`; beyond the largest finite value it saturates
    /// if `saturate`, else gives infinity (NaN where the type has none). NaN stays NaN; NaN to integer is 0. Float to
    /// integer rounds by `round` and saturates or, if not `saturate`, wraps modulo 2^bits; integer to integer does the
    /// same. To `bool`, everything but zero is true. Formats without sign, zero, infinity or NaN: see [`crate::num`].
    Cast {
        /// Result dtype.
        to: DType,
        /// Rounding mode.
        round: Rounding,
        /// Clamp to the finite range instead of overflowing.
        saturate: bool,
    },
    /// `(x) → to[shape]`: the same bits as another dtype of equal width; of a NaN those that `nan` says.
    Bitcast {
        /// Result dtype.
        to: DType,
        /// Which bits of a NaN are read.
        nan: NanBits,
    },
    /// `(x)`: reduction over `axes` (sorted, distinct), which stay with extent 1. The value is exact up to the order
    /// of combination; every partial result is in the operand's dtype.
    Reduce {
        /// Combining op.
        op: ReduceOp,
        /// Axes that are reduced.
        axes: Vec<usize>,
        /// NaN rule of max and min; add and mul always propagate.
        nan: NanRule,
    },
    /// `(x) → i64`: index of the largest (`Max`) or smallest (`Min`) element along `axis`, which stays with extent 1;
    /// the first of equals; a NaN wins.
    ArgReduce {
        /// `Max` or `Min`.
        op: ReduceOp,
        /// Axis that is searched.
        axis: usize,
    },
    /// `(x) → (T, i64)`: the `k` largest along the last axis in descending order, with their indices; of equals the
    /// lower index first; a NaN counts as largest.
    TopK {
        /// How many.
        k: Dim,
    },
    /// `(x) → T[shape]`: the same elements in row-major order.
    Reshape {
        /// Result shape, with as many elements.
        shape: Vec<Dim>,
    },
    /// `(x)`: result axis `i` is operand axis `perm[i]`.
    Permute {
        /// A permutation of the axes.
        perm: Vec<usize>,
    },
    /// `(x) → T[shape]`: NumPy broadcast to `shape`.
    Expand {
        /// Result shape.
        shape: Vec<Dim>,
    },
    /// `(x)`: elements `start, start + step, …` below `end` along `axis`; `0 ≤ start ≤ end ≤ extent`, `step ≥ 1`.
    Slice {
        /// Axis that is cut.
        axis: usize,
        /// First index.
        start: Dim,
        /// One past the last index.
        end: Dim,
        /// Distance of taken elements.
        step: i64,
    },
    /// `(x, …)`: operands joined along `axis`.
    Cat {
        /// Axis that grows.
        axis: usize,
    },
    /// `(x, indices)`: slices of `x` along `axis` chosen by an integer tensor of rank 1; an index outside the axis chooses
    /// the nearest slice. An axis without slices is an error where there is an index.
    Gather {
        /// Axis that is indexed.
        axis: usize,
    },
    /// `(x, indices, updates)`: `x` with its slices along `axis` at the rank-1 `indices` replaced by those of
    /// `updates`; an index outside the axis is skipped, and of equal ones the last is what stays.
    Scatter {
        /// Axis that is indexed.
        axis: usize,
    },
    /// `(x, indices, updates)`: `x` with the slices of `updates` along `axis` combined with what stands at the rank-1
    /// `indices`; an index outside the axis is skipped. Of equal ones all are combined, in no order that is promised; one NaN
    /// makes an extreme NaN.
    ScatterReduce {
        /// Combining op.
        op: ReduceOp,
        /// Axis that is indexed.
        axis: usize,
    },
    /// `(x) → to`: `ways` consecutive codes of the last axis in one element, the first in the lowest bits. Floats have at
    /// most 8 bits: of these every computation gives the canonical NaN.
    Pack {
        /// Codes per element.
        ways: u32,
        /// Result dtype, `ways` times as wide as the operand's.
        to: DType,
    },
    /// `(a[…, m, k], b[…, k, n]) → out[…, m, n]` (`b[…, n, k]` if `transpose_b`): products summed over k in at least
    /// f32, rounded once to `out`. Leading axes are equal, or absent in `b`.
    MatMul {
        /// Whether `b` is stored transposed.
        transpose_b: bool,
        /// Result dtype.
        out: DType,
    },
    /// `(x[M, K], w[E, K, N], ends[E]) → out[M, N]`: row `m` of `x` times the matrix of its group, which is the first
    /// `e` with `m < ends[e]`; zero where there is none. Sums of products as in `MatMul`.
    GroupedMatMul {
        /// Result dtype.
        out: DType,
    },
    /// `(q[b, h, t, d], k[b, g, u, d], v[b, g, u, e]) → T[b, h, t, e]`: attention; query head i uses key head
    /// `i / (h / g)`. Computed in at least f32; unless `wide`, the probabilities may be rounded to `T`. A fourth
    /// operand is a mask that broadcasts to `[b, h, t, u]`: of `bool`, true where the key is seen; of floats, added to
    /// the scaled scores. A query that sees no key, or whose scores are all −inf, gives zeros.
    Sdpa(Sdpa),
    /// `(x)`: the tensors of all ranks of a group, combined element by element in the order of the ranks, every partial
    /// result in the operand's dtype; with one rank `x` itself, bit for bit.
    AllReduce(AllReduce),
    /// An op of the host framework that is not taken apart: operands and results as it says.
    Opaque {
        /// Name in the framework, e.g. `vllm.unified_attention`.
        target: String,
        /// Arguments other than tensors, printed.
        attrs: Vec<(String, String)>,
        /// Result types.
        results: Vec<TensorType>,
    },
}

impl Prim {
    /// The dim expressions among the attributes, in text order.
    pub fn dims(&self) -> Vec<&Dim> {
        match self {
            Prim::SizeOf(dim) | Prim::TopK { k: dim } => vec![dim],
            Prim::Iota { shape, .. } | Prim::Reshape { shape } | Prim::Expand { shape } => shape.iter().collect(),
            Prim::Slice { start, end, .. } => vec![start, end],
            Prim::Opaque { results, .. } => results.iter().flat_map(|t| &t.shape).collect(),
            Prim::Literal(_)
            | Prim::Map(_)
            | Prim::Cast { .. }
            | Prim::Bitcast { .. }
            | Prim::Reduce { .. }
            | Prim::ArgReduce { .. }
            | Prim::Permute { .. }
            | Prim::Cat { .. }
            | Prim::Gather { .. }
            | Prim::Scatter { .. }
            | Prim::ScatterReduce { .. }
            | Prim::Pack { .. }
            | Prim::MatMul { .. }
            | Prim::GroupedMatMul { .. }
            | Prim::Sdpa(_)
            | Prim::AllReduce(_) => Vec::new(),
        }
    }

    /// Whether the elements of the results are elements of the operands, or their bits, as they are: a NaN among them is
    /// the one that it was. All else makes the canonical NaN, as far as bits of it are read.
    pub fn moves(&self) -> bool {
        match self {
            Prim::Map(f) => *f == ScalarFn::Select,
            Prim::Literal(_)
            | Prim::SizeOf(_)
            | Prim::Iota { .. }
            | Prim::Bitcast { .. }
            | Prim::Reshape { .. }
            | Prim::Permute { .. }
            | Prim::Expand { .. }
            | Prim::Slice { .. }
            | Prim::Cat { .. }
            | Prim::Gather { .. }
            | Prim::Scatter { .. }
            | Prim::Pack { .. }
            | Prim::Opaque { .. } => true,
            Prim::Cast { .. }
            | Prim::Reduce { .. }
            | Prim::ArgReduce { .. }
            | Prim::TopK { .. }
            | Prim::ScatterReduce { .. }
            | Prim::MatMul { .. }
            | Prim::GroupedMatMul { .. }
            | Prim::Sdpa(_)
            | Prim::AllReduce(_) => false,
        }
    }

    /// Name in text forms.
    pub fn name(&self) -> &str {
        match self {
            Prim::Literal(_) => "literal",
            Prim::SizeOf(_) => "size_of",
            Prim::Iota { .. } => "iota",
            Prim::Map(f) => f.name(),
            Prim::Cast { .. } => "cast",
            Prim::Bitcast { .. } => "bitcast",
            Prim::Reduce { .. } => "reduce",
            Prim::ArgReduce { .. } => "arg_reduce",
            Prim::TopK { .. } => "top_k",
            Prim::Reshape { .. } => "reshape",
            Prim::Permute { .. } => "permute",
            Prim::Expand { .. } => "expand",
            Prim::Slice { .. } => "slice",
            Prim::Cat { .. } => "cat",
            Prim::Gather { .. } => "gather",
            Prim::Scatter { .. } => "scatter",
            Prim::ScatterReduce { op, .. } => match op {
                ReduceOp::Add => "scatter_add",
                ReduceOp::Mul => "scatter_mul",
                ReduceOp::Max => "scatter_max",
                ReduceOp::Min => "scatter_min",
            },
            Prim::Pack { .. } => "pack",
            Prim::MatMul { .. } => "matmul",
            Prim::GroupedMatMul { .. } => "grouped_matmul",
            Prim::Sdpa(_) => "sdpa",
            Prim::AllReduce(_) => "all_reduce",
            Prim::Opaque { .. } => "opaque",
        }
    }
}
