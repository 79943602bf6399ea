//! `knobs`: environment variables that change behaviour.

use fusewright::knobs;
use serde_json::json;

use super::{Exit, OK};
use crate::args::ListArgs;
use crate::output::{line, table};

pub fn main(args: &ListArgs) -> Exit {
    let value = |knob: &knobs::Knob| knob.read().unwrap_or_default();
    if args.json {
        let knob = |k: &knobs::Knob| json!({ "name": k.name, "value": k.read(), "doc": k.doc });
        line(json!({ "knobs": knobs::ALL.iter().map(knob).collect::<Vec<_>>() }));
        return Ok(OK);
    }
    let rows: Vec<Vec<String>> =
        knobs::ALL.iter().map(|k| vec![k.name.to_owned(), value(k), k.doc.to_owned()]).collect();
    table(&["variable", "value", "meaning"], &rows, &[]);
    Ok(OK)
}
