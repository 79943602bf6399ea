//! Building segments instruction by instruction, with value numbering: an instruction without side effects that is
//! already there is not added twice.

use std::collections::HashMap;

use fusewright_graph::Dim;

use super::infer::{InstError, infer};
use super::{Inst, InstOp, Param, Segment, Ty, Val};

/// Builds one segment.
#[derive(Debug)]
pub struct SegmentBuilder<'p> {
    params: &'p [Param],
    segment: Segment,
    /// By value: the place of the instruction that computes it.
    definitions: Vec<usize>,
    known: HashMap<(InstOp, Vec<Val>), Vec<Val>>,
}

impl<'p> SegmentBuilder<'p> {
    /// An empty segment of `inner` inner rows over a kernel's parameters.
    pub fn new(name: &str, inner: Dim, params: &'p [Param]) -> Self {
        let segment = Segment { name: name.to_owned(), inner, insts: Vec::new(), types: Vec::new() };
        SegmentBuilder { params, segment, definitions: Vec::new(), known: HashMap::new() }
    }

    /// Type of a value built so far.
    pub fn ty(&self, value: Val) -> &Ty {
        self.segment.ty(value)
    }

    /// The instruction that computes a value built so far.
    pub fn definition(&self, value: Val) -> Option<&Inst> {
        self.segment.insts.get(*self.definitions.get(value.0 as usize)?)
    }

    /// Adds an instruction, or returns the results of an equal one.
    ///
    /// # Errors
    /// Operands that do not fit.
    pub fn push(&mut self, op: InstOp, args: &[Val]) -> Result<Vec<Val>, InstError> {
        let key = (op, args.to_vec());
        if let Some(results) = self.known.get(&key) {
            return Ok(results.clone());
        }
        let (op, args) = key;
        let types: Vec<&Ty> = args.iter().map(|&v| self.segment.ty(v)).collect();
        let results: Vec<Val> = infer(&op, &types, self.params)?
            .into_iter()
            .map(|ty| {
                self.segment.types.push(ty);
                self.definitions.push(self.segment.insts.len());
                Val(self.segment.types.len() as u32 - 1)
            })
            .collect();
        if !matches!(op, InstOp::Store { .. }) {
            self.known.insert((op.clone(), args.clone()), results.clone());
        }
        self.segment.insts.push(Inst { op, args, results: results.clone() });
        Ok(results)
    }

    /// Adds an instruction with one result.
    ///
    /// # Errors
    /// Operands that do not fit.
    pub fn one(&mut self, op: InstOp, args: &[Val]) -> Result<Val, InstError> {
        Ok(self.push(op, args)?[0])
    }

    /// The finished segment.
    pub fn finish(self) -> Segment {
        self.segment
    }
}
