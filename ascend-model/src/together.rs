//! Kernels of one program compiled by few runs of the compiler: what is common to them is read and made once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiler::{Chip, Model, OBJECT, OPTIMISATION, Source, processors, write, write_unit};
use crate::whole::{complete, unique};
use crate::{Error, arguments_of};

/// Most kernels of a unit: one that fails is compiled again without the others, as they are without it.
const MOST: usize = 16;

/// The folder of the folders that units are compiled in.
pub(crate) const UNITS: &str = "units";

/// A kernel that is compiled beside others.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// The name of the function.
    pub name: &'a str,
    /// What the compiler calls its source in messages.
    pub file: &'a str,
    /// Its source under a name: kernels of one unit have names of their own.
    pub text: &'a (dyn Fn(&str) -> String + Sync),
}

/// A kernel in a unit.
struct Member {
    name: String,
    /// What it is called in the unit.
    inside: String,
    file: String,
    /// Its text under the name that it has inside, and where it is the other, under its own.
    text: String,
    own: Option<String>,
    place: PathBuf,
}

impl Member {
    fn source(&self) -> Source<'_> {
        Source { name: &self.file, text: &self.text }
    }

    fn alone(&self) -> Source<'_> {
        Source { name: &self.file, text: self.own.as_deref().unwrap_or(&self.text) }
    }
}

impl Model {
    /// Makes what [`Model::compile`] makes of each of these kernels alone, where it is not there yet, by few runs of the
    /// compiler: it then takes no time.
    ///
    /// Each source must have [`crate::described`] behind it. A source that the compiler refuses leaves those of its unit
    /// to be compiled alone; which it is, [`Model::compile`] says of itself.
    ///
    /// # Errors
    /// A folder that cannot be written; where units failed, what the compiler says of one of them.
    pub fn compile_each(&self, entries: &[Entry<'_>], headers: &[Source<'_>], chip: Chip) -> Result<(), Error> {
        let (mut members, mut names, mut places) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            let text = (entry.text)(entry.name);
            let place = self.place_of(&[Source { name: entry.file, text: &text }], headers, chip);
            if place.exists() || !places.insert(place.clone()) {
                continue;
            }
            let numbered = (1..).map(|i| format!("{}_{i}", entry.name));
            let mut free = std::iter::once(entry.name.to_owned()).chain(numbered).filter(|name| !names.contains(name));
            let inside = free.next().unwrap_or_default();
            names.insert(inside.clone());
            let other = (inside != entry.name).then(|| (entry.text)(&inside));
            let (text, own) = match other {
                Some(inside) => (inside, Some(text)),
                None => (text, None),
            };
            let (name, file) = (entry.name.to_owned(), entry.file.to_owned());
            members.push(Member { name, inside, file, text, own, place });
        }
        let units: Vec<&[Member]> = members.chunks(unit_size(members.len(), processors())).collect();
        self.each(&units, |unit| self.compile_unit(unit, headers, chip))
    }

    /// Compiles a unit in a folder of its own, and links an object of each kernel.
    fn compile_unit(&self, unit: &[Member], headers: &[Source<'_>], chip: Chip) -> Result<(), Error> {
        let folder = self.folder().join(UNITS).join(unique());
        let made = self.object_of_unit(&folder, unit, headers, chip).and_then(|object| {
            unit.iter().try_for_each(|member| {
                complete(&member.place, |place| {
                    write_unit(place, &[member.alone()], headers)?;
                    self.link(place, &object, member)
                })
            })
        });
        let removed = std::fs::remove_dir_all(&folder);
        made.and(removed.map_err(|source| Error::File { path: folder, source }))
    }

    fn object_of_unit(
        &self,
        folder: &Path,
        unit: &[Member],
        headers: &[Source<'_>],
        chip: Chip,
    ) -> Result<PathBuf, Error> {
        let sources: Vec<Source<'_>> = unit.iter().map(Member::source).collect();
        let text = write_unit(folder, &sources, headers)?;
        let object = folder.join("unit.o");
        let mut command = self.command(self.compiler(), folder, chip);
        command.args([OPTIMISATION, "-ffunction-sections", "-fdata-sections", "-c"]).arg(text).arg("-o").arg(&object);
        self.run(&mut command)?;
        Ok(object)
    }

    /// The shared object of one kernel of a unit, without what only the others need.
    fn link(&self, place: &Path, unit: &Path, member: &Member) -> Result<(), Error> {
        let symbols =
            [(member.name.clone(), member.inside.clone()), (arguments_of(&member.name), arguments_of(&member.inside))];
        let exported = place.join("exported");
        let [(name, _), (arguments, _)] = &symbols;
        write(&exported, &format!("{{ global: {name}; {arguments}; local: *; }};\n"))?;
        let mut command = Command::new(self.compiler());
        command.args(["-shared", "-Wl,--gc-sections"]).arg(format!("-Wl,--version-script={}", exported.display()));
        let renamed = symbols.iter().filter(|(outside, inside)| outside != inside);
        command.args(renamed.map(|(outside, inside)| format!("-Wl,--defsym={outside}={inside}")));
        command.arg(unit).arg("-o").arg(place.join(OBJECT));
        self.link_library(&mut command);
        self.run(&mut command)
    }
}

/// Kernels of a unit: all processors have one, and no unit has more than [`MOST`].
fn unit_size(kernels: usize, processors: usize) -> usize {
    let units = kernels.div_ceil(MOST).next_multiple_of(processors.max(1));
    kernels.div_ceil(units.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_few_and_even() {
        let sizes = [(0, 4), (3, 2), (2, 8), (40, 2), (16, 1), (100, 4)].map(|(kernels, by)| unit_size(kernels, by));
        assert_eq!(sizes, [1, 2, 1, 10, 16, 13]);
    }
}
