//! Launches on memory of the host: it is copied to the device and back.

use std::sync::Arc;

use fusewright_abi::KernelArtifact;

use super::buffer::DeviceBuffer;
use super::context::Context;
use super::kernel::{DeviceArg, Kernel, Loaded};
use super::stream::Stream;
use crate::{Arg, Module, RuntimeError};

/// A kernel that is loaded into a context.
#[derive(Debug)]
pub(super) struct AscendModule {
    kernel: Kernel,
}

impl AscendModule {
    /// Loads the binary of a kernel, which was made for so many cores at least.
    pub fn load(context: Arc<Context>, artifact: &KernelArtifact, cores: u32) -> Result<AscendModule, RuntimeError> {
        Ok(AscendModule { kernel: Kernel::new(Arc::new(Loaded::load(context, artifact, cores)?)) })
    }
}

impl Module for AscendModule {
    fn launch(&self, args: &mut [Arg<'_>], dims: &[i64], rows: usize, _: usize) -> Result<(), RuntimeError> {
        let Loaded { signature, context, .. } = &*self.kernel.loaded;
        signature.check(args, dims, rows)?;
        let raw = context.new_stream().map_err(|failure| failure.of(&signature.name))?;
        let stream = Stream::new(Arc::clone(context), raw, true);
        let mut memory = Vec::with_capacity(args.len());
        for (param, arg) in signature.params.iter().zip(args.iter()) {
            let bytes = param.dtype.bytes_for(param.elements.count(dims));
            // What is written is sent too: rows need not write all of it.
            let host: &[u8] = match arg {
                Arg::In(host) => host,
                Arg::Out(host) => host,
                Arg::Same(_) => &[],
            };
            let shared = matches!(arg, Arg::Same(_));
            let buffer = DeviceBuffer::new(context, if shared { 0 } else { bytes })?;
            buffer.upload(&stream, &host[..buffer.len()])?;
            memory.push(buffer);
        }
        let given: Vec<DeviceArg<'_>> = args
            .iter()
            .zip(&memory)
            .map(|(arg, buffer)| match arg {
                Arg::In(_) => DeviceArg::In(buffer),
                Arg::Out(_) => DeviceArg::Out(buffer),
                Arg::Same(other) => DeviceArg::Same(*other),
            })
            .collect();
        let distinct = signature.at_once(args, rows);
        self.kernel.prepare(&given, dims, rows, distinct)?.enqueue(&stream)?;
        for (arg, buffer) in args.iter_mut().zip(&memory) {
            if let Arg::Out(host) = arg {
                buffer.download(&stream, 0, &mut host[..buffer.len()])?;
            }
        }
        stream.wait()
    }

    fn on_npu(&self) -> Option<Kernel> {
        Some(self.kernel.clone())
    }
}
