//! A device in memory of the host, for tests: it keeps to what devices promise, and counts what it is asked for. Kernels are
//! those of the CPU; products are computed as a library computes them that is given matrices stored column by column. What is
//! enqueued runs at once, or is recorded by the recorder of the host.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewright_abi::DType;
use fusewright_runtime::capture::{Cost, HostGraph, HostRecorder, HostStream, Recorder};
use fusewright_runtime::{Arg as HostArg, MatMul, RuntimeError, Stored};

use super::hardware::{Arg, Hardware, Order};
use crate::Error;
use crate::matmul::{narrow, widen};
use crate::program::step::CompiledKernel;

/// What every part of memory has to begin at a multiple of, to be the operand of a kernel.
const ALIGNMENT: usize = 16;

/// The device.
#[derive(Debug, Default)]
pub(super) struct HostDevice {
    pub allocations: AtomicUsize,
    /// Commands that were checked.
    pub prepared: AtomicUsize,
    /// Uploads, downloads and waits: where the host waits for the device.
    pub waits: AtomicUsize,
    /// What was enqueued, in order.
    pub enqueued: Arc<Mutex<Vec<&'static str>>>,
}

/// A part of memory.
#[derive(Clone, Debug)]
pub(super) struct HostBuffer {
    memory: Arc<Mutex<Vec<u8>>>,
    start: usize,
    bytes: usize,
}

impl HostBuffer {
    /// What is not written shows in results.
    fn new(bytes: usize) -> HostBuffer {
        HostBuffer { memory: Arc::new(Mutex::new(vec![0xa5; bytes])), start: 0, bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> Vec<u8> {
        self.lock()[self.start..self.start + self.bytes].to_vec()
    }

    fn write(&self, bytes: &[u8]) {
        self.lock()[self.start..self.start + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn overlaps(&self, other: &HostBuffer) -> bool {
        let (a, b) = (self.start..self.start + self.bytes, other.start..other.start + other.bytes);
        Arc::ptr_eq(&self.memory, &other.memory) && a.start < b.end && b.start < a.end
    }
}

/// A command that was checked.
#[derive(Debug)]
pub(super) enum Ready {
    Launch { kernel: Arc<CompiledKernel>, args: Vec<Arg<HostBuffer>>, dims: Vec<i64>, rows: usize },
    MatMul { product: MatMul, a: HostBuffer, b: HostBuffer, c: HostBuffer },
    Copy { from: HostBuffer, to: HostBuffer },
    Clear(HostBuffer),
}

/// Records on a stream of its own.
pub(super) struct DeviceRecorder(HostRecorder<RuntimeError>);

impl Recorder for DeviceRecorder {
    type Buffer = HostBuffer;
    type Stream = HostStream<RuntimeError>;
    type Graph = HostGraph<RuntimeError>;
    type Error = RuntimeError;

    fn buffer(&self, bytes: usize) -> Result<HostBuffer, RuntimeError> {
        Ok(HostBuffer::new(bytes))
    }

    fn stream(&self) -> &HostStream<RuntimeError> {
        self.0.stream()
    }

    fn record<E: From<RuntimeError>>(
        &mut self,
        enqueue: impl FnOnce(&HostStream<RuntimeError>) -> Result<(), E>,
    ) -> Result<(HostGraph<RuntimeError>, Cost), E> {
        self.0.record(enqueue)
    }

    fn replay(&self, graph: &HostGraph<RuntimeError>) -> Result<(), RuntimeError> {
        self.0.replay(graph)
    }
}

impl HostDevice {
    /// Waits for a stream, which is no use while it is recorded.
    fn waits(&self, stream: &HostStream<RuntimeError>) -> Result<(), Error> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        Ok(stream.with_memory(|_| Ok(()))?)
    }
}

impl Hardware for HostDevice {
    type Buffer = HostBuffer;
    type Stream = HostStream<RuntimeError>;
    type Ready = Arc<Ready>;
    type Recorder = DeviceRecorder;
    type Mark = ();

    fn recorder(&self) -> Result<DeviceRecorder, Error> {
        Ok(DeviceRecorder(HostRecorder::new()))
    }

    fn allocate(&self, bytes: usize) -> Result<HostBuffer, Error> {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        Ok(HostBuffer::new(bytes))
    }

    fn part(&self, buffer: &HostBuffer, start: usize, bytes: usize) -> Result<HostBuffer, Error> {
        if start + bytes > buffer.bytes {
            return Err(Error::Internal(format!("bytes {start} to {} of {}", start + bytes, buffer.bytes)));
        }
        Ok(HostBuffer { memory: Arc::clone(&buffer.memory), start: buffer.start + start, bytes })
    }

    fn upload(&self, stream: &HostStream<RuntimeError>, to: &HostBuffer, from: &[u8]) -> Result<(), Error> {
        self.waits(stream)?;
        to.write(from);
        Ok(())
    }

    fn download(&self, stream: &HostStream<RuntimeError>, from: &HostBuffer, to: &mut [u8]) -> Result<(), Error> {
        self.waits(stream)?;
        let bytes = from.read();
        to.copy_from_slice(&bytes[..to.len()]);
        Ok(())
    }

    fn prepare(&self, order: Order<'_, HostBuffer>) -> Result<Arc<Ready>, Error> {
        self.prepared.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(match order {
            Order::Launch { kernel, args, dims, rows, .. } => {
                check_launch(&args)?;
                Ready::Launch { kernel: Arc::clone(kernel), args, dims: dims.to_vec(), rows }
            }
            Order::MatMul { product, a, b, c } => {
                assert!(!c.overlaps(&a) && !c.overlaps(&b), "a product overwrites what it reads");
                Ready::MatMul { product: *product, a, b, c }
            }
            Order::Copy { from, to } => {
                assert!(from.bytes == to.bytes && !from.overlaps(&to), "a copy onto itself: {from:?} {to:?}");
                Ready::Copy { from, to }
            }
            Order::Clear(buffer) => Ready::Clear(buffer),
        }))
    }

    fn enqueue(&self, ready: &Arc<Ready>, stream: &HostStream<RuntimeError>) -> Result<(), Error> {
        let (ready, enqueued) = (Arc::clone(ready), Arc::clone(&self.enqueued));
        Ok(stream.call(move |_| {
            let (what, done) = ready.run();
            enqueued.lock().unwrap_or_else(PoisonError::into_inner).push(what);
            done
        })?)
    }

    fn mark(&self, stream: &HostStream<RuntimeError>) -> Result<(), Error> {
        self.wait(stream)
    }

    fn us_between(&self, (): &(), (): &()) -> Result<f64, Error> {
        Ok(1.0)
    }

    fn wait(&self, stream: &HostStream<RuntimeError>) -> Result<(), Error> {
        self.waits(stream)
    }
}

impl Ready {
    /// What it is, and what became of it.
    fn run(&self) -> (&'static str, Result<(), RuntimeError>) {
        match self {
            Ready::Launch { kernel, args, dims, rows } => ("launch", launch(kernel, args, dims, *rows)),
            Ready::MatMul { product, a, b, c } => {
                multiply(product, [a, b], c);
                ("product", Ok(()))
            }
            Ready::Copy { from, to } => {
                to.write(&from.read());
                ("copy", Ok(()))
            }
            Ready::Clear(buffer) => {
                buffer.write(&vec![0; buffer.bytes]);
                ("clear", Ok(()))
            }
        }
    }
}

/// What the driver of a GPU refuses.
fn check_launch(args: &[Arg<HostBuffer>]) -> Result<(), Error> {
    let of = |arg: &Arg<HostBuffer>| match arg {
        Arg::In(buffer) => Some((buffer.clone(), false)),
        Arg::Out(buffer) => Some((buffer.clone(), true)),
        Arg::Same(_) => None,
    };
    let spans: Vec<(HostBuffer, bool)> = args.iter().filter_map(of).filter(|(buffer, _)| buffer.bytes > 0).collect();
    for (i, (a, written)) in spans.iter().enumerate() {
        if !a.start.is_multiple_of(ALIGNMENT) {
            return Err(Error::Internal(format!("argument {i} begins at byte {}", a.start)));
        }
        if spans[i + 1..].iter().any(|(b, other)| (*written || *other) && a.overlaps(b)) {
            return Err(Error::Internal(format!("argument {i} shares memory, and one is written")));
        }
    }
    Ok(())
}

fn launch(kernel: &CompiledKernel, args: &[Arg<HostBuffer>], dims: &[i64], rows: usize) -> Result<(), RuntimeError> {
    let read = |arg: &Arg<HostBuffer>| match arg {
        Arg::In(buffer) | Arg::Out(buffer) => buffer.read(),
        Arg::Same(_) => Vec::new(),
    };
    let mut bytes: Vec<Vec<u8>> = args.iter().map(read).collect();
    let mut given: Vec<HostArg<'_>> = Vec::with_capacity(args.len());
    for (arg, bytes) in args.iter().zip(&mut bytes) {
        given.push(match arg {
            Arg::In(_) => HostArg::In(bytes),
            Arg::Out(_) => HostArg::Out(bytes),
            Arg::Same(other) => HostArg::Same(*other),
        });
    }
    let module = kernel.module.as_ref().expect("kernels of tests are loaded");
    module.launch(&mut given, dims, rows, 1)?;
    for (arg, bytes) in args.iter().zip(&bytes) {
        if let Arg::Out(buffer) = arg {
            buffer.write(bytes);
        }
    }
    Ok(())
}

/// A product as a library computes it that knows of columns alone.
fn multiply(product: &MatMul, [a, b]: [&HostBuffer; 2], c: &HostBuffer) {
    let form = product.column_major().expect("commands are of products that libraries take");
    let (left, right) = if form.swapped { (b, a) } else { (a, b) };
    let values = |buffer: &HostBuffer| match product.a.dtype {
        DType::I8 => buffer.read().iter().map(|&code| f32::from(code as i8)).collect(),
        dtype => widen(dtype, &buffer.read()).expect("a dtype that libraries take"),
    };
    let (left, right) = (values(left), values(right));
    let at = |stored: &Stored, batch: usize, row: usize, column: usize| {
        let (row, column) = if stored.transposed { (column, row) } else { (row, column) };
        batch * stored.batch_stride + column * stored.leading + row
    };
    let (mut out, width) = (c.read(), product.c.dtype.bytes_for(1));
    for batch in 0..product.batch {
        for (column, row) in (0..form.out.columns).flat_map(|column| (0..form.out.rows).map(move |row| (column, row))) {
            let term = |l: usize| left[at(&form.left, batch, row, l)] * right[at(&form.right, batch, l, column)];
            let sum: f32 = (0..product.k).map(term).sum();
            let place = at(&form.out, batch, row, column) * width;
            let element = &mut out[place..place + width];
            match product.c.dtype {
                // The sums of tests are exact in f32.
                DType::I32 => element.copy_from_slice(&(sum as i32).to_le_bytes()),
                dtype => narrow(dtype, &[sum], element).expect("a dtype that libraries give"),
            }
        }
    }
    c.write(&out);
}
