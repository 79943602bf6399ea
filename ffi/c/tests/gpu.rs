//! Kernels of a GPU, enqueued on a stream.

#![allow(unsafe_code)]

mod support;

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

use fusewright_abi::Target;
use fusewright_c::*;
use fusewright_runtime::cuda::Gpu;
use support::{WIDTH, bundle_of};

const ROWS: usize = 37;

#[test]
fn a_kernel_is_enqueued_on_a_stream() {
    let target: Target = "cuda:sm_90".parse().expect("a target");
    let gpu = match Gpu::of(&target) {
        Ok(gpu) => gpu,
        Err(e) => return eprintln!("skipped: cuda ({e})"),
    };
    let folder = bundle_of(&["cpu", "cuda:sm_90"]);
    let path = CString::new(folder.path().to_str().expect("UTF-8")).expect("no zero byte");
    let (mut bundle, mut kernel, mut index) = (null_mut(), null_mut(), 0);
    let mut info = KernelInfo { name: null(), pattern: null(), target: null(), parameters: 0, uses: 0 };
    // SAFETY: texts end, handles are open, places can be written.
    unsafe {
        assert_eq!(fusewright_bundle_open(path.as_ptr(), &mut bundle), Status::Ok);
        assert_eq!(fusewright_bundle_info(bundle, 0, &mut info), Status::Ok);
        assert_eq!(fusewright_bundle_choose(bundle, info.name, c"cuda".as_ptr(), &mut index), Status::Ok);
        assert_eq!(fusewright_bundle_info(bundle, index, &mut info), Status::Ok);
        assert_eq!(CStr::from_ptr(info.target).to_str(), Ok("cuda:sm_90"));
        assert_eq!(fusewright_kernel_load(bundle, index, &mut kernel), Status::Ok);
    }
    // SAFETY: null is the default stream.
    let stream = unsafe { gpu.adopt_stream(null_mut()) };
    let bytes = [ROWS, ROWS, 1, ROWS, ROWS].map(|rows| rows * WIDTH * 4);
    let buffers = bytes.map(|bytes| gpu.buffer(bytes).expect("memory"));
    let x: Vec<u8> = (0..ROWS * WIDTH).flat_map(|i| (i as f32 - 17.25).to_ne_bytes()).collect();
    let ones: Vec<u8> = (0..ROWS * WIDTH).flat_map(|_| 1f32.to_ne_bytes()).collect();
    buffers[0].upload(&stream, &x).expect("it is copied");
    buffers[1].upload(&stream, &ones).expect("it is copied");
    buffers[2].upload(&stream, &ones[..4 * WIDTH]).expect("it is copied");
    let (matrix, row) = ([ROWS as i64, WIDTH as i64], [WIDTH as i64]);
    let shapes: [&[i64]; 5] = [&matrix, &matrix, &row, &matrix, &matrix];
    let tensors: Vec<TensorRef> = buffers
        .iter()
        .zip(shapes)
        .map(|(buffer, shape)| {
            let data = std::ptr::with_exposed_provenance_mut(buffer.address() as usize);
            TensorRef { data, shape: shape.as_ptr(), rank: shape.len() }
        })
        .collect();
    // SAFETY: the kernel is loaded, memory is the device's and lives until the stream is done; null is the default stream.
    let status = unsafe { fusewright_kernel_enqueue(kernel, tensors.as_ptr(), tensors.len(), null_mut()) };
    assert_eq!(status, Status::Ok);
    let mut sums = vec![0; 4 * ROWS * WIDTH];
    buffers[3].download(&stream, 0, &mut sums).expect("it is copied");
    stream.wait().expect("it is done");
    let expected: Vec<u8> = (0..ROWS * WIDTH).flat_map(|i| (i as f32 - 17.25 + 1.0).to_ne_bytes()).collect();
    assert_eq!(sums, expected);
    // SAFETY: nothing runs, and no handle is used again.
    unsafe {
        fusewright_kernel_close(kernel);
        fusewright_bundle_close(bundle);
    }
}
