//! `--patterns`: matches, near misses, refusals; the page that explains it.

use crate::support::{call, folder, json, refused, write};

const GRAPH: &str = "graph @g(s: 1..; %x: bf16[s, 64], %w: bf16[64]) {\n  \
    %y = rms_norm %x, %w {eps = 1e-5, round = once}  @\"layer/norm\"\n  \
    %l = slice %y {axis = 0, start = 0, end = 1}  @\"layer/last\"\n  return %l\n}\n";

const FITS: &str = "exact fits: (x: bf16, w) y = rms_norm x, w {eps = 1e-5, round = $r}; l = slice y {axis = 0, $s}; yield l\n  \
    => (x, w) l = slice x {axis = 0, $s}; y = rms_norm l, w {eps = 1e-5, round = $r}; yield y where rank(x) == 2\n";

/// The pattern with another eps.
fn other() -> String {
    FITS.replace("1e-5", "1e-6").replace("exact fits", "exact misses")
}

#[test]
fn one_pattern_matches_and_one_nearly_does() {
    let folder = folder();
    let graph = write(&folder, "g.fw", GRAPH);
    let file = write(&folder, "p.fw", format!("; two patterns\n{}{FITS}", other()));
    let report = json(&["explain", &graph, "--patterns", &file, "--json"]);
    let reports = report["user_patterns"].as_array().expect("a list");
    assert_eq!(reports.len(), 2);
    assert_eq!((&reports[1]["name"], &reports[1]["times"]), (&"fits".into(), &1.into()));
    assert!(reports[1]["near_miss"].is_null() && reports[1]["reason"].is_null());
    let near = &reports[0]["near_miss"];
    assert_eq!((&reports[0]["name"], &reports[0]["times"]), (&"misses".into(), &0.into()));
    assert_eq!((&near["matched"], &near["nodes"]), (&1.into(), &2.into()));
    assert_eq!((&near["expected"], &near["found"]), (&"`rms_norm` with eps = 1e-6".into(), &"eps = 1e-5".into()));
    assert_eq!(near["origin"], "layer/norm");
    let plain = json(&["explain", &graph, "--json"]);
    assert_ne!(plain["pipeline"], report["pipeline"], "patterns are part of the key");
    assert_eq!(plain["user_patterns"].as_array().map(Vec::len), Some(0));

    let expect = |expectation: &str| call(&["explain", &graph, "--patterns", &file, "--expect", expectation]);
    assert_eq!(expect("fits=1").code, Some(0));
    assert_eq!(expect("misses=0").code, Some(0));
    let failed = expect("misses=1");
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("expected 1 of `misses`, found 0; 1 of 2 nodes match"), "{}", failed.stderr);
    // The page says the same as the report.
    let page = folder.path().join("page.html").display().to_string();
    let written = call(&["explain", &graph, "--patterns", &file, "--html", &page]);
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let page = std::fs::read_to_string(page).expect("a page");
    let row =
        |cells: &[&str]| format!("<tr>{}</tr>", cells.iter().map(|c| format!("<td>{c}</td>")).collect::<String>());
    assert!(page.contains("<caption>Your patterns</caption>"), "{page}");
    assert!(page.contains(&row(&["fits", "exact", "1"])), "{page}");
    let cells =
        ["misses", "exact", "0", "1 of 2 nodes match", "`rms_norm` with eps = 1e-6", "eps = 1e-5", "layer/norm"];
    assert!(page.contains(&row(&cells)), "{page}");
    // What runs computes the same.
    let run = call(&["run", &graph, "--patterns", &file, "--rows", "3"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let pass = call(&["opt", &graph, "pass", "patterns", "--patterns", &file]);
    assert!(pass.stdout.find("slice") < pass.stdout.find("rms_norm"), "{}", pass.stdout);
}

#[test]
fn patterns_can_be_switched_off_and_wait_for_relaxed_mode() {
    let folder = folder();
    let graph = write(
        &folder,
        "g.fw",
        "graph @g(%x: f32[8], %y: f32[8]) {\n  %r = recip %y\n  %z = mul %x, %r\n  return %z\n}\n",
    );
    let fast = "fast quotient: (x: f32, y: f32) q = div 1, y; z = mul x, q; yield z => (x, y) z = div x, y; yield z\n";
    let file = write(&folder, "p.fw", fast);
    let off = write(&folder, "off.toml", "off = [\"patterns\"]\n");
    let said = |extra: &[&str]| call(&[&["explain", &graph, "--patterns", &file][..], extra].concat()).stdout;
    assert!(said(&[]).contains("0 × quotient (fast)\n    it is `fast`, which needs relaxed mode"), "{}", said(&[]));
    assert!(said(&["--relaxed"]).contains("1 × quotient (fast)"));
    assert!(said(&["--relaxed", "--pipeline", &off]).contains("0 × quotient (fast)\n    pass `patterns` did not run"));
}

#[test]
fn what_is_no_pattern_is_refused_with_its_place() {
    let folder = folder();
    let graph = write(&folder, "g.fw", GRAPH);
    let wrong = write(&folder, "wrong.fw", "wrong");
    let said = call(&["run", &graph, "--patterns", &wrong]).stderr;
    assert!(said.starts_with(&format!("error: {wrong}: 1:1")), "{said}");
    let long = "exact p: (x) y = neg x; yield y => (x) yield x";
    for (text, words) in [
        ("exact zero: (x: f32) y = add x, 0; yield y => (x) yield x", &["1:7", "`zero`", "not equal", "x = -0.0"][..]),
        (
            "\nexact wide: (x: bf16) y = neg x; yield y => (x) y = cast x {to = f32}; yield y",
            &["2:7", "`wide`", "type"],
        ),
        (
            "exact w: (x: f32) z = neg x; yield z => (x) z = cast x {to = bf16}; yield z",
            &["its sides fit each other on no operands", "expected a replacement of f32[", "found bf16["],
        ),
        (
            "exact sq: (x: float, y: float) z = mul x, y; yield z => (x, y) a = abs x; z = mul a, a; yield z where x == y",
            &["`x == y` makes one value of two", "use one name for both"],
        ),
        (
            "exact w: (x: float) z = neg x; yield z => (x) z = mul x, -1.0; yield z where rank(x) == 2, dim(x, 7) % 64 == 0",
            &["`dim(x, 7) % 64 == 0` holds of no operands that are tried"],
        ),
        (
            "exact w: (x: float) z = neg x; yield z => (x) z = mul x, -1.0; yield z where rank(x) == 2, dim(x, 0) == 7",
            &["its guards hold together of no operands"],
        ),
        (
            "exact w: (x: f32) z = mul x, 1e999; yield z => (x) yield x",
            &["1:30", "`1e999` is beyond the range of numbers"],
        ),
        ("fast far: (x: f32) y = mul x, 2; yield y => (x) y = mul x, 3; yield y", &["1:6", "not close"]),
        ("fast e: (x: f32) y = exp x; yield y => (x) yield x", &["a side has `exp` of f32"]),
        ("exact a: (x) y = frob x; yield y => (x) yield x", &["1:18", "unknown op `frob`"]),
        ("exact a (x) y = neg x; yield y => (x) yield x", &["1:9", "expected `:`, found `(`"]),
        ("exact a: (x) y = neg x; yield y = (x) yield x", &["1:33", "expected `=>`, found `=`"]),
        ("almost a: (x) y = neg x; yield y => (x) yield x", &["1:1", "expected `exact` or `fast`, found `almost`"]),
        ("exact a: (x) y = neg x; yield y => (z) yield z", &["1:7", "repeats the parameters"]),
        ("exact a: (x) y = neg x; yield y => (x) yield x, x", &["yields 1 values, the right one 2"]),
        ("exact a: (x) y = neg x; yield x => (x) yield x", &["does not read `y`"]),
        ("exact a: (x) y = neg x; yield y, x => (x) yield x, x", &["yields `x`, which it does not compute"]),
        ("exact a: (x, z) y = neg x; w = neg z; yield y, w => (x, z) yield x, z", &["share no value"]),
        (&format!("{long} where q(x) == 1"), &["1:54", "unknown function `q`; there are dtype, rank, shape and dim"]),
        (&format!("{long} where rank(z) == 1"), &["1:59", "has no value `z`"]),
        (&format!("{long} where x < y"), &["compares what has no such order"]),
        (&format!("{long} where rank(x) 1"), &["1:62", "expected `==`, `!=`, `<`, `<=`, `>` or `>=`, found `1`"]),
        (&format!("{long} where $k == 1"), &["does not bind `$k`"]),
        (&format!("{long} sample y: f32[4]"), &["expected `x`, found `y`"]),
        (&format!("{long} junk"), &["1:48", "expected `where`, `sample`, `;`, `exact`, `fast` or the end of the text"]),
        ("exact g: (x: f32) y = top_k x {k = $k}; yield y => (x) yield x", &["names"]),
        (
            "exact same: (x) y = neg x; z = neg y; yield z => (x) yield x exact same: (x) y = not x; z = not y; yield z => (x) yield x",
            &["`same`", "taken"],
        ),
    ] {
        let file = write(&folder, "p.fw", text);
        let words: Vec<&str> = words.iter().copied().filter(|w| *w != "names").chain(["p.fw"]).collect();
        refused(2, &["explain", &graph, "--patterns", &file], &words);
    }
    refused(2, &["explain", &graph, "--patterns", "nowhere.fw"], &["nowhere.fw"]);
}

/// The blocks between fences of a page, without commands of a shell.
fn blocks(page: &str) -> Vec<&str> {
    let parts = page.split("```").skip(1).step_by(2);
    parts
        .filter(|block| !block.starts_with("sh"))
        .map(|block| block.split_once('\n').map_or("", |(_, text)| text))
        .collect()
}

#[test]
fn the_page_does_what_it_says() {
    let page = include_str!("../../../docs/patterns.md");
    let [graph, patterns, said, wrong, refusal, ..] = blocks(page)[..] else { panic!("five blocks") };
    let folder = folder();
    let (graph, patterns) = (write(&folder, "head.fw", graph), write(&folder, "rows.fw", patterns));
    let outcome = call(&["explain", &graph, "--patterns", &patterns, "--expect", "last_rows=1"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // Other lines stand around what the page shows.
    assert!(outcome.stdout.contains(said.trim_matches(['…', '\n'])), "{}", outcome.stdout);
    let wrong = write(&folder, "wrong.fw", wrong);
    let (first, _) = refusal.split_once(", …").expect("the end of the message is left out");
    let message = first.strip_prefix("error: zero.fw: ").expect("the file is named");
    refused(2, &["explain", &graph, "--patterns", &wrong], &["error: ", "wrong.fw: ", message]);
}
