//! Programs of others that compile for us, each with a limit of time: one that hangs is ended with all that it started.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::knobs;

/// Seconds that a tool may take unless [`knobs::TOOL_SECONDS`] says otherwise.
const SECONDS: u64 = 300;
/// Longest time between two looks at a tool that has closed its output and goes on.
const LOOK: Duration = Duration::from_millis(20);

/// Why a tool has no result.
#[derive(Debug)]
pub(crate) enum ToolError {
    /// It does not start, or the system does not say how it ended.
    System(std::io::Error),
    /// It was ended at its limit.
    Late(String),
    /// The limit is no number.
    Limit(String),
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolError::System(error) => write!(f, "{error}"),
            ToolError::Late(reason) | ToolError::Limit(reason) => f.write_str(reason),
        }
    }
}

/// What a tool left: its output, and whether it took all of its input.
pub(crate) struct Ran {
    pub output: Output,
    pub written: std::io::Result<()>,
}

/// Runs a tool on an input, up to the limit.
///
/// # Errors
/// A tool that does not start, or that takes longer.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Result<Ran, ToolError> {
    run_within(command, input, limit().map_err(ToolError::Limit)?)
}

/// As [`run`], of a tool without an input, in the terms of [`Command::output`]: an error that is not of the system is in
/// words.
#[cfg(feature = "ascend")]
pub(crate) fn output(command: &mut Command) -> std::io::Result<Output> {
    run(command, &[]).map(|ran| ran.output).map_err(|error| match error {
        ToolError::System(error) => error,
        ToolError::Late(reason) | ToolError::Limit(reason) => std::io::Error::other(reason),
    })
}

/// How long a tool may take.
///
/// # Errors
/// A limit that is no number, in words.
pub(crate) fn limit() -> Result<Duration, String> {
    let knob = knobs::TOOL_SECONDS;
    let Some(text) = knob.read() else { return Ok(Duration::from_secs(SECONDS)) };
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("{}: `{text}` is no number of seconds above 0", knob.name)),
    }
}

fn run_within(command: &mut Command, input: &[u8], limit: Duration) -> Result<Ran, ToolError> {
    let start = Instant::now();
    // A group of its own: what the tool starts is in it, and is ended with it.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(ToolError::System)?;
    let left = || limit.saturating_sub(start.elapsed());
    match collect(&mut child, input, left) {
        Ok(Some(ran)) => Ok(ran),
        Ok(None) => {
            end(&mut child);
            Err(ToolError::Late(late(command, limit)))
        }
        Err(error) => {
            end(&mut child);
            Err(ToolError::System(error))
        }
    }
}

/// What a tool says and how it ends; `None` if that takes longer than is left.
///
/// Threads take its input and output, and are not waited for where it is late: a process that left the group may hold a
/// pipe open for as long as it likes.
fn collect(child: &mut Child, input: &[u8], left: impl Fn() -> Duration) -> std::io::Result<Option<Ran>> {
    let written = child.stdin.take().map(|mut pipe| {
        let input = input.to_vec();
        in_background(move || pipe.write_all(&input))
    });
    let stdout = child.stdout.take().map(reader);
    let stderr = child.stderr.take().map(reader);
    let Some(stdout) = received(stdout, &left)? else { return Ok(None) };
    let Some(stderr) = received(stderr, &left)? else { return Ok(None) };
    let Some(status) = ended(child, &left)? else { return Ok(None) };
    let written = match received(written, &left) {
        Ok(None) => return Ok(None),
        Ok(Some(())) => Ok(()),
        Err(error) => Err(error),
    };
    Ok(Some(Ran { output: Output { status, stdout, stderr }, written }))
}

fn reader(mut pipe: impl Read + Send + 'static) -> Receiver<std::io::Result<Vec<u8>>> {
    in_background(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).map(|_| bytes)
    })
}

fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    // Nobody listens any more where the tool was late.
    std::thread::spawn(move || drop(sender.send(work())));
    receiver
}

fn received<T: Default>(
    from: Option<Receiver<std::io::Result<T>>>,
    left: &impl Fn() -> Duration,
) -> std::io::Result<Option<T>> {
    match from.map(|from| from.recv_timeout(left())) {
        None => Ok(Some(T::default())),
        Some(Ok(result)) => result.map(Some),
        Some(Err(RecvTimeoutError::Timeout)) => Ok(None),
        Some(Err(RecvTimeoutError::Disconnected)) => Err(std::io::Error::other("a pipe to it was lost")),
    }
}

fn ended(child: &mut Child, left: &impl Fn() -> Duration) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(100);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if left().is_zero() {
            return Ok(None);
        }
        std::thread::sleep(pause.min(left()));
        pause = LOOK.min(pause * 2);
    }
}

/// Ends a tool's group.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself just now.
        let _ = kill_process_group(group, Signal::KILL);
    }
    drop(child.wait());
}

fn late(command: &Command, limit: Duration) -> String {
    let tool = command.get_program().to_string_lossy();
    let words = command.get_args().map(|word| format!(" {}", word.to_string_lossy())).collect::<String>();
    let seconds = limit.as_secs_f64();
    format!(
        "{tool} was ended after {seconds} s, the limit of {} (the command was: {tool}{words})",
        knobs::TOOL_SECONDS.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_tool_that_ends_leaves_what_it_said() {
        let long = Duration::from_secs(60);
        let big = vec![b'x'; 1 << 20];
        let ran = run_within(&mut shell("cat; echo no >&2; exit 3"), &big, long).expect("it ends");
        assert_eq!((ran.output.stdout, ran.output.stderr.as_slice()), (big.clone(), &b"no\n"[..]));
        assert_eq!(ran.output.status.code(), Some(3));
        let deaf = run_within(&mut shell("exec <&-; exit 0"), &big, long).expect("it ends");
        assert!(deaf.output.status.success() && deaf.written.is_err(), "it did not take its input");
        let error = run_within(&mut Command::new("/nowhere/tool"), b"", long).err().expect("there is none");
        assert!(matches!(error, ToolError::System(_)), "{error}");
    }

    #[test]
    fn a_tool_that_hangs_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("alive");
        // It hangs with its pipes open, with them closed, and behind a process of its own that would go on.
        let child = format!("(sleep 2; touch {}) & sleep 60", file.display());
        for script in ["sleep 60", "exec >&- 2>&-; sleep 60", &child, "sleep 60 & exit 0"] {
            let start = Instant::now();
            let error = run_within(&mut shell(script), b"", SHORT).err().expect("it is late").to_string();
            assert!(start.elapsed() < Duration::from_secs(30), "{script}");
            assert!(error.contains("sh was ended after 0.3 s") && error.contains(script), "{error}");
            assert!(error.contains("FUSEWRIGHT_TOOL_SECONDS"), "{error}");
        }
        std::thread::sleep(Duration::from_secs(3));
        assert!(!file.exists(), "what the tool started goes on");
    }
}
