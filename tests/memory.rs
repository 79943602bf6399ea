//! Memory stays flat however many kernels are compiled, run and dropped: code is unmapped, and nothing of it stays behind.

#![cfg(target_os = "linux")]

use fusewright::graph::{DType, ScalarFn, TensorType};
use fusewright::{CacheChoice, Callable, Options, TensorMut, TensorRef, Tiers, fuse_with, settle};

/// Different kernels that are compiled in turns.
const KERNELS: usize = 100;
const LANES: usize = 64;
/// Least size of what a kernel that stayed would keep: its mapping.
const PAGE: u64 = 4096;

/// Kernel number `i`: the constant tells it from the others.
fn kernel(i: usize, options: &Options) -> Callable {
    let made = fuse_with(options, |b| {
        let rows = b.symbol("s", 0, None);
        let x = b.input("x", TensorType::new(DType::F32, [rows, (LANES as i64).into()]));
        let scaled = b.mul(x, b.float(DType::F32, 1.5 + i as f64)?)?;
        Ok(vec![b.map(ScalarFn::Max, &[scaled, x])?])
    });
    made.unwrap_or_else(|e| panic!("{e}"))
}

fn call(kernel: &Callable, i: usize) {
    let (x, mut y) = ([2f32; LANES], [0f32; LANES]);
    let shape = [1, LANES];
    kernel.call(&[TensorRef::new(&x, &shape)], &mut [TensorMut::new(&mut y, &shape)], 1).expect("the tensors fit");
    assert_eq!(y, [2.0 * (1.5 + i as f32); LANES]);
}

/// What a process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says what a process holds");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it names resident memory");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number of KiB") * 1024
}

/// How often kernels are compiled: `FUSEWRIGHT_LONG` times in long runs.
fn cycles(usual: usize) -> usize {
    std::env::var("FUSEWRIGHT_LONG").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Compiles, calls and drops, the first `warm` times without looking at memory, and fails if every other cycle, or more,
/// left a page behind.
fn check(what: &str, [warm, cycles]: [usize; 2], cycle: impl Fn(usize)) {
    (0..warm).for_each(|i| cycle(i % KERNELS));
    let before = resident();
    (0..cycles).for_each(|i| cycle(i % KERNELS));
    let grown = resident().saturating_sub(before);
    println!("{what}: {cycles} cycles after {warm}, {before} bytes resident, {grown} more at the end");
    assert!(grown < cycles as u64 * PAGE / 2, "{what}: {grown} bytes more after {cycles} cycles");
}

/// One test, because resident memory is the whole process's.
#[test]
fn memory_is_flat_over_compiling_running_and_dropping() {
    let choose = |tiers| Options { cache: CacheChoice::Off, tiers, ..Options::default() };
    let off = choose(Tiers::Off);
    check("one tier", [2 * KERNELS, cycles(1000)], |i| call(&kernel(i, &off), i));
    if cfg!(feature = "llvm") {
        let on = choose(Tiers::On);
        check("two tiers", [KERNELS, cycles(300)], |i| {
            let kernel = kernel(i, &on);
            call(&kernel, i);
            kernel.promote();
            call(&kernel, i);
            assert_eq!(kernel.tiers().swapped, 1);
        });
    } else {
        println!("skipped: two tiers (this build lacks feature `llvm`)");
    }
    settle();
}
