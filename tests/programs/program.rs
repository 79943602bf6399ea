//! Programs over views: layout ops outside kernels move no element where strides will do, and results stay the same bits.

use fusewright::check::reference;
use fusewright::diff::options;
use fusewright::graph::Graph;
use fusewright::{DType, HostTensor, Options, StepCounts, Target, compile};

/// Small whole numbers, whose products sum exactly in any order.
fn whole(dtype: DType, shape: &[usize]) -> HostTensor {
    let mut tensor = HostTensor::zeros(dtype, shape);
    for (i, element) in tensor.bytes.chunks_exact_mut(4).enumerate() {
        element.copy_from_slice(&((i * 7 % 13) as f32 - 6.0).to_le_bytes());
    }
    tensor
}

/// Runs a graph fused and op by op with inputs of these shapes, compares with the reference, and gives the step counts.
fn run(text: &str, shapes: &[&[usize]]) -> StepCounts {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let inputs: Vec<HostTensor> = shapes.iter().map(|shape| whole(DType::F32, shape)).collect();
    let inputs: Vec<&HostTensor> = inputs.iter().collect();
    let expected = reference(&graph, &inputs).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let run = |fuse| {
        let options = Options { fuse, ..options() };
        let compiled = compile(&graph, &Target::Cpu, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(compiled.fallbacks.is_empty(), "{:?}", compiled.fallbacks);
        for threads in [1, 2] {
            let produced = compiled.program.run(&inputs, threads).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(produced, expected, "fused: {fuse}, {threads} threads\n{text}");
        }
        compiled.program.counts()
    };
    run(false);
    run(true)
}

fn counts(kernels: usize, matmuls: usize, references: usize, copies: usize) -> StepCounts {
    StepCounts { kernels, matmuls, references, copies, ..StepCounts::default() }
}

#[test]
fn a_product_reads_permuted_sliced_and_stretched_operands() {
    let text = "graph @strided(s: 0..; %x: f32[s, 3, 8], %w: f32[6, 4]) {
       %heads = permute %x {perm = [1, 0, 2]}
       %cut = slice %heads {axis = 2, start = 1, end = 8, step = 2}
       %one = reshape %w {shape = [1, 6, 4]}
       %all = expand %one {shape = [3, 6, 4]}
       %y = matmul %cut, %all {out = f32, transpose_b = true}
       return %y
     }";
    for rows in [5, 1, 0] {
        assert_eq!(run(text, &[&[rows, 3, 8], &[6, 4]]), counts(0, 1, 0, 0));
    }
}

#[test]
fn a_product_is_written_in_the_order_in_which_it_is_read() {
    // Without that, the last reshape would be a copy.
    let text = "graph @merged(s: 0..; %x: f32[3, s, 4], %w: f32[8, 4]) {
       %y = matmul %x, %w {out = f32, transpose_b = true}
       %rows = permute %y {perm = [1, 0, 2]}
       %flat = reshape %rows {shape = [s, 24]}
       return %flat
     }";
    for rows in [5, 1, 0] {
        assert_eq!(run(text, &[&[3, rows, 4], &[8, 4]]), counts(0, 1, 0, 0));
    }
}

#[test]
fn a_reshape_that_no_strides_give_is_a_copy() {
    let text = "graph @copied(s: 0..; %x: f32[s, 6], %w: f32[5, 3]) {
       %turned = permute %x {perm = [1, 0]}
       %flat = reshape %turned {shape = [2*s, 3]}
       %y = matmul %flat, %w {out = f32, transpose_b = true}
       return %y
     }";
    for rows in [4, 1, 0] {
        assert_eq!(run(text, &[&[rows, 6], &[5, 3]]), counts(0, 1, 0, 1));
    }
}

#[test]
fn a_reduction_of_the_whole_tensor_takes_the_functions_of_its_result_along() {
    // Extremes of rows are one kernel, that of all of them the next; a sum has one order.
    for (op, kernels) in [("max", 3), ("add", 2)] {
        let text = format!(
            "graph @scale(s: 1..; %x: f32[s, 6]) {{
       %top = reduce %x {{op = {op}, axes = [0, 1]}}
       %two = literal f32 2
       %half = div %top, %two
       %scale = abs %half
       %y = mul %x, %scale
       return %y, %scale
     }}"
        );
        for rows in [4, 1] {
            assert_eq!(run(&text, &[&[rows, 6]]), counts(kernels, 0, 0, 0), "{op}");
        }
    }
}

#[test]
fn results_are_row_major_whatever_they_are_views_of() {
    let text = "graph @views(s: 0..; %x: f32[s, 6]) {
       %turned = permute %x {perm = [1, 0]}
       %cut = slice %turned {axis = 0, start = 2, end = 5, step = 1}
       %table = iota {type = i32[s, 2], axis = 0}
       %two = literal f32 2
       %full = expand %two {shape = [s, 3]}
       return %cut, %table, %full, %x
     }";
    for rows in [4, 1, 0] {
        assert_eq!(run(text, &[&[rows, 6]]), counts(0, 0, 0, 0));
    }
}

#[test]
fn an_op_that_has_no_kernel_is_listed_once() {
    let fallbacks = |text: &str| -> Vec<String> {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let compiled = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        compiled.fallbacks.into_iter().map(|fallback| fallback.label).collect()
    };
    let one = "graph @one(s: 0..; %x: f64[s, 8]) {
       %y = exp %x
       return %y
     }";
    assert_eq!(fallbacks(one), ["exp [%y]"]);
    // Of two, one has a kernel of its own; the region that they would have been is named as well.
    let two = "graph @two(s: 0..; %x: f64[s, 8]) {
       %y = exp %x
       %z = neg %y
       return %z
     }";
    assert_eq!(fallbacks(two), ["row", "exp [%y]"]);
}

/// Memory in front of an axis without places is not what its last index means.
#[test]
fn an_axis_without_places_is_written_nowhere_and_read_by_no_index() {
    let numbers = |shape: &[usize]| whole(DType::F32, shape);
    let indices = HostTensor {
        dtype: DType::I64,
        shape: vec![4],
        bytes: [-1i64, 0, -9, 5].iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    let compiled = |text: &str, fuse| {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        compile(&graph, &Target::Cpu, &Options { fuse, ..options() }).expect("compiles")
    };
    for (extent, fuse) in [("0", true), ("0", false), ("t", true), ("t", false)] {
        let symbols = if extent == "t" { "s: 1..64, t: 0.." } else { "s: 1..64" };
        let written = format!(
            "graph @g({symbols}; %x: f32[{extent}, 16], %i: i64[s], %v: f32[s, 16]) {{
               %y = scatter %x, %i, %v {{axis = 0}}
               return %y
             }}"
        );
        let inputs = [&numbers(&[0, 16]), &indices, &numbers(&[4, 16])];
        let results = compiled(&written, fuse).program.run(&inputs, 1).expect("nothing to write");
        assert_eq!(results[0].shape, [0, 16]);
        let read = format!(
            "graph @g({symbols}; %x: f32[{extent}, 16], %i: i64[s]) {{
               %y = gather %x, %i {{axis = 0}}
               %z = add %y, %y
               return %z
             }}"
        );
        let error = compiled(&read, fuse).program.run(&inputs[..2], 1).expect_err("nothing to read").to_string();
        assert!(error.contains("axis 0"), "{error}");
    }
}

#[test]
fn an_index_out_of_range_leads_out_of_no_memory() {
    let text = "graph @places(s: 0..; %x: f32[s, 2], %c: f32[4, 2], %i: i64[s], %j: i64[s]) {
       %read = gather %c, %i {axis = 0}
       %y = add %read, %x
       %z = scatter %c, %j, %y {axis = 0}
       return %y, %z updates %c
     }";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let indices = |values: [i64; 3]| HostTensor {
        dtype: DType::I64,
        shape: vec![3],
        bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    let floats = |t: &HostTensor| -> Vec<f32> {
        t.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let (x, c) = (HostTensor::zeros(DType::F32, &[3, 2]), whole(DType::F32, &[4, 2]));
    let run = |fuse, i: [i64; 3], j: [i64; 3]| {
        let compiled = compile(&graph, &Target::Cpu, &Options { fuse, ..options() }).expect("compiles");
        compiled.program.run(&[&x, &c, &indices(i), &indices(j)], 1).expect("kernels take any index")
    };
    let cache = floats(&c);
    let row = |i: usize| &cache[2 * i..2 * i + 2];
    // A read beyond an end is of the row there, and a write beyond one is none.
    for fuse in [true, false] {
        let produced = run(fuse, [99, -99, 1], [1, 4, -1]);
        assert_eq!(floats(&produced[0]), [row(3), row(0), row(1)].concat());
        assert_eq!(floats(&produced[1]), [row(0), row(3), row(2), row(3)].concat());
        let meant = reference(&graph, &[&x, &c, &indices([99, -99, 1]), &indices([1, 4, -1])]).expect("any index");
        assert_eq!(produced, meant);
    }
}
