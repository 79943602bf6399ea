//! What other fusers got wrong, one test for each mistake that could be made here.
//!
//! A doc comment names where the mistake was reported. Every graph runs fused, op by op, and in the interpreters, with
//! edge values and with 33, 1, 0, 2 and 7 rows, and all must agree (`judge.rs`); what is asserted beside
//! that is how it fused.

use crate::judge;
use fusewright::graph::{DType, Graph, InputKind, TensorType};
use fusewright::{Fused, HostTensor, Options, Target, TensorMut, TensorRef, compile, fuse_graph};

fn graph(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs a graph every way there is, and gives its regions.
fn fused(text: &str) -> Fused {
    let graph = graph(text);
    judge::judge(&graph, 11).unwrap_or_else(|f| panic!("{}: {}\n{text}", f.kind, f.message));
    fuse_graph(&graph, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Names of the regions, in order.
fn names(text: &str) -> Vec<String> {
    fused(text).partition.regions.iter().map(|r| r.name.clone()).collect()
}

const NORM: &str = "{eps = 1e-6, round = once}";
const FP8: &str = "{bound = 448.0, floor = 1e-10, floor_of = scale}";

/// TensorRT-LLM, AutoDeploy: a fused op must come after all producers of its inputs, and an op in the middle that does
/// not fuse must not close a cycle.
#[test]
fn what_does_not_fuse_splits_what_surrounds_it() {
    let fused = fused(
        "graph @diamond(s: 0..; %x: f32[s, 16]) {
           %a = exp %x
           %m = reduce %a {op = max, axes = [0, 1]}
           %b = neg %a
           %y = add %m, %b
           return %y
         }",
    );
    // `exp` feeds the maximum of all rows and the sum; one region would both precede and follow the maximum.
    assert_eq!(fused.partition.regions.len(), 2);
    let text = format!("{:?}", fused.partition.steps);
    assert!(text.starts_with("[Region(0), Lone(0)") && text.ends_with("Region(1)]"), "{text}");
}

/// TensorRT-LLM, AutoDeploy: row width is that of the widest input, and [M, 1] inputs are broadcast.
#[test]
fn narrow_inputs_are_broadcast() {
    let text = "graph @narrow(s: 0..; %scale: f32[s, 1], %x: bf16[s, 40], %bias: f32[40], %c: f32[1]) {
           %x32 = cast %x {to = f32}
           %scales = expand %scale {shape = [s, 40]}
           %biases = expand %bias {shape = [s, 40]}
           %cs = expand %c {shape = [s, 40]}
           %a = mul %scales, %x32
           %b = add %a, %biases
           %d = mul %b, %cs
           %y = cast %d {to = bf16}
           return %y
         }";
    assert_eq!(names(text), ["row"]);
}

/// TensorRT-LLM, AutoDeploy: layers that share a weight were merged into one kernel by way of it.
#[test]
fn a_shared_weight_joins_no_regions() {
    let text = format!(
        "graph @shared(s: 0..; %x: bf16[s, 64], %w: bf16[64]) {{
           %a = rms_norm %x, %w {NORM}
           %m = reduce %a {{op = max, axes = [0, 1]}}
           %b = max %a, %m
           %c = rms_norm %b, %w {NORM}
           return %c
         }}"
    );
    assert_eq!(names(&text), ["rms_norm", "rms_norm"]);
}

/// vLLM #48324, #48330, #44694: a weight of another dtype than the row gave garbage or crashed.
#[test]
fn every_pair_of_row_and_weight_dtypes() {
    for x in ["bf16", "f16", "f32"] {
        for w in ["bf16", "f16", "f32"] {
            let text = format!(
                "graph @mixed(s: 0..; %x: {x}[s, 24], %w: {w}[24]) {{
                   %x32 = cast %x {{to = f32}}
                   %sq = mul %x32, %x32
                   %sum = reduce %sq {{op = add, axes = [1]}}
                   %n = literal f32 24
                   %mean = div %sum, %n
                   %e = literal f32 1e-6
                   %var = add %mean, %e
                   %r = rsqrt %var
                   %rs = expand %r {{shape = [s, 24]}}
                   %y32 = mul %x32, %rs
                   %w32 = cast %w {{to = f32}}
                   %ws = expand %w32 {{shape = [s, 24]}}
                   %z32 = mul %y32, %ws
                   %z = cast %z32 {{to = {x}}}
                   return %z
                 }}"
            );
            assert_eq!(names(&text).len(), 1, "{x} and {w}");
        }
    }
}

/// vLLM #41825: a norm with several consumers was skipped.
#[test]
fn a_norm_feeds_two_quantisers_and_a_plain_use() {
    let text = format!(
        "graph @consumers(s: 0..; %x: bf16[s, 256], %w: bf16[256], %scale: f32[]) {{
           %y = rms_norm %x, %w {NORM}
           %q, %t = quantize_dynamic %y {FP8}
           %y32 = cast %y {{to = f32}}
           %z = div %y32, %scale
           %lo = literal f32 -448
           %hi = literal f32 448
           %u = max %z, %lo
           %v = min %u, %hi
           %p = cast %v {{to = f8e4m3}}
           return %q, %t, %p, %y
         }}"
    );
    assert_eq!(names(&text).len(), 1, "one kernel reads the row once");
}

/// vLLM #33295: equal splits written twice hid the match.
#[test]
fn equal_slices_written_twice_are_one() {
    let text = "graph @twice(s: 0..; %x: bf16[s, 64]) {
           %gate = slice %x {axis = 1, start = 0, end = 32, step = 1}
           %up = slice %x {axis = 1, start = 32, end = 64, step = 1}
           %again = slice %x {axis = 1, start = 0, end = 32, step = 1}
           %g = silu %gate {form = quotient}
           %h = silu %again {form = quotient}
           %y = mul %g, %up
           %z = mul %h, %up
           return %y, %z
         }";
    let fused = fused(text);
    assert_eq!(fused.partition.regions.len(), 1);
    assert_eq!(fused.partition.regions[0].name, "silu_mul");
    assert_eq!(fused.partition.regions[0].outputs.len(), 1, "both results are one value");
}

/// TensorRT-LLM #14781: a reshape or a cast between producer and consumer hid 40 of 80 sites.
#[test]
fn views_and_casts_between_are_transparent() {
    let text = format!(
        "graph @views(s: 0..; %x: bf16[s, 256], %w: bf16[256]) {{
           %y = rms_norm %x, %w {NORM}
           %a = reshape %y {{shape = [s, 2, 128]}}
           %b = reshape %a {{shape = [1, s, 256]}}
           %c = reshape %b {{shape = [s, 256]}}
           %q, %t = quantize_dynamic %c {FP8}
           return %q, %t
         }}"
    );
    assert_eq!(names(&text), ["rms_norm.fp8_token"]);
}

/// vllm-ascend: kernels were found again by a key without the head's geometry.
#[test]
fn two_head_geometries_in_one_graph() {
    let text = format!(
        "graph @geometries(s: 0..; %q: bf16[s, 8, 64], %k: bf16[s, 2, 128], %w: bf16[64], %v: bf16[128]) {{
           %a = rms_norm %q, %w {NORM}
           %b = rms_norm %k, %v {NORM}
           return %a, %b
         }}"
    );
    let fused = fused(&text);
    let norms: usize = fused.partition.regions.iter().map(|r| r.nodes.len()).sum();
    assert_eq!(norms, 2);
}

/// Patterns of vLLM and SGLang are traced with one eps, and an eps in f64 was another number (PR #57123).
#[test]
fn any_eps_is_a_norm() {
    for eps in ["1e-12", "3e-6", "1e-5", "0.00001234"] {
        let text = format!(
            "graph @eps(s: 0..; %x: bf16[s, 32], %w: bf16[32]) {{
               %y = rms_norm %x, %w {{eps = {eps}, round = before_weight}}
               %q, %t = quantize_dynamic %y {FP8}
               return %q, %t
             }}"
        );
        assert_eq!(names(&text), ["rms_norm.fp8_token"], "eps {eps}");
    }
}

/// vLLM #26192, FlashInfer #634: row lengths that no vector divides, and rows cut out of wider ones.
#[test]
fn odd_lengths_and_strided_rows() {
    for lanes in [1, 3, 17, 129, 3583] {
        let text = format!(
            "graph @odd(s: 0..; %x: bf16[s, {wide}], %w: bf16[{lanes}]) {{
               %a = slice %x {{axis = 1, start = 5, end = {end}, step = 1}}
               %y = rms_norm %a, %w {NORM}
               %q, %t = quantize_dynamic %y {FP8}
               return %q, %t
             }}",
            wide = lanes + 9,
            end = lanes + 5,
        );
        assert_eq!(names(&text).len(), 1, "{lanes} lanes");
    }
}

/// vLLM #49903: graphs were compiled again for one row and for multiples of 16.
#[test]
fn one_kernel_serves_every_number_of_rows() {
    let text = format!(
        "graph @rows(s: 0..; %x: bf16[s, 64], %w: bf16[64]) {{
           %y = rms_norm %x, %w {NORM}
           return %y
         }}"
    );
    let graph = graph(&text);
    let compiled = compile(&graph, &Target::Cpu, &Options::default()).expect("compiles");
    let weight = HostTensor { dtype: DType::BF16, shape: vec![64], bytes: vec![0x3f; 128] };
    for rows in [1, 2, 16, 17, 512] {
        let row = HostTensor { dtype: DType::BF16, shape: vec![rows, 64], bytes: vec![0x40; rows * 128] };
        let results = compiled.program.run(&[&row, &weight], 1).expect("runs");
        assert_eq!(results[0].shape, [rows, 64]);
    }
    assert_eq!(compiled.kernels.len(), 1, "nothing was compiled again");
}

/// TensorRT-LLM #8527: patterns were specialised on scalars; here a scale that is a tensor is an input.
#[test]
fn scalars_that_arrive_as_tensors_are_parameters() {
    let text = format!(
        "graph @scale(s: 0..; %x: bf16[s, 64], %w: bf16[64], %scale: f32[], %eps: f32[]) {{
           %x32 = cast %x {{to = f32}}
           %sq = mul %x32, %x32
           %sum = reduce %sq {{op = add, axes = [1]}}
           %n = literal f32 64
           %mean = div %sum, %n
           %var = add %mean, %eps
           %r = rsqrt %var
           %rs = expand %r {{shape = [s, 64]}}
           %y = mul %x32, %rs
           %z = mul %y, %scale
           %q, %t = quantize_dynamic %z {FP8}
           return %q, %t
         }}"
    );
    let fused = fused(&text);
    assert_eq!(fused.partition.regions.len(), 1);
    let body = &fused.partition.regions[0].body;
    let users = body.inputs().iter().filter(|i| matches!(i.kind, InputKind::User)).count();
    assert!(users >= 3, "row, eps and scale are read: {body}");
}

/// TensorRT-LLM #14796, vLLM #45770: a fusion was switched on and nothing happened. Asking for a count that is not
/// there is a failure of `explain --expect`; without the passes that find a name, the name is gone.
#[test]
fn a_fusion_that_did_not_happen_shows() {
    let text = "graph @plain(s: 0..; %x: f32[s, 8]) {
           %sum = reduce %x {op = add, axes = [0]}
           %sums = expand %sum {shape = [s, 8]}
           %y = sub %x, %sums
           return %y
         }";
    let fused = fused(text);
    let report = fusewright::explain::explain(&fused).expect("explains");
    assert!(!report.patterns.contains_key("rms_norm"));
    assert!(report.refused.iter().any(|r| !r.reason.is_empty()), "{:?}", report.refused);
}

/// vLLM #28759, #53366: a key without something that changes the output; #47573, dynamo #10695: a key with something
/// that does not.
#[test]
fn keys_hold_what_changes_results_and_nothing_else() {
    let key = |eps: &str, input: &str, lanes: u32| {
        let text = format!(
            "graph @key(s: 0..; %{input}: bf16[s, {lanes}], %w: bf16[{lanes}]) {{
               %y = rms_norm %{input}, %w {{eps = {eps}, round = once}}
               return %y
             }}"
        );
        let fused = fuse_graph(&graph(&text), &Options::default()).expect("fuses");
        fusewright_fusion::key::region_key(&fused.partition.regions[0]).expect("types")
    };
    assert_eq!(key("1e-6", "x", 64), key("1e-6", "hidden_states", 64));
    assert_ne!(key("1e-6", "x", 64), key("1e-5", "x", 64));
    assert_ne!(key("1e-6", "x", 64), key("1e-6", "x", 128));
}

/// vLLM #50773: fused kernels dropped the rounding of scales to powers of two. #33255: scales were wrong where rows are
/// no multiple of 4.
#[test]
fn scales_that_are_powers_of_two_stay_so_behind_a_norm() {
    let text = format!(
        "graph @power(s: 0..; %x: bf16[s, 256], %w: bf16[256]) {{
           %y = rms_norm %x, %w {NORM}
           %g = reshape %y {{shape = [s, 2, 128]}}
           %q, %t = quantize_dynamic %g {{bound = 448.0, floor = 1e-10, floor_of = absmax, scale = power_of_two}}
           return %q, %t
         }}"
    );
    assert_eq!(names(&text).len(), 1, "one kernel");
    let compiled = compile(&graph(&text), &Target::Cpu, &Options::default()).expect("compiles");
    let bf16 = |shape: &[usize], of: &dyn Fn(u16) -> f32| {
        let count = shape.iter().product::<usize>() as u16;
        let bytes = (0..count).flat_map(|i| half::bf16::from_f32(of(i)).to_le_bytes()).collect();
        HostTensor { dtype: DType::BF16, shape: shape.to_vec(), bytes }
    };
    let weight = bf16(&[256], &|i| f32::from(i % 7) * 0.37 + 0.1);
    for rows in [1, 3, 5, 8] {
        let row = bf16(&[rows, 256], &|i| f32::from(i % 23) - 11.5);
        let results = compiled.program.run(&[&row, &weight], 1).expect("runs");
        let scales: Vec<f32> = results[1].bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(scales.len(), 2 * rows);
        assert!(scales.iter().all(|s| *s > 0.0 && s.to_bits().trailing_zeros() >= 23), "{scales:?}");
    }
}

/// TensorRT-LLM, AutoDeploy: a fused op had more arguments than its framework takes.
#[test]
fn a_region_takes_no_more_operands_than_a_kernel_may_have() {
    let inputs: String = (0..150).map(|i| format!(", %x{i}: f32[s, 8]")).collect();
    let sums: String = (1..150).map(|i| format!("%a{i} = add %a{}, %x{i}\n", i - 1)).collect();
    let sums = sums.replace("%a0,", "%x0,");
    let fused = fused(&format!("graph @many(s: 0..{inputs}) {{\n{sums}return %a149\n}}"));
    let most = fusewright_fusion::region::Limits::default().operands;
    let regions = &fused.partition.regions;
    assert!(regions.len() >= 3 && regions.iter().all(|r| r.inputs.len() + r.outputs.len() <= most));
}

/// ik_llama.cpp #916: the residual that a kernel updates in place overlapped its other outputs.
#[test]
fn a_residual_updated_in_place_keeps_clear_of_other_outputs() {
    let text = format!(
        "graph @in_place(s: 0..; %x: bf16[s, 48], %residual: bf16[s, 48], %w: bf16[48]) {{
           %h = add %x, %residual
           %y = rms_norm %h, %w {NORM}
           %q, %t = quantize_dynamic %y {FP8}
           return %q, %t, %h updates %residual, %y
         }}"
    );
    assert_eq!(names(&text), ["add_rms_norm.fp8_token"]);
}

/// vLLM #49750, FlashInfer PR #4480: kernels that assumed aligned bases. Slices start anywhere here.
#[test]
fn unaligned_tensors_give_the_same_bits() {
    let text = format!(
        "graph @unaligned(s: 0..; %x: bf16[s, 37], %w: bf16[37]) {{
           %y = rms_norm %x, %w {NORM}
           return %y
         }}"
    );
    let norm = graph(&text);
    let kernel = fusewright::fuse(|b| {
        let rows = b.symbol("s", 0, None);
        let x = b.input("x", TensorType::new(DType::BF16, [rows, 37.into()]));
        let w = b.input("w", TensorType::new(DType::BF16, [37.into()]));
        let node = &norm.nodes()[0];
        b.op(node.op.clone(), &[x, w])
    })
    .expect("compiles");
    let values: Vec<half::bf16> = (0..200u16).map(|i| half::bf16::from_f32(f32::from(i % 23) - 11.5)).collect();
    let run = |first: usize, weight: usize| {
        let mut out = vec![half::bf16::ZERO; 3 * 37 + first];
        let x = TensorRef::new(&values[first..first + 3 * 37], &[3, 37]);
        let w = TensorRef::new(&values[weight..weight + 37], &[37]);
        kernel.call(&[x, w], &mut [TensorMut::new(&mut out[first..], &[3, 37])], 1).expect("runs");
        out.split_off(first)
    };
    // The values repeat every 23 elements, so these calls read equal numbers from other addresses.
    let expected = run(0, 5);
    for offset in [23, 46, 69] {
        assert_eq!(run(offset, 5 + offset), expected, "{offset} elements further");
    }
}

/// Ours: the largest f32, which a saturating cast makes of an infinity, is no 16-bit float, whatever was cast.
#[test]
fn what_saturates_is_rounded_again() {
    for from in ["bf16", "f8e5m2", "f16"] {
        for between in ["abs %a", "neg %a", "slice %a {axis = 1, start = 1, end = 40, step = 1}"] {
            fused(&format!(
                "graph @saturated(s: 0..; %x: {from}[s, 40]) {{
                   %a = cast %x {{to = f32, saturate}}
                   %b = {between}
                   %c = cast %b {{to = bf16}}
                   %d = cast %a {{to = bf16}}
                   return %c, %d
                 }}"
            ));
        }
    }
}

/// LLVM 22 on x86: `minimumnum` of single lanes gives the NaN where it knows that the other operand is none, and lanes that
/// fill no vector are single ones.
#[test]
fn a_number_wins_over_nan_whatever_is_known_of_it() {
    let literals = ["0.0", "-0.0", "1.0", "-448.0"].map(|value| format!("literal f32 {value}"));
    let casts = ["%i", "%u", "%n"].map(|from| format!("cast {from} {{to = f32}}"));
    let numbers = || literals.iter().chain(&casts);
    for (number, lanes) in [1, 7, 33, 145].into_iter().flat_map(|lanes| numbers().map(move |number| (number, lanes))) {
        fused(&format!(
            "graph @numbers(s: 0..; %x: f32[s, {lanes}], %h: bf16[s, {lanes}], %i: i32[s, {lanes}], %u: u8[s, {lanes}],
                            %n: i64[s, {lanes}]) {{
               %y = {number}
               %r = sqrt %x
               %z = cast %h {{to = f32}}
               %a = minnum %r, %y
               %b = minnum %y, %r
               %c = maxnum %r, %y
               %d = maxnum %y, %r
               %e = maxnum %z, %y
               %f = minnum %y, %z
               return %a, %b, %c, %d, %e, %f
             }}"
        ));
    }
}

/// Ours: a stack along an axis between those of a row, as `torch.stack([t, t], 1)` behind a reduction over all rows,
/// laid whole rows end to end.
#[test]
fn stacks_lie_between_the_axes_that_they_are_given() {
    for (shape, stacked, axis) in [("2, 6", "2, 1, 6", 1), ("3, 5", "3, 1, 5", 1), ("2, 3, 4", "2, 3, 1, 4", 2)] {
        for op in ["min", "add"] {
            fused(&format!(
                "graph @stacked(%x: f32[{shape}]) {{
                   %m = reduce %x {{op = {op}, axes = [0]}}
                   %y = sub %x, %m
                   %a = reshape %y {{shape = [{stacked}]}}
                   %b = cat %a, %a {{axis = {axis}}}
                   return %b
                 }}"
            ));
        }
    }
}

/// Lanes that are filled up, cut or joined with a constant, beside a reduction over a short axis ahead of them: places
/// that are no element's were read and written.
#[test]
fn lanes_filled_up_beside_a_short_reduction_are_those_of_the_graph() {
    let sum = "%f = cast %p {to = f32}
       %y = reduce %f {op = add, axes = [1]}";
    let padded = |how: &str| format!("%a = mul %x, %k\n%z = literal f32 0.5\n{how}\n{sum}\nreturn %y");
    let behind = "%e = expand %z {shape = [s, 3, 12]}\n%p = cat %a, %e {axis = 2}";
    let ahead = "%e = expand %z {shape = [s, 3, 12]}\n%p = cat %e, %a {axis = 2}";
    let both = "%e = expand %z {shape = [s, 3, 5]}\n%p = cat %e, %a, %e {axis = 2}";
    let between = "%e = expand %z {shape = [s, 1, 20]}\n%p = cat %a, %e {axis = 1}";
    let assigned = "%e = expand %z {shape = [s, 3, 7]}
       %l = slice %a {axis = 2, start = 0, end = 4}
       %r = slice %a {axis = 2, start = 11, end = 20}
       %p = cat %l, %e, %r {axis = 2}";
    for how in [behind, ahead, both, between, assigned] {
        let text = format!("graph @padded(s: 0..; %x: f32[s, 3, 20], %k: f32[20]) {{\n{}\n}}", padded(how));
        assert!(!fused(&text).partition.regions.is_empty(), "{text}");
    }
    // A length that a call chooses, and results of two widths.
    let to_symbol = "graph @part(s: 0.., m: 0..40; %x: f32[3, 40], %k: f32[m], %c: f32[s, 1]) {
       %a = slice %x {axis = 1, start = 0, end = m}
       %b = add %a, %k
       %z = literal f32 0.0
       %e = expand %z {shape = [3, -m + 40]}
       %p = cat %b, %e {axis = 1}
       %y = reduce %p {op = add, axes = [0]}
       %w = reduce %b {op = add, axes = [0]}
       %n = neg %c
       return %y, %w, %n
     }";
    fused(to_symbol);
    let twice = "graph @twice(s: 0..; %x: bf16[s, 3, 20, 2]) {
       %a = neg %x
       %z = literal bf16 0.0
       %e = expand %z {shape = [s, 3, 10, 2]}
       %p = cat %a, %e {axis = 2}
       %o = literal bf16 1.0
       %f = expand %o {shape = [s, 3, 7, 2]}
       %q = cat %a, %f {axis = 2}
       return %p, %q
     }";
    fused(twice);
    // In one dim with an axis ahead of it, what is padded lies closer together than what it is padded to.
    let merged = "graph @merged(s: 0..; %x: bf16[6, s, 16]) {
       %a = floor %x
       %m = reshape %a {shape = [6, s*16]}
       %w = cast %m {to = f32}
       %z = literal bf16 -1.0
       %e = expand %z {shape = [6, s, 8]}
       %p = cat %a, %e {axis = 2}
       return %w, %p
     }";
    fused(merged);
    fused(&merged.replace("s*16", "64").replace("s, 16", "4, 16").replace("6, s, 8", "6, 4, 8"));
}

/// Indices choose single elements along the innermost axis: each is a row, on its own or with what reads it.
#[test]
fn single_elements_of_a_row_are_chosen_in_a_kernel() {
    let few = "graph @few(s: 0..; %x: f16[s, 24], %i: i64[5]) {
           %g = gather %x, %i {axis = 1}
           %y = exp %g
           return %y
         }";
    let of_each = "graph @of_each(s: 0..; %x: bf16[s, 3, 24], %i: i64[s, 3, 5], %w: bf16[5]) {
           %line = reshape %x {shape = [72*s]}
           %row = iota {type = i64[3*s, 5], axis = 0}
           %n = literal i64 24
           %first = mul %row, %n
           %lanes = reshape %i {shape = [3*s, 5]}
           %place = add %first, %lanes
           %places = reshape %place {shape = [15*s]}
           %g = gather %line, %places {axis = 0}
           %r = reshape %g {shape = [s, 3, 5]}
           %y = mul %r, %w
           return %y
         }";
    let written = "graph @written(s: 0..; %x: f16[s, 24], %i: i64[5], %u: f16[s, 5]) {
           %v = neg %u
           %y = scatter %x, %i, %v {axis = 1}
           return %y
         }";
    for text in [few, of_each, written] {
        assert_eq!(fused(text).partition.regions.len(), 1, "{text}");
        let seen = judge::judge(&graph(text), 3).unwrap_or_else(|f| panic!("{}: {}\n{text}", f.kind, f.message));
        assert!(!seen.fell_back, "{text}");
    }
}

/// A slice of an axis that no one stride walks is no view: lanes that lie elsewhere were asked for.
#[test]
fn slices_across_the_pieces_of_an_axis_have_kernels() {
    let turned = "graph @turned(s: 0..; %x: f32[s, 41, 10]) {
           %t = permute %x {perm = [0, 2, 1]}
           %r = reshape %t {shape = [s, 410]}
           %c = slice %r {axis = 1, start = 22, end = 164}
           %y = neg %c
           return %y
         }";
    let cut = "graph @cut(s: 0..; %x: bf16[s, 3, 10], %c: bf16[s, 13]) {
           %a = slice %x {axis = 2, start = 1, end = 4}
           %b = reshape %a {shape = [s, 9]}
           %d = cat %c, %b {axis = 1}
           %e = slice %d {axis = 1, start = 14, end = 19}
           %y = neg %e
           return %y
         }";
    let of_symbols = "graph @of_symbols(s: 0..; %a: bf16[6, 11, 1], %b: bf16[6, 2, 1], %c: bf16[6, s, 1]) {
           %part = slice %c {axis = 0, start = 2, end = 5}
           %wide = cast %c {to = f32, saturate}
           %sum = reduce %wide {op = add, axes = [2]}
           %most = reduce %part {op = max, axes = [0]}
           %mosts = reshape %most {shape = [1, s, 1]}
           %n = div %part, %mosts
           %m = reduce %n {op = max, axes = [2]}
           %zero = literal f32 -0.0
           %zeros = expand %zero {shape = [6, 13, 1]}
           %y = cat %sum, %zeros {axis = 1}
           %z = cat %b, %c, %a {axis = 1}
           return %m, %y, %z
         }";
    for text in [turned, cut, of_symbols] {
        fused(text);
    }
}

/// A value without a vector form is seen where it stands beside a sum of it over groups.
#[test]
fn what_runs_lane_by_lane_stands_beside_its_sums() {
    let text = "graph @beside(s: 0..; %x: f32[s, 33, 23]) {
           %r = rem %x, %x
           %n = neg %r
           %sum = reduce %n {op = add, axes = [2]}
           %d = sub %sum, %n
           %most = reduce %d {op = max, axes = [2]}
           %a = slice %most {axis = 1, start = 31, end = 32}
           %b = slice %most {axis = 1, start = 30, end = 31}
           %c = cat %a, %b {axis = 1}
           return %n, %c
         }";
    fused(text);
}
