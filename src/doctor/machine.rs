//! Version, system, processor, threads.

use std::fs::read_to_string;
use std::path::Path;

use fusewright_abi::{Level, Target};
use fusewright_codegen::backend;

use super::{Finding, Section};

pub(super) fn findings() -> Vec<Finding> {
    let machine = |subject, found: String, used: &str| Finding::new(Section::Machine, subject, found, used);
    let version = format!("{}, built {}", env!("CARGO_PKG_VERSION"), built_with());
    vec![
        machine("fusewright", version, "compiles and runs kernels"),
        machine("system", system(), "files, threads and memory"),
        machine("processor", processor(), "kernels for `cpu` are made for it"),
        level(),
        threads(),
    ]
}

/// The parts of this build that features choose.
fn built_with() -> String {
    let features =
        [(cfg!(feature = "ascend"), "ascend"), (cfg!(feature = "cuda"), "cuda"), (cfg!(feature = "llvm"), "llvm")];
    let names: Vec<&str> = features.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
    if names.is_empty() { "without features".to_owned() } else { format!("with features {}", names.join(", ")) }
}

/// Name and kernel of the operating system, as far as it tells them, and the architecture.
fn system() -> String {
    let release = read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"'));
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let kernel = if kernel.trim().is_empty() { os.to_owned() } else { format!("{os} {}", kernel.trim()) };
    match name {
        Some(name) => format!("{name}, {kernel}, {arch}"),
        None => format!("{kernel}, {arch}"),
    }
}

/// The processor as the system calls it, and what it has of the instructions that kernels use.
fn processor() -> String {
    let told = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = name_in(&told).unwrap_or_else(|| format!("a processor of {}", std::env::consts::ARCH));
    let features = Level::features_here();
    let wide: Vec<&str> =
        features.into_iter().filter(|name| VECTORS.iter().any(|begin| name.starts_with(begin))).collect();
    if wide.is_empty() { name } else { format!("{name} with {}", wide.join(", ")) }
}

/// How the names of features begin that say what vectors can do; all others come with them.
const VECTORS: [&str; 4] = ["sse4", "avx", "fma", "f16c"];

/// The name in the text that Linux has of its processors: of the first one.
fn name_in(told: &str) -> Option<String> {
    let keys = ["model name", "Model", "cpu model", "Hardware"];
    keys.iter().find_map(|key| {
        let line = told.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == *key))?;
        line.split_once(':').map(|(_, name)| name.trim().to_owned()).filter(|name| !name.is_empty())
    })
}

/// Which instructions kernels are generated for.
fn level() -> Finding {
    let level = Level::of_this_processor();
    let found = match level {
        Some(level) => level.to_string(),
        None if cfg!(target_arch = "x86_64") => format!("below {}", Level::V3),
        None => format!("no levels on {}", std::env::consts::ARCH),
    };
    let wide = |target: &Target| backend::vector_bits(target).map(|bits| format!("{bits} bits"));
    let widths = [("Cranelift", Target::Cpu), ("LLVM", Target::CPU_LLVM)];
    let widths: Vec<String> =
        widths.iter().filter_map(|(name, target)| Some(format!("{name} {}", wide(target).ok()?))).collect();
    let mut used = match widths.is_empty() {
        true => "no compiler of this build takes it".to_owned(),
        false => format!("vectors of kernels: {}", widths.join(", ")),
    };
    if cfg!(all(feature = "llvm", target_arch = "x86_64")) {
        used += &format!("; no variable changes it, target `cpu-llvm:{}` does", Level::V3);
    }
    Finding::new(Section::Machine, "level", found, used)
}

fn threads() -> Finding {
    let found = match std::thread::available_parallelism() {
        Ok(count) => count.to_string(),
        Err(error) => format!("not told by the system: {error}"),
    };
    let used = "a call says how many of them its launches may use; compilers use all";
    Finding::new(Section::Machine, "threads", found, used)
}

/// The file of a library that this process has loaded, by the beginning of its name, where the system tells.
pub(super) fn loaded(begins: &str) -> Option<String> {
    let maps = read_to_string("/proc/self/maps").ok()?;
    let files = maps.lines().filter_map(|line| line.split_once('/').map(|(_, path)| format!("/{path}")));
    let named =
        |file: &String| Path::new(file).file_name().is_some_and(|name| name.to_string_lossy().starts_with(begins));
    files.into_iter().find(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processor_is_named() {
        let told =
            "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some CPU @ 2.0GHz\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(name_in(told).as_deref(), Some("Some CPU @ 2.0GHz"));
        assert_eq!(name_in("processor : 0\nBogoMIPS : 50.00\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn loaded_libraries_are_told() {
        let libc = loaded("libc.so").expect("the tests are linked to it");
        assert!(Path::new(&libc).is_file(), "{libc}");
        assert_eq!(loaded("libnothing"), None);
    }
}
