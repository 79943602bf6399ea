//! Lowering of the shapes that regions take: one row, groups, heads, cut lanes.

use fusewright_graph::ops::{Composite, Floor, QuantizeDynamic, RmsNorm, RmsRounding, RopeNeox, Silu, SiluForm};
use fusewright_graph::{Builder, DType, Dim, Graph, NanRule, Prim, ReduceOp, ScalarFn, TensorType};

use super::*;
use crate::kernel::{InstOp, Kernel, Over, Shape, Tree};

struct Interleaved;

impl Orders for Interleaved {
    fn row(&self, _: &Dim) -> Order {
        Order::Tree(Tree::interleaved(16))
    }

    fn group(&self, _: &Dim) -> Order {
        Order::Tree(Tree::interleaved(16))
    }
}

fn bf16(shape: &[i64]) -> TensorType {
    let extent = |&e: &i64| if e < 0 { Dim::symbol("s") } else { Dim::constant(e) };
    TensorType::new(DType::BF16, shape.iter().map(extent))
}

fn lowered(body: &Graph) -> Kernel {
    lower("k", &body.expanded().expect("composites expand"), &Interleaved).unwrap_or_else(|e| panic!("{e}"))
}

fn indices(kernel: &Kernel) -> Vec<String> {
    let insts = kernel.segments.iter().flat_map(|s| &s.insts);
    insts.filter_map(|i| i.op.index().map(ToString::to_string)).collect()
}

#[test]
fn add_norm_quant_is_one_row_per_token() {
    let b = Builder::new("g");
    let x = b.input("x", bf16(&[-1, 4096]));
    let r = b.input("r", bf16(&[-1, 4096]));
    let w = b.input("w", bf16(&[4096]));
    let h = b.add(x, r).expect("add");
    let norm = Composite::new(RmsNorm::new(1e-6, RmsRounding::BeforeWeight));
    let y = b.composite(norm, &[h, w]).expect("norm")[0];
    let quant = Composite::new(QuantizeDynamic { floor: 1e-6, floor_of: Floor::Scale, ..QuantizeDynamic::default() });
    for value in b.composite(quant, &[y]).expect("quantise") {
        b.output(value);
    }
    b.output(h);
    let kernel = lowered(&b.finish());
    assert_eq!(kernel.rows.to_string(), "s");
    assert_eq!(kernel.segments.len(), 1);
    assert_eq!(
        indices(&kernel),
        ["row*4096 + lane", "row*4096 + lane", "lane", "row*4096 + lane", "row", "row*4096 + lane"]
            .map(|i| i.replace("row*4096 + lane", "lane + row*4096"))
    );
}

#[test]
fn group_quantisers_make_inner_rows_of_groups() {
    let b = Builder::new("g");
    let x = b.input("x", bf16(&[-1, 24576]));
    let gate = b.slice(x, 1, 0.into(), 12288.into()).expect("slice");
    let up = b.slice(x, 1, 12288.into(), 24576.into()).expect("slice");
    let act = b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[gate]).expect("silu")[0];
    let y = b.mul(act, up).expect("mul");
    let groups = b.reshape(y, vec![Dim::symbol("s"), 96.into(), 128.into()]).expect("groups");
    let quant = Composite::new(QuantizeDynamic { floor: 1e-10, floor_of: Floor::AbsMax, ..QuantizeDynamic::default() });
    let results = b.composite(quant, &[groups]).expect("quantise");
    b.output(b.reshape(results[0], vec![Dim::symbol("s"), 12288.into()]).expect("flatten"));
    b.output(b.reshape(results[1], vec![Dim::symbol("s"), 96.into()]).expect("squeeze"));
    let kernel = lowered(&b.finish());
    assert_eq!((kernel.rows.to_string(), kernel.segments[0].inner.to_string()), ("s".into(), "96".into()));
    assert_eq!(kernel.segments.len(), 1);
}

#[test]
fn norm_over_the_row_and_groups_of_it_make_group_values() {
    let b = Builder::new("g");
    let x = b.input("x", bf16(&[-1, 512]));
    let w = b.input("w", bf16(&[512]));
    let norm = Composite::new(RmsNorm::new(1e-6, RmsRounding::Once));
    let y = b.composite(norm, &[x, w]).expect("norm")[0];
    let groups = b.reshape(y, vec![Dim::symbol("s"), 4.into(), 128.into()]).expect("groups");
    let quant = Composite::new(QuantizeDynamic { floor: 1e-10, floor_of: Floor::AbsMax, ..QuantizeDynamic::default() });
    for value in b.composite(quant, &[groups]).expect("quantise") {
        b.output(value);
    }
    let kernel = lowered(&b.finish());
    assert_eq!(kernel.segments[0].inner.to_string(), "1");
    let grouped = |i: &&crate::kernel::Inst| matches!(i.op, InstOp::Reduce { over: Over::Group(_), .. });
    assert_eq!(kernel.segments[0].insts.iter().filter(grouped).count(), 1);
    assert!(kernel.segments[0].types.iter().any(|t| matches!(t.shape, Shape::Group { .. })));
}

#[test]
fn heads_are_inner_rows_where_the_table_has_none() {
    let b = Builder::new("g");
    let s = Dim::symbol("s");
    let x = b.input("x", bf16(&[1, -1, 64]));
    let w = b.input("w", bf16(&[16]));
    let cos = b.input("cos", bf16(&[1, -1, 16]));
    let sin = b.input("sin", bf16(&[1, -1, 16]));
    let heads = b.reshape(x, vec![1.into(), s.clone(), 4.into(), 16.into()]).expect("heads");
    let norm = Composite::new(RmsNorm::new(1e-6, RmsRounding::BeforeWeight));
    let y = b.composite(norm, &[heads, w]).expect("norm")[0];
    let y = b.prim(fusewright_graph::Prim::Permute { perm: vec![0, 2, 1, 3] }, &[y]).expect("permute");
    let table = |t| b.reshape(t, vec![1.into(), 1.into(), s.clone(), 16.into()]).expect("unsqueeze");
    b.output(b.composite(Composite::new(RopeNeox), &[y, table(cos), table(sin)]).expect("rope")[0]);
    let kernel = lowered(&b.finish());
    assert_eq!((kernel.rows.to_string(), kernel.segments[0].inner.to_string()), ("s".into(), "4".into()));
    let levels = kernel.segments[0].levels();
    assert!(levels.contains(&crate::kernel::Level::Outer));
    assert!(indices(&kernel).contains(&"inner*s*16 + lane + row*16".to_owned()), "{:?}", indices(&kernel));
}

#[test]
fn reshapes_across_rows_are_refused() {
    let b = Builder::new("g");
    let x = b.input("x", bf16(&[6, 4]));
    let y = b.mul(x, x).expect("mul");
    let y = b.reshape(y, vec![8.into(), 3.into()]).expect("reshape");
    b.output(b.reduce_last(fusewright_graph::ReduceOp::Max, y).expect("max"));
    assert!(lower("k", &b.finish(), &Interleaved).is_err());
}

#[test]
fn rows_too_long_to_count_are_refused() {
    let b = Builder::new("g");
    let x = b.input("x", bf16(&[-1, 1 << 31]));
    b.output(b.mul(x, x).expect("mul"));
    let error = lower("k", &b.finish(), &Interleaved).expect_err("the row is too long");
    assert_eq!(error.to_string(), "2147483648 lanes, at most 2147483647");
}

#[test]
fn one_lane_is_a_lane_where_lanes_are_cut_or_joined() {
    let b = Builder::new("g");
    let x = b.input("x", bf16(&[-1, 8]));
    let c = b.input("c", bf16(&[-1, 1]));
    let last = b.slice(x, 1, 7.into(), 8.into()).expect("slice");
    let doubled = b.add(x, x).expect("add");
    b.output(b.cat(&[doubled, c, last], 1).expect("cat"));
    let kernel = lowered(&b.finish());
    let insts = &kernel.segments[0].insts;
    let joined = insts.iter().find(|i| i.op == InstOp::Cat).expect("a concatenation");
    assert_eq!(kernel.segments[0].ty(joined.results[0]).shape, Shape::Row(10.into()));
    assert!(indices(&kernel).contains(&"row*8 + 7".to_owned()), "{:?}", indices(&kernel));
}

#[test]
fn reductions_of_one_element_start_from_what_all_start_from() {
    let b = Builder::new("g");
    let c = b.input("c", bf16(&[-1, 1]));
    let max = |nan| Prim::Reduce { op: ReduceOp::Max, axes: vec![1], nan };
    b.output(b.reduce_last(ReduceOp::Add, c).expect("sum"));
    b.output(b.prim(max(NanRule::Ignore), &[c]).expect("max"));
    b.output(b.prim(max(NanRule::Propagate), &[c]).expect("max"));
    b.output(b.prim(Prim::ArgReduce { op: ReduceOp::Max, axis: 1 }, &[c]).expect("index"));
    let kernel = lowered(&b.finish());
    let ops: Vec<&str> = kernel.segments[0].insts.iter().map(|i| i.op.name()).collect();
    assert_eq!(ops.iter().filter(|name| ["add", "maxnum", "max"].contains(name)).count(), 2, "{ops:?}");
    assert!(!ops.contains(&"reduce") && !ops.contains(&"arg_reduce"), "{ops:?}");
}

/// `h = x + r updates r`, and a product with the first of the rows of `r`, or of the lanes.
fn residual(first_along: Option<usize>) -> Graph {
    let b = Builder::new("g");
    let x = b.input("x", bf16(&[-1, 64]));
    let r = b.input("r", bf16(&[-1, 64]));
    let h = b.add(x, r).expect("add");
    b.add_output(h, Some("r".to_owned()));
    if let Some(axis) = first_along {
        let first = b.slice(r, axis, 0.into(), 1.into()).expect("slice");
        b.output(b.mul(h, first).expect("mul"));
    }
    b.finish()
}

#[test]
fn an_output_lies_where_an_input_does_if_rows_read_what_they_write() {
    let kernel = lowered(&residual(Some(1)));
    assert_eq!(kernel.param(ParamId(2)).alias, Some(ParamId(1)));
    let kernel = lowered(&residual(None));
    assert_eq!(kernel.param(ParamId(2)).alias, Some(ParamId(1)));
    assert_eq!(in_place::why_not(&kernel, ParamId(1), ParamId(2)), None);
    let why = in_place::why_not(&kernel, ParamId(1), ParamId(0));
    assert_eq!(why.as_deref(), Some("`out0` lies where `r` does"));
    let kernel = lowered(&residual(Some(0)));
    assert_eq!(kernel.param(ParamId(2)).alias, None);
    let why = in_place::why_not(&kernel, ParamId(1), ParamId(2));
    assert_eq!(why.as_deref(), Some("a row reads elements of `r` that other rows may overwrite"));
}

#[test]
fn lanes_that_a_row_overwrites_may_be_read_anywhere_in_it() {
    // `cat(f(x[:, from..from + 64]), x[:, 64..]) updates x`.
    let written = |from: i64, step: i64| {
        let b = Builder::new("g");
        let x = b.input("x", bf16(&[-1, 128]));
        let part = Prim::Slice { axis: 1, start: from.into(), end: (from + 64 * step).into(), step };
        let part = b.map(ScalarFn::Neg, &[b.prim(part, &[x]).expect("slice")]).expect("neg");
        let rest = b.slice(x, 1, 64.into(), 128.into()).expect("slice");
        b.add_output(b.cat(&[part, rest], 1).expect("cat"), Some("x".to_owned()));
        lowered(&b.finish())
    };
    for (from, step) in [(0, 1), (64, 1), (32, 1), (0, 2)] {
        assert_eq!(written(from, step).param(ParamId(1)).alias, Some(ParamId(0)), "{from} by {step}");
    }
}

/// Cosines in that many parts of equal lanes, joined one after the other or lane by lane.
fn cosines(parts: &[usize], stacked: bool) -> Kernel {
    let b = Builder::new("g");
    let own: Vec<_> = ["f", "g"].map(|name| b.input(name, bf16(&[-1, 32]))).to_vec();
    let parts: Vec<_> = parts.iter().map(|&i| own[i]).collect();
    let joined = if stacked {
        let column = |&x: &_| b.reshape(x, vec![Dim::symbol("s"), 32.into(), 1.into()]).expect("column");
        let columns: Vec<_> = parts.iter().map(column).collect();
        let rows = b.cat(&columns, 2).expect("columns");
        b.reshape(rows, vec![Dim::symbol("s"), (32 * parts.len() as i64).into()]).expect("flat")
    } else {
        b.cat(&parts, 1).expect("row")
    };
    let wide = b.cast(joined, DType::F32).expect("cast");
    b.output(b.map(ScalarFn::Cos, &[wide]).expect("cosines"));
    lowered(&b.finish())
}

#[test]
fn functions_of_lanes_that_repeat_are_computed_once() {
    let lanes = |kernel: &Kernel| -> Vec<i64> {
        let segment = &kernel.segments[0];
        let cosines = segment.insts.iter().filter(|i| i.op == InstOp::Map(ScalarFn::Cos));
        cosines.map(|i| segment.ty(i.results[0]).shape.elements().as_const().expect("known")).collect()
    };
    for stacked in [false, true] {
        assert_eq!(lanes(&cosines(&[0, 0], stacked)), [32], "stacked: {stacked}");
        assert_eq!(lanes(&cosines(&[0, 1], stacked)), [64], "stacked: {stacked}");
        assert_eq!(lanes(&cosines(&[0, 1, 0], stacked)), [32, 32], "stacked: {stacked}");
    }
}

/// The sum of rows of several tensors, divided by the sum of its lanes.
fn joined_sum(rows: usize) -> Kernel {
    let b = Builder::new("g");
    let flat = |i: usize| b.input(&format!("x{i}"), bf16(&[-1, 32]));
    let parts: Vec<_> = (0..rows).map(flat).collect();
    let joined = b.cast(b.cat(&parts, 1).expect("row"), DType::F32).expect("cast");
    let rows = b.reshape(joined, vec![Dim::symbol("s"), (rows as i64).into(), 32.into()]).expect("rows");
    let sum = |axis| Prim::Reduce { op: ReduceOp::Add, axes: vec![axis], nan: NanRule::Propagate };
    let row = b.prim(sum(1), &[rows]).expect("sum of rows");
    let all = b.prim(sum(2), &[row]).expect("sum of lanes");
    b.output(b.map(ScalarFn::Div, &[row, all]).expect("quotient"));
    lowered(&b.finish())
}

#[test]
fn runs_of_joined_rows_are_the_rows() {
    for rows in [2, 5] {
        let kernel = joined_sum(rows);
        let insts = &kernel.segments[0].insts;
        assert!(insts.iter().all(|i| !matches!(i.op, InstOp::Cat | InstOp::Slice { .. })), "{kernel}");
        assert_eq!(insts.iter().filter(|i| matches!(i.op, InstOp::Load { .. })).count(), rows, "{kernel}");
    }
}
