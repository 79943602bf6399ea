//! Which compiler makes the code of CPU kernels, and when: Cranelift at once, LLVM behind the launches.

use fusewright_abi::Target;
use fusewright_codegen::kernel::Kernel;

use crate::{Error, knobs};

/// How kernels for target `cpu` are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Tiers {
    /// As [`knobs::TIERS`] says; else [`Tiers::On`] in builds with feature `llvm`, [`Tiers::Off`] in others.
    #[default]
    Environment,
    /// By Cranelift.
    Off,
    /// By Cranelift before the first call, and by LLVM behind the calls, once they have done enough work.
    On,
    /// By LLVM before the first call.
    Llvm,
}

/// Lanes that are worth a compilation by LLVM: on a Xeon with AVX-512 Cranelift's code took 5 to 22 ms for them (norms,
/// gates, softmax, a quantiser), and a compilation 5 to 37 ms.
const BUDGET: u64 = 1 << 23;
/// Lanes of a row whose length a call gives.
const UNKNOWN: u64 = 4096;

impl Tiers {
    /// What is compiled for first in place of a target, and whether LLVM comes behind.
    ///
    /// # Errors
    /// A value of the knob that is none; LLVM in a build without it.
    pub(crate) fn of(self, target: &Target) -> Result<(Target, bool), Error> {
        if *target != Target::Cpu {
            return Ok((target.clone(), false));
        }
        let built = cfg!(feature = "llvm");
        let chosen = match (self, knobs::TIERS.read().as_deref()) {
            (Tiers::Environment, Some("off")) => Tiers::Off,
            (Tiers::Environment, Some("on")) => Tiers::On,
            (Tiers::Environment, Some("llvm")) => Tiers::Llvm,
            (Tiers::Environment, Some(other)) => {
                let name = knobs::TIERS.name;
                return Err(Error::Input(format!("{name}: `{other}` is none of `off`, `on`, `llvm`")));
            }
            (Tiers::Environment, None) if built => Tiers::On,
            (Tiers::Environment, None) => Tiers::Off,
            (chosen, _) => chosen,
        };
        if !built && chosen != Tiers::Off {
            return Err(Error::Unavailable(format!("tiers need LLVM; {}", fusewright_codegen::backend::lacks("llvm"))));
        }
        Ok(match chosen {
            Tiers::Llvm => (Target::CPU_LLVM, false),
            _ => (Target::Cpu, chosen == Tiers::On),
        })
    }
}

/// How many rows of a kernel are worth a compilation by LLVM.
pub(crate) fn budget(kernel: &Kernel) -> u64 {
    let types = kernel.segments.iter().flat_map(|segment| &segment.types);
    let lanes = types.map(|ty| ty.shape.elements().as_const().and_then(|n| u64::try_from(n).ok()).unwrap_or(UNKNOWN));
    (BUDGET / lanes.max().unwrap_or(1).max(1)).max(1)
}
