//! Chores of this repository, as a library, so that tests run the very checks that the command runs.

pub mod book;
pub mod chart;
pub mod engine;
pub mod foreign;
pub mod fuzz;
pub mod gpu_layers;
pub mod gpu_pack;
pub mod gpu_results;
pub mod hostile;
pub mod long;
pub mod npu;
pub mod passes;
pub mod pieces;
pub mod ptxas;
pub mod results;
pub mod sass;
pub mod skipped;
pub mod tidy;
pub mod unfused;
