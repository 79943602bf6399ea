//! Compiling a graph: passes, regions, kernels, program.

use std::collections::BTreeSet;
use std::time::Instant;

use fusewright_abi::{ContentKey, Target};
use fusewright_codegen::schedule;
use fusewright_fusion::pass::{
    Cx, Dump, Moment, Observer, PassManager, PatternReport, Pipeline, Relaxation, Timer, Verify,
};
use fusewright_fusion::patterns;
use fusewright_fusion::region::{Limits, Partition, partition};
use fusewright_fusion::vendor::{self, Replaced};
use fusewright_graph::{Graph, NodeId};

use crate::Error;
use crate::ascend::ToolkitChoice;
use crate::assembler::AssemblerChoice;
use crate::compiler::{Compilation, Compiler};
use crate::dtypes;
use crate::dump::DumpFolder;
use crate::lowering::{self, Lowered};
use crate::program::{Fallback, Home, OpCounts, Program, build};
use crate::progress::Progress;
use crate::schedules::ScheduleChoice;
use crate::settled::{Ahead, mark_settled};
use crate::store::CacheChoice;
use crate::threads::ThreadPool;
use crate::tiers::Tiers;
use crate::watch;

/// What a user may choose.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Whether regions are fused, if the pipeline forms any; if not, every op is a kernel of its own.
    pub fuse: bool,
    /// The passes, and the patterns of the user that one of them replaces.
    pub pipeline: Pipeline,
    /// Whether intermediate roundings may be dropped. Results are other bits then, and the report says where.
    pub relaxed: bool,
    /// Where compiled kernels are kept from process to process.
    pub cache: CacheChoice,
    /// Which compilers make CPU kernels, and when.
    pub tiers: Tiers,
    /// What assembles kernels for NVIDIA GPUs.
    pub assembler: AssemblerChoice,
    /// What compiles kernels for Ascend NPUs.
    pub toolkit: ToolkitChoice,
    /// How rows of GPU kernels are spread over blocks and threads.
    pub schedules: ScheduleChoice,
    /// The threads that launches run on.
    pub pool: ThreadPool,
    /// The number of the NVIDIA GPU to load kernels on, as the driver counts those of this process; of other targets there is
    /// one device.
    pub device: usize,
    /// Who is told of kernels as their compilation begins.
    pub progress: Progress,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            fuse: true,
            pipeline: Pipeline::default(),
            relaxed: false,
            cache: CacheChoice::Environment,
            tiers: Tiers::Environment,
            assembler: AssemblerChoice::Environment,
            toolkit: ToolkitChoice::Environment,
            schedules: ScheduleChoice::Environment,
            pool: ThreadPool::default(),
            device: 0,
            progress: Progress::default(),
        }
    }
}

/// What one pass did and how long it took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassTime {
    /// Name.
    pub name: String,
    /// Nodes that it changed.
    pub changed: usize,
    /// Microseconds.
    pub us: u64,
}

/// A graph after passes, divided into regions.
#[derive(Clone, Debug)]
pub struct Fused {
    /// The graph after all passes.
    pub graph: Graph,
    /// Its regions and what lies between them.
    pub partition: Partition,
    /// The nodes that attention was taken apart into, for a GPU.
    pub attention: BTreeSet<NodeId>,
    /// What the passes did.
    pub passes: Vec<PassTime>,
    /// The roundings that relaxed mode changed, by values of the graph.
    pub relaxations: Vec<Relaxation>,
    /// What became of the patterns of the user, in their order.
    pub user_patterns: Vec<PatternReport>,
    /// The regions that ops of a vendor may replace, where these are switched on. Programs compute them like all others.
    pub vendor: Replaced,
    /// What names the passes and the mode: equal graphs and equal keys give equal regions.
    pub pipeline: ContentKey,
}

/// A compiled graph and how it came about.
#[derive(Debug)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// The graph and its regions.
    pub fused: Fused,
    /// What fell back to the reference path, and why.
    pub fallbacks: Vec<Fallback>,
    /// Where its ops are computed.
    pub ops: OpCounts,
    /// The kernels that were compiled or taken from the cache, in order.
    pub kernels: Vec<Compilation>,
    /// What is wrong with the kernel cache or the environment's table of schedules, if something is; the program does not
    /// suffer from it.
    pub warning: Option<String>,
}

impl Compiled {
    /// How many kernels were taken from the cache.
    pub fn from_disk(&self) -> usize {
        self.kernels.iter().filter(|kernel| kernel.from_disk).count()
    }
}

/// Runs the passes over a graph and divides it into regions, such as every target takes them: rows come from memory.
///
/// # Errors
/// A bug in a pass.
pub fn fuse_graph(graph: &Graph, options: &Options) -> Result<Fused, Error> {
    fuse(graph, options, None, Ahead::Nothing)
}

/// The regions of a graph within the limits of a target, after [`fuse_graph`]'s passes, and those of them that a vendor's ops
/// may replace. What one target keeps of a row another computes again, with code that may grow without bound.
pub(crate) fn regions_for(fused: &Fused, options: &Options, target: &Target) -> (Partition, Replaced) {
    let mut partition = partition(&fused.graph, &limits(options, Some(target)));
    patterns::name_regions(&fused.graph, &mut partition);
    let vendor = vendor::replaced(&partition, &options.pipeline, options.relaxed);
    (partition, vendor)
}

/// The limits of regions for a target, or any.
fn limits(options: &Options, target: Option<&Target>) -> Limits {
    match target {
        _ if !(options.fuse && options.pipeline.fuses()) => Limits { nodes: 1, ..Limits::default() },
        Some(target) => schedule::limits(target),
        None => Limits::default(),
    }
}

/// As [`fuse_graph`], for what a compiler compiles for: what the library of a device does not take as it stands is taken apart
/// after the passes.
///
/// # Errors
/// A bug in a pass.
pub fn fuse_graph_for(graph: &Graph, options: &Options, compiler: &Compiler) -> Result<Fused, Error> {
    fuse(graph, options, Some(compiler.target()), Ahead::Nothing)
}

/// As [`fuse_graph`], for a target or any, and with what may be ahead of its kernels.
pub(crate) fn fuse(graph: &Graph, options: &Options, target: Option<&Target>, ahead: Ahead) -> Result<Fused, Error> {
    let manager = PassManager::new(options.pipeline.clone());
    let mut cx = Cx { relaxed: options.relaxed, ..Cx::default() };
    let start = Instant::now();
    let mut timer = Timer::new(|| start.elapsed().as_micros() as u64);
    let (dump, mut after) = (DumpFolder::from_environment(), Vec::new());
    let mut keep = Dump(|pass: &str, moment: Moment, graph: &Graph| {
        if dump.is_some() && moment == Moment::After {
            after.push((pass.to_owned(), graph.to_string()));
        }
    });
    // What a pass gave is kept before it is verified, so that a dump holds the graph that does not verify.
    let (before, mut verify) = (graph, Verify);
    let mut observers: [&mut dyn Observer; 3] = [&mut timer, &mut keep, &mut verify];
    let result = manager.run(graph, &mut cx, &mut observers);
    if let Some(dump) = &dump {
        dump.passes(before, &after)?;
    }
    let (graph, reports) = result.map_err(|e| Error::Internal(e.to_string()))?;
    let Lowered { graph, attention } = if target.map(Home::of) == Some(Home::Device) {
        lowering::for_gpu(&graph)?
    } else {
        Lowered { graph, attention: BTreeSet::new() }
    };
    let fuse = options.fuse && options.pipeline.fuses();
    let mut partition = partition(&graph, &limits(options, target));
    patterns::name_regions(&graph, &mut partition);
    let vendor = vendor::replaced(&partition, &options.pipeline, options.relaxed);
    // Launches of other devices do not overlap.
    if matches!(target, Some(Target::Cuda { .. })) && ahead == Ahead::Nothing {
        mark_settled(&graph, &mut partition);
    }
    if let Some(dump) = &dump {
        dump.regions(before, &partition, fuse)?;
    }
    let time = |i: usize| timer.times.get(i).map_or(0, |(_, us)| *us);
    let times = reports.iter().enumerate();
    let times = times.map(|(i, r)| PassTime { name: r.name.to_owned(), changed: r.changed, us: time(i) });
    let pipeline = options.pipeline.key(options.relaxed);
    Ok(Fused {
        passes: times.collect(),
        graph,
        partition,
        attention,
        relaxations: cx.relaxations,
        user_patterns: cx.pattern_reports,
        vendor,
        pipeline,
    })
}

/// Compiles a graph for a target that can run here.
///
/// # Errors
/// A target that is not available, a graph of a dtype that the target lacks, and internal errors. What else cannot be a
/// kernel falls back and is reported, not an error.
pub fn compile(graph: &Graph, target: &Target, options: &Options) -> Result<Compiled, Error> {
    let compiler = Compiler::of(target, options)?;
    let _watched = watch::graph(graph, compiler.target());
    let fused = fuse_graph_for(graph, options, &compiler)?;
    dtypes::all_taken(&fused.graph, compiler.backend(), compiler.target())?;
    let built = build(&fused.graph, &fused.partition, &compiler)?;
    let program = built.program.claiming(graph).attending(&fused.attention);
    let (fallbacks, ops) = (built.fallbacks, built.ops);
    Ok(Compiled { program, fallbacks, ops, fused, kernels: compiler.log(), warning: compiler.warning() })
}

/// Makes code of many graphs together, for a target whose compiler is faster so: compiling them then takes less time.
///
/// # Errors
/// As [`compile`].
pub(crate) fn prepare(graphs: &[Graph], target: &Target, options: &Options) -> Result<(), Error> {
    let compiler = Compiler::of(target, options)?;
    if !compiler.toolchain().compiles_together() {
        return Ok(());
    }
    let mut bodies = Vec::new();
    for graph in graphs {
        let fused = fuse_graph_for(graph, options, &compiler)?;
        for region in fused.partition.kernels() {
            let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
            bodies.push((region.name.clone(), body));
        }
    }
    let named: Vec<(&str, &Graph)> = bodies.iter().map(|(name, body)| (name.as_str(), body)).collect();
    compiler.prepare(&named);
    Ok(())
}
