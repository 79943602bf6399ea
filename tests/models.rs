//! Exported models through the whole chain: imported, fused, compiled for the CPU, run, and judged by the intervals of
//! their own graphs.
//!
//! Every file of inputs holds two cases with different numbers of rows; PyTorch's results must lie in the same
//! intervals as ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fusewright::check::{self, Case, cases, compare};
use fusewright::explain::explain;
use fusewright::{Compiled, Compiler, HostTensor, Options, Target, compile, graph::Graph, model, read_safetensors};

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
    let options = Options { fuse, ..Options::default() };
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

/// Tensors overwritten through views, written by torch 2.9: eager results, and the inputs that come out changed.
#[test]
fn overwritten_tensors_have_their_new_values() {
    let mut updated = Vec::new();
    for form in FORMS {
        let graph = open("overwritten_views", form);
        let names = check::output_names(&graph);
        assert_eq!(names[..3], ["new_b_cache", "new_x", "out0"], "{form}");
        for case in stored("overwritten_views", &graph) {
            let compiled = compile(&graph, &Target::Cpu, &Options::default()).unwrap_or_else(|e| panic!("{form}: {e}"));
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
