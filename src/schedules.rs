//! Which table of schedules compilers use, and tables as files. A table decides how fast kernels are, and no bit of what they
//! compute.

use std::path::Path;
use std::sync::Arc;

use fusewright_abi::Target;
use fusewright_codegen::schedule::ScheduleTable;

use crate::model::read_text;
use crate::{Error, knobs};

/// Where the schedules of kernels come from.
#[derive(Clone, PartialEq, Default, Debug)]
pub enum ScheduleChoice {
    /// From the table that [`knobs::SCHEDULES`] names, which is left alone, with a warning, where it cannot be used; else by
    /// the rule of the target.
    #[default]
    Environment,
    /// By the rule of the target.
    Rule,
    /// From this table. What it says must be right for the target and its kernels.
    Table(Arc<ScheduleTable>),
}

impl ScheduleChoice {
    /// The table of a file that a user names.
    ///
    /// # Errors
    /// A file that cannot be read, or is no table.
    pub fn open(path: &Path) -> Result<ScheduleChoice, Error> {
        read_schedules(path).map(|table| ScheduleChoice::Table(Arc::new(table)))
    }

    /// Refuses a table that is for none of the targets.
    ///
    /// # Errors
    /// A table of another target, by name.
    pub fn fits(&self, targets: &[Target]) -> Result<(), Error> {
        match self {
            ScheduleChoice::Table(table) if !targets.contains(&table.target) => {
                let names: Vec<String> = targets.iter().map(|target| format!("`{target}`")).collect();
                let (of, names) = (&table.target, names.join(" or "));
                Err(Error::Input(format!("the schedules are for target `{of}`, not for {names}")))
            }
            _ => Ok(()),
        }
    }

    /// The table for a target, and whether what is wrong with it is only said; or why there is none, if that is to be said.
    pub(crate) fn table(&self, target: &Target) -> Result<Option<(Arc<ScheduleTable>, bool)>, String> {
        match self {
            ScheduleChoice::Rule => Ok(None),
            ScheduleChoice::Table(table) => Ok((table.target == *target).then(|| (Arc::clone(table), false))),
            ScheduleChoice::Environment => {
                let Some(path) = knobs::SCHEDULES.path() else { return Ok(None) };
                of_environment(&path, target).map_err(|why| format!("{}: {why}", knobs::SCHEDULES.name))
            }
        }
    }
}

/// The table of a file that the environment names, where the target has schedules at all.
fn of_environment(path: &Path, target: &Target) -> Result<Option<(Arc<ScheduleTable>, bool)>, String> {
    if !matches!(target, Target::Cuda { .. }) {
        return Ok(None);
    }
    let ignored = |why: String| format!("{why}; it is ignored");
    let table = read_schedules(path).map_err(|e| ignored(e.to_string()))?;
    if table.target != *target {
        let (path, of) = (path.display(), &table.target);
        return Err(ignored(format!("{path}: its schedules are for target `{of}`, not for `{target}`")));
    }
    Ok(Some((Arc::new(table), true)))
}

/// Reads a table of schedules.
///
/// # Errors
/// A file that cannot be read, or is no table, with the place where it is not.
pub fn read_schedules(path: &Path) -> Result<ScheduleTable, Error> {
    let text = read_text(path)?;
    text.parse().map_err(|e| Error::Input(format!("{}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().expect("a target")
    }

    #[test]
    fn a_file_that_a_user_names_must_be_right() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("h100.schedules");
        let error = ScheduleChoice::open(&path).expect_err("there is no file").to_string();
        assert!(error.contains("h100.schedules"), "{error}");
        std::fs::write(&path, "schedules \"cuda:sm_90\" {\n  device H100\n}\n").expect("written");
        let error = ScheduleChoice::open(&path).expect_err("the device is not in quotes").to_string();
        assert!(error.contains("h100.schedules") && error.contains("2:"), "{error}");
        std::fs::write(&path, ScheduleTable::empty(&target("cuda:sm_90")).to_string()).expect("written");
        let choice = ScheduleChoice::open(&path).expect("a table");
        assert!(choice.fits(&[target("cpu"), target("cuda:sm_90")]).is_ok());
        let error = choice.fits(&[target("cuda:sm_80")]).expect_err("of another architecture").to_string();
        assert!(error.contains("`cuda:sm_90`") && error.contains("`cuda:sm_80`"), "{error}");
        assert_eq!(choice.table(&target("cpu")), Ok(None));
    }

    #[test]
    fn a_file_of_the_environment_is_ignored_where_it_is_wrong_and_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("other.schedules");
        let said = |target: &Target| of_environment(&path, target).expect_err("is ignored");
        let gpu = target("cuda:sm_80");
        assert!(said(&gpu).contains("other.schedules") && said(&gpu).contains("ignored"), "{}", said(&gpu));
        std::fs::write(&path, "nonsense").expect("written");
        assert!(said(&gpu).contains("`schedules`"), "{}", said(&gpu));
        std::fs::write(&path, ScheduleTable::empty(&target("cuda:sm_90")).to_string()).expect("written");
        assert!(said(&gpu).contains("`cuda:sm_90`, not for `cuda:sm_80`"), "{}", said(&gpu));
        // A target that has no schedules says nothing of a table for others.
        assert_eq!(of_environment(&path, &Target::Cpu), Ok(None));
        assert!(of_environment(&path, &target("cuda:sm_90")).is_ok_and(|found| found.is_some()));
    }
}
