//! Steps in pieces that are graphs of an NPU.

use std::cell::Cell;
use std::ops::Range;

use fusewright_runtime::RuntimeError;
use fusewright_runtime::ascend::{DeviceArg, GraphRecorder, Prepared};
use fusewright_runtime::capture::{CaptureSizes, Part, Pieces, Recorder, Steps};

use super::*;

/// Steps that each add one to what the step before made, in two buffers by turns.
struct Chain {
    kernel: Kernel,
    parts: Vec<Part>,
    /// A step that cannot be enqueued.
    broken: Cell<Option<usize>>,
}

impl Chain {
    fn launch(&self, step: usize, rows: usize, buffers: &[DeviceBuffer]) -> Result<Prepared, RuntimeError> {
        let args = [DeviceArg::In(&buffers[step % 2]), DeviceArg::Out(&buffers[(step + 1) % 2])];
        self.kernel.prepare(&args, &[rows as i64], rows, true)
    }
}

impl Steps<GraphRecorder> for Chain {
    type Frame = (Vec<DeviceBuffer>, Vec<Prepared>);
    type Error = RuntimeError;

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn needs(&self, rows: usize) -> Result<Vec<usize>, RuntimeError> {
        Ok(vec![4 * rows; 2])
    }

    fn frame(&self, rows: usize, lent: &[DeviceBuffer], _: &GraphRecorder) -> Result<Self::Frame, RuntimeError> {
        let launches = (0..self.parts.len()).map(|step| self.launch(step, rows, lent));
        Ok((lent.to_vec(), launches.collect::<Result<_, _>>()?))
    }

    fn enqueue(
        &self,
        (buffers, launches): &Self::Frame,
        steps: Range<usize>,
        rows: usize,
        stream: &Stream,
    ) -> Result<(), RuntimeError> {
        for step in steps {
            if self.broken.get() == Some(step) {
                // A call that a graph cannot hold, in the middle of one.
                return buffers[0].upload(stream, &[0]);
            }
            if self.parts[step] == Part::Split {
                self.launch(step, rows, buffers)?.enqueue(stream)?;
            } else {
                launches[step].enqueue(stream)?;
            }
        }
        Ok(())
    }
}

#[test]
fn pieces_of_steps_are_graphs_that_share_memory() {
    for (npu, stream, kernel) in kernels("pieces_of_steps_are_graphs_that_share_memory") {
        let run = || -> Result<(), RuntimeError> {
            use Part::{Captured as C, Split as S};
            let chain = Chain { kernel, parts: vec![C, C, S, C], broken: Cell::new(Some(1)) };
            let sizes = CaptureSizes::new([1, 2, 4, 8, 40]).expect("some");
            let mut pieces = Pieces::new(GraphRecorder::new(npu.clone(), stream), chain, sizes.clone())?;
            let call = |pieces: &mut Pieces<GraphRecorder, Chain>, rows: usize| {
                let mut given: Vec<f32> = (0..rows).map(|row| (1000 * rows + row) as f32).collect();
                // What is behind the rows of a call is padding.
                given.resize(sizes.fit(rows).unwrap_or(rows), 0.0);
                pieces.run(
                    rows,
                    |_, (buffers, _), recorder| buffers[0].upload(recorder.stream(), &bytes(&given)),
                    |_, (buffers, _), recorder| Ok(numbers(&buffers[0], recorder.stream())[..rows].to_vec()),
                )
            };
            assert!(call(&mut pieces, 3).is_err(), "the second step cannot be recorded");
            pieces.steps().broken.set(None);
            pieces.prepare()?;
            for rows in (0..=42).chain([5, 30, 1]) {
                let expected: Vec<f32> = (0..rows).map(|row| (1000 * rows + row + 4) as f32).collect();
                assert_eq!(call(&mut pieces, rows)?, sizes.fit(rows).map(|_| expected), "{rows} rows");
            }
            let report = pieces.report();
            assert_eq!(report.graphs.len(), 2 * sizes.all().len());
            assert!(report.graphs.iter().all(|graph| graph.cost.nodes == graph.steps.len()), "{:?}", report.graphs);
            Ok(())
        };
        run().unwrap_or_else(|e| panic!("{e}"));
    }
}
