//! Values of groups that threads share. Every thread of a group would compute them alike; where each has several groups it
//! takes turns with those that it shares them with: of as many groups as threads share one, each thread computes the values
//! of one, and hands what rows need to the others.

use fusewright_graph::Dim;
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::plan::{VECTOR, team};
use super::reduce::Groups;
use super::rows::{Known, Rows};
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{Inst, InstOp, Over, Shape, Val};

/// Operations on values of groups from which on turns are worth the exchange.
const WORTH: usize = 8;

impl<'c> Rows<'_, 'c> {
    /// Reduces the groups of this thread's vectors; every thread of a group ends with its result, or the one whose turn it is.
    pub fn reduce_own_groups(&mut self, result: Val, groups: &Groups<'_>) -> Built<()> {
        let team = team(groups.size).ok_or_else(no_team)?;
        let vectors = self.own_lanes().map_or(0, |lanes| lanes.len());
        if self.takes_turns(groups.size) {
            for first in (0..vectors).step_by(team as usize) {
                let value = self.scatter_team(groups, first, team)?;
                let group = self.group_in_turn(groups.size, first)?;
                self.known_scope().insert(Known::Element(result, group), value);
            }
            return self.hand_out(result);
        }
        for vector in 0..vectors {
            let value = self.reduce_team(groups.op, groups.nan, groups.x, vector..vector + 1, team)?;
            let group = self.group_of(groups.size, vector)?;
            self.known_scope().insert(Known::Element(result, group), value);
        }
        Ok(())
    }

    /// Gives every thread the elements of a value of groups that rows need, where threads take turns.
    pub fn hand_out(&mut self, value: Val) -> Built<()> {
        let Shape::Group { size, .. } = &self.segment.ty(value).shape else { return Ok(()) };
        let of_row =
            |user: &Inst| user.results.iter().any(|&result| matches!(self.segment.ty(result).shape, Shape::Row(_)));
        let needed = self.segment.insts.iter().any(|user| user.args.contains(&value) && of_row(user));
        if !needed || !self.takes_turns(size) {
            return Ok(());
        }
        let team = team(size).ok_or_else(no_team)?;
        for first in (0..self.own_lanes().map_or(0, |lanes| lanes.len())).step_by(team as usize) {
            let group = self.group_in_turn(size, first)?;
            let own = self.element(value, group)?;
            for thread in 0..team {
                let element = self.code.shuffle_from(own, thread, team)?;
                let group = self.group_of(size, first + thread as usize)?;
                self.known_scope().insert(Known::Element(value, group), element);
            }
        }
        Ok(())
    }

    /// Stores what belongs to the group of a vector: its first thread, or the one whose turn it is.
    pub fn store_group(&mut self, store: &Inst, vector: usize, size: &Dim) -> Built<()> {
        let team = team(size).ok_or_else(no_team)?;
        if self.takes_turns(size) {
            if !vector.is_multiple_of(team as usize) {
                return Ok(());
            }
            let group = self.group_in_turn(size, vector)?;
            return self.store_lanes(&[store], &[group]);
        }
        let group = self.group_of(size, vector)?;
        // Computed by all, so that it is there for others.
        self.element(store.args[0], group)?;
        let leads = self.code.cmp(IntPredicate::EQ, self.place_in_team(team)?, self.code.i64(0))?;
        self.when(leads, |rows| rows.store_lanes(&[store], &[group]))
    }

    /// Whether the threads of groups take turns: all have as many as it takes, and values of groups are used for rows, for
    /// stores and for each other only.
    fn takes_turns(&self, size: &Dim) -> bool {
        let (Some(team), Some(lanes)) = (team(size), self.lanes.as_ref()) else { return false };
        let whole = team > 1 && lanes.numbers.len().is_multiple_of(team as usize);
        if !whole || lanes.present.iter().any(Option::is_some) {
            return false;
        }
        let segment = self.segment;
        let is_group = |value: &Val| matches!(&segment.ty(*value).shape, Shape::Group { size: of, .. } if of == size);
        let mut work = 0;
        for inst in &segment.insts {
            let (makes, uses) = (inst.results.iter().any(is_group), inst.args.iter().any(is_group));
            let fits = match &inst.op {
                InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Broadcast(_) => true,
                InstOp::Store { .. } => inst.args.get(1).is_none_or(|predicate| !is_group(predicate)),
                InstOp::Reduce { over: Over::Group(_), .. } => !uses,
                InstOp::Load { .. } => true,
                _ => false,
            };
            if (makes || uses) && !fits {
                return false;
            }
            work += usize::from(makes && matches!(inst.op, InstOp::Map(_)));
        }
        work >= WORTH
    }

    /// The number of the group of a vector.
    fn group_of(&mut self, size: &Dim, vector: usize) -> Built<IntValue<'c>> {
        let size = self.dim(size)?;
        let lane = *self.own(vector).first().ok_or_else(no_team)?;
        self.quotient(lane, size)
    }

    /// The number of the group, among those of vectors from one on, whose values this thread computes.
    fn group_in_turn(&mut self, size: &Dim, first: usize) -> Built<IntValue<'c>> {
        let (team, code) = (team(size).ok_or_else(no_team)?, self.code);
        let known = |lanes: &super::lanes::Lanes<'c>| lanes.turns.get(&(first, team)).copied();
        if let Some(group) = self.lanes.as_ref().and_then(known) {
            return Ok(group);
        }
        let lanes = self.lanes.as_ref().ok_or_else(no_team)?;
        let distance = code.i64(i64::from(lanes.held.row_threads(self.frame.threads) * VECTOR));
        let start = *self.own(first).first().ok_or_else(no_team)?;
        let lane = code.add(start, code.mul(self.place_in_team(team)?, distance)?)?;
        let size = self.dim(size)?;
        let group = self.quotient(lane, size)?;
        if let Some(lanes) = &mut self.lanes {
            lanes.turns.insert((first, team), group);
        }
        Ok(group)
    }

    /// The number of this thread among those that share its groups.
    pub fn place_in_team(&self, team: u32) -> Built<IntValue<'c>> {
        Ok(self.code.b.build_and(self.frame.thread, self.code.i64(i64::from(team) - 1), "")?)
    }

    /// Reduces as many vectors as threads share a group; each thread ends with the result of one. Half of what a thread has
    /// goes to another at each step, which combines in the order of [`Rows::reduce_team`].
    fn scatter_team(&mut self, groups: &Groups<'_>, first: usize, team: u32) -> Built<Value<'c>> {
        let code = self.code;
        let parts = first..first + team as usize;
        let mut parts = parts
            .map(|vector| self.own_part(groups.op, groups.nan, groups.x, vector..vector + 1))
            .collect::<Built<Vec<_>>>()?;
        let mut offset = team / 2;
        while offset > 0 {
            let bit = code.b.build_and(self.frame.thread, code.i64(i64::from(offset)), "")?;
            let is_upper = code.cmp(IntPredicate::NE, bit, code.i64(0))?;
            let upper = parts.split_off(offset as usize);
            for (low, high) in parts.iter_mut().zip(upper) {
                let (own, other) = (code.select(is_upper, high, *low)?, code.select(is_upper, *low, high)?);
                *low = self.across(groups.op, groups.nan, groups.x, own, code.shuffle_across(other, offset)?)?;
            }
            offset /= 2;
        }
        let part = *parts.first().ok_or_else(no_team)?;
        self.of_part(groups.x, part)
    }
}

fn no_team() -> BuildError {
    BuildError::unsupported("groups that threads do not share")
}
