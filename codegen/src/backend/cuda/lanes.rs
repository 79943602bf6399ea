//! Which lanes of a row a thread has: vectors of neighbouring ones, as the reduction trees deal them.
//!
//! Lane `l` is of thread `(l / VECTOR) mod threads`. A lane's number is an integer of the generated code, under which
//! what is computed of it is remembered ([`Rows::element`]). A part of a row has the first vectors of whole rows.

use std::collections::{BTreeSet, HashMap};

use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::plan::{Held, VECTOR};
use super::rows::Rows;
use crate::backend::llvm::Built;
use crate::kernel::{Inst, InstOp, Shape, Val};

/// The lane numbers of a thread.
pub(super) struct Lanes<'c> {
    pub held: Held,
    /// By vector and place in it.
    pub numbers: Vec<Vec<IntValue<'c>>>,
    /// By vector, whether this thread has it, where not all have.
    pub present: Vec<Option<IntValue<'c>>>,
    /// Places of codes of some lanes each, by how many.
    pub packed: HashMap<u32, Vec<Vec<IntValue<'c>>>>,
    /// Vector and place of a lane number.
    pub places: HashMap<IntValue<'c>, (usize, usize)>,
    /// By first vector, and by how many threads share a group, the group whose values this thread computes.
    pub turns: HashMap<(usize, u32), IntValue<'c>>,
    /// Stores that are done.
    pub stored: BTreeSet<usize>,
}

impl<'c> Rows<'_, 'c> {
    /// Deals the lanes of a row, of which this is one part, to threads.
    pub fn deal(&mut self, held: Held, part: IntValue<'c>) -> Built<()> {
        let code = self.code;
        let threads = i64::from(held.row_threads(self.frame.threads));
        let first =
            code.add(code.mul(part, code.i64(threads * i64::from(held.vectors)))?, self.thread_of_row(held)?)?;
        let mut lanes = Lanes {
            held,
            numbers: Vec::new(),
            present: Vec::new(),
            packed: HashMap::new(),
            places: HashMap::new(),
            turns: HashMap::new(),
            stored: BTreeSet::new(),
        };
        // Who lacks a vector has another for it, of which nothing is stored and no sum is made: its own first, or the row's last.
        let mut vectors = Vec::new();
        for v in 0..held.vectors {
            let vector = code.add(first, code.i64(i64::from(v) * threads))?;
            let Some(all) = held.uneven.filter(|_| !held.has_all(v, self.frame.threads)) else {
                lanes.present.push(None);
                vectors.push(vector);
                continue;
            };
            let (all, last) = (code.i64(i64::from(all)), code.i64(i64::from(all) - 1));
            let present = code.cmp(IntPredicate::ULT, vector, all)?;
            let other = if v == 0 { last } else { vectors[0] };
            vectors.push(code.select(present, vector, other)?.into_int_value());
            lanes.present.push(Some(present));
        }
        let mut ways: Vec<u32> = vec![1];
        ways.extend(self.segment.insts.iter().filter_map(|inst| match inst.op {
            InstOp::Pack { ways, .. } => Some(ways),
            _ => None,
        }));
        for ways in ways {
            if lanes.packed.contains_key(&ways) {
                continue;
            }
            let each = i64::from(VECTOR / ways);
            let numbers = vectors.iter().map(|&vector| {
                let base = code.mul(vector, code.i64(each))?;
                (0..each).map(|j| code.add(base, code.i64(j))).collect::<Built<Vec<_>>>()
            });
            let numbers = numbers.collect::<Built<Vec<_>>>()?;
            for (v, vector) in numbers.iter().enumerate() {
                lanes.places.extend(vector.iter().enumerate().map(|(j, &lane)| (lane, (v, j))));
            }
            if ways == 1 {
                lanes.numbers.clone_from(&numbers);
            }
            lanes.packed.insert(ways, numbers);
        }
        self.lanes = Some(lanes);
        Ok(())
    }

    /// Vectors that a thread has of a value: fewer than of whole rows if it is a part of one.
    pub fn vectors(&self, value: Val) -> usize {
        let Some(lanes) = &self.lanes else { return 0 };
        let each = i64::from(lanes.held.row_threads(self.frame.threads) * VECTOR);
        let own = match &self.segment.ty(value).shape {
            Shape::Row(count) => count.as_const().map(|count| (count as usize).div_ceil(each as usize)),
            _ => None,
        };
        let packed = matches!(self.segment.insts[self.defining[value.0 as usize]].op, InstOp::Pack { .. });
        own.filter(|_| lanes.held.parts == 1 && !packed).unwrap_or(lanes.numbers.len()).min(lanes.numbers.len())
    }

    /// Whether this thread has a vector, where not all have.
    pub fn present(&self, vector: usize) -> Option<IntValue<'c>> {
        self.lanes.as_ref().and_then(|lanes| lanes.present.get(vector).copied().flatten())
    }

    /// Runs `body` where this thread has a vector.
    pub fn where_present(&mut self, vector: usize, body: impl FnOnce(&mut Self) -> Built<()>) -> Built<()> {
        match self.present(vector) {
            Some(present) => self.when(present, body),
            None => body(self),
        }
    }

    /// Where the lanes of a vector of a part of a row, or of joined parts, are computed: the value, and its vector.
    pub fn origin(&self, inst: &Inst, vector: usize) -> Option<(Val, usize)> {
        let lanes = self.lanes.as_ref()?;
        let each = i64::from(lanes.held.row_threads(self.frame.threads) * VECTOR);
        match &inst.op {
            InstOp::Slice { start, step: 1, .. } => {
                let skipped = start.as_const().filter(|start| start % each == 0)?;
                Some((inst.args[0], vector + (skipped / each) as usize))
            }
            InstOp::Cat if self.joined.pieces(inst.results[0]).is_none() => {
                let mut left = vector;
                inst.args.iter().find_map(|&arg| {
                    let own = self.vectors(arg);
                    let here = (left < own).then_some((arg, left));
                    left = left.wrapping_sub(own);
                    here
                })
            }
            _ => None,
        }
    }

    /// The number of this thread among those that share its row.
    pub fn thread_of_row(&self, held: Held) -> Built<IntValue<'c>> {
        if !held.is_team {
            return Ok(self.frame.thread);
        }
        let threads = held.row_threads(self.frame.threads);
        let last = self.code.i64(i64::from(threads) - 1);
        match threads.is_power_of_two() {
            true => Ok(self.code.b.build_and(self.frame.thread, last, "")?),
            false if held.teams == 1 => Ok(self.frame.thread),
            false => {
                Ok(self.code.b.build_int_unsigned_rem(self.frame.thread, self.code.i64(i64::from(threads)), "")?)
            }
        }
    }

    /// The lane numbers of this thread, if rows lie in registers.
    pub fn own_lanes(&self) -> Option<Vec<Vec<IntValue<'c>>>> {
        self.lanes.as_ref().map(|lanes| lanes.numbers.clone())
    }

    /// The first lane of the vector of a lane, which has the same group.
    pub fn first_of_vector(&self, lane: IntValue<'c>) -> Option<IntValue<'c>> {
        let lanes = self.lanes.as_ref()?;
        let &(vector, place) = lanes.places.get(&lane)?;
        (lanes.numbers[vector].get(place) == Some(&lane)).then(|| lanes.numbers[vector][0])
    }

    pub fn own(&self, vector: usize) -> &[IntValue<'c>] {
        self.lanes.as_ref().and_then(|lanes| lanes.numbers.get(vector)).map_or(&[], Vec::as_slice)
    }
}
