//! Wide rows cut into parts, each an outer row of its own.
//!
//! Threads of a CPU are handed outer rows, so that one token's row is one thread's. Where nothing but groups that a part
//! holds whole is computed across lanes, `p` parts of a row are rows like others: `row` becomes `row / p`, and lanes, or inner
//! rows where there are several, count on from where part `row mod p` begins. No value changes.

use std::collections::BTreeSet;

use fusewright_graph::Dim;
use fusewright_graph::dim::DimFn;

use super::simplify::gathered;
use super::{INNER, InstOp, Kernel, LANE, Level, Over, ParamId, ROW, Segment, Shape, Source, Ty, Val};

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
    /// Elements that are not in memory.
    Source,
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
    if kernel.params.iter().any(|param| param.source != Source::Memory) {
        return Err(Whole::Source);
    }
    let inner = segment.inner.as_const().ok_or(Whole::Unknown)?;
    let parts = if inner > 1 { parts_of_inner(segment, inner)? } else { parts_of_lanes(kernel, segment)? };
    stores(kernel, segment)?;
    let cut = Cut { parts, inner: (inner > 1).then(|| segment.inner.clone()) };
    Ok(Kernel { rows: &kernel.rows * &Dim::constant(parts), segments: vec![cut.segment(segment)], ..kernel.clone() })
}

/// The most parts of which each has enough of `count` units of `lanes` lanes.
fn most(count: i64, lanes: i64, fits: impl Fn(i64) -> bool) -> Result<i64, Whole> {
    let most = count.saturating_mul(lanes) / LEAST;
    (2..=most.min(count)).rev().find(|&p| count % p == 0 && fits(p)).ok_or(Whole::Few)
}

/// Into how many parts inner rows go.
fn parts_of_inner(segment: &Segment, inner: i64) -> Result<i64, Whole> {
    let lanes = lanes(segment)?.into_iter().max().ok_or(Whole::Few)?;
    let levels = segment.levels();
    let costs = |op: &InstOp| matches!(op, InstOp::Reduce { .. } | InstOp::ArgReduce(_) | InstOp::TopK(_));
    let shared = segment.insts.iter().any(|inst| {
        inst.results.iter().any(|v| {
            let row = segment.ty(*v).shape != Shape::Scalar && matches!(inst.op, InstOp::Map(_));
            levels[v.0 as usize] < Level::Inner && (row || costs(&inst.op))
        })
    });
    if shared { Err(Whole::Shared) } else { most(inner, lanes, |_| true) }
}

/// Into how many parts the lanes of the only inner row go.
fn parts_of_lanes(kernel: &Kernel, segment: &Segment) -> Result<i64, Whole> {
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
            InstOp::Store { param, .. } => {
                if segment.ty(inst.args[0]).shape == Shape::Scalar {
                    return Err(Whole::Scalar);
                }
                if kernel.param(*param).dtype.bits() < 8 {
                    return Err(Whole::Packed);
                }
            }
            InstOp::Iota(_) | InstOp::Reduce { over: Over::Row, .. } | InstOp::ArgReduce(_) => {
                return Err(Whole::Across);
            }
            InstOp::TopK(_) | InstOp::Slice { .. } | InstOp::Cat => return Err(Whole::Across),
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
