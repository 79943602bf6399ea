//! The passes of a loop over lanes: a chunk each, or twice as many lanes.

use inkwell::values::IntValue;

use super::eval::{CHUNK, Running};
use super::function::Open;
use super::loops::Loops;
use super::parts::Part;
use super::stages;
use crate::backend::host::place::{InGroup, Span};
use crate::backend::host::plan::Job;
use crate::backend::llvm::Built;

/// Lanes of a pass.
#[derive(Clone, Copy)]
pub(super) enum Stride {
    /// A chunk.
    Chunk,
    /// Twice as many, the even and the odd ones apart.
    Pair,
}

impl Stride {
    pub fn lanes(self) -> i64 {
        match self {
            Stride::Chunk => i64::from(CHUNK),
            Stride::Pair => 2 * i64::from(CHUNK),
        }
    }
}

/// Where one pass of a loop runs.
pub(super) struct Iteration<'a, 'c> {
    pub base: IntValue<'c>,
    /// The first lane goes to this accumulator.
    pub accumulator: u32,
    pub span: &'a Span<IntValue<'c>>,
    pub group: Option<&'a InGroup<IntValue<'c>>>,
}

impl<'c> Loops<'_, '_, '_, 'c> {
    /// A loop over as many whole passes as fit into a span; gives the first lane not taken.
    pub(super) fn passes(
        &mut self,
        stride: Stride,
        span: &Span<IntValue<'c>>,
        jobs: &[Job],
        open: &Open<'c>,
        group: Option<&InGroup<IntValue<'c>>>,
    ) -> Built<IntValue<'c>> {
        let code = self.eval.code;
        let l = code.begin_loop(span.start, span.end, stride.lanes())?;
        if span.length.is_none_or(|n| n >= 2 * stride.lanes()) {
            stages::offer(l.head, &self.eval.segment.name);
        }
        let pass = Iteration { base: l.i, accumulator: 0, span, group };
        match stride {
            Stride::Chunk => self.chunk(jobs, (CHUNK, None), open, &pass)?,
            Stride::Pair => self.pair(jobs, open, &pass)?,
        }
        code.end_loop(l)
    }

    /// Enters a part of a pass. Leave the mark of the memo behind it.
    pub(super) fn enter_part(&mut self, stride: Stride, part: Option<Part>, pass: &Iteration<'_, 'c>) -> usize {
        let mark = self.eval.memo.enter();
        let &Iteration { base, span, group, .. } = pass;
        self.eval.group = group.map(|g| InGroup { span: stride.lanes(), ..g.clone() });
        let (lanes, multiple) = (span.lanes.clone(), span.multiple);
        self.eval.pass = Some(Running { base, lanes, shift: 0, multiple, mask: None, part });
        mark
    }
}
