//! The model's library and kernels for it, made by the host's C++ compiler in folders named by their content.
//!
//! Processes that build the same at the same time do not meet (`whole.rs`).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use crate::Error;
use crate::files::{File, HEADERS, RUNTIME};
use crate::kernel::Kernels;
use crate::limit::{self, Hold};
use crate::whole::complete;

/// What kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    /// The number of the architecture: 2201 (910B and 910C), 2002 (310P) or 3510 (950).
    pub arch: u32,
    /// Bytes of unified buffer that a kernel may use.
    pub buffer_bytes: u64,
}

impl Chip {
    /// The chip of an architecture such as `dav-2201`, or 2201 alone; `None` where the model has none.
    pub fn of(arch: &str, buffer_bytes: u64) -> Option<Chip> {
        let arch = arch.strip_prefix("dav-").unwrap_or(arch).parse().ok()?;
        [2201, 2002, 3510].contains(&arch).then_some(Chip { arch, buffer_bytes })
    }
}

/// A kernel's source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source<'a> {
    /// What the compiler calls it in messages.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What runs a compiler to its end, and gives what it said, as [`Command::output`] does, which waits for as long as it takes.
/// An error that is not of the system is in words for people, such as that a compiler was ended at a limit of time.
pub type Runner = fn(&mut Command) -> std::io::Result<Output>;

/// The model, built.
#[derive(Clone, Debug)]
pub struct Model {
    folder: PathBuf,
    compiler: OsString,
    runner: Runner,
    /// What keeps others from removing the folder.
    held: Option<Arc<Hold>>,
}

/// What the compiler is told wherever it is called: C++17, and every float operation rounded by itself.
pub(crate) const FLAGS: [&str; 3] = ["-std=c++17", "-fPIC", "-ffp-contract=off"];

impl Model {
    /// Builds the model's library under `cache`, where it is not there yet, with the compiler that `CXX` names, else
    /// `c++`.
    ///
    /// # Errors
    /// No compiler, one that refuses, or a folder that cannot be written.
    pub fn build(cache: &Path) -> Result<Model, Error> {
        let named = std::env::var_os("CXX").filter(|name| !name.is_empty());
        Model::build_with(cache, &named.unwrap_or_else(|| "c++".into()), Command::output)
    }

    /// As [`Model::build`], with a given compiler, which `runner` runs whenever it is needed.
    ///
    /// # Errors
    /// As of [`Model::build`]; a compiler that the runner ended.
    pub fn build_with(cache: &Path, compiler: &OsStr, runner: Runner) -> Result<Model, Error> {
        let version = output(runner, Command::new(compiler).arg("--version"))?;
        let mut hash = Sha256::new();
        part(&mut hash, &version.stdout);
        for (path, text) in HEADERS.iter().chain(RUNTIME) {
            part(&mut hash, path.as_bytes());
            part(&mut hash, text.as_bytes());
        }
        let folder = cache.join(format!("{}{}", limit::PREFIX, name(hash)));
        let mut model = Model { folder, compiler: compiler.to_os_string(), runner, held: None };
        while model.held.is_none() {
            complete(&model.folder, |folder| model.fill(folder))?;
            model.held = limit::hold(&model.folder).map(Arc::new);
        }
        Ok(model)
    }

    /// The folder that holds `include/`, `runtime/` and the library.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The library that kernels link to: `libascend_model.so`.
    pub fn library(&self) -> PathBuf {
        self.folder.join(LIBRARY)
    }

    /// Compiles kernels into one shared object and returns its path; the same sources yield the same path.
    ///
    /// Each source becomes a namespace of its own, so that those of several may share names; entries are `extern "C"`.
    /// `headers` are found by their names in `#include`.
    ///
    /// # Errors
    /// What the compiler refuses, with the command to repeat.
    pub fn compile(&self, sources: &[Source<'_>], headers: &[Source<'_>], chip: Chip) -> Result<PathBuf, Error> {
        let command = |folder: &Path, unit: &Path| self.kernels_command(folder, unit, chip);
        let folder = self.once(KERNELS, sources, headers, command)?;
        Ok(folder.join(OBJECT))
    }

    /// What makes a shared object of a unit.
    fn kernels_command(&self, folder: &Path, unit: &Path, chip: Chip) -> Command {
        let mut command = self.command(&self.compiler, folder, chip);
        command.args([OPTIMISATION, "-shared"]).arg(unit).arg("-o").arg(folder.join(OBJECT));
        self.link_library(&mut command);
        command
    }

    /// Adds the library, which is found where it is.
    pub(crate) fn link_library(&self, command: &mut Command) {
        command.arg(self.library()).arg(format!("-Wl,-rpath,{}", self.folder.display()));
    }

    /// Where [`Model::compile`] puts what it makes.
    pub(crate) fn place_of(&self, sources: &[Source<'_>], headers: &[Source<'_>], chip: Chip) -> PathBuf {
        let command = |folder: &Path, unit: &Path| self.kernels_command(folder, unit, chip);
        self.place(KERNELS, sources, headers, command)
    }

    /// Runs a command on sources, once for equal ones: its folder, under `kind`.
    pub(crate) fn once(
        &self,
        kind: &str,
        sources: &[Source<'_>],
        headers: &[Source<'_>],
        command: impl Fn(&Path, &Path) -> Command,
    ) -> Result<PathBuf, Error> {
        let folder = self.place(kind, sources, headers, &command);
        limit::touch(&folder);
        complete(&folder, |folder| {
            let unit = write_unit(folder, sources, headers)?;
            self.run(&mut command(folder, &unit))
        })?;
        Ok(folder)
    }

    /// The folder of what a command makes of sources.
    fn place(
        &self,
        kind: &str,
        sources: &[Source<'_>],
        headers: &[Source<'_>],
        command: impl Fn(&Path, &Path) -> Command,
    ) -> PathBuf {
        let mut hash = Sha256::new();
        let sample = command(Path::new("folder"), Path::new("unit"));
        part(&mut hash, format!("{kind} {sample:?}").as_bytes());
        part(&mut hash, &headers.len().to_le_bytes());
        for source in headers.iter().chain(sources) {
            part(&mut hash, source.name.as_bytes());
            part(&mut hash, source.text.as_bytes());
        }
        self.folder.join(kind).join(name(hash))
    }

    /// Loads a shared object that [`Model::compile`] made.
    ///
    /// # Errors
    /// What the system's loader says.
    pub fn load(&self, object: &Path) -> Result<Kernels, Error> {
        Kernels::load(&self.library(), object)
    }

    /// A compiler with the flags and folders that every source needs.
    pub(crate) fn command(&self, compiler: &OsStr, folder: &Path, chip: Chip) -> Command {
        let mut command = Command::new(compiler);
        command.args(FLAGS).arg(format!("-D__NPU_ARCH__={}", chip.arch));
        command.arg(format!("-DASCEND_MODEL_UB_BYTES={}", chip.buffer_bytes));
        command.arg("-I").arg(folder.join("headers")).arg("-I").arg(self.folder.join("include"));
        command
    }

    /// Writes all files and makes the library of them, its sources beside each other.
    fn fill(&self, folder: &Path) -> Result<(), Error> {
        for (path, text) in HEADERS.iter().chain(RUNTIME) {
            write(&folder.join(path), text)?;
        }
        let sources: Vec<&File> = RUNTIME.iter().filter(|(path, _)| path.ends_with(".cpp")).collect();
        self.each(&sources, |(path, _)| self.compile_runtime(&folder.join(path)))?;
        let mut command = Command::new(&self.compiler);
        command.arg("-shared").arg(format!("-Wl,-soname,{LIBRARY}")).arg("-o").arg(folder.join(LIBRARY));
        command.args(sources.iter().map(|(path, _)| folder.join(path).with_extension("o"))).arg("-ldl");
        self.run(&mut command)
    }

    /// Does something with each of some things, on all processors; stops where one fails.
    pub(crate) fn each<T: Sync>(
        &self,
        things: &[T],
        make: impl Fn(&T) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let next = Mutex::new(things.iter());
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..processors().min(things.len()) {
                scope.spawn(|| {
                    loop {
                        let thing = next.lock().expect("no thread panics").next();
                        let Some(thing) = thing else { break };
                        if let Err(error) = make(thing) {
                            *failed.lock().expect("no thread panics") = Some(error);
                            break;
                        }
                    }
                });
            }
        });
        failed.into_inner().expect("no thread panics").map_or(Ok(()), Err)
    }

    /// The compiler of C++.
    pub(crate) fn compiler(&self) -> &OsStr {
        &self.compiler
    }

    fn compile_runtime(&self, source: &Path) -> Result<(), Error> {
        let mut command = Command::new(&self.compiler);
        command.args(FLAGS).args(["-O2", "-c"]).arg(source).arg("-o").arg(source.with_extension("o"));
        self.run(&mut command)
    }

    /// Runs a compiler.
    ///
    /// # Errors
    /// One that is not there, that the runner ended, or that refuses.
    pub(crate) fn run(&self, command: &mut Command) -> Result<(), Error> {
        let output = output(self.runner, command)?;
        if output.status.success() {
            return Ok(());
        }
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")))
            .collect();
        Err(Error::Compile { output: String::from_utf8_lossy(&output.stderr).into_owned(), command: words.join(" ") })
    }
}

pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One source that includes all, each in a namespace; headers come first, so that they are in none.
pub(crate) fn write_unit(folder: &Path, sources: &[Source<'_>], headers: &[Source<'_>]) -> Result<PathBuf, Error> {
    let mut unit = String::from("#include \"kernel_operator.h\"\n");
    for header in headers {
        write(&folder.join("headers").join(header.name), header.text)?;
        unit += &format!("#include \"{}\"\n", header.name);
    }
    for (i, source) in sources.iter().enumerate() {
        let path = folder.join("sources").join(format!("{i}")).join(source.name);
        write(&path, source.text)?;
        unit += &format!("namespace unit{i} {{\n#include \"sources/{i}/{}\"\n}}\n", source.name);
    }
    let path = folder.join("unit.cpp");
    write(&path, &unit)?;
    Ok(path)
}

const LIBRARY: &str = "libascend_model.so";
/// Shared objects of kernels, and the folder of the folders that they are in.
pub(crate) const OBJECT: &str = "kernels.so";
pub(crate) const KERNELS: &str = "kernels";
/// How far kernels are optimised: more takes longer than it saves.
pub(crate) const OPTIMISATION: &str = "-O1";

/// Adds a part to a hash, so that parts cannot be mistaken for each other.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// A name for what these texts make.
pub(crate) fn hashed<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    texts.for_each(|text| part(&mut hash, text.as_bytes()));
    name(hash)
}

fn name(hash: Sha256) -> String {
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_path_buf(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

fn output(runner: Runner, command: &mut Command) -> Result<Output, Error> {
    runner(command).map_err(|source| match source.raw_os_error() {
        None => Error::Ended(source),
        Some(_) => Error::NoCompiler { compiler: command.get_program().to_string_lossy().into_owned(), source },
    })
}
