//! Views by extents, strides and offsets: what they cut out of a tensor, and which share elements.

use super::attention::{argument, call, one_node, tensor};
use super::fused::{F8, F32, float, int, reason};
use super::{meta, model_json, packed};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::dim_range::range;
use crate::graph::{Graph, Symbol, Value};
use crate::import::call::Names;
use crate::import::pt2;
use crate::import::sharing::Sharing;
use crate::import::steps::{self, Step};
use crate::import::strided::{Strided, cut, disjoint};
use crate::interp::{self, Symbols};
use crate::tensor::Tensor;
use crate::ty::TensorType;
use crate::{DType, verify};

/// What is known of symbols.
struct Known(Vec<Symbol>);

impl Names for Known {
    fn value(&self, _: &str) -> Option<Value> {
        None
    }

    fn size(&self, _: &str) -> Option<Dim> {
        None
    }

    fn ranks(&self, _: &str) -> Option<u32> {
        None
    }

    fn never_negative(&self, dim: &Dim) -> bool {
        range(dim, &self.0).is_some_and(|(min, _)| min >= 0)
    }

    fn takes_for_granted(&self, _: &Dim) -> bool {
        false
    }

    fn is_complex(&self, _: &str) -> bool {
        false
    }

    fn is_on_cpu(&self, _: &str) -> bool {
        false
    }

    fn memory(&self, _: &str) -> Option<Strided> {
        None
    }

    fn same_extent(&self, a: &Dim, b: &Dim) -> bool {
        a == b
    }
}

fn known(min: i64) -> Known {
    Known(["s", "t"].map(|name| Symbol { name: name.into(), min, max: Some(1 << 20) }).into())
}

fn dims(text: &[&str]) -> Vec<Dim> {
    text.iter().map(|t| t.parse().unwrap_or_else(|e| panic!("{t}: {e}"))).collect()
}

fn strided(shape: &[&str], strides: &[&str], offset: &str) -> Strided {
    Strided { shape: dims(shape), strides: dims(strides), offset: dims(&[offset]).remove(0) }
}

/// The places of all elements in their order.
fn places(of: &Strided, s: i64) -> Vec<i64> {
    let value = |d: &Dim| d.eval(&|_| Some(s)).expect("a number");
    let mut all = vec![value(&of.offset)];
    for (extent, stride) in of.shape.iter().zip(&of.strides) {
        let (extent, stride) = (value(extent), value(stride));
        all = all.iter().flat_map(|at| (0..extent).map(move |i| at + i * stride)).collect();
    }
    all
}

/// Checks the layout ops of a view against the places of its elements, as a reading and as a writing; the reading's nodes.
#[track_caller]
fn check(base: &Strided, view: &Strided, names: &Known, sizes: &[i64]) -> Vec<String> {
    let steps = cut(base, view, names).unwrap_or_else(|e| panic!("{view} of {base}: {}", e.0));
    let b = Builder::new("g");
    for Symbol { name, min, max } in &names.0 {
        b.symbol(name, *min, *max);
    }
    let ty = |of: &Strided| TensorType { dtype: DType::F32, shape: of.shape.clone() };
    let (x, y) = (b.input("x", ty(base)), b.input("y", ty(view)));
    let read = steps::apply(&b, x, &steps).unwrap_or_else(|e| panic!("{}", e.0));
    assert_eq!(b.ty(read), ty(view), "{view} of {base}");
    let written = steps::write_back(&b, x, &steps, y).unwrap_or_else(|e| panic!("{}", e.0));
    b.output(read);
    b.output(written);
    let graph = b.finish();
    verify::verify(&graph).unwrap_or_else(|e| panic!("{view} of {base}: {e:?}"));
    for &s in sizes {
        let count = |of: &Strided| {
            let extent = |d: &Dim| usize::try_from(d.eval(&|_| Some(s)).expect("a number")).expect("small");
            of.shape.iter().map(extent).collect::<Vec<usize>>()
        };
        let (held, wanted) = (places(base, s), places(view, s));
        let old: Vec<f64> = held.iter().map(|&at| at as f64).collect();
        let new: Vec<f64> = (0..wanted.len()).map(|i| -1.0 - i as f64).collect();
        let tensor = |of: &Strided, v: &[f64]| Tensor::from_f64(DType::F32, &count(of), v.to_vec()).expect("fits");
        let given = [tensor(base, &old), tensor(view, &new)];
        let symbols: Symbols = names.0.iter().map(|symbol| (symbol.name.clone(), s)).collect();
        let results = interp::run(&graph, &given, &symbols).unwrap_or_else(|e| panic!("{view} of {base}: {e}"));
        let read: Vec<f64> = wanted.iter().map(|&at| at as f64).collect();
        assert_eq!(results[0].floats().expect("floats").to_vec(), read, "{view} of {base} at {s}");
        let at = |place: i64| wanted.iter().position(|&w| w == place).map_or(place as f64, |i| new[i]);
        let whole: Vec<f64> = held.iter().map(|&place| at(place)).collect();
        assert_eq!(results[1].floats().expect("floats").to_vec(), whole, "{view} of {base} at {s}");
    }
    let named = |step: &Step| match step {
        Step::Op(prim) => prim.name().to_owned(),
        Step::Places { .. } => "places".to_owned(),
    };
    steps.iter().map(named).collect()
}

#[test]
fn scales_in_columns_are_axes_in_another_order() {
    for (base, view, nodes) in [
        (strided(&["3", "s"], &["s", "1"], "0"), strided(&["s", "3"], &["1", "s"], "0"), &["permute"][..]),
        (strided(&["s", "3"], &["1", "s"], "0"), strided(&["3", "s"], &["s", "1"], "0"), &["permute"]),
        // Only strides say that a column of no rows is one element long.
        (strided(&["3", "s"], &["max(1, s)", "1"], "0"), strided(&["s", "3"], &["1", "max(s, 1)"], "0"), &["permute"]),
        // Columns filled up to whole chunks, in memory of two axes, of one and of one that is longer.
        (
            strided(&["3", "floordiv(s + 3, 4)*4"], &["floordiv(s + 3, 4)*4", "1"], "0"),
            strided(&["s", "3"], &["1", "floordiv(s + 3, 4)*4"], "0"),
            &["slice", "permute"],
        ),
        (
            strided(&["floordiv(s + 3, 4)*12"], &["1"], "0"),
            strided(&["s", "3"], &["1", "floordiv(s + 3, 4)*4"], "0"),
            &["reshape", "slice", "permute"],
        ),
        (
            strided(&["s*3 + 17"], &["1"], "0"),
            strided(&["s", "3"], &["1", "s + 3"], "5"),
            &["slice", "reshape", "slice", "permute"],
        ),
        // One of several tables, of which columns are cut off at both ends.
        (
            strided(&["2", "5", "s + 3"], &["s*5 + 15", "s + 3", "1"], "0"),
            strided(&["s", "3"], &["1", "s + 3"], "s*6 + 20"),
            &["slice", "slice", "slice", "reshape", "permute"],
        ),
        (
            strided(&["s", "6", "8"], &["48", "8", "1"], "0"),
            strided(&["s", "3", "4"], &["48", "16", "2"], "9"),
            &["slice", "slice"],
        ),
        // Rows with gaps between them.
        (
            strided(&["s", "3", "4"], &["20", "5", "1"], "7"),
            strided(&["4", "s"], &["1", "20"], "12"),
            &["slice", "reshape", "permute"],
        ),
    ] {
        assert_eq!(check(&base, &view, &known(0), &[0, 1, 2, 7, 8]), nodes, "{view} of {base}");
    }
}

#[test]
fn views_that_torch_makes_one_after_the_other_are_followed() {
    // Every third element, halves, columns and rows of tensors whose memory is in another order or has gaps.
    let orders: [&[usize]; 4] = [&[0, 1, 2], &[2, 0, 1], &[1, 2, 0], &[2, 1, 0]];
    let mut seed = 1u64;
    let mut pick = |of: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % of
    };
    for _ in 0..400 {
        let (extents, pad) = ([[4, 6, 5], [1, 12, 2], [3, 1, 8], [2, 2, 9]][pick(4)], pick(3) as i64);
        let order = orders[pick(4)];
        let mut strides = [0i64; 3];
        let mut next = 1;
        for &axis in order.iter().rev() {
            strides[axis] = next;
            next *= extents[axis] + if axis == order[2] { pad } else { 0 };
        }
        let list = |v: &[i64]| v.iter().map(|&n| Dim::constant(n)).collect::<Vec<Dim>>();
        let offset = pick(4) as i64;
        let base = Strided { shape: list(&extents), strides: list(&strides), offset: Dim::constant(offset) };
        let (mut shape, mut steps, mut at) = (extents.to_vec(), strides.to_vec(), offset);
        for _ in 0..=pick(5) {
            let axis = pick(shape.len());
            match pick(5) {
                0 if shape[axis] > 1 => {
                    let start = pick(shape[axis] as usize) as i64;
                    let step = 1 + pick(3) as i64;
                    at += start * steps[axis];
                    shape[axis] = (shape[axis] - start + step - 1) / step;
                    steps[axis] *= step;
                }
                1 if shape.len() > 1 => {
                    let index = pick(shape[axis] as usize) as i64;
                    at += index * steps[axis];
                    shape.remove(axis);
                    steps.remove(axis);
                }
                2 if shape[axis] % 2 == 0 => {
                    shape.splice(axis..=axis, [shape[axis] / 2, 2]);
                    steps.splice(axis..=axis, [steps[axis] * 2, steps[axis]]);
                }
                3 => {
                    let other = pick(shape.len());
                    shape.swap(axis, other);
                    steps.swap(axis, other);
                }
                4 if axis + 1 < shape.len() && steps[axis] == steps[axis + 1] * shape[axis + 1] => {
                    let inner = shape.remove(axis + 1);
                    steps.remove(axis);
                    shape[axis] *= inner;
                }
                _ => {}
            }
        }
        let view = Strided { shape: list(&shape), strides: list(&steps), offset: Dim::constant(at) };
        check(&base, &view, &known(0), &[1]);
    }
}

#[test]
fn what_is_no_selection_is_refused_and_all_else_is_right() {
    let mut refused = [0; 3];
    for (a, b) in (0..8i64).flat_map(|a| (0..8).map(move |b| (a, b))) {
        for (m, n, offset) in [(2i64, 3i64, 0i64), (3, 2, 1), (1, 4, 2), (4, 1, 5), (3, 3, 0)] {
            let list = |v: [i64; 2]| v.iter().map(|&n| Dim::constant(n)).collect::<Vec<Dim>>();
            let view = Strided { shape: list([m, n]), strides: list([a, b]), offset: Dim::constant(offset) };
            for base in [strided(&["24"], &["1"], "0"), strided(&["4", "6"], &["6", "1"], "0")] {
                let mut all = places(&view, 1);
                let inside = all.iter().all(|&at| at < 24);
                all.sort_unstable();
                all.dedup();
                let once = all.len() as i64 == m * n;
                match cut(&base, &view, &known(0)) {
                    Ok(_) => {
                        assert!(once && inside, "{view} of {base}");
                        check(&base, &view, &known(0), &[1]);
                    }
                    Err(why) if !once => {
                        let said = why.0.starts_with(&format!("{view} has one element at several places"));
                        assert!(said || why.0.contains("is no selection of"), "{}", why.0);
                        refused[0] += 1;
                    }
                    Err(why) => {
                        assert!(why.0.starts_with(&format!("{view} is no selection of the elements of {base}")));
                        refused[usize::from(inside) + 1] += 1;
                    }
                }
            }
        }
    }
    assert!(refused[0] > 100 && refused[1] > 20, "{refused:?}");
    let (none, two) = (strided(&["s", "0"], &["1", "1"], "0"), strided(&["2", "s"], &["s", "1"], "0"));
    check(&two, &none, &known(0), &[0, 3]);
    let missing = Strided { strides: Vec::new(), ..two.clone() };
    assert!(cut(&two, &missing, &known(0)).is_err_and(|e| e.0.contains("another number of axes")));
}

#[test]
fn views_are_disjoint_where_their_ranges_of_one_axis_are() {
    let names = known(1);
    let apart = |a: &Strided, b: &Strided| {
        assert_eq!(disjoint(a, b, &names), disjoint(b, a, &names), "{a} and {b}");
        disjoint(a, b, &names)
    };
    let half = |at: &str| strided(&["s", "4"], &["8", "1"], at);
    assert!(apart(&half("0"), &half("4")) && !apart(&half("0"), &half("3")));
    let column = |at: &str| strided(&["s"], &["3"], at);
    assert!(apart(&column("0"), &column("2")) && !apart(&column("1"), &column("s*3 - 2")));
    let table = |at: &str| strided(&["s", "3"], &["1", "s + 2"], at);
    assert!(apart(&table("0"), &table("s*3 + 6")) && !apart(&table("0"), &table("1")));
    let odd = strided(&["4", "s"], &["2", "8"], "1");
    assert!(apart(&odd, &strided(&["s*4"], &["2"], "0")));
    // All small pairs: what is said to be apart is.
    for code in 0..4096i64 {
        let of = |code: i64| {
            let list = |a: i64, b: i64| vec![Dim::constant(a), Dim::constant(b)];
            let (extents, strides) = (list(1 + code % 2, 2), list(3 + code / 2 % 4, 1 + code / 8 % 2));
            Strided { shape: extents, strides, offset: Dim::constant(code / 16 % 4) }
        };
        let (a, b) = (of(code % 64), of(code / 64));
        let shared = places(&a, 1).iter().any(|at| places(&b, 1).contains(at));
        assert!(!(apart(&a, &b) && shared), "{a} and {b}");
    }
}

/// `_C.per_token_group_fp8_quant`, functionalised with the scales as a view of a base, and that view taken again.
fn functional(view: &[String], (shape, strides, offset): (&[i64], &[i64], i64)) -> Graph {
    let numbers = [
        int("group_size", 2),
        float("eps", 1e-10),
        float("fp8_min", -448.0),
        float("fp8_max", 448.0),
        argument("scale_ue8m0", r#"{"as_bool":false}"#),
        r#"{"name":"","arg":{"as_operator":"torch.ops._C.per_token_group_fp8_quant.default"}}"#.to_owned(),
        argument("_all_bases", r#"{"as_tensors":[{"name":"q"},{"name":"s"}]}"#),
        int("_output_q_base_index", 0),
        int("_output_s_base_index", 1),
    ];
    let inputs = [&[tensor("input", "x")][..], &numbers, view].concat();
    let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let write = format!(
        r#"{{{},"outputs":[{{"as_none":true}},{},{}],"name":"f"}}"#,
        call("higher_order.auto_functionalized_v2", &inputs),
        value("new_q"),
        value("new_s")
    );
    let list = |name: &str, of: &[i64]| argument(name, &format!(r#"{{"as_ints":{of:?}}}"#));
    let again = [tensor("self", "new_s"), list("size", shape), list("stride", strides), int("storage_offset", offset)];
    let read = format!(r#"{{{},"outputs":[{}],"name":"r"}}"#, call("aten.as_strided.default", &again), value("r"));
    let spec = |name: &str| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(name));
    let types = [
        ("x", meta(F32, &[3, 4], &[4, 1], 0)),
        ("q", meta(F8, &[3, 4], &[4, 1], 0)),
        ("s", meta(F32, &[2, 4], &[4, 1], 0)),
        ("new_q", meta(F8, &[3, 4], &[4, 1], 0)),
        ("new_s", meta(F32, &[2, 4], &[4, 1], 0)),
        ("r", meta(F32, shape, strides, offset)),
    ];
    let types = types.map(|(name, ty)| format!(r#""{name}":{ty}"#));
    let json = model_json(
        &["x", "q", "s"].map(spec).join(","),
        &[write, read].join(","),
        &types.join(","),
        &format!(r#"{{"user_output":{{"arg":{}}}}}"#, value("r")),
    );
    pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph")
}

fn view_of(shape: &str, strides: &str, offset: i64) -> Vec<String> {
    let list = |name: &str, of: &str| argument(&format!("_output_s_{name}"), &format!(r#"{{"as_ints":{of}}}"#));
    vec![list("size", shape), list("stride", strides), int("_output_s_storage_offset", offset)]
}

#[test]
fn an_op_that_writes_a_view_of_a_base_is_taken_apart() {
    // The same view, taken again, is what the op wrote; another one is cut out of the base.
    for (again, cuts) in [((&[3, 2][..], &[1, 4][..], 1), 0), ((&[2, 2], &[1, 4], 1), 2)] {
        let graph = functional(&view_of("[3,2]", "[1,4]", 1), again);
        let mut steps = Vec::new();
        let mut node = graph.def_node(graph.outputs()[0].value).expect("a node");
        while node.op.name() != "quantize_dynamic" && node.op.name() != "cat" {
            steps.push(node.op.name());
            node = graph.def_node(node.operands[0]).expect("a node");
        }
        assert_eq!(node.op.name(), if cuts == 0 { "quantize_dynamic" } else { "cat" }, "{steps:?}");
        assert_eq!(steps.iter().filter(|name| ["slice", "permute"].contains(name)).count(), cuts, "{steps:?}");
    }
}

#[test]
fn a_view_that_is_not_followed_is_named_with_its_strides() {
    for (view, said) in [
        (view_of("[3,2]", "[1,1]", 0), "`output_s`: [3, 2] with strides [1, 1] has one element at several places"),
        (
            view_of("[3,2]", "[2,3]", 1),
            "`output_s`: [3, 2] with strides [2, 3] from element 1 is no selection of the elements of [2, 4] with strides [4, 1]",
        ),
    ] {
        let graph = functional(&view, (&[2, 4], &[4, 1], 0));
        assert_eq!(reason(&graph), said);
        assert!(graph.to_string().contains("_C.per_token_group_fp8_quant"), "{graph}");
    }
    // Both are written into one base.
    let half = |name: &str, at: i64| {
        let list = |part: &str, of: &str| argument(&format!("_{name}_{part}"), &format!(r#"{{"as_ints":{of}}}"#));
        [
            int(&format!("_{name}_base_index"), 0),
            list("size", "[2,2]"),
            list("stride", "[4,1]"),
            int(&format!("_{name}_storage_offset"), at),
        ]
    };
    let operator = r#"{"name":"","arg":{"as_operator":"torch.ops._C.rotary_embedding.default"}}"#.to_owned();
    let of = |at: i64| {
        let bases = argument("_all_bases", r#"{"as_tensors":[{"name":"s"}]}"#);
        let rest = [tensor("positions", "p"), tensor("cos_sin_cache", "x"), int("head_size", 2)];
        let style = argument("is_neox", r#"{"as_bool":true}"#);
        let all = [&rest[..], &[operator.clone(), bases, style], &half("query", 0), &half("key", at)].concat();
        let node = format!(
            r#"{{"target":"torch.ops.higher_order.auto_functionalized_v2","inputs":[{}],
            "outputs":[{{"as_none":true}},{{"as_tensor":{{"name":"new_s"}}}}],"name":"f"}}"#,
            all.join(",")
        );
        let spec = |name: &str| format!(r#"{{"user_input":{{"arg":{{"as_tensor":{{"name":"{name}"}}}}}}}}"#);
        let table = meta(F32, &[2, 4], &[4, 1], 0);
        let types = format!(
            r#""x":{},"p":{},"s":{table},"new_s":{table}"#,
            meta(F32, &[3, 2], &[2, 1], 0),
            meta(5, &[2], &[1], 0)
        );
        let json = model_json(&["x", "p", "s"].map(spec).join(","), &node, &types, "");
        pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph")
    };
    assert!(of(2).nodes().iter().all(|n| n.op.name() != "opaque"));
    let said =
        "`key`: [2, 2] with strides [4, 1] from element 1 may share elements with `query`, which is overwritten too";
    assert_eq!(reason(&of(1)), said);
}

/// What no view of the functional form is refused for either.
#[test]
fn arguments_that_overlap_are_refused_in_place() {
    let stretched = |strides: &[i64]| {
        let node = call("_C.silu_and_mul.default", &[tensor("result", "y"), tensor("input", "x")]);
        let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
        let specs = ["x", "y"].map(|name| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(name))).join(",");
        let types = format!(r#""x":{},"y":{}"#, meta(F32, &[2, 8], &[8, 1], 0), meta(F32, &[2, 4], strides, 0));
        let json = model_json(&specs, &format!(r#"{{{node},"outputs":[],"name":"n"}}"#), &types, "");
        pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph")
    };
    assert!(stretched(&[4, 1]).nodes().iter().all(|n| n.op.name() != "opaque"));
    assert_eq!(reason(&stretched(&[0, 1])), "`result`: [2, 4] with strides [0, 1] has one element at several places");
}

/// What an op that is refused wrote in place is its result: later readers read that, as in the functional forms.
#[test]
fn what_is_read_behind_a_refused_overwrite_is_its_result() {
    let written = call(
        "_C.fused_add_rms_norm.default",
        &[
            tensor("input", "x"),
            tensor("residual", "x"),
            tensor("weight", "w"),
            argument("epsilon", r#"{"as_float":1e-6}"#),
        ],
    );
    let read = call("aten.neg.default", &[tensor("self", "x")]);
    let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let specs = ["x", "w"].map(|name| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(name))).join(",");
    let nodes = format!(r#"{{{written},"outputs":[],"name":"n"}},{{{read},"outputs":[{}],"name":"y"}}"#, value("y"));
    let ty = |name: &str, shape: &[i64], strides: &[i64]| format!(r#""{name}":{}"#, meta(F32, shape, strides, 0));
    let types = [ty("x", &[2, 8], &[8, 1]), ty("w", &[8], &[1]), ty("y", &[2, 8], &[8, 1])].join(",");
    let output = format!(r#"{{"user_output":{{"arg":{}}}}}"#, value("y"));
    let json = model_json(&specs, &nodes, &types, &output);
    let graph = pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph");
    assert!(reason(&graph).contains("may share elements with `input`"), "{graph}");
    let made = |name: &str| graph.nodes().iter().find(|node| node.op.name() == name).expect("a node");
    assert!(made("opaque").results.contains(&made("neg").operands[0]), "{graph}");
}

/// The argument, its value and why, whichever form the call has.
#[test]
fn refused_arguments_are_named_in_every_form() {
    let said = "`group_shape` is [1, 64]: a scale per group";
    let given = [tensor("input", "x"), tensor("scale", "w"), argument("group_shape", r#"{"as_ints":[1,64]}"#)];
    let inputs: [(&str, i64, &[i64]); 3] = [("x", F32, &[2, 64]), ("w", F32, &[2, 1]), ("q", F8, &[2, 64])];
    let plain = [&given[..], &[tensor("result", "q")]].concat();
    let in_place = one_node(&inputs, &call("_C.static_scaled_fp8_quant.default", &plain), &[]).expect("a graph");
    let operator = r#"{"name":"","arg":{"as_operator":"torch.ops._C.static_scaled_fp8_quant.default"}}"#.to_owned();
    let form = |name: &str, rest: &[String]| {
        let node = call(&format!("higher_order.{name}"), &[&given[..], std::slice::from_ref(&operator), rest].concat());
        one_node(&inputs, &node, &[("y", F8, &[2, 64])]).expect("a graph")
    };
    let base = [int("_result_base_index", 0), argument("_all_bases", r#"{"as_tensors":[{"name":"q"}]}"#)];
    let forms =
        [form("auto_functionalized", &[tensor("result", "q")]), form("auto_functionalized_v2", &base), in_place];
    for graph in &forms {
        assert_eq!(reason(graph), said);
        assert!(graph.to_string().contains(r#"target = "_C.static_scaled_fp8_quant""#), "{graph}");
    }
}

fn sharing<T>(shape: &[&str], strides: &[&str], min: i64, ask: impl Fn(&Sharing<'_>) -> T) -> T {
    ask(&Sharing { tensor: &strided(shape, strides, "0"), names: &known(min) })
}

#[test]
fn a_tensor_is_contiguous_or_not_for_every_size_in_the_ranges() {
    let is = |sizes: &[&str], strides: &[&str], min| sharing(sizes, strides, min, |tensor| tensor.is_contiguous());
    assert_eq!(is(&["s", "8"], &["8", "1"], 2), Some(true));
    assert_eq!(is(&["s", "8"], &["16", "1"], 2), Some(false));
    assert_eq!(is(&["s", "8"], &["16", "1"], 1), None, "one row is contiguous");
    assert_eq!(is(&["8", "s"], &["1", "8"], 2), Some(false));
    assert_eq!(is(&["1", "s"], &["99", "1"], 2), Some(true));
    assert_eq!(is(&["s", "t"], &["t", "1"], 2), Some(true));
    assert_eq!(is(&["s", "t"], &["s", "1"], 2), None, "where both are equal");
    assert_eq!(is(&["t", "s", "8"], &["8*s", "16", "1"], 2), Some(false));
    assert_eq!(is(&[], &[], 2), Some(true));
}

#[test]
fn a_reshape_is_a_view_where_runs_of_axes_are_divided() {
    let is = |sizes: &[&str], strides: &[&str], to: &[&str]| {
        let to = dims(to);
        sharing(sizes, strides, 2, |tensor| tensor.is_viewed(&to))
    };
    // Columns that are cut out of wider rows.
    let (sizes, strides) = (&["s", "96"], &["128", "1"]);
    assert_eq!(is(sizes, strides, &["s", "2", "48"]), Some(true));
    assert_eq!(is(sizes, strides, &["s", "1", "96"]), Some(true));
    assert_eq!(is(sizes, strides, &["1", "s", "96", "1"]), Some(true));
    assert_eq!(is(sizes, strides, &["96*s"]), Some(false));
    assert_eq!(is(sizes, strides, &["2*s", "48"]), Some(false));
    // Axes that are exchanged.
    assert_eq!(is(&["8", "s"], &["1", "8"], &["8*s"]), Some(false));
    assert_eq!(is(&["8", "s"], &["1", "8"], &["2", "4", "s"]), Some(true));
    assert_eq!(is(&["s", "4", "16"], &["64", "16", "1"], &["s", "64"]), Some(true));
    assert_eq!(is(&["s", "4", "16"], &["64", "16", "1"], &["64*s"]), Some(true));
    assert_eq!(is(&["4", "s", "16"], &["16", "64", "1"], &["s", "64"]), Some(false));
    assert_eq!(is(&["s", "t"], &["64", "1"], &["s*t"]), None, "rows of 64 are whole");
    assert_eq!(is(&["s", "8"], &["0", "1"], &["8*s"]), Some(false), "repeated rows");
    assert_eq!(is(&[], &[], &["1", "1"]), Some(true));
    // Of one row at least.
    let of_one = |to: &[&str]| sharing(sizes, strides, 1, |tensor| tensor.is_viewed(&dims(to)));
    assert_eq!(of_one(&["s", "2", "48"]), Some(true));
    assert_eq!(of_one(&["96*s"]), None);
}
