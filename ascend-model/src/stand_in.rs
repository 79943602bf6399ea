//! The stand-in of the vendor's runtime over the model: `libascendcl.so` and `libacl_rtc.so` with the functions of the real
//! ones, for one chip. Who wants it names its file; nothing finds it by chance.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiler::{FLAGS, Model, hashed, write};
use crate::files::{File, STAND_IN};
use crate::whole::complete;
use crate::{Chip, Error};

/// Which version of the runtime is stood in for: older ones lack functions that came later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// CANN 8.1.
    V8_1,
    /// CANN 8.5.
    V8_5,
    /// CANN 9.1.
    V9_1,
}

impl Version {
    fn number(self) -> u32 {
        match self {
            Version::V8_1 => 810,
            Version::V8_5 => 850,
            Version::V9_1 => 910,
        }
    }
}

/// What a device says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Name of the chip, such as `Ascend910B1`.
    pub soc: String,
    /// What kernels are compiled for.
    pub chip: Chip,
    /// Its vector cores.
    pub vector_cores: u32,
}

/// The stand-in, built.
#[derive(Clone, Debug)]
pub struct StandIn {
    folder: PathBuf,
}

/// Names of the libraries in files, and what the system's loader knows them as: no process that looks for the real ones by
/// name is given these.
const LIBRARIES: [(&str, &str); 2] =
    [("libascendcl.so", "libascendcl-simulated.so"), ("libacl_rtc.so", "libacl_rtc-simulated.so")];
/// The one source of the second library.
const RTC: &str = "acl/rtc.cpp";

impl Model {
    /// Builds the stand-in of the runtime of a device, where it is not there yet.
    ///
    /// # Errors
    /// No compiler, one that refuses, or a folder that cannot be written.
    pub fn stand_in(&self, device: &Device, version: Version) -> Result<StandIn, Error> {
        let numbers = Model::definitions(device, version);
        let texts = STAND_IN.iter().flat_map(|(path, text)| [*path, *text]);
        // Its libraries name the folder in which they were made: a cache that was moved or copied has others made.
        let here = self.folder().display().to_string();
        let name = hashed(texts.chain(numbers.iter().map(String::as_str)).chain([here.as_str()]));
        let stand_in = StandIn { folder: self.folder().join(format!("stand-in-{name}")) };
        let flags: String =
            self.kernel_flags(&stand_in.folder, device.chip).iter().map(|flag| format!("{flag}\\n")).collect();
        complete(&stand_in.folder, |folder| self.fill_stand_in(folder, &numbers, &flags))?;
        Ok(stand_in)
    }

    /// With what the run-time compiler compiles kernels.
    fn kernel_flags(&self, folder: &Path, chip: Chip) -> Vec<String> {
        let own = [
            "-O1".to_owned(),
            "-shared".to_owned(),
            format!("-DASCEND_MODEL_UB_BYTES={}", chip.buffer_bytes),
            format!("-I{}", self.folder().join("include").display()),
            format!("-I{}", folder.join("acl").display()),
            "-Wl,--no-as-needed".to_owned(),
            self.library().display().to_string(),
            format!("-Wl,-rpath,{}", self.folder().display()),
        ];
        FLAGS.iter().map(ToString::to_string).chain(own).collect()
    }

    fn definitions(device: &Device, version: Version) -> Vec<String> {
        let Device { soc, chip, vector_cores } = device;
        vec![
            format!("-DACL_VERSION={}", version.number()),
            format!("-DACL_SOC=\"{soc}\""),
            format!("-DACL_ARCHITECTURE={}", chip.arch),
            format!("-DACL_UB_BYTES={}", chip.buffer_bytes),
            format!("-DACL_VECTOR_CORES={vector_cores}"),
        ]
    }

    fn fill_stand_in(&self, folder: &Path, definitions: &[String], flags: &str) -> Result<(), Error> {
        for (path, text) in STAND_IN {
            write(&folder.join(path), text)?;
        }
        let sources: Vec<&File> = STAND_IN.iter().filter(|(path, _)| path.ends_with(".cpp")).collect();
        self.each(&sources, |(path, _)| {
            let source = folder.join(path);
            let mut command = Command::new(self.compiler());
            command.args(FLAGS).args(["-O1", "-fvisibility=hidden", "-c"]).args(definitions);
            command.arg(format!("-DACL_MODEL_FLAGS=\"{flags}\""));
            command.arg("-I").arg(self.folder().join("include"));
            command.arg(&source).arg("-o").arg(source.with_extension("o"));
            self.run(&mut command)
        })?;
        let (rtc, runtime): (Vec<&File>, Vec<&File>) = sources.into_iter().partition(|(path, _)| *path == RTC);
        for ((file, name), sources) in LIBRARIES.into_iter().zip([runtime, rtc]) {
            let mut command = Command::new(self.compiler());
            command.arg("-shared").arg(format!("-Wl,-soname,{name}")).arg("-o").arg(folder.join(file));
            command.args(sources.iter().map(|(path, _)| folder.join(path).with_extension("o")));
            command.arg(self.library()).arg(format!("-Wl,-rpath,{}", self.folder().display())).arg("-ldl");
            self.run(&mut command)?;
        }
        Ok(())
    }
}

impl StandIn {
    /// The file of the runtime.
    pub fn runtime(&self) -> PathBuf {
        self.folder.join(LIBRARIES[0].0)
    }

    /// The file of the run-time compiler.
    pub fn rtc(&self) -> PathBuf {
        self.folder.join(LIBRARIES[1].0)
    }
}

/// The header that describes what kernels take, for sources that have [`described`] behind them.
pub const ARGUMENTS_HEADER: crate::Source<'static> =
    crate::Source { name: "kernel_arguments.h", text: include_str!("../acl/kernel_arguments.h") };

/// A line that describes what a kernel takes, to stand behind its source: the stand-in launches no other.
pub fn described(kernel: &str) -> String {
    format!(
        "extern \"C\" __attribute__((visibility(\"default\"))) const auto {} = ascend_model::ArgumentsOf(&{kernel});\n",
        arguments_of(kernel)
    )
}

/// What the symbol is called that describes what a kernel takes.
pub(crate) fn arguments_of(kernel: &str) -> String {
    format!("{kernel}__arguments")
}
