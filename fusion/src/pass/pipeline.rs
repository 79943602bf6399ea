//! Pipelines: lists of passes as data, the orders that are legal, and the key of a list.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use fusewright_abi::ContentKey;
use fusewright_graph::Graph;
use sha2::{Digest, Sha256};

use super::Pass;
use crate::passes::{LAST, O1, O3, ORDER, PIPELINE};
use crate::rewrites::{self, UserPatterns};
use crate::vendor;

/// Enters every key; changes when the meaning of a list does.
const VERSION: &str = "fusewright pipeline 1";

/// A range of row counts, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rows {
    /// Least.
    pub min: u64,
    /// Greatest; `None` is no bound.
    pub max: Option<u64>,
}

impl Rows {
    /// Every number of rows.
    pub const ANY: Rows = Rows { min: 0, max: None };

    /// The numbers of rows that a graph may be called with: the range of its only symbol, or any.
    pub fn of(graph: &Graph) -> Rows {
        match graph.symbols() {
            [symbol] => {
                let bound = |v: i64| u64::try_from(v).unwrap_or(0);
                Rows { min: bound(symbol.min), max: symbol.max.map(bound) }
            }
            _ => Rows::ANY,
        }
    }

    /// Whether all of `other` lies in this range.
    pub fn holds(&self, other: Rows) -> bool {
        self.min <= other.min && self.max.is_none_or(|max| other.max.is_some_and(|m| m <= max))
    }
}

impl FromStr for Rows {
    type Err = PipelineError;

    /// `1..256`, `..256`, `64..` or one number.
    fn from_str(text: &str) -> Result<Self, PipelineError> {
        let wrong = || PipelineError::Rows(text.to_owned());
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let rows = match text.split_once("..") {
            None => number(text).map(|n| Rows { min: n, max: Some(n) })?,
            Some((min, max)) => {
                let min = if min.trim().is_empty() { 0 } else { number(min)? };
                let max = if max.trim().is_empty() { None } else { Some(number(max)?) };
                Rows { min, max }
            }
        };
        if rows.max.is_some_and(|max| max < rows.min) { Err(wrong()) } else { Ok(rows) }
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", self.min)?;
        self.max.map_or(Ok(()), |max| write!(f, "{max}"))
    }
}

/// One place of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// The pass.
    pub pass: &'static Pass,
    /// Whether it runs.
    pub on: bool,
    /// It runs on graphs whose numbers of rows all lie in here.
    pub rows: Rows,
}

impl Stage {
    /// A pass that runs on every graph.
    pub const fn new(pass: &'static Pass) -> Self {
        Stage { pass, on: true, rows: Rows::ANY }
    }

    /// Whether it runs on a graph with these numbers of rows.
    pub fn runs(&self, rows: Rows) -> bool {
        self.on && self.rows.holds(rows)
    }
}

impl PartialEq for Stage {
    fn eq(&self, other: &Self) -> bool {
        (self.pass.name, self.on, self.rows) == (other.pass.name, other.on, other.rows)
    }
}

impl Eq for Stage {}

/// Two passes that may not be swapped.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The pass that comes first, if it is there.
    pub first: &'static str,
    /// The pass that needs it before.
    pub then: &'static str,
    /// Whether none of `first` may come after `then`, rather than that one has to come before.
    pub every: bool,
    /// Why.
    pub why: &'static str,
}

/// Why a list is no pipeline.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PipelineError {
    /// No pass has that name.
    #[error("no pass is named `{name}`; there are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A required pass is switched off, limited or left out.
    #[error("pass `{0}` is required: it cannot be switched off, left out or limited to some rows")]
    Required(String),
    /// Two passes stand in an order that is not legal.
    #[error("pass `{then}` may not come before `{first}`: {why}")]
    Order {
        /// What has to come first.
        first: &'static str,
        /// What comes too early.
        then: &'static str,
        /// Why.
        why: &'static str,
    },
    /// Another pass ends the list.
    #[error("a pipeline ends with pass `{0}`, which removes what nothing reads")]
    Last(&'static str),
    /// A text that is no range of rows.
    #[error("`{0}` is no range of rows such as `1..256`, `..256` or `64..`")]
    Rows(String),
    /// No op of a vendor has that name.
    #[error("no vendor op is named `{name}`; there are {known}, and `all`")]
    VendorOp {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A text that is no level.
    #[error("no level `{0}`; there are O0, O1, O2, O3")]
    Level(String),
    /// A file that does not describe a pipeline.
    #[error("{0}")]
    Config(String),
}

/// How much is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Level {
    /// What later stages rely on, and nothing fuses.
    O0,
    /// One spelling for equal things; composites are not recognised.
    O1,
    /// The passes of [`PIPELINE`].
    #[default]
    O2,
    /// Those of `O2`, normalised a second time after recognition.
    O3,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 4] = [Level::O0, Level::O1, Level::O2, Level::O3];

    /// Name in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Level::O0 => "O0",
            Level::O1 => "O1",
            Level::O2 => "O2",
            Level::O3 => "O3",
        }
    }
}

impl FromStr for Level {
    type Err = PipelineError;

    fn from_str(text: &str) -> Result<Self, PipelineError> {
        let found = Level::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| PipelineError::Level(text.to_owned()))
    }
}

/// Passes in order, and whether regions are formed after them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pipeline {
    stages: Vec<Stage>,
    fuse: bool,
    patterns: UserPatterns,
    vendor_ops: BTreeSet<&'static str>,
}

impl Default for Pipeline {
    fn default() -> Self {
        Pipeline::level(Level::default())
    }
}

impl Pipeline {
    /// A list of stages; regions are formed after them.
    ///
    /// # Errors
    /// A required pass that is missing, off or limited, and orders that are not legal.
    pub fn new(stages: Vec<Stage>) -> Result<Self, PipelineError> {
        for required in PIPELINE.iter().filter(|pass| pass.required) {
            let mut found = stages.iter().filter(|stage| stage.pass.name == required.name).peekable();
            if found.peek().is_none() || found.any(|stage| !stage.on || stage.rows != Rows::ANY) {
                return Err(PipelineError::Required(required.name.to_owned()));
            }
        }
        let places = |name: &str| -> Vec<usize> {
            stages.iter().enumerate().filter(|(_, stage)| stage.pass.name == name).map(|(i, _)| i).collect()
        };
        for &Order { first, then, every, why } in ORDER {
            let (first_places, then_places) = (places(first), places(then));
            let needed = if every { first_places.last() } else { first_places.first() };
            if let (Some(earliest), Some(needed)) = (then_places.first(), needed)
                && earliest < needed
            {
                return Err(PipelineError::Order { first, then, why });
            }
        }
        if stages.last().is_none_or(|stage| stage.pass.name != LAST) {
            return Err(PipelineError::Last(LAST));
        }
        Ok(Pipeline { stages, fuse: true, patterns: UserPatterns::default(), vendor_ops: BTreeSet::new() })
    }

    /// The list of a level.
    pub fn level(level: Level) -> Self {
        let passes = match level {
            Level::O0 => PIPELINE.iter().copied().filter(|pass| pass.required).collect(),
            Level::O1 => O1.to_vec(),
            Level::O2 => PIPELINE.to_vec(),
            Level::O3 => O3.to_vec(),
        };
        let stages = passes.into_iter().map(Stage::new).collect();
        Pipeline { stages, fuse: level != Level::O0, patterns: UserPatterns::default(), vendor_ops: BTreeSet::new() }
    }

    /// The stages in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Why passes that are on do not run on a graph: the numbers of rows that it may be called with are not all theirs.
    pub fn idle(&self, graph: &Graph) -> Vec<String> {
        let rows = Rows::of(graph);
        let idle = self.stages.iter().filter(|stage| stage.on && !stage.pass.required && !stage.runs(rows));
        let said = |stage: &Stage| {
            let (name, only) = (stage.pass.name, stage.rows);
            format!("pass {name} does not run: it is limited to rows {only}, and the graph takes {rows}")
        };
        idle.map(said).collect()
    }

    /// Whether regions are formed; if not, every op is a kernel of its own.
    pub fn fuses(&self) -> bool {
        self.fuse
    }

    /// Says whether regions are formed.
    pub fn set_fuse(&mut self, fuse: bool) {
        self.fuse = fuse;
    }

    /// The patterns of users that pass `patterns` replaces.
    pub fn patterns(&self) -> &UserPatterns {
        &self.patterns
    }

    /// Says which patterns of users pass `patterns` replaces.
    pub fn set_patterns(&mut self, patterns: UserPatterns) {
        self.patterns = patterns;
    }

    /// The vendor ops that may replace regions: none unless they are switched on.
    pub fn vendor_ops(&self) -> &BTreeSet<&'static str> {
        &self.vendor_ops
    }

    /// Switches a vendor op on or off, by its name or `all` for every one.
    ///
    /// # Errors
    /// A name that no such op has.
    pub fn switch_vendor_op(&mut self, name: &str, on: bool) -> Result<(), PipelineError> {
        let meant: Vec<&'static str> = vendor::names().filter(|op| name == "all" || *op == name).collect();
        if meant.is_empty() {
            let known = vendor::names().collect::<Vec<_>>().join(", ");
            return Err(PipelineError::VendorOp { name: name.to_owned(), known });
        }
        for op in meant {
            if on {
                self.vendor_ops.insert(op)
            } else {
                self.vendor_ops.remove(op)
            };
        }
        Ok(())
    }

    /// Switches every stage of that name on or off.
    ///
    /// # Errors
    /// A name that no stage has, or switching off a required pass.
    pub fn switch(&mut self, name: &str, on: bool) -> Result<(), PipelineError> {
        let names = self.stages.iter().map(|stage| stage.pass.name);
        if !names.clone().any(|known| known == name) {
            return Err(PipelineError::Unknown { name: name.to_owned(), known: names.collect::<Vec<_>>().join(", ") });
        }
        for stage in self.stages.iter_mut().filter(|stage| stage.pass.name == name) {
            if stage.pass.required && !on {
                return Err(PipelineError::Required(name.to_owned()));
            }
            stage.on = on;
        }
        Ok(())
    }

    /// The primary switch: only what later stages rely on runs, and nothing fuses.
    pub fn disable(&mut self) {
        let patterns = std::mem::take(&mut self.patterns);
        *self = Pipeline { patterns, ..Pipeline::level(Level::O0) };
    }

    /// What names the list by all that changes its results: the stages that are on, their rows, the tables of rewrites,
    /// the patterns of users, the vendor ops, whether rewrites that change rounding apply. For caches of compiled graphs.
    pub fn key(&self, relaxed: bool) -> ContentKey {
        let mut text = format!("{VERSION}\nrelaxed {relaxed}\nfuse {}\n", self.fuse);
        for stage in self.stages.iter().filter(|stage| stage.on) {
            text += &format!("pass {} {}\n", stage.pass.name, stage.rows);
        }
        for rewrite in rewrites::all() {
            text += &format!("rewrite {:?} {} => {}\n", rewrite.class, rewrite.lhs, rewrite.rhs);
        }
        for pattern in &self.patterns {
            text += &format!("pattern {pattern}\n");
        }
        for op in &self.vendor_ops {
            text += &format!("vendor op {op}\n");
        }
        ContentKey(Sha256::digest(text).into())
    }
}

/// The pass of that name.
///
/// # Errors
/// No pass has it.
pub(super) fn by_name(name: &str) -> Result<&'static Pass, PipelineError> {
    let known = || PIPELINE.iter().map(|pass| pass.name).collect::<Vec<_>>().join(", ");
    let found = PIPELINE.iter().copied().find(|pass| pass.name == name);
    found.ok_or_else(|| PipelineError::Unknown { name: name.to_owned(), known: known() })
}
