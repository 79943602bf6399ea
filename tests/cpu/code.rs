//! Properties of the code itself: the same bytes every time, no dependence on the batch, memory given back, refusals.

use fusewright_abi::Target;
use fusewright_codegen::backend::{Backend, cpu::CpuBackend};
use fusewright_runtime::{Device, driver::host::Host};

use crate::support::{bind, compile, inputs, kernel, launch, load};

const NORM: &str = "kernel @norm(s = extent(x, 0)) rows s {
       param %x: bf16[s, 515] in
       param %y: bf16[s, 515] out
       segment @m inner 1 {
         %x = load x[row*515 + lane] : row<bf16, 515>
         %f = cast %x to f32 rne
         %q = mul %f, %f
         %m = reduce add %q over row nan propagate order tree(16)
         %r = sqrt %m
         %d = div %f, %r
         %y = cast %d to bf16 rne
         store y[row*515 + lane], %y
       }
     }";

#[test]
fn the_same_kernel_gives_the_same_bytes() {
    let kernel = kernel(NORM);
    let (first, second) = (compile(&kernel).expect("compiles"), compile(&kernel).expect("compiles"));
    assert_eq!(first, second);
    let object = |k| CpuBackend.file(k, &Target::Cpu).expect("compiles").bytes;
    assert_eq!(object(&kernel), object(&kernel));
    let elf = object(&kernel);
    assert_eq!(&elf[..4], b"\x7fELF");
    assert!(elf.windows(5).any(|w| w == b"norm\0"), "the symbol is the kernel's name");
    let renamed = crate::support::kernel(&NORM.replace("@norm", "@other"));
    assert_ne!(compile(&renamed).expect("compiles").key, first.key);
}

#[test]
fn a_row_does_not_depend_on_its_batch() {
    let kernel = kernel(NORM);
    let (artifact, module) = load(&kernel);
    let all = inputs(&kernel, &bind(&[("s", 1000)]), 5, 2);
    let row = 515 * 2;
    let result = |rows: std::ops::Range<usize>, threads: usize| {
        let mut buffers = vec![all[0][rows.start * row..rows.end * row].to_vec(), vec![0; rows.len() * row]];
        launch(&kernel, &artifact, &*module, &mut buffers, &bind(&[("s", rows.len() as i64)]), threads);
        buffers.swap_remove(1)
    };
    let whole = result(0..1000, 1);
    for threads in [2, 3, 7, 64] {
        assert!(result(0..1000, threads) == whole, "{threads} threads");
    }
    for at in [0, 1, 499, 999] {
        assert!(result(at..at + 1, 1) == whole[at * row..(at + 1) * row], "row {at} alone");
    }
    assert!(result(300..307, 2) == whole[300 * row..307 * row], "rows 300 to 306");
}

#[test]
fn unloading_gives_the_memory_back() {
    let artifact = compile(&kernel(NORM)).expect("compiles");
    let mappings = || std::fs::read_to_string("/proc/self/maps").map(|maps| maps.lines().count()).unwrap_or(0);
    for _ in 0..50 {
        drop(Host.load(&artifact).expect("loads"));
    }
    let before = mappings();
    for _ in 0..2000 {
        drop(Host.load(&artifact).expect("loads"));
    }
    // Other tests run beside this one.
    assert!(mappings() < before + 200, "{before} mappings before, {} after 2000 loads", mappings());
}

#[test]
fn what_is_not_taken_is_named() {
    let error =
        compile(&kernel(&NORM.replace("tree(16)", "tree(20000)"))).expect_err("too many accumulators").to_string();
    assert!(error.contains("`reduce`") && error.contains("norm") && error.contains("tree(20000)"), "{error}");
    let error = compile(&kernel(&NORM.replace("%x: bf16[s, 515] in", "%x: bf16[s, 515] in peer(2)")));
    assert!(error.is_err());
    let cuda = Target::Cuda { arch: "sm_90".into() };
    assert!(CpuBackend.emit(&kernel(NORM), &cuda).is_err());
}
