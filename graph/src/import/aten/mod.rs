//! The table of ATen ops: name, schema, importer.
//!
//! A row's schema lists the parameters with their defaults, since a file leaves out arguments that equal them; a call
//! with an argument that the row does not list is refused, never half understood. Importers write every rounding as a
//! cast: an op on bf16 or f16 tensors is computed as PyTorch does, exactly rounded once per op, with Python scalars
//! kept in f32.

mod activation;
mod arrange;
mod attention;
mod bits;
mod classify;
mod combine;
mod complex;
mod convolution;
mod create;
mod diagonal;
mod distance;
mod division;
mod einsum;
mod elementwise;
mod entropy;
mod hyperbolic;
mod index;
pub(super) mod layout;
mod loss;
mod matmul;
mod mixture;
mod norm;
mod place;
mod plane;
mod prefixes;
mod products;
pub(super) mod promote;
mod recurrent;
pub(super) mod reduce;
mod resample;
mod rows;
mod special;
mod statistics;
mod update;
mod vectors;
mod window;

use std::borrow::Cow;

use super::sized;
use super::table::Row;
use rows::{ALIASES, COMPLEX, COMPLEX_MOVED, TABLE};

/// The row of an op by its short target.
pub(super) fn find(target: &str) -> Option<&'static Row> {
    let target = first_name(target);
    TABLE.iter().flat_map(|rows| rows.iter()).find(|row| row.target == target)
}

/// The row of an op that has complex operands or results.
pub(super) fn find_complex(target: &str) -> Option<&'static Row> {
    let name = first_name(target);
    let own = COMPLEX.iter().find(|row| row.target == name);
    own.or_else(|| (sized::is_view(&name) || COMPLEX_MOVED.contains(&name.as_ref())).then(|| find(target)).flatten())
}

/// A target under the first of its op's names.
fn first_name(target: &str) -> Cow<'_, str> {
    let Some(name) = target.strip_prefix("aten.") else { return target.into() };
    let (op, overload) = name.split_at(name.find('.').unwrap_or(name.len()));
    match ALIASES.iter().find(|(alias, _)| *alias == op) {
        Some((_, first)) => format!("aten.{first}{overload}").into(),
        None => target.into(),
    }
}

/// Whether a node without tensor results only reads a size, computes with sizes or checks a property that the types
/// already state. Sizes have their expressions in a table of the file.
pub(super) fn is_size_or_check(target: &str) -> bool {
    const CHECKS: &[&str] = &[
        "aten._assert_tensor_metadata",
        "aten._assert_scalar",
        "aten._assert_async",
        "aten._assert_async.msg",
        "aten.sym_constrain_range",
        "aten.sym_constrain_range_for_size",
        "aten.sym_size.int",
        "aten.sym_stride.int",
        "aten.sym_numel",
        "aten.sym_storage_offset",
    ];
    let prefixes = ["_operator.", "math.", "torch.sym_", "sym_"];
    CHECKS.contains(&target) || prefixes.iter().any(|prefix| target.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_unique_and_schemas_well_formed() {
        let rows: Vec<&Row> = TABLE.iter().flat_map(|rows| rows.iter()).collect();
        assert!(rows.len() >= 300, "{}", rows.len());
        let mut targets: Vec<&str> = rows.iter().map(|r| r.target).collect();
        targets.sort_unstable();
        targets.dedup();
        assert_eq!(targets.len(), rows.len(), "two rows for one op");
        for row in rows.into_iter().chain(COMPLEX) {
            for parameter in row.schema.split(", ") {
                let name = parameter.split('=').next().unwrap_or_default();
                assert!(
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
                    "{}",
                    row.target
                );
            }
            assert!(!row.target.starts_with("torch.") && !row.target.ends_with(".default"), "{}", row.target);
            assert_eq!(first_name(row.target), row.target, "a row under another name of its op");
        }
        for target in COMPLEX_MOVED {
            assert!(find(target).is_some(), "{target} has no row");
            assert!(COMPLEX.iter().all(|row| row.target != *target), "{target} has two meanings");
        }
    }

    #[test]
    fn other_names_of_an_op_lead_to_its_row() {
        for (alias, first) in ALIASES {
            let named = |row: &&Row| {
                let rest = row.target.strip_prefix("aten.").and_then(|name| name.strip_prefix(first));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let row = TABLE.iter().flat_map(|rows| rows.iter()).find(named);
            let row = row.unwrap_or_else(|| panic!("`{alias}` is a name of `{first}`, which has no row"));
            let target = format!("aten.{alias}{}", &row.target["aten.".len() + first.len()..]);
            assert!(find(&target).is_some_and(|found| found.target == row.target), "{target}");
        }
    }
}
