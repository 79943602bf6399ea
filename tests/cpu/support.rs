//! Running one kernel in the interpreter and as the code of every compiler for CPUs, on the same bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use fusewright::diff::first_difference;
use fusewright_abi::{DType, KernelArtifact, Level, ParamAccess, Target};
use fusewright_codegen::backend::{Backend, BackendError, HOST_TARGETS, Wanted, assemble, cpu::CpuBackend, for_target};
use fusewright_codegen::kernel::interp::{Buffer, put_bits, run};
use fusewright_codegen::kernel::{
    Kernel,
    expand::{Column, expand},
};
use fusewright_graph::num;
use fusewright_graph::operands::{Random, THRESHOLDS};
use fusewright_runtime::{Arg, EachTime, Module, device_with};

use super::fence::{Fenced, Side};

/// Bytes of `elements` elements. `edges` of 1000 elements are special values.
pub fn fill(dtype: DType, elements: usize, random: &mut Random, edges: usize) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(elements)];
    for i in 0..elements {
        let bits = match dtype {
            _ if !dtype.is_float() => num::encode_int(dtype, num::wrap_int(dtype, random.next_bits() as i64)),
            _ if random.below(1000) < edges => num::encode(dtype, random.pick(&THRESHOLDS)),
            _ => num::encode(dtype, random.unit() * 4.0),
        };
        put_bits(dtype, &mut bytes, i, bits);
    }
    bytes
}

pub fn kernel(text: &str) -> Kernel {
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    expand(&kernel, Column::Cpu).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Counts the blocks of Cranelift's code for a kernel.
pub fn blocks(text: &str) -> usize {
    let stages = CpuBackend.emit(&kernel(text), &Target::Cpu, Wanted::Stages).unwrap_or_else(|e| panic!("{e}"));
    String::from_utf8_lossy(&stages[0].bytes).lines().filter(|line| line.trim_start().starts_with("block")).count()
}

/// Every target whose code runs here. The highest level that the processor has is what the host's own code is made for.
pub fn targets() -> Vec<Target> {
    let mut levels: Vec<Level> = Level::ALL.into_iter().filter(|level| level.is_supported()).collect();
    levels.pop();
    let lower = levels.into_iter().filter(|_| HOST_TARGETS.contains(&Target::CPU_LLVM));
    HOST_TARGETS.iter().cloned().chain(lower.map(|level| Target::CpuLlvm { level: Some(level) })).collect()
}

/// Compiles for each of [`HOST_TARGETS`].
pub fn each(kernel: &Kernel) -> Vec<Result<KernelArtifact, BackendError>> {
    HOST_TARGETS.iter().map(|target| compile(kernel, target)).collect()
}

pub fn compile(kernel: &Kernel, target: &Target) -> Result<KernelArtifact, BackendError> {
    assemble(kernel, "test", target, &*for_target(target)?)
}

pub fn load(kernel: &Kernel, target: &Target) -> (KernelArtifact, Arc<dyn Module>) {
    let artifact = compile(kernel, target).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let module = device_with(target, Arc::new(EachTime))
        .and_then(|device| device.load(&artifact))
        .unwrap_or_else(|e| panic!("{e}"));
    (artifact, module)
}

/// A kernel and its code for every target.
struct Loaded {
    kernel: Kernel,
    code: Vec<(Target, KernelArtifact, Arc<dyn Module>)>,
}

thread_local! {
    /// Most checks run the kernel of the check before with other sizes or values, and compiling takes longer than that.
    static LAST: RefCell<Option<Rc<Loaded>>> = const { RefCell::new(None) };
}

fn loaded(kernel: &Kernel) -> Rc<Loaded> {
    LAST.with_borrow_mut(|last| match last {
        Some(loaded) if loaded.kernel == *kernel => Rc::clone(loaded),
        _ => {
            let code = |target: Target| {
                let (artifact, module) = load(kernel, &target);
                (target, artifact, module)
            };
            let code = targets().into_iter().map(code).collect();
            Rc::clone(last.insert(Rc::new(Loaded { kernel: kernel.clone(), code })))
        }
    })
}

/// Bytes of every parameter for given dims; outputs are filled too, so that what is not written shows.
pub fn inputs(kernel: &Kernel, dims: &BTreeMap<String, i64>, seed: u64, edges: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed, 0);
    let elements = |p: &fusewright_codegen::kernel::Param| {
        let dims = |name: &str| dims.get(name).copied();
        p.shape.iter().map(|d| d.eval(&dims).expect("bound") as usize).product::<usize>()
    };
    kernel.params.iter().map(|p| fill(p.dtype, elements(p), &mut random, edges)).collect()
}

/// Runs a kernel on copies of the buffers behind which nothing can be accessed, and copies back.
pub fn launch(
    kernel: &Kernel,
    artifact: &KernelArtifact,
    module: &dyn Module,
    buffers: &mut [Vec<u8>],
    dims: &BTreeMap<String, i64>,
    threads: usize,
) {
    launch_beside(kernel, artifact, module, (buffers, Side::Behind), dims, threads);
}

/// As [`launch`], with every buffer beside a page on one side of it.
pub fn launch_beside(
    kernel: &Kernel,
    artifact: &KernelArtifact,
    module: &dyn Module,
    (buffers, side): (&mut [Vec<u8>], Side),
    dims: &BTreeMap<String, i64>,
    threads: usize,
) {
    let values: Vec<i64> = artifact.dims.iter().map(|d| dims[&d.name]).collect();
    let mut fenced: Vec<Fenced> = buffers.iter().map(|bytes| Fenced::new(bytes, side)).collect();
    let mut args: Vec<Arg<'_>> = fenced
        .iter_mut()
        .zip(&kernel.params)
        .map(|(b, p)| if p.access == ParamAccess::In { Arg::In(b) } else { Arg::Out(b) })
        .collect();
    let rows = artifact.launch.rows.count(&values);
    module.launch(&mut args, &values, rows, threads).unwrap_or_else(|e| panic!("{e}"));
    buffers.iter_mut().zip(&fenced).for_each(|(bytes, after)| bytes.copy_from_slice(after));
}

pub fn bind(dims: &[(&str, i64)]) -> BTreeMap<String, i64> {
    dims.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

/// Runs a kernel every way on the same bytes and compares every byte of every parameter.
#[track_caller]
pub fn check_on(kernel: &Kernel, dims: &[(&str, i64)], start: Vec<Vec<u8>>, threads: usize) {
    check_beside(kernel, &bind(dims), &start, (threads, &[Side::Behind]));
}

/// As [`check_on`], with every buffer beside a page on each of some sides.
#[track_caller]
pub fn check_beside(
    kernel: &Kernel,
    dims: &BTreeMap<String, i64>,
    start: &[Vec<u8>],
    (threads, sides): (usize, &[Side]),
) {
    let mut want: Vec<Buffer> = start.iter().cloned().map(Buffer::Bytes).collect();
    let rows = kernel.rows.eval(&|name| dims.get(name).copied()).expect("bound");
    run(kernel, &mut want, dims, 0..rows).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    for (target, artifact, module) in &loaded(kernel).code {
        for &side in sides {
            let mut got = start.to_vec();
            launch_beside(kernel, artifact, &**module, (&mut got, side), dims, threads);
            for ((param, got), want) in kernel.params.iter().zip(&got).zip(&want) {
                assert_eq!(got.len(), want.bytes().len());
                if let Some(first) = first_difference(param.dtype, got, want.bytes()) {
                    panic!("{target}: %{}{first}; {dims:?}\n{kernel}", param.name);
                }
            }
        }
    }
}

/// Checks on ordinary values, on edge values, with 1 thread and with 3.
#[track_caller]
pub fn check(text: &str, dims: &[(&str, i64)]) {
    let kernel = kernel(text);
    for (seed, edges, threads) in [(1, 0, 1), (2, 100, 3), (3, 5, 1)] {
        let start = inputs(&kernel, &bind(dims), seed, edges);
        check_on(&kernel, dims, start, threads);
    }
}
