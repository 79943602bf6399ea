//! Op tables: every composite and every scalar function, from the lists, through the whole chain.
//!
//! Of each composite, in every variant and dtype: its expansion is well typed; the interpreter gives the same for the
//! op and for its expansion; the decomposed form is recognised; the kernel on the CPU gives the bits of its Kernel IR,
//! which lie in the intervals of the graph. Of each scalar function: the CPU's program on every dtype that the function
//! admits. Rows are none, one and some; operands are ordinary values and edge values.

use std::collections::BTreeMap;

use fusewright::diff::options;
use fusewright::graph::interp::{self, Enclosure, Symbols};
use fusewright::graph::operands::{Values, tensors};
use fusewright::graph::ops::{Composite, LIST};
use fusewright::graph::{Builder, DType, Dim, Graph, Op, ScalarFn, Tensor, TensorType, verify};
use fusewright::{Compiler, HostTensor, Options, Program, Target, compile, fuse_graph};
use fusewright_codegen::kernel::interp::{Buffer, run as run_kernel};

const DTYPES: [DType; 3] = [DType::F32, DType::BF16, DType::F16];
const ROWS: [i64; 3] = [0, 1, 3];
const VALUES: [Values; 3] = [Values::Ordinary, Values::Edges, Values::Codes];

/// Every variant of every composite on its sample operands of each dtype, as a graph of one node.
fn composites() -> Vec<(Composite, Graph)> {
    let mut all = Vec::new();
    for composite in LIST.iter().flat_map(|spec| (spec.variants)()) {
        for types in DTYPES.into_iter().flat_map(|dtype| composite.spec().samples(dtype)) {
            let b = Builder::new(composite.name());
            b.symbol("s", 0, None);
            let inputs = types.iter().enumerate().map(|(i, ty)| b.input(&format!("x{i}"), ty.clone()));
            let inputs: Vec<_> = inputs.collect();
            let results = b.composite(composite.clone(), &inputs).expect("sample operands fit");
            results.into_iter().for_each(|r| b.output(r));
            all.push((composite.clone(), b.finish()));
        }
    }
    assert!(LIST.len() >= 5 && all.len() >= 3 * LIST.len(), "{} composites", all.len());
    all
}

fn reference(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    interp::run(graph, inputs, &Symbols::new()).unwrap_or_else(|e| panic!("{e}\n{graph}"))
}

fn enclosed(graph: &Graph, inputs: &[Tensor]) -> Vec<Enclosure> {
    interp::enclose(graph, inputs, &Symbols::new()).unwrap_or_else(|e| panic!("{e}\n{graph}"))
}

fn host(tensor: &Tensor) -> HostTensor {
    HostTensor { dtype: tensor.dtype(), shape: tensor.shape().to_vec(), bytes: tensor.to_bytes() }
}

fn call(program: &Program, inputs: &[Tensor], threads: usize) -> Vec<Tensor> {
    let inputs: Vec<HostTensor> = inputs.iter().map(host).collect();
    let results = program.run(&inputs.iter().collect::<Vec<_>>(), threads).unwrap_or_else(|e| panic!("{e}"));
    results.iter().map(|t| Tensor::from_bytes(t.dtype, &t.shape, &t.bytes).expect("bytes of its type")).collect()
}

#[test]
fn expansions_are_typed_and_mean_the_op() {
    for (composite, graph) in composites() {
        let expanded = graph.expanded().expect("expands");
        verify::verify(&expanded).unwrap_or_else(|e| panic!("{composite:?}: {e:?}"));
        assert!(expanded.nodes().iter().all(|node| matches!(node.op, Op::Prim(_))), "{composite:?}");
        let types = |g: &Graph| g.outputs().iter().map(|o| g.ty(o.value).clone()).collect::<Vec<TensorType>>();
        assert_eq!(types(&graph), types(&expanded), "{composite:?}");
        for (rows, values) in ROWS.into_iter().flat_map(|rows| VALUES.map(|values| (rows, values))) {
            let inputs = tensors(&graph, rows, values);
            assert_eq!(reference(&graph, &inputs), reference(&expanded, &inputs), "{composite:?}, {rows} rows");
        }
    }
}

#[test]
fn decomposed_forms_are_recognised() {
    for (composite, graph) in composites() {
        let expanded = graph.expanded().expect("expands");
        let fused = fuse_graph(&expanded, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let found = fused.graph.nodes().iter().filter_map(|node| match &node.op {
            Op::Composite(c) => Some(c),
            Op::Prim(_) => None,
        });
        let found: Vec<&Composite> = found.collect();
        let [one] = found[..] else { panic!("{composite:?} became\n{}", fused.graph) };
        assert_eq!(one.name(), composite.name());
        // Variants that differ only in roundings that are none, or around a weight that is not there, are one.
        let types: Vec<_> = graph.inputs().iter().map(|input| graph.ty(input.value)).collect();
        let body = |c: &Composite| c.body(&types).expect("its own operands fit").to_string();
        assert_eq!(body(one), body(&composite), "{one:?} instead of {composite:?}");
        for values in VALUES {
            let inputs = tensors(&graph, 3, values);
            assert_eq!(reference(&fused.graph, &inputs), reference(&graph, &inputs), "{composite:?}");
        }
    }
}

/// The outputs of a one-region graph by the interpreter of Kernel IR on the kernel expanded for the CPU.
fn by_kernel(graph: &Graph, inputs: &[Tensor], rows: i64) -> Vec<Tensor> {
    let body = graph.expanded().expect("expands");
    let compiler = Compiler::new(&Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
    let (_, kernel) = compiler.kernel(graph.name(), &body).unwrap_or_else(|e| panic!("{e}"));
    let dims: BTreeMap<String, i64> = kernel.dims.iter().map(|d| (d.name.clone(), rows)).collect();
    let expected = reference(graph, inputs);
    let mut buffers: Vec<Buffer> = inputs.iter().map(|t| Buffer::Bytes(t.to_bytes())).collect();
    buffers.extend(expected.iter().map(|t| Buffer::Bytes(vec![0xa5; t.to_bytes().len()])));
    let count = kernel.rows.eval(&|name| dims.get(name).copied()).expect("bound");
    run_kernel(&kernel, &mut buffers, &dims, 0..count).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let outputs = expected.iter().zip(&buffers[inputs.len()..]);
    outputs.map(|(t, b)| Tensor::from_bytes(t.dtype(), t.shape(), b.bytes()).expect("bytes of its type")).collect()
}

#[test]
fn kernels_of_composites_agree_and_are_right() {
    let (mut elements, mut single) = (0, 0);
    for (composite, graph) in composites() {
        let compiled = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{e}"));
        assert!(compiled.fallbacks.is_empty(), "{composite:?}: {:?}", compiled.fallbacks);
        let counts = compiled.program.counts();
        assert_eq!((counts.kernels, counts.references), (1, 0), "{composite:?}");
        for (rows, values) in ROWS.into_iter().flat_map(|rows| VALUES.map(|values| (rows, values))) {
            let inputs = tensors(&graph, rows, values);
            let produced = call(&compiled.program, &inputs, 1);
            let dtype = graph.ty(graph.inputs()[0].value).dtype;
            let what = format!("{composite:?} of {dtype}, {rows} rows");
            assert_eq!(produced, call(&compiled.program, &inputs, 3), "{what}, three threads");
            assert_eq!(produced, by_kernel(&graph, &inputs, rows), "{what}, Kernel IR");
            for (ours, interval) in produced.iter().zip(enclosed(&graph, &inputs)) {
                let report = interval.check(ours).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(report.is_ok(), "{what}: {report:?}");
                elements += report.elements;
                single += report.single_valued;
            }
        }
    }
    // Were the intervals wide, lying in them would say little.
    assert!(elements > 10_000 && single * 2 > elements, "{single} of {elements} intervals are one value");
}

/// A graph of one function, where the dtype admits it.
fn function(f: ScalarFn, dtype: DType) -> Option<Graph> {
    let b = Builder::new(f.name());
    let s = b.symbol("s", 0, None);
    let inputs: Vec<_> = (0..f.arity())
        .map(|i| {
            let dtype = if f == ScalarFn::Select && i == 0 { DType::Bool } else { dtype };
            b.input(&format!("x{i}"), TensorType::new(dtype, [s.clone(), Dim::constant(37)]))
        })
        .collect();
    b.output(b.map(f, &inputs).ok()?);
    Some(b.finish())
}

#[test]
fn programs_of_scalar_functions_are_right() {
    let (mut checked, mut kernels, mut failures) = (0, 0, Vec::new());
    for (f, dtype) in ScalarFn::ALL.iter().flat_map(|&f| DType::ALL.map(|dtype| (f, dtype))) {
        let Some(graph) = function(f, dtype) else { continue };
        let compiled = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{e}\n{graph}"));
        kernels += compiled.program.counts().kernels;
        for (rows, values) in [0, 1, 29].into_iter().flat_map(|rows| VALUES.map(|values| (rows, values))) {
            let inputs = tensors(&graph, rows, values);
            let produced = call(&compiled.program, &inputs, 1);
            let interval = enclosed(&graph, &inputs).swap_remove(0);
            let report = interval.check(&produced[0]).unwrap_or_else(|e| panic!("{} of {dtype}: {e}", f.name()));
            let kind = if compiled.program.counts().kernels == 1 { "kernel" } else { "reference" };
            if !report.is_ok() {
                failures.push(format!("{} of {dtype}, {rows} rows, {values:?}, by {kind}: {report:?}", f.name()));
            }
        }
        checked += 1;
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(ScalarFn::ALL.len() >= 40 && checked >= 400, "{checked} functions of a dtype");
    assert!(kernels * 4 >= checked, "{kernels} kernels of {checked} functions");
}
