//! Memory of a device for the time of one launch.

use fusewright_cuda_sys as sys;

use super::api::Failure;
use super::context::Current;

/// Bytes on the device, from the pool of the device; given back when the value is dropped.
pub(super) struct Buffer<'c> {
    current: &'c Current<'c>,
    /// Where it is; zero if it has no bytes.
    pub address: sys::CUdeviceptr,
    bytes: usize,
}

impl<'c> Buffer<'c> {
    /// Memory of so many bytes, which are not set.
    pub fn new(current: &'c Current<'c>, bytes: usize) -> Result<Buffer<'c>, Failure> {
        let (api, stream) = (current.context.api, current.context.stream);
        let mut address = 0;
        if bytes > 0 {
            // SAFETY: the function writes the address; the stream is the current context's.
            api.said("cuMemAllocAsync", unsafe { api.driver.cuMemAllocAsync(&mut address, bytes, stream) })?;
        }
        Ok(Buffer { current, address, bytes })
    }

    /// Copies as many bytes as there are from the host.
    pub fn upload(&self, from: &[u8]) -> Result<(), Failure> {
        let (api, stream) = (self.current.context.api, self.current.context.stream);
        let from = &from[..self.bytes];
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both are of that many bytes. The source is not page-locked, so that it has been read at the return.
        let status = unsafe { api.driver.cuMemcpyHtoDAsync_v2(self.address, from.as_ptr().cast(), from.len(), stream) };
        api.said("cuMemcpyHtoDAsync", status)
    }

    /// Copies all bytes to the host, where they are at the return.
    pub fn download(&self, to: &mut [u8]) -> Result<(), Failure> {
        let (api, stream) = (self.current.context.api, self.current.context.stream);
        let to = &mut to[..self.bytes];
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: both are of that many bytes, and the copy is waited for while the destination is borrowed.
        let status = unsafe { api.driver.cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), self.address, to.len(), stream) };
        // Waited for even if it was refused: an earlier one may be under way.
        let waited = self.current.wait();
        api.said("cuMemcpyDtoHAsync", status).and(waited)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let (api, stream) = (self.current.context.api, self.current.context.stream);
        if self.address != 0 {
            // SAFETY: the memory is ours; it goes back when what the stream still does with it is done.
            unsafe { api.driver.cuMemFreeAsync(self.address, stream) };
        }
    }
}
