//! In which order the rows of a kernel may be computed: where rows choose the places that they write, two may choose the
//! same one.

use std::collections::BTreeSet;

use fusewright_abi::RowOrder;
use fusewright_fusion::stretch::{Distinct, Places, Scalars};
use fusewright_graph::{DType, Dim, Literal, ScalarFn};

use crate::kernel::{INNER, InstOp, Kernel, LANE, ParamId, ROW, Segment, Val};

/// The order that the stores of a kernel leave: the later of two rows that write the same place is the one that stays,
/// as in the reference.
pub(super) fn row_order(kernel: &Kernel) -> RowOrder {
    let mut choices: Vec<Choice> = Vec::new();
    for segment in &kernel.segments {
        for inst in &segment.insts {
            let InstOp::Store { param, index, .. } = &inst.op else { continue };
            let mut names = BTreeSet::new();
            index.collect_symbols(&mut names);
            let values: Vec<Val> = names.iter().filter_map(|name| Val::from_symbol(name)).collect();
            match values.as_slice() {
                [] => {}
                &[place] => match Choice::of(kernel, segment, *param, place) {
                    Some(choice) if choices.iter().all(|other| choice.fits(other)) => choices.push(choice),
                    _ => return RowOrder::Ascending,
                },
                _ => return RowOrder::Ascending,
            }
        }
    }
    choices.first().map_or(RowOrder::Any, |choice| RowOrder::Chosen { param: choice.distinct.of })
}

/// Where a store writes its rows.
struct Choice {
    into: ParamId,
    /// The places as a function of the row's element of a parameter.
    distinct: Distinct<usize>,
    places: Places<Val>,
}

impl Choice {
    /// The places of a store, if rows whose elements of some parameter differ have other ones.
    fn of(kernel: &Kernel, segment: &Segment, into: ParamId, place: Val) -> Option<Choice> {
        let places = Places::of(&InSegment(segment), in_range(segment, place));
        let distinct = places.distinct()?;
        let param = element_of_row(kernel, segment, distinct.of)?;
        Some(Choice { into, distinct: distinct.named(param), places })
    }

    /// Whether rows whose elements differ also write apart from where another store writes. Both may write one place in
    /// one row.
    fn fits(&self, other: &Choice) -> bool {
        let apart = || self.distinct == other.distinct || self.places.are_apart(&other.places);
        self.distinct.of == other.distinct.of && (self.into != other.into || apart())
    }
}

/// The values of a segment.
struct InSegment<'k>(&'k Segment);

impl Scalars for InSegment<'_> {
    type Value = Val;

    fn function(&self, value: Val) -> Option<(ScalarFn, Vec<Val>)> {
        match made(self.0, value)? {
            (InstOp::Map(f), args) if [DType::I64, DType::Bool].contains(&self.0.ty(value).dtype) => {
                Some((*f, args.to_vec()))
            }
            _ => None,
        }
    }

    fn number(&self, value: Val) -> Option<Dim> {
        match made(self.0, value)?.0 {
            InstOp::Literal(Literal::Int(_, n)) => Some(Dim::constant(*n)),
            InstOp::Index(dim) => {
                let mut names = BTreeSet::new();
                dim.collect_symbols(&mut names);
                let varies =
                    |name: &String| [ROW, INNER, LANE].contains(&name.as_str()) || Val::from_symbol(name).is_some();
                (!names.iter().any(varies)).then(|| dim.clone())
            }
            _ => None,
        }
    }
}

/// The instruction that makes a value, and its operands.
fn made(segment: &Segment, value: Val) -> Option<(&InstOp, &[Val])> {
    let inst = segment.insts.iter().find(|inst| inst.results.contains(&value))?;
    Some((&inst.op, &inst.args))
}

/// A place without what moves it into its range: a row whose place is out of range writes nothing.
fn in_range(segment: &Segment, place: Val) -> Val {
    let is_bound = |v: Val| matches!(made(segment, v), Some((InstOp::Literal(_) | InstOp::Index(_), _)));
    match made(segment, place) {
        Some((InstOp::Map(ScalarFn::Min | ScalarFn::Max), &[a, b])) if is_bound(b) => in_range(segment, a),
        Some((InstOp::Map(ScalarFn::Min | ScalarFn::Max), &[a, b])) if is_bound(a) => in_range(segment, b),
        _ => place,
    }
}

/// The parameter whose element of the row's number a value is.
fn element_of_row(kernel: &Kernel, segment: &Segment, value: Val) -> Option<usize> {
    match made(segment, value)? {
        (InstOp::Load { param, index, .. }, []) if *index == Dim::symbol(ROW) => {
            let taken = [DType::I32, DType::I64].contains(&kernel.param(*param).dtype);
            taken.then_some(param.0 as usize)
        }
        (InstOp::Cast { to: DType::I64, .. }, &[from]) => element_of_row(kernel, segment, from),
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
        // The place behind a slot of −1 is written, and the one of a second such slot too.
        let sum = "%given = load slots[row] : scalar<i64>\n%one = literal i64 1\n%slot = add %given, %one";
        assert_eq!(by_row("i64[s]", sum), RowOrder::Ascending);
        assert_eq!(order("i64[s]", &format!("{wide}\n{in_range}"), "row*8 + lane"), RowOrder::Any);
    }

    /// The order of a kernel that writes twice into one buffer where `places` say, `%p` and `%q`.
    fn of_both(places: &str) -> RowOrder {
        let text = format!(
            "kernel @write(s = extent(x, 0)) rows s {{
               param %x: f32[s, 8] in
               param %slots: i64[s] in
               param %out: f32[16, 8] inout
               segment @m inner 1 {{
                 %x = load x[row*8 + lane] : row<f32, 8>
                 %slot = load slots[row] : scalar<i64>
                 %zero = literal i64 0
                 %two = literal i64 2
                 %four = literal i64 4
                 %none = literal i64 -1
                 %most = index 15
                 %last = index 8
                 %least = ge %slot, %zero
                 %below = lt %slot, %last
                 %in = and %least, %below
                 {places}
                 %pa = max %p, %zero
                 %pb = min %pa, %most
                 %ph = eq %p, %pb
                 %qa = max %q, %zero
                 %qb = min %qa, %most
                 %qh = eq %q, %qb
                 store out[%pb*8 + lane], %x if %ph
                 store out[%qb*8 + lane], %x if %qh
               }}
             }}"
        );
        row_order(&text.parse().unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn rows_may_write_several_places_that_lie_apart() {
        let chosen = RowOrder::Chosen { param: 1 };
        let p = "%p = select %in, %slot, %none";
        let q = |by: &str| format!("{p}\n%m = add %slot, %{by}\n%q = select %in, %m, %none");
        assert_eq!(of_both(&q("last")), chosen);
        assert_eq!(of_both(&q("four")), RowOrder::Ascending, "places 4 to 7 are of both");
        assert_eq!(of_both(&q("zero")), chosen, "each row writes one place");
        // Every second pair.
        let pairs = "%d = div %slot, %two\n%r = rem %slot, %two\n%e = mul %d, %four\n%f = add %e, %r
                     %p = select %in, %f, %none";
        let beside = |by: &str| format!("{pairs}\n%g = add %f, %{by}\n%q = select %in, %g, %none");
        assert_eq!(of_both(&beside("two")), chosen);
        assert_eq!(of_both(&beside("four")), RowOrder::Ascending, "the next pair");
        let same = "%r = rem %slot, %four\n%p = select %in, %r, %none\n%q = select %in, %r, %none";
        assert_eq!(of_both(same), RowOrder::Ascending, "slots 0 and 4 are one place");
    }
}
