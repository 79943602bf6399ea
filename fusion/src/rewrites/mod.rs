//! Rewrites: equations between graphs, written in the text form of [`Rule`].
//!
//! A rewrite is a theorem: the tests evaluate both sides of every entry of the tables on random and edge operands. What
//! is `exact` gives the same bits at every dtype that its parameters admit; NaN payloads aside, which no op keeps. What
//! is `fast` changes roundings and runs in relaxed mode only. Rules are directed; operands of commutative functions
//! match in either order. A rule applies only where both sides have one type, so that a side that broadcasting would
//! stretch is never lost; equations that need arithmetic on extents are code, in `passes/layout.rs`.

mod apply;
mod arithmetic;
mod casts;
mod fast;
mod guard;
mod layout;
mod matcher;
mod miss;
mod plan;
mod rotation;
mod sink;
pub mod theorem;
mod user;
mod widened;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;

use fusewright_graph::text::{AttrPattern, Rest, Rule, RuleNode, RuleOp, TextError};

pub use apply::apply;
pub(crate) use apply::{Form, Rules, form};
pub use guard::{Found, Guard, Relation, Term, Test};
pub(crate) use matcher::{Instance, Search, Watch, uniform};
pub(crate) use miss::op_name;
pub(crate) use plan::Plan;
pub use user::{UserPattern, UserPatterns};

/// What a rewrite keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Every bit.
    Exact,
    /// The value up to roundings; relaxed mode only.
    Fast,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Exact => "exact",
            Class::Fast => "fast",
        })
    }
}

/// An equation that is used from left to right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// Name, unique among the tables.
    pub name: String,
    /// What it keeps.
    pub class: Class,
    /// Why it holds, or what it is for.
    pub doc: String,
    /// What is replaced.
    pub lhs: Rule,
    /// What it is replaced by.
    pub rhs: Rule,
}

/// Why two fragments are no rewrite.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RewriteError {
    /// A side is not in the text form.
    #[error("rewrite `{name}`: {error}")]
    Text {
        /// Name of the rewrite.
        name: String,
        /// What is wrong.
        error: TextError,
    },
    /// The sides do not fit each other or cannot be matched.
    #[error("rewrite `{name}`: {message}")]
    Shape {
        /// Name of the rewrite.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// An entry of a table.
struct Entry {
    name: &'static str,
    class: Class,
    doc: &'static str,
    lhs: &'static str,
    rhs: &'static str,
}

/// A table: doc line, class, name and both sides of each rewrite.
macro_rules! rewrites {
    ($( #[doc = $doc:literal] $class:ident $name:ident: $lhs:literal => $rhs:literal; )*) => {
        /// The table.
        pub(super) const TABLE: &[super::Entry] = &[$( super::Entry {
            name: stringify!($name),
            class: rewrites!(@class $class),
            doc: $doc,
            lhs: $lhs,
            rhs: $rhs,
        } ),*];
    };
    (@class exact) => { super::Class::Exact };
    (@class fast) => { super::Class::Fast };
}
use rewrites;

/// Every rewrite of the tables; where two apply, the earlier does.
pub fn all() -> &'static [Rewrite] {
    static ALL: OnceLock<Vec<Rewrite>> = OnceLock::new();
    ALL.get_or_init(|| {
        let exact =
            [layout::TABLE, casts::TABLE, widened::TABLE, sink::TABLE, arithmetic::TABLE, rotation::TABLE].into_iter();
        let entries = exact.chain([fast::TABLE]).flatten();
        let parsed = entries.map(|e| Rewrite::new(e.name, e.class, e.doc.trim(), e.lhs, e.rhs));
        parsed.collect::<Result<_, _>>().unwrap_or_else(|e| unreachable!("the tables are in the text form: {e}"))
    })
}

impl Rewrite {
    /// A rewrite from the texts of its sides.
    ///
    /// # Errors
    /// A side that is not in the text form, sides with different parameters, a left side that does not bind what the
    /// right side needs, or one whose last node does not yield the one result.
    pub fn new(name: &str, class: Class, doc: &str, lhs: &str, rhs: &str) -> Result<Self, RewriteError> {
        let parse =
            |text: &str| text.parse::<Rule>().map_err(|error| RewriteError::Text { name: name.to_owned(), error });
        let (lhs, rhs) = (parse(lhs)?, parse(rhs)?);
        match check(&lhs, &rhs) {
            Some(message) => Err(RewriteError::Shape { name: name.to_owned(), message }),
            None => Ok(Rewrite { name: name.to_owned(), class, doc: doc.to_owned(), lhs, rhs }),
        }
    }
}

/// What is wrong with the sides of an entry of the tables, if anything.
fn check(lhs: &Rule, rhs: &Rule) -> Option<String> {
    if lhs.yields.len() != 1 || rhs.yields.len() != 1 {
        return Some("each side yields one value".to_owned());
    }
    let nodes = lhs.nodes.iter().chain(&rhs.nodes);
    if nodes.clone().any(|n| n.results.len() != 1) {
        return Some("a node has one result".to_owned());
    }
    let root = |rule: &Rule| rule.nodes.last().is_none_or(|n| n.results == rule.yields);
    if lhs.nodes.is_empty() || !root(lhs) || !root(rhs) {
        return Some("the value of a side is that of its last node".to_owned());
    }
    if matches!(lhs.nodes.last().map(|n| &n.op), Some(RuleOp::Constant(_))) {
        return Some("the left side ends in a constant".to_owned());
    }
    sides(lhs, rhs)
}

/// What is wrong with any pair of sides: parameters, and names that nothing reads or binds.
fn sides(lhs: &Rule, rhs: &Rule) -> Option<String> {
    let names = |rule: &Rule| rule.params.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    if names(lhs) != names(rhs) || rhs.params.iter().any(|p| !p.dtypes.is_empty()) {
        return Some("the right side repeats the parameters of the left one, without dtypes".to_owned());
    }
    let read: BTreeSet<&String> = lhs.nodes.iter().flat_map(|n| &n.operands).chain(&lhs.yields).collect();
    // Of several results one is enough.
    let unread = |n: &&RuleNode| !n.results.iter().any(|r| read.contains(r));
    let unread = lhs.nodes.iter().find(unread).map(|n| &n.results[0]);
    let unread = lhs.params.iter().map(|p| &p.name).find(|name| !read.contains(name)).or(unread);
    if let Some(name) = unread {
        return Some(format!("the left side does not read `{name}`"));
    }
    let bound: BTreeSet<&str> = lhs.nodes.iter().flat_map(|n| variables(&n.op)).collect();
    let unbound = rhs.nodes.iter().flat_map(|n| variables(&n.op)).find(|v| !bound.contains(v));
    unbound.map(|v| format!("the left side does not bind `${v}`"))
}

/// The variables among the attributes of a node; `..` on its own is one that nothing binds.
fn variables(op: &RuleOp) -> Vec<&str> {
    let RuleOp::Pattern { attrs, rest, .. } = op else { return Vec::new() };
    let named = attrs.iter().filter_map(|(_, pattern)| match pattern {
        AttrPattern::Variable(v) => Some(v.as_str()),
        AttrPattern::Text(_) => None,
    });
    let rest = match rest {
        Rest::Variable(v) => Some(v.as_str()),
        Rest::Any | Rest::Default => None,
    };
    named.chain(rest).collect()
}

/// How often each rewrite of a run applied, by name.
pub type Counts = BTreeMap<String, usize>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_entry_has_a_reason() {
        let names: BTreeSet<&str> = all().iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names.len(), all().len());
        assert!(all().iter().all(|r| r.doc.ends_with('.')), "a doc line is a sentence");
    }

    /// What a rewrite makes of a graph, and how often it applied.
    fn applied(lhs: &str, rhs: &str, graph: &str) -> (String, usize) {
        let rewrite = Rewrite::new("r", Class::Exact, "", lhs, rhs).expect("a rewrite");
        let (out, counts) = apply(&graph.parse().expect("a graph"), &[&rewrite]).expect("types");
        (crate::passes::dce(&out).0.to_string(), counts.values().sum())
    }

    #[test]
    fn a_node_of_both_sides_is_new_where_its_operand_is() {
        let graph = "graph @g(s: 1..; %x: f32[s]) {\n  %a = exp %x\n  %b = neg %a\n  %c = abs %b\n  return %c\n}\n";
        let lhs = "(x) a = exp x; b = neg a; c = abs b; yield c";
        let (out, times) = applied(lhs, "(x) a = sqrt x; b = neg a; c = abs b; yield c", graph);
        assert!(out.contains("sqrt") && !out.contains("exp"), "{out}");
        assert_eq!(times, 1);
    }

    #[test]
    fn a_rewrite_that_makes_its_own_left_side_comes_to_an_end() {
        let graph = "graph @g(s: 1..; %x: f32[s], %y: f32[s]) {\n  %a = max %x, %y\n  return %a\n}\n";
        let rhs = "(x, y) p = neg x; q = neg p; a = max y, q; yield a";
        let (out, times) = applied("(x, y) a = max x, y; yield a", rhs, graph);
        assert!(times > 1 && out.contains("max"), "{out}");
    }

    #[test]
    fn sides_that_do_not_fit_are_refused() {
        for (lhs, rhs, part) in [
            ("(x) y = neg x; yield y", "(z) yield z", "repeats the parameters"),
            ("(x) y = neg x; yield y", "(x: f32) yield x", "without dtypes"),
            ("(x) yield x", "(x) yield x", "last node"),
            ("(x) y = neg x; z = abs x; yield y", "(x) yield x", "last node"),
            ("(x) a, b = top_k x {k = $k}; yield a", "(x) yield x", "one result"),
            ("(x, y) z = neg x; yield z", "(x, y) yield y", "does not read `y`"),
            ("(x) y = neg x; yield y", "(x) y = cast x {to = $t}; yield y", "does not bind `$t`"),
            ("(x) y = neg x; yield y, x", "(x) yield x", "yields one value"),
            ("(x) y = neg; yield y", "(x) yield x", "takes 1 operands"),
        ] {
            let error = Rewrite::new("r", Class::Exact, "", lhs, rhs).expect_err(lhs).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
