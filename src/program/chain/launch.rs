//! Calls of a chain: on slices of the host, and on memory of a GPU.

use std::sync::PoisonError;

use fusewright_runtime::Arg;
use fusewright_runtime::cuda::{DeviceArg, DeviceBuffer, LaunchOptions, Stream};

use super::Chain;
use super::fit::{Fitted, Launch, Read};
use crate::Error;
use crate::host::zeroed;

/// Workspaces kept per size; more calls at once than that allocate.
const KEPT_WORKSPACES: usize = 4;

impl Chain {
    /// Computes the outputs on up to `threads` threads; the bits do not depend on how many. Inputs are read in row-major
    /// order, outputs are written in the order that [`Chain::outputs`] says. An output that overwrites an input is given
    /// with what that holds, and the input is empty.
    ///
    /// # Errors
    /// Slices of other lengths than [`Fitted::inputs`] and [`Fitted::outputs`] say; a chain for a GPU; a launch that fails.
    pub fn call(
        &self,
        fitted: &Fitted,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        threads: usize,
    ) -> Result<(), Error> {
        check("input", fitted.inputs(), inputs.iter().map(|bytes| bytes.len()))?;
        check("output", fitted.outputs(), outputs.iter().map(|bytes| bytes.len()))?;
        if self.gpu.is_some() {
            return Err(Error::Call("the kernels run on a GPU, and the tensors are the host's".to_owned()));
        }
        let mut workspace = fitted.workspace()?;
        let mut made: Vec<Option<&mut [u8]>> = Vec::with_capacity(outputs.len() + workspace.len());
        made.extend(outputs.iter_mut().map(|bytes| Some(&mut **bytes)));
        made.extend(workspace.iter_mut().map(|bytes| Some(bytes.as_mut_slice())));
        for launch in &fitted.launches {
            launch.run(fitted, inputs, &mut made, threads)?;
        }
        fitted.give_back(workspace);
        Ok(())
    }

    /// Enqueues the launches of a call on memory of the stream's GPU, as [`Chain::call`]; `scratch` is of
    /// [`Fitted::scratch`] bytes.
    ///
    /// Kernels that become part of a graph that somebody else captures stay for as long as the process runs.
    ///
    /// # Errors
    /// Buffers shorter than [`Fitted::inputs`] and [`Fitted::outputs`] say, or not aligned as kernels need it; a chain for
    /// the host; a device that was lost.
    pub fn enqueue(
        &self,
        fitted: &Fitted,
        inputs: &[DeviceBuffer],
        (outputs, scratch): (&[DeviceBuffer], &DeviceBuffer),
        stream: &Stream,
    ) -> Result<(), Error> {
        check("input", fitted.inputs(), inputs.iter().map(DeviceBuffer::len))?;
        check("output", fitted.outputs(), outputs.iter().map(DeviceBuffer::len))?;
        let mut made = outputs.to_vec();
        for place in &fitted.places {
            made.push(scratch.part(place.clone())?);
        }
        fitted.launches.iter().try_for_each(|launch| launch.enqueue(inputs, &made, stream))
    }
}

fn check(what: &str, expected: &[usize], got: impl ExactSizeIterator<Item = usize>) -> Result<(), Error> {
    if expected.len() != got.len() {
        return Err(Error::Call(format!("{} {what}s, expected {}", got.len(), expected.len())));
    }
    match got.zip(expected).enumerate().find(|(_, (got, expected))| got != *expected) {
        Some((i, (got, expected))) => Err(Error::Call(format!("{what} {i} has {got} bytes, expected {expected}"))),
        None => Ok(()),
    }
}

impl Fitted {
    fn workspace(&self) -> Result<Vec<Vec<u8>>, Error> {
        if self.temporaries.is_empty() {
            return Ok(Vec::new());
        }
        let kept = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(|| self.temporaries.iter().map(|&bytes| zeroed(bytes)).collect(), Ok)
    }

    fn give_back(&self, workspace: Vec<Vec<u8>>) {
        if workspace.is_empty() {
            return;
        }
        let mut kept = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_WORKSPACES {
            kept.push(workspace);
        }
    }
}

impl Launch {
    fn run<'m>(
        &self,
        fitted: &Fitted,
        inputs: &[&[u8]],
        made: &mut [Option<&'m mut [u8]>],
        threads: usize,
    ) -> Result<(), Error> {
        let absent = || Error::Internal(format!("{}: memory is read and written", self.label));
        // What is written is taken out while the rest is borrowed.
        let taken = self.writes.iter().map(|&(i, _)| made[i].take().ok_or_else(absent));
        let mut taken: Vec<&'m mut [u8]> = taken.collect::<Result<_, _>>()?;
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(self.reads.len() + taken.len());
        for (read, range) in &self.reads {
            let memory = match *read {
                Read::Input(i) => inputs[i],
                Read::Made(i) => made[i].as_deref().ok_or_else(absent)?,
                Read::Constant(i) => &fitted.constants[i],
                Read::Same(argument) => {
                    args.push(Arg::Same(argument));
                    continue;
                }
            };
            args.push(Arg::In(&memory[range.clone()]));
        }
        args.extend(taken.iter_mut().zip(&self.writes).map(|(memory, &(_, bytes))| Arg::Out(&mut memory[..bytes])));
        let launched = self.module.launch(&mut args, &self.dims, self.rows, threads.max(1));
        drop(args);
        for (&(i, _), memory) in self.writes.iter().zip(taken) {
            made[i] = Some(memory);
        }
        launched.map_err(|e| Error::from(e).about(&self.label))
    }

    fn enqueue(&self, inputs: &[DeviceBuffer], made: &[DeviceBuffer], stream: &Stream) -> Result<(), Error> {
        let about = |e| Error::from(e).about(&self.label);
        let kernel = self.on_device.as_ref();
        let kernel = kernel.ok_or_else(|| Error::Call(format!("{}: its kernel is the host's", self.label)))?;
        let (mut reads, mut writes) = (Vec::with_capacity(self.reads.len()), Vec::with_capacity(self.writes.len()));
        for (read, range) in &self.reads {
            let whole = match *read {
                Read::Input(i) => &inputs[i],
                Read::Made(i) => &made[i],
                Read::Same(argument) => {
                    reads.push(Err(argument));
                    continue;
                }
                Read::Constant(_) => {
                    return Err(Error::Call(format!("{}: it reads a constant of the host", self.label)));
                }
            };
            reads.push(Ok(whole.part(range.clone()).map_err(about)?));
        }
        for &(i, bytes) in &self.writes {
            writes.push(made[i].part(0..bytes).map_err(about)?);
        }
        let given = reads.iter().map(|read| match read {
            Ok(memory) => DeviceArg::In(memory),
            Err(argument) => DeviceArg::Same(*argument),
        });
        let args: Vec<DeviceArg<'_>> = given.chain(writes.iter().map(DeviceArg::Out)).collect();
        // Frameworks do not say which of two rows stays that are written to one place of a GPU.
        let options = LaunchOptions { unordered: self.writes_once, ..kernel.behind_anything() };
        kernel.enqueue(stream, &args, (&self.dims, self.rows), options).map_err(about)
    }
}
