//! Types, numbers and functions of `include/driver.h`, made of it by bindgen.

pub const CUDA_SUCCESS: i32 = 0;
pub const CUDA_ERROR_OUT_OF_MEMORY: i32 = 2;
pub const CUDA_ERROR_NO_DEVICE: i32 = 100;
pub const CUDA_ERROR_ILLEGAL_ADDRESS: i32 = 700;
pub const CUDA_ERROR_LAUNCH_TIMEOUT: i32 = 702;
pub const CUDA_ERROR_HARDWARE_STACK_ERROR: i32 = 714;
pub const CUDA_ERROR_ILLEGAL_INSTRUCTION: i32 = 715;
pub const CUDA_ERROR_MISALIGNED_ADDRESS: i32 = 716;
pub const CUDA_ERROR_INVALID_ADDRESS_SPACE: i32 = 717;
pub const CUDA_ERROR_INVALID_PC: i32 = 718;
pub const CUDA_ERROR_LAUNCH_FAILED: i32 = 719;
pub const CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: i32 = 16;
pub const CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: i32 = 38;
pub const CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: i32 = 75;
pub const CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: i32 = 76;
pub const CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: i32 = 3;
pub const CU_FUNC_ATTRIBUTE_NUM_REGS: i32 = 4;
pub const CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;
pub const CU_JIT_ERROR_LOG_BUFFER: i32 = 5;
pub const CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: i32 = 6;
pub const CU_STREAM_CAPTURE_MODE_RELAXED: i32 = 2;
pub const CU_STREAM_CAPTURE_STATUS_NONE: i32 = 0;
pub const CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: i32 = 6;
pub type CUdevice = ::core::ffi::c_int;
pub type CUdeviceptr = ::core::ffi::c_ulonglong;
#[repr(C)]
#[derive(Debug)]
pub struct CUctx_st {
    _unused: [u8; 0],
}
pub type CUcontext = *mut CUctx_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUmod_st {
    _unused: [u8; 0],
}
pub type CUmodule = *mut CUmod_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUfunc_st {
    _unused: [u8; 0],
}
pub type CUfunction = *mut CUfunc_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUstream_st {
    _unused: [u8; 0],
}
pub type CUstream = *mut CUstream_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUevent_st {
    _unused: [u8; 0],
}
pub type CUevent = *mut CUevent_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUgraph_st {
    _unused: [u8; 0],
}
pub type CUgraph = *mut CUgraph_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUgraphExec_st {
    _unused: [u8; 0],
}
pub type CUgraphExec = *mut CUgraphExec_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUgraphNode_st {
    _unused: [u8; 0],
}
pub type CUgraphNode = *mut CUgraphNode_st;
pub type CUresult = ::core::ffi::c_int;
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUlaunchAttributeValue_union {
    pub pad: [::core::ffi::c_char; 64usize],
    pub programmaticStreamSerializationAllowed: ::core::ffi::c_int,
    pub aligned: *mut ::core::ffi::c_void,
}
pub type CUlaunchAttributeValue = CUlaunchAttributeValue_union;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUlaunchAttribute_st {
    pub id: ::core::ffi::c_int,
    pub pad: [::core::ffi::c_char; 4usize],
    pub value: CUlaunchAttributeValue,
}
pub type CUlaunchAttribute = CUlaunchAttribute_st;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct CUlaunchConfig_st {
    pub gridDimX: ::core::ffi::c_uint,
    pub gridDimY: ::core::ffi::c_uint,
    pub gridDimZ: ::core::ffi::c_uint,
    pub blockDimX: ::core::ffi::c_uint,
    pub blockDimY: ::core::ffi::c_uint,
    pub blockDimZ: ::core::ffi::c_uint,
    pub sharedMemBytes: ::core::ffi::c_uint,
    pub hStream: CUstream,
    pub attrs: *mut CUlaunchAttribute,
    pub numAttrs: ::core::ffi::c_uint,
}
pub type CUlaunchConfig = CUlaunchConfig_st;
pub struct Driver {
    __library: ::libloading::Library,
    pub cuInit: unsafe extern "C" fn(flags: ::core::ffi::c_uint) -> CUresult,
    pub cuDriverGetVersion: unsafe extern "C" fn(version: *mut ::core::ffi::c_int) -> CUresult,
    pub cuGetErrorName: unsafe extern "C" fn(error: CUresult, name: *mut *const ::core::ffi::c_char) -> CUresult,
    pub cuGetErrorString: unsafe extern "C" fn(error: CUresult, text: *mut *const ::core::ffi::c_char) -> CUresult,
    pub cuDeviceGetCount: unsafe extern "C" fn(count: *mut ::core::ffi::c_int) -> CUresult,
    pub cuDeviceGet: unsafe extern "C" fn(device: *mut CUdevice, ordinal: ::core::ffi::c_int) -> CUresult,
    pub cuDeviceGetName:
        unsafe extern "C" fn(name: *mut ::core::ffi::c_char, length: ::core::ffi::c_int, device: CUdevice) -> CUresult,
    pub cuDeviceGetAttribute: unsafe extern "C" fn(
        value: *mut ::core::ffi::c_int,
        attribute: ::core::ffi::c_int,
        device: CUdevice,
    ) -> CUresult,
    pub cuDevicePrimaryCtxRetain: unsafe extern "C" fn(context: *mut CUcontext, device: CUdevice) -> CUresult,
    pub cuDevicePrimaryCtxRelease_v2: unsafe extern "C" fn(device: CUdevice) -> CUresult,
    pub cuCtxPushCurrent_v2: unsafe extern "C" fn(context: CUcontext) -> CUresult,
    pub cuCtxPopCurrent_v2: unsafe extern "C" fn(context: *mut CUcontext) -> CUresult,
    pub cuCtxGetCurrent: unsafe extern "C" fn(context: *mut CUcontext) -> CUresult,
    pub cuModuleLoadDataEx: unsafe extern "C" fn(
        module: *mut CUmodule,
        image: *const ::core::ffi::c_void,
        options: ::core::ffi::c_uint,
        names: *mut ::core::ffi::c_int,
        values: *mut *mut ::core::ffi::c_void,
    ) -> CUresult,
    pub cuModuleUnload: unsafe extern "C" fn(module: CUmodule) -> CUresult,
    pub cuModuleGetFunction:
        unsafe extern "C" fn(function: *mut CUfunction, module: CUmodule, name: *const ::core::ffi::c_char) -> CUresult,
    pub cuFuncGetAttribute: unsafe extern "C" fn(
        value: *mut ::core::ffi::c_int,
        attribute: ::core::ffi::c_int,
        function: CUfunction,
    ) -> CUresult,
    pub cuFuncSetAttribute: unsafe extern "C" fn(
        function: CUfunction,
        attribute: ::core::ffi::c_int,
        value: ::core::ffi::c_int,
    ) -> CUresult,
    pub cuStreamCreate: unsafe extern "C" fn(stream: *mut CUstream, flags: ::core::ffi::c_uint) -> CUresult,
    pub cuStreamDestroy_v2: unsafe extern "C" fn(stream: CUstream) -> CUresult,
    pub cuStreamSynchronize: unsafe extern "C" fn(stream: CUstream) -> CUresult,
    pub cuStreamBeginCapture_v2: unsafe extern "C" fn(stream: CUstream, mode: ::core::ffi::c_int) -> CUresult,
    pub cuStreamEndCapture: unsafe extern "C" fn(stream: CUstream, graph: *mut CUgraph) -> CUresult,
    pub cuStreamIsCapturing: unsafe extern "C" fn(stream: CUstream, status: *mut ::core::ffi::c_int) -> CUresult,
    pub cuStreamGetCtx: unsafe extern "C" fn(stream: CUstream, context: *mut CUcontext) -> CUresult,
    pub cuStreamWaitEvent:
        unsafe extern "C" fn(stream: CUstream, event: CUevent, flags: ::core::ffi::c_uint) -> CUresult,
    pub cuThreadExchangeStreamCaptureMode: unsafe extern "C" fn(mode: *mut ::core::ffi::c_int) -> CUresult,
    pub cuEventCreate: unsafe extern "C" fn(event: *mut CUevent, flags: ::core::ffi::c_uint) -> CUresult,
    pub cuEventDestroy_v2: unsafe extern "C" fn(event: CUevent) -> CUresult,
    pub cuEventRecord: unsafe extern "C" fn(event: CUevent, stream: CUstream) -> CUresult,
    pub cuEventQuery: unsafe extern "C" fn(event: CUevent) -> CUresult,
    pub cuEventSynchronize: unsafe extern "C" fn(event: CUevent) -> CUresult,
    pub cuEventElapsedTime: unsafe extern "C" fn(milliseconds: *mut f32, start: CUevent, end: CUevent) -> CUresult,
    pub cuGraphGetNodes: unsafe extern "C" fn(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) -> CUresult,
    pub cuGraphInstantiateWithFlags:
        unsafe extern "C" fn(executable: *mut CUgraphExec, graph: CUgraph, flags: ::core::ffi::c_ulonglong) -> CUresult,
    pub cuGraphUpload: unsafe extern "C" fn(executable: CUgraphExec, stream: CUstream) -> CUresult,
    pub cuGraphLaunch: unsafe extern "C" fn(executable: CUgraphExec, stream: CUstream) -> CUresult,
    pub cuGraphExecDestroy: unsafe extern "C" fn(executable: CUgraphExec) -> CUresult,
    pub cuGraphDestroy: unsafe extern "C" fn(graph: CUgraph) -> CUresult,
    pub cuMemGetInfo_v2: unsafe extern "C" fn(free: *mut usize, total: *mut usize) -> CUresult,
    pub cuMemAllocAsync: unsafe extern "C" fn(memory: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult,
    pub cuMemFreeAsync: unsafe extern "C" fn(memory: CUdeviceptr, stream: CUstream) -> CUresult,
    pub cuMemcpyHtoDAsync_v2: unsafe extern "C" fn(
        to: CUdeviceptr,
        from: *const ::core::ffi::c_void,
        bytes: usize,
        stream: CUstream,
    ) -> CUresult,
    pub cuMemcpyDtoHAsync_v2: unsafe extern "C" fn(
        to: *mut ::core::ffi::c_void,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> CUresult,
    pub cuMemcpyDtoDAsync_v2:
        unsafe extern "C" fn(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult,
    pub cuMemsetD8Async: unsafe extern "C" fn(
        memory: CUdeviceptr,
        value: ::core::ffi::c_uchar,
        bytes: usize,
        stream: CUstream,
    ) -> CUresult,
    pub cuLaunchKernelEx: unsafe extern "C" fn(
        config: *const CUlaunchConfig,
        function: CUfunction,
        arguments: *mut *mut ::core::ffi::c_void,
        extra: *mut *mut ::core::ffi::c_void,
    ) -> CUresult,
}
impl Driver {
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
        let cuInit = unsafe { __library.get(b"cuInit\0") }.map(|sym| *sym)?;
        let cuDriverGetVersion = unsafe { __library.get(b"cuDriverGetVersion\0") }.map(|sym| *sym)?;
        let cuGetErrorName = unsafe { __library.get(b"cuGetErrorName\0") }.map(|sym| *sym)?;
        let cuGetErrorString = unsafe { __library.get(b"cuGetErrorString\0") }.map(|sym| *sym)?;
        let cuDeviceGetCount = unsafe { __library.get(b"cuDeviceGetCount\0") }.map(|sym| *sym)?;
        let cuDeviceGet = unsafe { __library.get(b"cuDeviceGet\0") }.map(|sym| *sym)?;
        let cuDeviceGetName = unsafe { __library.get(b"cuDeviceGetName\0") }.map(|sym| *sym)?;
        let cuDeviceGetAttribute = unsafe { __library.get(b"cuDeviceGetAttribute\0") }.map(|sym| *sym)?;
        let cuDevicePrimaryCtxRetain = unsafe { __library.get(b"cuDevicePrimaryCtxRetain\0") }.map(|sym| *sym)?;
        let cuDevicePrimaryCtxRelease_v2 =
            unsafe { __library.get(b"cuDevicePrimaryCtxRelease_v2\0") }.map(|sym| *sym)?;
        let cuCtxPushCurrent_v2 = unsafe { __library.get(b"cuCtxPushCurrent_v2\0") }.map(|sym| *sym)?;
        let cuCtxPopCurrent_v2 = unsafe { __library.get(b"cuCtxPopCurrent_v2\0") }.map(|sym| *sym)?;
        let cuCtxGetCurrent = unsafe { __library.get(b"cuCtxGetCurrent\0") }.map(|sym| *sym)?;
        let cuModuleLoadDataEx = unsafe { __library.get(b"cuModuleLoadDataEx\0") }.map(|sym| *sym)?;
        let cuModuleUnload = unsafe { __library.get(b"cuModuleUnload\0") }.map(|sym| *sym)?;
        let cuModuleGetFunction = unsafe { __library.get(b"cuModuleGetFunction\0") }.map(|sym| *sym)?;
        let cuFuncGetAttribute = unsafe { __library.get(b"cuFuncGetAttribute\0") }.map(|sym| *sym)?;
        let cuFuncSetAttribute = unsafe { __library.get(b"cuFuncSetAttribute\0") }.map(|sym| *sym)?;
        let cuStreamCreate = unsafe { __library.get(b"cuStreamCreate\0") }.map(|sym| *sym)?;
        let cuStreamDestroy_v2 = unsafe { __library.get(b"cuStreamDestroy_v2\0") }.map(|sym| *sym)?;
        let cuStreamSynchronize = unsafe { __library.get(b"cuStreamSynchronize\0") }.map(|sym| *sym)?;
        let cuStreamBeginCapture_v2 = unsafe { __library.get(b"cuStreamBeginCapture_v2\0") }.map(|sym| *sym)?;
        let cuStreamEndCapture = unsafe { __library.get(b"cuStreamEndCapture\0") }.map(|sym| *sym)?;
        let cuStreamIsCapturing = unsafe { __library.get(b"cuStreamIsCapturing\0") }.map(|sym| *sym)?;
        let cuStreamGetCtx = unsafe { __library.get(b"cuStreamGetCtx\0") }.map(|sym| *sym)?;
        let cuStreamWaitEvent = unsafe { __library.get(b"cuStreamWaitEvent\0") }.map(|sym| *sym)?;
        let cuThreadExchangeStreamCaptureMode =
            unsafe { __library.get(b"cuThreadExchangeStreamCaptureMode\0") }.map(|sym| *sym)?;
        let cuEventCreate = unsafe { __library.get(b"cuEventCreate\0") }.map(|sym| *sym)?;
        let cuEventDestroy_v2 = unsafe { __library.get(b"cuEventDestroy_v2\0") }.map(|sym| *sym)?;
        let cuEventRecord = unsafe { __library.get(b"cuEventRecord\0") }.map(|sym| *sym)?;
        let cuEventQuery = unsafe { __library.get(b"cuEventQuery\0") }.map(|sym| *sym)?;
        let cuEventSynchronize = unsafe { __library.get(b"cuEventSynchronize\0") }.map(|sym| *sym)?;
        let cuEventElapsedTime = unsafe { __library.get(b"cuEventElapsedTime\0") }.map(|sym| *sym)?;
        let cuGraphGetNodes = unsafe { __library.get(b"cuGraphGetNodes\0") }.map(|sym| *sym)?;
        let cuGraphInstantiateWithFlags = unsafe { __library.get(b"cuGraphInstantiateWithFlags\0") }.map(|sym| *sym)?;
        let cuGraphUpload = unsafe { __library.get(b"cuGraphUpload\0") }.map(|sym| *sym)?;
        let cuGraphLaunch = unsafe { __library.get(b"cuGraphLaunch\0") }.map(|sym| *sym)?;
        let cuGraphExecDestroy = unsafe { __library.get(b"cuGraphExecDestroy\0") }.map(|sym| *sym)?;
        let cuGraphDestroy = unsafe { __library.get(b"cuGraphDestroy\0") }.map(|sym| *sym)?;
        let cuMemGetInfo_v2 = unsafe { __library.get(b"cuMemGetInfo_v2\0") }.map(|sym| *sym)?;
        let cuMemAllocAsync = unsafe { __library.get(b"cuMemAllocAsync\0") }.map(|sym| *sym)?;
        let cuMemFreeAsync = unsafe { __library.get(b"cuMemFreeAsync\0") }.map(|sym| *sym)?;
        let cuMemcpyHtoDAsync_v2 = unsafe { __library.get(b"cuMemcpyHtoDAsync_v2\0") }.map(|sym| *sym)?;
        let cuMemcpyDtoHAsync_v2 = unsafe { __library.get(b"cuMemcpyDtoHAsync_v2\0") }.map(|sym| *sym)?;
        let cuMemcpyDtoDAsync_v2 = unsafe { __library.get(b"cuMemcpyDtoDAsync_v2\0") }.map(|sym| *sym)?;
        let cuMemsetD8Async = unsafe { __library.get(b"cuMemsetD8Async\0") }.map(|sym| *sym)?;
        let cuLaunchKernelEx = unsafe { __library.get(b"cuLaunchKernelEx\0") }.map(|sym| *sym)?;
        Ok(Driver {
            __library,
            cuInit,
            cuDriverGetVersion,
            cuGetErrorName,
            cuGetErrorString,
            cuDeviceGetCount,
            cuDeviceGet,
            cuDeviceGetName,
            cuDeviceGetAttribute,
            cuDevicePrimaryCtxRetain,
            cuDevicePrimaryCtxRelease_v2,
            cuCtxPushCurrent_v2,
            cuCtxPopCurrent_v2,
            cuCtxGetCurrent,
            cuModuleLoadDataEx,
            cuModuleUnload,
            cuModuleGetFunction,
            cuFuncGetAttribute,
            cuFuncSetAttribute,
            cuStreamCreate,
            cuStreamDestroy_v2,
            cuStreamSynchronize,
            cuStreamBeginCapture_v2,
            cuStreamEndCapture,
            cuStreamIsCapturing,
            cuStreamGetCtx,
            cuStreamWaitEvent,
            cuThreadExchangeStreamCaptureMode,
            cuEventCreate,
            cuEventDestroy_v2,
            cuEventRecord,
            cuEventQuery,
            cuEventSynchronize,
            cuEventElapsedTime,
            cuGraphGetNodes,
            cuGraphInstantiateWithFlags,
            cuGraphUpload,
            cuGraphLaunch,
            cuGraphExecDestroy,
            cuGraphDestroy,
            cuMemGetInfo_v2,
            cuMemAllocAsync,
            cuMemFreeAsync,
            cuMemcpyHtoDAsync_v2,
            cuMemcpyDtoHAsync_v2,
            cuMemcpyDtoDAsync_v2,
            cuMemsetD8Async,
            cuLaunchKernelEx,
        })
    }
    pub unsafe fn cuInit(&self, flags: ::core::ffi::c_uint) -> CUresult {
        unsafe { (self.cuInit)(flags) }
    }
    pub unsafe fn cuDriverGetVersion(&self, version: *mut ::core::ffi::c_int) -> CUresult {
        unsafe { (self.cuDriverGetVersion)(version) }
    }
    pub unsafe fn cuGetErrorName(&self, error: CUresult, name: *mut *const ::core::ffi::c_char) -> CUresult {
        unsafe { (self.cuGetErrorName)(error, name) }
    }
    pub unsafe fn cuGetErrorString(&self, error: CUresult, text: *mut *const ::core::ffi::c_char) -> CUresult {
        unsafe { (self.cuGetErrorString)(error, text) }
    }
    pub unsafe fn cuDeviceGetCount(&self, count: *mut ::core::ffi::c_int) -> CUresult {
        unsafe { (self.cuDeviceGetCount)(count) }
    }
    pub unsafe fn cuDeviceGet(&self, device: *mut CUdevice, ordinal: ::core::ffi::c_int) -> CUresult {
        unsafe { (self.cuDeviceGet)(device, ordinal) }
    }
    pub unsafe fn cuDeviceGetName(
        &self,
        name: *mut ::core::ffi::c_char,
        length: ::core::ffi::c_int,
        device: CUdevice,
    ) -> CUresult {
        unsafe { (self.cuDeviceGetName)(name, length, device) }
    }
    pub unsafe fn cuDeviceGetAttribute(
        &self,
        value: *mut ::core::ffi::c_int,
        attribute: ::core::ffi::c_int,
        device: CUdevice,
    ) -> CUresult {
        unsafe { (self.cuDeviceGetAttribute)(value, attribute, device) }
    }
    pub unsafe fn cuDevicePrimaryCtxRetain(&self, context: *mut CUcontext, device: CUdevice) -> CUresult {
        unsafe { (self.cuDevicePrimaryCtxRetain)(context, device) }
    }
    pub unsafe fn cuDevicePrimaryCtxRelease_v2(&self, device: CUdevice) -> CUresult {
        unsafe { (self.cuDevicePrimaryCtxRelease_v2)(device) }
    }
    pub unsafe fn cuCtxPushCurrent_v2(&self, context: CUcontext) -> CUresult {
        unsafe { (self.cuCtxPushCurrent_v2)(context) }
    }
    pub unsafe fn cuCtxPopCurrent_v2(&self, context: *mut CUcontext) -> CUresult {
        unsafe { (self.cuCtxPopCurrent_v2)(context) }
    }
    pub unsafe fn cuCtxGetCurrent(&self, context: *mut CUcontext) -> CUresult {
        unsafe { (self.cuCtxGetCurrent)(context) }
    }
    pub unsafe fn cuModuleLoadDataEx(
        &self,
        module: *mut CUmodule,
        image: *const ::core::ffi::c_void,
        options: ::core::ffi::c_uint,
        names: *mut ::core::ffi::c_int,
        values: *mut *mut ::core::ffi::c_void,
    ) -> CUresult {
        unsafe { (self.cuModuleLoadDataEx)(module, image, options, names, values) }
    }
    pub unsafe fn cuModuleUnload(&self, module: CUmodule) -> CUresult {
        unsafe { (self.cuModuleUnload)(module) }
    }
    pub unsafe fn cuModuleGetFunction(
        &self,
        function: *mut CUfunction,
        module: CUmodule,
        name: *const ::core::ffi::c_char,
    ) -> CUresult {
        unsafe { (self.cuModuleGetFunction)(function, module, name) }
    }
    pub unsafe fn cuFuncGetAttribute(
        &self,
        value: *mut ::core::ffi::c_int,
        attribute: ::core::ffi::c_int,
        function: CUfunction,
    ) -> CUresult {
        unsafe { (self.cuFuncGetAttribute)(value, attribute, function) }
    }
    pub unsafe fn cuFuncSetAttribute(
        &self,
        function: CUfunction,
        attribute: ::core::ffi::c_int,
        value: ::core::ffi::c_int,
    ) -> CUresult {
        unsafe { (self.cuFuncSetAttribute)(function, attribute, value) }
    }
    pub unsafe fn cuStreamCreate(&self, stream: *mut CUstream, flags: ::core::ffi::c_uint) -> CUresult {
        unsafe { (self.cuStreamCreate)(stream, flags) }
    }
    pub unsafe fn cuStreamDestroy_v2(&self, stream: CUstream) -> CUresult {
        unsafe { (self.cuStreamDestroy_v2)(stream) }
    }
    pub unsafe fn cuStreamSynchronize(&self, stream: CUstream) -> CUresult {
        unsafe { (self.cuStreamSynchronize)(stream) }
    }
    pub unsafe fn cuStreamBeginCapture_v2(&self, stream: CUstream, mode: ::core::ffi::c_int) -> CUresult {
        unsafe { (self.cuStreamBeginCapture_v2)(stream, mode) }
    }
    pub unsafe fn cuStreamEndCapture(&self, stream: CUstream, graph: *mut CUgraph) -> CUresult {
        unsafe { (self.cuStreamEndCapture)(stream, graph) }
    }
    pub unsafe fn cuStreamIsCapturing(&self, stream: CUstream, status: *mut ::core::ffi::c_int) -> CUresult {
        unsafe { (self.cuStreamIsCapturing)(stream, status) }
    }
    pub unsafe fn cuStreamGetCtx(&self, stream: CUstream, context: *mut CUcontext) -> CUresult {
        unsafe { (self.cuStreamGetCtx)(stream, context) }
    }
    pub unsafe fn cuStreamWaitEvent(&self, stream: CUstream, event: CUevent, flags: ::core::ffi::c_uint) -> CUresult {
        unsafe { (self.cuStreamWaitEvent)(stream, event, flags) }
    }
    pub unsafe fn cuThreadExchangeStreamCaptureMode(&self, mode: *mut ::core::ffi::c_int) -> CUresult {
        unsafe { (self.cuThreadExchangeStreamCaptureMode)(mode) }
    }
    pub unsafe fn cuEventCreate(&self, event: *mut CUevent, flags: ::core::ffi::c_uint) -> CUresult {
        unsafe { (self.cuEventCreate)(event, flags) }
    }
    pub unsafe fn cuEventDestroy_v2(&self, event: CUevent) -> CUresult {
        unsafe { (self.cuEventDestroy_v2)(event) }
    }
    pub unsafe fn cuEventRecord(&self, event: CUevent, stream: CUstream) -> CUresult {
        unsafe { (self.cuEventRecord)(event, stream) }
    }
    pub unsafe fn cuEventQuery(&self, event: CUevent) -> CUresult {
        unsafe { (self.cuEventQuery)(event) }
    }
    pub unsafe fn cuEventSynchronize(&self, event: CUevent) -> CUresult {
        unsafe { (self.cuEventSynchronize)(event) }
    }
    pub unsafe fn cuEventElapsedTime(&self, milliseconds: *mut f32, start: CUevent, end: CUevent) -> CUresult {
        unsafe { (self.cuEventElapsedTime)(milliseconds, start, end) }
    }
    pub unsafe fn cuGraphGetNodes(&self, graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) -> CUresult {
        unsafe { (self.cuGraphGetNodes)(graph, nodes, count) }
    }
    pub unsafe fn cuGraphInstantiateWithFlags(
        &self,
        executable: *mut CUgraphExec,
        graph: CUgraph,
        flags: ::core::ffi::c_ulonglong,
    ) -> CUresult {
        unsafe { (self.cuGraphInstantiateWithFlags)(executable, graph, flags) }
    }
    pub unsafe fn cuGraphUpload(&self, executable: CUgraphExec, stream: CUstream) -> CUresult {
        unsafe { (self.cuGraphUpload)(executable, stream) }
    }
    pub unsafe fn cuGraphLaunch(&self, executable: CUgraphExec, stream: CUstream) -> CUresult {
        unsafe { (self.cuGraphLaunch)(executable, stream) }
    }
    pub unsafe fn cuGraphExecDestroy(&self, executable: CUgraphExec) -> CUresult {
        unsafe { (self.cuGraphExecDestroy)(executable) }
    }
    pub unsafe fn cuGraphDestroy(&self, graph: CUgraph) -> CUresult {
        unsafe { (self.cuGraphDestroy)(graph) }
    }
    pub unsafe fn cuMemGetInfo_v2(&self, free: *mut usize, total: *mut usize) -> CUresult {
        unsafe { (self.cuMemGetInfo_v2)(free, total) }
    }
    pub unsafe fn cuMemAllocAsync(&self, memory: *mut CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
        unsafe { (self.cuMemAllocAsync)(memory, bytes, stream) }
    }
    pub unsafe fn cuMemFreeAsync(&self, memory: CUdeviceptr, stream: CUstream) -> CUresult {
        unsafe { (self.cuMemFreeAsync)(memory, stream) }
    }
    pub unsafe fn cuMemcpyHtoDAsync_v2(
        &self,
        to: CUdeviceptr,
        from: *const ::core::ffi::c_void,
        bytes: usize,
        stream: CUstream,
    ) -> CUresult {
        unsafe { (self.cuMemcpyHtoDAsync_v2)(to, from, bytes, stream) }
    }
    pub unsafe fn cuMemcpyDtoHAsync_v2(
        &self,
        to: *mut ::core::ffi::c_void,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> CUresult {
        unsafe { (self.cuMemcpyDtoHAsync_v2)(to, from, bytes, stream) }
    }
    pub unsafe fn cuMemcpyDtoDAsync_v2(
        &self,
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> CUresult {
        unsafe { (self.cuMemcpyDtoDAsync_v2)(to, from, bytes, stream) }
    }
    pub unsafe fn cuMemsetD8Async(
        &self,
        memory: CUdeviceptr,
        value: ::core::ffi::c_uchar,
        bytes: usize,
        stream: CUstream,
    ) -> CUresult {
        unsafe { (self.cuMemsetD8Async)(memory, value, bytes, stream) }
    }
    pub unsafe fn cuLaunchKernelEx(
        &self,
        config: *const CUlaunchConfig,
        function: CUfunction,
        arguments: *mut *mut ::core::ffi::c_void,
        extra: *mut *mut ::core::ffi::c_void,
    ) -> CUresult {
        unsafe { (self.cuLaunchKernelEx)(config, function, arguments, extra) }
    }
}
