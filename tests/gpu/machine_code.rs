//! Machine code of GPU kernels, made by NVIDIA's assembler and listed by its disassembler: no spills, few instructions, and not
//! the one instruction that the assembler is known to get wrong. Needs no GPU.
#![cfg(feature = "cuda")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use fusewright::bench::gpu::{GpuCase, gpu_cases};
use fusewright::graph::Graph;
use fusewright::graph::text::{ParsedGraph, parse_graphs};
use fusewright::{Compiler, Options, ScheduleChoice, ScheduleTable, Target, fuse_graph, matrix};
use fusewright_abi::{Count, KernelArtifact};
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::schedule::{KernelSchedule, Place, Spread};
use xtask::skipped::skipped;
use xtask::{pieces, ptxas, sass};

/// The architecture that is measured.
const MEASURED: &str = "sm_90a";
/// One architecture of each other kind that code is made for.
const OTHERS: [&str; 4] = ["sm_80", "sm_89", "sm_100a", "sm_120"];
/// Set where everything is looked at (`cargo run -p xtask -- gpu-code`).
const LONG: &str = "FUSEWRIGHT_LONG";
/// Combinations of the matrix that are looked at.
const SAMPLE: usize = 20;

/// NVIDIA's tools.
struct Tools {
    assembler: PathBuf,
    disassembler: PathBuf,
}

impl Tools {
    /// The tools, or a line that says which test is not run for want of them.
    fn of(test: &str) -> Option<Tools> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools");
        let found = (ptxas::locate(&folder), ptxas::locate_disassembler(&folder));
        let (Some(assembler), Some(disassembler)) = found else {
            skipped(test, format!("{}; {}", ptxas::MISSING, ptxas::NO_DISASSEMBLER));
            return None;
        };
        Some(Tools { assembler, disassembler })
    }

    fn spilled(&self, what: &str, ptx: &str) -> u32 {
        let report = ptxas::assemble(&self.assembler, ptx).unwrap_or_else(|e| panic!("{what}: {e}"));
        report.spilled
    }

    fn entries(&self, what: &str, ptx: &str) -> Vec<sass::Entry> {
        self.looked_at(what, ptx).1
    }

    fn looked_at(&self, what: &str, ptx: &str) -> (ptxas::Report, Vec<sass::Entry>) {
        let folder = tempfile::tempdir().expect("the system has a place for temporary files");
        let found = sass::entries(&self.assembler, &self.disassembler, ptx, folder.path());
        found.unwrap_or_else(|e| panic!("{what}: {e}"))
    }
}

fn is_long() -> bool {
    std::env::var_os(LONG).is_some()
}

/// The seed of the environment, as other checks of the matrix have it.
fn seed() -> u64 {
    std::env::var("FUSEWRIGHT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// The architectures that the piece of a number is compiled for: all in long runs, else the measured one and another by turns.
fn architectures(number: usize) -> Vec<&'static str> {
    let others = OTHERS.iter().copied().cycle().skip(number).take(if is_long() { OTHERS.len() } else { 1 });
    std::iter::once(MEASURED).chain(others).collect()
}

fn compiler(arch: &str) -> Compiler {
    Compiler::new(&Target::Cuda { arch: arch.to_owned() }).expect("this build has the backend")
}

/// The one region of a case, and its body.
fn body(case: &GpuCase) -> (String, Graph) {
    let fused = fuse_graph(&case.graph, &Options::default()).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
    let [region] = &fused.partition.regions[..] else { panic!("{} is not one kernel", case.name()) };
    (region.name.clone(), region.expand_body().expect("a region's body is typed"))
}

fn artifact(compiler: &Compiler, case: &GpuCase) -> KernelArtifact {
    let (name, body) = body(case);
    compiler.artifact(&name, &body).unwrap_or_else(|e| panic!("{}: {e}", case.name()))
}

fn text(artifact: KernelArtifact) -> String {
    String::from_utf8(artifact.payload.bytes).expect("PTX is text")
}

fn cases() -> Vec<GpuCase> {
    let cases = gpu_cases().expect("the ops of the bench are graphs");
    assert!(cases.len() >= 20, "{} cases", cases.len());
    cases
}

#[test]
fn every_op_of_the_gpu_bench_assembles_without_a_spill() {
    let Some(tools) = Tools::of("every_op_of_the_gpu_bench_assembles_without_a_spill") else { return };
    pieces::each(&cases(), |case| {
        let ptx = text(artifact(&compiler("sm_90"), case));
        assert_eq!(tools.spilled(&case.name(), &ptx), 0, "{}", case.name());
    });
}

/// A kernel with a table of its own, beside what it is by the rule.
struct Tabled {
    what: String,
    name: String,
    body: Graph,
    table: ScheduleTable,
    kernel: Kernel,
    usual: KernelArtifact,
}

/// What a table may say of an op of the bench: each of it has code, and assembles without a spill where there is an assembler.
/// Every third of it is looked at by turns of the seed, all in long runs.
#[test]
fn every_schedule_of_the_gpu_bench_assembles_without_a_spill() {
    let tools = Tools::of("assembling every_schedule_of_the_gpu_bench");
    let of_case = |case: &GpuCase| {
        let (name, body) = body(case);
        let by_rule = compiler("sm_90");
        let (_, kernel) = by_rule.kernel(&name, &body).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        let spreads = by_rule.backend().schedules().expect("GPUs have schedules").candidates(&kernel);
        assert!(!spreads.is_empty(), "{}", case.name());
        let usual = by_rule.artifact(&name, &body).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        let piece = move |pair: &[Spread]| {
            // Two of them share a kernel, as they do where few and many rows have their own.
            let many = pair.get(1).map(|spread| (1000, *spread));
            let schedule = KernelSchedule { first: pair[0], many };
            let mut table = ScheduleTable::empty(by_rule.target());
            table.insert(&kernel, schedule.clone(), Vec::new());
            let what = format!("{} as {schedule}", case.name());
            Tabled { what, name: name.clone(), body: body.clone(), table, kernel: kernel.clone(), usual: usual.clone() }
        };
        spreads.chunks(2).map(piece).collect::<Vec<_>>()
    };
    let main = cases().into_iter().filter(|case| case.main && !case.anchor);
    let schedules: Vec<_> = main.flat_map(|case| of_case(&case)).collect();
    println!("{} kernels of two schedules each", schedules.len());
    assert!(schedules.len() >= 60, "{} kernels", schedules.len());
    let (first, step) = if is_long() { (0, 1) } else { (seed() as usize % 3, 3) };
    let chosen: Vec<_> = schedules.iter().skip(first).step_by(step).collect();
    pieces::each(&chosen, |scheduled| {
        let Tabled { what, name, body, table, kernel, usual } = scheduled;
        let choice = ScheduleChoice::Table(std::sync::Arc::new(table.clone()));
        let own = compiler("sm_90").with_schedules(&choice).expect("of this target");
        let artifact = own.artifact(name, body).unwrap_or_else(|e| panic!("{what}: {e}"));
        // The tree is the kernel's, whatever its schedule, and the schedule is part of the key.
        assert_eq!(own.kernel(name, body).expect("lowers").1, *kernel, "{what}");
        let same = artifact.payload == usual.payload && artifact.launch == usual.launch;
        assert_eq!(artifact.key == usual.key, same, "{what}");
        if let Some(tools) = &tools {
            assert_eq!(tools.spilled(what, &text(artifact)), 0, "{what}");
        }
    });
}

/// Ops of the GPU bench with the elements of a row that they compute, and the instructions per element and thread of
/// the best kernels that were written for them by hand.
const BY_HAND: [(&str, f64, f64); 6] = [
    ("D", 5120.0, 10.3),
    ("F", 5120.0, 22.0),
    ("G", 25600.0, 11.1),
    ("H", 25600.0, 14.3),
    ("K", 9216.0, 12.3),
    ("KC", 10240.0, 14.0),
];

#[test]
fn ops_of_the_gpu_bench_take_few_instructions() {
    let Some(tools) = Tools::of("ops_of_the_gpu_bench_take_few_instructions") else { return };
    let cases = cases();
    for (op, elements, by_hand) in BY_HAND {
        let case = cases.iter().find(|case| case.name() == op).unwrap_or_else(|| panic!("the bench has {op}"));
        let artifact = artifact(&compiler("sm_90"), case);
        let launch = artifact.launch.clone();
        let entries = tools.entries(op, &text(artifact));
        for entry in entries.iter().filter(|entry| !entry.name.starts_with('$')) {
            let many = launch.many.as_ref().filter(|_| entry.name.ends_with("__many"));
            let of = (&launch.blocks_per_row, launch.threads, launch.shares);
            let (blocks, threads, shares) = many.map_or(of, |many| (&many.blocks_per_row, many.threads, many.shares));
            let Count::Constant(blocks) = blocks else { panic!("{op}: blocks of a row are no constant") };
            let threads = f64::from(threads) / f64::from(shares) * *blocks as f64;
            let each = f64::from(entry.longest) * threads / elements;
            println!("{op}, {}: {each:.1} instructions per element, {by_hand} by hand", entry.name);
            assert!(!entry.loops && each <= 1.25 * by_hand, "{op}: {each:.1} against {by_hand}, {entry:?}");
        }
    }
}

/// Heads and rows of widths that are no powers of two.
const HEADS: &str = include_str!("heads.fw");
/// Of those, graphs whose parts are no whole vectors.
const LOOPED: [&str; 1] = ["rope_of_one_72"];

/// Heads of any width lie in registers, and threads have vectors of them: each segment moves a row in few instructions.
#[test]
fn heads_of_any_width_lie_in_registers_and_take_few_instructions() {
    let tools = Tools::of("assembling heads_of_any_width");
    let graphs = parse_graphs(HEADS).unwrap_or_else(|e| panic!("{e}"));
    assert!(graphs.len() >= 20, "{} graphs", graphs.len());
    let numbered: Vec<_> = graphs.iter().enumerate().collect();
    pieces::each(&numbered, |(number, ParsedGraph { graph, .. })| {
        let name = graph.name();
        let fused = fuse_graph(graph, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let [region] = &fused.partition.regions[..] else { panic!("{name} is not one kernel") };
        let body = region.expand_body().expect("a region's body is typed");
        let compiler = compiler("sm_90");
        let (_, kernel) = compiler.kernel(&region.name, &body).unwrap_or_else(|e| panic!("{name}: {e}"));
        let schedule = compiler.backend().schedules().expect("GPUs have schedules").of(&kernel);
        let looped = schedule.first.place == Place::Loops;
        assert_eq!(looped, LOOPED.contains(&name), "{name}: {schedule}");
        let Some(tools) = &tools else { return };
        // One of two by turns.
        for arch in ["sm_80", MEASURED].into_iter().cycle().skip(*number).take(if is_long() { 2 } else { 1 }) {
            let what = format!("{name} for {arch}");
            let artifact = self::compiler(arch).artifact(&region.name, &body);
            let ptx = text(artifact.unwrap_or_else(|e| panic!("{what}: {e}")));
            let (report, entries) = tools.looked_at(&what, &ptx);
            assert_eq!(report.spilled, 0, "{what}");
            for entry in entries {
                assert!(entry.clamped.is_empty(), "{what}: {:?}", entry.clamped);
                assert!(looped || !entry.loops, "{what}: {entry:?}");
            }
        }
    });
}

/// Assembles a kernel and refuses what the assembler is known to get wrong.
fn is_as_meant(tools: &Tools, what: &str, ptx: &str) {
    for entry in tools.entries(what, ptx) {
        assert!(
            entry.clamped.is_empty(),
            "{what}: {} takes negative values for zeros: {:?}",
            entry.name,
            entry.clamped
        );
    }
}

#[test]
fn no_op_of_the_gpu_bench_is_miscompiled() {
    let Some(tools) = Tools::of("no_op_of_the_gpu_bench_is_miscompiled") else { return };
    let mut compiled = Vec::new();
    for (number, case) in cases().into_iter().enumerate() {
        // Every form and length on the architecture that is measured.
        let is_main = case.main && !case.anchor;
        let chosen = architectures(number).into_iter().filter(|arch| is_main || *arch == MEASURED);
        compiled.extend(chosen.map(|arch| (case.clone(), arch)));
    }
    pieces::each(&compiled, |(case, arch)| {
        let what = format!("{} for {arch}", case.name());
        is_as_meant(&tools, &what, &text(artifact(&compiler(arch), case)));
    });
}

#[test]
fn a_sample_of_the_matrix_assembles_for_every_architecture_and_is_not_miscompiled() {
    let test = "a_sample_of_the_matrix_assembles_for_every_architecture_and_is_not_miscompiled";
    let Some(tools) = Tools::of(test) else { return };
    let seed = seed();
    println!("seed {seed}");
    let (assembled, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let sample: Vec<_> = matrix::sample(SAMPLE, seed).into_iter().enumerate().collect();
    pieces::each(&sample, |(number, combination)| {
        let graph = combination.graph().unwrap_or_else(|e| panic!("{combination}: {e}"));
        let fused = fuse_graph(&graph, &Options::default()).unwrap_or_else(|e| panic!("{combination}: {e}"));
        for region in &fused.partition.regions {
            let body = region.expand_body().expect("a region's body is typed");
            for arch in architectures(*number) {
                let what = format!("{combination}, {} for {arch}, seed {seed}", region.name);
                match compiler(arch).artifact(&region.name, &body) {
                    Ok(artifact) => {
                        assembled.fetch_add(1, Ordering::Relaxed);
                        is_as_meant(&tools, &what, &text(artifact));
                    }
                    Err(error) if error.is_refusal() => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        println!("{what}: {error}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
    });
    let (assembled, refused) = (assembled.into_inner(), refused.into_inner());
    let wanted = SAMPLE * architectures(0).len() * 9 / 10;
    assert!(assembled >= wanted, "{assembled} kernels assembled, {refused} refused");
}

/// PTX of which the assembler makes the wrong instruction: the greatest magnitude of a product and a constant zero.
fn miscompiled(arch: &str, version: &str) -> String {
    format!(
        ".version {version}
.target {arch}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {{
  .reg .b32 %r<6>; .reg .b64 %d<5>;
  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.s64 %d3, %d1, %d2; add.s64 %d4, %d0, %d2;
  ld.global.u32 %r1, [%d3]; ld.global.u32 %r2, [%d3+128];
  mul.rn.bf16x2 %r3, %r1, %r2;
  mov.u32 %r4, 0;
  max.NaN.xorsign.abs.bf16x2 %r5, %r4, %r3;
  and.b32 %r5, %r5, 0x7fff7fff;
  st.global.u32 [%d4], %r5;
  ret;
}}
"
    )
}

#[test]
fn the_check_finds_what_the_assembler_gets_wrong() {
    let Some(tools) = Tools::of("the_check_finds_what_the_assembler_gets_wrong") else { return };
    for (arch, version) in [("sm_90a", "8.0"), ("sm_100a", "8.6"), ("sm_120", "8.7")] {
        let wrong = miscompiled(arch, version);
        let [entry] = &tools.entries(arch, &wrong)[..] else { panic!("{arch}: one entry") };
        assert_eq!(entry.clamped.len(), 1, "{arch}: an assembler that gets it right needs no guard: {entry:?}");
        // As kernels are written: the other operand is no constant.
        let right = wrong.replace("mov.u32 %r4, 0;", "mul.rn.bf16x2 %r4, %r1, %r1;");
        let [entry] = &tools.entries(arch, &right)[..] else { panic!("{arch}: one entry") };
        assert!(entry.clamped.is_empty(), "{arch}: {entry:?}");
    }
}
