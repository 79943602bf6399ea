//! The example, built by the machine's C compiler and linked with the library, computes what the graph says.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{WIDTH, bundle_of};

/// Where this build's library lies: beside the test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    test.parent().expect("it lies in a folder").to_owned()
}

fn built(folder: &Path, source: &str, language: &[&str]) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build.target(&host).host(&host).opt_level(1).out_dir(folder).cargo_metadata(false).include(here.join("include"));
    let compiler = build.get_compiler();
    let mut command = compiler.to_command();
    command.args(language).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]).arg(here.join(source));
    command.arg("-o").arg(&program).arg("-L").arg(libraries()).arg("-lfusewright_c");
    let output = command.output().unwrap_or_else(|e| panic!("{}: {e}", compiler.path().display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(program: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).env("LD_LIBRARY_PATH", libraries());
    command.output().expect("it starts")
}

#[test]
fn the_example_adds_and_normalises() {
    let bundle = bundle_of(&["cpu"]);
    let folder = bundle.path().to_str().expect("a path in UTF-8");
    let program = built(bundle.path(), "examples/add_norm.c", &["-x", "c", "-std=c11"]);
    for rows in [0, 1, 3, 1000] {
        let output = run(&program, &[folder, &rows.to_string()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("it prints text");
        let mut lines = text.lines();
        let first = lines.next().expect("a line of the kernel");
        assert!(first.contains("computes add_rms_norm on cpu"), "{first}");
        let parameters: Vec<&str> = lines.by_ref().take(5).collect();
        assert_eq!(parameters[0], "  %x: f32, 2 axes, in");
        assert_eq!(parameters[3..], ["  %h: f32, 2 axes, out", "  %y: f32, 2 axes, out"]);
        let printed: Vec<[f32; 2]> = lines.map(pair).collect();
        assert_eq!(printed.len(), rows * WIDTH);
        for (row, printed) in printed.chunks(WIDTH).enumerate() {
            let at = |lane: usize| f64::from(((row * WIDTH + lane) % 7) as f32 * 0.25);
            let sums: Vec<f64> = (0..WIDTH).map(|lane| 2.0 * at(lane) + 0.5).collect();
            let mean = sums.iter().map(|sum| sum * sum).sum::<f64>() / WIDTH as f64;
            for (lane, [sum, normed]) in printed.iter().enumerate() {
                assert_eq!(f64::from(*sum), sums[lane], "row {row}, lane {lane}");
                let expected = sums[lane] / (mean + 1e-6).sqrt() * (0.5 + (lane % 7) as f64 * 0.25);
                // Ten roundings of f32, and a sum of so many terms.
                let bound = expected * f64::from(f32::EPSILON) * (10 + WIDTH) as f64;
                assert!((f64::from(*normed) - expected).abs() <= bound, "row {row}, lane {lane}: {normed}");
            }
        }
    }
}

/// Two numbers as C's `%a` writes them.
fn pair(line: &str) -> [f32; 2] {
    let (sum, normed) = line.split_once(' ').unwrap_or_else(|| panic!("two numbers: {line}"));
    [sum, normed].map(|text| {
        let digits = text.strip_prefix("0x").unwrap_or_else(|| panic!("a positive number: {text}"));
        let (mantissa, exponent) = digits.split_once('p').expect("an exponent");
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let value = u64::from_str_radix(&format!("{whole}{fraction}"), 16).expect("hexadecimal digits");
        let exponent: i32 = exponent.parse().expect("a number");
        (value as f64 * f64::from(exponent - 4 * fraction.len() as i32).exp2()) as f32
    })
}

#[test]
fn what_is_no_bundle_ends_with_its_name() {
    let bundle = bundle_of(&["cpu"]);
    let program = built(bundle.path(), "examples/add_norm.c", &["-x", "c", "-std=c11"]);
    let output = run(&program, &["/nowhere/at/all", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("opening the bundle") && said.contains("/nowhere/at/all"), "{said}");
}

#[test]
fn the_header_is_one_of_cpp_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = built(folder.path(), "tests/layout.c", &["-x", "c++", "-std=c++17"]);
    assert_eq!(run(&program, &[]).stdout, layouts().as_bytes());
    let program = built(folder.path(), "tests/layout.c", &["-x", "c", "-std=c99"]);
    assert_eq!(run(&program, &[]).stdout, layouts().as_bytes());
}

/// Sizes and places as this crate has them; `tests/layout.c` prints those of the header.
fn layouts() -> String {
    use std::mem::{offset_of, size_of};

    use fusewright_c::{Access, KernelInfo, ParameterInfo, Status, TensorRef};
    let numbers = [
        size_of::<Status>(),
        size_of::<Access>(),
        size_of::<KernelInfo>(),
        offset_of!(KernelInfo, name),
        offset_of!(KernelInfo, pattern),
        offset_of!(KernelInfo, target),
        offset_of!(KernelInfo, parameters),
        offset_of!(KernelInfo, uses),
        size_of::<ParameterInfo>(),
        offset_of!(ParameterInfo, name),
        offset_of!(ParameterInfo, dtype),
        offset_of!(ParameterInfo, rank),
        offset_of!(ParameterInfo, access),
        offset_of!(ParameterInfo, alias),
        size_of::<TensorRef>(),
        offset_of!(TensorRef, data),
        offset_of!(TensorRef, shape),
        offset_of!(TensorRef, rank),
        Status::Ok as usize,
        Status::Argument as usize,
        Status::Bundle as usize,
        Status::Device as usize,
        Status::Launch as usize,
        Status::Internal as usize,
        Access::In as usize,
        Access::Out as usize,
        Access::InOut as usize,
        fusewright_abi::ABI_VERSION as usize,
    ];
    numbers.map(|number| format!("{number}\n")).concat()
}
