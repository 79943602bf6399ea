//! `bench`: suites and what they report.

use crate::support::{call, check_keys, fixture, json};

#[test]
fn equal_layers_are_compiled_once() {
    let model = fixture("qwen3_tiny_layer_bf16.train.pt2");
    let report = |layers: &str| json(&["bench", &model, "--suite", "compile", "--layers", layers, "--json"]);
    let figure = |report: &serde_json::Value, key: &str| report[key].as_u64().expect("a number");
    let (two, five) = (report("2"), report("5"));
    assert_eq!(figure(&five, "layers"), 5);
    assert_eq!(figure(&five, "compiled"), figure(&five, "distinct"), "{five}");
    assert_eq!(figure(&five, "compiled"), figure(&two, "compiled"), "{two} {five}");
    // Every further layer adds its regions, but shares what depends on positions alone.
    assert!(figure(&five, "regions") >= figure(&two, "regions") + 3 * 4, "{two} {five}");
    for stage in ["import", "passes", "regions", "kernels"] {
        assert!(five["us"][stage].is_u64(), "{five}");
    }
}

#[test]
fn suites_say_what_they_take() {
    for (arguments, words) in [
        (vec!["bench", "--suite", "compile"], "needs a MODEL"),
        (vec!["bench", "--suite", "nonsense"], "no suite `nonsense`"),
        (vec!["bench", "model.pt2", "--suite", "kernels"], "takes no MODEL"),
    ] {
        let said = call(&arguments);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn a_sample_of_the_matrix_passes() {
    let report = json(&["bench", "--suite", "matrix", "--check", "--sample", "40", "--seed", "3", "--json"]);
    check_keys(&report, &["combinations", "checked", "seed", "elements", "single_valued", "failed"]);
    assert!(report["combinations"].as_u64() >= Some(1500) && report["checked"] == 40, "{report}");
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(0), "{report}");
    // An approximate function lies in few of them.
    assert!(report["single_valued"].as_u64() > report["elements"].as_u64().map(|n| n / 2), "{report}");
    for wrong in [&["--check", "model.pt2"][..], &[], &["--sample", "3"]] {
        assert_eq!(call(&[&["bench", "--suite", "matrix"][..], wrong].concat()).code, Some(2), "{wrong:?}");
    }
}
