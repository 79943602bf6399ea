//! An NPU as its users see it: what it is, and what work on it is made of.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fusewright_abi::{KernelArtifact, Target};

use super::buffer::DeviceBuffer;
use super::context::Context;
use super::facts::Chip;
use super::kernel::{Kernel, Loaded};
use super::stream::{Event, Stream};
use crate::RuntimeError;

/// An NPU: buffers, streams and kernels of one device. Cloning gives another handle of the same.
#[derive(Clone, Debug)]
pub struct Npu {
    target: Target,
    chip: Chip,
    pub(super) context: Arc<Context>,
}

impl Npu {
    /// The first device of this machine, through the first of these files that is a runtime, for kernels of a chip. A target
    /// that is simulated takes only a runtime that says so of itself.
    ///
    /// # Errors
    /// A target that is no NPU; no runtime, with what was looked for; no device, or one that does not run the chip's code.
    pub fn open(target: &Target, files: &[PathBuf], chip: &Chip) -> Result<Npu, RuntimeError> {
        let unavailable = |reason: String| RuntimeError::Unavailable { target: target.to_string(), reason };
        if !matches!(target, Target::Ascend { .. } | Target::AscendSim { .. }) {
            return Err(unavailable("it is no Ascend NPU".to_owned()));
        }
        let context = Context::first(files).map_err(unavailable)?;
        if matches!(target, Target::AscendSim { .. }) && !context.api.simulated {
            return Err(unavailable(format!("{} is no stand-in of a runtime", context.api.file.display())));
        }
        context.facts.run(chip).map_err(unavailable)?;
        Ok(Npu { target: target.clone(), chip: chip.clone(), context })
    }

    /// What the runtime calls the chip.
    pub fn name(&self) -> &str {
        &self.context.facts.soc
    }

    /// Whether a stand-in of the runtime computes all that this device computes.
    pub fn is_simulated(&self) -> bool {
        self.context.api.simulated
    }

    /// The file of the runtime.
    pub fn library(&self) -> &Path {
        &self.context.api.file
    }

    /// The folder that the runtime was loaded from, if it was not left to the system to find it.
    pub fn folder(&self) -> Option<&Path> {
        self.context.api.folder()
    }

    /// Version of the runtime, as the library numbers it.
    pub fn version(&self) -> Option<(i32, i32, i32)> {
        self.context.api.version()
    }

    /// Its vector cores: what the runtime says, or what kernels are made for.
    pub fn cores(&self) -> u32 {
        self.context.facts.vector_cores.unwrap_or(self.chip.vector_cores)
    }

    /// Bytes of its second-level cache, if the runtime says so.
    pub fn cache_bytes(&self) -> Option<usize> {
        self.context.facts.cache_bytes
    }

    /// Bytes of its memory that nobody has now.
    ///
    /// # Errors
    /// A device that was lost.
    pub fn free_bytes(&self) -> Result<usize, RuntimeError> {
        self.context.free_bytes().map_err(|failure| failure.during("asking for free memory"))
    }

    /// Memory of so many bytes, which are not set.
    ///
    /// # Errors
    /// Too little memory; a device that was lost.
    pub fn buffer(&self, bytes: usize) -> Result<DeviceBuffer, RuntimeError> {
        DeviceBuffer::new(&self.context, bytes)
    }

    /// A stream of our own: what is enqueued on it runs in order, and beside what other streams do.
    ///
    /// # Errors
    /// A runtime that refuses.
    pub fn stream(&self) -> Result<Stream, RuntimeError> {
        let raw = self.context.new_stream().map_err(|failure| failure.during("making a stream"))?;
        Ok(Stream::new(Arc::clone(&self.context), raw, true))
    }

    /// The stream of a caller, such as the one that a framework works on.
    ///
    /// # Safety
    /// The handle is an `aclrtStream` of the device's default context, which stays valid for as long as the result lives, and
    /// is not being captured by anybody else.
    pub unsafe fn adopt_stream(&self, raw: *mut c_void) -> Stream {
        Stream::new(Arc::clone(&self.context), raw.cast(), false)
    }

    /// A mark in a stream that knows its time.
    ///
    /// # Errors
    /// A runtime that refuses.
    pub fn event(&self) -> Result<Event, RuntimeError> {
        Event::new(&self.context)
    }

    /// Loads the binary of a kernel.
    ///
    /// # Errors
    /// An artifact of another target, or one that the runtime refuses; too little memory.
    pub fn load(&self, artifact: &KernelArtifact) -> Result<Kernel, RuntimeError> {
        self.check(artifact)?;
        let loaded = Loaded::load(Arc::clone(&self.context), artifact, self.chip.vector_cores)?;
        Ok(Kernel::new(Arc::new(loaded)))
    }

    /// Refuses an artifact of another target.
    pub(super) fn check(&self, artifact: &KernelArtifact) -> Result<(), RuntimeError> {
        if artifact.target == self.target {
            return Ok(());
        }
        let reason = format!("it is for target `{}`, not `{}`", artifact.target, self.target);
        Err(RuntimeError::Artifact { kernel: artifact.name.clone(), reason })
    }

    /// What kernels are to be compiled for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What kernels are made for.
    pub fn chip(&self) -> &Chip {
        &self.chip
    }
}
