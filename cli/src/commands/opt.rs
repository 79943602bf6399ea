//! `opt`: the tool of the text forms.

use fusewright::{Error, map_file, text_tool};

use super::{Exit, OK};
use crate::args::{OptArgs, later};
use crate::output::line;

/// What can be done with a file.
const VERBS: [&str; 8] = ["verify", "pass NAME", "regions", "lower", "emit", "run", "diff", "reduce"];

pub fn main(args: &OptArgs) -> Exit {
    let bytes = map_file(&args.file)?;
    let not_text = |e: std::str::Utf8Error| Error::Input(format!("{}: {e}", args.file.display()));
    let text = std::str::from_utf8(&bytes).map_err(not_text)?;
    let located = |e: Error| match e {
        Error::Input(message) => Error::Input(format!("{}: {message}", args.file.display())),
        other => other,
    };
    let out = match (args.verb.as_str(), &args.name) {
        ("verify", None) => text_tool::verify(text),
        ("pass", Some(name)) => text_tool::pass(text, name),
        ("regions", None) => text_tool::regions(text),
        ("lower", None) => text_tool::lower(text, &args.target),
        ("emit", None) => text_tool::emit(text, &args.target),
        ("run" | "diff" | "reduce", None) => return Err(later(&format!("opt {}", args.verb))),
        ("pass", None) => Err(Error::Input("`opt pass` needs the name of a pass".to_owned())),
        (verb, Some(extra)) => Err(Error::Input(format!("`opt {verb}` takes no further argument, got `{extra}`"))),
        (verb, None) => Err(Error::Input(format!("`opt` has no verb `{verb}`; there are {}", VERBS.join(", ")))),
    };
    line(out.map_err(located)?.trim_end());
    Ok(OK)
}
