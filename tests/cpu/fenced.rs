//! Kernels of a sample of the matrix between two pages that no access is allowed to.
//!
//! `FUSEWRIGHT_SEED` and `FUSEWRIGHT_CASES` ask for another and for a larger sample.

use std::collections::BTreeMap;

use fusewright::matrix::sample;
use fusewright::{Compiler, Options, fuse_graph};
use fusewright_abi::Target;
use fusewright_runtime::Arg;

use super::fence::Side;
use super::support::{check_beside, inputs, kernel, load, targets};

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn no_kernel_of_the_matrix_touches_what_lies_beside_its_buffers() {
    let (seed, cases) = (variable("FUSEWRIGHT_SEED", 1), variable("FUSEWRIGHT_CASES", 30) as usize);
    let compiler = Compiler::new(&Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
    let mut ran = 0;
    for combination in sample(cases, seed) {
        let graph = combination.graph().unwrap_or_else(|e| panic!("{combination:?}: {e:?}"));
        let fused = fuse_graph(&graph, &Options::default()).unwrap_or_else(|e| panic!("{combination:?}: {e}"));
        for region in &fused.partition.regions {
            let body = region.expand_body().unwrap_or_else(|e| panic!("{combination:?}: {e:?}"));
            let Ok((_, kernel)) = compiler.kernel(&region.name, &body) else { continue };
            let symbols = combination.symbols();
            let dims: BTreeMap<String, i64> =
                kernel.dims.iter().filter_map(|dim| Some((dim.name.clone(), *symbols.get(&dim.name)?))).collect();
            if dims.len() < kernel.dims.len() {
                continue;
            }
            let start = inputs(&kernel, &dims, seed, 20);
            check_beside(&kernel, &dims, &start, (1, &[Side::Ahead, Side::Behind]));
            ran += 1;
        }
    }
    println!("{ran} kernels");
    assert!(ran >= cases, "{ran} kernels of {cases} combinations");
}

/// A driver refuses every launch that the proof does not cover.
#[test]
fn launches_that_the_proof_does_not_cover_are_refused() {
    let text = "kernel @part(m = extent(k, 0), s) rows s {
      claim m <= 20
      param %x: f32[s, 20] in
      param %k: f32[m] in
      param %y: f32[s, m] out
      segment @rows inner 1 {
        %0 = load x[row*20 + lane] : row<f32, m>
        %1 = load k[lane] : row<f32, m>
        %2 = add %0, %1
        store y[row*m + lane], %2
      }
    }";
    let kernel = kernel(text);
    assert_eq!(kernel.to_string().parse().as_ref(), Ok(&kernel), "a claim reads back");
    for target in targets() {
        let (_, module) = load(&kernel, &target);
        let launch = |m: i64, s: i64, rows: usize, elements: usize| {
            let (x, k, mut y) = (vec![0u8; 160], vec![0u8; 160], vec![0u8; 4 * elements]);
            let mut args = [Arg::In(&x), Arg::In(&k), Arg::Out(&mut y)];
            module.launch(&mut args, &[m, s], rows, 1).map_err(|e| e.to_string())
        };
        assert_eq!(launch(20, 2, 2, 40), Ok(()), "{target}");
        assert_eq!(launch(21, 0, 0, 0), Ok(()), "{target}: no rows touch nothing");
        let refused = |m, s, rows, elements, words: &str| {
            let error = launch(m, s, rows, elements).expect_err(words);
            assert!(error.contains(words), "{target}: {error}");
        };
        refused(21, 1, 1, 21, "m is not above 20; m = 21, s = 1");
        refused(-1, 1, 1, 40, "`m` is -1, which is negative");
        refused(20, 1 << 62, 1, 40, "`x` takes");
        // In bits they are 2⁶⁴ and more, which as a number of bytes is small again if it wraps.
        refused(1, 1 << 58, 1, 1 << 4, "`x` takes");
    }
}
