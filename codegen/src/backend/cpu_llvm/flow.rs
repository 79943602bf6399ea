//! Loops and branches. What is computed inside is forgotten behind it, since it does not reach further code.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{IntValue, PhiValue};

use super::eval::Eval;
use crate::backend::llvm::code::Code;
use crate::backend::llvm::{Built, Value};

/// An open loop.
pub(super) struct Loop<'c> {
    pub head: BasicBlock<'c>,
    exit: BasicBlock<'c>,
    counter: PhiValue<'c>,
    end: PhiValue<'c>,
    last: IntValue<'c>,
    step: i64,
    /// The counter.
    pub i: IntValue<'c>,
}

impl<'c> Code<'c> {
    /// Opens a loop over `i = start, start + step, …` while `i + step ≤ bound`; close it with [`Self::end_loop`].
    pub(super) fn begin_loop(&self, start: IntValue<'c>, bound: IntValue<'c>, step: i64) -> Built<Loop<'c>> {
        let last = self.b.build_int_sub(bound, self.i64(step), "")?;
        let any = self.cmp(IntPredicate::SLE, start, last)?;
        let (before, head, exit) = (self.here()?, self.block(), self.block());
        self.b.build_conditional_branch(any, head, exit)?;
        self.b.position_at_end(exit);
        let end = self.b.build_phi(self.ctx.i64_type(), "")?;
        end.add_incoming(&[(&start, before)]);
        self.b.position_at_end(head);
        let counter = self.b.build_phi(self.ctx.i64_type(), "")?;
        counter.add_incoming(&[(&start, before)]);
        let i = counter.as_basic_value().into_int_value();
        Ok(Loop { head, exit, counter, end, last, step, i })
    }

    /// Closes a loop and returns the first `i` not run.
    pub(super) fn end_loop(&self, l: Loop<'c>) -> Built<IntValue<'c>> {
        let next = self.add(l.i, self.i64(l.step))?;
        let more = self.cmp(IntPredicate::SLE, next, l.last)?;
        let body = self.here()?;
        self.b.build_conditional_branch(more, l.head, l.exit)?;
        l.counter.add_incoming(&[(&next, body)]);
        l.end.add_incoming(&[(&next, body)]);
        self.b.position_at_end(l.exit);
        Ok(l.end.as_basic_value().into_int_value())
    }
}

impl<'k, 'e, 'c> Eval<'k, 'e, 'c> {
    /// `if condition { yes } else { no }`.
    pub fn branch(
        &mut self,
        condition: Value<'c>,
        yes: impl FnOnce(&mut Self) -> Built<Value<'c>>,
        no: impl FnOnce(&mut Self) -> Built<Value<'c>>,
    ) -> Built<Value<'c>> {
        let (then, otherwise, join) = (self.code.block(), self.code.block(), self.code.block());
        self.code.b.build_conditional_branch(condition.into_int_value(), then, otherwise)?;
        let a = self.path(then, join, yes)?;
        let b = self.path(otherwise, join, no)?;
        self.code.b.position_at_end(join);
        self.code.merge(&[a, b])
    }

    /// `if condition { body }`.
    pub fn when(&mut self, condition: Value<'c>, body: impl FnOnce(&mut Self) -> Built<()>) -> Built<()> {
        let (then, join) = (self.code.block(), self.code.block());
        self.code.b.build_conditional_branch(condition.into_int_value(), then, join)?;
        self.path(then, join, body)?;
        self.code.b.position_at_end(join);
        Ok(())
    }

    fn path<T>(
        &mut self,
        block: BasicBlock<'c>,
        join: BasicBlock<'c>,
        body: impl FnOnce(&mut Self) -> Built<T>,
    ) -> Built<(T, BasicBlock<'c>)> {
        self.code.b.position_at_end(block);
        let mark = self.memo.enter();
        let value = body(self)?;
        self.memo.leave(mark);
        let end = self.code.here()?;
        self.code.b.build_unconditional_branch(join)?;
        Ok((value, end))
    }
}
