//! Graphs of an NPU as what pieces of steps are recorded as.

use super::buffer::{DeviceBuffer, refused};
use super::npu::Npu;
use super::stream::{Graph, Stream};
use crate::RuntimeError;
use crate::capture::{Cost, Recorder};

/// Records on a stream of an NPU. The stream belongs to it alone.
#[derive(Debug)]
pub struct GraphRecorder {
    npu: Npu,
    stream: Stream,
}

impl GraphRecorder {
    /// On a stream of this NPU, which is not being captured.
    pub fn new(npu: Npu, stream: Stream) -> GraphRecorder {
        GraphRecorder { npu, stream }
    }

    /// The NPU.
    pub fn npu(&self) -> &Npu {
        &self.npu
    }
}

impl Recorder for GraphRecorder {
    type Buffer = DeviceBuffer;
    type Stream = Stream;
    type Graph = Graph;
    type Error = RuntimeError;

    /// Memory of zeros: graphs of more rows than a call has read rows that nobody writes, and a host model that watches
    /// memory objects to that.
    fn buffer(&self, bytes: usize) -> Result<DeviceBuffer, RuntimeError> {
        let buffer = self.npu.buffer(bytes)?;
        buffer.fill(&self.stream, 0)?;
        Ok(buffer)
    }

    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn record<E: From<RuntimeError>>(
        &mut self,
        enqueue: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<(Graph, Cost), E> {
        let before = self.npu.free_bytes()?;
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
        let bytes = before.saturating_sub(self.npu.free_bytes()?);
        let cost = Cost { nodes: graph.nodes(), bytes };
        Ok((graph, cost))
    }

    fn replay(&self, graph: &Graph) -> Result<(), RuntimeError> {
        graph.launch(&self.stream)
    }
}
