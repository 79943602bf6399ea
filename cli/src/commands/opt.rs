//! `opt`: the tool of the text forms.

use fusewright::{Error, text_tool};

use super::{Exit, OK};
use crate::args::{OptArgs, later};
use crate::output::line;

pub fn main(args: &OptArgs) -> Exit {
    let text = std::fs::read_to_string(&args.file).map_err(|source| Error::File { path: args.file.clone(), source })?;
    let located = |e: Error| match e {
        Error::Input(message) => Error::Input(format!("{}: {message}", args.file.display())),
        other => other,
    };
    let out = match (args.verb.as_str(), &args.name) {
        ("verify", None) => text_tool::verify(&text),
        ("pass", Some(name)) => text_tool::pass(&text, name),
        ("regions", None) => text_tool::regions(&text),
        ("lower", None) => text_tool::lower(&text, &args.target),
        ("emit", None) => text_tool::emit(&text, &args.target),
        ("run" | "diff" | "reduce", None) => return Err(later(&format!("opt {}", args.verb))),
        ("pass", None) => Err(Error::Input("`opt pass` needs the name of a pass".to_owned())),
        (verb, Some(extra)) => Err(Error::Input(format!("`opt {verb}` takes no further argument, got `{extra}`"))),
        (verb, None) => Err(Error::Input(format!("`opt` has no verb `{verb}`"))),
    };
    line(out.map_err(located)?.trim_end());
    Ok(OK)
}
