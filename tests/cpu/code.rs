//! Properties of the code itself: the same bytes every time, no dependence on the batch, memory given back, refusals.

use fusewright_abi::Target;
use fusewright_codegen::backend::{HOST_TARGETS, Wanted, for_target};
use fusewright_runtime::device_for;

use crate::support::{bind, compile, each, inputs, kernel, launch, load};

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
    let (kernel, renamed) = (kernel(NORM), crate::support::kernel(&NORM.replace("@norm", "@other")));
    for target in HOST_TARGETS {
        let compiled = |k| compile(k, target).expect("compiles");
        assert_eq!(compiled(&kernel), compiled(&kernel));
        assert_ne!(compiled(&renamed).key, compiled(&kernel).key);
        let backend = for_target(target).expect("a target of this build");
        let object = |k| {
            let stages = backend.emit(k, target, Wanted::File).expect("compiles");
            stages.into_iter().next_back().expect("a file").bytes
        };
        let elf = object(&kernel);
        assert_eq!(object(&kernel), elf);
        assert_eq!(&elf[..4], b"\x7fELF");
        assert!(elf.windows(5).any(|w| w == b"norm\0"), "the symbol is the kernel's name");
    }
    let mut keys: Vec<_> = each(&kernel).into_iter().map(|made| made.expect("compiles").key).collect();
    keys.dedup();
    assert_eq!(keys.len(), HOST_TARGETS.len());
}

#[test]
fn a_row_does_not_depend_on_its_batch() {
    let kernel = kernel(NORM);
    let all = inputs(&kernel, &bind(&[("s", 1000)]), 5, 2);
    for target in HOST_TARGETS {
        let (artifact, module) = load(&kernel, target);
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
}

#[test]
fn unloading_gives_the_memory_back() {
    let artifacts: Vec<_> = each(&kernel(NORM)).into_iter().map(|made| made.expect("compiles")).collect();
    let load = || {
        for (artifact, target) in artifacts.iter().zip(HOST_TARGETS) {
            drop(device_for(target).and_then(|device| device.load(artifact)).expect("loads"));
        }
    };
    let mappings = || std::fs::read_to_string("/proc/self/maps").map(|maps| maps.lines().count()).unwrap_or(0);
    for _ in 0..50 {
        load();
    }
    let before = mappings();
    for _ in 0..2000 {
        load();
    }
    // Other tests run beside this one.
    assert!(mappings() < before + 200, "{before} mappings before, {} after 2000 loads", mappings());
}

#[test]
fn what_is_not_taken_is_named() {
    for made in each(&kernel(&NORM.replace("tree(16)", "tree(20000)"))) {
        let error = made.expect_err("too many accumulators").to_string();
        assert!(error.contains("reduce") && error.contains("norm") && error.contains("tree(20000)"), "{error}");
    }
    let cuda = Target::Cuda { arch: "sm_90".into() };
    for target in HOST_TARGETS {
        assert!(
            for_target(target).expect("a target of this build").emit(&kernel(NORM), &cuda, Wanted::Stages).is_err()
        );
    }
}

/// No quotient of an index traps: neither by zero nor past the largest number; both kinds of code agree on them.
#[test]
fn quotients_of_indices_do_not_trap() {
    let kernel = kernel(
        "kernel @quotients(n = extent(a, 0)) rows n {
           param %a: i64[n] in
           param %b: i64[n] in
           param %y: i64[n] out
           param %z: i64[n] out
           segment @main inner 1 {
             %p = load a[row] : scalar<i64>
             %q = load b[row] : scalar<i64>
             %0 = index floordiv(%p, %q)
             %1 = index floordiv(%p, -1)
             store y[row], %0
             store z[row], %1
           }
         }",
    );
    let (dividends, divisors) = ([i64::MIN, i64::MIN, 7, -7, 7, 0], [-1, 0, 0, 2, -2, -1]);
    let bytes = |numbers: [i64; 6]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    for target in HOST_TARGETS {
        let (artifact, module) = load(&kernel, target);
        let mut buffers = vec![bytes(dividends), bytes(divisors), vec![0xa5; 48], vec![0xa5; 48]];
        launch(&kernel, &artifact, &*module, &mut buffers, &bind(&[("n", 6)]), 1);
        assert_eq!(buffers[2], bytes([i64::MIN, i64::MIN, 7, -4, -4, 0]), "{target}");
        assert_eq!(buffers[3], bytes(dividends.map(i64::wrapping_neg)), "{target}");
    }
}
