//! Memory that runs out, wherever it does: an error with the exit code of what the machine lacks, and never an abort.

use std::process::{Command, Output};

use crate::support::{fixture, folder, write};

/// The command in an address space of so many KiB.
fn limited(kib: u64, args: &[&str]) -> Output {
    let script = format!("ulimit -c 0; ulimit -v {kib}; exec \"$0\" \"$@\"");
    let shell = Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_fusewright")]).args(args).output();
    shell.expect("a shell is there")
}

/// The least address space in which a command ends well, to some pages.
fn least(args: &[&str]) -> u64 {
    let ends_well = |kib: u64| limited(kib, args).status.success();
    let mut enough = (14..24).map(|power| 1 << power).find(|&kib| ends_well(kib)).expect("16 GiB are enough");
    let mut lacking = enough / 2;
    while enough - lacking > 256 {
        let middle = (lacking + enough) / 2;
        *if ends_well(middle) { &mut enough } else { &mut lacking } = middle;
    }
    enough
}

/// Runs a command in address spaces from the least in which the program starts to the least that the command takes.
fn swept(args: &[&str]) -> usize {
    const STEPS: u64 = 24;
    let (starts, enough) = (least(&["--version"]), least(args));
    let mut lacking = 0;
    for step in 0..=STEPS {
        let kib = starts + (enough - starts) * step / STEPS;
        let Output { status, stderr, .. } = limited(kib, args);
        let said = String::from_utf8_lossy(&stderr);
        match status.code() {
            Some(0) => {}
            Some(3) => {
                assert!(said.to_lowercase().contains("memory"), "{kib} KiB: {said}");
                lacking += 1;
            }
            _ => panic!("{args:?} in {kib} KiB of address space ends with {status}: {said}"),
        }
    }
    lacking
}

#[test]
fn running_is_never_aborted() {
    let folder = folder();
    let text = "graph @g(s: 1..; %x: f32[s, 64], %w: f32[64]) {\n  %y = rms_norm %x, %w {eps = 1e-6, round = once}\n  \
                %z = softmax %y\n  return %z\n}\n";
    let graph = write(&folder, "g.fw", text);
    let lacking = swept(&["run", &graph, "--rows", "20000"]);
    assert!(lacking >= 12, "{lacking} of the address spaces were too small");
}

/// LLVM ends a process whose memory it cannot have, so it is not asked to compile where memory is short.
#[cfg(feature = "llvm")]
#[test]
fn compiling_by_llvm_is_never_aborted() {
    let folder = folder();
    let text = "graph @g(s: 1..; %x: f32[s, 64]) {\n  %y = softmax %x\n  return %y\n}\n";
    let graph = write(&folder, "g.fw", text);
    let lacking = swept(&["run", &graph, "--rows", "20", "--target", "cpu-llvm"]);
    assert!(lacking >= 12, "{lacking} of the address spaces were too small");
}

#[test]
fn importing_and_compiling_is_never_aborted() {
    let lacking = swept(&["explain", &fixture("qwen3_tiny_layer_bf16.core.pt2")]);
    assert!(lacking >= 2, "{lacking} of the address spaces were too small");
}
