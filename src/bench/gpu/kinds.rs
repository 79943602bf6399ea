//! One kernel of each kind of schedule, launched a few times: what a tool that watches every access of a kernel can take.
//!
//! Kinds are those that the target's backend gives the ops of the bench and a few more, at every row length, for few rows and for the
//! fewest that have code of their own; of each the launch that moves the fewest bytes is taken. So no kind is missing
//! that an op has.

use std::collections::BTreeMap;

use fusewright_abi::Target;
use fusewright_runtime::cuda::{Gpu, LaunchOptions, Stream};

use super::data::Data;
use super::ops::{CaseKernel, GpuCase};
use super::{Mismatch, exact, prepare, set};
use crate::inputs::DEFAULT_SEED;
use crate::{Compiler, Error};

/// Rows of a launch where no more are needed: several blocks of teams, and no multiple of what shares a block.
const FEW: usize = 3;
/// Launches, so that one begins while another ends.
const LAUNCHES: usize = 3;

/// A launch of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct KindRow {
    /// The kind, in words.
    pub kind: String,
    /// Name of the case.
    pub name: String,
    /// Rows.
    pub rows: usize,
    /// Whether it was launched to begin while another ends as well; none before it was launched.
    pub dependent: Option<bool>,
    /// Per output and way to launch, what differs from the interpreter.
    pub mismatched: Vec<Mismatch>,
}

impl KindRow {
    /// Whether all that was computed is right.
    pub fn is_right(&self) -> bool {
        self.mismatched.iter().all(|mismatch| mismatch.differ == 0)
    }
}

/// What a target's schedules make of cases: of each kind the launch that moves the fewest bytes, and its kernel.
///
/// # Errors
/// A case that does not compile; a target without schedules.
fn chosen<'c>(cases: &'c [GpuCase], target: &Target) -> Result<Vec<(KindRow, &'c GpuCase, CaseKernel)>, Error> {
    let compiler = Compiler::new(target)?;
    let mut kinds: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
    let mut kernels = Vec::with_capacity(cases.len());
    for (number, case) in cases.iter().enumerate() {
        let made = CaseKernel::of(case, &compiler)?;
        let schedules = compiler.backend().schedules();
        let schedules =
            schedules.ok_or_else(|| Error::Input(format!("target `{target}` has no kinds of schedules")))?;
        let many = schedules.of(&made.kernel).many;
        for rows in [FEW].into_iter().chain(many.map(|(from, _)| from.max(FEW))) {
            let kind = schedules.kind(&made.kernel, rows);
            let kind = kind.ok_or_else(|| Error::Input(format!("target `{target}` has no kinds of schedules")))?;
            let least = (case.bytes_at(rows), number, rows);
            kinds.entry(kind).and_modify(|known| *known = least.min(*known)).or_insert(least);
        }
        kernels.push(Some(made));
    }
    let mut chosen = Vec::with_capacity(kinds.len());
    for (kind, (_, number, rows)) in kinds {
        let case = &cases[number];
        let made = match kernels[number].take() {
            Some(made) => made,
            // It is the smallest of another kind, too.
            None => CaseKernel::of(case, &compiler)?,
        };
        let row = KindRow { kind, name: case.name(), rows, dependent: None, mismatched: Vec::new() };
        chosen.push((row, case, made));
    }
    Ok(chosen)
}

/// The launches that stand for all kinds of cases, for a target that need not be here.
///
/// # Errors
/// A case that does not compile; a target without schedules.
pub fn gpu_kinds(cases: &[GpuCase], target: &Target) -> Result<Vec<KindRow>, Error> {
    Ok(chosen(cases, target)?.into_iter().map(|(row, ..)| row).collect())
}

/// Launches one kernel of each kind, plainly and to begin while another ends, and compares with the interpreter. Each is
/// said when it is done.
///
/// # Errors
/// As [`gpu_kinds`]; no GPU for the target; a kernel that faults.
pub fn launch_kinds(cases: &[GpuCase], target: &Target, done: &mut dyn FnMut(&KindRow)) -> Result<Vec<KindRow>, Error> {
    let gpu = Gpu::of(target)?;
    let (stream, data) = (gpu.stream()?, Data::new(DEFAULT_SEED));
    let mut rows = Vec::new();
    for (mut row, case, made) in chosen(cases, target)? {
        launch(&gpu, &stream, &data, (case, &made), &mut row).map_err(|e| e.about(case.name()))?;
        done(&row);
        rows.push(row);
    }
    Ok(rows)
}

fn launch(
    gpu: &Gpu,
    stream: &Stream,
    data: &Data,
    (case, made): (&GpuCase, &CaseKernel),
    row: &mut KindRow,
) -> Result<(), Error> {
    let kernel = gpu.load(&made.artifact)?;
    let sized = made.at(&case.symbols_at(row.rows))?;
    let count = made.body.inputs().len();
    let inputs = made.body.inputs().iter().zip(&sized.shapes);
    let inputs: Vec<Vec<u8>> = inputs.map(|(input, shape)| data.of(&made.body, input, shape, 0)).collect();
    row.dependent = Some(kernel.is_dependent());
    for dependent in [false, true].into_iter().filter(|dependent| kernel.is_dependent() || !dependent) {
        let options = LaunchOptions { dependent, distinct: true, unordered: false };
        // Sets of their own: an op that overwrites its input computes something else the second time.
        let sets = (0..LAUNCHES).map(|_| set((gpu, stream), data, made, &sized, &inputs, None));
        let sets = sets.collect::<Result<Vec<_>, _>>().map_err(|failure| failure.error)?;
        for set in &sets {
            prepare(&kernel, made, &sized, set, options)?.enqueue(stream)?;
        }
        stream.wait()?;
        for set in &sets {
            let read = |output: usize, from: usize, bytes: usize| -> Result<Vec<u8>, Error> {
                let mut to = vec![0; bytes];
                if let Some(buffer) = set.buffers.get(count + output).and_then(Option::as_ref) {
                    buffer.download(stream, from, &mut to)?;
                }
                Ok(to)
            };
            row.mismatched.extend(exact::compare(case, made, row.rows, &inputs, &read)?);
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use std::collections::BTreeSet;

    use super::super::kind_cases;
    use super::*;

    #[test]
    fn launches_of_all_kinds_are_few_small_and_cover_what_kernels_do() {
        let target: Target = "cuda:sm_90".parse().expect("a target");
        let cases = kind_cases().expect("the files are right");
        let kinds = gpu_kinds(&cases, &target).expect("every op compiles");
        let words: BTreeSet<&str> = kinds.iter().flat_map(|row| row.kind.split(' ')).collect();
        let wanted =
            "team block blocks loops uneven passes inner reduced groups searched ranked joined packed scattered";
        for word in wanted.split(' ') {
            assert!(words.contains(word), "no kind has `{word}`: {kinds:?}");
        }
        let all: BTreeSet<&str> = kinds.iter().map(|row| row.kind.as_str()).collect();
        assert_eq!(all.len(), kinds.len(), "one of each");
        for row in &kinds {
            let case = cases.iter().find(|case| case.name() == row.name).expect("it is a case");
            assert!(case.bytes_at(row.rows) < 32 << 20, "{row:?}");
        }
    }
}
