//! One file per command.

pub mod bench;
pub mod cache;
pub mod compile;
pub mod devices;
pub mod doctor;
pub mod explain;
pub mod external;
pub mod knobs;
pub mod opt;
pub mod report;
pub mod run;

use fusewright::Error;

/// What a command exits with if nothing failed on the way.
pub type Exit = Result<u8, Error>;

/// Everything is as asked.
pub const OK: u8 = 0;
/// A check or an expectation failed.
pub const FAILED: u8 = 1;
