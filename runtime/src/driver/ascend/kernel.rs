//! Kernels on an NPU, and launches of them on buffers that are there.

use std::ffi::c_void;
use std::sync::Arc;

use fusewright_abi::{KernelArtifact, PayloadKind, RowOrder};
use fusewright_acl_sys as sys;

use super::api::Failure;
use super::arguments::{Arguments, Call, launch};
use super::binary::{self, ELF, Refusal};
use super::buffer::{DeviceBuffer, Memory as Allocation};
use super::context::Context;
use super::stream::Stream;
use crate::driver::signature::{Argument, Memory, Signature, Span, overlap};
use crate::driver::unused::Handle;
use crate::{RuntimeError, trace};

/// Code in a context, and how it is launched.
#[derive(Debug)]
pub(super) struct Loaded {
    pub signature: Signature,
    pub context: Arc<Context>,
    /// What the address of every buffer is a multiple of.
    alignment: u64,
    /// Vector cores that launches are spread over at most.
    cores: u32,
    function: sys::aclrtFuncHandle,
    raw: sys::aclrtBinHandle,
}

// SAFETY: binaries and functions are handles that the runtime lets every thread use.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// Loads the binary of a kernel, which was made for so many cores at least.
    pub fn load(context: Arc<Context>, artifact: &KernelArtifact, cores: u32) -> Result<Loaded, RuntimeError> {
        let refuse = |reason: String| RuntimeError::Artifact { kernel: artifact.name.clone(), reason };
        let image = artifact.payload.bytes.as_slice();
        if artifact.payload.kind == PayloadKind::AscendC {
            let missing = "it is Ascend C, which no toolkit of CANN and no libacl_rtc.so was there to compile";
            return Err(refuse(missing.to_owned()));
        }
        if artifact.payload.kind != PayloadKind::AscendObject || !image.starts_with(ELF) {
            return Err(refuse("its payload is no binary of a compiler of Ascend C".to_owned()));
        }
        let current = context.enter().map_err(|failure| failure.of(&artifact.name))?;
        let raw = binary::load(&current, image).map_err(|refusal| match refusal {
            Refusal::Runtime(failure) if failure.is_memory() || failure.is_fault() => failure.of(&artifact.name),
            Refusal::Runtime(failure) => refuse(failure.to_string()),
            Refusal::File(reason) => refuse(reason),
        })?;
        drop(current);
        let signature = Signature::of(artifact);
        let alignment = u64::from(artifact.launch.alignment.max(1));
        let cores = context.facts.vector_cores.unwrap_or(cores).max(1);
        let function = std::ptr::null_mut();
        let mut loaded = Loaded { signature, context, alignment, cores, function, raw };
        loaded.function = binary::function(loaded.context.api, raw, &artifact.name).map_err(refuse)?;
        Ok(loaded)
    }

    /// Over how many cores rows are spread. A core takes its rows in order, so that one core takes all rows in order.
    pub fn blocks(&self, rows: usize, at_once: bool) -> u32 {
        if at_once { u32::try_from(rows).map_or(self.cores, |rows| rows.min(self.cores)) } else { 1 }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // A launch may still be running.
        let binary = Handle(self.raw);
        self.context.give_back(move |api| {
            // SAFETY: the binary is ours, and nothing runs any more.
            unsafe { (api.acl.aclrtBinaryUnLoad)(binary.get()) };
        });
    }
}

/// A kernel on a device. Cloning gives another handle of it.
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
    fn buffer(&self) -> Option<(&'b DeviceBuffer, bool)> {
        match *self {
            DeviceArg::In(buffer) => Some((buffer, false)),
            DeviceArg::Out(buffer) => Some((buffer, true)),
            DeviceArg::Same(_) => None,
        }
    }

    /// Its address, where those are all arguments.
    fn address(&self, args: &[DeviceArg<'_>]) -> u64 {
        let memory = if let DeviceArg::Same(other) = self { args.get(*other) } else { Some(self) };
        memory.and_then(DeviceArg::buffer).map_or(0, |(buffer, _)| buffer.address())
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

impl Kernel {
    pub(super) fn new(loaded: Arc<Loaded>) -> Kernel {
        Kernel { loaded }
    }

    /// Checks a launch of rows `0..rows` on these buffers, and makes all that it needs. Buffers come in the order of the
    /// artifact's parameters, integers in the order of its dims. `distinct`: no two of the places are equal that rows choose
    /// to write to, so that they may be computed at once; nobody looks.
    ///
    /// # Errors
    /// Arguments of a wrong number or direction; buffers shorter than the shapes that `dims` imply, of another device, or
    /// not aligned as the kernel needs it; memory that is written and given twice.
    pub fn prepare(
        &self,
        args: &[DeviceArg<'_>],
        dims: &[i64],
        rows: usize,
        distinct: bool,
    ) -> Result<Prepared, RuntimeError> {
        let loaded = &self.loaded;
        loaded.signature.check(args, dims, rows)?;
        self.check_memory(args)?;
        let at_once = match loaded.signature.order {
            RowOrder::Any => true,
            RowOrder::Chosen { .. } => distinct,
            RowOrder::Ascending => false,
        };
        let addresses = args.iter().map(|arg| arg.address(args));
        let arguments = Arguments::new(addresses, dims, rows);
        let memory = args.iter().filter_map(DeviceArg::buffer).map(|(buffer, _)| Arc::clone(&buffer.memory)).collect();
        let launch = Launch {
            loaded: Arc::clone(loaded),
            arguments,
            rows,
            blocks: loaded.blocks(rows, at_once),
            _memory: memory,
        };
        Ok(Prepared { launch: Arc::new(launch) })
    }

    /// What the signature does not know of: where memory lies.
    fn check_memory(&self, args: &[DeviceArg<'_>]) -> Result<(), RuntimeError> {
        let Loaded { signature, alignment, context, .. } = &*self.loaded;
        let refuse = |reason: String| Err(RuntimeError::Arguments { kernel: signature.name.clone(), reason });
        let name = |i: usize| signature.params.get(i).map_or("", |param| param.name.as_str());
        for (i, arg) in args.iter().enumerate() {
            let Some((buffer, _)) = arg.buffer() else { continue };
            if !Arc::ptr_eq(buffer.memory.context(), context) {
                return refuse(format!("`{}` is on another device", name(i)));
            }
            if !buffer.address().is_multiple_of(*alignment) {
                return refuse(format!("`{}` is no multiple of {alignment} bytes away from 0", name(i)));
            }
        }
        let span = |arg: &DeviceArg<'_>| match arg.buffer() {
            Some((buffer, written)) => {
                let begin = buffer.address();
                Span { begin, end: begin + buffer.len() as u64, written }
            }
            None => Span { begin: 0, end: 0, written: false },
        };
        match overlap(&args.iter().map(span).collect::<Vec<_>>()) {
            Some((a, b)) => refuse(format!("`{}` and `{}` share memory, and one is written", name(a), name(b))),
            None => Ok(()),
        }
    }
}

/// A launch that was checked: enqueuing it checks nothing more. It keeps its kernel and its buffers.
#[derive(Clone, Debug)]
pub struct Prepared {
    launch: Arc<Launch>,
}

#[derive(Debug)]
struct Launch {
    loaded: Arc<Loaded>,
    arguments: Arguments,
    rows: usize,
    /// None where there are no rows.
    blocks: u32,
    /// What the launch reads and writes.
    _memory: Vec<Arc<Allocation>>,
}

impl Prepared {
    /// Runs the launch, when the stream gets there.
    ///
    /// # Errors
    /// A stream of another device; a device that was lost.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), RuntimeError> {
        let Launch { loaded, arguments, rows, blocks, .. } = &*self.launch;
        stream.is_of(&loaded.context, "launching a kernel")?;
        if *blocks == 0 {
            return Ok(());
        }
        let failed = |failure: Failure| failure.of(&loaded.signature.name);
        let _current = loaded.context.enter().map_err(failed)?;
        let call = Call { function: loaded.function, blocks: *blocks, stream: stream.raw() };
        stream.count();
        let _watched = trace::launch_on_device(&loaded.signature.name, *rows);
        // SAFETY: the artifact's calling convention is buffers, integers, range. The signature compared every buffer with
        // the shapes that the integers imply, and a kernel stays within them. A graph that is being captured keeps the
        // buffers, as this launch does, and memory goes back only when nothing runs any more.
        unsafe { launch(loaded.context.api, &call, arguments) }.map_err(failed)?;
        stream.keep_with(|| Arc::clone(&self.launch) as super::stream::Kept);
        Ok(())
    }
}

/// The address of a value, as the runtime reads arguments.
pub(super) fn address_of(value: &u64) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}
