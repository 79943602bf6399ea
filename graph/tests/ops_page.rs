//! The tables of functions and of composites in `docs/text-form.md` are what the definitions say.

use std::collections::BTreeSet;
use std::path::Path;

use fusewright_graph::ops::{Attrs, LIST, OpSpec};
use fusewright_graph::scalar::{Accuracy, ScalarFn, Yields};
use fusewright_graph::{DType, TensorType};

const PAGE: &str = "../docs/text-form.md";
/// What no attribute can be.
const NONSENSE: &str = "?";

/// The attributes of every variant of an op.
fn variants(spec: &OpSpec) -> Vec<Attrs> {
    (spec.variants)().iter().map(|composite| composite.attrs().clone()).collect()
}

fn has(attrs: &Attrs, key: &str) -> bool {
    attrs.0.iter().any(|(k, _)| k == key)
}

/// An attribute: its name and what it may be, in parentheses where it may be left out.
fn attribute(spec: &OpSpec, key: &str) -> String {
    let variants = variants(spec);
    let holder = variants.iter().find(|attrs| has(attrs, key)).expect("some variant has the attribute");
    let with = |text: &str| {
        let pairs = holder.0.iter().map(|(k, v)| (k.clone(), if k == key { text.to_owned() } else { v.clone() }));
        (spec.parse)(&Attrs(pairs.collect()))
    };
    let refusal = with(NONSENSE).expect_err("nonsense is no attribute");
    let what = match refusal.split_once(" is none of ") {
        Some((_, words)) => {
            words.split(", ").for_each(|word| assert!(with(word).is_ok(), "{} {{{key} = {word}}}", spec.name));
            words.split(", ").map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" \\| ")
        }
        None => {
            assert!(refusal.ends_with("is not a number") && with("0.5").is_ok(), "{}: {refusal}", spec.name);
            "a number".to_owned()
        }
    };
    let optional = variants.iter().any(|attrs| !has(attrs, key));
    if optional { format!("(`{key}` = {what})") } else { format!("`{key}` = {what}") }
}

fn attributes(spec: &OpSpec) -> String {
    let mut seen = BTreeSet::new();
    let keys = variants(spec).into_iter().flat_map(|attrs| attrs.0).map(|(key, _)| key);
    let keys: Vec<String> = keys.filter(|key| seen.insert(key.clone())).collect();
    keys.iter().map(|key| attribute(spec, key)).collect::<Vec<_>>().join(", ")
}

fn row(spec: &OpSpec) -> String {
    let operands = (spec.operands)(DType::BF16);
    let shown =
        operands.iter().enumerate().map(|(i, ty)| if i < spec.arity { format!("`{ty}`") } else { format!("(`{ty}`)") });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let types: Vec<&TensorType> = operands.iter().collect();
    let composite = &(spec.variants)()[0];
    let results = composite.infer(&types).unwrap_or_else(|e| panic!("{}: {e}", spec.name));
    let results = results.iter().map(|ty| format!("`{ty}`")).collect::<Vec<_>>().join(", ");
    format!("| `{}` | {shown} | {results} | {} |\n", spec.name, attributes(spec))
}

/// A function: what it takes and gives, and how close it comes.
fn function(f: &ScalarFn) -> String {
    let spec = f.spec();
    let operands = ["%a", "%b", "%c"][..spec.arity].join(", ");
    let gives = if spec.yields == Yields::Bool { ", a `bool`" } else { "" };
    let close = match spec.accuracy {
        Accuracy::Exact => "exact".to_owned(),
        Accuracy::Approx(ulp) => format!("{ulp} ulp"),
    };
    let doc = spec.doc.trim().trim_end_matches('.').replace('|', "\\|");
    format!("| `{} {operands}` | {doc}{gives} | {close} |\n", spec.name)
}

/// The page holds `table` between its marks for `name`, or is given it where goldens are blessed.
fn holds(name: &str, table: &str) {
    let (begin, end) =
        (format!("<!-- {name}: made by graph/tests/ops_page.rs -->\n"), format!("<!-- end of {name} -->\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(&begin).expect("the page marks where the table begins");
    let (stands, after) = rest.split_once(&end).expect("the page marks where the table ends");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).expect("the page can be written");
    } else {
        assert!(stands == table, "docs/text-form.md: run this test with UPDATE_EXPECT=1 to get\n{table}");
    }
}

#[test]
fn the_tables_are_those_of_the_definitions() {
    let functions: String = ScalarFn::ALL.iter().map(function).collect();
    holds("functions", &format!("| function | what it gives | accuracy |\n|---|---|---|\n{functions}"));
    let composites: String = LIST.iter().map(|spec| row(spec)).collect();
    holds(
        "composites",
        &format!("| op | operands, if of bf16 | results | attributes |\n|---|---|---|---|\n{composites}"),
    );
}
