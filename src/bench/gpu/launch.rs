//! What launches cost the host beyond the driver: the bare call of the driver, the same kernel prepared once, checked and
//! enqueued on buffers of the moment, and as the one command of a bound program, in turns.
//!
//! A figure is the median over batches of the host's time for a call. Batches are short enough for the driver's queue to
//! hold them, so that no call waits for the device, and the device is waited for in between.

use std::time::Instant;

use fusewright_abi::Target;
use fusewright_graph::InputKind;
use fusewright_runtime::cuda::{Gpu, LaunchOptions, Stream};

use super::data::Data;
use super::ops::{CaseKernel, GpuCase};
use super::timing::median;
use super::{arguments, prepare, set};
use crate::inputs::{DEFAULT_SEED, weights_as_inputs};
use crate::{Compiler, DeviceArgument, DeviceTensor, Error, compile};

/// Calls of a batch, fewer than drivers queue, and batches of each way to call.
const CALLS: usize = 256;
const BATCHES: usize = 33;

/// The host's time for a launch of one kernel, in microseconds, by the way it is launched.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchRow {
    /// Name of the case.
    pub name: String,
    /// Rows.
    pub rows: usize,
    /// Buffers and integers of the kernel.
    pub arguments: usize,
    /// The bare call of the driver.
    pub bare_us: f64,
    /// A launch that was prepared.
    pub prepared_us: f64,
    /// A launch on buffers of the moment, which is checked.
    pub checked_us: f64,
    /// A call of a program of this one kernel, bound to tensors.
    pub program_us: f64,
}

impl LaunchRow {
    /// The most that a way to launch costs beyond the bare call.
    pub fn own_us(&self) -> f64 {
        [self.prepared_us, self.checked_us, self.program_us].into_iter().fold(0.0, f64::max) - self.bare_us
    }
}

/// Times of launches on one device.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchReport {
    /// What the driver calls the device.
    pub device: String,
    /// Version of CUDA that the driver is of.
    pub driver: String,
    /// Calls of each way, over all batches.
    pub calls: usize,
    /// The cases in their order, each at every number of rows.
    pub rows: Vec<LaunchRow>,
}

/// Measures launches of cases, each at these numbers of rows.
///
/// # Errors
/// No GPU for the target; a case that does not compile or is several launches; a device that fails.
pub fn measure_launches(cases: &[GpuCase], target: &Target, rows: &[usize]) -> Result<LaunchReport, Error> {
    let gpu = Gpu::of(target)?;
    let (device, (major, minor)) = (gpu.name().to_owned(), gpu.driver());
    let compiler = Compiler::new(target)?;
    let (mut stream, data) = (gpu.stream()?, Data::new(DEFAULT_SEED));
    let mut measured = Vec::with_capacity(cases.len() * rows.len());
    for case in cases {
        let made = CaseKernel::of(case, &compiler)?;
        for &rows in rows {
            measured.push(measure((&gpu, &mut stream), &data, (case, &made), rows).map_err(|e| e.about(case.name()))?);
        }
    }
    Ok(LaunchReport { device, driver: format!("CUDA {major}.{minor}"), calls: CALLS * BATCHES, rows: measured })
}

fn measure(
    (gpu, stream): (&Gpu, &mut Stream),
    data: &Data,
    (case, made): (&GpuCase, &CaseKernel),
    rows: usize,
) -> Result<LaunchRow, Error> {
    let kernel = gpu.load(&made.artifact)?;
    let sized = made.at(&case.symbols_at(rows))?;
    let inputs = made.body.inputs().iter().zip(&sized.shapes);
    let inputs: Vec<Vec<u8>> = inputs.map(|(input, shape)| data.of(&made.body, input, shape, 0)).collect();
    let buffers = set((gpu, &*stream), data, made, &sized, &inputs, None).map_err(|failure| failure.error)?;
    let options = LaunchOptions { dependent: false, distinct: true, unordered: false };
    let prepared = prepare(&kernel, made, &sized, &buffers, options)?;
    let args = arguments(made, &buffers);
    // The same as a program. Weights are given like rows: the bench's graphs have no data of them.
    let graph = weights_as_inputs(&case.graph, |kind| matches!(kind, InputKind::Weight(_)));
    let compiled = compile(&graph, gpu.target(), &super::super::options(true))?;
    let on = compiled.program.on_gpu().ok_or_else(|| Error::Internal("a program for a GPU is none".to_owned()))?;
    let tensor = |(i, input): (usize, &fusewright_graph::Input)| {
        let at = made.overwritten_by(i).map_or(i, |output| inputs.len() + output);
        let buffer = buffers.buffers.get(at).cloned().flatten();
        let buffer = buffer.ok_or_else(|| Error::Internal(format!("`{}` has no buffer", input.name)))?;
        Ok(DeviceTensor { dtype: graph.ty(input.value).dtype, shape: sized.shapes[i].clone(), buffer })
    };
    let tensors = graph.inputs().iter().enumerate().map(tensor).collect::<Result<Vec<_>, Error>>()?;
    let given = tensors.iter().enumerate().map(|(i, tensor)| match made.overwritten_by(i) {
        Some(_) => DeviceArgument::InOut(tensor),
        None => DeviceArgument::Read(tensor),
    });
    let calls = on.bind(&given.collect::<Vec<_>>(), true)?;
    if calls.len() != 1 {
        return Err(Error::Internal(format!("the program is {} commands, not one", calls.len())));
    }
    let mut us: [Vec<f64>; 4] = Default::default();
    // The first batch of each brings code to the device, and is no figure.
    for batch in 0..=BATCHES {
        let bare = {
            let bare = prepared.bare(stream)?;
            batch_us(|| Ok(bare.enqueue()?))?
        };
        let stream = &*stream;
        stream.wait()?;
        let prepared = batch_us(|| Ok(prepared.enqueue(stream)?))?;
        stream.wait()?;
        let checked = batch_us(|| Ok(kernel.enqueue(stream, &args, (&sized.dims, sized.rows), options)?))?;
        stream.wait()?;
        let program = batch_us(|| calls.enqueue(stream))?;
        stream.wait()?;
        for (all, us) in us.iter_mut().zip([bare, prepared, checked, program]).filter(|_| batch > 0) {
            all.push(us);
        }
    }
    let [bare_us, prepared_us, checked_us, program_us] = us.map(median);
    let arguments = args.len() + sized.dims.len();
    Ok(LaunchRow { name: case.name(), rows, arguments, bare_us, prepared_us, checked_us, program_us })
}

/// The host's microseconds for a call, over a batch of them.
fn batch_us(call: impl Fn() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..CALLS {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_the_dearest_way_beyond_the_bare_call() {
        let [bare_us, prepared_us, checked_us, program_us] = [2.0, 2.5, 3.25, 2.75];
        let row = LaunchRow { name: "A".into(), rows: 1, arguments: 5, bare_us, prepared_us, checked_us, program_us };
        assert!((row.own_us() - 1.25).abs() < 1e-9);
    }

    #[test]
    fn a_batch_makes_its_calls_and_stops_at_the_first_that_fails() {
        let count = std::cell::Cell::new(0);
        let call = |fails: usize| {
            count.set(count.get() + 1);
            if count.get() == fails { Err(Error::Call("no".to_owned())) } else { Ok(()) }
        };
        assert!(batch_us(|| call(0)).is_ok_and(|us| us >= 0.0));
        assert_eq!(count.replace(0), CALLS);
        assert!(batch_us(|| call(3)).is_err());
        assert_eq!(count.get(), 3);
    }
}
