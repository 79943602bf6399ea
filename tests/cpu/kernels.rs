//! Row programs of every kind that the backend takes.

use crate::support::{check, kernel};

const LENGTHS: [i64; 13] = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 40, 64, 1025];

fn add(x: &str, n: &str) -> String {
    format!(
        "kernel @add(s = extent(x, 0), n = extent(x, 1)) rows s {{
           param %x: {x}[s, n] in
           param %y: {x}[s, n] inout
           segment @m inner 1 {{
             %0 = load x[row*{n} + lane] : row<{x}, {n}>
             %1 = load y[row*{n} + lane] : row<{x}, {n}>
             %2 = cast %0 to f32 rne
             %3 = cast %1 to f32 rne
             %4 = add %2, %3
             %5 = cast %4 to {x} rne sat
             store y[row*{n} + lane], %5
           }}
         }}"
    )
}

#[test]
fn elementwise_in_place_of_any_length() {
    for dtype in ["f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i8"] {
        for n in LENGTHS {
            for s in [0, 3] {
                check(&add(dtype, "n"), &[("s", s), ("n", n)]);
            }
        }
    }
}

#[test]
fn static_lengths() {
    for n in [1, 8, 15, 16, 24, 40, 63, 64, 100] {
        let text = add("bf16", "n").replace("(s = extent(x, 0), n = extent(x, 1))", "(s = extent(x, 0))");
        let text = text
            .replace("*n ", &format!("*{n} "))
            .replace(", n]", &format!(", {n}]"))
            .replace(", n>", &format!(", {n}>"));
        check(&text, &[("s", 3)]);
    }
}

fn reduce(op: &str, nan: &str, order: &str, dtype: &str) -> String {
    let to = if dtype == "f32" { String::new() } else { "%1 = cast %0 to f32 rne".to_owned() };
    let x = if dtype == "f32" { "%0" } else { "%1" };
    format!(
        "kernel @r(s = extent(x, 0), n = extent(x, 1)) rows s {{
           param %x: {dtype}[s, n] in
           param %y: f32[s] out
           segment @m inner 1 {{
             %0 = load x[row*n + lane] : row<{dtype}, n>
             {to}
             %2 = reduce {op} {x} over row nan {nan} order {order}
             store y[row], %2
           }}
         }}"
    )
}

#[test]
fn reductions_follow_their_tree() {
    let orders =
        ["tree(16)", "tree(8)", "tree(1)", "tree(4)", "tree(64)", "tree(2, 5, 2)", "tree(8, 40, 2)", "tree(4, 33, 4)"];
    for order in orders {
        for n in LENGTHS {
            check(&reduce("add", "propagate", order, "bf16"), &[("s", 2), ("n", n)]);
        }
    }
}

#[test]
fn every_reduction_op() {
    for (op, nan) in [
        ("add", "propagate"),
        ("mul", "propagate"),
        ("max", "propagate"),
        ("max", "ignore"),
        ("min", "propagate"),
        ("min", "ignore"),
    ] {
        for dtype in ["f32", "f16"] {
            for n in LENGTHS {
                check(&reduce(op, nan, "tree(16)", dtype), &[("s", 2), ("n", n)]);
            }
        }
    }
}

#[test]
fn a_row_without_lanes_reduces_to_the_neutral_element() {
    check(&reduce("max", "propagate", "tree(16)", "f32"), &[("s", 2), ("n", 0)]);
    check(&reduce("add", "propagate", "tree(8, 40, 2)", "f32"), &[("s", 2), ("n", 0)]);
}

/// Residual add, norm, and FP8 with one scale per token.
pub fn add_rms_norm_fp8(h: i64) -> String {
    format!(
        "kernel @block(s = extent(x, 0)) rows s {{
           param %x: bf16[s, {h}] in
           param %r: bf16[s, {h}] inout
           param %w: bf16[{h}] in early
           param %q: f8e4m3[s, {h}] out
           param %scale: f32[s] out
           segment @m inner 1 {{
             %x = load x[row*{h} + lane] : row<bf16, {h}>
             %r = load r[row*{h} + lane] : row<bf16, {h}>
             %w = load w[lane] : row<bf16, {h}>
             %xf = cast %x to f32 rne
             %rf = cast %r to f32 rne
             %h = add %xf, %rf
             %hr = cast %h to bf16 rne
             %hf = cast %hr to f32 rne
             %sq = mul %hf, %hf
             %sum = reduce add %sq over row nan propagate order tree(16)
             %n = index {h}
             %nf = cast %n to f32 rne
             %mean = div %sum, %nf
             %eps = literal f32 0.0000009999999974752427
             %v = add %mean, %eps
             %k = rsqrt %v
             %z = mul %hf, %k
             %wf = cast %w to f32 rne
             %y = mul %z, %wf
             %yr = cast %y to bf16 rne
             %yf = cast %yr to f32 rne
             %a = abs %yf
             %amax = reduce max %a over row nan propagate order tree(16)
             %bound = literal f32 448.0
             %s0 = div %amax, %bound
             %floor = literal f32 0.000004359654017857143
             %s1 = max %s0, %floor
             store scale[row], %s1
             %d = div %yf, %s1
             %low = literal f32 -448.0
             %c0 = max %d, %low
             %c1 = min %c0, %bound
             %q = cast %c1 to f8e4m3 rne sat
             store r[row*{h} + lane], %hr
             store q[row*{h} + lane], %q
           }}
         }}"
    )
}

#[test]
fn add_rms_norm_with_token_quantiser() {
    for h in [1, 2, 13, 16, 40, 128, 4095, 4096, 4097] {
        for s in [0, 1, 3] {
            check(&add_rms_norm_fp8(h), &[("s", s)]);
        }
    }
}

/// `%y`, in f32, is SiLU of `%g`, rounded to bf16, times `%u`.
pub const SILU_MUL: &str = "%gf = cast %g to f32 rne
             %uf = cast %u to f32 rne
             %neg = neg %gf
             %e = exp %neg
             %one = literal f32 1.0
             %den = add %one, %e
             %silu = div %gf, %den
             %sr = cast %silu to bf16 rne
             %sf = cast %sr to f32 rne
             %y = mul %sf, %uf";

/// SiLU times up, then FP8 with one scale per group.
pub fn silu_mul_group(h: i64, g: i64) -> String {
    let groups = (h + g - 1) / g;
    format!(
        "kernel @silu(s = extent(x, 0)) rows s {{
           param %x: bf16[s, {two}] in
           param %q: f8e4m3[s, {h}] out
           param %scale: f32[{groups}, s] out
           segment @m inner 1 {{
             %g = load x[row*{two} + lane] : row<bf16, {h}>
             %u = load x[row*{two} + lane + {h}] : row<bf16, {h}>
             {SILU_MUL}
             %yr = cast %y to bf16 rne
             %yf = cast %yr to f32 rne
             %a = abs %yf
             %amax = reduce max %a over group {g} nan propagate order tree(16)
             %floor = literal f32 0.00000000010000000133514319600180897396057844162
             %m = max %amax, %floor
             %bound = literal f32 448.0
             %sc = div %m, %bound
             store scale[lane*s + row], %sc
             %d = div %yf, %sc
             %low = literal f32 -448.0
             %c0 = max %d, %low
             %c1 = min %c0, %bound
             %q = cast %c1 to f8e4m3 rne sat
             store q[row*{h} + lane], %q
           }}
         }}",
        two = 2 * h
    )
}

#[test]
fn silu_mul_with_group_quantiser() {
    for (h, g) in [(128, 128), (256, 64), (100, 32), (37, 16), (40, 8), (12, 3), (5, 7), (1000, 128)] {
        for s in [0, 1, 3] {
            check(&silu_mul_group(h, g), &[("s", s)]);
        }
    }
}

/// Half-rotated rotary embedding of several heads; positions gather a row of the table.
fn rope(d: i64, rounded: bool) -> String {
    let half = d / 2;
    let round = |name: &str, of: &str| {
        if rounded {
            format!("%{name}r = cast %{of} to bf16 rne\n %{name} = cast %{name}r to f32 rne")
        } else {
            format!("%{name}z = literal f32 1.0\n %{name} = mul %{of}, %{name}z")
        }
    };
    format!(
        "kernel @rope(s = extent(x, 0), p = extent(cos, 0)) rows s {{ claim 8 <= p
           param %x: bf16[s, 4, {d}] inout
           param %pos: i64[s] in
           param %cos: f32[p, {d}] in
           param %sin: f32[p, {d}] in
           segment @m inner 4 {{
             %p0 = load pos[row] : scalar<i64>
             %seven = literal i64 7
             %p = and %p0, %seven
             %x = load x[row*{all} + inner*{d} + lane] : row<bf16, {d}>
             %cos = load cos[%p*{d} + lane] : row<f32, {d}>
             %sin = load sin[%p*{d} + lane] : row<f32, {d}>
             %xf = cast %x to f32 rne
             %low = slice %xf start 0 len {half} step 1
             %high = slice %xf start {half} len {half} step 1
             %nh = neg %high
             %rot = cat %nh, %low
             %a0 = mul %xf, %cos
             {a}
             %b0 = mul %rot, %sin
             {b}
             %y = add %a, %b
             %yr = cast %y to bf16 rne
             store x[row*{all} + inner*{d} + lane], %yr
           }}
         }}",
        all = 4 * d,
        a = round("a", "a0"),
        b = round("b", "b0"),
    )
}

#[test]
fn rope_in_place() {
    for d in [2, 6, 16, 30, 64, 128] {
        for s in [0, 1, 3] {
            check(&rope(d, true), &[("s", s), ("p", 8)]);
            check(&rope(d, false), &[("s", s), ("p", 8)]);
        }
    }
}

/// Codes of two lanes each times scales of groups, as four-bit weights are unpacked.
#[test]
fn lanes_of_groups_that_are_zipped() {
    let groups = [(64, 2), (64, 4), (64, 8), (64, 16), (96, 12), (96, 24), (128, 32), (128, 64), (80, 16), (44, 4)];
    for ((n, size), start) in groups.into_iter().flat_map(|of| [0, 4].map(|start| (of, start))) {
        let (all, count) = (2 * (n - start), n - start);
        check(
            &format!(
                "kernel @unpack(s = extent(x, 0)) rows s {{
                   param %x: f32[s, {n}] in
                   param %y: f32[s, {n}] in
                   param %g: f32[s, {}] in
                   param %z: f32[s, {all}] out
                   segment @m inner 1 {{
                     %x = load x[row*{n} + lane] : row<f32, {n}>
                     %y = load y[row*{n} + lane] : row<f32, {n}>
                     %g = load g[row*{} + lane] : group<f32, {n}, {size}>
                     %xg = mul %x, %g
                     %yg = mul %y, %g
                     %xs = slice %xg start {start} len {count} step 1
                     %ys = slice %yg start {start} len {count} step 1
                     %zip = zip %xs, %ys
                     store z[row*{all} + lane], %zip
                   }}
                 }}",
                n / size,
                n / size
            ),
            &[("s", 3)],
        );
    }
}

#[test]
fn interleaved_rope_and_partial_rope() {
    // Into memory of its own, and into that of what is turned.
    let both = ["param %y: bf16[s, {d}] out", ""];
    for (d, y) in [4, 8, 12, 18, 32, 64, 66, 96, 128].into_iter().flat_map(|d| both.map(|y| (d, y))) {
        let (half, y) = (d / 2, y.replace("{d}", &d.to_string()));
        let (access, to) = if y.is_empty() { ("inout", "x") } else { ("in", "y") };
        let text = format!(
            "kernel @gptj(s = extent(x, 0)) rows s {{
               param %x: bf16[s, {d}] {access}
               param %c: f32[s, {half}] in
               {y}
               segment @m inner 1 {{
                 %x0 = load x[row*{d} + lane] : row<bf16, {d}>
                 %x = cast %x0 to f32 rne
                 %c = load c[row*{half} + lane] : row<f32, {half}>
                 %a = slice %x start 0 len {half} step 2
                 %b = slice %x start 1 len {half} step 2
                 %ac = mul %a, %c
                 %bc = mul %b, %c
                 %u = sub %ac, %b
                 %v = add %bc, %a
                 %z = zip %u, %v
                 %zr = cast %z to bf16 rne
                 store {to}[row*{d} + lane], %zr
               }}
             }}"
        );
        check(&text, &[("s", 5)]);
    }
    let partial = "kernel @partial(s = extent(x, 0)) rows s {
           param %x: bf16[s, 128] in
           param %y: f8e4m3[s, 128] out
           param %a: f32[s] out
           segment @m inner 1 {
             %x0 = load x[row*128 + lane] : row<bf16, 128>
             %x = cast %x0 to f32 rne
             %low = slice %x start 0 len 24 step 1
             %high = slice %x start 24 len 24 step 1
             %rest = slice %x start 48 len 80 step 1
             %n = neg %high
             %r = cat %n, %low, %rest
             %m = abs %r
             %amax = reduce max %m over row nan propagate order tree(16)
             %sum = reduce add %r over row nan propagate order tree(16)
             store a[row], %sum
             %d = div %r, %amax
             %q = cast %d to f8e4m3 rne sat
             store y[row*128 + lane], %q
           }
         }";
    check(partial, &[("s", 3)]);
}

#[test]
fn one_memory_for_two_parameters_needs_an_alias() {
    use fusewright_runtime::Arg;
    let text = "kernel @add(s = extent(x, 0)) rows s {
           param %x: f32[s, 4] in
           param %r: f32[s, 4] in
           param %y: f32[s, 4] out alias(%r)
           segment @m inner 1 {
             %0 = load x[row*4 + lane] : row<f32, 4>
             %1 = load r[row*4 + lane] : row<f32, 4>
             %2 = add %0, %1
             store y[row*4 + lane], %2
           }
         }";
    let (_, module) = crate::support::load(&kernel(text), &fusewright::Target::Cpu);
    let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
    let (x, mut r) = (bytes([1.0, 2.0, 3.0, 4.0]), bytes([10.0, 20.0, 30.0, 40.0]));
    module.launch(&mut [Arg::In(&x), Arg::Same(2), Arg::Out(&mut r)], &[1], 1, 1).expect("%y may lie where %r does");
    assert_eq!(r, bytes([11.0, 22.0, 33.0, 44.0]));
    for mut args in [[Arg::Same(2), Arg::In(&x)], [Arg::In(&x), Arg::Same(0)], [Arg::In(&x), Arg::Same(9)]] {
        let [first, second] = &mut args;
        let (first, second) = (std::mem::replace(first, Arg::In(&[])), std::mem::replace(second, Arg::In(&[])));
        let error = module.launch(&mut [first, second, Arg::Out(&mut r)], &[1], 1, 1).expect_err("no alias");
        assert!(error.to_string().contains("may not share the memory of parameter"), "{error}");
    }
}

#[test]
fn strided_rows_and_lanes() {
    for n in [1, 5, 16, 33] {
        let text = "kernel @t(s = extent(x, 0), n = extent(x, 1)) rows s {
               param %x: bf16[s, n] in
               param %y: bf16[n, s] out
               param %z: i32[n, s] inout
               segment @m inner 1 {
                 %x = load x[row*n + lane] : row<bf16, n>
                 store y[lane*s + row], %x
                 %z = load z[lane*s + row] : row<i32, n>
                 %i = iota n
                 %w = add %z, %i
                 store z[lane*s + row], %w
               }
             }";
        check(text, &[("s", 3), ("n", n)]);
    }
}

#[test]
fn predicates_and_padding() {
    for n in [3, 16, 41] {
        let text = "kernel @p(s = extent(slot, 0), n = extent(x, 1), slots = extent(y, 0)) rows s { claim s <= slots
               param %x: bf16[s, n] in
               param %slot: i8[s] in
               param %y: bf16[slots, n] out
               param %z: bf16[s, n] out
               param %w: bf16[s, n] out
               param %v: f32[s, n] out
               segment @m inner 1 {
                 %s = load slot[row] : scalar<i8>
                 %t = cast %s to i64 rne
                 %zero = literal i64 0
                 %here = ge %t, %zero
                 %x = load x[row*n + lane] : row<bf16, n>
                 %g = load x[row*n + lane] : row<bf16, n> if %here else 1.5
                 store w[row*n + lane], %g
                 store z[row*n + lane], %x if %here else -0.0
                 %f = cast %g to f32 rne
                 %two = literal f32 2.0
                 %big = lt %f, %two
                 %h = load x[row*n + lane] : row<bf16, n> if %big else 7.0
                 %hf = cast %h to f32 rne
                 store v[row*n + lane], %hf if %big else nan
                 store y[row*n + lane], %x if %here
               }
             }";
        check(text, &[("s", 5), ("n", n), ("slots", 5)]);
    }
}

#[test]
fn packed_four_bit_codes_with_block_scales() {
    for (h, g) in [(64, 16), (64, 32), (96, 32), (8, 2), (48, 6), (14, 7)] {
        let text = format!(
            "kernel @fp4(s = extent(x, 0)) rows s {{
               param %x: bf16[s, {h}] in
               param %q: u8[s, {half}] out
               param %e: f8e8m0[s, {groups}] out
               segment @m inner 1 {{
                 %x0 = load x[row*{h} + lane] : row<bf16, {h}>
                 %x = cast %x0 to f32 rne
                 %a = abs %x
                 %amax = reduce max %a over group {g} nan propagate order tree(16)
                 %six = literal f32 6.0
                 %s0 = div %amax, %six
                 %s = cast %s0 to f8e8m0 ceil sat
                 store e[row*{groups} + lane], %s
                 %sf = cast %s to f32 rne
                 %d = div %x, %sf
                 %c = cast %d to f4e2m1 rne sat
                 %p = pack %c ways 2 to u8
                 store q[row*{half} + lane], %p
               }}
             }}",
            half = h / 2,
            groups = h / g
        );
        check(&text, &[("s", 3)]);
    }
}

#[test]
fn packed_exponents_and_sums_of_groups() {
    let text = "kernel @deep(s = extent(x, 0)) rows s {
           param %x: f32[s, 512] in
           param %e: u32[s, 4] out
           param %t: f32[s] out
           param %d: f32[s, 512] out
           segment @m inner 1 {
             %x = load x[row*512 + lane] : row<f32, 512>
             %a = abs %x
             %amax = reduce max %a over group 32 nan propagate order tree(16)
             %s = cast %amax to f8e8m0 rne sat
             %b = bitcast %s to u8
             %r = as_row %b
             %p = pack %r ways 4 to u32
             store e[row*4 + lane], %p
             %gs = as_row %amax
             %total = reduce add %gs over row nan propagate order tree(16)
             store t[row], %total
             %g = as_group %gs lanes 512 size 32
             %d = div %x, %g
             %sum = reduce add %d over row nan propagate order tree(16)
             %w = sub %d, %sum
             store d[row*512 + lane], %w
           }
         }";
    check(text, &[("s", 3)]);
}

#[test]
fn extremes_and_wide_integers() {
    for n in [1, 9, 100] {
        let text = "kernel @arg(s = extent(x, 0), n = extent(x, 1)) rows s {
               param %x: f32[s, n] in
               param %k: i64[s, n] in
               param %v: f32[s] out
               param %i: i32[s] out
               param %j: i32[s] out
               param %m: i64[s, n] out
               param %c: i64[s] out
               segment @m inner 1 {
                 %x = load x[row*n + lane] : row<f32, n>
                 %v, %i = arg_reduce max %x
                 store v[row], %v
                 store i[row], %i
                 %k = load k[row*n + lane] : row<i64, n>
                 %u, %j = arg_reduce min %k
                 store j[row], %j
                 %o = literal i64 3
                 %d = div %k, %o
                 store m[row*n + lane], %d
                 %c = reduce add %k over row nan propagate order tree(16)
                 store c[row], %c
               }
             }";
        check(text, &[("s", 4), ("n", n)]);
    }
}

#[test]
fn several_segments_share_an_outer_row() {
    let text = "kernel @qkv(s = extent(x, 0)) rows s {
           param %x: bf16[s, 3, 32] in
           param %w: bf16[32] in
           param %q: bf16[s, 2, 32] out
           param %v: bf16[s, 32] out
           param %n: f32[s, 2] out
           segment @q inner 2 {
             %x = load x[row*96 + inner*32 + lane] : row<bf16, 32>
             %f = cast %x to f32 rne
             %w = load w[lane] : row<bf16, 32>
             %wf = cast %w to f32 rne
             %sq = mul %f, %f
             %m = reduce add %sq over row nan propagate order tree(16)
             store n[row*2 + inner], %m
             %r = sqrt %m
             %d = div %f, %r
             %y = fma %d, %wf, %f
             %yr = cast %y to bf16 rne
             store q[row*64 + inner*32 + lane], %yr
           }
           segment @v inner 1 {
             %x = load x[row*96 + lane + 64] : row<bf16, 32>
             store v[row*32 + lane], %x
           }
         }";
    check(text, &[("s", 3)]);
}

#[test]
fn unusual_borders_and_nested_lanes() {
    let text = "kernel @odd(s = extent(x, 0), n = extent(x, 1)) rows s {
           param %x: f32[s, n] in
           param %y: f32[s, n*2 + 5] out
           param %z: f32[s, n*3] out
           param %h: f16[s, n] inout
           segment @m inner 1 {
             %x = load x[row*n + lane] : row<f32, n>
             %i = iota 5
             %f = cast %i to f32 rne
             %n = neg %x
             %c = cat %x, %f, %n
             store y[row*(n*2 + 5) + lane], %c
             %z = zip %x, %n, %x
             store z[row*n*3 + lane], %z
             %h = load h[row*n + lane] : row<f16, n>
             store h[row*n + lane], %h
           }
         }"
    .replace("row*(n*2 + 5)", "row*n*2 + row*5");
    for n in [1, 8, 19] {
        check(&text, &[("s", 3), ("n", n)]);
    }
}

/// A row cut out of whole groups ends within the last one, and nothing behind it is written.
#[test]
fn a_part_of_the_groups_ends_where_it_ends() {
    for (lanes, step) in [(41, 1), (33, 1), (16, 1), (48, 1), (21, 2), (24, 2)] {
        let text = format!(
            "kernel @part(s = extent(x, 0)) rows s {{
               param %x: bf16[s, 48] in
               param %y: f32[s, 64] out
               segment @m inner 1 {{
                 %x = load x[row*48 + lane] : row<bf16, 48>
                 %f = cast %x to f32 rne
                 %a = abs %f
                 %m = reduce max %a over group 16 nan propagate order tree(16)
                 %d = sub %f, %m
                 %p = slice %d start 0 len {lanes} step {step}
                 store y[row*64 + lane], %p
               }}
             }}"
        );
        check(&text, &[("s", 5)]);
    }
}
