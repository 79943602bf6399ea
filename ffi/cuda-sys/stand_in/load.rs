//! The stand-in of the driver as tests of several crates have it: built by the machine's C compiler, and loaded ahead of any
//! driver, so that who looks for one finds it.
#![allow(unsafe_code, dead_code, reason = "not every test needs all of it")]

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// Devices that it has; the last one is of an older kind than the others.
pub const DEVICES: usize = 3;

/// What it counts on a device.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Launches that ran.
    Launches = 0,
    /// Modules that are loaded.
    Modules = 1,
    /// Allocations that have not gone back.
    Allocations = 2,
    /// How often its context was made current.
    Entered = 4,
}

/// The loaded stand-in, which one test has at a time.
pub struct StandIn {
    library: &'static Library,
    _turn: MutexGuard<'static, ()>,
}

/// The stand-in; none where it cannot be built, which is said.
pub fn stand_in() -> Result<StandIn, String> {
    static LOADED: OnceLock<Result<Library, String>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let library = LOADED.get_or_init(build).as_ref().map_err(Clone::clone)?;
    let stand_in = StandIn { library, _turn: turn };
    stand_in.call::<extern "C" fn(c_int)>(b"stand_in_devices\0")(DEVICES as c_int);
    stand_in.call::<extern "C" fn()>(b"stand_in_forgive\0")();
    Ok(stand_in)
}

fn build() -> Result<Library, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let library = folder.path().join("libcuda.so.1");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ffi/cuda-sys/stand_in/driver.c");
    let built = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"])
        .args(["-Wl,-soname,libcuda.so.1", "-o"])
        .arg(&library)
        .arg(source)
        .output()
        .map_err(|e| format!("no C compiler: {e}"))?;
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // SAFETY: it is ours, and asks nothing of the process.
    unsafe { Library::open(Some(&library), RTLD_NOW | RTLD_GLOBAL) }.map_err(|e| e.to_string())
}

impl StandIn {
    fn call<F: Copy>(&self, name: &[u8]) -> F {
        // SAFETY: all callers name functions of the type that the source has.
        *unsafe { self.library.get::<F>(name) }.unwrap_or_else(|e| panic!("{e}"))
    }

    /// Holds a stream up, or lets it go on.
    pub fn hold(&self, stream: *mut c_void, held: bool) {
        self.call::<extern "C" fn(*mut c_void, c_int)>(b"stand_in_hold\0")(stream, c_int::from(held));
    }

    /// How many there are.
    pub fn count(&self, device: usize, what: Count) -> i64 {
        self.call::<extern "C" fn(c_int, c_int) -> c_long>(b"stand_in_count\0")(device as c_int, what as c_int)
    }

    /// What went wrong so far, a line for each.
    pub fn wrong(&self) -> String {
        let text = self.call::<extern "C" fn() -> *const c_char>(b"stand_in_wrong\0")();
        // SAFETY: it is a terminated text, which nobody writes while one test has its turn.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// A stream that a caller makes on a device, as a framework does.
    pub fn stream(&self, device: usize) -> *mut c_void {
        self.within(device, || {
            let mut made = std::ptr::null_mut();
            let create = self.call::<extern "C" fn(*mut *mut c_void, u32) -> c_int>(b"cuStreamCreate\0");
            assert_eq!(create(&mut made, 1), 0);
            made
        })
    }

    /// Begins a capture of a caller's stream, in the strictest mode.
    pub fn begin_capture(&self, stream: *mut c_void) {
        let begin = self.call::<extern "C" fn(*mut c_void, c_int) -> c_int>(b"cuStreamBeginCapture_v2\0");
        assert_eq!(begin(stream, 0), 0);
    }

    /// Ends it; the number of what the graph holds.
    pub fn end_capture(&self, stream: *mut c_void) -> usize {
        let (mut graph, mut count) = (std::ptr::null_mut::<c_void>(), 0);
        let end = self.call::<extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int>(b"cuStreamEndCapture\0");
        assert_eq!(end(stream, &mut graph), 0);
        let nodes = self.call::<extern "C" fn(*mut c_void, *mut c_void, *mut usize) -> c_int>(b"cuGraphGetNodes\0");
        assert_eq!(nodes(graph, std::ptr::null_mut(), &mut count), 0);
        count
    }

    /// Does something while the context of a device is current, as `cudaSetDevice` has it.
    pub fn within<T>(&self, device: usize, work: impl FnOnce() -> T) -> T {
        let context = self.call::<extern "C" fn(c_int) -> *mut c_void>(b"stand_in_context\0")(device as c_int);
        let push = self.call::<extern "C" fn(*mut c_void) -> c_int>(b"cuCtxPushCurrent_v2\0");
        let pop = self.call::<extern "C" fn(*mut *mut c_void) -> c_int>(b"cuCtxPopCurrent_v2\0");
        assert_eq!(push(context), 0);
        let done = work();
        let mut popped = std::ptr::null_mut();
        assert_eq!((pop(&mut popped), popped), (0, context));
        done
    }
}
