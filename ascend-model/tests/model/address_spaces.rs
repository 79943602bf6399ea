//! clang, with `__gm__` and `__ubuf__` as address spaces, takes generated kernels and rejects casts that drop them.

use crate::support::{self, A2, A5};
use fusewright_ascend_model::{Error, Source, clang};

#[test]
fn generated_kernels_keep_address_spaces() {
    let Some(model) = support::model() else { return };
    let Some(clang) = clang() else { return xtask::skipped::skipped("address spaces", "no clang++ of any version") };
    let headers = support::headers();
    let headers: Vec<Source<'_>> = headers.iter().map(|(name, text)| Source { name, text }).collect();
    let goldens = support::goldens();
    assert!(goldens.len() >= 6);
    for (name, text) in &goldens {
        let chip = if text.contains("(dav-3510)") { A5 } else { A2 };
        let checked = model.check_address_spaces(&clang, &[Source { name, text }], &headers, chip);
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn casts_that_drop_an_address_space_are_rejected() {
    let Some(model) = support::model() else { return };
    let Some(clang) = clang() else { return xtask::skipped::skipped("address spaces", "no clang++ of any version") };
    let wrong = [
        "extern \"C\" __global__ __aicore__ void k(GM_ADDR x) { float* p = (float*)x; (void)p; }",
        "extern \"C\" __global__ __aicore__ void k(GM_ADDR x) { auto* p = reinterpret_cast<float*>(x); (void)p; }",
        "extern \"C\" __global__ __aicore__ void k(GM_ADDR x) { AscendC::GlobalTensor<float> g; \
         g.SetGlobalBuffer(reinterpret_cast<__ubuf__ float*>(x)); }",
    ];
    for text in wrong {
        let source = Source { name: "wrong.cpp", text };
        match model.check_address_spaces(&clang, &[source], &[], A2) {
            Err(Error::Compile { output, .. }) => assert!(output.contains("error:"), "{output}"),
            other => panic!("{text}: {other:?}"),
        }
        model.compile(&[source], &[], A2).unwrap_or_else(|e| panic!("without address spaces it compiles: {e}"));
    }
}
