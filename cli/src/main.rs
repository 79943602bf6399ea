//! The `fusewright` command: parses arguments, calls the library, prints.
//!
//! Exit codes: 0 ok, 1 a check or expectation failed, 2 bad input, 3 a target, a driver, a tool or memory is not available.

mod args;
mod commands;
mod files;
mod help;
mod output;
mod values;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// Exit code of files that cannot be read or written.
const BAD_INPUT: u8 = 2;

/// Exit code of what the machine lacks.
const LACKING: u8 = 3;

fn main() -> ExitCode {
    exit_without_memory();
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Run(args) => commands::run::main(args, &cli.common),
        Command::Explain(args) => commands::explain::main(args, &cli.common),
        Command::Compile(args) => commands::compile::main(args, &cli.common),
        Command::Bench(args) => commands::bench::main(args, &cli.common),
        Command::Opt(args) => commands::opt::main(args, &cli.common),
        Command::Doctor(args) => commands::doctor::main(args),
        Command::Devices(args) => commands::devices::main(args),
        Command::Knobs(args) => commands::knobs::main(args),
        Command::Cache(args) => commands::cache::main(args),
    };
    match result {
        Ok(code) => match output::lost() {
            Some(error) => {
                output::error(&format!("standard output: {error}"));
                ExitCode::from(BAD_INPUT)
            }
            None => ExitCode::from(code),
        },
        Err(error) => {
            output::error(&error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}

/// The standard library says which allocation has failed and aborts. What asks for much memory asks first and has an
/// error of its own; for the rest, this makes the end of the process one of lacking memory.
fn exit_without_memory() {
    #[cfg(unix)]
    {
        use std::sync::{Arc, atomic::AtomicBool};
        let always = Arc::new(AtomicBool::new(true));
        let abort = signal_hook::consts::SIGABRT;
        // Where no handler can be set, the process aborts as it would have.
        drop(signal_hook::flag::register_conditional_shutdown(abort, LACKING.into(), always));
    }
}
