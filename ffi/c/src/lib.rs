//! The C interface, declared in `include/fusewright.h`: opens bundles, tells what is in them, and launches their kernels.
//!
//! No compiler is in it. Every function yields a status; what went wrong is said by [`fusewright_last_error`], a text of
//! the calling thread. No panic crosses into the caller: one becomes [`Status::Internal`].
#![allow(unsafe_code)]

mod bundle;
mod kernel;
mod status;

pub use bundle::{
    Access, BundleHandle, KernelInfo, ParameterInfo, fusewright_bundle_choose, fusewright_bundle_close,
    fusewright_bundle_count, fusewright_bundle_find, fusewright_bundle_info, fusewright_bundle_open,
    fusewright_bundle_parameter, fusewright_bundle_value,
};
pub use kernel::{
    KernelHandle, TensorRef, fusewright_kernel_close, fusewright_kernel_enqueue, fusewright_kernel_launch,
    fusewright_kernel_load, fusewright_kernel_load_on,
};
pub use status::{Status, fusewright_abi_version, fusewright_last_error};
