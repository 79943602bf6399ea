//! The driver of the runtime on a stand-in of the CUDA driver: several devices, and what goes back to them when.
#![allow(unsafe_code)]

mod captures;
mod devices;
mod freeing;
mod launches;
#[path = "../../stand_in/load.rs"]
mod load;
#[path = "../../../../xtask/src/skipped.rs"]
mod skipped;

use fusewright_abi::{
    ContentKey, Count as Elements, DType, DimArg, DimSource, KernelArtifact, LaunchRule, Param, ParamAccess, Payload,
    PayloadKind, RowOrder, Target,
};
use fusewright_runtime::RuntimeError;
use fusewright_runtime::cuda::{DeviceArg, DeviceBuffer, Gpu, Kernel, LaunchOptions, Stream};

use self::load::{StandIn, stand_in};

/// The stand-in, or none, which is said under the name of the test.
fn started(test: &str) -> Option<StandIn> {
    match stand_in() {
        Ok(stand_in) => Some(stand_in),
        Err(why) => {
            skipped::skipped(test, why);
            None
        }
    }
}

/// A kernel that adds one to every word; a row is a word.
fn artifact(arch: &str, kind: PayloadKind) -> KernelArtifact {
    let param = |name: &str, access| Param {
        name: name.to_owned(),
        dtype: DType::I32,
        access,
        rank: 1,
        elements: Elements::Dim(0),
        alias: (access == ParamAccess::Out).then_some(0),
        early: false,
    };
    let bytes = if kind == PayloadKind::Ptx { b".version".to_vec() } else { b"\x7fELF".to_vec() };
    KernelArtifact {
        name: "add_one".to_owned(),
        target: format!("cuda:{arch}").parse().expect("a target"),
        key: ContentKey([0; 32]),
        params: vec![param("x", ParamAccess::In), param("y", ParamAccess::Out)],
        dims: vec![DimArg { name: "s".to_owned(), source: DimSource::Extent { param: 0, axis: 0 } }],
        claims: Vec::new(),
        launch: LaunchRule {
            rows: Elements::Dim(0),
            order: RowOrder::Any,
            blocks_per_row: Elements::Constant(1),
            shares: 1,
            many: None,
            threads: 1,
            shared: Elements::Constant(0),
            alignment: 16,
            tables: 0,
            dependent: false,
        },
        payload: Payload { kind, bytes },
    }
}

fn gpu(ordinal: usize) -> Gpu {
    let target: Target = "cuda:sm_80".parse().expect("a target");
    Gpu::at(&target, ordinal).unwrap_or_else(|e| panic!("{e}"))
}

fn loaded(gpu: &Gpu) -> Kernel {
    gpu.load(&artifact("sm_80", PayloadKind::Ptx)).unwrap_or_else(|e| panic!("{e}"))
}

/// A buffer of words.
fn words(gpu: &Gpu, stream: &Stream, words: &[u32]) -> DeviceBuffer {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let buffer = gpu.buffer(bytes.len()).unwrap_or_else(|e| panic!("{e}"));
    buffer.upload(stream, &bytes).unwrap_or_else(|e| panic!("{e}"));
    buffer
}

fn read(buffer: &DeviceBuffer, stream: &Stream) -> Vec<u32> {
    let mut bytes = vec![0; buffer.len()];
    buffer.download(stream, 0, &mut bytes).unwrap_or_else(|e| panic!("{e}"));
    bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

/// Adds one to all words of a buffer, into another.
fn add_one(kernel: &Kernel, stream: &Stream, from: &DeviceBuffer, to: &DeviceBuffer) -> Result<(), RuntimeError> {
    let rows = to.len() / 4;
    let args = [DeviceArg::In(from), DeviceArg::Out(to)];
    kernel.enqueue(stream, &args, (&[rows as i64], rows), LaunchOptions::default())
}
