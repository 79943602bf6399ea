//! Kernels against the same graph with one kernel per op, and against a copy that moves as many bytes.
//!
//! The variants run one after the other here; `fusewright bench` interleaves them and prints ratios.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fusewright::bench::{inputs, kernel_suite, options};
use fusewright::{HostTensor, Target, compile};

const ROWS: [usize; 3] = [1, 32, 512];

fn kernels(c: &mut Criterion) {
    for case in kernel_suite().expect("the suite is well typed") {
        let program =
            |fuse: bool| compile(&case.graph, &Target::Cpu, &options(fuse)).expect("the suite compiles").program;
        let (fused, unfused) = (program(true), program(false));
        for rows in ROWS {
            let inputs = inputs(&case.graph, Some(rows)).expect("every symbol is a number of rows");
            let inputs: Vec<&HostTensor> = inputs.iter().collect();
            let outputs = fused.run(&inputs, 1).expect("the inputs fit");
            let bytes: usize = inputs.iter().copied().chain(&outputs).map(|t| t.bytes.len()).sum();
            let mut group = c.benchmark_group(format!("{}/{rows}", case.name));
            group.throughput(Throughput::Bytes(bytes as u64));
            group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600)).sample_size(10);
            group.bench_function("fused", |b| b.iter(|| fused.run_discarding(black_box(&inputs), 1)));
            group.bench_function("unfused", |b| b.iter(|| unfused.run_discarding(black_box(&inputs), 1)));
            // A copy of half as many bytes reads and writes all of them.
            let (source, mut sink) = (vec![1u8; bytes / 2], vec![0u8; bytes / 2]);
            group.bench_function("copy", |b| {
                b.iter(|| {
                    sink.copy_from_slice(black_box(&source));
                    black_box(&mut sink);
                });
            });
            group.finish();
        }
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
