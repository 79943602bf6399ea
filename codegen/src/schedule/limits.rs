//! Limits of regions that follow from what the kernels of a target keep and how fast they compute.

use fusewright_abi::{Level, Target};
use fusewright_fusion::region::{Keeps, Limits};

use super::costs;

/// Gives the limits of a target's regions.
pub fn limits(target: &Target) -> Limits {
    let usual = Limits::default();
    match target {
        Target::Cpu => Limits { keeps: Keeps::STACK, costs: Some(costs::CRANELIFT), ..usual },
        Target::CpuLlvm { level: Some(Level::V4) } => {
            Limits { keeps: Keeps::STACK, costs: Some(costs::AVX512), ..usual }
        }
        // Without a level the host's is meant. What every level has decides, so that the host does not.
        Target::CpuLlvm { .. } => Limits { keeps: Keeps::STACK, costs: Some(costs::AVX2), ..usual },
        // Groups are in shared memory; lanes are computed where they are needed. There is no table of costs: prefix sums whose
        // exponentials are computed again were 3.9 times as fast as with stored ones on an H200.
        Target::Cuda { .. } => Limits { keeps: Keeps { row: 0, rows: 0, groups: true }, ..usual },
        // Every value lies in a buffer of its own, and a kernel whose buffers do not fit is refused.
        Target::Ascend { .. } | Target::AscendSim { .. } => {
            Limits { keeps: Keeps { row: u32::MAX, rows: u32::MAX, groups: true }, ..usual }
        }
    }
}
