//! What the benches share.

use std::path::Path;

use fusewright::graph::Graph;
use fusewright::{FusedRegion, Options, fuse_graph, model};

/// Every region of the exported models that are kept with the project, as `model/index:pattern` and the body.
pub fn fixture_bodies() -> Vec<(String, Graph)> {
    let names = ["aten_addrms_fp8tok_h4096_bfloat16", "aten_silu_grp128_h12288_bfloat16", "qwen3_tiny_layer_bf16"];
    let mut bodies = Vec::new();
    for name in names {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(format!("{name}.train.pt2"));
        let graph = model::open(&path).expect("the fixture is a model");
        let fused = fuse_graph(&graph, &Options::default()).expect("the fixture passes the pipeline");
        let body = |(i, r): (usize, &FusedRegion)| {
            (format!("{name}/{i}:{}", r.name), r.expand_body().expect("the region has a body"))
        };
        bodies.extend(fused.partition.regions.iter().enumerate().map(body));
    }
    bodies
}
