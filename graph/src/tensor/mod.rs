//! Tensors in host memory: what the interpreters compute on.
//!
//! A [`Tensor`] is dense and row-major. Float elements are `f64`s that their dtype can hold exactly, NaNs with the codes
//! that they were given; integer and boolean elements are `i64`s as [`crate::num`] says. The same container with other element types carries intervals.

mod compare;
mod storage;

use fusewright_abi::DType;

use crate::num;
use crate::prim::Rounding;

pub use compare::Difference;

/// Elements of a dense array: those of float dtypes, or those of integers and `bool`.
#[derive(Clone, PartialEq, Debug)]
pub enum Data<F, I> {
    /// Of a float dtype.
    Float(Vec<F>),
    /// Of an integer dtype or `bool`.
    Int(Vec<I>),
}

impl<F, I> Data<F, I> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::Float(v) => v.len(),
            Data::Int(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A dense row-major array with elements `F` for float dtypes and `I` for the others.
#[derive(Clone, Debug)]
pub struct Array<F, I> {
    dtype: DType,
    shape: Vec<usize>,
    data: Data<F, I>,
}

/// A tensor of numbers.
pub type Tensor = Array<f64, i64>;

/// Why a tensor cannot be made or compared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TensorError {
    /// The number of elements or bytes does not fit the shape.
    #[error("{dtype}{shape:?} takes {expected}, got {got}")]
    Length {
        /// Element type.
        dtype: DType,
        /// Extents.
        shape: Vec<usize>,
        /// What the shape takes, in words.
        expected: String,
        /// What there is, in words.
        got: String,
    },
    /// Elements of the wrong class for the dtype.
    #[error("{0} elements given as {1}")]
    Class(DType, &'static str),
    /// The elements do not fit the address space.
    #[error("{0}{1:?} does not fit the address space")]
    TooLarge(DType, Vec<usize>),
    /// The machine has no memory for the elements.
    #[error("{0}")]
    Memory(NoMemory),
    /// A strided view reaches beyond its storage.
    #[error("view at element {offset} with strides {strides:?} of {dtype}{shape:?} leaves a storage of {bytes} bytes")]
    View {
        /// Element type.
        dtype: DType,
        /// Extents.
        shape: Vec<usize>,
        /// First element.
        offset: usize,
        /// Strides in elements.
        strides: Vec<usize>,
        /// Size of the storage.
        bytes: usize,
    },
    /// Stored bytes are not those that were written.
    #[error("{0}")]
    Damaged(String),
    /// Two tensors of different type.
    #[error("{0}{1:?} against {2}{3:?}")]
    Type(DType, Vec<usize>, DType, Vec<usize>),
}

/// A tensor that the machine has no memory for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no memory for {dtype}{shape:?}, which takes {bytes} bytes")]
pub struct NoMemory {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
    /// Bytes that were asked for.
    pub bytes: usize,
}

/// Asks the machine for memory for that many elements of `T` and gives it back, so that an allocation that is as large
/// and follows at once does not end the process.
///
/// # Errors
/// There is none; the tensor that the elements belong to is named.
pub fn check_memory<T>(count: usize, dtype: DType, shape: &[usize]) -> Result<(), NoMemory> {
    let missing = |_| NoMemory { dtype, shape: shape.to_vec(), bytes: count.saturating_mul(size_of::<T>()) };
    Vec::<T>::new().try_reserve_exact(count).map_err(missing)
}

/// The product of extents, or an error where it does not fit the address space.
///
/// # Errors
/// It does not.
pub fn element_count(dtype: DType, shape: &[usize]) -> Result<usize, TensorError> {
    let fits = |n: &usize| n.checked_mul(16).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    let count = if shape.contains(&0) { Some(0) } else { shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e)) };
    count.filter(fits).ok_or_else(|| TensorError::TooLarge(dtype, shape.to_vec()))
}

impl<F, I> Array<F, I> {
    /// An array of given elements.
    ///
    /// # Errors
    /// Elements whose number or class does not fit.
    pub fn new(dtype: DType, shape: Vec<usize>, data: Data<F, I>) -> Result<Self, TensorError> {
        match &data {
            Data::Float(_) if !dtype.is_float() => return Err(TensorError::Class(dtype, "floats")),
            Data::Int(_) if dtype.is_float() => return Err(TensorError::Class(dtype, "integers")),
            _ => {}
        }
        let count = element_count(dtype, &shape)?;
        if data.len() != count {
            let (expected, got) = (format!("{count} elements"), data.len().to_string());
            return Err(TensorError::Length { dtype, shape, expected, got });
        }
        Ok(Array { dtype, shape, data })
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The elements in row-major order.
    pub fn data(&self) -> &Data<F, I> {
        &self.data
    }

    /// The elements, if of a float dtype.
    pub fn floats(&self) -> Option<&[F]> {
        match &self.data {
            Data::Float(v) => Some(v),
            Data::Int(_) => None,
        }
    }

    /// The elements, if of an integer dtype or `bool`.
    pub fn ints(&self) -> Option<&[I]> {
        match &self.data {
            Data::Float(_) => None,
            Data::Int(v) => Some(v),
        }
    }

    /// The elements, given up by the array.
    pub fn into_data(self) -> Data<F, I> {
        self.data
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// A shape with another number of elements.
    pub fn reshaped(self, shape: Vec<usize>) -> Result<Self, TensorError> {
        Array::new(self.dtype, shape, self.data)
    }
}

impl Tensor {
    /// A float tensor; each value is rounded to nearest even in `dtype`.
    ///
    /// # Errors
    /// A wrong number of elements or a dtype that is not a float.
    pub fn from_f64(dtype: DType, shape: &[usize], mut values: Vec<f64>) -> Result<Self, TensorError> {
        for x in &mut values {
            *x = num::round_to(dtype, *x, Rounding::NearestEven, false);
        }
        Tensor::new(dtype, shape.to_vec(), Data::Float(values))
    }

    /// An integer or boolean tensor; each value is taken modulo 2^bits.
    ///
    /// # Errors
    /// A wrong number of elements or a float dtype.
    pub fn from_i64(dtype: DType, shape: &[usize], mut values: Vec<i64>) -> Result<Self, TensorError> {
        for v in &mut values {
            *v = num::wrap_int(dtype, *v);
        }
        Tensor::new(dtype, shape.to_vec(), Data::Int(values))
    }

    /// The bits of one element, in the low end of the word; `None` beyond the end.
    pub fn code(&self, index: usize) -> Option<u64> {
        match &self.data {
            Data::Float(v) => v.get(index).map(|&x| num::code(self.dtype, x)),
            Data::Int(v) => v.get(index).map(|&x| num::encode_int(self.dtype, x)),
        }
    }
}

#[cfg(test)]
mod tests;
