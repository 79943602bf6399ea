//! Ascend NPUs as programs see devices.

use fusewright_runtime::ascend::{DeviceArg, DeviceBuffer, Event, GraphRecorder, HostFunction, Npu, Prepared, Stream};

use super::hardware::{Arg, Hardware, Order};
use super::npu_product::multiply;
use crate::Error;

/// An NPU, or the host model of one.
#[derive(Debug)]
pub(in crate::program) struct Ascend {
    npu: Npu,
}

impl Ascend {
    pub fn new(npu: Npu) -> Ascend {
        Ascend { npu }
    }

    /// The device.
    pub fn npu(&self) -> &Npu {
        &self.npu
    }
}

/// A command on an NPU.
#[derive(Debug)]
pub(in crate::program) enum Ready {
    Launch(Prepared),
    /// A product, which the host computes of memory of the host model.
    MatMul(HostFunction),
    Copy {
        from: DeviceBuffer,
        to: DeviceBuffer,
    },
    Clear(DeviceBuffer),
}

impl Hardware for Ascend {
    type Buffer = DeviceBuffer;
    type Stream = Stream;
    type Ready = Ready;
    type Recorder = GraphRecorder;
    type Mark = Event;

    fn recorder(&self) -> Result<GraphRecorder, Error> {
        Ok(GraphRecorder::new(self.npu.clone(), self.npu.stream()?))
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, Error> {
        Ok(self.npu.buffer(bytes)?)
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
            Order::Launch { kernel, args, dims, rows, distinct, dependent: _ } => {
                let loaded = kernel.module.as_ref().and_then(|module| module.on_npu());
                let loaded = loaded.ok_or_else(|| Error::Internal("a kernel is not on the device".to_owned()))?;
                let args: Vec<DeviceArg<'_>> = args
                    .iter()
                    .map(|arg| match arg {
                        Arg::In(buffer) => DeviceArg::In(buffer),
                        Arg::Out(buffer) => DeviceArg::Out(buffer),
                        Arg::Same(other) => DeviceArg::Same(*other),
                    })
                    .collect();
                Ready::Launch(loaded.prepare(&args, dims, rows, distinct)?)
            }
            Order::MatMul { product, a, b, c } => {
                let product = *product;
                let compute = Box::new(move |operands: &[&[u8]], result: &mut [u8]| {
                    multiply(&product, operands, result);
                });
                Ready::MatMul(HostFunction::new(&self.npu, vec![a, b], c, compute)?)
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
        let event = self.npu.event()?;
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
