//! Kernels of one program by few runs of the compiler: the same as one by one, and one that is refused alone is.
//!
//! The test builds a model of its own, and a process has one: of two libraries the loader takes the state of the first.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "model/support/mod.rs"]
mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fusewright_ascend_model::{ARGUMENTS_HEADER, Argument, Entry, Error, Model, Options, Source, described};
use support::{A2, f32_bytes, from_f32, values};

/// A kernel that adds a number to 64 elements.
fn adding(name: &str, number: f32) -> String {
    let body = format!(
        "Frame<float> f(xs, ys); f.Through(64, [](auto to, auto from) {{ Adds(to, from, {number:?}f, 64); }});\n"
    );
    let described = described(name);
    format!("extern \"C\" __global__ __vector__ void {name}(GM_ADDR xs, GM_ADDR ys)\n{{\n{body}}}\n{described}")
}

/// A compiler that notes what it is called with, and the model that it builds.
fn noting(folder: &Path) -> Option<Model> {
    support::model()?;
    let real = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let (script, notes) = (folder.join("compiler"), folder.join("notes"));
    let text = format!("#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{}'\nexec {real} \"$@\"\n", notes.display());
    std::fs::write(&script, text).expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    Some(
        Model::build_with(&folder.join("model"), script.as_os_str(), std::process::Command::output)
            .unwrap_or_else(|e| panic!("{e}")),
    )
}

#[test]
fn many_are_compiled_at_once_and_one_that_is_refused_alone_is() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let Some(model) = noting(folder.path()) else { return };
    let notes = || std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
    // Runs of the compiler on kernels, of which a link is none.
    let runs = || notes().lines().filter(|line| line.contains("unit.cpp")).count();
    let frame = support::read("ascend-model/tests/model/support/frame.h");
    let headers = [Source { name: "frame.h", text: &frame }, ARGUMENTS_HEADER];
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let count = 2 * processors;
    let plain = |name: &str| adding(name, 0.5);
    let other = |name: &str| adding(name, 7.0);
    let names: Vec<String> = (0..count).map(|i| format!("add{i}")).collect();
    let entry = |name, text| Entry { name, file: "k.cpp", text };
    let mut entries: Vec<Entry<'_>> = names.iter().map(|name| entry(name, &plain)).collect();
    // Others of names that are there already.
    entries.extend([entry("add0", &other), entry("add0", &plain)]);
    let alone = |entry: &Entry<'_>| {
        let text = (entry.text)(entry.name);
        model.compile(&[Source { name: entry.file, text: &text }], &headers, A2)
    };
    model.compile_each(&entries, &headers, A2).unwrap_or_else(|e| panic!("{e}"));
    assert!(runs() <= processors, "{} runs:\n{}", runs(), notes());
    let before = runs();
    let x = values(3, 512);
    for (i, entry) in entries.iter().enumerate() {
        let object = alone(entry).unwrap_or_else(|e| panic!("{e}"));
        let kernels = model.load(&object).unwrap_or_else(|e| panic!("{e}"));
        let kernel = kernels.kernel(entry.name).unwrap_or_else(|e| panic!("{e}"));
        let mut y = vec![0; 2048];
        let arguments = &mut [Argument::In(&f32_bytes(&x)), Argument::InOut(&mut y)];
        kernel.launch(1, arguments, &[], &Options::default()).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
        let number = if i == count { 7.0 } else { 0.5 };
        assert_eq!(from_f32(&y)[..64], x[..64].iter().map(|x| x + number).collect::<Vec<f32>>(), "{}", entry.name);
        // What is another kernel's is not in the object.
        assert!(kernels.kernel("add1").is_ok() == (entry.name == "add1"));
    }
    assert_eq!(runs(), before, "nothing is compiled again");
    // A unit with a kernel that the compiler refuses.
    let bad = |name: &str| adding(name, 1.0).replace("Adds", "AddsNothing");
    let good = |name: &str| adding(name, 1.0);
    let pair = [entry("good", &good), entry("bad", &bad)];
    // Both are in one unit if there are as many others as there are processors.
    let more: Vec<Entry<'_>> = pair.into_iter().chain(names.iter().map(|name| entry(name, &good))).collect();
    assert!(matches!(model.compile_each(&more, &headers, A2), Err(Error::Compile { .. })));
    alone(&pair[0]).unwrap_or_else(|e| panic!("the good one: {e}"));
    let Err(Error::Compile { output, .. }) = alone(&pair[1]) else { panic!("the bad one compiles") };
    assert!(output.contains("AddsNothing"), "{output}");
}
