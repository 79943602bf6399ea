//! The proof that no instruction leaves its memory. Every load and store touches elements of its parameter, for all rows, inner
//! rows, lanes and gathered integers, and every slice takes lanes that its operand has.
//!
//! The proof relies on the checks of a driver: integer arguments are not negative, claims hold, no row is beyond the row count,
//! every buffer has the elements of its parameter, and none of these numbers is beyond 64 bits. It uses the predicate of the
//! instruction, and shares nothing with lowering. The verifier refuses an access that it cannot prove.
//!
//! Generated code computes indices in 64 bits on every target. Sums and products that wrap on the way still give the right
//! element. Operands of quotients, remainders and comparisons must not wrap; the proof does not check that. They are sizes and
//! counters of tensors that exist, times numbers of the graph, and so far below 2⁶³.

mod facts;
mod poly;
mod world;

use std::collections::BTreeSet;

use fusewright_graph::Dim;
use fusewright_graph::dim::product;

use self::poly::Poly;
use self::world::{Setting, World};
use super::Verifier;
use super::insts::Place;
use crate::kernel::{INNER, Inst, InstOp, Kernel, LANE, Over, ParamId, ROW, Segment, Shape, Val};

/// An access whose elements have to be elements of a parameter.
struct Access<'a> {
    param: ParamId,
    index: &'a Dim,
    shape: &'a Shape,
    /// Memory is touched only where this is true.
    predicate: Option<Val>,
}

impl Verifier<'_> {
    /// Refuses every access of a segment that may leave its memory. All else of the segment is valid.
    pub(super) fn bounds(&mut self, segment: &Segment) {
        let definitions = segment.definitions();
        let mut known: Vec<Access<'_>> = Vec::new();
        // Accesses without predicates share what is known where they stand.
        let mut worlds: Vec<(Setting, World<'_>)> = Vec::new();
        for inst in &segment.insts {
            let first = inst.args.first().map(|v| &segment.ty(*v).shape);
            let access = match (&inst.op, first) {
                (InstOp::Load { param, index, shape, .. }, _) => {
                    Access { param: *param, index, shape, predicate: inst.args.first().copied() }
                }
                (InstOp::Store { param, index, otherwise }, Some(shape)) => {
                    let predicate = inst.args.get(1).copied().filter(|_| otherwise.is_none());
                    Access { param: *param, index, shape, predicate }
                }
                (InstOp::Slice { start, len, step }, Some(from)) => {
                    self.lanes_taken(segment, &definitions, inst, (&from.elements(), start, len, *step));
                    continue;
                }
                (InstOp::TopK { k, over }, Some(from)) => {
                    let lanes = match over {
                        Over::Row => from.elements(),
                        Over::Group(size) => size.clone(),
                    };
                    self.lanes_taken(segment, &definitions, inst, (&lanes, &Dim::constant(0), k, 1));
                    continue;
                }
                _ => continue,
            };
            if !known.iter().any(|other| access.is_like(other, self.kernel)) {
                self.access(segment, &definitions, inst, &access, &mut worlds);
                known.push(access);
            }
        }
    }

    fn access<'k>(
        &mut self,
        segment: &'k Segment,
        definitions: &'k [usize],
        inst: &Inst,
        access: &Access<'_>,
        worlds: &mut Vec<(Setting, World<'k>)>,
    ) where
        Self: 'k,
    {
        let param = self.kernel.param(access.param);
        let elements = product(&param.shape);
        let mut mentioned = vec![access.index];
        mentioned.extend(access.predicate.map(|predicate| below(segment, definitions, predicate)).unwrap_or_default());
        // What dims alone decide comes first.
        let mut sizes = vec![&elements];
        sizes.extend(mentioned.iter().copied().filter(|dim| is_size(dim)));
        let setting = Setting::new(access.shape, &sizes, &mentioned);
        let new = |setting: &Setting| World::new(self.kernel, segment, definitions, setting);
        let mut own;
        let world = match access.predicate {
            Some(predicate) => {
                own = new(&setting);
                own.assume(predicate);
                &mut own
            }
            None => {
                let known = worlds.iter().position(|(other, _)| *other == setting);
                let at = known.unwrap_or_else(|| {
                    let world = new(&setting);
                    worlds.push((setting, world));
                    worlds.len() - 1
                });
                &mut worlds[at].1
            }
        };
        let (index, elements) = (world.dim(access.index), world.dim(&elements));
        let last = elements.and_then(|n| n.plus(&Poly::constant(1), -1));
        let place = Place { kernel: self.kernel, segment, inst };
        let is_ahead = world.is_order(&Some(Poly::constant(0)), &index);
        self.require(is_ahead, &place, || {
            format!("it is not shown that no element ahead of %{} is touched", param.name)
        });
        let is_behind = world.is_order(&index, &last);
        self.require(is_behind, &place, || {
            let shape: Vec<String> = param.shape.iter().map(ToString::to_string).collect();
            format!("it is not shown that no element behind %{}[{}] is touched", param.name, shape.join(", "))
        });
    }

    /// Lanes `start, start + step, …`, so many in all, are lanes of a row of `lanes`.
    fn lanes_taken(
        &mut self,
        segment: &Segment,
        definitions: &[usize],
        inst: &Inst,
        (lanes, start, len, step): (&Dim, &Dim, &Dim, i64),
    ) {
        if let (Some(lanes), Some(start), Some(len)) = (lanes.as_const(), start.as_const(), len.as_const()) {
            let [lanes, start, len, step] = [lanes, start, len, step].map(i128::from);
            let taken = len == 0 || (start >= 0 && len > 0 && start + (len - 1) * step < lanes);
            let place = Place { kernel: self.kernel, segment, inst };
            self.require(taken, &place, || "its operand has not the lanes that are taken".to_owned());
            return;
        }
        let shape = Shape::Row(len.clone());
        let last = &(start + &(&(len - &Dim::constant(1)) * &Dim::constant(step))) + &Dim::constant(1);
        let setting = Setting::new(&shape, &[lanes, start, &last], &[]);
        let mut world = World::new(self.kernel, segment, definitions, &setting);
        let [lanes, start, last] = [lanes, start, &last].map(|dim| world.dim(dim));
        let taken = world.is_order(&Some(Poly::constant(0)), &start) && world.is_order(&last, &lanes);
        let place = Place { kernel: self.kernel, segment, inst };
        self.require(taken, place, || "it is not shown that its operand has the lanes that are taken".to_owned());
    }
}

/// Says whether an expression has one value in a launch.
fn is_size(dim: &Dim) -> bool {
    let mut names = BTreeSet::new();
    dim.collect_symbols(&mut names);
    !names.iter().any(|name| [ROW, INNER, LANE].contains(&name.as_str()) || Val::from_symbol(name).is_some())
}

/// The index expressions of what a predicate is computed from.
fn below<'s>(segment: &'s Segment, definitions: &[usize], predicate: Val) -> Vec<&'s Dim> {
    let (mut open, mut found) = (vec![predicate], Vec::new());
    while let Some(value) = open.pop() {
        let at = definitions.get(value.0 as usize).copied().unwrap_or(usize::MAX);
        let Some(inst) = segment
            .insts
            .get(at)
            .filter(|inst| matches!(inst.op, InstOp::Map(_) | InstOp::Index(_) | InstOp::Cast { .. }))
        else {
            continue;
        };
        found.extend(inst.op.index());
        open.extend(&inst.args);
    }
    found
}

impl Access<'_> {
    /// Says whether two accesses touch the same places of parameters of one size.
    fn is_like(&self, other: &Access<'_>, kernel: &Kernel) -> bool {
        (self.index, self.shape, self.predicate) == (other.index, other.shape, other.predicate)
            && kernel.param(self.param).shape == kernel.param(other.param).shape
    }
}
