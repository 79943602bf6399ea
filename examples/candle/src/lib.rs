//! Fused kernels as custom ops of candle: a residual add with its RMS norm, and a gated activation.
//!
//! A kernel is made when a layer is, for its lanes and its dtype, and takes any number of rows. What it computes is
//! written in [`bodies`] as the ops of candle, with every rounding that they have. The ops take tensors of any layout:
//! what is not contiguous is made so first, by candle.

pub mod bodies;
#[cfg(feature = "cuda")]
mod cuda;

use candle_core::utils::get_num_threads;
use candle_core::{CpuStorage, CustomOp2, CustomOp3, DType, Error, Layout, Result, Shape, Tensor, WithDType, bail};
use fusewright::graph::Builder;
use fusewright::{Callable, Element, TensorMut, TensorRef, fuse};

use bodies::SiluRounding;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
#[cfg(feature = "cuda")]
use cuda::Operand;

/// The dtype of the project for a dtype of candle.
///
/// # Errors
/// A dtype that the ops of this crate do not take.
pub fn dtype(dtype: DType) -> Result<fusewright::DType> {
    match dtype {
        DType::F32 => Ok(fusewright::DType::F32),
        DType::BF16 => Ok(fusewright::DType::BF16),
        DType::F16 => Ok(fusewright::DType::F16),
        other => bail!("the fused ops take f32, bf16 and f16, not {other:?}"),
    }
}

/// `x + residual`, and the RMS norm of the sum.
#[derive(Debug)]
pub struct AddRmsNorm {
    kernel: Callable,
    #[cfg(feature = "cuda")]
    on_gpu: cuda::OnGpu,
}

impl AddRmsNorm {
    /// The op for rows of so many lanes.
    ///
    /// # Errors
    /// A dtype that it does not take; no kernel for this machine.
    pub fn new(lanes: usize, dtype: DType, eps: f32) -> Result<Self> {
        let dtype = self::dtype(dtype)?;
        let body = |b: &Builder| bodies::add_rms_norm(b, dtype, lanes as i64, eps);
        Ok(AddRmsNorm {
            kernel: fuse(body).map_err(Error::wrap)?,
            #[cfg(feature = "cuda")]
            on_gpu: cuda::OnGpu::new(body)?,
        })
    }

    /// The norm, and the sum, which is the next residual.
    ///
    /// # Errors
    /// Tensors that do not fit each other or the kernel.
    pub fn forward(&self, x: &Tensor, residual: &Tensor, weight: &Tensor) -> Result<(Tensor, Tensor)> {
        let (residual, weight) = (residual.contiguous()?, weight.contiguous()?);
        // An op of candle has one result. Both halves of it are contiguous tensors of their own.
        let both = x.contiguous()?.apply_op3_no_bwd(&residual, &weight, self)?;
        Ok((both.get(0)?, both.get(1)?))
    }

    fn run<T: WithDType + Element + Default>(
        &self,
        (x, x_layout): (&CpuStorage, &Layout),
        residual: (&CpuStorage, &Layout),
        weight: (&CpuStorage, &Layout),
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, lanes) = rows_and_lanes(self.name(), x_layout)?;
        let of_residual = residual.1.dims();
        if of_residual != x_layout.dims() {
            bail!("{}: `residual` is {of_residual:?}, and `x` {:?}", self.name(), x_layout.dims());
        }
        let x = elements::<T>(self.name(), "x", x, x_layout)?;
        let residual = elements::<T>(self.name(), "residual", residual.0, residual.1)?;
        let (weight, weight_shape) = (elements::<T>(self.name(), "weight", weight.0, weight.1)?, weight.1.dims());
        let mut results = vec![T::default(); 2 * rows * lanes];
        let (norm, sum) = results.split_at_mut(rows * lanes);
        let shape = [rows, lanes];
        let inputs =
            [TensorRef::new(x, &shape), TensorRef::new(residual, &shape), TensorRef::new(weight, weight_shape)];
        let mut outputs = [TensorMut::new(norm, &shape), TensorMut::new(sum, &shape)];
        self.kernel.call(&inputs, &mut outputs, get_num_threads()).map_err(Error::wrap)?;
        let shape: Vec<usize> = std::iter::once(2).chain(x_layout.dims().iter().copied()).collect();
        Ok((T::to_cpu_storage_owned(results), shape.into()))
    }
}

impl CustomOp3 for AddRmsNorm {
    fn name(&self) -> &'static str {
        "fused add_rms_norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, residual, weight) = ((x, x_layout), (residual, residual_layout), (weight, weight_layout));
        match x.0 {
            CpuStorage::F32(_) => self.run::<f32>(x, residual, weight),
            CpuStorage::BF16(_) => self.run::<half::bf16>(x, residual, weight),
            CpuStorage::F16(_) => self.run::<half::f16>(x, residual, weight),
            _ => bail!("{}: `x` is neither f32 nor bf16 nor f16", self.name()),
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_layout: &Layout,
        residual: &CudaStorage,
        residual_layout: &Layout,
        weight: &CudaStorage,
        weight_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let (rows, lanes) = rows_and_lanes(self.name(), x_layout)?;
        let operands = [
            Operand { name: "x", storage: x, layout: x_layout, shape: vec![rows, lanes] },
            Operand { name: "residual", storage: residual, layout: residual_layout, shape: vec![rows, lanes] },
            Operand { name: "weight", storage: weight, layout: weight_layout, shape: weight_layout.dims().to_vec() },
        ];
        let results = self.on_gpu.run(self.name(), &operands, (2, rows * lanes))?;
        let shape: Vec<usize> = std::iter::once(2).chain(x_layout.dims().iter().copied()).collect();
        Ok((results, shape.into()))
    }
}

/// `silu(gate) · up`.
#[derive(Debug)]
pub struct SiluMul {
    kernel: Callable,
    #[cfg(feature = "cuda")]
    on_gpu: cuda::OnGpu,
}

impl SiluMul {
    /// The op for rows of so many lanes.
    ///
    /// # Errors
    /// A dtype that it does not take; no kernel for this machine.
    pub fn new(lanes: usize, dtype: DType, rounding: SiluRounding) -> Result<Self> {
        let dtype = self::dtype(dtype)?;
        let body = |b: &Builder| bodies::silu_mul(b, dtype, lanes as i64, rounding);
        Ok(SiluMul {
            kernel: fuse(body).map_err(Error::wrap)?,
            #[cfg(feature = "cuda")]
            on_gpu: cuda::OnGpu::new(body)?,
        })
    }

    /// The product.
    ///
    /// # Errors
    /// Tensors that do not fit each other or the kernel.
    pub fn forward(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        gate.contiguous()?.apply_op2_no_bwd(&up.contiguous()?, self)
    }

    fn run<T: WithDType + Element + Default>(
        &self,
        (gate, gate_layout): (&CpuStorage, &Layout),
        (up, up_layout): (&CpuStorage, &Layout),
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, lanes) = rows_and_lanes(self.name(), gate_layout)?;
        if up_layout.dims() != gate_layout.dims() {
            bail!("{}: `up` is {:?}, and `gate` {:?}", self.name(), up_layout.dims(), gate_layout.dims());
        }
        let gate = elements::<T>(self.name(), "gate", gate, gate_layout)?;
        let up = elements::<T>(self.name(), "up", up, up_layout)?;
        let mut product = vec![T::default(); rows * lanes];
        let shape = [rows, lanes];
        let inputs = [TensorRef::new(gate, &shape), TensorRef::new(up, &shape)];
        let mut outputs = [TensorMut::new(&mut product, &shape)];
        self.kernel.call(&inputs, &mut outputs, get_num_threads()).map_err(Error::wrap)?;
        Ok((T::to_cpu_storage_owned(product), gate_layout.shape().clone()))
    }
}

impl CustomOp2 for SiluMul {
    fn name(&self) -> &'static str {
        "fused silu_mul"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        gate_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, up) = ((gate, gate_layout), (up, up_layout));
        match gate.0 {
            CpuStorage::F32(_) => self.run::<f32>(gate, up),
            CpuStorage::BF16(_) => self.run::<half::bf16>(gate, up),
            CpuStorage::F16(_) => self.run::<half::f16>(gate, up),
            _ => bail!("{}: `gate` is neither f32 nor bf16 nor f16", self.name()),
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        gate: &CudaStorage,
        gate_layout: &Layout,
        up: &CudaStorage,
        up_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let (rows, lanes) = rows_and_lanes(self.name(), gate_layout)?;
        let operands = [
            Operand { name: "gate", storage: gate, layout: gate_layout, shape: vec![rows, lanes] },
            Operand { name: "up", storage: up, layout: up_layout, shape: vec![rows, lanes] },
        ];
        Ok((self.on_gpu.run(self.name(), &operands, (1, rows * lanes))?, gate_layout.shape().clone()))
    }
}

/// Rows of the last axis, and its lanes.
fn rows_and_lanes(op: &str, layout: &Layout) -> Result<(usize, usize)> {
    match layout.dims() {
        [rows @ .., lanes] => Ok((rows.iter().product(), *lanes)),
        [] => bail!("{op}: a tensor without axes has no rows"),
    }
}

/// The elements of a contiguous tensor, in whatever memory they lie.
fn elements<'s, T: WithDType>(op: &str, name: &str, storage: &'s CpuStorage, layout: &Layout) -> Result<&'s [T]> {
    let all = storage.as_slice::<T>()?;
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("{op}: `{name}` is not contiguous, its strides are {:?}", layout.stride());
    };
    Ok(&all[start..end])
}
