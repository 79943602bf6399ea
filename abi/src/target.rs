//! Targets: which kind of device code is made for.
//!
//! `cpu | cpu-llvm[:LEVEL] | cuda[:sm_XX] | ascend[:CHIP] | ascend-sim[:CHIP]`, as on the command line.

use std::fmt;
use std::str::FromStr;

use crate::Level;

/// What a kernel is compiled for. Prints and parses in the command line's notation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// The host CPU through Cranelift.
    Cpu,
    /// A CPU of the host's kind through LLVM.
    CpuLlvm {
        /// The processors that the code is for, e.g. `x86-64-v3`; without it, the host.
        level: Option<Level>,
    },
    /// An NVIDIA GPU, e.g. `sm_90`, `sm_90a`, `sm_100`.
    Cuda {
        /// Architecture name as `ptxas` spells it.
        arch: String,
    },
    /// A Huawei Ascend NPU, e.g. `910b1`.
    Ascend {
        /// Chip name in lower case.
        chip: String,
    },
    /// The host model of an Ascend NPU; results are simulated.
    AscendSim {
        /// Chip name in lower case.
        chip: String,
    },
}

impl Target {
    /// The host CPU through LLVM.
    pub const CPU_LLVM: Target = Target::CpuLlvm { level: None };

    /// What tells the symbol of a kernel from that of the same kernel for another level of processors; else nothing.
    pub fn symbol_suffix(&self) -> String {
        match self {
            Target::CpuLlvm { level: Some(level) } => format!("_{level}").replace('-', "_"),
            _ => String::new(),
        }
    }
}

/// Architecture assumed when `cuda` is given alone.
pub(crate) const DEFAULT_CUDA_ARCH: &str = "sm_90";
/// Chip assumed when `ascend` or `ascend-sim` is given alone.
pub(crate) const DEFAULT_ASCEND_CHIP: &str = "910b1";

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Cpu => f.write_str("cpu"),
            Target::CpuLlvm { level: None } => f.write_str("cpu-llvm"),
            Target::CpuLlvm { level: Some(level) } => write!(f, "cpu-llvm:{level}"),
            Target::Cuda { arch } => write!(f, "cuda:{arch}"),
            Target::Ascend { chip } => write!(f, "ascend:{chip}"),
            Target::AscendSim { chip } => write!(f, "ascend-sim:{chip}"),
        }
    }
}

/// The text does not name a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseTargetError(pub String);

impl fmt::Display for ParseTargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown target `{}`; expected cpu, cpu-llvm[:x86-64-v3|:x86-64-v4], cuda[:sm_XX], ascend[:CHIP] or ascend-sim[:CHIP]",
            self.0
        )
    }
}

impl std::error::Error for ParseTargetError {}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseTargetError(text.to_owned());
        let (kind, detail) = match text.split_once(':') {
            Some((_, "")) => return Err(error()),
            Some((kind, detail)) => (kind, Some(detail)),
            None => (text, None),
        };
        let word = |default: &str| {
            let word = detail.unwrap_or(default).to_ascii_lowercase();
            let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            plain.then_some(word).ok_or_else(error)
        };
        match (kind, detail) {
            ("cpu", None) => Ok(Target::Cpu),
            ("cpu-llvm", None) => Ok(Target::CPU_LLVM),
            ("cpu-llvm", Some(level)) => {
                Level::of_name(level).map(|level| Target::CpuLlvm { level: Some(level) }).ok_or_else(error)
            }
            ("cuda", _) => {
                let arch = word(DEFAULT_CUDA_ARCH)?;
                let digits = arch.strip_prefix("sm_").ok_or_else(error)?.trim_end_matches(['a', 'f']);
                let valid = digits.len() >= 2 && digits.bytes().all(|b| b.is_ascii_digit());
                valid.then_some(Target::Cuda { arch }).ok_or_else(error)
            }
            ("ascend", _) => Ok(Target::Ascend { chip: word(DEFAULT_ASCEND_CHIP)? }),
            ("ascend-sim", _) => Ok(Target::AscendSim { chip: word(DEFAULT_ASCEND_CHIP)? }),
            _ => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_and_parse_agree() {
        for text in
            ["cpu", "cpu-llvm", "cpu-llvm:x86-64-v4", "cuda:sm_90", "cuda:sm_100a", "ascend:910b1", "ascend-sim:310p3"]
        {
            assert_eq!(text.parse::<Target>().map(|t| t.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("cuda".parse(), Ok(Target::Cuda { arch: "sm_90".into() }));
        assert_eq!("ascend".parse(), Ok(Target::Ascend { chip: "910b1".into() }));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "gpu", "cpu:x", "cpu-llvm:x86-64-v2", "cuda:", "cuda:90", "cuda:sm_", "ascend:9 1"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
