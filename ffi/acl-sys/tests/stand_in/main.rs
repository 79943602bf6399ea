//! The stand-in of the runtime keeps to the interface and enforces its rules. SIMULATED, as all of its results.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks, reason = "the calls are what is tested")]

mod capture;
mod launches;
mod order;

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use fusewright_acl_sys::*;
use fusewright_ascend_model::{ARGUMENTS_HEADER, Chip, Device, Model, Source, StandIn, Version, described};

#[path = "../../../../xtask/src/skipped.rs"]
mod skipped;

const CHIP: Chip = Chip { arch: 2201, buffer_bytes: 188_160 };

/// Adds one to every number of a row; a row is one number.
const ADD_ONE: &str = r#"#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void add_one(GM_ADDR x, GM_ADDR y, int64_t begin, int64_t end)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 32);
    pipe.InitBuffer(out, 1, 32);
    GlobalTensor<float> from;
    GlobalTensor<float> to;
    from.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
    to.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y));
    const DataCopyExtParams shape{1, 4, 0, 0, 0};
    for (int64_t row = begin + GetBlockIdx(); row < end; row += GetBlockNum()) {
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopyPad(a, from[row], shape, DataCopyPadExtParams<float>{false, 0, 0, 0});
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        Adds(b, a, 1.0f, 1);
        in.FreeTensor(a);
        out.EnQue(b);
        b = out.DeQue<float>();
        DataCopyPad(to[row], b, shape);
        out.FreeTensor(b);
    }
}
"#;

/// The stand-in and a kernel for it.
struct Built {
    acl: Acl,
    kernel: Vec<u8>,
}

/// What one test has: the runtime for itself, since a capture concerns all threads of a process.
struct Runtime {
    acl: &'static Acl,
    kernel: &'static [u8],
    _turn: MutexGuard<'static, ()>,
}

/// The runtime, or nothing where no compiler of C++ is, which is said under the name of the test.
fn runtime(test: &str) -> Option<Runtime> {
    static BUILT: OnceLock<Result<Built, String>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let built = BUILT.get_or_init(|| {
        let model = Model::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).map_err(|e| e.to_string())?;
        let device = Device { soc: "Ascend910B1".to_owned(), chip: CHIP, vector_cores: 48 };
        let stand_in: StandIn = model.stand_in(&device, Version::V9_1).unwrap_or_else(|e| panic!("{e}"));
        let text = format!("{ADD_ONE}{}", described("add_one"));
        let source = Source { name: "add_one.cpp", text: &text };
        let object = model.compile(&[source], &[ARGUMENTS_HEADER], CHIP).unwrap_or_else(|e| panic!("{e}"));
        let acl = load(&stand_in.runtime()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(unsafe { (acl.aclInit)(std::ptr::null()) }, ACL_SUCCESS);
        Ok(Built { acl, kernel: std::fs::read(object).expect("it was made") })
    });
    match built {
        Ok(built) => {
            let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
            let runtime = Runtime { acl: &built.acl, kernel: &built.kernel, _turn: turn };
            runtime.ok(unsafe { (runtime.acl.aclrtSetDevice)(0) });
            Some(runtime)
        }
        Err(why) if why.contains("no C++ compiler") => {
            skipped::skipped(test, why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

impl Runtime {
    /// What was said of the last failure of this thread.
    fn said(&self) -> String {
        let text = unsafe { (self.acl.aclGetRecentErrMsg)() };
        if text.is_null() { String::new() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() }
    }

    fn ok(&self, answer: aclError) {
        assert_eq!(answer, ACL_SUCCESS, "{}", self.said());
    }

    /// The call fails, for a reason that has these words.
    fn refused(&self, answer: aclError, words: &str) {
        let said = self.said();
        assert!(answer != ACL_SUCCESS && said.contains(words), "answer {answer}: {said}");
    }

    fn stream(&self) -> aclrtStream {
        let mut stream = null_mut();
        self.ok(unsafe { (self.acl.aclrtCreateStreamWithConfig)(&mut stream, 0, ACL_STREAM_FAST_LAUNCH) });
        stream
    }

    fn event(&self, flag: u32) -> aclrtEvent {
        let mut event = null_mut();
        self.ok(unsafe { (self.acl.aclrtCreateEventWithFlag)(&mut event, flag) });
        event
    }

    /// Memory of the device with these numbers.
    fn numbers(&self, numbers: &[f32]) -> *mut c_void {
        let (mut at, bytes) = (null_mut(), size_of_val(numbers));
        self.ok(unsafe { (self.acl.aclrtMalloc)(&mut at, bytes, ACL_MEM_MALLOC_HUGE_FIRST) });
        self.ok(unsafe {
            (self.acl.aclrtMemcpy)(at, bytes, numbers.as_ptr().cast(), bytes, ACL_MEMCPY_HOST_TO_DEVICE)
        });
        at
    }

    /// The numbers that lie there now, whatever is still to be done.
    fn read(&self, at: *const c_void, count: usize) -> Vec<f32> {
        let mut numbers = vec![0f32; count];
        let bytes = 4 * count;
        let to = numbers.as_mut_ptr().cast();
        self.ok(unsafe { (self.acl.aclrtMemcpy)(to, bytes, at, bytes, ACL_MEMCPY_DEVICE_TO_HOST) });
        numbers
    }

    fn copy(&self, to: *mut c_void, from: *const c_void, count: usize, stream: aclrtStream) -> aclError {
        let bytes = 4 * count;
        unsafe { (self.acl.aclrtMemcpyAsync)(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream) }
    }

    fn wait(&self, stream: aclrtStream) -> aclError {
        unsafe { (self.acl.aclrtSynchronizeStream)(stream) }
    }

    /// The binary of the kernel, and its function.
    fn load(&self) -> (aclrtBinHandle, aclrtFuncHandle) {
        let (mut binary, mut function) = (null_mut(), null_mut());
        let load = self.acl.aclrtBinaryLoadFromData.expect("the newest version has it");
        let (data, size) = (self.kernel.as_ptr().cast(), self.kernel.len());
        self.ok(unsafe { load(data, size, std::ptr::null(), &mut binary) });
        self.ok(unsafe { (self.acl.aclrtBinaryGetFunction)(binary, c"add_one".as_ptr(), &mut function) });
        (binary, function)
    }

    /// Enqueues the kernel.
    fn launch(
        &self,
        function: aclrtFuncHandle,
        (from, to): (*mut c_void, *mut c_void),
        rows: u64,
        stream: aclrtStream,
    ) -> aclError {
        let values = [from as u64, to as u64, 0, rows];
        let mut places = values.each_ref().map(|value| std::ptr::from_ref(value).cast_mut().cast::<c_void>());
        let launch = self.acl.aclrtLaunchKernelWithArgsArray.expect("the newest version has it");
        unsafe { launch(function.cast(), 2, stream, null_mut(), places.as_mut_ptr()) }
    }
}
