//! What the comparisons find, on programs of other graphs and kernels than the ones that say what is right.

use fusewright_codegen::kernel::Kernel;

use super::*;
use crate::inputs::Sizes;

const GRAPH: &str = "graph @g(s: 1..; %x: bf16[s, 20], %w: bf16[20]) {\n  %h = add %x, %w\n  \
                     %y = rms_norm %h, %w {eps = 1e-5, round = once}\n  return %y, %h\n}\n";
const KERNEL: &str = "kernel @k(s = extent(x, 0)) rows s {
  param %x: bf16[s, 20] in
  param %y: bf16[s, 20] out
  segment @m inner 1 {
    %0 = load x[row*20 + lane] : row<bf16, 20>
    %1 = add %0, %0
    store y[row*20 + lane], %1
  }
}
";

fn cases(rows: &[i64]) -> Vec<Symbols> {
    rows.iter().map(|&n| Symbols::from([("s".to_owned(), n)])).collect()
}

#[test]
fn ways_of_one_graph_agree() {
    let made: Graph = GRAPH.parse().expect("the text is right");
    let Ok(Verdict::Equal(found)) = graph(&made, &Target::Cpu, &cases(&[1, 5]), 1) else { panic!("the ways differ") };
    assert_eq!((found.fused, found.elements), (1, 2 * 2 * 6 * 20));
    assert!(found.fallbacks.is_empty() && found.single_valued * 2 > found.elements, "{found:?}");
}

#[test]
fn what_a_library_computes_is_judged_by_intervals() {
    let text = "graph @g(s: 1..; %q: f32[1, 2, s, 16], %k: f32[1, 2, s, 16], %w: f32[16, 24]) {\n  \
                %h = add %q, %k\n  %a = sdpa %h, %k, %q {scale = 0.25, causal}\n  %y = matmul %a, %w {out = f32}\n  \
                %z = add %y, %y\n  return %z, %a\n}\n";
    for text in [text.to_owned(), text.replace("f32", "bf16")] {
        let made: Graph = text.parse().expect("the text is right");
        match graph(&made, &Target::Cpu, &cases(&[1, 5, 33]), 1) {
            Ok(Verdict::Equal(found)) => assert!(found.fallbacks.is_empty(), "{found:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn extremes_of_nothing_are_the_same_every_way() {
    for dtype in ["bool", "i32", "u8", "bf16", "f32", "f8e4m3"] {
        let text = format!(
            "graph @g(s: 0..; %x: {dtype}[s, 0], %y: {dtype}[s, 4]) {{\n  \
             %a = reduce %x {{op = max, axes = [1]}}\n  %b = reduce %x {{op = min, axes = [1]}}\n  \
             %c = reduce %y {{op = max, axes = [0]}}\n  %d = reduce %y {{op = min, axes = [0]}}\n  \
             return %a, %b, %c, %d\n}}\n"
        );
        let made: Graph = text.parse().expect("the text is right");
        match graph(&made, &Target::Cpu, &cases(&[0, 2]), 1) {
            Ok(Verdict::Equal(found)) => assert_eq!(found.elements, 2 * (8 + 2 + 2 + 8), "{dtype}"),
            other => panic!("{dtype}: {other:?}"),
        }
    }
}

#[test]
fn a_program_of_another_graph_is_outside() {
    let [right, wrong] = [GRAPH.to_owned(), GRAPH.replace("add %x, %w", "sub %x, %w")]
        .map(|text| text.parse::<Graph>().expect("the text is right"));
    let Ok(Verdict::Differ(found)) = against(&right, &wrong, &Target::Cpu, &cases(&[4]), 1) else {
        panic!("nothing was found")
    };
    assert_eq!(found.kind, "outside its interval");
    assert!(found.message.starts_with("cpu: out0[") && found.message.contains(" at s = 4 is "), "{found}");
}

/// The first target is as likely to be wrong as another. What the graph means says which is.
#[test]
fn the_definition_says_which_target_is_wrong() {
    let [right, wrong] = [GRAPH.to_owned(), GRAPH.replace("add %x, %w", "sub %x, %w")]
        .map(|text| text.parse::<Graph>().expect("the text is right"));
    let [symbols] = &cases(&[4])[..] else { panic!("one case") };
    let inputs = tensors(&right, symbols, 1, Values::Edges).expect("the inputs are made");
    let ranges = interp::enclose(&right, &inputs, symbols).expect("the interpreter runs it");
    for target in HOST_TARGETS {
        let mut ways = Ways::of(&right).expect("it compiles");
        let made = compile(&wrong, target, &options()).expect("it compiles").program;
        match ways.others.iter_mut().find(|(other, _)| other == target) {
            Some((_, compiled)) => compiled.program = made,
            None => ways.fused.program = made,
        }
        let found = ways.agree(symbols, &inputs, &ranges, &mut Agreement::default()).expect_err("one is wrong");
        assert_eq!(found.kind, "outside its interval");
        assert!(found.message.starts_with(&format!("{target}: out0[")), "{found}");
    }
}

/// Where the meaning leaves a choice, as reductions do, kernels have made it.
#[test]
fn a_kernel_says_which_target_is_wrong_inside_an_interval() {
    let text = "graph @g(s: 1..; %x: f32[s, 200]) {\n  %y = reduce %x {op = add, axes = [1]}\n  return %y\n}\n";
    let right: Graph = text.parse().expect("the text is right");
    let split = "%a = slice %x {axis = 1, start = 0, end = 77}\n  %b = slice %x {axis = 1, start = 77, end = 200}\n  \
                 %c = reduce %a {op = add, axes = [1]}\n  %d = reduce %b {op = add, axes = [1]}\n  %y = add %c, %d";
    let wrong: Graph = text.replace("%y = reduce %x {op = add, axes = [1]}", split).parse().expect("the text is right");
    let symbols = Symbols::from([("s".to_owned(), 9)]);
    let inputs = tensors(&right, &symbols, 1, Values::Ordinary).expect("the inputs are made");
    let ranges = interp::enclose(&right, &inputs, &symbols).expect("the interpreter runs it");
    let mut ways = Ways::of(&right).expect("it compiles");
    ways.fused.program = compile(&wrong, &Target::Cpu, &options()).expect("it compiles").program;
    let found = ways.agree(&symbols, &inputs, &ranges, &mut Agreement::default()).expect_err("one is wrong");
    assert_eq!(found.kind, "machine code is not its kernel");
    assert!(found.message.starts_with("cpu: out0["), "{found}");
}

#[test]
fn code_of_another_kernel_is_found() {
    let [right, wrong] = [KERNEL.to_owned(), KERNEL.replace("add %0, %0", "mul %0, %0")]
        .map(|text| text.parse::<Kernel>().expect("the text is right"));
    let dims = [dims(&right, &Sizes::default(), 4).expect("there is a dim")];
    assert!(matches!(kernel(&right, &Target::Cpu, &dims, 1), Ok(Verdict::Equal(found)) if found.elements == 2 * 80));
    let Ok(Verdict::Differ(found)) = kernel::against(&right, &wrong, &Target::Cpu, &dims, 1) else {
        panic!("nothing was found")
    };
    assert_eq!(found.kind, "machine code is not its kernel");
    assert!(found.message.starts_with("cpu: %y[") && found.message.ends_with(" at s = 4"), "{found}");
}

#[test]
fn code_that_writes_behind_its_buffer_is_found() {
    let right = KERNEL.parse::<Kernel>().expect("the text is right");
    // The last row writes one row too far.
    let wrong = KERNEL.replace("store y[row*20 + lane]", "store y[row*20 + lane + 20]");
    let wrong = wrong.replace("%y: bf16[s, 20]", "%y: bf16[s + 1, 20]").parse::<Kernel>();
    let dims = [dims(&right, &Sizes::default(), 1).expect("there is a dim")];
    let found = kernel::against(&right, &wrong.expect("the text is right"), &Target::Cpu, &dims, 1);
    let Ok(Verdict::Differ(found)) = found else { panic!("nothing was found") };
    assert_eq!(found.to_string(), "machine code writes behind a buffer: cpu: %y holds 40 bytes, byte 40 at s = 1");
}

#[test]
fn the_first_difference_is_named_and_nans_are_alike() {
    let halves = |bits: &[u16]| bits.iter().flat_map(|b| b.to_le_bytes()).collect::<Vec<u8>>();
    let (got, want) = (halves(&[0x3f80, 0x7fc1, 0x4000, 0]), halves(&[0x3f80, 0xffc0, 0x4040, 0x8000]));
    let found = first_difference(DType::BF16, &got, &want).expect("two elements differ");
    assert_eq!(found.to_string(), "[2] is 2.0 (0x4000), should be 3.0 (0x4040); 2 of 4 differ");
    assert_eq!(first_difference(DType::BF16, &got, &got), None);
    assert_eq!(
        first_difference(DType::I8, &[255], &[1]).map(|f| f.to_string()).as_deref(),
        Some("[0] is -1 (0xff), should be 1 (0x1); 1 of 1 differ")
    );
}

#[test]
fn a_graph_shrinks_to_what_still_fails() {
    let made: Graph = GRAPH.parse().expect("the text is right");
    let holds = |g: &Graph| g.nodes().iter().any(|n| n.op.name() == "rms_norm").then_some(());
    let (small, ()) = reduce(&made, (), holds);
    assert_eq!((small.nodes().len(), small.outputs().len()), (1, 1));
    assert_eq!(reduce(&made, 7, |_| None).0.to_string(), made.to_string());
}

/// A graph that is wrong only where it overwrites an input stays wrong as it shrinks.
#[test]
fn a_smaller_graph_updates_what_it_still_takes() {
    let text = GRAPH.replace("return %y, %h", "return %y, %h updates %x");
    let made: Graph = text.parse().expect("the text is right");
    let updates = |g: &Graph| g.outputs().iter().any(|o| o.updates.is_some()).then_some(());
    let (small, ()) = reduce(&made, (), updates);
    assert_eq!((small.nodes().len(), small.outputs().len()), (1, 1));
    assert_eq!(small.outputs()[0].updates.as_deref(), Some("x"));
}

#[test]
fn inputs_and_symbols_that_nothing_reads_go_even_where_no_node_does() {
    let text = "graph @g(s: 1.., t: 2..; %x: f32[s, 4], %stray: f32[t], %z: f32[4]) {\n  %y = neg %x\n  return %y\n}\n";
    let made: Graph = text.parse().expect("the text is right");
    let (small, ()) = reduce(&made, (), |_| Some(()));
    assert_eq!(small.to_string(), "graph @g(s: 1..; %x: f32[s, 4]) {\n  %y = neg %x\n  return %y\n}\n");
}
