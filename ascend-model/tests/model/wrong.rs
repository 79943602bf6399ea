//! Wrong kernels: each is a few lines, and the model must say what is wrong with it. SIMULATED.

use crate::support::wrong::{AT_COMPILE_TIME, AT_RUN_TIME, ON_TWO_CORES, Wrong};
use crate::support::{self, A2, f32_bytes, values};
use fusewright_ascend_model::{Argument, Chip, Dma, Error, Kernels, Model, Options, Source};

fn source(kernels: &[Wrong]) -> String {
    let mut text = String::new();
    for (name, body, _) in kernels {
        text += &format!("extern \"C\" __global__ __aicore__ void {name}(GM_ADDR xs, GM_ADDR ys, int64_t n)\n{{\n");
        text += &format!("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);\n{body}\n}}\n");
    }
    text
}

fn compile(model: &Model, kernels: &[Wrong], chip: Chip) -> Result<Kernels, Error> {
    let frame = support::read("ascend-model/tests/model/support/frame.h");
    let text = source(kernels);
    let headers = [Source { name: "frame.h", text: &frame }];
    model.load(&model.compile(&[Source { name: "wrong.cpp", text: &text }], &headers, chip)?)
}

/// What the model says of a kernel on `cores` cores.
fn said(kernels: &Kernels, name: &str, cores: u32, options: &Options) -> String {
    let kernel = kernels.kernel(name).unwrap_or_else(|e| panic!("{e}"));
    let mut x = f32_bytes(&values(1, 512));
    let mut y = vec![0; 2048];
    // Nothing is known to be in `ys`.
    let arguments = &mut [Argument::InOut(&mut x), Argument::Out(&mut y)];
    match kernel.launch(cores, arguments, &[512], options) {
        Err(Error::Findings { report, .. }) => report,
        Err(Error::Unwritten { .. }) | Ok(_) => String::new(),
        Err(error) => panic!("{name}: {error}"),
    }
}

fn objects(kernels: &[Wrong], cores: u32) {
    let Some(model) = support::model() else { return };
    let loaded = compile(model, kernels, A2).unwrap_or_else(|e| panic!("{e}"));
    let mut silent = Vec::new();
    for dma in [Dma::Immediate, Dma::Delayed] {
        for (name, _, parts) in kernels {
            let report = said(&loaded, name, cores, &Options { dma, ..Options::default() });
            let named = report.contains(&format!("kernel {name}, core "));
            if !named || parts.iter().any(|part| !report.contains(part)) {
                silent.push(format!("{name} ({dma:?}): wanted {parts:?}, got:\n{report}"));
            }
        }
    }
    assert!(silent.is_empty(), "{} of {}:\n{}", silent.len(), kernels.len(), silent.join("\n"));
}

#[test]
fn wrong_kernels_are_objected_to() {
    assert!(AT_RUN_TIME.len() >= 70);
    objects(AT_RUN_TIME, 1);
}

#[test]
fn cores_that_meet_are_objected_to() {
    objects(ON_TWO_CORES, 2);
}

#[test]
fn types_that_a_chip_lacks_do_not_compile() {
    let Some(model) = support::model() else { return };
    assert!(AT_COMPILE_TIME.len() >= 15);
    for (arch, kernel) in AT_COMPILE_TIME {
        let (name, _, parts) = kernel;
        match compile(model, &[*kernel], Chip { arch: *arch, ..A2 }) {
            Err(Error::Compile { output, command }) => {
                assert!(parts.iter().all(|part| output.contains(part)), "{name}: {output}");
                assert!(command.contains("-D__NPU_ARCH__="), "{command}");
            }
            other => panic!("{name} compiles for {arch}: {:?}", other.err()),
        }
    }
}
