//! Invariants of segments and their instructions.

use std::collections::BTreeSet;
use std::fmt;

use fusewright_abi::{DType, ParamAccess};
use fusewright_graph::text::print_literal;
use fusewright_graph::{Dim, Literal};

use super::{MAX_ACCUMULATORS, MAX_LANES, Verifier, representable};
use crate::kernel::infer::infer;
use crate::kernel::text::InstText;
use crate::kernel::{INNER, Inst, InstOp, Kernel, LANE, Order, Over, ROW, Segment, Shape, Ty, Val};

impl Verifier<'_> {
    pub(super) fn segment(&mut self, segment: &Segment) {
        let place = format!("segment @{}", segment.name);
        self.extent(&place, "the inner row count", &segment.inner, 0);
        let mut walk = Walk { segment, types: Vec::new() };
        for inst in &segment.insts {
            let place = Place { kernel: self.kernel, segment, inst };
            if !self.inst(&place, inst, &mut walk) {
                // Values after this one cannot be judged.
                return;
            }
        }
        let defined = walk.types.len();
        let fits = defined == segment.types.len();
        if self.require(fits, &place, || format!("{} types for {defined} values", segment.types.len()))
            && self.violations.is_empty()
        {
            self.bounds(segment);
        }
    }

    /// False if the rest of the segment cannot be checked.
    fn inst(&mut self, place: &dyn fmt::Display, inst: &Inst, walk: &mut Walk<'_>) -> bool {
        let mut args = Vec::with_capacity(inst.args.len());
        for arg in &inst.args {
            if !self.require(walk.defined(*arg), place, || format!("{arg:?} is not defined before")) {
                return false;
            }
            args.push(walk.types[arg.0 as usize].clone());
        }
        self.parts(place, &inst.op);
        let results = match infer(&inst.op, &args.iter().collect::<Vec<_>>(), &self.kernel.params) {
            Ok(results) => results,
            Err(error) => return self.require(false, place, || error.to_string()),
        };
        self.index(place, inst, &args, walk);
        self.memory(place, inst, &args, walk.segment);
        let first = walk.types.len();
        let numbers = inst.results.iter().map(|v| v.0 as usize);
        let numbered = numbers.eq(first..first + results.len());
        if !self.require(numbered, place, || format!("results are not numbered from %{first}")) {
            return false;
        }
        for ty in results {
            let recorded = walk.segment.types.get(walk.types.len());
            if let Some(recorded) = recorded {
                self.require(*recorded == ty, place, || format!("its type is {ty}, recorded is {recorded}"));
            }
            walk.types.push(ty);
        }
        true
    }

    /// Extents, literals and orders written in the instruction.
    fn parts(&mut self, place: &dyn fmt::Display, op: &InstOp) {
        match op {
            InstOp::Literal(literal) => self.literal(place, literal),
            InstOp::Iota(lanes) => self.lanes(place, lanes),
            InstOp::Load { shape, otherwise, .. } => {
                self.shape(place, shape);
                otherwise.iter().for_each(|literal| self.literal(place, literal));
            }
            InstOp::Store { otherwise, .. } => otherwise.iter().for_each(|literal| self.literal(place, literal)),
            InstOp::Reduce { over, order, .. } => {
                if let Over::Group(size) = over {
                    self.extent(place, "the group size", size, 1);
                }
                self.order(place, *order);
            }
            InstOp::TopK { k, over } => {
                self.lanes(place, k);
                if let Over::Group(size) = over {
                    self.extent(place, "the group size", size, 1);
                }
            }
            InstOp::Slice { start, len, .. } => {
                self.extent(place, "the first lane", start, 0);
                self.lanes(place, len);
            }
            InstOp::Broadcast(shape) => self.shape(place, shape),
            InstOp::AsGroup { lanes, size } => {
                self.shape(place, &Shape::Group { lanes: lanes.clone(), size: size.clone() });
            }
            InstOp::Index(_)
            | InstOp::Map(_)
            | InstOp::Cast { .. }
            | InstOp::Bitcast(_)
            | InstOp::ArgReduce(_)
            | InstOp::Cat
            | InstOp::Zip
            | InstOp::Pack { .. }
            | InstOp::AsRow => {}
        }
    }

    fn lanes(&mut self, place: &dyn fmt::Display, lanes: &Dim) {
        self.extent(place, "the lane count", lanes, 0);
        let countable = lanes.as_const().is_none_or(|n| n <= MAX_LANES);
        self.require(countable, place, || format!("{lanes} lanes"));
    }

    fn shape(&mut self, place: &dyn fmt::Display, shape: &Shape) {
        match shape {
            Shape::Scalar => {}
            Shape::Row(lanes) => self.lanes(place, lanes),
            Shape::Group { lanes, size } => {
                self.lanes(place, lanes);
                self.extent(place, "the group size", size, 1);
            }
        }
    }

    fn literal(&mut self, place: &dyn fmt::Display, literal: &Literal) {
        self.require(representable(literal), place, || {
            format!("`{}` is no value of its dtype", print_literal(literal))
        });
    }

    fn order(&mut self, place: &dyn fmt::Display, order: Order) {
        if let Order::Tree(tree) = order {
            let fits = |n: u32| n > 0 && n as usize <= MAX_ACCUMULATORS;
            let all = fits(tree.vec) && fits(tree.threads) && fits(tree.ways);
            let bounded = all && tree.threads.checked_mul(tree.ways).is_some_and(fits);
            self.require(bounded, place, || format!("the numbers of `{order}` are not in 1..={MAX_ACCUMULATORS}"));
        }
    }

    fn index(&mut self, place: &dyn fmt::Display, inst: &Inst, args: &[Ty], walk: &Walk<'_>) {
        let Some(index) = inst.op.index() else { return };
        let lanes = match &inst.op {
            InstOp::Load { shape, .. } => *shape != Shape::Scalar,
            InstOp::Store { .. } => args[0].shape != Shape::Scalar,
            _ => false,
        };
        let mut names = BTreeSet::new();
        index.collect_symbols(&mut names);
        for name in &names {
            let problem = match (name.as_str(), Val::from_symbol(name)) {
                (ROW | INNER, _) => None,
                (LANE, _) => (!lanes).then(|| format!("`{LANE}` in the index of a scalar")),
                (_, Some(v)) => walk.not_an_index(v),
                (name, None) => (!self.dims.contains(name)).then(|| format!("`{name}` is not a dim")),
            };
            if let Some(message) = problem {
                self.require(false, place, || message);
            }
        }
    }

    fn memory(&mut self, place: &dyn fmt::Display, inst: &Inst, args: &[Ty], segment: &Segment) {
        match &inst.op {
            InstOp::Load { param, .. } => {
                let param = self.kernel.param(*param);
                self.require(param.access != ParamAccess::Out, place, || "loads an `out` parameter".to_owned());
            }
            InstOp::Store { param, index, otherwise } => {
                let target = self.kernel.param(*param);
                self.require(target.access != ParamAccess::In, place, || "stores to an `in` parameter".to_owned());
                if args.len() < 2 || otherwise.is_some() {
                    self.moves(place, index, &args[0].shape, segment);
                }
            }
            InstOp::Reduce { .. } | InstOp::ArgReduce(_) | InstOp::TopK { .. } => {
                self.require(args[0].dtype != DType::Bool, place, || "runs over booleans".to_owned());
            }
            _ => {}
        }
    }

    /// Every row writes elements of its own; nothing is asked where nothing is written.
    fn moves(&mut self, place: &dyn fmt::Display, index: &Dim, shape: &Shape, segment: &Segment) {
        if [&shape.elements(), &self.kernel.rows, &segment.inner].iter().any(|n| n.as_const() == Some(0)) {
            return;
        }
        let mut names = BTreeSet::new();
        index.collect_symbols(&mut names);
        // Gathered integers may tell rows apart.
        if names.iter().any(|name| Val::from_symbol(name).is_some()) {
            return;
        }
        for (symbol, count) in [(ROW, &self.kernel.rows), (INNER, &segment.inner)] {
            let one = count.as_const().is_some_and(|n| n <= 1);
            self.require(one || names.contains(symbol), place, || {
                format!("every `{symbol}` of {count} writes the same elements")
            });
        }
    }
}

/// The place of an instruction. It is written out only where something is refused.
pub(super) struct Place<'a> {
    pub kernel: &'a Kernel,
    pub segment: &'a Segment,
    pub inst: &'a Inst,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment @{}: {}", self.segment.name, InstText { kernel: self.kernel, inst: self.inst })
    }
}

/// What is known at an instruction.
struct Walk<'a> {
    segment: &'a Segment,
    types: Vec<Ty>,
}

impl Walk<'_> {
    fn defined(&self, value: Val) -> bool {
        (value.0 as usize) < self.types.len()
    }

    fn not_an_index(&self, value: Val) -> Option<String> {
        match self.types.get(value.0 as usize) {
            None => Some(format!("{value:?} is not defined before")),
            Some(ty) if ty.shape == Shape::Scalar && ty.dtype.is_int() => None,
            Some(ty) => Some(format!("{value:?} is {ty}, not an integer scalar")),
        }
    }
}
