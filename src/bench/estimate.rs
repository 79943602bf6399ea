//! Estimates for NPUs: what kernels move and compute by their plans, and how long that takes at the figures of a chip's
//! documents. Nothing of it was ever measured, and every report says so.

use std::collections::BTreeMap;

use fusewright_abi::Target;
use fusewright_codegen::backend::ascend::{CHIPS, Chip, Work, emit_with_summary};
use fusewright_fusion::region::FusedRegion;
use fusewright_graph::Graph;
use fusewright_graph::interp::Symbols;
use fusewright_templates::bench::BenchPage;
use fusewright_templates::page::Table;

use super::{BenchCase, binding};
use crate::compiler::Compiler;
use crate::{Error, Options, fuse_graph_for};

/// What every report of estimates says.
pub const NEVER_MEASURED: &str = "estimate, never measured";

/// Microseconds that a launch takes at least, assumed: no document states it.
const LAUNCH_US: f64 = 5.0;

/// What estimates are made with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EstimateBasis {
    /// The chip.
    pub chip: Chip,
    /// Bytes per second of its memory; `None` where neither its documents nor the caller say it.
    pub bandwidth: Option<f64>,
    /// Whether the caller said it.
    pub given: bool,
    /// Megahertz of its cores, at one repeat of 256 bytes a cycle.
    pub mhz: f64,
    /// Microseconds that a launch takes at least.
    pub launch_us: f64,
}

impl EstimateBasis {
    /// The basis of a target's chip. `bandwidth` in bytes per second takes the place of what documents say.
    ///
    /// # Errors
    /// A target that is no NPU, or a chip that is not known.
    pub fn of(target: &Target, bandwidth: Option<f64>) -> Result<EstimateBasis, Error> {
        let Target::Ascend { chip } = target else {
            return Err(Error::Input(format!("`--estimate` is of NPUs, `--target ascend[:CHIP]`, not of `{target}`")));
        };
        let known = || CHIPS.iter().map(|chip| chip.name).collect::<Vec<_>>().join(", ");
        let found = CHIPS.iter().find(|known| known.name == chip);
        let chip =
            *found.ok_or_else(|| Error::Unavailable(format!("no Ascend chip `{chip}`; there are {}", known())))?;
        let speed = chip.speed();
        let given = bandwidth.is_some();
        Ok(EstimateBasis {
            chip,
            bandwidth: bandwidth.or(speed.bandwidth),
            given,
            mhz: speed.mhz,
            launch_us: LAUNCH_US,
        })
    }

    /// In words, with where each figure comes from.
    pub fn words(&self) -> String {
        let memory = match self.bandwidth {
            Some(bytes) => {
                format!("{:.2} TB/s of memory ({})", bytes / 1e12, if self.given { "given" } else { "documented" })
            }
            None => "no documented bandwidth of memory (`--bandwidth GB/s` gives one)".to_owned(),
        };
        format!(
            "{}: {} vector cores at {} MHz (documented), a repeat of 256 bytes a cycle (assumed), {memory}, {} µs a launch (assumed)",
            self.chip.vendor, self.chip.vector_cores, self.mhz, self.launch_us
        )
    }
}

/// What bounds a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// Bytes between memory and the chip.
    Memory,
    /// Vector instructions.
    Vector,
    /// The launch itself.
    Launch,
}

impl Bound {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Memory => "memory",
            Bound::Vector => "vector",
            Bound::Launch => "launch",
        }
    }
}

/// The estimate of one kernel at one number of rows.
#[derive(Clone, PartialEq, Debug)]
pub struct EstimateRow {
    /// Name of the case.
    pub name: String,
    /// Value of every symbol; `None` for a graph without symbols.
    pub rows: Option<usize>,
    /// The kernel's pattern.
    pub kernel: String,
    /// What is estimated, or why there is no kernel.
    pub estimate: Result<Estimate, String>,
}

/// What a launch takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// What it does.
    pub work: Work,
    /// Bytes of all its inputs and outputs, each once.
    pub least_bytes: u64,
    /// Microseconds of moving bytes, those that all cores load counted once; `None` without a bandwidth.
    pub memory_us: Option<f64>,
    /// Microseconds of vector instructions.
    pub vector_us: f64,
    /// Microseconds of all; `None` without a bandwidth.
    pub us: Option<f64>,
    /// What bounds it, as far as that is known.
    pub bound: Option<Bound>,
}

impl Estimate {
    fn of(work: Work, least_bytes: u64, basis: &EstimateBasis) -> Estimate {
        let once = work.shared.checked_div(work.cores.max(1)).unwrap_or(0);
        let bytes = work.loaded - work.shared + once + work.stored;
        let memory_us = basis.bandwidth.map(|bandwidth| bytes as f64 / bandwidth * 1e6);
        let vector_us = work.repeats_of_core as f64 / basis.mhz;
        let both = |memory: f64| if work.overlaps { memory.max(vector_us) } else { memory + vector_us };
        let us = memory_us.map(|memory| both(memory).max(basis.launch_us));
        let bound = memory_us.map(|memory| match both(memory) {
            both if both < basis.launch_us => Bound::Launch,
            _ if memory >= vector_us => Bound::Memory,
            _ => Bound::Vector,
        });
        Estimate { work, least_bytes, memory_us, vector_us, us, bound }
    }

    /// How many times as many bytes are moved as there are in inputs and outputs.
    pub fn moved_again(&self) -> f64 {
        (self.work.loaded + self.work.stored) as f64 / self.least_bytes.max(1) as f64
    }
}

/// Estimates of every kernel of a case at a number of rows.
///
/// # Errors
/// A graph that does not fuse, or does not take that number of rows.
pub fn estimate(
    case: &BenchCase,
    target: &Target,
    rows: Option<usize>,
    options: &Options,
    basis: &EstimateBasis,
) -> Result<Vec<EstimateRow>, Error> {
    let compiler = Compiler::new(target)?;
    let fused = fuse_graph_for(&case.graph, options, &compiler)?;
    let symbols = binding(&case.graph, rows)?;
    let row = |region: &FusedRegion| {
        let estimate = of_region(region, &compiler, &symbols, basis)?;
        Ok(EstimateRow { name: case.name.clone(), rows, kernel: region.name.clone(), estimate })
    };
    fused.partition.kernels().map(row).collect()
}

fn of_region(
    region: &FusedRegion,
    compiler: &Compiler,
    symbols: &Symbols,
    basis: &EstimateBasis,
) -> Result<Result<Estimate, String>, Error> {
    let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
    let kernel = match compiler.kernel(&region.name, &body) {
        Ok((_, expanded)) => expanded,
        Err(refused) if refused.is_refusal() => return Ok(Err(refused.to_string())),
        Err(error) => return Err(error.into()),
    };
    let summary = match emit_with_summary(&kernel, basis.chip.name) {
        Ok((_, summary)) => summary,
        Err(refused) => return Ok(Err(refused.to_string())),
    };
    let value = |name: &str| symbols.get(name).copied();
    Ok(match (summary.at(&value), bytes(&body, symbols)) {
        (Some(work), Some(least)) => Ok(Estimate::of(work, least, basis)),
        _ => Err("its sizes are not known at this number of rows".to_owned()),
    })
}

/// Bytes of all inputs and outputs of a body, each once.
fn bytes(body: &Graph, symbols: &Symbols) -> Option<u64> {
    let value = |name: &str| symbols.get(name).copied();
    let inputs = body.inputs().iter().map(|input| input.value);
    let values = inputs.chain(body.outputs().iter().map(|output| output.value));
    let mut sum = 0u64;
    for value_of in values {
        let ty = body.ty(value_of);
        let elements = u64::try_from(ty.elements().eval(&value).ok()?).ok()?;
        sum = sum.checked_add(elements.checked_mul(u64::from(ty.dtype.bits()))?.div_ceil(8))?;
    }
    Some(sum)
}

/// Heads of the columns that [`estimate_cells`] fills.
pub const ESTIMATE_COLUMNS: [&str; 12] = [
    "case",
    "rows",
    "kernel",
    "MB moved",
    "× least",
    "instructions",
    "repeats",
    "buffer",
    "memory µs",
    "vector µs",
    "µs",
    "bound",
];

/// A row of estimates as cells of a table.
pub fn estimate_cells(row: &EstimateRow) -> Vec<String> {
    let known = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let mut cells =
        vec![row.name.clone(), row.rows.map_or_else(|| "-".to_owned(), |n| n.to_string()), row.kernel.clone()];
    match &row.estimate {
        Ok(e) => cells.extend([
            format!("{:.3}", (e.work.loaded + e.work.stored) as f64 / 1e6),
            format!("{:.2}", e.moved_again()),
            e.work.instructions.to_string(),
            e.work.repeats.to_string(),
            e.work.buffer_bytes.to_string(),
            known(e.memory_us),
            format!("{:.2}", e.vector_us),
            known(e.us),
            e.bound.map_or("-", Bound::name).to_owned(),
        ]),
        Err(why) => {
            cells.extend(std::iter::repeat_n("-".to_owned(), ESTIMATE_COLUMNS.len() - cells.len() - 1));
            cells.push(format!("no kernel: {why}"));
        }
    }
    cells
}

/// The page of estimates.
///
/// # Errors
/// None that its template can raise.
pub fn estimate_page(target: &Target, basis: &EstimateBasis, rows: &[EstimateRow]) -> Result<String, Error> {
    let mut bounds: BTreeMap<&str, usize> = BTreeMap::new();
    for bound in rows.iter().filter_map(|row| row.estimate.as_ref().ok()?.bound) {
        *bounds.entry(bound.name()).or_default() += 1;
    }
    let refused = rows.iter().filter(|row| row.estimate.is_err()).count();
    let mut summary: Vec<(String, String)> =
        bounds.iter().map(|(bound, count)| (count.to_string(), format!("bound by {bound}"))).collect();
    summary.extend((refused > 0).then(|| (refused.to_string(), "without a kernel".to_owned())));
    let table = Table {
        title: format!("{NEVER_MEASURED}. {}", basis.words()),
        head: ESTIMATE_COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.iter().map(estimate_cells).collect(),
    };
    let title = format!("Kernels for {target}: {NEVER_MEASURED}");
    let page = BenchPage { title, summary, legend: Vec::new(), cases: Vec::new(), table };
    page.text().map_err(|e| Error::Internal(format!("the page of estimates: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::kernel_suite;

    fn basis(chip: &str, bandwidth: Option<f64>) -> EstimateBasis {
        EstimateBasis::of(&Target::Ascend { chip: chip.to_owned() }, bandwidth).unwrap_or_else(|e| panic!("{e}"))
    }

    fn of_case(name: &str, rows: usize, basis: &EstimateBasis) -> Estimate {
        let case = kernel_suite().expect("the suite").into_iter().find(|case| case.name == name).expect("a case");
        let target = Target::Ascend { chip: basis.chip.name.to_owned() };
        let found = estimate(&case, &target, Some(rows), &Options::default(), basis).unwrap_or_else(|e| panic!("{e}"));
        let [row] = found.as_slice() else { panic!("{found:?}") };
        row.estimate.clone().unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    #[test]
    fn a_norm_moves_every_row_once_and_its_weight_once_per_core() {
        let basis = basis("910b1", None);
        let e = of_case("add_rms_norm", 4096, &basis);
        let row = 4096 * 2;
        // Two rows come in and two go out; 48 cores load the weight.
        assert_eq!(e.work.loaded, 4096 * 2 * row + 48 * row);
        assert_eq!((e.work.stored, e.work.shared, e.least_bytes), (4096 * 2 * row, 48 * row, 4096 * 4 * row + row));
        let expected = (4096 * 4 * row + row) as f64 / 1.6e12 * 1e6;
        assert!((e.memory_us.expect("documented") - expected).abs() < 1e-9, "{e:?}");
        assert!(e.work.instructions > 0 && e.work.repeats >= e.work.instructions, "{e:?}");
        assert!(e.work.buffer_bytes > 0 && e.work.buffer_bytes <= basis.chip.buffer_bytes, "{e:?}");
        // A row alone is over before a launch is.
        let one = of_case("add_rms_norm", 1, &basis);
        assert_eq!((one.bound, one.us, one.work.cores), (Some(Bound::Launch), Some(LAUNCH_US), 1));
        // Twice the rows, twice the work.
        let twice = of_case("add_rms_norm", 8192, &basis);
        assert_eq!((twice.work.stored, twice.work.repeats), (2 * e.work.stored, 2 * e.work.repeats));
    }

    #[test]
    fn what_is_not_documented_is_not_estimated() {
        let e = of_case("silu_mul", 512, &basis("950", None));
        assert_eq!((e.memory_us, e.us, e.bound), (None, None, None));
        assert!(e.vector_us > 0.0);
        let given = of_case("silu_mul", 512, &basis("950", Some(4e12)));
        assert!(given.us.is_some() && given.bound.is_some());
        assert!(basis("950", None).words().contains("no documented bandwidth"));
        assert!(EstimateBasis::of(&Target::Cpu, None).is_err());
        let unknown = EstimateBasis::of(&Target::Ascend { chip: "920".to_owned() }, None).expect_err("no such chip");
        assert!(unknown.to_string().contains("910b1"), "{unknown}");
    }
}
