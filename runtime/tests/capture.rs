//! Pieces of steps on the host recorder: what is recorded when, what calls see, and what errors leave behind.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fusewright_runtime::capture::{
    CaptureSizes, HostArg, HostBuffer, HostLaunch, HostRecorder, HostStream, Part, Pieces, Recorder, Steps,
};
use fusewright_runtime::{Arg, DeviceFailure, Module, RuntimeError};

/// Adds a number to every byte of so many rows.
#[derive(Debug)]
struct Add {
    number: u8,
    launches: AtomicUsize,
}

impl Module for Add {
    fn launch(&self, args: &mut [Arg<'_>], _: &[i64], rows: usize, _: usize) -> Result<(), RuntimeError> {
        self.launches.fetch_add(1, Ordering::Relaxed);
        let [Arg::In(x), Arg::Out(y)] = args else { return Err(refused("takes two buffers")) };
        x[..rows].iter().zip(&mut y[..rows]).for_each(|(x, y)| *y = x.wrapping_add(self.number));
        Ok(())
    }
}

fn refused(reason: &str) -> RuntimeError {
    let (action, failure) = ("adding", DeviceFailure::Refused);
    RuntimeError::Device { action, failure, reason: reason.to_owned() }
}

/// Steps that each add one to what the step before made, in two buffers by turns, from an input to an output.
struct Chain {
    parts: Vec<Part>,
    kernel: Arc<Add>,
    generation: Cell<u64>,
    /// A step that cannot be enqueued.
    broken: Cell<Option<usize>>,
    /// The rows that each step was enqueued for, in order.
    enqueued: std::cell::RefCell<Vec<(usize, usize)>>,
}

impl Chain {
    fn new(parts: &[Part]) -> Chain {
        let kernel = Arc::new(Add { number: 1, launches: AtomicUsize::new(0) });
        let (generation, broken, enqueued) = Default::default();
        Chain { parts: parts.to_vec(), kernel, generation, broken, enqueued }
    }
}

impl Steps<HostRecorder> for Chain {
    type Frame = Vec<HostBuffer>;
    type Error = RuntimeError;

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn needs(&self, rows: usize) -> Result<Vec<usize>, RuntimeError> {
        Ok(vec![rows, rows])
    }

    fn frame(&self, _: usize, buffers: &[HostBuffer], _: &HostRecorder) -> Result<Self::Frame, RuntimeError> {
        Ok(buffers.to_vec())
    }

    fn enqueue(
        &self,
        frame: &Self::Frame,
        steps: Range<usize>,
        rows: usize,
        stream: &HostStream,
    ) -> Result<(), RuntimeError> {
        for step in steps {
            if self.broken.get() == Some(step) {
                return Err(refused("step cannot be enqueued"));
            }
            self.enqueued.borrow_mut().push((step, rows));
            let args = vec![HostArg::In(frame[step % 2].span()), HostArg::Out(frame[(step + 1) % 2].span())];
            let module = Arc::clone(&self.kernel) as Arc<dyn Module>;
            stream.launch(HostLaunch { module, args, dims: Vec::new(), rows, threads: 1 })?;
        }
        Ok(())
    }

    fn generation(&self) -> u64 {
        self.generation.get()
    }
}

type Chained = Pieces<HostRecorder, Chain>;

fn pieces(parts: &[Part], sizes: &[usize]) -> Chained {
    let sizes = CaptureSizes::new(sizes.iter().copied()).expect("sizes");
    Pieces::new(HostRecorder::new(), Chain::new(parts), sizes).expect("memory for a few bytes")
}

/// Calls with rows that count up from `first`.
fn call(pieces: &mut Chained, rows: usize, first: u8) -> Result<Option<Vec<u8>>, RuntimeError> {
    let steps = pieces.steps().parts.len();
    let given: Vec<u8> = (0..rows).map(|row| first.wrapping_add(row as u8)).collect();
    pieces.run(
        rows,
        |_, frame, recorder| {
            recorder.stream().with_memory(|memory| {
                memory.bytes_mut(&frame[0])[..rows].copy_from_slice(&given);
                Ok(())
            })
        },
        |_, frame, recorder| {
            recorder.stream().with_memory(|memory| Ok(memory.bytes(&frame[steps % 2])[..rows].to_vec()))
        },
    )
}

fn expected(rows: usize, first: u8, steps: usize) -> Vec<u8> {
    (0..rows).map(|row| first.wrapping_add(row as u8).wrapping_add(steps as u8)).collect()
}

use Part::{Captured as C, Split as S};

#[test]
fn every_number_of_rows_gives_what_uncaptured_steps_give() {
    let sizes = CaptureSizes::default();
    let mut pieces = pieces(&[C, C, S, C, S, S, C], sizes.all());
    for rows in (0..=520).chain([3, 300, 1, 512, 17]) {
        let found = call(&mut pieces, rows, rows as u8).expect("nothing fails");
        let captured = sizes.fit(rows).is_some();
        assert_eq!(found, captured.then(|| expected(rows, rows as u8, 7)), "{rows} rows");
    }
    let report = pieces.report();
    assert_eq!(report.graphs.len(), 3 * sizes.all().len(), "three pieces, each once per size");
    assert_eq!((report.pool_bytes, report.apart_bytes), (2 * 512, 2 * sizes.all().iter().sum::<usize>()));
    assert_eq!(report.replays, 3 * (512 + 5));
    // What is split off is enqueued for the rows of the call, what is recorded for those of the size.
    let enqueued = pieces.steps().enqueued.borrow();
    assert!(enqueued.contains(&(2, 17)) && enqueued.contains(&(4, 300)) && enqueued.contains(&(5, 300)));
    assert!(enqueued.iter().all(|(step, rows)| [2, 4, 5].contains(step) || sizes.all().contains(rows)));
}

#[test]
fn graphs_are_recorded_when_they_are_needed_or_beforehand() {
    let mut lazy = pieces(&[C, S, C], &[4, 2, 8]);
    assert_eq!(lazy.report().graphs, []);
    call(&mut lazy, 3, 0).expect("runs");
    let rows = |pieces: &Chained| pieces.report().graphs.iter().map(|graph| graph.rows).collect::<Vec<_>>();
    assert_eq!(rows(&lazy), [4, 4]);
    call(&mut lazy, 4, 0).expect("runs");
    assert_eq!(rows(&lazy), [4, 4], "it is there");
    lazy.prepare().expect("records");
    assert_eq!(rows(&lazy), [4, 4, 8, 8, 2, 2], "the largest that is missing first");
    let mut ready = pieces(&[C, S, C], &[4, 2, 8]);
    ready.prepare().expect("records");
    assert_eq!(rows(&ready), [8, 8, 4, 4, 2, 2]);
    assert_eq!(ready.steps().kernel.launches.load(Ordering::Relaxed), 0, "recording runs nothing");
    for rows in 1..=8 {
        assert_eq!(call(&mut ready, rows, 7).expect("runs"), Some(expected(rows, 7, 3)));
    }
    assert_eq!(rows(&ready).len(), 6);
    let graphs = ready.report().graphs;
    assert!(graphs.iter().all(|graph| graph.cost.nodes == 1 && graph.cost.bytes > 0), "{graphs:?}");
    assert_eq!((graphs[0].steps.clone(), graphs[1].steps.clone()), (0..1, 2..3));
}

#[test]
fn an_error_while_recording_leaves_everything_usable() {
    let mut pieces = pieces(&[C, C, S, C], &[4]);
    pieces.steps().broken.set(Some(1));
    for _ in 0..2 {
        let error = call(&mut pieces, 4, 0).expect_err("the step is broken").to_string();
        assert!(error.contains("cannot be enqueued"), "{error}");
    }
    assert_eq!(pieces.report().graphs, []);
    let free = pieces.recorder().stream().with_memory(|_| Ok(()));
    free.expect("nothing is being recorded any more");
    // The piece behind an error is recorded, too, and the one before is not lost.
    pieces.steps().broken.set(Some(3));
    call(&mut pieces, 4, 0).expect_err("the step is broken");
    assert_eq!(pieces.report().graphs.len(), 1);
    pieces.steps().broken.set(Some(2));
    call(&mut pieces, 4, 0).expect_err("it is not recorded, and does not run either");
    pieces.steps().broken.set(None);
    assert_eq!(call(&mut pieces, 3, 9).expect("runs"), Some(expected(3, 9, 4)));
    assert_eq!(pieces.report().graphs.len(), 2);
}

#[test]
fn a_panic_while_recording_leaves_the_stream_usable() {
    let mut recorder: HostRecorder = HostRecorder::new();
    let panics = std::panic::AssertUnwindSafe(|| recorder.record::<RuntimeError>(|_| panic!("on purpose")).map(drop));
    assert!(std::panic::catch_unwind(panics).is_err());
    recorder.stream().with_memory(|_| Ok(())).expect("nothing is being recorded any more");
    recorder.record::<RuntimeError>(|_| Ok(())).expect("records");
}

#[test]
fn graphs_are_recorded_anew_when_what_they_use_has_moved() {
    let mut pieces = pieces(&[C, S, C], &[2, 4]);
    pieces.prepare().expect("records");
    pieces.steps().generation.set(1);
    assert_eq!(call(&mut pieces, 4, 1).expect("runs"), Some(expected(4, 1, 3)));
    let report = pieces.report();
    assert_eq!((report.graphs.len(), report.dropped), (6, 2), "those of the size that was called");
    call(&mut pieces, 4, 1).expect("runs");
    assert_eq!(pieces.report().graphs.len(), 6);
}

#[test]
fn steps_that_are_all_split_off_record_nothing() {
    let mut pieces = pieces(&[S, S], &[2]);
    assert_eq!(call(&mut pieces, 1, 1).expect("runs"), Some(expected(1, 1, 2)));
    assert_eq!((pieces.report().graphs.len(), pieces.report().replays), (0, 0));
    pieces.prepare().expect("nothing to do");
}

#[test]
fn launches_that_make_no_sense_are_refused_when_they_are_recorded() {
    let mut recorder: HostRecorder = HostRecorder::new();
    let module: Arc<dyn Module> = Arc::new(Add { number: 1, launches: AtomicUsize::new(0) });
    let buffer = recorder.buffer(4).expect("a few bytes");
    let weights = recorder.stream().shared(Arc::new(vec![1u8; 4]));
    let foreign = HostRecorder::<RuntimeError>::new().buffer(4).expect("a few bytes");
    let cases = [
        (HostArg::In(buffer.span()), HostArg::Out(buffer.span()), "written and given twice"),
        (HostArg::In(buffer.span()), HostArg::Out(weights.span()), "shared with others"),
        (HostArg::In(weights.part(2..5)), HostArg::Out(buffer.span()), "bytes 2..5 of a buffer of 4"),
        (HostArg::In(foreign.span()), HostArg::Out(buffer.span()), "of another stream"),
    ];
    for (input, output, said) in cases {
        let launch = HostLaunch {
            module: Arc::clone(&module),
            args: vec![input, output],
            dims: Vec::new(),
            rows: 4,
            threads: 1,
        };
        let made = recorder.record::<RuntimeError>(|stream| stream.launch(launch));
        let error = made.map(drop).expect_err("it makes no sense").to_string();
        assert!(error.contains(said), "no `{said}` in: {error}");
    }
    let (graph, _) = recorder.record::<RuntimeError>(|_| Ok(())).expect("records");
    assert!(HostRecorder::<RuntimeError>::new().replay(&graph).is_err(), "it is another's");
    let memory = recorder.stream().with_memory(|memory| Ok(memory.bytes(&foreign).len()));
    assert_eq!(memory.expect("nothing is being recorded"), 0);
    let within = recorder.record::<RuntimeError>(|stream| stream.with_memory(|_| Ok(())));
    assert!(within.is_err(), "what is recorded has not run");
}
