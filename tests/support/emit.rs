//! `test emit TARGET`: code of every region of the graph for a target, all readable stages of it.

use fusewright::{Options, Target, text_tool};
use xtask::skipped::skipped;

use super::{Case, Command, LineError, Outcome};

pub const COMMAND: Command = Command { name: "emit", has_output: true, run };

fn run(case: &Case, arguments: &[String]) -> Outcome {
    let failed = |message: String| vec![LineError::new(1, message)];
    let [target] = arguments else { return Err(failed("expected `test emit TARGET`".to_owned())) };
    let target: Target = target.parse().map_err(|e| failed(format!("{target}: {e}")))?;
    if !cfg!(feature = "cuda") && matches!(target, Target::Cuda { .. }) {
        // A build without the backend has no code to look at, which is not the same as wrong code.
        skipped(&format!("code of line {}", case.offset + 1), "this build lacks feature `cuda`");
        return Ok(case.checks.join("\n"));
    }
    text_tool::emit(&case.source, &target, &Options::default()).map_err(|e| failed(e.to_string()))
}
