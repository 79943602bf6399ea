//! Tables of schedules: which kernels are not spread as the rule of their target says, and what that was measured to be
//! worth.
//!
//! ```text
//! schedules "cuda:sm_90" {
//!   device "NVIDIA H200"
//!   driver "CUDA 13.0"
//!   tools "nvptx, llvm 22"
//!   kernel @add_rms_norm "9f…" {
//!     rows 0.. registers threads 320 unit 320 vectors 1 passes 1 release 51
//!     time rows 32 us 2.41 rule 2.43
//!   }
//! }
//! ```
//! A kernel is named by its content ([`content_of`]); the word behind `@` is for people. Device, driver, tools and times say
//! where a table comes from, and may be left out.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::str::FromStr;

use fusewright_abi::{ContentKey, Target};
use fusewright_graph::text::lexer::{Kind, quote, quote_unless_bare};
use fusewright_graph::text::{Cursor, TextError};
use sha2::{Digest, Sha256};

use super::KernelSchedule;
use crate::kernel::Kernel;

/// The schedules of some kernels on one target.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleTable {
    /// What the kernels are compiled for.
    pub target: Target,
    /// The device that times are of; empty if there are none.
    pub device: String,
    /// The driver that times are of.
    pub driver: String,
    /// The tools that made the code that was timed.
    pub tools: String,
    /// By what [`content_of`] says of a kernel.
    pub kernels: BTreeMap<ContentKey, Scheduled>,
}

/// The schedule of one kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Scheduled {
    /// What the kernel is called.
    pub name: String,
    /// Its schedule.
    pub schedule: KernelSchedule,
    /// What was measured.
    pub times: Vec<Timed>,
}

/// Microseconds of a launch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed {
    /// Rows of the launch.
    pub rows: usize,
    /// As the table says.
    pub us: f64,
    /// As the rule of the target says.
    pub rule_us: f64,
}

/// The content of a kernel: a hash of its text without the names of kernel, parameters, dims and segments, so that the same
/// kernel of another graph has the same schedule. (A dim with the name of an instruction is as good as another kernel.)
pub fn content_of(kernel: &Kernel) -> ContentKey {
    let mut plain = kernel.clone();
    plain.name = "_k".to_owned();
    plain.params.iter_mut().enumerate().for_each(|(i, param)| param.name = format!("_p{i}"));
    plain.segments.iter_mut().enumerate().for_each(|(i, segment)| segment.name = format!("_s{i}"));
    let dims: HashMap<&str, usize> = kernel.dims.iter().enumerate().map(|(i, dim)| (dim.name.as_str(), i)).collect();
    let text = plain.to_string();
    // A kernel's own text is in the form that is read.
    let Ok(mut cursor) = Cursor::new(&text) else { return ContentKey(Sha256::digest(&text).into()) };
    let mut hash = Sha256::new();
    while !cursor.at_end() {
        let token = cursor.take();
        let content = token.content();
        match dims.get(&*content).filter(|_| token.kind == Kind::Ident) {
            Some(place) => hash.update(format!("dim {place}\n")),
            None => hash.update(format!("{:?} {content}\n", token.kind)),
        }
    }
    ContentKey(hash.finalize().into())
}

impl ScheduleTable {
    /// A table of no kernels.
    pub fn empty(target: &Target) -> ScheduleTable {
        let (device, driver, tools) = Default::default();
        ScheduleTable { target: target.clone(), device, driver, tools, kernels: BTreeMap::new() }
    }

    /// What the table says of a kernel.
    pub fn of(&self, kernel: &Kernel) -> Option<&KernelSchedule> {
        if self.kernels.is_empty() {
            return None;
        }
        self.kernels.get(&content_of(kernel)).map(|scheduled| &scheduled.schedule)
    }

    /// The same with a kernel more.
    pub fn insert(&mut self, kernel: &Kernel, schedule: KernelSchedule, times: Vec<Timed>) {
        self.kernels.insert(content_of(kernel), Scheduled { name: kernel.name.clone(), schedule, times });
    }
}

impl fmt::Display for ScheduleTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedules {} {{", quote(&self.target.to_string()))?;
        for (word, text) in [("device", &self.device), ("driver", &self.driver), ("tools", &self.tools)] {
            if !text.is_empty() {
                writeln!(f, "  {word} {}", quote(text))?;
            }
        }
        for (content, Scheduled { name, schedule, times }) in &self.kernels {
            let mut ranges = format!("    rows 0.. {}\n", schedule.first);
            if let Some((from, spread)) = &schedule.many {
                writeln!(ranges, "    rows {from}.. {spread}")?;
            }
            write!(f, "  kernel @{} \"{content}\" {{\n{ranges}", quote_unless_bare(name))?;
            for Timed { rows, us, rule_us } in times {
                writeln!(f, "    time rows {rows} us {us:.4} rule {rule_us:.4}")?;
            }
            writeln!(f, "  }}")?;
        }
        writeln!(f, "}}")
    }
}

impl FromStr for ScheduleTable {
    type Err = TextError;

    fn from_str(text: &str) -> Result<ScheduleTable, TextError> {
        let mut cursor = Cursor::new(text)?;
        let cursor = &mut cursor;
        cursor.expect_word("schedules")?;
        let token = cursor.expect_kind(Kind::Str, "a target in quotes")?;
        let target = token.content().parse::<Target>().map_err(|e| cursor.error_at(&token, e.to_string()))?;
        let mut table = ScheduleTable::empty(&target);
        cursor.expect("{")?;
        let about = [("device", &mut table.device), ("driver", &mut table.driver), ("tools", &mut table.tools)];
        for (word, text) in about {
            if cursor.eat_word(word) {
                *text = cursor.expect_kind(Kind::Str, "text in quotes")?.content().into_owned();
            }
        }
        while cursor.eat_word("kernel") {
            let name = cursor.expect_kind(Kind::Global, "`@` and the kernel's name")?.content().into_owned();
            let token = cursor.expect_kind(Kind::Str, "the kernel's content in quotes")?;
            let content: ContentKey =
                token.content().parse().map_err(|e| cursor.error_at(&token, format!("content of `{name}`: {e}")))?;
            cursor.expect("{")?;
            let schedule = KernelSchedule::parse(cursor)?;
            let times = times(cursor)?;
            if !cursor.eat("}") {
                return Err(cursor.expected("`rows`, `time` or `}`"));
            }
            if let Some(other) = table.kernels.insert(content, Scheduled { name, schedule, times }) {
                return Err(
                    cursor.error_at(&token, format!("a kernel of this content is there already: `{}`", other.name))
                );
            }
        }
        if !cursor.eat("}") {
            return Err(cursor.expected("`kernel` or `}`"));
        }
        cursor.expect_end()?;
        Ok(table)
    }
}

fn times(cursor: &mut Cursor<'_>) -> Result<Vec<Timed>, TextError> {
    let mut times = Vec::new();
    while cursor.eat_word("time") {
        cursor.expect_word("rows")?;
        let rows = cursor.unsigned()?;
        let mut figure = |word: &str| -> Result<f64, TextError> {
            cursor.expect_word(word)?;
            let token = cursor.peek();
            let value = cursor.number()?.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
            value.ok_or_else(|| cursor.error_at(&token, "a time is more than 0"))
        };
        times.push(Timed { rows, us: figure("us")?, rule_us: figure("rule")? });
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, input: &str, dim: &str) -> Kernel {
        let text = format!(
            "kernel @{name}({dim} = extent({input}, 0)) rows {dim} {{
               param %{input}: bf16[{dim}, 64] in
               param %y: bf16[{dim}, 64] out
               segment @rows inner 1 {{
                 %0 = load {input}[lane + row*64] : row<bf16, 64>
                 store y[lane + row*64], %0
               }}
             }}"
        );
        text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    fn table() -> ScheduleTable {
        let schedule = "rows 0.. registers threads 64 unit 64 vectors 1 passes 1 release 3, \
                        rows 9.. loops threads 128 unit 128 vectors 1 passes 1 release 0";
        let mut table = ScheduleTable::empty(&"cuda:sm_90".parse().expect("a target"));
        table.device = "NVIDIA \"H200\"".to_owned();
        let times = vec![Timed { rows: 8, us: 1.25, rule_us: 1.5 }];
        table.insert(&kernel("k", "x", "s"), schedule.parse().expect("a schedule"), times);
        table
    }

    #[test]
    fn names_are_no_content() {
        for (name, input, dim) in [("other", "hidden", "tokens"), ("row", "lane", "n"), ("inner", "row", "d0")] {
            assert_eq!(content_of(&kernel("k", "x", "s")), content_of(&kernel(name, input, dim)), "{name}");
        }
        let longer = kernel("k", "x", "s").to_string().replace("64", "128").parse().expect("a kernel");
        assert_ne!(content_of(&kernel("k", "x", "s")), content_of(&longer));
    }

    #[test]
    fn print_and_parse_agree() {
        let table = table();
        assert_eq!(table.to_string().parse(), Ok(table.clone()), "{table}");
        assert!(table.of(&kernel("renamed", "a", "b")).is_some());
        let empty = ScheduleTable::empty(&table.target);
        assert_eq!(empty.to_string().parse(), Ok(empty.clone()));
        assert_eq!(empty.of(&kernel("k", "x", "s")), None);
    }

    #[test]
    fn what_is_no_table_is_refused_where_it_stands() {
        let good = table().to_string();
        let content = content_of(&kernel("k", "x", "s")).to_string();
        let twice = good.replace(
            "kernel @k",
            &format!(
                "kernel @j \"{content}\" {{ {} }}\n kernel @k",
                table().kernels[&content_of(&kernel("k", "x", "s"))].schedule
            ),
        );
        for (text, says) in [
            (String::new(), "`schedules`"),
            (good.replace("cuda:sm_90", "gpu"), "gpu"),
            (good.replace(&content, "12"), "content of `k`"),
            (good.replace("1.2500", "0"), "more than 0"),
            (good.replace("time", "speed"), "`time`"),
            (good.trim_end().trim_end_matches('}').to_owned(), "`kernel` or `}`"),
            (good.clone() + "}", "the end"),
            (twice, "already"),
        ] {
            let error = text.parse::<ScheduleTable>().expect_err("is refused").to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
