//! `bench`: suites and what they report.

use crate::support::{call, fixture, json};

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
