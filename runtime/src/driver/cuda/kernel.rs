//! Kernels on a GPU, and launches of them on buffers that are there.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fusewright_abi::{KernelArtifact, LaunchRule, ManyRows, PayloadKind, RowOrder};
use fusewright_cuda_sys as sys;

use super::api::{Api, Failure};
use super::buffer::{DeviceBuffer, Memory as Allocation};
use super::context::{Context, Current};
use super::stream::Stream;
use crate::RuntimeError;
use crate::driver::signature::{Argument, Memory, Signature, overlap};
use crate::driver::unused::Handle;

/// Most blocks of a launch along its first axis.
const MOST_BLOCKS: usize = i32::MAX as usize;
/// Bytes of shared memory that a launch may have without asking.
const FREE_SHARED: usize = 48 << 10;
/// Bytes for what the driver's compiler says of PTX that it refuses.
const LOG: usize = 4096;
/// How the files begin that an assembler makes of PTX.
const CUBIN: &[u8] = b"\x7fELF";

/// Code in a context, and how it is launched.
#[derive(Debug)]
pub(super) struct Loaded {
    pub signature: Signature,
    pub rule: LaunchRule,
    pub context: Arc<Context>,
    function: sys::CUfunction,
    /// The code for many rows, if there is any.
    many: Option<sys::CUfunction>,
    raw: sys::CUmodule,
    /// Bytes of shared memory that launches may state.
    shared: AtomicUsize,
    /// Whether it is never unloaded.
    stays: AtomicBool,
}

// SAFETY: modules and functions are handles that the driver lets every thread use.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// Rows of one launch, and its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub rows: [i64; 2],
    pub blocks: u32,
    /// Whether it is run by the code for many rows.
    pub many: bool,
}

impl Loaded {
    /// Loads a kernel: PTX, which the driver compiles, or the file that an assembler made of it.
    pub fn load(context: Arc<Context>, artifact: &KernelArtifact) -> Result<Loaded, RuntimeError> {
        let refuse = |reason: String| RuntimeError::Artifact { kernel: artifact.name.clone(), reason };
        let image = artifact.payload.bytes.as_slice();
        let terminated = match artifact.payload.kind {
            PayloadKind::Cubin if image.starts_with(CUBIN) => None,
            PayloadKind::Ptx => Some(CString::new(image).map_err(|_| refuse("its PTX is no text".into()))?),
            _ => return Err(refuse("its payload is neither PTX nor what an assembler makes of it".to_owned())),
        };
        let image = terminated.as_ref().map_or(image, |text| text.as_bytes_with_nul());
        let current = context.enter().map_err(|failure| failure.of(&artifact.name))?;
        let raw = load_image(&current, image).map_err(|(failure, log)| match failure {
            _ if failure.is_memory() || failure.is_fault() => failure.of(&artifact.name),
            _ if log.is_empty() => refuse(failure.to_string()),
            _ => refuse(format!("{failure}\n{log}")),
        })?;
        let (signature, rule) = (Signature::of(artifact), artifact.launch.clone());
        let (function, shared) = (std::ptr::null_mut(), AtomicUsize::new(FREE_SHARED));
        let (context, stays) = (Arc::clone(&context), AtomicBool::new(false));
        let mut loaded = Loaded { signature, rule, context, function, many: None, raw, shared, stays };
        loaded.function = self::function(&current, raw, &artifact.name).map_err(refuse)?;
        if artifact.launch.many.is_some() {
            let name = format!("{}{}", artifact.name, ManyRows::SUFFIX);
            loaded.many = Some(self::function(&current, raw, &name).map_err(refuse)?);
        }
        drop(current);
        Ok(loaded)
    }

    /// Has the code stay for as long as the process runs if it becomes part of a graph that somebody else captures:
    /// nobody says when that one is gone.
    pub fn stay_in(self: &Arc<Self>, stream: &Stream) -> Result<(), Failure> {
        if !self.stays.load(Ordering::Relaxed)
            && stream.is_captured_elsewhere()?
            && !self.stays.swap(true, Ordering::Relaxed)
        {
            std::mem::forget(Arc::clone(self));
        }
        Ok(())
    }

    /// The code that runs a range.
    pub fn function(&self, range: &Range) -> sys::CUfunction {
        self.many.filter(|_| range.many).unwrap_or(self.function)
    }

    /// The launches of `rows` rows: as few as there may be, or one for each row where they are not computed at once.
    pub fn ranges(&self, dims: &[i64], rows: usize, at_once: bool) -> impl Iterator<Item = Range> + use<> {
        let few = Blocks { per_row: self.rule.blocks_per_row.count(dims), shares: self.rule.shares.max(1) as usize };
        let many = self.rule.many.as_ref().map(|many| {
            let blocks = Blocks { per_row: many.blocks_per_row.count(dims), shares: many.shares.max(1) as usize };
            (many.from, blocks)
        });
        ranges(few, many, rows, at_once)
    }

    /// Whether all rows are computed at once.
    pub fn at_once(&self, options: LaunchOptions) -> bool {
        match self.signature.order {
            RowOrder::Any => true,
            RowOrder::Chosen { .. } => options.distinct,
            RowOrder::Ascending => false,
        }
    }

    /// The shape of the launch of a range. The attribute, if there is one, outlives it.
    pub fn config(
        &self,
        range: &Range,
        shared: u32,
        stream: &Stream,
        attribute: Option<&mut sys::CUlaunchAttribute>,
    ) -> sys::CUlaunchConfig {
        let mut config = config(range.blocks, self.threads(range), shared, stream.raw());
        if let Some(attribute) = attribute {
            (config.attrs, config.numAttrs) = (attribute, 1);
        }
        config
    }

    /// Threads of a block of a range.
    pub fn threads(&self, range: &Range) -> u32 {
        self.rule.many.as_ref().filter(|_| range.many).map_or(self.rule.threads, |many| many.threads)
    }

    /// Bytes of shared memory that a launch states, which are allowed from now on. The context is current.
    pub fn allow_shared(&self, dims: &[i64]) -> Result<u32, Failure> {
        let bytes = self.rule.shared.count(dims);
        let stated = u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.shared.fetch_max(bytes, Ordering::Relaxed) >= bytes {
            return Ok(stated);
        }
        let allow = |function: sys::CUfunction| {
            // SAFETY: the function is loaded; the attribute says how much a launch may ask for.
            let status = unsafe {
                let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let most = i32::try_from(bytes).unwrap_or(i32::MAX);
                self.context.api.driver.cuFuncSetAttribute(function, attribute, most)
            };
            self.context.api.said("cuFuncSetAttribute", status)
        };
        let allowed = [Some(self.function), self.many].into_iter().flatten().try_for_each(allow);
        allowed.map(|()| stated).inspect_err(|_| self.shared.store(FREE_SHARED, Ordering::Relaxed))
    }

    fn attribute(&self, which: i32) -> Result<u32, RuntimeError> {
        let read = || {
            let _current = self.context.enter()?;
            let mut value = 0;
            // SAFETY: the function is loaded; the driver writes one number.
            let status = unsafe { self.context.api.driver.cuFuncGetAttribute(&mut value, which, self.function) };
            self.context.api.said("cuFuncGetAttribute", status).map(|()| value.unsigned_abs())
        };
        read().map_err(|failure: Failure| failure.of(&self.signature.name))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // A launch may still be running.
        let module = Handle(self.raw);
        self.context.give_back(move |api| {
            // SAFETY: the module is ours, and nothing runs any more.
            unsafe { api.driver.cuModuleUnload(module.get()) };
        });
    }
}

/// A function of a module, by name.
fn function(current: &Current<'_>, module: sys::CUmodule, name: &str) -> Result<sys::CUfunction, String> {
    let name = CString::new(name).map_err(|_| "its name is no word".to_owned())?;
    let (api, mut function) = (current.context.api, std::ptr::null_mut());
    // SAFETY: the module is loaded, the name terminated, and the function writes one handle.
    let status = unsafe { api.driver.cuModuleGetFunction(&mut function, module, name.as_ptr()) };
    api.said("cuModuleGetFunction", status).map(|()| function).map_err(|failure| failure.to_string())
}

/// Blocks of each row, and how many of them share one of threads.
#[derive(Clone, Copy)]
struct Blocks {
    per_row: usize,
    shares: usize,
}

/// The launches of rows of such blocks, or from a number of rows on of others.
fn ranges(
    few: Blocks,
    many: Option<(usize, Blocks)>,
    rows: usize,
    at_once: bool,
) -> impl Iterator<Item = Range> + use<> {
    let most = many.map_or(few.per_row, |(_, many)| few.per_row.max(many.per_row));
    let together = if at_once { (MOST_BLOCKS / most.max(1)).max(1) } else { 1 };
    let rows = if few.per_row == 0 { 0 } else { rows };
    let range = move |begin: usize| {
        let end = (begin + together).min(rows);
        let many = many.filter(|(from, _)| end - begin >= *from);
        let Blocks { per_row, shares } = many.map_or(few, |(_, many)| many);
        let blocks = ((end - begin) * per_row).div_ceil(shares);
        Range { rows: [begin as i64, end as i64], blocks: blocks as u32, many: many.is_some() }
    };
    (0..rows).step_by(together).map(range)
}

/// Has the driver load an image; if it refuses, with what its compiler says. Text is terminated.
fn load_image(current: &Current<'_>, image: &[u8]) -> Result<sys::CUmodule, (Failure, String)> {
    let api = current.context.api;
    let mut log = vec![0 as c_char; LOG];
    let mut names = [sys::CU_JIT_ERROR_LOG_BUFFER, sys::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG - 1)];
    let mut raw = std::ptr::null_mut();
    // SAFETY: the image is terminated text or a file that states its size, the options are ended by their number; the log
    // is of the size that is given, without its last byte, and lives through the call.
    let status = unsafe {
        let (names, values) = (names.as_mut_ptr(), values.as_mut_ptr());
        api.driver.cuModuleLoadDataEx(&mut raw, image.as_ptr().cast(), 2, names, values)
    };
    api.said("cuModuleLoadDataEx", status).map(|()| raw).map_err(|failure| {
        // SAFETY: the last byte of the log is zero.
        let said = unsafe { CStr::from_ptr(log.as_ptr()) };
        (failure, said.to_string_lossy().trim().to_owned())
    })
}

/// The shape of a launch on a stream.
pub(super) fn config(blocks: u32, threads: u32, shared: u32, stream: sys::CUstream) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared,
        hStream: stream,
        attrs: std::ptr::null_mut(),
        numAttrs: 0,
    }
}

/// The addresses of the arguments of a launch: buffers and integers, then the range.
pub(super) fn pointers(values: &[u64], range: &[i64; 2]) -> Vec<*mut c_void> {
    let values = values.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast::<c_void>());
    values.chain(range.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast::<c_void>())).collect()
}

/// What lets a launch begin while what precedes it on the stream ends.
pub(super) fn overlapping() -> sys::CUlaunchAttribute {
    let mut attribute = sys::CUlaunchAttribute {
        id: sys::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { pad: [0; 64] },
    };
    attribute.value.programmaticStreamSerializationAllowed = 1;
    attribute
}

/// Enqueues a launch.
///
/// # Safety
/// The arguments are those of the kernel, in number, order and width, and its buffers as large as they say; the addresses
/// are valid through the call, as is the stream; and the context is current.
pub(super) unsafe fn launch(
    api: &Api,
    config: &sys::CUlaunchConfig,
    function: sys::CUfunction,
    arguments: *const *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: as the caller says. The driver writes none of the arguments.
    let status = unsafe { api.driver.cuLaunchKernelEx(config, function, arguments.cast_mut(), std::ptr::null_mut()) };
    api.said("cuLaunchKernelEx", status)
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
    pub(super) fn address(&self, args: &[DeviceArg<'_>]) -> u64 {
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

/// What a caller knows of the launches that it prepares. By default nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LaunchOptions {
    /// That the launch may begin while what precedes it on the stream ends, if the kernel waits for that by itself.
    pub dependent: bool,
    /// That no two of the places are equal that rows choose to write to, so that they may be computed at once. The device
    /// has them, and nobody else looks. Where two are equal after all, either row's elements may be what stays.
    pub distinct: bool,
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

    /// Whether it waits by itself for what precedes it on a stream.
    pub fn is_dependent(&self) -> bool {
        self.loaded.rule.dependent
    }

    /// Options of a launch behind work that the caller does not know. The launch may begin while that ends where the kernel
    /// touches nothing before it has waited: what it would read early might be what that work writes.
    pub fn behind_anything(&self) -> LaunchOptions {
        let dependent = self.is_dependent() && !self.loaded.signature.params.iter().any(|param| param.early);
        LaunchOptions { dependent, distinct: false }
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
        loaded.signature.check(args, dims, rows)?;
        self.check_memory(args)?;
        let addresses = args.iter().map(|arg| arg.address(args));
        let values: Box<[u64]> = addresses.chain(dims.iter().map(|&dim| dim as u64)).collect();
        let at_once = loaded.at_once(options);
        let ranges: Box<[Range]> = loaded.ranges(dims, rows, at_once).collect();
        let arguments = ranges.iter().map(|range| pointers(&values, &range.rows).into()).collect();
        let shared = {
            let _current = loaded.context.enter().map_err(|failure| failure.of(&loaded.signature.name))?;
            loaded.allow_shared(dims).map_err(|failure| failure.of(&loaded.signature.name))?
        };
        let dependent = options.dependent && loaded.rule.dependent;
        let memory = memory(args);
        let launch = Launch { loaded: Arc::clone(loaded), values, ranges, arguments, shared, dependent, memory };
        Ok(Prepared { launch: Arc::new(launch) })
    }

    /// What the signature does not know of: where memory lies.
    pub(super) fn check_memory(&self, args: &[DeviceArg<'_>]) -> Result<(), RuntimeError> {
        let Loaded { signature, rule, context, .. } = &*self.loaded;
        let refuse = |reason: String| Err(RuntimeError::Arguments { kernel: signature.name.clone(), reason });
        let name = |i: usize| signature.params.get(i).map_or("", |param| param.name.as_str());
        for (i, arg) in args.iter().enumerate() {
            let Some((buffer, _)) = arg.buffer() else { continue };
            if !Arc::ptr_eq(buffer.memory.context(), context) {
                return refuse(format!("`{}` is on another device", name(i)));
            }
            if !buffer.address().is_multiple_of(u64::from(rule.alignment.max(1))) {
                return refuse(format!("`{}` is no multiple of {} bytes away from 0", name(i), rule.alignment));
            }
        }
        let span = |arg: &DeviceArg<'_>| {
            let (buffer, written) = arg.buffer()?;
            Some((buffer.address()..buffer.address() + buffer.len() as u64, written))
        };
        match overlap(args, span) {
            Some((a, b)) => refuse(format!("`{}` and `{}` share memory, and one is written", name(a), name(b))),
            None => Ok(()),
        }
    }
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
    /// Addresses of buffers, and integers; only their addresses are read.
    #[allow(dead_code)]
    values: Box<[u64]>,
    pub ranges: Box<[Range]>,
    /// Per range, the addresses of its arguments, which lie in `values` and `ranges`.
    pub arguments: Vec<Box<[*mut c_void]>>,
    pub shared: u32,
    pub dependent: bool,
    /// What the launch reads and writes.
    #[allow(dead_code)]
    memory: Vec<Arc<Allocation>>,
}

// SAFETY: the addresses are of values that the same launch owns in boxes, and which nothing changes.
unsafe impl Send for Launch {}
// SAFETY: as above.
unsafe impl Sync for Launch {}

impl Prepared {
    /// Runs the launch, when the stream gets there.
    ///
    /// # Errors
    /// A stream of another device; a device that was lost.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), RuntimeError> {
        let Launch { loaded, ranges, arguments, .. } = &*self.launch;
        stream.is_of(&loaded.context, "launching a kernel")?;
        let failed = |failure: Failure| failure.of(&loaded.signature.name);
        let _current = loaded.context.enter().map_err(failed)?;
        loaded.stay_in(stream).map_err(failed)?;
        let mut overlapping = self.launch.dependent.then(overlapping);
        for (range, arguments) in ranges.iter().zip(arguments) {
            let config = loaded.config(range, self.launch.shared, stream, overlapping.as_mut());
            // SAFETY: the artifact's calling convention is buffers, integers, range. The signature compared every buffer with
            // the shapes that the integers imply, and a kernel stays within them. The driver reads the arguments, writes none
            // of them, and keeps no address of them. A graph that is being captured keeps the buffers, as this launch does,
            // and memory goes back only when nothing runs any more.
            unsafe { launch(loaded.context.api, &config, loaded.function(range), arguments.as_ptr()) }
                .map_err(failed)?;
        }
        stream.keep_with(|| Arc::clone(&self.launch) as super::stream::Kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_launched_together_as_far_as_blocks_go() {
        let all = |few, many, rows, at_once| ranges(few, many, rows, at_once).collect::<Vec<Range>>();
        let range = |begin, end, blocks| Range { rows: [begin, end], blocks, many: false };
        let blocks = |per_row, shares| Blocks { per_row, shares };
        assert_eq!(all(blocks(3, 1), None, 5, true), [range(0, 5, 15)]);
        assert_eq!(all(blocks(3, 1), None, 2, false), [range(0, 1, 3), range(1, 2, 3)]);
        assert_eq!(all(blocks(3, 1), None, 0, true), []);
        assert_eq!(all(blocks(0, 1), None, 5, true), []);
        let half = MOST_BLOCKS / 2;
        let big = half as u32;
        assert_eq!(all(blocks(half, 1), None, 3, true), [range(0, 2, 2 * big), range(2, 3, big)]);
        // Four rows' blocks share one of threads, and the last has fewer; many rows have code of their own.
        let many = Some((8, blocks(9, 2)));
        assert_eq!(all(blocks(18, 4), many, 7, true), [range(0, 7, 32)]);
        assert_eq!(all(blocks(18, 4), many, 9, true), [Range { many: true, ..range(0, 9, 41) }]);
        // More blocks of many rows than of few: as many rows together as either code can have.
        let wide = Some((2, blocks(half, 1)));
        assert_eq!(all(blocks(1, 1), wide, 3, true), [Range { many: true, ..range(0, 2, 2 * big) }, range(2, 3, 1)]);
    }

    #[test]
    fn attributes_of_launches_are_laid_out_as_the_driver_reads_them() {
        assert_eq!(std::mem::size_of::<sys::CUlaunchAttribute>(), 72);
        assert_eq!(std::mem::offset_of!(sys::CUlaunchAttribute, value), 8);
        assert_eq!(std::mem::size_of::<sys::CUlaunchConfig>(), 56);
        assert_eq!(std::mem::offset_of!(sys::CUlaunchConfig, hStream), 32);
    }
}
