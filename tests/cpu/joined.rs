//! Rows that are joined of parts or turned, and what reads them besides.

use super::support::check;

/// Turns a row whose parts have so many lanes, and divides it by its sum and its largest.
fn turned(first: i64, second: i64, inner: i64, in_place: bool) -> String {
    let d = first + second;
    let (access, out, to) = if in_place {
        ("inout", String::new(), "x")
    } else {
        ("in", format!("param %y: bf16[s, {inner}, {d}] out"), "y")
    };
    let lanes = format!("inner*{d} + row*{}", inner * d);
    format!(
        "kernel @turned(s = extent(x, 0)) rows s {{
           param %x: bf16[s, {inner}, {d}] {access}
           param %c: bf16[s, {d}] in
           {out}
           segment @m inner {inner} {{
             %x0 = load x[{lanes} + lane] : row<bf16, {d}>
             %x = cast %x0 to f32 rne
             %head = slice %x start 0 len {first} step 1
             %tail = slice %x start {first} len {second} step 1
             %minus = neg %tail
             %joined = cat %minus, %head
             %c0 = load c[row*{d} + lane] : row<bf16, {d}>
             %c = cast %c0 to f32 rne
             %scaled = mul %joined, %c
             %short = cast %scaled to bf16 rne
             %wide = cast %short to f32 rne
             %sum = reduce add %wide over row nan propagate order tree(16)
             %most = reduce max %joined over row nan propagate order tree(16)
             %by = add %sum, %most
             %q = div %wide, %by
             %q0 = cast %q to bf16 rne
             store {to}[{lanes} + lane], %q0
           }}
         }}"
    )
}

#[test]
fn joined_rows_that_are_reduced() {
    for (first, second) in [
        (8, 8),
        (5, 11),
        (1, 1),
        (16, 16),
        (20, 20),
        (64, 64),
        (1, 127),
        (37, 37),
        (100, 28),
        (2050, 1022),
        (6000, 7000),
    ] {
        for inner in [1, 3] {
            // In place it is read before it is overwritten, as far as there is memory for it.
            check(&turned(first, second, inner, false), &[("s", 3)]);
            if first + second < 6000 {
                check(&turned(first, second, inner, true), &[("s", 3)]);
            }
        }
    }
}

#[test]
fn groups_of_joined_rows() {
    for (part, size) in [(16, 16), (64, 32), (24, 16), (64, 128)] {
        let (d, groups) = (2 * part, 2 * part / size);
        check(
            &format!(
                "kernel @groups(s = extent(x, 0)) rows s {{
                   param %x: f32[s, {d}] in
                   param %y: f32[s, {d}] out
                   param %g: f32[s, {groups}] out
                   segment @m inner 1 {{
                     %a = load x[row*{d} + lane + {part}] : row<f32, {part}>
                     %b = load x[row*{d} + lane] : row<f32, {part}>
                     %n = neg %a
                     %root = sqrt %b
                     %joined = cat %n, %root
                     %most = reduce max %joined over group {size} nan propagate order tree(16)
                     %y = div %joined, %most
                     store y[row*{d} + lane], %y
                     store g[row*{groups} + lane], %most
                   }}
                 }}"
            ),
            &[("s", 3)],
        );
    }
}

#[test]
fn neighbours_of_computed_rows_are_turned() {
    for d in [2, 4, 8, 12, 16, 18, 32, 62, 64, 66, 128, 250] {
        let half = d / 2;
        check(
            &format!(
                "kernel @neighbours(s = extent(x, 0)) rows s {{
                   param %x: bf16[s, 2, {d}] in
                   param %c: bf16[s, {d}] in
                   param %y: bf16[s, 2, {d}] out
                   segment @m inner 2 {{
                     %x0 = load x[row*{} + inner*{d} + lane] : row<bf16, {d}>
                     %x = cast %x0 to f32 rne
                     %sum = reduce add %x over row nan propagate order tree(16)
                     %norm = mul %x, %sum
                     %short = cast %norm to bf16 rne
                     %wide = cast %short to f32 rne
                     %even = slice %wide start 0 len {half} step 2
                     %odd = slice %wide start 1 len {half} step 2
                     %minus = neg %odd
                     %turned = zip %minus, %even
                     %c0 = load c[row*{d} + lane] : row<bf16, {d}>
                     %c = cast %c0 to f32 rne
                     %p = mul %turned, %c
                     %z = add %wide, %p
                     %z0 = cast %z to bf16 rne
                     store y[row*{} + inner*{d} + lane], %z0
                   }}
                 }}",
                2 * d,
                2 * d
            ),
            &[("s", 3)],
        );
    }
}

/// What a bf16 holds is not rounded to one: every form in which such a value comes.
#[test]
fn values_that_are_bf16_stay_what_they_are() {
    for (dtype, make) in [
        ("bf16", "neg %f"),
        ("bf16", "abs %f"),
        ("i8", "neg %f"),
        ("u8", "neg %f"),
        ("f8e4m3", "neg %f"),
        ("f8e5m2", "abs %f"),
        ("f16", "neg %f"),
        ("f32", "neg %f"),
    ] {
        for d in [7, 64] {
            check(
                &format!(
                    "kernel @short(s = extent(x, 0)) rows s {{
                       param %x: {dtype}[s, {d}] in
                       param %y: bf16[s, {d}] out
                       segment @m inner 1 {{
                         %x = load x[row*{d} + lane] : row<{dtype}, {d}>
                         %f = cast %x to f32 rne
                         %v = {make}
                         %y = cast %v to bf16 rne
                         store y[row*{d} + lane], %y
                       }}
                     }}"
                ),
                &[("s", 40)],
            );
        }
    }
}
