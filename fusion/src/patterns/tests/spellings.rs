//! Names of norms and activations in the spellings of models, and near twins that have none.

use super::*;

const X: &str = "%x: f32[s, 64]";

fn named(nodes: &str) -> Vec<String> {
    names_of(X, nodes, "%y")
}

/// The mean of `%x` as `%mean`, and `%c` without it.
const CENTRED: &str = "%n = literal f32 64.0
  %sum = reduce %x {op = add, axes = [1]}
  %mean = div %sum, %n
  %c = sub %x, %mean
";

/// The variance of `%x` about its mean in f64, with a divisor, as `%v`.
fn wide_variance(count: &str) -> String {
    format!(
        "%x64 = cast %x {{to = f64, round = rne}}
  %n64 = literal f64 64.0
  %sum64 = reduce %x64 {{op = add, axes = [1]}}
  %mean64 = div %sum64, %n64
  %c64 = sub %x64, %mean64
  %square = mul %c64, %c64
  %total = reduce %square {{op = add, axes = [1]}}
  %count = literal f64 {count}
  %v64 = div %total, %count
  %v = cast %v64 {{to = f32, round = rne}}
"
    )
}

const ROOTED: &str = "%eps = literal f32 1e-5
  %ve = add %v, %eps
  %r = rsqrt %ve
  %y = mul %c, %r";

#[test]
fn the_variance_of_a_layer_norm_has_several_spellings() {
    let own_mean = format!("{CENTRED}{}{ROOTED}", wide_variance("64.0"));
    assert_eq!(named(&own_mean), ["layer_norm"]);
    let one_mean = "%mean = cast %mean64 {to = f32, round = rne}\n  %c = sub %x, %mean\n";
    assert_eq!(named(&format!("{}{one_mean}{ROOTED}", wide_variance("64.0"))), ["layer_norm"]);
    let behind = "%s = sqrt %v\n  %eps = literal f32 1e-5\n  %d = add %s, %eps\n  %y = div %c, %d";
    assert_eq!(named(&format!("{CENTRED}{}{behind}", wide_variance("64.0"))), ["layer_norm"]);
    // The variance of a sample, and of other rows than those that are centred.
    assert!(named(&format!("{CENTRED}{}{ROOTED}", wide_variance("63.0"))).is_empty());
    let other = format!("{CENTRED}{}{ROOTED}", wide_variance("64.0").replace("cast %x", "cast %z"));
    assert!(names_of("%x: f32[s, 64], %z: f32[s, 64]", &other, "%y").is_empty());
    // The mean of squares less the square of the mean.
    let difference = |square: &str| {
        format!(
            "{CENTRED}%xx = mul %x, %x\n  %total = reduce %xx {{op = add, axes = [1]}}\n  %ex = div %total, %n\n  \
             %mm = mul {square}\n  %v = sub %ex, %mm\n  {ROOTED}"
        )
    };
    assert_eq!(named(&difference("%mean, %mean")), ["layer_norm"]);
    assert!(named(&difference("%mean, %ex")).is_empty());
}

#[test]
fn the_root_of_an_rms_norm_may_be_made_of_the_length() {
    let length = |by: &str, f: &str| {
        format!(
            "%xx = mul %x, %x\n  %total = reduce %xx {{op = add, axes = [1]}}\n  %l = sqrt %total\n  \
             %n = literal f32 {by}\n  %s = {f} %l, %n\n  %eps = literal f32 1e-6\n  %d = add %s, %eps\n  %y = div %x, %d"
        )
    };
    assert_eq!(named(&length("0.125", "mul")), ["rms_norm"]);
    assert_eq!(named(&length("8.0", "div")), ["rms_norm"]);
    assert!(named(&length("0.125", "div")).is_empty());
    assert!(named(&length("0.25", "mul")).is_empty());
}

#[test]
fn the_mean_of_squares_may_be_that_of_the_length() {
    let of = |square: &str| {
        named(&format!(
            "%xx = mul %x, %x\n  %total = reduce %xx {{op = add, axes = [1]}}\n  %l = sqrt %total\n  {square}\n  \
             %eps = literal f32 1e-6\n  %v = add %m, %eps\n  %r = rsqrt %v\n  %y = mul %x, %r"
        ))
    };
    let behind = |n: &str| format!("%q = mul %l, %l\n  %n = literal f32 {n}\n  %m = div %q, %n");
    let before = |n: &str| format!("%n = literal f32 {n}\n  %k = mul %l, %n\n  %m = mul %k, %k");
    assert_eq!(of(&behind("64.0")), ["rms_norm"]);
    assert_eq!(of(&before("0.125")), ["rms_norm"]);
    assert!(of(&behind("63.0")).is_empty());
    assert!(of(&before("0.25")).is_empty());
    assert!(of("%n = literal f32 64.0\n  %m = div %l, %n").is_empty());
}

#[test]
fn a_softmax_may_multiply_by_the_reciprocal_of_its_sum() {
    let of = |top: &str, last: &str| {
        named(&format!(
            "%m = reduce %x {{op = {top}, axes = [1]}}\n  %d = sub %x, %m\n  %e = exp %d\n  \
             %sum = reduce %e {{op = add, axes = [1]}}\n  %one = literal f32 1.0\n  {last}"
        ))
    };
    assert_eq!(of("max", "%i = div %one, %sum\n  %y = mul %i, %e"), ["softmax"]);
    assert_eq!(of("max", "%i = recip %sum\n  %y = mul %e, %i"), ["softmax"]);
    assert!(of("max", "%i = div %one, %sum\n  %y = mul %d, %i").is_empty());
    assert!(of("max", "%y = mul %e, %sum").is_empty());
    assert!(of("min", "%i = div %one, %sum\n  %y = mul %e, %i").is_empty());
}

#[test]
fn the_tanh_of_a_gelu_may_be_made_of_a_sigmoid() {
    let of = |factor: &str, cube: &str| {
        let nodes = format!(
            "%f = literal f32 {factor}\n  %k = literal f32 {cube}\n  %xx = mul %x, %x\n  %xxx = mul %xx, %x\n  \
             %c = mul %xxx, %k\n  %i = add %x, %c\n  %v = mul %i, %f\n  %n = neg %v\n  %e = exp %n\n  \
             %one = literal f32 1.0\n  %d = add %e, %one\n"
        );
        let named =
            |act: &str| names_of("%x: f32[s, 64], %u: f32[s, 64]", &format!("{nodes}  {act}\n  %y = mul %a, %u"), "%y");
        [named("%g = div %one, %d\n  %a = mul %x, %g"), named("%a = div %x, %d")]
    };
    assert_eq!(of("1.5957691216", "0.044715"), [["gelu_mul"]; 2]);
    for [factor, cube] in [["0.7978845608", "0.044715"], ["1.5957691216", "0.44715"]] {
        assert!(of(factor, cube).iter().flatten().all(|name| name != "gelu_mul"), "{factor} {cube}");
    }
}

#[test]
fn the_sigmoid_of_a_silu_may_be_made_of_tanh() {
    let of = |outer: &str, inner: &str, last: &str| {
        let nodes = format!(
            "%o = literal f32 {outer}\n  %i = literal f32 {inner}\n  %h = mul %x, %o\n  %k = mul %x, %i\n  \
             %t = tanh %k\n  %one = literal f32 1.0\n  %p = add %t, %one\n  {last}\n  %y = mul %a, %u"
        );
        names_of("%x: f32[s, 64], %u: f32[s, 64]", &nodes, "%y")
    };
    assert_eq!(of("0.5", "0.5", "%a = mul %h, %p"), ["silu_mul"]);
    assert!(of("0.5", "1.0", "%a = mul %h, %p").is_empty());
    assert!(of("1.0", "0.5", "%a = mul %h, %p").is_empty());
    assert!(of("0.5", "0.5", "%a = mul %h, %t").is_empty());
}

#[test]
fn activations_have_the_names_of_their_kin() {
    let fast = |cubic: &str, last: &str| {
        let nodes = format!(
            "%half = literal f32 0.5\n  %h = mul %x, %half\n  %beta = literal f32 0.7978846\n  %b = mul %x, %beta\n  \
             %k = literal f32 {cubic}\n  %kx = mul %x, %k\n  %kxx = mul %kx, {last}\n  %one = literal f32 1.0\n  \
             %s = add %one, %kxx\n  %i = mul %b, %s\n  %t = tanh %i\n  %p = add %t, %one\n  %a = mul %h, %p\n  \
             %y = mul %a, %u"
        );
        names_of("%x: f32[s, 64], %u: f32[s, 64]", &nodes, "%y")
    };
    assert_eq!(fast("0.044715", "%x"), ["gelu_mul"]);
    assert!(fast("0.044", "%x").is_empty());
    assert!(fast("0.044715", "%u").is_empty());
    let capped = |by: &str| {
        named(&format!(
            "%k = literal f32 {by}\n  %d = mul %x, %k\n  %t = tanh %d\n  %cap = literal f32 30.0\n  %y = mul %cap, %t"
        ))
    };
    assert_eq!(capped("0.033333335"), ["soft_cap"]);
    assert!(capped("0.03").is_empty());
}

#[test]
fn the_quick_gelu_is_a_gelu() {
    let gated = |slope: &str, act: &str| {
        let nodes = format!(
            "%k = literal f32 {slope}\n  %kx = mul %x, %k\n  %one = literal f32 1.0\n  %n = neg %kx\n  %e = exp %n\n  \
             %below = add %e, %one\n  {act}\n  %y = mul %a, %u"
        );
        names_of("%x: f32[s, 64], %u: f32[s, 64]", &nodes, "%y")
    };
    let product = "%s = div %one, %below\n  %a = mul %x, %s";
    assert_eq!(gated("1.702", "%a = div %x, %below"), ["gelu_mul"]);
    assert_eq!(gated("1.702", product), ["gelu_mul"]);
    assert!(gated("1.7", "%a = div %x, %below").is_empty());
    assert!(gated("1.7", product).is_empty());
    assert_eq!(gated("1.702", &product.replace("mul %x", "mul %kx")), ["silu_mul"]);
}

#[test]
fn halves_of_a_product_may_have_the_turned_ones_added() {
    let rotated = |sign: &str, last: &str| {
        let nodes = format!(
            "%p = mul %x, %cos\n  %a = slice %x {{axis = 2, start = 0, end = 8}}\n  \
             %b = slice %x {{axis = 2, start = 8, end = 16}}\n  %pa = slice %p {{axis = 2, start = 0, end = 8}}\n  \
             %pb = slice %p {{axis = 2, start = 8, end = 16}}\n  %sa = slice %sin {{axis = 2, start = 0, end = 8}}\n  \
             %sb = slice %sin {{axis = 2, start = 8, end = 16}}\n  %n = {sign} %sa\n  %bs = mul %n, %b\n  \
             %as = mul %sb, {last}\n  %low = add %pa, %bs\n  %high = add %pb, %as\n  %y = cat %low, %high {{axis = 2}}"
        );
        names_of("%x: f32[s, 4, 16], %cos: f32[s, 1, 16], %sin: f32[s, 1, 16]", &nodes, "%y")
    };
    assert_eq!(rotated("neg", "%a"), ["rope"]);
    assert!(rotated("abs", "%a").is_empty());
    assert!(rotated("neg", "%b").is_empty());
}

/// `%x` of 16 lanes turned by tables of as many, the terms as `sum` adds them.
fn turned(high: [i64; 2], low: [i64; 2], sum: &str) -> Vec<String> {
    let nodes = format!(
        "%a = slice %x {{axis = 2, start = {}, end = {}}}\n  %b = slice %x {{axis = 2, start = {}, end = {}}}\n  \
         %n = neg %a\n  %t = cat %n, %b {{axis = 2}}\n  {sum}",
        high[0], high[1], low[0], low[1]
    );
    names_of("%x: f32[s, 4, 16], %cos: f32[s, 1, 16], %sin: f32[s, 1, 16]", &nodes, "%y")
}

#[test]
fn a_rotation_may_be_contracted() {
    let of = |sum: &str| turned([8, 16], [0, 8], sum);
    assert_eq!(of("%p = mul %x, %cos\n  %y = fma %t, %sin, %p"), ["rope"]);
    assert_eq!(of("%p = mul %cos, %x\n  %y = fma %sin, %t, %p"), ["rope"]);
    assert_eq!(of("%p = mul %t, %sin\n  %y = fma %cos, %x, %p"), ["rope"]);
    assert!(of("%p = mul %x, %sin\n  %y = fma %t, %sin, %p").is_empty());
    assert!(of("%p = mul %t, %cos\n  %y = fma %t, %sin, %p").is_empty());
    assert!(of("%p = add %x, %cos\n  %y = fma %t, %sin, %p").is_empty());
}

#[test]
fn lanes_that_are_no_pairs_are_not_rotated() {
    let sum = "%p = mul %x, %cos\n  %q = mul %t, %sin\n  %y = add %p, %q";
    assert_eq!(turned([8, 16], [0, 8], sum), ["rope"]);
    for (high, low) in [([7, 16], [0, 7]), ([8, 16], [1, 9]), ([9, 16], [0, 9]), ([0, 8], [0, 8])] {
        assert!(turned(high, low, sum).is_empty(), "{high:?} {low:?}");
    }
    // Whole heads.
    let heads = "%a = slice %x {axis = 1, start = 2, end = 4}\n  %b = slice %x {axis = 1, start = 0, end = 2}\n  \
                 %n = neg %a\n  %t = cat %n, %b {axis = 1}\n";
    let inputs = "%x: f32[s, 4, 16], %cos: f32[s, 1, 16], %sin: f32[s, 1, 16]";
    assert!(names_of(inputs, &format!("{heads}{sum}"), "%y").is_empty());
    let halves = |second: [i64; 2]| {
        let nodes = format!(
            "%a = slice %x {{axis = 2, start = 0, end = 4}}\n  %b = slice %x {{axis = 2, start = {}, end = {}}}\n  \
             %ac = mul %a, %cos\n  %bs = mul %b, %sin\n  %low = sub %ac, %bs\n  %bc = mul %b, %cos\n  \
             %as = mul %a, %sin\n  %high = add %bc, %as\n  %y = cat %low, %high {{axis = 2}}",
            second[0], second[1]
        );
        names_of("%x: f32[s, 4, 16], %cos: f32[s, 1, 4], %sin: f32[s, 1, 4]", &nodes, "%y")
    };
    assert_eq!(halves([4, 8]), ["rope"]);
    assert!(halves([8, 12]).is_empty() && halves([2, 6]).is_empty());
}
