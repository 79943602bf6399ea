//! Tables of schedules on the command line, and figures of GPUs without one.

#[cfg(feature = "cuda")]
use crate::support::{Outcome, command};
use crate::support::{call, folder, json, refused, write};

const NORM: &str = "graph @norm(s: 0..; %x: bf16[s, 25600]) {\n  %y = neg %x\n  %z = exp %y\n  return %z\n}\n";

/// The text of a stage among all that `opt emit` prints.
#[cfg(feature = "cuda")]
fn stage(printed: &str, extension: &str) -> String {
    let lines = printed.lines().skip_while(|line| !(line.starts_with("; ") && line.ends_with(extension)));
    lines.skip(1).take_while(|line| !line.starts_with("; ")).map(|line| format!("{line}\n")).collect()
}

#[test]
#[cfg(feature = "cuda")]
fn a_schedule_that_is_printed_is_changed_by_hand_and_given_back() {
    let folder = folder();
    let model = write(&folder, "norm.fw", NORM);
    let emit = |more: &[&str]| {
        let said = call(&[&["opt", &model, "emit", "--target", "cuda:sm_90"][..], more].concat());
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        said.stdout
    };
    let usual = emit(&[]);
    let table = stage(&usual, ".schedules");
    assert!(table.contains("registers threads 320 unit 320 vectors 1") && usual.contains(".maxntid 320"), "{usual}");
    let file = |name: &str, from: &str, to: &str| write(&folder, name, table.replace(from, to));
    assert_eq!(emit(&["--schedules", &file("same.schedules", "", "")]), usual);
    let changed = emit(&["--schedules", &file("hand.schedules", "threads 320 unit 320", "threads 128 unit 128")]);
    assert!(changed.contains(".maxntid 128") && !changed.contains(".maxntid 320"), "{changed}");
    assert!(stage(&changed, ".schedules").contains("threads 128 unit 128"), "{changed}");
    // What the kernel cannot have is the table's fault.
    let wrong = file("wrong.schedules", "threads 320 unit 320", "threads 80 unit 80");
    let arguments = ["opt", &model, "emit", "--target", "cuda:sm_90", "--schedules", &wrong];
    refused(2, &arguments, &["cannot have the schedule", "80 threads: a block has a multiple of 32"]);
    let bundle = folder.path().join("bundle").display().to_string();
    let compile = |table: &str, targets: &str| {
        call(&["compile", &model, "--target", targets, "-o", &bundle, "--schedules", table])
    };
    let hand = folder.path().join("hand.schedules").display().to_string();
    assert_eq!(compile(&hand, "cpu,cuda:sm_90").code, Some(0));
    let manifest = std::fs::read_to_string(folder.path().join("bundle/manifest.json")).expect("is written");
    assert!(manifest.contains("\"threads\": 128"), "{manifest}");
    let said = compile(&wrong, "cuda:sm_90");
    assert!(said.code == Some(2) && said.stderr.contains("cannot have the schedule"), "{}", said.stderr);
    // A table of the environment is ignored where it is wrong, and the command says why.
    let from_environment = |table: &str, target: &str| {
        let mut command = command(&["compile", &model, "--target", target, "-o", &bundle]);
        let outcome: Outcome = command.env("FUSEWRIGHT_SCHEDULES", table).output().expect("the command starts").into();
        (outcome.code, outcome.stderr)
    };
    assert_eq!(from_environment(&hand, "cuda:sm_90"), (Some(0), String::new()));
    for (table, target, words) in [
        (&wrong, "cuda:sm_90", "80 threads: a block has a multiple of 32"),
        (&hand, "cuda:sm_80", "for target `cuda:sm_90`, not for `cuda:sm_80`"),
        (&model, "cuda:sm_90", "norm.fw"),
    ] {
        let (code, said) = from_environment(table, target);
        let named = said.contains("warning: FUSEWRIGHT_SCHEDULES: ") && said.contains("ignored");
        assert!(code == Some(0) && named && said.contains(words), "{said}");
    }
    let said = compile(&hand, "cpu,cuda:sm_80");
    let words = "the schedules are for target `cuda:sm_90`, not for `cpu` or `cuda:sm_80`";
    assert!(said.code == Some(2) && said.stderr.contains(words), "{}", said.stderr);
}

#[test]
fn tables_that_cannot_be_used_are_refused() {
    let folder = folder();
    let model = write(&folder, "norm.fw", NORM);
    let empty = write(&folder, "empty.schedules", "schedules \"cuda:sm_90\" {\n}\n");
    let broken = write(&folder, "broken.schedules", "schedules \"cuda:sm_90\" {\n  kernel @k \"12\" {\n");
    refused(2, &["run", &model, "--schedules", "/no/such/table"], &["/no/such/table"]);
    refused(2, &["run", &model, "--schedules", &broken], &["broken.schedules", "content of `k`"]);
    refused(2, &["run", &model, "--schedules", &model], &["norm.fw", "`schedules`"]);
    refused(2, &["run", &model, "--schedules", &empty], &["for target `cuda:sm_90`, not for `cpu`"]);
    for command in [vec!["explain", &model], vec!["opt", &model, "verify"], vec!["bench", &model]] {
        refused(2, &[&command[..], &["--schedules", &empty]].concat(), &["takes no `--schedules`"]);
    }
    for arguments in [["--tune", "--out"], ["--from", "--html"]] {
        let [first, second] = arguments;
        let given = if first == "--tune" { vec![first, second, "f"] } else { vec![first, "f", second, "g"] };
        refused(2, &[&["bench", "--suite", "kernels"][..], &given].concat(), &["on a GPU"]);
    }
    refused(2, &["bench", "--suite", "kernels", "--target", "cuda", "--tune"], &["--out"]);
}

#[test]
fn a_page_of_stored_figures_needs_no_gpu() {
    let folder = folder();
    let row = |op: &str, rows: u32, us: f64| {
        format!(
            "{{\"op\": \"{op}\", \"form\": \"exact\", \"dim\": 5120, \"T\": {rows}, \"bytes\": 30720, \"us\": {us}, \
             \"hot_us\": null, \"pdl_us\": 1.0, \"hot_pdl_us\": null, \"copy_us\": 1.5, \"hot_copy_us\": null, \
             \"mismatched\": {{\"y\": [0, 5120]}}, \"registers\": 40, \"local_bytes\": 0, \
             \"device\": \"a GPU\", \"driver\": \"CUDA 13.0\"}}"
        )
    };
    let rows = [row("A", 1, 2.0), row("A", 32, 2.5), row("B", 1, 3.0)].join(", ");
    let stored = write(&folder, "gpu.json", format!("{{\"suite\": \"kernels\", \"rows\": [{rows}]}}"));
    let page = folder.path().join("page.html").display().to_string();
    let bench = ["bench", "--suite", "kernels", "--target", "cuda", "--from", &stored];
    let said = call(&[&bench[..], &["--html", &page]].concat());
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), format!("wrote {page}\n").as_str()), "{}", said.stderr);
    let html = std::fs::read_to_string(&page).expect("the page is written");
    assert_eq!((html.matches("<section>").count(), html.matches("<svg").count()), (2, 4));
    // Every element that is opened is closed.
    for element in ["html", "head", "body", "main", "section", "figure", "svg", "g", "table", "tr", "td", "title", "dl"]
    {
        let count = |text: &str| html.matches(text).count();
        let opened = count(&format!("<{element}>")) + count(&format!("<{element} "));
        assert_eq!(opened, count(&format!("</{element}>")), "{element}");
        assert!(opened > 0, "{element}");
    }
    let picked = json(&[&bench[..], &["--case", "A", "--rows", "32", "--json"]].concat());
    let rows = picked["rows"].as_array().expect("a list");
    assert!(rows.len() == 1 && rows[0]["T"] == 32 && rows[0]["op"] == "A", "{picked}");
    let table = call(&bench).stdout;
    assert!(table.contains("a GPU, driver of CUDA 13.0") && table.contains("0.75"), "{table}");
    refused(2, &[&bench[..], &["--out", "x.json"]].concat(), &["--from", "--out"]);
    let mixed = write(
        &folder,
        "mixed.json",
        format!("{{\"rows\": [{}, {}]}}", row("A", 1, 2.0), row("A", 8, 2.0).replace("a GPU", "other")),
    );
    let said = call(&["bench", "--suite", "kernels", "--target", "cuda", "--from", &mixed]);
    assert!(said.code == Some(2) && said.stderr.contains("mixed.json"), "{}", said.stderr);
}
