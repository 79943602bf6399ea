//! Steps behind a backend: what is made, what names it, and from where it goes on.

use fusewright_abi::{DType, Target};

use super::*;

/// A backend whose code is the kernel's name.
struct Named;

impl Backend for Named {
    fn about(&self) -> About {
        let (payload, file) = (PayloadKind::AscendC, PayloadKind::HostObject);
        About { name: "named", payload, file, headers: &[("a.h", "text")], memory: 77 }
    }

    fn fingerprint(&self) -> String {
        "version 1".to_owned()
    }

    fn lacks(&self, dtype: DType, _: &Target) -> Option<String> {
        (dtype == DType::F64).then(|| "no f64".to_owned())
    }

    fn emit(&self, kernel: &Kernel, _: &Target, wanted: Wanted) -> Result<Vec<Stage>, BackendError> {
        let stage = |text: &str| Stage { extension: "txt", bytes: text.into() };
        Ok(match wanted {
            Wanted::Stages => vec![stage("notes"), stage(&kernel.name)],
            Wanted::Payload => vec![stage(&kernel.name)],
            Wanted::File => vec![stage("without steps")],
        })
    }

    fn resume(&self, _: &Kernel, _: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        Ok(vec![stage])
    }
}

/// A step that writes what it reads between brackets, and nothing empty.
struct Brackets {
    pair: [&'static str; 2],
    kind: PayloadKind,
    is_spared: bool,
}

impl Step for Brackets {
    fn fingerprint(&self) -> String {
        self.pair.concat()
    }

    fn payload_kind(&self) -> PayloadKind {
        self.kind
    }

    fn make(&self, of: &Kernel, _: &Target, about: &About, code: &[u8]) -> Result<Vec<u8>, BackendError> {
        if code.is_empty() {
            let (kernel, message) = (of.name.clone(), "nothing to read".to_owned());
            return Err(BackendError::Internal { backend: about.name, kernel, message });
        }
        Ok([self.pair[0].as_bytes(), code, self.pair[1].as_bytes()].concat())
    }

    fn resumes(&self) -> bool {
        true
    }

    fn is_spared_by_drivers(&self) -> bool {
        self.is_spared
    }
}

fn kernel() -> Kernel {
    let text = "kernel @k(n = extent(x, 0)) rows 1 {
        param %x: f32[n] in
        param %y: f32[n] out
        segment @m inner 1 {
          %0 = load x[lane] : row<f32, n>
          store y[lane], %0
        }
      }";
    text.parse().expect("parses")
}

/// Round brackets, and then square ones, which drivers write themselves.
fn chain() -> Toolchain {
    let round = Brackets { pair: ["(", ")"], kind: PayloadKind::AscendObject, is_spared: false };
    let square = Brackets { pair: ["[", "]"], kind: PayloadKind::Cubin, is_spared: true };
    Toolchain::new(Arc::new(Named), vec![Arc::new(round), Arc::new(square)])
}

#[test]
fn each_step_makes_code_of_the_code_before_it() {
    let (chain, kernel) = (chain(), kernel());
    let stages = chain.stages(&kernel, &Target::Cpu).expect("emits");
    let made: Vec<(&str, &[u8])> = stages.iter().map(|stage| (stage.extension, stage.bytes.as_slice())).collect();
    let [object, cubin] = [PayloadKind::AscendObject, PayloadKind::Cubin].map(PayloadKind::extension);
    assert_eq!(made, [("txt", &b"notes"[..]), ("txt", b"k"), (object, b"(k)"), (cubin, b"[(k)]")]);
    for payload in [chain.payload(&kernel, &Target::Cpu), chain.file(&kernel, &Target::Cpu)] {
        let payload = payload.expect("is made");
        assert_eq!((payload.kind, payload.bytes.as_slice()), (PayloadKind::Cubin, &b"[(k)]"[..]));
    }
    assert_eq!(chain.route(), Route { fingerprint: "version 1, (), []".to_owned(), payload: PayloadKind::Cubin });
}

#[test]
fn drivers_may_take_what_comes_into_a_step() {
    let left = chain().left_to_drivers().expect("they write square brackets");
    assert_eq!(left.payload(&kernel(), &Target::Cpu).expect("is made").bytes, b"(k)");
    assert_eq!(left.route().fingerprint, "version 1, ()");
    assert!(left.left_to_drivers().is_none());
}

#[test]
fn a_backend_by_itself_has_a_file_of_its_own() {
    let alone = Toolchain::new(Arc::new(Named), Vec::new());
    let file = alone.file(&kernel(), &Target::Cpu).expect("is made");
    assert_eq!((file.kind, file.bytes.as_slice()), (PayloadKind::HostObject, &b"without steps"[..]));
    assert_eq!(alone.payload(&kernel(), &Target::Cpu).expect("is made").kind, PayloadKind::AscendC);
}

#[test]
fn a_changed_stage_goes_through_the_steps_behind_it() {
    let (chain, kernel) = (chain(), kernel());
    let resumed = |extension, text: &str| {
        let stages = chain.resume(&kernel, &Target::Cpu, Stage { extension, bytes: text.into() })?;
        Ok::<_, BackendError>(String::from_utf8(last(stages)).expect("text"))
    };
    assert_eq!(resumed("txt", "changed").expect("goes on"), "[(changed)]");
    assert_eq!(resumed(PayloadKind::AscendObject.extension(), "changed").expect("goes on"), "[changed]");
    assert_eq!(resumed(PayloadKind::Cubin.extension(), "changed").expect("goes on"), "changed");
    assert!(matches!(resumed("txt", ""), Err(BackendError::Stage { .. })), "the text is not ours");
}
