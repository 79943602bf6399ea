//! What `compile --target ascend` writes beside the kernels: a program that launches them, type-checked and run by the host's
//! compiler against declarations of ACL that stand here, and build files that name every source.
#![cfg(all(feature = "ascend", unix))]

use std::path::Path;
use std::process::{Command, Output};

use fusewright::aot::write_bundle;
use fusewright::diff::options;
use fusewright::graph::Graph;
use fusewright::{DType, HostTensor, Target, compile};
use fusewright_ascend_model::{ARGUMENTS_HEADER, Chip, Device, Model, Source, Version, described};
use fusewright_codegen::backend::ascend::{CHIPS, HEADERS};
use serde_json::Value;
use xtask::skipped::skipped;

const MODEL: &str = "graph @m(s: 0..; %x: bf16[s, 256], %r: bf16[s, 256], %w: bf16[256], %g: f32[s, 2, 64]) {
  %h = add %x, %r
  %y = rms_norm %h, %w {eps = 1e-6, round = before_weight}
  %e = exp %g
  return %y, %h updates %r, %e
}
";

/// ACL as documented, as far as the program uses it.
const DECLARED: &str = r#"#pragma once
#include <cstddef>
#include <cstdint>
extern "C" {
typedef int aclError;
static const aclError ACL_SUCCESS = 0;
typedef void* aclrtStream;
typedef void* aclrtEvent;
typedef void* aclrtBinHandle;
typedef void* aclrtFuncHandle;
typedef void* aclrtArgsHandle;
typedef void* aclrtParamHandle;
struct aclrtBinaryLoadOptions;
struct aclrtLaunchKernelCfg;
enum aclrtMemMallocPolicy { ACL_MEM_MALLOC_HUGE_FIRST };
enum aclrtMemcpyKind { ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST };
static const uint32_t ACL_STREAM_FAST_LAUNCH = 1, ACL_STREAM_FAST_SYNC = 2, ACL_EVENT_TIME_LINE = 8;
aclError aclInit(const char*);
aclError aclFinalize();
const char* aclGetRecentErrMsg();
aclError aclrtSetDevice(int32_t);
aclError aclrtResetDevice(int32_t);
aclError aclrtCreateStreamWithConfig(aclrtStream*, uint32_t, uint32_t);
aclError aclrtDestroyStream(aclrtStream);
aclError aclrtSynchronizeStream(aclrtStream);
aclError aclrtCreateEventWithFlag(aclrtEvent*, uint32_t);
aclError aclrtDestroyEvent(aclrtEvent);
aclError aclrtRecordEvent(aclrtEvent, aclrtStream);
aclError aclrtEventElapsedTime(float*, aclrtEvent, aclrtEvent);
aclError aclrtMalloc(void**, size_t, aclrtMemMallocPolicy);
aclError aclrtFree(void*);
aclError aclrtMemcpy(void*, size_t, const void*, size_t, aclrtMemcpyKind);
aclError aclrtBinaryLoadFromFile(const char*, aclrtBinaryLoadOptions*, aclrtBinHandle*);
aclError aclrtBinaryUnLoad(aclrtBinHandle);
aclError aclrtBinaryGetFunction(aclrtBinHandle, const char*, aclrtFuncHandle*);
aclError aclrtKernelArgsInit(aclrtFuncHandle, aclrtArgsHandle*);
aclError aclrtKernelArgsAppend(aclrtArgsHandle, void*, size_t, aclrtParamHandle*);
aclError aclrtKernelArgsFinalize(aclrtArgsHandle);
aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle, uint32_t, aclrtStream, aclrtLaunchKernelCfg*, aclrtArgsHandle, void*);
}
"#;

/// A library of these functions: memory is the host's, and a launch says what it is given.
const SAYING: &str = r#"#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include "acl/acl.h"
struct Words { std::string function; std::vector<uint64_t> words; bool done = false; };
aclError aclInit(const char*) { return 0; }
aclError aclFinalize() { return 0; }
const char* aclGetRecentErrMsg() { return "said by the stand-in"; }
aclError aclrtSetDevice(int32_t) { return 0; }
aclError aclrtResetDevice(int32_t) { return 0; }
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) { *stream = stream; return 0; }
aclError aclrtDestroyStream(aclrtStream) { return 0; }
aclError aclrtSynchronizeStream(aclrtStream) { return 0; }
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { *event = event; return 0; }
aclError aclrtDestroyEvent(aclrtEvent) { return 0; }
aclError aclrtRecordEvent(aclrtEvent, aclrtStream) { return 0; }
aclError aclrtEventElapsedTime(float* ms, aclrtEvent, aclrtEvent) { *ms = 1; return 0; }
aclError aclrtMalloc(void** at, size_t bytes, aclrtMemMallocPolicy) { std::printf("malloc %zu\n", bytes); *at = std::calloc(bytes, 1); return 0; }
aclError aclrtFree(void* at) { std::free(at); return 0; }
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t count, aclrtMemcpyKind) { if (count > room) return 7; std::memcpy(to, from, count); return 0; }
aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions*, aclrtBinHandle* binary) { *binary = const_cast<char*>(path); return std::strcmp(path, "missing.o") == 0 ? 9 : 0; }
aclError aclrtBinaryUnLoad(aclrtBinHandle) { return 0; }
aclError aclrtBinaryGetFunction(aclrtBinHandle, const char* name, aclrtFuncHandle* function) { auto* words = new Words; words->function = name; *function = words; return 0; }
aclError aclrtKernelArgsInit(aclrtFuncHandle function, aclrtArgsHandle* args) { *args = function; return 0; }
aclError aclrtKernelArgsAppend(aclrtArgsHandle args, void* value, size_t size, aclrtParamHandle*) { uint64_t word; if (size != sizeof(word)) return 5; std::memcpy(&word, value, size); static_cast<Words*>(args)->words.push_back(word); return 0; }
aclError aclrtKernelArgsFinalize(aclrtArgsHandle args) { static_cast<Words*>(args)->done = true; return 0; }
aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle, uint32_t blocks, aclrtStream, aclrtLaunchKernelCfg*, aclrtArgsHandle args, void*) {
    auto& w = *static_cast<Words*>(args);
    if (!w.done) return 6;
    std::printf("launch %s on %u of %zu words:", w.function.c_str(), blocks, w.words.size());
    for (size_t i = 0; i < w.words.size(); ++i) {
        size_t first = 0;
        while (w.words[first] != w.words[i]) ++first;
        if (w.words[i] > 1u << 20) std::printf(" @%zu", first); else std::printf(" %llu", (unsigned long long)w.words[i]);
    }
    std::printf("\n");
    return 0;
}
"#;

/// The folder of a bundle for a chip.
fn bundle(folder: &Path, target: &str) -> std::path::PathBuf {
    let graph: Graph = MODEL.parse().unwrap_or_else(|e| panic!("{e}"));
    write_bundle(&graph, &[target.parse().expect("a target")], folder, &options()).unwrap_or_else(|e| panic!("{e}"));
    folder.join(target.replace(':', "-"))
}

/// Compiles `main.cpp` of a project against the declarations.
fn compiler(project: &Path, acl: &Path, more: &[&str]) -> Output {
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror"]).arg("-I").arg(acl).current_dir(project);
    command.arg("main.cpp").args(more).output().expect("there is a compiler of C++")
}

/// A folder with the declarations, and the library that says what it is given as `saying.cpp`.
fn acl(folder: &Path) -> std::path::PathBuf {
    let include = folder.join("include");
    std::fs::create_dir_all(include.join("acl")).expect("a folder");
    std::fs::write(include.join("acl/acl.h"), DECLARED).expect("a file");
    std::fs::write(include.join("saying.cpp"), SAYING).expect("a file");
    include
}

/// Whether there is a compiler of C++; if not, the test is said to be skipped.
fn has_compiler(test: &str) -> bool {
    let there = Command::new("c++").arg("--version").output().is_ok();
    if !there {
        skipped(test, "no compiler of C++ is called c++");
    }
    there
}

#[test]
fn the_program_passes_every_argument_in_its_place() {
    if !has_compiler("the_program_passes_every_argument_in_its_place") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let project = bundle(folder.path(), "ascend:910b1");
    let include = acl(folder.path());
    for route in [&["-fsyntax-only"][..], &["-fsyntax-only", "-DFUSEWRIGHT_ASC"]] {
        let checked = compiler(&project, &include, route);
        assert!(checked.status.success(), "{route:?}: {}", String::from_utf8_lossy(&checked.stderr));
    }
    let saying = include.join("saying.cpp").display().to_string();
    let built = compiler(&project, &include, &[&saying, "-o", "launch"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let launch =
        |words: &[&str]| Command::new("./launch").args(words).current_dir(&project).output().expect("it starts");
    let listed = String::from_utf8(launch(&[]).stdout).expect("text");
    let norm = listed.lines().find(|line| line.starts_with("add_rms_norm")).expect("it lists the norm");
    let kernel = norm.split(' ').next().expect("a name");
    let ran = launch(&[kernel, "s=5", "--out", "out0=sum.bin"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8(ran.stdout).expect("text");
    let tiling: Value =
        serde_json::from_slice(&std::fs::read(project.join("tiling.json")).expect("it is there")).expect("JSON");
    let of_kernel =
        tiling["kernels"].as_array().expect("a list").iter().find(|k| k["entry"] == kernel).expect("it is listed");
    // What the table says of each argument is what the launch is given.
    let arguments = of_kernel["arguments"].as_array().expect("a list");
    let word = |(at, argument): (usize, &Value)| match argument["is"].as_str().expect("a word") {
        "buffer" => format!("@{}", argument["alias"].as_u64().map_or(at, |alias| alias as usize)),
        "integer" | "row_end" => "5".to_owned(),
        "row_begin" => "0".to_owned(),
        other => panic!("{other}"),
    };
    let words: Vec<String> = arguments.iter().enumerate().map(word).collect();
    let expected = format!("launch {kernel} on 5 of {} words: {}", words.len(), words.join(" "));
    assert!(said.lines().any(|line| line == expected), "{expected}\n{said}");
    // Buffers have the bytes of their shapes: five rows, and the weight.
    let sizes: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("malloc ")).collect();
    assert_eq!(sizes, ["2560", "2560", "512", "2560"], "{said}");
    assert_eq!(std::fs::metadata(project.join("sum.bin")).expect("it was written").len(), 2560);
    for (words, message) in [
        (&[kernel][..], "s=VALUE"),
        (&["nothing"], "no kernel `nothing`"),
        (
            &[kernel, "s=1", "--kernels", "missing.o"],
            "aclrtBinaryLoadFromFile of missing.o failed with status 9: said by the stand-in",
        ),
        (&[kernel, "s=2", "--in", "x0=launch"], "expected 1024"),
    ] {
        let failed = launch(words);
        let error = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(failed.status.code() == Some(1) && error.contains(message), "{words:?}: {error}");
    }
}

#[test]
fn a_project_names_its_chip_and_every_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    for (target, arch, soc) in [("ascend:910b3", "dav-2201", "Ascend910B3"), ("ascend:950", "dav-3510", "Ascend950")] {
        let project = bundle(&folder.path().join(target.replace(':', "_")), target);
        let read = |name: &str| std::fs::read_to_string(project.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (build, page) = (read("CMakeLists.txt"), read("README.md"));
        assert!(build.contains(&format!("\"{arch}\"")) && build.contains(&format!("\"{soc}\"")), "{build}");
        let files = std::fs::read_dir(&project).expect("a folder").flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let kernels: Vec<String> = names.filter_map(|name| name.strip_suffix(".asc").map(str::to_owned)).collect();
        assert_eq!(kernels.len(), 2);
        for kernel in &kernels {
            assert!(
                build.lines().any(|line| line.trim() == kernel) && page.contains(&format!("| `{kernel}` |")),
                "{kernel}"
            );
            let launcher = read(&format!("{kernel}.asc"));
            assert!(
                launcher.contains(&format!("#include \"{kernel}.cpp\"")) && launcher.contains(&format!("{kernel}<<<"))
            );
            assert!(read(&format!("{kernel}.cpp")).contains("KERNEL_TASK_TYPE_DEFAULT"), "its type is stated");
        }
        // Nothing that was not done is claimed.
        assert!(page.contains("never compiled\nby bisheng and never run on an NPU"), "{page}");
    }
}

/// Files of a folder like a toolkit, as far as a build is configured by it: what `ascendc.cmake` gives, the language ASC.
const TOOLKIT: [(&str, &str); 7] = [
    (
        "compiler/tikcpp/ascendc_kernel_cmake/ascendc.cmake",
        "function(ascendc_fatbin_library name)\n  message(STATUS \"fatbin ${name} of ${ARGN} for ${SOC_VERSION} ${RUN_MODE}\")\nendfunction()\n",
    ),
    ("lib64/cmake/ASC/ASCConfig.cmake", "list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})\n"),
    (
        "lib64/cmake/ASC/CMakeDetermineASCCompiler.cmake",
        "set(CMAKE_ASC_COMPILER ${CMAKE_COMMAND})\nset(CMAKE_ASC_COMPILER_ENV_VAR ASCCXX)\nconfigure_file(${CMAKE_CURRENT_LIST_DIR}/CMakeASCCompiler.cmake.in ${CMAKE_PLATFORM_INFO_DIR}/CMakeASCCompiler.cmake @ONLY)\n",
    ),
    (
        "lib64/cmake/ASC/CMakeASCCompiler.cmake.in",
        "set(CMAKE_ASC_COMPILER \"@CMAKE_ASC_COMPILER@\")\nset(CMAKE_ASC_COMPILER_LOADED 1)\nset(CMAKE_ASC_COMPILER_ENV_VAR ASCCXX)\nset(CMAKE_ASC_SOURCE_FILE_EXTENSIONS asc)\nset(CMAKE_ASC_OUTPUT_EXTENSION .o)\n",
    ),
    (
        "lib64/cmake/ASC/CMakeASCInformation.cmake",
        "set(CMAKE_ASC_COMPILE_OBJECT \"<CMAKE_ASC_COMPILER> <FLAGS> <SOURCE>\")\nset(CMAKE_ASC_LINK_EXECUTABLE \"<CMAKE_ASC_COMPILER> <OBJECTS>\")\nset(CMAKE_ASC_INFORMATION_LOADED 1)\n",
    ),
    ("lib64/cmake/ASC/CMakeTestASCCompiler.cmake", "set(CMAKE_ASC_COMPILER_WORKS 1 CACHE INTERNAL \"\")\n"),
    ("include/acl/acl.h", ""),
];

#[test]
fn a_build_is_configured_both_ways() {
    let test = "a_build_is_configured_both_ways";
    let tools = [("cmake", "no cmake"), ("make", "no make"), ("c++", "no compiler of C++ is called c++")];
    if let Some((_, why)) = tools.iter().find(|(tool, _)| Command::new(tool).arg("--version").output().is_err()) {
        return skipped(test, why);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let project = bundle(folder.path(), "ascend:910b1");
    let home = folder.path().join("cann");
    for (file, text) in TOOLKIT {
        let path = home.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let configure = |route: &str, home: Option<&Path>| {
        let mut command = Command::new("cmake");
        command
            .args(["-G", "Unix Makefiles", "-B", route])
            .arg(format!("-DFUSEWRIGHT_ROUTE={route}"))
            .current_dir(&project);
        command.env_remove("ASCEND_TOOLKIT_HOME").env_remove("ASCEND_HOME_PATH");
        home.map(|home| command.env("ASCEND_HOME_PATH", home));
        let said = command.output().expect("cmake starts");
        let text = [said.stdout, said.stderr].concat();
        (said.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (done, said) = configure("legacy", Some(&home));
    let fatbin = said.lines().find(|line| line.contains("fatbin kernels of")).unwrap_or_else(|| panic!("{said}"));
    assert!(done && fatbin.matches(".cpp").count() == 2 && fatbin.ends_with("for Ascend910B1 npu"), "{said}");
    let (done, said) = configure("asc", Some(&home));
    assert!(done, "{said}");
    let flags = std::fs::read_to_string(project.join("asc/CMakeFiles/launch.dir/flags.make")).expect("it was written");
    assert!(flags.contains("ASC_FLAGS = --npu-arch=dav-2201") && flags.contains("-DFUSEWRIGHT_ASC"), "{flags}");
    for (route, home, message) in
        [("other", Some(home.as_path()), "expected asc or legacy"), ("asc", None, "source set_env.sh")]
    {
        let (done, said) = configure(route, home);
        assert!(!done && said.contains(message), "{route}: {said}");
    }
}

/// The program of a bundle on the host model: what it writes are the bits of the host's own kernels. SIMULATED.
#[test]
fn the_program_launches_kernels_on_the_host_model() {
    if !has_compiler("the_program_launches_kernels_on_the_host_model") {
        return;
    }
    let text = "graph @m(s: 0..; %x: bf16[s, 96], %r: f32[s, 96]) {\n  %w = cast %x {to = f32}\n  %h = mul %w, %r\n  \
                %y = cast %h {to = bf16}\n  return %y, %h updates %r\n}\n";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let folder = tempfile::tempdir().expect("a folder");
    let target: Target = "ascend:910b1".parse().expect("a target");
    let made = write_bundle(&graph, &[target], folder.path(), &options()).unwrap_or_else(|e| panic!("{e}"));
    let project = folder.path().join("ascend-910b1");
    let [entry] = made.entries.as_slice() else { panic!("one kernel: {:?}", made.refused) };
    let name = &entry.artifact.name;
    let chip = CHIPS.iter().find(|chip| chip.name == "910b1").expect("it is in the table");
    let numbers = Chip::of(chip.arch, chip.buffer_bytes).expect("it is modelled");
    let model = Model::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_or_else(|e| panic!("{e}"));
    let device = Device { soc: chip.vendor.replace(' ', ""), chip: numbers, vector_cores: chip.vector_cores };
    // The least version has what the program calls.
    let stand_in = model.stand_in(&device, Version::V8_1).unwrap_or_else(|e| panic!("{e}"));
    let source = std::fs::read_to_string(folder.path().join(&entry.file)).expect("it was written");
    let headers = HEADERS.iter().map(|&(name, text)| Source { name, text }).chain([ARGUMENTS_HEADER]);
    let text = format!("{source}{}", described(name));
    let object = model.compile(&[Source { name: "k.cpp", text: &text }], &headers.collect::<Vec<_>>(), numbers);
    let object = object.unwrap_or_else(|e| panic!("{e}")).display().to_string();
    let runtime = stand_in.runtime();
    let library = runtime.display().to_string();
    // The system's loader knows it by a name of its own.
    std::os::unix::fs::symlink(&runtime, folder.path().join("libascendcl-simulated.so")).expect("a link");
    let path = format!("-Wl,-rpath,{}", folder.path().display());
    let built = compiler(&project, &acl(folder.path()), &["-o", "launch", &library, &path]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // Values of every size, and as many rows as give cores of one row more or less.
    let (rows, lanes) = (101, 96);
    let x: Vec<u8> = (0..rows * lanes).flat_map(|i| (0x3c00 + (i * 37 % 2048) as u16).to_le_bytes()).collect();
    let r: Vec<u8> = (0..rows * lanes).flat_map(|i| ((i as f32 * 0.37).sin() * 3.0).to_le_bytes()).collect();
    for (file, bytes) in [("x.bin", &x), ("r.bin", &r)] {
        std::fs::write(project.join(file), bytes).expect("the folder takes files");
    }
    let given = format!("s={rows}");
    let outputs: Vec<String> = (0..2).map(|i| format!("out{i}=out{i}.bin")).collect();
    let words = [
        name.as_str(),
        &given,
        "--in",
        "x0=x.bin",
        "--in",
        "x1=r.bin",
        "--out",
        &outputs[0],
        "--out",
        &outputs[1],
        "--kernels",
        &object,
    ];
    let ran = Command::new("./launch").args(words).current_dir(&project).output().expect("it starts");
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success() && said.contains("SIMULATED") && said.contains("101 rows on 48 blocks"), "{said}");
    let host = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{e}"));
    let tensor = |dtype, bytes: &[u8]| HostTensor { dtype, shape: vec![rows, lanes], bytes: bytes.to_vec() };
    let (x, r) = (tensor(DType::BF16, &x), tensor(DType::F32, &r));
    let wanted = host.program.run(&[&x, &r], 1).unwrap_or_else(|e| panic!("{e}"));
    // Outputs of the region stand in the order of its values.
    let mut got: Vec<Vec<u8>> =
        (0..2).map(|i| std::fs::read(project.join(format!("out{i}.bin"))).expect("it was written")).collect();
    got.sort_by_key(Vec::len);
    for (wanted, got) in wanted.iter().zip(&got) {
        assert!(wanted.bytes == *got, "{:?}", wanted.dtype);
    }
}
