//! Kernels on GPUs, and launches of them on buffers that are there.

use std::ffi::c_void;
use std::sync::Arc;

use fusewright_cuda_sys as sys;

use super::api::Failure;
use super::buffer::{DeviceBuffer, Memory as Allocation};
use super::context::Context;
use super::following::{Line, Used, Uses};
use super::gpu::Gpu;
use super::launch::{Range, launch, overlapping, pointers};
use super::loaded::{Code, Loaded};
use super::stream::Stream;
use crate::driver::signature::{Argument, Memory, Span, overlap};
use crate::{RuntimeError, trace};

/// A kernel, which runs on the device of its buffers. Cloning gives another handle of it.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(super) loaded: Arc<Loaded>,
}

/// A buffer argument of a launch on a device.
#[derive(Clone, Debug)]
pub enum DeviceArg<'b> {
    /// Memory that the kernel reads.
    In(&'b DeviceBuffer),
    /// Memory that the kernel writes, or reads and writes in place.
    Out(&'b DeviceBuffer),
    /// The memory of the argument of that index, which is a [`DeviceArg::Out`] and which the artifact lets this one share.
    Same(usize),
}

impl<'b> DeviceArg<'b> {
    /// The memory that is given here, and whether it may be written.
    pub(super) fn buffer(&self) -> Option<(&'b DeviceBuffer, bool)> {
        match *self {
            DeviceArg::In(buffer) => Some((buffer, false)),
            DeviceArg::Out(buffer) => Some((buffer, true)),
            DeviceArg::Same(_) => None,
        }
    }

    /// Where it lies, where those are all arguments.
    pub(super) fn span(&self, args: &[DeviceArg<'_>]) -> Span {
        let own = |buffer: &DeviceBuffer, written| {
            let begin = buffer.address();
            Span { begin, end: begin + buffer.len() as u64, written }
        };
        match *self {
            DeviceArg::In(buffer) => own(buffer, false),
            DeviceArg::Out(buffer) => own(buffer, true),
            DeviceArg::Same(other) => {
                let buffer = args.get(other).and_then(DeviceArg::buffer);
                Span { begin: buffer.map_or(0, |(buffer, _)| buffer.address()), end: 0, written: false }
            }
        }
    }
}

impl Argument for DeviceArg<'_> {
    fn memory(&self) -> Memory {
        match self {
            DeviceArg::In(buffer) => Memory::In(buffer.len()),
            DeviceArg::Out(buffer) => Memory::Out(buffer.len()),
            DeviceArg::Same(other) => Memory::Same(*other),
        }
    }
}

/// What a caller knows of the launches that it prepares. By default nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LaunchOptions {
    /// That the launch may begin while what precedes it on the stream ends, if the kernel waits for that by itself.
    pub dependent: bool,
    /// That no two of the places are equal that rows choose to write to, so that they may be computed at once. The device
    /// has them, and nobody else looks. Where two are equal after all, either row's elements may be what stays.
    pub distinct: bool,
    /// That rows may be computed at once though two may choose the same place, in whatever way they choose it: it is not
    /// said whose elements stay.
    pub unordered: bool,
}

impl Kernel {
    pub(super) fn new(loaded: Arc<Loaded>) -> Kernel {
        Kernel { loaded }
    }

    /// Registers of a thread.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn registers(&self) -> Result<u32, RuntimeError> {
        self.loaded.attribute(sys::CU_FUNC_ATTRIBUTE_NUM_REGS)
    }

    /// Bytes of memory of a thread's own, which is where registers are spilled to.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn local_bytes(&self) -> Result<u32, RuntimeError> {
        self.loaded.attribute(sys::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
    }

    /// Loads it on a device now, where its first launch there would else do it.
    ///
    /// # Errors
    /// A device that does not run it, or whose driver refuses it; too little memory.
    pub fn load_on(&self, gpu: &Gpu) -> Result<(), RuntimeError> {
        self.loaded.on(gpu.context()).map(|_| ())
    }

    /// Whether it waits by itself for what precedes it on a stream.
    pub fn is_dependent(&self) -> bool {
        self.loaded.rule.dependent
    }

    /// Options of a launch behind work that the caller does not know. The launch may begin while that ends where the kernel
    /// touches nothing before it has waited: what it would read early might be what that work writes.
    pub fn behind_anything(&self) -> LaunchOptions {
        let dependent = self.is_dependent() && !self.loaded.signature.params.iter().any(|param| param.early);
        LaunchOptions { dependent, distinct: false, unordered: false }
    }

    /// Checks a launch of rows `0..rows` on these buffers, and makes all that it needs. Buffers come in the order of the
    /// artifact's parameters, integers in the order of its dims.
    ///
    /// # Errors
    /// Arguments of a wrong number or direction; buffers shorter than the shapes that `dims` imply, of another device, or
    /// not aligned as the kernel needs it; memory that is written and given twice.
    pub fn prepare(
        &self,
        args: &[DeviceArg<'_>],
        dims: &[i64],
        rows: usize,
        options: LaunchOptions,
    ) -> Result<Prepared, RuntimeError> {
        let loaded = &self.loaded;
        let first = args.iter().find_map(DeviceArg::buffer);
        let context = first.map_or(&loaded.home.context, |(buffer, _)| buffer.memory.context());
        loaded.signature.check_each(args, dims, rows, |i, arg| match arg.buffer() {
            Some((buffer, _)) => self.check_place(i, buffer, context),
            None => Ok(()),
        })?;
        let spans: Vec<Span> = args.iter().map(|arg| arg.span(args)).collect();
        self.check_overlap(&spans)?;
        let code = Arc::clone(loaded.on(context)?);
        let addresses = spans.iter().map(|span| span.begin);
        let values: Box<[u64]> = addresses.chain(dims.iter().map(|&dim| dim as u64)).collect();
        let at_once = loaded.at_once(options);
        let ranges: Box<[Range]> = loaded.ranges(dims, rows, at_once).collect();
        let arguments = ranges.iter().map(|range| pointers(&values, &range.rows).into()).collect();
        let shared = {
            let _current = context.enter().map_err(|failure| failure.of(&loaded.signature.name))?;
            loaded.allow_shared(&code, dims).map_err(|failure| failure.of(&loaded.signature.name))?
        };
        let dependent = options.dependent && loaded.rule.dependent;
        let (loaded, memory, uses) = (Arc::clone(loaded), memory(args), Uses::default());
        let launch = Launch { loaded, code, values, ranges, arguments, shared, dependent, memory, uses };
        Ok(Prepared { launch: Arc::new(launch) })
    }

    /// What the signature does not know of: on which device the memory of an argument lies, and how it is aligned.
    #[inline]
    pub(super) fn check_place(
        &self,
        i: usize,
        buffer: &DeviceBuffer,
        context: &Arc<Context>,
    ) -> Result<(), RuntimeError> {
        let alignment = u64::from(self.loaded.rule.alignment.max(1));
        if Arc::ptr_eq(buffer.memory.context(), context) && is_multiple(buffer.address(), alignment) {
            return Ok(());
        }
        Err(self.loaded.signature.refuse(self.misplaced(i, buffer, context)))
    }

    /// Refuses memory that is written and given twice.
    #[inline]
    pub(super) fn check_overlap(&self, spans: &[Span]) -> Result<(), RuntimeError> {
        overlap(spans).map_or(Ok(()), |(a, b)| Err(self.loaded.signature.share(a, b)))
    }

    /// In words, why an argument may not lie where it lies.
    #[cold]
    fn misplaced(&self, i: usize, buffer: &DeviceBuffer, context: &Arc<Context>) -> String {
        let Loaded { signature, rule, .. } = &*self.loaded;
        let name = signature.params.get(i).map_or("", |param| &param.name);
        let (on, expected) = (buffer.memory.context().ordinal, context.ordinal);
        if !Arc::ptr_eq(buffer.memory.context(), context) {
            return format!("`{name}` lies on cuda:{on}, and the launch is on cuda:{expected}");
        }
        format!("`{name}` is no multiple of {} bytes away from 0", rule.alignment)
    }
}

/// Whether an address is a multiple of a number, which nearly always is a power of two: that takes no division.
fn is_multiple(address: u64, of: u64) -> bool {
    if of.is_power_of_two() { address & (of - 1) == 0 } else { address.is_multiple_of(of) }
}

/// The memory of arguments, to be kept.
pub(super) fn memory(args: &[DeviceArg<'_>]) -> Vec<Arc<Allocation>> {
    args.iter().filter_map(DeviceArg::buffer).map(|(buffer, _)| Arc::clone(&buffer.memory)).collect()
}

/// A launch that was checked: enqueuing it checks and allocates nothing more. It keeps its kernel and its buffers.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(super) launch: Arc<Launch>,
}

#[derive(Debug)]
pub(super) struct Launch {
    pub loaded: Arc<Loaded>,
    pub code: Arc<Code>,
    /// Addresses of buffers, and integers; only their addresses are read.
    #[allow(dead_code)]
    values: Box<[u64]>,
    pub ranges: Box<[Range]>,
    /// Per range, the addresses of its arguments, which lie in `values` and `ranges`.
    pub arguments: Vec<Box<[*mut c_void]>>,
    pub shared: u32,
    pub dependent: bool,
    /// What the launch reads and writes.
    memory: Vec<Arc<Allocation>>,
    uses: Uses,
}

// SAFETY: the addresses are of values that the same launch owns in boxes, and which nothing changes.
unsafe impl Send for Launch {}
// SAFETY: as above.
unsafe impl Sync for Launch {}

impl Used for Launch {
    fn used_on(&self, line: &Arc<Line>) {
        self.uses.add(line);
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        for line in self.uses.take() {
            self.memory.iter().for_each(|memory| memory.used_on(&line));
            self.code.used_on(&line);
        }
    }
}

impl Prepared {
    /// Runs the launch, when the stream gets there.
    ///
    /// # Errors
    /// A stream of another device; a device that was lost.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), RuntimeError> {
        let Launch { loaded, code, ranges, arguments, .. } = &*self.launch;
        stream.is_of(&code.context, "launching a kernel")?;
        let failed = |failure: Failure| loaded.failed(code, stream, &failure);
        let _current = code.context.enter().map_err(failed)?;
        self.launch.used_by(stream).map_err(failed)?;
        let rows = ranges.last().map_or(0, |range| range.rows[1] as usize);
        let _watched = trace::launch_on_device(&loaded.signature.name, rows);
        let mut overlapping = self.launch.dependent.then(overlapping);
        for (range, arguments) in ranges.iter().zip(arguments) {
            let config = loaded.config(range, self.launch.shared, stream, overlapping.as_mut());
            // SAFETY: the artifact's calling convention is buffers, integers, range. The signature compared every buffer with
            // the shapes that the integers imply, and a kernel stays within them. The driver reads the arguments, writes none
            // of them, and keeps no address of them. A graph that is being captured keeps the buffers, as this launch does,
            // and memory goes back only when the stream has passed the launch.
            unsafe { launch(code.context.api, &config, code.function(range), arguments.as_ptr()) }.map_err(failed)?;
        }
        stream.keep_with(|| Arc::clone(&self.launch) as super::stream::Kept);
        Ok(())
    }
}

impl Launch {
    /// Notes the launch on a stream, before it is enqueued.
    pub fn used_by(&self, stream: &Stream) -> Result<(), Failure> {
        stream.uses(&self.uses);
        self.code.stays_for(stream)
    }
}
