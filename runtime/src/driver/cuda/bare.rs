//! The bare call of the driver that a prepared launch ends in, for measuring what is around it.

use fusewright_cuda_sys as sys;

use super::api::Failure;
use super::buffer::refused;
use super::context::Current;
use super::kernel::{Launch, Prepared};
use super::launch::launch;
use super::stream::Stream;
use crate::RuntimeError;

/// A launch as the driver takes it: its context is this thread's, its shape and its arguments lie ready, and nothing is
/// checked but the driver's status.
#[derive(Debug)]
pub struct Bare<'p> {
    launch: &'p Launch,
    config: Config,
    _current: Current<'p>,
    /// Whom the launches go to, which nobody captures meanwhile.
    _stream: &'p mut Stream,
}

/// A shape without the attributes of overlapping launches.
struct Config(sys::CUlaunchConfig);

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} blocks of {} threads", self.0.gridDimX, self.0.blockDimX)
    }
}

impl Prepared {
    /// The bare call that the launch makes, over and over.
    ///
    /// # Errors
    /// A launch that is none or several calls, or that may overlap; a stream of another device; a device that was lost.
    pub fn bare<'p>(&'p self, stream: &'p mut Stream) -> Result<Bare<'p>, RuntimeError> {
        const ACTION: &str = "launching a kernel barely";
        let launch = &*self.launch;
        stream.is_of(&launch.code.context, ACTION)?;
        let [range] = &*launch.ranges else {
            return Err(refused(ACTION, format!("it is {} calls of the driver", launch.ranges.len())));
        };
        if launch.dependent {
            return Err(refused(ACTION, "it may overlap others".to_owned()));
        }
        let failed = |failure: Failure| failure.during(ACTION);
        let current = launch.code.context.enter().map_err(failed)?;
        launch.used_by(stream).map_err(failed)?;
        let config = Config(launch.loaded.config(range, launch.shared, stream, None));
        Ok(Bare { launch, config, _current: current, _stream: stream })
    }
}

impl Bare<'_> {
    /// Calls the driver.
    ///
    /// # Errors
    /// A device that was lost.
    pub fn enqueue(&self) -> Result<(), RuntimeError> {
        let Launch { loaded, code, ranges, arguments, .. } = self.launch;
        // There is one of each.
        for (range, arguments) in ranges.iter().zip(arguments) {
            // SAFETY: as of the prepared launch, whose arguments these are, and which outlives this; the context is current
            // to this thread, which the value cannot leave, and the stream, which is borrowed, is not being captured.
            unsafe { launch(code.context.api, &self.config.0, code.function(range), arguments.as_ptr()) }
                .map_err(|failure| failure.of(&loaded.signature.name))?;
        }
        Ok(())
    }
}
