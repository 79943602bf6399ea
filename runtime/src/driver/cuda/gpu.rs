//! A GPU as its users see it: what it is, and what work on it is made of.

use std::ffi::c_void;
use std::sync::Arc;

use fusewright_abi::{KernelArtifact, Target};

use super::buffer::DeviceBuffer;
use super::context::Context;
use super::following::Following;
use super::kernel::Kernel;
use super::loaded::Loaded;
use super::stream::{Event, Stream};
use super::{CudaDevice, runs};
use crate::RuntimeError;

/// A device that the driver shows to this process, whatever code it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The driver's name of it.
    pub name: String,
    /// Compute capability, as the major and the minor number.
    pub capability: (i32, i32),
    /// Version of CUDA that the driver is of, as the major and the minor number.
    pub driver: (i32, i32),
}

/// Every device that the driver shows to this process, by its number, or why it cannot be used.
///
/// # Errors
/// No driver, one that is too old, or no device, in words.
pub fn shown() -> Result<Vec<Result<Shown, String>>, String> {
    let of = |context: Arc<Context>| Shown {
        name: context.name.clone(),
        capability: context.capability,
        driver: version(&context),
    };
    Ok((0..Context::count()?).map(|ordinal| Context::at(ordinal).map(of)).collect())
}

fn version(context: &Context) -> (i32, i32) {
    let version = context.api.version;
    (version / 1000, version % 1000 / 10)
}

/// A GPU: buffers, streams and kernels of one device. Cloning gives another handle of the same.
#[derive(Clone, Debug)]
pub struct Gpu {
    target: Target,
    context: Arc<Context>,
}

impl Gpu {
    /// The first device of this machine, if it runs kernels of a target.
    ///
    /// # Errors
    /// A target that is no NVIDIA GPU; no driver, no device, or one that does not run the target's code.
    pub fn of(target: &Target) -> Result<Gpu, RuntimeError> {
        Gpu::at(target, 0)
    }

    /// The device of a number, as the driver counts those that it shows to this process, if it runs kernels of a target.
    ///
    /// # Errors
    /// As [`Gpu::of`]; no device of that number.
    pub fn at(target: &Target, ordinal: usize) -> Result<Gpu, RuntimeError> {
        let unavailable = |reason: String| RuntimeError::Unavailable { target: target.to_string(), reason };
        let Target::Cuda { arch } = target else {
            return Err(unavailable("it is no NVIDIA GPU".to_owned()));
        };
        let device = CudaDevice::new(arch, ordinal).map_err(unavailable)?;
        Ok(Gpu { target: target.clone(), context: device.context })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// How many devices the driver shows to this process; none where there is no driver.
    pub fn count() -> usize {
        Context::count().unwrap_or(0)
    }

    /// Its number among the devices of this process, from 0.
    pub fn ordinal(&self) -> usize {
        self.context.ordinal
    }

    /// What the driver calls the device.
    pub fn name(&self) -> &str {
        &self.context.name
    }

    /// Its multiprocessors.
    pub fn processors(&self) -> u32 {
        self.context.processors
    }

    /// Bytes of its second-level cache.
    pub fn cache_bytes(&self) -> usize {
        self.context.cache_bytes
    }

    /// Bytes of its memory that nobody has now.
    ///
    /// # Errors
    /// A device that was lost.
    pub fn free_bytes(&self) -> Result<usize, RuntimeError> {
        self.context.free_bytes().map_err(|failure| failure.during("asking for free memory"))
    }

    /// Version of CUDA that the driver is of, as the major and the minor number.
    pub fn driver(&self) -> (i32, i32) {
        version(&self.context)
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
    /// A driver that refuses.
    pub fn stream(&self) -> Result<Stream, RuntimeError> {
        let raw = self.context.new_stream().map_err(|failure| failure.during("making a stream"))?;
        Ok(Stream::own(Arc::clone(&self.context), raw))
    }

    /// The stream of a caller, such as the one that a framework works on. What was used on it may be dropped at any time:
    /// it is given back when the stream has passed its work.
    ///
    /// # Safety
    /// The handle is a `CUstream` of the device's primary context, which stays valid for as long as the result lives, and
    /// kernels and buffers that were used on it: when these are dropped it is asked where its work has come to. If somebody
    /// else captures it, memory of launches is allocated for as long as their graph lives.
    pub unsafe fn adopt_stream(&self, raw: *mut c_void) -> Stream {
        let following = Following::Shared(raw.expose_provenance());
        Stream::of_caller(Arc::clone(&self.context), raw.cast(), following)
    }

    /// As [`Gpu::adopt_stream`], of a caller who waits for the stream before anything is dropped that was used on it.
    ///
    /// # Safety
    /// The handle is a `CUstream` of the device's primary context, which stays valid for as long as the result lives.
    /// Kernels and buffers that were used on it are dropped when its work is done. If somebody else captures it, memory of
    /// launches is allocated for as long as their graph lives.
    pub unsafe fn borrow_stream(&self, raw: *mut c_void) -> Stream {
        Stream::of_caller(Arc::clone(&self.context), raw.cast(), Following::Never)
    }

    /// Memory of a caller, such as a tensor of a framework. Nothing keeps it.
    ///
    /// # Safety
    /// The address is of so many bytes of the device, which stay allocated until all that was enqueued on them has run, and
    /// which nobody else writes, or reads where it is written, without waiting for that.
    pub unsafe fn adopt_memory(&self, address: u64, bytes: usize) -> DeviceBuffer {
        DeviceBuffer::adopted(&self.context, address, bytes)
    }

    /// A mark in a stream that knows its time.
    ///
    /// # Errors
    /// A driver that refuses.
    pub fn event(&self) -> Result<Event, RuntimeError> {
        Event::new(&self.context)
    }

    /// Loads a kernel: PTX, which the driver compiles, or what an assembler made of it. On other devices of the process it is
    /// loaded when it is first prepared or launched there.
    ///
    /// # Errors
    /// An artifact that does not run on the device, or that its driver refuses; too little memory.
    pub fn load(&self, artifact: &KernelArtifact) -> Result<Kernel, RuntimeError> {
        let refuse = |reason: String| RuntimeError::Artifact { kernel: artifact.name.clone(), reason };
        match &artifact.target {
            Target::Cuda { arch } if runs(arch, self.context.capability) => {}
            other => return Err(refuse(format!("it is for target `{other}`, which {} does not run", self.name()))),
        }
        Ok(Kernel::new(Arc::new(Loaded::load(&self.context, artifact)?)))
    }

    /// What kernels are to be compiled for.
    pub fn target(&self) -> &Target {
        &self.target
    }
}
