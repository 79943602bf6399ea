//! What a kernel costs to compile, by Cranelift and, in a build with it, by LLVM: from the body of a region to a loaded
//! module, and each stage by itself.
#![allow(missing_docs)]

mod support;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use fusewright::{CacheChoice, Compiler, Target};
use fusewright_codegen::backend::Wanted;
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::kernel::verify;
use fusewright_codegen::lower::lower;
use fusewright_codegen::schedule::Schedule;
use fusewright_runtime::device_for;

/// The targets of this machine's CPU that the build has.
fn targets() -> Vec<Target> {
    if cfg!(feature = "llvm") { vec![Target::Cpu, Target::CPU_LLVM] } else { vec![Target::Cpu] }
}

fn compile(c: &mut Criterion) {
    for target in targets() {
        compile_for(c, &target);
    }
}

fn compile_for(c: &mut Criterion, target: &Target) {
    let compiler = Compiler::new(target).expect("the build has the target");
    let device = device_for(target).expect("the CPU is always a device");
    let schedule = Schedule::of(target);
    for (name, body) in support::fixture_bodies() {
        // What has no kernel on this target runs by reference and costs no compilation.
        let Ok((lowered, expanded)) = compiler.kernel("kernel", &body) else { continue };
        let mut group = c.benchmark_group(format!("compile/{target}/{name}"));
        group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600)).sample_size(10);
        group.bench_function("all", |b| {
            b.iter(|| {
                let artifact = compiler.artifact("kernel", black_box(&body)).expect("the body has a kernel");
                device.load(&artifact).expect("the kernel is for this machine")
            });
        });
        let folder = tempfile::tempdir().expect("the system has a place for temporary files");
        let cached = Compiler::new(target).expect("the build has the target");
        let cached = cached.with_cache(&CacheChoice::Folder(folder.path().to_owned()));
        cached.artifact("kernel", &body).expect("the body has a kernel");
        group.bench_function("all from disk", |b| {
            b.iter(|| {
                let artifact = cached.artifact("kernel", black_box(&body)).expect("the body has a kernel");
                device.load(&artifact).expect("the kernel is for this machine")
            });
        });
        assert_eq!(cached.log().iter().filter(|kernel| !kernel.from_disk).count(), 1);
        group.bench_function("lower", |b| b.iter(|| lower("kernel", black_box(&body), &schedule)));
        group.bench_function("expand", |b| b.iter(|| expand(black_box(&lowered), Column::Cpu)));
        group.bench_function("verify", |b| b.iter(|| verify(black_box(&expanded))));
        group.bench_function("emit", |b| {
            b.iter(|| compiler.backend().emit(black_box(&expanded), target, Wanted::Stages));
        });
        group.finish();
    }
}

criterion_group!(benches, compile);
criterion_main!(benches);
