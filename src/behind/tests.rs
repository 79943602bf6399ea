//! A tool behind a backend hands on everything that the backend says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Names of the methods of a block of Rust that begins with `head`.
fn methods(source: &str, head: &str) -> BTreeSet<String> {
    let block = source.split_once(head).unwrap_or_else(|| panic!("there is no `{head}`")).1;
    let block = block.split_once("\n}\n").expect("the block ends").0;
    let named = block.lines().filter_map(|line| line.strip_prefix("    fn "));
    named.map(|rest| rest.split(['(', '<']).next().unwrap_or_default().to_owned()).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of this package") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_method_of_backends_is_handed_on() {
    let stated = methods(include_str!("../../codegen/src/backend/mod.rs"), "pub trait Backend: Send + Sync {");
    let handed = methods(include_str!("../behind.rs"), "Backend for Behind<T> {");
    assert!(stated.len() >= 16, "the trait was not found: {stated:?}");
    assert_eq!(stated, handed);
}

/// Another type around a backend would have to repeat all of it, and would forget what is added to the trait later.
#[test]
fn nothing_else_stands_around_a_backend() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let of_backends = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a source is readable");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        code.contains("Backend for ") && !path.ends_with("behind/tests.rs")
    };
    let found: Vec<PathBuf> = files.into_iter().filter(of_backends).collect();
    assert!(matches!(found.as_slice(), [only] if only.ends_with("src/behind.rs")), "{found:?}");
}

/// A backend that has something to say of everything.
struct Talking;

impl Backend for Talking {
    fn name(&self) -> &'static str {
        "talking"
    }

    fn fingerprint(&self) -> String {
        "version 1".to_owned()
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::AscendC
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("a.h", "text")]
    }

    fn sources(&self) -> &'static [SourceKind] {
        &SourceKind::ALL
    }

    fn lacks(&self, dtype: DType, _: &Target) -> Option<String> {
        (dtype == DType::F64).then(|| "no f64".to_owned())
    }

    fn grid(&self, _: &Kernel, _: &Target) -> Grid {
        Grid { tables: 3, ..Grid::loop_over_rows() }
    }

    fn kind(&self, _: &Kernel, rows: usize) -> Option<String> {
        Some(format!("of {rows}"))
    }

    fn memory(&self) -> usize {
        77
    }

    fn emit(&self, kernel: &Kernel, _: &Target) -> Result<Vec<Stage>, BackendError> {
        Ok(vec![Stage { extension: "txt", bytes: kernel.name.clone().into_bytes() }])
    }

    fn resume(&self, _: &Kernel, _: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        Ok(vec![stage])
    }

    fn file(&self, _: &Kernel, _: &Target) -> Result<Payload, BackendError> {
        Ok(Payload { kind: PayloadKind::AscendC, bytes: b"without the tool".to_vec() })
    }
}

/// A tool that writes what it reads between brackets, and nothing empty.
struct Brackets;

impl Tool for Brackets {
    fn fingerprint(&self) -> String {
        "brackets".to_owned()
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::AscendObject
    }

    fn make(&self, of: &Kernel, _: &Target, inner: &dyn Backend, code: &[u8]) -> Result<Vec<u8>, BackendError> {
        if code.is_empty() {
            let message = "nothing to read".to_owned();
            return Err(BackendError::Internal { backend: inner.name(), kernel: of.name.clone(), message });
        }
        Ok([b"(", code, b")"].concat())
    }
}

#[test]
fn what_a_backend_says_is_said_behind_it_too() {
    let (behind, target) = (Behind::new(Arc::new(Talking), Brackets), Target::Cpu);
    let text = "kernel @k(n = extent(x, 0)) rows 1 {
        param %x: f32[n] in
        param %y: f32[n] out
        segment @m inner 1 {
          %0 = load x[lane] : row<f32, n>
          store y[lane], %0
        }
      }";
    let kernel: Kernel = text.parse().expect("parses");
    assert_eq!((behind.name(), behind.fingerprint().as_str()), ("talking", "version 1, brackets"));
    assert_eq!((behind.headers(), behind.memory()), (Talking.headers(), 77));
    assert_eq!(behind.sources(), Talking.sources());
    assert_eq!(behind.lacks(DType::F64, &target), Some("no f64".to_owned()));
    assert_eq!(behind.lacks(DType::F32, &target), None);
    assert_eq!(behind.grid(&kernel, &target).tables, 3);
    assert_eq!(behind.kind(&kernel, 5), Some("of 5".to_owned()));
    let stages = behind.emit(&kernel, &target).expect("emits");
    let made: Vec<(&str, &[u8])> = stages.iter().map(|stage| (stage.extension, stage.bytes.as_slice())).collect();
    assert_eq!(made, [("txt", &b"k"[..]), (PayloadKind::AscendObject.extension(), &b"(k)"[..])]);
    for payload in [behind.payload(&kernel, &target), behind.file(&kernel, &target)] {
        let payload = payload.expect("is made");
        assert_eq!((payload.kind, payload.bytes.as_slice()), (PayloadKind::AscendObject, &b"(k)"[..]));
    }
    let resumed = |bytes: &str| behind.resume(&kernel, &target, Stage { extension: "txt", bytes: bytes.into() });
    assert_eq!(resumed("changed").expect("goes on")[1].bytes, b"(changed)");
    assert!(matches!(resumed(""), Err(BackendError::Stage { .. })), "the text is not ours");
}
