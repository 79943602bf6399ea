//! Backends: Kernel IR to the code of a device.

#[cfg(feature = "ascend")]
pub mod ascend;
#[cfg(feature = "cuda")]
pub mod cuda;
