//! `run`: compile a model, run it on stored inputs or on inputs made from a seed, compare, time.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fusewright::check::{self, Case, Differing, OutputCheck};
use fusewright::graph::interp::{Symbols, solve};
use fusewright::graph::{Graph, InputKind, Op};
use fusewright::inputs::{self, DEFAULT_ROWS, DEFAULT_SEED, Values, weights_as_inputs};
use fusewright::{
    Compiled, Error, HostTensor, OpCounts, Options, Placement, Program, Target, compile, fuse_graph, model,
};

use super::{Exit, FAILED, OK};
use crate::args::{Common, RunArgs};
use crate::files::Files;
use crate::output::{counters, idle, line, progress, stages, warning};

/// Timed runs per variant; the median is printed.
const TIMED_RUNS: usize = 15;

/// What inputs were made from.
struct Made {
    seed: u64,
    symbols: Symbols,
}

/// One case and what became of it.
struct Ran {
    case: Case,
    /// Names of all outputs by their positions.
    names: Vec<String>,
    /// The outputs by name, those that overwrite inputs last.
    outputs: Vec<(String, HostTensor)>,
    /// How each output compares, where there is something to compare with.
    checks: Option<Vec<OutputCheck>>,
    /// Where one kernel per op gives other bits than one kernel per region.
    unfused_differ: Option<Differing>,
    /// Where overwriting inputs gives other bits than results of their own, and where the new values are written; none
    /// where the graph updates no input.
    in_place: Option<(Differing, Placement)>,
}

/// A whole call.
struct Outcome {
    made: Option<Made>,
    cases: Vec<Ran>,
    compiled: Option<Compiled>,
    /// Where its ops are computed.
    ops: OpCounts,
    /// Median microseconds of the fused and of the unfused program.
    times: Option<[f64; 2]>,
    /// Whether one kernel per op has to give the same bits as one kernel per region.
    same_bits: bool,
}

pub fn main(args: &RunArgs, common: &Common) -> Exit {
    let files = Files::of(common).reads("MODEL", [&args.model]).reads("--check", &args.check);
    files.writes("--out", &args.out).check()?;
    progress(common.verbose, &format!("reading {}", args.model.display()));
    let graph = common.open(&args.model)?;
    model::check_runnable(&graph).map_err(|e| in_file(&args.model, e))?;
    let options = common.options()?;
    let (graph, made, cases) = given(args, graph)?;
    let told = match &made {
        Some(made) => made.symbols.clone(),
        None => told(&graph, args, &cases).map_err(|e| in_file(&args.model, e))?,
    };
    if args.unfused && args.device != 0 {
        return Err(Error::Input("`--unfused` runs no kernels, and takes no `--device`".to_owned()));
    }
    let outcome = if args.unfused {
        let graph = if options.relaxed { fuse_graph(&graph, &options)?.graph } else { graph };
        let ops = OpCounts::by_reference(&graph);
        reference(&graph, &told, cases, common).map(|cases| Outcome {
            cases,
            made,
            compiled: None,
            ops,
            times: None,
            same_bits: false,
        })
    } else {
        compiled((args, common, options), &graph, (made, &told), cases)
    };
    let outcome = outcome.map_err(|e| in_file(&args.model, e))?;
    if let Some(path) = &args.out {
        write(path, &outcome.cases)?;
    }
    if args.json {
        line(report::json(&outcome));
    } else {
        report::print(&outcome)?;
    }
    Ok(if outcome.passed() { OK } else { FAILED })
}

impl Outcome {
    /// Whether everything that was compared is right.
    fn passed(&self) -> bool {
        let right = |ran: &Ran| {
            let inside = ran.checks.iter().flatten().all(OutputCheck::passed);
            let in_place = ran.in_place.as_ref().is_none_or(|(differ, _)| differ.elements == 0);
            inside
                && in_place
                && !(self.same_bits && ran.unfused_differ.as_ref().is_some_and(|differ| differ.elements > 0))
        };
        self.cases.iter().all(right)
    }
}

/// The cases to run: those of the check file, or one that is made. Weights without data are made as well, so the graph
/// then takes them as inputs.
fn given(args: &RunArgs, graph: Graph) -> Result<(Graph, Option<Made>, Vec<Case>), Error> {
    if let Some(path) = &args.check {
        if let Some(option) = args.made.given().filter(|option| *option != "--dim") {
            return Err(Error::Input(format!("`{option}` is for inputs that are made, `--check` brings its own")));
        }
        check_weights(args, &graph)?;
        let cases = read_cases(path, &graph)?;
        return Ok((graph, None, cases));
    }
    let graph = weights_as_inputs(&graph, |kind| matches!(kind, InputKind::Weight(None)));
    let located = |e| in_file(&args.model, e);
    let symbols = inputs::symbols(&graph, &args.made.sizes()?, DEFAULT_ROWS).map_err(located)?;
    let seed = args.made.seed.unwrap_or(DEFAULT_SEED);
    let tensors = inputs::tensors(&graph, &symbols, seed, Values::Ordinary).map_err(located)?;
    let inputs = tensors.iter().map(HostTensor::of).collect::<Result<_, _>>().map_err(located)?;
    let case = Case { prefix: String::new(), inputs, expected: None };
    Ok((graph, Some(Made { seed, symbols }), vec![case]))
}

/// The values that `--dim` gives of symbols that no stored input tells.
fn told(graph: &Graph, args: &RunArgs, cases: &[Case]) -> Result<Symbols, Error> {
    let sizes = args.made.sizes()?;
    let shapes = |case: &Case| case.inputs.iter().map(|t| t.shape.clone()).collect::<Vec<_>>();
    let stored = cases.first().map(shapes).unwrap_or_default();
    let stored = solve(graph, &stored.iter().map(Vec::as_slice).collect::<Vec<_>>());
    if let Some((name, value)) = sizes.dims.keys().find_map(|name| stored.get_key_value(name)) {
        let message = format!("`--dim {name}` is for inputs that are made, those of `--check` say {name} = {value}");
        return Err(Error::Input(message));
    }
    let chosen = inputs::symbols(graph, &sizes, DEFAULT_ROWS)?;
    if let Some(name) = needed(graph).iter().find(|name| !stored.contains_key(*name) && !sizes.dims.contains_key(*name))
    {
        return Err(Error::Call(format!("no input says what symbol `{name}` is; `--dim {name}=N` does")));
    }
    Ok(chosen.into_iter().filter(|(name, _)| sizes.dims.contains_key(name)).collect())
}

/// The symbols that ops and their results speak of.
fn needed(graph: &Graph) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for node in graph.nodes() {
        if let Op::Prim(prim) = &node.op {
            prim.dims().into_iter().for_each(|dim| dim.collect_symbols(&mut names));
        }
        node.results.iter().flat_map(|&v| &graph.ty(v).shape).for_each(|dim| dim.collect_symbols(&mut names));
    }
    names
}

/// Refuses a model whose file lacks weights where stored results are to be compared: they are of those weights.
fn check_weights(args: &RunArgs, graph: &Graph) -> Result<(), Error> {
    let weights = graph.inputs().iter().filter(|input| matches!(input.kind, InputKind::Weight(_)));
    let (without, with): (Vec<_>, Vec<_>) = weights.partition(|input| matches!(input.kind, InputKind::Weight(None)));
    let Some(first) = without.first() else { return Ok(()) };
    let (lacking, all) = (without.len(), without.len() + with.len());
    Err(Error::Input(format!(
        "{}: `--check` compares results that depend on the weights, and the file has no data for {lacking} of {all}, \
         such as `{}`: export the model with its weights, or leave `--check` out, and weights are made from a seed too",
        args.model.display(),
        first.name
    )))
}

fn read_cases(path: &Path, graph: &Graph) -> Result<Vec<Case>, Error> {
    check::cases(graph, &fusewright::read_safetensors(path)?).map_err(|e| in_file(path, e))
}

/// An error about what a file holds, with the file's name.
fn in_file(path: &Path, error: Error) -> Error {
    error.about(path.display())
}

/// Runs the reference path only. Inputs that were made have nothing else to be compared with.
fn reference(graph: &Graph, told: &Symbols, cases: Vec<Case>, common: &Common) -> Result<Vec<Ran>, Error> {
    let run = |case: Case| {
        progress(common.verbose, &format!("running case `{}in0…` by the interpreter", case.prefix));
        let produced = check::reference_at(graph, told, &case.inputs.iter().collect::<Vec<_>>())?;
        let compare =
            |expected: &Vec<(usize, HostTensor)>| check::compare_at(graph, told, &case.inputs, expected, &produced);
        let checks = case.expected.as_ref().map(compare).transpose()?.map(|checks| marked(checks, common.relaxed));
        let (names, outputs) = (check::output_names(graph), named(graph, produced));
        Ok(Ran { case, names, outputs, checks, unfused_differ: None, in_place: None })
    };
    cases.into_iter().map(run).collect()
}

fn compiled(
    (args, common, options): (&RunArgs, &Common, Options),
    graph: &Graph,
    (made, told): (Option<Made>, &Symbols),
    cases: Vec<Case>,
) -> Result<Outcome, Error> {
    progress(common.verbose, &format!("compiling {} nodes for {}", graph.nodes().len(), args.target));
    let options = Options { device: args.device, ..options };
    idle(common.verbose, &options.pipeline.idle(graph));
    let fused = compile(graph, &args.target, &options)?;
    let unfused = compile(graph, &args.target, &Options { fuse: false, ..options })?;
    // The first thing that was wrong is said; single ops may meet it where fused ones have not.
    fused.warning.as_ref().or(unfused.warning.as_ref()).into_iter().for_each(|said| warning(said));
    stages(common.verbose, &fused.fused.passes, &fused.kernels);
    // Results are judged by the graph that is computed.
    let graph = if common.relaxed { &fused.fused.graph } else { graph };
    let threads = args.threads.into();
    let mut ran = Vec::with_capacity(cases.len());
    for case in cases {
        progress(common.verbose, &format!("running case `{}in0…`", case.prefix));
        let given: Vec<&HostTensor> = case.inputs.iter().collect();
        let produced = fused.program.run_at(told, &given, threads)?;
        // What a user brought to run is run once; what is made or stored is there to be compared.
        let expected = match (&case.expected, &made) {
            (Some(expected), _) => Some(expected.clone()),
            (None, Some(_)) => {
                progress(common.verbose, "running the reference interpreter");
                Some(ordered(graph, check::reference_at(graph, told, &given)?))
            }
            (None, None) => None,
        };
        let (mut checks, mut unfused_differ) = (None, None);
        if let Some(expected) = &expected {
            progress(common.verbose, "comparing with the intervals of the graph");
            let compared = check::compare_at(graph, told, &case.inputs, expected, &produced)?;
            checks = Some(marked(compared, common.relaxed));
            unfused_differ = Some(check::differing(&produced, &unfused.program.run_at(told, &given, threads)?)?);
        }
        let updates = graph.outputs().iter().any(|output| output.updates.is_some());
        let in_place = updates.then(|| in_place(&fused.program, told, (&case, &produced), threads)).transpose()?;
        let (names, outputs) = (check::output_names(graph), named(graph, produced));
        ran.push(Ran { case, names, outputs, checks, unfused_differ, in_place });
    }
    // What a host model takes says nothing of a device.
    let timed = ran.first().filter(|_| fused.program.simulated().is_none());
    let times = timed.map(|ran| times(&ran.case, told, [&fused.program, &unfused.program], threads)).transpose()?;
    counters(common.verbose, &fused);
    // An op by the reference interpreter is rounded correctly, a kernel's approximate functions within their bounds; and on
    // devices a reduction may have another tree in another kernel.
    let on_host = matches!(args.target, Target::Cpu | Target::CpuLlvm { .. });
    let same_bits = fused.fallbacks.is_empty() && on_host;
    Ok(Outcome { made, cases: ran, ops: fused.ops, compiled: Some(fused), times, same_bits })
}

/// Runs a case with the inputs overwritten that the graph updates, and compares.
fn in_place(
    program: &Program,
    told: &Symbols,
    (case, produced): (&Case, &[HostTensor]),
    threads: usize,
) -> Result<(Differing, Placement), Error> {
    let (results, placement) = program.run_overwriting(told, case.inputs.clone(), threads)?;
    Ok((check::differing(&results, produced)?, placement))
}

/// Checks that say whether relaxed mode computed what they judge.
fn marked(mut checks: Vec<OutputCheck>, relaxed: bool) -> Vec<OutputCheck> {
    checks.iter_mut().for_each(|check| check.relaxed = relaxed);
    checks
}

/// All outputs by their positions, those that overwrite inputs last.
fn ordered(graph: &Graph, outputs: Vec<HostTensor>) -> Vec<(usize, HostTensor)> {
    let updates = |at: usize| graph.outputs()[at].updates.is_some();
    let mut outputs: Vec<(usize, HostTensor)> = outputs.into_iter().enumerate().collect();
    outputs.sort_by_key(|(at, _)| updates(*at));
    outputs
}

/// All outputs by their names in files.
fn named(graph: &Graph, outputs: Vec<HostTensor>) -> Vec<(String, HostTensor)> {
    let names = check::output_names(graph);
    ordered(graph, outputs).into_iter().map(|(at, tensor)| (names[at].clone(), tensor)).collect()
}

/// Median microseconds of each program, runs interleaved.
fn times(case: &Case, told: &Symbols, programs: [&Program; 2], threads: usize) -> Result<[f64; 2], Error> {
    let inputs: Vec<&HostTensor> = case.inputs.iter().collect();
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..TIMED_RUNS {
        for (program, samples) in programs.iter().zip(&mut samples) {
            samples.push(program.time(told, &inputs, threads)?);
        }
    }
    Ok(samples.map(|mut s| {
        s.sort_by(f64::total_cmp);
        s[s.len() / 2]
    }))
}

fn write(path: &Path, cases: &[Ran]) -> Result<(), Error> {
    let of_case = |ran: &Ran| {
        let prefix = ran.case.prefix.clone();
        ran.outputs.clone().into_iter().map(move |(name, tensor)| (format!("{prefix}{name}"), tensor))
    };
    fusewright::write_safetensors(path, &cases.iter().flat_map(of_case).collect::<BTreeMap<_, _>>())
}
