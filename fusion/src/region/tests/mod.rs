//! What merges and what does not.

mod heads;
mod refusals;

use expect_test::{Expect, expect};
use fusewright_graph::DType::{BF16, F32, I64};
use fusewright_graph::{Dim, Op, Prim, ReduceOp, ScalarFn};

use super::*;
use crate::pass::{Cx, PassManager, Verify};
use crate::samples::{self, Built, Sample, TINY};

fn divided(graph: &Graph) -> (Graph, Partition) {
    let (graph, _) = PassManager::default().run(graph, &mut Cx::default(), &mut [&mut Verify]).expect("the passes run");
    let partition = partition(&graph, &Limits::default());
    check(&graph, &partition);
    (graph, partition)
}

/// What holds of every partition: all nodes are accounted for and steps follow what they read.
fn check(graph: &Graph, partition: &Partition) {
    let unfused: Vec<NodeId> = partition.unfused.iter().map(|u| u.node).collect();
    for id in graph.node_ids() {
        let fused = partition.regions.iter().any(|r| r.nodes.contains(&id));
        let joined = partition.lone.iter().any(|op| op.nodes.contains(&id));
        assert!(fused != unfused.contains(&id) || joined, "{:?}: fused {fused}", graph.node(id));
    }
    let mut known: Vec<Value> = graph.inputs().iter().map(|i| i.value).collect();
    for step in &partition.steps {
        let (reads, makes) = match (partition.kernel(*step), step) {
            (Some(region), _) => (&region.inputs, &region.outputs),
            (None, Step::Node(id)) => (&graph.node(*id).operands, &graph.node(*id).results),
            (None, _) => panic!("{step:?} is not there"),
        };
        assert!(reads.iter().all(|v| known.contains(v)), "{step:?} reads what is not made yet");
        known.extend(makes);
    }
    assert!(graph.outputs().iter().all(|o| known.contains(&o.value)));
    for region in &partition.regions {
        region.space().expect("a region has rows");
    }
    for region in partition.kernels() {
        let types = |values: &[Value]| values.iter().map(|&v| graph.ty(v).clone()).collect::<Vec<_>>();
        let inner = |values: Vec<Value>| values.iter().map(|&v| region.body.ty(v).clone()).collect::<Vec<_>>();
        assert_eq!(types(&region.inputs), inner(region.body.inputs().iter().map(|i| i.value).collect()));
        assert_eq!(types(&region.outputs), inner(region.body.outputs().iter().map(|o| o.value).collect()));
    }
}

/// Ops of each region, free ones left out.
fn regions(graph: &Graph, partition: &Partition) -> Vec<String> {
    let computing = |id: &&NodeId| !matches!(graph.node(**id).op.name(), "literal" | "reshape" | "permute" | "slice");
    let ops = |r: &FusedRegion| {
        r.nodes.iter().filter(computing).map(|&id| graph.node(id).op.name()).collect::<Vec<_>>().join(" ")
    };
    partition.regions.iter().map(ops).collect()
}

fn built(build: impl FnOnce(Sample) -> Built<Graph>) -> (Graph, Partition) {
    divided(&build(Sample::new(false)).expect("types"))
}

/// The regions, the merges that were refused, and the reasons of what is in no region.
fn expect_division((graph, partition): &(Graph, Partition), expected: &Expect) {
    let mut text = String::new();
    for (region, ops) in partition.regions.iter().zip(regions(graph, partition)) {
        text += &format!("region {ops}\n");
        for end in &region.ends {
            text += &format!("  ends at {}: {}\n", graph.node(end.node).op.name(), end.refusal.name());
        }
    }
    let mut left: std::collections::BTreeMap<(&str, &str), usize> = Default::default();
    for unfused in partition.unfused.iter() {
        *left.entry((graph.node(unfused.node).op.name(), unfused.refusal.name())).or_default() += 1;
    }
    for ((op, refusal), count) in left {
        text += &format!("{count} {op}: {refusal}\n");
    }
    expected.assert_eq(&text);
}

#[test]
fn what_rows_compute_for_themselves_is_stored_where_others_read_it() {
    // A product of matrices reads the number that scales the rows.
    let (graph, partition) = built(|g| {
        let [a, b] = ["a", "b"].map(|name| g.input(name, F32, &[1, 1]));
        let scale = g.b.mul(a, b)?;
        let y = g.b.mul(g.input("x", F32, &[-1, 64]), scale)?;
        let product = Prim::MatMul { transpose_b: true, out: BF16 };
        let product = g.b.prim(product, &[scale, g.input("w", F32, &[8, 1])])?;
        Ok(g.finish(&[y, product]))
    });
    assert_eq!(regions(&graph, &partition), ["mul mul"]);
    let [lone] = partition.lone.as_slice() else { panic!("{:?}", partition.lone) };
    assert_eq!(
        (lone.name.as_str(), graph.def(lone.outputs[0])),
        ("mul", fusewright_graph::Def::Node(lone.nodes[0], 0))
    );
    // What is returned is stored by the rows that read it.
    let (graph, partition) = built(|g| {
        let sum = g.b.add(g.input("x", F32, &[1, 1]), g.input("r", F32, &[1, 1]))?;
        let y = g.softmax(sum)?;
        Ok(g.finish(&[sum, y]))
    });
    assert_eq!(partition.regions.len(), 1, "{:?}", regions(&graph, &partition));
    assert_eq!((partition.regions[0].outputs.len(), partition.lone.len()), (2, 0));
}

#[test]
fn a_decoder_layer_is_five_kernels() {
    let layer = divided(&samples::qwen3_layer(false, &TINY).expect("types"));
    assert_eq!(layer.1.regions.len(), 5);
    expect_division(
        &layer,
        &expect![[r#"
            region cast mul cat cos cast sin cast rms_norm rms_norm rope_neox rope_neox
              ends at matmul: matmul
              ends at matmul: matmul
              ends at sdpa: attention
            region rms_norm
              ends at matmul: matmul
              ends at matmul: matmul
              ends at matmul: matmul
            region add rms_norm
              ends at matmul: matmul
              ends at matmul: matmul
              ends at matmul: matmul
              ends at add: not_convex
            region silu mul
              ends at matmul: matmul
              ends at matmul: matmul
              ends at matmul: matmul
            region add
              ends at add: not_convex
              ends at matmul: matmul
            7 matmul: matmul
            2 permute: layout_only
            2 reshape: layout_only
            1 sdpa: attention
        "#]],
    );
}

#[test]
fn the_core_form_divides_likewise_outside_attention() {
    let layer = divided(&samples::qwen3_layer(true, &TINY).expect("types"));
    expect_division(
        &layer,
        &expect![[r#"
            region cast mul cat cos cast sin cast rms_norm rms_norm rope_neox rope_neox cast mul cast expand mul
              ends at matmul: matmul
              ends at matmul: matmul
              ends at matmul: matmul
            region rms_norm
              ends at matmul: matmul
              ends at matmul: matmul
              ends at matmul: matmul
            region cast
              ends at matmul: matmul
              ends at matmul: matmul
            region iota iota sub le select add softmax
              ends at matmul: matmul
              ends at matmul: matmul
            region cast
              ends at matmul: matmul
              ends at matmul: matmul
            region add rms_norm
              ends at matmul: matmul
              ends at matmul: matmul
              ends at matmul: matmul
              ends at add: not_convex
            region silu mul
              ends at matmul: matmul
              ends at matmul: matmul
              ends at matmul: matmul
            region add
              ends at add: not_convex
              ends at matmul: matmul
            1 expand: layout_only
            9 matmul: matmul
            1 reshape: layout_only
        "#]],
    );
}

#[test]
fn an_op_by_itself_reads_through_its_views() {
    let (graph, partition) = built(|g| {
        let x = g.input("x", F32, &[-1, 64]);
        let (low, high) = (g.b.slice(x, 1, 0.into(), 8.into())?, g.b.slice(x, 1, 40.into(), 64.into())?);
        let joined = g.b.cat(&[low, high], 1)?;
        Ok(g.finish(&[joined]))
    });
    let [cat] = partition.lone.as_slice() else { panic!("{:?}", partition.lone) };
    assert_eq!((cat.name.as_str(), cat.kind, cat.nodes.len()), ("cat", Kind::Op, 3));
    assert_eq!(cat.inputs, [graph.inputs()[0].value]);
    assert_eq!(partition.steps, [Step::Lone(0)], "the slices are no steps");
}

#[test]
fn what_is_no_row_program_with_its_views_takes_them_as_they_are() {
    // Rows of three have no axes in common with rows of four.
    let (_, partition) = built(|g| {
        let (x, y) = (g.input("x", F32, &[6, 4]), g.input("y", F32, &[8, 3]));
        let difference = g.b.sub(g.view(x, &[8, 3])?, y)?;
        Ok(g.finish(&[difference]))
    });
    let [sub] = partition.lone.as_slice() else { panic!("{:?}", partition.lone) };
    assert_eq!((sub.nodes.len(), sub.inputs.len()), (1, 2));
    assert!(matches!(partition.steps[..], [Step::Node(_), Step::Lone(0)]), "{:?}", partition.steps);
}

#[test]
fn an_op_by_itself_reads_what_a_region_stored() {
    // The sum is stored as it is read: as heads, not as rows.
    let (_, partition) = built(|g| {
        let (x, y) = (g.input("x", F32, &[-1, 64]), g.input("y", F32, &[-1, 4, 8]));
        let heads = g.view(g.b.add(x, x)?, &[-1, 4, 16])?;
        let joined = g.b.cat(&[heads, y], 2)?;
        Ok(g.finish(&[joined]))
    });
    assert_eq!(partition.steps.len(), partition.kernels().count(), "{:?}", partition.steps);
}

#[test]
fn quantisers_join_what_they_quantise() {
    expect_division(
        &divided(&samples::add_norm_fp8_token(512).expect("types")),
        &expect![[r#"
            region add rms_norm cast abs reduce div max div max min cast
        "#]],
    );
    expect_division(
        &divided(&samples::silu_fp8_group(true, 512).expect("types")),
        &expect![[r#"
            region silu mul cast abs reduce max div div max min cast
        "#]],
    );
}

#[test]
fn a_norm_over_the_tokens_is_not_row_work() {
    let graph = built(|g| {
        let x = g.input("x", F32, &[-1, 256]);
        let square = g.b.mul(x, x)?;
        let sum = g.b.prim(
            Prim::Reduce { op: ReduceOp::Add, axes: vec![0], nan: fusewright_graph::NanRule::Propagate },
            &[square],
        )?;
        let y = g.b.mul(x, g.b.map(ScalarFn::Rsqrt, &[sum])?)?;
        Ok(g.finish(&[y]))
    });
    expect_division(
        &graph,
        &expect![[r#"
        region mul
          ends at reduce: reduction_axis
        region rsqrt mul
          ends at reduce: reduction_axis
        1 reduce: reduction_axis
    "#]],
    );
}

#[test]
fn a_maximum_of_the_whole_tensor_ends_a_region() {
    let graph = built(|g| {
        let x = g.input("x", F32, &[-1, 256]);
        let axes = vec![0, 1];
        let largest = g.b.prim(
            Prim::Reduce { op: ReduceOp::Max, axes, nan: fusewright_graph::NanRule::Propagate },
            &[g.b.map(ScalarFn::Abs, &[x])?],
        )?;
        let y = g.b.div(x, largest)?;
        Ok(g.finish(&[y]))
    });
    expect_division(
        &graph,
        &expect![[r#"
        region abs reduce
          ends at reduce: whole_tensor
        region div
          ends at reduce: whole_tensor
        1 reduce: whole_tensor
    "#]],
    );
}

#[test]
fn embeddings_join_and_gathers_of_computed_rows_do_not() {
    let joins = built(|g| {
        let (table, ids) = (g.weight("table", &[1000, 64]), g.input("ids", I64, &[-1]));
        let rows = g.b.prim(Prim::Gather { axis: 0 }, &[table, ids])?;
        let y = g.hf_norm(rows, g.weight("w", &[64]))?;
        Ok(g.finish(&[y]))
    });
    expect_division(
        &joins,
        &expect![[r#"
            region gather rms_norm
        "#]],
    );
    let computed = built(|g| {
        let (x, ids) = (g.input("x", BF16, &[-1, 64]), g.input("ids", I64, &[-1]));
        let y = g.hf_norm(x, g.weight("w", &[64]))?;
        let rows = g.b.prim(Prim::Gather { axis: 0 }, &[y, ids])?;
        let out = g.b.add(rows, rows)?;
        Ok(g.finish(&[out]))
    });
    expect_division(
        &computed,
        &expect![[r#"
            region rms_norm
              ends at gather: gather_computed
            region gather add
              ends at rms_norm: gather_computed
        "#]],
    );
    let lanes = built(|g| {
        let (x, ids) = (g.input("x", BF16, &[-1, 64]), g.input("ids", I64, &[64]));
        let picked = g.b.prim(Prim::Gather { axis: 1 }, &[x, ids])?;
        let out = g.b.add(picked, picked)?;
        Ok(g.finish(&[out]))
    });
    expect_division(
        &lanes,
        &expect![[r#"
            region gather add
        "#]],
    );
}

#[test]
fn heads_and_tokens_are_quantised_together() {
    let graph = built(|g| {
        let x = g.input("x", BF16, &[-1, 4, 16]);
        let y = g.view(g.hf_norm(x, g.weight("w", &[16]))?, &[-1, 64])?;
        let [code, scale] = g.fp8_token(y)?;
        Ok(g.finish(&[code, scale, y]))
    });
    expect_division(
        &graph,
        &expect![[r#"
            region rms_norm cast abs reduce div max div max min cast
        "#]],
    );
}

#[test]
fn odd_layouts_end_regions() {
    let transposed = built(|g| {
        let x = g.input("x", F32, &[-1, 8, 16]);
        let y = g.permute(g.softmax(x)?, &[0, 2, 1])?;
        let out = g.softmax(y)?;
        Ok(g.finish(&[out]))
    });
    expect_division(
        &transposed,
        &expect![[r#"
            region softmax softmax
        "#]],
    );
    let reshaped = built(|g| {
        let x = g.input("x", F32, &[6, 4]);
        let y = g.b.mul(x, x)?;
        let out = g.softmax(g.view(y, &[8, 3])?)?;
        Ok(g.finish(&[out]))
    });
    expect_division(
        &reshaped,
        &expect![[r#"
            region mul
              ends at softmax: reshape
            1 reshape: layout_only
            1 softmax: reshape
        "#]],
    );
    // A column and a row of one vector are read apart.
    let diagonal = built(|g| {
        let x = g.input("x", F32, &[-1]);
        let e = g.b.map(ScalarFn::Exp, &[x])?;
        let out = g.b.add(g.view(e, &[-1, 1])?, g.view(e, &[1, -1])?)?;
        Ok(g.finish(&[out]))
    });
    expect_division(
        &diagonal,
        &expect![[r#"
            region exp add
        "#]],
    );
}

#[test]
fn limits_end_regions() {
    let g = Sample::new(false);
    let mut x = g.input("x", F32, &[-1, 8]);
    for _ in 0..10 {
        x = g.b.map(ScalarFn::Neg, &[g.b.map(ScalarFn::Exp, &[x]).expect("exp")]).expect("neg");
    }
    let graph = g.finish(&[x]);
    let partition = partition(&graph, &Limits { nodes: 8, ..Limits::default() });
    check(&graph, &partition);
    assert!(partition.regions.len() >= 3 && partition.regions.iter().all(|r| r.nodes.len() <= 8));
    assert!(partition.regions[0].ends.iter().all(|e| e.refusal == Refusal::TooLarge));
}

#[test]
fn copies_end_regions() {
    let g = Sample::new(false);
    let mut x = g.input("x", F32, &[-1, 2]);
    for _ in 0..12 {
        x = g.b.map(ScalarFn::Exp, &[g.b.cat(&[x, x], 1).expect("cat")]).expect("exp");
    }
    let graph = g.finish(&[x]);
    let partition = partition(&graph, &Limits::default());
    check(&graph, &partition);
    assert_eq!(partition.regions.len(), 3);
    assert!(partition.regions[0].ends.iter().all(|e| e.refusal == Refusal::TooLarge));
}

#[test]
fn no_rows_and_one_row_are_graphs_too() {
    for rows in [0, 1, 5] {
        let graph = built(|g| {
            let x = g.input("x", BF16, &[rows, 64]);
            let y = g.hf_norm(x, g.weight("w", &[64]))?;
            Ok(g.finish(&[y]))
        });
        assert_eq!(graph.1.regions.len(), 1, "{rows} rows");
    }
}

#[test]
fn functions_of_weights_join_the_rows() {
    let (_, partition) = built(|g| {
        let x = g.input("x", BF16, &[-1, 64]);
        let y = g.gemma_norm(x, g.weight("w", &[64]))?;
        Ok(g.finish(&[y]))
    });
    assert_eq!(partition.regions.len(), 1);
    assert!(partition.regions[0].ends.is_empty());
}

#[test]
fn heads_cut_out_of_one_product_share_its_rows() {
    let heads = |shared: bool| {
        built(|g| {
            let x = g.input("x", BF16, &[-1, 64]);
            let product = g.linear(x, g.weight("w", &[96, 64]))?;
            let other = if shared { product } else { g.linear(x, g.weight("v", &[96, 64]))? };
            let part = |from: i64, to: i64, of| g.b.slice(of, 1, Dim::constant(from), Dim::constant(to));
            let norm = |x, n: i64| g.hf_norm(g.view(x, &[-1, n, 16])?, g.weight(&format!("w{n}"), &[16]));
            let (q, k) = (norm(part(0, 64, product)?, 4)?, norm(part(64, 96, other)?, 2)?);
            Ok(g.finish(&[q, k]))
        })
    };
    let (_, partition) = heads(true);
    let [region] = partition.regions.as_slice() else { panic!("{:?}", partition.regions) };
    assert!(region.segments && region.outputs.len() == 2);
    assert_eq!(region.space().expect("common rows").rows.len(), 1);
    assert_eq!(heads(false).1.regions.len(), 2);
}

#[test]
fn routing_is_one_region() {
    let graph = built(|g| {
        let p = g.softmax(g.b.cast(g.input("logits", BF16, &[-1, 128]), F32)?)?;
        let found = g.b.op(Op::Prim(Prim::TopK { k: 8.into() }), &[p])?;
        let sum = g.b.reduce_last(ReduceOp::Add, found[0])?;
        let weights = g.b.cast(g.b.div(found[0], sum)?, BF16)?;
        Ok(g.finish(&[weights, found[1]]))
    });
    expect_division(
        &graph,
        &expect![[r#"
        region cast softmax top_k reduce div cast
    "#]],
    );
}

#[test]
fn readers_of_a_value_are_merged_up_to_a_number_of_operands() {
    let inputs: String = (0..20).map(|i| format!(", %w{i}: weight f32[64]")).collect();
    let nodes: String = (0..20).map(|i| format!("  %y{i} = mul %p, %w{i}\n")).collect();
    let outputs: Vec<String> = (0..20).map(|i| format!("%y{i}")).collect();
    let text = format!("graph @g(s: 1..; %p: f32[s, 64]{inputs}) {{\n{nodes}  return {}\n}}\n", outputs.join(", "));
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let operands = |limits: &Limits| -> Vec<usize> {
        partition(&graph, limits).regions.iter().map(|region| region.inputs.len() + region.outputs.len()).collect()
    };
    assert_eq!(operands(&Limits { read: 64, ..Limits::default() }), [41], "all in one");
    let few = operands(&Limits::default());
    assert!(few.len() == 2 && few.iter().all(|&n| n <= Limits::default().read), "{few:?}");
}
