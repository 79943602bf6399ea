//! Short rows, of which several run at once.

use xtask::pieces;

use super::support::check;

/// Rows whose numbers leave every remainder of a block, and none.
const ROWS: [i64; 8] = [0, 1, 7, 8, 9, 15, 16, 77];

fn check_rows(kernel: &str) {
    ROWS.iter().for_each(|&rows| check(kernel, &[("s", rows)]));
}

/// A row of `lanes`, widened from `dtype`, is computed by `body` from `%x` to `%y`, and stored in its own dtype.
fn row_of(dtype: &str, lanes: i64, body: &str) -> String {
    let (widen, narrow) = match dtype {
        "f32" => ("%x = bitcast %x0 to f32".to_owned(), "%y0 = bitcast %y to f32".to_owned()),
        _ => ("%x = cast %x0 to f32 rne".to_owned(), format!("%y0 = cast %y to {dtype} rne sat")),
    };
    format!(
        "kernel @k(s = extent(x, 0)) rows s {{
           param %x: {dtype}[s, {lanes}] in
           param %w: {dtype}[{lanes}] in
           param %c: f32[s] in
           param %y: {dtype}[s, {lanes}] out
           param %t: f32[s] out
           segment @m inner 1 {{
             %x0 = load x[row*{lanes} + lane] : row<{dtype}, {lanes}>
             {widen}
             {body}
             {narrow}
             store y[row*{lanes} + lane], %y0
             %last = reduce add %y over row nan propagate order tree(16)
             store t[row], %last
           }}
         }}"
    )
}

#[test]
fn reductions_of_every_kind() {
    for lanes in [1, 2, 5, 16, 17, 33] {
        for (op, nan) in
            [("add", "propagate"), ("mul", "propagate"), ("max", "propagate"), ("min", "ignore"), ("max", "ignore")]
        {
            for tree in ["tree(16)", "tree(4)", "tree(2, 3, 2)"] {
                let reduce = |of: &str| format!("reduce {op} {of} over row nan {nan} order {tree}");
                let body = format!(
                    "%a = {} %b = sub %x, %a %d = {} %y1 = mul %b, %d %e = {} %y2 = add %y1, %e %f = {} %y = mul %f, %y2",
                    reduce("%x"),
                    reduce("%b"),
                    reduce("%y1"),
                    reduce("%y2")
                );
                check(&row_of("f32", lanes, &body), &[("s", 19)]);
            }
        }
    }
}

#[test]
fn elements_of_every_width() {
    for dtype in ["f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i8", "u8", "i16", "i32"] {
        let body = "%w0 = load w[lane] : row<DTYPE, 6> %w = cast %w0 to f32 rne
             %c = load c[row] : scalar<f32>
             %g = reduce max %x over group 3 nan propagate order tree(16)
             %h = reduce add %x over group 4 nan propagate order tree(16)
             %a = sub %x, %g %b = mul %a, %h %d = add %b, %w %e = mul %d, %c
             %m = reduce max %e over row nan propagate order tree(16)
             %n = sub %e, %m
             %o = reduce add %n over group 2 nan propagate order tree(16)
             %y = add %n, %o";
        check_rows(&row_of(dtype, 6, &body.replace("DTYPE", dtype)));
    }
}

#[test]
fn lanes_that_change_places() {
    let body = "%a = slice %x start 0 len 6 step 1 %b = slice %x start 6 len 6 step 1
         %na = neg %a %r = cat %b, %na %z = zip %a, %b
         %even = slice %r start 0 len 6 step 2 %odd = slice %z start 1 len 6 step 2 %p = cat %even, %odd
         %g = reduce min %p over group 5 nan propagate order tree(16)
         %u = as_row %g %v = as_group %u lanes 12 size 5 %q = sub %p, %v
         %i = iota 12 %j = cast %i to f32 rne %k = mul %q, %j
         %one = broadcast %j to row<12>
         %m = reduce add %k over row nan propagate order tree(16)
         %f = broadcast %m to row<12> %l = lt %k, %f %y1 = select %l, %k, %one
         %m2 = reduce add %y1 over row nan propagate order tree(16) %y = sub %y1, %m2";
    check_rows(&row_of("f32", 12, body));
    check_rows(&row_of("bf16", 12, body));
}

/// Steps of a sum of narrow floats are rounded to them.
#[test]
fn sums_in_narrow_floats() {
    for dtype in ["bf16", "f16"] {
        for lanes in [3, 7, 12, 20] {
            let text = format!(
                "kernel @k(s = extent(x, 0)) rows s {{
                   param %x: {dtype}[s, {lanes}] in
                   param %y: {dtype}[s] out
                   param %z: {dtype}[s] out
                   segment @m inner 1 {{
                     %x = load x[row*{lanes} + lane] : row<{dtype}, {lanes}>
                     %y = reduce add %x over row nan propagate order tree(16)
                     %z = reduce max %x over row nan propagate order tree(4)
                     store y[row], %y
                     store z[row], %z
                   }}
                 }}"
            );
            check_rows(&text);
        }
    }
}

/// Rows that are gathered or written in place are computed one at a time.
#[test]
fn rows_that_are_not_alike() {
    let text = "kernel @k(s = extent(x, 0), n = extent(w, 0)) rows s {
       claim 1 <= n
       param %x: f32[s, 4] inout
       param %i: i32[s] in
       param %w: f32[n, 4] in
       segment @m inner 1 {
         %x = load x[row*4 + lane] : row<f32, 4>
         %i = load i[row] : scalar<i32>
         %j = cast %i to i64 rne
         %zero = literal i64 0
         %end = index n - 1
         %a = max %j, %zero
         %b = min %a, %end
         %w = load w[%b*4 + lane] : row<f32, 4>
         %p = mul %x, %w
         %t = reduce add %p over row nan propagate order tree(16)
         %q = sub %p, %t
         %u = reduce add %q over row nan propagate order tree(16)
         %y = div %q, %u
         store x[row*4 + lane], %y
       }
     }";
    for rows in ROWS {
        check(text, &[("s", rows), ("n", 3)]);
    }
}

/// The best elements and their lanes, of ties, NaNs and zeros of both signs too, and what is computed of them.
#[test]
fn searches_of_short_rows() {
    pieces::each(&["f32", "bf16", "f16", "f8e4m3", "i32", "i16", "u8", "i8"], |dtype| {
        for (lanes, count) in [(1, 1), (2, 2), (3, 1), (8, 2), (9, 4), (33, 3), (64, 4), (64, 8), (12, 9)] {
            check_rows(&searches(dtype, lanes, count, "store t[row*COUNT + lane], %i64"));
            // Arithmetic on integers of 64 bits is no vector of every compiler.
            if lanes < 10 {
                let wide = "%three = literal i64 3 %t = mul %i64, %three store t[row*COUNT + lane], %t";
                check_rows(&searches(dtype, lanes, count, wide));
            }
        }
    });
}

/// `wide` stores `%t`, of the indices in 64 bits.
fn searches(dtype: &str, lanes: i64, count: i64, wide: &str) -> String {
    let wide = wide.replace("COUNT", &count.to_string());
    format!(
        "kernel @k(s = extent(x, 0)) rows s {{
           param %x: {dtype}[s, {lanes}] in
           param %v: {dtype}[s, {count}] out
           param %i: i64[s, {count}] out
           param %m: {dtype}[s] out
           param %j: i32[s] out
           param %l: i64[s] out
           param %u: u8[s, {count}] out
           param %t: i64[s, {count}] out
           param %w: f32[s, {count}] out
           segment @m inner 1 {{
             %x = load x[row*{lanes} + lane] : row<{dtype}, {lanes}>
             %v, %i = top_k %x k {count}
             %i64 = cast %i to i64 rne
             store v[row*{count} + lane], %v
             store i[row*{count} + lane], %i64
             %u = cast %i64 to u8 rne
             store u[row*{count} + lane], %u
             {wide}
             %f = cast %v to f32 rne
             %sum = reduce add %f over row nan propagate order tree(16)
             %w = div %f, %sum
             store w[row*{count} + lane], %w
             %m, %j = arg_reduce max %x
             store m[row], %m
             store j[row], %j
             %n, %l = arg_reduce min %x
             %l64 = cast %l to i64 rne
             store l[row], %l64
           }}
         }}"
    )
}
