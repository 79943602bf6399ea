//! The driver of NPUs over the stand-in of their runtime, as every version of it has its functions: what is checked, what
//! runs, and what graphs keep. All results are SIMULATED. Where there is no compiler of C++, it says so.

mod pieces;
mod work;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fusewright_abi::{
    ContentKey, Count, DType, DimArg, DimSource, KernelArtifact, LaunchRule, Param, ParamAccess, Payload, PayloadKind,
    RowOrder, Target,
};
use fusewright_ascend_model::{ARGUMENTS_HEADER, Chip as ModelChip, Device, Model, Source, Version, described};
use fusewright_runtime::ascend::{Chip, DeviceBuffer, Kernel, Npu, Stream};

#[path = "../../../xtask/src/skipped.rs"]
mod skipped;

const CHIP: ModelChip = ModelChip { arch: 2201, buffer_bytes: 188_160 };
const VERSIONS: [Version; 3] = [Version::V8_1, Version::V8_5, Version::V9_1];

/// Adds one to every number; a row is one number, and a core has a run of rows.
const ADD_ONE: &str = r#"#include "kernel_operator.h"

using namespace AscendC;

extern "C" __global__ __aicore__ void add_one(GM_ADDR x, GM_ADDR y, int64_t s, int64_t begin, int64_t end)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 32);
    pipe.InitBuffer(out, 1, 32);
    GlobalTensor<float> from;
    GlobalTensor<float> to;
    from.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
    to.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y));
    const DataCopyExtParams shape{1, 4, 0, 0, 0};
    for (int64_t row = begin + GetBlockIdx(); row < end; row += GetBlockNum()) {
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopyPad(a, from[row], shape, DataCopyPadExtParams<float>{false, 0, 0, 0});
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        Adds(b, a, 1.0f, 1);
        in.FreeTensor(a);
        out.EnQue(b);
        b = out.DeQue<float>();
        DataCopyPad(to[row], b, shape);
        out.FreeTensor(b);
    }
}
"#;

fn target() -> Target {
    "ascend-sim:910b1".parse().expect("a target")
}

fn chip() -> Chip {
    Chip { soc: "Ascend910B1".to_owned(), architecture: 2201, vector_cores: 48, buffer_bytes: 188_160 }
}

/// The runtimes, and the binary of the kernel.
struct Built {
    runtimes: Vec<PathBuf>,
    rtc: PathBuf,
    binary: Vec<u8>,
}

/// What is built once, or none where no compiler of C++ is, which is said under the name of the test.
fn built(test: &str) -> Option<&'static Built> {
    static BUILT: OnceLock<Result<Built, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let model = Model::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).map_err(|e| e.to_string())?;
        let device = Device { soc: "Ascend910B1".to_owned(), chip: CHIP, vector_cores: 48 };
        let stand_in = |version| model.stand_in(&device, version).unwrap_or_else(|e| panic!("{e}"));
        let text = format!("{ADD_ONE}{}", described("add_one"));
        let source = Source { name: "add_one.cpp", text: &text };
        let object = model.compile(&[source], &[ARGUMENTS_HEADER], CHIP).unwrap_or_else(|e| panic!("{e}"));
        Ok(Built {
            runtimes: VERSIONS.map(|version| stand_in(version).runtime()).to_vec(),
            rtc: stand_in(Version::V9_1).rtc(),
            binary: std::fs::read(object).expect("it was made"),
        })
    });
    match built {
        Ok(built) => Some(built),
        Err(why) if why.contains("no C++ compiler") => {
            skipped::skipped(test, why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn artifact(binary: &[u8]) -> KernelArtifact {
    let param = |name: &str, access| Param {
        name: name.to_owned(),
        dtype: DType::F32,
        access,
        rank: 1,
        elements: Count::Dim(0),
        alias: (access == ParamAccess::Out).then_some(0),
        early: false,
    };
    KernelArtifact {
        name: "add_one".to_owned(),
        target: target(),
        key: ContentKey([0; 32]),
        params: vec![param("x", ParamAccess::In), param("y", ParamAccess::Out)],
        dims: vec![DimArg { name: "s".to_owned(), source: DimSource::Extent { param: 0, axis: 0 } }],
        claims: Vec::new(),
        launch: LaunchRule {
            rows: Count::Dim(0),
            order: RowOrder::Any,
            blocks_per_row: Count::Constant(1),
            shares: 1,
            many: None,
            threads: 1,
            shared: Count::Constant(0),
            alignment: 4,
            tables: 0,
            dependent: false,
        },
        payload: Payload { kind: PayloadKind::AscendObject, bytes: binary.to_vec() },
    }
}

/// A kernel and a stream on the stand-in of each version; none where it cannot be built.
fn kernels(test: &str) -> Vec<(Npu, Stream, Kernel)> {
    let Some(built) = built(test) else { return Vec::new() };
    let kernel = |file: &PathBuf| {
        let npu = Npu::open(&target(), std::slice::from_ref(file), &chip()).unwrap_or_else(|e| panic!("{e}"));
        let loaded = npu.load(&artifact(&built.binary)).unwrap_or_else(|e| panic!("{e}"));
        let stream = npu.stream().unwrap_or_else(|e| panic!("{e}"));
        (npu, stream, loaded)
    };
    built.runtimes.iter().map(kernel).collect()
}

fn numbers(buffer: &DeviceBuffer, stream: &Stream) -> Vec<f32> {
    let mut bytes = vec![0; buffer.len()];
    buffer.download(stream, 0, &mut bytes).unwrap_or_else(|e| panic!("{e}"));
    bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
