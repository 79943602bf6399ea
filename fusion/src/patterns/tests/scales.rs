//! Whose extremes scales are that kernels before their quantiser make, and how many times them.

use super::*;

const INPUTS: &str = "%x: f32[s, 64], %z: f32[s, 64], %g: f32[1, 64]";
/// A bound, and codes of `%y`.
const LARGEST: &str = "%n = literal f32 448.0\n";
const CODES: &str = "%l = literal f32 -448.0\n  %c0 = max %y, %l\n  %c1 = min %c0, %n\n  \
                     %q = cast %c1 {to = f8e4m3, round = rne}\n";

/// The largest magnitude of a value over some axes, as `%m`.
fn magnitude(of: &str, axes: &str) -> String {
    format!("%a = abs {of}\n  %m = reduce %a {{op = max, axes = {axes}}}\n")
}

/// The names of codes of `%x` with a scale that is made of `%m`.
fn coded(magnitude: &str, scale: &str) -> Vec<String> {
    let nodes = format!("{LARGEST}{magnitude}{scale}\n  %y = div %x, %sc\n{CODES}");
    names_of(INPUTS, &nodes, "%q, %sc")
}

const PLAIN: &str = "%sc = div %m, %n\n";

#[test]
fn a_scale_of_a_whole_tensor_is_that_of_what_it_scales() {
    assert_eq!(coded(&magnitude("%x", "[0, 1]"), PLAIN), ["quant.fp8_tensor"]);
    assert_eq!(coded(&magnitude("%x", "[0]"), PLAIN), ["quant.fp8_channel"]);
    let none: [String; 0] = [];
    for axes in ["[0, 1]", "[0]"] {
        assert_eq!(coded(&magnitude("%z", axes), PLAIN), none, "of another tensor");
        let halves = format!("%h = slice %x {{axis = 1, start = 0, end = 1}}\n  {}", magnitude("%h", axes));
        assert_eq!(coded(&halves, PLAIN), none, "of some lanes");
        let sum = format!("%w = add %x, %z\n  {}", magnitude("%w", axes));
        assert_eq!(coded(&sum, PLAIN), none, "of a sum");
        let signed = format!("%m = reduce %x {{op = max, axes = {axes}}}\n");
        assert_eq!(coded(&signed, PLAIN), none, "of elements with their sign");
        let both = format!("{}  %b = abs %z\n  %k = reduce %b {{op = max, axes = {axes}}}\n", magnitude("%x", axes));
        assert_eq!(coded(&both, "%t = max %m, %k\n  %sc = div %t, %n\n"), none, "of two tensors");
        let mean = format!("{}  %k = reduce %a {{op = add, axes = {axes}}}\n", magnitude("%x", axes));
        assert_eq!(coded(&mean, "%t = max %m, %k\n  %sc = div %t, %n\n"), none, "of the extreme and a sum");
    }
}

#[test]
fn a_scale_from_before_is_a_multiple_of_the_extreme() {
    let tensor = magnitude("%x", "[0, 1]");
    let eps = "%e = literal f32 1e-6\n  %o = div %m, %n\n  %sc = max %o, %e\n";
    let factor = "%i = literal f32 0.002232143\n  %sc = mul %m, %i\n";
    for scale in [PLAIN, eps, factor] {
        assert_eq!(coded(&tensor, scale), ["quant.fp8_tensor"], "{scale}");
    }
    let shifted = "%e = literal f32 1.0\n  %o = add %m, %e\n  %sc = div %o, %n\n";
    let square = "%o = mul %m, %m\n  %sc = div %o, %n\n";
    for scale in [shifted, square, "%sc = div %n, %m\n", "%sc = mul %m, %n\n", "%o = div %m, %n\n %sc = sqrt %o\n"] {
        assert!(coded(&tensor, scale).is_empty(), "{scale}");
    }
    // Of each lane, in another place.
    let channels = magnitude("%x", "[0]");
    let moved = "%t = div %m, %n\n  %b = slice %t {axis = 1, start = 1, end = 64}\n  \
                 %f = slice %t {axis = 1, start = 0, end = 1}\n  %sc = cat %b, %f {axis = 1}\n";
    assert!(coded(&channels, moved).is_empty());
    assert_eq!(coded("", "%sc = div %g, %n\n"), ["quant.fp8_static"]);
}

#[test]
fn scales_from_before_are_seen_through_layout_and_composites() {
    let tensor = magnitude("%x", "[0, 1]");
    let spread =
        "%t = div %m, %n\n  %r = reshape %t {shape = [1]}\n  %w = expand %r {shape = [s, 64]}\n  %sc = neg %w\n";
    assert_eq!(coded(&tensor, &spread.replace("neg", "abs")), ["quant.fp8_tensor"]);
    let turned = "%o = reshape %m {shape = [64, 1]}\n  %p = permute %o {perm = [1, 0]}\n  %sc = div %p, %n\n";
    assert_eq!(coded(&magnitude("%x", "[0]"), turned), ["quant.fp8_channel"]);
    assert!(coded(&magnitude("%z", "[0]"), turned).is_empty());
    // The scale of another quantiser.
    let other = |of: &str| {
        let nodes = format!(
            "{LARGEST}%f = reshape {of} {{shape = [1, s*64]}}\n  %k, %s1 = quantize_dynamic %f {{bound = 448}}\n  \
             %y = div %x, %s1\n{CODES}"
        );
        names_of(INPUTS, &nodes, "%q, %k")
    };
    assert!(other("%x").contains(&"quant.fp8_tensor".to_owned()), "{:?}", other("%x"));
    assert!(!other("%z").contains(&"quant.fp8_tensor".to_owned()));
    assert!(!other("%z").contains(&"quant.fp8_static".to_owned()));
}

#[test]
fn selections_may_bound_codes() {
    let of = |bounds: &str| {
        let nodes = format!(
            "{LARGEST}%l = literal f32 -448.0\n  %y = div %x, %g\n  {bounds}\n  \
             %q = cast %b {{to = f8e4m3, round = rne}}"
        );
        names_of(INPUTS, &nodes, "%q")
    };
    let low = "%u = lt %y, %l\n  %a = select %u, %l, %y\n  ";
    assert_eq!(of(&format!("{low}%o = gt %y, %n\n  %b = select %o, %n, %a")), ["quant.fp8_static"]);
    assert_eq!(of(&format!("{low}%o = le %a, %n\n  %b = select %o, %a, %n")), ["quant.fp8_static"]);
    assert!(of(&format!("{low}%o = lt %y, %n\n  %b = select %o, %n, %a")).is_empty());
    assert!(of(&format!("{low}%o = gt %x, %n\n  %b = select %o, %n, %a")).is_empty());
    assert!(of(&format!("{low}%o = gt %y, %l\n  %b = select %o, %n, %a")).is_empty());
    assert!(of(&format!("{low}%b = neg %a")).is_empty());
}

#[test]
fn a_number_may_stand_before_or_behind_the_scale() {
    let of = |quotient: &str| {
        let nodes = format!("{LARGEST}{}  {quotient}\n{CODES}", magnitude("%x", "[1]"));
        names_of(INPUTS, &nodes, "%q, %m")
    };
    assert_eq!(of("%t = div %x, %m\n  %y = mul %t, %n"), ["quant.fp8_token"]);
    assert_eq!(of("%t = mul %x, %n\n  %y = div %t, %m"), ["quant.fp8_token"]);
    assert_eq!(of("%t = div %n, %m\n  %y = mul %x, %t"), ["quant.fp8_token"]);
    for other in [
        "%t = div %m, %n\n  %y = mul %x, %t",
        "%t = mul %m, %n\n  %y = div %x, %t",
        "%t = div %x, %m\n  %y = div %t, %n",
        "%t = div %x, %n\n  %y = div %t, %m",
        "%t = mul %x, %n\n  %y = mul %t, %m",
        "%k = literal f32 2.0\n  %t = mul %x, %k\n  %y = div %t, %m",
    ] {
        assert!(!of(other).contains(&"quant.fp8_token".to_owned()), "{other}: {:?}", of(other));
    }
}

#[test]
fn the_sign_of_what_is_scaled_is_not_that_of_its_extreme() {
    let negative = |magnitude: &str| {
        let nodes = format!("{LARGEST}{magnitude}{PLAIN}  %t = neg %x\n  %y = div %t, %sc\n{CODES}");
        names_of(INPUTS, &nodes, "%q, %sc")
    };
    assert_eq!(negative(&magnitude("%x", "[1]")), ["quant.fp8_token"]);
    assert!(negative(&magnitude("%z", "[1]")).is_empty(), "of another tensor");
    assert!(negative("%m = reduce %x {op = max, axes = [1]}\n").is_empty(), "of elements with their sign");
    let shifted = format!("%w = neg %z\n  %v = add %x, %w\n  {}", magnitude("%v", "[1]"));
    assert!(negative(&shifted).is_empty(), "of a difference");
}

#[test]
fn what_is_scaled_by_its_own_extreme_has_no_given_scale() {
    let scaled = |inner: &str| {
        let nodes = format!("{LARGEST}{}{PLAIN}  {inner}\n  %y = div %u, %g\n{CODES}", magnitude("%x", "[1]"));
        names_of(INPUTS, &nodes, "%q, %sc")
    };
    assert!(scaled("%u = div %x, %sc").is_empty());
    assert!(scaled("%i = div %x, %sc\n  %u = div %i, %z").is_empty());
    assert_eq!(scaled("%u = div %x, %z"), ["quant.fp8_static"]);
}

#[test]
fn the_larger_of_extremes_of_a_row_and_of_the_tensor_is_of_no_row() {
    let larger = |axes: &str| {
        let other = format!("%k = reduce %a {{op = max, axes = {axes}}}\n  %t = max %m, %k\n  %sc = div %t, %n\n");
        coded(&magnitude("%x", "[1]"), &other)
    };
    assert!(larger("[0, 1]").is_empty());
    assert_eq!(larger("[1]"), ["quant.fp8_token"]);
}
