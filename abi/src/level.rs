//! Levels of x86-64: sets of instructions that its psABI gives names to, and compilers take as names of processors.

use std::fmt;

/// A level of x86-64 that LLVM's code can be made for. Those below have no fused multiply-add. Later is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// `x86-64-v3`: AVX2 and fused multiply-add.
    V3,
    /// `x86-64-v4`: AVX-512 of words and doublewords, in vectors of any length.
    V4,
}

/// The features of both, those of the lower one first; as `is_x86_feature_detected!` spells them.
macro_rules! features {
    ([$($lower:tt)+] [$($upper:tt)+]) => {
        const FEATURES: &[&str] = &[$($lower,)+ $($upper,)+];
        const LOWER: usize = [$($lower,)+].len();

        /// Whether this processor has all instructions of a level.
        #[cfg(target_arch = "x86_64")]
        fn is_here(level: Level) -> bool {
            use std::arch::is_x86_feature_detected;
            let lower = $(is_x86_feature_detected!($lower))&&+;
            lower && (level == Level::V3 || $(is_x86_feature_detected!($upper))&&+)
        }

        /// The features of this processor, in the order of the list.
        #[cfg(target_arch = "x86_64")]
        fn found() -> Vec<&'static str> {
            use std::arch::is_x86_feature_detected;
            let here = [$(($lower, is_x86_feature_detected!($lower)),)+ $(($upper, is_x86_feature_detected!($upper)),)+];
            here.into_iter().filter(|(_, here)| *here).map(|(name, _)| name).collect()
        }
    };
}

features! {
    ["sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b" "avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe"]
    ["avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"]
}

impl Level {
    /// Every level, the least first.
    pub const ALL: [Level; 2] = [Level::V3, Level::V4];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Level::V3 => "x86-64-v3",
            Level::V4 => "x86-64-v4",
        }
    }

    /// The level of a name.
    pub fn of_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The features that a processor of this level has beside those of every x86-64, as
    /// `std::is_x86_feature_detected!` spells them.
    pub fn features(self) -> &'static [&'static str] {
        match self {
            Level::V3 => &FEATURES[..LOWER],
            Level::V4 => FEATURES,
        }
    }

    /// The features of all levels that this processor has; none on other processors than x86-64.
    pub fn features_here() -> Vec<&'static str> {
        #[cfg(target_arch = "x86_64")]
        return found();
        #[cfg(not(target_arch = "x86_64"))]
        Vec::new()
    }

    /// The highest level that this processor is of, if it is of any.
    pub fn of_this_processor() -> Option<Level> {
        Level::ALL.into_iter().rev().find(|level| level.is_supported())
    }

    /// Whether this processor runs code of the level.
    pub fn is_supported(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return is_here(self);
        #[cfg(not(target_arch = "x86_64"))]
        false
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn a_level_has_what_the_one_below_has() {
        let [lower, upper] = Level::ALL.map(Level::features);
        assert!(upper.starts_with(lower) && upper.len() > lower.len());
        assert!(Level::V3.is_supported() || !Level::V4.is_supported());
    }

    #[test]
    fn a_processor_is_of_a_level_where_it_has_all_of_its_features() {
        let here = Level::features_here();
        for level in Level::ALL {
            let all = level.features().iter().all(|feature| here.contains(feature));
            assert_eq!(level.is_supported(), all && cfg!(target_arch = "x86_64"), "{level}: {here:?}");
            assert!(!level.is_supported() || Level::of_this_processor() >= Some(level));
        }
    }
}
