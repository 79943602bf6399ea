//! The freedom that PyTorch's own kernels take beyond that of the graph.

use fusewright_graph::{Graph, Op, TypeError};

/// Gives a graph whose intervals hold what PyTorch's kernels give, if that is not the graph itself.
///
/// # Errors
/// None for a graph that verifies.
pub(super) fn of_pytorch(graph: &Graph) -> Result<Option<Graph>, TypeError> {
    let mut differs = false;
    let free = graph.rebuild(|b, _, node, operands| match &node.op {
        Op::Composite(op) => op.expand_freely(b, operands).map_or_else(
            || b.op(node.op.clone(), operands),
            |results| {
                differs = true;
                results
            },
        ),
        op => b.op(op.clone(), operands),
    })?;
    Ok(differs.then_some(free))
}

#[cfg(test)]
mod tests {
    use fusewright_abi::DType;

    use super::super::compare;
    use crate::HostTensor;

    /// Elements of f32 by their bits.
    fn tensor(bits: &[u32]) -> HostTensor {
        let bytes = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        HostTensor { dtype: DType::F32, shape: vec![bits.len()], bytes }
    }

    /// Numbers, and what `torch.nn.functional.gelu` of torch 2.15 gives on a CPU.
    const NUMBERS: [u32; 6] = [0x403f_8887, 0x403b_f502, 0x4037_1a64, 0xc08f_ffda, 0xc090_0032, 0x405e_b829];
    const RESULTS: [u32; 6] = [0x403f_44c1, 0x403b_a540, 0x4036_b76d, 0xb781_5fde, 0xb780_402d, 0x405e_a9e0];

    #[test]
    fn a_stored_gelu_may_be_as_pytorch_approximates_it_and_ours_may_not() {
        let graph = "graph @g(%x: f32[6]) {\n  %y = gelu %x {approximate = none}\n  return %y\n}\n";
        let graph = graph.parse().unwrap_or_else(|e| panic!("{e}"));
        let x = tensor(&NUMBERS);
        let exact: Vec<u32> = NUMBERS
            .map(|bits| {
                let x = f64::from(f32::from_bits(bits));
                (x * 0.5 * (1.0 + fusewright_graph::ScalarFn::Erf.eval(&[x * std::f64::consts::FRAC_1_SQRT_2]))) as f32
            })
            .map(f32::to_bits)
            .to_vec();
        let compared = |stored: &[u32], ours: &[u32]| {
            let checks = compare(&graph, std::slice::from_ref(&x), &[(0, tensor(stored))], &[tensor(ours)]);
            checks.unwrap_or_else(|e| panic!("{e}")).remove(0)
        };
        let ours = crate::check::reference(&graph, &[&x]).unwrap_or_else(|e| panic!("{e}"));
        let ours: Vec<u32> =
            ours[0].bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let check = compared(&RESULTS, &ours);
        assert!(check.passed() && check.expected_outside == 0 && check.mismatched > 0, "{check:?}");
        // The exact ones too. None may be farther off, and ours not so far.
        assert!(compared(&exact, &ours).passed());
        let far = RESULTS.map(|bits| bits + 40);
        assert_eq!(compared(&far, &ours).expected_outside, far.len() - 2, "those of -4.5 are within");
        assert!(compared(&RESULTS, &RESULTS).outside > 0);
    }
}
