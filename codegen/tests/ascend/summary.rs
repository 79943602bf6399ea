//! What a kernel's summary says that it moves is what the host model counts when it runs. Results are SIMULATED.

use crate::simulated::{Case, execute, model};
use crate::support;
use fusewright_abi::DType;
use fusewright_ascend_model::Options;
use fusewright_codegen::backend::ascend::{CHIPS, emit_with_summary};
use fusewright_codegen::kernel::{Kernel, Order, Tree};

const TREE: Order = Order::Tree(Tree::interleaved(64));

#[test]
fn bytes_are_those_that_a_launch_moves() {
    let Some(model) = model() else { return };
    let kernels: [Kernel; 7] = [
        support::add_rms_norm_bf16(1024, TREE),
        support::add_rms_norm_token_quant(256, TREE, DType::I8, 127.0),
        support::activation(512),
        support::group_quant(256, 64, Tree::interleaved(64)),
        // Longer than unified buffer holds.
        support::activation(1 << 16),
        // As long as dims say, head by head.
        support::model_kernel("masked_softmax"),
        support::model_kernel("any_length"),
    ];
    let known = CHIPS.iter().find(|chip| chip.name == "910b1").expect("it is in the table");
    for rows in [1, 5, 100] {
        let case = |kernel: &Kernel| {
            let dims = kernel.dims.iter().map(|dim| (dim.name.clone(), rows)).collect();
            let cores = (rows as u32).min(known.vector_cores);
            Case { kernel: kernel.clone(), dims, seed: 7, cores, specials: false }
        };
        let cases: Vec<Case> = kernels.iter().map(case).collect();
        let counted = execute(model, known.name, &cases, &Options::default());
        let mut compared = 0;
        for (case, counted) in cases.iter().zip(counted) {
            let name = &case.kernel.name;
            let (_, summary) = emit_with_summary(&case.kernel, known.name).unwrap_or_else(|e| panic!("{name}: {e}"));
            let work = summary.at(&|dim| case.dims.get(dim).copied()).unwrap_or_else(|| panic!("{name}: no figures"));
            let counted = counted.unwrap_or_else(|e| panic!("{name}: {e}"));
            let moved = (counted.bytes_in, counted.bytes_out);
            assert_eq!((work.loaded, work.stored), moved, "{name}, {rows} rows: {counted:?}");
            assert!(counted.peak_ub_bytes <= work.buffer_bytes, "{name}: {counted:?} {work:?}");
            // Instructions are an estimate: statements of headers are several.
            let (told, seen) = (work.instructions, counted.vector_instructions);
            assert!(told * 4 >= seen && seen * 4 >= told, "{name}, {rows} rows: {told} told, {seen} seen");
            compared += 1;
        }
        assert_eq!(compared, kernels.len());
    }
}
