//! From the body of a region to a loaded kernel: lower, expand, verify, emit, load.
//!
//! Kernels are named by content: two regions with equal bodies share one kernel, in the compiler's cache and on disk.

mod error;
mod made;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fusewright_abi::{KernelArtifact, Payload, Target};
use fusewright_codegen::backend::{self, Backend, BackendError};
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::lower::{Outputs, lower_to};
use fusewright_graph::Graph;
use fusewright_graph::text::{PrintOptions, print_graph};
use fusewright_runtime::ascend::Npu;
use fusewright_runtime::cuda::Gpu;
use fusewright_runtime::{Counters, Device, Module, RuntimeError, Tiered, device_at};

use crate::ascend::{self, ToolkitChoice};
use crate::coder::Coder;
use crate::dump::DumpFolder;
use crate::replaced::{Replaced, Replacements};
use crate::store::{CacheChoice, Store};
use crate::threads::ThreadPool;
use crate::tiers::budget;
use crate::toolchain::{self, Toolchain};
use crate::{Error, Options, Progress, ScheduleChoice, knobs, npu, watch};

pub use error::CompileError;
pub use made::Compilation;
use made::Forms;
pub(crate) use made::{Apart, Made};

/// Compiles bodies for one target.
pub struct Compiler {
    coder: Coder,
    /// What makes better code behind the launches.
    second: Option<Arc<Coder>>,
    /// The first fault of the environment's table of schedules, or of a profiler.
    warning: Mutex<Option<String>>,
    pool: ThreadPool,
    /// The number of the device that kernels are loaded on.
    ordinal: usize,
    /// Where the cache on disk is, and the host model of NPUs beside it.
    cache: CacheChoice,
    counters: Arc<Counters>,
    outputs: Outputs,
    dump: Option<DumpFolder>,
    replacements: Option<Replacements>,
    log: Mutex<Vec<Compilation>>,
    pub(crate) progress: Progress,
}

impl Compiler {
    /// A compiler for a target.
    ///
    /// # Errors
    /// A target that this build or this machine cannot compile for, by name.
    pub fn new(target: &Target) -> Result<Compiler, Error> {
        let counters = Arc::default();
        let coder = Coder::of(target, Arc::default(), Arc::clone(&counters));
        Ok(Compiler {
            coder: coder.map_err(|e| Error::Unavailable(e.to_string()))?,
            second: None,
            warning: Mutex::new(watch::attach()),
            pool: ThreadPool::default(),
            ordinal: 0,
            cache: CacheChoice::default(),
            counters,
            outputs: Outputs::Contiguous,
            dump: DumpFolder::from_environment(),
            replacements: Replacements::from_environment(),
            log: Mutex::new(Vec::new()),
            progress: Progress::default(),
        })
    }

    /// A compiler for a target with the tiers, the assembler, the toolkit, the threads and the cache on disk that a user chose.
    ///
    /// # Errors
    /// As [`Compiler::new`], tiers that this build lacks, a table of schedules that a user names for another target, and an
    /// assembler or a toolkit that was asked for by name and does not work.
    pub fn of(target: &Target, options: &Options) -> Result<Compiler, Error> {
        let (target, tiered) = options.tiers.of(target)?;
        options.schedules.fits(std::slice::from_ref(&target))?;
        let compiler = Compiler::new(&target)?.with_cache(&options.cache).with_schedules(&options.schedules)?;
        // A host whose instructions LLVM does not take keeps what Cranelift makes.
        let (store, counters) = (Arc::clone(&compiler.coder.store), Arc::clone(&compiler.counters));
        let second = || Coder::of(&Target::CPU_LLVM, store, counters).ok().map(Arc::new);
        let second = if tiered { second() } else { None };
        let (pool, progress) = (options.pool.clone(), options.progress.clone());
        let compiler = Compiler { second, pool, progress, ordinal: options.device, ..compiler };
        let steps = toolchain::found(&target, options)?;
        Ok(Compiler { coder: compiler.coder.then(steps), ..compiler })
    }

    /// The same with a compiler of CANN, a toolkit or within this process, if there is one and the target is an NPU.
    ///
    /// # Errors
    /// A toolkit that was asked for by name and is not there.
    pub fn with_toolkit(self, choice: &ToolkitChoice) -> Result<Compiler, Error> {
        let step = ascend::step(self.target(), choice)?;
        Ok(Compiler { coder: self.coder.then(step.into_iter().collect()), ..self })
    }

    /// The same with a cache on disk, from which payloads come that are there, and to which others go. One that cannot be
    /// used is left alone, and [`Compiler::warning`] says why.
    #[must_use]
    pub fn with_cache(self, choice: &CacheChoice) -> Compiler {
        let coder = Coder { store: Arc::new(Store::of(choice)), ..self.coder };
        Compiler { coder, cache: choice.clone(), ..self }
    }

    /// The same with schedules of kernels, if they are for its target. What is wrong with a table of the environment is said
    /// by [`Compiler::warning`].
    ///
    /// # Errors
    /// A target without schedules.
    pub fn with_schedules(mut self, choice: &ScheduleChoice) -> Result<Compiler, Error> {
        match choice.table(self.target()) {
            Ok(None) => {}
            Ok(Some((table, may_be_wrong))) => {
                let scheduled = backend::scheduled(self.target(), table);
                let by_rule = || backend::for_target(self.target());
                let unavailable = |e: BackendError| Error::Unavailable(e.to_string());
                let by_rule = may_be_wrong.then(by_rule).transpose().map_err(unavailable)?;
                let toolchain = self.coder.toolchain.of(scheduled.map_err(unavailable)?);
                self.coder = Coder { toolchain, by_rule, ..self.coder };
            }
            Err(warning) => self.warn(warning),
        }
        Ok(self)
    }

    /// Says what is wrong with the cache on disk, the environment's table of schedules, or a profiler: the first fault that was met.
    pub fn warning(&self) -> Option<String> {
        let own = self.warning.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.coder.store.warning().or(own)
    }

    fn warn(&self, warning: String) {
        self.warning.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(warning);
    }

    /// What a coder makes of a kernel; by rule where the kernel cannot have what the environment's table says.
    fn coded<T>(&self, make: impl Fn(&Coder) -> Result<T, BackendError>) -> Result<T, BackendError> {
        self.coded_by(&self.coder, make)
    }

    fn coded_by<T>(&self, coder: &Coder, make: impl Fn(&Coder) -> Result<T, BackendError>) -> Result<T, BackendError> {
        let wrong = match make(coder) {
            Err(wrong @ BackendError::Schedule { .. }) => wrong,
            made => return made,
        };
        let Some(by_rule) = coder.by_rule() else { return Err(wrong) };
        self.warn(format!("{}: {wrong}; it is ignored", knobs::SCHEDULES.name));
        make(&by_rule)
    }

    /// The same for kernels whose outputs may lie in wider memory.
    pub(crate) fn with_outputs(self, outputs: Outputs) -> Compiler {
        Compiler { outputs, ..self }
    }

    /// What is compiled for.
    pub fn target(&self) -> &Target {
        &self.coder.target
    }

    /// The backend in use.
    pub fn backend(&self) -> &dyn Backend {
        self.coder.backend()
    }

    /// The backend, and what comes behind it.
    pub(crate) fn toolchain(&self) -> &Toolchain {
        &self.coder.toolchain
    }

    /// The Kernel IR of a body: as lowered, and expanded for the target.
    ///
    /// # Errors
    /// A body without a row program.
    pub fn kernel(&self, name: &str, body: &Graph) -> Result<(Kernel, Kernel), CompileError> {
        self.taken_forms(name, body).map(|forms| (forms.lowered, forms.expanded))
    }

    /// The forms of a body that the backend takes, if it takes any.
    fn taken_forms(&self, name: &str, body: &Graph) -> Result<Forms, CompileError> {
        let mut forms = self.forms(name, body)?;
        if forms.shares_memory()
            && let Err(BackendError::Unsupported { reason, .. }) = self.coded(|coder| coder.payload(&forms.expanded))
        {
            forms = self.forms_apart(name, body, reason)?;
        }
        Ok(forms)
    }

    fn forms(&self, name: &str, body: &Graph) -> Result<Forms, CompileError> {
        let start = Instant::now();
        let lowered = lower_to(&identifier(name), body, &self.coder.schedule, self.outputs)?;
        // The backend verifies what it makes code of: the expanded form. The interpreter verifies the other in tests.
        let expanded = expand(&lowered, column(self.target()))?;
        Ok(Forms { lowered, expanded, lower_us: start.elapsed().as_micros() as u64, refused: None })
    }

    /// The forms of a body whose outputs the backend does not take in the memory of inputs: they are apart.
    fn forms_apart(&self, name: &str, body: &Graph, reason: String) -> Result<Forms, CompileError> {
        let apart = (0..body.outputs().len()).fold(body.clone(), |body, i| body.with_update(i, None));
        Ok(Forms { refused: Some(reason), ..self.forms(name, &apart)? })
    }

    /// The compiled kernel of a body.
    ///
    /// # Errors
    /// A body without a row program, or one that the backend does not take; stages that cannot be dumped.
    pub fn artifact(&self, name: &str, body: &Graph) -> Result<KernelArtifact, CompileError> {
        self.make(name, body).map(|made| made.artifact)
    }

    /// As [`Compiler::artifact`], with what was to be written in place and is not.
    pub(crate) fn make(&self, name: &str, body: &Graph) -> Result<Made, CompileError> {
        let (made, done) = self.make_timed(name, body)?;
        self.note(done);
        Ok(made)
    }

    /// Makes code of bodies together, where the backend does that; what has no kernel says so by itself.
    pub(crate) fn prepare(&self, bodies: &[(&str, &Graph)]) {
        if self.toolchain().compiles_together() {
            let kernels = bodies.iter().filter_map(|(name, body)| Some(self.forms(name, body).ok()?.expanded));
            self.coder.prepare(&kernels.collect::<Vec<_>>());
        }
    }

    /// Notes a compilation in the log.
    pub(crate) fn note(&self, done: Compilation) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }

    /// As [`Compiler::make`], with what is to be noted of it.
    pub(crate) fn make_timed(&self, name: &str, body: &Graph) -> Result<(Made, Compilation), CompileError> {
        let watched = watch::kernel(name, self.target(), self.backend().about().name);
        if let Some(folder) = &self.dump {
            let forms = self.kernel(name, body).ok();
            let written = folder.kernel(name, body, forms.as_ref(), self.toolchain(), self.target());
            written.map_err(|e| CompileError::Dump(Box::new(e)))?;
        }
        if let Some(made) = self.make_of_replaced(name, body)? {
            watched.came(watch::From::Changed);
            return Ok(made);
        }
        let start = Instant::now();
        let mut forms = self.forms(name, body)?;
        // Better code that is there already needs no other before it.
        let (artifact, from_disk) = match self.second.as_ref().and_then(|second| second.kept(&forms.expanded)) {
            Some(kept) => (kept, true),
            None => match self.coded(|coder| coder.artifact(&forms.expanded)) {
                Err(BackendError::Unsupported { reason, .. }) if forms.shares_memory() => {
                    forms = self.forms_apart(name, body, reason)?;
                    self.coded(|coder| coder.artifact(&forms.expanded))?
                }
                made => made?,
            },
        };
        watched.came(if from_disk { watch::From::Disk } else { watch::From::Compiled });
        let done = Compilation::of(name, start, &forms, &artifact, from_disk);
        let apart = forms.apart(body);
        let improvable = self.second.is_some() && artifact.target == *self.target();
        let may_be_left = self.toolchain().left_to_drivers().is_some();
        let kernel = (improvable || may_be_left).then(|| Arc::new(forms.expanded));
        Ok((Made { artifact, apart, kernel, replaced: false }, done))
    }

    /// As [`Compiler::make_timed`], of the stage of the kernel that a person changed, if there is one. It is not kept on disk,
    /// and no other code takes its place.
    fn make_of_replaced(&self, name: &str, body: &Graph) -> Result<Option<(Made, Compilation)>, CompileError> {
        let Some(folder) = &self.replacements else { return Ok(None) };
        let start = Instant::now();
        let forms = self.taken_forms(name, body)?;
        let found = folder.of(name, body, (&forms.lowered, &forms.expanded), self.toolchain(), self.target())?;
        let Some(replaced) = found else { return Ok(None) };
        self.warn(replaced.note());
        let Replaced { path, stage } = replaced;
        let artifact = self.coder.resumed(&forms.expanded, stage).map_err(|error| match error {
            BackendError::Stage { .. } => {
                CompileError::Replaced(Box::new(Error::Input(format!("{}: {error}", path.display()))))
            }
            other => other.into(),
        })?;
        let done = Compilation::of(name, start, &forms, &artifact, false);
        Ok(Some((Made { artifact, apart: forms.apart(body), kernel: None, replaced: true }, done)))
    }

    /// Loads a compiled body; where better code may come, as a kernel that takes it when it does.
    ///
    /// # Errors
    /// No driver for the target; memory that cannot be had.
    pub(crate) fn load(&self, made: &Made) -> Result<Arc<dyn Module>, RuntimeError> {
        let device = self.device(&made.artifact.target)?;
        let module = match (device.load(&made.artifact), &made.kernel) {
            (Err(refused @ RuntimeError::Artifact { .. }), Some(kernel)) => {
                let Some(coder) = self.coder.left_to_drivers() else { return Err(refused) };
                // Such as a driver that is older than the assembler.
                self.coder.store.warn(format!("{refused}; its driver compiles it instead"));
                let made = self.coded_by(&coder, |coder| coder.artifact(kernel));
                let (artifact, _) = made.map_err(|_| refused)?;
                device.load(&artifact)?
            }
            (loaded, ..) => loaded?,
        };
        let (Some(second), Some(kernel)) = (&self.second, &made.kernel) else { return Ok(module) };
        let device = self.device(&second.target)?;
        let (second, budget, kernel) = (Arc::clone(second), budget(kernel), Arc::clone(kernel));
        let make = move || {
            let watched = watch::kernel(&kernel.name, &second.target, second.backend().about().name);
            let (artifact, from_disk) = second.artifact(&kernel).map_err(|e| e.to_string())?;
            watched.came(if from_disk { watch::From::Disk } else { watch::From::Compiled });
            device.load(&artifact).map_err(|e| e.to_string())
        };
        Ok(Tiered::new(module, budget, Box::new(make), Arc::clone(&self.counters)))
    }

    /// What runs kernels of a target.
    pub(crate) fn device(&self, target: &Target) -> Result<Arc<dyn Device>, RuntimeError> {
        match target {
            Target::Ascend { .. } | Target::AscendSim { .. } => Ok(Arc::new(self.npu_of(target)?)),
            _ => device_at(target, self.ordinal, self.pool.shared()),
        }
    }

    /// The NPU that runs kernels of the target.
    pub(crate) fn npu(&self) -> Result<Npu, RuntimeError> {
        self.npu_of(self.target())
    }

    fn npu_of(&self, target: &Target) -> Result<Npu, RuntimeError> {
        match self.ordinal {
            0 => npu::open(target, &self.cache),
            other => {
                let reason = format!("no device of number {other}: programs run on the first NPU");
                Err(RuntimeError::Unavailable { target: target.to_string(), reason })
            }
        }
    }

    /// The GPU that runs kernels of the target.
    pub(crate) fn gpu(&self) -> Result<Gpu, RuntimeError> {
        Gpu::at(self.target(), self.ordinal)
    }

    /// What becomes of the kernels that this compiler made.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The kernel of a body as a file for a linker or a driver.
    ///
    /// # Errors
    /// As [`Compiler::artifact`].
    pub fn object(&self, name: &str, body: &Graph) -> Result<KernelArtifact, CompileError> {
        self.object_and_code(name, body).map(|(object, _)| object)
    }

    /// As [`Compiler::object`], and what a driver loads of the same kernel.
    ///
    /// # Errors
    /// As [`Compiler::artifact`].
    pub fn object_and_code(&self, name: &str, body: &Graph) -> Result<(KernelArtifact, Payload), CompileError> {
        let Made { artifact, replaced, .. } = self.make(name, body)?;
        let payload = if replaced {
            artifact.payload.clone()
        } else {
            let (_, expanded) = self.kernel(name, body)?;
            self.coded(|coder| coder.toolchain.file(&expanded, &coder.target))?
        };
        let code = artifact.payload;
        Ok((KernelArtifact { payload, ..artifact }, code))
    }

    /// The kernels compiled so far, in order.
    pub fn log(&self) -> Vec<Compilation> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compiler({}, {})", self.target(), self.backend().about().name)
    }
}

/// What tells kernels of one target apart within a graph: the name, and the body without where its nodes came from.
pub(crate) fn content(name: &str, body: &Graph) -> (String, String) {
    (name.to_owned(), print_graph(body, PrintOptions { types: true, hide_origins: true }))
}

/// The column of the scalar table that says what a target computes itself.
pub(crate) fn column(target: &Target) -> Column {
    match target {
        Target::Cpu | Target::CpuLlvm { .. } => Column::Cpu,
        Target::Cuda { .. } => Column::Cuda,
        Target::Ascend { .. } | Target::AscendSim { .. } => Column::Ascend,
    }
}

/// A C identifier made from a region's name.
fn identifier(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let text: String = name.chars().map(word).collect();
    // Operations that C++ has as words.
    let taken = ["and", "or", "not", "xor"].contains(&text.as_str());
    if taken || text.starts_with(|c: char| c.is_ascii_digit()) || text.is_empty() { format!("k_{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use fusewright_abi::PayloadKind;
    use fusewright_codegen::backend::{About, Stage, Wanted};

    use super::*;

    #[test]
    fn kernels_are_called_no_word_of_cpp() {
        assert_eq!(["add", "not", "a.b", "2d"].map(identifier), ["add", "k_not", "a_b", "k_2d"]);
    }

    /// A backend that takes nothing in the memory of an input.
    struct NothingInPlace;

    impl Backend for NothingInPlace {
        fn about(&self) -> About {
            let (payload, file) = (PayloadKind::AscendC, PayloadKind::AscendC);
            About { name: "apart", payload, file, headers: &[], memory: 0 }
        }

        fn fingerprint(&self) -> String {
            "apart".to_owned()
        }

        fn emit(&self, kernel: &Kernel, _: &Target, _: Wanted) -> Result<Vec<Stage>, BackendError> {
            match kernel.params.iter().find(|p| p.alias.is_some()) {
                Some(param) => Err(BackendError::Unsupported {
                    backend: "apart",
                    kernel: kernel.name.clone(),
                    place: param.name.clone(),
                    reason: "an output in place".to_owned(),
                }),
                None => Ok(vec![Stage { extension: "txt", bytes: kernel.to_string().into_bytes() }]),
            }
        }
    }

    #[test]
    fn what_a_backend_does_not_take_in_place_is_compiled_apart_and_says_why() {
        let text = "graph @g(s: 1..; %x: f32[s, 64]) {\n  %y = exp %x\n  return %y updates %x\n}\n";
        let body: Graph = text.parse().expect("parses");
        let whole = Compiler::new(&Target::Cpu).expect("this machine has a processor");
        let made = whole.make("g", &body).expect("compiles");
        assert_eq!((made.artifact.params[1].alias, made.apart), (Some(0), Vec::new()));
        let compiler = Compiler {
            coder: Coder { toolchain: Toolchain::new(Arc::new(NothingInPlace), Vec::new()), ..whole.coder },
            ..whole
        };
        let made = compiler.make("g", &body).expect("compiles on the second try");
        assert_eq!(made.artifact.params[1].alias, None);
        let [apart] = made.apart.as_slice() else { panic!("one output is apart: {:?}", made.apart) };
        assert_eq!((apart.output, apart.input), (0, 0));
        assert!(apart.reason.contains("in place"), "{}", apart.reason);
        let (lowered, expanded) = compiler.kernel("g", &body).expect("lowers");
        assert!([lowered, expanded].iter().all(|kernel| kernel.params.iter().all(|p| p.alias.is_none())));
    }
}
