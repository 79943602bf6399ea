//! Launches on memory of the host: it is copied to the device and back.

use fusewright_cuda_sys as sys;
use std::sync::Arc;

use super::api::Failure;
use super::context::Context;
use super::kernel::Kernel;
use super::launch::{config, launch, pointers};
use super::loaded::Loaded;
use super::memory::Buffer;
use crate::{Arg, Module, RuntimeError, trace};
use fusewright_abi::KernelArtifact;

/// A kernel that is loaded into a context.
#[derive(Debug)]
pub(super) struct CudaModule {
    loaded: Arc<Loaded>,
}

impl CudaModule {
    /// Loads a kernel, whose PTX the driver compiles.
    pub fn load(context: &Arc<Context>, artifact: &KernelArtifact) -> Result<CudaModule, RuntimeError> {
        Ok(CudaModule { loaded: Arc::new(Loaded::load(context, artifact)?) })
    }

    fn run(&self, args: &mut [Arg<'_>], dims: &[i64], rows: usize) -> Result<(), Failure> {
        let loaded = &self.loaded;
        let code = &loaded.home;
        let current = code.context.enter()?;
        let mut memory: Vec<Option<Buffer<'_>>> = Vec::with_capacity(args.len());
        for (param, arg) in loaded.signature.params.iter().zip(args.iter()) {
            let bytes = param.dtype.bytes_for(param.elements.count(dims));
            // What is written is sent too: rows need not write all of it.
            let host: &[u8] = match arg {
                Arg::In(host) => host,
                Arg::Out(host) => host,
                Arg::Same(_) => {
                    memory.push(None);
                    continue;
                }
            };
            let buffer = Buffer::new(&current, bytes)?;
            buffer.upload(host)?;
            memory.push(Some(buffer));
        }
        let address = |i: usize| memory.get(i).and_then(Option::as_ref).map_or(0, |buffer| buffer.address);
        let buffers: Vec<sys::CUdeviceptr> = args
            .iter()
            .enumerate()
            .map(|(i, arg)| if let Arg::Same(other) = arg { address(*other) } else { address(i) })
            .collect();
        let at_once = loaded.signature.at_once(args, rows);
        let shared = loaded.allow_shared(code, dims)?;
        for range in loaded.ranges(dims, rows, at_once) {
            let config = config(range.blocks, loaded.threads(&range), shared, current.context.stream);
            let values: Vec<u64> = buffers.iter().copied().chain(dims.iter().map(|&dim| dim as u64)).collect();
            let values = pointers(&values, &range.rows);
            // SAFETY: the artifact's calling convention is buffers, integers, range. The signature compared every buffer with
            // the shapes that `dims` imply, a kernel stays within them, and the driver copies the values before it returns.
            unsafe { launch(current.context.api, &config, code.function(&range), values.as_ptr())? };
        }
        for (arg, buffer) in args.iter_mut().zip(&memory) {
            if let (Arg::Out(host), Some(buffer)) = (arg, buffer) {
                buffer.download(host)?;
            }
        }
        current.wait()
    }
}

impl Module for CudaModule {
    fn launch(&self, args: &mut [Arg<'_>], dims: &[i64], rows: usize, _: usize) -> Result<(), RuntimeError> {
        let signature = &self.loaded.signature;
        signature.check(args, dims, rows)?;
        let _watched = trace::launch_on_device(&signature.name, rows);
        self.run(args, dims, rows).map_err(|failure| failure.of(&signature.name))
    }

    fn on_device(&self) -> Option<Kernel> {
        Some(Kernel::new(Arc::clone(&self.loaded)))
    }
}
