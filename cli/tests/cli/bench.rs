//! `bench`: suites and what they report.

use serde_json::json;

use crate::support::{call, check_keys, fixture, folder, json, refused, write};

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
fn rows_lie_in_the_range_of_the_symbol() {
    let folder = folder();
    let text = "graph @g(s: 2..40; %x: f32[s, 8]) {\n  %y = exp %x\n  %z = neg %y\n  return %z\n}\n";
    let model = write(&folder, "g.fw", text);
    for (rows, wrong) in [("1", "1"), ("41", "41"), ("8,4096", "4096")] {
        refused(2, &["bench", &model, "--rows", rows], &["symbol `s`", &format!(" is {wrong}, outside 2 to 40")]);
    }
    let measured = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let report = json(&[&["bench"], arguments, &["--json"]].concat());
        report["rows"].as_array().expect("a list").iter().map(|row| row["rows"].clone()).collect()
    };
    assert_eq!(measured(&[&model]), [8, 32], "the usual numbers that the graph takes");
    let [narrow, fixed] = [("narrow.fw", "5..7;"), ("fixed.fw", "")].map(|(name, range)| {
        let symbol = if range.is_empty() { String::new() } else { format!("s: {range}") };
        let extent = if range.is_empty() { "4" } else { "s" };
        write(&folder, name, text.replace("s: 2..40;", &symbol).replace("[s, 8]", &format!("[{extent}, 8]")))
    });
    assert_eq!(measured(&[&narrow]), [5]);
    assert_eq!(measured(&[&fixed]), [serde_json::Value::Null]);
    refused(2, &["bench", &fixed, "--rows", "8"], &["fixed.fw", "`--rows` sets symbols, and the graph has none"]);
    let table = call(&["bench", &fixed]).stdout;
    assert!(table.contains("     -  ") && !table.contains(" at "), "{table}");
}

#[test]
fn ratios_are_to_figures_of_the_same_case_rows_and_threads() {
    let folder = folder();
    let figure = |name: &str, op: &str, rows: u32, threads: u32, us: f64| json!({ "op": op, "dtype": "bf16", "rows": rows, "threads": threads, "impl": name, "median_us": us });
    let results = [
        figure("eager", "moe_sum", 2, 1, 1e9),
        figure("inductor", "moe_sum", 2, 1, 1e9),
        figure("inductor_exact", "moe_sum", 2, 1, 1e6),
        figure("inductor_exact", "moe_sum", 3, 2, 1e6),
        figure("inductor_exact", "softmax", 2, 1, 1e6),
    ];
    let file = write(&folder, "peer.json", serde_json::to_vec(&json!({ "results": results })).expect("JSON"));
    let arguments = ["bench", "--suite", "kernels", "--case", "moe_sum", "--rows", "2,3", "--compare", &file];
    let report = json(&[&arguments[..], &["--json"]].concat());
    let rows = report["rows"].as_array().expect("a list");
    assert!(rows[0]["peer_us"] == 1e6 && rows[1].get("peer_us").is_none(), "{report}");
    let fused = rows[0]["fused_us"].as_f64().expect("a time");
    let ratios = &report["compare"]["ratios"];
    assert!(report["compare"]["peer"] == "inductor_exact" && ratios.as_array().map(Vec::len) == Some(1), "{report}");
    assert!(ratios[0]["rows"] == "more rows" && ratios[0]["count"] == 1, "{report}");
    let worst = &ratios[0]["worst"];
    assert!(worst["name"] == "moe_sum" && worst["rows"] == 2, "{report}");
    for ratio in [&worst["ratio"], &ratios[0]["geometric_mean"]] {
        assert!((ratio.as_f64().expect("a ratio") * fused / 1e6 - 1.0).abs() < 1e-9, "{report}");
    }
    let table = call(&arguments).stdout;
    assert!(table.contains("peer / fused") && table.contains("geometric mean"), "{table}");
    let other = [&arguments[..], &["--threads", "7"]].concat();
    refused(2, &other, &["peer.json", "no figure of inductor_exact or inductor in bf16 on 7 threads"]);
    let empty = write(&folder, "empty.json", "{}");
    refused(2, &["bench", "--suite", "kernels", "--compare", &empty], &["empty.json", "no list `results`"]);
}

#[test]
fn suites_say_what_they_take() {
    for (arguments, words) in [
        (vec!["bench", "--suite", "kernels", "--case", "softmin"], "no case `softmin`; there are rms_norm, "),
        (vec!["bench", "model.pt2", "--suite", "compile", "--case", "x"], "takes no `--case`, `--compare` or `--html`"),
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
    for wrong in [&["--check", "model.pt2"][..], &[], &["--sample", "3"], &["--check", "--sample", "0"]] {
        assert_eq!(call(&[&["bench", "--suite", "matrix"][..], wrong].concat()).code, Some(2), "{wrong:?}");
    }
    let said = call(&["bench", "--suite", "matrix", "--check", "--sample", "1", "--target", "ascend"]);
    assert!(said.code == Some(3) && said.stderr.contains("ascend:910b1"), "{}", said.stderr);
    for ignored in [["--rows", "5"], ["--layers", "4"], ["--threads", "2"]] {
        let said = call(&[&["bench", "--suite", "matrix", "--check", "--sample", "1"][..], &ignored].concat());
        assert!(
            said.code == Some(2) && said.stderr.contains("suite `matrix` takes no"),
            "{ignored:?}: {}",
            said.stderr
        );
    }
    // What a sample or a slice is can be listed.
    let list = |of: &[&str]| call(&[&["bench", "--suite", "matrix", "--list"][..], of].concat()).stdout;
    assert_eq!(list(&["--sample", "3", "--seed", "3"]).lines().count(), 3);
    assert_eq!(
        list(&["--slice", "1..3"]).lines().collect::<Vec<_>>(),
        list(&[]).lines().skip(1).take(2).collect::<Vec<_>>()
    );
    let said = call(&["bench", "--suite", "kernels", "--sample", "3"]);
    assert!(said.code == Some(2) && said.stderr.contains("only suite `matrix` has"), "{}", said.stderr);
}

#[test]
fn a_slice_of_the_matrix_is_checked_by_its_place() {
    let bench = |slice: &str| call(&["bench", "--suite", "matrix", "--check", "--json", "--slice", slice]);
    let report = json(&["bench", "--suite", "matrix", "--check", "--json", "--slice", "100..103"]);
    assert!(report["checked"] == 3 && report["failed"].as_array().map(Vec::len) == Some(0), "{report}");
    for (slice, words) in [
        ("5..4", "4 is not above 5"),
        ("5..5", "5 is not above 5"),
        ("5", "expected A..B"),
        ("0..1000000000", "the list has"),
    ] {
        let said = bench(slice);
        assert!(said.code == Some(2) && said.stderr.contains(words), "{slice}: {}", said.stderr);
    }
}

#[test]
fn a_page_holds_every_case_and_needs_nothing_else() {
    let folder = folder();
    let text = "graph @g(s: 1..; %x: f32[s, 8]) {\n  %y = exp %x\n  %z = neg %y\n  return %z\n}\n";
    let (model, page) = (write(&folder, "g.fw", text), folder.path().join("page.html").display().to_string());
    let said = call(&["bench", &model, "--rows", "1,3", "--html", &page]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), format!("wrote {page}\n").as_str()));
    let html = std::fs::read_to_string(&page).expect("the page is written");
    assert_eq!((html.matches("<section>").count(), html.matches("<svg").count()), (1, 2));
    for loads in ["<script", "src=", "@import", "<link", "url("] {
        assert!(!html.contains(loads), "the page loads something by `{loads}`");
    }
    refused(
        2,
        &["bench", &model, "--rows", "1", "--html", "/no/such/folder/page.html"],
        &["/no/such/folder/page.html"],
    );
    refused(2, &["bench", &model, "--html", &page, "--json"], &["--html", "--json"]);
}

#[test]
#[cfg(feature = "cuda")]
fn kinds_of_schedules_are_listed_without_a_gpu() {
    refused(2, &["bench", "--suite", "kinds"], &["`kinds` is of GPUs", "--target cuda"]);
    refused(2, &["bench", "--suite", "kinds", "--target", "cuda", "--case", "A"], &["takes no MODEL"]);
    let report = json(&["bench", "--suite", "kinds", "--target", "cuda:sm_90", "--list", "--json"]);
    let kinds = report["kinds"].as_array().expect("a list");
    assert!(kinds.iter().all(|kind| kind["dependent"].is_null() && kind["kind"].is_string()), "{report}");
    assert!(kinds.iter().any(|kind| kind["kind"].as_str().is_some_and(|words| words.contains("packed"))), "{report}");
}

#[test]
fn launches_are_measured_on_gpus_alone() {
    refused(2, &["bench", "--suite", "launch"], &["`launch` is of GPUs", "--target cuda"]);
    refused(2, &["bench", "--suite", "launch", "--target", "cuda", "--threads", "2"], &["takes no MODEL"]);
    refused(2, &["bench", "--suite", "launch", "--target", "cuda", "--case", "nothing"], &["no case `nothing`"]);
    let names = call(&["bench", "--suite", "launch", "--list"]).stdout;
    assert!(names.lines().any(|name| name == "D@4096"), "{names}");
}

#[test]
fn a_model_on_a_gpu_is_measured_as_a_whole() {
    let folder = folder();
    let text = "graph @g(s: 2..40; %x: f32[s, 8]) {\n  %y = exp %x\n  return %y\n}\n";
    let model = write(&folder, "g.fw", text);
    let fixed = write(&folder, "fixed.fw", text.replace("s: 2..40;", "").replace("[s, 8]", "[4, 8]"));
    let on_gpu = |arguments: &[&str], words: &[&str]| {
        refused(2, &[&["bench", "--target", "cuda"], arguments].concat(), words);
    };
    for option in ["--list", "--check", "--relaxed"] {
        on_gpu(&[&model, option], &["without", option]);
    }
    on_gpu(&[&model, "--case", "0:row"], &["without `--case`"]);
    on_gpu(&[&model, "--rows", "2,41"], &["g.fw", "symbol `s` is 41, outside 2 to 40"]);
    on_gpu(&[&fixed, "--rows", "2"], &["fixed.fw", "`--rows` sets symbols, and the graph has none"]);
    on_gpu(&[&model, "--rows", "2", "--inputs", "x.safetensors"], &["--rows", "--inputs"]);
    on_gpu(&[&model, "--inputs", "x.safetensors"], &["x.safetensors"]);
    refused(2, &["bench", &model, "--inputs", "x.safetensors"], &["only a MODEL on a GPU has `--inputs`"]);
    refused(2, &["bench", &model, "--out", "x.json"], &["only what is measured on a GPU has `--out`"]);
}

#[test]
fn estimates_name_what_bounds_a_kernel_and_say_that_nothing_was_measured() {
    let folder = folder();
    let all = ["bench", "--suite", "kernels", "--target", "ascend:910b1", "--estimate", "--rows", "1,4096"];
    let text = call(&all);
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    assert!(text.stdout.starts_with("estimate, never measured"), "{}", text.stdout);
    let report = json(&[&all[..], &["--json"]].concat());
    check_keys(&report, &["target", "is", "basis", "rows"]);
    assert_eq!(report["is"], "estimate, never measured");
    let norm = |rows: u64| {
        let found = report["rows"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|r| r["name"] == "add_rms_norm" && r["rows"] == rows);
        found.expect("it has a kernel").clone()
    };
    check_keys(
        &norm(1),
        &["loaded_bytes", "stored_bytes", "vector_instructions", "repeats", "buffer_bytes", "us", "bound"],
    );
    assert_eq!((norm(1)["bound"].as_str(), norm(4096)["bound"].as_str()), (Some("launch"), Some("memory")));
    let page = folder.path().join("page.html").display().to_string();
    assert_eq!(call(&[&all[..], &["--html", &page]].concat()).code, Some(0));
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.contains("never measured") && !page.contains("<script"), "{page}");
    // Another bandwidth is another time; a chip without one has none.
    let us = |more: &[&str]| {
        let target =
            ["bench", "--suite", "kernels", "--case", "softmax", "--rows", "4096", "--estimate", "--json", "--target"];
        json(&[&target[..], more].concat())["rows"][0]["us"].as_f64()
    };
    let (documented, half) = (us(&["ascend:910b1"]), us(&["ascend:910b1", "--bandwidth", "800"]));
    assert!(documented.zip(half).is_some_and(|(a, b)| b > 1.9 * a && b < 2.1 * a), "{documented:?} {half:?}");
    assert_eq!(us(&["ascend:910b4"]), None);
    let model = fixture("qwen3_tiny_layer_bf16.train.pt2");
    let whole = call(&["bench", &model, "--target", "ascend:910b1", "--estimate", "--rows", "64"]);
    assert!(whole.code == Some(0) && whole.stdout.contains("for 5 of 6 kernels"), "{}{}", whole.stdout, whole.stderr);
    refused(2, &["bench", &model, "--estimate"], &["--target ascend"]);
    refused(2, &["bench", &model, "--target", "ascend", "--estimate", "--threads", "2"], &["`--threads`"]);
    refused(2, &["bench", "--suite", "kernels", "--bandwidth", "5"], &["`--bandwidth`"]);
    refused(2, &["bench", "--suite", "compile", "--target", "ascend", "--estimate"], &["suite"]);
}
