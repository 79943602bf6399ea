//! In which order the rows of a kernel may be computed: where rows choose the places that they write, two may choose the
//! same one.

use std::collections::BTreeSet;

use fusewright_abi::RowOrder;
use fusewright_graph::{DType, Dim, ScalarFn};

use crate::kernel::{InstOp, Kernel, ROW, Segment, Val};

/// The order that the stores of a kernel leave: the later of two rows that write the same place is the one that stays,
/// as in the reference.
pub(super) fn row_order(kernel: &Kernel) -> RowOrder {
    let mut chosen = BTreeSet::new();
    for segment in &kernel.segments {
        for inst in &segment.insts {
            let InstOp::Store { index, .. } = &inst.op else { continue };
            let mut names = BTreeSet::new();
            index.collect_symbols(&mut names);
            let values: Vec<Val> = names.iter().filter_map(|name| Val::from_symbol(name)).collect();
            match values.as_slice() {
                [] => {}
                &[place] => {
                    chosen.insert(element_of_row(kernel, segment, place));
                }
                _ => return RowOrder::Ascending,
            }
        }
    }
    match (chosen.len(), chosen.pop_first().flatten()) {
        (0, _) => RowOrder::Any,
        (1, Some(param)) => RowOrder::Chosen { param },
        _ => RowOrder::Ascending,
    }
}

/// The parameter whose element of the row's number a place is, where the place is in range.
fn element_of_row(kernel: &Kernel, segment: &Segment, place: Val) -> Option<usize> {
    let inst = segment.insts.iter().find(|inst| inst.results.contains(&place))?;
    match &inst.op {
        InstOp::Load { param, index, .. } if inst.args.is_empty() && *index == Dim::symbol(ROW) => {
            let taken = [DType::I32, DType::I64].contains(&kernel.param(*param).dtype);
            taken.then_some(param.0 as usize)
        }
        InstOp::Cast { to: DType::I64, .. } => element_of_row(kernel, segment, *inst.args.first()?),
        // Moved into its range; a row whose place is out of range writes nothing.
        InstOp::Map(ScalarFn::Min | ScalarFn::Max) => {
            let bound = |v: Val| {
                let made = segment.insts.iter().find(|inst| inst.results.contains(&v));
                made.is_some_and(|made| matches!(made.op, InstOp::Literal(_) | InstOp::Index(_)))
            };
            match *inst.args.as_slice() {
                [a, b] if bound(b) => element_of_row(kernel, segment, a),
                [a, b] if bound(a) => element_of_row(kernel, segment, b),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of a kernel whose rows write where `places` say.
    fn order(slots: &str, places: &str, index: &str) -> RowOrder {
        let text = format!(
            "kernel @write(s = extent(x, 0)) rows s {{
               param %x: f32[s, 8] in
               param %slots: {slots} in
               param %out: f32[16, 8] inout
               segment @m inner 1 {{
                 %x = load x[row*8 + lane] : row<f32, 8>
                 {places}
                 store out[{index}], %x if %here
               }}
             }}"
        );
        row_order(&text.parse().unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn rows_that_choose_their_places_are_told_from_those_that_do_not() {
        let in_range = "%least = literal i64 0
                        %most = index 15
                        %above = max %slot, %least
                        %at = min %above, %most
                        %here = eq %slot, %at";
        let by_row = |ty: &str, load: &str| order(ty, &format!("{load}\n{in_range}"), "%at*8 + lane");
        let wide = "%slot = load slots[row] : scalar<i64>";
        assert_eq!(by_row("i64[s]", wide), RowOrder::Chosen { param: 1 });
        let narrow = "%short = load slots[row] : scalar<i32>\n%slot = cast %short to i64 trunc";
        assert_eq!(by_row("i32[s]", narrow), RowOrder::Chosen { param: 1 });
        // Every other element, and what is computed.
        let other = "%slot = load slots[row*2] : scalar<i64>";
        assert_eq!(by_row("i64[s, 2]", other), RowOrder::Ascending);
        let sum = "%given = load slots[row] : scalar<i64>\n%one = literal i64 1\n%slot = add %given, %one";
        assert_eq!(by_row("i64[s]", sum), RowOrder::Ascending);
        assert_eq!(order("i64[s]", &format!("{wide}\n{in_range}"), "row*8 + lane"), RowOrder::Any);
    }
}
