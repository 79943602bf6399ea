//! Arguments of every command.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use fusewright::graph::Graph;
use fusewright::inputs::Sizes;
use fusewright::model::read_text;
use fusewright::{Error, Options, Pipeline, ScheduleChoice, Target, UserPatterns, model};

use crate::help::{BENCH, CACHE, COMPILE, DOCTOR, EXIT, EXPLAIN, LISTS, OPT, RUN};

/// Fuses the memory-bound parts of LLM inference graphs into generated kernels.
#[derive(Debug, Parser)]
#[command(name = "fusewright", version, after_help = EXIT)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Common {
    /// Which passes run, as a TOML file
    #[arg(long, global = true, value_name = "F.toml")]
    pub pipeline: Option<PathBuf>,
    /// Patterns and their replacements (docs/patterns.md)
    #[arg(long, global = true, value_name = "F.fw")]
    pub patterns: Option<PathBuf>,
    /// Ops of Huawei's library that may replace regions with the same roundings, separated by commas, or `all`. They concern
    /// `explain`, and `compile` for `ascend` (docs/ascend.md)
    #[arg(long, global = true, value_name = "NAME", value_delimiter = ',')]
    pub vendor_ops: Vec<String>,
    /// Table of schedules of GPU kernels, written by `bench --tune`; it changes no result
    #[arg(long, global = true, value_name = "F")]
    pub schedules: Option<PathBuf>,
    /// Number of ranks of a group of collectives, if the model file does not state it
    #[arg(long, global = true, value_name = "NAME=RANKS", value_parser = group)]
    pub group: Vec<(String, u32)>,
    /// Drop intermediate roundings
    #[arg(long, global = true)]
    pub relaxed: bool,
    /// Print progress on standard error: the changes of each pass, and the stages of each kernel with their times
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Common {
    /// The graph of a model file, its groups of ranks as these options say.
    ///
    /// # Errors
    /// A file that holds no graph, and a group that none of its collectives waits for.
    pub fn open(&self, path: &Path) -> Result<Graph, Error> {
        model::open_with_groups(path, &self.group.iter().cloned().collect())
    }

    /// What these options choose.
    ///
    /// # Errors
    /// A file of passes or patterns that cannot be read, is not in its form, or holds a pattern that is not right.
    pub fn options(&self) -> Result<Options, Error> {
        let wrong = |path: &Path, error: &dyn Display| Error::Input(format!("{}: {error}", path.display()));
        let mut pipeline = match &self.pipeline {
            None => Pipeline::default(),
            Some(path) => Pipeline::from_toml(&read_text(path)?).map_err(|e| wrong(path, &e))?,
        };
        if let Some(path) = &self.patterns {
            pipeline.set_patterns(UserPatterns::parse(&read_text(path)?).map_err(|e| wrong(path, &e))?);
        }
        for name in &self.vendor_ops {
            pipeline.switch_vendor_op(name, true).map_err(|e| Error::Input(format!("`--vendor-ops`: {e}")))?;
        }
        Ok(Options { pipeline, relaxed: self.relaxed, schedules: self.schedules()?, ..Options::default() })
    }

    /// Where schedules of kernels come from.
    ///
    /// # Errors
    /// A file that cannot be read, or is no table of schedules.
    pub fn schedules(&self) -> Result<ScheduleChoice, Error> {
        self.schedules.as_deref().map_or(Ok(ScheduleChoice::Environment), ScheduleChoice::open)
    }

    /// Refuses a table of schedules where nothing is compiled for a GPU.
    ///
    /// # Errors
    /// The option is given.
    pub fn without_schedules(&self, what: &str) -> Result<(), Error> {
        match self.schedules {
            Some(_) => Err(Error::Input(format!("`{what}` takes no `--schedules`"))),
            None => Ok(()),
        }
    }
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compile a model, run it, compare its results
    #[command(after_help = RUN)]
    Run(RunArgs),
    /// Show what fuses, what does not, and why
    #[command(after_help = EXPLAIN)]
    Explain(ExplainArgs),
    /// Write kernels and a manifest to a folder
    #[command(after_help = COMPILE)]
    Compile(CompileArgs),
    /// Measure fused against unfused kernels and memory copy
    #[command(after_help = BENCH)]
    Bench(BenchArgs),
    /// Work on the text forms of graphs and kernels
    #[command(after_help = OPT)]
    Opt(OptArgs),
    /// Say what this machine has, what of it is used, and why
    #[command(after_help = DOCTOR)]
    Doctor(ListArgs),
    /// List targets and what is missing for them
    #[command(after_help = LISTS)]
    Devices(ListArgs),
    /// List environment variables that change behaviour
    #[command(after_help = LISTS)]
    Knobs(ListArgs),
    /// Show, check or clear the kernel cache on disk
    #[command(after_help = CACHE)]
    Cache(CacheArgs),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Model file (.pt2 or .fw)
    pub model: PathBuf,
    /// Target to run on: `cpu`, `cpu-llvm[:LEVEL]`, `cuda[:sm_XX]`, `ascend[:CHIP]`, or its host model `ascend-sim[:CHIP]`;
    /// `fusewright devices` lists those that run here
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    /// NVIDIA GPU to run on, by its number; the driver counts from 0
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = whole::<usize>(0, u32::MAX.into()))]
    pub device: usize,
    /// File with inputs in0… and, if stored, results out0… to compare with; a second case is b_in0…, b_out0…. Without this
    /// option inputs are made from a seed, and results are compared with those of the reference interpreter
    #[arg(long, value_name = "F.safetensors")]
    pub check: Option<PathBuf>,
    /// File to write: results as out0… (and b_out0…), and new_NAME for each input or buffer NAME that the model overwrites
    #[arg(long, value_name = "F.safetensors")]
    pub out: Option<PathBuf>,
    /// Run the reference interpreter only
    #[arg(long)]
    pub unfused: bool,
    #[command(flatten)]
    pub made: MadeArgs,
    /// Threads for launches
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u16>(1, 1024))]
    pub threads: u16,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What inputs are made from where none are given.
#[derive(Debug, Args)]
pub struct MadeArgs {
    /// Seed of made inputs [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(0, u64::MAX.into()))]
    pub seed: Option<u64>,
    /// Value of every symbolic extent of made inputs that no `--dim` names [default: a small number in the symbol's range]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<i64>(0, i64::MAX.into()))]
    pub rows: Option<i64>,
    /// Value of one symbolic extent of made inputs
    #[arg(long, value_name = "NAME=N", value_parser = size)]
    pub dim: Vec<(String, i64)>,
}

impl MadeArgs {
    /// The sizes asked for.
    ///
    /// # Errors
    /// Two sizes of one name.
    pub fn sizes(&self) -> Result<Sizes, Error> {
        let mut dims = BTreeMap::new();
        for (name, value) in &self.dim {
            if let Some(other) = dims.insert(name.clone(), *value) {
                return Err(Error::Input(format!("`--dim` gives `{name}` twice: {other} and {value}")));
            }
        }
        Ok(Sizes { rows: self.rows, dims })
    }

    /// The first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [(self.seed.is_some(), "--seed"), (self.rows.is_some(), "--rows"), (!self.dim.is_empty(), "--dim")];
        given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }
}

/// A whole number that is neither below `least` nor above `most`. The message of a wrong option has its name and its text
/// ahead of what is said here.
fn whole<T: TryFrom<i128>>(least: i128, most: i128) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync {
    move |text| {
        let number: i128 = text.parse().map_err(|_| format!("`{text}` is no whole number"))?;
        match T::try_from(number) {
            _ if number < least => Err(format!("{number} is below {least}")),
            Ok(fits) if number <= most => Ok(fits),
            _ => Err(format!("{number} is above {most}")),
        }
    }
}

/// A number of ranks by the name of their group.
fn group(text: &str) -> Result<(String, u32), String> {
    let named = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let (name, ranks) = named.ok_or_else(|| "expected NAME=RANKS".to_owned())?;
    Ok((name.to_owned(), whole::<u32>(1, u32::MAX.into())(ranks)?))
}

/// A size by name.
fn size(text: &str) -> Result<(String, i64), String> {
    let named = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = named.ok_or_else(|| "expected NAME=N".to_owned())?;
    Ok((name.to_owned(), whole::<i64>(0, i64::MAX.into())(value)?))
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Model file (.pt2 or .fw)
    pub model: PathBuf,
    /// Target that kernels are compiled for: `cpu`, `cpu-llvm[:LEVEL]`, `cuda[:sm_XX]` or `ascend[:CHIP]`;
    /// `fusewright devices` lists those in this build
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["html", "svg"])]
    pub json: bool,
    /// Write one self-contained page
    #[arg(long, value_name = "F")]
    pub html: Option<PathBuf>,
    /// Write a picture: ops in order, and the kernels that they become
    #[arg(long, value_name = "F")]
    pub svg: Option<PathBuf>,
    /// Fail unless COUNT regions have the name NAME, or the pattern or vendor op NAME is used COUNT times
    #[arg(long, value_name = "NAME=COUNT")]
    pub expect: Vec<String>,
}

/// Arguments of `compile`.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// Model file (.pt2 or .fw)
    pub model: PathBuf,
    /// Targets, separated by commas: `cpu`, `cpu-llvm` or a level of it (`cpu-llvm:x86-64-v3`), `cuda[:sm_XX]`, `ascend[:CHIP]`
    #[arg(long, value_delimiter = ',', required = true)]
    pub target: Vec<Target>,
    /// Folder for artifacts and manifest.json
    #[arg(short, value_name = "DIR")]
    pub out: PathBuf,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Model file (.pt2 or .fw)
    #[arg(required_unless_present = "suite")]
    pub model: Option<PathBuf>,
    /// Suite to run: `kernels`; `launch`, the host's cost of a launch on a GPU; `kinds`, one kernel of each kind of schedule;
    /// `compile`, the time to compile MODEL, stacked `--layers` times; `matrix`, combinations of ops, with `--list`, `--check`
    /// or `--against-unfused`
    #[arg(long)]
    pub suite: Option<String>,
    /// Copies of MODEL in suite `compile`, each fed by the one before
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u16>(1, 1024))]
    pub layers: u16,
    /// Target to run on: `cpu`, `cpu-llvm[:LEVEL]` or `cuda[:sm_XX]`; `fusewright devices` lists those that run here
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    /// Row counts, separated by commas [default: those of 1, 8, 32, 128, 512 and 4096 that the graph takes; on a GPU 1 to
    /// 16384]
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true, value_parser = whole::<u32>(0, u32::MAX.into()))]
    pub rows: Vec<u32>,
    /// Threads for launches
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u16>(1, 1024))]
    pub threads: u16,
    /// List the cases and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Check results instead of measuring
    #[arg(long)]
    pub check: bool,
    /// Measure combinations of suite `matrix` against one kernel per op, and fail if one is slower fused in every repeat
    #[arg(long, conflicts_with_all = ["check", "list"])]
    pub against_unfused: bool,
    /// Number of combinations to check, measure or list, chosen by the seed [default: all]
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub sample: Option<u32>,
    /// Combinations to check, measure or list, by their place in the list: from A, counted from 0, to the one before B
    #[arg(long, conflicts_with = "sample", value_name = "A..B", value_parser = slice)]
    pub slice: Option<(usize, usize)>,
    /// Seed of the sample and of its inputs
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>(0, u64::MAX.into()))]
    pub seed: Option<u64>,
    /// Cases to measure, separated by commas: names as `--list` prints them [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub case: Vec<String>,
    /// File of figures to compare with: those of Inductor, written by `benches/bench_cpu.py`, or for a GPU
    /// `benches/gpu/peers.json`. Figures of the same name, rows and threads are compared
    #[arg(long, value_name = "F")]
    pub compare: Option<PathBuf>,
    /// Files with the inputs in0… of each call of a MODEL on a GPU, separated by commas. Without this option inputs are made
    /// from a seed for every number of rows
    #[arg(long, value_delimiter = ',', value_name = "F.safetensors", conflicts_with = "rows")]
    pub inputs: Vec<PathBuf>,
    /// File that keeps figures of a GPU, or its schedules with `--tune`; figures in it are not measured again
    #[arg(long, value_name = "F")]
    pub out: Option<PathBuf>,
    /// Show the figures of a file that `--out` wrote, on any machine, and measure nothing
    #[arg(long, value_name = "F.json", conflicts_with_all = ["out", "tune", "deadline"])]
    pub from: Option<PathBuf>,
    /// Seconds after which no further figure of a GPU is begun
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = whole::<u64>(0, u64::MAX.into()))]
    pub deadline: Option<u64>,
    /// Measure the schedules that kernels of a GPU can have, and write those that are faster than the usual ones to the table
    /// `--out`
    #[arg(long, requires = "out", conflicts_with_all = ["json", "html", "compare", "schedules", "list"])]
    pub tune: bool,
    /// Estimate from documents what kernels for an NPU move and compute, and how long they take; never measured
    #[arg(long, conflicts_with_all = ["out", "from", "tune", "deadline", "inputs", "sample", "slice", "seed"])]
    pub estimate: bool,
    /// Gigabytes per second of an NPU's memory, in place of the documented figure
    #[arg(long, value_name = "GB/S", allow_negative_numbers = true, value_parser = positive)]
    pub bandwidth: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write one self-contained page of the figures: bandwidth beside that of a copy, and ratios
    #[arg(long, value_name = "F", conflicts_with = "json")]
    pub html: Option<PathBuf>,
}

/// A range of places.
fn slice(text: &str) -> Result<(usize, usize), String> {
    let (start, end) = text.split_once("..").ok_or_else(|| "expected A..B".to_owned())?;
    let place = whole::<usize>(0, u32::MAX.into());
    let (start, end) = (place(start)?, place(end)?);
    if start < end { Ok((start, end)) } else { Err(format!("{end} is not above {start}")) }
}

/// A number above zero.
fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err(format!("{number} is no finite number above 0")) }
}

/// Arguments of `opt`.
#[derive(Debug, Args)]
pub struct OptArgs {
    /// Text form of graphs or kernels
    pub file: PathBuf,
    /// verify | pass NAME | regions | lower | emit | bisect | run | diff | reduce
    #[arg(default_value = "verify")]
    pub verb: String,
    /// Name of the pass
    pub name: Option<String>,
    /// Target of lower and emit, and of the device that diff and reduce run on: `cpu`, `cpu-llvm[:LEVEL]`, `cuda[:sm_XX]` or
    /// `ascend[:CHIP]`. For diff and reduce, `cpu` means all targets of the host
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    #[command(flatten)]
    pub made: MadeArgs,
    /// Shell command that reduce and bisect call with the file of a graph. Exit status 0 means that the graph is right, 126 or
    /// 127 that the command cannot be run, any other that the graph fails. A smaller graph is kept if it fails as the whole does
    #[arg(long, value_name = "CMD")]
    pub test: Option<String>,
    /// Print JSON (run, diff)
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `cache`.
#[derive(Debug, Args)]
pub struct CacheArgs {
    /// What to do
    #[arg(value_enum, default_value = "list")]
    pub verb: CacheVerb,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to do with the kernel cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CacheVerb {
    /// Print its folder
    Path,
    /// List its entries
    List,
    /// Read and check all entries
    Verify,
    /// Remove all entries
    Clear,
}

/// Arguments of listings.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
