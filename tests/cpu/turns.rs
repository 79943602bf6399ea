//! Rows of groups that are read at other lanes: sums over columns and over rows in turn.

use fusewright_abi::Target;
use fusewright_codegen::backend::HOST_TARGETS;
use fusewright_codegen::lower::lower;
use fusewright_codegen::schedule::Schedule;
use fusewright_graph::Graph;

use super::support::{bind, check, check_on, compile, inputs, kernel};

/// A graph that divides by sums over columns and over rows, so many times in all.
fn turns(columns: i64, rows: i64, dtype: &str, count: usize) -> String {
    let mut nodes = "%v0 = cast %x {to = f32}\n%one = literal f32 1.0\n".to_owned();
    for i in 0..count {
        let (axis, shape) = if i % 2 == 0 { (2, format!("[s, {columns}, 1]")) } else { (1, format!("[s, 1, {rows}]")) };
        nodes += &format!(
            "%e{i} = abs %v{i}
             %r{i} = reduce %e{i} {{op = add, axes = [{axis}]}}
             %t{i} = reshape %r{i} {{shape = {shape}}}
             %p{i} = add %t{i}, %one
             %v{} = div %v{i}, %p{i}\n",
            i + 1
        );
    }
    format!(
        "graph @turns(s: 0..; %x: {dtype}[s, {columns}, {rows}]) {{
           {nodes}
           return %v{count}
         }}"
    )
}

/// The kernel of such a graph.
fn lowered(columns: i64, rows: i64, dtype: &str, count: usize) -> String {
    let text = turns(columns, rows, dtype, count);
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = lower("turns", &graph, &Schedule::of(&Target::Cpu)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    kernel.to_string()
}

#[test]
fn sums_over_columns_and_rows_in_turn() {
    for (columns, rows) in [(4, 4), (1, 7), (2, 3), (3, 16), (5, 17), (16, 16), (2, 33), (64, 8)] {
        for count in [2, 3] {
            let (kernel, dims) = (kernel(&lowered(columns, rows, "f32", count)), [("s", 3)]);
            check_on(&kernel, &dims, inputs(&kernel, &bind(&dims), 1, 20), 1);
        }
    }
    for rows in [0, 1, 40] {
        check(&lowered(4, 4, "bf16", 5), &[("s", rows)]);
    }
}

/// Every turn is computed once: four times as many take about four times the code.
#[test]
fn code_grows_with_the_number_of_turns() {
    for target in HOST_TARGETS {
        let size = |turns: usize| {
            let artifact = compile(&kernel(&lowered(4, 4, "f32", turns)), target).unwrap_or_else(|e| panic!("{e}"));
            artifact.payload.bytes.len()
        };
        let [few, more, most] = [8, 16, 32].map(size);
        assert!(more < 3 * few && most < 2 * more + more / 4, "{target}: {few}, {more} and {most} bytes");
    }
}

/// Two kinds of groups of one row, each of which takes what the other gives.
#[test]
fn groups_of_other_sizes_in_turn() {
    for (d, first, second) in [(64, 16, 8), (60, 12, 10), (96, 32, 48)] {
        let (a, b) = (d / first, d / second);
        let text = format!(
            "kernel @sizes(s = extent(x, 0)) rows s {{
               param %x: f32[s, {d}] in
               param %y: f32[s, {d}] out
               param %g: f32[s, {a}] out
               param %h: f32[s, {b}] out
               segment @m inner 1 {{
                 %x = load x[row*{d} + lane] : row<f32, {d}>
                 %a = reduce max %x over group {first} nan propagate order tree(16)
                 %p = div %x, %a
                 %b = reduce add %p over group {second} nan propagate order tree(16)
                 %q = mul %p, %b
                 %c = reduce max %q over group {first} nan propagate order tree(16)
                 %z = sub %q, %c
                 store y[row*{d} + lane], %z
                 store g[row*{a} + lane], %c
                 store h[row*{b} + lane], %b
               }}
             }}"
        );
        check(&text, &[("s", 5)]);
    }
}

/// Rows of groups that are turned, put side by side, or taken in turns.
#[test]
fn moved_rows_of_groups() {
    for (d, size) in [(8, 4), (24, 4), (40, 8), (64, 32), (66, 11)] {
        let half = d / 2;
        for (moved, with) in [
            (
                format!("%a = slice %n start 0 len {half} step 1\n%b = slice %n start {half} len {half} step 1"),
                "cat %b, %a",
            ),
            (format!("%a = slice %n start 0 len {half} step 2\n%b = slice %n start 1 len {half} step 2"), "zip %b, %a"),
            (
                format!("%a = slice %n start 0 len {half} step 1\n%b = slice %n start {half} len {half} step 1"),
                "zip %b, %a",
            ),
        ] {
            let text = format!(
                "kernel @moved(s = extent(x, 0)) rows s {{
                   param %x: bf16[s, {d}] in
                   param %y: f32[s, {d}] out
                   segment @m inner 1 {{
                     %x0 = load x[row*{d} + lane] : row<bf16, {d}>
                     %x = cast %x0 to f32 rne
                     %g = reduce add %x over group {size} nan propagate order tree(16)
                     %n = div %x, %g
                     {moved}
                     %c = {with}
                     %h = reduce max %c over group {size} nan propagate order tree(16)
                     %z = mul %c, %h
                     store y[row*{d} + lane], %z
                   }}
                 }}"
            );
            check(&text, &[("s", 5)]);
        }
    }
}
