//! Types, numbers and functions of `include/cublaslt.h`, made of it by bindgen.

pub const CUBLAS_STATUS_SUCCESS: i32 = 0;
pub const CUBLAS_STATUS_ALLOC_FAILED: i32 = 3;
pub const CUBLAS_STATUS_EXECUTION_FAILED: i32 = 13;
pub const CUBLAS_STATUS_NOT_SUPPORTED: i32 = 15;
pub const CUDA_R_32F: i32 = 0;
pub const CUDA_R_16F: i32 = 2;
pub const CUDA_R_8I: i32 = 3;
pub const CUDA_R_32I: i32 = 10;
pub const CUDA_R_16BF: i32 = 14;
pub const CUBLAS_COMPUTE_32F: i32 = 68;
pub const CUBLAS_COMPUTE_32I: i32 = 72;
pub const CUBLAS_OP_N: i32 = 0;
pub const CUBLAS_OP_T: i32 = 1;
pub const CUBLASLT_MATMUL_DESC_TRANSA: i32 = 3;
pub const CUBLASLT_MATMUL_DESC_TRANSB: i32 = 4;
pub const CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: i32 = 5;
pub const CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: i32 = 6;
pub const CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: i32 = 1;
pub const CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: i32 = 3;
pub const CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: i32 = 5;
pub const CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: i32 = 6;
pub const CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: i32 = 7;
pub const CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: i32 = 8;
pub const CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: i32 = 2;
#[repr(C)]
#[derive(Debug)]
pub struct cublasLtContext {
    _unused: [u8; 0],
}
pub type cublasLtHandle_t = *mut cublasLtContext;
#[repr(C)]
#[derive(Debug)]
pub struct cublasLtMatmulDesc_st {
    _unused: [u8; 0],
}
pub type cublasLtMatmulDesc_t = *mut cublasLtMatmulDesc_st;
#[repr(C)]
#[derive(Debug)]
pub struct cublasLtMatrixLayout_st {
    _unused: [u8; 0],
}
pub type cublasLtMatrixLayout_t = *mut cublasLtMatrixLayout_st;
#[repr(C)]
#[derive(Debug)]
pub struct cublasLtMatmulPreference_st {
    _unused: [u8; 0],
}
pub type cublasLtMatmulPreference_t = *mut cublasLtMatmulPreference_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUstream_st {
    _unused: [u8; 0],
}
pub type cudaStream_t = *mut CUstream_st;
pub type cublasStatus_t = ::core::ffi::c_int;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cublasLtMatmulAlgo_st {
    pub data: [::core::ffi::c_ulonglong; 8usize],
}
pub type cublasLtMatmulAlgo_t = cublasLtMatmulAlgo_st;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cublasLtMatmulHeuristicResult_st {
    pub algo: cublasLtMatmulAlgo_t,
    pub workspaceSize: usize,
    pub state: cublasStatus_t,
    pub wavesCount: f32,
    pub reserved: [::core::ffi::c_int; 4usize],
}
pub type cublasLtMatmulHeuristicResult_t = cublasLtMatmulHeuristicResult_st;
pub struct CublasLt {
    __library: ::libloading::Library,
    pub cublasLtCreate: unsafe extern "C" fn(handle: *mut cublasLtHandle_t) -> cublasStatus_t,
    pub cublasLtDestroy: unsafe extern "C" fn(handle: cublasLtHandle_t) -> cublasStatus_t,
    pub cublasLtGetVersion: unsafe extern "C" fn() -> usize,
    pub cublasLtGetStatusString: unsafe extern "C" fn(status: cublasStatus_t) -> *const ::core::ffi::c_char,
    pub cublasLtMatmulDescCreate: unsafe extern "C" fn(
        desc: *mut cublasLtMatmulDesc_t,
        compute: ::core::ffi::c_int,
        scale: ::core::ffi::c_int,
    ) -> cublasStatus_t,
    pub cublasLtMatmulDescSetAttribute: unsafe extern "C" fn(
        desc: cublasLtMatmulDesc_t,
        attribute: ::core::ffi::c_int,
        value: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> cublasStatus_t,
    pub cublasLtMatmulDescDestroy: unsafe extern "C" fn(desc: cublasLtMatmulDesc_t) -> cublasStatus_t,
    pub cublasLtMatrixLayoutCreate: unsafe extern "C" fn(
        layout: *mut cublasLtMatrixLayout_t,
        type_: ::core::ffi::c_int,
        rows: ::core::ffi::c_ulonglong,
        columns: ::core::ffi::c_ulonglong,
        leading: ::core::ffi::c_longlong,
    ) -> cublasStatus_t,
    pub cublasLtMatrixLayoutSetAttribute: unsafe extern "C" fn(
        layout: cublasLtMatrixLayout_t,
        attribute: ::core::ffi::c_int,
        value: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> cublasStatus_t,
    pub cublasLtMatrixLayoutDestroy: unsafe extern "C" fn(layout: cublasLtMatrixLayout_t) -> cublasStatus_t,
    pub cublasLtMatmulPreferenceCreate:
        unsafe extern "C" fn(preference: *mut cublasLtMatmulPreference_t) -> cublasStatus_t,
    pub cublasLtMatmulPreferenceSetAttribute: unsafe extern "C" fn(
        preference: cublasLtMatmulPreference_t,
        attribute: ::core::ffi::c_int,
        value: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> cublasStatus_t,
    pub cublasLtMatmulPreferenceDestroy: unsafe extern "C" fn(preference: cublasLtMatmulPreference_t) -> cublasStatus_t,
    pub cublasLtMatmulAlgoGetHeuristic: unsafe extern "C" fn(
        handle: cublasLtHandle_t,
        desc: cublasLtMatmulDesc_t,
        a: cublasLtMatrixLayout_t,
        b: cublasLtMatrixLayout_t,
        c: cublasLtMatrixLayout_t,
        d: cublasLtMatrixLayout_t,
        preference: cublasLtMatmulPreference_t,
        requested: ::core::ffi::c_int,
        results: *mut cublasLtMatmulHeuristicResult_t,
        returned: *mut ::core::ffi::c_int,
    ) -> cublasStatus_t,
    pub cublasLtMatmul: unsafe extern "C" fn(
        handle: cublasLtHandle_t,
        desc: cublasLtMatmulDesc_t,
        alpha: *const ::core::ffi::c_void,
        a: *const ::core::ffi::c_void,
        aLayout: cublasLtMatrixLayout_t,
        b: *const ::core::ffi::c_void,
        bLayout: cublasLtMatrixLayout_t,
        beta: *const ::core::ffi::c_void,
        c: *const ::core::ffi::c_void,
        cLayout: cublasLtMatrixLayout_t,
        d: *mut ::core::ffi::c_void,
        dLayout: cublasLtMatrixLayout_t,
        algo: *const cublasLtMatmulAlgo_t,
        workspace: *mut ::core::ffi::c_void,
        workspaceBytes: usize,
        stream: cudaStream_t,
    ) -> cublasStatus_t,
}
impl CublasLt {
    pub unsafe fn new<P>(path: P) -> Result<Self, ::libloading::Error>
    where
        P: AsRef<::std::ffi::OsStr>,
    {
        let path = path.as_ref();
        let library = unsafe { ::libloading::Library::new(path) }?;
        unsafe { Self::from_library(library) }
    }
    pub unsafe fn from_library<L>(library: L) -> Result<Self, ::libloading::Error>
    where
        L: Into<::libloading::Library>,
    {
        let __library = library.into();
        let cublasLtCreate = unsafe { __library.get(b"cublasLtCreate\0") }.map(|sym| *sym)?;
        let cublasLtDestroy = unsafe { __library.get(b"cublasLtDestroy\0") }.map(|sym| *sym)?;
        let cublasLtGetVersion = unsafe { __library.get(b"cublasLtGetVersion\0") }.map(|sym| *sym)?;
        let cublasLtGetStatusString = unsafe { __library.get(b"cublasLtGetStatusString\0") }.map(|sym| *sym)?;
        let cublasLtMatmulDescCreate = unsafe { __library.get(b"cublasLtMatmulDescCreate\0") }.map(|sym| *sym)?;
        let cublasLtMatmulDescSetAttribute =
            unsafe { __library.get(b"cublasLtMatmulDescSetAttribute\0") }.map(|sym| *sym)?;
        let cublasLtMatmulDescDestroy = unsafe { __library.get(b"cublasLtMatmulDescDestroy\0") }.map(|sym| *sym)?;
        let cublasLtMatrixLayoutCreate = unsafe { __library.get(b"cublasLtMatrixLayoutCreate\0") }.map(|sym| *sym)?;
        let cublasLtMatrixLayoutSetAttribute =
            unsafe { __library.get(b"cublasLtMatrixLayoutSetAttribute\0") }.map(|sym| *sym)?;
        let cublasLtMatrixLayoutDestroy = unsafe { __library.get(b"cublasLtMatrixLayoutDestroy\0") }.map(|sym| *sym)?;
        let cublasLtMatmulPreferenceCreate =
            unsafe { __library.get(b"cublasLtMatmulPreferenceCreate\0") }.map(|sym| *sym)?;
        let cublasLtMatmulPreferenceSetAttribute =
            unsafe { __library.get(b"cublasLtMatmulPreferenceSetAttribute\0") }.map(|sym| *sym)?;
        let cublasLtMatmulPreferenceDestroy =
            unsafe { __library.get(b"cublasLtMatmulPreferenceDestroy\0") }.map(|sym| *sym)?;
        let cublasLtMatmulAlgoGetHeuristic =
            unsafe { __library.get(b"cublasLtMatmulAlgoGetHeuristic\0") }.map(|sym| *sym)?;
        let cublasLtMatmul = unsafe { __library.get(b"cublasLtMatmul\0") }.map(|sym| *sym)?;
        Ok(CublasLt {
            __library,
            cublasLtCreate,
            cublasLtDestroy,
            cublasLtGetVersion,
            cublasLtGetStatusString,
            cublasLtMatmulDescCreate,
            cublasLtMatmulDescSetAttribute,
            cublasLtMatmulDescDestroy,
            cublasLtMatrixLayoutCreate,
            cublasLtMatrixLayoutSetAttribute,
            cublasLtMatrixLayoutDestroy,
            cublasLtMatmulPreferenceCreate,
            cublasLtMatmulPreferenceSetAttribute,
            cublasLtMatmulPreferenceDestroy,
            cublasLtMatmulAlgoGetHeuristic,
            cublasLtMatmul,
        })
    }
    pub unsafe fn cublasLtCreate(&self, handle: *mut cublasLtHandle_t) -> cublasStatus_t {
        unsafe { (self.cublasLtCreate)(handle) }
    }
    pub unsafe fn cublasLtDestroy(&self, handle: cublasLtHandle_t) -> cublasStatus_t {
        unsafe { (self.cublasLtDestroy)(handle) }
    }
    pub unsafe fn cublasLtGetVersion(&self) -> usize {
        unsafe { (self.cublasLtGetVersion)() }
    }
    pub unsafe fn cublasLtGetStatusString(&self, status: cublasStatus_t) -> *const ::core::ffi::c_char {
        unsafe { (self.cublasLtGetStatusString)(status) }
    }
    pub unsafe fn cublasLtMatmulDescCreate(
        &self,
        desc: *mut cublasLtMatmulDesc_t,
        compute: ::core::ffi::c_int,
        scale: ::core::ffi::c_int,
    ) -> cublasStatus_t {
        unsafe { (self.cublasLtMatmulDescCreate)(desc, compute, scale) }
    }
    pub unsafe fn cublasLtMatmulDescSetAttribute(
        &self,
        desc: cublasLtMatmulDesc_t,
        attribute: ::core::ffi::c_int,
        value: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> cublasStatus_t {
        unsafe { (self.cublasLtMatmulDescSetAttribute)(desc, attribute, value, bytes) }
    }
    pub unsafe fn cublasLtMatmulDescDestroy(&self, desc: cublasLtMatmulDesc_t) -> cublasStatus_t {
        unsafe { (self.cublasLtMatmulDescDestroy)(desc) }
    }
    pub unsafe fn cublasLtMatrixLayoutCreate(
        &self,
        layout: *mut cublasLtMatrixLayout_t,
        type_: ::core::ffi::c_int,
        rows: ::core::ffi::c_ulonglong,
        columns: ::core::ffi::c_ulonglong,
        leading: ::core::ffi::c_longlong,
    ) -> cublasStatus_t {
        unsafe { (self.cublasLtMatrixLayoutCreate)(layout, type_, rows, columns, leading) }
    }
    pub unsafe fn cublasLtMatrixLayoutSetAttribute(
        &self,
        layout: cublasLtMatrixLayout_t,
        attribute: ::core::ffi::c_int,
        value: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> cublasStatus_t {
        unsafe { (self.cublasLtMatrixLayoutSetAttribute)(layout, attribute, value, bytes) }
    }
    pub unsafe fn cublasLtMatrixLayoutDestroy(&self, layout: cublasLtMatrixLayout_t) -> cublasStatus_t {
        unsafe { (self.cublasLtMatrixLayoutDestroy)(layout) }
    }
    pub unsafe fn cublasLtMatmulPreferenceCreate(&self, preference: *mut cublasLtMatmulPreference_t) -> cublasStatus_t {
        unsafe { (self.cublasLtMatmulPreferenceCreate)(preference) }
    }
    pub unsafe fn cublasLtMatmulPreferenceSetAttribute(
        &self,
        preference: cublasLtMatmulPreference_t,
        attribute: ::core::ffi::c_int,
        value: *const ::core::ffi::c_void,
        bytes: usize,
    ) -> cublasStatus_t {
        unsafe { (self.cublasLtMatmulPreferenceSetAttribute)(preference, attribute, value, bytes) }
    }
    pub unsafe fn cublasLtMatmulPreferenceDestroy(&self, preference: cublasLtMatmulPreference_t) -> cublasStatus_t {
        unsafe { (self.cublasLtMatmulPreferenceDestroy)(preference) }
    }
    pub unsafe fn cublasLtMatmulAlgoGetHeuristic(
        &self,
        handle: cublasLtHandle_t,
        desc: cublasLtMatmulDesc_t,
        a: cublasLtMatrixLayout_t,
        b: cublasLtMatrixLayout_t,
        c: cublasLtMatrixLayout_t,
        d: cublasLtMatrixLayout_t,
        preference: cublasLtMatmulPreference_t,
        requested: ::core::ffi::c_int,
        results: *mut cublasLtMatmulHeuristicResult_t,
        returned: *mut ::core::ffi::c_int,
    ) -> cublasStatus_t {
        unsafe {
            (self.cublasLtMatmulAlgoGetHeuristic)(handle, desc, a, b, c, d, preference, requested, results, returned)
        }
    }
    pub unsafe fn cublasLtMatmul(
        &self,
        handle: cublasLtHandle_t,
        desc: cublasLtMatmulDesc_t,
        alpha: *const ::core::ffi::c_void,
        a: *const ::core::ffi::c_void,
        aLayout: cublasLtMatrixLayout_t,
        b: *const ::core::ffi::c_void,
        bLayout: cublasLtMatrixLayout_t,
        beta: *const ::core::ffi::c_void,
        c: *const ::core::ffi::c_void,
        cLayout: cublasLtMatrixLayout_t,
        d: *mut ::core::ffi::c_void,
        dLayout: cublasLtMatrixLayout_t,
        algo: *const cublasLtMatmulAlgo_t,
        workspace: *mut ::core::ffi::c_void,
        workspaceBytes: usize,
        stream: cudaStream_t,
    ) -> cublasStatus_t {
        unsafe {
            (self.cublasLtMatmul)(
                handle,
                desc,
                alpha,
                a,
                aLayout,
                b,
                bLayout,
                beta,
                c,
                cLayout,
                d,
                dLayout,
                algo,
                workspace,
                workspaceBytes,
                stream,
            )
        }
    }
}
