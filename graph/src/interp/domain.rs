//! What the interpreters compute on: points or intervals.
//!
//! Control flow, layout and indexing are the same for both and live in [`super::machine`]; a domain supplies the
//! arithmetic.

use fusewright_abi::DType;

use super::OpaqueCall;
use crate::interp::fault::Fault;
use crate::prim::{AllReduce, NanBits, NanRule, ReduceOp, Rounding, Sdpa};
use crate::scalar::ScalarFn;
use crate::tensor::{Array, Data, Tensor};

/// An array of a domain.
pub(super) type ArrayOf<D> = Array<<D as Domain>::Float, <D as Domain>::Int>;

/// Elements of a domain.
pub(super) type DataOf<D> = Data<<D as Domain>::Float, <D as Domain>::Int>;

/// A conversion.
#[derive(Clone, Copy)]
pub(super) struct CastTo {
    pub to: DType,
    pub round: Rounding,
    pub saturate: bool,
}

/// The matrices of one batch: `a[m, k]`, `b[n, k]`, both row-major.
#[derive(Clone, Copy)]
pub(super) struct Product<'a, T> {
    pub a: &'a [T],
    pub b: &'a [T],
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Dtype of the operands.
    pub dtype: DType,
    /// Dtype of the result.
    pub out: DType,
}

/// One head of attention: `q[t, d]`, `k[u, d]`, `v[u, e]`.
#[derive(Clone, Copy)]
pub(super) struct Head<'a, T> {
    pub q: &'a [T],
    pub k: &'a [T],
    pub v: &'a [T],
    pub t: usize,
    pub u: usize,
    pub d: usize,
    pub e: usize,
    pub dtype: DType,
    pub attrs: &'a Sdpa,
    /// `[t, u]`, added to the scaled scores.
    pub bias: Option<&'a [T]>,
}

/// Arithmetic on one kind of element.
pub(super) trait Domain {
    type Float: Copy;
    type Int: Copy;

    fn float(&self, x: f64) -> Self::Float;
    fn int(&self, v: i64) -> Self::Int;
    /// The least and greatest value that an integer element may have.
    fn range(&self, v: Self::Int) -> (i64, i64);
    /// An element that may be either.
    fn join_floats(&self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// An element that may be either.
    fn join_ints(&self, dtype: DType, a: Self::Int, b: Self::Int) -> Self::Int;

    fn map(&self, f: ScalarFn, operands: &[&ArrayOf<Self>], shape: &[usize]) -> Result<DataOf<Self>, Fault>;
    fn cast(&self, x: &ArrayOf<Self>, cast: CastTo) -> Result<DataOf<Self>, Fault>;
    fn bitcast(&self, x: &ArrayOf<Self>, to: DType, nan: NanBits) -> Result<DataOf<Self>, Fault>;
    /// What an op computed, with the canonical NaN for every other one.
    fn with_one_nan(&self, computed: DataOf<Self>) -> DataOf<Self>;
    fn pack(&self, x: &ArrayOf<Self>, ways: usize, to: DType) -> Result<DataOf<Self>, Fault>;

    fn reduce_floats(&self, op: ReduceOp, nan: NanRule, dtype: DType, row: &[Self::Float]) -> Self::Float;
    fn reduce_ints(&self, op: ReduceOp, dtype: DType, row: &[Self::Int]) -> Self::Int;
    /// The index of the largest or smallest of a row that is not empty.
    fn arg_floats(&self, op: ReduceOp, row: &[Self::Float]) -> Self::Int;
    fn arg_ints(&self, op: ReduceOp, dtype: DType, row: &[Self::Int]) -> Self::Int;
    /// The `k` largest of a row of at least `k`, and their indices.
    fn top_floats(&self, row: &[Self::Float], k: usize) -> (Vec<Self::Float>, Vec<Self::Int>);
    fn top_ints(&self, dtype: DType, row: &[Self::Int], k: usize) -> (Vec<Self::Int>, Vec<Self::Int>);

    /// Appends one batch of a product of floats, row-major.
    fn product_floats(&self, p: Product<'_, Self::Float>, out: &mut Vec<Self::Float>);
    /// The exact sums of products of integers, modulo 2^64.
    fn product_ints(&self, p: Product<'_, Self::Int>, out: &mut Vec<Self::Int>);
    /// Appends the rows of one head.
    fn attend(&self, head: Head<'_, Self::Float>, out: &mut Vec<Self::Float>);

    fn lift(&self, tensor: &Tensor) -> ArrayOf<Self>;
    fn opaque(&self, call: Call<'_, ArrayOf<Self>>) -> Result<Vec<ArrayOf<Self>>, Fault>;
    fn all_reduce(&self, all: &AllReduce, x: &ArrayOf<Self>) -> Result<ArrayOf<Self>, Fault>;
}

/// A call of an opaque op on arrays of a domain.
pub(super) struct Call<'a, A> {
    pub target: &'a str,
    pub attrs: &'a [(String, String)],
    pub operands: &'a [&'a A],
    pub results: &'a [(DType, Vec<usize>)],
}

impl Call<'_, Tensor> {
    /// The results of the host, checked against the types that the graph promises.
    pub fn on(&self, host: &dyn super::Host) -> Result<Vec<Tensor>, Fault> {
        let Call { target, attrs, operands, results } = *self;
        let got = host.opaque(&OpaqueCall { target, attrs, operands, results })?;
        let types: Vec<_> = got.iter().map(|t| (t.dtype(), t.shape().to_vec())).collect();
        if types != results {
            let words = |types: &[(DType, Vec<usize>)]| {
                let words: Vec<String> = types.iter().map(|(dtype, shape)| format!("{dtype}{shape:?}")).collect();
                format!("[{}]", words.join(", "))
            };
            return Err(
                format!("the host returned {} for `{target}`, expected {}", words(&types), words(results)).into()
            );
        }
        Ok(got)
    }
}
