//! Whole graphs: the reference lies inside its own enclosure, most ranges are single values, and errors are found.

use super::*;
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Graph;
use crate::infer::TypeError;
use crate::interp::{Symbols, run};
use crate::ops::{Composite, Floor, LIST, QuantizeDynamic, RmsNorm, RmsRounding, Silu, SiluForm};
use crate::ty::TensorType;
use crate::{Value, prim::Prim};

fn build(inputs: &[TensorType], body: impl FnOnce(&Builder, &[Value]) -> Result<Vec<Value>, TypeError>) -> Graph {
    let b = Builder::new("test");
    let values: Vec<Value> = inputs.iter().enumerate().map(|(i, ty)| b.input(&format!("x{i}"), ty.clone())).collect();
    for output in body(&b, &values).expect("well typed") {
        b.output(output);
    }
    b.finish()
}

fn random_tensor(random: &mut Random, ty: &TensorType, rows: i64, edges: bool) -> Tensor {
    let extent = |dim: &Dim| dim.eval(&|_| Some(rows)).map_or(1, |v| v as usize);
    let shape: Vec<usize> = ty.shape.iter().map(extent).collect();
    let count = shape.iter().product();
    if !ty.dtype.is_float() {
        return Tensor::from_i64(ty.dtype, &shape, (0..count).map(|_| random.next() as i64).collect()).expect("fits");
    }
    let value = |_| if edges && random.below(16) == 0 { random.value(ty.dtype) } else { random.unit() * 4.0 };
    Tensor::from_f64(ty.dtype, &shape, (0..count).map(value).collect()).expect("fits")
}

#[test]
fn the_reference_lies_inside_for_every_composite() {
    let mut random = Random::new(21);
    let mut checked = 0;
    for spec in LIST {
        for composite in (spec.variants)() {
            let cases = [(DType::BF16, 3), (DType::F16, 1), (DType::BF16, 0)];
            let cases = cases.iter().flat_map(|&(dtype, rows)| spec.samples(dtype).into_iter().map(move |t| (t, rows)));
            for (types, rows) in cases {
                let graph = build(&types, |b, x| b.composite(composite.clone(), x));
                let inputs: Vec<Tensor> = types.iter().map(|ty| random_tensor(&mut random, ty, rows, true)).collect();
                for enclosure in enclose(&graph, &inputs, &Symbols::new()).expect("evaluates") {
                    let report = enclosure.check(&enclosure.point).expect("one type");
                    assert!(report.is_ok(), "{composite:?} {types:?}: {report:?}");
                    assert_eq!(report.mismatched, 0);
                    checked += report.elements;
                }
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}

type Body<'a> = &'a dyn Fn(&Builder, &[Value]) -> Result<Vec<Value>, TypeError>;

/// The share of single-valued ranges of each output on everyday values.
fn single_share(graph: &Graph, inputs: &[Tensor]) -> Vec<f64> {
    let enclosures = enclose(graph, inputs, &Symbols::new()).expect("evaluates");
    let report = |e: &Enclosure| e.check(&e.point).expect("one type");
    enclosures.iter().map(report).map(|r| r.single_valued as f64 / r.elements as f64).collect()
}

#[test]
fn most_ranges_are_single_values() {
    let mut random = Random::new(22);
    let (s, h) = (Dim::symbol("s"), Dim::constant(1024));
    let row = TensorType::new(DType::BF16, [s, h.clone()]);
    let weight = TensorType::new(DType::BF16, [h]);
    let (head, square) = (
        TensorType::new(DType::BF16, [Dim::symbol("s"), Dim::constant(128)]),
        TensorType::new(DType::BF16, [Dim::constant(64), Dim::constant(128)]),
    );
    let mut share = |types: &[TensorType], body: Body<'_>| {
        let inputs: Vec<Tensor> = types.iter().map(|ty| random_tensor(&mut random, ty, 4, false)).collect();
        single_share(&build(types, body), &inputs)
    };
    let eps = f64::from(1e-6f32);
    let quantize = QuantizeDynamic { floor: f64::from(1e-10f32), floor_of: Floor::Scale, ..QuantizeDynamic::default() };
    let norm = share(&[row.clone(), weight.clone()], &|b, x| {
        b.composite(Composite::new(RmsNorm::new(eps, RmsRounding::BeforeWeight)), x)
    });
    let silu =
        share(std::slice::from_ref(&row), &|b, x| b.composite(Composite::new(Silu { form: SiluForm::Quotient }), x));
    let codes = share(std::slice::from_ref(&row), &|b, x| b.composite(Composite::new(quantize), x));
    let product =
        share(&[head, square], &|b, x| Ok(vec![b.prim(Prim::MatMul { transpose_b: true, out: DType::BF16 }, x)?]));
    assert!(norm[0] > 0.95, "{norm:?}");
    assert!(silu[0] > 0.97, "{silu:?}");
    assert_eq!(codes, [1.0, 1.0]);
    assert!(product[0] > 0.9, "{product:?}");
}

#[test]
fn a_wrong_element_is_reported() {
    let ty = TensorType::new(DType::BF16, [Dim::constant(3)]);
    let graph = build(&[ty.clone(), ty], |b, x| Ok(vec![b.add(x[0], x[1])?]));
    let tensor = |values: &[f64]| Tensor::from_f64(DType::BF16, &[3], values.to_vec()).expect("fits");
    let inputs = [tensor(&[1.0, 2.0, f64::NAN]), tensor(&[1.0, 0.5, 1.0])];
    let enclosure = enclose(&graph, &inputs, &Symbols::new()).expect("evaluates").remove(0);
    assert_eq!(enclosure.point, run(&graph, &inputs, &Symbols::new()).expect("evaluates")[0]);
    let report = enclosure.check(&tensor(&[2.0, 2.53125, f64::NAN])).expect("one type");
    assert_eq!((report.elements, report.inside, report.single_valued, report.mismatched), (3, 2, 3, 1));
    assert_eq!((report.worst, report.is_ok()), (2, false));
    assert_eq!(report.outside.map(|o| (o.index, o.got)), Some((1, "2.53125".to_owned())));
    let report = enclosure.check(&tensor(&[2.0, 2.5, 1.0])).expect("one type");
    assert_eq!((report.worst, report.inside), (u64::MAX, 2));
    assert!(enclosure.check(&Tensor::from_f64(DType::F32, &[3], vec![0.0; 3]).expect("fits")).is_err());
}

#[test]
fn several_indices_gather_either_row() {
    // The index is the place of the largest of sums that differ by less than their bound.
    let table = TensorType::new(DType::F32, [Dim::constant(2), Dim::constant(1)]);
    let sums = TensorType::new(DType::F32, [Dim::constant(2), Dim::constant(3)]);
    let graph = build(&[table, sums], |b, x| {
        let sum = b.reduce_last(crate::ReduceOp::Add, x[1])?;
        let index = b.prim(Prim::ArgReduce { op: crate::ReduceOp::Max, axis: 0 }, &[sum])?;
        let index = b.reshape(index, vec![Dim::constant(1)])?;
        Ok(vec![b.prim(Prim::Gather { axis: 0 }, &[x[0], index])?])
    });
    let table = Tensor::from_f64(DType::F32, &[2, 1], vec![5.0, 7.0]).expect("fits");
    let close = Tensor::from_f64(DType::F32, &[2, 3], vec![0.1, 0.2, 0.3, 0.3, 0.2, 0.1]).expect("fits");
    let apart = Tensor::from_f64(DType::F32, &[2, 3], vec![0.1, 0.2, 0.3, 0.3, 0.2, 0.2]).expect("fits");
    let range = |sums: &Tensor| {
        let enclosures = enclose(&graph, &[table.clone(), sums.clone()], &Symbols::new()).expect("evaluates");
        enclosures[0].ranges.floats().map(|v| (v[0].lo, v[0].hi))
    };
    assert_eq!(range(&close), Some((5.0, 7.0)));
    assert_eq!(range(&apart), Some((7.0, 7.0)));
}
