//! Rows that the kernels of a target keep once they have computed them. The cost limit of regions is made of this.

use fusewright_abi::Target;
use fusewright_fusion::region::Keeps;

/// Gives the rows that a target's kernels keep.
pub fn keeps(target: &Target) -> Keeps {
    match target {
        Target::Cpu | Target::CpuLlvm { .. } => Keeps::STACK,
        // Groups are in shared memory; lanes are computed where they are needed.
        Target::Cuda { .. } => Keeps { row: 0, rows: 0, groups: true },
        // Every value lies in a buffer of its own, and a kernel whose buffers do not fit is refused.
        Target::Ascend { .. } | Target::AscendSim { .. } => Keeps { row: u32::MAX, rows: u32::MAX, groups: true },
    }
}
