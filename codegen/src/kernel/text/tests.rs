//! Kernels survive printing and parsing; broken texts are refused at the right place.

use super::parse_kernels;
use crate::kernel::{Kernel, verify};

/// Every declaration and instruction of the IR.
pub(crate) const EVERYTHING: &str = r#"kernel @everything(s = extent(x, 0), t = stride(x, 0), slots) rows s {
  claim 1 <= slots
  claim slots*8 <= 768
  param %x: bf16[s, 4096] in
  param %r: bf16[s, 4096] inout alias(%x) early donated
  param %mm: f32[s, 1024] in
  param %all: f32[s, 64] in
  param %pos: i64[s] in early
  param %cache: f16[slots, 128] in
  param %q: u8[s, 64] out
  param %scale: f32[floordiv(s + 3, 4)*4, 32] out
  segment @norm inner 1 {
    %0 = load x[lane + row*4096] : row<bf16, 4096>
    %1 = cast %0 to f32 rne
    %2 = reduce add %1 over row nan propagate order tree(8, 32, 2)
    %3 = reduce max %1 over group 128 nan ignore order tree(16)
    %4 = reduce max %1 over row nan ignore order relaxed
    %5 = literal f32 1e-6
    %6 = fma %2, %4, %5
    %7 = mul %1, %6
    %8 = cast %7 to bf16 trunc sat
    store r[lane + row*4096], %8
    %9 = literal bool true
    store scale[lane*floordiv(s + 3, 4)*4 + row], %3 if %9 else -inf
    %10 = as_row %3
    %11 = as_group %10 lanes 4096 size 128
    %12 = broadcast %11 to row<4096>
  }
  segment @rope inner 2 {
    %0 = load pos[row] : scalar<i64>
    %1 = index inner*2 + row
    %2 = literal i64 -1
    %3 = gt %0, %2
    %4 = load cache[lane + min(%0, slots - 1)*128] : row<f16, 128> if %3 else 0.0
    %5 = slice %4 start 1 len 64 step 2
    %6 = slice %4 start 0 len 64 step 1
    %7 = cat %5, %6
    %8 = zip %5, %6
    %9 = bitcast %8 to i16
    %10, %11 = arg_reduce max %8
    %12, %13 = top_k %8 k 8
    %14 = iota 128
    %15 = load all[lane + row*64] : row<f32, 64>
    %16 = load mm[lane + row*1024 + slots*8] : row<f32, 256>
    %17 = cast %15 to u4 rne sat
    %18 = pack %17 ways 2 to u8
    %19 = broadcast %0 to group<100, 32>
    store q[inner*32 + lane + row*64], %18
    %20 = literal f16 nan
    %21 = load cache[lane*3] : group<f16, 10, 4>
  }
}
"#;

#[test]
fn every_feature_prints_and_parses_back() {
    let kernel: Kernel = EVERYTHING.parse().expect("parses");
    verify(&kernel).expect("is valid");
    assert_eq!(kernel.to_string(), EVERYTHING);
    assert_eq!(kernel.to_string().parse(), Ok(kernel));
}

#[test]
fn a_text_holds_several_kernels_and_values_have_names() {
    let text = "kernel @a() rows 1 { segment @m inner 1 { %n = index row\n %m = add %n, %n } }\n; and\n\
        kernel @b(n) rows n { segment @m inner 1 { } }";
    let kernels = parse_kernels(text).expect("parses");
    assert_eq!(kernels.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(kernels[0].to_string().contains("%1 = add %0, %0"), "{}", kernels[0]);
}

#[test]
fn errors_name_line_column_and_cause() {
    let body = |inst: &str| {
        format!("kernel @k(s) rows s {{\n  param %x: f32[s, 8] in\n  segment @m inner 1 {{\n    {inst}\n  }}\n}}\n")
    };
    let cases = [
        ("%0 = lode x[row] : scalar<f32>", (4, 10), "no instruction is called `lode`"),
        ("%0 = load y[row] : scalar<f32>", (4, 15), "`y` is not a parameter"),
        ("%0 = load x[%1] : scalar<f32>", (4, 17), "`%1` is not defined"),
        ("%0 = load x[row] : scalar<f16>", (4, 24), "the parameter is f32"),
        ("%0 = add %1, %1", (4, 14), "`%1` is not defined"),
        ("%0, %1 = index row", (4, 14), "has 1 results, 2 are named"),
        ("index row", (4, 5), "has 1 results, 0 are named"),
        ("%0 = index row\n%0 = index row", (5, 1), "`%0` is defined twice"),
        ("%0 = index lane", (4, 10), "mentions `lane`"),
        ("%0 = literal bf16 0.1", (4, 23), "not a value of bf16"),
        ("%0 = literal u8 256", (4, 21), "not a value of u8"),
        ("%0 = index row\n%1 = exp %0", (5, 6), "not defined on i64"),
        ("%0 = index row\n%1 = cast %0 to f32 rnd", (5, 21), "expected `rne` or"),
        ("%0 = index row\n%1 = reduce add %0 over row nan propagate order tree(4)", (5, 6), "is not a row"),
        ("%0 = iota 8\n%1 = reduce add %0 over row nan propagate order tree(-1)", (5, 54), "out of range"),
        ("%0 = index row\n%1 = load x[lane] : row<f32, 8> if %0", (6, 3), "`else`"),
    ];
    for (inst, place, message) in cases {
        let error = body(inst).parse::<Kernel>().expect_err(inst);
        assert_eq!((error.line, error.column), place, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    let header = "kernel @k(s = extent(y, 0)) rows s { param %x: f32[s] in }".parse::<Kernel>();
    assert!(header.expect_err("unknown parameter").message.contains("`y` is not a parameter"));
    let alias = "kernel @k(s) rows s { param %x: f32[s] in alias(%z) }".parse::<Kernel>();
    assert!(alias.expect_err("unknown parameter").message.contains("`%z` is not a parameter"));
}
