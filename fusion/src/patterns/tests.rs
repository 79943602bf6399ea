//! Names of regions in every spelling, and near twins that have another.

use fusewright_graph::DType::{self, BF16, F32, I64};
use fusewright_graph::Dim;
use fusewright_graph::ops::{Composite, Sigmoid};

use super::*;
use crate::pass::{Cx, PassManager};
use crate::region::{Limits, partition};
use crate::samples::{self, Built, Sample, TINY};

mod quantisers;
mod scales;
mod spellings;
mod streams;

fn names(graph: &Graph) -> BTreeMap<String, usize> {
    let (graph, _) = PassManager::default().run(graph, &mut Cx::default(), &mut []).expect("the passes run");
    let mut partition = partition(&graph, &Limits::default());
    name_regions(&graph, &mut partition);
    let counts = counts(&partition);
    assert!(counts.keys().all(|name| is_name(name)), "{counts:?} has a name that is not in the vocabulary");
    counts
}

/// The names of the regions of a graph in text: its head up to the nodes, its nodes, and what it returns.
fn names_of(inputs: &str, nodes: &str, returned: &str) -> Vec<String> {
    let text = format!("graph @g(s: 1..; {inputs}) {{\n{nodes}\n  return {returned}\n}}\n");
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    names(&graph).into_keys().collect()
}

fn expect_names(graph: &Built<Graph>, expected: &[(&str, usize)]) {
    let graph = graph.as_ref().expect("types");
    let expected: BTreeMap<String, usize> = expected.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
    assert_eq!(names(graph), expected);
}

#[test]
fn a_decoder_layer_in_both_forms() {
    let common = [("add_rms_norm", 1), ("qk_norm_rope", 1), ("rms_norm", 1), ("silu_mul", 1)];
    expect_names(&samples::qwen3_layer(false, &TINY), &common);
    let mut core = common.to_vec();
    core.push(("softmax", 1));
    expect_names(&samples::qwen3_layer(true, &TINY), &core);
}

#[test]
fn quantisers_are_suffixes() {
    expect_names(&samples::add_norm_fp8_token(4096), &[("add_rms_norm.fp8_token", 1)]);
    expect_names(&samples::silu_fp8_group(false, 12288), &[("silu_mul.fp8_group128", 1)]);
    expect_names(&samples::silu_fp8_group(true, 12288), &[("silu_mul.fp8_group128", 1)]);
}

fn one(build: impl Fn(&Sample) -> Built<Vec<Value>>) -> Built<Graph> {
    let g = Sample::new(false);
    let outputs = build(&g)?;
    Ok(g.finish(&outputs))
}

fn input(g: &Sample, name: &str) -> Value {
    g.input(name, BF16, &[-1, 64])
}

#[test]
fn norms_in_every_spelling() {
    let w = |g: &Sample| g.weight("w", &[64]);
    expect_names(&one(|g| Ok(vec![g.gemma_norm(input(g, "x"), w(g))?])), &[("rms_norm", 1)]);
    expect_names(&one(|g| Ok(vec![g.hf_norm(input(g, "x"), w(g))?])), &[("rms_norm", 1)]);
    let layer = |g: &Sample, x| {
        let b = &g.b;
        let x = b.cast(x, F32)?;
        let c = b.sub(x, g.mean(x)?)?;
        let v = b.add(g.mean(b.mul(c, c)?)?, b.float(F32, 1e-5)?)?;
        b.cast(b.div(c, b.map(ScalarFn::Sqrt, &[v])?)?, BF16)
    };
    expect_names(&one(|g| Ok(vec![layer(g, input(g, "x"))?])), &[("layer_norm", 1)]);
    let added = |g: &Sample| {
        let sum = g.b.add(input(g, "x"), input(g, "r"))?;
        Ok(vec![layer(g, sum)?, sum])
    };
    expect_names(&one(added), &[("add_layer_norm", 1)]);
    // The weight may meet the root first.
    let factor = |weighted: bool| {
        one(|g| {
            let b = &g.b;
            let x = g.input("x", F32, &[-1, 64]);
            let root = b.map(ScalarFn::Rsqrt, &[b.add(g.mean(b.mul(x, x)?)?, b.float(F32, 1e-6)?)?])?;
            let w = b.cast(w(g), F32)?;
            let factor = if weighted { b.mul(root, w)? } else { b.add(root, w)? };
            Ok(vec![b.mul(x, factor)?])
        })
    };
    expect_names(&factor(true), &[("rms_norm", 1)]);
    expect_names(&factor(false), &[]);
    // A bias is no residual.
    expect_names(&one(|g| Ok(vec![g.hf_norm(g.b.add(input(g, "x"), w(g))?, w(g))?])), &[("rms_norm", 1)]);
}

#[test]
fn near_twins_of_a_norm_are_none() {
    let twin = |count: f64, root: ScalarFn, twice: bool| {
        one(|g| {
            let b = &g.b;
            let (x, y) = (g.input("x", F32, &[-1, 64]), g.input("y", F32, &[-1, 64]));
            let square = b.mul(x, if twice { x } else { y })?;
            let mean = b.div(b.reduce_last(ReduceOp::Add, square)?, b.float(F32, count)?)?;
            Ok(vec![b.mul(x, b.map(root, &[b.add(mean, b.float(F32, 1e-6)?)?])?)?])
        })
    };
    expect_names(&twin(64.0, ScalarFn::Rsqrt, true), &[("rms_norm", 1)]);
    expect_names(&twin(63.0, ScalarFn::Rsqrt, true), &[]);
    expect_names(&twin(64.0, ScalarFn::Sqrt, true), &[]);
    expect_names(&twin(64.0, ScalarFn::Rsqrt, false), &[]);
    let over_tokens = one(|g| {
        let b = &g.b;
        let x = g.input("x", F32, &[-1, 64]);
        let reduce = Prim::Reduce { op: ReduceOp::Add, axes: vec![0], nan: fusewright_graph::NanRule::Propagate };
        let mean = b.div(b.prim(reduce, &[b.mul(x, x)?])?, b.float(F32, 64.0)?)?;
        Ok(vec![b.mul(x, b.map(ScalarFn::Rsqrt, &[mean])?)?])
    });
    expect_names(&over_tokens, &[]);
    // As many columns as rows, in one kernel; and what is reduced is turned.
    let square = |turned: bool| {
        let body = if turned { "%t = permute %x {perm = [1, 0]}" } else { "%t = reshape %x {shape = [16, 16]}" };
        let axis = usize::from(turned);
        let text = format!(
            "graph @n(%x: f32[16, 16]) {{
               {body}
               %q = mul %t, %t
               %s = reduce %q {{op = add, axes = [{axis}]}}
               %n = literal f32 16
               %m = div %s, %n
               %r = rsqrt %m
               %y = mul %x, %r
               return %y
             }}"
        );
        Ok(text.parse::<Graph>().unwrap_or_else(|e| panic!("{e}\n{text}")))
    };
    expect_names(&square(false), &[]);
    expect_names(&square(true), &[]);
}

#[test]
fn a_softmax_takes_the_largest_of_what_it_sums() {
    let softmax = |axis: usize| {
        let text = format!(
            "graph @s(%x: f32[16, 16]) {{
               %m = reduce %x {{op = max, axes = [{axis}]}}
               %d = sub %x, %m
               %e = exp %d
               %s = reduce %e {{op = add, axes = [1]}}
               %y = div %e, %s
               return %y
             }}"
        );
        Ok(text.parse::<Graph>().unwrap_or_else(|e| panic!("{e}\n{text}")))
    };
    expect_names(&softmax(1), &[("softmax", 1)]);
    expect_names(&softmax(0), &[]);
}

#[test]
fn gates_know_their_halves() {
    let halves = |act: i64, core: bool| {
        let g = Sample::new(core);
        let x = g.input("x", BF16, &[-1, 128]);
        let half = |i: i64| g.b.slice(x, 1, Dim::constant(64 * i), Dim::constant(64 * (i + 1)));
        let y = g.b.mul(g.silu(half(act)?)?, half(1 - act)?)?;
        Ok(g.finish(&[y]))
    };
    for core in [false, true] {
        expect_names(&halves(0, core), &[("silu_mul", 1)]);
        expect_names(&halves(1, core), &[("mul_silu", 1)]);
        let alone = one(|g| Ok(vec![g.silu(input(g, "x"))?]));
        expect_names(&alone, &[]);
    }
}

/// Attributes as texts.
type Pairs<'a> = &'a [(&'a str, &'a str)];

/// A gate as a composite of two operands, or of one and a product; halves of one tensor, `second` the gate.
fn gated(op: &str, attrs: Pairs<'_>, second: bool) -> Built<Graph> {
    let g = Sample::new(false);
    let x = g.input("x", BF16, &[-1, 128]);
    let half = |i: i64| g.b.slice(x, 1, Dim::constant(64 * i), Dim::constant(64 * (i + 1)));
    let [gate, up] = [half(i64::from(second))?, half(i64::from(!second))?];
    let spec = fusewright_graph::ops::by_name(op).expect("there is such an op");
    let attrs = attrs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let op = (spec.parse)(&fusewright_graph::ops::Attrs(attrs)).expect("the attributes fit");
    let y = match spec.arity {
        1 => g.b.mul(up, g.b.composite(op, &[gate])?[0])?,
        _ => g.b.composite(op, &[gate, up])?[0],
    };
    Ok(g.finish(&[y]))
}

#[test]
fn gates_of_every_activation_have_names() {
    let one_operand: [(&str, Pairs<'_>, [&str; 2]); 4] = [
        ("relu_squared", &[], ["relu2_mul", "mul_relu2"]),
        ("fatrelu", &[("threshold", "0.5")], ["fatrelu_mul", "mul_fatrelu"]),
        ("fatrelu", &[("threshold", "0.5"), ("nan", "zero")], ["fatrelu_mul", "mul_fatrelu"]),
        ("sigmoid", &[], ["sigmoid_mul", "mul_sigmoid"]),
    ];
    for (op, attrs, names) in one_operand {
        for second in [false, true] {
            expect_names(&gated(op, attrs, second), &[(names[usize::from(second)], 1)]);
        }
    }
    for spec in ["clamped_swiglu", "swiglu_step"].map(|op| fusewright_graph::ops::by_name(op).expect("an op")) {
        for variant in (spec.variants)() {
            let attrs = &variant.attrs().0;
            let attrs: Vec<(&str, &str)> = attrs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            for second in [false, true] {
                expect_names(&gated(spec.name, &attrs, second), &[(spec.name, 1)]);
            }
        }
    }
}

#[test]
fn near_twins_of_clamped_gates_have_other_names() {
    let clamped = |gate: bool, up: bool| {
        one(|g| {
            let b = &g.b;
            let (mut x, mut u) = (g.input("g", F32, &[-1, 64]), g.input("u", F32, &[-1, 64]));
            let bound = b.float(F32, 7.0)?;
            if gate {
                x = b.map(ScalarFn::Min, &[x, bound])?;
            }
            if up {
                u = b.clamp(u, b.float(F32, -7.0)?, bound)?;
            }
            Ok(vec![b.mul(g.silu(x)?, u)?])
        })
    };
    expect_names(&clamped(true, true), &[("clamped_swiglu", 1)]);
    let uneven = |least: f64, most: f64| {
        one(|g| {
            let b = &g.b;
            let x = b.map(ScalarFn::Min, &[g.input("g", F32, &[-1, 64]), b.float(F32, 7.0)?])?;
            let u = b.clamp(g.input("u", F32, &[-1, 64]), b.float(F32, least)?, b.float(F32, most)?)?;
            Ok(vec![b.mul(g.silu(x)?, u)?])
        })
    };
    expect_names(&uneven(-7.0, 7.0), &[("clamped_swiglu", 1)]);
    expect_names(&uneven(-7.0, 6.0), &[("silu_mul", 1)]);
    expect_names(&uneven(-6.0, 6.0), &[("silu_mul", 1)]);
    let gate_from_below = |least: Option<f64>| {
        one(|g| {
            let b = &g.b;
            let bound = b.float(F32, 7.0)?;
            let mut x = g.input("g", F32, &[-1, 64]);
            if let Some(least) = least {
                x = b.map(ScalarFn::Max, &[x, b.float(F32, least)?])?;
            }
            let x = b.map(ScalarFn::Min, &[x, bound])?;
            let u = b.clamp(g.input("u", F32, &[-1, 64]), b.float(F32, -7.0)?, bound)?;
            Ok(vec![b.mul(g.silu(x)?, u)?])
        })
    };
    expect_names(&gate_from_below(None), &[("clamped_swiglu", 1)]);
    expect_names(&gate_from_below(Some(-7.0)), &[("silu_mul", 1)]);
    expect_names(&clamped(true, false), &[("silu_mul", 1)]);
    expect_names(&clamped(false, true), &[("silu_mul", 1)]);
    let capped = |other: f64| {
        one(|g| {
            let b = &g.b;
            let x = b.div(input(g, "x"), b.float(BF16, 30.0)?)?;
            Ok(vec![b.mul(b.map(ScalarFn::Tanh, &[x])?, b.float(BF16, other)?)?])
        })
    };
    expect_names(&capped(30.0), &[("soft_cap", 1)]);
    expect_names(&capped(31.0), &[]);
}

#[test]
fn gelu_has_two_forms() {
    let gated = |cube: f64, tanh: bool| {
        one(|g| {
            let b = &g.b;
            let (x, up) = (g.input("x", F32, &[-1, 64]), g.input("up", F32, &[-1, 64]));
            let bend = if tanh {
                let cubic = b.mul(b.mul(b.mul(x, x)?, x)?, b.float(F32, f64::from(cube as f32))?)?;
                let factor = (2.0 / std::f64::consts::PI).sqrt();
                let inner = b.mul(b.add(x, cubic)?, b.float(F32, f64::from(factor as f32))?)?;
                b.map(ScalarFn::Tanh, &[inner])?
            } else {
                b.map(ScalarFn::Erf, &[b.mul(x, b.float(F32, f64::from(0.5f32.sqrt()))?)?])?
            };
            let act = b.mul(b.mul(x, b.float(F32, 0.5)?)?, b.add(bend, b.float(F32, 1.0)?)?)?;
            Ok(vec![b.mul(act, up)?])
        })
    };
    expect_names(&gated(0.044_715, true), &[("gelu_mul", 1)]);
    expect_names(&gated(0.0, false), &[("gelu_mul", 1)]);
    expect_names(&gated(0.044, true), &[]);
    let by_quotient = |root: f64| {
        one(|g| {
            let b = &g.b;
            let (x, up) = (g.input("x", F32, &[-1, 64]), g.input("up", F32, &[-1, 64]));
            let bend = b.map(ScalarFn::Erf, &[b.div(x, b.float(F32, f64::from(root as f32))?)?])?;
            let act = b.mul(b.mul(x, b.float(F32, 0.5)?)?, b.add(bend, b.float(F32, 1.0)?)?)?;
            Ok(vec![b.mul(act, up)?])
        })
    };
    expect_names(&by_quotient(std::f64::consts::SQRT_2), &[("gelu_mul", 1)]);
    expect_names(&by_quotient(1.5), &[]);
}

#[test]
fn a_gate_may_meet_the_other_half_first() {
    let gated = |same: bool| {
        one(|g| {
            let b = &g.b;
            let [x, y, up] = ["x", "y", "up"].map(|name| g.input(name, F32, &[-1, 64]));
            let below = b.add(b.map(ScalarFn::Exp, &[b.map(ScalarFn::Neg, &[x])?])?, b.float(F32, 1.0)?)?;
            let sigmoid = b.div(b.float(F32, 1.0)?, below)?;
            Ok(vec![b.mul(if same { x } else { y }, b.mul(sigmoid, up)?)?])
        })
    };
    expect_names(&gated(true), &[("silu_mul", 1)]);
    expect_names(&gated(false), &[("sigmoid_mul", 1)]);
}

#[test]
fn factors_of_a_gate_stand_in_any_order_where_none_is_rounded() {
    let of = |dtype: &str, order: &str, slope: &str, clamped: bool| {
        let bounds = format!(
            "%k = literal {dtype} 7.0\n  %l = literal {dtype} -7.0\n  %g = min %a, %k\n  %c = min %b, %k\n  \
             %u = max %c, %l\n"
        );
        let plain = "%g = abs %a\n  %u = neg %b\n";
        let nodes = format!(
            "{}  %n = literal {dtype} {slope}\n  %v = mul %g, %n\n  %s = sigmoid %v\n  {order}",
            if clamped { bounds } else { plain.to_owned() }
        );
        names_of(&format!("%a: {dtype}[s, 64], %b: {dtype}[s, 64]"), &nodes, "%y")
    };
    let orders = [
        "%p = mul %g, %s\n  %y = mul %p, %u",
        "%p = mul %s, %u\n  %y = mul %g, %p",
        "%p = mul %u, %g\n  %y = mul %p, %s",
    ];
    for order in orders {
        assert_eq!(of("f32", order, "1.0", false), ["silu_mul"], "{order}");
        assert_eq!(of("f32", order, "1.702", true), ["clamped_swiglu"], "{order}");
    }
    // Rounded where they stand, of other operands, and with another slope.
    assert_eq!(of("bf16", orders[0], "1.0", false), ["silu_mul"]);
    for order in &orders[1..] {
        assert_eq!(of("bf16", order, "1.0", false), ["sigmoid_mul"], "{order}");
        assert_eq!(of("bf16", order, "1.703", true), ["sigmoid_mul"], "{order}");
    }
    assert_eq!(of("f32", "%p = mul %u, %u\n  %y = mul %p, %s", "1.0", false), ["sigmoid_mul"]);
    assert_eq!(of("f32", orders[2], "1.5", false), ["sigmoid_mul"]);
}

#[test]
fn a_function_of_one_tensor_is_no_gate() {
    let of = |other: &dyn Fn(&Sample, Value, Value) -> Built| {
        one(|g| {
            let x = g.input("x", F32, &[-1, 64]);
            let act = g.b.composite(Composite::new(Sigmoid), &[x])?[0];
            Ok(vec![g.b.mul(act, other(g, x, act)?)?])
        })
    };
    expect_names(&of(&|g, _, _| Ok(g.input("u", F32, &[-1, 64]))), &[("sigmoid_mul", 1)]);
    expect_names(&of(&|_, _, act| Ok(act)), &[]);
    expect_names(&of(&|g, _, act| g.b.sub(g.b.float(F32, 1.0)?, act)), &[]);
    expect_names(&of(&|g, x, _| g.b.map(ScalarFn::Abs, &[x])), &[]);
    expect_names(&of(&|g, x, _| g.b.add(x, g.input("u", F32, &[-1, 64]))), &[("sigmoid_mul", 1)]);
}

#[test]
fn a_rotation_before_a_norm_is_no_residual() {
    let rotated = |residual: bool| {
        one(|g| {
            let (cos, sin) = (g.input("cos", BF16, &[-1, 1, 16]), g.input("sin", BF16, &[-1, 1, 16]));
            let mut x = g.rope(g.input("q", BF16, &[-1, 4, 16]), cos, sin)?;
            if residual {
                x = g.b.add(x, g.input("r", BF16, &[-1, 4, 16]))?;
            }
            Ok(vec![g.hf_norm(x, g.weight("w", &[16]))?])
        })
    };
    expect_names(&rotated(false), &[("rms_norm", 1)]);
    expect_names(&rotated(true), &[("add_rms_norm", 1)]);
}

#[test]
fn ropes_rotate_in_three_spellings() {
    let tables = |g: &Sample, d| (g.input("cos", BF16, &[-1, 1, d]), g.input("sin", BF16, &[-1, 1, d]));
    let full = one(|g| {
        let (cos, sin) = tables(g, 16);
        Ok(vec![g.rope(g.input("q", BF16, &[-1, 4, 16]), cos, sin)?])
    });
    expect_names(&full, &[("rope", 1)]);
    let native = |step: i64, turn: bool, normed: bool| {
        one(|g| {
            let b = &g.b;
            let (c, s) = tables(g, 8);
            let q = g.input("q", BF16, &[-1, 4, 16]);
            let q = if normed { g.hf_norm(q, g.weight("w", &[16]))? } else { q };
            let part = |i: i64| {
                let (start, end) = if step == 1 { (8 * i, 8 * i + 8) } else { (i, 16) };
                b.prim(Prim::Slice { axis: 2, start: start.into(), end: end.into(), step }, &[q])
            };
            let (x, y) = (part(0)?, part(1)?);
            let first = b.sub(b.mul(x, c)?, b.mul(y, s)?)?;
            let second = b.add(b.mul(y, if turn { c } else { s })?, b.mul(x, s)?)?;
            let parts = if step == 1 {
                vec![first, second]
            } else {
                vec![g.view(first, &[-1, 4, 8, 1])?, g.view(second, &[-1, 4, 8, 1])?]
            };
            let axis = if step == 1 { 2 } else { 3 };
            Ok(vec![g.view(b.cat(&parts, axis)?, &[-1, 64])?])
        })
    };
    expect_names(&native(1, true, false), &[("rope", 1)]);
    expect_names(&native(2, true, false), &[("rope", 1)]);
    expect_names(&native(1, false, false), &[]);
    expect_names(&native(1, true, true), &[("qk_norm_rope", 1)]);
    // The table alone is none.
    let table = one(|g| Ok(g.table(g.input("p", I64, &[1, -1]), g.input("f", F32, &[8]))?.to_vec()));
    expect_names(&table, &[]);
}

#[test]
fn quantisers_by_scale_and_bound() {
    let fp8 = |bound: f64, x: &dyn Fn(&Sample) -> Built, scale: &[i64]| {
        one(|g| {
            let b = &g.b;
            let y = b.mul(b.cast(x(g)?, F32)?, b.map(ScalarFn::Recip, &[g.input("scale", F32, scale)])?)?;
            let clamped = b.clamp(y, b.float(F32, -bound)?, b.float(F32, bound)?)?;
            Ok(vec![b.cast(clamped, DType::F8E4M3)?])
        })
    };
    let plain = |g: &Sample| Ok(input(g, "x"));
    let norm = |g: &Sample| g.hf_norm(input(g, "x"), g.weight("w", &[64]));
    expect_names(&fp8(448.0, &plain, &[]), &[("quant.fp8_static", 1)]);
    expect_names(&fp8(448.0, &norm, &[1]), &[("rms_norm.fp8_static", 1)]);
    expect_names(&fp8(224.0, &norm, &[1]), &[("rms_norm", 1)]);
    expect_names(&fp8(224.0, &plain, &[1]), &[]);
    let tensor = one(|g| {
        let b = &g.b;
        let y = b.cast(norm(g)?, F32)?;
        let axes = vec![0, 1];
        let largest = Prim::Reduce { op: ReduceOp::Max, axes, nan: fusewright_graph::NanRule::Propagate };
        let largest = b.prim(largest, &[b.map(ScalarFn::Abs, &[y])?])?;
        let scale = b.div(largest, b.float(F32, 448.0)?)?;
        Ok(vec![g.fp8(b.div(y, scale)?)?, scale])
    });
    expect_names(&tensor, &[("quant.fp8_tensor", 1), ("rms_norm", 1)]);
    let int8 = |dynamic: bool, zero: bool| {
        one(|g| {
            let b = &g.b;
            let x = b.cast(input(g, "x"), F32)?;
            let scale = if dynamic {
                let largest = b.reduce_last(ReduceOp::Max, b.map(ScalarFn::Abs, &[x])?)?;
                b.div(largest, b.float(F32, 127.0)?)?
            } else {
                g.input("scale", F32, &[64])
            };
            let mut y = b.map(ScalarFn::RoundEven, &[b.div(x, scale)?])?;
            if zero {
                y = b.add(y, g.input("zero", F32, &[64]))?;
            }
            let clamped = b.clamp(y, b.float(F32, -128.0)?, b.float(F32, 127.0)?)?;
            Ok(vec![b.cast(clamped, DType::I8)?])
        })
    };
    expect_names(&int8(true, false), &[("quant.int8_token", 1)]);
    expect_names(&int8(false, false), &[("quant.int8_static", 1)]);
    expect_names(&int8(false, true), &[("quant.int8_static", 1)]);
}

#[test]
fn kernels_of_vendors_spell_norms_and_quantisers_their_way() {
    let vendor = one(|g| {
        let b = &g.b;
        let sum = b.add(b.cast(input(g, "x"), F32)?, b.cast(input(g, "r"), F32)?)?;
        // The mean as a sum of parts, the root and its reciprocal apart.
        let part = b.div(b.float(F32, 1.0)?, b.float(F32, 64.0)?)?;
        let mean = b.reduce_last(ReduceOp::Add, b.mul(b.mul(sum, sum)?, part)?)?;
        let root = b.map(ScalarFn::Sqrt, &[b.add(mean, b.float(F32, 1e-6)?)?])?;
        let y = b.cast(b.mul(sum, b.div(b.float(F32, 1.0)?, root)?)?, BF16)?;
        let y = b.cast(y, F32)?;
        // The scale inverted, a zero row guarded.
        let largest = b.reduce_last(ReduceOp::Max, b.map(ScalarFn::Abs, &[y])?)?;
        let zero = b.float(F32, 0.0)?;
        let inverse = b.div(b.float(F32, 127.0)?, largest)?;
        let guarded = b.map(ScalarFn::Select, &[b.map(ScalarFn::Eq, &[largest, zero])?, zero, b.mul(y, inverse)?])?;
        let whole = b.map(ScalarFn::RoundEven, &[guarded])?;
        let low = b.map(ScalarFn::MaxNum, &[whole, b.float(F32, -128.0)?])?;
        Ok(vec![b.cast(b.map(ScalarFn::MinNum, &[low, b.float(F32, 127.0)?])?, DType::I8)?])
    });
    expect_names(&vendor, &[("add_rms_norm.int8_token", 1)]);
}
