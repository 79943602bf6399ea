//! CUDA graphs as what pieces of steps are recorded as.

use super::buffer::{DeviceBuffer, refused};
use super::gpu::Gpu;
use super::stream::{Graph, Stream};
use crate::RuntimeError;
use crate::capture::{Cost, Recorder};

/// Records on a stream of a GPU. The stream belongs to it alone.
#[derive(Debug)]
pub struct GraphRecorder {
    gpu: Gpu,
    stream: Stream,
}

impl GraphRecorder {
    /// On a stream of this GPU, which is not being captured.
    pub fn new(gpu: Gpu, stream: Stream) -> GraphRecorder {
        GraphRecorder { gpu, stream }
    }

    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

impl Recorder for GraphRecorder {
    type Buffer = DeviceBuffer;
    type Stream = Stream;
    type Graph = Graph;
    type Error = RuntimeError;

    fn buffer(&self, bytes: usize) -> Result<DeviceBuffer, RuntimeError> {
        self.gpu.buffer(bytes)
    }

    fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Records, and sends the graph to the device, so that its first replay does not.
    fn record<E: From<RuntimeError>>(
        &mut self,
        enqueue: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<(Graph, Cost), E> {
        let before = self.gpu.free_bytes()?;
        let mut failed = None;
        let graph = self.stream.capture(|stream| {
            enqueue(stream).map_err(|error| {
                failed = Some(error);
                refused("capturing a graph", "what it is to hold was not enqueued".to_owned())
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let graph = graph?;
        graph.upload(&self.stream)?;
        self.stream.wait()?;
        let bytes = before.saturating_sub(self.gpu.free_bytes()?);
        let cost = Cost { nodes: graph.nodes(), bytes };
        Ok((graph, cost))
    }

    fn replay(&self, graph: &Graph) -> Result<(), RuntimeError> {
        graph.launch(&self.stream)
    }
}
