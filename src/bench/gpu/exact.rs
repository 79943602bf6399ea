//! Rows of what a device computed against the interpreter of Kernel IR.
//!
//! Every op of the bench computes a row from one row of each input, so a few rows are taken by themselves: the interpreter
//! runs them as a whole problem of as many rows, whose places are the first ones of one page.

use fusewright_abi::ParamAccess;
use fusewright_codegen::kernel::interp::{Buffer, run};
use fusewright_graph::interp::Symbols;
use fusewright_graph::{Dim, Graph};

use super::data::integers;
use super::ops::{CaseKernel, GpuCase, ROWS};
use crate::Error;
use crate::diff::first_difference;

/// Most rows that are compared.
const SAMPLE: usize = 6;
/// The input that names places.
const SLOTS: &str = "slots";

/// Elements of an output that differ, and those that were compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Name of the output's parameter.
    pub output: String,
    /// Elements that differ.
    pub differ: usize,
    /// Elements compared.
    pub elements: usize,
    /// The first one in words.
    pub first: Option<String>,
}

/// Rows that are compared, out of so many: the first, the last, and some between.
pub(super) fn sample(rows: usize) -> Vec<usize> {
    let mut sample: Vec<usize> = if rows <= SAMPLE {
        (0..rows).collect()
    } else {
        let step = |i: usize| i * (rows - 1) / (SAMPLE - 1);
        (0..SAMPLE).map(step).collect()
    };
    sample.dedup();
    sample
}

/// Where a row of an output lies.
enum Place {
    /// One after another.
    Row,
    /// Where an input says.
    Slot,
}

/// The bytes of a row of an output, read from the device.
pub(super) type ReadRow<'a> = &'a dyn Fn(usize, usize, usize) -> Result<Vec<u8>, Error>;

/// Compares a sample of the rows of every output. `inputs` are those that a launch ran on, by position in the graph;
/// `read(output, offset, bytes)` gives bytes of an output after it.
///
/// # Errors
/// A kernel that the interpreter does not run; outputs that cannot be read.
pub(super) fn compare(
    case: &GpuCase,
    made: &CaseKernel,
    rows: usize,
    inputs: &[Vec<u8>],
    read: ReadRow<'_>,
) -> Result<Vec<Mismatch>, Error> {
    let sample = sample(rows);
    let symbols: Symbols = case.symbols_at(sample.len());
    let all = made.at(&case.symbols_at(rows))?;
    let few = made.at(&symbols)?;
    let body = &made.body;
    let count = body.inputs().len();
    let mut slots: Vec<usize> = Vec::new();
    let mut buffers = Vec::with_capacity(few.shapes.len());
    for (i, (input, bytes)) in body.inputs().iter().zip(inputs).enumerate() {
        let axis = row_axis(body, i);
        let chosen = match axis {
            Some(axis) => rows_of(bytes, &all.shapes[i], axis, &sample),
            None => bytes.clone(),
        };
        let dtype = body.ty(input.value).dtype;
        let bytes = if input.name == SLOTS {
            slots = chosen
                .as_chunks()
                .0
                .iter()
                .map(|&place| usize::try_from(i64::from_le_bytes(place)).unwrap_or(0))
                .collect();
            integers(dtype, (0..sample.len() as i64).collect())
        } else {
            // What a cache held is not read, so that a shorter one does.
            let needed = dtype.bytes_for(few.shapes[i].iter().product());
            chosen.get(..needed).map_or_else(|| chosen.clone(), <[u8]>::to_vec)
        };
        buffers.push(Buffer::Bytes(bytes));
    }
    for (param, shape) in made.kernel.params.iter().zip(&few.shapes).skip(count) {
        buffers.push(match (param.access, param.alias) {
            (ParamAccess::Out, Some(input)) => Buffer::Same(input.0 as usize),
            (ParamAccess::InOut, Some(input)) => buffers[input.0 as usize].clone(),
            _ => Buffer::Bytes(vec![0; param.dtype.bytes_for(shape.iter().product())]),
        });
    }
    run(&made.kernel, &mut buffers, &made.named(&few), 0..few.rows as i64)
        .map_err(|e| Error::Internal(format!("{}: {e}", case.name())))?;
    let outputs = made.kernel.params.iter().enumerate().skip(count);
    outputs
        .map(|(p, param)| {
            let buffer = match &buffers[p] {
                Buffer::Same(input) => &buffers[*input],
                own => own,
            };
            let place = if output_rows(body, p - count) { Place::Row } else { Place::Slot };
            let elements: usize = match place {
                Place::Row => all.shapes[p].iter().skip(1).product(),
                // A cache has pages of places.
                Place::Slot => all.shapes[p].iter().skip(2).product(),
            };
            let bytes = param.dtype.bytes_for(elements);
            let mut got = Vec::with_capacity(bytes * sample.len());
            for (n, &row) in sample.iter().enumerate() {
                let at = match place {
                    Place::Row => row,
                    Place::Slot => slots.get(n).copied().unwrap_or(0),
                };
                got.extend(read(p - count, at * bytes, bytes)?);
            }
            let want = buffer.bytes().get(..got.len()).unwrap_or_default();
            let found = first_difference(param.dtype, &got, want);
            Ok(Mismatch {
                output: param.name.clone(),
                differ: found.as_ref().map_or(0, |found| found.count.0),
                elements: elements * sample.len(),
                first: found.map(|found| found.to_string()),
            })
        })
        .collect()
}

/// The axis of an input that is rows.
fn row_axis(body: &Graph, input: usize) -> Option<usize> {
    let rows = Dim::symbol(ROWS);
    body.ty(body.inputs()[input].value).shape.iter().position(|extent| *extent == rows)
}

fn output_rows(body: &Graph, output: usize) -> bool {
    body.ty(body.outputs()[output].value).shape.first() == Some(&Dim::symbol(ROWS))
}

/// Some places of an axis, of bytes that are elements of a shape.
fn rows_of(bytes: &[u8], shape: &[usize], axis: usize, rows: &[usize]) -> Vec<u8> {
    let outer: usize = shape[..axis].iter().product();
    let run = bytes.len() / (outer * shape[axis]).max(1);
    let block = |o: usize, r: usize| (o * shape[axis] + r) * run;
    (0..outer)
        .flat_map(|o| rows.iter().map(move |&r| block(o, r)))
        .flat_map(|at| bytes[at..at + run].to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_first_and_the_last_row() {
        assert!(sample(0).is_empty());
        assert_eq!(sample(3), [0, 1, 2]);
        assert_eq!(sample(16384), [0, 3276, 6553, 9829, 13106, 16383]);
    }

    #[test]
    fn rows_are_taken_along_their_axis() {
        let bytes: Vec<u8> = (0..12).collect();
        assert_eq!(rows_of(&bytes, &[3, 4], 0, &[0, 2]), [0, 1, 2, 3, 8, 9, 10, 11]);
        assert_eq!(rows_of(&bytes, &[3, 4], 1, &[1, 3]), [1, 3, 5, 7, 9, 11]);
        assert_eq!(rows_of(&bytes, &[3, 2], 0, &[1]), [4, 5, 6, 7]);
    }

    #[test]
    #[cfg(feature = "cuda")]
    fn what_is_right_has_no_mismatch_and_what_is_wrong_has() {
        // In place of a device: the interpreter on all rows.
        let target = "cuda:sm_90".parse().expect("a target");
        let compiler = crate::Compiler::new(&target).expect("the backend is there");
        for name in ["KC", "E", "mrope"] {
            let cases = super::super::gpu_cases().expect("the files are right");
            let case = cases.iter().find(|c| c.name() == name).expect("is there");
            let made = CaseKernel::of(case, &compiler).unwrap_or_else(|e| panic!("{name}: {e}"));
            let rows = 9;
            let sized = made.at(&case.symbols_at(rows)).expect("fits");
            let data = super::super::data::Data::new(1);
            let of = |(i, input): (usize, &fusewright_graph::Input)| data.of(&made.body, input, &sized.shapes[i], 0);
            let inputs: Vec<Vec<u8>> = made.body.inputs().iter().enumerate().map(of).collect();
            let mut buffers: Vec<Buffer> = inputs.iter().cloned().map(Buffer::Bytes).collect();
            for (param, shape) in made.kernel.params.iter().zip(&sized.shapes).skip(inputs.len()) {
                let alias = param.alias.map(|p| buffers[p.0 as usize].clone());
                let zeros = || Buffer::Bytes(vec![0; param.dtype.bytes_for(shape.iter().product())]);
                buffers.push(alias.filter(|_| param.access == ParamAccess::InOut).unwrap_or_else(zeros));
            }
            run(&made.kernel, &mut buffers, &made.named(&sized), 0..sized.rows as i64)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let read = |output: usize, at: usize, bytes: usize| {
                Ok(buffers[inputs.len() + output].bytes()[at..at + bytes].to_vec())
            };
            let right = compare(case, &made, rows, &inputs, &read).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(right.iter().all(|m| m.differ == 0 && m.elements > 0), "{name}: {right:?}");
            let wrong = |output: usize, at: usize, bytes: usize| {
                read(output, at, bytes).map(|row| row.iter().map(|byte| byte ^ 1).collect())
            };
            let wrong = compare(case, &made, rows, &inputs, &wrong).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(wrong.iter().all(|m| m.differ == m.elements), "{name}: {wrong:?}");
        }
    }
}
