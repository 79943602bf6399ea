//! Captures, our own and those of callers, are not broken by what is loaded, allocated or dropped meanwhile.

use crate::load::Count;
use crate::{add_one, gpu, loaded, read, started, words};

#[test]
fn what_is_dropped_during_a_capture_goes_back_behind_it() {
    let Some(driver) = started("what_is_dropped_during_a_capture_goes_back_behind_it") else { return };
    let gpu = gpu(0);
    let held = || [Count::Modules, Count::Allocations].map(|what| driver.count(0, what));
    let before = held();
    let raw = driver.stream(0);
    // SAFETY: the stand-in's streams live as long as the process.
    let stream = unsafe { gpu.adopt_stream(raw) };
    let mut own = gpu.stream().expect("a stream");
    let (kernel, kept) = (loaded(&gpu), loaded(&gpu));
    let (x, y) = (words(&gpu, &stream, &[1]), words(&gpu, &stream, &[0]));
    let z = words(&gpu, &stream, &[0]);
    add_one(&kernel, &stream, &x, &y).expect("launches");
    // The caller's: no mark can be set on it, and nothing may be waited for.
    driver.begin_capture(raw);
    add_one(&kept, &stream, &y, &z).expect("becomes a part of the graph");
    drop((kernel, x));
    let late = gpu.buffer(8).expect("memory that no stream has");
    drop(late);
    assert_eq!(held(), [before[0] + 2, before[1] + 3], "the stream is being captured");
    let nodes = driver.end_capture(raw);
    assert_eq!(nodes, 1, "nothing of ours but the launch became a part of the graph");
    stream.wait().expect("nothing holds it up");
    assert_eq!(held(), [before[0] + 1, before[1] + 2]);
    // Our own.
    let graph = own.capture(|stream| {
        let gone = loaded(&gpu);
        add_one(&kept, stream, &y, &z)?;
        drop(gone);
        assert_eq!(held()[0], before[0] + 2, "no code goes back during a capture");
        Ok(())
    });
    assert_eq!(graph.expect("captures").nodes(), 1);
    assert_eq!(held()[0], before[0] + 1);
    assert_eq!(read(&y, &stream), [2]);
    drop((y, z, kept));
    // The code that is in the caller's graph stays.
    assert_eq!((held(), driver.wrong()), ([before[0] + 1, before[1]], String::new()));
}

#[test]
fn a_kernel_is_loaded_and_memory_allocated_beside_a_capture() {
    let Some(driver) = started("a_kernel_is_loaded_and_memory_allocated_beside_a_capture") else { return };
    let (first, second) = (gpu(0), gpu(1));
    let raw = driver.stream(1);
    // SAFETY: the stand-in's streams live as long as the process.
    let stream = unsafe { second.adopt_stream(raw) };
    let kernel = loaded(&first);
    let (x, y) = (words(&second, &stream, &[1]), words(&second, &stream, &[0]));
    driver.begin_capture(raw);
    // It is not on the second device yet.
    add_one(&kernel, &stream, &x, &y).expect("is loaded, and becomes a part of the graph");
    let _other = loaded(&second);
    let _more = second.buffer(64).expect("memory");
    assert_eq!(driver.end_capture(raw), 1);
    assert_eq!((read(&y, &stream), driver.wrong()), (vec![0], String::new()), "a capture runs nothing");
}
