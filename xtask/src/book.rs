//! Commands in the pages for people, run as they stand there.
//!
//! A block ` ```sh ` of `README.md` or of a page in `docs/` holds commands that work in a checkout: `fusewright` and
//! `cargo run`, and what handles files around them. If the next block below the same heading is a block ` ```text `, it is what they
//! print; `…` in it stands for anything within a line, and a line `…` for any number of lines. A block that no test can
//! run, because it installs something or needs a GPU, is marked ` ```sh no-run (why) `.
//!
//! A block is run by a shell in a folder of its own that has the `fixtures` of the checkout, and the files that the page said
//! to save so far: a block of another language below a paragraph with ``Save … as `NAME` ``. There `fusewright` is the
//! built command, and `cargo` starts what is built instead of building it.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// First words of commands that a block may have beside `fusewright` and `cargo run`.
const OTHERS: [&str; 7] = ["cat", "cd", "cp", "echo", "head", "ls", "mkdir"];
/// Packages whose own tests run the blocks that start them.
const PACKAGES: [&str; 1] = ["fusewright-example-build-rs"];
/// The package of the command line.
const CLI: &str = "fusewright-cli";
/// The mark of blocks that no test runs.
const UNRUN: &str = "no-run";

/// A block of commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The page, relative to the root.
    pub page: String,
    /// The line of its first command, from 1.
    pub line: usize,
    /// The commands.
    pub script: String,
    /// The output that the page shows, if it shows one.
    pub output: Option<String>,
    /// Why no test runs it, if none does.
    pub unrun: Option<String>,
    /// Names and contents of the files that the page said to save before.
    pub files: Vec<(String, String)>,
}

/// A program that a command starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start<'b> {
    /// The command line of the project.
    Cli,
    /// An example of the package at the root, by its name.
    Example(&'b str),
    /// The program of another package of the workspace.
    Package(&'b str),
}

/// Programs that are built.
#[derive(Clone, Default, Debug)]
pub struct Built {
    /// The command line.
    pub cli: Option<PathBuf>,
    /// The folder of the examples of the package at the root.
    pub examples: Option<PathBuf>,
    /// A package, and its program.
    pub package: Option<(String, PathBuf)>,
}

/// Every block of commands of the front page and of the book.
///
/// # Errors
/// A page that cannot be read; every block that is neither marked nor made of commands that can be run, by its place.
pub fn blocks(root: &Path) -> Result<Vec<Block>, String> {
    let mut pages = vec!["README.md".to_owned()];
    let folder = root.join("docs");
    let names = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    pages.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")));
    pages.sort();
    let (mut blocks, mut wrong) = (Vec::new(), Vec::new());
    for page in pages {
        let text = fs::read_to_string(root.join(&page)).map_err(|e| format!("{page}: {e}"))?;
        match blocks_of(&page, &text) {
            Ok(found) => blocks.extend(found),
            Err(found) => wrong.extend(found),
        }
    }
    if wrong.is_empty() { Ok(blocks) } else { Err(wrong.join("\n")) }
}

/// The blocks of a page.
fn blocks_of(page: &str, text: &str) -> Result<Vec<Block>, Vec<String>> {
    let (mut blocks, mut wrong) = (Vec::<Block>::new(), Vec::new());
    // Whether the last block of commands can still get its output.
    let mut open = false;
    let (mut files, mut paragraph, mut ended) = (Vec::new(), String::new(), false);
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.starts_with('#') {
            open = false;
        }
        let Some(info) = line.trim_start().strip_prefix("```") else {
            if ended && !line.is_empty() {
                paragraph.clear();
            }
            paragraph.push_str(line);
            ended = line.is_empty();
            continue;
        };
        // For Markdown that is code within a line, and all that follows is no block.
        if info.contains('`') {
            wrong.push(format!("{page}:{}: the words behind a fence hold a backtick", number + 1));
        }
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|l| !l.trim_start().starts_with("```")).collect();
        let body = body.join("\n");
        let (language, mark) = info.split_once(' ').map_or((info, ""), |(language, mark)| (language, mark.trim()));
        let last = blocks.last_mut().filter(|_| open);
        open = language == "sh";
        match (language, last) {
            ("sh", _) => match block(page, number + 2, mark, body) {
                Ok(block) => blocks.push(Block { files: files.clone(), ..block }),
                Err(why) => wrong.push(format!("{page}:{}: {why}", number + 1)),
            },
            ("text", Some(block)) => block.output = Some(body),
            ("text", None) => {}
            _ => files.extend(saved_as(&paragraph).map(|name| (name.to_owned(), body + "\n"))),
        }
        paragraph.clear();
    }
    if wrong.is_empty() { Ok(blocks) } else { Err(wrong) }
}

/// The name under which a paragraph says to save the block below it.
fn saved_as(paragraph: &str) -> Option<&str> {
    let (_, rest) = paragraph.split_once("Save ")?.1.split_once(" as `")?;
    // Within the folder that the page is about.
    rest.split('`').next().filter(|name| Path::new(name).components().all(|part| matches!(part, Component::Normal(_))))
}

fn block(page: &str, line: usize, mark: &str, script: String) -> Result<Block, String> {
    let unrun = match mark.strip_prefix(UNRUN).map(str::trim) {
        Some(why) if why.len() > 2 && why.starts_with('(') && why.ends_with(')') => {
            Some(why[1..why.len() - 1].to_owned())
        }
        Some(_) => return Err(format!("`{UNRUN}` needs a reason: `sh {UNRUN} (why)`")),
        None if mark.is_empty() => None,
        None => return Err(format!("`{mark}` is no mark of a block of commands, which is `{UNRUN} (why)`")),
    };
    let block = Block { page: page.to_owned(), line, script, output: None, unrun, files: Vec::new() };
    if block.unrun.is_none()
        && let Some(command) = block.commands().find(|command| !can_be_run(command))
    {
        return Err(format!("no test can run `{command}`: mark the block, `sh {UNRUN} (why)`"));
    }
    Ok(block)
}

/// The words of a command, without the variables that are set for it.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let sets = |word: &&str| word.split_once('=').is_some_and(|(name, _)| !name.contains(['/', '-', '"', '\'']));
    command.split_whitespace().skip_while(sets)
}

/// Says that a command is one that a test may start.
fn can_be_run(command: &str) -> bool {
    match start(command) {
        Some(Start::Package(name)) => PACKAGES.contains(&name),
        Some(Start::Cli | Start::Example(_)) => true,
        None => words(command).next().is_none_or(|word| OTHERS.contains(&word)),
    }
}

/// Gives the program of the project that a command starts, if it starts one.
fn start(command: &str) -> Option<Start<'_>> {
    let mut words = words(command);
    match words.next()? {
        "fusewright" => return Some(Start::Cli),
        "cargo" if words.next() == Some("run") => {}
        _ => return None,
    }
    let mut words = words.take_while(|word| *word != "--");
    let mut start = Start::Cli;
    while let Some(word) = words.next() {
        start = match word {
            "--example" => Start::Example(words.next()?),
            "-p" | "--package" => match words.next()? {
                CLI => Start::Cli,
                name => Start::Package(name),
            },
            "--manifest-path" => return None,
            _ => start,
        };
    }
    Some(start)
}

impl Block {
    /// The commands one by one, without comments.
    fn commands(&self) -> impl Iterator<Item = &str> {
        let mut continued = false;
        let lines = self.script.lines().map(str::trim).filter(move |line| {
            let begins = !continued;
            continued = line.ends_with('\\');
            begins
        });
        lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    /// The programs that it starts, in order.
    pub fn starts(&self) -> Vec<Start<'_>> {
        self.commands().filter_map(start).collect()
    }

    /// Runs the commands in a folder that is empty, and compares what they print.
    ///
    /// # Errors
    /// A command that fails; other output than the page shows.
    pub fn run(&self, folder: &Path, root: &Path, built: &Built) -> Result<(), String> {
        let at = |why: String| format!("{}:{}: {why}", self.page, self.line);
        let tools = prepared(folder, root, built).map_err(|e| at(format!("{}: {e}", folder.display())))?;
        for (name, content) in &self.files {
            let path = folder.join("checkout").join(name);
            let written = fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs::write(path, content));
            written.map_err(|e| at(format!("{name}: {e}")))?;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(tools).chain(std::env::split_paths(&path)))
            .map_err(|e| at(e.to_string()))?;
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &self.script]).current_dir(folder.join("checkout"));
        let output = shell.env("PATH", path).env("FUSEWRIGHT_CACHE_DIR", "off").output();
        let output = output.map_err(|e| at(format!("sh: {e}")))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(at(format!("{}\n{printed}{}", output.status, String::from_utf8_lossy(&output.stderr))));
        }
        let wrong = self.output.as_deref().and_then(|expected| difference(expected, &printed));
        wrong.map_or(Ok(()), |line| Err(at(format!("prints something else from `{line}` on:\n{printed}"))))
    }
}

/// Makes the folder in which commands run, and that of the tools that they find.
fn prepared(folder: &Path, root: &Path, built: &Built) -> std::io::Result<PathBuf> {
    let (checkout, tools) = (folder.join("checkout"), folder.join("tools"));
    fs::create_dir_all(checkout.join("fixtures"))?;
    fs::create_dir_all(&tools)?;
    for entry in fs::read_dir(root.join("fixtures"))? {
        let entry = entry?;
        fs::copy(entry.path(), checkout.join("fixtures").join(entry.file_name()))?;
    }
    let cli = Arm { pattern: ":".to_owned(), program: built.cli.as_ref().map(|cli| quoted(cli)) };
    let examples = built.examples.as_ref().map(|folder| format!("{}/\"$example\"", quoted(folder)));
    let examples = Arm { pattern: ":?*".to_owned(), program: examples };
    let package = built
        .package
        .as_ref()
        .map(|(name, program)| Arm { pattern: format!("{name}:"), program: Some(quoted(program)) });
    write_tool(&tools.join("fusewright"), &format!("case : in\n{cli}esac\n"))?;
    // `cargo run` with options of any kind, then `--` and what the program is given.
    let arms: String = package.iter().chain([&cli, &examples]).map(Arm::to_string).collect();
    let cargo = format!(
        "package=\nexample=\nwhile [ $# -gt 0 ] && [ \"$1\" != -- ]; do\n  case $1 in\n    --example) example=$2 ;;\n    \
         -p | --package) package=$2 ;;\n  esac\n  shift\ndone\n[ $# -eq 0 ] || shift\n\
         [ \"$package\" != {CLI} ] || package=\ncase $package:$example in\n{arms}esac\n\
         echo \"not built: $package $example\" >&2\nexit 1"
    );
    write_tool(&tools.join("cargo"), &cargo)?;
    Ok(tools)
}

/// A branch of a script: a pattern of a word, and the program that it starts, if that is built.
struct Arm {
    pattern: String,
    program: Option<String>,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arm { pattern, program } = self;
        match program {
            Some(program) => writeln!(f, "  {pattern}) exec {program} \"$@\" ;;"),
            None => writeln!(f, "  {pattern}) echo 'the program is not built' >&2; exit 1 ;;"),
        }
    }
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

fn write_tool(path: &Path, body: &str) -> std::io::Result<()> {
    fs::write(path, format!("#!/bin/sh\n{body}\n"))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The first expected line that what was printed lacks, or does not have there; none if all of it is as expected.
pub fn difference(expected: &str, printed: &str) -> Option<String> {
    let expected: Vec<&str> = expected.trim_end().lines().map(str::trim_end).collect();
    let printed: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
    let groups: Vec<&[&str]> = expected.split(|line| line.trim() == "…").collect();
    let (mut at, last) = (0, groups.len() - 1);
    for (i, group) in groups.iter().enumerate() {
        let left = &printed[at..];
        let fits = |start: &usize| {
            left.len() >= start + group.len() && group.iter().zip(&left[*start..]).all(|(line, got)| is_line(line, got))
        };
        let found = match (i == 0, i == last) {
            (true, true) => Some(0).filter(|start| left.len() == group.len() && fits(start)),
            (true, false) => Some(0).filter(fits),
            (false, true) => left.len().checked_sub(group.len()).filter(fits),
            (false, false) => (0..=left.len()).find(fits),
        };
        let Some(start) = found else {
            let wrong = group.iter().enumerate().find(|(n, line)| left.get(*n).is_none_or(|got| !is_line(line, got)));
            return Some(wrong.map_or_else(|| "the end".to_owned(), |(_, line)| (*line).to_owned()));
        };
        at += start + group.len();
    }
    None
}

/// Says that a line is as expected, where `…` stands for anything.
fn is_line(expected: &str, got: &str) -> bool {
    let Some((first, rest)) = expected.split_once('…') else { return expected == got };
    let Some(mut left) = got.strip_prefix(first) else { return false };
    let parts: Vec<&str> = rest.split('…').collect();
    let (last, between) = parts.split_last().expect("a split has one part at least");
    for part in between {
        let Some((_, behind)) = left.split_once(part) else { return false };
        left = behind;
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn one(text: &str) -> Block {
        let mut found = blocks_of("a.md", text).expect("all of it can be run");
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn blocks_are_found_with_what_they_print() {
        let block =
            one("# A\n\n```sh\nX=1 fusewright run a \\\n  --b\n```\nprose\n```text\nout\n```\n```text\nno\n```\n");
        assert_eq!((block.line, block.output.as_deref(), block.unrun), (4, Some("out"), None));
        assert_eq!(one("```sh\nfusewright knobs\n```\n# B\n```text\nno\n```\n").output, None);
        assert_eq!(one("```sh\nfusewright knobs\n```\n```fw\n```\n```text\nno\n```\n").output, None);
        assert_eq!(one("```sh no-run (it installs)\npip install a\n```\n").unrun.as_deref(), Some("it installs"));
        let starts = |command: &str| one(&format!("```sh\n{command}\n```\n")).starts().len();
        assert_eq!(starts("# a\necho b\nX=1 fusewright knobs"), 1);
        assert_eq!(start("cargo run -q --example a -- --example b"), Some(Start::Example("a")));
        assert_eq!(start("cargo run -p fusewright-cli -- run -p b"), Some(Start::Cli));
        assert_eq!(start("cargo run --release --package c"), Some(Start::Package("c")));
        assert_eq!(start("cargo build"), None);
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_its_place() {
        let refused = |text: &str| blocks_of("a.md", text).expect_err("it cannot be run").join("\n");
        let unmarked = "a.md:2: no test can run `cargo install b`: mark the block, `sh no-run (why)`";
        assert_eq!(refused("a\n```sh\nfusewright run a\ncargo install b\n```\n"), unmarked);
        assert!(refused("```sh\nfusewright run \\\n  a\npip install a\n```\n").contains("`pip install a`"));
        assert!(refused("```sh\ncargo run -p xtask -- tidy\n```\n").contains("no test can run"));
        assert!(refused("```sh no-run\npip install a\n```\n").contains("needs a reason"));
        assert!(refused("```sh no-run ()\npip install a\n```\n").contains("needs a reason"));
        assert!(refused("```sh no-run (as `b`)\npip install a\n```\n").contains("a.md:1: the words behind a fence"));
        assert!(refused("```sh slow\nfusewright run a\n```\n").contains("`slow` is no mark"));
    }

    #[test]
    fn output_is_compared_with_anything_where_it_says_so() {
        assert_eq!(difference("a\nb 1", "a\nb 1\n"), None);
        assert_eq!(difference("a … c …", "a bb c d e"), None);
        assert_eq!(difference("a\n…\nd\n…", "a\nb\nc\nd\n"), None);
        assert_eq!(difference("…\nc\n…\ne", "a\nb\nc\nd\ne"), None);
        assert_eq!(difference("a\nb", "a\nb\nc").as_deref(), Some("the end"));
        assert_eq!(difference("a\nb\nc", "a\nb").as_deref(), Some("c"));
        assert_eq!(difference("a … c", "a b d").as_deref(), Some("a … c"));
        assert_eq!(difference("…\nc\n…\ne", "a\nb\nd\ne").as_deref(), Some("c"));
        assert_eq!(difference("…\ne", "a\ne\nf").as_deref(), Some("e"));
    }
}
