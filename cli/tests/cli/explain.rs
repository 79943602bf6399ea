//! `explain`: keys of the report, expectations.

use crate::support::{MODELS, call, check_keys, fixture, folder, json, refused, write};

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

#[test]
fn expectations_of_names_that_nothing_has_are_refused() {
    let path = fixture("aten_addrms_fp8tok_h4096_bfloat16.train.pt2");
    for (wrong, nearest) in [
        ("rmsnorm=0", "`rms_norm`"),
        ("add_rms_norm.fp8_tokens=1", "`add_rms_norm.fp8_token`"),
        ("rms_norm.fp8_group=1", "`rms_norm.fp8_group128`"),
        ("row=1", "`rope`"),
    ] {
        refused(2, &["explain", &path, "--expect", wrong], &[wrong.split('=').next().expect("a name"), nearest]);
    }
    // The user's own patterns are among the names, however far they are from the wrong one.
    let folder = folder();
    let own = "exact my_own_long_name: (x: float) a = neg x; y = neg a; yield y => (x) yield x\n";
    let patterns = write(&folder, "own.fw", own);
    for wrong in ["nope=1", "rmsnorm=0"] {
        let arguments = ["explain", &path, "--patterns", &patterns, "--expect", wrong];
        refused(2, &arguments, &["the nearest names are", "your patterns are `my_own_long_name`"]);
    }
    for known in ["rms_norm.fp8_group64=0", "rope.kv=0", "quant.int8_token=0"] {
        assert_eq!(call(&["explain", &path, "--expect", known]).code, Some(0), "{known}");
    }
}

#[test]
fn every_region_is_compiled_for_the_target() {
    let path = fixture("aten_addrms_fp8tok_h4096_bfloat16.core.pt2");
    let region = |target: &str| {
        let report = json(&["explain", &path, "--json", "--target", target]);
        assert_eq!(report["regions"].as_array().map(Vec::len), Some(1));
        report["regions"][0].clone()
    };
    let cpu = region("cpu");
    assert!(cpu["code_bytes"].as_u64() > Some(0) && cpu["no_kernel"].is_null(), "{cpu}");
    assert_eq!(cpu["artifact_key"].as_str().map(str::len), Some(64));
    // The vector unit of 310P does not convert bf16.
    let refused = region("ascend:310p3");
    assert!(refused["code_bytes"].is_null() && refused["artifact_key"].is_null(), "{refused}");
    assert!(refused["no_kernel"].as_str().is_some_and(|reason| reason.contains("bf16")), "{refused}");
    assert_eq!(refused["kernel_key"], cpu["kernel_key"]);
    let said = call(&["explain", &path, "--target", "ascend:310p3"]).stdout;
    assert!(said.contains("for ascend:310p3: 0 of 1 regions have a kernel"), "{said}");
    assert!(said.contains("  no kernel: add_rms_norm.fp8_token: ascend-c: "), "{said}");
    assert!(call(&["explain", &path]).stdout.contains("for cpu: 1 of 1 regions have a kernel"));
}

#[test]
fn verbose_prints_passes_and_stages_on_standard_error() {
    let path = fixture("aten_addrms_fp8tok_h4096_bfloat16.core.pt2");
    for command in ["explain", "run"] {
        let said = call(&[command, &path, "-v"]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert!(said.stderr.contains("pass rewrite: ") && said.stderr.contains("pass dce: "), "{}", said.stderr);
        assert!(said.stderr.contains("kernel add_rms_norm.fp8_token: lowered "), "{}", said.stderr);
        assert_eq!(call(&[command, &path]).stderr, "");
    }
}

#[test]
fn the_page_has_a_panel_behind_every_box() {
    let folder = folder();
    let path = folder.path().join("page.html");
    let model = fixture("qwen3_tiny_layer_bf16.train.pt2");
    let written = call(&["explain", &model, "--html", &path.display().to_string()]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let page = std::fs::read_to_string(&path).expect("a page");
    let after = |mark: &str| -> Vec<String> {
        page.split(mark).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    let (mut links, panels) = (after("href=\"#"), after("class=\"panel\" id=\""));
    // Each panel leads back.
    assert_eq!(links.iter().filter(|link| *link == "graph").count(), panels.len());
    links.retain(|link| link != "graph");
    assert!(links.iter().all(|link| panels.contains(link)), "{links:?} {panels:?}");
    assert!(panels.iter().all(|panel| links.contains(panel)), "{links:?} {panels:?}");
    let report = json(&["explain", &model, "--json"]);
    for region in report["regions"].as_array().expect("a list") {
        assert!(links.contains(&format!("k-{}", region["kernel_key"].as_str().expect("text"))), "{region}");
    }
    // Kernel text, and nothing that a browser would fetch.
    assert!(page.contains("kernel ") && page.contains("order tree("));
    assert!(!["src=", "<link", "@import", "url("].iter().any(|mark| page.contains(mark)));
    assert_eq!(page.matches("<script").count(), 1);
    for button in ["in", "out", "fit", "width", "save"] {
        assert!(page.contains(&format!("data-do=\"{button}\"")), "{button}");
    }
    // The drawing is there before the script is, and a layer alone repeats nothing.
    assert!(page.find("<svg") < page.find("<script") && !page.contains("id=\"every\""));
    // A folder that cannot be written to is the caller's mistake, with the path in the message.
    let missing = call(&["explain", &model, "--html", "/no/such/folder/page.html"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("/no/such/folder"), "{}", missing.stderr);
}

#[test]
fn the_picture_of_the_front_page_is_what_explain_draws() {
    let folder = folder();
    let path = folder.path().join("layer.svg");
    let model = fixture("qwen3_tiny_layer_bf16.train.pt2");
    let drawn = call(&["explain", &model, "--svg", &path.display().to_string()]);
    assert_eq!(drawn.code, Some(0), "{}", drawn.stderr);
    let picture = std::fs::read_to_string(&path).expect("a picture");
    let shown = include_str!("../../../docs/images/layer.svg");
    assert_eq!(picture, shown, "run `fusewright explain {model} --svg docs/images/layer.svg`");
    let front = include_str!("../../../README.md");
    assert!(picture.contains("17 kernels; Fused: 5 kernels") && front.contains("17 kernels become 5"));
    for region in json(&["explain", &model, "--json"])["regions"].as_array().expect("a list") {
        let name = region["name"].as_str().expect("text");
        let ops = region["ops"].as_array().expect("a list").len();
        assert!(ops == 1 || front.contains(&format!("\n{name} ")), "README.md does not show {name}");
    }
    let missing = call(&["explain", &model, "--svg", "/no/such/folder/layer.svg"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("/no/such/folder"), "{}", missing.stderr);
    refused(2, &["explain", &model, "--svg", "a.svg", "--json"], &["--svg", "--json"]);
}

/// 64 layers are drawn once, on the page and in the picture, and counted 64 times.
#[test]
fn layers_that_repeat_are_drawn_once() {
    let folder = folder();
    let layer = |i: usize| {
        format!(
            "  %n{i} = rms_norm %h{i}, %w {{eps = 1e-6, round = once}}\n  %p{i} = matmul %n{i}, %m {{out = f32}}\n  %h{} = add %h{i}, %p{i}\n",
            i + 1
        )
    };
    let layers: String = (0..64).map(layer).collect();
    let text = format!(
        "graph @deep(s: 1..; %h0: f32[s, 64], %w: f32[64], %m: f32[64, 64]) {{\n{layers}  %y = matmul %h64, %m {{out = f32}}\n  return %y\n}}\n"
    );
    let model = write(&folder, "deep.fw", text);
    let [page, picture] = ["page.html", "picture.svg"].map(|name| folder.path().join(name).display().to_string());
    let drawn = call(&["explain", &model, "--html", &page, "--svg", &picture]);
    assert_eq!(drawn.code, Some(0), "{}", drawn.stderr);
    let page = std::fs::read_to_string(page).expect("a page");
    let graphs: Vec<&str> = page.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next()).collect();
    let [folded, whole] = graphs.as_slice() else { panic!("{} drawings", graphs.len()) };
    let links = |graph: &str| graph.matches("<a href=").count();
    // The norm, its product, 63 times both with the sum in front, the last sum and its product.
    assert_eq!((links(folded), links(whole)), (6, 2 + 2 * 63 + 2));
    assert!(folded.contains(">63 ×</text>") && !whole.contains("63 ×"), "{folded}");
    assert!(folded.contains("2 steps are run 63 times, each on what the one before gives"), "{folded}");
    assert!(page.contains("id=\"every\"") && page.len() < 1 << 20, "{} bytes", page.len());
    // Products that are alike share a panel, which says where each comes from.
    assert!(page.contains("<summary>65 of them</summary>"), "{page}");
    let picture = std::fs::read_to_string(picture).expect("a picture");
    assert!(picture.contains("One kernel per op: 128 kernels") && picture.contains("Fused: 65 kernels"), "{picture}");
    assert!(picture.contains(">63 times</text>") && picture.matches("<g class=").count() == 13, "{picture}");
}

#[test]
fn relaxed_mode_says_which_roundings_it_dropped() {
    let folder = folder();
    let text = "graph @twice(s: 1..; %x: f32[s, 64]) {\n  %a = exp %x\n  %b = cast %a {to = bf16}\n  \
        %c = cast %b {to = f32}\n  %d = mul %c, %c\n  return %d\n}\n";
    let graph = write(&folder, "twice.fw", text);
    let exact = json(&["explain", &graph, "--json"]);
    let relaxed = json(&["explain", &graph, "--json", "--relaxed"]);
    let dropped = |report: &serde_json::Value| report["regions"][0]["relaxed"].as_array().expect("a list").clone();
    assert!(dropped(&exact).is_empty());
    assert_eq!(dropped(&relaxed).len(), 1, "{relaxed}");
    assert_eq!((&dropped(&relaxed)[0]["rewrite"], &dropped(&relaxed)[0]["times"]), (&"drop_bf16".into(), &1.into()));
    assert_ne!(exact["regions"][0]["kernel_key"], relaxed["regions"][0]["kernel_key"]);
    assert_ne!(exact["pipeline"], relaxed["pipeline"]);
    let table = call(&["explain", &graph, "--relaxed"]).stdout;
    assert!(table.contains("roundings that relaxed mode changed") && table.contains("drop_bf16"), "{table}");
    assert!(!call(&["explain", &graph]).stdout.contains("relaxed"));
    // Where nothing is dropped, nothing changes.
    let plain = write(&folder, "plain.fw", text.replace("bf16", "f64"));
    let [exact, relaxed] =
        [&["--json"][..], &["--json", "--relaxed"]].map(|f| json(&[&["explain", &plain], f].concat()));
    assert_eq!(exact["regions"], relaxed["regions"]);
}

#[test]
fn a_pipeline_is_a_file() {
    let folder = folder();
    let model = fixture("qwen3_tiny_layer_bf16.train.pt2");
    let file = write(&folder, "p.toml", "passes = [\"rewrite\", \"cse\", \"dce\"]\n");
    let report = json(&["explain", &model, "--json", "--pipeline", &file]);
    let names: Vec<_> = report["passes"].as_array().expect("a list").iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names, ["rewrite", "cse", "dce"]);
    let off = write(&folder, "off.toml", "enabled = false\n");
    let report = json(&["explain", &model, "--json", "--pipeline", &off]);
    assert_eq!(report["passes"].as_array().map(Vec::len), Some(1));
    // One op of the file is one region.
    let count = |report: &serde_json::Value| report["regions"].as_array().map_or(0, Vec::len);
    assert!(count(&report) > 2 * count(&json(&["explain", &model, "--json"])), "{report}");
    let wrong = write(&folder, "wrong.toml", "passes = [\"raise\", \"rewrite\", \"dce\"]\n");
    refused(2, &["explain", &model, "--pipeline", &wrong], &["wrong.toml", "`raise` may not come before `rewrite`"]);
    refused(2, &["run", &model, "--pipeline", "nowhere.toml"], &["nowhere.toml"]);
}

#[test]
fn what_has_no_kernel_is_a_refusal_and_runs_by_reference() {
    let folder = folder();
    let model = write(&folder, "exp.fw", "graph @g(%x: f64[4]) {\n  %y = exp %x\n  return %y\n}\n");
    let report = json(&["explain", &model, "--json"]);
    let reason = report["regions"][0]["no_kernel"].as_str().expect("a reason");
    assert!(reason.contains("exp") && reason.contains("f64"), "{report}");
    assert!(!reason.contains("internal"), "{reason}");
    assert_eq!(call(&["run", &model]).code, Some(0));
}

/// An op of the host framework is said with its name and with what its import refused.
#[test]
fn an_op_that_is_not_taken_apart_says_which_and_why() {
    let folder = folder();
    let why = "`group_shape` is [1, 64]: a scale per group";
    let graph = format!(
        "graph @g(%x: f32[2, 64], %w: f32[2, 1]) {{\n  %y = neg %x\n  %q = opaque %y, %w {{target = \"_C.fp8_quant\", \
         attrs = {{reason = \"{why}\"}}, results = [f8e4m3[2, 64]]}}\n  return %q\n}}\n"
    );
    let model = write(&folder, "g.fw", &graph);
    let said = format!("an op of the host framework is not taken apart: `_C.fp8_quant`: {why}");
    let report = json(&["explain", &model, "--json"]);
    assert_eq!(report["refused"][0]["reason"], said, "{report}");
    assert_eq!(report["regions"][0]["ends"][0]["reason"], said, "{report}");
    assert_eq!(call(&["explain", &model]).stdout.matches(&said).count(), 2);
    let page = folder.path().join("g.html").display().to_string();
    assert_eq!(call(&["explain", &model, "--html", &page]).code, Some(0));
    let html = std::fs::read_to_string(&page).expect("the page is written");
    assert!(html.matches(why).count() >= 2, "{html}");
    refused(2, &["run", &model], &["`_C.fp8_quant`", why]);
}

/// Indices that regions compute for themselves, and that a gather of its own reads too: no op is left to the interpreter.
#[test]
fn places_of_a_gather_by_itself_are_computed_by_its_kernel() {
    let folder = folder();
    let text = "graph @g(s: 2..64; %x: i64[s, 3], %y: i64[s]) {\n  %n = iota {type = i64[s], axis = 0}\n  \
                %z = literal i64 0\n  %size = size_of {dim = s}\n  %m = sub %n, %size\n  %neg = lt %m, %z\n  \
                %up = add %m, %size\n  %at = select %neg, %up, %m\n  %a = gather %y, %at {axis = 0}\n  \
                %b = gather %n, %at {axis = 0}\n  %same = eq %a, %y\n  return %same, %b, %n\n}\n";
    let path = write(&folder, "places.fw", text);
    let [said, ran] = [["explain", &path, "--json"], ["run", &path, "--json"]].map(|command| json(&command));
    assert_eq!((&said["references"], &said["by_reference"]), (&0.into(), &serde_json::json!([])), "{said}");
    assert_eq!((&ran["unfused_ops"], &ran["fallbacks"]), (&0.into(), &serde_json::json!([])), "{ran}");
    let iota = said["refused"].as_array().expect("a list").iter().find(|r| r["op"] == "iota").expect("it is listed");
    assert_eq!(iota["reason"], "it is stored: the graph returns it, or a reader takes it from memory", "{said}");
}

/// No library multiplies integers: `explain` says what `run` does, in the table, in JSON and on the page.
#[test]
fn what_the_interpreter_computes_is_named_with_its_reason() {
    let folder = folder();
    let text = "graph @g(s: 1..8; %x: i8[s, 16], %w: i8[16, 4]) {\n  %y = matmul %x, %w {out = i32}\n  return %y\n}\n";
    let path = write(&folder, "g.fw", text);
    let [said, ran] = [["explain", &path, "--json"], ["run", &path, "--json"]].map(|command| json(&command));
    assert_eq!(
        (&said["references"], &said["matmuls"], &ran["unfused_ops"]),
        (&1.into(), &0.into(), &1.into()),
        "{said}"
    );
    assert_eq!(said["by_reference"], ran["fallbacks"]);
    assert_eq!(said["by_reference"][0]["reason"], "no library takes operands in i8, i8", "{said}");
    assert_eq!(said["refused"][0]["reason"], "a matrix product is a step of its own", "{said}");
    let table = call(&["explain", &path]).stdout;
    assert!(
        table.contains("  by the interpreter: matmul [") && table.contains("]: no library takes operands in i8, i8"),
        "{table}"
    );
    let page = folder.path().join("page.html").display().to_string();
    assert_eq!(call(&["explain", &path, "--html", &page]).code, Some(0));
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("class=\"reference\"") && page.contains("<caption>By the interpreter</caption>"), "{page}");
}

#[test]
fn collectives_are_steps_of_their_own() {
    let folder = folder();
    let graph = "graph @g(s: 1..; %x: bf16[s, 64], %r: bf16[s, 64], %w: bf16[64]) {\n  %a = all_reduce %x {group = \"tp\"RANKS}\n  \
                 %h = add %a, %r\n  %n = rms_norm %h, %w {eps = 1e-6, round = once}\n  return %n, %h\n}\n";
    let path = write(&folder, "g.fw", graph.replace("RANKS", ", ranks = 4"));
    let why = "a collective waits for other ranks";
    let report = json(&["explain", &path, "--json", "--expect", "add_rms_norm=1"]);
    // Scripts read the key `source`.
    assert_eq!(report["regions"][0].get("source"), Some(&serde_json::Value::Null), "{report}");
    assert_eq!(
        (report["refused"][0]["op"].as_str(), report["refused"][0]["reason"].as_str()),
        (Some("all_reduce"), Some(why))
    );
    let said = call(&["explain", &path]).stdout;
    assert_eq!(said.matches(why).count(), 2, "{said}");
    refused(2, &["run", &path], &["`all_reduce` over group `tp` of 4 ranks", "one device"]);
    refused(2, &["run", &path, "--group", "tp=1"], &["no collective over group `tp` lacks its number of ranks"]);

    // Given the number of ranks, a group of one is nobody to wait for.
    let path = write(&folder, "unknown.fw", graph.replace("RANKS", ""));
    refused(2, &["run", &path], &["group `tp` of an unknown number of ranks"]);
    assert_eq!(call(&["run", &path, "--group", "tp=1"]).code, Some(0));
    let report = json(&["explain", &path, "--json", "--group", "tp=1"]);
    assert!(report["refused"].as_array().is_some_and(Vec::is_empty), "{report}");
    for wrong in ["tp", "tp=", "tp=0", "tp=x"] {
        refused(2, &["run", &path, "--group", wrong], &["NAME=RANKS"]);
    }
    refused(2, &["opt", &path, "--group", "tp=1"], &["`opt` takes no `--group`"]);
}

#[test]
fn regions_that_share_nothing_say_so() {
    let folder = folder();
    let graph = "graph @g(s: 0..; %x: f32[s, 4], %y: f32[s, 4], %z: f32[s, 4]) {\n  %a = mul %x, %x\n  \
                 %b = mul %y, %y\n  %c = exp %z\n  return %a, %b, %c\n}\n";
    let path = write(&folder, "g.fw", graph);
    let report = json(&["explain", &path, "--json"]);
    let regions = report["regions"].as_array().expect("a list");
    assert_eq!(regions.len(), 3);
    for region in regions {
        assert_eq!(region["ends"][0]["reason"], "neither region reads what the other computes", "{region}");
    }
    let said = call(&["explain", &path]).stdout;
    assert_eq!(said.matches("neither region reads what the other computes").count(), 3, "{said}");
}

/// An op that `run` refuses is none of the interpreter.
#[test]
fn an_op_that_cannot_be_run_is_said_to_be_so() {
    let folder = folder();
    let opaque = r#"opaque %a {target = "custom.op", attrs = {}, results = [f32[s, 4]]}"#;
    let collective = r#"all_reduce %a {group = "tp", ranks = 2}"#;
    for (op, why) in [(opaque, "only its framework can run it"), (collective, "it waits for other ranks")] {
        let text = format!(
            "graph @g(s: 1..8; %x: f32[s, 4]) {{\n  %a = exp %x\n  %b = {op}\n  %c = matmul %b, %b {{out = f32, transpose_b}}\n  \
             return %c\n}}\n"
        );
        let path = write(&folder, "g.fw", text);
        refused(2, &["run", &path], &["cannot be run"]);
        let said = json(&["explain", &path, "--json"]);
        assert_eq!((&said["references"], &said["by_reference"]), (&0.into(), &serde_json::json!([])), "{said}");
        let [listed] = &said["not_run"].as_array().expect("a list")[..] else { panic!("{said}") };
        assert!(listed["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{listed}");
        let table = call(&["explain", &path]).stdout;
        assert!(
            table.contains("0 ops by the interpreter; 1 op cannot be run here, and `run` refuses the model"),
            "{table}"
        );
        assert!(table.contains("  not run here: ") && !table.contains("  by the interpreter: "), "{table}");
        let page = folder.path().join("page.html").display().to_string();
        assert_eq!(call(&["explain", &path, "--html", &page]).code, Some(0));
        let page = std::fs::read_to_string(&page).expect("it is written");
        assert!(page.contains("Not run here") && !page.contains("By the interpreter"));
    }
}

/// The backend has no exponential of f64, so the region runs op by op: what is said of it is what `run` does.
#[test]
fn a_region_without_a_kernel_says_what_runs_instead() {
    let folder = folder();
    let text = "graph @g(s: 1..8; %x: f64[s, 4], %y: f64[s, 4]) {\n  %a = add %x, %y\n  %b = exp %a\n  \
                %c = mul %b, %y\n  return %c\n}\n";
    let path = write(&folder, "g.fw", text);
    let (said, ran) = (json(&["explain", &path, "--json"]), json(&["run", &path, "--json"]));
    for key in ["kernels", "copies"] {
        assert_eq!(said[key], ran[key], "{key}");
    }
    assert_eq!((&said["kernels"], &said["references"]), (&2.into(), &1.into()), "{said}");
    let [region] = &said["regions"].as_array().expect("a list")[..] else { panic!("{said}") };
    assert!(region["no_kernel"].as_str().is_some_and(|why| why.contains("exp")), "{region}");
    let instead = region["instead"].as_array().expect("a list");
    let by: Vec<_> = instead.iter().map(|op| op["by"].as_str().expect("text")).collect();
    assert_eq!(by, ["kernel", "reference", "kernel"], "{region}");
    assert!(instead[0]["code_bytes"].as_u64() > Some(0) && instead[1]["code_bytes"].is_null(), "{region}");
    assert!(instead[1]["no_kernel"].as_str().is_some_and(|why| why.contains("f64")), "{region}");
    assert!(instead[0]["no_kernel"].is_null(), "{region}");
    let table = call(&["explain", &path]).stdout;
    assert!(table.contains("    instead: add ") && table.contains("a call runs 2 kernels, "), "{table}");
    for model in MODELS {
        let path = fixture(&format!("{model}.core.pt2"));
        let report = json(&["explain", &path, "--json"]);
        let ran = json(&["run", &path, "--json", "--check", &fixture(&format!("{model}.safetensors"))]);
        assert_eq!(report["kernels"], ran["kernels"], "{model}");
        assert_eq!(report["copies"], ran["copies"], "{model}");
    }
}

#[test]
fn outputs_that_overwrite_inputs_are_listed_with_the_reasons_of_the_others() {
    let folder = folder();
    let norm = "rms_norm %h, %w {eps = 1e-6, round = once}";
    let residual = format!(
        "graph @residual(s: 0..; %x: f32[s, 48], %r: f32[s, 48], %w: f32[48]) {{\n  %h = add %x, %r\n  \
         %y = {norm}\n  return %y, %h updates %r\n}}\n"
    );
    let path = write(&folder, "residual.fw", residual);
    let report = json(&["explain", &path, "--json"]);
    let expected = serde_json::json!([
        { "output": "output `new_r`", "overwrites": "input `r`", "in_place": true, "reason": null }
    ]);
    assert_eq!(report["regions"][0]["in_place"], expected, "{report}");
    let ran = json(&["run", &path, "--json"]);
    assert_eq!(report["updates"], ran["cases"][0]["updates"]);
    assert_eq!(report["update_copies"], ran["cases"][0]["update_copies"]);
    assert_eq!(report["updates"].as_array().map(Vec::len), Some(1));
    let page = folder.path().join("page.html").display().to_string();
    assert_eq!(call(&["explain", &path, "--html", &page]).code, Some(0));
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("<td>output `new_r`</td><td>input `r`</td><td>in place</td>"), "{page}");
    // Rows read what other rows write.
    let turned = "graph @turned(%x: f32[8, 8], %r: f32[8, 8]) {\n  %t = permute %r {perm = [1, 0]}\n  \
                  %h = add %x, %t\n  return %h updates %r\n}\n";
    let path = write(&folder, "turned.fw", turned);
    let report = json(&["explain", &path, "--json"]);
    let said = &report["regions"][0]["in_place"][0];
    let why = "a row reads elements of input `r` that other rows may overwrite";
    assert_eq!((&said["in_place"], &said["reason"]), (&false.into(), &why.into()), "{report}");
    assert_eq!(report["update_copies"][0]["bytes"], 8 * 8 * 4);
    assert_eq!(report["update_copies"][0]["of"], "the new value of input `r`, made by region 1 `row`");
    let table = call(&["explain", &path]).stdout;
    assert!(table.contains("written in place") && table.contains(&format!("elsewhere: {why}")), "{table}");
    // What overwrites nothing is not mentioned.
    let plain = write(&folder, "plain.fw", "graph @g(%x: f32[8]) {\n  %y = neg %x\n  return %y\n}\n");
    assert_eq!(json(&["explain", &plain, "--json"])["regions"][0]["in_place"], serde_json::json!([]));
    assert!(!call(&["explain", &plain]).stdout.contains("written in place"));
}

#[test]
fn passes_that_do_not_run_and_numbers_beyond_counting_are_said() {
    let folder = folder();
    let text = |lanes: u64| {
        let body = "%a = add %x, %x\n  return %a";
        write(&folder, "wide.fw", format!("graph @b(s: 1..; %x: bf16[s, {lanes}]) {{\n  {body}\n}}\n"))
    };
    let outcome = call(&["explain", &text(1 << 60)]);
    assert!(outcome.stdout.contains("2^63 or more") && !outcome.stdout.contains("not fused"), "{}", outcome.stdout);
    let region = json(&["explain", &text(1 << 60), "--json"])["regions"][0].clone();
    assert!(region["bytes_fused"].is_null() && region["bytes_unfused"].is_null(), "{region}");
    assert_eq!(region["bytes_uncounted"], "both are 2^63 or more at s = 512");
    assert!(json(&["explain", &text(64), "--json"])["regions"][0]["bytes_uncounted"].is_null());
    let pipeline = write(&folder, "rows.toml", "passes = [{ name = \"raise\", rows = \"1..63\" }, \"dce\"]");
    let model = text(64);
    let said = "pass raise does not run: it is limited to rows 1..63, and the graph takes 1..";
    let outcome = call(&["explain", &model, "--pipeline", &pipeline]);
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
    let outcome = call(&["run", &model, "--pipeline", &pipeline, "-v"]);
    assert!(outcome.code == Some(0) && outcome.stderr.contains(said), "{}", outcome.stderr);
}

/// On a GPU everything but what its library and kernels lack is on the device, and what they lack is listed.
#[test]
fn on_gpus_attention_is_products_and_kernels_and_what_runs_on_the_host_is_listed() {
    if cfg!(not(feature = "cuda")) {
        refused(3, &["explain", &fixture("qwen3_tiny_layer_bf16.train.pt2"), "--target", "cuda"], &["cuda"]);
        return;
    }
    let report = json(&["explain", &fixture("qwen3_tiny_layer_bf16.train.pt2"), "--target", "cuda", "--json"]);
    assert_eq!((report["attentions"].as_u64(), report["matmuls"].as_u64()), (Some(0), Some(9)), "{report}");
    assert_eq!((&report["references"], &report["by_reference"]), (&0.into(), &serde_json::json!([])));
    let dir = folder();
    let text = "graph @g(s: 1..; %x: bf16[s, 8], %w: bf16[2, 8, 4], %ends: i32[2]) {\n  %y = exp %x\n  \
                %p = grouped_matmul %y, %w, %ends {out = bf16}\n  return %p\n}\n";
    let path = write(&dir, "grouped.fw", text);
    let report = json(&["explain", &path, "--target", "cuda", "--json"]);
    let listed = report["by_reference"].as_array().expect("a list");
    let reason = listed.first().and_then(|op| op["reason"].as_str()).expect("one is listed");
    assert!(listed.len() == 1 && reason.ends_with("it runs on the host"), "{report}");
}
