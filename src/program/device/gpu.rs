//! NVIDIA GPUs as programs see devices.

use std::path::PathBuf;
use std::sync::Arc;

use fusewright_runtime::cuda::{
    Blas, DeviceArg, DeviceBuffer, Event, Gpu, GraphRecorder, LaunchOptions, Prepared, PreparedMatMul, Stream,
};

use super::hardware::{Arg, Hardware, Order};
use crate::Error;
use crate::installations::cublaslt_folders;

/// A GPU, and its library if a program multiplies.
#[derive(Debug)]
pub(in crate::program) struct Cuda {
    gpu: Gpu,
    blas: Option<Arc<Blas>>,
}

impl Cuda {
    /// A GPU, with cuBLASLt if there are products.
    ///
    /// # Errors
    /// No such library, with what was looked for.
    pub fn open(gpu: Gpu, multiplies: bool) -> Result<Cuda, Error> {
        let folders: Vec<PathBuf> = if multiplies { cublaslt_folders() } else { Vec::new() };
        let blas = multiplies.then(|| Blas::open(&gpu, &folders)).transpose()?;
        Ok(Cuda { gpu, blas })
    }

    /// The device.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

/// A command on a GPU.
#[derive(Debug)]
pub(in crate::program) enum Ready {
    Launch(Prepared),
    MatMul(PreparedMatMul),
    Copy { from: DeviceBuffer, to: DeviceBuffer },
    Clear(DeviceBuffer),
}

impl Hardware for Cuda {
    type Buffer = DeviceBuffer;
    type Stream = Stream;
    type Ready = Ready;
    type Recorder = GraphRecorder;
    type Mark = Event;

    fn recorder(&self) -> Result<GraphRecorder, Error> {
        Ok(GraphRecorder::new(self.gpu.clone(), self.gpu.stream()?))
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, Error> {
        Ok(self.gpu.buffer(bytes)?)
    }

    fn part(&self, buffer: &DeviceBuffer, start: usize, bytes: usize) -> Result<DeviceBuffer, Error> {
        Ok(buffer.part(start..start.saturating_add(bytes))?)
    }

    fn upload(&self, stream: &Stream, to: &DeviceBuffer, from: &[u8]) -> Result<(), Error> {
        Ok(to.upload(stream, from)?)
    }

    fn download(&self, stream: &Stream, from: &DeviceBuffer, to: &mut [u8]) -> Result<(), Error> {
        Ok(from.download(stream, 0, to)?)
    }

    fn prepare(&self, order: Order<'_, DeviceBuffer>) -> Result<Ready, Error> {
        Ok(match order {
            Order::Launch { kernel, args, dims, rows, dependent, distinct } => {
                let loaded = kernel.module.as_ref().and_then(|module| module.on_device());
                let loaded = loaded.ok_or_else(|| Error::Internal("a kernel is not on the device".to_owned()))?;
                let args: Vec<DeviceArg<'_>> = args
                    .iter()
                    .map(|arg| match arg {
                        Arg::In(buffer) => DeviceArg::In(buffer),
                        Arg::Out(buffer) => DeviceArg::Out(buffer),
                        Arg::Same(other) => DeviceArg::Same(*other),
                    })
                    .collect();
                Ready::Launch(loaded.prepare(
                    &args,
                    dims,
                    rows,
                    LaunchOptions { dependent, distinct, unordered: false },
                )?)
            }
            Order::MatMul { product, a, b, c } => {
                let none = || Error::Internal("a product in a program that had none".to_owned());
                let blas = self.blas.as_ref().ok_or_else(none)?;
                Ready::MatMul(blas.prepare(product, [&a, &b, &c])?)
            }
            Order::Copy { from, to } => Ready::Copy { from, to },
            Order::Clear(buffer) => Ready::Clear(buffer),
        })
    }

    fn enqueue(&self, ready: &Ready, stream: &Stream) -> Result<(), Error> {
        match ready {
            Ready::Launch(launch) => launch.enqueue(stream)?,
            Ready::MatMul(product) => product.enqueue(stream)?,
            Ready::Copy { from, to } => to.copy_from(stream, from)?,
            Ready::Clear(buffer) => buffer.fill(stream, 0)?,
        }
        Ok(())
    }

    fn mark(&self, stream: &Stream) -> Result<Event, Error> {
        let event = self.gpu.event()?;
        event.record(stream)?;
        Ok(event)
    }

    fn us_between(&self, from: &Event, to: &Event) -> Result<f64, Error> {
        Ok(from.us_until(to)?)
    }

    fn wait(&self, stream: &Stream) -> Result<(), Error> {
        Ok(stream.wait()?)
    }
}
