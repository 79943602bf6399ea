//! Ascend NPUs as the facade opens them: through the runtime of CANN on this machine, or as a host model of them, whose
//! results are SIMULATED.

#[cfg(feature = "ascend")]
mod simulated;

use std::path::PathBuf;
use std::sync::Arc;

use fusewright_abi::Target;
use fusewright_runtime::RuntimeError;
use fusewright_runtime::ascend::{Chip, LIBRARY, Npu, RTC_LIBRARY, candidates};

use crate::store::CacheChoice;
use crate::toolchain::Step;
use crate::{Error, Options, knobs};

#[cfg(feature = "ascend")]
pub(crate) use simulated::{Simulated, compiler};

/// What reports say of results of the host model.
pub const SIMULATED: &str = "SIMULATED";
/// Folders of CANN in which libraries may lie.
const LIBRARIES: [&str; 2] = ["lib64", "runtime/lib64"];
/// Where CANN is unless somebody says otherwise, below the folder of the vendor.
const USUAL: [&str; 4] = ["ascend-toolkit/latest", "latest", "cann", "nnrt/latest"];

/// The step of a target's toolchain, where the host model of an NPU runs the kernels: the host's compiler of C++.
///
/// # Errors
/// A model that cannot be built here.
#[cfg(feature = "ascend")]
pub(crate) fn step(target: &Target, options: &Options) -> Result<Option<Arc<dyn Step>>, Error> {
    if !matches!(target, Target::AscendSim { .. }) {
        return Ok(None);
    }
    let unavailable = |reason| Error::Unavailable(format!("target `{target}`: {reason}"));
    let model = Simulated::of(target, &options.cache).map_err(unavailable)?;
    Ok(Some(Arc::new(simulated::HostCompiler::new(model))))
}

/// A build without the backend compiles for no NPU.
#[cfg(not(feature = "ascend"))]
pub(crate) fn step(_: &Target, _: &Options) -> Result<Option<Arc<dyn Step>>, Error> {
    Ok(None)
}

/// The NPU that runs kernels of a target.
///
/// # Errors
/// A chip without numbers; no runtime, with what was looked for; no device, or one that lacks something; for the host model,
/// no compiler of C++, or one that refuses its sources.
pub(crate) fn open(target: &Target, cache: &CacheChoice) -> Result<Npu, RuntimeError> {
    let unavailable = |reason: String| RuntimeError::Unavailable { target: target.to_string(), reason };
    let chip = chip(target).map_err(unavailable)?;
    let files = match target {
        Target::Ascend { .. } => files(),
        _ => stand_in(target, cache).map_err(unavailable)?,
    };
    Npu::open(target, &files, &chip)
}

/// The NPU of this machine, of whatever chip.
///
/// # Errors
/// As [`open`], for the first chip that code is made for.
#[cfg(feature = "ascend")]
pub(crate) fn open_any() -> Result<Npu, RuntimeError> {
    let chips = fusewright_codegen::backend::ascend::CHIPS.iter();
    let mut opened = chips.map(|chip| open(&Target::Ascend { chip: chip.name.to_owned() }, &CacheChoice::Off));
    let first = opened.next().unwrap_or_else(|| Err(no_chip()));
    if first.is_ok() { first } else { opened.find(Result::is_ok).unwrap_or(first) }
}

/// A build without the backend knows no chip.
#[cfg(not(feature = "ascend"))]
pub(crate) fn open_any() -> Result<Npu, RuntimeError> {
    Err(no_chip())
}

fn no_chip() -> RuntimeError {
    let reason = "this build makes code for no chip".to_owned();
    RuntimeError::Unavailable { target: "ascend".to_owned(), reason }
}

/// Files that may be the runtime: the one that the user names, else the name that the system looks up and those in folders of
/// CANN.
fn files() -> Vec<PathBuf> {
    match knobs::ACL.path() {
        Some(folder) if folder.is_dir() => vec![folder.join(LIBRARY)],
        Some(file) => vec![file],
        None => candidates(LIBRARY, &folders()),
    }
}

/// Says that a file of the runtime lies in one of the folders that are looked at, usable or not.
pub(crate) fn is_installed() -> bool {
    files().iter().any(|file| file.is_file())
}

/// Files that may be the run-time compiler: beside the runtime that the user names, else as of the runtime.
pub(crate) fn rtc_files() -> Vec<PathBuf> {
    match knobs::ACL.path() {
        Some(folder) if folder.is_dir() => vec![folder.join(RTC_LIBRARY)],
        Some(file) => vec![file.with_file_name(RTC_LIBRARY)],
        None => candidates(RTC_LIBRARY, &folders()),
    }
}

/// Folders of libraries of CANN: where it says that it is, and the usual ones.
fn folders() -> Vec<PathBuf> {
    let stated = [&knobs::ASCEND_HOME_PATH, &knobs::ASCEND_TOOLKIT_HOME].into_iter().filter_map(knobs::Knob::path);
    let usual = USUAL.map(|folder| PathBuf::from("/usr/local/Ascend").join(folder));
    stated.chain(usual).flat_map(|home| LIBRARIES.map(|libraries| home.join(libraries))).collect()
}

/// The numbers of a target's chip.
///
/// # Errors
/// A target without a chip that code is made for, in words.
#[cfg(feature = "ascend")]
pub(crate) fn chip(target: &Target) -> Result<Chip, String> {
    let (Target::Ascend { chip } | Target::AscendSim { chip }) = target else {
        return Err("it is no Ascend NPU".to_owned());
    };
    use fusewright_codegen::backend::ascend::{CHIPS, EmitError};
    let known = CHIPS.iter().find(|known| known.name == chip);
    let known = known.ok_or_else(|| EmitError::UnknownChip(chip.clone()).to_string())?;
    let number = known.arch.trim_start_matches(|c: char| !c.is_ascii_digit()).parse();
    Ok(Chip {
        soc: known.vendor.split_whitespace().collect(),
        architecture: number.map_err(|_| format!("`{}` is no architecture with a number", known.arch))?,
        vector_cores: known.vector_cores,
        buffer_bytes: known.buffer_bytes,
    })
}

/// A build without the backend knows no chip.
#[cfg(not(feature = "ascend"))]
pub(crate) fn chip(_: &Target) -> Result<Chip, String> {
    Err(fusewright_codegen::backend::lacks("ascend"))
}

/// The stand-in of the runtime, made where it is not there yet.
#[cfg(feature = "ascend")]
fn stand_in(target: &Target, cache: &CacheChoice) -> Result<Vec<PathBuf>, String> {
    Simulated::of(target, cache).map(|simulated| vec![simulated.runtime()])
}

#[cfg(not(feature = "ascend"))]
fn stand_in(_: &Target, _: &CacheChoice) -> Result<Vec<PathBuf>, String> {
    Err(fusewright_codegen::backend::lacks("ascend"))
}

/// What a list of devices says of the host model: which compiler builds it.
///
/// # Errors
/// No compiler of C++, in words.
#[cfg(feature = "ascend")]
pub(crate) fn simulator(target: &Target) -> Result<String, String> {
    chip(target)?;
    compiler().map(|compiler| format!("{SIMULATED} by a host model that {compiler} builds"))
}

#[cfg(not(feature = "ascend"))]
pub(crate) fn simulator(_: &Target) -> Result<String, String> {
    Err(fusewright_codegen::backend::lacks("ascend"))
}

#[cfg(all(test, feature = "ascend"))]
mod tests {
    use super::*;

    #[test]
    fn chips_have_the_numbers_of_their_table() {
        let of = |name: &str| chip(&name.parse().expect("a target"));
        let found = of("ascend:910b1").expect("known");
        assert_eq!((found.soc.as_str(), found.architecture, found.vector_cores), ("Ascend910B1", 2201, 48));
        assert_eq!(of("ascend-sim:950").expect("known").architecture, 3510);
        assert!(of("ascend:910z").expect_err("unknown").contains("910z"));
        assert!(of("cpu").is_err());
    }
}
