//! `devices`: which targets work here, and what is missing for the others.

use fusewright::devices;
use serde_json::json;

use super::{Exit, OK};
use crate::args::ListArgs;
use crate::output::{line, table};

pub fn main(args: &ListArgs) -> Exit {
    let found = devices::list();
    if args.json {
        let device = |d: &devices::Device| json!({ "target": d.target, "compiles": d.compiles, "runs": d.runs, "detail": d.detail });
        line(json!({ "devices": found.iter().map(device).collect::<Vec<_>>() }));
        return Ok(OK);
    }
    let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let rows: Vec<Vec<String>> =
        found.iter().map(|d| vec![d.target.clone(), word(d.compiles), word(d.runs), d.detail.clone()]).collect();
    table(&["target", "compiles", "runs", ""], &rows, &[]);
    Ok(OK)
}
