//! Wide rows cut into parts, each an outer row of its own.
//!
//! Threads of a CPU are handed outer rows, so that one token's row is one thread's. Where nothing but groups that a part
//! holds whole is computed across lanes, `p` parts of a row are rows like others: `row` becomes `row / p`, and lanes, or inner
//! rows where there are several, count on from where part `row mod p` begins. No value changes.

use std::collections::BTreeSet;

use fusewright_graph::Dim;
use fusewright_graph::dim::DimFn;

use super::simplify::gathered;
use super::{INNER, InstOp, Kernel, LANE, Level, Over, ParamId, ROW, Segment, Shape, Ty, Val};

/// Least lanes of a part. What a row costs before its first lane and behind its last is then less than can be measured.
const LEAST: i64 = 2048;
/// What the lanes of a part are a multiple of: no loop has a rest that the whole row's has not, and no two parts share a line
/// of memory that both write, if rows begin with one.
const MULTIPLE: i64 = 128;

/// Why rows stay whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whole {
    /// Several segments, whose rows have lanes of their own.
    Segments,
    /// Lanes, inner rows or groups whose number is not known.
    Unknown,
    /// Too few lanes, or lanes that no number of parts divides.
    Few,
    /// An instruction that needs lanes of other parts, or their numbers.
    Across,
    /// A scalar of the whole row is stored, which every part would write.
    Scalar,
    /// A place that a value chooses, of which several rows may choose the same.
    Chosen,
    /// Memory that is overwritten and also read elsewhere than where it is written.
    Overwritten,
    /// What is computed once for all parts would be computed for each.
    Shared,
    /// Elements of which two share a byte.
    Packed,
}

/// The kernel with its rows cut, or why they are not.
///
/// # Errors
/// None that matter: the kernel is right as it is.
pub(crate) fn cut_rows(kernel: &Kernel) -> Result<Kernel, Whole> {
    let [segment] = kernel.segments.as_slice() else { return Err(Whole::Segments) };
    let inner = segment.inner.as_const().ok_or(Whole::Unknown)?;
    let parts = if inner > 1 { parts_of_inner(segment, inner)? } else { parts_of_lanes(segment)? };
    stores(kernel, segment)?;
    let cut = Cut { parts, inner: (inner > 1).then(|| segment.inner.clone()) };
    Ok(Kernel { rows: &kernel.rows * &Dim::constant(parts), segments: vec![cut.segment(segment)], ..kernel.clone() })
}

/// Into how many parts `count` units of `lanes` lanes go, of which each has enough: the most powers of two, by which a row is
/// divided in no time, or else the most.
fn most(count: i64, lanes: i64, fits: impl Fn(i64) -> bool) -> Result<i64, Whole> {
    let most = (count.saturating_mul(lanes) / LEAST).min(count);
    let all = || (2..=most).rev().filter(|&p| count % p == 0 && fits(p));
    all().find(|p| p & (p - 1) == 0).or_else(|| all().next()).ok_or(Whole::Few)
}

/// Into how many parts inner rows go.
fn parts_of_inner(segment: &Segment, inner: i64) -> Result<i64, Whole> {
    let lanes = lanes(segment)?.into_iter().max().ok_or(Whole::Few)?;
    let levels = segment.levels();
    let shared = segment.insts.iter().any(|inst| {
        inst.results.iter().any(|v| {
            let row = segment.ty(*v).shape != Shape::Scalar && matches!(inst.op, InstOp::Map(_));
            levels[v.0 as usize] < Level::Inner && (row || inst.op.combines_lanes())
        })
    });
    if shared { Err(Whole::Shared) } else { most(inner, lanes, |_| true) }
}

/// Into how many parts the lanes of the only inner row go.
fn parts_of_lanes(segment: &Segment) -> Result<i64, Whole> {
    // Lanes, and how many of them stay together.
    let mut units = Vec::new();
    let known = |dim: &Dim| dim.as_const().ok_or(Whole::Unknown);
    let levels = segment.levels();
    for inst in &segment.insts {
        match &inst.op {
            InstOp::Literal(_) | InstOp::Index(_) | InstOp::Load { .. } | InstOp::Map(_) => {}
            InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Zip | InstOp::Broadcast(_) | InstOp::AsRow => {}
            InstOp::Pack { ways, .. } => {
                units.push((known(&segment.ty(inst.args[0]).shape.elements())?, i64::from(*ways)));
            }
            // The result says which lanes.
            InstOp::AsGroup { .. } | InstOp::Reduce { over: Over::Group(_), .. } => {}
            InstOp::Store { .. } if segment.ty(inst.args[0]).shape == Shape::Scalar => return Err(Whole::Scalar),
            InstOp::Store { .. } => {}
            InstOp::Iota(_) | InstOp::Reduce { over: Over::Row, .. } | InstOp::ArgReduce(_) => {
                return Err(Whole::Across);
            }
            InstOp::TopK { .. } | InstOp::Slice { .. } | InstOp::Cat => return Err(Whole::Across),
        }
        let of_all = |v: &Val| levels[v.0 as usize] == Level::Kernel && segment.ty(*v).shape != Shape::Scalar;
        if matches!(inst.op, InstOp::Map(_) | InstOp::Reduce { .. }) && inst.results.iter().any(of_all) {
            return Err(Whole::Shared);
        }
    }
    for ty in &segment.types {
        if let Shape::Group { lanes, size } = &ty.shape {
            units.push((known(lanes)?, known(size)?));
        }
    }
    let all = lanes(segment)?;
    let lanes = all.iter().copied().max().ok_or(Whole::Few)?;
    let whole = |p: i64| units.iter().all(|&(n, size)| n % p == 0 && size > 0 && (n / p) % size == 0);
    let fits = |p: i64| (lanes / p) % MULTIPLE == 0 && whole(p) && all.iter().all(|n| n % p == 0);
    most(lanes, 1, fits)
}

/// The lanes of all rows.
fn lanes(segment: &Segment) -> Result<BTreeSet<i64>, Whole> {
    let shapes = segment.types.iter().filter_map(|ty| match &ty.shape {
        Shape::Scalar => None,
        Shape::Row(lanes) | Shape::Group { lanes, .. } => Some(lanes.as_const().ok_or(Whole::Unknown)),
    });
    shapes.collect()
}

/// Refuses stores that parts of a row may not do at once.
fn stores(kernel: &Kernel, segment: &Segment) -> Result<(), Whole> {
    let same = |a: ParamId, b: ParamId| a == b || kernel.param(a).alias == Some(b) || kernel.param(b).alias == Some(a);
    for store in &segment.insts {
        let InstOp::Store { param: to, index: written, .. } = &store.op else { continue };
        if kernel.param(*to).dtype.bits() < 8 {
            return Err(Whole::Packed);
        }
        if gathered(&store.op).next().is_some() {
            return Err(Whole::Chosen);
        }
        for load in &segment.insts {
            let InstOp::Load { param, index, shape, .. } = &load.op else { continue };
            let own = index == written && *shape == segment.ty(store.args[0]).shape;
            if same(*param, *to) && !own {
                return Err(Whole::Overwritten);
            }
        }
    }
    Ok(())
}

/// Rows in so many parts of their inner rows, or of their lanes.
struct Cut {
    parts: i64,
    /// The whole row's inner rows, if it is these that go into parts.
    inner: Option<Dim>,
}

impl Cut {
    fn segment(&self, segment: &Segment) -> Segment {
        let inner = self.inner.as_ref().map_or_else(|| segment.inner.clone(), |inner| self.part_of(inner));
        let types = segment.types.iter().map(|ty| Ty { shape: self.shape(&ty.shape), ..ty.clone() }).collect();
        let mut insts = segment.insts.clone();
        for inst in &mut insts {
            let stored = inst.args.first().map(|v| segment.ty(*v).shape.clone());
            match &mut inst.op {
                InstOp::Index(index) => *index = self.index(index, &Shape::Scalar),
                InstOp::Store { index, .. } => *index = self.index(index, &stored.unwrap_or(Shape::Scalar)),
                InstOp::Load { index, shape, .. } => {
                    *index = self.index(index, shape);
                    *shape = self.shape(shape);
                }
                InstOp::Broadcast(shape) => *shape = self.shape(shape),
                InstOp::AsGroup { lanes, .. } if self.inner.is_none() => *lanes = self.part_of(lanes),
                _ => {}
            }
        }
        Segment { name: segment.name.clone(), inner, insts, types }
    }

    fn part_of(&self, count: &Dim) -> Dim {
        Dim::function(DimFn::FloorDiv, count, &Dim::constant(self.parts))
    }

    fn shape(&self, shape: &Shape) -> Shape {
        match shape {
            Shape::Row(lanes) if self.inner.is_none() => Shape::Row(self.part_of(lanes)),
            Shape::Group { lanes, size } if self.inner.is_none() => {
                Shape::Group { lanes: self.part_of(lanes), size: size.clone() }
            }
            shape => shape.clone(),
        }
    }

    /// The index of the whole row's element that is the part's, for a value that had this shape.
    fn index(&self, index: &Dim, shape: &Shape) -> Dim {
        let (row, parts) = (Dim::symbol(ROW), Dim::constant(self.parts));
        let part = Dim::function(DimFn::Mod, &row, &parts);
        let on = |symbol: &str, count: &Dim| &Dim::symbol(symbol) + &(&part * &self.part_of(count));
        index.substitute(&|name| match name {
            ROW => Some(Dim::function(DimFn::FloorDiv, &row, &parts)),
            INNER => self.inner.as_ref().map(|inner| on(INNER, inner)),
            LANE if self.inner.is_none() => Some(on(LANE, &shape.elements())),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(params: &str, segment: &str) -> Kernel {
        let text = format!("kernel @k(s = extent(x, 0)) rows s {{ {params} {segment} }}");
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
        crate::kernel::verify(&kernel).unwrap_or_else(|e| panic!("{e}"));
        kernel
    }

    fn lines(kernel: &Kernel) -> Vec<String> {
        let cut = cut_rows(kernel).unwrap_or_else(|why| panic!("{why:?}: {kernel}"));
        crate::kernel::verify(&cut).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(cut_rows(&cut), Err(Whole::Few), "parts stay as they are");
        cut.to_string()
            .lines()
            .map(str::trim)
            .filter(|l| !l.starts_with("param") && l.len() > 1)
            .map(str::to_owned)
            .collect()
    }

    /// Why rows of 8192 lanes stay whole.
    fn whole(params: &str, insts: &str) -> Result<(), Whole> {
        let x = "param %x: f32[s, 8192] in";
        let load = "%0 = load x[lane + row*8192] : row<f32, 8192>";
        cut_rows(&kernel(&format!("{x} {params}"), &format!("segment @r inner 1 {{ {load} {insts} }}"))).map(|_| ())
    }

    const Y: &str = "param %y: f32[s, 8192] out";
    const STORE: &str = "store y[lane + row*8192], %0";

    #[test]
    fn lanes_count_on_from_where_a_part_begins() {
        let params =
            "param %x: f32[s, 24576] in param %m: f32[s] in param %b: f32[12288] in param %y: f32[s, 12288] out";
        let kernel = kernel(
            params,
            "segment @r inner 1 { %0 = load x[lane + row*24576] : row<f32, 12288>
             %1 = load x[lane + row*24576 + 12288] : row<f32, 12288> %2 = load b[lane] : row<f32, 12288>
             %3 = load m[row] : scalar<f32> %4 = fma %0, %1, %2 %5 = mul %4, %3 store y[lane + row*12288], %5 }",
        );
        let expected = [
            "kernel @k(s = extent(x, 0)) rows s*4 {",
            "segment @r inner 1 {",
            "%0 = load x[lane + floordiv(row, 4)*24576 + mod(row, 4)*3072] : row<f32, 3072>",
            "%1 = load x[lane + floordiv(row, 4)*24576 + mod(row, 4)*3072 + 12288] : row<f32, 3072>",
            "%2 = load b[lane + mod(row, 4)*3072] : row<f32, 3072>",
            "%3 = load m[floordiv(row, 4)] : scalar<f32>",
            "%4 = fma %0, %1, %2",
            "%5 = mul %4, %3",
            "store y[lane + row*3072], %5",
        ];
        assert_eq!(lines(&kernel), expected);
    }

    #[test]
    fn groups_and_packed_lanes_stay_together() {
        let params = "param %x: u8[s, 8192] in param %q: u32[s, 2048] out param %g: u8[s, 64] out";
        let kernel = kernel(
            params,
            "segment @r inner 1 { %0 = load x[lane + row*8192] : row<u8, 8192>
             %1 = reduce max %0 over group 128 nan propagate order tree(16) %2 = sub %0, %1 %3 = pack %2 ways 4 to u32
             store q[lane + row*2048], %3 store g[lane + row*64], %1 }",
        );
        let expected = [
            "kernel @k(s = extent(x, 0)) rows s*4 {",
            "segment @r inner 1 {",
            "%0 = load x[lane + row*2048] : row<u8, 2048>",
            "%1 = reduce max %0 over group 128 nan propagate order tree(16)",
            "%2 = sub %0, %1",
            "%3 = pack %2 ways 4 to u32",
            "store q[lane + row*512], %3",
            "store g[lane + row*16], %1",
        ];
        assert_eq!(lines(&kernel), expected);
    }

    #[test]
    fn inner_rows_are_cut_before_lanes() {
        let kernel = kernel(
            "param %x: f32[s, 96, 128] in param %y: f32[s, 96, 128] out param %m: f32[s, 96] out",
            "segment @r inner 96 { %0 = load x[lane + inner*128 + row*12288] : row<f32, 128>
             %1 = reduce max %0 over row nan propagate order tree(16) %2 = div %0, %1
             store y[lane + inner*128 + row*12288], %2 store m[inner + row*96], %1 }",
        );
        let expected = [
            "kernel @k(s = extent(x, 0)) rows s*4 {",
            "segment @r inner 24 {",
            "%0 = load x[inner*128 + lane + row*3072] : row<f32, 128>",
            "%1 = reduce max %0 over row nan propagate order tree(16)",
            "%2 = div %0, %1",
            "store y[inner*128 + lane + row*3072], %2",
            "store m[inner + row*24], %1",
        ];
        assert_eq!(lines(&kernel), expected);
    }

    #[test]
    fn in_place_is_where_it_was() {
        let inout = "param %z: f32[s, 8192] inout";
        let add = |at: &str| format!("%1 = load z[{at}] : row<f32, 8192> %2 = add %0, %1 store z[lane + row*8192], %2");
        assert_eq!(whole(inout, &add("lane + row*8192")), Ok(()));
        assert_eq!(whole(inout, &add("row*8192 + 8191 - lane")), Err(Whole::Overwritten));
        let alias = "param %y: f32[s, 8192] out alias(%x)";
        assert_eq!(whole(alias, STORE), Ok(()));
        assert_eq!(whole(alias, "store y[row*8192 + 8191 - lane], %0"), Err(Whole::Overwritten));
    }

    #[test]
    fn what_needs_a_whole_row_has_it() {
        assert_eq!(whole(Y, STORE), Ok(()));
        let across = [
            "%1 = reduce add %0 over row nan propagate order tree(16) %2 = div %0, %1",
            "%1, %2 = arg_reduce max %0 %3 = sub %0, %1",
            "%1 = slice %0 start 0 len 4096 step 2 %2 = cat %1, %1",
            "%1 = iota 8192 %2 = cast %1 to f32 rne",
        ];
        for insts in across {
            let last = insts.matches(" = ").count() + usize::from(insts.contains("arg_reduce"));
            let store = format!("{insts} store y[lane + row*8192], %{last}");
            assert_eq!(whole(Y, &store), Err(Whole::Across), "{insts}");
        }
        let scalar = "param %m: f32[s] in param %n: f32[s] out";
        let copied = format!("%1 = load m[row] : scalar<f32> store n[row], %1 {STORE}");
        assert_eq!(whole(&format!("{Y} {scalar}"), &copied), Err(Whole::Scalar));
        let chosen = "param %slots: i64[s] in param %cache: f32[64, 8192] inout";
        let place =
            "%1 = load slots[row] : scalar<i64> %2 = literal i64 63 %3 = and %1, %2 store cache[lane + %3*8192], %0";
        assert_eq!(whole(chosen, place), Err(Whole::Chosen));
        let weights = "%1 = load w[lane] : row<f32, 8192> %2 = exp2 %1 %3 = mul %0, %2 store y[lane + row*8192], %3";
        let weights = weights.replace("exp2", "sqrt");
        assert_eq!(whole(&format!("{Y} param %w: f32[8192] in"), &weights), Err(Whole::Shared));
        let codes = "%1 = cast %0 to f4e2m1 rne sat store q[lane + row*8192], %1";
        assert_eq!(whole("param %q: f4e2m1[s, 8192] out", codes), Err(Whole::Packed));
    }

    #[test]
    fn inner_rows_that_share_more_than_loads_stay() {
        let whole = |params: &str, insts: &str| {
            let load = "%0 = load x[lane + inner*128 + row*8192] : row<f32, 128>";
            let params = format!("param %x: f32[s, 64, 128] in {params}");
            cut_rows(&kernel(&params, &format!("segment @r inner 64 {{ {load} {insts} }}"))).map(|_| ())
        };
        let store = "store y[lane + inner*128 + row*8192]";
        let y = "param %y: f32[s, 64, 128] out param %w: f32[s, 128] in";
        let shared = |f: &str| format!("%1 = load w[lane + row*128] : row<f32, 128> {f} {store}, %3");
        assert_eq!(whole(y, &shared("%2 = mul %0, %1 %3 = sqrt %2")), Ok(()));
        assert_eq!(whole(y, &shared("%2 = sqrt %1 %3 = mul %0, %2")), Err(Whole::Shared));
        let sum = "%2 = reduce add %1 over row nan propagate order tree(16) %3 = mul %0, %2";
        assert_eq!(whole(y, &shared(sum)), Err(Whole::Shared));
        let codes = "%1 = cast %0 to f4e2m1 rne sat store y[lane + inner*128 + row*8192], %1";
        assert_eq!(whole("param %y: f4e2m1[s, 64, 128] out", codes), Err(Whole::Packed));
    }

    #[test]
    fn short_and_unknown_rows_stay() {
        let copy = |lanes: &str, inner: i64| {
            let width = if inner > 1 { format!("{lanes}*{inner}") } else { lanes.to_owned() };
            let at = format!("lane + inner*{lanes} + row*{width}");
            kernel(
                &format!("param %x: f32[s, {width}] in param %y: f32[s, {width}] out"),
                &format!("segment @r inner {inner} {{ %0 = load x[{at}] : row<f32, {lanes}> store y[{at}], %0 }}"),
            )
        };
        let parts = |kernel: &Kernel| cut_rows(kernel).map(|cut| cut.rows.to_string());
        for (lanes, inner, found) in [
            ("4096", 1, Ok("s*2")),
            ("11008", 1, Ok("s*2")),
            ("14336", 1, Ok("s*4")),
            ("28672", 1, Ok("s*8")),
            ("29568", 1, Ok("s*11")),
            ("4095", 1, Err(Whole::Few)),
            ("2048", 1, Err(Whole::Few)),
            ("4160", 1, Err(Whole::Few)),
            ("8209", 1, Err(Whole::Few)),
            ("128", 32, Ok("s*2")),
            ("128", 31, Err(Whole::Few)),
            ("12288", 3, Ok("s*3")),
        ] {
            assert_eq!(parts(&copy(lanes, inner)), found.map(str::to_owned), "{inner} rows of {lanes}");
        }
        let unknown = "kernel @k(n = extent(x, 0)) rows 1 { param %x: f32[n] in param %y: f32[n] out
            segment @r inner 1 { %0 = load x[lane] : row<f32, n> store y[lane], %0 } }";
        assert_eq!(parts(&unknown.parse().unwrap_or_else(|e| panic!("{e}"))), Err(Whole::Unknown));
        let two = copy("8192", 1);
        let again = Segment { name: "again".to_owned(), ..two.segments[0].clone() };
        assert_eq!(parts(&Kernel { segments: vec![two.segments[0].clone(), again], ..two }), Err(Whole::Segments));
    }
}
