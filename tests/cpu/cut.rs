//! Rows that are cut into parts, against the same rows whole.

use std::collections::BTreeMap;

use fusewright::diff::first_difference;
use fusewright_codegen::backend::HOST_TARGETS;
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::kernel::interp::{Buffer, run};

use crate::support::{bind, check_on, inputs, launch, load};

fn interpret(kernel: &Kernel, start: &[Vec<u8>], dims: &BTreeMap<String, i64>) -> Vec<Vec<u8>> {
    let mut buffers: Vec<Buffer> = start.iter().cloned().map(Buffer::Bytes).collect();
    let rows = kernel.rows.eval(&|name| dims.get(name).copied()).expect("bound");
    run(kernel, &mut buffers, dims, 0..rows).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    buffers.iter().map(|buffer| buffer.bytes().to_vec()).collect()
}

/// Runs a kernel of functions that CPUs have, whole and in so many parts of a row, every way on the same bytes.
#[track_caller]
fn check(text: &str, parts: i64) {
    let whole: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let cut = crate::support::kernel(text);
    let code: Vec<_> = HOST_TARGETS
        .iter()
        .map(|target| (target, [&whole, &cut].map(|kernel| (kernel, load(kernel, target)))))
        .collect();
    for (rows, seed, edges) in [(0, 1, 0), (1, 2, 1000), (3, 3, 50)] {
        let dims = bind(&[("s", rows)]);
        assert_eq!(cut.rows.eval(&|name| dims.get(name).copied()).ok(), Some(rows * parts));
        let start = inputs(&whole, &dims, seed, edges);
        let want = interpret(&whole, &start, &dims);
        for (param, (got, want)) in whole.params.iter().zip(interpret(&cut, &start, &dims).iter().zip(&want)) {
            assert_eq!(first_difference(param.dtype, got, want), None, "%{}", param.name);
        }
        for threads in [1, 2, 3] {
            check_on(&cut, &[("s", rows)], start.clone(), threads);
        }
        for (target, code) in &code {
            for (form, threads) in [(0, 1), (1, 1), (1, 2), (1, 3), (1, 64)] {
                let (kernel, (artifact, module)) = &code[form];
                let mut got = start.clone();
                launch(kernel, artifact, &**module, &mut got, &dims, threads);
                for (param, (got, want)) in whole.params.iter().zip(got.iter().zip(&want)) {
                    let found = first_difference(param.dtype, got, want);
                    assert_eq!(found, None, "{target}, {threads} threads: %{}", param.name);
                }
            }
        }
    }
}

#[test]
fn a_gate_and_what_it_lets_through() {
    check(
        "kernel @gate(s = extent(x, 0)) rows s {
           param %x: bf16[s, 24576] in
           param %scale: f32[s] in
           param %y: f8e4m3[s, 12288] out
           segment @m inner 1 {
             %0 = load x[lane + row*24576] : row<bf16, 12288>
             %1 = load x[lane + row*24576 + 12288] : row<bf16, 12288>
             %2 = cast %0 to f32 rne
             %3 = cast %1 to f32 rne
             %4 = load scale[row] : scalar<f32>
             %5 = mul %2, %3
             %6 = div %5, %4
             %7 = cast %6 to f8e4m3 rne sat
             store y[lane + row*12288], %7
           }
         }",
        4,
    );
}

#[test]
fn groups_as_inner_rows() {
    check(
        "kernel @inner(s = extent(x, 0)) rows s {
           param %x: bf16[s, 96, 128] in
           param %y: f8e4m3[s, 96, 128] out
           param %m: f32[s, 96] out
           segment @m inner 96 {
             %0 = load x[lane + inner*128 + row*12288] : row<bf16, 128>
             %1 = cast %0 to f32 rne
             %2 = abs %1
             %3 = reduce max %2 over row nan propagate order tree(16)
             %4 = div %1, %3
             %5 = cast %4 to f8e4m3 rne sat
             store y[lane + inner*128 + row*12288], %5
             store m[inner + row*96], %3
           }
         }",
        4,
    );
}

#[test]
fn groups_of_lanes() {
    check(
        "kernel @groups(s = extent(x, 0)) rows s {
           param %x: f32[s, 7168] in
           param %y: f32[s, 7168] out
           param %m: f32[s, 112] out
           segment @m inner 1 {
             %0 = load x[lane + row*7168] : row<f32, 7168>
             %1 = abs %0
             %2 = reduce max %1 over group 64 nan propagate order tree(16)
             %3 = div %0, %2
             store y[lane + row*7168], %3
             store m[lane + row*112], %2
           }
         }",
        2,
    );
}

#[test]
fn in_place() {
    check(
        "kernel @add(s = extent(x, 0)) rows s {
           param %x: bf16[s, 8192] in
           param %y: bf16[s, 8192] inout
           segment @m inner 1 {
             %0 = load x[row*8192 + lane] : row<bf16, 8192>
             %1 = load y[row*8192 + lane] : row<bf16, 8192>
             %2 = cast %0 to f32 rne
             %3 = cast %1 to f32 rne
             %4 = add %2, %3
             %5 = cast %4 to bf16 rne
             store y[row*8192 + lane], %5
           }
         }",
        4,
    );
}
