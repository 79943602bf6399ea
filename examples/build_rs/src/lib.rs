//! Kernels made by this crate's build script, as safe functions.
//!
//! The crate depends on no compiler: the machine code is in an archive that cargo links.

include!(concat!(env!("OUT_DIR"), "/fusewright_kernels.rs"));
