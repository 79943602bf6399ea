//! The arguments of launches, and the calls that hand them over: the newest that the runtime has.
//!
//! All arguments are numbers of 64 bits, so that nothing is copied to the device in front of a launch.

use std::ffi::c_void;
use std::ptr::null_mut;

use fusewright_acl_sys as sys;

use super::api::{Api, Failure};
use super::kernel::address_of;

/// Buffers, integers and rows in the order of the kernel, which stay where they are.
#[derive(Debug)]
pub(super) struct Arguments {
    values: Box<[u64]>,
    /// Their addresses.
    places: Box<[*mut c_void]>,
}

// SAFETY: the addresses are of values that the same value owns in a box, and which nothing changes.
unsafe impl Send for Arguments {}
// SAFETY: as above.
unsafe impl Sync for Arguments {}

/// A launch without its arguments.
pub(super) struct Call {
    pub function: sys::aclrtFuncHandle,
    pub blocks: u32,
    pub stream: sys::aclrtStream,
}

impl Arguments {
    /// For rows `0..rows`.
    pub fn new(addresses: impl Iterator<Item = u64>, dims: &[i64], rows: usize) -> Arguments {
        let range = [0, rows as u64];
        let values: Box<[u64]> = addresses.chain(dims.iter().map(|&dim| dim as u64)).chain(range).collect();
        let places = values.iter().map(address_of).collect();
        Arguments { values, places }
    }
}

/// Enqueues a launch.
///
/// # Safety
/// The arguments are those of the kernel, in number, order and width, and its buffers as large as they say; the handles are
/// alive, and the context is current.
pub(super) unsafe fn launch(api: &Api, call: &Call, arguments: &Arguments) -> Result<(), Failure> {
    let Call { function, blocks, stream } = *call;
    let config = null_mut();
    if let Some(launch) = api.acl.aclrtLaunchKernelWithArgsArray {
        let places = arguments.places.as_ptr().cast_mut();
        // SAFETY: as the caller says. The runtime copies the arguments before it returns.
        let answer = unsafe { launch(function.cast(), blocks, stream, config, places) };
        return api.said("aclrtLaunchKernelWithArgsArray", answer);
    }
    if let Some(launch) = api.acl.aclrtLaunchKernelWithHostArgs {
        let (values, bytes) = (arguments.values.as_ptr().cast_mut().cast(), size_of_val(&*arguments.values));
        // SAFETY: as above; none of the arguments is the address of others.
        let answer = unsafe { launch(function, blocks, stream, config, values, bytes, null_mut(), 0) };
        return api.said("aclrtLaunchKernelWithHostArgs", answer);
    }
    let mut list = null_mut();
    // SAFETY: the function is loaded; the runtime makes a list, which it has the memory of.
    api.said("aclrtKernelArgsInit", unsafe { (api.acl.aclrtKernelArgsInit)(function, &mut list) })?;
    for &place in &arguments.places {
        let mut parameter = null_mut();
        // SAFETY: the list is the runtime's, which copies the value.
        let answer = unsafe { (api.acl.aclrtKernelArgsAppend)(list, place, size_of::<u64>(), &mut parameter) };
        api.said("aclrtKernelArgsAppend", answer)?;
    }
    // SAFETY: as above; the second call is as the caller says.
    unsafe {
        api.said("aclrtKernelArgsFinalize", (api.acl.aclrtKernelArgsFinalize)(list))?;
        let answer = (api.acl.aclrtLaunchKernelWithConfig)(function, blocks, stream, config, list, null_mut());
        api.said("aclrtLaunchKernelWithConfig", answer)
    }
}
