//! Kernels of a sample of the matrix between two pages that no access is allowed to.
//!
//! `FUSEWRIGHT_SEED` and `FUSEWRIGHT_CASES` ask for another and for a larger sample.

use std::collections::BTreeMap;

use fusewright::matrix::sample;
use fusewright::{Compiler, Options, fuse_graph};
use fusewright_abi::Target;

use super::fence::Side;
use super::support::{check_beside, inputs};

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
