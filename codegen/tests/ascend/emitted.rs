//! Ascend C of hand-built kernels against golden texts, and what is refused.

use std::path::Path;

use fusewright_abi::{DType, Target};
use fusewright_codegen::backend::ascend::{CHIPS, EmitError, emit};
use fusewright_codegen::backend::{self, BackendError, Wanted};
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::kernel::{Kernel, Order, Tree, parse_kernels};

use crate::support;

const TREE: Order = Order::Tree(Tree::interleaved(64));

fn text(kernel: &Kernel, chip: &str) -> String {
    emit(kernel, chip).unwrap_or_else(|e| panic!("{} for {chip}: {e}", kernel.name))
}

fn refusal(kernel: &Kernel, chip: &str) -> String {
    emit(kernel, chip).expect_err("this is refused").to_string()
}

/// Compares with a golden file, or writes it if `UPDATE_EXPECT` is set.
fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/ascend").join(name);
    expect_test::expect_file![path].assert_eq(actual);
}

/// One kernel of a text form.
fn parsed(text: &str) -> Kernel {
    parse_kernels(text).unwrap_or_else(|e| panic!("{e}\n{text}")).swap_remove(0)
}

/// Rows of a table that positions choose, and rows written where slots say.
fn gather_and_scatter() -> Kernel {
    parsed(
        "kernel @gather_and_scatter(t = extent(at, 0)) rows t {
           param %table: bf16[64, 128] in
           param %at: i64[t] in
           param %slots: i64[t] in
           param %out: bf16[64, 128] inout
           segment @rows inner 1 {
             %at = load at[row] : scalar<i64>
             %slot = load slots[row] : scalar<i64>
             %least = literal i64 0
             %most = index 63
             %above = max %slot, %least
             %place = min %above, %most
             %here = eq %slot, %place
             %x = load table[%at*128 + lane] : row<bf16, 128>
             %wide = cast %x to f32 rne
             %twice = add %wide, %wide
             %y = cast %twice to bf16 rne
             store out[%place*128 + lane], %y if %here
           }
         }",
    )
}

/// A scale for each 128 lanes of a row.
fn group_quant() -> Kernel {
    parsed(
        "kernel @group_quant(t = extent(x, 0)) rows t {
           param %x: bf16[t, 4096] in
           param %y: f8e4m3[t, 4096] out
           param %scales: f32[t, 32] out
           segment @rows inner 1 {
             %x = load x[row*4096 + lane] : row<bf16, 4096>
             %wide = cast %x to f32 rne
             %size = abs %wide
             %most = reduce max %size over group 128 nan propagate order tree(64)
             %bound = literal f32 448.0
             %scale = div %most, %bound
             %least = literal f32 1e-10
             %s = max %scale, %least
             %q = div %wide, %s
             %code = cast %q to f8e4m3 rne sat
             store y[row*4096 + lane], %code
             store scales[row*32 + lane], %s
           }
         }",
    )
}

/// The sum of a row whose length is known when it runs.
fn sum_of_any_length() -> Kernel {
    parsed(
        "kernel @sum_of_any_length(t = extent(x, 0), n = extent(x, 1)) rows t {
           param %x: f32[t, n] in
           param %sum: f32[t] out
           param %shares: f32[t, n] out
           segment @rows inner 1 {
             %x = load x[row*n + lane] : row<f32, n>
             %sum = reduce add %x over row nan propagate order tree(64)
             %share = div %x, %sum
             store sum[row], %sum
             store shares[row*n + lane], %share
           }
         }",
    )
}

#[test]
fn texts_are_as_blessed() {
    golden("add_rms_norm.cpp", &text(&support::add_rms_norm_bf16(4096, TREE), "910b1"));
    golden("add_rms_norm_relaxed.cpp", &text(&support::add_rms_norm_bf16(1000, Order::Relaxed), "910b1"));
    golden("add_rms_norm_int8.cpp", &text(&support::add_rms_norm_token_quant(5120, TREE, DType::I8, 127.0), "910b1"));
    let fp8 = support::add_rms_norm_token_quant(5120, TREE, DType::F8E4M3, 448.0);
    golden("add_rms_norm_fp8.cpp", &text(&fp8, "950"));
    golden("add_rms_norm_fp8_910b1.cpp", &text(&fp8, "910b1"));
    golden("silu_mul.cpp", &text(&support::activation(12288), "910b1"));
    golden("rope.cpp", &text(&support::rope(8, 128), "910b1"));
    golden("gather_and_scatter.cpp", &text(&gather_and_scatter(), "910b1"));
    golden("group_quant.cpp", &text(&group_quant(), "910b1"));
    golden("masked_softmax.cpp", &text(&support::model_kernel("masked_softmax"), "910b1"));
    golden("orders.cpp", &text(&support::model_kernel("orders"), "310p3"));
    golden("sum_of_any_length.cpp", &text(&sum_of_any_length(), "310p3"));
}

#[test]
fn what_a_chip_lacks_is_refused_by_name() {
    let why = refusal(&support::add_rms_norm_bf16(4096, TREE), "310p3");
    assert!(why.contains("bf16 on Ascend 310P3"), "{why}");
    let odd = Order::Tree(Tree { vec: 8, threads: 128, ways: 2 });
    let why = refusal(&support::add_rms_norm_bf16(4096, odd), "910b1");
    assert!(why.contains("tree(8, 128, 2)"), "{why}");
    let wide = parsed(
        "kernel @wide(t = extent(x, 0)) rows t {
           param %x: f64[t, 8] in
           param %y: f64[t, 8] out
           segment @rows inner 1 {
             %x = load x[row*8 + lane] : row<f64, 8>
             %y = add %x, %x
             store y[row*8 + lane], %y
           }
         }",
    );
    let apart = parsed(
        "kernel @apart(t = extent(y, 0)) rows t {
           param %x: f32[64] in
           param %y: f32[t, 8] out
           segment @rows inner 1 {
             %x = load x[lane*8] : row<f32, 8>
             %y = add %x, %x
             store y[row*8 + lane], %y
           }
         }",
    );
    let why = refusal(&apart, "910b1");
    assert!(why.contains("8 apart in memory"), "{why}");
    let groups = parsed(
        "kernel @groups(t = extent(y, 0)) rows t {
           param %x: f32[t, 36] in
           param %by: f32[t, 6] in
           param %y: f32[t, 36] out
           segment @rows inner 1 {
             %x = load x[row*36 + lane] : row<f32, 36>
             %by = load by[row*6 + lane] : group<f32, 36, 6>
             %y = mul %by, %x
             store y[row*36 + lane], %y
           }
         }",
    );
    let why = refusal(&groups, "910b1");
    assert!(why.contains("groups of 6 lanes"), "{why}");
    let why = refusal(&wide, "910b1");
    assert!(why.contains("f64 on Ascend 910B1"), "{why}");
    assert!(refusal(&wide, "910z").contains("910z"));
}

#[test]
fn rows_that_do_not_fit_are_passed_over_once_for_each_reduction() {
    let source = text(&support::add_rms_norm_bf16(1 << 17, TREE), "910b1");
    assert!(source.contains("Rows that do not fit unified buffer are passed over"), "{source}");
    assert!(source.contains("class RowFold1") && source.contains("class RowLanes"), "{source}");
}

/// A row that is copied as it is, from place `from` of an input on to place `to` of an output in its memory.
fn moved(from: &str, to: &str) -> Kernel {
    let text = format!(
        "kernel @moved(s = extent(x, 0)) rows s {{
           param %x: f32[s, 64] in donated
           param %y: f32[s, 64] out alias(%x)
           segment @m inner 1 {{
             %r = load x[row*64 + lane{from}] : row<f32, 32>
             store y[row*64 + lane{to}], %r
           }}
         }}"
    );
    parse_kernels(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).swap_remove(0)
}

#[test]
fn a_copy_over_what_it_reads_stays_at_its_places() {
    for place in ["", " + 32"] {
        let source = text(&moved(place, place), "910b1");
        assert!(source.contains("TQueBind<"), "{source}");
    }
    for (from, to) in [("", " + 32"), (" + 32", "")] {
        let why = refusal(&moved(from, to), "910b1");
        assert!(why.contains("a copy to other places of what it overwrites"), "{why}");
    }
}

#[test]
fn every_chip_of_the_family_gets_the_same_rows() {
    assert!(CHIPS.len() >= 12);
    let kernel = support::add_rms_norm_bf16(4096, TREE);
    for chip in CHIPS.iter().filter(|c| c.arch == "dav-2201") {
        let source = text(&kernel, chip.name);
        assert!(source.contains(chip.vendor), "{source}");
        assert_eq!(
            source.lines().skip(1).collect::<Vec<_>>(),
            text(&kernel, "910b1").lines().skip(1).collect::<Vec<_>>()
        );
    }
}

#[test]
fn the_backend_yields_headers_and_source_and_keeps_to_its_targets() {
    let kernel = support::add_rms_norm_bf16(4096, TREE);
    let target = |text: &str| text.parse::<Target>().expect("a target");
    let backend = backend::for_target(&target("ascend:910b1")).expect("the feature is on");
    let stages = backend.emit(&kernel, &target("ascend:910b1"), Wanted::Stages).expect("it is covered");
    let extensions: Vec<_> = stages.iter().map(|s| s.extension).collect();
    assert!(extensions.iter().rev().skip(1).all(|e| *e == "h"), "{extensions:?}");
    assert_eq!(extensions.last(), Some(&"cpp"));
    assert_eq!(stages[stages.len() - 1].bytes, text(&kernel, "910b1").into_bytes());
    for wrong in ["cpu", "ascend:910z"] {
        let error = backend.emit(&kernel, &target(wrong), Wanted::Stages).expect_err("not a target of this backend");
        assert!(matches!(error, BackendError::Target { .. }), "{error}");
    }
}

/// A vector conversion keeps infinities, and an address names scalars of the loop over rows alone.
#[test]
fn clamped_infinities_and_places_without_a_scalar_are_refused() {
    let cast = |from: &str, to: &str| {
        parsed(&format!(
            "kernel @k(t = extent(x, 0)) rows t {{
               param %x: {from}[t, 64] in
               param %y: {to}[t, 64] out
               segment @rows inner 1 {{
                 %x = load x[row*64 + lane] : row<{from}, 64>
                 %c = cast %x to {to} rne sat
                 store y[row*64 + lane], %c
               }}
             }}"
        ))
    };
    for (from, to) in [("f16", "f32"), ("bf16", "f32"), ("f16", "f16"), ("f32", "f32"), ("f32", "f16")] {
        let why = refusal(&cast(from, to), "910b1");
        assert!(why.contains(" (rne, saturating): the vector unit has no such conversion"), "{why}");
    }
    let place = parsed(
        "kernel @k(t = extent(y, 0)) rows t {
           param %x: f32[10] in
           param %y: f32[t] out
           segment @rows inner 1 {
             %zero = literal i64 0
             %most = literal i64 9
             %a = max %zero, %most
             %at = min %a, %most
             %v = load x[%at] : scalar<f32>
             %w = add %v, %v
             store y[row], %w
           }
         }",
    );
    let why = refusal(&place, "910b1");
    assert!(why.contains("which no scalar of a row holds"), "{why}");
}

#[test]
fn kernels_of_the_text_files_are_written_or_refused_by_name() {
    let kernels = support::from_filetests();
    let mut refused = Vec::new();
    for kernel in &kernels {
        let native = expand(kernel, Column::Ascend).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        match emit(&native, "910b1") {
            Err(EmitError::Unsupported { place, what }) if !place.is_empty() => {
                refused.push(format!("{}: {place}: {what}", kernel.name))
            }
            Err(other) => panic!("{}: {other}\n{native}", kernel.name),
            Ok(_) => {}
        }
    }
    println!("{} of {} refused:\n{}", refused.len(), kernels.len(), refused.join("\n"));
    assert!(refused.len() < kernels.len(), "{}", refused.join("\n"));
    assert!(refused.iter().all(|r| r.contains("segment `")), "{}", refused.join("\n"));
}

/// A column of a matrix whose length is known when it runs.
#[test]
fn what_needs_a_row_at_a_time_is_refused_by_name_where_rows_pass_in_parts() {
    let text = "kernel @turned(s = extent(x, 0)) rows 11 {
      param %x: f8e8m0[s, 11] in
      param %y: f8e8m0[11, s] out
      segment @m inner 1 {
        %r = load x[lane*11 + row] : row<f8e8m0, s>
        store y[row*s + lane], %r
      }
    }";
    let kernel = parse_kernels(text).unwrap_or_else(|e| panic!("{e}")).swap_remove(0);
    for chip in ["910b1", "950"] {
        let why = refusal(&kernel, chip);
        assert!(why.contains("segment `m`") && why.contains("in a row that does not fit"), "{why}");
    }
}
