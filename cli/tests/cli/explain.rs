//! `explain`: keys of the report, expectations.

use crate::support::{MODELS, call, check_keys, fixture, json};

#[test]
fn the_report_has_its_keys_for_every_model() {
    for model in MODELS {
        let report = json(&["explain", &fixture(&format!("{model}.core.pt2")), "--json"]);
        check_keys(&report, &["regions", "patterns", "refused", "passes"]);
        let items = |key: &str| report[key].as_array().expect("a list").clone();
        assert!(!items("regions").is_empty() && !items("passes").is_empty() && report["patterns"].is_object());
        for region in items("regions") {
            check_keys(&region, &["name", "kind", "ops", "bytes_fused", "bytes_unfused", "kernel_key"]);
            assert!(region["bytes_fused"].as_u64() > Some(0) && region["bytes_unfused"].is_u64(), "{region}");
            assert_eq!(region["kernel_key"].as_str().map(str::len), Some(64));
            assert!(!region["ops"].as_array().expect("a list").is_empty());
        }
        for refusal in items("refused") {
            check_keys(&refusal, &["op", "origin", "reason"]);
            assert_ne!(refusal["reason"], "");
        }
        for pass in items("passes") {
            check_keys(&pass, &["name", "changed", "us"]);
        }
    }
}

#[test]
fn expectations_decide_the_exit_code() {
    let path = fixture("aten_addrms_fp8tok_h4096_bfloat16.train.pt2");
    let expect = |expectations: &[&str]| {
        let flags: Vec<&str> = expectations.iter().flat_map(|e| ["--expect", e]).collect();
        call(&[&["explain", &path][..], &flags].concat())
    };
    assert_eq!(expect(&["add_rms_norm.fp8_token=1", "rms_norm=0", "silu_mul=0"]).code, Some(0));
    let failed = expect(&["add_rms_norm.fp8_token=1", "rms_norm=2"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("expected 2 of `rms_norm`, found 0"), "{}", failed.stderr);
    for wrong in ["rms_norm", "rms_norm=", "rms_norm=-1", "rms_norm=x"] {
        assert_eq!(expect(&[wrong]).code, Some(2), "{wrong}");
    }
}
