//! Schedules: what a target decides about a kernel, as data.
//!
//! Two things are kept apart. The *reduction trees* ([`Schedule`]) decide bits: they are part of Kernel IR, and follow from
//! row length and target alone. How rows are spread over blocks and threads ([`KernelSchedule`]) decides no bit, only time:
//! a backend has a rule for it, and a [`ScheduleTable`], written by hand or by `bench --tune`, may say otherwise for kernels
//! that it names by their content. The limits of regions ([`limits`]) say which are worth a kernel.

mod costs;
mod limits;
mod spread;
mod table;
mod trees;

pub use limits::limits;
pub use spread::{KernelSchedule, Place, Spread};
pub use table::{ScheduleTable, Scheduled, Timed, content_of};
pub use trees::Schedule;
