//! The ops on an NVIDIA GPU: on candle's memory, enqueued on candle's stream, behind whatever candle has enqueued there.
//!
//! Nothing here waits, and nothing is copied to the host.

// Addresses and the stream are handed from one library to the other.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::cuda_backend::CudaDType;
use candle_core::cuda_backend::cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceRepr};
use candle_core::{CudaStorage, DType, DeviceLocation, Error, Layout, Result, bail};
use fusewright::graph::{Builder, Graph, TypeError, Value};
use fusewright::{Attempt, Chain, Options, Target};

/// A kernel for GPUs, which is compiled when the first tensor on one comes.
#[derive(Debug)]
pub(crate) struct OnGpu {
    graph: Graph,
    chain: OnceLock<Chain>,
    /// The streams that the kernel ran on, which stay until it is dropped.
    streams: Mutex<Vec<Arc<CudaStream>>>,
}

/// An operand: its name, its memory, and its extents as the kernel takes them.
pub(crate) struct Operand<'a> {
    pub name: &'static str,
    pub storage: &'a CudaStorage,
    pub layout: &'a Layout,
    pub shape: Vec<usize>,
}

impl OnGpu {
    pub(crate) fn new(build: impl FnOnce(&Builder) -> std::result::Result<Vec<Value>, TypeError>) -> Result<OnGpu> {
        let b = Builder::new("candle");
        build(&b).map_err(Error::wrap)?.into_iter().for_each(|value| b.output(value));
        Ok(OnGpu { graph: b.finish(), chain: OnceLock::new(), streams: Mutex::default() })
    }

    fn chain(&self) -> Result<&Chain> {
        if let Some(chain) = self.chain.get() {
            return Ok(chain);
        }
        // Code for this architecture runs on every later one as well.
        let target: Target = "cuda:sm_80".parse().map_err(Error::wrap)?;
        match Chain::of(&self.graph, &target, &Options::default()).map_err(Error::wrap)? {
            Attempt::Chain(chain) => Ok(self.chain.get_or_init(|| *chain)),
            Attempt::Outside(outside) => {
                let reasons: Vec<&str> = outside.iter().map(|part| part.reason.as_str()).collect();
                bail!("no kernel computes all of it: {}", reasons.join("; "))
            }
        }
    }

    /// Computes the outputs one behind the other in new memory, each of `elements`.
    pub(crate) fn run(&self, op: &str, operands: &[Operand<'_>], outputs: (usize, usize)) -> Result<CudaStorage> {
        let [first, ..] = operands else { bail!("{op}: there are no operands") };
        match first.storage.dtype() {
            DType::F32 => self.run_of::<f32>(op, operands, outputs),
            DType::BF16 => self.run_of::<half::bf16>(op, operands, outputs),
            DType::F16 => self.run_of::<half::f16>(op, operands, outputs),
            other => bail!("{op}: `{}` is {other:?}, which is neither f32 nor bf16 nor f16", first.name),
        }
    }

    fn run_of<T: CudaDType + DeviceRepr>(
        &self,
        op: &str,
        operands: &[Operand<'_>],
        (outputs, elements): (usize, usize),
    ) -> Result<CudaStorage> {
        let [first, ..] = operands else { bail!("{op}: there are no operands") };
        let device = first.storage.device();
        let DeviceLocation::Cuda { gpu_id } = device.location() else { bail!("{op}: the device is no GPU") };
        let (chain, theirs) = (self.chain()?, device.cuda_stream());
        let gpu = chain.gpu_at(gpu_id).map_err(Error::wrap)?;
        let given: Vec<(fusewright::DType, &[usize])> = operands
            .iter()
            .map(|operand| Ok((crate::dtype(operand.storage.dtype())?, operand.shape.as_slice())))
            .collect::<Result<_>>()?;
        let symbols = chain.bind(&given).map_err(Error::wrap)?;
        let fitted = chain.fit(&symbols).map_err(Error::wrap)?;

        let mut views = Vec::with_capacity(operands.len());
        for Operand { name, storage, layout, .. } in operands {
            let Some((start, end)) = layout.contiguous_offsets() else {
                bail!("{op}: `{name}` is not contiguous, its strides are {:?}", layout.stride());
            };
            views.push(storage.as_cuda_slice::<T>()?.slice(start..end));
        }
        // SAFETY: the kernel writes every element of its outputs, and reads none of them or of what is between kernels
        // before it is written.
        let (mut made, mut between) =
            unsafe { (device.alloc::<T>(outputs * elements)?, device.alloc::<u8>(fitted.scratch().max(1))?) };

        // What candle gives out with an address notes that the stream used it, when it is dropped.
        let addresses: Vec<_> = views.iter().map(|view| view.device_ptr(&theirs)).collect();
        let (out, _written) = made.device_ptr_mut(&theirs);
        let (scratch, _used) = between.device_ptr_mut(&theirs);
        // SAFETY: the stream is of the primary context, which cudarc takes as well, and is kept below for as long as the
        // kernel lives.
        let stream = unsafe { gpu.adopt_stream(theirs.cu_stream().cast::<c_void>()) };
        // SAFETY: the memory is candle's. It is alive until the launch is enqueued, and candle gives it back in the order
        // of the stream, behind the launch.
        let adopt = |address: u64, bytes: usize| unsafe { gpu.adopt_memory(address, bytes) };
        let inputs: Vec<_> =
            addresses.iter().zip(fitted.inputs()).map(|((address, _), bytes)| adopt(*address, *bytes)).collect();
        let bytes = elements * size_of::<T>();
        let results: Vec<_> = (0..outputs).map(|i| adopt(out + (i * bytes) as u64, bytes)).collect();
        let scratch = adopt(scratch, fitted.scratch());
        self.keep(&theirs);
        chain.enqueue(&fitted, &inputs, (&results, &scratch), &stream).map_err(Error::wrap)?;
        drop((addresses, _written, _used));
        Ok(CudaStorage::wrap_cuda_slice(made, device.clone()))
    }

    fn keep(&self, stream: &Arc<CudaStream>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if !streams.iter().any(|kept| Arc::ptr_eq(kept, stream)) {
            streams.push(Arc::clone(stream));
        }
    }
}
