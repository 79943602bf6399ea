//! Kernels on a GPU, measured as `benches/gpu/README.md` says: each op at each number of rows, launched plainly and to
//! begin while the launch before ends, with empty caches and with inputs in the cache, beside a copy of as many bytes; and
//! compared with the interpreter in the same run.

mod compare;
mod data;
mod exact;
mod kinds;
mod launch;
mod model;
mod ops;
mod page;
mod rows;
mod search;
mod timing;
mod tune;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fusewright_abi::Target;
use fusewright_runtime::cuda::{DeviceArg, DeviceBuffer, Gpu, Kernel, LaunchOptions, Prepared, Stream};
use fusewright_runtime::{DeviceFailure, RuntimeError};

use crate::inputs::DEFAULT_SEED;
use crate::{Compiler, Error, ScheduleChoice};

pub use compare::{GpuPeers, GpuRatio};
pub use exact::Mismatch;
pub use kinds::{KindRow, gpu_kinds, launch_kinds};
pub use launch::{LaunchReport, LaunchRow, measure_launches};
pub use model::{ModelPart, ModelResults, ModelRow, ModelRun, measure_model};
pub use ops::{GpuCase, gpu_cases, kind_cases};
pub use page::gpu_page;
pub use rows::{GpuResults, GpuRow};
pub use tune::{Tuned, tune_gpu};

use data::Data;
use ops::CaseKernel;
use timing::{Timer, set_count};

/// Numbers of rows that are measured unless others are asked for.
pub const GPU_ROWS: [usize; 9] = [1, 8, 32, 64, 128, 512, 2048, 8192, 16384];
/// Most elements of one input: longer rows are measured at fewer of them.
const MOST_ELEMENTS: usize = 1 << 30;

/// How a run goes.
#[derive(Clone, Debug, Default)]
pub struct GpuRun {
    /// Numbers of rows; the usual ones if there are none.
    pub rows: Vec<usize>,
    /// Where rows are kept, and taken from if they are there.
    pub out: Option<PathBuf>,
    /// How long rows are begun.
    pub deadline: Option<Duration>,
    /// How rows of kernels are spread over blocks and threads.
    pub schedules: ScheduleChoice,
}

/// Measures cases on the GPU of a target, and says each row when it is done. Rows that the file of the run has are not
/// measured again.
///
/// # Errors
/// No GPU for the target; a file that cannot be read or written; a device that a kernel broke, in which case the row says so
/// in the file and another run goes on behind it.
pub fn measure_gpu(
    cases: &[GpuCase],
    target: &Target,
    run: &GpuRun,
    done: &mut dyn FnMut(&GpuRow),
) -> Result<GpuResults, Error> {
    let gpu = Gpu::of(target)?;
    let (major, minor) = gpu.driver();
    let results =
        GpuResults { device: gpu.name().to_owned(), driver: format!("CUDA {major}.{minor}"), rows: Vec::new() };
    let mut results = match &run.out {
        Some(path) => results.open(path)?,
        None => results,
    };
    let start = Instant::now();
    run.schedules.fits(std::slice::from_ref(target))?;
    let compiler = Compiler::new(target)?.with_schedules(&run.schedules)?;
    let (mut timer, data) = (Timer::new(gpu)?, Data::new(DEFAULT_SEED));
    let asked = if run.rows.is_empty() { &GPU_ROWS[..] } else { &run.rows };
    for case in cases {
        let missing = |rows: &usize| {
            let key = (case.op.as_str(), case.anchor, case.length, *rows);
            results.rows.iter().all(|row| row.key() != key) && rows.saturating_mul(case.length) <= MOST_ELEMENTS
        };
        let missing: Vec<usize> = asked.iter().copied().filter(missing).collect();
        if missing.is_empty() {
            continue;
        }
        let made = CaseKernel::of(case, &compiler)?;
        for rows in missing {
            if run.deadline.is_some_and(|deadline| start.elapsed() >= deadline) {
                return Ok(results);
            }
            let mut row = GpuRow {
                op: case.op.clone(),
                anchor: case.anchor,
                dim: case.length,
                rows,
                bytes: case.bytes_at(rows),
                us: Ok(0.0),
                hot_us: None,
                pdl_us: None,
                hot_pdl_us: None,
                copy_us: None,
                hot_copy_us: None,
                mismatched: Vec::new(),
                registers: None,
                local_bytes: None,
            };
            let failed = measure(&mut timer, &data, case, &made, &mut row).err();
            if let Some(failure) = &failed {
                row.us = Err(failure.error.to_string());
            }
            done(&row);
            results.rows.push(row);
            run.out.as_ref().map_or(Ok(()), |path| results.save(path))?;
            if let Some(failure) = failed.filter(|failure| failure.lost) {
                return Err(failure.error);
            }
        }
    }
    Ok(results)
}

/// Why a row has no figure.
struct Failure {
    error: Error,
    /// Whether the device does nothing more for this process.
    lost: bool,
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Failure {
        let lost =
            matches!(error, RuntimeError::Fault { .. } | RuntimeError::Device { failure: DeviceFailure::Fault, .. });
        Failure { error: error.into(), lost }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        // The facade's errors do not say which device failure they were.
        let lost = matches!(&error, Error::Device(text) if text.contains("the device is lost"));
        Failure { error, lost }
    }
}

/// The buffers of one launch: per parameter, or none where it has another one's.
struct Set {
    buffers: Vec<Option<DeviceBuffer>>,
}

/// Fills a row: checks one launch, then times all.
fn measure(timer: &mut Timer, data: &Data, case: &GpuCase, made: &CaseKernel, row: &mut GpuRow) -> Result<(), Failure> {
    let kernel = timer.gpu.load(&made.artifact)?;
    (row.registers, row.local_bytes) = (Some(kernel.registers()?), Some(kernel.local_bytes()?));
    let sized = made.at(&case.symbols_at(row.rows))?;
    let count = made.body.inputs().len();
    let inputs = made.body.inputs().iter().zip(&sized.shapes);
    let inputs: Vec<Vec<u8>> = inputs.map(|(input, shape)| data.of(&made.body, input, shape, 0)).collect();
    let first = set((&timer.gpu, &timer.stream), data, made, &sized, &inputs, None)?;
    let plain = LaunchOptions { dependent: false, distinct: true, unordered: false };
    let prepared = prepare(&kernel, made, &sized, &first, plain)?;
    prepared.enqueue(&timer.stream)?;
    timer.stream.wait()?;
    let read = |output: usize, from: usize, bytes: usize| -> Result<Vec<u8>, Error> {
        let mut to = vec![0; bytes];
        if let Some(buffer) = first.buffers.get(count + output).and_then(Option::as_ref) {
            buffer.download(&timer.stream, from, &mut to)?;
        }
        Ok(to)
    };
    row.mismatched = exact::compare(case, made, row.rows, &inputs, &read)?;
    let mut sets = vec![first];
    for number in 1..set_count(row.bytes) {
        sets.push(set((&timer.gpu, &timer.stream), data, made, &sized, &inputs, Some((&sets[0], number)))?);
    }
    drop(inputs);
    let probe = sets[0].buffers.get(count).cloned().flatten();
    let probe = probe.ok_or_else(|| Error::Internal("an op of the bench has no output".to_owned()))?;
    let all =
        |options| sets.iter().map(|set| prepare(&kernel, made, &sized, set, options)).collect::<Result<Vec<_>, _>>();
    let times = timer.times(&all(plain)?, row.bytes, &probe)?;
    (row.us, row.hot_us) = (Ok(times.us), times.hot_us);
    if kernel.is_dependent() {
        let times = timer.times(&all(LaunchOptions { dependent: true, ..plain })?, row.bytes, &probe)?;
        (row.pdl_us, row.hot_pdl_us) = (Some(times.us), times.hot_us);
    }
    drop((sets, probe, prepared));
    let copy = timer.copy(row.bytes)?;
    (row.copy_us, row.hot_copy_us) = (Some(copy.us), copy.hot_us);
    Ok(())
}

/// Buffers of a set. Sets behind the first share its weights, hold copies of its rows, and have places of their own.
fn set(
    (gpu, stream): (&Gpu, &Stream),
    data: &Data,
    made: &CaseKernel,
    sized: &ops::Sized,
    inputs: &[Vec<u8>],
    other: Option<(&Set, usize)>,
) -> Result<Set, Failure> {
    let body = &made.body;
    let mut buffers: Vec<Option<DeviceBuffer>> = vec![None; sized.shapes.len()];
    for (i, (input, bytes)) in body.inputs().iter().zip(inputs).enumerate() {
        // What is overwritten lies where the output is.
        let at = made.overwritten_by(i).map_or(i, |output| inputs.len() + output);
        let weight = matches!(input.kind, fusewright_graph::InputKind::Weight(_));
        let there = other.and_then(|(set, number)| Some((set.buffers[at].as_ref()?, number)));
        buffers[at] = Some(match there {
            Some((buffer, _)) if weight => buffer.clone(),
            Some((_, number)) if Data::is_index(body, input) => {
                let own = gpu.buffer(bytes.len())?;
                own.upload(stream, &data.of(body, input, &sized.shapes[i], number))?;
                own
            }
            Some((buffer, _)) => {
                let own = gpu.buffer(bytes.len())?;
                own.copy_from(stream, buffer)?;
                own
            }
            None => {
                let own = gpu.buffer(bytes.len())?;
                own.upload(stream, bytes)?;
                own
            }
        });
    }
    for (i, param) in made.artifact.params.iter().enumerate().skip(inputs.len()) {
        if buffers[i].is_none() {
            let own = gpu.buffer(param.dtype.bytes_for(sized.shapes[i].iter().product()))?;
            own.fill(stream, 0)?;
            buffers[i] = Some(own);
        }
    }
    Ok(Set { buffers })
}

fn prepare(
    kernel: &Kernel,
    made: &CaseKernel,
    sized: &ops::Sized,
    set: &Set,
    options: LaunchOptions,
) -> Result<Prepared, RuntimeError> {
    kernel.prepare(&arguments(made, set), &sized.dims, sized.rows, options)
}

/// The arguments of a launch on a set.
fn arguments<'s>(made: &CaseKernel, set: &'s Set) -> Vec<DeviceArg<'s>> {
    let inputs = made.body.inputs().len();
    let args = set.buffers.iter().enumerate().map(|(i, buffer)| match buffer {
        Some(buffer) if i < inputs => DeviceArg::In(buffer),
        Some(buffer) => DeviceArg::Out(buffer),
        None => DeviceArg::Same(made.overwritten_by(i).map_or(i, |output| inputs + output)),
    });
    args.collect()
}
