//! Values that one loop stores for later ones: which they are, and that no bit depends on it.

use fusewright_abi::Target;
use fusewright_codegen::backend::{Backend, Wanted, cpu::CpuBackend};

use crate::kernels::{add_rms_norm_fp8, silu_mul_group};
use crate::support::{check, kernel};

/// What the first stage of a compiler says was decided for a kernel.
pub fn decisions(backend: &dyn Backend, target: &Target, text: &str) -> Vec<String> {
    let stages = backend.emit(&kernel(text), target, Wanted::Stages).unwrap_or_else(|e| panic!("{e}"));
    let text = String::from_utf8(stages[0].bytes.clone()).expect("text");
    text.lines().take_while(|line| line.starts_with(';')).map(str::to_owned).collect()
}

/// What is said to be kept, without the names of values.
fn kept(text: &str) -> Vec<String> {
    let lines = decisions(&CpuBackend, &Target::Cpu, text);
    let kept = lines.iter().filter(|line| line.contains(" keeps ") && !line.contains("_abreast`"));
    kept.map(|line| line.split_once('(').expect("it names the dtype").1.to_owned()).collect()
}

/// Softmax in place of rounded exponentials, and where the rest of the row goes: `tail` may use `%p` (f32) and stores.
fn softmax(n: &str, dims: &str, inner: i64, dtype: &str, tail: &str) -> String {
    format!(
        "kernel @softmax(s = extent(x, 0){dims}) rows s {{
           param %x: {dtype}[s, {inner}, {n}] inout
           param %y: f32[s, {inner}, {n}] out
           segment @m inner {inner} {{
             %x = load x[row*{inner}*{n} + inner*{n} + lane] : row<{dtype}, {n}>
             %f = cast %x to f32 rne
             %m = reduce max %f over row nan propagate order tree(16)
             %d = sub %f, %m
             %e = exp %d
             %er = cast %e to {dtype} rne
             %ef = cast %er to f32 rne
             %sum = reduce add %ef over row nan propagate order tree(16)
             %p = div %ef, %sum
             {tail}
           }}
         }}"
    )
}

const IN_PLACE: &str = "%q = cast %p to DTYPE rne
     store x[row*INNER*LANES + inner*LANES + lane], %q
     store y[row*INNER*LANES + inner*LANES + lane], %p";

fn in_place(n: &str, dims: &str, inner: i64, dtype: &str) -> String {
    let tail = IN_PLACE.replace("DTYPE", dtype).replace("INNER", &inner.to_string()).replace("LANES", n);
    softmax(n, dims, inner, dtype, &tail)
}

#[test]
fn rows_are_kept_in_their_narrowest_form() {
    let lines = kept(&add_rms_norm_fp8(4096));
    assert_eq!(lines, ["bf16) for the row, 8192 bytes", "bf16) for the row, 8192 bytes"]);
    // What is dear below groups has a loop of its own for the row.
    assert_eq!(kept(&silu_mul_group(1000, 128)), [""; 0]);
}

#[test]
fn softmax_in_place_of_odd_lengths_and_dtypes() {
    // Short floats of eight bits cost more to widen than to keep widened.
    for (dtype, count) in [("bf16", 1), ("f32", 1), ("f16", 1), ("f8e4m3", 2)] {
        for n in [1i64, 2, 7, 8, 9, 15, 16, 17, 63, 64, 1000, 1025] {
            let text = in_place(&n.to_string(), "", 1, dtype);
            assert_eq!(kept(&text).len(), count, "{text}");
            check(&text, &[("s", 3)]);
        }
        let heads = in_place("72", "", 5, dtype);
        assert_eq!(kept(&heads).len(), count, "{heads}");
        check(&heads, &[("s", 3)]);
    }
}

#[test]
fn long_rows_are_computed_again() {
    let text = in_place("40000", "", 1, "bf16");
    assert_eq!(kept(&text), Vec::<String>::new());
    check(&text, &[("s", 1)]);
}

#[test]
fn kept_lanes_are_read_in_another_order() {
    for n in [2i64, 16, 18, 34, 64, 130] {
        let half = n / 2;
        let tail = format!(
            "%a = slice %p start 0 len {half} step 1
             %b = slice %p start {half} len {half} step 1
             %c = cat %b, %a
             store y[row*{n} + lane], %c"
        );
        let turned = softmax(&n.to_string(), "", 1, "bf16", &tail);
        assert_eq!(kept(&turned).len(), 1, "{turned}");
        check(&turned, &[("s", 3)]);
        let tail = format!(
            "%a = slice %p start 0 len {half} step 2
             %b = slice %p start 1 len {half} step 2
             %c = zip %b, %a
             store y[row*{n} + lane], %c"
        );
        let swapped = softmax(&n.to_string(), "", 1, "bf16", &tail);
        assert_eq!(kept(&swapped).len(), 1, "{swapped}");
        check(&swapped, &[("s", 3)]);
    }
}

/// A rounded quotient that is stored, or not, and quantised to four bits by groups. A row has twice as many lanes as `half` says.
fn packed_groups(half: &str, g: i64, stored: bool) -> String {
    let dims = if half == "n" { ", n = extent(q, 1)" } else { "" };
    let param = if stored { format!("param %y: bf16[s, {half}*2] out") } else { String::new() };
    let store = if stored { format!("store y[row*{half}*2 + lane], %y") } else { String::new() };
    format!(
        "kernel @fp4(s = extent(x, 0){dims}) rows s {{
           param %x: bf16[s, {half}*2] in
           param %w: bf16[{half}*2] in
           {param}
           param %q: u8[s, {half}] out
           segment @m inner 1 {{
             %x = load x[row*{half}*2 + lane] : row<bf16, {half}*2>
             %w = load w[lane] : row<bf16, {half}*2>
             %xf = cast %x to f32 rne
             %wf = cast %w to f32 rne
             %t = div %xf, %wf
             %y = cast %t to bf16 rne
             {store}
             %yf = cast %y to f32 rne
             %a = abs %yf
             %amax = reduce max %a over group {g} nan propagate order tree(16)
             %six = literal f32 6.0
             %s0 = div %amax, %six
             %sc = cast %s0 to f8e8m0 ceil sat
             %sf = cast %sc to f32 rne
             %d = div %yf, %sf
             %c = cast %d to f4e2m1 rne sat
             %p = pack %c ways 2 to u8
             store q[row*{half} + lane], %p
           }}
         }}"
    )
}

#[test]
fn packed_groups_read_what_the_group_or_the_row_keeps() {
    for (h, g) in [(64, 16), (96, 32), (256, 128), (8, 2), (48, 6), (14, 7), (40, 16), (100, 64), (34, 32)] {
        for stored in [false, true] {
            // A byte of two groups is made of what a loop ahead of the groups stores.
            let text = packed_groups(&(h / 2).to_string(), g, stored);
            assert_eq!(kept(&text), [""; 0], "the quotient has a loop of its own\n{text}");
            check(&text, &[("s", 3)]);
            // Of any length, a byte of one group is made of what the loop over groups stores.
            let text = packed_groups("n", g, stored);
            let lines = kept(&text);
            let of_groups = lines.iter().filter(|line| line.contains("group")).count();
            assert_eq!(of_groups, usize::from(g % 2 == 0), "{lines:?}\n{text}");
            check(&text, &[("s", 3), ("n", h / 2)]);
        }
    }
}

/// Heads scaled by a row of a table in another dtype, by a sum over that row, and by its largest lanes: all of that is the
/// row's.
fn heads(h: &str, n: i64, k: i64, dims: &str) -> String {
    format!(
        "kernel @heads(s = extent(x, 0){dims}) rows s {{
           param %x: bf16[s, {h}, {n}] inout
           param %t: f32[64, {n}] in
           param %at: i64[s] in
           param %v: f32[s, {h}, {k}] out
           segment @heads inner {h} {{
             %at = load at[row] : scalar<i64>
             %mask = literal i64 63
             %near = and %at, %mask
             %t = load t[lane + %near*{n}] : row<f32, {n}>
             %r = cast %t to bf16 rne
             %rf = cast %r to f32 rne
             %sq = mul %rf, %rf
             %sum = reduce add %sq over row nan propagate order tree(16)
             %root = sqrt %sum
             %scaled = div %rf, %root
             %top, %lanes = top_k %scaled k {k}
             %x = load x[row*{h}*{n} + inner*{n} + lane] : row<bf16, {n}>
             %f = cast %x to f32 rne
             %y = mul %f, %scaled
             %max = reduce max %y over row nan propagate order tree(16)
             %z = sub %y, %max
             %zb = cast %z to bf16 rne
             store x[row*{h}*{n} + inner*{n} + lane], %zb
             %w = mul %top, %max
             store v[row*{h}*{k} + inner*{k} + lane], %w
           }}
         }}"
    )
}

#[test]
fn inner_rows_share_what_the_row_computes() {
    for n in [2i64, 7, 8, 15, 16, 33, 64, 100] {
        let k = n.min(3);
        for h in [1, 2, 5] {
            check(&heads(&h.to_string(), n, k, ""), &[("s", 3)]);
        }
        for h in [0, 1, 4] {
            check(&heads("h", n, k, ", h = extent(x, 1)"), &[("s", 3), ("h", h)]);
        }
    }
    let shared = |lines: &[String]| lines.iter().filter(|line| line.contains("for all inner rows")).count();
    assert_eq!(shared(&kept(&heads("8", 64, 3, ""))), 1);
    assert_eq!(shared(&kept(&heads("1", 64, 3, ""))), 0);
    // Twice a conversion is less than storing it and loading it twice.
    let twice = "kernel @twice() rows 4 { param %t: f32[64] in param %y: f32[4, 2, 64] out segment @m inner 2 { \
                 %t = load t[lane] : row<f32, 64> %d = add %t, %t store y[row*128 + inner*64 + lane], %d } }";
    assert_eq!(kept(twice), [""; 0]);
}

#[test]
fn short_rows_of_any_length_keep_values() {
    let dims = ", n = extent(x, 2)";
    let kept = kept(&in_place("n", dims, 1, "f16"));
    assert_eq!(kept, ["f32) for the row, if that has at most 4096 lanes, 16384 bytes"]);
    for n in [0, 1, 17, 1000, 4095, 4096, 4097, 5000] {
        check(&in_place("n", dims, 1, "bf16"), &[("s", 2), ("n", n)]);
        check(&in_place("n", dims, 2, "f16"), &[("s", 2), ("n", n)]);
    }
}

#[test]
fn every_length_is_short_where_values_are_kept() {
    let text = "kernel @both(s = extent(x, 0), n = extent(x, 1), m = extent(y, 1)) rows s {
       param %x: f32[s, n] in
       param %y: f32[s, m] in
       param %p: f32[s, n] out
       param %q: f32[s, m] out
       segment @m inner 1 {
         %x = load x[row*n + lane] : row<f32, n>
         %ex = exp %x
         %sx = reduce add %ex over row nan propagate order tree(16)
         %px = div %ex, %sx
         %y = load y[row*m + lane] : row<f32, m>
         %ey = exp %y
         %sy = reduce add %ey over row nan propagate order tree(16)
         %py = div %ey, %sy
         store p[row*n + lane], %px
         store q[row*m + lane], %py
       }
     }";
    for (n, m) in [(5, 4096), (4096, 4097), (4097, 33), (4097, 4100), (0, 3)] {
        check(text, &[("s", 3), ("n", n), ("m", m)]);
    }
}
