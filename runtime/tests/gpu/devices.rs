//! Several GPUs of one process.

use std::thread;

use fusewright_runtime::RuntimeError;
use fusewright_runtime::cuda::{DeviceArg, DeviceBuffer, Gpu, Kernel, LaunchOptions, Stream};

use crate::skipped::skipped;
use crate::{artifact, kernel, turn, words};

/// The first two GPUs, or none, which is said under the name of the test.
fn two(test: &str) -> Option<[Gpu; 2]> {
    let (first, ..) = kernel(test)?;
    match Gpu::at(first.target(), 1) {
        Ok(second) => Some([first, second]),
        Err(error) => {
            skipped(test, error);
            None
        }
    }
}

fn counting(gpu: &Gpu, stream: &Stream, from: u32) -> Result<DeviceBuffer, RuntimeError> {
    let bytes: Vec<u8> = (from..from + 1000).flat_map(u32::to_le_bytes).collect();
    let buffer = gpu.buffer(bytes.len())?;
    buffer.upload(stream, &bytes)?;
    Ok(buffer)
}

fn enqueue(kernel: &Kernel, stream: &Stream, x: &DeviceBuffer, y: &DeviceBuffer) -> Result<(), RuntimeError> {
    let args = [DeviceArg::In(x), DeviceArg::Out(y)];
    kernel.enqueue(stream, &args, (&[1000], 1000), LaunchOptions::default())
}

#[test]
fn a_kernel_runs_on_two_gpus_by_turns_and_at_once() {
    let _turn = turn();
    let Some(gpus) = two("a_kernel_runs_on_two_gpus_by_turns_and_at_once") else { return };
    let run = || -> Result<(), RuntimeError> {
        let kernel = gpus[1].load(&artifact())?;
        let streams = [gpus[0].stream()?, gpus[1].stream()?];
        for turn in 0..6 {
            let at = turn as usize % 2;
            let (gpu, stream) = (&gpus[at], &streams[at]);
            let (x, y) = (counting(gpu, stream, turn)?, gpu.buffer(4000)?);
            enqueue(&kernel, stream, &x, &y)?;
            assert!(words(&y, stream).into_iter().eq(turn + 1..turn + 1001), "cuda:{at}");
        }
        thread::scope(|scope| {
            let works = gpus.iter().map(|gpu| {
                let kernel = kernel.clone();
                scope.spawn(move || -> Result<(), RuntimeError> {
                    let stream = gpu.stream()?;
                    let (x, y) = (counting(gpu, &stream, 5)?, gpu.buffer(4000)?);
                    for _ in 0..200 {
                        enqueue(&kernel, &stream, &x, &y)?;
                        enqueue(&kernel, &stream, &y, &x)?;
                    }
                    assert!(words(&x, &stream).into_iter().eq(405..1405), "cuda:{}", gpu.ordinal());
                    Ok(())
                })
            });
            works.collect::<Vec<_>>().into_iter().try_for_each(|work| work.join().expect("it does not panic"))
        })
    };
    run().unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn graphs_are_of_the_gpu_that_they_were_captured_on() {
    let _turn = turn();
    let Some(gpus) = two("graphs_are_of_the_gpu_that_they_were_captured_on") else { return };
    let run = || -> Result<(), RuntimeError> {
        // It is loaded on the second one before the capture.
        let kernel = gpus[0].load(&artifact())?;
        kernel.load_on(&gpus[1])?;
        for gpu in [&gpus[1], &gpus[0]] {
            let mut stream = gpu.stream()?;
            let (x, y) = (counting(gpu, &stream, 7)?, gpu.buffer(4000)?);
            let graph = stream.capture(|stream| enqueue(&kernel, stream, &x, &y))?;
            graph.launch(&stream)?;
            assert!(words(&y, &stream).into_iter().eq(8..1008), "cuda:{}", gpu.ordinal());
            let other = gpus[other_of(gpu)].stream()?;
            let said = graph.launch(&other).expect_err("another GPU").to_string();
            assert!(said.contains(&format!("cuda:{}", other_of(gpu))), "{said}");
        }
        Ok(())
    };
    run().unwrap_or_else(|e| panic!("{e}"));
}

fn other_of(gpu: &Gpu) -> usize {
    1 - gpu.ordinal()
}

#[test]
fn memory_of_two_gpus_in_one_launch_is_refused_by_name() {
    let _turn = turn();
    let Some(gpus) = two("memory_of_two_gpus_in_one_launch_is_refused_by_name") else { return };
    let run = || -> Result<(), RuntimeError> {
        let kernel = gpus[0].load(&artifact())?;
        let stream = gpus[0].stream()?;
        let (x, y) = (counting(&gpus[0], &stream, 0)?, gpus[1].buffer(4000)?);
        let said = enqueue(&kernel, &stream, &x, &y).expect_err("two GPUs").to_string();
        assert!(said.contains("`y` lies on cuda:1, and the launch is on cuda:0"), "{said}");
        let args = [DeviceArg::In(&x), DeviceArg::Out(&y)];
        let said = kernel.prepare(&args, &[1000], 1000, LaunchOptions::default()).expect_err("two GPUs").to_string();
        assert!(said.contains("`y` lies on cuda:1"), "{said}");
        Ok(())
    };
    run().unwrap_or_else(|e| panic!("{e}"));
}
