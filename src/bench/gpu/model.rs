//! A whole model on a GPU: recorded as one CUDA graph and replayed, fused and with one kernel per op; and what is left of it
//! without matrix products and attention, the same launches on the same memory, as a graph that holds nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fusewright_abi::Target;
use fusewright_fusion::region::{FusedRegion, is_layout};
use fusewright_graph::{Def, Graph};
use fusewright_runtime::capture::Recorder;
use fusewright_runtime::cuda::{self, Gpu, GraphRecorder};
use serde_json::{Value, json};

use super::timing::{MODEL_REPLAYS, Timer};
use crate::program::{Launches, Program, Step, Work, bind};
use crate::{
    CommandBuffer, Compiled, DeviceArgument, DeviceTensor, Error, Fused, HostTensor, Options, ScheduleChoice, Tiers,
    compile, write_whole,
};

/// Runs of the kernels behind each other in the graph of the chained figure: what a long model's graph is like, in which
/// nothing waits for a graph to begin.
const CHAIN: usize = 32;
/// What results hold before a replay that must write them.
const POISON: u8 = 0x11;

/// Names of variants in files: fused or not, and overlapping or not.
const VARIANTS: [(&str, bool, bool); 4] =
    [("fused", true, true), ("unfused", false, true), ("fused plain", true, false), ("unfused plain", false, false)];

/// What of a model a graph holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModelPart {
    /// All of it.
    Whole,
    /// Its generated kernels, without those of attention and without copies of what products and attention give.
    Pieces,
}

/// Figures of a part of a model at one number of rows. Times are medians, in microseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelRow {
    /// What was recorded.
    pub part: ModelPart,
    /// Whether kernels are fused, or each op has its own.
    pub fused: bool,
    /// Whether a launch behind another may begin while that ends. In a whole model it is a product that most launches follow.
    pub overlapping: bool,
    /// Value of the largest symbol; none for a graph without symbols.
    pub rows: Option<usize>,
    /// One replay, caches empty.
    pub us: f64,
    /// One replay behind others.
    pub hot_us: f64,
    /// One of many runs behind each other in one graph; of the whole, none.
    pub chained_us: Option<f64>,
    /// Launches, products and copies of the graph.
    pub nodes: usize,
}

/// The figures of a model on a device.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ModelResults {
    /// What the driver calls the device.
    pub device: String,
    /// What was measured.
    pub rows: Vec<ModelRow>,
}

/// How a model is measured.
#[derive(Clone, Debug, Default)]
pub struct ModelRun {
    /// Where rows are kept, and taken from if they are there.
    pub out: Option<PathBuf>,
    /// How long rows are begun.
    pub deadline: Option<Duration>,
    /// How rows of kernels are spread over blocks and threads.
    pub schedules: ScheduleChoice,
}

/// Measures calls of a model on the GPU of a target, each given by its inputs, and says each row when it is done.
///
/// # Errors
/// No GPU for the target; inputs that do not fit the model; a step that runs on the host, which no graph holds; a replay
/// that gives other bits than the call; a file that cannot be read or written.
pub fn measure_model(
    graph: &Graph,
    target: &Target,
    calls: &[Vec<HostTensor>],
    run: &ModelRun,
    done: &mut dyn FnMut(&ModelRow),
) -> Result<ModelResults, Error> {
    let gpu = Gpu::of(target)?;
    let mut results = ModelResults { device: gpu.name().to_owned(), rows: Vec::new() };
    if let Some(path) = run.out.as_deref().filter(|path| path.exists()) {
        results = ModelResults::read(path)?.of(&results.device, path)?;
    }
    let (start, timer) = (Instant::now(), Timer::new(gpu)?);
    for fused in [true, false] {
        let options =
            Options { fuse: fused, schedules: run.schedules.clone(), tiers: Tiers::Off, ..Options::default() };
        let mut compiled = None;
        for inputs in calls {
            let rows = rows_of(graph, inputs)?;
            let known = |row: &ModelRow| (row.fused, row.rows) == (fused, rows);
            if results.rows.iter().any(known) || run.deadline.is_some_and(|deadline| start.elapsed() >= deadline) {
                continue;
            }
            let compiled = match &compiled {
                Some(compiled) => compiled,
                None => compiled.insert(compile(graph, target, &options)?),
            };
            for row in measure(&timer, compiled, inputs, (fused, rows))? {
                done(&row);
                results.rows.push(row);
            }
            run.out
                .as_ref()
                .map_or(Ok(()), |path| write_whole(path, format!("{:#}\n", results.to_json()).as_bytes()))?;
        }
    }
    Ok(results)
}

/// The largest value of a symbol in a call.
fn rows_of(graph: &Graph, inputs: &[HostTensor]) -> Result<Option<usize>, Error> {
    let types: Vec<_> = inputs.iter().map(|tensor| (tensor.dtype, tensor.shape.as_slice())).collect();
    Ok(bind(graph, &types)?.values().max().and_then(|&rows| usize::try_from(rows).ok()))
}

/// The rows of a call of a compiled model.
fn measure(
    timer: &Timer,
    compiled: &Compiled,
    inputs: &[HostTensor],
    (fused, rows): (bool, Option<usize>),
) -> Result<[ModelRow; 3], Error> {
    let missing = || Error::Internal("a program for a GPU is not on one".to_owned());
    let on = compiled.program.on_gpu().ok_or_else(missing)?;
    let mut tensors = Vec::with_capacity(inputs.len());
    for HostTensor { dtype, shape, bytes } in inputs {
        let buffer = timer.gpu.buffer(bytes.len())?;
        buffer.upload(&timer.stream, bytes)?;
        tensors.push(DeviceTensor { dtype: *dtype, shape: shape.clone(), buffer });
    }
    let arguments: Vec<DeviceArgument<'_>> = tensors.iter().map(DeviceArgument::Read).collect();
    let whole = on.bind(&arguments, true)?;
    if let Some(host) = (0..whole.len()).find(|&command| whole.waits(command)) {
        let label = whole.label(host).unwrap_or_default();
        return Err(Error::Unavailable(format!("{label} runs on the host, so that no graph holds it")));
    }
    let pieces = pieces(&compiled.fused, &compiled.program);
    let alone = |overlapping| {
        on.bind_steps(&arguments, Launches { distinct: true, overlapping }, &|step| pieces.contains(&step))
    };
    let (pieces, plain) = (alone(true)?, alone(false)?);
    let mut recorder = GraphRecorder::new(timer.gpu.clone(), timer.gpu.stream()?);
    let mut row = |part, overlapping, commands: &CommandBuffer<'_>| -> Result<ModelRow, Error> {
        let (graph, cost) = recorder.record(|stream| commands.enqueue(stream))?;
        // Without products, pieces read what memory holds, which is what they left there the last time.
        if part == ModelPart::Whole {
            check(timer, commands, &graph)?;
        }
        let us = timer.replay_us(&graph, MODEL_REPLAYS, true)?;
        let hot_us = timer.replay_us(&graph, MODEL_REPLAYS, false)?;
        let chained_us = if part == ModelPart::Pieces {
            let (graph, _) = recorder.record(|stream| (0..CHAIN).try_for_each(|_| commands.enqueue(stream)))?;
            Some(timer.replay_us(&graph, MODEL_REPLAYS, false)? / CHAIN as f64)
        } else {
            None
        };
        Ok(ModelRow { part, fused, overlapping, rows, us, hot_us, chained_us, nodes: cost.nodes })
    };
    let whole = row(ModelPart::Whole, true, &whole)?;
    Ok([whole, row(ModelPart::Pieces, true, &pieces)?, row(ModelPart::Pieces, false, &plain)?])
}

/// Compares what a replay leaves in the results with what the commands leave there.
fn check(timer: &Timer, commands: &CommandBuffer<'_>, graph: &cuda::Graph) -> Result<(), Error> {
    let stream = &timer.stream;
    let results = || -> Result<Vec<Vec<u8>>, Error> {
        let outputs = commands.outputs().iter().flatten();
        let bytes = |tensor: &DeviceTensor| {
            let mut bytes = vec![0; tensor.buffer.len()];
            tensor.buffer.download(stream, 0, &mut bytes)?;
            Ok(bytes)
        };
        outputs.map(bytes).collect()
    };
    let poison = || commands.outputs().iter().flatten().try_for_each(|tensor| tensor.buffer.fill(stream, POISON));
    poison()?;
    commands.enqueue(stream)?;
    let called = results()?;
    poison()?;
    graph.launch(stream)?;
    graph.launch(stream)?;
    if results()? == called {
        return Ok(());
    }
    Err(Error::Device("a replay of the recorded call gives other bits than the call".to_owned()))
}

/// The steps that launch generated kernels, but for those of attention, and for copies of what products and attention give.
fn pieces(fused: &Fused, program: &Program) -> BTreeSet<usize> {
    let graph = program.graph();
    let kernels: Vec<&FusedRegion> = fused.partition.kernels().collect();
    let of_attention = |region: &FusedRegion| {
        region.nodes.iter().filter(|id| !is_layout(&graph.node(**id).op)).all(|id| fused.attention.contains(id))
    };
    let is_piece = |step: &Step| match &step.work {
        Work::Kernel(_) => {
            step.kernel.and_then(|kernel| kernels.get(kernel)).is_some_and(|region| !of_attention(region))
        }
        Work::Copy(Some(copy)) => match graph.def(copy.source) {
            Def::Node(id, _) => kernels.iter().any(|region| region.nodes.contains(&id) && !of_attention(region)),
            Def::Input(_) => true,
        },
        _ => false,
    };
    let steps = program.steps().iter().enumerate();
    steps.filter(|(_, step)| is_piece(step)).map(|(at, _)| at).collect()
}

impl ModelPart {
    /// What it is called in files.
    pub fn name(self) -> &'static str {
        match self {
            ModelPart::Whole => "whole",
            ModelPart::Pieces => "pieces",
        }
    }
}

impl ModelRow {
    /// What it is called in files beside the part.
    pub fn variant(&self) -> &'static str {
        let named =
            VARIANTS.iter().find(|(_, fused, overlapping)| (*fused, *overlapping) == (self.fused, self.overlapping));
        named.map_or("", |(name, ..)| name)
    }

    fn to_json(&self) -> Value {
        json!({
            "what": self.part.name(), "variant": self.variant(), "T": self.rows, "us": self.us, "hot_us": self.hot_us,
            "chained_us": self.chained_us, "nodes": self.nodes,
        })
    }

    fn from_json(row: &Value) -> Option<ModelRow> {
        let number = |key: &str| row[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let part = [ModelPart::Whole, ModelPart::Pieces].into_iter().find(|part| row["what"] == part.name())?;
        let (_, fused, overlapping) = *VARIANTS.iter().find(|(name, ..)| row["variant"] == *name)?;
        let (us, hot_us, chained_us) = (row["us"].as_f64()?, row["hot_us"].as_f64()?, row["chained_us"].as_f64());
        Some(ModelRow { part, fused, overlapping, rows: number("T"), us, hot_us, chained_us, nodes: number("nodes")? })
    }
}

impl ModelResults {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({ "device": self.device, "rows": self.rows.iter().map(ModelRow::to_json).collect::<Vec<_>>() })
    }

    /// From JSON as [`ModelResults::to_json`] writes it.
    pub fn from_json(file: &Value) -> Option<ModelResults> {
        let rows = file["rows"].as_array()?.iter().map(ModelRow::from_json).collect::<Option<_>>()?;
        Some(ModelResults { device: file["device"].as_str()?.to_owned(), rows })
    }

    /// From a file.
    ///
    /// # Errors
    /// A file that cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<ModelResults, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        let found = serde_json::from_str(&text).ok().and_then(|file| ModelResults::from_json(&file));
        found.ok_or_else(|| Error::Input(format!("{}: it holds no figures of a model", path.display())))
    }

    /// Refuses figures of another device.
    fn of(self, device: &str, path: &Path) -> Result<ModelResults, Error> {
        if self.device == device {
            return Ok(self);
        }
        let message = format!("{}: its figures are of {}, this is {device}", path.display(), self.device);
        Err(Error::Input(message))
    }

    /// How often as long a part takes with one kernel per op, by one of its figures.
    pub fn ratio(&self, row: &ModelRow, figure: impl Fn(&ModelRow) -> Option<f64>) -> Option<f64> {
        let same = |other: &&ModelRow| {
            !other.fused && (other.part, other.rows, other.overlapping) == (row.part, row.rows, row.overlapping)
        };
        Some(figure(self.rows.iter().find(same)?)? / figure(row)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::fuse;
    use crate::program::outline;
    use crate::settled::Ahead;
    use crate::{Compiler, Tiers};

    #[test]
    fn pieces_are_what_is_left_without_products_and_attention() {
        let text = "graph @layer(s: 1..; %x: bf16[s, 8], %w: bf16[8], %m: bf16[8, 8], %n: bf16[8, 8]) {\n  \
                    %a = rms_norm %x, %w {eps = 1e-5, round = once}\n  %q = matmul %a, %m {out = bf16}\n  \
                    %h = reshape %q {shape = [1, 1, s, 8]}\n  \
                    %r = sdpa %h, %h, %h {scale = 0.25, causal}\n  \
                    %t = reshape %r {shape = [s, 8]}\n  %p = matmul %t, %n {out = bf16}\n  %y = add %p, %x\n  return %y\n}\n";
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let compiler = Compiler::new(&Target::Cpu).expect("the host compiles");
        for fuse_regions in [true, false] {
            let options = Options { fuse: fuse_regions, tiers: Tiers::Off, ..Options::default() };
            let gpu = Target::Cuda { arch: "sm_90".to_owned() };
            let fused = fuse(&graph, &options, Some(&gpu), Ahead::Nothing).expect("the graph fuses");
            let program = outline(&fused.graph, &fused.partition, &compiler).expect("the regions compile").program;
            let steps: Vec<&Step> = pieces(&fused, &program).iter().map(|&at| &program.steps()[at]).collect();
            let [norm, add] = steps.as_slice() else { panic!("{steps:?}") };
            assert!(norm.label.contains("rms_norm"), "{}", norm.label);
            assert_eq!(add.outputs, [program.graph().outputs()[0].value], "{}", add.label);
            assert!(program.counts().kernels > steps.len(), "softmax is a kernel as well");
        }
    }

    #[test]
    fn rows_are_read_as_they_are_written() {
        let row = |fused, us| ModelRow {
            part: ModelPart::Pieces,
            fused,
            overlapping: true,
            rows: Some(32),
            us,
            hot_us: 3.0,
            chained_us: Some(2.5),
            nodes: 4,
        };
        let results = ModelResults { device: "G".to_owned(), rows: vec![row(true, 4.0), row(false, 6.0)] };
        assert_eq!(ModelResults::from_json(&results.to_json()), Some(results.clone()));
        assert_eq!(results.ratio(&results.rows[0], |row| Some(row.us)), Some(1.5));
        assert_eq!(results.ratio(&results.rows[0], |row| row.chained_us), Some(1.0));
        assert!(results.of("H", Path::new("f")).is_err_and(|e| e.to_string().contains("this is H")));
    }
}
