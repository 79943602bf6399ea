//! The host model of NPUs: built by the host's compiler of C++ beside the kernel cache, and kernels compiled against it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{collections::BTreeMap, fs};

use fusewright_abi::{PayloadKind, Target};
use fusewright_ascend_model::{
    ARGUMENTS_HEADER, Chip, Device, Entry, Error as ModelError, Model, Source, StandIn, Version, described,
};
use fusewright_codegen::backend::{About, BackendError};
use fusewright_codegen::kernel::Kernel;
use fusewright_runtime::disk;

use super::chip;
use crate::ascend::Scratch;
use crate::store::{self, CacheChoice};
use crate::toolchain::{CodeOf, Step};
use crate::{external, knobs};

/// Folder of the model beside the entries of the kernel cache.
const FOLDER: &str = "ascend-model";
/// A kernel that was not asked for since then is in nobody's use: it is read as soon as it is made.
const IDLE: Duration = Duration::from_secs(600);
/// After how many kernels the folder is looked at again.
const LOOK: usize = 256;
/// The compiler unless [`knobs::CXX`] names another.
const COMPILER: &str = "c++";

/// The host model of the NPU of one target.
#[derive(Debug)]
pub(crate) struct Simulated {
    model: Model,
    stand_in: StandIn,
    chip: Chip,
    /// Bytes that the folder of the model may hold.
    limit: u64,
    /// How many kernels were asked for.
    asked: AtomicUsize,
}

impl Simulated {
    /// The model of a target, built where it is not there yet.
    ///
    /// # Errors
    /// A chip without numbers; no compiler of C++, or one that refuses; a folder that cannot be written; in words.
    pub fn of(target: &Target, cache: &CacheChoice) -> Result<Arc<Simulated>, String> {
        type Known = BTreeMap<(Target, PathBuf), Arc<Simulated>>;
        static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
        let folder = folder(cache)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (target.clone(), folder);
        if let Some(simulated) = known.get(&key) {
            return Ok(Arc::clone(simulated));
        }
        let numbers = chip(target)?;
        let chip = Chip { arch: numbers.architecture, buffer_bytes: numbers.buffer_bytes };
        let model = Model::build_with(&key.1, compiler_name().as_ref(), external::output).map_err(words)?;
        let device = Device { soc: numbers.soc, chip, vector_cores: numbers.vector_cores };
        let stand_in = model.stand_in(&device, Version::V9_1).map_err(words)?;
        // A limit that is no number is what the kernel cache complains of.
        let limit = store::limit().unwrap_or(u64::MAX);
        model.trim(limit, IDLE);
        let simulated = Arc::new(Simulated { model, stand_in, chip, limit, asked: AtomicUsize::new(0) });
        known.insert(key, Arc::clone(&simulated));
        Ok(simulated)
    }

    /// The file of the stand-in of the vendor's runtime.
    pub fn runtime(&self) -> PathBuf {
        self.stand_in.runtime()
    }
}

/// Where the model is built: beside the kernel cache, or where there is none in a folder of this process, which removes it.
fn folder(cache: &CacheChoice) -> Result<PathBuf, String> {
    static OF_PROCESS: Mutex<Option<PathBuf>> = Mutex::new(None);
    let folder = match cache.folder()? {
        Some(folder) => folder.join(FOLDER),
        None => {
            let mut of_process = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
            let folder = match of_process.take() {
                Some(folder) => folder,
                None => Scratch::new().map_err(|error| format!("a folder of the host model: {error}"))?.until_exit(),
            };
            of_process.insert(folder).join(FOLDER)
        }
    };
    // Libraries of it are loaded.
    disk::private(&folder).map_err(|reason| format!("the folder {} of the host model {reason}", folder.display()))?;
    Ok(folder)
}

fn compiler_name() -> String {
    knobs::CXX.read().unwrap_or_else(|| COMPILER.to_owned())
}

/// The compiler that builds the model, as it names itself.
///
/// # Errors
/// No such compiler, in words.
pub(crate) fn compiler() -> Result<String, String> {
    let name = compiler_name();
    let asked = external::output(std::process::Command::new(&name).arg("--version"));
    let said = asked.map_err(|error| unused(&name, &error))?;
    let version = String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().trim().to_owned();
    Ok(format!("`{name}` ({version})"))
}

/// Why the compiler said nothing.
fn unused(name: &str, error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => {
            format!(
                "its host model is built by a compiler of C++, and `{name}` does not start: {error}; CXX names another"
            )
        }
        None => format!("its host model: {error}"),
    }
}

fn words(error: ModelError) -> String {
    match error {
        ModelError::NoCompiler { compiler, source } => unused(&compiler, &source),
        other => format!("its host model: {other}"),
    }
}

/// The host's compiler behind the backend that writes Ascend C.
pub(crate) struct HostCompiler {
    by: Arc<Simulated>,
}

impl HostCompiler {
    pub fn new(by: Arc<Simulated>) -> HostCompiler {
        HostCompiler { by }
    }
}

/// Sources that kernels include.
fn included(about: &About) -> Vec<Source<'static>> {
    let headers = about.headers.iter().map(|&(name, text)| Source { name, text });
    headers.chain([ARGUMENTS_HEADER]).collect()
}

/// What is compiled of a kernel.
fn text(kernel: &str, source: &[u8]) -> String {
    format!("{}{}", String::from_utf8_lossy(source), described(kernel))
}

/// What the compiler calls it.
fn file(kernel: &str) -> String {
    format!("{kernel}.cpp")
}

impl Step for HostCompiler {
    /// The model's folder is named after its sources and its compiler.
    fn fingerprint(&self) -> String {
        self.by.model.folder().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::AscendObject
    }

    fn make(&self, of: &Kernel, _: &Target, about: &About, code: &[u8]) -> Result<Vec<u8>, BackendError> {
        let internal =
            |message: String| BackendError::Internal { backend: about.name, kernel: of.name.clone(), message };
        let source = Source { name: &file(&of.name), text: &text(&of.name, code) };
        let object = self.by.model.compile(&[source], &included(about), self.by.chip);
        let object = object.map_err(|error| internal(words(error)))?;
        let bytes = fs::read(&object).map_err(|error| internal(format!("{}: {error}", object.display())))?;
        if self.by.asked.fetch_add(1, Ordering::Relaxed) % LOOK == LOOK - 1 {
            self.by.model.trim(self.by.limit, IDLE);
        }
        Ok(bytes)
    }

    fn makes_together(&self) -> bool {
        true
    }

    fn make_ready(&self, kernels: &[&Kernel], about: &About, code: &CodeOf<'_>) {
        let named = |kernel: &Kernel, name: &str| {
            let source = code(&Kernel { name: name.to_owned(), ..kernel.clone() })?;
            Some(text(name, &source))
        };
        let taken = kernels.iter().filter(|kernel| named(kernel, &kernel.name).is_some());
        let texts: Vec<_> =
            taken.map(|&k| (k, file(&k.name), move |name: &str| named(k, name).unwrap_or_default())).collect();
        let entries = texts.iter().map(|(kernel, file, text)| Entry { name: &kernel.name, file, text });
        // What is wrong with a kernel is said where that is compiled by itself.
        let _ = self.by.model.compile_each(&entries.collect::<Vec<_>>(), &included(about), self.by.chip);
    }
}
