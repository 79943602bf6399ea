//! Names of quantisers: what codes are, and where their scales come from, whatever the spelling.

use super::*;

/// The largest magnitude of each row of `%x`, as `%m`, and the largest and the least element.
const MAGNITUDE: &str = "%abs = abs %x\n  %m = reduce %abs {op = max, axes = [1]}\n";
const EXTREMES: &str = "%high = reduce %x {op = max, axes = [1]}\n  %low = reduce %x {op = min, axes = [1]}\n";

/// The codes of `%y` between two bounds.
fn codes(low: &str, high: &str, dtype: &str) -> String {
    format!(
        "%a = literal f32 {low}\n  %b = literal f32 {high}\n  %c0 = max %y, %a\n  %c1 = min %c0, %b\n  \
         %q = cast %c1 {{to = {dtype}, round = trunc}}\n"
    )
}

#[test]
fn every_quantiser_among_the_composites_has_its_name() {
    let wanted = [
        ("quantize_static", "codes = f8e4m3", Some("fp8_static")),
        ("quantize_static", "codes = f8e5m2", None),
        ("quantize_static", "codes = i8", Some("int8_static")),
        ("quantize_static", "codes = i4", Some("int4_static")),
        ("quantize_dynamic", "codes = f8e5m2", None),
        ("quantize_dynamic", "codes = i8", Some("int8_token")),
        ("quantize_dynamic", "codes = i4", Some("int4_token")),
        // The codes that are usual are not spelled.
        ("quantize_dynamic", "", Some("fp8_token")),
        ("quantize_affine", "", Some("int8_static")),
        ("quantize_asymmetric", "", Some("int8_azp_token")),
        ("quantize_mx", "codes = f8e4m3", Some("mxfp8")),
        ("quantize_mx", "codes = f8e5m2", Some("mxfp8")),
        ("quantize_mx", "codes = f4e2m1", Some("mxfp4")),
        ("quantize_nvfp4", "", Some("nvfp4")),
    ];
    let mut seen = vec![0; wanted.len()];
    for spec in fusewright_graph::ops::LIST.iter().filter(|spec| spec.name.starts_with("quantize")) {
        for variant in (spec.variants)() {
            let attrs = &variant.attrs().0;
            let with = |text: &str| attrs.iter().any(|(k, v)| format!("{k} = {v}") == text) || text.is_empty();
            let row = wanted.iter().position(|(op, attr, _)| *op == spec.name && with(attr));
            let row = row.unwrap_or_else(|| panic!("no name is expected of {variant:?}"));
            seen[row] += 1;
            let b = fusewright_graph::Builder::new("g");
            let types = (spec.operands)(F32);
            let operands: Vec<Value> =
                types.into_iter().enumerate().map(|(i, ty)| b.input(&format!("x{i}"), ty)).collect();
            let results = b.composite(variant.clone(), &operands).expect("the operands fit");
            results.into_iter().for_each(|r| b.output(r));
            let found: Vec<String> = names(&b.finish()).into_keys().collect();
            let wanted: Vec<String> = wanted[row].2.iter().map(|suffix| format!("quant.{suffix}")).collect();
            assert_eq!(found, wanted, "{variant:?}");
        }
    }
    assert!(seen.iter().all(|&n| n > 0), "{seen:?} variants of {wanted:?}");
}

#[test]
fn the_width_of_integers_is_that_of_their_bounds() {
    let coded = |low: &str, high: &str, f: &str| {
        let scale = format!("%n = literal f32 {high}\n  %sc = div %m, %n\n  %d = div %x, %sc\n  %y = {f} %d\n");
        names_of("%x: f32[s, 64]", &format!("{MAGNITUDE}{scale}{}", codes(low, high, "i8")), "%q, %sc")
    };
    let token = |low: &str, high: &str| coded(low, high, "round");
    assert_eq!(token("-128.0", "127.0"), ["quant.int8_token"]);
    assert_eq!(token("-127.0", "127.0"), ["quant.int8_token"]);
    assert_eq!(token("-8.0", "7.0"), ["quant.int4_token"]);
    assert_eq!(token("-7.0", "7.0"), ["quant.int4_token"]);
    // Other bounds, and codes that are cut off or rounded up, are of no known format.
    for (low, high) in [("-9.0", "7.0"), ("-120.0", "127.0"), ("-120.0", "120.0"), ("0.0", "127.0")] {
        assert!(token(low, high).is_empty(), "{low} to {high}");
    }
    for f in ["trunc", "ceil", "neg"] {
        assert!(coded("-128.0", "127.0", f).is_empty(), "{f}");
    }
}

#[test]
fn zero_points_that_are_computed_are_named() {
    let range = "%d = sub %high, %low\n  %n = literal f32 255.0\n  %sc = div %d, %n\n";
    let before = "%z = div %low, %sc\n  %t = div %x, %sc\n  %u = sub %t, %z\n  %y = round %u\n";
    let after = "%z0 = div %low, %sc\n  %z = round %z0\n  %t = div %x, %sc\n  %r = round %t\n  %y = sub %r, %z\n";
    let moved = "%x0 = sub %x, %low\n  %t = div %x0, %sc\n  %y = round %t\n";
    let of = |steps: &str, high: &str| {
        names_of("%x: f32[s, 64]", &format!("{EXTREMES}{range}{steps}{}", codes("0.0", high, "u8")), "%q, %sc")
    };
    for steps in [before, after, moved] {
        assert_eq!(of(steps, "255.0"), ["quant.int8_azp_token"], "{steps}");
        assert_eq!(of(steps, "15.0"), ["quant.int4_azp_token"], "{steps}");
    }
    let sum = range.replace("sub", "add");
    let nodes = format!("{EXTREMES}{sum}{after}{}", codes("0.0", "255.0", "u8"));
    assert!(names_of("%x: f32[s, 64]", &nodes, "%q, %sc").is_empty());
    // The codes are the result, not the zero points beside them.
    let zero = "%z1 = cast %z {to = u8, round = trunc}\n";
    let nodes = format!("{EXTREMES}{range}{after}{}{zero}", codes("0.0", "255.0", "u8"));
    assert_eq!(names_of("%x: f32[s, 64]", &nodes, "%q, %sc, %z1"), ["quant.int8_azp_token"]);
}

#[test]
fn zero_points_of_other_tensors_have_no_name() {
    let range = "%d = sub %high, %low\n  %n = literal f32 255.0\n  %sc = div %d, %n\n";
    let with = |least: &str, zero: &str| {
        let steps = "%z = round %z0\n  %t = div %x, %sc\n  %r = round %t\n  %y = sub %r, %z\n";
        let nodes = format!("{EXTREMES}{range}{least}{zero}{steps}{}", codes("0.0", "255.0", "u8"));
        names_of("%x: f32[s, 64], %o: f32[s, 64]", &nodes, "%q, %sc")
    };
    let (own, other) = ("%e = abs %low\n", "%e = reduce %o {op = min, axes = [1]}\n");
    assert_eq!(with(own, "%z0 = div %low, %sc\n"), ["quant.int8_azp_token"]);
    for zero in ["%z0 = div %e, %sc\n", "%f = min %e, %low\n  %z0 = div %f, %sc\n"] {
        assert!(with(other, zero).is_empty(), "{zero}");
    }
}

#[test]
fn the_largest_magnitude_has_three_spellings() {
    let neg = "%n = neg %low\n  %m = max %high, %n\n";
    let both = "%p = abs %low\n  %n = abs %high\n  %m = max %n, %p\n";
    for magnitude in [MAGNITUDE.to_owned(), format!("{EXTREMES}{neg}"), format!("{EXTREMES}{both}")] {
        let scale = "%n4 = literal f32 448.0\n  %sc = div %m, %n4\n  %y = div %x, %sc\n";
        let codes = codes("-448.0", "448.0", "f8e4m3").replace("trunc", "rne");
        let found = names_of("%x: f32[s, 64]", &format!("{magnitude}{scale}{codes}"), "%q, %sc");
        assert_eq!(found, ["quant.fp8_token"], "{magnitude}");
    }
    // About zero, and each extreme over its own bound.
    let zero = "%zero = literal f32 0.0\n  %h0 = max %high, %zero\n  %l0 = min %low, %zero\n";
    let about = "%n = neg %l0\n  %m = max %n, %h0\n  %n7 = literal f32 127.0\n  %sc = div %m, %n7\n";
    let over = |low: &str| {
        format!(
            "%a7 = literal f32 127.0\n  %a8 = literal f32 {low}\n  %p = div %h0, %a7\n  %n = div %l0, %a8\n  \
             %w = gt %n, %p\n  %sc = select %w, %n, %p\n"
        )
    };
    let whole = "%t = div %x, %sc\n  %r = round %t\n  %k = literal f32 0.0\n  %y = add %r, %k\n";
    let i8 = |scale: &str| {
        let nodes = format!("{EXTREMES}{zero}{scale}{whole}{}", codes("-128.0", "127.0", "i8"));
        names_of("%x: f32[s, 64]", &nodes, "%q, %sc")
    };
    assert_eq!(i8(about), ["quant.int8_token"]);
    assert_eq!(i8(&over("-128.0")), ["quant.int8_token"]);
    assert!(i8(&over("128.0")).is_empty());
    // The largest element is another function.
    let other =
        "%n = abs %low\n  %m = max %high, %low\n  %n4 = literal f32 448.0\n  %sc = div %m, %n4\n  %y = div %x, %sc\n";
    let codes = codes("-448.0", "448.0", "f8e4m3").replace("trunc", "rne");
    assert!(names_of("%x: f32[s, 64]", &format!("{EXTREMES}{other}{codes}"), "%q, %n").is_empty());
}

#[test]
fn a_scale_made_of_the_largest_code_needs_no_clamp() {
    let of = |inputs: &str, scale: &str| {
        let codes = "%y = div %x, %sc\n  %q = cast %y {to = f8e4m3, round = rne}\n";
        names_of(inputs, &format!("{scale}{codes}"), "%q")
    };
    let dynamic = |largest: &str| format!("{MAGNITUDE}  %c = literal f32 {largest}\n  %sc = div %m, %c\n");
    assert_eq!(of("%x: f32[s, 64]", &dynamic("448.0")), ["quant.fp8_token"]);
    let factor = dynamic("448.0").replace("div %m, %c", "mul %m, %i").replace("448.0", "0.002232143");
    assert_eq!(of("%x: f32[s, 64]", &factor.replace("%c =", "%i =")), ["quant.fp8_token"]);
    assert!(of("%x: f32[s, 64]", &dynamic("240.0")).is_empty());
    assert!(of("%x: f32[s, 64], %g: f32[]", "%c = literal f32 448.0\n  %sc = div %g, %c\n").is_empty());
}

/// Codes in e4m3 of blocks of `lanes`, whose exponent is made of the magnitude `%m` by some steps that make `%e`.
fn blocks(lanes: i64, steps: &str) -> Vec<String> {
    let nodes = format!(
        "%v = reshape %x {{shape = [s, {}, {lanes}]}}\n  %abs = abs %v\n  %m = reduce %abs {{op = max, axes = [2]}}\n  \
         {steps}\n  %y = div %v, %e\n  {}  %f = reshape %q {{shape = [s, 128]}}",
        128 / lanes,
        codes("-448.0", "448.0", "f8e4m3").replace("trunc", "rne")
    );
    names_of("%x: f32[s, 128]", &nodes, "%f, %e")
}

#[test]
fn microscaling_is_a_power_of_two_for_each_32_lanes() {
    let chain = "%l = log2 %m\n %g = floor %l\n %c = literal f32 8.0\n %h = sub %g, %c\n %e = exp2 %h";
    let no_floor = "%l = log2 %m\n %c = literal f32 8.0\n %h = sub %l, %c\n %e = exp2 %h";
    let bits = "%i = bitcast %m {to = i32}\n %k = literal i32 23\n %g = shr %i, %k\n %c = literal i32 8\n \
                %h0 = sub %g, %c\n %o = literal i32 1\n %h = max %h0, %o\n %j = shl %h, %k\n %e = bitcast %j {to = f32}";
    let masked =
        "%i = bitcast %m {to = i32}\n %k = literal i32 2139095040\n %g = and %i, %k\n %e = bitcast %g {to = f32}";
    let ceil = "%c = literal f32 448.0\n %t = div %m, %c\n %e = ue8m0_ceil %t";
    for steps in [chain, bits, masked, ceil] {
        assert_eq!(blocks(32, steps), ["quant.mxfp8"], "{steps}");
        assert_eq!(blocks(64, steps), ["quant.fp8_group64"], "{steps}");
    }
    let quotient = "%c = literal f32 448.0\n %e = div %m, %c";
    let other_bits = masked.replace("2139095040", "2143289344");
    for steps in [no_floor, quotient, other_bits.as_str()] {
        assert_eq!(blocks(32, steps), ["quant.fp8_group32"], "{steps}");
    }
    let power = |base: &str| {
        format!(
            "%c = literal f32 448.0\n %t = div %m, %c\n %l = log2 %t\n %h = ceil %l\n %two = literal f32 {base}\n %e = pow %two, %h"
        )
    };
    assert_eq!(blocks(32, &power("2.0")), ["quant.mxfp8"]);
    assert!(blocks(32, &power("4.0")).is_empty());
}

#[test]
fn blocks_in_e2m1_are_named_by_their_scales() {
    let made = |lanes: i64, scale: &str| {
        let nodes = format!(
            "%v = reshape %x {{shape = [s, {}, {lanes}]}}\n  %abs = abs %v\n  %m = reduce %abs {{op = max, axes = [2]}}\n  \
             %six = literal f32 6.0\n  %r = div %m, %six\n  {scale}\n  %y = div %v, %e\n  \
             %q = cast %y {{to = f4e2m1, round = rne, saturate}}\n  %f = reshape %q {{shape = [s, 128]}}\n  \
             %p = pack %f {{ways = 2, to = u8}}",
            128 / lanes
        );
        names_of("%x: f32[s, 128], %g: f32[]", &nodes, "%p, %e")
    };
    let code = "%w = mul %r, %g\n  %k = cast %w {to = f8e4m3, round = rne, saturate}\n  \
                %k32 = cast %k {to = f32, round = rne}\n  %e = div %k32, %g";
    assert_eq!(made(16, code), ["quant.nvfp4"]);
    assert!(made(32, code).is_empty());
    assert_eq!(made(32, "%e = ue8m0_ceil %r"), ["quant.mxfp4"]);
    assert!(made(16, "%e = mul %r, %g").is_empty());
}

#[test]
fn values_of_e2m1_may_be_selected_by_their_bounds() {
    let bounds = [(0.25, "gt"), (0.75, "ge"), (1.25, "gt"), (1.75, "ge"), (2.5, "gt"), (3.5, "ge"), (5.0, "gt")];
    let values = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let made = |moved: usize, by: f64, back: &str| {
        let mut nodes = "%v = reshape %x {shape = [s, 8, 16]}\n  %abs = abs %v\n  \
             %m = reduce %abs {op = max, axes = [2]}\n  %six = literal f32 6.0\n  %d = div %m, %six\n  \
             %u = mul %d, %g\n  %k = cast %u {to = f8e4m3, round = rne, saturate}\n  \
             %k32 = cast %k {to = f32, round = rne}\n  %e = div %k32, %g\n  %y = div %v, %e\n  %a = abs %y\n  \
             %v0 = literal f32 0.0\n"
            .to_owned();
        for (i, ((bound, f), value)) in bounds.iter().zip(values).enumerate() {
            let bound = bound + if i == moved { by } else { 0.0 };
            let (at, next) = (i, i + 1);
            nodes += &format!(
                "  %b{at} = literal f32 {bound:?}\n  %c{at} = {f} %a, %b{at}\n  %n{at} = literal f32 {value:?}\n  \
                 %v{next} = select %c{at}, %n{at}, %v{at}\n"
            );
        }
        nodes += "  %below = lt %y, %v0\n  %neg = neg %v7\n  %q = select %below, %neg, %v7\n";
        nodes += &format!("  %t = mul %q, {back}\n  %r = reshape %t {{shape = [s, 128]}}");
        names_of("%x: f32[s, 128], %g: f32[], %h: f32[s, 8, 1]", &nodes, "%r")
    };
    assert_eq!(made(9, 0.0, "%e"), ["quant.nvfp4"]);
    assert_eq!(made(9, 0.0, "%h"), ["quant.nvfp4"]);
    for moved in 0..bounds.len() {
        assert!(made(moved, 0.01, "%e").is_empty(), "{moved}");
    }
}

#[test]
fn lanes_quantised_side_by_side_are_groups() {
    let part = |i: i64, from: i64, to: i64| {
        format!(
            "%x{i} = slice %x {{axis = 1, start = {from}, end = {to}}}\n  \
             %q{i}, %s{i} = quantize_dynamic %x{i} {{bound = 448}}\n"
        )
    };
    let joined = "%q = cat %q0, %q1 {axis = 1}\n  %sc = cat %s0, %s1 {axis = 1}\n";
    let of = |parts: [String; 2]| names_of("%x: f32[s, 128]", &format!("{}{}{joined}", parts[0], parts[1]), "%q, %sc");
    assert_eq!(of([part(0, 0, 64), part(1, 64, 128)]), ["quant.fp8_group64"]);
    assert_eq!(of([part(0, 0, 32), part(1, 32, 64)]), ["quant.fp8_token"]);
}

#[test]
fn heads_are_groups_however_they_are_given() {
    let codes = "%q, %sc = quantize_dynamic %h {bound = 448}\n";
    let packed = format!("%h = reshape %x {{shape = [s, 4, 64]}}\n  {codes}");
    assert_eq!(names_of("%x: f32[s, 256]", &packed, "%q, %sc"), ["quant.fp8_group64"]);
    assert_eq!(names_of("%h: f32[s, 4, 64]", codes, "%q, %sc"), ["quant.fp8_group64"]);
    // Rows of rows are rows.
    assert_eq!(names_of("%h: f32[2, s, 64]", codes, "%q, %sc"), ["quant.fp8_token"]);
    assert_eq!(names_of("%h: f32[s, 1, 64]", codes, "%q, %sc"), ["quant.fp8_token"]);
}

#[test]
fn integers_that_wrap_are_no_codes() {
    let of = |inputs: &str, scale: &str, clamped: bool| {
        let bounds = codes("-128.0", "127.0", "i8");
        let wraps = "%q = cast %y {to = i8, round = trunc}\n";
        let whole = "%d = div %x, %sc\n  %y = round %d\n";
        names_of(inputs, &format!("{scale}{whole}{}", if clamped { &bounds } else { wraps }), "%q")
    };
    let given = "%x: f32[s, 64], %sc: f32[]";
    assert_eq!(of(given, "", true), ["quant.int8_static"]);
    assert!(of(given, "", false).is_empty());
    let dynamic = |largest: &str| format!("{MAGNITUDE}  %n = literal f32 {largest}\n  %sc = div %m, %n\n");
    assert_eq!(of("%x: f32[s, 64]", &dynamic("127.0"), false), ["quant.int8_token"]);
    assert!(of("%x: f32[s, 64]", &dynamic("128.0"), false).is_empty());
    assert_eq!(of("%x: f32[s, 64]", &dynamic("128.0"), true), ["quant.int8_token"]);
}

#[test]
fn a_scale_is_a_multiple_of_an_extreme() {
    let of = |magnitude: &str, scale: &str| {
        let quantise = format!("%y = div %x, %sc\n  {}", codes("-448.0", "448.0", "f8e4m3").replace("trunc", "rne"));
        names_of("%x: f32[s, 64]", &format!("{magnitude}  %n = literal f32 448.0\n  {scale}  {quantise}"), "%q, %sc")
    };
    let tensor = MAGNITUDE.replace("axes = [1]", "axes = [0, 1]");
    let multiple = "%sc = div %m, %n\n";
    let bounded = "%l = literal f32 0.0001\n  %o = div %m, %n\n  %sc = max %o, %l\n";
    let root = "%o = div %m, %n\n  %sc = sqrt %o\n";
    let square = "%o = div %m, %n\n  %sc = mul %o, %m\n";
    assert_eq!(of(MAGNITUDE, multiple), ["quant.fp8_token"]);
    assert_eq!(of(MAGNITUDE, bounded), ["quant.fp8_token"]);
    assert!(of(MAGNITUDE, root).is_empty());
    assert!(of(MAGNITUDE, square).is_empty());
    let shifted = |number: &str| format!("%e = literal f32 {number}\n  %o = add %m, %e\n  %sc = div %o, %n\n");
    assert_eq!(of(MAGNITUDE, &shifted("1e-6")), ["quant.fp8_token"]);
    assert!(of(MAGNITUDE, &shifted("1.0")).is_empty());
    assert!(of(MAGNITUDE, &shifted("1000.0")).is_empty());
    // In a kernel of its own.
    assert_eq!(of(&tensor, multiple), ["quant.fp8_tensor"]);
    assert!(of(&tensor, root).is_empty());
}

#[test]
fn scales_that_are_computed_of_other_elements_are_not_static() {
    let codes = codes("-448.0", "448.0", "f8e4m3").replace("trunc", "rne");
    let of = |quantised: &str, scale: &str| {
        let nodes = format!("{scale}  {quantised}\n  %y = div %v, %sc\n  {codes}");
        names_of("%x: f32[s, 64], %z: f32[s, 64], %g: f32[s, 1]", &nodes, "%q, %sc")
    };
    let dynamic = format!("{MAGNITUDE}  %n = literal f32 448.0\n  %sc = div %m, %n\n");
    let given = "%n = literal f32 448.0\n  %o = div %g, %n\n  %sc = abs %o\n";
    let (negative, twice) = ("%v = neg %x", "%two = literal f32 2.0\n  %v = mul %x, %two");
    assert_eq!(of(negative, &dynamic), ["quant.fp8_token"], "a sign does not change a magnitude");
    for quantised in [twice, "%v = mul %x, %x", "%v = neg %z"] {
        assert!(of(quantised, &dynamic).is_empty(), "{quantised}");
        assert_eq!(of(quantised, given), ["quant.fp8_static"], "{quantised}");
    }
    // Other reductions, and those of a kernel before.
    assert!(of(negative, &dynamic.replace("op = max", "op = add")).is_empty());
    let tensor = dynamic.replace("axes = [1]", "axes = [0, 1]");
    assert!(of(negative, &tensor.replace("op = max", "op = add")).is_empty());
    let second = "%abs = abs %x\n  %top, %at = top_k %abs {k = 2}\n  \
                  %m = slice %top {axis = 1, start = 1, end = 2}\n  %n = literal f32 448.0\n  %sc = div %m, %n\n";
    assert!(of(negative, second).is_empty());
}

#[test]
fn scales_that_a_kernel_before_made_of_parts_of_rows_have_no_name() {
    let over = |axes: &str| {
        let magnitude = MAGNITUDE.replace("[1]", axes);
        let scale = "%n = literal f32 448.0\n  %sc = div %m, %n\n  %y = div %x, %sc\n";
        let codes = codes("-448.0", "448.0", "f8e4m3").replace("trunc", "rne");
        names_of("%x: f32[s, 4, 64]", &format!("{magnitude}{scale}{codes}"), "%q, %sc")
    };
    assert_eq!(over("[0, 1]"), ["quant.fp8_channel"]);
    assert_eq!(over("[0, 1, 2]"), ["quant.fp8_tensor"]);
    assert!(over("[0, 2]").is_empty());
}

#[test]
fn lanes_that_were_in_another_order_are_a_row() {
    let of = |shape: &str, quantised: &str| {
        let nodes = format!(
            "%r = reshape %x {{shape = [s, 10, 3]}}\n  %p = permute %r {{perm = [0, 2, 1]}}\n  \
             %n = layer_norm %p, %w {{eps = 1e-6}}\n  %b = permute %n {{perm = [0, 2, 1]}}\n  \
             %y = reshape %b {{shape = {shape}}}\n  %q, %sc = quantize_dynamic {quantised} {{bound = 448}}"
        );
        names_of("%x: bf16[s, 30], %w: bf16[10]", &nodes, "%q, %sc")
    };
    assert_eq!(of("[s, 30]", "%y"), ["layer_norm.fp8_token"]);
    assert_eq!(of("[s, 30]", "%b"), ["layer_norm.fp8_group3"]);
}

#[test]
fn a_quantiser_beside_a_norm_is_not_named() {
    let of = |quantised: &str| {
        let nodes = format!(
            "%y = rms_norm %x, %w {{eps = 1e-6, round = once}}\n  %q, %sc = quantize_dynamic {quantised} {{bound = 448}}"
        );
        names_of("%x: bf16[s, 64], %w: bf16[64]", &nodes, "%y, %q, %sc")
    };
    assert_eq!(of("%y"), ["rms_norm.fp8_token"]);
    assert_eq!(of("%x"), ["rms_norm"]);
}

#[test]
fn codes_of_e2m1_may_be_counted_by_their_bounds() {
    let bounds = [(0.25, "gt"), (0.75, "ge"), (1.25, "gt"), (1.75, "ge"), (2.5, "gt"), (3.5, "ge"), (5.0, "gt")];
    let made = |moved: usize, sign: i64, y: &str| {
        let mut nodes = "%v = reshape %x {shape = [s, 4, 32]}\n  %abs = abs %v\n  \
             %m = reduce %abs {op = max, axes = [2]}\n  %six = literal f32 6.0\n  %r = div %m, %six\n  \
             %e = ue8m0_ceil %r\n  %d = div %v, %e\n  %zero = literal f32 0.0\n  %none = eq %m, %zero\n  "
            .to_owned();
        nodes += &format!("%y = {y}\n  %a = abs %y\n  %n0 = literal u8 0\n");
        for (i, (bound, f)) in bounds.iter().enumerate() {
            let bound = bound + if i == moved { 0.01 } else { 0.0 };
            let next = i + 1;
            nodes += &format!(
                "  %b{i} = literal f32 {bound:?}\n  %c{i} = {f} %a, %b{i}\n  \
                 %u{i} = cast %c{i} {{to = u8, round = rne}}\n  %n{next} = add %n{i}, %u{i}\n"
            );
        }
        nodes += &format!(
            "  %bits = bitcast %y {{to = i32}}\n  %i0 = literal i32 0\n  %below = lt %bits, %i0\n  \
             %minus = cast %below {{to = u8, round = rne}}\n  %by = literal u8 {sign}\n  %high = shl %minus, %by\n  \
             %code = or %n7, %high\n  %f = reshape %code {{shape = [s, 128]}}"
        );
        names_of("%x: f32[s, 128], %g: f32[s, 4, 32]", &nodes, "%f, %e")
    };
    for moved in 0..bounds.len() {
        assert!(made(moved, 3, "select %none, %zero, %d").is_empty(), "{moved}");
    }
    assert!(made(9, 2, "select %none, %zero, %d").is_empty());
    assert_eq!(made(9, 3, "select %none, %zero, %d"), ["quant.mxfp4"]);
    assert!(made(9, 3, "select %none, %zero, %g").is_empty());
}

#[test]
fn a_scale_that_is_divided_scales_nothing() {
    let made = |quotient: &str| {
        let nodes = format!(
            "%q = {quotient}\n  %least = literal f32 -448.0\n  %most = literal f32 448.0\n  %a = max %q, %least\n  \
             %b = min %a, %most\n  %c = cast %b {{to = f8e4m3, round = rne}}"
        );
        names_of("%x: f32[s, 128], %g: f32[]", &nodes, "%c")
    };
    assert_eq!(made("div %x, %g"), ["quant.fp8_static"]);
    assert!(made("div %g, %x").is_empty());
}
