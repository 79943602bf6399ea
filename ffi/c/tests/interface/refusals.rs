//! What does not fit is refused with a status and a text, and the caller's memory is left alone.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

use crate::support::{WIDTH, bundle_of};
use fusewright_c::*;

fn said() -> String {
    // SAFETY: the text is the library's until the next call, and ends with a zero byte.
    unsafe { CStr::from_ptr(fusewright_last_error()) }.to_str().expect("UTF-8").to_owned()
}

/// Expects a refusal whose text holds all of these.
fn refused(status: Status, as_: Status, parts: &[&str]) {
    let said = said();
    assert_eq!(status, as_, "{said}");
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
}

struct Opened {
    bundle: *mut BundleHandle,
    kernel: *mut KernelHandle,
    _folder: tempfile::TempDir,
}

impl Opened {
    fn new() -> Opened {
        let folder = bundle_of(&["cpu"]);
        let path = CString::new(folder.path().to_str().expect("UTF-8")).expect("no zero byte");
        let (mut bundle, mut kernel) = (null_mut(), null_mut());
        // SAFETY: texts end, and places can be written.
        unsafe {
            assert_eq!(fusewright_bundle_open(path.as_ptr(), &mut bundle), Status::Ok, "{}", said());
            assert_eq!(fusewright_kernel_load(bundle, 0, &mut kernel), Status::Ok, "{}", said());
        }
        Opened { bundle, kernel, _folder: folder }
    }

    fn launch(&self, tensors: &[TensorRef]) -> Status {
        // SAFETY: tensors that are not refused lie in memory of the tests that is as large as their shapes.
        unsafe { fusewright_kernel_launch(self.kernel, tensors.as_ptr(), tensors.len(), 1) }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the handles are of `new`, and go with this.
        unsafe {
            fusewright_kernel_close(self.kernel);
            fusewright_bundle_close(self.bundle);
        }
    }
}

fn tensor(data: &mut [f32], shape: &[i64]) -> TensorRef {
    TensorRef { data: data.as_mut_ptr().cast(), shape: shape.as_ptr(), rank: shape.len() }
}

#[test]
fn handles_and_places_may_not_be_null() {
    let name = c"x".as_ptr();
    let (mut index, mut bundle, mut kernel) = (0usize, null_mut(), null_mut());
    // SAFETY: what is null is refused.
    unsafe {
        refused(fusewright_bundle_open(null(), &mut bundle), Status::Argument, &["`folder` is null"]);
        refused(fusewright_bundle_open(name, null_mut()), Status::Argument, &["`bundle` is null"]);
        refused(fusewright_bundle_count(null(), &mut index), Status::Argument, &["`bundle` is null"]);
        refused(fusewright_bundle_find(null(), name, name, &mut index), Status::Argument, &["`bundle` is null"]);
        refused(fusewright_kernel_load(null(), 0, &mut kernel), Status::Argument, &["`bundle` is null"]);
        refused(fusewright_kernel_launch(null(), null(), 0, 1), Status::Argument, &["`kernel` is null"]);
        refused(fusewright_kernel_enqueue(null(), null(), 0, null_mut()), Status::Argument, &["`kernel` is null"]);
        fusewright_bundle_close(null_mut());
        fusewright_kernel_close(null_mut());
    }
    let not_text: &[c_char] = &[-1, 0];
    // SAFETY: it ends with a zero byte.
    let status = unsafe { fusewright_bundle_open(not_text.as_ptr(), &mut bundle) };
    refused(status, Status::Argument, &["`folder` is not UTF-8"]);
}

#[test]
fn what_is_not_in_a_bundle_is_named() {
    let opened = Opened::new();
    let (mut index, mut kernel) = (7usize, null_mut());
    let mut info = KernelInfo { name: null(), pattern: null(), target: null(), parameters: 0, uses: 0 };
    // SAFETY: the bundle is open, texts end, places can be written.
    unsafe {
        refused(
            fusewright_bundle_find(opened.bundle, c"norm".as_ptr(), c"cpu".as_ptr(), &mut index),
            Status::Argument,
            &["`norm`", "cpu"],
        );
        refused(
            fusewright_bundle_choose(opened.bundle, c"norm".as_ptr(), c"cpu".as_ptr(), &mut index),
            Status::Argument,
            &["`norm`"],
        );
        let mut value = null();
        refused(fusewright_bundle_value(opened.bundle, 0, 1, 0, &mut value), Status::Argument, &["1 uses of 5"]);
        refused(fusewright_bundle_value(opened.bundle, 0, 0, 5, &mut value), Status::Argument, &["no parameter 5"]);
        assert!(value.is_null());
        refused(fusewright_kernel_load(opened.bundle, 5, &mut kernel), Status::Argument, &["no kernel 5"]);
        assert_eq!(fusewright_bundle_info(opened.bundle, 0, &mut info), Status::Ok);
        assert_eq!(fusewright_bundle_choose(opened.bundle, info.name, c"cpu".as_ptr(), &mut index), Status::Ok);
        assert_eq!((index, said().as_str()), (0, ""));
        refused(
            fusewright_bundle_choose(opened.bundle, info.name, c"cuda".as_ptr(), &mut index),
            Status::Argument,
            &["no `cuda`", "which is there for cpu"],
        );
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused_before_anything_is_written() {
    let opened = Opened::new();
    let (two, three, row) = ([2, WIDTH as i64], [3, WIDTH as i64], [WIDTH as i64]);
    let fresh = || vec![1.0f32; 3 * WIDTH];
    let (mut x, mut r, mut w, mut y, mut h) = (fresh(), fresh(), fresh(), fresh(), fresh());
    let right =
        [tensor(&mut x, &two), tensor(&mut r, &two), tensor(&mut w, &row), tensor(&mut h, &two), tensor(&mut y, &two)];
    let with = |at: usize, other: TensorRef| {
        let mut tensors = right;
        tensors[at] = other;
        opened.launch(&tensors)
    };
    refused(opened.launch(&right[..4]), Status::Argument, &["4 tensors", "5"]);
    refused(with(1, TensorRef { shape: three.as_ptr(), ..right[1] }), Status::Argument, &["`x1`", "expected 2"]);
    refused(with(0, TensorRef { rank: 1, ..right[0] }), Status::Argument, &["`x0`", "1 axes"]);
    refused(with(3, TensorRef { shape: null(), ..right[3] }), Status::Argument, &["shape of `out0`"]);
    refused(with(2, TensorRef { data: null_mut(), ..right[2] }), Status::Argument, &["memory of `x2`"]);
    refused(with(2, TensorRef { shape: [95].as_ptr(), ..right[2] }), Status::Argument, &["`x2`", "expected 96"]);
    let swapped = [WIDTH as i64, 2];
    refused(with(0, TensorRef { shape: swapped.as_ptr(), ..right[0] }), Status::Argument, &["`x0`", "expected 96"]);
    for wrong in [[-1, WIDTH as i64], [i64::MAX, WIDTH as i64]] {
        refused(with(0, TensorRef { shape: wrong.as_ptr(), ..right[0] }), Status::Argument, &["`x0`"]);
    }
    refused(with(3, TensorRef { data: right[4].data, ..right[3] }), Status::Argument, &["`out0`", "`out1`"]);
    let inside = right[0].data.cast::<u8>().wrapping_add(4).cast::<c_void>();
    refused(with(4, TensorRef { data: inside, ..right[4] }), Status::Argument, &["`out1` is written where `x0` lies"]);
    // SAFETY: the kernel is loaded, the tensors are right; it is not of a device with streams.
    let status = unsafe { fusewright_kernel_enqueue(opened.kernel, right.as_ptr(), right.len(), null_mut()) };
    refused(status, Status::Argument, &["no streams"]);
    assert!(y.iter().chain(&h).all(|value| *value == 1.0));
    let _ = (&mut x, &mut r, &mut w);
    assert_eq!(opened.launch(&right), Status::Ok, "{}", said());
    assert!(h[..2 * WIDTH].iter().all(|value| *value == 2.0) && h[2 * WIDTH..].iter().all(|value| *value == 1.0));
}

#[test]
fn a_failure_is_of_its_thread_alone() {
    // SAFETY: what is null is refused.
    unsafe { fusewright_bundle_count(null(), null_mut()) };
    assert!(!said().is_empty());
    std::thread::spawn(|| assert!(said().is_empty())).join().expect("it ends well");
}
