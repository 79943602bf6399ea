//! Functions of the runtime.

use std::ffi::{c_char, c_void};

use libloading::{Error, Library};

use crate::types::*;

/// A table of functions: those without which nothing is loaded, and those that may be missing.
macro_rules! table {
    (
        $(#[$doc:meta])* $table:ident
        baseline { $(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)* }
        newer { $(fn $newer:ident($($newer_arg:ident: $newer_ty:ty),*);)* }
    ) => {
        $(#[$doc])*
        #[allow(missing_docs, non_snake_case)]
        pub struct $table {
            $(pub $name: unsafe extern "C" fn($($arg: $ty),*) -> $crate::functions::answer!($($ret)?),)*
            $(pub $newer: Option<unsafe extern "C" fn($($newer_arg: $newer_ty),*) -> aclError>,)*
            /// What the functions are of.
            libraries: Vec<Library>,
        }

        impl $table {
            /// Functions that every version has.
            pub const BASELINE: &[&str] = &[$(stringify!($name)),*];
            /// Functions that came later.
            pub const NEWER: &[&str] = &[$(stringify!($newer)),*];

            /// Looks the functions up.
            pub(crate) fn of(libraries: Vec<Library>) -> Result<$table, Error> {
                Ok($table {
                    // SAFETY: the vendor documents the function with these arguments.
                    $($name: unsafe { $crate::symbol(&libraries, concat!(stringify!($name), "\0").as_bytes()) }?,)*
                    // SAFETY: as above.
                    $($newer: unsafe { $crate::symbol(&libraries, concat!(stringify!($newer), "\0").as_bytes()) }.ok(),)*
                    libraries,
                })
            }
        }
    };
}

/// What a function answers if nothing is said.
macro_rules! answer {
    () => {
        $crate::types::aclError
    };
    ($ret:ty) => {
        $ret
    };
}

pub(crate) use {answer, table};

table! {
    /// The runtime.
    Acl
    baseline {
        fn aclInit(config: *const c_char);
        fn aclFinalize();
        fn aclGetRecentErrMsg() -> Text;
        fn aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32);
        fn aclrtGetSocName() -> Text;
        fn aclrtGetDeviceCount(count: *mut u32);
        fn aclrtSetDevice(device: i32);
        fn aclrtResetDevice(device: i32);
        fn aclrtGetDevice(device: *mut i32);
        fn aclrtSynchronizeDevice();
        fn aclrtGetMemInfo(of: aclrtMemAttr, free: *mut usize, total: *mut usize);

        fn aclrtCreateContext(context: *mut aclrtContext, device: i32);
        fn aclrtDestroyContext(context: aclrtContext);
        fn aclrtGetCurrentContext(context: *mut aclrtContext);
        fn aclrtSetCurrentContext(context: aclrtContext);

        fn aclrtCreateStreamWithConfig(stream: *mut aclrtStream, priority: u32, flag: u32);
        fn aclrtDestroyStream(stream: aclrtStream);
        fn aclrtSynchronizeStream(stream: aclrtStream);
        fn aclrtStreamQuery(stream: aclrtStream, status: *mut aclrtStreamStatus);
        fn aclrtStreamWaitEvent(stream: aclrtStream, event: aclrtEvent);

        fn aclrtCreateEventWithFlag(event: *mut aclrtEvent, flag: u32);
        fn aclrtDestroyEvent(event: aclrtEvent);
        fn aclrtRecordEvent(event: aclrtEvent, stream: aclrtStream);
        fn aclrtQueryEventStatus(event: aclrtEvent, status: *mut aclrtEventRecordedStatus);
        fn aclrtSynchronizeEvent(event: aclrtEvent);
        fn aclrtEventElapsedTime(ms: *mut f32, start: aclrtEvent, end: aclrtEvent);

        fn aclrtMalloc(address: *mut *mut c_void, size: usize, policy: aclrtMemMallocPolicy);
        fn aclrtFree(address: *mut c_void);
        fn aclrtMallocHost(address: *mut *mut c_void, size: usize);
        fn aclrtFreeHost(address: *mut c_void);
        fn aclrtMemcpy(to: *mut c_void, room: usize, from: *const c_void, count: usize, kind: aclrtMemcpyKind);
        fn aclrtMemcpyAsync(
            to: *mut c_void, room: usize, from: *const c_void, count: usize, kind: aclrtMemcpyKind, stream: aclrtStream
        );
        fn aclrtMemset(at: *mut c_void, room: usize, value: i32, count: usize);
        fn aclrtMemsetAsync(at: *mut c_void, room: usize, value: i32, count: usize, stream: aclrtStream);

        fn aclrtBinaryLoadFromFile(
            path: *const c_char, options: *mut aclrtBinaryLoadOptions, binary: *mut aclrtBinHandle
        );
        fn aclrtBinaryUnLoad(binary: aclrtBinHandle);
        fn aclrtBinaryGetFunction(binary: aclrtBinHandle, name: *const c_char, function: *mut aclrtFuncHandle);
        fn aclrtKernelArgsInit(function: aclrtFuncHandle, arguments: *mut aclrtArgsHandle);
        fn aclrtKernelArgsAppend(
            arguments: aclrtArgsHandle, value: *mut c_void, size: usize, parameter: *mut aclrtParamHandle
        );
        fn aclrtKernelArgsFinalize(arguments: aclrtArgsHandle);
        fn aclrtLaunchKernel(
            function: aclrtFuncHandle, blocks: u32, arguments: *const c_void, size: usize, stream: aclrtStream
        );
        fn aclrtLaunchKernelWithConfig(
            function: aclrtFuncHandle, blocks: u32, stream: aclrtStream, config: *mut aclrtLaunchKernelCfg,
            arguments: aclrtArgsHandle, reserve: *mut c_void
        );

        fn aclmdlRICaptureBegin(stream: aclrtStream, mode: aclmdlRICaptureMode);
        fn aclmdlRICaptureGetInfo(stream: aclrtStream, status: *mut aclmdlRICaptureStatus, model: *mut aclmdlRI);
        fn aclmdlRICaptureEnd(stream: aclrtStream, model: *mut aclmdlRI);
        fn aclmdlRIExecuteAsync(model: aclmdlRI, stream: aclrtStream);
        fn aclmdlRIDestroy(model: aclmdlRI);
    }
    newer {
        // CANN 8.2.
        fn aclrtGetDeviceInfo(device: u32, of: aclrtDevAttr, value: *mut i64);
        // CANN 8.3; not to be captured there.
        fn aclrtLaunchHostFunc(stream: aclrtStream, function: aclrtHostFunc, data: *mut c_void);
        // CANN 8.5.
        fn aclrtBinaryLoadFromData(
            data: *const c_void, size: usize, options: *const aclrtBinaryLoadOptions, binary: *mut aclrtBinHandle
        );
        fn aclrtLaunchKernelV2(
            function: aclrtFuncHandle, blocks: u32, arguments: *const c_void, size: usize,
            config: *mut aclrtLaunchKernelCfg, stream: aclrtStream
        );
        fn aclrtLaunchKernelWithHostArgs(
            function: aclrtFuncHandle, blocks: u32, stream: aclrtStream, config: *mut aclrtLaunchKernelCfg,
            arguments: *mut c_void, size: usize, places: *mut aclrtPlaceHolderInfo, count: usize
        );
        // CANN 9.1.
        fn aclrtLaunchKernelWithArgsArray(
            function: *mut c_void, blocks: u32, stream: aclrtStream, config: *mut aclrtLaunchKernelCfg,
            arguments: *mut *mut c_void
        );
        fn aclmdlRIExecute(model: aclmdlRI, timeout: i32);
        fn aclmdlRICaptureThreadExchangeMode(mode: *mut aclmdlRICaptureMode);
    }
}

impl Acl {
    /// The function that only stand-ins of the runtime have, which compute on the host what a device would: by it they are
    /// told that the host wrote memory of the device.
    pub fn simulated(&self) -> Option<Simulated> {
        // SAFETY: stand-ins have the function with these arguments.
        unsafe { crate::symbol(&self.libraries, b"fusewright_simulated\0") }.ok()
    }
}

impl std::fmt::Debug for Acl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acl")
    }
}
