//! What is dropped goes back when the streams that used it are done with it; nobody waits.

use std::ffi::c_void;
use std::thread;

use fusewright_runtime::cuda::{DeviceArg, Gpu, LaunchOptions};

use crate::load::{Count, StandIn};
use crate::{add_one, gpu, loaded, read, started, words};

/// Modules and allocations of the first device.
fn held(driver: &StandIn) -> [i64; 2] {
    [Count::Modules, Count::Allocations].map(|what| driver.count(0, what))
}

/// A caller's stream as ours, twice.
fn adopted(driver: &StandIn, gpu: &Gpu) -> (*mut c_void, fusewright_runtime::cuda::Stream) {
    let raw = driver.stream(gpu.ordinal());
    // SAFETY: the stand-in's streams live as long as the process.
    (raw, unsafe { gpu.adopt_stream(raw) })
}

#[test]
fn what_a_stream_still_uses_stays_and_others_go_on() {
    let Some(driver) = started("what_a_stream_still_uses_stays_and_others_go_on") else { return };
    let gpu = gpu(0);
    let before = held(&driver);
    let (slow, on_slow) = adopted(&driver, &gpu);
    let (_, on_fast) = adopted(&driver, &gpu);
    let kernel = loaded(&gpu);
    let (x, y) = (words(&gpu, &on_fast, &[1, 2]), words(&gpu, &on_fast, &[0; 2]));
    let result = words(&gpu, &on_fast, &[0; 2]);
    driver.hold(slow, true);
    add_one(&kernel, &on_slow, &x, &y).expect("launches");
    add_one(&kernel, &on_slow, &y, &result).expect("launches");
    drop((x, y, kernel));
    assert_eq!(held(&driver), [before[0] + 1, before[1] + 3], "the stream has not run them");
    // Other streams, and what is dropped behind them, go on; the stand-in blames whoever waits for the one that is held.
    let (other, z) = (loaded(&gpu), words(&gpu, &on_fast, &[4, 5]));
    add_one(&other, &on_fast, &z, &z).expect_err("memory is given twice");
    let sum = words(&gpu, &on_fast, &[0; 2]);
    add_one(&other, &on_fast, &z, &sum).expect("launches");
    assert_eq!(read(&sum, &on_fast), [5, 6]);
    drop((z, sum));
    on_fast.wait().expect("nothing holds it up");
    assert_eq!(held(&driver), [before[0] + 2, before[1] + 3]);
    driver.hold(slow, false);
    assert_eq!(held(&driver)[1], before[1] + 1, "memory goes back by itself");
    assert_eq!(read(&result, &on_slow), [3, 4]);
    assert_eq!(held(&driver)[0], before[0] + 1, "code goes back with the next wait");
    drop((result, other));
    assert_eq!((held(&driver), driver.wrong()), (before, String::new()));
}

#[test]
fn prepared_launches_and_graphs_hand_on_where_they_were_used() {
    let Some(driver) = started("prepared_launches_and_graphs_hand_on_where_they_were_used") else { return };
    let gpu = gpu(0);
    let before = held(&driver);
    let (first, on_first) = adopted(&driver, &gpu);
    let (second, on_second) = adopted(&driver, &gpu);
    let mut own = gpu.stream().expect("a stream");
    let kernel = loaded(&gpu);
    let (x, y) = (words(&gpu, &own, &[1, 2]), words(&gpu, &own, &[0; 2]));
    let options = LaunchOptions::default();
    let launch = kernel.prepare(&[DeviceArg::In(&x), DeviceArg::Out(&y)], &[2], 2, options).expect("fits");
    let graph = own.capture(|stream| {
        launch.enqueue(stream)?;
        y.copy_from(stream, &x)
    });
    let graph = graph.expect("captures");
    assert_eq!(graph.nodes(), 2);
    driver.hold(first, true);
    driver.hold(second, true);
    launch.enqueue(&on_first).expect("launches");
    graph.launch(&on_second).expect("launches");
    drop((x, y, kernel, launch));
    assert_eq!(held(&driver), [before[0] + 1, before[1] + 2], "the graph keeps them");
    drop(graph);
    assert_eq!(held(&driver), [before[0] + 1, before[1] + 2], "both streams have them");
    driver.hold(second, false);
    assert_eq!(held(&driver), [before[0] + 1, before[1] + 2], "the first stream has them");
    driver.hold(first, false);
    own.wait().expect("nothing holds it up");
    assert_eq!((held(&driver), driver.wrong()), (before, String::new()));
}

#[test]
fn a_stream_of_our_own_may_go_first() {
    let Some(driver) = started("a_stream_of_our_own_may_go_first") else { return };
    let gpu = gpu(0);
    let before = held(&driver);
    let (raw, gate) = adopted(&driver, &gpu);
    let buffers: Vec<_> = (0..20)
        .map(|i| {
            let stream = gpu.stream().expect("a stream");
            let (kernel, x, y) = (loaded(&gpu), words(&gpu, &stream, &[i]), words(&gpu, &stream, &[0]));
            add_one(&kernel, &stream, &x, &y).expect("launches");
            drop(stream);
            drop((kernel, x));
            y
        })
        .collect();
    driver.hold(raw, true);
    // One that many streams used, of which those that are done are forgotten.
    for y in &buffers {
        let stream = gpu.stream().expect("a stream");
        buffers[0].fill(&stream, 0).expect("fills");
        y.fill(&stream, 0).expect("fills");
    }
    drop(buffers);
    driver.hold(raw, false);
    gate.wait().expect("nothing holds it up");
    assert_eq!((held(&driver), driver.wrong()), (before, String::new()));
}

#[test]
fn a_caller_who_keeps_all_until_the_end_is_asked_nothing() {
    let Some(driver) = started("a_caller_who_keeps_all_until_the_end_is_asked_nothing") else { return };
    let gpu = gpu(0);
    let before = held(&driver);
    let raw = driver.stream(0);
    // SAFETY: the stream lives, and all was run before anything is dropped.
    let stream = unsafe { gpu.borrow_stream(raw) };
    let kernel = loaded(&gpu);
    let (x, y) = (words(&gpu, &stream, &[1]), words(&gpu, &stream, &[0]));
    add_one(&kernel, &stream, &x, &y).expect("launches");
    stream.wait().expect("it runs");
    drop((stream, x, y));
    driver.hold(raw, true);
    drop(kernel);
    assert_eq!((held(&driver), driver.wrong()), (before, String::new()), "what the stream does now is another matter");
    driver.hold(raw, false);
}

#[test]
fn threads_drop_what_others_use() {
    let Some(driver) = started("threads_drop_what_others_use") else { return };
    let gpu = gpu(0);
    let before = held(&driver);
    thread::scope(|scope| {
        for seed in 0..4u32 {
            let (driver, gpu) = (&driver, &gpu);
            let raw = std::ptr::without_provenance_mut::<c_void>(driver.stream(0).expose_provenance());
            let address = raw.addr();
            scope.spawn(move || {
                // SAFETY: the stand-in's streams live as long as the process.
                let stream = unsafe { gpu.adopt_stream(std::ptr::with_exposed_provenance_mut(address)) };
                for i in 0..50 {
                    let (kernel, x, y) = (loaded(gpu), words(gpu, &stream, &[seed + i]), words(gpu, &stream, &[0]));
                    add_one(&kernel, &stream, &x, &y).unwrap_or_else(|e| panic!("{e}"));
                    drop((kernel, x));
                    assert_eq!(read(&y, &stream), [seed + i + 1]);
                }
            });
        }
    });
    gpu.stream().and_then(|stream| stream.wait()).expect("nothing holds it up");
    assert_eq!((held(&driver), driver.wrong()), (before, String::new()));
}
