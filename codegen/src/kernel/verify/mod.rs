//! The verifier of Kernel IR. After `Ok`, an interpreter or backend need not check again:
//!
//! 1. Names of the kernel, its dims, parameters and segments are C identifiers; dims and parameters together are
//!    unique and not reserved symbols; segments are unique; there is at least one segment.
//! 2. A dim that comes from an extent names an axis of an existing parameter whose extent is that dim alone; one that
//!    comes from a stride names an existing axis.
//! 3. Extents, row counts, inner counts, lengths and group sizes mention declared dims only and are not negative where
//!    known; group sizes are positive where known.
//! 4. An alias names another parameter of equal dtype and shape. `early` and `donated` parameters are read.
//! 5. Values are numbered in order of definition and defined before use; recorded types are those that
//!    the instruction infers (operands, predicates and `ArgReduce` ops that do not fit are found there).
//! 6. An index mentions declared dims, `row`, `inner`, integer scalars defined before, and `lane` only if the value has
//!    lanes.
//! 7. Loads read parameters that are not `out`, stores write those that are not `in`; every `out` is stored.
//! 8. An unpredicated store moves with every row index that runs over more than one row.
//! 9. Literals are values of their dtype. Reductions have an order whose numbers are positive and at most
//!    [`MAX_ACCUMULATORS`]; they, `arg_reduce` and `top_k` do not run over booleans.
//! 10. Every load and store lies inside its parameter for all rows, inner rows, lanes, dims and gathered integers that a
//!     launch admits, and slices and `top_k` take lanes that their operand has (`bounds/`).
//! 11. Claims mention declared dims.

mod bounds;
mod insts;

use std::collections::BTreeSet;
use std::fmt;

use fusewright_abi::ParamAccess;
use fusewright_graph::dim::product;
use fusewright_graph::{Dim, Literal, num};

use super::{DimOrigin, INNER, Kernel, LANE, Param, ParamId, ROW};

/// Most accumulators, and most lanes of a thread, that a reduction tree may have.
pub const MAX_ACCUMULATORS: usize = 1 << 16;
/// Most lanes of a row, so that generated code may count them in 32 bits.
pub const MAX_LANES: i64 = i32::MAX as i64;

/// One broken invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Where: a declaration or an instruction as printed.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

/// Every invariant that a kernel breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// Name of the kernel.
    pub kernel: String,
    /// At least one.
    pub violations: Vec<Violation>,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel @{} is not valid:", self.kernel)?;
        self.violations.iter().try_for_each(|v| write!(f, "\n  {}: {}", v.place, v.message))
    }
}

impl std::error::Error for VerifyError {}

/// Checks every invariant of the module documentation.
///
/// # Errors
/// All violations, in order of the kernel's text.
pub fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    let dims = kernel.dims.iter().map(|d| d.name.as_str()).collect();
    let mut v = Verifier { kernel, dims, violations: Vec::new() };
    v.names();
    v.dim_origins();
    for param in &kernel.params {
        v.param(param);
    }
    v.extent("rows", "the row count", &kernel.rows, 0);
    for claim in &kernel.claims {
        for side in [&claim.least, &claim.most] {
            v.extent("a claim", "a side", side, i64::MIN);
        }
    }
    for segment in &kernel.segments {
        v.segment(segment);
    }
    v.stored();
    if v.violations.is_empty() {
        Ok(())
    } else {
        Err(VerifyError { kernel: kernel.name.clone(), violations: v.violations })
    }
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    dims: BTreeSet<&'a str>,
    violations: Vec<Violation>,
}

impl Verifier<'_> {
    fn require(&mut self, holds: bool, place: impl fmt::Display, message: impl FnOnce() -> String) -> bool {
        if !holds {
            self.violations.push(Violation { place: place.to_string(), message: message() });
        }
        holds
    }

    fn names(&mut self) {
        let kernel = self.kernel;
        let mut all: Vec<(String, &str)> = vec![("kernel".to_owned(), &kernel.name)];
        all.extend(kernel.dims.iter().map(|d| (format!("dim {}", d.name), d.name.as_str())));
        all.extend(kernel.params.iter().map(|p| (format!("param %{}", p.name), p.name.as_str())));
        all.extend(kernel.segments.iter().map(|s| (format!("segment @{}", s.name), s.name.as_str())));
        for (place, name) in &all {
            self.require(is_identifier(name), place, || "its name is not an identifier".to_owned());
        }
        let (mut used, mut segments) = (BTreeSet::new(), BTreeSet::new());
        for (place, name) in &all[1..] {
            let names = if place.starts_with("segment") { &mut segments } else { &mut used };
            let fresh = names.insert(*name);
            self.require(fresh, place, || "its name is used twice".to_owned());
            let reserved = [ROW, INNER, LANE].contains(name) && !place.starts_with("segment");
            self.require(!reserved, place, || "its name is a reserved symbol".to_owned());
        }
        self.require(!kernel.segments.is_empty(), "kernel", || "it has no segment".to_owned());
    }

    fn dim_origins(&mut self) {
        for dim in &self.kernel.dims {
            let place = format!("dim {}", dim.name);
            let (DimOrigin::Extent(param, axis) | DimOrigin::Stride(param, axis)) = dim.origin else { continue };
            let extent = self.kernel.params.get(param.0 as usize).and_then(|p| p.shape.get(axis));
            let Some(extent) = extent else {
                self.require(false, place, || format!("parameter {} has no axis {axis}", param.0));
                continue;
            };
            if matches!(dim.origin, DimOrigin::Extent(..)) {
                let alone = extent.as_symbol() == Some(&dim.name);
                self.require(alone, place, || format!("it is the extent of an axis of extent {extent}"));
            }
        }
    }

    fn param(&mut self, param: &Param) {
        let place = format!("param %{}", param.name);
        for extent in &param.shape {
            self.extent(&place, "an extent", extent, 0);
        }
        if let Some(alias) = param.alias {
            self.alias(&place, param, alias);
        }
        let read = param.access != ParamAccess::Out;
        self.require(!param.early || read, &place, || "it is `early` but not read".to_owned());
        self.require(!param.donated || read, &place, || "it is `donated` but not read".to_owned());
    }

    fn alias(&mut self, place: &dyn fmt::Display, param: &Param, alias: ParamId) {
        let Some(other) = self.kernel.params.get(alias.0 as usize) else {
            self.require(false, place, || format!("it aliases parameter {}, which does not exist", alias.0));
            return;
        };
        self.require(!std::ptr::eq(other, param), place, || "it aliases itself".to_owned());
        let same = other.dtype == param.dtype && product(&other.shape) == product(&param.shape);
        self.require(same, place, || {
            let (a, b) = ((param.dtype, &param.shape), (other.dtype, &other.shape));
            format!("{}{:?} aliases {}{:?}", a.0, a.1, b.0, b.1)
        });
    }

    /// An expression over declared dims, at least `least` where known.
    fn extent(&mut self, place: &(impl fmt::Display + ?Sized), what: &str, extent: &Dim, least: i64) {
        if let Some(value) = extent.as_const() {
            self.require(value >= least, place, || format!("{what} is {extent}"));
            return;
        }
        let mut names = BTreeSet::new();
        extent.collect_symbols(&mut names);
        for name in names {
            let known = self.dims.contains(name.as_str());
            self.require(known, place, || format!("{what} mentions `{name}`, which is not a dim"));
        }
    }

    fn stored(&mut self) {
        let stored: BTreeSet<ParamId> = self
            .kernel
            .segments
            .iter()
            .flat_map(|s| &s.insts)
            .filter_map(|inst| match inst.op {
                super::InstOp::Store { param, .. } => Some(param),
                _ => None,
            })
            .collect();
        for (i, param) in self.kernel.params.iter().enumerate() {
            let fine = param.access != ParamAccess::Out || stored.contains(&ParamId(i as u32));
            self.require(fine, format!("param %{}", param.name), || "it is `out` but never stored".to_owned());
        }
    }
}

/// Whether a literal is a value of its dtype.
pub(crate) fn representable(literal: &Literal) -> bool {
    match *literal {
        Literal::Float(dtype, v) => {
            let held = num::decode(dtype, num::encode(dtype, v));
            dtype.is_float() && (held.to_bits() == v.to_bits() || held.is_nan() && v.is_nan())
        }
        Literal::Int(dtype, v) => {
            let (least, greatest) = num::int_range(dtype);
            !dtype.is_float() && (least..=greatest).contains(&num::int_value(dtype, v))
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests;
