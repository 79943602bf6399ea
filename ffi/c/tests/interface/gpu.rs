//! Kernels of a GPU, enqueued on streams of a caller: the default one, one that is being captured, and one of another GPU.

#![allow(unsafe_code)]

#[path = "../../../../xtask/src/skipped.rs"]
mod skipped;

use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use crate::support::{WIDTH, bundle_of};
use fusewright_abi::Target;
use fusewright_c::*;
use fusewright_cuda_sys as sys;
use fusewright_runtime::cuda::{DeviceBuffer, Gpu};

const ROWS: usize = 37;

/// The GPU of a number, or none, which is said under the name of the test.
fn gpu(test: &str, ordinal: usize) -> Option<Gpu> {
    let target: Target = "cuda:sm_90".parse().expect("a target");
    Gpu::at(&target, ordinal).map_err(|error| skipped::skipped(test, error)).ok()
}

/// The kernel of the example on a GPU. Where nothing compiles, `FUSEWRIGHT_C_BUNDLE` names the folder of a bundle of it.
fn loaded(ordinal: usize) -> *mut KernelHandle {
    let made = std::env::var_os("FUSEWRIGHT_C_BUNDLE").map_or_else(|| Err(bundle_of(&["cpu", "cuda:sm_90"])), Ok);
    let path = match &made {
        Ok(folder) => Path::new(folder),
        Err(folder) => folder.path(),
    };
    let path = CString::new(path.to_str().expect("UTF-8")).expect("no zero byte");
    let device = CString::new(format!("cuda:{ordinal}")).expect("no zero byte");
    let (mut bundle, mut kernel, mut index) = (null_mut(), null_mut(), 0);
    let mut info = KernelInfo { name: null(), pattern: null(), target: null(), parameters: 0, uses: 0 };
    // SAFETY: texts end, handles are open, places can be written.
    unsafe {
        assert_eq!(fusewright_bundle_open(path.as_ptr(), &mut bundle), Status::Ok);
        assert_eq!(fusewright_bundle_info(bundle, 0, &mut info), Status::Ok);
        assert_eq!(fusewright_bundle_choose(bundle, info.name, device.as_ptr(), &mut index), Status::Ok);
        assert_eq!(fusewright_bundle_info(bundle, index, &mut info), Status::Ok);
        assert_eq!(CStr::from_ptr(info.target).to_str(), Ok("cuda:sm_90"));
        assert_eq!(fusewright_kernel_load_on(bundle, index, ordinal, &mut kernel), Status::Ok);
        fusewright_bundle_close(bundle);
    }
    kernel
}

/// Memory of the example's tensors: two inputs, weights and two results.
struct Tensors {
    stream: fusewright_runtime::cuda::Stream,
    buffers: [DeviceBuffer; 5],
}

impl Tensors {
    fn on(gpu: &Gpu) -> Tensors {
        let stream = gpu.stream().expect("a stream");
        let rows = [ROWS, ROWS, 1, ROWS, ROWS];
        let buffers = rows.map(|rows| gpu.buffer(rows * WIDTH * 4).expect("memory"));
        let tensors = Tensors { stream, buffers };
        tensors.give(1.0);
        let ones: Vec<u8> = (0..ROWS * WIDTH).flat_map(|_| 1f32.to_ne_bytes()).collect();
        tensors.buffers[1].upload(&tensors.stream, &ones).expect("it is copied");
        tensors.buffers[2].upload(&tensors.stream, &ones[..4 * WIDTH]).expect("it is copied");
        tensors
    }

    /// New elements of the first input.
    fn give(&self, step: f32) {
        let x: Vec<u8> = (0..ROWS * WIDTH).flat_map(|i| (i as f32 * step - 17.25).to_ne_bytes()).collect();
        self.buffers[0].upload(&self.stream, &x).expect("it is copied");
    }

    fn enqueue(&self, kernel: *const KernelHandle, stream: *mut c_void) -> Status {
        let (matrix, row) = ([ROWS as i64, WIDTH as i64], [WIDTH as i64]);
        let shapes: [&[i64]; 5] = [&matrix, &matrix, &row, &matrix, &matrix];
        let tensors: Vec<TensorRef> = self
            .buffers
            .iter()
            .zip(shapes)
            .map(|(buffer, shape)| {
                let data = std::ptr::with_exposed_provenance_mut(buffer.address() as usize);
                TensorRef { data, shape: shape.as_ptr(), rank: shape.len() }
            })
            .collect();
        // SAFETY: the kernel is loaded, memory is the device's and lives until the stream is done.
        unsafe { fusewright_kernel_enqueue(kernel, tensors.as_ptr(), tensors.len(), stream) }
    }

    fn assert_sums(&self, step: f32) {
        let mut sums = vec![0; 4 * ROWS * WIDTH];
        self.buffers[3].download(&self.stream, 0, &mut sums).expect("it is copied");
        let expected: Vec<u8> = (0..ROWS * WIDTH).flat_map(|i| (i as f32 * step - 17.25 + 1.0).to_ne_bytes()).collect();
        assert_eq!(sums, expected);
    }
}

/// What a caller has of the driver: streams, graphs and waiting, in the primary context of a device.
struct Caller(sys::Driver);

impl Caller {
    fn new(device: i32) -> Caller {
        let driver = sys::load().expect("there is a GPU");
        let mut context = null_mut();
        // SAFETY: the driver is initialised, and there is such a device.
        unsafe {
            assert_eq!(driver.cuDevicePrimaryCtxRetain(&mut context, device), 0);
            assert_eq!(driver.cuCtxPushCurrent_v2(context), 0);
        }
        Caller(driver)
    }

    fn stream(&self) -> sys::CUstream {
        let mut stream = null_mut();
        // SAFETY: a context is current; the function writes one handle. 1: it does not wait for the default stream.
        assert_eq!(unsafe { self.0.cuStreamCreate(&mut stream, 1) }, 0);
        stream
    }

    fn wait(&self, stream: sys::CUstream) {
        // SAFETY: the stream is alive.
        assert_eq!(unsafe { self.0.cuStreamSynchronize(stream) }, 0);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut popped = null_mut();
        // SAFETY: it was pushed by this thread.
        unsafe { self.0.cuCtxPopCurrent_v2(&mut popped) };
    }
}

#[test]
fn a_kernel_is_enqueued_on_a_stream() {
    let Some(gpu) = gpu("a_kernel_is_enqueued_on_a_stream", 0) else { return };
    let (kernel, tensors) = (loaded(0), Tensors::on(&gpu));
    let caller = Caller::new(0);
    let stream = caller.stream();
    for (stream, step) in [(null_mut(), 1.0), (stream, 2.0)] {
        tensors.give(step);
        assert_eq!(tensors.enqueue(kernel, stream.cast()), Status::Ok);
        caller.wait(stream);
        tensors.assert_sums(step);
    }
    // SAFETY: nothing runs, and no handle is used again.
    unsafe {
        caller.0.cuStreamDestroy_v2(stream);
        // The stream that it was used on is gone.
        fusewright_kernel_close(kernel);
    }
}

#[test]
fn a_launch_becomes_part_of_a_graph_of_the_caller() {
    let Some(gpu) = gpu("a_launch_becomes_part_of_a_graph_of_the_caller", 0) else { return };
    let (kernel, tensors) = (loaded(0), Tensors::on(&gpu));
    let caller = Caller::new(0);
    let stream = caller.stream();
    let (mut graph, mut executable) = (null_mut(), null_mut());
    // SAFETY: the stream is alive; functions write what they make. 1: what could break a capture is an error in
    // this thread; other tests go on in theirs.
    unsafe {
        assert_eq!(caller.0.cuStreamBeginCapture_v2(stream, 1), 0);
        let enqueued = tensors.enqueue(kernel, stream.cast());
        assert_eq!(caller.0.cuStreamEndCapture(stream, &mut graph), 0);
        assert_eq!(enqueued, Status::Ok);
        assert_eq!(caller.0.cuGraphInstantiateWithFlags(&mut executable, graph, 0), 0);
        // The code stays for the graph.
        fusewright_kernel_close(kernel);
    }
    for step in [1.0, 2.0, 0.5] {
        tensors.give(step);
        // SAFETY: both are alive.
        assert_eq!(unsafe { caller.0.cuGraphLaunch(executable, stream) }, 0);
        caller.wait(stream);
        tensors.assert_sums(step);
    }
}

#[test]
fn a_kernel_is_loaded_for_another_gpu() {
    const TEST: &str = "a_kernel_is_loaded_for_another_gpu";
    let Some(first) = gpu(TEST, 0) else { return };
    let Some(second) = gpu(TEST, 1) else { return };
    // The first GPU is current all the time.
    let caller = Caller::new(0);
    for gpu in [&second, &first] {
        let (kernel, tensors) = (loaded(gpu.ordinal()), Tensors::on(gpu));
        assert_eq!(tensors.enqueue(kernel, null_mut()), Status::Ok);
        let theirs = Caller::new(gpu.ordinal() as i32);
        theirs.wait(null_mut());
        tensors.assert_sums(1.0);
        drop(theirs);
        // SAFETY: nothing runs, and the handle is not used again.
        unsafe { fusewright_kernel_close(kernel) };
    }
    let (kernel, tensors) = (loaded(1), Tensors::on(&second));
    assert_eq!(tensors.enqueue(kernel, caller.stream().cast()), Status::Argument);
    // SAFETY: the text is the thread's.
    let said = unsafe { CStr::from_ptr(fusewright_last_error()) }.to_string_lossy().into_owned();
    assert!(said.contains("the stream is not of cuda:1"), "{said}");
}
