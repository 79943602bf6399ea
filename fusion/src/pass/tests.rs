//! What is said of pipelines, managers, observers and bisection.

use fusewright_graph::{Builder, DType::F32, Dim, Op, Prim, ScalarFn, TensorType};

use super::*;
use crate::passes::PIPELINE;
use crate::rewrites::UserPatterns;

/// `y · y` of a reshape to the same shape.
fn graph() -> Graph {
    let b = Builder::new("g");
    let s = b.symbol("s", 1, Some(64));
    let x = b.input("x", TensorType::new(F32, [s.clone(), Dim::constant(8)]));
    let y = b.prim(Prim::Reshape { shape: vec![s, Dim::constant(8)] }, &[x]).expect("reshape");
    b.output(b.mul(y, y).expect("mul"));
    b.finish()
}

fn run(pipeline: Pipeline, cx: &mut Cx) -> (Graph, Vec<PassReport>) {
    PassManager::new(pipeline).run(&graph(), cx, &mut [&mut Verify]).expect("runs")
}

fn names(reports: &[PassReport]) -> Vec<&'static str> {
    reports.iter().map(|r| r.name).collect()
}

#[test]
fn passes_run_in_order_and_report() {
    let mut ticks = 0;
    let mut timer = Timer::new(|| {
        ticks += 5;
        ticks
    });
    let mut seen = Vec::new();
    let mut dump = Dump(|pass: &str, moment: Moment, graph: &Graph| {
        seen.push(format!("{pass} {} {}", moment.name(), graph.nodes().len()));
    });
    let manager = PassManager::default();
    let observers: &mut [&mut dyn Observer] = &mut [&mut Verify, &mut timer, &mut dump];
    let (out, reports) = manager.run(&graph(), &mut Cx::default(), observers).expect("runs");
    assert_eq!(out.nodes().len(), 1);
    assert_eq!(names(&reports), PIPELINE.iter().map(|p| p.name).collect::<Vec<_>>());
    assert_eq!(reports.iter().find(|r| r.name == "rewrite").map(|r| r.changed), Some(1));
    assert_eq!(timer.times.len(), reports.len());
    assert!(timer.times.iter().all(|t| t.1 == 5));
    assert_eq!(seen.len(), 2 * reports.len());
    assert!(seen.contains(&"rewrite before 2".to_owned()) && seen.contains(&"rewrite after 1".to_owned()), "{seen:?}");
}

#[test]
fn passes_are_switched_by_name() {
    let mut manager = PassManager::default();
    manager.switch("rewrite", false).expect("not required");
    let (out, reports) = manager.run(&graph(), &mut Cx::default(), &mut []).expect("runs");
    assert_eq!(out.nodes().len(), 2);
    assert!(!names(&reports).contains(&"rewrite"));
    assert!(manager.switch("nope", true).is_err_and(|e| e.to_string().contains("rewrite")));
    assert_eq!(manager.switch("dce", false), Err(PipelineError::Required("dce".into())));
}

#[test]
fn levels_do_more_and_more() {
    let count = |level| run(Pipeline::level(level), &mut Cx::default()).1.len();
    assert!(Level::ALL.is_sorted_by_key(|level| count(*level)));
    assert_eq!(names(&run(Pipeline::level(Level::O0), &mut Cx::default()).1), ["dce"]);
    assert!(!Pipeline::level(Level::O0).fuses() && Pipeline::level(Level::O1).fuses());
    for level in Level::ALL {
        assert_eq!(level.name().parse(), Ok(level));
        let stages = Pipeline::level(level).stages().to_vec();
        assert!(Pipeline::new(stages).is_ok(), "{level:?} is in a legal order");
    }
    assert_eq!("O9".parse::<Level>(), Err(PipelineError::Level("O9".into())));
}

#[test]
fn a_pass_runs_on_the_rows_it_is_meant_for() {
    let with_rows = |rows: &str| format!("passes = [{{ name = \"rewrite\", rows = \"{rows}\" }}, \"dce\"]");
    let ran = |rows: &str, cx: Option<Rows>| {
        let pipeline = Pipeline::from_toml(&with_rows(rows)).expect("a pipeline");
        names(&run(pipeline, &mut Cx { rows: cx, ..Cx::default() }).1).contains(&"rewrite")
    };
    // The graph is called with 1 to 64 rows.
    assert!(ran("1..64", None) && ran("..", None) && ran("..100", None));
    assert!(!ran("2..64", None) && !ran("1..63", None) && !ran("5", None));
    assert!(ran("5", Some(Rows { min: 5, max: Some(5) })));
    assert!(!ran("..64", Some(Rows::ANY)));
    let idle = |rows: &str| Pipeline::from_toml(&with_rows(rows)).expect("a pipeline").idle(&graph());
    assert_eq!(idle("1..64"), Vec::<String>::new());
    assert_eq!(idle("1..63"), ["pass rewrite does not run: it is limited to rows 1..63, and the graph takes 1..64"]);
    for wrong in ["x", "5..1", "-1..", "1..2..3", ""] {
        assert_eq!(wrong.parse::<Rows>(), Err(PipelineError::Rows(wrong.into())));
    }
}

#[test]
fn orders_that_break_something_are_refused_with_the_reason() {
    let list = |names: &[&str]| {
        let quoted: Vec<String> = names.iter().map(|n| format!("\"{n}\"")).collect();
        Pipeline::from_toml(&format!("passes = [{}]", quoted.join(", "))).map(|p| p.stages().len())
    };
    assert_eq!(list(&["cse", "dce"]), Ok(2));
    assert_eq!(list(&["rewrite", "cse", "rewrite", "dce"]), Ok(4));
    for (names, part) in [
        (&["rewrite", "matmul", "dce"][..], "`rewrite` may not come before `matmul`: rewriting drops reshapes"),
        (&["raise", "rewrite", "dce"], "`raise` may not come before `rewrite`"),
        (&["relax", "raise", "dce"], "`relax` may not come before `raise`"),
        (&["rewrite", "relax", "rewrite", "dce"], "no later pass may renumber"),
        (&["rewrite"], "`dce` is required"),
        (&["dce", "rewrite"], "ends with pass `dce`"),
        (&["polish", "dce"], "no pass is named `polish`; there are matmul"),
    ] {
        let error = list(names).expect_err("illegal").to_string();
        assert!(error.contains(part), "{names:?}: {error}");
    }
}

#[test]
fn files_say_what_is_wrong_with_them() {
    let read = |text: &str| Pipeline::from_toml(text);
    let off = read("off = [\"cse\"]\nlevel = \"o1\"").expect("a pipeline");
    assert!(off.stages().iter().all(|s| s.on == (s.pass.name != "cse") && s.pass.name != "raise"));
    let disabled = read("enabled = false\npasses = [\"rewrite\", \"dce\"]").expect("a pipeline");
    assert!(!disabled.fuses() && disabled.stages().len() == 1);
    assert!(!read("fuse = false").expect("a pipeline").fuses());
    for (text, part) in [
        ("passes = [", "TOML parse error at line 1"),
        ("stages = []", "no key `stages`; there are level, passes"),
        ("level = 2", "`level` takes a string, not integer"),
        ("passes = \"dce\"", "`passes` takes an array, not string"),
        ("passes = [{ rows = \"1..\" }]", "no `name`"),
        ("passes = [{ name = \"dce\", row = \"1..\" }]", "no key `row`; there are name, rows, on"),
        ("passes = [{ name = \"dce\", rows = \"1..2\" }]", "`dce` is required"),
        ("passes = [{ name = \"dce\", on = 1 }]", "`on` takes true or false"),
        ("off = [\"raze\"]", "no pass is named `raze`"),
        ("off = [\"dce\"]", "`dce` is required"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_long_line_is_not_repeated() {
    let error = Pipeline::from_toml(&format!("passes = {}", "[".repeat(5000))).expect_err("no pipeline").to_string();
    assert!(error.contains("TOML parse error at line 1") && error.len() < 300, "{error}");
}

#[test]
fn the_key_is_stable_and_names_what_runs() {
    let key = |text: &str| Pipeline::from_toml(text).expect("a pipeline").key(false);
    let default = Pipeline::default();
    assert_eq!(key(""), default.key(false));
    assert_eq!(key("level = \"O2\""), default.key(false));
    assert_ne!(default.key(true), default.key(false));
    let without = key("off = [\"cse\"]");
    // A pass that is off is a pass that is not there.
    assert_eq!(
        without,
        key("passes = [\"matmul\", \"fold\", \"rewrite\", \"raise\", \"patterns\", \"narrow\", \"relax\", \"dce\"]")
    );
    let others = ["fuse = false", "level = \"O3\"", "passes = [{ name = \"cse\", rows = \"..4\" }, \"dce\"]"];
    let mut keys: Vec<_> = others.iter().map(|text| key(text)).collect();
    keys.extend([without, default.key(false), key("passes = [\"cse\", \"dce\"]")]);
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 6);
}

/// Turns every `neg` into `abs`, and counts.
fn spoil(graph: &Graph, cx: &mut Cx) -> PassResult {
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let op = match &node.op {
            Op::Prim(Prim::Map(ScalarFn::Neg)) if !cx.is_spent() => {
                cx.spend();
                changed += 1;
                Op::Prim(Prim::Map(ScalarFn::Abs))
            }
            op => op.clone(),
        };
        b.op(op, operands).map_err(|e| Diagnostic::rebuilt("spoil", &node.origin, &e))
    });
    Ok((rebuilt?, Outcome { changed }))
}

#[test]
fn bisection_finds_the_change() {
    static SPOIL: Pass = Pass { name: "spoil", required: false, run: spoil };
    let b = Builder::new("g");
    let x = b.input("x", TensorType::new(F32, [Dim::constant(8)]));
    let mut y = x;
    for i in 0..9 {
        y = b.map(if i % 2 == 0 { ScalarFn::Neg } else { ScalarFn::Exp }, &[y]).expect("map");
    }
    b.output(y);
    let graph = b.finish();
    let mut stages = Pipeline::default().stages().to_vec();
    stages.insert(stages.len() - 1, Stage::new(&SPOIL));
    let pipeline = Pipeline::new(stages).expect("legal");
    // It fails once three of the five signs are gone.
    let negations = |g: &Graph| g.nodes().iter().filter(|n| n.op == Op::Prim(Prim::Map(ScalarFn::Neg))).count();
    let mut asked = 0;
    let mut holds = |g: &Graph| {
        asked += 1;
        Ok::<bool, Diagnostic>(negations(g) > 2)
    };
    let Ok(Verdict::Broken(culprit)) = bisect(&graph, &pipeline, false, &mut holds) else { panic!("it breaks") };
    assert_eq!((culprit.pass, culprit.change, culprit.changes), ("spoil", 3, 5));
    assert_eq!((negations(&culprit.before), negations(&culprit.after)), (3, 2));
    assert!(asked <= pipeline.stages().len() + 3, "{asked} questions");
    let never = bisect(&graph, &pipeline, false, &mut |_| Ok::<bool, Diagnostic>(false));
    assert!(matches!(never, Ok(Verdict::Never)));
    let always = bisect(&graph, &pipeline, false, &mut |_| Ok::<bool, Diagnostic>(true));
    assert!(matches!(always, Ok(Verdict::Holds)));
}

#[test]
fn without_fuel_no_pass_changes_anything_and_fuel_is_what_is_changed() {
    let graph = crate::samples::qwen3_layer(true, &crate::samples::TINY).expect("types");
    let mut graph = graph;
    for stage in Pipeline::default().stages() {
        let pass = stage.pass;
        let run = |fuel| {
            let mut cx = Cx { relaxed: true, fuel, ..Cx::default() };
            (pass.run)(&graph, &mut cx).expect("runs")
        };
        let (same, none) = run(Some(0));
        assert!(none.changed == 0 && same.same_as(&graph), "{}", pass.name);
        let (all, outcome) = run(None);
        for fuel in [1, outcome.changed / 2, outcome.changed] {
            let (partial, partly) = run(Some(fuel));
            assert_eq!(partly.changed, fuel.min(outcome.changed), "{}", pass.name);
            fusewright_graph::verify::verify(&partial).unwrap_or_else(|e| panic!("{}: {e:?}", pass.name));
            assert!(fuel < outcome.changed || partial.same_as(&all), "{}", pass.name);
        }
        graph = all;
    }
}

/// A graph for each pass that it changes.
const WORK: [(&str, &str); 9] = [
    ("matmul", "%w: f32[4, 8]; %t = permute %w {perm = [1, 0]}; %y = matmul %x, %t {out = f32}"),
    ("fold", "; %c = literal f32 2; %n = neg %c; %y = mul %x, %n"),
    ("rewrite", "; %n = neg %x; %m = neg %n; %y = exp %m"),
    ("cse", "; %a = recip %x; %c = literal f32 1; %b = div %c, %x; %y = add %a, %b"),
    ("raise", "; %n = neg %x; %e = exp %n; %c = literal f32 1; %d = add %c, %e; %y = div %x, %d"),
    ("patterns", "; %a = abs %x; %n = neg %a; %y = exp %n"),
    ("narrow", "; %e = exp %x; %y = slice %e {axis = 0, start = s - 1, end = s}"),
    ("relax", "; %b = cast %x {to = bf16}; %w = cast %b {to = f32}; %y = exp %w"),
    ("dce", "; %unused = exp %x; %y = sqrt %x"),
];

#[test]
fn each_pass_does_its_work_in_the_pipeline() {
    assert_eq!(WORK.map(|(name, _)| name).to_vec(), PIPELINE.iter().map(|p| p.name).collect::<Vec<_>>());
    for (name, parts) in WORK {
        let (input, nodes) = parts.split_once("; ").expect("an input or none, then nodes");
        let input = if input.is_empty() { String::new() } else { format!(", {input}") };
        let nodes = nodes.replace("; ", "\n");
        let text = format!("graph @g(s: 1..; %x: f32[s, 8]{input}) {{\n{nodes}\nreturn %y\n}}\n");
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut cx = Cx { relaxed: name == "relax", ..Cx::default() };
        let mut pipeline = Pipeline::default();
        let pattern =
            "exact odd: (x: f32) a = abs x; n = neg a; yield n => (x) m = neg x; a = abs m; n = neg a; yield n";
        if name == "patterns" {
            pipeline.set_patterns(UserPatterns::parse(pattern).unwrap_or_else(|e| panic!("{e}")));
        }
        let (_, reports) = PassManager::new(pipeline).run(&graph, &mut cx, &mut [&mut Verify]).expect("runs");
        let changed = reports.iter().find(|r| r.name == name).map(|r| r.changed);
        assert!(changed > Some(0), "{name} changes nothing of\n{text}");
    }
}
