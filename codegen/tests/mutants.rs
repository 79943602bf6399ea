//! Broken Ascend C, which the host model has to object to: without that, what it finds nothing wrong with says nothing.
//!
//! Every kernel is broken in one place at a time, in its own text and in the headers that it includes, and run under all
//! the freedom that the model takes. A mutant is caught if it does not compile, if the model reports something, or if a
//! result differs from the interpreter's. Results are SIMULATED.
#![cfg(feature = "ascend")]

#[path = "mutants/kernels.rs"]
mod kernels;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "support/simulated.rs"]
mod simulated;
#[path = "mutants/sites.rs"]
mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use fusewright_ascend_model::{Chip, Dma, Model, Options, Poison, Source};
use fusewright_codegen::backend::ascend::{CHIPS, HEADERS, emit};
use simulated::{Case, compare};
use sites::Mutant;

/// Mutants that every run tries; `FUSEWRIGHT_LONG` tries all, and names the file of what became of them, so that a run
/// that was stopped goes on where it was.
const FEW: usize = 20;
/// Of a hundred mutants, how many are caught at least.
const CAUGHT: usize = 98;

/// A kernel as it is emitted for a chip.
struct Unbroken {
    case: Case,
    chip: &'static str,
    text: String,
}

/// The ways to run: as issued, and with everything as late as it may be.
fn ways() -> [Options; 3] {
    let late = Options { dma: Dma::Delayed, ..Options::default() };
    [Options::default(), late, Options { poison: Poison::Nan, ..late }]
}

/// Compiles and runs a kernel; the headers stand in one order.
fn run(model: &Model, unbroken: &Unbroken, text: &str, headers: &[Source<'_>]) -> Result<(), String> {
    let Unbroken { case, chip, .. } = unbroken;
    let chip = CHIPS.iter().find(|c| c.name == *chip).expect("the chip is known");
    let chip = Chip::of(chip.arch, chip.buffer_bytes).expect("it has a model");
    let name = &case.kernel.name;
    let object = model.compile(&[Source { name, text }], headers, chip).map_err(|e| e.to_string())?;
    let entry = model.load(&object).and_then(|kernels| kernels.kernel(name)).map_err(|e| e.to_string())?;
    for way in ways() {
        compare(case, &|arguments, scalars| {
            entry.launch(case.cores, arguments, scalars, &way).map_err(|e| e.to_string())
        })?;
    }
    Ok(())
}

fn headers() -> Vec<Source<'static>> {
    HEADERS.iter().map(|(name, text)| Source { name, text }).collect()
}

/// Headers that a text includes, and that those include.
fn included(text: &str) -> BTreeSet<&'static str> {
    let named = |text: &str| -> Vec<&'static str> {
        let includes = |name: &str| text.lines().any(|line| line == format!("#include \"{name}\""));
        HEADERS.iter().map(|(name, _)| *name).filter(|name| includes(name)).collect()
    };
    let mut all = BTreeSet::new();
    let mut open = named(text);
    while let Some(name) = open.pop() {
        if all.insert(name) {
            open.extend(HEADERS.iter().filter(|(other, _)| *other == name).flat_map(|(_, text)| named(text)));
        }
    }
    all
}

/// Functions of the headers that a kernel calls, and that those call.
fn called(text: &str) -> BTreeSet<String> {
    let includes = included(text);
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let mut all = words(text);
    loop {
        let before = all.len();
        for (_, header) in HEADERS.iter().filter(|(name, _)| includes.contains(*name)) {
            // A body reaches from its declaration to the next one.
            let mut name = None;
            for line in header.lines() {
                if line.contains("__aicore__") && line.contains('(') {
                    name = line[..line.find('(').unwrap_or(0)].split([' ', '*', '&']).next_back().map(str::to_owned);
                }
                if name.as_ref().is_some_and(|name| all.contains(name)) {
                    all.extend(words(line));
                }
            }
        }
        if all.len() == before {
            return all;
        }
    }
}

/// A mutant, and the kernels that run it.
struct Trial {
    mutant: Mutant,
    cases: Vec<usize>,
}

fn trials(cases: &[Unbroken]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (at, Unbroken { case, chip, text }) in cases.iter().enumerate() {
        let own = sites::of(&format!("{}_{chip}.cpp", case.kernel.name), text);
        trials.extend(own.into_iter().map(|mutant| Trial { mutant, cases: vec![at] }));
    }
    let called: Vec<BTreeSet<String>> = cases.iter().map(|unbroken| called(&unbroken.text)).collect();
    for (name, text) in HEADERS {
        for mutant in sites::of(name, text) {
            let includes = |at: usize| included(&cases[at].text).contains(name);
            let uses = |at: &usize| includes(*at) && mutant.function.as_ref().is_some_and(|f| called[*at].contains(f));
            let cases: Vec<usize> = (0..cases.len()).filter(uses).collect();
            if !cases.is_empty() {
                trials.push(Trial { mutant, cases });
            }
        }
    }
    trials
}

/// Whether some kernel objects to a mutant, and how it says so.
fn caught(model: &Model, cases: &[Unbroken], trial: &Trial) -> Option<String> {
    let Mutant { file, text, .. } = &trial.mutant;
    trial.cases.iter().find_map(|&at| {
        let unbroken = &cases[at];
        let headers: Vec<Source<'_>> =
            headers().into_iter().map(|h| if h.name == file { Source { text, ..h } } else { h }).collect();
        let own = if file.ends_with(".h") { &unbroken.text } else { text };
        run(model, unbroken, own, &headers).err()
    })
}

/// What became of mutants, a line each: what a file had of them, and what is added to it.
struct Kept {
    file: Option<std::fs::File>,
    /// What was said of a mutant by its name; nothing of one that survived.
    said: BTreeMap<String, String>,
}

impl Kept {
    /// A file's, or nothing that is kept anywhere.
    fn of(path: Option<&Path>) -> Kept {
        let text = path.map(|path| std::fs::read_to_string(path).unwrap_or_default()).unwrap_or_default();
        // A line that was being written when the run was stopped has no end.
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let said =
            whole.filter_map(|line| line.split_once('\t')).map(|(name, said)| (name.into(), said.into())).collect();
        let open = |path: &Path| {
            let mut file =
                std::fs::File::options().create(true).append(true).open(path).expect("the file can be written");
            if !text.is_empty() && !text.ends_with('\n') {
                writeln!(file).expect("the file can be written");
            }
            file
        };
        Kept { file: path.map(open), said }
    }

    fn add(&mut self, name: &str, said: &str) {
        if let Some(file) = &mut self.file {
            writeln!(file, "{name}\t{said}").expect("the file can be written");
        }
        self.said.insert(name.to_owned(), said.to_owned());
    }
}

/// Tries all, on all processors, but those of which something is kept.
fn try_all(model: &Model, cases: &[Unbroken], trials: &[Trial], kept: &Mutex<Kept>) {
    let next = Mutex::new(trials.iter());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let one = || {
        loop {
            let trial = next.lock().expect("no thread panics").next();
            let Some(trial) = trial else { break };
            let name = trial.mutant.name();
            if !kept.lock().expect("no thread panics").said.contains_key(&name) {
                let said = caught(model, cases, trial);
                let first = said.as_ref().map_or("", |said| said.lines().next().unwrap_or("nothing said"));
                kept.lock().expect("no thread panics").add(&name, &first.replace('\t', " "));
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(one))));
}

#[test]
fn what_is_broken_is_caught() {
    let Some(model) = simulated::model() else { return };
    let emitted = |(case, chip): (Case, &'static str)| {
        let text = emit(&case.kernel, chip).unwrap_or_else(|e| panic!("{} for {chip}: {e}", case.kernel.name));
        let unbroken = Unbroken { case, chip, text };
        run(model, &unbroken, &unbroken.text, &headers())
            .unwrap_or_else(|e| panic!("unbroken, for {chip}: {e}\n{}", unbroken.text));
        unbroken
    };
    let cases: Vec<Unbroken> = kernels::all().into_iter().map(emitted).collect();
    let mut trials = trials(&cases);
    let all = trials.len();
    let long = std::env::var_os("FUSEWRIGHT_LONG");
    if long.is_none() {
        // Those of every kind come one after the other, so that steps through all meet each kind.
        trials.sort_by(|a, b| a.mutant.what.cmp(&b.mutant.what));
        let step = all.div_ceil(FEW).max(1);
        trials = trials.into_iter().step_by(step).collect();
    }
    let kept = Mutex::new(Kept::of(long.as_deref().map(Path::new)));
    try_all(model, &cases, &trials, &kept);
    let kept = kept.into_inner().expect("no thread panics");
    let names = trials.iter().map(|trial| trial.mutant.name());
    let survivors: Vec<String> = names.filter(|name| kept.said[name].is_empty()).collect();
    survivors.iter().for_each(|name| println!("survived {name}"));
    println!("{} of {} mutants caught, of {all} that there are", trials.len() - survivors.len(), trials.len());
    assert!(all >= 150, "{all} mutants");
    assert!((trials.len() - survivors.len()) * 100 >= trials.len() * CAUGHT, "{survivors:#?}");
}
