//! Kernels keep within their memory. The proof of that refuses no kernel that a graph gives. Of kernels with one changed index or
//! predicate, it refuses all that leave their memory.
//!
//! `FUSEWRIGHT_CASES` asks for a larger sample of the matrix, and `FUSEWRIGHT_MUTANTS` for more changed kernels.

use std::collections::{BTreeMap, BTreeSet};

use fusewright::bench::gpu::gpu_cases;
use fusewright::graph::{Dim, Graph, ScalarFn};
use fusewright::inputs::Random;
use fusewright::matrix::sample;
use fusewright::{Compiler, Options, Target, fuse_graph};
use fusewright_codegen::kernel::interp::{Buffer, RunError, run};
use fusewright_codegen::kernel::{INNER, Inst, InstOp, Kernel, LANE, ROW, Segment, Shape, Val, verify};

use crate::variable;

/// Rows that a changed kernel runs over.
const ROWS: i64 = 5;

/// The graphs of `fixtures/`, of a sample of the matrix and of the GPU bench.
fn graphs() -> Vec<(String, Graph)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "pt2"));
    files.sort();
    let mut graphs = Vec::new();
    for path in files {
        let model = fusewright::model::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        graphs.push((path.display().to_string(), model));
    }
    assert!(graphs.len() > 20, "{} graphs in {}", graphs.len(), folder.display());
    let count = variable("FUSEWRIGHT_CASES", 60) as usize;
    for combination in sample(count, variable("FUSEWRIGHT_SEED", 1)) {
        graphs.push((
            format!("{combination:?}"),
            combination.graph().unwrap_or_else(|e| panic!("{combination:?}: {e:?}")),
        ));
    }
    graphs
}

/// Every kernel once, as lowered for a target and as expanded for it.
fn kernels(targets: &[Target]) -> Vec<Kernel> {
    let compilers: Vec<Compiler> =
        targets.iter().map(|target| Compiler::new(target).unwrap_or_else(|e| panic!("{e}"))).collect();
    let (mut known, mut kernels) = (BTreeSet::new(), Vec::new());
    let mut take = |what: &str, name: &str, body: &Graph| {
        for compiler in &compilers {
            match compiler.kernel(name, body) {
                Ok((lowered, expanded)) => {
                    let new = [lowered, expanded].into_iter().filter(|kernel| known.insert(kernel.to_string()));
                    kernels.extend(new);
                }
                // A kernel that lowering gives and the verifier refuses says so.
                Err(error) => assert!(!error.to_string().contains("is not valid"), "{what}: {error}"),
            }
        }
    };
    for (what, graph) in graphs() {
        let fused = fuse_graph(&graph, &Options::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
        for region in &fused.partition.regions {
            let body = region.expand_body().unwrap_or_else(|e| panic!("{what}: {e:?}"));
            take(&what, &region.name, &body);
        }
    }
    for case in gpu_cases().unwrap_or_else(|e| panic!("{e}")) {
        let fused = fuse_graph(&case.graph, &Options::default()).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        for region in &fused.partition.regions {
            let body = region.expand_body().unwrap_or_else(|e| panic!("{}: {e:?}", case.name()));
            take(&case.name(), &region.name, &body);
        }
    }
    kernels
}

/// Says whether an instruction touches memory.
fn touches(inst: &Inst) -> bool {
    matches!(inst.op, InstOp::Load { .. } | InstOp::Store { .. })
}

fn changed(kernel: &Kernel, segment: usize, at: usize, change: impl FnOnce(&mut Inst)) -> Kernel {
    let mut mutant = kernel.clone();
    change(&mut mutant.segments[segment].insts[at]);
    mutant
}

/// A kernel with another index in one instruction.
fn with_index(kernel: &Kernel, segment: usize, at: usize, index: Dim) -> Kernel {
    changed(kernel, segment, at, |inst| match &mut inst.op {
        InstOp::Load { index: old, .. } | InstOp::Store { index: old, .. } | InstOp::Index(old) => *old = index,
        _ => {}
    })
}

/// The kernels that one change of an access, or of what its predicate compares, makes of a kernel, and what the change is.
fn mutants(kernel: &Kernel) -> Vec<(&'static str, Kernel)> {
    let mut mutants = Vec::new();
    let counters = [ROW, INNER, LANE];
    for (s, segment) in kernel.segments.iter().enumerate() {
        let deciding = deciding(segment);
        for (i, inst) in segment.insts.iter().enumerate() {
            let decides = inst.results.iter().any(|value| deciding.contains(value));
            if let (InstOp::Index(index), true) = (&inst.op, decides) {
                mutants.push(("a bound that is one more", with_index(kernel, s, i, index + &Dim::constant(1))));
            }
            if let Some(wider) = widened(&inst.op).filter(|_| decides) {
                mutants.push(("a wider comparison", changed(kernel, s, i, |inst| inst.op = InstOp::Map(wider))));
            }
            let (Some(index), true) = (inst.op.index(), touches(inst)) else { continue };
            let has_lanes = match &inst.op {
                InstOp::Load { shape, .. } => *shape != Shape::Scalar,
                _ => segment.ty(inst.args[0]).shape != Shape::Scalar,
            };
            for by in [-1, 1] {
                mutants.push(("one element on", with_index(kernel, s, i, index + &Dim::constant(by))));
            }
            for (from, to) in counters.iter().flat_map(|a| counters.iter().map(move |b| (*a, *b))) {
                if from == to || !index.mentions(from) || (to == LANE && !has_lanes) {
                    continue;
                }
                let swapped = index.substitute(&|name| (name == from).then(|| Dim::symbol(to)));
                mutants.push(("one counter for another", with_index(kernel, s, i, swapped)));
            }
            for counter in counters.into_iter().filter(|counter| index.mentions(counter)) {
                mutants.push(("a longer stride", with_index(kernel, s, i, index + &Dim::symbol(counter))));
            }
            let predicate = if matches!(inst.op, InstOp::Load { .. }) { 0 } else { 1 };
            if inst.args.len() > predicate {
                mutants.push((
                    "no predicate",
                    changed(kernel, s, i, |inst| {
                        inst.args.truncate(predicate);
                        if let InstOp::Load { otherwise, .. } | InstOp::Store { otherwise, .. } = &mut inst.op {
                            *otherwise = None;
                        }
                    }),
                ));
            }
        }
    }
    mutants
}

/// The values that say which elements accesses touch, and whether they do.
fn deciding(segment: &Segment) -> BTreeSet<Val> {
    let mut open: Vec<Val> = Vec::new();
    for inst in segment.insts.iter().filter(|inst| touches(inst)) {
        let mut names = BTreeSet::new();
        inst.op.index().iter().for_each(|index| index.collect_symbols(&mut names));
        open.extend(names.iter().filter_map(|name| Val::from_symbol(name)));
        let predicate = usize::from(!matches!(inst.op, InstOp::Load { .. }));
        open.extend(inst.args.get(predicate));
    }
    let mut found = BTreeSet::new();
    while let Some(value) = open.pop() {
        if found.insert(value) {
            let made = segment.insts.iter().filter(|inst| inst.results.contains(&value) && !touches(inst));
            open.extend(made.flat_map(|inst| &inst.args));
        }
    }
    found
}

fn widened(op: &InstOp) -> Option<ScalarFn> {
    match op {
        InstOp::Map(ScalarFn::Lt) => Some(ScalarFn::Le),
        InstOp::Map(ScalarFn::Gt) => Some(ScalarFn::Ge),
        _ => None,
    }
}

/// Sizes of a call, of which every claim holds.
fn sizes(kernel: &Kernel, random: &mut Random) -> Option<BTreeMap<String, i64>> {
    (0..40).find_map(|_| {
        let dims: BTreeMap<String, i64> =
            kernel.dims.iter().map(|dim| (dim.name.clone(), random.below(ROWS as usize + 1) as i64)).collect();
        let value = |dim: &Dim| dim.eval(&|name| dims.get(name).copied()).ok();
        let holds = kernel.claims.iter().all(|claim| value(&claim.least) <= value(&claim.most));
        (holds && value(&kernel.rows).is_some_and(|rows| rows > 0)).then_some(dims)
    })
}

/// Buffers of just the elements of a call: bytes of chance, of which some are small and some negative as integers.
fn buffers(kernel: &Kernel, dims: &BTreeMap<String, i64>, random: &mut Random) -> Option<Vec<Buffer>> {
    let mut buffers = Vec::new();
    for param in &kernel.params {
        let mut elements = 1i64;
        for extent in &param.shape {
            elements = elements.checked_mul(extent.eval(&|name| dims.get(name).copied()).ok()?)?;
        }
        let bytes = param.dtype.bytes_for(usize::try_from(elements.max(0)).ok()?);
        let mut data = vec![0u8; bytes];
        let width = (param.dtype.bits() as usize / 8).max(1);
        for element in data.chunks_mut(width) {
            let byte = if random.once_in(4) { 0xff } else { 0 };
            element.fill(if random.once_in(8) { random.below(256) as u8 } else { byte });
            element[0] = if byte == 0 { random.below(9) as u8 } else { 0xff };
        }
        buffers.push(Buffer::Bytes(data));
    }
    Some(buffers)
}

/// Runs a kernel that the verifier takes at several sizes, and gives the first error of an access that left its memory.
fn leaves(kernel: &Kernel, random: &mut Random) -> Option<String> {
    for _ in 0..4 {
        let Some(dims) = sizes(kernel, random) else { continue };
        let Some(mut given) = buffers(kernel, &dims, random) else { continue };
        let rows = kernel.rows.eval(&|name| dims.get(name).copied()).unwrap_or(0);
        if let Err(error @ (RunError::OutOfBounds { .. } | RunError::Extent { .. })) =
            run(kernel, &mut given, &dims, 0..rows.min(64))
        {
            return Some(format!("{error}, with {dims:?}"));
        }
    }
    None
}

#[test]
fn what_leaves_its_memory_is_refused() {
    let targets = [Target::Cpu, Target::Ascend { chip: "910b1".to_owned() }];
    let kernels = kernels(&targets);
    let mut random = Random::new(variable("FUSEWRIGHT_SEED", 1), 0);
    let mut all: Vec<(&str, &str, Kernel)> = Vec::new();
    for kernel in &kernels {
        assert!(verify(kernel).is_ok(), "{kernel}");
        all.extend(mutants(kernel).into_iter().map(|(change, mutant)| (kernel.name.as_str(), change, mutant)));
    }
    let wanted = variable("FUSEWRIGHT_MUTANTS", 2000) as usize;
    let made = all.len();
    while all.len() > wanted {
        all.swap_remove(random.below(all.len()));
    }
    let mut taken: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut refused, mut counts) = (0, BTreeMap::<&str, usize>::new());
    for (name, change, mutant) in &all {
        *counts.entry(change).or_default() += 1;
        if verify(mutant).is_err() {
            refused += 1;
            continue;
        }
        if let Some(error) = leaves(mutant, &mut random) {
            panic!("{change} of @{name} is taken, and leaves its memory: {error}\n{mutant}");
        }
        taken.entry(change).or_default().push(name);
    }
    println!(
        "{} kernels, {made} mutants, {} tried: {refused} refused; of each kind {counts:?}",
        kernels.len(),
        all.len()
    );
    for (change, names) in &taken {
        println!("taken, inside of memory: {} × {change}: {}", names.len(), names.join(" "));
    }
    assert!(all.len() == wanted, "{made} mutants");
    // What is taken moves an index that has room: a part of a row, or a table of which one row is chosen.
    assert!(refused * 4 >= all.len() * 3, "{refused} of {}", all.len());
}
