//! Bad texts of graphs and kernels.

use super::Cases;

/// Everything that reads a graph in the text form.
const READ: [&[&str]; 3] = [&["opt", "FILE"], &["explain", "FILE"], &["run", "FILE"]];
/// What reads kernels too.
const OPT: [&[&str]; 1] = [&["opt", "FILE"]];
/// What needs the elements.
const RUN: [&[&str]; 1] = [&["run", "FILE"]];

/// A graph of one input and one node.
fn graph(ty: &str, node: &str) -> String {
    format!("graph @g(s: 1..; %x: {ty}) {{\n  %y = {node}\n  return %y\n}}\n")
}

/// A kernel over rows of 64.
fn kernel(body: &str) -> String {
    format!(
        "kernel @k(s = extent(x, 0)) rows s {{\n  param %x: f32[s, 64] in\n  param %y: f32[s, 64] out\n  \
         segment @main inner 1 {{\n{body}  }}\n}}\n"
    )
}

#[test]
fn texts_that_are_no_graph() {
    let mut cases = Cases::new("fw");
    let whole = graph("f32[s, 4]", "neg %x");
    cases.misread("empty", b"", &READ, &["graph"]);
    for length in [1, 9, 20, 30, whole.len() - 12, whole.len() - 3] {
        cases.misread(&format!("cut to {length}"), &whole.as_bytes()[..length], &READ, &["expected"]);
    }
    cases.misread("no UTF-8", b"graph @g(%x: f32[4]) {\n \xff\n}\n", &READ, &["utf-8"]);
    cases.misread("an archive", b"PK\x03\x04\0\0\0\0", &READ, &["1:3"]);
    cases.misread("zeros", &[0; 4096], &READ, &["1:1"]);
    cases.misread("one long word", "a".repeat(1_000_000).as_bytes(), &READ, &["1:1"]);
    cases.misread("an open string", format!("graph @\"{}", "a".repeat(1_000_000)).as_bytes(), &READ, &["1:8"]);
    for open in ["(", "[", "{", "graph @g(", "%x: f32["] {
        cases.misread("deep", open.repeat(100_000).as_bytes(), &READ, &["expected"]);
    }
    for open in ["(", "max(", "-", "2*("] {
        let text = graph(&format!("f32[{}s]", open.repeat(100_000)), "neg %x");
        cases.misread("deep extent", text.as_bytes(), &READ, &["1:"]);
    }
    let attribute = graph("f32[s, 4]", &format!("reshape %x {{shape = {}4}}", "[".repeat(100_000)));
    cases.misread("deep attribute", attribute.as_bytes(), &READ, &["expected"]);
    cases.finish(60);
}

#[test]
fn sizes_that_overflow_or_are_negative() {
    let mut cases = Cases::new("fw");
    for (what, ty, word) in [
        ("beyond 64 bits", "f32[9223372036854775808]", "64 bits"),
        ("negative", "f32[-4]", "-4"),
        ("negative product", "f32[-1*s, 4]", "s"),
    ] {
        cases.misread(what, graph(ty, "neg %x").as_bytes(), &READ, &[word]);
    }
    for ty in ["f32[9223372036854775807, s]", "f32[4294967296, 4294967296]"] {
        cases.refused("too large", graph(ty, "neg %x").as_bytes(), &READ, &["x", "2^60 elements"]);
    }
    let far = graph("f32[1152921504606846976, s]", "neg %x");
    cases.refused("too large for memory", far.as_bytes(), &RUN, &["x", "address space"]);
    let deep = graph(&format!("f32[{}s]", "1, ".repeat(12_000)), "neg %x");
    cases.refused("many axes", deep.as_bytes(), &READ, &["x", "12001 axes"]);
    let ones = "1, ".repeat(12_000);
    for node in [format!("expand %x {{shape = [{ones}s]}}"), format!("reshape %x {{shape = [{ones}4]}}")] {
        cases.misread("many axes of a result", graph("f32[s, 4]", &node).as_bytes(), &READ, &["12001 axes"]);
    }
    let perm: Vec<String> = (0..12_000).map(|i| i.to_string()).collect();
    for (what, node) in [("permute", "perm"), ("reduce", "op = max, axes")] {
        let node = format!("{what} %x {{{node} = [{}]}}", perm.join(", "));
        cases.misread(what, graph("f32[s, 4]", &node).as_bytes(), &READ, &["12000 axes"]);
    }
    let wide = graph("f32[1099511627776, s]", "neg %x");
    cases.starved("more than memory", wide.as_bytes(), &RUN, &["`x`", "f32[1099511627776, 16]", "bytes"]);
    for node in [
        "reshape %x {shape = [s, 5]}",
        "reshape %x {shape = [s, -4]}",
        "reshape %x {shape = [9223372036854775807, 9223372036854775807]}",
        "slice %x {axis = 1, start = 0, end = 9223372036854775807}",
        "slice %x {axis = 9, start = 0, end = 1}",
        "slice %x {axis = 1, start = 3, end = 1}",
        "permute %x {perm = [0, 0]}",
        "permute %x {perm = [0, 18446744073709551615]}",
        "reduce %x {op = add, axes = [7]}",
        "iota {type = i64, len = 1}",
    ] {
        cases.misread(node, graph("f32[s, 4]", node).as_bytes(), &READ, &["2:"]);
    }
    let large =
        "graph @g(%x: f32[4]) {\n  %y = expand %x {shape = [1099511627776, 4]}\n  %z = exp %y\n  return %z\n}\n";
    cases.starved("a large result", large.as_bytes(), &RUN, &["f32[1099511627776, 4]", "bytes"]);
    // The places of the largest are an op by reference, which reads all elements in their order.
    let gathered = "graph @g(%x: f32[1]) {\n  %y = expand %x {shape = [1099511627776]}\n  %z, %i = top_k %y {k = 1}\n  return %z\n}\n";
    cases.starved("a large operand", gathered.as_bytes(), &RUN, &["top_k", "no memory", "bytes"]);
    let two = graph("f32[s, 4]", "neg %x");
    cases.misread("two graphs", format!("{two}{two}").as_bytes(), &RUN, &["a second graph", "graph @g"]);
    let symbol = graph("f32[s, 4]", "neg %x").replace("1..", "9223372036854775807..");
    cases.refused("a large symbol", symbol.as_bytes(), &RUN, &["x"]);
    cases.finish(46);
}

#[test]
fn names_that_do_not_add_up() {
    let mut cases = Cases::new("fw");
    for (what, text, words) in [
        ("cyclic", graph("f32[s]", "neg %y"), ["2:", "y"]),
        ("dangling", graph("f32[s]", "neg %z"), ["2:", "z"]),
        ("unknown op", graph("f32[s]", "frob %x"), ["2:", "frob"]),
        ("unknown dtype", graph("f31[s]", "neg %x"), ["1:", "f31"]),
        ("unknown symbol", graph("f32[t]", "neg %x"), ["t", ""]),
        ("double input", graph("f32[s], %x: f32[s]", "neg %x"), ["1:", "x"]),
        ("double symbol", graph("f32[s]", "neg %x").replace("s: 1..", "s: 1.., s: 2.."), ["1:", "s"]),
        ("double result", graph("f32[s]", "neg %x\n  %y = exp %x"), ["3:", "y"]),
        ("unknown result", graph("f32[s]", "neg %x").replace("return %y", "return %q"), ["3:", "q"]),
        ("few operands", graph("f32[s]", "add %x"), ["2:", "add"]),
        ("unknown update", graph("f32[s]", "neg %x").replace("return %y", "return %y updates %q"), ["q", ""]),
        ("empty range", graph("f32[s]", "neg %x").replace("1..", "9..3"), ["9", ""]),
    ] {
        cases.misread(what, text.as_bytes(), &READ, &words);
    }
    let long = "s".repeat(70_000);
    let named = graph("f32[s]", "neg %x").replace("s: ", &format!("{long}: ")).replace("[s]", &format!("[{long}]"));
    cases.misread("long symbol", named.as_bytes(), &READ, &["1:", "a name of 70000 bytes"]);
    let twice = graph("f32[s]", "neg %x").repeat(2);
    cases.misread("two graphs of one name", twice.as_bytes(), &[&["explain", "FILE"], &["run", "FILE"]], &[]);
    cases.finish(38);
}

#[test]
fn kernels_that_do_not_add_up() {
    let mut cases = Cases::new("fw");
    let load = "    %x = load x[row*64 + lane] : row<f32, 64>\n";
    for (what, body, words) in [
        ("dangling", format!("{load}    %z = neg %q\n"), ["6:", "q"]),
        ("unknown op", format!("{load}    %z = frob %x\n"), ["6:", "frob"]),
        ("unknown parameter", "    %x = load q[row*64 + lane] : row<f32, 64>\n".to_owned(), ["5:", "q"]),
        ("lanes", "    %x = load x[row*64 + lane] : row<f32, 9223372036854775807>\n".to_owned(), ["", ""]),
        ("unknown dtype", "    %x = load x[row*64 + lane] : row<f31, 64>\n".to_owned(), ["5:", "f31"]),
        ("deep", format!("    %x = load x[{}row] : row<f32, 64>\n", "(".repeat(100_000)), ["5:", ""]),
    ] {
        cases.misread(what, kernel(&body).as_bytes(), &OPT, &words);
    }
    cases.finish(6);
}

#[test]
fn kernels_that_leave_their_parameters_are_stopped() {
    let mut cases = Cases::new("fw");
    let run: [&[&str]; 2] = [&["opt", "FILE", "run"], &["opt", "FILE", "diff"]];
    for index in [
        "row*64 + lane + 64",
        "9223372036854775807*row + lane + 4",
        "lane - 1",
        "row*lane*s*4611686018427387904 + lane - s",
    ] {
        let text = kernel(&format!("    %x = load x[{index}] : row<f32, 64>\n    store y[row*64 + lane], %x\n"));
        cases.refused(index, text.as_bytes(), &run, &["@main", "x["]);
        let text = kernel(&format!("    %x = load x[row*64 + lane] : row<f32, 64>\n    store y[{index}], %x\n"));
        cases.refused(index, text.as_bytes(), &run, &["@main", "y["]);
    }
    cases.finish(16);
}

#[test]
fn ten_thousand_inputs_are_read_in_proportion() {
    let inputs: Vec<String> = (0..10_000).map(|i| format!("%x{i}: f32[s, 4]")).collect();
    let sums: String = (1..10_000)
        .map(|i| format!("  %y{i} = add %{}, %x{i}\n", if i == 1 { "x0".to_owned() } else { format!("y{}", i - 1) }))
        .collect();
    let text = format!("graph @many(s: 1..; {}) {{\n{sums}  return %y9999\n}}\n", inputs.join(", "));
    let folder = crate::support::folder();
    let path = crate::support::write(&folder, "many.fw", text);
    let said = super::limited(&["opt", &path]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}
