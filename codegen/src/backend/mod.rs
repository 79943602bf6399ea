//! Backends: Kernel IR to the code of a device.

#[cfg(feature = "cuda")]
pub mod cuda;
