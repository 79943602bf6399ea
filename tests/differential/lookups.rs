//! Functions that are looked up, beside rows that loops of their own store.

use crate::judge;
use fusewright::graph::Graph;

/// The table's argument lies below a stored row: it is a value of groups that do not begin where chunks of lanes do. Columns are
/// reduced too, so that the row is stored and read piece by piece.
#[test]
fn arguments_below_a_stored_row_are_not_computed_again() {
    for (rows, lanes) in [(2, 260), (3, 180), (33, 20), (33, 27)] {
        let text = format!(
            "graph @turns(s: 0..; %x: f16[{rows}, s, {lanes}], %c: bf16[{rows}, s, {lanes}]) {{
               %most = reduce %x {{op = max, axes = [2]}}
               %group = reshape %most {{shape = [{rows}, s, 1]}}
               %sum = add %x, %group
               %short = cast %sum {{to = bf16, round = rne}}
               %distance = abs %short
               %below = neg %distance
               %product = mul %c, %below
               %column = reduce %product {{op = max, axes = [0]}}
               %columns = reshape %column {{shape = [1, s, {lanes}]}}
               %y = add %product, %columns
               return %y
             }}"
        );
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        judge::judge(&graph, 5).unwrap_or_else(|f| panic!("{}: {}\n{text}", f.kind, f.message));
    }
}
