//! GPU architectures: which instructions exist and which PTX version to ask for.
//!
//! The version is the lowest that knows the architecture and every instruction used on it, so that old drivers load it.

/// One architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arch {
    /// Name as `ptxas` spells it.
    pub name: &'static str,
    /// LLVM's name of the PTX version.
    pub ptx: &'static str,
    /// Packed conversions from f32 to both fp8 formats.
    pub fp8_convert: bool,
    /// Sums and products of two bf16 at once, each rounded; sums and extremes of two integers of 16 bits at once.
    pub packed: bool,
    /// Launches that begin before the kernel ahead of them ends.
    pub dependent_launch: bool,
}

const fn arch(name: &'static str, ptx: &'static str, fp8_convert: bool, from_hopper: bool) -> Arch {
    Arch { name, ptx, fp8_convert, packed: from_hopper, dependent_launch: from_hopper }
}

/// Every architecture that code is made for.
pub(super) const ALL: &[Arch] = &[
    arch("sm_80", "+ptx70", false, false),
    arch("sm_86", "+ptx71", false, false),
    arch("sm_89", "+ptx81", true, false),
    arch("sm_90", "+ptx80", true, true),
    arch("sm_90a", "+ptx80", true, true),
    arch("sm_100", "+ptx86", true, true),
    arch("sm_100a", "+ptx86", true, true),
    arch("sm_103", "+ptx88", true, true),
    arch("sm_120", "+ptx87", true, true),
];

/// The architecture of that name.
pub(super) fn by_name(name: &str) -> Option<Arch> {
    ALL.iter().copied().find(|a| a.name == name)
}
