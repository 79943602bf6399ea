//! Judgement of sets of nodes: they may be one kernel, and one kernel may be slower than two.

use std::collections::BTreeSet;

use fusewright_graph::{NodeId, Value};

use super::copies::{self, most_copies};
use super::cost::is_too_costly;
use super::grow::Growth;
use super::moved::elements;
use super::outline::{Border, Outline};
use super::verdicts::Verdict;
use super::{Refusal, expand, row_program};

impl Growth<'_, '_> {
    /// Judges a set of nodes as one row program.
    pub(super) fn fits(&mut self, members: &BTreeSet<NodeId>, segments: bool) -> Verdict {
        if members.len() > self.limits.nodes {
            return Err(if self.limits.nodes == 1 { Refusal::Off } else { Refusal::TooLarge });
        }
        self.legal(&Border::of(self.flow, members, None), segments)
    }

    pub(super) fn legal(&mut self, border: &Border, segments: bool) -> Verdict {
        if border.inputs.len() + border.outputs.len() > self.limits.operands {
            return Err(Refusal::TooLarge);
        }
        let (flow, limits, content) = (self.flow, *self.limits, self.content(border));
        self.verdicts.of(content, segments, || {
            let outline = Outline::within(flow, border).map_err(|_| Refusal::Reshape)?;
            let body = expand(&outline.body).map_err(|_| Refusal::Reshape)?;
            // Layout in front of functions may leave fewer copies than the body has.
            let most = limits.copies.saturating_mul(copies::READS);
            if most_copies(&body, most) > most {
                return Err(Refusal::TooLarge);
            }
            let program = row_program(&body, segments, self.nesting)?;
            let computed = program.body.as_ref().unwrap_or(&body);
            if most_copies(computed, limits.copies) > limits.copies {
                return Err(Refusal::TooLarge);
            }
            // What one op computes again stays with it.
            let several = border.nodes.iter().filter(|id| !flow.is_free(**id)).nth(1).is_some();
            if several && is_too_costly(computed, &program.space, &limits) {
                return Err(Refusal::TooCostly);
            }
            let form = program.space.form.as_ref().map_or(computed, |form| &form.body);
            Ok(limits.costs.map_or(0.0, |costs| costs.moved(&body, form)))
        })
    }

    /// Judges two regions as one kernel, which is to be no slower than two.
    pub(super) fn joins(
        &mut self,
        regions: [usize; 2],
        joined: &BTreeSet<NodeId>,
        segments: bool,
    ) -> Result<(), Refusal> {
        let again = self.fits(joined, segments)?;
        let Some(costs) = self.limits.costs.filter(|_| again > 0.0) else { return Ok(()) };
        let parts = regions.map(|region| self.members[region].clone());
        let [first, second] = regions.map(|region| self.segments.contains(&region));
        let apart = self.again(&parts[0], first) + self.again(&parts[1], second);
        let bytes = self.stored_between(&parts[0], &parts[1]) + self.stored_between(&parts[1], &parts[0]);
        if again <= apart + costs.stored(bytes) { Ok(()) } else { Err(Refusal::TooCostly) }
    }

    /// The time that a kernel of a set of nodes takes for what it computes again; none if there is no kernel.
    pub(super) fn again(&mut self, members: &BTreeSet<NodeId>, segments: bool) -> f64 {
        self.fits(members, segments).unwrap_or(0.0)
    }

    /// The bytes that the first of two regions stores for the second, symbols taken to be large.
    pub(super) fn stored_between(&self, first: &BTreeSet<NodeId>, second: &BTreeSet<NodeId>) -> f64 {
        let flow = self.flow;
        let is_read = |value: &Value| flow.readers(*value).iter().any(|reader| second.contains(reader));
        let values = first.iter().flat_map(|&id| &flow.graph.node(id).results).filter(|value| is_read(value));
        let bytes = |value: &Value| {
            let ty = flow.graph.ty(*value);
            elements(&ty.shape) * f64::from(ty.dtype.bits()) / 8.0
        };
        values.map(bytes).sum()
    }
}
