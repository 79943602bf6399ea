//! Row `r` of every family is the same bits alone, among seven and among 4096 rows, on one thread and on two.
//!
//! A family is an op or a quantiser of the matrix in one of its variants, a form, a layout of rows or a layout of scales;
//! from each comes one combination, so that everything that the matrix is made of takes part.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use fusewright::diff::{first_difference, options};
use fusewright::graph::interp::Symbols;
use fusewright::graph::{Dim, Graph, TensorType};
use fusewright::inputs::{Values, tensors};
use fusewright::matrix::{Combination, Form, KERNELS, ScaleLayout, combinations};
use fusewright::{HostTensor, Target, compile};

/// The row count of every combination.
const SYMBOL: &str = "s";
const ALL: usize = 4096;
const SEVEN: usize = 7;
/// Rows that differ.
const MADE: usize = 64;
/// Tests among which the families are dealt.
const PARTS: usize = 4;

/// One combination of every family; which one turns with the family.
static FAMILIES: LazyLock<Vec<Combination>> = LazyLock::new(|| {
    let mut families: BTreeMap<String, Vec<Combination>> = BTreeMap::new();
    // A scale of all rows, and a mask by the place of rows, are no functions of a row; tiles and filled columns have no
    // axis of rows that could be cut.
    let cut = |scales| matches!(scales, ScaleLayout::Rows | ScaleLayout::Columns);
    let of_rows = |c: &Combination| {
        c.kernels() == KERNELS && c.form != Form::Masked && c.quantiser.as_ref().is_none_or(|q| cut(q.scales))
    };
    for cell in combinations().into_iter().filter(of_rows) {
        let op = cell.op.as_ref().map(|op| format!("{op:?}"));
        let quantiser = cell.quantiser.as_ref().map(|q| format!("{:?}", q.op));
        let scales = cell.quantiser.as_ref().map(|q| format!("{:?} of scales", q.scales));
        let around = [format!("{:?}", cell.form), format!("{:?}", cell.layout)];
        for family in [op, quantiser, scales].into_iter().flatten().chain(around) {
            families.entry(family).or_default().push(cell.clone());
        }
    }
    let pick = |(i, cells): (usize, Vec<Combination>)| cells[(i + 1) * 7919 % cells.len()].clone();
    families.into_values().enumerate().map(pick).collect()
});

/// The axis of the rows in a type.
fn row_axis(ty: &TensorType) -> Option<usize> {
    ty.shape.iter().position(|dim| *dim == Dim::symbol(SYMBOL))
}

/// Rows `start..start + count` of a tensor.
fn cut(tensor: &HostTensor, axis: Option<usize>, start: usize, count: usize) -> HostTensor {
    let Some(axis) = axis else { return tensor.clone() };
    let bits: usize = tensor.dtype.bits() as usize * tensor.shape[axis + 1..].iter().product::<usize>();
    assert!(bits.is_multiple_of(8), "a row of whole bytes");
    let mut shape = tensor.shape.clone();
    shape[axis] = count;
    let slabs = tensor.bytes.chunks(tensor.shape[axis] * bits / 8);
    let bytes = slabs.flat_map(|slab| slab[start * bits / 8..(start + count) * bits / 8].to_vec()).collect();
    HostTensor { dtype: tensor.dtype, shape, bytes }
}

/// A tensor whose rows come again and again.
fn repeated(tensor: &HostTensor, axis: Option<usize>, times: usize) -> HostTensor {
    let Some(axis) = axis else { return tensor.clone() };
    let slab = tensor.dtype.bits() as usize * tensor.shape[axis..].iter().product::<usize>() / 8;
    let mut shape = tensor.shape.clone();
    shape[axis] *= times;
    HostTensor { dtype: tensor.dtype, shape, bytes: tensor.bytes.chunks(slab).flat_map(|s| s.repeat(times)).collect() }
}

fn axes<'g>(graph: &'g Graph, values: impl Iterator<Item = fusewright::graph::Value> + 'g) -> Vec<Option<usize>> {
    values.map(|value| row_axis(graph.ty(value))).collect()
}

fn check(cell: &Combination) {
    let graph = cell.graph().unwrap_or_else(|e| panic!("{cell}: {e}"));
    let compiled = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{cell}: {e}"));
    assert!(compiled.fallbacks.is_empty(), "{cell}: {:?}", compiled.fallbacks);
    let symbols: Symbols = cell.symbols().into_iter().chain([(SYMBOL.to_owned(), MADE as i64)]).collect();
    let made = tensors(&graph, &symbols, 3, Values::Edges).unwrap_or_else(|e| panic!("{cell}: {e}"));
    let read = axes(&graph, graph.inputs().iter().map(|input| input.value));
    let given = made.iter().map(|tensor| HostTensor::of(tensor).unwrap_or_else(|e| panic!("{cell}: {e}"))).zip(&read);
    let inputs: Vec<HostTensor> = given.map(|(tensor, axis)| repeated(&tensor, *axis, ALL / MADE)).collect();
    let written = axes(&graph, graph.outputs().iter().map(|output| output.value));
    assert!(read.iter().chain(&written).any(Option::is_some), "{cell}: no rows");
    let run = |inputs: &[HostTensor], threads| {
        let inputs: Vec<&HostTensor> = inputs.iter().collect();
        compiled.program.run(&inputs, threads).unwrap_or_else(|e| panic!("{cell}: {e}"))
    };
    let all = run(&inputs, 1);
    let same = |got: &[HostTensor], start: usize, count: usize, what: &str| {
        for (i, (got, all)) in got.iter().zip(&all).enumerate() {
            let want = cut(all, written[i], start, count);
            assert_eq!(got.shape, want.shape, "{cell}");
            if got.bytes == want.bytes {
                continue;
            }
            if let Some(first) = first_difference(got.dtype, &got.bytes, &want.bytes) {
                panic!("{cell}: rows {start}..{} {what}: out{i}{first}", start + count);
            }
        }
    };
    same(&run(&inputs, 2), 0, ALL, "on two threads");
    for (start, count) in [(0, SEVEN), (2043, SEVEN), (ALL - SEVEN, SEVEN), (0, 1), (1, 1), (2046, 1), (ALL - 1, 1)] {
        let part: Vec<HostTensor> = inputs.iter().zip(&read).map(|(t, axis)| cut(t, *axis, start, count)).collect();
        for threads in [1, 2] {
            same(&run(&part, threads), start, count, if count == 1 { "alone" } else { "among seven" });
        }
    }
}

fn part(i: usize) {
    assert!(FAMILIES.len() >= 60, "{} families", FAMILIES.len());
    FAMILIES.iter().skip(i).step_by(PARTS).for_each(check);
}

#[test]
fn a_row_is_the_same_bits_in_every_batch_0() {
    part(0);
}

#[test]
fn a_row_is_the_same_bits_in_every_batch_1() {
    part(1);
}

#[test]
fn a_row_is_the_same_bits_in_every_batch_2() {
    part(2);
}

#[test]
fn a_row_is_the_same_bits_in_every_batch_3() {
    part(3);
}
