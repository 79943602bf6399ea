//! Matrix products on a GPU, by cuBLASLt of the machine, which is looked up when it is first asked for. Kernels never need
//! it.
//!
//! Products of i8 are exact sums in i32. Others are summed in f32 and rounded once: partial sums that a product is split
//! into are kept in f32, and operands in f32 are not rounded to TF32. Which algorithm computes a product follows from its
//! shape, so that a row may be other bits in another batch.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fusewright_abi::DType;
use fusewright_cublaslt_sys as lt;

use super::buffer::{DeviceBuffer, refused};
use super::context::Context;
use super::following::{Line, Used, Uses};
use super::gpu::Gpu;
use super::stream::Stream;
use crate::matmul::{ColumnMajor, MatMul, Stored};
use crate::{DeviceFailure, RuntimeError};

/// Bytes that a product may use for partial sums: what NVIDIA advises for Hopper, and enough before it.
const WORKSPACE: usize = 32 << 20;
/// Most bytes that the search asks the addresses of operands to be a multiple of.
const ALIGNMENT: u64 = 256;
/// What was being done.
const ACTION: &str = "multiplying matrices by cuBLASLt";

/// The library on one device, with memory of its own for the partial sums of one product at a time: products of one value are enqueued
/// on one stream, or on streams that wait for each other.
#[derive(Debug)]
pub struct Blas {
    library: &'static Library,
    context: Arc<Context>,
    handle: Handle,
    workspace: DeviceBuffer,
    /// What the search chose, so that it is made once for each shape.
    chosen: Mutex<BTreeMap<Shape, Arc<Plan>>>,
}

/// What the library knows a device by. There is one for each, which is never destroyed: that would wait for all of the
/// device.
#[derive(Clone, Copy, Debug)]
struct Handle(lt::cublasLtHandle_t);

// SAFETY: the handle may be used by every thread, as the library's manual says.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// What the choice of an algorithm depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Shape {
    form: ColumnMajor,
    batch: usize,
    operands: DType,
    result: DType,
    /// Of the left, the right and the result.
    alignment: [u32; 3],
}

/// The loaded library.
struct Library {
    api: lt::CublasLt,
    file: PathBuf,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuBLASLt of {}", self.file.display())
    }
}

/// The library of this machine, loaded once; a failure is not kept, so that other folders may be tried.
fn library(folders: &[PathBuf]) -> Result<&'static Library, String> {
    static LOADED: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LOADED.get() {
        return Ok(library);
    }
    let mut broken = String::new();
    for file in lt::candidates(folders) {
        match lt::load(&file) {
            Ok(api) => return Ok(LOADED.get_or_init(|| Library { api, file })),
            // A file that is there and cannot be used is worth a word, one that is not there is not.
            Err(error) if file.is_file() => broken.push_str(&format!("; {}: {error}", file.display())),
            Err(error @ lt::Error::DlSym { .. }) => broken.push_str(&format!("; {}: {error}", file.display())),
            Err(_) => {}
        }
    }
    let places: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let places = if places.is_empty() { String::new() } else { format!(" and in {}", places.join(", ")) };
    let names = lt::NAMES.join(", ");
    Err(format!("matrix products need cuBLASLt, which is not here: no {names} where the system looks{places}{broken}"))
}

impl Library {
    /// The handle of a device.
    fn handle(&self, context: &Context) -> Result<Handle, RuntimeError> {
        static HANDLES: Mutex<BTreeMap<usize, Handle>> = Mutex::new(BTreeMap::new());
        let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&handle) = handles.get(&context.ordinal) {
            return Ok(handle);
        }
        let _current = context.enter().map_err(|failure| failure.during(ACTION))?;
        let mut handle = Handle(null_mut());
        // SAFETY: the function writes one handle; a context is current.
        self.said("cublasLtCreate", unsafe { self.api.cublasLtCreate(&mut handle.0) })?;
        handles.insert(context.ordinal, handle);
        Ok(handle)
    }

    fn said(&self, function: &str, status: lt::cublasStatus_t) -> Result<(), RuntimeError> {
        if status == lt::CUBLAS_STATUS_SUCCESS {
            return Ok(());
        }
        // SAFETY: the function gives a constant string, or null, for every number.
        let text = unsafe { self.api.cublasLtGetStatusString(status) };
        let text = if text.is_null() {
            "a status that the library does not know".into()
        } else {
            // SAFETY: the string is terminated, and lives as long as the library.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        let failure = match status {
            lt::CUBLAS_STATUS_ALLOC_FAILED => DeviceFailure::Memory,
            lt::CUBLAS_STATUS_EXECUTION_FAILED => DeviceFailure::Fault,
            _ => DeviceFailure::Refused,
        };
        Err(RuntimeError::Device { action: ACTION, failure, reason: format!("{function}: {text} ({status})") })
    }
}

impl Library {
    fn version(&self) -> usize {
        // SAFETY: the function may be called at any time.
        unsafe { self.api.cublasLtGetVersion() }
    }
}

/// The library of this machine without a device: its file, as it was asked for, and its version, as it numbers itself.
///
/// # Errors
/// No such library, with what was looked for.
pub fn cublaslt(folders: &[PathBuf]) -> Result<(PathBuf, usize), String> {
    library(folders).map(|library| (library.file.clone(), library.version()))
}

impl Blas {
    /// The library for a device. It is looked for where the system looks, then in the folders.
    ///
    /// # Errors
    /// No such library, with what was looked for; too little memory.
    pub fn open(gpu: &Gpu, folders: &[PathBuf]) -> Result<Arc<Blas>, RuntimeError> {
        let unavailable = |reason| RuntimeError::Unavailable { target: gpu.target().to_string(), reason };
        let library = library(folders).map_err(unavailable)?;
        let workspace = gpu.buffer(WORKSPACE)?;
        let context = Arc::clone(gpu.context());
        let handle = library.handle(&context)?;
        Ok(Arc::new(Blas { library, context, handle, workspace, chosen: Mutex::default() }))
    }

    /// Version of the library, as it numbers itself.
    pub fn version(&self) -> usize {
        self.library.version()
    }

    /// Checks a product of these buffers, and makes all that it needs: enqueuing it searches and allocates nothing more.
    ///
    /// # Errors
    /// Dtypes or strides that the library does not take; buffers that are too short or of another device.
    pub fn prepare(
        self: &Arc<Self>,
        product: &MatMul,
        [a, b, c]: [&DeviceBuffer; 3],
    ) -> Result<PreparedMatMul, RuntimeError> {
        let form = product.column_major().map_err(|misfit| refused(ACTION, misfit.to_string()))?;
        if product.k == 0 {
            return Err(refused(ACTION, "the rows of the left matrix have no elements".to_owned()));
        }
        let operands = if form.swapped { [b, a, c] } else { [a, b, c] };
        for (stored, dtype, buffer) in [
            (form.left, product.a.dtype, operands[0]),
            (form.right, product.a.dtype, operands[1]),
            (form.out, product.c.dtype, operands[2]),
        ] {
            let needed = dtype.bytes_for(stored.span(product.batch));
            if buffer.len() < needed {
                return Err(refused(ACTION, format!("a matrix takes {needed} bytes, the buffer has {}", buffer.len())));
            }
            if !Arc::ptr_eq(buffer.memory.context(), &self.context) {
                let (on, ours) = (buffer.memory.context().ordinal, self.context.ordinal);
                return Err(refused(ACTION, format!("a matrix is on cuda:{on}, and the library on cuda:{ours}")));
            }
        }
        let plan = if product.is_empty() { None } else { Some(self.plan(product, form, operands)?) };
        let buffers = operands.map(DeviceBuffer::clone);
        let launch = Launch { blas: Arc::clone(self), plan, buffers, uses: Uses::default() };
        Ok(PreparedMatMul { launch: Arc::new(launch) })
    }

    /// The algorithm for a shape, searched the first time.
    fn plan(
        &self,
        product: &MatMul,
        form: ColumnMajor,
        buffers: [&DeviceBuffer; 3],
    ) -> Result<Arc<Plan>, RuntimeError> {
        let alignment = buffers.map(|buffer| aligned(buffer.address()));
        let (operands, result) = (product.a.dtype, product.c.dtype);
        let shape = Shape { form, batch: product.batch, operands, result, alignment };
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = chosen.get(&shape) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(Plan::search(self, &shape)?);
        chosen.insert(shape, Arc::clone(&plan));
        Ok(plan)
    }
}

/// The largest power of two that an address is a multiple of, as far as the search asks.
fn aligned(address: u64) -> u32 {
    let most = if address == 0 { ALIGNMENT } else { 1u64 << address.trailing_zeros() };
    most.min(ALIGNMENT) as u32
}

/// A dtype as the library numbers them.
fn number(dtype: DType) -> Result<i32, RuntimeError> {
    match dtype {
        DType::F32 => Ok(lt::CUDA_R_32F),
        DType::F16 => Ok(lt::CUDA_R_16F),
        DType::BF16 => Ok(lt::CUDA_R_16BF),
        DType::I8 => Ok(lt::CUDA_R_8I),
        DType::I32 => Ok(lt::CUDA_R_32I),
        other => Err(refused(ACTION, format!("matrices of {other} are not taken"))),
    }
}

/// What the library knows of a product, and its algorithm.
#[derive(Debug)]
struct Plan {
    library: &'static Library,
    desc: lt::cublasLtMatmulDesc_t,
    /// Of the left, the right and the result.
    layouts: [lt::cublasLtMatrixLayout_t; 3],
    /// The factor of the product, in the type of its sums.
    one: [u8; 4],
    algorithm: [u64; 8],
    workspace: usize,
}

// SAFETY: descriptors are plain data behind pointers, which nothing changes once they are made.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Plan {
    fn search(blas: &Blas, shape: &Shape) -> Result<Plan, RuntimeError> {
        let (library, api) = (blas.library, &blas.library.api);
        let _current = blas.context.enter().map_err(|failure| failure.during(ACTION))?;
        let mut plan =
            Plan { library, desc: null_mut(), layouts: [null_mut(); 3], one: [0; 4], algorithm: [0; 8], workspace: 0 };
        plan.one = if shape.operands == DType::I8 { 1i32.to_ne_bytes() } else { 1.0f32.to_ne_bytes() };
        let (compute, scale) = match shape.operands {
            DType::I8 => (lt::CUBLAS_COMPUTE_32I, lt::CUDA_R_32I),
            _ => (lt::CUBLAS_COMPUTE_32F, lt::CUDA_R_32F),
        };
        // SAFETY: the function writes one handle, which the plan destroys.
        let made = unsafe { api.cublasLtMatmulDescCreate(&mut plan.desc, compute, scale) };
        library.said("cublasLtMatmulDescCreate", made)?;
        let ColumnMajor { left, right, out, .. } = shape.form;
        for (attribute, stored) in [(lt::CUBLASLT_MATMUL_DESC_TRANSA, left), (lt::CUBLASLT_MATMUL_DESC_TRANSB, right)] {
            let op: i32 = if stored.transposed { lt::CUBLAS_OP_T } else { lt::CUBLAS_OP_N };
            // SAFETY: the attribute is of four bytes, which are there during the call.
            let set =
                unsafe { api.cublasLtMatmulDescSetAttribute(plan.desc, attribute, std::ptr::from_ref(&op).cast(), 4) };
            library.said("cublasLtMatmulDescSetAttribute", set)?;
        }
        let (operands, result) = (number(shape.operands)?, number(shape.result)?);
        for (at, (stored, dtype)) in [(left, operands), (right, operands), (out, result)].into_iter().enumerate() {
            layout(library, &mut plan.layouts[at], &stored, dtype, shape.batch)?;
        }
        plan.choose(blas, shape)?;
        Ok(plan)
    }

    /// Asks the library for the algorithm that it expects to be fastest.
    fn choose(&mut self, blas: &Blas, shape: &Shape) -> Result<(), RuntimeError> {
        let (library, api) = (self.library, &self.library.api);
        let preference = Preference::new(library)?;
        preference.set(lt::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &(WORKSPACE as u64))?;
        // Partial sums of a product that is split stay in f32, so that the sum is rounded once.
        let schemes: u32 = lt::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE.unsigned_abs();
        preference.set(lt::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes)?;
        let [left, right, out] = shape.alignment;
        for (attribute, alignment) in [
            (lt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, left),
            (lt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, right),
            (lt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out),
            (lt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out),
        ] {
            preference.set(attribute, &alignment)?;
        }
        let mut found = lt::cublasLtMatmulHeuristicResult_t {
            algo: lt::cublasLtMatmulAlgo_t { data: [0; 8] },
            workspaceSize: 0,
            state: lt::CUBLAS_STATUS_NOT_SUPPORTED,
            wavesCount: 0.0,
            reserved: [0; 4],
        };
        let (mut count, [a, b, c]) = (0, self.layouts);
        // SAFETY: all handles are alive; the function writes one result and how many it wrote.
        let searched = unsafe {
            api.cublasLtMatmulAlgoGetHeuristic(
                blas.handle.0,
                self.desc,
                a,
                b,
                c,
                c,
                preference.raw,
                1,
                &mut found,
                &mut count,
            )
        };
        let searched = if count == 0 && searched == lt::CUBLAS_STATUS_SUCCESS { found.state } else { searched };
        library.said("cublasLtMatmulAlgoGetHeuristic", searched)?;
        (self.algorithm, self.workspace) = (found.algo.data, found.workspaceSize);
        Ok(())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let api = &self.library.api;
        for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
            // SAFETY: the layout is ours. A product that was enqueued holds nothing of it.
            unsafe { api.cublasLtMatrixLayoutDestroy(layout) };
        }
        if !self.desc.is_null() {
            // SAFETY: as above.
            unsafe { api.cublasLtMatmulDescDestroy(self.desc) };
        }
    }
}

/// Makes the library's description of a matrix.
fn layout(
    library: &Library,
    to: &mut lt::cublasLtMatrixLayout_t,
    stored: &Stored,
    dtype: i32,
    batch: usize,
) -> Result<(), RuntimeError> {
    let api = &library.api;
    let wide = |value: usize| i64::try_from(value).map_err(|_| refused(ACTION, format!("a stride of {value}")));
    let (rows, columns, leading) = (stored.rows as u64, stored.columns as u64, wide(stored.leading)?);
    // SAFETY: the function writes one handle, which its owner destroys.
    let made = unsafe { api.cublasLtMatrixLayoutCreate(to, dtype, rows, columns, leading) };
    library.said("cublasLtMatrixLayoutCreate", made)?;
    let count = i32::try_from(batch).map_err(|_| refused(ACTION, format!("a batch of {batch}")))?;
    let stride = wide(stored.batch_stride)?;
    // SAFETY: the attributes are of four and of eight bytes, which are there during the calls.
    let set = unsafe {
        let (count, stride) = (std::ptr::from_ref(&count).cast(), std::ptr::from_ref(&stride).cast());
        let counted = api.cublasLtMatrixLayoutSetAttribute(*to, lt::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count, 4);
        match counted {
            lt::CUBLAS_STATUS_SUCCESS => {
                let attribute = lt::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
                api.cublasLtMatrixLayoutSetAttribute(*to, attribute, stride, 8)
            }
            failed => failed,
        }
    };
    library.said("cublasLtMatrixLayoutSetAttribute", set)
}

/// What a search is to prefer.
struct Preference {
    library: &'static Library,
    raw: lt::cublasLtMatmulPreference_t,
}

impl Preference {
    fn new(library: &'static Library) -> Result<Preference, RuntimeError> {
        let mut preference = Preference { library, raw: null_mut() };
        // SAFETY: the function writes one handle, which the value destroys.
        let made = unsafe { library.api.cublasLtMatmulPreferenceCreate(&mut preference.raw) };
        library.said("cublasLtMatmulPreferenceCreate", made)?;
        Ok(preference)
    }

    /// Sets an attribute of the type of `value`.
    fn set<T>(&self, attribute: i32, value: &T) -> Result<(), RuntimeError> {
        let (at, bytes) = (std::ptr::from_ref(value).cast::<c_void>(), std::mem::size_of::<T>());
        // SAFETY: the attribute is of as many bytes as the value, which is there during the call.
        let set = unsafe { self.library.api.cublasLtMatmulPreferenceSetAttribute(self.raw, attribute, at, bytes) };
        self.library.said("cublasLtMatmulPreferenceSetAttribute", set)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the preference is ours.
            unsafe { self.library.api.cublasLtMatmulPreferenceDestroy(self.raw) };
        }
    }
}

/// A product that was checked. It keeps its buffers.
#[derive(Clone, Debug)]
pub struct PreparedMatMul {
    launch: Arc<Launch>,
}

#[derive(Debug)]
struct Launch {
    blas: Arc<Blas>,
    /// None where there is nothing to compute.
    plan: Option<Arc<Plan>>,
    /// The library's left and right one, and the result.
    buffers: [DeviceBuffer; 3],
    uses: Uses,
}

impl Used for Launch {
    fn used_on(&self, line: &Arc<Line>) {
        self.uses.add(line);
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        for line in self.uses.take() {
            self.buffers.iter().chain([&self.blas.workspace]).for_each(|buffer| buffer.memory.used_on(&line));
        }
    }
}

impl PreparedMatMul {
    /// Multiplies, when the stream gets there.
    ///
    /// # Errors
    /// A stream of another device; a device that was lost.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), RuntimeError> {
        let Launch { blas, plan, buffers, uses } = &*self.launch;
        stream.is_of(&blas.context, ACTION)?;
        let Some(plan) = plan else { return Ok(()) };
        stream.uses(uses);
        let [left, right, out] = buffers.each_ref().map(|buffer| address(buffer.address()));
        // Zero is the same bytes in f32 and in i32; alignment is theirs.
        let (one, zero) = (u32::from_ne_bytes(plan.one), 0u32);
        let [a, b, c] = plan.layouts;
        let algorithm = lt::cublasLtMatmulAlgo_t { data: plan.algorithm };
        let _current = blas.context.enter().map_err(|failure| failure.during(ACTION))?;
        // SAFETY: the description, the layouts and the algorithm are of one search, and alive; the buffers were compared with
        // the layouts, and are kept by this launch and by a graph that is being captured; the factors are read before the
        // function returns.
        let status = unsafe {
            blas.library.api.cublasLtMatmul(
                blas.handle.0,
                plan.desc,
                std::ptr::from_ref(&one).cast(),
                left,
                a,
                right,
                b,
                std::ptr::from_ref(&zero).cast(),
                out,
                c,
                out,
                c,
                &algorithm,
                address(blas.workspace.address()),
                plan.workspace,
                stream.raw().cast(),
            )
        };
        blas.library.said("cublasLtMatmul", status)?;
        stream.keep_with(|| Arc::clone(&self.launch) as super::stream::Kept);
        Ok(())
    }
}

/// An address on the device as the library takes it.
fn address(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_multiples_of_what_the_search_is_told() {
        assert_eq!([0x1000, 0x1002, 0x1010, 0x1100, 0].map(aligned), [256, 2, 16, 256, 256]);
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_where_it_was_looked_for() {
        let folder = PathBuf::from("/nowhere/at/all");
        // Where the machine has the library, there is nothing to say.
        if let Err(said) = library(std::slice::from_ref(&folder)) {
            assert!(lt::NAMES.iter().all(|name| said.contains(name)), "{said}");
            assert!(said.contains("cuBLASLt") && said.contains("/nowhere/at/all"), "{said}");
        }
    }
}
