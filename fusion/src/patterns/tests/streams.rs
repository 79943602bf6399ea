//! The operands of a gate are two streams: not a value and a function of it, not lanes that overlap.

use super::*;

/// The names of `sigmoid(%g) · %u`, or of another activation that `act` makes `%a` of `%g`.
fn gated(inputs: &str, act: &str, nodes: &str) -> Vec<String> {
    names_of(inputs, &format!("{nodes}\n  {act}\n  %y = mul %a, %u"), "%y")
}

const SIGMOID: &str = "%a = sigmoid %g";
const SILU: &str = "%a = silu %g {form = quotient}";

fn of_one(nodes: &str) -> Vec<String> {
    gated("%x: f32[s, 64]", SIGMOID, &format!("%k = literal f32 1.5\n  {nodes}"))
}

#[test]
fn a_function_of_a_value_is_the_stream_of_the_value() {
    let same = [
        "%g = neg %x\n  %u = mul %x, %k",
        "%g = mul %x, %k\n  %u = mul %x, %k",
        "%m = neg %x\n  %g = mul %m, %k\n  %u = abs %x",
        "%g = add %x, %k\n  %u = sub %x, %k",
        "%g = mul %x, %x\n  %u = exp %x",
        "%e = exp %x\n  %g = mul %e, %x\n  %u = sqrt %x",
    ];
    for nodes in same {
        assert!(of_one(nodes).is_empty(), "{nodes}");
    }
    let two = "%x: f32[s, 64], %z: f32[s, 64]";
    let apart = ["%g = neg %x\n  %u = neg %z", "%g = neg %x\n  %u = mul %x, %z", "%g = mul %x, %z\n  %u = neg %x"];
    for nodes in apart {
        assert_eq!(gated(two, SIGMOID, nodes), ["sigmoid_mul"], "{nodes}");
    }
    // The same of a sum: what it is made of does not matter.
    assert!(gated(two, SIGMOID, "%h = add %x, %z\n  %g = neg %h\n  %u = abs %h").is_empty());
}

/// `silu(first slice) · second slice`.
fn cut(shape: &str, axis: usize, [first, second]: [&str; 2]) -> Vec<String> {
    let slice = |of: &str, at: &str| format!("%{of} = slice %x {{axis = {axis}, {at}}}");
    let nodes = format!("{}\n  {}", slice("g", first), slice("u", second));
    gated(&format!("%x: f32[{shape}]"), SILU, &nodes)
}

#[test]
fn lanes_that_overlap_are_one_stream() {
    let at = |start: i64, end: i64| format!("start = {start}, end = {end}");
    let lanes =
        |first: [i64; 2], second: [i64; 2]| cut("s, 192", 1, [&at(first[0], first[1]), &at(second[0], second[1])]);
    assert!(lanes([0, 64], [32, 96]).is_empty());
    assert!(lanes([0, 64], [63, 127]).is_empty());
    assert!(lanes([63, 127], [0, 64]).is_empty());
    assert_eq!(lanes([0, 64], [64, 128]), ["silu_mul"]);
    assert_eq!(lanes([64, 128], [0, 64]), ["mul_silu"]);
    // Two of the tensors that one product made.
    assert_eq!(lanes([0, 64], [128, 192]), ["silu_mul"]);
    let every = |start: i64, step: i64| format!("start = {start}, end = {}, step = {step}", 128 + start);
    assert_eq!(cut("s, 192", 1, [&every(0, 2), &every(1, 2)]), ["silu_mul"]);
    assert!(cut("s, 192", 1, [&every(0, 2), &every(2, 2)]).is_empty());
    assert!(cut("s, 192", 1, [&every(0, 2), "start = 0, end = 64, step = 1"]).is_empty());
}

#[test]
fn lanes_of_symbolic_extent_are_apart_where_that_is_known() {
    let of = |first: &str, second: &str| cut("s, 4 * s", 1, [first, second]);
    assert_eq!(of("start = 0, end = s", "start = s, end = 2 * s"), ["silu_mul"]);
    assert!(of("start = 0, end = s", "start = 1, end = s + 1").is_empty());
    // Part of a tensor, and all of it.
    assert!(gated("%x: f32[s, 64]", SIGMOID, "%g = slice %x {axis = 1, start = 0, end = 1}\n  %u = neg %x").is_empty());
    let other = "%g = slice %x {axis = 1, start = 0, end = 1}\n  %u = neg %z";
    assert_eq!(gated("%x: f32[s, 64], %z: f32[s, 64]", SIGMOID, other), ["sigmoid_mul"]);
}

#[test]
fn clamps_do_not_part_a_stream() {
    let clamped = |of: &str| {
        let nodes = format!(
            "%seven = literal f32 7.0\n  %low = literal f32 -7.0\n  %g = min %x, %seven\n  %m = max {of}, %low\n  \
             %u = min %m, %seven"
        );
        gated("%x: f32[s, 64], %z: f32[s, 64]", SILU, &nodes)
    };
    assert_eq!(clamped("%z"), ["clamped_swiglu"]);
    assert!(clamped("%x").is_empty());
    let late = |of: &str| {
        let nodes = format!(
            "%seven = literal f32 7.0\n  %low = literal f32 -7.0\n  %one = literal f32 1.0\n  %g = min %x, %seven\n  \
             %m = max {of}, %low\n  %u = min %m, %seven\n  %n = neg %g\n  %e = exp %n\n  %b = add %e, %one\n  \
             %p = mul %u, %g\n  %y = div %p, %b"
        );
        names_of("%x: f32[s, 64], %z: f32[s, 64]", &nodes, "%y")
    };
    assert_eq!(late("%z"), ["clamped_swiglu"]);
    assert!(late("%x").is_empty());
}
