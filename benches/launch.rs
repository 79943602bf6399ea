//! What a launch costs beyond its work: a kernel of a few lanes, called as a fused region and as a program.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use fusewright::graph::{Builder, DType, TensorType, TypeError, Value};
use fusewright::{CaptureOptions, CapturedProgram, HostTensor, Options, Target, TensorMut, TensorRef, compile, fuse};
use fusewright_runtime::shared_pool;

const LANES: usize = 16;

fn body(b: &Builder) -> Result<Vec<Value>, TypeError> {
    let ty = TensorType::new(DType::F32, [b.symbol("s", 0, None), (LANES as i64).into()]);
    let (x, y) = (b.input("x", ty.clone()), b.input("y", ty));
    Ok(vec![b.mul(b.add(x, y)?, y)?])
}

fn launch(c: &mut Criterion) {
    let mut group = c.benchmark_group("launch");
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600)).sample_size(20);
    let callable = fuse(body).expect("the body makes one kernel");
    let (x, y, mut out, shape) = ([1f32; LANES], [2f32; LANES], [0f32; LANES], [1, LANES]);
    group.bench_function("callable", |b| {
        b.iter(|| {
            let inputs = [TensorRef::new(black_box(&x), &shape), TensorRef::new(black_box(&y), &shape)];
            callable.call(&inputs, &mut [TensorMut::new(&mut out, &shape)], 1).expect("the tensors fit");
        });
    });
    // What a second thread costs a launch: one that has just worked, and one that sleeps.
    let pool = shared_pool();
    group.bench_function("pool, awake", |b| b.iter(|| pool.run(1, black_box(&|| ()))));
    group.bench_function("pool, asleep", |b| {
        let sleep = || std::thread::sleep(Duration::from_micros(300));
        b.iter_batched(sleep, |()| pool.run(1, black_box(&|| ())), BatchSize::PerIteration);
    });
    let b = Builder::new("launch");
    body(&b).expect("the body is well typed").into_iter().for_each(|value| b.output(value));
    let compiled = compile(&b.finish(), &Target::Cpu, &Options::default()).expect("the body compiles");
    let bytes = |value: f32| value.to_ne_bytes().repeat(LANES);
    let tensor = |value: f32| HostTensor { dtype: DType::F32, shape: shape.to_vec(), bytes: bytes(value) };
    let (x, y) = (tensor(1.0), tensor(2.0));
    group.bench_function("program", |b| b.iter(|| compiled.program.run_discarding(black_box(&[&x, &y]), 1)));
    let captured =
        CapturedProgram::new(compiled.program.into(), &CaptureOptions::new("s")).expect("it keeps rows apart");
    group.bench_function("captured program", |b| b.iter(|| captured.run_discarding(black_box(&[&x, &y]))));
    group.finish();
}

criterion_group!(benches, launch);
criterion_main!(benches);
