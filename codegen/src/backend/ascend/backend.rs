//! This emitter as a [`Backend`].

use fusewright_abi::{DType, PayloadKind, Target};

use super::chip::by_name;
use super::{EmitError, HEADERS, emit};
use crate::backend::{About, Backend, BackendError, Stage, Wanted, valid};
use crate::kernel::Kernel;

const NAME: &str = "ascend-c";
/// The form that compilers take.
const SOURCE: &str = PayloadKind::AscendC.extension();

/// Writes Ascend C for Huawei NPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct AscendBackend;

impl Backend for AscendBackend {
    fn about(&self) -> About {
        let (payload, file) = (PayloadKind::AscendC, PayloadKind::AscendC);
        About { name: NAME, payload, file, headers: HEADERS, memory: 0 }
    }

    fn fingerprint(&self) -> String {
        format!("emitter {}", env!("CARGO_PKG_VERSION"))
    }

    fn lacks(&self, dtype: DType, target: &Target) -> Option<String> {
        let (Target::Ascend { chip } | Target::AscendSim { chip }) = target else { return None };
        let chip = by_name(chip)?;
        chip.lacks(dtype).map(|why| format!("{dtype} on {}: {why}", chip.vendor))
    }

    /// The headers that the source includes come before it as stages.
    fn emit(&self, kernel: &Kernel, target: &Target, wanted: Wanted) -> Result<Vec<Stage>, BackendError> {
        let (Target::Ascend { chip } | Target::AscendSim { chip }) = target else {
            return Err(BackendError::target(NAME, target, "this backend compiles for `ascend`"));
        };
        valid(NAME, kernel)?;
        let text = emit(kernel, chip).map_err(|error| match error {
            EmitError::Unsupported { place, what } => {
                BackendError::unsupported(NAME, kernel, place, format!("no Ascend C for {what}"))
            }
            EmitError::Single => BackendError::internal(NAME, kernel, error.to_string()),
            EmitError::TooLarge(reason) => BackendError::unsupported(NAME, kernel, "buffer plan", reason),
            EmitError::UnknownChip(_) => BackendError::target(NAME, target, error.to_string()),
            EmitError::Template(message) => BackendError::internal(NAME, kernel, message),
        })?;
        let headers = if wanted == Wanted::Stages { HEADERS } else { &[] };
        let headers = headers.iter().map(|(_, text)| Stage { extension: "h", bytes: text.as_bytes().to_vec() });
        Ok(headers.chain([Stage { extension: SOURCE, bytes: text.into_bytes() }]).collect())
    }

    fn resume(&self, kernel: &Kernel, _: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        if stage.extension == SOURCE {
            return Ok(vec![stage]);
        }
        let message = format!("a changed `{}` is not taken: objects are made of `{SOURCE}`", stage.extension);
        Err(BackendError::stage(NAME, kernel, message))
    }
}
