//! Code for named levels of processors: made on any host, loaded where the processor has the instructions.

use std::sync::Arc;

use fusewright_abi::{Level, Target};
use fusewright_codegen::backend::{Wanted, for_target};
use fusewright_runtime::{EachTime, device_with};

use crate::support::{compile, kernel};

const COPY: &str = "kernel @copy(s = extent(x, 0)) rows s {
    param %x: f16[s, 96] in
    param %y: f32[s, 96] out
    segment @m inner 1 {
      %x = load x[row*96 + lane] : row<f16, 96>
      %y = cast %x to f32 rne
      store y[row*96 + lane], %y
    }
  }";

#[test]
fn code_has_the_instructions_of_its_level() {
    let text = |level: Level| {
        let target = Target::CpuLlvm { level: Some(level) };
        let backend = for_target(&target).expect("a target of this build");
        let stages = backend.emit(&kernel(COPY), &target, Wanted::Stages).expect("compiles");
        String::from_utf8_lossy(&stages[0].bytes).into_owned()
    };
    let (v3, v4) = (text(Level::V3), text(Level::V4));
    for (text, level, width) in [(&v3, "x86-64-v3", 256), (&v4, "x86-64-v4", 512)] {
        assert!(text.contains(&format!("\"target-cpu\"=\"{level}\"")), "{text}");
        assert!(text.contains(&format!("\"prefer-vector-width\"=\"{width}\"")), "{text}");
    }
    assert!(v4.contains("+avx512vl") && !v3.contains("avx512"), "{v3}");
}

#[test]
fn code_of_a_level_is_loaded_where_the_processor_has_it() {
    for level in Level::ALL {
        let target = Target::CpuLlvm { level: Some(level) };
        let artifact = compile(&kernel(COPY), &target).expect("compiles");
        match device_with(&target, Arc::new(EachTime)) {
            Ok(device) => {
                assert!(level.is_supported());
                device.load(&artifact).expect("its code is loaded");
            }
            Err(error) => {
                assert!(!level.is_supported());
                assert!(error.to_string().contains(&format!("not of level `{level}`")), "{error}");
            }
        }
    }
}
