//! `bench --tune`: measures the schedules that a kernel can have on the device, and keeps those that are faster than the
//! rule's in a table. Outputs of every schedule are compared with those of the rule's, to the bit.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fusewright_abi::Target;
use fusewright_codegen::schedule::{KernelSchedule, ScheduleTable, Timed, content_of};
use fusewright_runtime::RuntimeError;
use fusewright_runtime::cuda::{DeviceBuffer, Gpu, Kernel, LaunchOptions};

use super::data::Data;
use super::ops::{CaseKernel, GpuCase, Sized};
use super::search::{Found, search};
use super::timing::{PROBED, Timer, set_count};
use super::{Failure, GPU_ROWS, GpuRun, MOST_ELEMENTS, Set, prepare, set};
use crate::inputs::DEFAULT_SEED;
use crate::{Compiler, Error, ScheduleChoice, read_schedules, write_whole};

/// What was found for one kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuned {
    /// Name of the case.
    pub name: String,
    /// Schedules that were measured.
    pub candidates: usize,
    /// The fastest; the rule's if none is faster.
    pub schedule: KernelSchedule,
    /// How many times as fast it is as the rule's, in the geometric mean.
    pub gain: f64,
    /// By numbers of rows.
    pub times: Vec<Timed>,
}

/// Searches schedules of cases on the GPU of a target, and writes the table after each of them. Kernels that the table has
/// already are left as they are, so that a run goes on where an earlier one ended.
///
/// # Errors
/// No GPU for the target; a table of another target or device; a file that cannot be read or written; a schedule whose
/// results are other bits than the rule's, which is a defect; a device that fails.
pub fn tune_gpu(
    cases: &[GpuCase],
    target: &Target,
    run: &GpuRun,
    path: &Path,
    done: &mut dyn FnMut(&Tuned),
) -> Result<ScheduleTable, Error> {
    let gpu = Gpu::of(target)?;
    let (major, minor) = gpu.driver();
    let by_rule = Compiler::new(target)?;
    let backend = by_rule.backend();
    let schedules = backend.schedules();
    let schedules = schedules.ok_or_else(|| Error::Input(format!("target `{target}` has no schedules to choose")))?;
    let mut table = ScheduleTable::empty(target);
    table.device = gpu.name().to_owned();
    table.driver = format!("CUDA {major}.{minor}");
    table.tools = format!("{}, {}", backend.about().name, backend.fingerprint());
    table.kernels = kept(path, &table)?.kernels;
    let start = Instant::now();
    let (mut timer, data) = (Timer::new(gpu)?, Data::new(DEFAULT_SEED));
    let mut asked = if run.rows.is_empty() { GPU_ROWS.to_vec() } else { run.rows.clone() };
    asked.sort_unstable();
    for case in cases {
        let made = CaseKernel::of(case, &by_rule)?;
        if table.kernels.contains_key(&content_of(&made.kernel)) {
            continue;
        }
        if run.deadline.is_some_and(|deadline| start.elapsed() >= deadline) {
            break;
        }
        let fits = |rows: &usize| rows.saturating_mul(case.length) <= MOST_ELEMENTS;
        let rows: Vec<usize> = asked.iter().copied().filter(fits).collect();
        let (candidates, rule) = (schedules.candidates(&made.kernel), schedules.of(&made.kernel));
        let mut bench = Bench { timer: &mut timer, data: &data, case, made: &made, sized: None };
        let Found { schedule, times } = search(&rule, &candidates, &rows, &mut |schedule, rows| {
            bench.us(schedule, &rule, rows).map_err(|error| error.about(format!("{} as `{schedule}`", case.name())))
        })?;
        let found = Found { schedule, times };
        table.insert(&made.kernel, found.schedule.clone(), found.times.clone());
        write_whole(path, table.to_string().as_bytes())?;
        let (gain, candidates) = (found.gain(), candidates.len());
        done(&Tuned { name: case.name(), candidates, schedule: found.schedule, gain, times: found.times });
    }
    Ok(table)
}

/// The table that an earlier run left, or an empty one.
fn kept(path: &Path, own: &ScheduleTable) -> Result<ScheduleTable, Error> {
    if !path.exists() {
        return Ok(own.clone());
    }
    let table = read_schedules(path)?;
    let about = |table: &ScheduleTable| (table.target.clone(), table.device.clone(), table.driver.clone());
    if about(&table) != about(own) {
        let ScheduleTable { target, device, driver, .. } = &table;
        let what =
            format!("its schedules are for `{target}`, measured on {device} with driver {driver}, not on this device");
        return Err(Error::Input(format!("{}: {what}", path.display())));
    }
    Ok(table)
}

/// The buffers of a case at a number of rows.
struct Bench<'b> {
    timer: &'b mut Timer,
    data: &'b Data,
    case: &'b GpuCase,
    made: &'b CaseKernel,
    sized: Option<AtRows>,
}

/// What does not depend on the schedule.
struct AtRows {
    rows: usize,
    sized: Sized,
    inputs: Vec<Vec<u8>>,
    /// What no launch has touched, then what launches run on.
    sets: Vec<Set>,
    /// Outputs of the rule's schedule.
    right: Vec<Vec<u8>>,
}

impl Bench<'_> {
    /// Microseconds of a launch with empty caches: the geometric mean of plain and dependent launches. None of a schedule
    /// that cannot be loaded.
    fn us(&mut self, schedule: &KernelSchedule, rule: &KernelSchedule, rows: usize) -> Result<Option<f64>, Error> {
        if self.sized.as_ref().is_none_or(|sized| sized.rows != rows) {
            // The memory of the one before is needed.
            self.sized = None;
            let mut at = self.at(rows).map_err(|failure| failure.error)?;
            let kernel = self.load(rule)?;
            let kernel = kernel.ok_or_else(|| Error::Device("the driver refuses the kernel".to_owned()))?;
            at.right = self.outputs(&kernel, &at).map_err(|failure| failure.error)?;
            self.sized = Some(at);
        }
        let Some(at) = self.sized.take() else { return Ok(None) };
        let us = self.us_at(schedule, &at);
        self.sized = Some(at);
        us
    }

    fn us_at(&mut self, schedule: &KernelSchedule, at: &AtRows) -> Result<Option<f64>, Error> {
        let Some(kernel) = self.load(schedule)? else { return Ok(None) };
        let outputs = self.outputs(&kernel, at).map_err(|failure| failure.error)?;
        if outputs != at.right {
            return Err(Error::Internal(format!("at {} rows its results are not those of the rule", at.rows)));
        }
        let bytes = self.case.bytes_at(at.rows);
        let probe = at.sets[1].buffers.get(at.inputs.len()).cloned().flatten();
        let probe = probe.ok_or_else(|| Error::Internal("an op of the bench has no output".to_owned()))?;
        let mut time = |dependent| -> Result<f64, Error> {
            let options = LaunchOptions { dependent, distinct: true, unordered: false };
            let launches = at.sets[1..].iter().map(|set| prepare(&kernel, self.made, &at.sized, set, options));
            self.timer.cold_us(&launches.collect::<Result<Vec<_>, _>>()?, bytes, &probe)
        };
        let plain = time(false)?;
        Ok(Some(if kernel.is_dependent() { (plain * time(true)?).sqrt() } else { plain }))
    }

    /// The case's kernel as a schedule says; none if the driver refuses it.
    fn load(&self, schedule: &KernelSchedule) -> Result<Option<Kernel>, Error> {
        let target = &self.made.artifact.target;
        let mut table = ScheduleTable::empty(target);
        table.insert(&self.made.kernel, schedule.clone(), Vec::new());
        let compiler = Compiler::new(target)?.with_schedules(&ScheduleChoice::Table(Arc::new(table)))?;
        match self.timer.gpu.load(&CaseKernel::of(self.case, &compiler)?.artifact) {
            Err(RuntimeError::Artifact { .. }) => Ok(None),
            loaded => Ok(Some(loaded?)),
        }
    }

    fn at(&self, rows: usize) -> Result<AtRows, Failure> {
        let sized = self.made.at(&self.case.symbols_at(rows))?;
        let body = &self.made.body;
        let inputs = body.inputs().iter().zip(&sized.shapes);
        let inputs: Vec<Vec<u8>> = inputs.map(|(input, shape)| self.data.of(body, input, shape, 0)).collect();
        let mut sets = vec![set((&self.timer.gpu, &self.timer.stream), self.data, self.made, &sized, &inputs, None)?];
        for number in 0..set_count(self.case.bytes_at(rows)) {
            sets.push(set(
                (&self.timer.gpu, &self.timer.stream),
                self.data,
                self.made,
                &sized,
                &inputs,
                Some((&sets[0], number)),
            )?);
        }
        Ok(AtRows { rows, sized, inputs, sets, right: Vec::new() })
    }

    /// What one launch on inputs that nothing overwrote gives.
    fn outputs(&self, kernel: &Kernel, at: &AtRows) -> Result<Vec<Vec<u8>>, Failure> {
        let fresh = set(
            (&self.timer.gpu, &self.timer.stream),
            self.data,
            self.made,
            &at.sized,
            &at.inputs,
            Some((&at.sets[0], 0)),
        )?;
        let options = LaunchOptions { dependent: false, distinct: true, unordered: false };
        let stream = &self.timer.stream;
        prepare(kernel, self.made, &at.sized, &fresh, options)?.enqueue(stream)?;
        let read = |buffer: &DeviceBuffer| -> Result<Vec<u8>, Failure> {
            let mut bytes = vec![0; buffer.len().min(PROBED)];
            buffer.download(stream, 0, &mut bytes)?;
            Ok(bytes)
        };
        fresh.buffers.iter().skip(at.inputs.len()).flatten().map(read).collect()
    }
}
