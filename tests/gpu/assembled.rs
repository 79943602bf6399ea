//! Kernels for NVIDIA GPUs from PTX to the code of a device: by which assembler, what is kept, and what is compiled when.
#![cfg(all(feature = "cuda", unix))]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fusewright::bench::compile_suite;
use fusewright::diff::options;
use fusewright::graph::Graph;
use fusewright::{
    AssemblerChoice, CacheChoice, Compiler, KernelSchedule, Options, ScheduleChoice, ScheduleTable, Target, fuse_graph,
    fuse_graph_for, model,
};
use fusewright_abi::PayloadKind;
use fusewright_codegen::backend::Schedules;
use xtask::ptxas;

const TEXT: &str = "graph @g(s: 1..; %x: f32[s, 64]) {\n  %y = softmax %x\n  return %y\n}\n";

fn target() -> Target {
    "cuda:sm_90".parse().expect("a target")
}

fn body() -> Graph {
    body_of(TEXT)
}

fn body_of(text: &str) -> Graph {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let fused = fuse_graph(&graph, &options()).unwrap_or_else(|e| panic!("{e}"));
    fused.partition.regions[0].expand_body().expect("a region's body is typed")
}

/// A file that says that it is an assembler of that version, and does what `script` does.
fn tool(folder: &Path, version: &str, script: &str) -> PathBuf {
    let text = folder.join("ptxas.text");
    let lines = format!("#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'release {version}'; exit; fi\n{script}\n");
    std::fs::write(&text, lines).expect("a temporary folder can be written");
    program(&text, &folder.join("ptxas"))
}

/// Copies a file to where it can be started. Another process writes it: what this one has open for writing, a process
/// that another test starts right now has open too, and then the system starts it for nobody.
fn program(from: &Path, to: &Path) -> PathBuf {
    let status = Command::new("install").args(["-m", "755"]).args([from, to]).status();
    assert!(status.expect("install can be started").success(), "{}", to.display());
    to.to_owned()
}

fn choice(tool: &Path, cache: &Path) -> Options {
    let assembler = AssemblerChoice::At(tool.to_owned());
    Options { assembler, cache: CacheChoice::Folder(cache.to_owned()), ..options() }
}

fn compiler(options: &Options) -> Compiler {
    Compiler::of(&target(), options).unwrap_or_else(|e| panic!("{e}"))
}

fn schedules(compiler: &Compiler) -> &dyn Schedules {
    compiler.backend().schedules().expect("GPUs have schedules")
}

#[test]
fn what_the_assembler_makes_is_kept_under_its_version() {
    let (folders, cache) =
        ([(); 2].map(|()| tempfile::tempdir().expect("a folder")), tempfile::tempdir().expect("a folder"));
    // It notes that it was called, and what comes out is the text behind the mark of such files.
    let script = |folder: &Path| format!("echo $* >> {}/calls; printf '\\177ELF'; cat", folder.display());
    let [first, second] = [0, 1].map(|i| tool(folders[i].path(), &format!("{i}.0"), &script(folders[i].path())));
    let calls = |i: usize| std::fs::read_to_string(folders[i].path().join("calls")).unwrap_or_default().lines().count();
    let body = body();
    let made = compiler(&choice(&first, cache.path())).artifact("g", &body).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(made.payload.kind, PayloadKind::Cubin);
    assert!(made.payload.bytes.starts_with(b"\x7fELF") && calls(0) == 1);
    assert!(String::from_utf8_lossy(&made.payload.bytes).contains(".entry g"));
    let again = compiler(&choice(&first, cache.path()));
    assert_eq!(again.artifact("g", &body).unwrap_or_else(|e| panic!("{e}")), made);
    assert!(again.log()[0].from_disk && calls(0) == 1, "it is not called again");
    // Another assembler, or none, makes other code.
    let other = compiler(&choice(&second, cache.path()));
    let key = other.artifact("g", &body).unwrap_or_else(|e| panic!("{e}")).key;
    assert!(!other.log()[0].from_disk && key != made.key && calls(1) == 1);
    let plain = Options { assembler: AssemblerChoice::Off, ..choice(&first, cache.path()) };
    let plain = compiler(&plain).artifact("g", &body).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((plain.payload.kind, plain.key == made.key), (PayloadKind::Ptx, false));
}

#[test]
fn what_is_assembled_has_the_schedule_of_its_table() {
    let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let tool = tool(folder.path(), "1.0", "printf '\\177ELF'; cat");
    let usual = choice(&tool, cache.path());
    let by_rule = compiler(&usual);
    let body = body_of(&TEXT.replace("softmax", "exp").replace("64", "4096"));
    let (_, kernel) = by_rule.kernel("g", &body).unwrap_or_else(|e| panic!("{e}"));
    let rule = schedules(&by_rule).of(&kernel);
    let candidates = schedules(&by_rule).candidates(&kernel);
    let other = candidates.iter().find(|spread| spread.threads != rule.first.threads).expect("there are others");
    let mut table = ScheduleTable::empty(&target());
    table.insert(&kernel, KernelSchedule::uniform(*other), Vec::new());
    let given = compiler(&Options { schedules: ScheduleChoice::Table(Arc::new(table)), ..usual });
    assert_eq!(schedules(&given).of(&kernel), KernelSchedule::uniform(*other));
    let stages = given.stages("g", &body).unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
    assert_eq!(names[3..], ["schedules", "ll", "ptx", "cubin"]);
    let made = [&by_rule, &given].map(|compiler| compiler.artifact("g", &body).unwrap_or_else(|e| panic!("{e}")));
    assert_eq!(stages[6].bytes, made[1].payload.bytes, "the payload alone is that of all stages");
    assert!(made[0].key != made[1].key && !given.log()[0].from_disk, "the schedule is in the key");
    for (made, threads) in made.iter().zip([rule.first.threads, other.threads]) {
        let text = String::from_utf8_lossy(&made.payload.bytes);
        assert!(text.contains(&format!(".maxntid {threads}")) && made.launch.threads == threads, "{threads}: {text}");
    }
}

#[test]
fn an_assembler_that_fails_says_why() {
    let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let failing = tool(folder.path(), "1.0", "cat > /dev/null; echo 'line 7: no such register' >&2; exit 1");
    let error = compiler(&choice(&failing, cache.path())).artifact("g", &body()).expect_err("it fails").to_string();
    assert!(error.contains("`g`") && error.contains("line 7: no such register"), "{error}");
    let deaf = folder.path().join("deaf");
    std::fs::create_dir(&deaf).expect("a folder");
    let deaf = tool(&deaf, "2.0", "exit 3");
    let error = compiler(&choice(&deaf, cache.path())).artifact("g", &body()).expect_err("it reads nothing and fails");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    let idle = folder.path().join("idle");
    std::fs::create_dir(&idle).expect("a folder");
    let idle = tool(&idle, "3.0", "cat > /dev/null");
    let compiled = compiler(&choice(&idle, cache.path()));
    let error = compiled.artifact("g", &body()).expect_err("it writes nothing").to_string();
    assert!(error.contains("wrote 0 bytes that are no cubin"), "{error}");
    for (missing, said) in [("nowhere", "no such file"), ("no-tool", "does not say its version")] {
        let file = folder.path().join(missing);
        if missing == "no-tool" {
            program(Path::new("/bin/true"), &file);
        }
        let error = Compiler::of(&target(), &choice(&file, cache.path())).expect_err("no assembler").to_string();
        assert!(error.contains(said) && error.contains(missing), "{error}");
    }
    // What needs no assembler looks for none.
    Compiler::of(&Target::Cpu, &choice(&folder.path().join("nowhere"), cache.path())).expect("the CPU is always there");
}

#[test]
fn a_layer_is_compiled_once_and_read_ever_after() {
    let (folder, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let found = ptxas::locate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools"));
    let tool = found.unwrap_or_else(|| {
        println!("skipped: a_layer_is_compiled_once_and_read_ever_after by the real assembler ({})", ptxas::MISSING);
        tool(folder.path(), "0.0", "printf '\\177ELF'; cat")
    });
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/qwen3_tiny_layer_bf16.train.pt2");
    let choice = choice(&tool, cache.path());
    let cold = compile_suite(&model, 1, &target(), &choice).unwrap_or_else(|e| panic!("{e}"));
    assert!(cold.compiled >= 5, "{cold:?}");
    assert!(cold.from_disk == 0 && cold.kept_us.is_some() && cold.emit_us.is_some_and(|us| us > 0), "{cold:?}");
    let warm = compile_suite(&model, 1, &target(), &choice).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((warm.compiled, warm.from_disk), (0, cold.compiled), "all are there");
    let graph = model::open(&model).unwrap_or_else(|e| panic!("{e}"));
    let kept = compiler(&choice);
    let fused = fuse_graph_for(&graph, &options(), &kept).unwrap_or_else(|e| panic!("{e}"));
    for region in &fused.partition.regions {
        let body = region.expand_body().expect("a region's body is typed");
        let artifact = kept.artifact(&region.name, &body).unwrap_or_else(|e| panic!("{}: {e}", region.name));
        assert!(artifact.payload.bytes.starts_with(b"\x7fELF"), "{}", region.name);
    }
    assert!(kept.log().iter().all(|kernel| kernel.from_disk), "whoever asks for them");
    // Layers behind the first have their kernels in common.
    let [three, six] = [3, 6].map(|layers| compile_suite(&model, layers, &target(), &choice));
    let [three, six] = [three, six].map(|report| report.unwrap_or_else(|e| panic!("{e}")));
    assert!(six.regions >= three.regions + 9 && six.distinct <= three.distinct + 1, "{three:?} {six:?}");
    assert!(six.compiled <= 1, "what all layers read together may grow with them: {six:?}");
}
