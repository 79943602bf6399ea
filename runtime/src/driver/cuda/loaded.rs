//! Code of kernels on GPUs: one image, which is loaded on each device that it is launched on.

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::mem::forget;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fusewright_abi::{KernelArtifact, LaunchRule, ManyRows, PayloadKind, RowOrder, Target};
use fusewright_cuda_sys as sys;

use super::api::Failure;
use super::context::{Context, Current};
use super::following::{Line, Used, Uses};
use super::freeing::{Module, Thing};
use super::kernel::LaunchOptions;
use super::launch::{Blocks, Range, config, ranges};
use super::stream::Stream;
use super::{runs, runs_assembled};
use crate::RuntimeError;
use crate::driver::signature::Signature;
use crate::driver::size::Size;

/// Bytes of shared memory that a launch may have without asking.
const FREE_SHARED: usize = 48 << 10;
/// Bytes for what the driver's compiler says of PTX that it refuses.
const LOG: usize = 4096;
/// How the files begin that an assembler makes of PTX.
const CUBIN: &[u8] = b"\x7fELF";

/// A kernel, and its code on the devices that it was launched on.
#[derive(Debug)]
pub(super) struct Loaded {
    pub signature: Signature,
    pub rule: LaunchRule,
    sizes: Sizes,
    /// What the code is for.
    target: Target,
    /// What is loaded, where there is more than one device.
    image: Option<Image>,
    /// By the numbers of the devices.
    places: Box<[OnceLock<Arc<Code>>]>,
    /// Held by who loads it on a device.
    loading: Mutex<()>,
    /// Where it was loaded first.
    pub home: Arc<Code>,
}

/// The counts of a rule.
#[derive(Debug)]
struct Sizes {
    blocks_per_row: Size,
    /// Of the code for many rows, if there is any.
    many: Option<Size>,
    shared: Size,
}

impl Sizes {
    fn of(rule: &LaunchRule) -> Sizes {
        let many = rule.many.as_ref().map(|many| Size::of(&many.blocks_per_row));
        Sizes { blocks_per_row: Size::of(&rule.blocks_per_row), many, shared: Size::of(&rule.shared) }
    }
}

/// What a driver loads.
enum Image {
    Ptx(CString),
    Cubin(Box<[u8]>),
}

/// Code on a device.
#[derive(Debug)]
pub(super) struct Code {
    pub context: Arc<Context>,
    function: sys::CUfunction,
    /// The code for many rows, if there is any.
    many: Option<sys::CUfunction>,
    raw: sys::CUmodule,
    /// Bytes of shared memory that launches may state.
    shared: AtomicUsize,
    /// Whether it is never unloaded.
    stays: AtomicBool,
    uses: Uses,
}

// SAFETY: modules and functions are handles that the driver lets every thread use.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Image::Ptx(text) => write!(f, "{} bytes of PTX", text.count_bytes()),
            Image::Cubin(bytes) => write!(f, "{} bytes of code", bytes.len()),
        }
    }
}

impl Image {
    fn of(artifact: &KernelArtifact) -> Result<Image, String> {
        let bytes = artifact.payload.bytes.as_slice();
        match artifact.payload.kind {
            PayloadKind::Cubin if bytes.starts_with(CUBIN) => Ok(Image::Cubin(bytes.into())),
            PayloadKind::Ptx => CString::new(bytes).map(Image::Ptx).map_err(|_| "its PTX is no text".to_owned()),
            _ => Err("its payload is neither PTX nor what an assembler makes of it".to_owned()),
        }
    }

    /// Whether a device runs it.
    fn fits(&self, target: &Target, context: &Context) -> bool {
        let Target::Cuda { arch } = target else { return false };
        match self {
            Image::Ptx(_) => runs(arch, context.capability),
            Image::Cubin(_) => runs_assembled(arch, context.capability),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Image::Ptx(text) => text.as_bytes_with_nul(),
            Image::Cubin(bytes) => bytes,
        }
    }
}

impl Loaded {
    /// Loads a kernel on a device: PTX, which the driver compiles, or the file that an assembler made of it. Other devices
    /// have it when they are first asked to run it.
    pub fn load(context: &Arc<Context>, artifact: &KernelArtifact) -> Result<Loaded, RuntimeError> {
        let refuse = |reason: String| RuntimeError::Artifact { kernel: artifact.name.clone(), reason };
        let image = Image::of(artifact).map_err(refuse)?;
        let (signature, rule) = (Signature::of(artifact), artifact.launch.clone());
        let code = Arc::new(Code::load(context, &image, &signature.name, &rule)?);
        let count = Context::count().unwrap_or(0).max(context.ordinal + 1);
        let places: Box<[OnceLock<Arc<Code>>]> = (0..count).map(|_| OnceLock::new()).collect();
        places[context.ordinal].get_or_init(|| Arc::clone(&code));
        Ok(Loaded {
            signature,
            sizes: Sizes::of(&rule),
            rule,
            target: artifact.target.clone(),
            image: (count > 1).then_some(image),
            places,
            loading: Mutex::default(),
            home: code,
        })
    }

    /// The code on a device, which is loaded there if it is not yet.
    ///
    /// # Errors
    /// A device that does not run it, or whose driver refuses it; too little memory.
    pub fn on(&self, context: &Arc<Context>) -> Result<&Arc<Code>, RuntimeError> {
        match self.places.get(context.ordinal).and_then(OnceLock::get) {
            Some(code) => Ok(code),
            None => self.load_on(context),
        }
    }

    #[cold]
    fn load_on(&self, context: &Arc<Context>) -> Result<&Arc<Code>, RuntimeError> {
        let name = &self.signature.name;
        let refuse = |reason: String| RuntimeError::Artifact { kernel: name.clone(), reason };
        let device = || format!("cuda:{} ({})", context.ordinal, context.name);
        let (Some(place), Some(image)) = (self.places.get(context.ordinal), &self.image) else {
            return Err(refuse(format!("it was loaded when {} was not there", device())));
        };
        if !image.fits(&self.target, context) {
            return Err(refuse(format!("it is for target `{}`, which {} does not run", self.target, device())));
        }
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = place.get() {
            return Ok(code);
        }
        let code = Arc::new(Code::load(context, image, name, &self.rule)?);
        Ok(place.get_or_init(|| code))
    }

    /// The launches of `rows` rows: as few as there may be, or one for each row where they are not computed at once.
    pub fn ranges(&self, dims: &[i64], rows: usize, at_once: bool) -> impl Iterator<Item = Range> + use<> {
        let blocks =
            |per_row: &Size, shares: u32| Blocks { per_row: per_row.count(dims), shares: shares.max(1) as usize };
        let few = blocks(&self.sizes.blocks_per_row, self.rule.shares);
        let many = self.rule.many.as_ref().zip(self.sizes.many.as_ref());
        let many = many.map(|(many, per_row)| (many.from, blocks(per_row, many.shares)));
        ranges(few, many, rows, at_once)
    }

    /// Whether all rows are computed at once.
    pub fn at_once(&self, options: LaunchOptions) -> bool {
        match self.signature.order {
            RowOrder::Any => true,
            RowOrder::Chosen { .. } => options.distinct || options.unordered,
            RowOrder::Ascending => options.unordered,
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

    /// Bytes of shared memory that a launch of some code states, which are allowed from now on. The context is current.
    pub fn allow_shared(&self, code: &Code, dims: &[i64]) -> Result<u32, Failure> {
        let bytes = self.sizes.shared.count(dims);
        let stated = u32::try_from(bytes).unwrap_or(u32::MAX);
        // Nearly always it is, which reading alone says: writing would wait for what the last launch wrote to the device.
        if code.shared.load(Ordering::Relaxed) >= bytes || code.shared.fetch_max(bytes, Ordering::Relaxed) >= bytes {
            return Ok(stated);
        }
        code.allow_shared(bytes).map(|()| stated).inspect_err(|_| code.shared.store(FREE_SHARED, Ordering::Relaxed))
    }

    /// What a launch failed with. A caller's stream of another device is told apart from what else may be wrong.
    pub fn failed(&self, code: &Code, stream: &Stream, failure: &Failure) -> RuntimeError {
        match failure {
            _ if failure.is_memory() || failure.is_fault() || code.context.has(stream.raw()) => {
                failure.of(&self.signature.name)
            }
            _ => {
                let reason = format!("the stream is not of cuda:{}, whose it is said to be", code.context.ordinal);
                RuntimeError::Arguments { kernel: self.signature.name.clone(), reason }
            }
        }
    }

    /// A number that the driver has of the code that was loaded first.
    pub fn attribute(&self, which: i32) -> Result<u32, RuntimeError> {
        self.home.attribute(which).map_err(|failure| failure.of(&self.signature.name))
    }
}

impl Code {
    fn load(context: &Arc<Context>, image: &Image, name: &str, rule: &LaunchRule) -> Result<Code, RuntimeError> {
        let refuse = |reason: String| RuntimeError::Artifact { kernel: name.to_owned(), reason };
        let aside = context.enter_beside_captures().map_err(|failure| failure.of(name))?;
        let current = &aside.current;
        let raw = load_image(current, image.bytes()).map_err(|(failure, log)| match failure {
            _ if failure.is_memory() || failure.is_fault() => failure.of(name),
            _ if log.is_empty() => refuse(failure.to_string()),
            _ => refuse(format!("{failure}\n{log}")),
        })?;
        let mut code = Code {
            context: Arc::clone(context),
            function: std::ptr::null_mut(),
            many: None,
            raw,
            shared: AtomicUsize::new(FREE_SHARED),
            stays: AtomicBool::new(false),
            uses: Uses::default(),
        };
        code.function = function(current, raw, name).map_err(refuse)?;
        if rule.many.is_some() {
            code.many = Some(function(current, raw, &format!("{name}{}", ManyRows::SUFFIX)).map_err(refuse)?);
        }
        Ok(code)
    }

    /// Notes a launch on a stream, before it is enqueued.
    pub fn used_by(self: &Arc<Self>, stream: &Stream) -> Result<(), Failure> {
        stream.uses(&self.uses);
        self.stays_for(stream)
    }

    /// Has the code stay for as long as the process runs if it becomes part of a graph that somebody else captures: nobody
    /// says when that one is gone.
    pub fn stays_for(self: &Arc<Self>, stream: &Stream) -> Result<(), Failure> {
        if !self.stays.load(Ordering::Relaxed)
            && stream.is_captured_elsewhere()?
            && !self.stays.swap(true, Ordering::Relaxed)
        {
            forget(Arc::clone(self));
        }
        Ok(())
    }

    /// The code that runs a range.
    pub fn function(&self, range: &Range) -> sys::CUfunction {
        self.many.filter(|_| range.many).unwrap_or(self.function)
    }

    fn allow_shared(&self, bytes: usize) -> Result<(), Failure> {
        let allow = |function: sys::CUfunction| {
            // SAFETY: the function is loaded; the attribute says how much a launch may ask for.
            let status = unsafe {
                let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                let most = i32::try_from(bytes).unwrap_or(i32::MAX);
                self.context.api.driver.cuFuncSetAttribute(function, attribute, most)
            };
            self.context.api.said("cuFuncSetAttribute", status)
        };
        [Some(self.function), self.many].into_iter().flatten().try_for_each(allow)
    }

    fn attribute(&self, which: i32) -> Result<u32, Failure> {
        let _current = self.context.enter()?;
        let mut value = 0;
        // SAFETY: the function is loaded; the driver writes one number.
        let status = unsafe { self.context.api.driver.cuFuncGetAttribute(&mut value, which, self.function) };
        self.context.api.said("cuFuncGetAttribute", status).map(|()| value.unsigned_abs())
    }
}

impl Used for Code {
    fn used_on(&self, line: &Arc<Line>) {
        self.uses.add(line);
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // A launch may still be running.
        let lines = self.uses.take();
        self.context.give_back(Thing::Code(Module(self.raw)), lines);
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
