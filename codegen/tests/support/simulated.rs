//! Kernels executed twice: by the interpreter of Kernel IR, and as Ascend C on the host model. Results are SIMULATED.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use fusewright_abi::{DType, ParamAccess};
use fusewright_ascend_model::{Argument, Chip, Counters, Error, Model, Options, Source};
use fusewright_codegen::backend::ascend::{CHIPS, HEADERS, emit};
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::kernel::interp::{self, Buffer, bits_at, put_bits};
use fusewright_graph::num;

/// A kernel, the values of its dims, and the seed of its inputs.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is executed, in functions that the target has.
    pub kernel: Kernel,
    /// Values of dims.
    pub dims: BTreeMap<String, i64>,
    /// Seed of inputs.
    pub seed: u64,
    /// Cores that the rows are dealt to.
    pub cores: u32,
    /// Whether inputs have NaN, infinities, zeros of both signs and subnormal numbers among them.
    pub specials: bool,
}

/// The model, built once for all tests; `None`, with one line, where there is no C++ compiler.
pub fn model() -> Option<&'static Model> {
    static MODEL: OnceLock<Option<Model>> = OnceLock::new();
    MODEL
        .get_or_init(|| match Model::build(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
            Ok(model) => Some(model),
            Err(error @ Error::NoCompiler { .. }) => {
                println!("skipped: host model of Ascend C ({error})");
                None
            }
            Err(error) => panic!("{error}"),
        })
        .as_ref()
}

/// Executes every case on a chip and returns what the model counted, or what went wrong.
pub fn execute(model: &Model, chip: &str, cases: &[Case], options: &Options) -> Vec<Result<Counters, String>> {
    let known = CHIPS.iter().find(|c| c.name == chip).unwrap_or_else(|| panic!("no chip {chip}"));
    let target = Chip::of(known.arch, known.buffer_bytes).unwrap_or_else(|| panic!("no model of {}", known.arch));
    let texts: Vec<Result<String, String>> = cases
        .iter()
        .enumerate()
        .map(|(i, case)| {
            let kernel = Kernel { name: format!("{}_{i}", case.kernel.name), ..case.kernel.clone() };
            emit(&kernel, chip).map_err(|e| format!("not emitted: {e}"))
        })
        .collect();
    let names: Vec<String> = cases.iter().enumerate().map(|(i, c)| format!("{}_{i}", c.kernel.name)).collect();
    let sources: Vec<Source<'_>> = texts
        .iter()
        .zip(&names)
        .filter_map(|(text, name)| text.as_ref().ok().map(|text| Source { name, text }))
        .collect();
    let headers: Vec<Source<'_>> = HEADERS.iter().map(|(name, text)| Source { name, text }).collect();
    let object = match model.compile(&sources, &headers, target) {
        Ok(object) => object,
        Err(error) => return cases.iter().map(|_| Err(format!("not compiled: {error}"))).collect(),
    };
    let kernels = model.load(&object).unwrap_or_else(|e| panic!("{e}"));
    let run = |(i, case): (usize, &Case)| {
        texts[i].as_ref().map_err(Clone::clone)?;
        let entry = kernels.kernel(&names[i]).map_err(|e| e.to_string())?;
        compare(case, &|arguments, scalars| {
            entry.launch(case.cores, arguments, scalars, options).map_err(|e| e.to_string())
        })
    };
    cases.iter().enumerate().map(run).collect()
}

type Launch<'a> = dyn Fn(&mut [Argument<'_>], &[i64]) -> Result<Counters, String> + 'a;

pub fn compare(case: &Case, launch: &Launch<'_>) -> Result<Counters, String> {
    let kernel = &case.kernel;
    let value = |d: &fusewright_graph::Dim| d.eval(&|name| case.dims.get(name).copied()).map_err(|e| e.to_string());
    let rows = value(&kernel.rows)?;
    let least = case.dims.values().copied().min().unwrap_or(1);
    let mut made = Made { state: case.seed | 1, places: least.clamp(1, 9) as u64 };
    let mut given = Vec::new();
    for param in &kernel.params {
        let mut elements = 1;
        for extent in &param.shape {
            elements *= value(extent)?;
        }
        given.push(made.buffer(param.dtype, elements as usize, case.specials));
    }
    let mut wanted: Vec<Buffer> = given.iter().cloned().map(Buffer::Bytes).collect();
    interp::run(kernel, &mut wanted, &case.dims, 0..rows).map_err(|e| format!("interpreter: {e}"))?;
    let mut got = given.clone();
    let mut arguments: Vec<Argument<'_>> = got
        .iter_mut()
        .zip(&kernel.params)
        .map(|(bytes, param)| match param.access {
            ParamAccess::In => Argument::In(bytes),
            ParamAccess::Out => Argument::Out(bytes),
            ParamAccess::InOut => Argument::InOut(bytes),
        })
        .collect();
    let mut scalars: Vec<i64> = Vec::new();
    for dim in &kernel.dims {
        scalars.push(case.dims.get(&dim.name).copied().ok_or_else(|| format!("no value of {}", dim.name))?);
    }
    scalars.extend([0, rows]);
    let counters = launch(&mut arguments, &scalars)?;
    for ((param, want), have) in kernel.params.iter().zip(&wanted).zip(&got) {
        if param.access != ParamAccess::In {
            differs(param.dtype, want.bytes(), have).map_or(Ok(()), |d| Err(format!("%{}: {d}", param.name)))?;
        }
    }
    Ok(counters)
}

/// The first element that is not the same bits, NaN being one value.
fn differs(dtype: DType, want: &[u8], have: &[u8]) -> Option<String> {
    let elements = want.len() * 8 / dtype.bits() as usize;
    let differing: Vec<usize> = (0..elements)
        .filter(|&i| {
            let (a, b) = (bits_at(dtype, want, i), bits_at(dtype, have, i));
            let nan = |bits: Option<u64>| dtype.is_float() && bits.is_some_and(|b| num::decode(dtype, b).is_nan());
            a != b && !(nan(a) && nan(b))
        })
        .collect();
    let first = *differing.first()?;
    let show = |bytes: &[u8]| {
        let bits = bits_at(dtype, bytes, first).unwrap_or_default();
        if dtype.is_float() { format!("{:e} ({bits:#x})", num::decode(dtype, bits)) } else { format!("{bits:#x}") }
    };
    Some(format!("{} of {elements} differ, first {first}: want {}, got {}", differing.len(), show(want), show(have)))
}

/// Inputs of a seed.
struct Made {
    state: u64,
    /// Integers are below it, for they are places.
    places: u64,
}

impl Made {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 33
    }

    fn buffer(&mut self, dtype: DType, elements: usize, specials: bool) -> Vec<u8> {
        let mut bytes = vec![0; (elements * dtype.bits() as usize).div_ceil(8)];
        for i in 0..elements {
            let bits = if dtype.is_float() {
                num::encode(
                    dtype,
                    num::round_to(dtype, self.float(specials), fusewright_graph::Rounding::NearestEven, true),
                )
            } else if dtype == DType::Bool {
                self.next() & 1
            } else if matches!(dtype, DType::I64 | DType::I32) {
                self.next() % self.places
            } else {
                self.next()
            };
            put_bits(dtype, &mut bytes, i, bits & (u64::MAX >> (64 - dtype.bits())));
        }
        bytes
    }

    fn float(&mut self, specials: bool) -> f64 {
        if specials && self.next().is_multiple_of(64) {
            let all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-41, -3e-39, 3e38, -448.0, 464.5];
            return all[(self.next() % all.len() as u64) as usize];
        }
        let sum: f64 = (0..4).map(|_| (self.next() % 65536) as f64 / 65536.0 - 0.5).sum();
        sum * 3.0
    }
}
