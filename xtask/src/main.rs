//! `cargo run -p xtask -- CHORE`: the chores of this repository by name.
//!
//! A chore reads and writes this checkout only. Exit status: 0 done, 1 the chore found something, 2 bad command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the command prints when it is called wrongly.
const USAGE: &str = "usage: cargo run -p xtask -- CHORE

  tidy    check layering, unsafe code, file form, forbidden words and purity";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The root of this checkout.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

fn tidy() -> ExitCode {
    let findings = match xtask::tidy::Tree::load(&root()) {
        Ok(tree) => xtask::tidy::check(&tree),
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(2);
        }
    };
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
