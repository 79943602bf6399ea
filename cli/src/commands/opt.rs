//! `opt`: the tool of the text forms.

use fusewright::diff::{Verdict, reduce};
use fusewright::graph::{Graph, Tensor};
use fusewright::inputs::DEFAULT_SEED;
use fusewright::text_tool::{self, Compared, Evaluated};
use fusewright::{Error, Target, map_file, model};
use serde_json::{Value, json};

use super::{Exit, FAILED, OK};
use crate::args::{Common, OptArgs};
use crate::commands::external::Test;
use crate::output::{line, progress};
use crate::values::{row_lines, value_json};

/// What can be done with a file.
const VERBS: [&str; 9] =
    ["verify", "pass NAME", "regions", "lower", "emit", "bisect --test CMD", "run", "diff", "reduce"];

pub fn main(args: &OptArgs, common: &Common) -> Exit {
    if !common.group.is_empty() {
        return Err(Error::Input("`opt` takes no `--group`: a collective says `ranks` in its text".to_owned()));
    }
    let options = common.options()?;
    let bytes = map_file(&args.file)?;
    let text = model::text_of(&bytes).map_err(|message| Error::Input(message).about(args.file.display()))?;
    misplaced(args)?;
    if args.verb != "emit" {
        common.without_schedules(&format!("opt {}", args.verb))?;
    }
    match (args.verb.as_str(), &args.name) {
        ("verify", None) => text_tool::verify(text).map(print),
        ("pass", Some(name)) => text_tool::pass(text, name, &options).map(print),
        ("regions", None) => text_tool::regions(text, &options).map(print),
        ("lower", None) => text_tool::lower(text, &args.target, &options).map(print),
        ("emit", None) => text_tool::emit(text, &args.target, &options).map(print),
        ("bisect", None) => {
            let command =
                args.test.as_ref().ok_or_else(|| Error::Input("`opt bisect` needs `--test CMD`".to_owned()))?;
            let test = Test::new(command)?;
            let found = text_tool::bisect(text, &options, &mut |graph| Ok(test.fails(graph)?.is_none()));
            found.map(|(text, held)| {
                print(text);
                if held { OK } else { FAILED }
            })
        }
        ("run", None) => run(args, text),
        ("diff", None) => diff(args, text),
        ("reduce", None) => reduced(args, text, common),
        ("pass", None) => Err(Error::Input("`opt pass` needs the name of a pass".to_owned())),
        (verb, Some(extra)) => Err(Error::Input(format!("`opt {verb}` takes no further argument, got `{extra}`"))),
        (verb, None) => Err(Error::Input(format!("`opt` has no verb `{verb}`; there are {}", VERBS.join(", ")))),
    }
    .map_err(|e| e.about(args.file.display()))
}

fn print(text: String) -> u8 {
    line(text.trim_end());
    OK
}

/// Refuses options of other verbs.
fn misplaced(args: &OptArgs) -> Result<(), Error> {
    let verb = args.verb.as_str();
    let made = args.made.given().unwrap_or_default();
    let given: [(bool, &str, &[&str]); 4] = [
        (!made.is_empty(), made, &["run", "diff", "reduce"]),
        (args.json, "--json", &["run", "diff"]),
        (args.test.is_some(), "--test", &["reduce", "bisect"]),
        (args.target != Target::Cpu, "--target", &["lower", "emit", "diff", "reduce"]),
    ];
    match given.iter().find(|(given, _, verbs)| *given && !verbs.contains(&verb)) {
        None => Ok(()),
        Some((_, option, verbs)) => {
            Err(Error::Input(format!("`{option}` goes with `opt {}`, not with `{verb}`", verbs.join("`, `opt "))))
        }
    }
}

fn run(args: &OptArgs, text: &str) -> Exit {
    let seed = args.made.seed.unwrap_or(DEFAULT_SEED);
    let evaluated = text_tool::run(text, &args.made.sizes()?, seed)?;
    if args.json {
        let output = |(name, tensor): &(String, Tensor)| {
            json!({
                "name": name, "dtype": tensor.dtype().name(), "shape": tensor.shape(), "values": value_json(tensor),
            })
        };
        let outputs = |e: &Evaluated| e.outputs.iter().map(output).collect::<Vec<_>>();
        let item = |e: &Evaluated| json!({ "name": e.name, "sizes": e.sizes, "outputs": outputs(e) });
        line(json!({ "seed": seed, "items": evaluated.iter().map(item).collect::<Vec<_>>() }));
        return Ok(OK);
    }
    for item in &evaluated {
        line(format!("@{}, inputs made from seed {seed}{}", item.name, at(&item.sizes)));
        for (name, tensor) in &item.outputs {
            line(format!("  {name}: {}{:?}", tensor.dtype(), tensor.shape()));
            row_lines(tensor).iter().for_each(|row| line(format!("    {row}")));
        }
    }
    Ok(OK)
}

fn at(sizes: &std::collections::BTreeMap<String, i64>) -> String {
    let sizes: Vec<String> = sizes.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if sizes.is_empty() { String::new() } else { format!(" at {}", sizes.join(", ")) }
}

fn diff(args: &OptArgs, text: &str) -> Exit {
    let seed = args.made.seed.unwrap_or(DEFAULT_SEED);
    let compared = text_tool::diff(text, &args.target, &args.made.sizes()?, seed)?;
    if args.json {
        let items: Vec<Value> = compared.iter().map(json_verdict).collect();
        line(json!({ "seed": seed, "items": items }));
    } else {
        compared.iter().for_each(print_verdict);
    }
    let equal = compared.iter().all(|item| matches!(item.verdict, Verdict::Equal(_)));
    Ok(if equal { OK } else { FAILED })
}

fn json_verdict(item: &Compared) -> Value {
    let targets: Vec<String> = item.targets.iter().map(Target::to_string).collect();
    let mut report = json!({ "name": item.name, "targets": targets, "cases": item.cases });
    match &item.verdict {
        Verdict::Equal(found) => {
            report["result"] = "equal".into();
            report["elements"] = found.elements.into();
            report["single_valued"] = found.single_valued.into();
            report["fallbacks"] = found.fallbacks.clone().into();
        }
        Verdict::Differ(found) => {
            report["result"] = "differ".into();
            report["kind"] = found.kind.into();
            report["message"] = found.message.clone().into();
        }
    }
    report
}

fn print_verdict(item: &Compared) {
    let targets = item.targets.iter().map(Target::to_string).collect::<Vec<_>>().join(", ");
    match &item.verdict {
        Verdict::Equal(found) => {
            let (cases, elements) = (item.cases.len(), found.elements);
            let compared = format!("{elements} elements of {targets} compared with the definition at {cases} sizes");
            line(format!("@{}: equal, {compared}", item.name));
            found.fallbacks.iter().for_each(|said| line(format!("  by the interpreter: {said}")));
        }
        Verdict::Differ(found) => line(format!("@{}: {found}; compared: {targets}", item.name)),
    }
}

/// Prints the smallest graph found that fails as the file's graph does.
fn reduced(args: &OptArgs, text: &str, common: &Common) -> Exit {
    let graph = text_tool::only_graph(text)?;
    let size = |g: &Graph| format!("{} nodes, {} outputs", g.nodes().len(), g.outputs().len());
    progress(common.verbose, &format!("reducing {}", size(&graph)));
    let (smallest, said) = match &args.test {
        Some(command) => {
            let test = Test::new(command)?;
            let found = test.fails(&graph)?;
            let found = found.ok_or_else(|| Error::Input(format!("nothing to reduce: `{command}` exits with 0")))?;
            let mut broken = None;
            let reduced = reduce(&graph, found.to_string(), |smaller| {
                if broken.is_some() {
                    return None;
                }
                let now = test.fails(smaller).unwrap_or_else(|error| {
                    broken = Some(error);
                    None
                })?;
                (now == found).then(|| now.to_string())
            });
            broken.map_or(Ok(reduced), Err)?
        }
        None => {
            let (sizes, seed) = (args.made.sizes()?, args.made.seed.unwrap_or(DEFAULT_SEED));
            let fails = |g: &Graph| match text_tool::diff_graph(g, &args.target, &sizes, seed).map(|item| item.verdict)
            {
                Ok(Verdict::Differ(found)) => Some(found),
                _ => None,
            };
            text_tool::diff_graph(&graph, &args.target, &sizes, seed)?;
            let nothing = || Error::Input("nothing to reduce: every way to run the graph agrees".to_owned());
            let found = fails(&graph).ok_or_else(nothing)?;
            let kind = found.kind;
            let same = |g: &Graph| fails(g).filter(|now| now.kind == kind);
            let (smallest, found) = reduce(&graph, found, same);
            (smallest, found.to_string())
        }
    };
    progress(common.verbose, &format!("{} are left", size(&smallest)));
    said.lines().for_each(|said| line(format!("; {said}")));
    line(smallest.to_string().trim_end());
    Ok(OK)
}
