//! What the interpreter refuses, and rows in place.

use std::collections::BTreeMap;

use super::{Buffer, RunError, run};
use crate::kernel::Kernel;

fn f32s(values: &[f32]) -> Buffer {
    Buffer::Bytes(values.iter().flat_map(|v| v.to_le_bytes()).collect())
}

fn read(buffer: &Buffer) -> Vec<f32> {
    buffer.bytes().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn parse(text: &str) -> Kernel {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn dims(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

const SCALE: &str = "kernel @scale(s = extent(x, 0)) rows s {
  param %x: f32[s, 4] in
  param %y: f32[s, 4] out
  segment @m inner 1 {
    %x = load x[row*4 + lane] : row<f32, 4>
    %sum = reduce add %x over row nan propagate order tree(2)
    %y = div %x, %sum
    store y[row*4 + lane], %y
  }
}";

#[test]
fn rows_run_in_the_range_that_is_asked_for() {
    let x = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 2.0];
    let mut buffers = [f32s(&x), f32s(&[9.0; 8])];
    run(&parse(SCALE), &mut buffers, &dims(&[("s", 2)]), 1..2).expect("runs");
    assert_eq!(read(&buffers[1]), [9.0, 9.0, 9.0, 9.0, 0.125, 0.25, 0.375, 0.25]);
    run(&parse(SCALE), &mut buffers, &dims(&[("s", 0)]), 0..0).expect("no rows");
    let error = run(&parse(SCALE), &mut buffers, &dims(&[("s", 2)]), 0..3).expect_err("too many rows");
    assert_eq!(error.to_string(), "rows: rows 0..3 of 2");
}

#[test]
fn wrong_callers_get_errors() {
    let kernel = parse(SCALE);
    let error = run(&kernel, &mut [f32s(&[])], &dims(&[("s", 1)]), 0..1).expect_err("no buffer");
    assert_eq!(error.to_string(), "parameter %y: has no buffer");
    let mut buffers = [f32s(&[]), Buffer::Same(1)];
    assert!(matches!(run(&kernel, &mut buffers, &dims(&[("s", 1)]), 0..1), Err(RunError::Buffer { .. })));
    let mut buffers = [f32s(&[0.0; 4]), f32s(&[0.0; 4])];
    assert!(matches!(run(&kernel, &mut buffers, &dims(&[]), 0..1), Err(RunError::Dim { .. })));
    let error = run(&kernel, &mut buffers, &dims(&[("s", 2)]), 0..2).expect_err("the buffers hold one row");
    let place = "row 1, inner row 0: segment @m: %0 = load x[lane + row*4] : row<f32, 4>";
    assert_eq!(error.to_string(), format!("{place}: element 4 of %x does not exist"));
    let long = SCALE.replace("f32[s, 4]", "f32[s, n]").replace("row<f32, 4>", "row<f32, n>");
    let long = long.replace("row*4", "row*n").replacen("(s", "(n, s", 1);
    let error = run(&parse(&long), &mut buffers, &dims(&[("s", 1), ("n", i64::MAX)]), 0..1).expect_err("too long");
    assert!(matches!(error, RunError::Extent { .. }), "{error}");
}

#[test]
fn of_rows_that_choose_one_place_the_last_stays() {
    let kernel = parse(
        "kernel @write(s = extent(x, 0)) rows s {
           param %x: f32[s, 2] in
           param %i: i64[s] in
           param %y: f32[4, 2] inout
           segment @m inner 1 {
             %x = load x[row*2 + lane] : row<f32, 2>
             %i = load i[row] : scalar<i64>
             %places = literal i64 3
             %at = and %i, %places
             store y[%at*2 + lane], %x
           }
         }",
    );
    let places = Buffer::Bytes([2i64, 0, 2].into_iter().flat_map(i64::to_le_bytes).collect());
    let mut buffers = [f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), places, f32s(&[0.0; 8])];
    run(&kernel, &mut buffers, &dims(&[("s", 3)]), 0..3).expect("rows run in order");
    assert_eq!(read(&buffers[2]), [3.0, 4.0, 0.0, 0.0, 5.0, 6.0, 0.0, 0.0]);
}

#[test]
fn rows_that_meet_are_errors() {
    let write = SCALE.replace("store y[row*4 + lane]", "store y[floordiv(row, 2) + lane]");
    let mut buffers = [f32s(&[1.0; 8]), f32s(&[0.0; 8])];
    let error = run(&parse(&write), &mut buffers, &dims(&[("s", 2)]), 0..2).expect_err("both write");
    assert!(error.to_string().contains("row 0 has written element 0 of %y"), "{error}");
    let read =
        SCALE.replace("load x[row*4 + lane]", "load x[lane]").replace("f32[s, 4] out", "f32[s, 4] out alias(%x)");
    let mut buffers = [f32s(&[1.0; 8]), Buffer::Same(0)];
    let error = run(&parse(&read), &mut buffers, &dims(&[("s", 2)]), 0..2).expect_err("row 1 reads what row 0 wrote");
    assert!(matches!(error, RunError::Conflict { .. }), "{error}");
}

#[test]
fn in_place_rows_read_before_they_write() {
    let alias = SCALE.replace("f32[s, 4] out", "f32[s, 4] out alias(%x)");
    let mut buffers = [f32s(&[1.0, 2.0, 3.0, 2.0]), Buffer::Same(0)];
    run(&parse(&alias), &mut buffers, &dims(&[("s", 1)]), 0..1).expect("runs");
    assert_eq!(read(&buffers[0]), [0.125, 0.25, 0.375, 0.25]);
}
