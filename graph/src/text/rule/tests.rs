//! Rules read back as they were, and errors name what is wrong.

use super::*;

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn op(name: &str, attrs: &[(&str, &str)]) -> Op {
    let attrs: Vec<_> = attrs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    op_from_text(name, &attrs).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn printed_rules_read_back() {
    for text in [
        "(x) s = 0.5; y = mul x, s; yield y",
        "(x, w: bf16) y = rms_norm x, w {eps = 1e-5, round = once}; yield y, x",
        "(x) y = reshape x {shape = $a}; z = reshape y {shape = [s, 4]}; yield z",
        "(x) y = cast x {to = f32, ..}; yield y",
        "(x) y = cast x {round = trunc, $a}; yield y",
        "(x) y = add x, -0.0; z = div 1, y; yield z",
        "(x: float | bool, y: int, z: bf16 | f16) yield x",
        "() c = literal f32 inf; yield c",
        "() c = literal {value = $v}; yield c",
        "(x) q, s = quantize_dynamic x {$a}; yield q, s",
    ] {
        let parsed = rule(text);
        assert_eq!(parsed.to_string(), text);
        assert_eq!(rule(&parsed.to_string()), parsed);
    }
    assert_eq!(rule("(x)\n  y = neg x\n  z = neg y\n  yield z").nodes.len(), 2);
}

#[test]
fn variables_bind_and_instantiate() {
    let twice = rule("(x) y = reshape x {shape = $a}; z = permute y {$p}; w = reshape z {shape = $a}; yield w");
    let mut bound = Bindings::default();
    let (square, flat) = (op("reshape", &[("shape", "[s, 4]")]), op("reshape", &[("shape", "[s*4]")]));
    let swap = op("permute", &[("perm", "[1, 0]")]);
    assert!(twice.nodes[0].op.matches(&square, &mut bound));
    assert!(twice.nodes[1].op.matches(&swap, &mut bound));
    assert!(!twice.nodes[2].op.matches(&flat, &mut bound), "`a` is another shape");
    assert!(twice.nodes[2].op.matches(&square, &mut bound));
    assert_eq!(twice.nodes[1].op.instantiate(&bound), Ok(swap));
    assert_eq!(bound.texts["a"], "[s, 4]");
    assert!(twice.nodes[0].op.instantiate(&Bindings::default()).is_err());
}

#[test]
fn defaults_and_rests_are_told_apart() {
    let trunc = op("cast", &[("to", "f32"), ("round", "trunc")]);
    let nearest = op("cast", &[("to", "f32")]);
    let matches = |text: &str, op: &Op| {
        rule(&format!("(x) y = cast x {{{text}}}; yield y")).nodes[0].op.matches(op, &mut Bindings::default())
    };
    assert!(matches("to = f32", &nearest) && !matches("to = f32", &trunc));
    assert!(matches("to = $t", &nearest) && !matches("to = $t", &trunc));
    assert!(matches("to = f32, ..", &nearest) && matches("to = f32, ..", &trunc));
    assert!(!matches("to = f16, ..", &trunc) && matches("$a", &trunc) && matches("to = f32, $a", &trunc));
    assert!(!matches("to = f16, $a", &trunc));
}

#[test]
fn constants_take_the_dtype_of_their_users() {
    let constant = rule("() c = 0.1; yield c").nodes[0].op.clone();
    let half = Literal::Float(DType::BF16, f64::from(0.1f32));
    assert_ne!(constant.constant(DType::BF16), Some(half), "rounded to bf16");
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let literal = constant.constant(dtype).map(|l| Op::Prim(Prim::Literal(l)));
        assert!(literal.is_some_and(|op| constant.matches(&op, &mut Bindings::default())));
    }
    assert_eq!(constant.constant(DType::I32), None);
    assert_eq!(rule("() c = 2; yield c").nodes[0].op.constant(DType::I32), Some(Literal::Int(DType::I32, 2)));
}

#[test]
fn cut_and_doubled_texts_never_panic() {
    let text = "(x, w: bf16) s = -0.5; a, b = top_k x {k = $k, ..}; y = cast a {round = trunc, $r}; yield y, b";
    let marks = ["", "$", "{", "}", ";", "..", "=", "yield ", "-", "%", "\"", "1e9 ", "é"];
    for (start, _) in text.char_indices() {
        for end in (start..=text.len()).filter(|i| text.is_char_boundary(*i)) {
            let mark = marks[(start * 7 + end) % marks.len()];
            if let Ok(parsed) = format!("{}{mark}{}", &text[..start], &text[end..]).parse::<Rule>() {
                assert_eq!(rule(&parsed.to_string()), parsed);
            }
        }
    }
}

#[test]
fn errors_name_the_place() {
    for (text, column, part) in [
        ("(x) y = mul x; yield y", 9, "takes 2 operands, got 1"),
        ("(x) y = foo x; yield y", 9, "unknown op `foo`"),
        ("(x) y = neg z; yield y", 13, "unknown value `z`"),
        ("(x) x = neg x; yield x", 5, "defined already"),
        ("(x) y = neg x yield y", 15, "expected `;`"),
        ("(x) y = neg x; yield z", 22, "unknown value `z`"),
        ("(x) y = cast x {to = f99}; yield y", 17, "expected a dtype"),
        ("(x, x) yield x", 5, "defined already"),
    ] {
        let error = text.parse::<Rule>().expect_err(text);
        assert_eq!(error.column, column, "{error}");
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn an_attribute_that_is_spelled_wrong_is_named_where_it_stands() {
    for (node, column, part) in [
        ("y = cast x {tp = $t}", 17, "`cast` has no attribute `tp`, the nearest is `to`"),
        ("y = cast x {to = f32, sturate, ..}", 27, "no attribute `sturate`, the nearest is `saturate`"),
        ("y = reduce x {op = add, axis = [1]}", 29, "`reduce` has no attribute `axis`, the nearest is `axes`"),
        ("y = rms_norm x {epz = $e, round = once}", 21, "`rms_norm` has no attribute `epz`, the nearest is `eps`"),
        ("y = negg x", 9, "unknown op `negg`, the nearest is `neg`"),
    ] {
        let error = format!("(x) {node}; yield y").parse::<Rule>().expect_err(node);
        assert!(error.message.contains(part), "{error}");
        assert_eq!(error.column, column, "{error}");
    }
}
