//! How the rows of a launch are spread over the blocks and threads of a GPU, as a value with a text form:
//!
//! ```text
//! rows 0.. registers threads 128 unit 32 vectors 1 passes 1 release 227, rows 285.. registers threads 128 …
//! ```
//! A range may end with `bound 56`, the most registers of a thread.
//! No bit of a result depends on it: reduction trees are those of Kernel IR, and a spread that cannot follow them is refused.

use std::fmt;
use std::str::FromStr;

use fusewright_graph::text::{Cursor, TextError};

/// Where a row lies while it is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// In registers: every value of it is read and computed once.
    Registers,
    /// In memory: every phase loops over its lanes.
    Loops,
}

impl Place {
    const ALL: [(Place, &'static str); 2] = [(Place::Registers, "registers"), (Place::Loops, "loops")];
}

/// Registers that a thread can have, in steps of 8.
const MOST_REGISTERS: u32 = 248;

/// How rows are spread over blocks and threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Spread {
    /// Where rows lie.
    pub place: Place,
    /// Threads of a block.
    pub threads: u32,
    /// Threads that have inner rows of one outer row: the block, or several such units share it, each of at most a warp where
    /// threads exchange values.
    pub unit: u32,
    /// Most vectors of a thread, of rows that no reduction needs whole; the others have what `threads` leaves. In loops, lanes
    /// of a thread at once, of rows whose lanes have nothing to do with each other.
    pub vectors: u32,
    /// Inner rows that a team of threads has one after the other, where a row is that of a team.
    pub passes: u32,
    /// Up to how many rows of a launch the kernel behind it may begin at once. With more of them it may when a block has
    /// its rows.
    pub release: u64,
    /// Most registers of a thread, a multiple of 8; the assembler decides where it is 0.
    pub bound: u32,
}

/// The spread of launches by their number of rows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelSchedule {
    /// Of all launches, or of those with fewer rows than `many`.
    pub first: Spread,
    /// From how many rows on another one is better.
    pub many: Option<(usize, Spread)>,
}

impl KernelSchedule {
    /// One spread for all launches.
    pub fn uniform(first: Spread) -> KernelSchedule {
        KernelSchedule { first, many: None }
    }

    /// The spread of a launch of so many rows.
    pub fn at(&self, rows: usize) -> &Spread {
        self.many.as_ref().filter(|(from, _)| rows >= *from).map_or(&self.first, |(_, many)| many)
    }

    /// Reads a schedule and leaves what follows.
    ///
    /// # Errors
    /// The first place where the text is not in the form.
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<KernelSchedule, TextError> {
        let start = cursor.peek();
        let (from, first) = range(cursor)?;
        if from != 0 {
            return Err(cursor.error_at(&start, "the first range of rows begins with 0"));
        }
        cursor.eat(",");
        let next = cursor.peek();
        let many = if next.is_word("rows") { Some(range(cursor)?) } else { None };
        if many.is_some_and(|(from, _)| from == 0) {
            return Err(cursor.error_at(&next, "the second range of rows begins with 1 or more"));
        }
        Ok(KernelSchedule { first, many })
    }
}

/// `rows N.. SPREAD`.
fn range(cursor: &mut Cursor<'_>) -> Result<(usize, Spread), TextError> {
    cursor.expect_word("rows")?;
    let from = cursor.unsigned()?;
    cursor.expect("..")?;
    let place = Place::ALL.iter().find(|(_, word)| cursor.eat_word(word));
    let (place, _) = place.ok_or_else(|| cursor.expected("`registers` or `loops`"))?;
    let mut next = |name| field(cursor, name).map(|value| u32::try_from(value).unwrap_or(u32::MAX));
    let [threads, unit, vectors, passes] = [next("threads")?, next("unit")?, next("vectors")?, next("passes")?];
    let release = field(cursor, "release")?.unsigned_abs();
    let stated = cursor.peek();
    let bound = if stated.is_word("bound") { field(cursor, "bound")? } else { 0 };
    let bound = u32::try_from(bound).ok().filter(|bound| bound.is_multiple_of(8) && *bound <= MOST_REGISTERS);
    let no_bound = || cursor.error_at(&stated, format!("the bound is no multiple of 8 up to {MOST_REGISTERS}"));
    let bound = bound.ok_or_else(no_bound)?;
    Ok((from, Spread { place: *place, threads, unit, vectors, passes, release, bound }))
}

/// `NAME N`.
fn field(cursor: &mut Cursor<'_>, name: &str) -> Result<i64, TextError> {
    cursor.expect_word(name)?;
    let token = cursor.peek();
    let value = cursor.unsigned()?;
    let fits = name == "release" || u32::try_from(value).is_ok_and(|value| value > 0);
    if fits { Ok(value) } else { Err(cursor.error_at(&token, format!("{value} is out of range"))) }
}

impl FromStr for KernelSchedule {
    type Err = TextError;

    fn from_str(text: &str) -> Result<KernelSchedule, TextError> {
        let mut cursor = Cursor::new(text)?;
        let schedule = KernelSchedule::parse(&mut cursor)?;
        cursor.expect_end()?;
        Ok(schedule)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Place::ALL.iter().find(|(place, _)| *place == self.place).map_or("", |(_, word)| word);
        let Spread { threads, unit, vectors, passes, release, bound, .. } = self;
        write!(f, "{place} threads {threads} unit {unit} vectors {vectors} passes {passes} release {release}")?;
        if *bound > 0 { write!(f, " bound {bound}") } else { Ok(()) }
    }
}

impl fmt::Display for KernelSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows 0.. {}", self.first)?;
        self.many.as_ref().map_or(Ok(()), |(from, spread)| write!(f, ", rows {from}.. {spread}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_and_parse_agree() {
        let first =
            Spread { place: Place::Registers, threads: 320, unit: 32, vectors: 2, passes: 1, release: 204, bound: 0 };
        let other = Spread { place: Place::Loops, threads: 1024, release: u64::from(u32::MAX) + 1, bound: 56, ..first };
        for schedule in [KernelSchedule::uniform(first), KernelSchedule { first, many: Some((17, other)) }] {
            assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()), "{schedule}");
        }
        let schedule = KernelSchedule { first, many: Some((17, other)) };
        assert_eq!((schedule.at(16), schedule.at(17)), (&first, &other));
    }

    #[test]
    fn what_is_no_schedule_is_refused_where_it_stands() {
        let good = "rows 0.. registers threads 320 unit 32 vectors 2 passes 1 release 204";
        assert!(good.parse::<KernelSchedule>().is_ok());
        for (from, to, says) in [
            ("rows 0", "rows 1", "begins with 0"),
            ("registers", "cluster", "`registers` or `loops`"),
            ("threads 320", "threads 0", "out of range"),
            ("threads 320", "threads 99999999999", "out of range"),
            ("unit 32 ", "", "`unit`"),
            ("release 204", "release", "integer"),
            ("204", "204, rows 0.. registers threads 320 unit 32 vectors 2 passes 1 release 204", "1 or more"),
            ("204", "204 pipelined", "the end"),
            ("204", "204 bound 60", "multiple of 8"),
            ("204", "204 bound 256", "multiple of 8"),
        ] {
            let error = good.replace(from, to).parse::<KernelSchedule>().expect_err("is refused").to_string();
            assert!(error.contains(says), "{from} → {to}: {error}");
        }
    }
}
