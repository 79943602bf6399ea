//! Every rule of the verifier fires on a kernel that breaks it.

use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal};

use super::verify;
use crate::kernel::{DimOrigin, InstOp, Kernel, Order, ParamId, Shape, Tree, Ty, Val};

const BASE: &str = "kernel @k(s = extent(x, 0)) rows s {
  param %x: f32[s, 64] in
  param %i: i32[s] in
  param %w: f32[64] in
  param %y: f32[s, 64] out
  segment @m inner 1 {
    %0 = load x[lane + row*64] : row<f32, 64>
    %1 = load i[row] : scalar<i32>
    store y[lane + row*64], %0
  }
}
";

/// Replaces text in the valid kernel, parses it and expects the one message.
fn refused(from: &str, to: &str, message: &str) {
    assert!(BASE.contains(from), "{from}");
    let kernel: Kernel = BASE.replacen(from, to, 1).parse().unwrap_or_else(|e| panic!("{e}"));
    expect_one(&kernel, message);
}

fn expect_one(kernel: &Kernel, message: &str) {
    let error = verify(kernel).expect_err(message);
    assert_eq!(error.violations.len(), 1, "{error}");
    let text = error.to_string();
    assert!(text.contains(message), "expected {message:?} in:\n{text}");
}

fn changed(change: impl FnOnce(&mut Kernel)) -> Kernel {
    let mut kernel: Kernel = BASE.parse().expect("the base parses");
    verify(&kernel).expect("the base is valid");
    change(&mut kernel);
    kernel
}

const LOAD_I: &str = "%1 = load i[row] : scalar<i32>";
const STORE: &str = "store y[lane + row*64], %0";

#[test]
fn names() {
    refused("kernel @k", "kernel @k.1", "its name is not an identifier");
    refused("segment @m", "segment @\"m n\"", "its name is not an identifier");
    refused("param %w", "param %x", "its name is used twice");
    refused("param %w", "param %s", "its name is used twice");
    refused("param %w", "param %lane", "reserved symbol");
    refused("extent(x, 0)", "extent(x, 0), inner", "reserved symbol");
    let empty = "kernel @k() rows 1 { }".parse().expect("parses");
    expect_one(&empty, "it has no segment");
    let twice = "kernel @k() rows 1 { segment @a inner 1 { } segment @a inner 1 { } }".parse().expect("parses");
    expect_one(&twice, "its name is used twice");
}

#[test]
fn dims_and_extents() {
    refused("extent(x, 0)", "extent(x, 2)", "parameter 0 has no axis 2");
    refused("extent(x, 0)", "extent(x, 0), t = stride(w, 1)", "parameter 2 has no axis 1");
    refused("extent(x, 0)", "extent(x, 0), t = extent(w, 0)", "it is the extent of an axis of extent 64");
    expect_one(&changed(|k| k.dims[0].origin = DimOrigin::Stride(ParamId(9), 0)), "parameter 9 has no axis 0");
    refused("w: f32[64]", "w: f32[n]", "mentions `n`, which is not a dim");
    refused("w: f32[64]", "w: f32[-1]", "an extent is -1");
    refused("rows s", "rows row", "the row count mentions `row`");
    refused("inner 1", "inner -1", "the inner row count is -1");
}

#[test]
fn params() {
    refused("out\n", "out alias(%y)\n", "it aliases itself");
    refused("out\n", "out alias(%w)\n", "aliases f32[64]");
    expect_one(&changed(|k| k.params[3].alias = Some(ParamId(7))), "aliases parameter 7");
    refused("out\n", "out early\n", "`early` but not read");
    refused("out\n", "out donated\n", "`donated` but not read");
    refused("  segment", "  param %z: f32[s] out\n  segment", "`out` but never stored");
}

#[test]
fn values_and_types() {
    expect_one(&changed(|k| k.segments[0].insts[2].args[0] = Val(2)), "%2 is not defined before");
    expect_one(&changed(|k| k.segments[0].insts[1].results[0] = Val(4)), "not numbered from %1");
    expect_one(&changed(|k| k.segments[0].insts[1].results.clear()), "not numbered from %1");
    expect_one(&changed(|k| k.segments[0].types[0].dtype = DType::F16), "recorded is row<f16, 64>");
    expect_one(&changed(|k| k.segments[0].types.push(Ty::scalar(DType::I8))), "3 types for 2 values");
    expect_one(&changed(|k| k.segments[0].insts[2].args[0] = Val(1)), "scalar<i32> into f32");
    expect_one(&changed(|k| k.segments[0].insts[2].args.push(Val(1))), "the predicate is scalar<i32>");
    let arg = |k: &mut Kernel| {
        k.segments[0].insts[1].op = InstOp::ArgReduce(fusewright_graph::ReduceOp::Add);
        k.segments[0].insts[1].args = vec![Val(0)];
    };
    expect_one(&changed(arg), "no lane of `add`");
}

#[test]
fn symbols_in_indices() {
    refused("load i[row]", "load i[row + n]", "`n` is not a dim");
    refused("load i[row]", "load i[lane]", "`lane` in the index of a scalar");
    refused(LOAD_I, "%1 = load w[%0] : row<f32, 64>", "%0 is row<f32, 64>, not an integer scalar");
    refused(LOAD_I, "%1 = load w[0] : scalar<f32>\n%2 = index %1", "%1 is scalar<f32>, not an integer scalar");
    let ahead = |k: &mut Kernel| k.segments[0].insts[1].op = InstOp::Index(Val(1).symbol());
    let mut kernel = changed(ahead);
    kernel.segments[0].types[1] = Ty::scalar(DType::I64);
    expect_one(&kernel, "%1 is not defined before");
    refused(LOAD_I, "%1 = iota row", "the lane count mentions `row`");
    refused(LOAD_I, "%1 = slice %0 start row len 1 step 1", "the first lane mentions `row`");
}

#[test]
fn memory() {
    refused("load x[lane + row*64]", "load y[lane + row*64]", "loads an `out` parameter");
    refused(LOAD_I, "store x[lane + row*64], %0", "stores to an `in` parameter");
    refused(STORE, "store y[lane], %0", "every `row` of s writes the same elements");
    refused("inner 1", "inner 2", "every `inner` of 2 writes the same elements");
    let nothing =
        BASE.replace("y[lane + row*64]", "y[lane]").replace("[s, 64]", "[s, 0]").replace("f32, 64>", "f32, 0>");
    let nothing: Kernel = nothing.parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(verify(&nothing), Ok(()), "rows without lanes write nothing");
    refused(LOAD_I, "%1 = load w[lane + 1] : row<f32, 64>", "no element behind %w[64] is touched");
    refused(LOAD_I, "%1 = load w[lane - 1] : row<f32, 64>", "no element ahead of %w is touched");
    refused(LOAD_I, "%1 = load w[63 - lane*2] : row<f32, 33>", "no element ahead of %w is touched");
    // A predicate may keep both in range.
    let fine = BASE.replacen(LOAD_I, "%1 = literal bool false\n%2 = load w[64] : scalar<f32> if %1 else 0.0", 1);
    assert_eq!(verify(&fine.parse().expect("parses")), Ok(()));
    let fine =
        BASE.replacen("inner 1", "inner 2", 1).replacen(STORE, "%2 = literal bool true\n store y[lane], %0 if %2", 1);
    assert_eq!(verify(&fine.parse().expect("parses")), Ok(()));
}

#[test]
fn parts_of_instructions() {
    let literal = |l: Literal| {
        changed(|k| (k.segments[0].insts[1].op, k.segments[0].types[1]) = (InstOp::Literal(l), Ty::scalar(l.dtype())))
    };
    for bad in
        [Literal::Float(DType::BF16, 0.1), Literal::Float(DType::F4E2M1, f64::NAN), Literal::Float(DType::I8, 1.0)]
    {
        expect_one(&literal(bad), "is no value of its dtype");
    }
    for bad in [Literal::Int(DType::Bool, 2), Literal::Int(DType::U8, -1), Literal::Int(DType::F32, 1)] {
        expect_one(&literal(bad), "is no value of its dtype");
    }
    assert_eq!(verify(&literal(Literal::Int(DType::U64, -1))), Ok(()));
    let order = |tree: Tree| {
        changed(|k| {
            let (over, nan) = (crate::kernel::Over::Row, fusewright_graph::NanRule::Propagate);
            let op = InstOp::Reduce { op: fusewright_graph::ReduceOp::Add, over, nan, order: Order::Tree(tree) };
            k.segments[0].insts[1].op = op;
            k.segments[0].insts[1].args = vec![Val(0)];
            k.segments[0].types[1] = Ty::scalar(DType::F32);
        })
    };
    for (vec, threads, ways) in
        [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1 << 10, 1 << 10), (u32::MAX, 1, 1), (1, u32::MAX, 2)]
    {
        expect_one(&order(Tree { vec, threads, ways }), "are not in 1..=65536");
    }
    let bools = format!("{LOAD_I}\n%2 = lt %0, %0\n%3 = reduce max %2 over row nan ignore order tree(1)");
    refused(LOAD_I, &bools, "runs over booleans");
    refused(LOAD_I, "%1 = reduce add %0 over group 0 nan ignore order tree(1)", "the group size is 0");
    refused(LOAD_I, "%1 = iota -1", "the lane count is -1");
    refused(LOAD_I, "%1 = iota 4294967296", "4294967296 lanes");
    let group = Shape::Group { lanes: Dim::constant(64), size: Dim::constant(-4) };
    let broadcast = |k: &mut Kernel| {
        k.segments[0].insts[1].op = InstOp::Broadcast(group.clone());
        k.segments[0].insts[1].args = vec![Val(1)];
    };
    let mut kernel = changed(broadcast);
    kernel.segments[0].insts.insert(1, changed(|_| ()).segments[0].insts[1].clone());
    kernel.segments[0].insts[2].results = vec![Val(2)];
    kernel.segments[0].types.push(Ty { dtype: DType::I32, shape: group });
    expect_one(&kernel, "the group size is -4");
}

#[test]
fn every_violation_is_reported() {
    let text = BASE.replacen("w: f32[64]", "w: f32[n]", 1).replacen("rows s", "rows t", 1);
    let text = text.replacen("load i[row]", "load i[row + m]", 1);
    let error = verify(&text.parse().expect("parses")).expect_err("three violations");
    assert_eq!(error.violations.len(), 3, "{error}");
}

/// A kernel over rows of three tensors; `BODY` is its only segment's.
const PLACES: &str = "kernel @k(m = extent(k, 0), s = extent(x, 0), t = extent(table, 0)) rows s*4 {
  CLAIM
  param %x: f32[s, 4, 20] in
  param %k: f32[m] in
  param %table: f32[t, 32] in
  param %i: i64[s, 4] in
  param %y: f32[s, 4, 32] out
  segment @m inner 1 {
    BODY
    %z = literal f32 0.0
    %zs = broadcast %z to row<32>
    store y[lane + row*32], %zs
  }
}
";

/// Verifies [`PLACES`] with a claim and with instructions in its segment.
fn takes(claim: &str, body: &str) -> Result<(), String> {
    let count = body.lines().filter(|line| line.contains(" = ")).count();
    let text = PLACES.replace("CLAIM", claim).replace("BODY", body);
    let text = text.replace("%zs", &format!("%{}", count + 1)).replace("%z", &format!("%{count}"));
    let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&kernel).map_err(|e| e.to_string())
}

#[test]
fn an_access_is_proven_or_refused() {
    let safe: [(&str, &str); 16] = [
        ("", "%0 = load x[lane + row*20] : row<f32, 20>"),
        ("", "%0 = load x[floordiv(row, 4)*80 + mod(row, 4)*20 + lane] : row<f32, 20>"),
        ("", "%0 = load x[floordiv(row, 4)*80 + mod(row, 4) + lane*4] : row<f32, 20>"),
        ("", "%0 = load x[floordiv(row, 4)*80 + mod(row, 2)*40 + mod(lane, 8) + floordiv(lane, 8)*8] : row<f32, 40>"),
        // Lanes are there only if 80 − 2m is 1 or more, which says of integers that 40 − m is.
        ("", "%0 = load x[floordiv(lane, 40 - m)*40 + mod(lane, 40 - m) + m] : row<f32, 80 - m*2>"),
        // Of integers, 4t ≤ 79 says that 4t + 3 ≤ 79.
        ("claim m + t*4 <= 79", "%0 = load x[t*4 + 3] : scalar<f32>"),
        ("claim m <= 3\n  claim t*4 <= m + 76", "%0 = load x[t*4 + 3] : scalar<f32>"),
        ("", "%0 = load k[lane] : row<f32, m>"),
        ("", "%0 = load k[m - 1 - lane] : row<f32, m>"),
        ("claim m <= 20", "%0 = load x[lane + row*20] : row<f32, m>"),
        // What the graph keeps within the table, and lowering once more.
        (
            "claim 1 <= t",
            "%0 = load i[row] : scalar<i64>
    %1 = literal i64 -1
    %2 = max %0, %1
    %3 = index t - 1
    %4 = min %2, %3
    %5 = literal i64 0
    %6 = max %4, %5
    %7 = min %6, %3
    %8 = eq %4, %7
    %9 = load table[%7*32 + lane] : row<f32, 32> if %8 else 0.0",
        ),
        (
            "claim 1 <= t",
            "%0 = load i[row] : scalar<i64>
    %1 = literal i64 0
    %2 = max %0, %1
    %3 = index t - 1
    %4 = min %2, %3
    %5 = load table[%4*32 + lane] : row<f32, 32>",
        ),
        (
            "",
            "%0 = load i[row] : scalar<i64>
    %1 = literal i64 0
    %2 = ge %0, %1
    %3 = index t
    %4 = lt %0, %3
    %5 = and %2, %4
    %6 = load table[%0*32 + lane] : row<f32, 32> if %5 else 0.0",
        ),
        (
            "",
            "%0 = iota 32
    %1 = literal i32 20
    %2 = lt %0, %1
    %3 = load x[row*20 + lane] : row<f32, 32> if %2 else 0.0",
        ),
        (
            "",
            "%0 = index mod(row, 4)*8
    %1 = index 25
    %2 = lt %0, %1
    %3 = load x[floordiv(row, 4)*80 + mod(row, 4)*8 + lane] : row<f32, 8> if %2 else 0.0",
        ),
        (
            "claim m <= 12",
            "%0 = load x[lane + row*20] : row<f32, 20>
    %1 = slice %0 start 8 len m step 1",
        ),
    ];
    for (claim, body) in safe {
        assert_eq!(takes(claim, body), Ok(()), "{claim}\n{body}");
    }
    let unsafe_or_unknown: [(&str, &str, &str); 16] = [
        ("", "%0 = load x[row + row*20] : scalar<f32>", "behind"),
        ("", "%0 = load x[lane + row*20 + 1] : row<f32, 20>", "behind"),
        ("", "%0 = load x[lane + row*20 - 1] : row<f32, 20>", "ahead"),
        ("", "%0 = load x[lane + row*21] : row<f32, 20>", "behind"),
        ("", "%0 = load x[floordiv(row, 4)*80 + mod(row, 5)*20 + lane] : row<f32, 20>", "behind"),
        ("", "%0 = load x[floordiv(lane, 40 - m)*40 + mod(lane, 40 - m) + m + 1] : row<f32, 80 - m*2>", "behind"),
        ("claim m + t*4 <= 80", "%0 = load x[t*4 + 3] : scalar<f32>", "behind"),
        ("claim m <= 4\n  claim t*4 <= m + 76", "%0 = load x[t*4 + 3] : scalar<f32>", "behind"),
        ("", "%0 = load k[0] : scalar<f32>", "behind"),
        ("claim m <= 21", "%0 = load x[lane + row*20] : row<f32, m>", "behind"),
        ("", "%0 = load x[lane + row*20] : row<f32, m>", "behind"),
        (
            "",
            "%0 = load i[row] : scalar<i64>
    %1 = load table[%0*32 + lane] : row<f32, 32>",
            "ahead",
        ),
        // The index is in range of its own type only.
        (
            "claim 1 <= t",
            "%0 = load i[row] : scalar<i64>
    %1 = literal i64 0
    %2 = max %0, %1
    %3 = index t
    %4 = min %2, %3
    %5 = load table[%4*32 + lane] : row<f32, 32>",
            "behind",
        ),
        // The row's number where the lane's is meant.
        (
            "",
            "%0 = index mod(row, 4)
    %1 = literal i64 20
    %2 = lt %0, %1
    %3 = load x[row*20 + lane] : row<f32, 32> if %2 else 0.0",
            "behind",
        ),
        (
            "",
            "%0 = iota 32
    %1 = literal i32 21
    %2 = lt %0, %1
    %3 = load x[row*20 + lane] : row<f32, 32> if %2 else 0.0",
            "behind",
        ),
        (
            "",
            "%0 = load x[lane + row*20] : row<f32, 20>
    %1 = slice %0 start 8 len m step 1",
            "lanes that are taken",
        ),
    ];
    for (claim, body, message) in unsafe_or_unknown {
        let error = takes(claim, body).expect_err(body);
        assert!(error.contains(message), "expected {message:?} in {error}");
    }
}
