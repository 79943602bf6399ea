//! NVIDIA GPUs: the driver, its devices, the assembler, the library for matrix products.

use fusewright_abi::Target;
use fusewright_codegen::backend;
use fusewright_runtime::cuda::{Shown, cublaslt, shown};

use super::machine::loaded;
use super::trial::{apart, tried};
use super::{Finding, Section};
use crate::installations::{cublaslt_folders, tool_folders};
use crate::{AssemblerChoice, Options, knobs};

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = vec![compiler()];
    let devices = shown();
    findings.push(driver(&devices));
    for (ordinal, device) in devices.iter().flatten().enumerate() {
        findings.push(gpu(ordinal, device));
    }
    findings.push(assembler());
    findings.push(disassembler());
    findings.push(products(devices.is_ok()));
    findings
}

fn nvidia(subject: &str, found: impl Into<String>, used: impl Into<String>) -> Finding {
    Finding::new(Section::Nvidia, subject, found, used)
}

/// Reports the compiler that writes PTX.
fn compiler() -> Finding {
    let architectures = backend::gpu_architectures();
    if architectures.is_empty() {
        return nvidia("PTX", backend::lacks("cuda"), "no kernels for NVIDIA GPUs");
    }
    let used = "kernels are written for these, with or without a GPU here";
    nvidia("PTX", format!("by LLVM for {}", architectures.join(", ")), used)
}

fn driver(devices: &Result<Vec<Result<Shown, String>>, String>) -> Finding {
    let file = loaded("libcuda.so").map_or_else(String::new, |file| format!("{file}, "));
    match devices {
        Ok(devices) => {
            let version = devices.iter().flatten().next().map(|device| device.driver);
            let version = version.map_or_else(String::new, |(major, minor)| format!(", of CUDA {major}.{minor}"));
            let count = if devices.len() == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", devices.len()) };
            nvidia("driver", format!("{file}{count}{version}"), "loads and launches kernels")
        }
        Err(reason) => {
            let used = if cfg!(feature = "cuda") {
                "kernels for `cuda` are compiled and do not run here"
            } else {
                "nothing: this build makes no kernels for `cuda`"
            };
            let finding = nvidia("driver", format!("{file}{reason}"), used);
            // A driver that is there and of no use is worth a word; a machine without one is a machine like others.
            if file.is_empty() || !cfg!(feature = "cuda") {
                finding
            } else {
                finding.advising("make a GPU visible to this process, or update the driver")
            }
        }
    }
}

fn gpu(ordinal: usize, device: &Result<Shown, String>) -> Finding {
    let subject = format!("GPU {ordinal}");
    let device = match device {
        Ok(device) => device,
        Err(reason) => {
            return nvidia(&subject, reason, "not used").advising("see what `nvidia-smi` says of it");
        }
    };
    let (major, minor) = device.capability;
    let found = format!("{}, compute capability {major}.{minor}", device.name);
    let Some(arch) = architecture(&backend::gpu_architectures(), device.capability) else {
        let finding = nvidia(&subject, found, "not used: this build has no code for it");
        return if cfg!(feature = "cuda") { finding } else { finding.advising("build with feature `cuda`") };
    };
    let target = Target::Cuda { arch: arch.to_owned() };
    // What is wrong with an assembler that is asked for is said of the assembler.
    let assembler = AssemblerChoice::Environment.find().map_or(AssemblerChoice::Off, |_| AssemblerChoice::Environment);
    match tried(&target, &Options { device: ordinal, assembler, ..apart() }) {
        Ok(said) => nvidia(&subject, found, format!("target `{target}`: {said}")),
        Err(error) => nvidia(&subject, found, format!("target `{target}`: kernels do not work: {error}"))
            .failing("update the driver; if that does not help, report it with this text"),
    }
}

/// The newest of these architectures whose plain code runs on a device.
fn architecture<'a>(known: &[&'a str], (major, minor): (i32, i32)) -> Option<&'a str> {
    let number = |name: &str| name.strip_prefix("sm_").and_then(|digits| digits.parse::<i32>().ok());
    known
        .iter()
        .copied()
        .filter(|name| number(name).is_some_and(|n| n <= major * 10 + minor))
        .max_by_key(|name| number(name))
}

fn assembler() -> Finding {
    let knob = knobs::PTXAS.name;
    match AssemblerChoice::Environment.find() {
        Ok(Some(tool)) => {
            let found = format!("{}, by {}, {}", tool.file().display(), tool.from(), tool.version());
            nvidia("ptxas", found, "assembles kernels for `cuda` when they are compiled")
        }
        Ok(None) if knobs::PTXAS.path().is_some() => nvidia("ptxas", format!("off, by {knob}"), DRIVER),
        Ok(None) => {
            let found = format!(
                "none in PATH, CUDA_HOME, CUDA_PATH, the usual folder of CUDA or a Python package; {knob} may name one"
            );
            nvidia("ptxas", found, DRIVER)
        }
        Err(error) => nvidia("ptxas", error.to_string(), "kernels for `cuda` are not compiled")
            .failing(format!("name a `ptxas` that works by {knob}, or unset it")),
    }
}

/// Says what happens without an assembler.
const DRIVER: &str = "where there is a GPU, its driver compiles PTX when kernels are loaded";

fn disassembler() -> Finding {
    let places = tool_folders();
    let tool = places.iter().map(|place| (place.folder.join("nvdisasm"), place.from)).find(|(file, _)| file.is_file());
    match tool {
        Some((file, from)) => nvidia(
            "nvdisasm",
            format!("{}, by {from}", file.display()),
            "shows machine code to people; no kernel needs it",
        ),
        None => nvidia("nvdisasm", "none", "no kernel needs it: it shows machine code to people"),
    }
}

/// The library for matrix products. It is loaded only where there is a GPU, or where a user names its folder.
fn products(gpu: bool) -> Finding {
    let knob = knobs::CUBLASLT_DIR.name;
    let named = knobs::CUBLASLT_DIR.path().is_some();
    if !gpu && !named {
        return nvidia("cuBLASLt", "not looked for", "multiplies matrices where there is a GPU");
    }
    match cublaslt(&cublaslt_folders()) {
        Ok((file, version)) => {
            let file = loaded("libcublasLt.so").unwrap_or_else(|| file.display().to_string());
            nvidia("cuBLASLt", format!("{file}, version {version}"), "multiplies matrices of programs on a GPU")
        }
        Err(reason) => {
            let finding = nvidia("cuBLASLt", reason, "programs with matrix products do not run on a GPU");
            let remedy = format!("install NVIDIA's package `nvidia-cublas`, or name the folder by {knob}");
            if named { finding.failing(remedy) } else { finding.advising(remedy) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_the_newest_architecture_that_runs_is_taken() {
        let known = ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_120"];
        let of = |capability| architecture(&known, capability);
        assert_eq!([of((9, 0)), of((8, 7)), of((12, 1))], [Some("sm_90"), Some("sm_86"), Some("sm_120")]);
        assert_eq!((of((7, 5)), architecture(&[], (9, 0))), (None, None));
    }

    #[test]
    fn a_gpu_that_cannot_be_opened_is_no_reason_to_fail() {
        let finding = gpu(1, &Err("cuCtxCreate: it is taken (46)".to_owned()));
        assert_eq!(finding.subject, "GPU 1");
        assert!(finding.problem.is_some_and(|problem| !problem.fails));
    }

    #[test]
    fn a_gpu_without_code_for_it_is_said() {
        let old = Shown { name: "Old".to_owned(), capability: (5, 0), driver: (12, 0) };
        let finding = gpu(0, &Ok(old));
        assert!(finding.found.contains("compute capability 5.0"), "{finding:?}");
        assert!(finding.used.contains("no code for it"), "{finding:?}");
    }
}
