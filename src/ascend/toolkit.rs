//! Where a toolkit of CANN lies, and of which version it is.

use std::fmt;
use std::path::{Path, PathBuf};

use super::command::NoRoute;
use super::version::CannVersion;
use crate::{Error, knobs};

/// The value of [`knobs::ASCEND_TOOLKIT`] that means none.
const OFF: &str = "off";
/// Folders of tools, below a toolkit.
const BINARIES: [&str; 5] =
    ["compiler/ccec_compiler/bin", "tools/ccec_compiler/bin", "ccec_compiler/bin", "tools/bisheng_compiler/bin", "bin"];
/// Tools of which a toolkit has at least one.
const COMPILERS: [&str; 2] = ["ccec", "bisheng"];
/// Where installers put a toolkit, below `/usr/local` or the user's folder.
const USUAL: [&str; 3] = ["Ascend/ascend-toolkit/latest", "Ascend/cann", "Ascend/latest"];

/// Whether kernels for Ascend NPUs are compiled before they are loaded, and by what; if not, their source is what is loaded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum ToolkitChoice {
    /// As [`knobs::ASCEND_TOOLKIT`] says; else the first of `ASCEND_HOME_PATH`, `ASCEND_TOOLKIT_HOME` and the usual folders
    /// that has a compiler; else not.
    #[default]
    Environment,
    /// Not.
    Off,
    /// By the toolkit in that folder.
    At(PathBuf),
}

impl ToolkitChoice {
    /// The toolkit, or `None` if there is to be none or none was found.
    ///
    /// # Errors
    /// One that was asked for by name and is not there.
    pub fn find(&self) -> Result<Option<Toolkit>, Error> {
        match self.named() {
            Named::Off => Ok(None),
            Named::At(home) => Toolkit::at(&home).map(Some).map_err(Error::Unavailable),
            Named::Nothing => Ok(usual_places().iter().find_map(|home| Toolkit::at(home).ok())),
        }
    }

    /// The toolkit.
    ///
    /// # Errors
    /// [`MissingToolkit`], which names every place that was looked at.
    pub fn require(&self) -> Result<Toolkit, MissingToolkit> {
        match self.named() {
            Named::Off => Err(MissingToolkit { looked: Vec::new(), switched_off: true }),
            Named::At(home) => Toolkit::at(&home).map_err(|reason| MissingToolkit::one(&home, reason)),
            Named::Nothing => first(usual_places()),
        }
    }

    fn named(&self) -> Named {
        let named = match self {
            ToolkitChoice::Off => return Named::Off,
            ToolkitChoice::At(home) => Some(home.clone()),
            ToolkitChoice::Environment => knobs::ASCEND_TOOLKIT.path(),
        };
        match named {
            Some(word) if word == Path::new(OFF) => Named::Off,
            Some(home) => Named::At(home),
            None => Named::Nothing,
        }
    }
}

enum Named {
    Off,
    At(PathBuf),
    Nothing,
}

fn first(places: Vec<PathBuf>) -> Result<Toolkit, MissingToolkit> {
    let mut looked = Vec::new();
    for home in places {
        match Toolkit::at(&home) {
            Ok(toolkit) => return Ok(toolkit),
            Err(reason) => looked.push((home, reason)),
        }
    }
    Err(MissingToolkit { looked, switched_off: false })
}

/// No toolkit of CANN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingToolkit {
    /// Every folder that was looked at, and why it is none.
    pub looked: Vec<(PathBuf, String)>,
    /// Whether none was looked for.
    pub switched_off: bool,
}

impl MissingToolkit {
    fn one(home: &Path, reason: String) -> Self {
        MissingToolkit { looked: vec![(home.to_owned(), reason)], switched_off: false }
    }
}

impl fmt::Display for MissingToolkit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let knob = knobs::ASCEND_TOOLKIT.name;
        if self.switched_off {
            return write!(f, "no CANN toolkit: `{knob}` or an option switches it off");
        }
        write!(f, "no CANN toolkit: ASCEND_HOME_PATH or {knob} may name its folder; looked at")?;
        self.looked.iter().try_for_each(|(_, reason)| write!(f, "\n  {reason}"))
    }
}

impl std::error::Error for MissingToolkit {}

impl From<MissingToolkit> for Error {
    fn from(missing: MissingToolkit) -> Self {
        Error::Unavailable(missing.to_string())
    }
}

/// A toolkit of CANN with a compiler for kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Toolkit {
    home: PathBuf,
    version: CannVersion,
    /// Folder of its compilers.
    binaries: PathBuf,
    /// A made-up one, whose tools are not looked for.
    assumed: bool,
}

impl Toolkit {
    /// The toolkit in a folder.
    ///
    /// # Errors
    /// In words that name the folder: it is not there, has no compiler, or its files do not say a version.
    pub fn at(home: &Path) -> Result<Toolkit, String> {
        let failed = |reason: String| format!("{}: {reason}", home.display());
        if !home.is_dir() {
            return Err(failed("there is no such folder".to_owned()));
        }
        let below = BINARIES.map(|folder| home.join(folder)).into_iter().chain(by_host(home, "ccec_compiler/bin"));
        let has_compiler = |folder: &PathBuf| COMPILERS.iter().any(|tool| folder.join(tool).is_file());
        let binaries = below.into_iter().find(has_compiler);
        let binaries = binaries
            .ok_or_else(|| failed(format!("it has no {} in {}", COMPILERS.join(" or "), BINARIES.join(", "))))?;
        let version = version_of(home).map_err(failed)?;
        Ok(Toolkit { home: home.to_owned(), version, binaries, assumed: false })
    }

    /// A toolkit that need not be there, for command lines of machines that have it.
    pub fn assumed(home: &Path, version: CannVersion) -> Toolkit {
        Toolkit { home: home.to_owned(), version, binaries: home.join(BINARIES[0]), assumed: true }
    }

    /// Its folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Its version.
    pub fn version(&self) -> &CannVersion {
        &self.version
    }

    /// A tool's file.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn tool(&self, name: &str) -> Result<PathBuf, NoRoute> {
        let file = self.binaries.join(name);
        if self.assumed || file.is_file() { Ok(file) } else { Err(NoRoute::no_tool(&self.version, &file)) }
    }
}

/// Folders of a toolkit that are for one kind of host: `x86_64-linux`, `aarch64-linux`.
fn by_host(home: &Path, below: &str) -> Vec<PathBuf> {
    ["x86_64-linux", "aarch64-linux"].iter().map(|host| home.join(host).join(below)).collect()
}

/// The version that the files of a toolkit state.
fn version_of(home: &Path) -> Result<CannVersion, String> {
    let mut files = by_host(home, "ascend_toolkit_install.info");
    files.extend(["ascend_toolkit_install.info", "compiler/version.info", "version.info"].map(|file| home.join(file)));
    let mut wrong = None;
    for file in &files {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        let stated = text.lines().filter_map(|line| line.split_once('='));
        let stated = stated.filter(|(key, _)| key.trim().eq_ignore_ascii_case("version")).map(|(_, value)| value);
        match stated.map(|value| value.trim().parse()).next() {
            Some(Ok(version)) => return Ok(version),
            Some(Err(reason)) => wrong = wrong.or(Some(format!("{}: {reason}", file.display()))),
            None => {}
        }
    }
    let names = "ascend_toolkit_install.info, compiler/version.info or version.info";
    Err(wrong.unwrap_or_else(|| format!("its version is stated in none of {names}")))
}

/// Folders in which a toolkit may lie, the nearest first.
fn usual_places() -> Vec<PathBuf> {
    let stated = [&knobs::ASCEND_HOME_PATH, &knobs::ASCEND_TOOLKIT_HOME].into_iter().filter_map(knobs::Knob::path);
    let roots = [Some(PathBuf::from("/usr/local")), knobs::HOME.path()].into_iter().flatten();
    let usual = roots.flat_map(|root| USUAL.map(|folder| root.join(folder)));
    let mut places: Vec<PathBuf> = Vec::new();
    for place in stated.chain(usual) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(home: &Path, file: &str, text: &str) {
        let path = home.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    #[test]
    fn a_toolkit_has_a_compiler_and_states_its_version() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("cann");
        let reason = |home: &Path| Toolkit::at(home).expect_err("it is none");
        assert!(reason(&home).contains("no such folder"), "{}", reason(&home));
        write(&home, "readme", "");
        assert!(reason(&home).contains("ccec or bisheng"), "{}", reason(&home));
        write(&home, "compiler/ccec_compiler/bin/ccec", "");
        assert!(reason(&home).contains("its version is stated in none of"), "{}", reason(&home));
        write(&home, "x86_64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=new\n");
        assert!(reason(&home).contains("`new` is no version"), "{}", reason(&home));
        let info = "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\ninnerversion=V100R001C21\narch=x86_64\n";
        write(&home, "x86_64-linux/ascend_toolkit_install.info", info);
        let toolkit = Toolkit::at(&home).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(toolkit.version().to_string(), "8.1.RC1");
        assert_eq!(toolkit.tool("ccec").expect("it is there"), home.join("compiler/ccec_compiler/bin/ccec"));
        let lack = toolkit.tool("bisheng").expect_err("it is not there").to_string();
        assert!(lack.contains("8.1.RC1") && lack.contains("bisheng"), "{lack}");
    }

    #[test]
    fn what_is_missing_names_every_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let places = ["a", "b"].map(|name| folder.path().join(name));
        let missing = first(places.to_vec()).expect_err("there is none");
        assert_eq!(missing.looked.len(), 2);
        let text = missing.to_string();
        assert!(places.iter().all(|place| text.contains(&place.display().to_string())), "{text}");
        assert!(text.contains("ASCEND_HOME_PATH") && text.contains(knobs::ASCEND_TOOLKIT.name), "{text}");
        let off = ToolkitChoice::Off.require().expect_err("it is off").to_string();
        assert!(off.contains("switches it off"), "{off}");
        let named = ToolkitChoice::At(places[1].clone());
        assert!(named.find().is_err() && named.require().expect_err("not there").looked.len() == 1);
    }
}
