//! This emitter as a [`Backend`].

use std::sync::Arc;

use fusewright_abi::{PayloadKind, Target};
use inkwell::module::Module;

use super::{EmitError, candidates, compile, emit_as, from_ll, launch, schedule};
use crate::backend::llvm::MEMORY;
use crate::backend::{About, Backend, BackendError, Grid, Schedules, Stage, Wanted, valid};
use crate::kernel::Kernel;
use crate::schedule::{KernelSchedule, ScheduleTable, Spread};

const NAME: &str = "nvptx";
/// Forms of a kernel on its way.
const LL: &str = "ll";
const PTX: &str = PayloadKind::Ptx.extension();

/// Makes PTX for NVIDIA GPUs.
#[derive(Clone, Debug, Default)]
pub struct CudaBackend {
    schedules: Option<Arc<ScheduleTable>>,
}

impl CudaBackend {
    /// The same with schedules of some kernels.
    pub fn with_schedules(table: Arc<ScheduleTable>) -> CudaBackend {
        CudaBackend { schedules: Some(table) }
    }

    fn given(&self, kernel: &Kernel) -> Option<&KernelSchedule> {
        self.schedules.as_ref().and_then(|table| table.of(kernel))
    }

    fn refusal(&self, error: EmitError, kernel: &Kernel, target: &Target) -> BackendError {
        let wrong = |reason: String| {
            let (kernel, schedule) = (kernel.name.clone(), self.of(kernel).to_string());
            BackendError::Schedule { backend: NAME, kernel, schedule, reason }
        };
        match error {
            EmitError::Schedule(reason) => wrong(reason),
            // Shared memory, which loops may need more of than there is.
            EmitError::Unsupported { .. } if self.given(kernel).is_some() => wrong(error.to_string()),
            EmitError::Unsupported { place, what } => {
                BackendError::unsupported(NAME, kernel, place, format!("no GPU code for {what}"))
            }
            EmitError::UnknownArch(_) => BackendError::target(NAME, target, error.to_string()),
            EmitError::Llvm(message) => BackendError::internal(NAME, kernel, message),
        }
    }
}

impl Backend for CudaBackend {
    fn about(&self) -> About {
        About { name: NAME, payload: PayloadKind::Ptx, file: PayloadKind::Ptx, headers: &[], memory: MEMORY }
    }

    fn fingerprint(&self) -> String {
        format!("llvm 22, emitter {}", env!("CARGO_PKG_VERSION"))
    }

    fn grid(&self, kernel: &Kernel, target: &Target) -> Grid {
        let arch = if let Target::Cuda { arch } = target { arch.as_str() } else { "" };
        launch(kernel, arch, &self.of(kernel))
    }

    fn schedules(&self) -> Option<&dyn Schedules> {
        Some(self)
    }

    fn emit(&self, kernel: &Kernel, target: &Target, wanted: Wanted) -> Result<Vec<Stage>, BackendError> {
        let arch = arch(kernel, target)?;
        let schedule = self.of(kernel);
        let refused = |error| self.refusal(error, kernel, target);
        let stage = |extension, text: String| Stage { extension, bytes: text.into_bytes() };
        if wanted != Wanted::Stages {
            let built = &mut |_: &Module<'_>| ();
            return Ok(vec![stage(PTX, compile(kernel, arch, &schedule, built).map_err(refused)?)]);
        }
        let emitted = emit_as(kernel, arch, &schedule).map_err(refused)?;
        // As a table of its own, to be changed and given back by hand.
        let mut table = ScheduleTable::empty(target);
        table.tools = format!("{NAME}, {}", self.fingerprint());
        table.insert(kernel, schedule, Vec::new());
        Ok(vec![stage("schedules", table.to_string()), stage(LL, emitted.ll), stage(PTX, emitted.ptx)])
    }

    fn resume(&self, kernel: &Kernel, target: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        match stage.extension {
            LL => {
                let ptx = from_ll(&stage.bytes, arch(kernel, target)?).map_err(|error| match error {
                    EmitError::Llvm(message) => BackendError::stage(NAME, kernel, message),
                    other => self.refusal(other, kernel, target),
                })?;
                Ok(vec![stage, Stage { extension: PTX, bytes: ptx.into_bytes() }])
            }
            PTX => Ok(vec![stage]),
            other => {
                let message = format!("a changed `{other}` is not taken: code is made of `{LL}` or `{PTX}`");
                Err(BackendError::stage(NAME, kernel, message))
            }
        }
    }
}

impl Schedules for CudaBackend {
    fn of(&self, kernel: &Kernel) -> KernelSchedule {
        self.given(kernel).cloned().unwrap_or_else(|| schedule(kernel))
    }

    fn candidates(&self, kernel: &Kernel) -> Vec<Spread> {
        candidates(kernel)
    }

    fn kind(&self, kernel: &Kernel, rows: usize) -> Option<String> {
        super::kind(kernel, &self.of(kernel), rows).ok()
    }
}

/// The architecture of a target, for a kernel that is well formed.
fn arch<'t>(kernel: &Kernel, target: &'t Target) -> Result<&'t str, BackendError> {
    let Target::Cuda { arch } = target else {
        return Err(BackendError::target(NAME, target, "this backend compiles for `cuda`"));
    };
    valid(NAME, kernel)?;
    Ok(arch)
}
