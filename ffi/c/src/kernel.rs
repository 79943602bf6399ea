//! Kernels that were loaded, and their launches on memory of the caller.

use std::ffi::c_void;
use std::sync::Arc;

use fusewright_abi::{ParamAccess, Target};
use fusewright_runtime::bundle::{Entry, Fitted};
use fusewright_runtime::cuda::{DeviceArg, Gpu};
use fusewright_runtime::{Arg, Module, RuntimeError, device_at, shared_pool};

use crate::bundle::{BundleHandle, given, put};
use crate::status::{Failure, Status, guarded};

/// A kernel that was loaded.
#[derive(Debug)]
pub struct KernelHandle {
    entry: Entry,
    module: Arc<dyn Module>,
    /// The device whose memory it may be enqueued on.
    gpu: Option<Gpu>,
}

/// Memory of a launch: a dense tensor, row-major.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorRef {
    /// Where its first element lies.
    pub data: *mut c_void,
    /// Extents of its axes, in elements.
    pub shape: *const i64,
    /// Number of axes.
    pub rank: usize,
}

/// A launch that was read and found to fit.
struct Call<'c> {
    kernel: &'c KernelHandle,
    fitted: Fitted,
    data: Vec<*mut u8>,
}

/// Loads the kernel of an index for the first device of its target, which has to be there.
///
/// # Safety
/// The bundle is open; `kernel` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_kernel_load(
    bundle: *const BundleHandle,
    index: usize,
    kernel: *mut *mut KernelHandle,
) -> Status {
    // SAFETY: as the caller says.
    unsafe { fusewright_kernel_load_on(bundle, index, 0, kernel) }
}

/// As `fusewright_kernel_load`, for the device of a number among those of its target, counted from 0.
///
/// # Safety
/// As of `fusewright_kernel_load`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_kernel_load_on(
    bundle: *const BundleHandle,
    index: usize,
    device: usize,
    kernel: *mut *mut KernelHandle,
) -> Status {
    guarded(|| {
        // SAFETY: as the caller says.
        let handle = unsafe { given(bundle, "bundle") }?;
        // SAFETY: as the caller says.
        unsafe { given(kernel, "kernel") }?;
        let entry = handle.entry(index)?.clone();
        let gpu = match &entry.target {
            target @ Target::Cuda { .. } => Some(Gpu::at(target, device)?),
            _ => None,
        };
        let module = handle.bundle.load(index, &*device_at(&entry.target, device, shared_pool())?)?;
        // SAFETY: as the caller says.
        unsafe { put(kernel, "kernel", Box::into_raw(Box::new(KernelHandle { entry, module, gpu }))) }
    })
}

/// Frees a kernel and its code. Null is nothing.
///
/// # Safety
/// The handle is of `fusewright_kernel_load`, runs nowhere, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_kernel_close(kernel: *mut KernelHandle) {
    if !kernel.is_null() {
        // SAFETY: as the caller says.
        drop(unsafe { Box::from_raw(kernel) });
    }
}

/// Launches a kernel on all rows of tensors in memory of the host, in the order of its parameters, on up to `threads`
/// threads, and waits.
///
/// # Safety
/// The handle is loaded. `tensors` are `count` of them, whose shapes are `rank` numbers each. Their memory is as large as
/// their shapes, and nothing else writes it, or reads what the kernel writes, meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_kernel_launch(
    kernel: *const KernelHandle,
    tensors: *const TensorRef,
    count: usize,
    threads: usize,
) -> Status {
    // SAFETY: as the caller says.
    guarded(|| unsafe { Call::read(kernel, tensors, count)?.launch(threads.max(1)) })
}

/// Enqueues a kernel on a stream of its device, on all rows of tensors in memory of that, in the order of its parameters.
///
/// # Safety
/// As of `fusewright_kernel_launch`, with memory of the device that the kernel was loaded for, and until the stream has passed
/// the launch. The stream is a `CUstream` of that device's primary context; the kernel is open until the stream is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fusewright_kernel_enqueue(
    kernel: *const KernelHandle,
    tensors: *const TensorRef,
    count: usize,
    stream: *mut c_void,
) -> Status {
    // SAFETY: as the caller says.
    guarded(|| unsafe { Call::read(kernel, tensors, count)?.enqueue(stream) })
}

impl Call<'_> {
    /// Reads what a caller gives.
    ///
    /// # Safety
    /// As of `fusewright_kernel_launch`, but for what memory holds.
    unsafe fn read<'c>(
        kernel: *const KernelHandle,
        tensors: *const TensorRef,
        count: usize,
    ) -> Result<Call<'c>, Failure> {
        // SAFETY: as the caller says.
        let kernel = unsafe { given(kernel, "kernel") }?;
        let params = &kernel.entry.params;
        if count != params.len() {
            return Err(Failure::argument(format!("{count} tensors; the kernel has {}", params.len())));
        }
        let (mut data, mut shapes) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (at, param) in params.iter().enumerate() {
            // SAFETY: there are so many, as the caller says.
            let tensor = unsafe { given(tensors.wrapping_add(at), "tensors") }?;
            if tensor.rank != param.rank as usize {
                let (name, rank) = (&param.name, param.rank);
                return Err(Failure::argument(format!("`{name}` has {} axes; the kernel's has {rank}", tensor.rank)));
            }
            let shape: &[i64] = if tensor.rank == 0 {
                &[]
            } else if tensor.shape.is_null() || !tensor.shape.is_aligned() {
                return Err(Failure::argument(format!("the shape of `{}` is null or not aligned", param.name)));
            } else {
                // SAFETY: they are so many, as the caller says, and aligned.
                unsafe { std::slice::from_raw_parts(tensor.shape, tensor.rank) }
            };
            shapes.push(shape);
            data.push(tensor.data.cast::<u8>());
        }
        let fitted = kernel.entry.fit(&shapes).map_err(unfit)?;
        for (at, param) in params.iter().enumerate() {
            if fitted.bytes[at] > 0 && data[at].is_null() {
                return Err(Failure::argument(format!("the memory of `{}` is null", param.name)));
            }
        }
        let call = Call { kernel, fitted, data };
        call.check_overlaps()?;
        Ok(call)
    }

    /// Refuses memory that is written and given twice, but where the kernel lets an output lie on an input.
    fn check_overlaps(&self) -> Result<(), Failure> {
        let params = &self.kernel.entry.params;
        let range =
            |at: usize| (self.data[at] as usize, (self.data[at] as usize).saturating_add(self.fitted.bytes[at]));
        for (at, param) in params.iter().enumerate().filter(|(_, param)| param.access != ParamAccess::In) {
            for (other, with) in params.iter().enumerate().filter(|(other, _)| *other != at) {
                let ((from, to), (begin, end)) = (range(at), range(other));
                let may_share = self.shared(at) == Some(other) || self.shared(other) == Some(at);
                if from < end && begin < to && !may_share {
                    return Err(Failure::argument(format!("`{}` is written where `{}` lies", param.name, with.name)));
                }
            }
        }
        Ok(())
    }

    /// The output whose memory an input's is, where the kernel allows it.
    fn shared(&self, input: usize) -> Option<usize> {
        let lies_there = |output: usize| self.data[output] == self.data[input] && self.fitted.bytes[output] > 0;
        let params = &self.kernel.entry.params;
        (0..params.len()).find(|&output| params[output].alias == Some(input) && lies_there(output))
    }

    /// # Safety
    /// Memory is the host's, as large as the shapes, and nothing else touches what is written.
    unsafe fn launch(&self, threads: usize) -> Result<(), Failure> {
        let Fitted { dims, rows, bytes } = &self.fitted;
        let order = self.order();
        let mut args = Vec::with_capacity(self.data.len());
        for (at, &(shared, written)) in order.iter().enumerate() {
            args.push(match shared {
                Some(of) => Arg::Same(of),
                // SAFETY: the caller owns so many bytes, nothing else touches them, and no other argument lies there.
                None if written => Arg::Out(unsafe { slice_mut(self.data[at], bytes[at]) }),
                // SAFETY: the caller owns so many bytes, which nothing writes meanwhile.
                None => Arg::In(unsafe { slice(self.data[at], bytes[at]) }),
            });
        }
        Ok(self.kernel.module.launch(&mut args, dims, *rows, threads)?)
    }

    /// # Safety
    /// Memory is the device's, as large as the shapes, and nothing else touches what is written until the stream is done.
    unsafe fn enqueue(&self, stream: *mut c_void) -> Result<(), Failure> {
        let Fitted { dims, rows, bytes } = &self.fitted;
        let entry = &self.kernel.entry;
        let (Some(gpu), Some(kernel)) = (&self.kernel.gpu, self.kernel.module.on_device()) else {
            return Err(Failure::argument(format!(
                "`{}` is a kernel of {}, which has no streams",
                entry.name, entry.target
            )));
        };
        // SAFETY: as the caller says.
        let memory = self.data.iter().zip(bytes).map(|(&at, &bytes)| unsafe { gpu.adopt_memory(at as u64, bytes) });
        let memory: Vec<_> = memory.collect();
        let args = self.order().into_iter().zip(&memory).map(|((shared, written), memory)| match shared {
            Some(of) => DeviceArg::Same(of),
            None if written => DeviceArg::Out(memory),
            None => DeviceArg::In(memory),
        });
        let args: Vec<_> = args.collect();
        // SAFETY: it is a stream of the primary context, and passes the launch before the kernel is closed, as the caller says.
        let stream = unsafe { gpu.borrow_stream(stream) };
        Ok(kernel.enqueue(&stream, &args, (dims, *rows), kernel.behind_anything())?)
    }

    /// Of each argument, the one whose memory it is, and whether it is written.
    fn order(&self) -> Vec<(Option<usize>, bool)> {
        let params = &self.kernel.entry.params;
        params.iter().enumerate().map(|(at, param)| (self.shared(at), param.access != ParamAccess::In)).collect()
    }
}

/// Shapes that do not fit are the caller's, not the device's failure.
fn unfit(error: RuntimeError) -> Failure {
    Failure::argument(error.to_string())
}

/// Memory that is read; none may be null.
///
/// # Safety
/// What is longer than nothing lies there, and is not written meanwhile.
unsafe fn slice<'m>(data: *const u8, count: usize) -> &'m [u8] {
    // SAFETY: as the caller says.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, count) } }
}

/// Memory that is written; none may be null.
///
/// # Safety
/// What is longer than nothing lies there, and nothing else touches it meanwhile.
unsafe fn slice_mut<'m>(data: *mut u8, count: usize) -> &'m mut [u8] {
    // SAFETY: as the caller says.
    if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(data, count) } }
}
