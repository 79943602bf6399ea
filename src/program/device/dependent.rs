//! Which launches may begin while the one before them runs: those that read early only what was complete before that one
//! began.

use super::command::{Action, Command, KernelArg, Memory, Region};

/// Of each command, whether it is a launch behind a launch that may begin while that one runs, where the steps of both are
/// joined.
pub(super) fn dependent(commands: &[Command], joined: &dyn Fn(usize, usize) -> bool) -> Vec<bool> {
    let before = [None].into_iter().chain(commands.iter().map(|command| Some(command.step)));
    begin_early(commands.iter().zip(before).map(|(command, before)| {
        let accesses = Accesses::of(&command.action);
        let joined = before.is_some_and(|before| joined(before, command.step));
        Accesses { is_joined: joined, ..accesses }
    }))
}

/// What matters of a command here. What the host evaluates waits for all, so that nothing of it is running.
#[derive(Default)]
struct Accesses {
    is_launch: bool,
    /// Whether it may begin while the command before it runs if both are launches.
    is_joined: bool,
    /// What it reads before it waits.
    early: Vec<Region>,
    written: Vec<Region>,
}

impl Accesses {
    fn of(action: &Action) -> Accesses {
        let written = match action {
            Action::Launch { kernel, args, .. } => {
                let region = |arg: usize| match args[arg] {
                    KernelArg::In(region) | KernelArg::Out(region) => Some(region),
                    KernelArg::Same(_) => None,
                };
                let behind = |arg: usize| if let KernelArg::Same(other) = args[arg] { other } else { arg };
                let out = |arg: &KernelArg| if let KernelArg::Out(region) = arg { Some(*region) } else { None };
                return Accesses {
                    is_launch: true,
                    is_joined: false,
                    early: kernel.early.iter().filter_map(|&arg| region(behind(arg))).collect(),
                    written: args.iter().filter_map(out).collect(),
                };
            }
            Action::MatMul { c, .. } => vec![*c],
            Action::Copy { to, .. } => vec![*to],
            Action::Clear(region) => vec![*region],
            Action::Host(_) => Vec::new(),
        };
        Accesses { written, ..Accesses::default() }
    }
}

fn begin_early(commands: impl IntoIterator<Item = Accesses>) -> Vec<bool> {
    // What the last command that waited for all before it wrote, and those behind it.
    let mut running: Vec<Region> = Vec::new();
    let mut behind_launch = false;
    let early = commands.into_iter().map(|Accesses { is_launch, is_joined, early, written }| {
        let settled = |region: &Region| !running.iter().any(|other| may_meet(*other, *region));
        let may = is_launch && is_joined && behind_launch && early.iter().all(settled);
        if !may {
            running.clear();
        }
        running.extend(written);
        behind_launch = is_launch;
        may
    });
    early.collect()
}

/// Whether two regions may share bytes. A caller may give the same memory twice.
fn may_meet(a: Region, b: Region) -> bool {
    match (a.memory, b.memory) {
        (Memory::User(i), Memory::User(j)) if i != j => true,
        (one, other) => one == other && a.start < b.start + b.bytes && b.start < a.start + a.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(start: usize) -> Region {
        Region { memory: Memory::Arena, start, bytes: 64 }
    }

    /// A launch that reads one region early and writes the other.
    fn launch(early: Region, out: Region) -> Accesses {
        Accesses { is_launch: true, is_joined: true, early: vec![early], written: vec![out] }
    }

    #[test]
    fn a_launch_waits_if_what_it_reads_early_may_still_be_written() {
        let user = |i| Region { memory: Memory::User(i), start: 0, bytes: 64 };
        let [a, b, c, d] = [0, 64, 128, 192].map(arena);
        // Behind a launch that waited, all before that is complete.
        assert_eq!(begin_early([launch(a, b), launch(a, c)]), [false, true]);
        assert_eq!(begin_early([launch(a, b), launch(b, c)]), [false, false]);
        // Through a launch that may begin early, what the one before it wrote is not.
        assert_eq!(begin_early([launch(a, b), launch(a, c), launch(b, d)]), [false, true, false]);
        // Behind one that did wait it is.
        assert_eq!(begin_early([launch(a, b), launch(b, c), launch(b, d)]), [false, false, true]);
        // A copy or product is no launch.
        let product = Accesses { written: vec![c], ..Accesses::default() };
        assert_eq!(begin_early([launch(a, b), product, launch(a, d)]), [false, false, false]);
        // Tensors of a caller may be one.
        assert_eq!(begin_early([launch(a, user(0)), launch(user(1), c)]), [false, false]);
        // Half of what is read was written.
        let half = Region { memory: Memory::Arena, start: 32, bytes: 64 };
        assert_eq!(begin_early([launch(a, half), launch(b, c)]), [false, false]);
    }
}
