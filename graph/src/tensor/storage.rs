//! Tensors from and to little-endian bytes; packed 4-bit types hold the even element in the low nibble.

use fusewright_abi::DType;

use super::{Data, NoMemory, Tensor, TensorError, check_memory, element_count};
use crate::graph::Weight;
use crate::num;

impl Tensor {
    /// A tensor from dense bytes.
    ///
    /// # Errors
    /// A number of bytes other than the shape takes.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Self, TensorError> {
        let count = element_count(dtype, shape)?;
        let expected = dtype.bytes_for(count);
        if bytes.len() != expected {
            let (expected, got) = (format!("{expected} bytes"), bytes.len().to_string());
            return Err(TensorError::Length { dtype, shape: shape.to_vec(), expected, got });
        }
        let data = read(dtype, shape, count, bytes, 0..count)?;
        Tensor::new(dtype, shape.to_vec(), data)
    }

    /// A tensor from a strided view of a storage.
    ///
    /// # Errors
    /// A view that leaves the storage, or whose rank differs from the shape's.
    pub fn from_weight(dtype: DType, shape: &[usize], weight: &Weight) -> Result<Self, TensorError> {
        let count = element_count(dtype, shape)?;
        let outside = || TensorError::View {
            dtype,
            shape: shape.to_vec(),
            offset: weight.offset,
            strides: weight.strides.clone(),
            bytes: weight.storage.len(),
        };
        if weight.strides.len() != shape.len() {
            return Err(outside());
        }
        let reach = shape.iter().zip(&weight.strides).try_fold(weight.offset, |sum, (&extent, &stride)| {
            sum.checked_add(extent.saturating_sub(1).checked_mul(stride)?)
        });
        let available = weight.storage.len().saturating_mul(8) / dtype.bits() as usize;
        if count > 0 && reach.is_none_or(|last| last >= available) {
            return Err(outside());
        }
        let storage = weight.checked().map_err(TensorError::Damaged)?;
        let data = read(dtype, shape, count, storage, Indices::new(shape, weight, count))?;
        Tensor::new(dtype, shape.to_vec(), data)
    }

    /// The elements as dense bytes.
    ///
    /// # Errors
    /// The machine has no memory for them.
    pub fn try_to_bytes(&self) -> Result<Vec<u8>, NoMemory> {
        check_memory::<u8>(self.dtype().bytes_for(self.len()), self.dtype(), self.shape())?;
        Ok(self.to_bytes())
    }

    /// As [`Tensor::try_to_bytes`], for tensors that are known to be small.
    pub fn to_bytes(&self) -> Vec<u8> {
        let dtype = self.dtype();
        let mut bytes = Vec::with_capacity(dtype.bytes_for(self.len()));
        let codes = (0..self.len()).filter_map(|i| self.code(i));
        if dtype.bits() == 4 {
            for (i, code) in codes.enumerate() {
                match bytes.last_mut() {
                    Some(last) if i % 2 == 1 => *last |= (code as u8) << 4,
                    _ => bytes.push(code as u8),
                }
            }
        } else {
            let width = dtype.bits() as usize / 8;
            codes.for_each(|code| bytes.extend_from_slice(&code.to_le_bytes()[..width]));
        }
        bytes
    }
}

/// The element offsets of a strided view in row-major order.
struct Indices<'a> {
    shape: &'a [usize],
    strides: &'a [usize],
    index: Vec<usize>,
    offset: usize,
    left: usize,
}

impl<'a> Indices<'a> {
    fn new(shape: &'a [usize], weight: &'a Weight, count: usize) -> Self {
        Indices { shape, strides: &weight.strides, index: vec![0; shape.len()], offset: weight.offset, left: count }
    }
}

impl Iterator for Indices<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let here = self.offset;
        for axis in (0..self.shape.len()).rev() {
            self.index[axis] += 1;
            self.offset += self.strides[axis];
            if self.index[axis] < self.shape[axis] {
                break;
            }
            self.offset -= self.shape[axis] * self.strides[axis];
            self.index[axis] = 0;
        }
        Some(here)
    }
}

/// The elements at the given positions, all of which lie in the storage.
fn read(
    dtype: DType,
    shape: &[usize],
    count: usize,
    bytes: &[u8],
    positions: impl Iterator<Item = usize>,
) -> Result<Data<f64, i64>, TensorError> {
    check_memory::<f64>(count, dtype, shape).map_err(TensorError::Memory)?;
    let codes = positions.map(|i| code_at(dtype.bits(), bytes, i));
    if dtype.is_float() {
        let mut values = Vec::with_capacity(count);
        values.extend(codes.map(|code| num::element(dtype, code)));
        Ok(Data::Float(values))
    } else {
        let mut values = Vec::with_capacity(count);
        values.extend(codes.map(|code| num::decode_int(dtype, code)));
        Ok(Data::Int(values))
    }
}

fn code_at(bits: u32, bytes: &[u8], index: usize) -> u64 {
    if bits == 4 {
        return u64::from(bytes[index / 2] >> (index % 2 * 4) & 15);
    }
    let width = bits as usize / 8;
    let mut word = [0; 8];
    word[..width].copy_from_slice(&bytes[index * width..][..width]);
    u64::from_le_bytes(word)
}
