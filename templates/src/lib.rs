//! Templates of kernel sources and of report pages.
//!
//! A template holds what every kernel of a target, or every page, has in common; its typed struct says what differs.
//! Nothing here knows Kernel IR or graphs: statements and names come as text, everything else as numbers.

pub mod ascend;
pub mod bench;
pub mod colours;
pub mod drawing;
pub mod page;
pub mod picture;
pub mod project;
