//! Functions of lanes that repeat: computed once, and the results repeated.
//!
//! The two halves of a rotation turn by the same angles, so models write `cos(cat(f, f))`; half of these cosines are the
//! other half.

use super::emit::Emitter;
use crate::kernel::{InstOp, Shape, Val};

impl Emitter<'_> {
    /// A lane by lane function of joined rows of which some are the same, as a join of its values on them; `None` if none
    /// are.
    pub(super) fn repeated(&mut self, op: &InstOp, args: &[Val]) -> Result<Option<Vec<Val>>, String> {
        let Some((join, parts)) = self.parts(op, args) else { return Ok(None) };
        let mut joined = Vec::with_capacity(parts.len());
        for part in &parts {
            joined.push(self.push(op.clone(), part)?[0]);
        }
        self.push(join, &joined).map(Some)
    }

    /// The join of all rows among the operands, and the operands of each of its parts, of which some are the same.
    fn parts(&self, op: &InstOp, args: &[Val]) -> Option<(InstOp, Vec<Vec<Val>>)> {
        if !matches!(op, InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_)) {
            return None;
        }
        let shape = |v: Val| &self.segment.ty(v).shape;
        let mut join: Option<(&InstOp, Vec<Vec<Val>>)> = None;
        for (place, &arg) in args.iter().enumerate().filter(|(_, arg)| *shape(**arg) != Shape::Scalar) {
            let inst = self.segment.definition(arg)?;
            if !matches!(inst.op, InstOp::Cat | InstOp::Zip) {
                return None;
            }
            let (known, parts) = join.get_or_insert_with(|| (&inst.op, vec![args.to_vec(); inst.args.len()]));
            if **known != inst.op || parts.len() != inst.args.len() {
                return None;
            }
            for (part, &own) in parts.iter_mut().zip(&inst.args) {
                part[place] = own;
            }
        }
        let (op, parts) = join?;
        let rows =
            |part: &[Val]| -> Vec<&Shape> { part.iter().map(|&v| shape(v)).filter(|s| **s != Shape::Scalar).collect() };
        let fit = parts.iter().all(|part| rows(part).windows(2).all(|pair| pair[0] == pair[1]));
        let repeats = parts.iter().enumerate().any(|(i, part)| parts[..i].contains(part));
        (fit && repeats).then(|| (op.clone(), parts))
    }
}
