//! Results of a graph judged by its own arithmetic.

use fusewright::check::{self, OutputCheck};
use fusewright::graph::tensor::{Data, Tensor};
use fusewright::graph::{Graph, import, interp, num};
use fusewright::{DType, Error, HostTensor};
use pyo3::prelude::*;

use crate::dlpack::Borrowed;
use crate::errors::{CompileError, raised};

/// How results of one output relate to the values that its graph allows.
#[pyclass(frozen, get_all, module = "fusewright._native")]
#[derive(Debug)]
pub struct Judgement {
    /// Whether all results of ours are allowed, and of the other ones none is far off and few are outside.
    passed: bool,
    /// Number of elements.
    elements: usize,
    /// Elements of which one value alone is allowed.
    exact: usize,
    /// Elements whose bits differ between the two.
    mismatched: usize,
    /// Elements of ours that the graph does not allow.
    outside: usize,
    /// Those of the other results.
    expected_outside: usize,
    /// The first element that speaks against one of them, in words.
    first_wrong: Option<String>,
}

/// Compares two lists of results of a graph, each element with the range of values that every order of its sums and every
/// right `exp` may give: results of kernels, and those of a framework.
///
/// `program` is the JSON of an exported program without weights, `symbols` the values of its sizes, of which those that
/// inputs tell may lack; all others are tensors that speak DLPack, on the host and in row-major order.
///
/// Raises `CompileError` for a program that cannot be read or evaluated, `CallError` for tensors that do not fit it.
#[pyfunction]
pub fn judge<'py>(
    py: Python<'py>,
    program: &[u8],
    symbols: interp::Symbols,
    inputs: Vec<Bound<'py, PyAny>>,
    produced: Vec<Bound<'py, PyAny>>,
    expected: Vec<Bound<'py, PyAny>>,
) -> PyResult<Vec<Judgement>> {
    let graph = read(program)?;
    let [inputs, produced, expected] = [inputs, produced, expected].map(|all| copies(&all));
    let (inputs, produced, expected) = (inputs?, produced?, expected?);
    let expected: Vec<(usize, HostTensor)> = expected.into_iter().enumerate().collect();
    let checks = py.detach(|| check::compare_at(&graph, &symbols, &inputs, &expected, &produced)).map_err(raised)?;
    Ok(checks.iter().map(Judgement::of).collect())
}

/// The least and the greatest value that a graph allows of every element of its outputs, as bytes of `f64` in row-major
/// order, which rounds integers beyond 2**53; both are NaN where NaN is allowed.
///
/// Raises as `judge`.
#[pyfunction]
pub fn enclose<'py>(
    py: Python<'py>,
    program: &[u8],
    symbols: interp::Symbols,
    inputs: Vec<Bound<'py, PyAny>>,
) -> PyResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let graph = read(program)?;
    let inputs = copies(&inputs)?;
    let ends = py.detach(|| {
        let inputs = inputs.iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
        let enclosed = interp::enclose(&graph, &inputs, &symbols)?;
        Ok::<_, Error>(enclosed.iter().map(|output| ends(output.point.dtype(), output.ranges.data())).collect())
    });
    ends.map_err(raised)
}

impl Judgement {
    fn of(check: &OutputCheck) -> Self {
        let OutputCheck { elements, exact, mismatched, outside, expected_outside, .. } = *check;
        let first_wrong = check.first_wrong.as_ref().map(ToString::to_string);
        Judgement { passed: check.passed(), elements, exact, mismatched, outside, expected_outside, first_wrong }
    }
}

fn read(program: &[u8]) -> PyResult<Graph> {
    import::live("part", program).map_err(|diagnostic| CompileError::new_err(diagnostic.to_string()))
}

#[allow(unsafe_code)]
fn copies(objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<HostTensor>> {
    let copy = |object: &Bound<'_, PyAny>| {
        let borrowed = Borrowed::of(object, None, 0, || "a tensor".to_owned())?;
        let bytes = borrowed.dtype.bytes_for(borrowed.shape.iter().product());
        // SAFETY: the tensor is of that dtype and shape without gaps, and lives until the copy is made.
        let bytes = unsafe { crate::memory::read(borrowed.address, bytes) }.to_vec();
        Ok(HostTensor { dtype: borrowed.dtype, shape: borrowed.shape, bytes })
    };
    objects.iter().map(copy).collect()
}

fn tensor(host: &HostTensor) -> Result<Tensor, Error> {
    Ok(Tensor::from_bytes(host.dtype, &host.shape, &host.bytes)?)
}

fn ends(dtype: DType, ranges: &Data<interp::Interval, interp::IntRange>) -> (Vec<u8>, Vec<u8>) {
    let pairs: Vec<(f64, f64)> = match ranges {
        Data::Float(ranges) => {
            ranges.iter().map(|range| if range.nan { (f64::NAN, f64::NAN) } else { (range.lo, range.hi) }).collect()
        }
        Data::Int(ranges) => {
            let end = |v| num::int_value(dtype, v) as f64;
            ranges.iter().map(|range| (end(range.lo), end(range.hi))).collect()
        }
    };
    pairs.into_iter().map(|(lo, hi)| (lo.to_le_bytes(), hi.to_le_bytes())).fold(
        Default::default(),
        |mut ends, (lo, hi)| {
            ends.0.extend(lo);
            ends.1.extend(hi);
            ends
        },
    )
}
