//! Inputs that a call overwrites: the same bits as without, no copy where none is needed, and a reason for each that is.

use std::path::Path;

use fusewright::check;
use fusewright::diff::options;
use fusewright::graph::{Graph, InputKind};
use fusewright::inputs::{Sizes, Values, symbols, tensors};
use fusewright::{
    Argument, Compiled, DType, HostTensor, Options, Placement, Program, Target, TensorMut, TensorRef, compile, model,
    read_safetensors,
};

fn compiled(graph: &Graph, fuse: bool) -> Compiled {
    compile(graph, &Target::Cpu, &Options { fuse, ..options() }).unwrap_or_else(|e| panic!("{e}\n{graph}"))
}

fn parsed(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn made(graph: &Graph, rows: i64) -> Vec<HostTensor> {
    let sizes = Sizes { rows: Some(rows), ..Sizes::default() };
    let symbols = symbols(graph, &sizes, rows).unwrap_or_else(|e| panic!("{e}"));
    let tensors = tensors(graph, &symbols, 11, Values::Ordinary).unwrap_or_else(|e| panic!("{e}"));
    tensors.iter().map(|t| HostTensor::of(t).expect("there is memory")).collect()
}

/// The caller's tensors that the graph updates, by the positions of the outputs.
fn updated(graph: &Graph) -> Vec<(usize, usize)> {
    let users: Vec<_> = graph.inputs().iter().filter(|i| matches!(i.kind, InputKind::User)).collect();
    let user = |name: &String| users.iter().position(|input| input.name == *name);
    let outputs = graph.outputs().iter().enumerate();
    outputs.filter_map(|(at, output)| Some((at, user(output.updates.as_ref()?)?))).collect()
}

fn arguments<'a>(tensors: &'a mut [HostTensor], overwritten: &[usize]) -> Vec<Argument<'a>> {
    let argument = |(i, tensor): (usize, &'a mut HostTensor)| match overwritten.contains(&i) {
        true => Argument::InOut(tensor),
        false => Argument::Read(tensor),
    };
    tensors.iter_mut().enumerate().map(argument).collect()
}

/// The same in memory of somebody else's.
fn lent<'a>(tensors: &'a mut [HostTensor], overwritten: &[usize]) -> Vec<Argument<'a>> {
    let argument = |(i, tensor): (usize, &'a mut HostTensor)| {
        let HostTensor { dtype, shape, bytes } = tensor;
        match overwritten.contains(&i) {
            true => Argument::LentInOut(TensorMut::raw(*dtype, bytes, shape)),
            false => Argument::Lent(TensorRef::raw(*dtype, bytes, shape)),
        }
    };
    tensors.iter_mut().enumerate().map(argument).collect()
}

/// Runs with and without overwriting, twice each, and compares all bits; where the new values went.
fn same_bits(program: &Program, inputs: &[HostTensor]) -> Placement {
    let graph = program.graph();
    let updated = updated(graph);
    let overwritten: Vec<usize> = updated.iter().map(|(_, user)| *user).collect();
    let mut placement = None;
    for threads in [1, 3, 1] {
        let expected = program.run(&inputs.iter().collect::<Vec<_>>(), threads).unwrap_or_else(|e| panic!("{e}"));
        let mut given = inputs.to_vec();
        let addresses: Vec<*const u8> = given.iter().map(|t| t.bytes.as_ptr()).collect();
        let mut arguments = arguments(&mut given, &overwritten);
        placement = Some(program.placement(&arguments).unwrap_or_else(|e| panic!("{e}")));
        let results = program.run_in_place(&mut arguments, threads).unwrap_or_else(|e| panic!("{e}"));
        drop(arguments);
        assert_eq!(given.iter().map(|t| t.bytes.as_ptr()).collect::<Vec<_>>(), addresses, "the caller's memory");
        for (at, (result, expected)) in results.iter().zip(&expected).enumerate() {
            let user = updated.iter().find(|(output, _)| *output == at).map(|(_, user)| *user);
            assert_eq!(result.is_none(), user.is_some(), "output {at}");
            let got = user.map_or(result.as_ref(), |user| Some(&given[user]));
            assert!(got == Some(expected), "output {at} has other bits, {threads} threads\n{graph}");
        }
        let mut others = inputs.to_vec();
        let again =
            program.run_in_place(&mut lent(&mut others, &overwritten), threads).unwrap_or_else(|e| panic!("{e}"));
        assert!(again == results && others == given, "memory that is lent has other bits, {threads} threads\n{graph}");
        for (i, (after, before)) in given.iter().zip(inputs).enumerate().filter(|(i, _)| !overwritten.contains(i)) {
            assert!(after == before, "input {i} is only read");
        }
    }
    placement.expect("it ran")
}

/// Of a graph in text form, fused, at several sizes.
fn placed(text: &str, rows: &[i64]) -> Placement {
    let graph = parsed(text);
    let [fused, unfused] = [true, false].map(|fuse| compiled(&graph, fuse));
    let placements: Vec<Placement> = rows
        .iter()
        .map(|&rows| {
            let inputs = made(&graph, rows);
            same_bits(&unfused.program, &inputs);
            same_bits(&fused.program, &inputs)
        })
        .collect();
    placements.into_iter().next().expect("there is a size")
}

fn reasons(placement: &Placement) -> Vec<&str> {
    placement.updates.iter().map(|u| u.reason.as_deref().unwrap_or("in place")).collect()
}

/// The graphs of a file of tests.
fn graphs(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests/fuse").join(file);
    let text = std::fs::read_to_string(path).expect("the file is there");
    let graph = |part: &str| format!("graph @{}\n}}\n", &part[..part.find("\n}").expect("a graph ends")]);
    text.split("\ngraph @").skip(1).map(graph).collect()
}

#[test]
fn caches_are_written_in_place_and_not_copied() {
    let found = graphs("caches.fw");
    assert!(found.len() >= 5);
    let mut in_place = 0;
    for text in found {
        for rows in [1, 2, 7, 33] {
            let placement = placed(&text, &[rows]);
            assert!(!placement.updates.is_empty(), "{text}");
            assert!(placement.updates.iter().all(|u| u.in_place && u.reason.is_none()), "{placement:?}\n{text}");
            assert_eq!((placement.copied(), placement.copies.len()), (0, 0), "{text}");
            in_place += placement.updates.len();
        }
    }
    assert!(in_place >= 4 * 6);
}

#[test]
fn memory_that_is_lent_must_fit_and_have_no_gaps() {
    let graph = parsed("graph @g(s: 1..; %x: f32[s, 4]) {\n  %y = neg %x\n  return %y updates %x\n}\n");
    let program = compiled(&graph, true).program;
    let mut bytes = vec![0; 2 * 4 * 4];
    let apart = TensorMut::raw(DType::F32, &mut bytes, &[2, 4]).with_stride(8);
    let error = program.run_in_place(&mut [Argument::LentInOut(apart)], 1).expect_err("rows apart").to_string();
    assert_eq!(error, "input `x` is given to be overwritten, and its rows lie apart");
    let short = TensorRef::raw(DType::F32, &bytes[..16], &[2, 4]);
    let error = program.run_in_place(&mut [Argument::Lent(short)], 1).expect_err("16 bytes of 32").to_string();
    assert!(error.contains("takes 32 bytes; it has 16"), "{error}");
}

#[test]
fn a_cache_that_is_only_read_is_copied_once() {
    let graph = parsed(&graphs("caches.fw")[2]);
    let program = compiled(&graph, true).program;
    let inputs = made(&graph, 3);
    let given: Vec<Argument<'_>> = inputs.iter().map(Argument::Read).collect();
    let placement = program.placement(&given).expect("it fits");
    assert_eq!(reasons(&placement), ["input `kc` is given to be read only"]);
    assert_eq!(placement.copied(), 2 * 4 * 64 * 64 * 2);
}

/// A write into every second head is no kernel's: the interpreter copies the heads first.
#[test]
fn a_cache_that_is_written_by_reference_is_said_to_be_copied() {
    let text = "graph @g(s: 1..8; %k: f32[s, 2, 5], %v: f32[s, 2, 5], %kv: f32[16, 4, 5], %i: i64[s]) {
       %a = slice %kv {axis = 1, start = 0, end = 4, step = 2}
       %b = slice %kv {axis = 1, start = 1, end = 4, step = 2}
       %x = scatter %a, %i, %k {axis = 0}
       %y = scatter %b, %i, %v {axis = 0}
       %p = reshape %x {shape = [16, 2, 1, 5]}
       %q = reshape %y {shape = [16, 2, 1, 5]}
       %c = cat %p, %q {axis = 2}
       %o = reshape %c {shape = [16, 4, 5]}
       return %o updates %kv
     }";
    let placement = placed(text, &[3]);
    assert!(!placement.updates[0].in_place, "{placement:?}");
    let reason = placement.updates[0].reason.as_deref().unwrap_or_default();
    assert!(reason.contains("runs by reference"), "{placement:?}");
    assert_eq!(placement.copied(), 2 * 16 * 2 * 5 * 4, "{placement:?}");
}

const SCATTER: &str =
    "graph @g(s: 1..8; %x: f32[s, 16], %y: f32[s, 16], %kc: f32[32, 16], %slot: i64[s], %to: i64[s]) {";

#[test]
fn a_scatter_into_the_result_of_a_scatter_stays_in_place() {
    let text = format!(
        "{SCATTER}\n  %a = scatter %kc, %slot, %x {{axis = 0}}\n  %b = scatter %a, %to, %y {{axis = 0}}\n  \
         return %b updates %kc\n}}\n"
    );
    let placement = placed(&text, &[4, 1, 8]);
    assert_eq!((reasons(&placement), placement.copied()), (vec!["in place"], 0));
    // Without a donation only the caller's cache is copied, not the value between the kernels.
    let graph = parsed(&text);
    let inputs = made(&graph, 4);
    let given: Vec<Argument<'_>> = inputs.iter().map(Argument::Read).collect();
    let read_only = compiled(&graph, true).program.placement(&given).expect("it fits");
    assert_eq!(read_only.copied(), 32 * 16 * 4);
}

#[test]
fn an_old_value_that_is_still_wanted_is_copied() {
    let later = format!(
        "{SCATTER}\n  %new = scatter %kc, %slot, %x {{axis = 0}}\n  %old = gather %kc, %to {{axis = 0}}\n  \
         %now = gather %new, %to {{axis = 0}}\n  %d = sub %now, %old\n  return %new updates %kc, %d\n}}\n"
    );
    let placement = placed(&later, &[4, 1]);
    let [reason] = reasons(&placement)[..] else { panic!("{placement:?}") };
    assert!(reason.ends_with("reads input `kc` afterwards"), "{reason}");
    // The old elements before the kernel, the new ones behind it.
    assert_eq!(placement.copied(), 2 * 32 * 16 * 4);
    let returned =
        format!("{SCATTER}\n  %new = scatter %kc, %slot, %x {{axis = 0}}\n  return %new updates %kc, %kc\n}}\n");
    assert_eq!(reasons(&placed(&returned, &[4])), ["input `kc` is returned as it was"]);
}

#[test]
fn a_state_that_columns_are_pushed_onto_is_updated_in_place() {
    let text = |returned: &str| {
        format!(
            "graph @state(s: 0..64; %c: f32[s, 4], %x: f32[s, 1], %w: f32[4]) {{\n  %j = cat %c, %x {{axis = 1}}\n  \
             %n = slice %j {{axis = 1, start = 1, end = 5}}\n  %y = mul %n, %w\n  return %n updates %c, {returned}\n}}\n"
        )
    };
    let placement = placed(&text("%y"), &[5, 0, 1, 64]);
    assert_eq!((reasons(&placement), placement.copied()), (vec!["in place"], 0));
    // All columns are stored, and the state lies among them.
    let placement = placed(&text("%j, %y"), &[5, 1]);
    let [reason] = reasons(&placement)[..] else { panic!("{placement:?}") };
    assert_eq!(reason, "the new value is a part of value `j`");
}

#[test]
fn values_that_swap_places_are_both_right() {
    let text = "graph @swap(s: 1..8; %a: f32[s, 4], %b: f32[s, 4]) {\n  return %a updates %b, %b updates %a\n}\n";
    let placement = placed(text, &[3]);
    assert_eq!(reasons(&placement), ["it is input `a`", "it is input `b`"]);
    let text = "graph @same(s: 1..8; %a: f32[s, 4], %b: f32[s, 4]) {\n  %c = add %a, %b\n  \
                return %a updates %a, %c\n}\n";
    assert_eq!(reasons(&placed(text, &[3])), ["in place"]);
}

#[test]
fn a_new_value_goes_straight_into_what_nothing_reads_any_more() {
    let text = "graph @product(s: 1..8; %x: f32[s, 8], %w: f32[8, 8], %r: f32[s, 8]) {\n  %h = add %x, %r\n  \
                %y = matmul %h, %w {out = f32}\n  return %y updates %r, %h\n}\n";
    let placement = placed(text, &[3, 1]);
    assert_eq!((reasons(&placement), placement.copied()), (vec!["in place"], 0));
    let text = "graph @product(s: 1..8; %r: f32[s, 8], %w: f32[8, 8]) {\n  %y = matmul %r, %w {out = f32}\n  \
                return %y updates %r\n}\n";
    let placement = placed(text, &[3, 1]);
    let [reason] = reasons(&placement)[..] else { panic!("{placement:?}") };
    assert!(reason.ends_with("reads input `r` while it writes"), "{reason}");
}

#[test]
fn a_call_that_does_not_fit_changes_nothing() {
    let text = format!(
        "{SCATTER}\n  %new = scatter %kc, %slot, %x {{axis = 0}}\n  %z = add %x, %y\n  return %new updates %kc, %z\n}}\n"
    );
    let graph = parsed(&text);
    let program = compiled(&graph, true).program;
    let inputs = made(&graph, 2);
    let to = graph.inputs().iter().position(|i| i.name == "to");
    assert_eq!(to, Some(4));
    let refused = |change: &dyn Fn(&mut Vec<HostTensor>), overwritten: &[usize]| {
        let mut given = inputs.clone();
        change(&mut given);
        let before = given.clone();
        let mut arguments = arguments(&mut given, overwritten);
        let error = program.run_in_place(&mut arguments, 1).expect_err("it does not fit").to_string();
        drop(arguments);
        assert_eq!(given, before);
        error
    };
    let nothing = |_: &mut Vec<HostTensor>| {};
    assert_eq!(refused(&nothing, &[0, 2]), "input `x` is given to be overwritten, but no output updates it");
    let other = |given: &mut Vec<HostTensor>| given[2] = HostTensor::zeros(DType::F16, &[32, 16]);
    assert_eq!(refused(&other, &[2]), "input `kc` is f32[32, 16], got f16[32, 16]");
    let shorter = |given: &mut Vec<HostTensor>| given[2] = HostTensor::zeros(DType::F32, &[31, 16]);
    let error = refused(&shorter, &[2]);
    assert!(error.starts_with("input `kc` is f32[32, 16], got f32[31, 16]"), "{error}");
    let cut = |given: &mut Vec<HostTensor>| given[2].bytes.truncate(7);
    assert_eq!(refused(&cut, &[2]), "input `kc` is a tensor f32[32, 16], which takes 2048 bytes; it has 7");
    // No number of bytes has as many digits.
    let huge = HostTensor { dtype: DType::F32, shape: vec![1 << 62, 4], bytes: Vec::new() };
    let endless = |given: &mut Vec<HostTensor>| given[2] = huge.clone();
    let error = refused(&endless, &[2]);
    assert!(error.ends_with("which takes more bytes than there are; it has 0"), "{error}");
}

const NORM: &str = "{eps = 1e-6, round = once}";

#[test]
fn residuals_are_updated_in_place() {
    let text = format!(
        "graph @residual(s: 0..; %x: bf16[s, 48], %r: bf16[s, 48], %w: bf16[48]) {{\n  %h = add %x, %r\n  \
         %y = rms_norm %h, %w {NORM}\n  return %y, %h updates %r\n}}\n"
    );
    let placement = placed(&text, &[5, 0, 1, 64]);
    assert_eq!((reasons(&placement), placement.copied()), (vec!["in place"], 0));
    // The value that the norm stores may take the place as well: its loads are of the same elements.
    let text = format!(
        "graph @norm(s: 0..; %r: bf16[s, 48], %w: bf16[48]) {{\n  %y = rms_norm %r, %w {NORM}\n  \
         return %y updates %r\n}}\n"
    );
    assert_eq!(reasons(&placed(&text, &[5, 0, 1, 64])), ["in place"]);
    // Groups are read after what is stored for each lane, and pairs of lanes change places.
    for body in [
        "%h = add %x, %r\n  %y = rms_norm %h, %w {eps = 1e-6, round = once}\n  %g = reshape %y {shape = [s, 3, 16]}\n  \
         %q, %k = quantize_dynamic %g {bound = 448, floor = 1e-10, floor_of = absmax}\n  return %q, %k, %h updates %r",
        "%t = slice %x {axis = 1, start = 0, end = 24}\n  %u = slice %x {axis = 1, start = 24, end = 48}\n  \
         %h = rope_half_table %r, %t, %u {pairs = interleaved}\n  return %h updates %r",
    ] {
        let text = format!("graph @more(s: 0..; %x: bf16[s, 48], %r: bf16[s, 48], %w: bf16[48]) {{\n  {body}\n}}\n");
        assert_eq!(reasons(&placed(&text, &[5, 0, 1, 64])), ["in place"], "{text}");
    }
}

/// Layers that each add to the residual and read it normed, between products: one buffer from first to last.
#[test]
fn a_residual_through_layers_stays_in_place() {
    let layers = 4;
    let mut text =
        String::from("graph @layers(s: 1..; %x: f32[s, 32], %r: f32[s, 32], %w: f32[32], %m: f32[32, 32]) {\n");
    for i in 0..layers {
        let (x, r) =
            (if i == 0 { "x".into() } else { format!("p{i}") }, if i == 0 { "r".into() } else { format!("h{i}") });
        let next = i + 1;
        text += &format!(
            "  %h{next} = add %{x}, %{r}\n  %y{next} = rms_norm %h{next}, %w {NORM}\n  \
             %p{next} = matmul %y{next}, %m {{out = f32}}\n"
        );
    }
    text += &format!("  return %p{layers}, %h{layers} updates %r\n}}\n");
    let placement = placed(&text, &[6, 1, 40]);
    assert_eq!((reasons(&placement), placement.copied()), (vec!["in place"], 0));
}

/// A cache of which a call writes as many places as it is given, before, between or behind those that stay.
#[test]
fn a_cache_of_which_a_slice_of_unknown_length_is_written_is_in_place() {
    let cache = |k: &str, x: &str, body: &str| {
        let text = format!("graph @kv(s: 1..20; %k: {k}, %x: {x}) {{\n{body}  return %n updates %k\n}}\n");
        let placement = placed(&text, &[5, 1, 20]);
        assert_eq!((reasons(&placement), placement.copied()), (vec!["in place"], 0), "{text}");
    };
    let part = |name: &str, axis: usize, from: &str, to: &str| {
        format!("  %{name} = slice %k {{axis = {axis}, start = {from}, end = {to}}}\n")
    };
    for (k, x, axis) in
        [("bf16[40, 24]", "bf16[s, 24]", 0), ("f32[2, 40, 24]", "f32[2, s, 24]", 1), ("f32[7, 40]", "f32[7, s]", 1)]
    {
        let cat = |parts: &str| format!("  %n = cat {parts} {{axis = {axis}}}\n");
        cache(k, x, &(part("a", axis, "s", "40") + &cat("%x, %a")));
        cache(k, x, &(part("a", axis, "0", "40 - s") + &cat("%a, %x")));
        cache(k, x, &(part("a", axis, "0", "3") + &part("b", axis, "s + 3", "40") + &cat("%a, %x, %b")));
    }
    let text = "graph @kv(c: 8..64; %k: bf16[c, 24], %x: bf16[5, 24]) {\n  %t = slice %k {axis = 0, start = 5, end = c}\n  \
                %n = cat %x, %t {axis = 0}\n  return %n updates %k\n}\n";
    assert_eq!(reasons(&placed(text, &[8, 9, 64])), ["in place"]);
}

#[test]
fn rows_that_read_what_others_write_are_apart() {
    // The rows of one head read those of the other.
    let text = "graph @heads(s: 1..; %k: f32[2, s, 8], %x: f32[1, s, 8]) {\n  \
                %a = slice %k {axis = 0, start = 1, end = 2}\n  %b = add %a, %x\n  %h = add %k, %b\n  \
                return %h updates %k\n}\n";
    assert_eq!(reasons(&placed(text, &[3])), ["a row reads elements of input `k` that other rows may overwrite"]);
    let text = "graph @turned(s: 1..; %x: f32[8, 8], %r: f32[8, 8]) {\n  %t = permute %r {perm = [1, 0]}\n  \
                %h = add %x, %t\n  return %h updates %r\n}\n";
    let placement = placed(text, &[1]);
    assert_eq!(reasons(&placement), ["a row reads elements of input `r` that other rows may overwrite"]);
    assert_eq!(placement.copied(), 8 * 8 * 4);
}

#[test]
fn updates_of_lanes_and_rows_through_views_are_in_place() {
    let graph =
        |body: &str| format!("graph @g(s: 2..; %x: f32[s, 4, 8], %y: f32[4, 8], %l: f32[s, 4, 3]) {{\n{body}\n}}\n");
    let lanes = "  %a = slice %x {axis = 2, start = 0, end = 4}\n  %two = literal f32 2.0\n  %m = mul %a, %two\n  \
                 %b = slice %x {axis = 2, start = 4, end = 8}\n  %h = cat %m, %b {axis = 2}\n";
    let stored = "  %a = slice %x {axis = 2, start = 0, end = 2}\n  %b = slice %x {axis = 2, start = 5, end = 8}\n  \
                  %h = cat %a, %l, %b {axis = 2}\n";
    let row = |axis: usize, shape: &str, part: &str, count: &str| {
        format!(
            "  %a = slice %x {{axis = {axis}, start = 1, end = 2}}\n  %f = reshape %a {{shape = {part}}}\n  \
             %m = mul %f, %y\n  %n = iota {{type = i64{count}, axis = 0}}\n  %one = literal i64 1\n  %e = eq %n, %one\n  \
             %t = reshape %m {{shape = {shape}}}\n  %h = select %e, %t, %x\n"
        )
    };
    let sum = "  %t = reduce %h {op = add, axes = [2]}\n  return %h updates %x, %t";
    for body in [
        format!("{lanes}  return %h updates %x"),
        format!("{lanes}{sum}"),
        format!("{stored}  return %h updates %x"),
        format!("{stored}{sum}"),
        format!("{}  return %h updates %x", row(0, "[1, 4, 8]", "[4, 8]", "[s, 1, 1]")),
    ] {
        let placement = placed(&graph(&body), &[2, 3, 17]);
        assert_eq!((reasons(&placement), placement.copied()), (vec!["in place"], 0), "{body}");
    }
    let text = "graph @turned(s: 1..; %r: f32[s, 8]) {\n  %a = slice %r {axis = 1, start = 0, end = 4}\n  \
                %b = slice %r {axis = 1, start = 4, end = 8}\n  %h = cat %b, %a {axis = 1}\n  \
                %n = neg %h\n  return %n updates %r\n}\n";
    assert_eq!(reasons(&placed(text, &[3, 1, 9])), ["in place"]);
}

/// Models whose exports overwrite inputs: the same bits in the caller's tensors as in results of their own.
#[test]
fn exported_models_update_their_inputs_in_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut updates = 0;
    let mut files: Vec<_> = std::fs::read_dir(&folder).expect("fixtures").map(|f| f.expect("a file").path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "pt2")) {
        let graph = model::open(file).unwrap_or_else(|e| panic!("{e}"));
        if updated(&graph).is_empty() {
            continue;
        }
        let name = file.file_name().and_then(|n| n.to_str()).and_then(|n| n.split('.').next()).expect("a name");
        let stored = read_safetensors(&folder.join(format!("{name}.safetensors"))).unwrap_or_else(|e| panic!("{e}"));
        for fuse in [true, false] {
            let compiled = compiled(&graph, fuse);
            for case in check::cases(&graph, &stored).unwrap_or_else(|e| panic!("{e}")) {
                updates += same_bits(&compiled.program, &case.inputs).updates.len();
            }
        }
    }
    assert!(updates >= 8, "{updates} updates");
}
