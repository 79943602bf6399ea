//! Environment variables that are set: names, values, effects, and values that are none.

use std::path::Path;

use fusewright_abi::Target;

use super::cache::can_be_made;
use super::{Finding, Section};
use crate::knobs::{self, Knob};
use crate::{Tiers, external, read_schedules, store};

pub(super) fn findings() -> Vec<Finding> {
    let set = |knob: &&Knob| knob.path().is_some();
    let ours = knobs::ALL.iter().filter(set).map(ours);
    let python =
        knobs::PYTHON.iter().filter(set).map(|knob| setting(knob, format!("{}; read by Python alone", knob.doc)));
    let others = knobs::OF_OTHERS.iter().filter(set).map(|knob| setting(knob, knob.doc.to_owned()));
    let unknown = knobs::unknown();
    let unknown = unknown.iter().map(|name| {
        Finding::new(Section::Settings, name, "set", "nothing: no knob has this name")
            .advising("`fusewright knobs` lists the names")
    });
    ours.chain(python).chain(unknown).chain(others).collect()
}

fn setting(knob: &Knob, used: String) -> Finding {
    let value = knob.path().unwrap_or_default().display().to_string();
    Finding::new(Section::Settings, knob.name, format!("`{value}`"), used)
}

/// Names the first of these variables with a value that is none, if there is one. The fault is then reported among the settings,
/// and what would fail for no other reason is not tried.
pub(super) fn spoiled(by: &[Knob]) -> Option<String> {
    let wrong = by.iter().find(|knob| wrong(knob).is_some())?;
    Some(format!("not tried while {} is wrong", wrong.name))
}

/// A knob of ours. What names a tool, a library or the cache is judged where these are.
fn ours(knob: &Knob) -> Finding {
    match wrong(knob) {
        None => setting(knob, knob.doc.to_owned()),
        Some((reason, remedy)) => setting(knob, reason).failing(remedy),
    }
}

/// Why the value of a knob is none, and what to do about it.
fn wrong(knob: &Knob) -> Option<(String, String)> {
    let unset = |what: &str| format!("{what}, or unset {}", knob.name);
    let path = knob.path()?;
    let (reason, remedy) = match *knob {
        knobs::CACHE_MB => (store::limit().err(), "set a number of megabytes"),
        knobs::TOOL_SECONDS => (external::limit().err(), "set a number of seconds above 0"),
        knobs::TIERS => (Tiers::Environment.of(&Target::Cpu).err().map(|e| e.to_string()), "set `on`, `off` or `llvm`"),
        knobs::SCHEDULES => {
            (read_schedules(&path).err().map(|e| e.to_string()), "name a table that `bench --tune` wrote")
        }
        knobs::DUMP_DIR => (not_written(&path), "name a folder that can be written"),
        knobs::OVERRIDE_DIR => (no_folder(&path), "name a folder of stages"),
        _ => (None, ""),
    };
    reason.map(|reason| (reason, unset(remedy)))
}

fn no_folder(path: &Path) -> Option<String> {
    (!path.is_dir()).then(|| format!("{} is no folder", path.display()))
}

fn not_written(path: &Path) -> Option<String> {
    can_be_made(&path.join("stage")).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_stages_are_judged_by_what_is_done_with_them() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("file");
        std::fs::write(&file, "").expect("there is room");
        assert_eq!(
            (no_folder(root.path()), not_written(root.path()), not_written(&root.path().join("new"))),
            (None, None, None)
        );
        assert!(no_folder(&file).is_some_and(|reason| reason.contains("is no folder")));
        assert!(not_written(&file).is_some_and(|reason| reason.contains("is no folder")));
    }
}
