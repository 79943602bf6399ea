//! Kernels on a GPU.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;

use fusewright_abi::{Count, KernelArtifact, ManyRows, PayloadKind};
use fusewright_cuda_sys as sys;

use super::api::Failure;
use super::context::{Context, Current};
use super::memory::Buffer;
use crate::driver::signature::Signature;
use crate::{Arg, Module, RuntimeError};

/// Most blocks of a launch along its first axis.
const MOST_BLOCKS: usize = i32::MAX as usize;
/// Bytes of shared memory that a launch may have without asking.
const FREE_SHARED: usize = 48 << 10;
/// Bytes for what the driver's compiler says of PTX that it refuses.
const LOG: usize = 4096;

/// A kernel that is loaded into a context.
#[derive(Debug)]
pub(super) struct CudaModule {
    pub signature: Signature,
    entry: Entry,
    /// From how many rows of a launch on other code is better, and that.
    many: Option<(usize, Entry)>,
    /// How many of the blocks of rows share one of threads.
    shares: usize,
    threads: u32,
    shared: Count,
    /// Whether the code waits for what is ahead of it by itself.
    dependent: bool,
    context: Arc<Context>,
    raw: sys::CUmodule,
}

/// Code of a kernel.
#[derive(Debug)]
struct Entry {
    blocks_per_row: Count,
    function: sys::CUfunction,
}

// SAFETY: modules and functions are handles that the driver lets every thread use.
unsafe impl Send for CudaModule {}
// SAFETY: as above.
unsafe impl Sync for CudaModule {}

impl CudaModule {
    /// Loads a kernel, whose PTX the driver compiles.
    pub fn load(context: Arc<Context>, artifact: &KernelArtifact) -> Result<CudaModule, RuntimeError> {
        let refuse = |reason: String| RuntimeError::Artifact { kernel: artifact.name.clone(), reason };
        if artifact.payload.kind != PayloadKind::Ptx {
            return Err(refuse("its payload is no PTX".to_owned()));
        }
        let image = CString::new(artifact.payload.bytes.as_slice()).map_err(|_| refuse("its PTX is no text".into()))?;
        let current = context.enter().map_err(|failure| error(&artifact.name, &failure))?;
        let raw = compile(&current, &image).map_err(|(failure, log)| match failure {
            _ if failure.is_memory() || failure.is_fault() => error(&artifact.name, &failure),
            _ if log.is_empty() => refuse(failure.to_string()),
            _ => refuse(format!("{failure}\n{log}")),
        })?;
        let mut module = CudaModule {
            signature: Signature::of(artifact),
            entry: Entry { blocks_per_row: artifact.launch.blocks_per_row.clone(), function: std::ptr::null_mut() },
            many: None,
            shares: artifact.launch.shares.max(1) as usize,
            threads: artifact.launch.threads,
            shared: artifact.launch.shared.clone(),
            dependent: artifact.launch.dependent,
            context: Arc::clone(&context),
            raw,
        };
        module.entry.function = function(&current, raw, &artifact.name).map_err(refuse)?;
        if let Some(many) = &artifact.launch.many {
            let function = function(&current, raw, &format!("{}{}", artifact.name, ManyRows::SUFFIX));
            let function = function.map_err(refuse)?;
            module.many = Some((many.from, Entry { blocks_per_row: many.blocks_per_row.clone(), function }));
        }
        Ok(module)
    }

    /// The code for so many rows of a launch.
    fn entry(&self, rows: usize) -> &Entry {
        self.many.as_ref().filter(|(from, _)| rows >= *from).map_or(&self.entry, |(_, entry)| entry)
    }

    /// An attribute of the code for so many rows.
    pub fn attribute(&self, rows: usize, which: i32) -> Result<i32, Failure> {
        let current = self.context.enter()?;
        let (api, mut value) = (current.context.api, 0);
        // SAFETY: the function is loaded; the value is written.
        let status = unsafe { api.driver.cuFuncGetAttribute(&mut value, which, self.entry(rows).function) };
        api.said("cuFuncGetAttribute", status).map(|()| value)
    }

    /// Computes a range of rows of buffers on the device; if it `overlaps`, it may begin before what is ahead of it ends.
    /// The signature compared the buffers with the shapes that `dims` imply.
    pub fn enqueue(
        &self,
        current: &Current<'_>,
        stream: sys::CUstream,
        buffers: &[sys::CUdeviceptr],
        dims: &[i64],
        [begin, end]: [usize; 2],
        overlaps: bool,
    ) -> Result<(), Failure> {
        let entry = self.entry(end - begin);
        let blocks = ((end - begin) * entry.blocks_per_row.count(dims)).div_ceil(self.shares);
        if blocks == 0 {
            return Ok(());
        }
        let shared = self.shared.count(dims);
        let api = current.context.api;
        if shared > FREE_SHARED {
            // SAFETY: the function is loaded; the attribute says how much a launch may ask for.
            let status = unsafe {
                let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                api.driver.cuFuncSetAttribute(entry.function, attribute, i32::try_from(shared).unwrap_or(i32::MAX))
            };
            api.said("cuFuncSetAttribute", status)?;
        }
        let range = [begin as i64, end as i64];
        let addresses = buffers.iter().map(|address| std::ptr::from_ref(address).cast_mut().cast::<c_void>());
        let integers = dims.iter().chain(&range).map(|value| std::ptr::from_ref(value).cast_mut().cast::<c_void>());
        let mut values: Vec<*mut c_void> = addresses.chain(integers).collect();
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttribute__bindgen_ty_1 { pad: [0; 64] },
        };
        attribute.value.number = 1;
        let config = sys::CUlaunchConfig {
            grid_x: blocks as u32,
            grid_y: 1,
            grid_z: 1,
            block_x: self.threads,
            block_y: 1,
            block_z: 1,
            shared_bytes: shared as u32,
            stream,
            attributes: &mut attribute,
            attribute_count: u32::from(overlaps && self.dependent),
        };
        // SAFETY: the artifact's calling convention is buffers, integers, range. A kernel stays within buffers of the shapes
        // that `dims` imply, and the driver copies values and attributes before it returns.
        let status = unsafe {
            let none = std::ptr::null_mut();
            api.driver.cuLaunchKernelEx(&config, entry.function, values.as_mut_ptr(), none)
        };
        api.said("cuLaunchKernelEx", status)
    }

    fn run(&self, args: &mut [Arg<'_>], dims: &[i64], rows: usize) -> Result<(), Failure> {
        let current = self.context.enter()?;
        let mut memory: Vec<Option<Buffer<'_>>> = Vec::with_capacity(args.len());
        for (param, arg) in self.signature.params.iter().zip(args.iter()) {
            let bytes = param.dtype.bytes_for(param.elements.count(dims));
            // What is written is sent too: rows need not write all of it.
            let host: &[u8] = match arg {
                Arg::In(host) => host,
                Arg::Out(host) => host,
                Arg::Same(_) => {
                    memory.push(None);
                    continue;
                }
            };
            let buffer = Buffer::new(&current, bytes)?;
            buffer.upload(host)?;
            memory.push(Some(buffer));
        }
        let address = |i: usize| memory.get(i).and_then(Option::as_ref).map_or(0, |buffer| buffer.address);
        let buffers: Vec<sys::CUdeviceptr> = args
            .iter()
            .enumerate()
            .map(|(i, arg)| if let Arg::Same(other) = arg { address(*other) } else { address(i) })
            .collect();
        let blocks = self.entry(rows).blocks_per_row.count(dims).max(1);
        let together = if self.signature.at_once(args, rows) { MOST_BLOCKS / blocks } else { 1 };
        let together = together.max(1);
        for begin in (0..rows).step_by(together) {
            let rows = [begin, (begin + together).min(rows)];
            self.enqueue(&current, current.context.stream, &buffers, dims, rows, false)?;
        }
        for (arg, buffer) in args.iter_mut().zip(&memory) {
            if let (Arg::Out(host), Some(buffer)) = (arg, buffer) {
                buffer.download(host)?;
            }
        }
        current.wait()
    }
}

impl Module for CudaModule {
    fn launch(&self, args: &mut [Arg<'_>], dims: &[i64], rows: usize, _: usize) -> Result<(), RuntimeError> {
        self.signature.check(args, dims, rows)?;
        self.run(args, dims, rows).map_err(|failure| error(&self.signature.name, &failure))
    }
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: the module is ours, and every launch of it was waited for.
            unsafe { self.context.api.driver.cuModuleUnload(self.raw) };
        }
    }
}

/// Has the driver compile PTX for its device; if it refuses, with what its compiler says.
fn compile(current: &Current<'_>, ptx: &CStr) -> Result<sys::CUmodule, (Failure, String)> {
    let api = current.context.api;
    let mut log = vec![0 as c_char; LOG];
    let mut names = [sys::CU_JIT_ERROR_LOG_BUFFER, sys::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG - 1)];
    let mut raw = std::ptr::null_mut();
    // SAFETY: the text is terminated, as are the options by their number; the log is of the size that is given, without
    // its last byte, and lives through the call.
    let status = unsafe {
        let (names, values) = (names.as_mut_ptr(), values.as_mut_ptr());
        api.driver.cuModuleLoadDataEx(&mut raw, ptx.as_ptr().cast(), 2, names, values)
    };
    api.said("cuModuleLoadDataEx", status).map(|()| raw).map_err(|failure| {
        // SAFETY: the last byte of the log is zero.
        let said = unsafe { CStr::from_ptr(log.as_ptr()) };
        (failure, said.to_string_lossy().trim().to_owned())
    })
}

/// A function of a module, by name.
fn function(current: &Current<'_>, module: sys::CUmodule, name: &str) -> Result<sys::CUfunction, String> {
    let name = CString::new(name).map_err(|_| "its name is no word".to_owned())?;
    let (api, mut function) = (current.context.api, std::ptr::null_mut());
    // SAFETY: the module is loaded, the name terminated, and the function writes one handle.
    let status = unsafe { api.driver.cuModuleGetFunction(&mut function, module, name.as_ptr()) };
    api.said("cuModuleGetFunction", status).map(|()| function).map_err(|failure| failure.to_string())
}

/// What a failure means for a kernel.
pub(super) fn error(kernel: &str, failure: &Failure) -> RuntimeError {
    let (kernel, reason) = (kernel.to_owned(), failure.to_string());
    if failure.is_fault() {
        RuntimeError::Fault { kernel, reason }
    } else if failure.is_memory() {
        RuntimeError::Memory { kernel, reason }
    } else {
        RuntimeError::Driver { kernel, reason }
    }
}
