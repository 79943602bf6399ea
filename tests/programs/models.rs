//! Exported models through the whole chain: imported, fused, compiled for the CPU, run, and judged by the intervals of
//! their own graphs.
//!
//! Every file of inputs holds two cases with different numbers of rows; PyTorch's results must lie in the same
//! intervals as ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fusewright::check::{self, Case, cases, compare};
use fusewright::diff::options;
use fusewright::explain::{self, explain};
use fusewright::graph::{Graph, InputKind, Node};
use fusewright::{Compiled, Compiler, HostTensor, Options, Target, compile, model, read_safetensors};
use xtask::pieces;

/// Graphs whose rows are independent and whose results leave only row sums free.
const ROWWISE: [&str; 2] = ["aten_addrms_fp8tok_h4096_bfloat16", "aten_silu_grp128_h12288_bfloat16"];
const LAYER: &str = "qwen3_tiny_layer_bf16";
const FORMS: [&str; 2] = ["train", "core"];

/// Names of patterns with their least and greatest counts.
type Counts = &'static [(&'static str, usize, usize)];

const PATTERNS: [(&str, Counts); 3] = [
    (ROWWISE[0], &[("add_rms_norm.fp8_token", 1, 1)]),
    (ROWWISE[1], &[("silu_mul.fp8_group128", 1, 1)]),
    (LAYER, &[("rms_norm", 1, 1), ("add_rms_norm", 1, 1), ("qk_norm_rope", 1, 2), ("rope", 0, 0), ("silu_mul", 1, 1)]),
];

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(file)
}

fn open(name: &str, form: &str) -> Graph {
    model::open(&path(&format!("{name}.{form}.pt2"))).unwrap_or_else(|e| panic!("{e}"))
}

fn stored(name: &str, graph: &Graph) -> Vec<Case> {
    let tensors = read_safetensors(&path(&format!("{name}.safetensors"))).unwrap_or_else(|e| panic!("{e}"));
    let cases = cases(graph, &tensors).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(cases.len(), 2, "{name}: two cases");
    cases
}

fn compiled(graph: &Graph, fuse: bool) -> Compiled {
    let options = Options { fuse, ..options() };
    let compiled = compile(graph, &Target::Cpu, &options).unwrap_or_else(|e| panic!("{}: {e}", graph.name()));
    assert!(compiled.fallbacks.is_empty(), "{}: {:?}", graph.name(), compiled.fallbacks);
    compiled
}

fn run(compiled: &Compiled, inputs: &[HostTensor], threads: usize) -> Vec<HostTensor> {
    let inputs: Vec<&HostTensor> = inputs.iter().collect();
    compiled.program.run(&inputs, threads).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn results_lie_in_their_intervals() {
    for (name, form) in PATTERNS.iter().flat_map(|(name, _)| FORMS.map(|form| (*name, form))) {
        let graph = open(name, form);
        let (fused, unfused) = (compiled(&graph, true), compiled(&graph, false));
        for case in stored(name, &graph) {
            let produced = run(&fused, &case.inputs, 1);
            assert_eq!(produced, run(&fused, &case.inputs, 2), "{name}.{form} {}: two threads", case.prefix);
            assert_eq!(produced, run(&unfused, &case.inputs, 1), "{name}.{form} {}: op by op", case.prefix);
            let expected = case.expected.as_deref().expect("every case has results");
            let checks =
                compare(&graph, &case.inputs, expected, &produced).unwrap_or_else(|e| panic!("{name}.{form}: {e}"));
            assert_eq!(checks.len(), graph.outputs().len());
            for (i, check) in checks.iter().enumerate() {
                let what = format!("{name}.{form} {}out{i}: {check:?}", case.prefix);
                assert!(check.elements > 0 && check.passed(), "{what}");
                // PyTorch ran attention as one op, so its results are right for graphs that hold it as one.
                assert!(check.expected_outside == 0 || (name, form) == (LAYER, "core"), "{what}");
                if ROWWISE.contains(&name) {
                    assert!(check.mismatched * 1000 <= check.elements, "{what}");
                    // Were the intervals wide, lying in them would say little.
                    assert!(check.exact * 100 >= check.elements * 99, "{what}");
                }
            }
        }
    }
}

/// Routers of mixtures of experts as transformers spells them: each is one kernel behind its matrix product.
#[test]
fn routers_are_one_kernel_each() {
    for form in FORMS {
        let graph = open("routers", form);
        let compiled = compiled(&graph, true);
        let counts = compiled.program.counts();
        assert_eq!((counts.matmuls, counts.references), (4, 0), "{form}");
        let choices = compiled
            .fused
            .partition
            .regions
            .iter()
            .filter(|region| region.body.nodes().iter().any(|node| node.op.name() == "top_k"));
        assert_eq!(choices.count(), 4, "{form}: one kernel for the choice of each router");
        for case in stored("routers", &graph) {
            let produced = run(&compiled, &case.inputs, 1);
            assert_eq!(produced, run(&compiled, &case.inputs, 2), "{form} {}: two threads", case.prefix);
            let expected = case.expected.as_deref().expect("every case has results");
            let checks = compare(&graph, &case.inputs, expected, &produced).unwrap_or_else(|e| panic!("{form}: {e}"));
            assert_eq!(checks.len(), 8, "{form}");
            for (i, check) in checks.iter().enumerate() {
                assert!(
                    check.elements > 0 && check.passed() && check.expected_outside == 0,
                    "{form} out{i}: {check:?}"
                );
                // Which experts are chosen leaves nothing open.
                assert!(i % 2 == 0 || check.mismatched == 0, "{form} out{i}: {check:?}");
            }
        }
    }
}

/// Tensors overwritten through views, written by torch 2.9: eager results, and the inputs that come out changed.
#[test]
fn overwritten_tensors_have_their_new_values() {
    let mut updated = Vec::new();
    for form in FORMS {
        let graph = open("overwritten_views", form);
        let names = check::output_names(&graph);
        assert_eq!(names[..3], ["new_b_cache", "new_x", "out0"], "{form}");
        for case in stored("overwritten_views", &graph) {
            let compiled = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{form}: {e}"));
            let produced = run(&compiled, &case.inputs, 1);
            let expected = case.expected.as_deref().expect("every case has results");
            let checks = compare(&graph, &case.inputs, expected, &produced).unwrap_or_else(|e| panic!("{form}: {e}"));
            assert_eq!(checks.len(), 4, "{form}");
            assert!(checks.iter().all(|c| c.elements > 0 && c.passed() && c.expected_outside == 0), "{checks:?}");
            // Only the sums of the cache leave an order open.
            assert!(checks.iter().enumerate().all(|(i, c)| i == 1 || c.mismatched == 0), "{checks:?}");
            updated.push(produced[..2].to_vec());
        }
    }
    assert_eq!(updated[..2], updated[2..], "both forms write the same");
}

/// Ops of vLLM that write codes, scales and rotated heads into views: the bits that eager kernels leave, by as many
/// kernels in both forms.
#[test]
fn vendors_ops_write_into_views() {
    let mut kernels = Vec::new();
    for form in FORMS {
        let graph = open("vendor_views", form);
        let compiled = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{form}: {e}"));
        let counts = compiled.program.counts();
        assert_eq!(counts.references, 0, "{form}");
        kernels.push((counts.kernels, counts.copies));
        for case in stored("vendor_views", &graph) {
            let produced = run(&compiled, &case.inputs, 1);
            let expected = case.expected.expect("every case has results").into_iter().map(|(_, tensor)| tensor);
            assert_eq!(produced, expected.collect::<Vec<_>>(), "{form} {}", case.prefix);
        }
    }
    assert_eq!(kernels[0], kernels[1], "both forms are the same kernels");
}

/// Grouped heads under an additive mask, a boolean one and the causal one, written by torch 2.10.
#[test]
fn masked_attention_is_one_op() {
    let graph = open("attention_masks", "train");
    let compiled = compiled(&graph, true);
    assert_eq!((compiled.program.counts().attentions, compiled.program.counts().references), (3, 0));
    for case in stored("attention_masks", &graph) {
        let produced = run(&compiled, &case.inputs, 1);
        assert_eq!(produced, run(&compiled, &case.inputs, 2), "{}: two threads", case.prefix);
        let expected = case.expected.as_ref().expect("stored results");
        let checks = compare(&graph, &case.inputs, expected, &produced).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(checks.len(), 3);
        assert!(checks.iter().all(|c| c.elements > 0 && c.passed() && c.expected_outside == 0), "{checks:?}");
    }
}

/// Collectives of a group of one rank, of which the gather states the number for the sum too, written by torch 2.10.
#[test]
fn collectives_of_one_rank_wait_for_nobody() {
    for form in FORMS {
        let graph = open("collectives", form);
        let sums = graph.nodes().iter().filter(|n| n.op.name() == "all_reduce").count();
        assert_eq!(sums, 1, "{form}");
        let compiled = compiled(&graph, true);
        let names: Vec<&str> = compiled.fused.partition.regions.iter().map(|r| r.name.as_str()).collect();
        // Both norms read one sum.
        assert_eq!(names, ["add_rms_norm.fp8_static"], "{form}");
        assert_eq!(compiled.program.counts().references, 0, "{form}");
        for case in stored("collectives", &graph) {
            let produced = run(&compiled, &case.inputs, 1);
            let expected = case.expected.as_deref().expect("every case has results");
            let checks = compare(&graph, &case.inputs, expected, &produced).unwrap_or_else(|e| panic!("{form}: {e}"));
            assert_eq!(checks.len(), 3, "{form}");
            let right = |c: &fusewright::check::OutputCheck| c.elements > 0 && c.passed() && c.expected_outside == 0;
            assert!(checks.iter().all(right), "{form} {}: {checks:?}", case.prefix);
        }
    }
}

/// Remainders, quotients, powers, variances, norms, paddings, windows and selections at four dtypes, distances,
/// diagonals and losses, what runs along an axis, and what is filled up beside a reduction, each as PyTorch's op and
/// decomposed.
#[test]
fn single_ops_give_what_eager_pytorch_gives() {
    let wide = ["ops_f32", "ops_composites", "ops_losses", "ops_running", "ops_beside"];
    for name in ["ops_bf16", "ops_f16", "ops_ints", "ops_kinds"].into_iter().chain(wide) {
        for form in FORMS {
            let graph = open(name, form);
            let compiled = compile(&graph, &Target::Cpu, &options()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
            compiled.fallbacks.iter().for_each(|f| *listed.entry(f.label.as_str()).or_default() += 1);
            // Several ops of one name may come from one of PyTorch, as the sum and the count of a mean do.
            let named = |node: &Node| format!("{} [{}]", node.op.name(), node.origin);
            let ops = |label: &str| compiled.fused.graph.nodes().iter().filter(|n| named(n) == label).count();
            let once = listed.iter().all(|(label, times)| *times <= ops(label).max(1));
            assert!(once, "an op is listed once: {:?}", compiled.fallbacks);
            for case in stored(name, &graph) {
                let produced = run(&compiled, &case.inputs, 1);
                let expected = case.expected.as_deref().expect("every case has results");
                let checks = compare(&graph, &case.inputs, expected, &produced).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(checks.len(), graph.outputs().len());
                for check in checks {
                    let fits = check.elements > 0 && check.passed() && check.expected_outside == 0;
                    // Powers and sums in f32 leave a choice; rounded to 16 bits they are PyTorch's.
                    let equal = check.mismatched == 0 || wide.contains(&name);
                    assert!(fits && equal, "{name}.{form} {}: {check:?}", case.prefix);
                }
            }
        }
    }
}

/// What is wrong with a file of a model, by the name of the file and of the thing in it.
#[test]
fn files_that_are_no_models_say_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = |path: &Path| model::open(path).expect_err("no model").to_string();
    assert!(error(folder.path()).contains("is a directory"), "{}", error(folder.path()));
    let text = folder.path().join("graph.pt2");
    std::fs::write(&text, "graph @g(%x: f32[4]) {\n  %y = abs %x\n  return %y\n}\n").expect("a file");
    assert!(error(&text).ends_with("graph.pt2: holds the text form of a graph; give the file the ending `.fw`"));
    // One bit of the first weight: the graph reads, the call names weight and entry.
    let mut bytes = std::fs::read(path("qwen3_tiny_layer_bf16.train.pt2")).expect("a fixture");
    let graph = open(LAYER, "train");
    let weight = graph.inputs().iter().find_map(|input| match &input.kind {
        InputKind::Weight(Some(weight)) if weight.storage.len() > 64 => Some((&input.name, weight)),
        _ => None,
    });
    let (name, weight) = weight.expect("a weight");
    let at = bytes.windows(weight.storage.len()).position(|w| w == &weight.storage[..]).expect("its bytes");
    bytes[at] ^= 1;
    let damaged = folder.path().join("damaged.pt2");
    std::fs::write(&damaged, &bytes).expect("a file");
    let graph = model::open(&damaged).expect("a graph");
    let case = &stored(LAYER, &graph)[0];
    let result = compile(&graph, &Target::Cpu, &Options::default())
        .and_then(|compiled| compiled.program.run(&case.inputs.iter().collect::<Vec<_>>(), 1));
    let message = result.expect_err("damage").to_string();
    assert!(message.contains(&format!("`{name}`")) && message.contains("entry `data/weights/weight_"), "{message}");
}

/// A model without its weights imports and compiles; a call names the first weight that it misses, and the node.
#[test]
fn a_missing_weight_is_named_with_its_node() {
    let b = fusewright::graph::Builder::new("m");
    let ty = fusewright::graph::TensorType::new(fusewright::DType::F32, [fusewright::graph::Dim::constant(4)]);
    let (x, w) = (b.input("x", ty.clone()), b.add_input("layer_weight", ty, InputKind::Weight(None)));
    b.output(b.add(x, w).expect("one type"));
    let compiled = compile(&b.finish(), &Target::Cpu, &Options::default()).expect("a program");
    let x = HostTensor { dtype: fusewright::DType::F32, shape: vec![4], bytes: vec![0; 16] };
    let message = compiled.program.run(&[&x], 1).expect_err("no data").to_string();
    assert!(message.contains("weight `layer_weight` has no data in the file of the model"), "{message}");
}

#[test]
fn what_fuses_is_named_and_what_does_not_has_a_reason() {
    for (name, expected) in PATTERNS {
        let [train, core] = FORMS.map(|form| {
            let graph = open(name, form);
            let compiled = compiled(&graph, true);
            let explanation = explain(&compiled.fused).unwrap_or_else(|e| panic!("{name}.{form}: {e}"));
            for refused in &explanation.refused {
                let known = !refused.origin.is_empty() && refused.origin != "<built>";
                assert!(known && !refused.reason.is_empty(), "{name}.{form}: {refused:?}");
            }
            for &(pattern, least, most) in expected {
                let count = explanation.patterns.get(pattern).copied().unwrap_or(0);
                assert!((least..=most).contains(&count), "{name}.{form}: {pattern} occurs {count} times");
            }
            // Attention that is spelled out holds a softmax; attention that is one op does not.
            let patterns = explanation.patterns.into_iter().filter(|(pattern, _)| pattern != "softmax");
            (patterns.collect::<BTreeMap<String, usize>>(), compiled.program.counts().kernels)
        });
        assert_eq!(train.0, core.0, "{name}: both forms hold the same patterns");
        let most = if name == LAYER { 9 } else { 1 };
        assert!(train.1 <= most, "{name}: {} kernels", train.1);
    }
}

#[test]
fn writes_into_views_are_the_same_kernels_in_both_forms() {
    for form in FORMS {
        let counts = compiled(&open("overwritten_views", form), true).program.counts();
        assert_eq!((counts.kernels, counts.copies), (2, 0), "{form}");
    }
}

#[test]
fn compiling_twice_gives_the_same_bytes() {
    let mut kernels = 0;
    for (name, form) in PATTERNS.iter().flat_map(|(name, _)| FORMS.map(|form| (*name, form))) {
        let [first, second] = [(); 2].map(|()| {
            let compiler = Compiler::new(&Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
            let fused = compiled(&open(name, form), true).fused;
            let artifact = |region: &fusewright::FusedRegion| {
                let body = region.expand_body().unwrap_or_else(|e| panic!("{name}.{form}: {e}"));
                compiler.artifact(&region.name, &body).unwrap_or_else(|e| panic!("{name}.{form}: {e}"))
            };
            fused.partition.regions.iter().map(artifact).collect::<Vec<_>>()
        });
        assert_eq!(first, second, "{name}.{form}");
        assert!(first.iter().all(|a| !a.payload.bytes.is_empty()), "{name}.{form}");
        kernels += first.len();
    }
    assert!(kernels >= 10, "{kernels} kernels");
}

/// A table that lacks a kernel hides work.
#[test]
fn the_report_lists_every_kernel_that_runs() {
    let listed = std::fs::read_dir(path("")).unwrap_or_else(|e| panic!("{e}"));
    let files = listed.map(|file| file.unwrap_or_else(|e| panic!("{e}")).path());
    let models: Vec<_> = files.filter(|file| file.extension().is_some_and(|e| e == "pt2")).collect();
    let counted = pieces::each(&models, |file| {
        let (mut checked, mut lone) = (0, 0);
        let graph = model::open(file).unwrap_or_else(|e| panic!("{e}"));
        for fuse in [true, false] {
            let options = Options { fuse, ..options() };
            let compiled =
                compile(&graph, &Target::Cpu, &options).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let report = explain(&compiled.fused).unwrap_or_else(|e| panic!("{e}"));
            let kernels = explain::kernels(&compiled.fused, &report, &Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(kernels.steps, compiled.program.counts(), "{}", file.display());
            assert_eq!(report.regions.len(), kernels.reports.len());
            let made = kernels.reports.iter().filter(|k| k.kernel.is_ok()).count();
            assert_eq!(made, compiled.program.counts().kernels, "{} fused: {fuse}", file.display());
            checked += made;
            lone += report.regions.iter().filter(|r| r.kind == "op").count();
        }
        (checked, lone)
    });
    let (checked, lone) = counted.into_iter().fold((0, 0), |(a, b), (checked, lone)| (a + checked, b + lone));
    assert!(checked > 100 && lone > 0, "{checked} kernels, {lone} of single ops");
}

/// Attention and matrix products read permuted heads as they lie, and write theirs in the order in which they are read.
#[test]
fn layout_ops_around_attention_cost_nothing() {
    let counts = compiled(&open(LAYER, "train"), true).program.counts();
    assert_eq!((counts.kernels, counts.copies, counts.references), (5, 0, 0));
}

/// Rows `rows` of a tensor whose outermost axis counts them, in that order.
fn take(tensor: &HostTensor, rows: impl Iterator<Item = usize>) -> HostTensor {
    let width = tensor.bytes.len() / tensor.shape[0];
    let (mut bytes, mut count) = (Vec::new(), 0);
    for row in rows {
        bytes.extend_from_slice(&tensor.bytes[row * width..(row + 1) * width]);
        count += 1;
    }
    let shape = std::iter::once(count).chain(tensor.shape[1..].iter().copied()).collect();
    HostTensor { dtype: tensor.dtype, shape, bytes }
}

#[test]
fn a_row_is_the_same_bits_in_every_batch() {
    for name in ROWWISE {
        let graph = open(name, "train");
        let compiled = compiled(&graph, true);
        let case = stored(name, &graph).swap_remove(0);
        let rows = case.expected.as_ref().expect("every case has results")[0].1.shape[0];
        let by_row = |t: &HostTensor| t.shape.first() == Some(&rows);
        let batch = |chosen: &dyn Fn() -> Box<dyn Iterator<Item = usize>>, threads| {
            let given = case.inputs.iter().map(|t| if by_row(t) { take(t, chosen()) } else { t.clone() });
            run(&compiled, &given.collect::<Vec<_>>(), threads)
        };
        let alone: Vec<Vec<HostTensor>> = (0..rows).map(|row| batch(&|| Box::new(std::iter::once(row)), 1)).collect();
        for (count, threads) in [(7, 1), (7, 2), (4096, 1), (4096, 2)] {
            let among = batch(&|| Box::new((0..count).map(|i| i % rows)), threads);
            for (i, output) in among.iter().enumerate() {
                assert_eq!(output.shape[0], count, "{name} out{i}");
                let width = output.bytes.len() / count;
                for (row, bytes) in output.bytes.chunks_exact(width).enumerate() {
                    assert!(
                        bytes == alone[row % rows][i].bytes,
                        "{name} out{i}: row {row} of {count}, {threads} threads"
                    );
                }
            }
        }
    }
}
