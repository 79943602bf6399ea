//! `FUSEWRIGHT_OVERRIDE_DIR`: stages of kernels that a person changed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{Outcome, command, files, folder, write};

const SUM: &str = "graph @sum(s: 1..; %x: f32[s, 64], %y: f32[s, 64]) {\n  %z = add %x, %y\n  return %z\n}\n";

/// What `compile` writes, with the folders that are named.
fn compile(model: &str, target: &str, out: &Path, folders: &[(&str, &Path)]) -> Outcome {
    let mut call = command(&["compile", model, "--target", target, "-o"]);
    call.arg(out).env("FUSEWRIGHT_PTXAS", "off");
    for (knob, folder) in folders {
        call.env(knob, folder);
    }
    call.output().expect("the command starts").into()
}

/// The only file that ends so.
fn one<'f>(files: &'f BTreeMap<String, Vec<u8>>, end: &str) -> (&'f str, &'f str) {
    let mut found = files.iter().filter(|(name, _)| name.ends_with(end));
    let (Some((name, bytes)), None) = (found.next(), found.next()) else { panic!("one `{end}`: {:?}", files.keys()) };
    (name, std::str::from_utf8(bytes).expect("text"))
}

fn change(root: &Path, name: &str, from: &str, to: &str) {
    let path = root.join(name);
    let text = std::fs::read_to_string(&path).expect("the stage is there");
    assert!(text.contains(from), "no `{from}` in {text}");
    std::fs::write(&path, text.replace(from, to)).expect("the folder takes files");
}

#[test]
#[cfg(feature = "cuda")]
fn code_is_made_of_the_last_stage_that_was_changed() {
    const TARGET: &str = "cuda:sm_90";
    let folder = folder();
    let (model, at) = (write(&folder, "sum.fw", SUM), |name: &str| folder.path().join(name));
    let dump = at("stages");
    let made = compile(&model, TARGET, &at("generated"), &[("FUSEWRIGHT_DUMP_DIR", &dump)]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""));
    let (stages, generated) = (files(&dump), files(&at("generated")));
    let (ll, ptx) = (one(&stages, ".ll").0, one(&stages, ".ptx").0);
    let overridden = |out: &str| compile(&model, TARGET, &at(out), &[("FUSEWRIGHT_OVERRIDE_DIR", &dump)]);

    // A dump as it is changes nothing.
    let same = overridden("same");
    assert_eq!((same.code, same.stderr.as_str()), (Some(0), ""));
    assert!(files(&at("same")) == generated);

    change(&dump, ll, "fadd", "fsub");
    let of_ll = overridden("of_ll");
    assert_eq!(of_ll.code, Some(0), "{}", of_ll.stderr);
    assert!(of_ll.stderr.contains("FUSEWRIGHT_OVERRIDE_DIR") && of_ll.stderr.contains(ll), "{}", of_ll.stderr);
    let written = files(&at("of_ll"));
    let text = one(&written, ".ptx").1;
    assert!(text.contains("sub.rn.f32") && !text.contains("add.rn.f32"), "{text}");

    // The PTX comes behind the IR, so that this counts.
    change(&dump, ptx, "add.rn.f32", "max.f32");
    let of_ptx = overridden("of_ptx");
    assert_eq!(of_ptx.code, Some(0), "{}", of_ptx.stderr);
    assert!(of_ptx.stderr.contains(ptx), "{}", of_ptx.stderr);
    assert_eq!(one(&files(&at("of_ptx")), ".ptx").1, one(&files(&dump), ".ptx").1);
}

#[test]
#[cfg(feature = "cuda")]
fn a_stage_that_is_no_code_is_an_error_that_names_it() {
    const TARGET: &str = "cuda:sm_90";
    let folder = folder();
    let (model, at) = (write(&folder, "sum.fw", SUM), |name: &str| folder.path().join(name));
    for (stage, word) in [(".ll", "expected"), (".schedules", "`schedules` is not taken"), ("2-expanded.fw", "opt")] {
        let dump = at(&format!("stages{stage}"));
        assert_eq!(compile(&model, TARGET, &at("out"), &[("FUSEWRIGHT_DUMP_DIR", &dump)]).code, Some(0));
        let of_kernel = files(&dump).into_iter().filter(|(name, _)| name.starts_with("kernels/")).collect();
        let name = one(&of_kernel, stage).0;
        std::fs::write(dump.join(name), "no code").expect("the folder takes files");
        let out = at(&format!("out{stage}"));
        let refused = compile(&model, TARGET, &out, &[("FUSEWRIGHT_OVERRIDE_DIR", &dump)]);
        assert_eq!(refused.code, Some(2), "{stage}: {}", refused.stderr);
        for word in [name, word] {
            assert!(refused.stderr.contains(word), "{stage}: no `{word}` in: {}", refused.stderr);
        }
        assert!(!out.exists(), "{stage}");
    }
}

#[test]
#[cfg(feature = "ascend")]
fn ascend_c_that_was_changed_is_what_is_written() {
    let folder = folder();
    let (model, at) = (write(&folder, "sum.fw", SUM), |name: &str| folder.path().join(name));
    let dump = at("stages");
    let made = compile(&model, "ascend:910b1", &at("generated"), &[("FUSEWRIGHT_DUMP_DIR", &dump)]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let stages = files(&dump);
    let source = one(&stages, ".cpp").0;
    change(&dump, source, "Add(", "Sub(");
    let changed = compile(&model, "ascend:910b1", &at("changed"), &[("FUSEWRIGHT_OVERRIDE_DIR", &dump)]);
    assert_eq!(changed.code, Some(0), "{}", changed.stderr);
    assert!(changed.stderr.contains(source), "{}", changed.stderr);
    let written = files(&at("changed"));
    let stands = |(name, text): (&String, &Vec<u8>)| name.ends_with(".cpp") && text.windows(4).any(|w| w == b"Sub(");
    assert!(written.iter().any(stands), "{:?}", written.keys());
}

#[test]
fn what_is_no_folder_is_an_error_that_names_it() {
    let folder = folder();
    let model = write(&folder, "sum.fw", SUM);
    for named in [folder.path().join("none"), Path::new(&model).to_owned()] {
        let out = folder.path().join("out");
        let refused = compile(&model, "cpu", &out, &[("FUSEWRIGHT_OVERRIDE_DIR", &named)]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        let expected = format!("FUSEWRIGHT_OVERRIDE_DIR: {}: it is no folder", named.display());
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
        assert!(!out.exists());
    }
}
