//! Command lines of the vendor's compilers, as pure functions.
//!
//! Two ways lead from a source to code. `ccec` with `ld.lld` makes an object for the vector cores alone, in all versions: what
//! the runtime loads. The front end, `bisheng`, takes kernels and host code of one source and makes programs and libraries of
//! the host, from [`CannVersion::FRONT_END`] on.

use std::fmt;
use std::path::{Path, PathBuf};

use super::toolkit::Toolkit;
use super::version::CannVersion;

/// A program and its arguments. Prints as a shell takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandLine {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.program.display().to_string()))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A way that a version or a chip does not have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoRoute(String);

impl NoRoute {
    pub(super) fn no_tool(version: &CannVersion, file: &Path) -> Self {
        NoRoute(format!("CANN {version} has no {}", file.display()))
    }
}

/// What the front end makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrontEnd {
    /// A program.
    Program,
    /// An object to link into one.
    Object,
    /// A shared library of the host.
    SharedLibrary,
}

/// The names of an architecture: for the front end and RTC, and for the compiler of device code.
struct Arch {
    npu: &'static str,
    ccec: &'static str,
    /// From which release on sources are compiled while a program runs; `None` for never.
    rtc: Option<CannVersion>,
}

static ARCHS: [Arch; 3] = [
    Arch { npu: "dav-2201", ccec: "dav-c220-vec", rtc: Some(CannVersion::release(9, 0, 0)) },
    // Its cores do vectors and matrices both.
    Arch { npu: "dav-2002", ccec: "dav-m200", rtc: None },
    Arch { npu: "dav-3510", ccec: "dav-c310-vec", rtc: Some(CannVersion::release(9, 1, 0)) },
];

fn arch(npu: &str) -> Result<&'static Arch, NoRoute> {
    let known = || ARCHS.iter().map(|arch| arch.npu).collect::<Vec<_>>().join(", ");
    ARCHS
        .iter()
        .find(|arch| arch.npu == npu)
        .ok_or_else(|| NoRoute(format!("no compiler flags for `{npu}`; there are flags for {}", known())))
}

/// Folders of headers, below a toolkit.
const INCLUDES: [&str; 4] =
    ["compiler/tikcpp/tikcfw", "compiler/tikcpp/tikcfw/interface", "compiler/tikcpp/tikcfw/impl", "include"];

/// What the compiler of device code is told of its backend.
const BACKEND: [&str; 5] = [
    "-cce-aicore-stack-size=0x8000",
    "-cce-aicore-function-stack-size=0x8000",
    "-cce-aicore-record-overflow=false",
    "-cce-aicore-addr-transform",
    "-cce-aicore-dcci-insert-for-scalar=false",
];

/// The two commands that make an object for the vector cores of `npu_arch` (`dav-2201`) of a source: `object` is what the
/// runtime loads, and the first command's result lies beside it under the same name with `.part` behind.
///
/// # Errors
/// A chip that there are no flags for; a toolkit without `ccec` or `ld.lld`.
pub fn device_object(
    toolkit: &Toolkit,
    npu_arch: &str,
    source: &Path,
    object: &Path,
) -> Result<[CommandLine; 2], NoRoute> {
    let arch = arch(npu_arch)?;
    let part = PathBuf::from(format!("{}.part", object.display()));
    let text = |path: &Path| path.display().to_string();
    let mut args: Vec<String> = ["-c", "-O3", "-std=c++17", "-xcce"].map(str::to_owned).to_vec();
    args.push(text(source));
    args.push(format!("--cce-aicore-arch={}", arch.ccec));
    args.extend(["--cce-aicore-only", "-DTILING_KEY_VAR=0"].map(str::to_owned));
    args.extend(BACKEND.iter().flat_map(|flag| ["-mllvm".to_owned(), (*flag).to_owned()]));
    args.extend(INCLUDES.iter().map(|folder| format!("-I{}", text(&toolkit.home().join(folder)))));
    args.extend(["-o".to_owned(), text(&part)]);
    let compile = CommandLine { program: toolkit.tool("ccec")?, args };
    let linked = ["-m", "aicorelinux", "-Ttext=0"].map(str::to_owned).into_iter();
    let args = linked.chain([text(&part), "-static".into(), "-o".into(), text(object), "-q".into()]).collect();
    Ok([compile, CommandLine { program: toolkit.tool("ld.lld")?, args }])
}

/// The command by which the front end makes a program or library for `npu_arch` of sources that hold kernels and host code.
///
/// # Errors
/// A version without front end, a chip that there are no flags for, a toolkit without `bisheng`.
pub fn front_end(
    toolkit: &Toolkit,
    npu_arch: &str,
    sources: &[&Path],
    output: &Path,
    kind: FrontEnd,
) -> Result<CommandLine, NoRoute> {
    let arch = arch(npu_arch)?;
    if !toolkit.version().reaches(&CannVersion::FRONT_END) {
        let (have, least) = (toolkit.version(), CannVersion::FRONT_END);
        return Err(NoRoute(format!("CANN {have} has no front end for {npu_arch}; it came with {least}")));
    }
    let kind: &[&str] = match kind {
        FrontEnd::Program => &[],
        FrontEnd::Object => &["-c"],
        FrontEnd::SharedLibrary => &["-shared", "-fPIC"],
    };
    let mut args: Vec<String> =
        ["-x", "asc", "-O3", "-std=c++17"].iter().chain(kind).map(|word| (*word).to_owned()).collect();
    args.extend(sources.iter().map(|source| source.display().to_string()));
    args.extend(["-o".to_owned(), output.display().to_string(), format!("--npu-arch={}", arch.npu)]);
    Ok(CommandLine { program: toolkit.tool("bisheng")?, args })
}

/// What `aclrtcCompileProg` is told: the options for `npu_arch` by version.
///
/// # Errors
/// A chip that is not compiled for while a program runs, or a version that cannot do it yet.
pub fn rtc_options(version: &CannVersion, npu_arch: &str) -> Result<Vec<String>, NoRoute> {
    let arch = arch(npu_arch)?;
    match &arch.rtc {
        None => Err(NoRoute(format!(
            "sources are not compiled for {npu_arch} while a program runs; compile them ahead of time"
        ))),
        Some(least) if !version.reaches(least) => {
            Err(NoRoute(format!("CANN {version} does not compile for {npu_arch} while a program runs; {least} does")))
        }
        Some(_) => Ok(vec![format!("--npu-arch={}", arch.npu)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolkit(version: &str) -> Toolkit {
        Toolkit::assumed(Path::new("/opt/cann"), version.parse().unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn device_objects_take_two_commands_in_every_version() {
        for (npu, ccec) in [("dav-2201", "dav-c220-vec"), ("dav-2002", "dav-m200"), ("dav-3510", "dav-c310-vec")] {
            for version in ["8.1.RC1", "9.1.0"] {
                let [compile, link] =
                    device_object(&toolkit(version), npu, Path::new("k.cpp"), Path::new("k.o")).expect("all have it");
                let bin = "/opt/cann/compiler/ccec_compiler/bin";
                let expected = format!(
                    "{bin}/ccec -c -O3 -std=c++17 -xcce k.cpp --cce-aicore-arch={ccec} --cce-aicore-only -DTILING_KEY_VAR=0 \
                     -mllvm -cce-aicore-stack-size=0x8000 -mllvm -cce-aicore-function-stack-size=0x8000 \
                     -mllvm -cce-aicore-record-overflow=false -mllvm -cce-aicore-addr-transform \
                     -mllvm -cce-aicore-dcci-insert-for-scalar=false -I/opt/cann/compiler/tikcpp/tikcfw \
                     -I/opt/cann/compiler/tikcpp/tikcfw/interface -I/opt/cann/compiler/tikcpp/tikcfw/impl \
                     -I/opt/cann/include -o k.o.part"
                );
                assert_eq!(compile.to_string(), expected);
                assert_eq!(
                    link.to_string(),
                    format!("{bin}/ld.lld -m aicorelinux -Ttext=0 k.o.part -static -o k.o -q")
                );
            }
        }
        let error = device_object(&toolkit("9.0.0"), "dav-9999", Path::new("k.cpp"), Path::new("k.o"))
            .expect_err("no such chip");
        assert!(error.to_string().contains("dav-9999") && error.to_string().contains("dav-2201"), "{error}");
    }

    #[test]
    fn the_front_end_is_there_from_its_version_on() {
        let line = |version: &str, kind| {
            front_end(
                &toolkit(version),
                "dav-3510",
                &[Path::new("k.asc"), Path::new("main.cpp")],
                Path::new("out"),
                kind,
            )
        };
        let bisheng = "/opt/cann/compiler/ccec_compiler/bin/bisheng -x asc -O3 -std=c++17";
        for (kind, flags) in
            [(FrontEnd::Program, ""), (FrontEnd::Object, " -c"), (FrontEnd::SharedLibrary, " -shared -fPIC")]
        {
            for version in ["8.5.0", "9.1.0-beta.1"] {
                let made = line(version, kind).expect("it has a front end").to_string();
                assert_eq!(made, format!("{bisheng}{flags} k.asc main.cpp -o out --npu-arch=dav-3510"));
            }
            let error = line("8.3.RC1", kind).expect_err("it is older").to_string();
            assert!(error.contains("8.3.RC1") && error.contains("8.5.0"), "{error}");
        }
    }

    #[test]
    fn sources_are_compiled_at_run_time_where_version_and_chip_allow_it() {
        for (version, npu, taken) in [
            ("9.0.0", "dav-2201", true),
            ("8.5.0", "dav-2201", false),
            ("9.0.0", "dav-3510", false),
            ("9.1.0-beta.1", "dav-3510", true),
            ("9.1.0", "dav-2002", false),
        ] {
            let options = rtc_options(&version.parse().expect("a version"), npu);
            assert_eq!(options.is_ok(), taken, "{version} {npu}: {options:?}");
            if let Ok(options) = options {
                assert_eq!(options, [format!("--npu-arch={npu}")]);
            }
        }
    }

    #[test]
    fn odd_words_are_quoted_for_a_shell() {
        let line = CommandLine { program: "/a b/cc".into(), args: vec!["it's".into(), "-x".into(), String::new()] };
        assert_eq!(line.to_string(), "'/a b/cc' 'it'\\''s' -x ''");
    }
}
