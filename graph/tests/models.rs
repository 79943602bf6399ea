//! Exported models, imported and evaluated by the reference interpreter, against the results that PyTorch stored.
//!
//! Every file of weights and inputs holds two cases, `in*`/`out*` and `b_in*`/`b_out*`, with different row counts.

use std::path::PathBuf;

use bytes::Bytes;
use fusewright_graph::import;
use fusewright_graph::interp::{self, Symbols};
use fusewright_graph::tensor::Tensor;
use fusewright_graph::verify::verify;
use fusewright_graph::{DType, Graph};
use safetensors::{Dtype, SafeTensors};

/// Models whose ops are elementwise but for row sums, which leaves one value in a thousand free.
const ELEMENTWISE: [&str; 2] = ["aten_addrms_fp8tok_h4096_bfloat16", "aten_silu_grp128_h12288_bfloat16"];
const LAYER: &str = "qwen3_tiny_layer_bf16";
const FORMS: [&str; 2] = ["train", "core"];
const CASES: [&str; 2] = ["", "b_"];

fn read(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn import(model: &str, form: &str) -> Graph {
    let graph =
        import::pt2(&Bytes::from(read(&format!("{model}.{form}.pt2")))).unwrap_or_else(|e| panic!("{model}: {e}"));
    verify(&graph).unwrap_or_else(|errors| panic!("{model}.{form}: {}", errors[0]));
    graph
}

fn dtype(dtype: Dtype) -> DType {
    match dtype {
        Dtype::F32 => DType::F32,
        Dtype::BF16 => DType::BF16,
        Dtype::F8_E4M3 => DType::F8E4M3,
        Dtype::I64 => DType::I64,
        other => panic!("no fixture has {other:?}"),
    }
}

/// The tensors `{prefix}0`, `{prefix}1`, … of a file.
fn tensors(file: &SafeTensors<'_>, prefix: &str) -> Vec<Tensor> {
    let numbered = (0..).map_while(|i| file.tensor(&format!("{prefix}{i}")).ok());
    let read = |view: safetensors::tensor::TensorView<'_>| {
        Tensor::from_bytes(dtype(view.dtype()), view.shape(), view.data()).expect("a tensor as the file states it")
    };
    numbered.map(read).collect()
}

#[test]
fn elementwise_models_give_the_stored_values() {
    for model in ELEMENTWISE {
        let bytes = read(&format!("{model}.safetensors"));
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        for (form, case) in FORMS.into_iter().flat_map(|form| CASES.map(|case| (form, case))) {
            let (inputs, expected) = (tensors(&file, &format!("{case}in")), tensors(&file, &format!("{case}out")));
            let outputs = interp::run(&import(model, form), &inputs, &Symbols::new());
            let outputs = outputs.unwrap_or_else(|e| panic!("{model}.{form}: {e}"));
            assert!(outputs.len() == expected.len() && outputs.len() >= 2, "{model}.{form}");
            for (i, (output, expected)) in outputs.iter().zip(&expected).enumerate() {
                let difference =
                    output.compare(expected).unwrap_or_else(|e| panic!("{model}.{form} {case}out{i}: {e}"));
                assert!(
                    difference.mismatched * 1000 <= difference.elements,
                    "{model}.{form} {case}out{i}: {difference:?}"
                );
            }
        }
    }
}

/// The decomposed form spells attention out in f32, the other leaves it one op that rounds where it likes: what the
/// first gives, and what PyTorch gave, is right for the second.
#[test]
fn both_forms_of_a_layer_are_one_function() {
    let bytes = read(&format!("{LAYER}.safetensors"));
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let [train, core] = FORMS.map(|form| import(LAYER, form));
    for case in CASES {
        let inputs = tensors(&file, &format!("{case}in"));
        let ranges = interp::enclose(&train, &inputs, &Symbols::new()).unwrap_or_else(|e| panic!("{LAYER}: {e}"));
        let decomposed = interp::run(&core, &inputs, &Symbols::new()).unwrap_or_else(|e| panic!("{LAYER}: {e}"));
        let expected = tensors(&file, &format!("{case}out"));
        assert!(ranges.len() == 1 && decomposed.len() == 1 && expected.len() == 1);
        for foreign in [&decomposed[0], &expected[0]] {
            let report = ranges[0].check(foreign).expect("one type");
            assert!(report.elements >= 192 && report.is_ok(), "{case}: {report:?}");
        }
    }
}
