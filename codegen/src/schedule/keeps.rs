//! What the kernels of a target keep of the rows that they compute, of which the limits of regions are made.

use fusewright_abi::Target;
use fusewright_fusion::region::Keeps;

/// Most bytes of stack memory of a row that a loop on a CPU stores for others, and of all such rows.
pub const HOST_ROW: u32 = 16 << 10;
/// The same of all such rows of a kernel.
pub const HOST_ROWS: u32 = 64 << 10;

/// What a target's kernels keep.
pub fn keeps(target: &Target) -> Keeps {
    match target {
        Target::Cpu | Target::CpuLlvm { .. } => Keeps { row: HOST_ROW, rows: HOST_ROWS, groups: false },
        // Groups are in shared memory; lanes are computed where they are needed.
        Target::Cuda { .. } => Keeps { row: 0, rows: 0, groups: true },
        // Every value lies in a buffer of its own, and a kernel whose buffers do not fit is refused.
        Target::Ascend { .. } | Target::AscendSim { .. } => Keeps { row: u32::MAX, rows: u32::MAX, groups: true },
    }
}
