//! Printing: tables for people, JSON for programs, progress and errors on standard error.

use std::io::{Error, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use fusewright::{Compilation, Compiled, PassTime, TierCounts};

/// The first error of standard output.
static LOST: OnceLock<Error> = OnceLock::new();

/// Most characters of a cell of a table.
const MAX_CELL: usize = 200;

/// Prints an error.
pub fn error(message: &str) {
    let _ = writeln!(std::io::stderr(), "error: {}", visible(message));
}

/// Prints what is amiss and hinders nothing.
pub fn warning(message: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {}", visible(message));
}

/// A text with control characters that a terminal would obey written as escapes.
fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c {
            '\n' | '\t' => shown.push(c),
            _ if c.is_control() => shown.extend(c.escape_debug()),
            _ => shown.push(c),
        }
        shown
    })
}

/// What a table shows of a cell: one line that is not long.
fn cell(text: &str) -> String {
    let text = visible(text).replace('\n', "\\n").replace('\t', "\\t");
    match text.char_indices().nth(MAX_CELL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Says what is being done, where a person is watching or asked for it.
pub fn progress(verbose: u8, message: &str) {
    if verbose > 0 || std::io::stderr().is_terminal() {
        let _ = writeln!(std::io::stderr(), "{message}");
    }
}

/// Says what the passes did and how long the stages of each kernel took, where a person asked for it.
pub fn stages(verbose: u8, passes: &[PassTime], kernels: &[Compilation]) {
    if verbose == 0 {
        return;
    }
    let mut err = std::io::stderr().lock();
    for pass in passes {
        let _ = writeln!(err, "pass {}: {} changed, {} µs", pass.name, pass.changed, pass.us);
    }
    for kernel in kernels {
        let (name, lower, emit, bytes) = (&kernel.name, kernel.lower_us, kernel.emit_us, kernel.bytes);
        let made = if kernel.from_disk { "read from the cache" } else { "emitted" };
        let _ = writeln!(err, "kernel {name}: lowered {lower} µs, {made} {emit} µs, {bytes} bytes");
    }
}

/// Says how many kernels were compiled and read, and what became of their second tier, where a person asked for it.
pub fn counters(verbose: u8, compiled: &Compiled) {
    if verbose > 0 {
        let read = compiled.from_disk();
        let (made, tiers) = (compiled.kernels.len() - read, compiled.program.tiers());
        let TierCounts { asked, swapped, refused } = tiers;
        let said = format!(
            "{made} compiled, {read} read from the cache; second tier: {asked} asked for, {swapped} swapped in"
        );
        let _ = writeln!(std::io::stderr(), "kernels: {said}, {refused} refused");
    }
}

/// Says which passes do not run, where a person asked for it.
pub fn idle(verbose: u8, passes: &[String]) {
    if verbose > 0 {
        let mut err = std::io::stderr().lock();
        passes.iter().for_each(|said| drop(writeln!(err, "{said}")));
    }
}

/// Prints a line; a reader that left is not an error, anything else is remembered for [`lost`].
pub fn line(text: impl std::fmt::Display) {
    match writeln!(std::io::stdout(), "{}", visible(&text.to_string())) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => drop(LOST.set(error)),
        _ => {}
    }
}

/// Why what was printed did not arrive, if it did not.
pub fn lost() -> Option<&'static Error> {
    LOST.get()
}

/// A count with its noun, in the plural unless it is one.
pub fn counted(count: usize, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("1 {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}s"),
    }
}

/// Prints rows under a header, columns aligned; the columns listed in `right` flush right. Long cells are cut.
pub fn table(header: &[&str], rows: &[Vec<String>], right: &[usize]) {
    let columns = header.len();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    let length = |row: &[String], i: usize| row.get(i).map_or(0, |c| c.chars().count());
    let width = |i: usize| rows.iter().map(|r| length(r, i)).max().unwrap_or(0).max(header[i].chars().count());
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let print = |cells: &[String]| {
        let padded: Vec<String> = (0..columns)
            .map(|i| {
                let text = cells.get(i).map_or("", String::as_str);
                if right.contains(&i) {
                    format!("{text:>w$}", w = widths[i])
                } else {
                    format!("{text:<w$}", w = widths[i])
                }
            })
            .collect();
        line(padded.join("  ").trim_end());
    };
    print(&header.iter().map(ToString::to_string).collect::<Vec<_>>());
    rows.iter().for_each(|row| print(row));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let said = [(0, "kernel"), (1, "kernel"), (1, "copy"), (2, "copy")].map(|(n, noun)| counted(n, noun));
        assert_eq!(said, ["0 kernels", "1 kernel", "1 copy", "2 copies"]);
    }

    #[test]
    fn a_cell_is_short_and_obeyed_by_no_terminal() {
        assert_eq!(cell("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(cell(&"é".repeat(70_000)).chars().count(), MAX_CELL + 1);
    }
}
