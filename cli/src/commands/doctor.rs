//! `doctor`: what this machine has, what of it is used, and why.

use fusewright::doctor;

use super::Exit;
use crate::args::ListArgs;
use crate::output::line;

pub fn main(args: &ListArgs) -> Exit {
    let report = doctor::examine(Vec::new());
    if args.json {
        line(report.json());
    } else {
        line(report.text());
    }
    Ok(report.exit_status())
}
