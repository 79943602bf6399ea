//! Loaded kernels, and their calls: the unsafe part.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use crate::Error;
use crate::launch::{self, Argument, Counters, Options};

/// The functions of the library, as `include/ascend_model.h` declares them.
struct Functions {
    add: unsafe extern "C" fn(*mut c_void, usize) -> c_int,
    remove: unsafe extern "C" fn(*mut c_void) -> c_int,
    written: unsafe extern "C" fn(*const c_void, usize),
    readable: unsafe extern "C" fn(*const c_void, usize) -> c_int,
    launch: unsafe extern "C" fn(
        *mut c_void,
        u32,
        *const u64,
        usize,
        *const launch::RawOptions,
        *mut c_char,
        usize,
    ) -> c_int,
    counters: unsafe extern "C" fn(*mut launch::RawCounters),
    // What the functions lie in.
    _library: Library,
}

/// A shared object of kernels.
#[derive(Clone)]
pub struct Kernels {
    path: PathBuf,
    object: Arc<Library>,
    functions: Arc<Functions>,
}

/// A kernel of a shared object.
#[derive(Clone)]
pub struct Kernel {
    name: String,
    entry: *mut c_void,
    kernels: Kernels,
}

// SAFETY: the entry is code of an object that the value keeps loaded; the library takes calls from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above; nothing in the value changes.
unsafe impl Sync for Kernel {}

/// One at a time, so that the counters are those of the launch before.
static LAUNCHES: std::sync::Mutex<()> = std::sync::Mutex::new(());
/// Room for what a launch finds.
const REPORT_BYTES: usize = 1 << 16;
/// Where device memory begins: at multiples of it.
const ALIGNMENT: usize = 512;

impl Kernels {
    pub(crate) fn load(library: &Path, object: &Path) -> Result<Kernels, Error> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |error: libloading::Error| Error::Load { path, what: error.to_string() }
        };
        // SAFETY: the library is the model's own; its initialisers only construct its one static value on first use.
        let model = unsafe { Library::new(library) }.map_err(failed(library))?;
        // SAFETY: the object was compiled against the model's headers and holds kernels, which have no initialisers
        // that ask anything of the process.
        let kernels = unsafe { Library::new(object) }.map_err(failed(object))?;
        let functions = Functions::of(model).map_err(failed(library))?;
        Ok(Kernels { path: object.to_path_buf(), object: Arc::new(kernels), functions: Arc::new(functions) })
    }

    /// The kernel whose entry has that name.
    ///
    /// # Errors
    /// There is none.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        // SAFETY: the address is only kept, and called through the library as what it was compiled to be.
        let found = unsafe { self.object.get::<*mut c_void>(name.as_bytes()) };
        let symbol = found.map_err(|e| Error::Load { path: self.path.clone(), what: e.to_string() })?;
        Ok(Kernel { name: name.into(), entry: *symbol, kernels: self.clone() })
    }
}

impl Functions {
    fn of(library: Library) -> Result<Functions, libloading::Error> {
        // SAFETY: the types are those of `include/ascend_model.h`, which the library was compiled from.
        unsafe {
            Ok(Functions {
                add: *library.get(b"ascend_model_memory_add")?,
                remove: *library.get(b"ascend_model_memory_remove")?,
                written: *library.get(b"ascend_model_memory_written")?,
                readable: *library.get(b"ascend_model_memory_readable")?,
                launch: *library.get(b"ascend_model_launch")?,
                counters: *library.get(b"ascend_model_last_counters")?,
                _library: library,
            })
        }
    }
}

/// Device memory of one argument: a copy, known to the library for as long as it lives.
struct Memory<'a> {
    functions: &'a Functions,
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl<'a> Memory<'a> {
    fn new(functions: &'a Functions, argument: &Argument<'_>) -> Result<Memory<'a>, Error> {
        let len = argument.len();
        let mut bytes = vec![0xa5u8; len + 2 * ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        if let Some(given) = argument.given() {
            bytes[start..start + len].copy_from_slice(given);
        }
        let mut memory = Memory { functions, bytes, start, len };
        let base = memory.base();
        // SAFETY: the memory lives until `drop` takes it back.
        if unsafe { (functions.add)(base.cast(), len) } != 0 {
            return Err(Error::Launch("memory of the launch is known already".into()));
        }
        if argument.given().is_some() {
            // SAFETY: the range is that of the line above.
            unsafe { (functions.written)(base.cast(), len) };
        }
        Ok(memory)
    }

    fn base(&mut self) -> *mut u8 {
        self.bytes[self.start..].as_mut_ptr()
    }

    fn contents(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn is_written(&mut self) -> bool {
        let (base, len) = (self.base(), self.len);
        // SAFETY: the library looks at what it knows of the range, not at the range.
        unsafe { (self.functions.readable)(base.cast(), len) == 1 }
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let base = self.base();
        // SAFETY: the library forgets an address, before the memory goes.
        unsafe { (self.functions.remove)(base.cast()) };
    }
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the kernel on `cores` cores over copies of `arguments`, which come first in its signature, and `scalars`,
    /// which follow; writes back what may be written, whatever was found.
    ///
    /// # Errors
    /// What the model found, and outputs that were not written whole.
    pub fn launch(
        &self,
        cores: u32,
        arguments: &mut [Argument<'_>],
        scalars: &[i64],
        options: &Options,
    ) -> Result<Counters, Error> {
        let functions = &*self.kernels.functions;
        let _one = LAUNCHES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut memory = Vec::with_capacity(arguments.len());
        for argument in arguments.iter() {
            memory.push(Memory::new(functions, argument)?);
        }
        let mut words: Vec<u64> = memory.iter_mut().map(|m| m.base() as u64).collect();
        words.extend(scalars.iter().map(|s| *s as u64));
        let raw = options.raw();
        let mut report = vec![0u8; REPORT_BYTES];
        // SAFETY: the entry is a kernel of an object that is loaded; the library calls it with whole words and lets it
        // touch no memory but what was added above; the report has the length that is given.
        let found = unsafe {
            (functions.launch)(
                self.entry,
                cores,
                words.as_ptr(),
                words.len(),
                &raw,
                report.as_mut_ptr().cast(),
                report.len(),
            )
        };
        let end = report.iter().position(|b| *b == 0).unwrap_or(report.len());
        let report = String::from_utf8_lossy(&report[..end]).into_owned();
        let Ok(count) = usize::try_from(found) else { return Err(Error::Launch(report)) };
        let mut unwritten = None;
        for (i, (argument, memory)) in arguments.iter_mut().zip(&mut memory).enumerate() {
            if argument.must_be_written() && !memory.is_written() {
                unwritten = unwritten.or(Some(i));
            }
            argument.take(memory.contents());
        }
        if count > 0 {
            return Err(Error::Findings { count, report });
        }
        if let Some(argument) = unwritten {
            return Err(Error::Unwritten { kernel: self.name.clone(), argument });
        }
        let mut counters = launch::RawCounters::sized();
        // SAFETY: the structure has the size that it says.
        unsafe { (functions.counters)(&mut counters) };
        Ok(counters.into())
    }
}
