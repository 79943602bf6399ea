//! Drivers: one folder or file per kind of device. All `unsafe` of this crate is here.

pub mod host;

use std::sync::Arc;

use fusewright_abi::Target;

use crate::{Device, RuntimeError};

/// The device that runs kernels of a target.
///
/// # Errors
/// No driver for the target, naming it.
pub fn device_for(target: &Target) -> Result<Arc<dyn Device>, RuntimeError> {
    match host::Host::new(target) {
        Some(host) => Ok(Arc::new(host)),
        None => {
            let reason = "this version has no driver for it; kernels can be compiled, not run".to_owned();
            Err(RuntimeError::Unavailable { target: target.to_string(), reason })
        }
    }
}
