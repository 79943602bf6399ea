//! The ops of the GPU bench: the files of `benches/gpu`, at every row length that they name.
//!
//! A file begins with what the op is called, its row lengths, the main one first, and the fewest bytes that it moves. Its
//! graphs are written at the main length; another length takes its place in the text. A graph `@X_anchor` is the op with
//! the roundings of the kernels that `peers.json` has figures of, where those differ from one rounding per op.

use std::collections::BTreeMap;

use fusewright_codegen::kernel::Kernel;
use fusewright_graph::interp::Symbols;
use fusewright_graph::text::parse_graphs;
use fusewright_graph::{Dim, Graph};

use super::super::options;
use crate::callable::not_one_kernel;
use crate::inputs::shape;
use crate::program::LaunchDims;
use crate::{Compiler, Error, fuse_graph};

/// The files; those at the end are what the bench itself needs.
const FILES: [&str; 21] = [
    include_str!("../../../benches/gpu/a.fw"),
    include_str!("../../../benches/gpu/b.fw"),
    include_str!("../../../benches/gpu/c.fw"),
    include_str!("../../../benches/gpu/d.fw"),
    include_str!("../../../benches/gpu/e.fw"),
    include_str!("../../../benches/gpu/f.fw"),
    include_str!("../../../benches/gpu/g.fw"),
    include_str!("../../../benches/gpu/h.fw"),
    include_str!("../../../benches/gpu/i.fw"),
    include_str!("../../../benches/gpu/k.fw"),
    include_str!("../../../benches/gpu/kc.fw"),
    include_str!("../../../benches/gpu/l.fw"),
    include_str!("../../../benches/gpu/m.fw"),
    include_str!("../../../benches/gpu/n.fw"),
    include_str!("../../../benches/gpu/o.fw"),
    include_str!("../../../benches/gpu/gelu_tanh_mul_fp8.fw"),
    include_str!("../../../benches/gpu/int8_static.fw"),
    include_str!("../../../benches/gpu/kv_fp8.fw"),
    include_str!("../../../benches/gpu/layer_norm.fw"),
    include_str!("../../../benches/gpu/mrope.fw"),
    include_str!("../../../benches/gpu/nvfp4.fw"),
];
const COPY: &str = include_str!("../../../benches/gpu/copy.fw");
const KINDS: &str = include_str!("../../../benches/gpu/kinds.fw");
const SWEEP: &str = include_str!("../../../benches/gpu/sweep.fw");

/// What ends the name of a graph with the roundings of the anchors.
const ANCHOR: &str = "_anchor";
/// The symbol of rows, and that of the pages of caches.
pub(super) const ROWS: &str = "s";
const PAGES: &str = "pages";
/// Rows of a page, and how many times as many places there are as rows.
const PAGE: usize = 16;
const SPARE: usize = 2;

/// A graph to measure at one row length.
#[derive(Clone, Debug)]
pub struct GpuCase {
    /// Letter of the op, or its name if it has none.
    pub op: String,
    /// Whether it rounds as the anchors do.
    pub anchor: bool,
    /// Row length.
    pub length: usize,
    /// Whether that is the main one.
    pub main: bool,
    /// What is measured; `s` is the number of rows.
    pub graph: Graph,
    /// The fewest bytes that it moves.
    pub bytes: Dim,
}

impl GpuCase {
    /// Name on the command line.
    pub fn name(&self) -> String {
        let form = if self.anchor { ANCHOR } else { "" };
        let length = if self.main { String::new() } else { format!("@{}", self.length) };
        format!("{}{form}{length}", self.op)
    }

    /// Bytes at a number of rows.
    pub fn bytes_at(&self, rows: usize) -> usize {
        let value = |symbol: &str| (symbol == ROWS).then_some(rows as i64);
        self.bytes.eval(&value).ok().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
    }

    /// Values of the symbols at a number of rows: caches have twice as many places as there are rows.
    pub fn symbols_at(&self, rows: usize) -> Symbols {
        let value = |name: &str| if name == PAGES { SPARE * rows.div_ceil(PAGE) } else { rows };
        self.graph.symbols().iter().map(|s| (s.name.clone(), value(&s.name) as i64)).collect()
    }
}

/// All cases: by op, both forms, at every length.
///
/// # Errors
/// A file that is not in its form, which a test excludes.
pub fn gpu_cases() -> Result<Vec<GpuCase>, Error> {
    Ok(FILES.iter().map(|text| cases_of(text)).collect::<Result<Vec<_>, Error>>()?.concat())
}

/// Cases that are not measured: with all others they have kernels of every kind of schedule.
///
/// # Errors
/// As [`gpu_cases`].
pub fn kind_cases() -> Result<Vec<GpuCase>, Error> {
    Ok([gpu_cases()?, cases_of(KINDS)?].concat())
}

/// A kernel that copies `8192` bytes for each of its rows.
pub(super) fn copy_case() -> Result<GpuCase, Error> {
    single(COPY)
}

/// A kernel that reads `16384` bytes for each of its rows and writes next to nothing.
pub(super) fn sweep_case() -> Result<GpuCase, Error> {
    single(SWEEP)
}

fn single(text: &str) -> Result<GpuCase, Error> {
    cases_of(text)?.pop().ok_or_else(|| Error::Internal("a file of the bench is empty".to_owned()))
}

fn cases_of(text: &str) -> Result<Vec<GpuCase>, Error> {
    let wrong = |what: String| Error::Internal(format!("an op of the bench: {what}"));
    let header = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map(str::trim).ok_or_else(|| wrong(format!("no line `{key}`")))
    };
    let (lengths, bytes) = (header("; lengths ")?, header("; bytes ")?);
    let main = lengths.split(' ').next().unwrap_or(lengths);
    let mut cases = Vec::new();
    for length in lengths.split(' ') {
        let graphs = parse_graphs(&text.replace(main, length)).map_err(|e| wrong(e.to_string()))?;
        let bytes: Dim = bytes.replace(main, length).parse().map_err(|e| wrong(format!("{bytes}: {e}")))?;
        for parsed in graphs {
            let name = parsed.graph.name();
            let (op, anchor) = name.strip_suffix(ANCHOR).map_or((name, false), |op| (op, true));
            cases.push(GpuCase {
                op: op.to_owned(),
                anchor,
                length: length.parse().map_err(|_| wrong(format!("length `{length}`")))?,
                main: length == main,
                graph: parsed.graph.clone(),
                bytes: bytes.clone(),
            });
        }
    }
    Ok(cases)
}

/// The one kernel of a case.
#[derive(Debug)]
pub(super) struct CaseKernel {
    /// The graph, whose inputs and then outputs are the kernel's parameters.
    pub body: Graph,
    /// As the interpreter runs it.
    pub kernel: Kernel,
    /// As the device runs it.
    pub artifact: fusewright_abi::KernelArtifact,
    dims: LaunchDims,
}

/// What a launch at one size needs.
pub(super) struct Sized {
    /// Extents of every parameter.
    pub shapes: Vec<Vec<usize>>,
    /// Integer arguments.
    pub dims: Vec<i64>,
    /// Rows of the kernel.
    pub rows: usize,
}

impl CaseKernel {
    /// Compiles a case.
    ///
    /// # Errors
    /// A graph that is not one kernel written in place where it updates; a schedule that the kernel cannot have.
    pub fn of(case: &GpuCase, compiler: &Compiler) -> Result<CaseKernel, Error> {
        let fused = fuse_graph(&case.graph, &options(true)).map_err(|e| e.about(case.name()))?;
        let [region] = &fused.partition.regions[..] else {
            return Err(Error::Input(format!("{}: {}", case.name(), not_one_kernel(&fused))));
        };
        let body = fused.graph.expanded().map_err(|e| Error::Internal(e.to_string()))?;
        let made = compiler.make(&region.name, &body)?;
        if let Some(apart) = made.apart.first() {
            let (name, reason) = (case.name(), &apart.reason);
            return Err(Error::Input(format!("{name}: output {} is not written in place: {reason}", apart.output)));
        }
        let (_, kernel) = compiler.kernel(&region.name, &body)?;
        let dims = LaunchDims::of(&made.artifact);
        Ok(CaseKernel { body, kernel, artifact: made.artifact, dims })
    }

    /// Sizes where symbols have these values.
    ///
    /// # Errors
    /// A symbol without a value.
    pub fn at(&self, symbols: &Symbols) -> Result<Sized, Error> {
        let values = self.body.inputs().iter().map(|i| i.value).chain(self.body.outputs().iter().map(|o| o.value));
        let shapes = values.map(|value| shape(&self.body.ty(value).shape, symbols).map_err(Error::Call));
        let shapes = shapes.collect::<Result<Vec<_>, Error>>()?;
        let borrowed: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let binding = symbols.iter().map(|(name, value)| (name.clone(), *value)).collect();
        let (dims, rows) = self.dims.resolve(&borrowed, &binding).map_err(Error::Call)?;
        Ok(Sized { shapes, dims, rows })
    }

    /// The output that lies in the memory of an input, by the input's position.
    pub fn overwritten_by(&self, input: usize) -> Option<usize> {
        let inputs = self.body.inputs().len();
        (inputs..self.artifact.params.len()).find(|&p| self.artifact.params[p].alias == Some(input)).map(|p| p - inputs)
    }

    /// Values of the kernel's dims by name.
    pub fn named(&self, sized: &Sized) -> BTreeMap<String, i64> {
        self.artifact.dims.iter().map(|d| d.name.clone()).zip(sized.dims.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::verify::verify;

    use super::*;

    #[test]
    fn every_op_parses_and_names_are_unique() {
        let cases = gpu_cases().expect("the files are right");
        for case in &cases {
            verify(&case.graph).unwrap_or_else(|e| panic!("{}: {e:?}", case.name()));
            assert!(case.bytes_at(3) > 0, "{}", case.name());
        }
        let mut names: Vec<String> = cases.iter().map(GpuCase::name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), count), (count, count));
        assert!(names.contains(&"D_anchor@7168".to_owned()), "{names:?}");
    }

    #[test]
    fn bytes_are_those_of_the_definitions() {
        let cases = gpu_cases().expect("the files are right");
        let bytes = |name: &str, rows| cases.iter().find(|c| c.name() == name).map(|c| c.bytes_at(rows));
        assert_eq!(bytes("A", 8), Some(174_080));
        assert_eq!(bytes("D", 2), Some(7 * 2 * 5120 + 2 * 5120 + 8));
        assert_eq!(bytes("A@4096", 32), Some(532_480));
        assert_eq!(bytes("K", 1), Some(2 * 72 * 128 * 2 + 256 + 8));
    }

    #[test]
    #[cfg(feature = "cuda")]
    fn every_op_is_one_kernel_for_a_gpu() {
        let compiler = Compiler::new(&"cuda:sm_90".parse().expect("a target")).expect("the backend is there");
        let own = [copy_case(), sweep_case()].map(|case| case.expect("the files are right"));
        for case in gpu_cases().expect("the files are right").iter().chain(&own) {
            let kernel = CaseKernel::of(case, &compiler).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
            for (i, output) in case.graph.outputs().iter().enumerate().filter(|(_, o)| o.updates.is_some()) {
                let input = case.graph.inputs().iter().position(|x| Some(&x.name) == output.updates.as_ref());
                let by = input.and_then(|input| kernel.overwritten_by(input));
                assert_eq!(by, Some(i), "{}: output {i} is not in place", case.name());
            }
        }
    }
}
