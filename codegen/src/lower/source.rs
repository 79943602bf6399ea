//! Rows that do not come from memory: the parameter that stands for a source, and loads that combine ranks.

use fusewright_graph::dim::product;
use fusewright_graph::{Dim, Graph, NanRule, Prim, ReduceOp};

use super::LowerError;
use super::emit::Emitter;
use crate::kernel::{InstOp, Param, ParamId, Shape, Source, Val};

/// Most ranks of which one row reads all.
const MAX_RANKS: u32 = 64;

/// Makes the last input's parameter what the source is; how its ranks combine, if it has any.
///
/// # Errors
/// An op that is no source, or too many ranks.
pub(super) fn declare(op: &Prim, body: &Graph, params: &mut [Param]) -> Result<Option<ReduceOp>, LowerError> {
    let last = body.inputs().len().checked_sub(1).and_then(|last| params.get_mut(last));
    let Some(param) = last else { return Err(LowerError::new("a source without a result")) };
    let (source, combine) = match op {
        Prim::Sdpa(_) | Prim::Opaque { .. } => {
            let name = if let Prim::Opaque { target, .. } = op { target } else { op.name() };
            let width = param.shape.last().cloned().unwrap_or(Dim::constant(1));
            (Source::Producer { op: name.to_owned(), column: Dim::constant(0), width }, None)
        }
        Prim::AllReduce(all) => match all.ranks {
            Some(ranks) if ranks <= MAX_RANKS => {
                (Source::Peer { ranks: Dim::constant(i64::from(ranks)) }, Some(all.op))
            }
            Some(ranks) => return Err(LowerError::new(format!("{ranks} ranks, at most {MAX_RANKS}"))),
            None => return Err(LowerError::new(format!("an all-reduce over {}", all.described()))),
        },
        _ => return Err(LowerError::new(format!("`{}` is no source of rows", op.name()))),
    };
    (param.source, param.early) = (source, false);
    Ok(combine)
}

impl Emitter<'_> {
    /// Loads what every rank has at an index of its own buffer, and combines it in the order of the ranks.
    pub(super) fn load_ranks(
        &mut self,
        param: ParamId,
        index: &Dim,
        shape: &Shape,
        here: Option<Val>,
    ) -> Result<Val, LowerError> {
        let declared = &self.params[param.0 as usize];
        let elements = product(&declared.shape);
        let Source::Peer { ranks } = &declared.source else { return self.load_at(param, index.clone(), shape, here) };
        let step = self.combine.map(|op| InstOp::Map(op.step(NanRule::Propagate)));
        let (Some(ranks), Some(step)) = (ranks.as_const(), step) else {
            return Err(LowerError::new("ranks that are not known, or not combined"));
        };
        let mut sum = self.load_at(param, index.clone(), shape, here)?;
        for rank in 1..ranks {
            let next = self.load_at(param, &(&elements * &Dim::constant(rank)) + index, shape, here)?;
            sum = self.push(step.clone(), &[sum, next]).map_err(LowerError::new)?[0];
        }
        Ok(sum)
    }
}
