//! Exported models: what fuses, under which names, the same in every form.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright_fusion::pass::Verify;
use fusewright_fusion::{Cx, Explanation, Limits, PassManager, explain, partition, patterns};
use fusewright_graph::import;

fn explained(file: &str) -> Explanation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(file);
    let bytes = std::fs::read(&path).expect("the fixture is in the repository");
    let graph = import::pt2(&bytes.into()).expect("imports");
    let (graph, passes) =
        PassManager::default().run(&graph, &mut Cx::default(), &mut [&mut Verify]).expect("the passes run");
    let mut partition = partition(&graph, &Limits::default());
    patterns::name_regions(&graph, &mut partition);
    explain(&graph, &partition, &passes).expect("explains")
}

/// Names, their least and greatest counts, and the most kernels outside matrix products and attention.
type Expected = (&'static str, &'static [(&'static str, usize, usize)], usize);

const EXPECTED: [Expected; 3] = [
    ("aten_addrms_fp8tok_h4096_bfloat16", &[("add_rms_norm.fp8_token", 1, 1)], 1),
    ("aten_silu_grp128_h12288_bfloat16", &[("silu_mul.fp8_group128", 1, 1)], 1),
    (
        "qwen3_tiny_layer_bf16",
        &[("rms_norm", 1, 1), ("add_rms_norm", 1, 1), ("qk_norm_rope", 1, 2), ("rope", 0, 0), ("silu_mul", 1, 1)],
        9,
    ),
];

#[test]
fn every_form_has_the_counts_that_its_model_says() {
    for (name, counts, kernels) in EXPECTED {
        let forms = ["train", "core"].map(|form| explained(&format!("{name}.{form}.pt2")));
        for explanation in &forms {
            for &(pattern, least, most) in counts {
                let count = explanation.patterns.get(pattern).copied().unwrap_or(0);
                assert!((least..=most).contains(&count), "{name}: {pattern} occurs {count} times");
            }
        }
        assert!(forms[0].regions.len() <= kernels, "{name}: {} kernels", forms[0].regions.len());
        // Attention is decomposed in the core form and may add names of its own.
        let named = |e: &Explanation| -> BTreeMap<String, usize> {
            e.patterns.iter().filter(|(name, _)| *name != "softmax").map(|(n, c)| (n.clone(), *c)).collect()
        };
        assert_eq!(named(&forms[0]), named(&forms[1]), "{name}");
    }
}

#[test]
fn every_refusal_has_an_origin() {
    let explanation = explained("qwen3_tiny_layer_bf16.train.pt2");
    assert!(explanation.refused.iter().any(|r| r.code == "attention"));
    assert_eq!(explanation.refused.iter().filter(|r| r.code == "matmul").count(), 7);
    assert!(explanation.refused.iter().all(|r| !r.origin.is_empty() && r.origin != "<built>"));
}
