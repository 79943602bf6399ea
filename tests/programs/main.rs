//! Programs on the CPU: ops and models through the whole chain, what calls overwrite and keep, captures and bundles.

mod bundle;
mod capture;
mod compiling;
mod donation;
mod fuse;
mod models;
mod ops;
mod program;
mod rows;
mod state;
