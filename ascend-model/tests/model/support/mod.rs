//! What the tests share: one built model, files of the repository, numbers as bytes.

pub mod right;
pub mod wrong;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fusewright_ascend_model::{Chip, Kernels, Model, Source};
use half::bf16;

/// A 910B as its documentation limits it.
pub const A2: Chip = Chip { arch: 2201, buffer_bytes: 188_160 };
/// A 950.
pub const A5: Chip = Chip { arch: 3510, buffer_bytes: 245_504 };

/// The model, built once under the target folder; `None`, with one line, where there is no C++ compiler.
pub fn model() -> Option<&'static Model> {
    static MODEL: OnceLock<Option<Model>> = OnceLock::new();
    MODEL
        .get_or_init(|| {
            let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
            match Model::build(cache) {
                Ok(model) => Some(model),
                Err(error @ fusewright_ascend_model::Error::NoCompiler { .. }) => {
                    xtask::skipped::skipped("host model of Ascend C", error);
                    None
                }
                Err(error) => panic!("{error}"),
            }
        })
        .as_ref()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file of the repository.
pub fn read(path: &str) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The headers that generated kernels include, with their names.
pub fn headers() -> Vec<(String, String)> {
    let folder = repository().join("templates/ascend/include");
    let mut headers: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder of the repository")
        .flatten()
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).expect("a header");
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect();
    headers.sort();
    headers
}

/// Compiles and loads sources.
pub fn load(model: &Model, sources: &[Source<'_>], chip: Chip) -> Kernels {
    let headers = headers();
    let headers: Vec<Source<'_>> = headers.iter().map(|(name, text)| Source { name, text }).collect();
    let object = model.compile(sources, &headers, chip).unwrap_or_else(|e| panic!("{e}"));
    model.load(&object).unwrap_or_else(|e| panic!("{e}"))
}

/// Values that look random, in [-2, 2), of a generator with a fixed seed.
pub fn values(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0
        })
        .collect()
}

/// Values rounded to bf16, and their bytes.
pub fn bf16s(seed: u64, n: usize) -> (Vec<f32>, Vec<u8>) {
    let codes: Vec<bf16> = values(seed, n).into_iter().map(bf16::from_f32).collect();
    (codes.iter().map(|c| c.to_f32()).collect(), codes.iter().flat_map(|c| c.to_le_bytes()).collect())
}

/// bf16 numbers of bytes.
pub fn from_bf16(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|c| bf16::from_le_bytes([c[0], c[1]]).to_f32()).collect()
}

/// f32 numbers of bytes.
pub fn from_f32(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// Bytes of f32 numbers.
pub fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Rounded to bf16.
pub fn round_bf16(value: f32) -> f32 {
    bf16::from_f32(value).to_f32()
}

/// Generated kernels, as blessed: names and texts.
pub fn goldens() -> Vec<(String, String)> {
    let mut goldens = Vec::new();
    for entry in std::fs::read_dir(repository().join("codegen/tests/goldens/ascend")).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".cpp") {
            goldens.push((name, std::fs::read_to_string(entry.path()).expect("a golden")));
        }
    }
    goldens.sort();
    goldens
}
