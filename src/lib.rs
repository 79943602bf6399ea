//! Fusewright: fuses the memory-bound parts of LLM inference graphs into generated kernels.
//!
//! ```text
//! model file ── open ──▶ Graph ── fuse_graph ──▶ Fused ── compile ──▶ Program ── run ──▶ tensors
//! ```
//!
//! [`fuse`] is the short way for a few ops: a closure over a [`Builder`](graph::Builder) in, a [`Callable`] over
//! borrowed slices out. [`aot`] writes kernels at build time.
//!
//! ```
//! use fusewright::graph::{DType, ScalarFn, TensorType};
//! use fusewright::{TensorMut, TensorRef};
//!
//! // relu(x · w) for any number of rows of four lanes, as one kernel.
//! let kernel = fusewright::fuse(|b| {
//!     let rows = b.symbol("rows", 0, None);
//!     let x = b.input("x", TensorType::new(DType::F32, [rows, 4.into()]));
//!     let w = b.input("w", TensorType::new(DType::F32, [4.into()]));
//!     let product = b.mul(x, w)?;
//!     Ok(vec![b.map(ScalarFn::Max, &[product, b.float(DType::F32, 0.0)?])?])
//! })?;
//!
//! let (x, w) = ([1.0f32, -2.0, 3.0, -4.0, 5.0, 6.0, 7.0, 8.0], [0.5f32, 1.0, 2.0, -1.0]);
//! let mut y = [0.0f32; 8];
//! let inputs = [TensorRef::new(&x, &[2, 4]), TensorRef::new(&w, &[4])];
//! kernel.call(&inputs, &mut [TensorMut::new(&mut y, &[2, 4])], 1)?;
//! assert_eq!(y, [0.5, 0.0, 6.0, 4.0, 2.5, 6.0, 14.0, 0.0]);
//! # Ok::<(), fusewright::Error>(())
//! ```

pub mod aot;
pub mod ascend;
pub mod bench;
pub mod check;
pub mod devices;
pub mod diff;
pub mod doctor;
pub mod explain;
pub mod inputs;
pub mod knobs;
pub mod matrix;
pub mod model;
pub mod text_tool;

mod assembler;
mod attention;
mod callable;
mod coder;
mod compile;
mod compiler;
mod dtypes;
mod dump;
mod error;
mod external;
mod guard;
mod host;
mod installations;
mod lowering;
mod many;
mod map;
mod matmul;
mod npu;
mod page;
mod program;
mod progress;
mod replaced;
mod schedules;
mod settled;
mod stages;
mod store;
mod threads;
mod tiers;
mod toolchain;
mod watch;

pub use assembler::AssemblerChoice;
pub use callable::{Callable, Element, TensorMut, TensorRef, fuse, fuse_with};
pub use compile::{Compiled, Fused, Options, PassTime, compile, fuse_graph, fuse_graph_for};
pub use compiler::{Compilation, CompileError, Compiler};
pub use error::Error;
pub use fusewright_abi::{DType, Level, Target};
pub use fusewright_codegen::schedule::{KernelSchedule, ScheduleTable};
pub use fusewright_fusion::pass::{PatternReport, Pipeline, PipelineError};
pub use fusewright_fusion::region::FusedRegion;
pub use fusewright_fusion::rewrites::{UserPattern, UserPatterns};
pub use fusewright_fusion::vendor::{Near, Replaced, VendorCall, VendorReport, names as vendor_ops};
pub use fusewright_graph as graph;
pub use fusewright_runtime::capture::{CaptureReport, CaptureSizes, GraphReport};
pub use fusewright_runtime::cuda::Gpu;
pub use fusewright_runtime::{CodeCounts, EachTime, Pool, TierCounts, disk, settle};
pub use host::{HostTensor, read_safetensors, write_safetensors, write_whole};
pub use map::map_file;
pub use npu::SIMULATED;
pub use page::{PictureStep, explain_page, picture_of, steps_picture};
pub use program::{
    Argument, Attempt, CaptureOptions, CapturedProgram, Chain, ChainOutput, ChainRegion, CommandBuffer, DeviceArgument,
    DeviceTensor, Fallback, Fitted, OnGpu, OpCounts, Outside, Placement, Program, SplitStep, State, StepCounts, Update,
    UpdateCopy,
};
pub use progress::{Compiling, Progress};
pub use schedules::{ScheduleChoice, read_schedules};
pub use stages::KernelStage;
pub use store::{CacheChoice, kernel_cache};
pub use threads::ThreadPool;
pub use tiers::Tiers;

/// The example of the front page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct FrontPage;

/// The examples of the page for beginners.
#[cfg(doctest)]
#[doc = include_str!("../docs/getting-started.md")]
pub struct GettingStartedPage;

/// The examples of the page on patterns.
#[cfg(doctest)]
#[doc = include_str!("../docs/patterns.md")]
pub struct PatternsPage;

/// The example of the page on capture.
#[cfg(doctest)]
#[doc = include_str!("../docs/capture.md")]
pub struct CapturePage;
