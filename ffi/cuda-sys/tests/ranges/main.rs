//! Launches on a GPU as a profiler sees them: by a library that attaches as NVIDIA's do, on a stand-in of the driver. A
//! process has one profiler, so that this is a process of its own.
#![allow(unsafe_code)]

#[path = "../../stand_in/load.rs"]
mod load;
#[path = "../../../../xtask/src/skipped.rs"]
mod skipped;

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;

use fusewright_abi::{
    ContentKey, Count, DType, DimArg, DimSource, KernelArtifact, LaunchRule, Param, ParamAccess, Payload, PayloadKind,
    RowOrder,
};
use fusewright_runtime::cuda::{DeviceArg, Gpu, LaunchOptions};
use fusewright_runtime::trace;
use libloading::Library;

/// A kernel that adds one to every word; a row is a word.
fn artifact(name: &str) -> KernelArtifact {
    let param = |name: &str, access| Param {
        name: name.to_owned(),
        dtype: DType::I32,
        access,
        rank: 1,
        elements: Count::Dim(0),
        alias: (access == ParamAccess::Out).then_some(0),
        early: false,
    };
    KernelArtifact {
        name: name.to_owned(),
        target: "cuda:sm_80".parse().expect("a target"),
        key: ContentKey([0; 32]),
        params: vec![param("x", ParamAccess::In), param("y", ParamAccess::Out)],
        dims: vec![DimArg { name: "s".to_owned(), source: DimSource::Extent { param: 0, axis: 0 } }],
        claims: Vec::new(),
        launch: LaunchRule {
            rows: Count::Dim(0),
            order: RowOrder::Any,
            blocks_per_row: Count::Constant(1),
            shares: 1,
            many: None,
            threads: 1,
            shared: Count::Constant(0),
            alignment: 16,
            tables: 0,
            dependent: false,
        },
        payload: Payload { kind: PayloadKind::Ptx, bytes: b".version".to_vec() },
    }
}

/// The library of a profiler, built by the machine's C compiler.
fn profiler(folder: &Path) -> Result<PathBuf, String> {
    let library = folder.join("libprofiler.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ranges/profiler.c");
    let built = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"])
        .arg("-o")
        .arg(&library)
        .arg(source)
        .output()
        .map_err(|e| format!("no C compiler: {e}"))?;
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(library)
}

/// Gives the calls that a profiler got so far.
fn told(library: &Path) -> String {
    // SAFETY: it is loaded already.
    let library = unsafe { Library::new(library) }.expect("it was loaded before");
    // SAFETY: the function has this type.
    let told = unsafe { library.get::<unsafe extern "C" fn() -> *const c_char>(b"profiler_told\0") };
    // SAFETY: the text is terminated, and no other thread has ranges.
    unsafe { CStr::from_ptr(told.expect("it has the function")()) }.to_string_lossy().into_owned()
}

#[test]
fn a_profiler_sees_each_launch_under_the_name_of_its_kernel() {
    const TEST: &str = "a_profiler_sees_each_launch_under_the_name_of_its_kernel";
    let folder = tempfile::tempdir().expect("a folder");
    let library = match profiler(folder.path()) {
        Ok(library) => library,
        Err(why) => return skipped::skipped(TEST, why),
    };
    let driver = match load::stand_in() {
        Ok(driver) => driver,
        Err(why) => return skipped::skipped(TEST, why),
    };
    assert!(trace::range(|| unreachable!("no name is made for nobody")).is_none());
    let target = "cuda:sm_80".parse().expect("a target");
    let gpu = Gpu::at(&target, 0).unwrap_or_else(|e| panic!("{e}"));
    let stream = gpu.stream().expect("a stream");
    let [x, y] = [64, 64].map(|bytes| gpu.buffer(bytes).expect("memory"));
    let args = [DeviceArg::In(&x), DeviceArg::Out(&y)];
    let launch = |name: &str| {
        let kernel = gpu.load(&artifact(name)).expect("it loads");
        kernel.enqueue(&stream, &args, (&[16], 16), LaunchOptions::default()).expect("it is launched");
        kernel
            .prepare(&args, &[16], 16, LaunchOptions::default())
            .expect("it fits")
            .enqueue(&stream)
            .expect("launched");
    };
    launch("unseen");
    assert_eq!(trace::attach(&library), Ok(()));
    assert_eq!(told(&library), "", "nothing of what was before");
    {
        let _compiling = trace::range(|| "compile kernel add_one".to_owned());
        launch("add_one");
    }
    assert_eq!(told(&library), "+compile kernel add_one\n+add_one\n-\n+add_one\n-\n-\n");
    assert_eq!(driver.wrong(), "");
    // Another library changes nothing: a process has one profiler.
    assert_eq!(trace::attach(&folder.path().join("other.so")), Ok(()));
}
