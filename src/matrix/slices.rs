//! Results in wider memory: the kernel of a combination writes rows apart, the same bits, and nothing between them.

use super::Combination;
use crate::callable::Callable;
use crate::diff;
use crate::inputs::{Values, tensors};
use crate::{Error, HostTensor, TensorMut, TensorRef};

/// What lies where nothing is written.
const GUARD: u8 = 0xa5;
/// Elements between rows, and before the first.
const MARGIN: usize = 8;

impl Combination {
    /// Calls the kernel of the combination with contiguous results and with results that are slices of wider tensors.
    ///
    /// # Errors
    /// An internal error; what does not hold is `Ok(Err(why))`.
    pub(super) fn check_slices(&self, seed: u64) -> Result<Result<(), String>, Error> {
        let graph = self.graph().map_err(|e| Error::Internal(format!("{self}: {e}")))?;
        let callable = Callable::of(graph.clone(), &diff::options())?;
        for rows in [0, 1, self.rows] {
            let mut symbols = self.symbols();
            symbols.insert(super::ROW_SYMBOL.to_owned(), rows);
            let made = tensors(&graph, &symbols, seed, Values::Edges)?;
            let given = made.iter().map(HostTensor::of).collect::<Result<Vec<_>, _>>()?;
            let inputs: Vec<TensorRef<'_>> =
                given.iter().map(|t| TensorRef::raw(t.dtype, &t.bytes, &t.shape)).collect();
            let mut shapes = Vec::new();
            for ty in callable.outputs() {
                let extents =
                    ty.shape.iter().map(|e| e.eval(&|s| symbols.get(s).copied())).collect::<Result<Vec<_>, _>>();
                let extents = extents.map_err(|e| Error::Internal(e.to_string()))?;
                shapes.push((ty.dtype, extents.into_iter().map(|e| e as usize).collect::<Vec<usize>>()));
            }
            let results = |apart: bool| {
                let mut wide: Vec<Wide> =
                    shapes.iter().map(|(dtype, shape)| Wide::new(dtype.bits(), shape, apart)).collect();
                let mut outputs = Vec::with_capacity(wide.len());
                for ((dtype, shape), wide) in shapes.iter().zip(&mut wide) {
                    let output = TensorMut::raw(*dtype, &mut wide.bytes[wide.first..wide.end], shape);
                    outputs.push(if wide.apart { output.with_stride(wide.stride) } else { output });
                }
                callable.call(&inputs, &mut outputs, 2).map(|()| wide)
            };
            for (i, (tight, wide)) in results(false)?.iter().zip(&results(true)?).enumerate() {
                if let Some(byte) = wide.differs(tight) {
                    return Ok(Err(format!(
                        "{rows} rows: out{i} as a slice differs, or its margin does, at byte {byte}"
                    )));
                }
            }
        }
        Ok(Ok(()))
    }
}

/// Memory with a tensor in it, which begins at byte `first` and ends at byte `end`.
struct Wide {
    bytes: Vec<u8>,
    first: usize,
    end: usize,
    /// Bytes of a row.
    row: usize,
    /// Elements from row to row.
    stride: usize,
    /// Bytes from row to row.
    step: usize,
    rows: usize,
    apart: bool,
}

impl Wide {
    fn new(bits: u32, shape: &[usize], apart: bool) -> Wide {
        let apart = apart && shape.len() > 1;
        let bits = bits as usize;
        let rows = if shape.len() > 1 { shape[0] } else { 1 };
        let elements = if shape.len() > 1 { shape[1..].iter().product() } else { shape.iter().product::<usize>() };
        let stride = if apart { elements + MARGIN } else { elements };
        let (row, step) = ((elements * bits).div_ceil(8), stride * bits / 8);
        let first = if apart { MARGIN * bits / 8 } else { 0 };
        let end = first + if rows == 0 { 0 } else { (rows - 1) * step + row };
        Wide { bytes: vec![GUARD; end + first], first, end, row, stride, step, rows, apart }
    }

    /// The first byte that is neither that of the tensor in other memory nor as it was.
    fn differs(&self, tight: &Wide) -> Option<usize> {
        let mut expected = vec![GUARD; self.bytes.len()];
        for row in 0..self.rows {
            let from = &tight.bytes[tight.first + row * tight.step..][..tight.row];
            expected[self.first + row * self.step..][..self.row].copy_from_slice(from);
        }
        expected.iter().zip(&self.bytes).position(|(a, b)| a != b)
    }
}
