//! The vendor's toolchain for Ascend NPUs, where the machine has one: where it lies, of which version it is, which command
//! lines compile what, and what happens when they fail.
//!
//! Command lines are made by pure functions of a toolkit and a chip (`command.rs`), so that they can be read and tested
//! without a toolkit; running them, or the compiler within this process, is `maker.rs`. Nothing here was ever run with the vendor's compiler: the lines are
//! those of its documentation and build files.

mod command;
mod compile;
mod maker;
mod scratch;
mod toolkit;
mod version;

pub use command::{CommandLine, FrontEnd, NoRoute, device_object, front_end, rtc_options};
pub(crate) use compile::step;
pub(crate) use maker::Maker;
pub use maker::ToolFailure;
#[cfg(feature = "ascend")]
pub(crate) use scratch::Scratch;
pub use toolkit::{MissingToolkit, Toolkit, ToolkitChoice};
pub use version::CannVersion;
