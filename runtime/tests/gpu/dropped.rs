//! What is dropped while a stream uses it stays until the stream is done, and nobody waits for that.

use std::time::{Duration, Instant};

use fusewright_runtime::RuntimeError;
use fusewright_runtime::cuda::{DeviceArg, LaunchOptions};

use crate::{artifact, kernel, kernel_of, turn, words};

/// How long the kernel takes.
const LONG: Duration = Duration::from_millis(300);

/// As the quick kernel, once the time is over.
const PTX: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry add_one_late(.param .u64 x, .param .u64 y, .param .u64 s, .param .u64 begin, .param .u64 end)
{
    .reg .u64 %a<6>;
    .reg .u64 %t<3>;
    .reg .u32 %r<3>;
    .reg .pred %early;
    mov.u64 %t0, %globaltimer;
    add.u64 %t1, %t0, 300000000;
wait:
    mov.u64 %t2, %globaltimer;
    setp.lt.u64 %early, %t2, %t1;
    @%early bra wait;
    ld.param.u64 %a0, [x];
    ld.param.u64 %a1, [y];
    ld.param.u64 %a2, [begin];
    cvta.to.global.u64 %a0, %a0;
    cvta.to.global.u64 %a1, %a1;
    mov.u32 %r0, %ctaid.x;
    cvt.u64.u32 %a3, %r0;
    add.u64 %a3, %a3, %a2;
    shl.b64 %a3, %a3, 2;
    add.u64 %a4, %a0, %a3;
    add.u64 %a5, %a1, %a3;
    ld.global.u32 %r1, [%a4];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%a5], %r1;
    ret;
}
";

#[test]
fn dropping_waits_for_no_stream() {
    let _turn = turn();
    let Some((gpu, busy, quick)) = kernel("dropping_waits_for_no_stream") else { return };
    let run = || -> Result<(), RuntimeError> {
        let late = gpu.load(&kernel_of("add_one_late", PTX))?;
        let mut other = gpu.stream()?;
        let (x, y, z) = (gpu.buffer(4)?, gpu.buffer(4)?, gpu.buffer(4)?);
        // Whatever is loaded and allocated for the first time is there before it is timed.
        let spare = gpu.buffer(4)?;
        spare.fill(&other, 0)?;
        quick
            .prepare(&[DeviceArg::In(&spare), DeviceArg::Out(&z)], &[1], 1, LaunchOptions::default())?
            .enqueue(&other)?;
        x.upload(&other, &41u32.to_le_bytes())?;
        let options = LaunchOptions::default();
        let graph = other
            .capture(|stream| late.enqueue(stream, &[DeviceArg::In(&x), DeviceArg::Out(&y)], (&[1], 1), options))?;
        let begin = Instant::now();
        graph.launch(&busy)?;
        quick.enqueue(&busy, &[DeviceArg::In(&y), DeviceArg::Out(&z)], (&[1], 1), options)?;
        drop((graph, late, x, y, quick.clone()));
        // Memory that went back too early would be had again here, and written.
        let again: Vec<_> = (0..16).map(|_| gpu.buffer(4)).collect::<Result<_, _>>()?;
        for buffer in &again {
            buffer.fill(&other, 0xff)?;
        }
        other.wait()?;
        let passed = begin.elapsed();
        // What the driver itself does with code beside a stream that is busy is only said.
        drop(gpu.load(&artifact())?);
        let loaded = begin.elapsed() - passed;
        assert_eq!(words(&z, &busy), [43]);
        let whole = begin.elapsed();
        assert!(
            passed < LONG / 2 && whole >= LONG,
            "{passed:?} until all was dropped, {whole:?} until the stream was done"
        );
        println!("{passed:?} until all was dropped, {whole:?} until the stream was done");
        println!("{loaded:?} for loading and unloading another kernel meanwhile");
        Ok(())
    };
    run().unwrap_or_else(|e| panic!("{e}"));
}
