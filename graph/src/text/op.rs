//! Ops as text: a name and attributes, each a key and a text value.
//!
//! This is the only place that says how a primitive's attributes are spelled; graphs and rewrite rules both use it.
//! Composites print and parse their own. A value `true` is printed as the key alone.

use std::collections::BTreeSet;

use fusewright_abi::DType;

use crate::graph::Op;
use crate::ops::{self, Attrs, OpSpec};
use crate::prim::{AllReduce, NanBits, NanRule, Prim, ReduceOp, Rounding, Sdpa};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

use super::cursor::Cursor;
use super::dim::{parse_dim, parse_shape};
use super::error::TextError;
use super::lexer::{Kind, quote, quote_unless_bare};
use super::literal::{parse_dtype, parse_value, print_literal};
use super::nearest::near;
use super::ty::parse_type;

/// Why a name and attributes are no op.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct OpTextError {
    /// The attribute that is wrong, if one is.
    pub attribute: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl OpTextError {
    fn new(attribute: Option<&str>, message: impl Into<String>) -> Self {
        OpTextError { attribute: attribute.map(str::to_owned), message: message.into() }
    }
}

/// The attributes of an op in text order; [`op_from_text`] reads them back.
pub fn op_attrs(op: &Op) -> Vec<(String, String)> {
    match op {
        Op::Composite(composite) => composite.attrs().0.clone(),
        Op::Prim(prim) => prim_attrs(prim).into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

fn prim_attrs(prim: &Prim) -> Vec<(&'static str, String)> {
    let flag = |key, set: bool| set.then(|| (key, "true".to_owned()));
    match prim {
        Prim::Map(_) => Vec::new(),
        Prim::Literal(literal) => vec![("value", print_literal(literal))],
        Prim::SizeOf(dim) => vec![("dim", dim.to_string())],
        Prim::Iota { dtype, shape, axis } => {
            let ty = TensorType::new(*dtype, shape.iter().cloned());
            vec![("type", ty.to_string()), ("axis", axis.to_string())]
        }
        Prim::Cast { to, round, saturate } => {
            let attrs = [("to", to.to_string()), ("round", round.name().to_owned())];
            attrs.into_iter().chain(flag("saturate", *saturate)).collect()
        }
        Prim::Bitcast { to, nan } => {
            let nan = (*nan != NanBits::One).then(|| ("nan", nan.name().to_owned()));
            [("to", to.to_string())].into_iter().chain(nan).collect()
        }
        Prim::Reduce { op, axes, nan } => {
            let mut attrs = vec![("op", op.name().to_owned()), ("axes", list(axes))];
            if *nan != NanRule::Propagate {
                attrs.push(("nan", nan.name().to_owned()));
            }
            attrs
        }
        Prim::ArgReduce { op, axis } => vec![("op", op.name().to_owned()), ("axis", axis.to_string())],
        Prim::TopK { k } => vec![("k", k.to_string())],
        Prim::Reshape { shape } | Prim::Expand { shape } => vec![("shape", list(shape))],
        Prim::Permute { perm } => vec![("perm", list(perm))],
        Prim::Slice { axis, start, end, step } => {
            let mut attrs = vec![("axis", axis.to_string()), ("start", start.to_string()), ("end", end.to_string())];
            if *step != 1 {
                attrs.push(("step", step.to_string()));
            }
            attrs
        }
        Prim::Cat { axis } | Prim::Gather { axis } | Prim::Scatter { axis } | Prim::ScatterReduce { axis, .. } => {
            vec![("axis", axis.to_string())]
        }
        Prim::Pack { ways, to } => vec![("ways", ways.to_string()), ("to", to.to_string())],
        Prim::MatMul { transpose_b, out } => {
            [("out", out.to_string())].into_iter().chain(flag("transpose_b", *transpose_b)).collect()
        }
        Prim::GroupedMatMul { out } => vec![("out", out.to_string())],
        Prim::Sdpa(Sdpa { causal, wide, scale_bits }) => {
            let scale = super::literal::print_float(DType::F64, f64::from_bits(*scale_bits));
            [("scale", scale)].into_iter().chain(flag("causal", *causal)).chain(flag("wide", *wide)).collect()
        }
        Prim::AllReduce(AllReduce { op, group, ranks }) => {
            let ranks = ranks.map(|n| ("ranks", n.to_string()));
            let op = (*op != ReduceOp::Add).then(|| ("op", op.name().to_owned()));
            [("group", quote(group))].into_iter().chain(ranks).chain(op).collect()
        }
        Prim::Opaque { target, attrs, results } => {
            let pairs = attrs.iter().map(|(k, v)| format!("{} = {}", quote_unless_bare(k), quote(v)));
            let pairs = format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "));
            vec![("target", quote(target)), ("attrs", pairs), ("results", list(results))]
        }
    }
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    format!("[{}]", items.iter().map(T::to_string).collect::<Vec<_>>().join(", "))
}

/// The op of that name with those attributes.
///
/// # Errors
/// An unknown name; an attribute that is missing, unknown, repeated or malformed.
pub fn op_from_text(name: &str, attrs: &[(String, String)]) -> Result<Op, OpTextError> {
    let mut keys = BTreeSet::new();
    if let Some((key, _)) = attrs.iter().find(|(key, _)| !keys.insert(key)) {
        return Err(OpTextError::new(Some(key), format!("`{name}`: attribute `{key}` is given twice")));
    }
    if let Some(spec) = ops::by_name(name) {
        return composite(spec, attrs);
    }
    // An attribute that is spelled wrong is named ahead of the one that is missing for it.
    check_keys(name, attrs.iter().map(|(key, _)| key.as_str()))?;
    Ok(Op::Prim(Reader { name, attrs }.prim(name)?))
}

/// Checks that an op has attributes of these names.
///
/// # Errors
/// The first name that no attribute has. An op of an unknown name has none to check.
pub(super) fn check_keys<'a>(name: &str, keys: impl IntoIterator<Item = &'a str>) -> Result<(), OpTextError> {
    if let Some(spec) = ops::by_name(name) {
        return keys
            .into_iter()
            .find(|key| !has(spec, key))
            .map_or(Ok(()), |key| Err(unknown(name, key, &keys_of(spec))));
    }
    let known: &[&str] = match PRIMS.iter().find(|(prim, _)| *prim == name) {
        Some((_, known)) => known,
        None if ScalarFn::by_name(name).is_some() => &[],
        None => return Ok(()),
    };
    keys.into_iter().find(|key| !known.contains(key)).map_or(Ok(()), |key| Err(unknown(name, key, known)))
}

/// The composite with those attributes; one of its usual value, which is not printed, may be given too.
fn composite(spec: &OpSpec, attrs: &[(String, String)]) -> Result<Op, OpTextError> {
    let name = spec.name;
    // An error of one attribute begins with its name.
    let of =
        |message: &str| attrs.iter().map(|(key, _)| key).find(|key| message.starts_with(&format!("attribute `{key}`")));
    let composite = (spec.parse)(&Attrs(attrs.to_vec())).map_err(|message| {
        let wrong = OpTextError::new(of(&message).map(String::as_str), format!("`{name}`: {message}"));
        check_keys(name, attrs.iter().map(|(key, _)| key.as_str())).err().unwrap_or(wrong)
    })?;
    let printed = composite.attrs();
    let Some((key, _)) = attrs.iter().find(|(key, _)| printed.text(key).is_err() && !reads(spec, attrs, key)) else {
        return Ok(Op::Composite(composite));
    };
    let known = keys_of(spec);
    if known.contains(key) {
        return Err(OpTextError::new(Some(key), format!("`{name}`: attribute `{key}` says nothing beside the others")));
    }
    Err(unknown(name, key, &known))
}

/// The attributes of a composite that its variants print.
fn keys_of(spec: &OpSpec) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for (key, _) in (spec.variants)().iter().flat_map(|variant| &variant.attrs().0) {
        if !known.contains(key) {
            known.push(key.clone());
        }
    }
    known
}

/// Says whether some variant of a composite reads an attribute.
fn has(spec: &OpSpec, key: &str) -> bool {
    (spec.variants)().iter().any(|variant| {
        let mut attrs = variant.attrs().0.clone();
        attrs.retain(|(other, _)| other != key);
        attrs.push((key.to_owned(), String::new()));
        reads(spec, &attrs, key)
    })
}

/// Whether an attribute decides something: a text that is no value of any attribute is noticed in its place.
fn reads(spec: &OpSpec, attrs: &[(String, String)], key: &str) -> bool {
    let spoilt = |(k, v): &(String, String)| (k.clone(), if k == key { String::new() } else { v.clone() });
    (spec.parse)(&Attrs(attrs.iter().map(spoilt).collect())).is_err()
}

fn unknown<T: AsRef<str>>(name: &str, key: &str, known: &[T]) -> OpTextError {
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    let message = match (&known[..], near(key, known.iter().copied())) {
        ([], _) => format!("`{name}` has no attributes, got `{key}`"),
        (_, None) => format!("`{name}` has no attribute `{key}`; it has {}", known.join(", ")),
        (_, Some(near)) => {
            format!("`{name}` has no attribute `{key}`, the nearest is `{near}`; it has {}", known.join(", "))
        }
    };
    OpTextError::new(Some(key), message)
}

/// The primitives other than scalar functions, and their attributes.
const PRIMS: [(&str, &[&str]); 25] = [
    ("literal", &["value"]),
    ("size_of", &["dim"]),
    ("iota", &["type", "axis"]),
    ("cast", &["to", "round", "saturate"]),
    ("bitcast", &["to", "nan"]),
    ("reduce", &["op", "axes", "nan"]),
    ("arg_reduce", &["op", "axis"]),
    ("top_k", &["k"]),
    ("reshape", &["shape"]),
    ("permute", &["perm"]),
    ("expand", &["shape"]),
    ("slice", &["axis", "start", "end", "step"]),
    ("cat", &["axis"]),
    ("gather", &["axis"]),
    ("scatter", &["axis"]),
    ("scatter_add", &["axis"]),
    ("scatter_mul", &["axis"]),
    ("scatter_max", &["axis"]),
    ("scatter_min", &["axis"]),
    ("pack", &["ways", "to"]),
    ("matmul", &["out", "transpose_b"]),
    ("grouped_matmul", &["out"]),
    ("sdpa", &["scale", "causal", "wide"]),
    ("all_reduce", &["group", "ranks", "op"]),
    ("opaque", &["target", "attrs", "results"]),
];

/// Whether there is an op of that name.
pub fn is_op_name(name: &str) -> bool {
    PRIMS.iter().any(|(prim, _)| *prim == name) || ScalarFn::by_name(name).is_some() || ops::by_name(name).is_some()
}

/// The message for a name that no op has.
pub(super) fn unknown_op(name: &str) -> String {
    let prims = PRIMS.iter().map(|(prim, _)| *prim);
    let known = prims.chain(ScalarFn::ALL.iter().map(|f| f.name())).chain(ops::LIST.iter().map(|spec| spec.name));
    let near = near(name, known).map_or_else(String::new, |near| format!(", the nearest is `{near}`"));
    format!("unknown op `{name}`{near}")
}

/// Attributes of a primitive.
struct Reader<'a> {
    name: &'a str,
    attrs: &'a [(String, String)],
}

impl Reader<'_> {
    fn scatter_reduce(&self, op: ReduceOp) -> Result<Prim, OpTextError> {
        Ok(Prim::ScatterReduce { op, axis: self.get("axis", parse_unsigned)? })
    }

    fn prim(&self, name: &str) -> Result<Prim, OpTextError> {
        if let Some(f) = ScalarFn::by_name(name) {
            return Ok(Prim::Map(f));
        }
        Ok(match name {
            "literal" => Prim::Literal(self.get("value", super::literal::parse_literal)?),
            "size_of" => Prim::SizeOf(self.get("dim", parse_dim)?),
            "iota" => {
                let TensorType { dtype, shape } = self.get("type", parse_type)?;
                Prim::Iota { dtype, shape, axis: self.get("axis", parse_unsigned)? }
            }
            "cast" => Prim::Cast {
                to: self.get("to", parse_dtype)?,
                round: self.word("round", Rounding::ALL.map(|r| (r.name(), r)), Some(Rounding::NearestEven))?,
                saturate: self.flag("saturate")?,
            },
            "bitcast" => Prim::Bitcast {
                to: self.get("to", parse_dtype)?,
                nan: self.word("nan", [NanBits::One, NanBits::Kept].map(|n| (n.name(), n)), Some(NanBits::One))?,
            },
            "reduce" => Prim::Reduce {
                op: self.reduce_op()?,
                axes: self.get("axes", parse_indices)?,
                nan: self.word(
                    "nan",
                    [NanRule::Propagate, NanRule::Ignore].map(|n| (n.name(), n)),
                    Some(NanRule::Propagate),
                )?,
            },
            "arg_reduce" => Prim::ArgReduce { op: self.reduce_op()?, axis: self.get("axis", parse_unsigned)? },
            "top_k" => Prim::TopK { k: self.get("k", parse_dim)? },
            "reshape" => Prim::Reshape { shape: self.get("shape", parse_shape)? },
            "permute" => Prim::Permute { perm: self.get("perm", parse_indices)? },
            "expand" => Prim::Expand { shape: self.get("shape", parse_shape)? },
            "slice" => Prim::Slice {
                axis: self.get("axis", parse_unsigned)?,
                start: self.get("start", parse_dim)?,
                end: self.get("end", parse_dim)?,
                step: self.optional("step", parse_int)?.unwrap_or(1),
            },
            "cat" => Prim::Cat { axis: self.get("axis", parse_unsigned)? },
            "gather" => Prim::Gather { axis: self.get("axis", parse_unsigned)? },
            "scatter" => Prim::Scatter { axis: self.get("axis", parse_unsigned)? },
            "scatter_add" => self.scatter_reduce(ReduceOp::Add)?,
            "scatter_mul" => self.scatter_reduce(ReduceOp::Mul)?,
            "scatter_max" => self.scatter_reduce(ReduceOp::Max)?,
            "scatter_min" => self.scatter_reduce(ReduceOp::Min)?,
            "pack" => Prim::Pack { ways: self.get("ways", parse_unsigned)?, to: self.get("to", parse_dtype)? },
            "matmul" => Prim::MatMul { out: self.get("out", parse_dtype)?, transpose_b: self.flag("transpose_b")? },
            "grouped_matmul" => Prim::GroupedMatMul { out: self.get("out", parse_dtype)? },
            "sdpa" => {
                let scale = self.get("scale", |c| parse_value(c, DType::F64))?;
                let scale_bits = match scale {
                    crate::prim::Literal::Float(_, v) => v.to_bits(),
                    crate::prim::Literal::Int(_, v) => (v as f64).to_bits(),
                };
                Prim::Sdpa(Sdpa { scale_bits, causal: self.flag("causal")?, wide: self.flag("wide")? })
            }
            "all_reduce" => Prim::AllReduce(AllReduce {
                group: self.get("group", parse_string)?,
                ranks: self.optional("ranks", parse_unsigned)?,
                op: self.word("op", ReduceOp::ALL.map(|op| (op.name(), op)), Some(ReduceOp::Add))?,
            }),
            "opaque" => Prim::Opaque {
                target: self.get("target", parse_string)?,
                attrs: self.optional("attrs", parse_pairs)?.unwrap_or_default(),
                results: self.get("results", parse_types)?,
            },
            _ => return Err(OpTextError::new(None, unknown_op(name))),
        })
    }

    fn optional<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&mut Cursor<'_>) -> Result<T, TextError>,
    ) -> Result<Option<T>, OpTextError> {
        debug_assert!(
            check_keys(self.name, [key]).is_ok(),
            "`{}` reads `{key}`, which `PRIMS` does not list",
            self.name
        );
        let Some((_, text)) = self.attrs.iter().find(|(k, _)| k == key) else { return Ok(None) };
        let read = || {
            let mut cursor = Cursor::new(text)?;
            let value = parse(&mut cursor)?;
            cursor.expect_end()?;
            Ok(value)
        };
        let wrong =
            |e: TextError| OpTextError::new(Some(key), format!("`{}`: attribute `{key}`: {}", self.name, e.message));
        read().map(Some).map_err(wrong)
    }

    fn get<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&mut Cursor<'_>) -> Result<T, TextError>,
    ) -> Result<T, OpTextError> {
        self.optional(key, parse)?.ok_or_else(|| self.missing(key))
    }

    fn missing(&self, key: &str) -> OpTextError {
        OpTextError::new(None, format!("`{}` needs an attribute `{key}`", self.name))
    }

    fn flag(&self, key: &'static str) -> Result<bool, OpTextError> {
        self.word(key, [("true", true), ("false", false)], Some(false))
    }

    fn word<T: Copy, const N: usize>(
        &self,
        key: &'static str,
        words: [(&'static str, T); N],
        default: Option<T>,
    ) -> Result<T, OpTextError> {
        let found = self.optional(key, |cursor| {
            let value = words.iter().find(|(word, _)| cursor.eat_word(word)).map(|(_, value)| *value);
            value.ok_or_else(|| cursor.expected(&words.map(|(word, _)| format!("`{word}`")).join(" or ")))
        })?;
        found.or(default).ok_or_else(|| {
            let OpTextError { attribute, message } = self.missing(key);
            let known = words.map(|(word, _)| word).join(", ");
            OpTextError { attribute, message: format!("{message}, one of {known}") }
        })
    }

    fn reduce_op(&self) -> Result<ReduceOp, OpTextError> {
        self.word("op", ReduceOp::ALL.map(|op| (op.name(), op)), None)
    }
}

fn parse_unsigned<T: TryFrom<i64>>(cursor: &mut Cursor<'_>) -> Result<T, TextError> {
    cursor.unsigned()
}

fn parse_int(cursor: &mut Cursor<'_>) -> Result<i64, TextError> {
    cursor.int()
}

fn parse_string(cursor: &mut Cursor<'_>) -> Result<String, TextError> {
    Ok(cursor.expect_kind(Kind::Str, "a string")?.content().into_owned())
}

fn parse_indices(cursor: &mut Cursor<'_>) -> Result<Vec<usize>, TextError> {
    parse_list(cursor, "[", "]", parse_unsigned)
}

fn parse_types(cursor: &mut Cursor<'_>) -> Result<Vec<TensorType>, TextError> {
    parse_list(cursor, "[", "]", parse_type)
}

fn parse_pairs(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>, TextError> {
    parse_list(cursor, "{", "}", |cursor| {
        let key = match cursor.peek().kind {
            Kind::Ident | Kind::Str => cursor.take().content().into_owned(),
            _ => return Err(cursor.expected("a name or a string")),
        };
        cursor.expect("=")?;
        Ok((key, parse_string(cursor)?))
    })
}

fn parse_list<T>(
    cursor: &mut Cursor<'_>,
    open: &str,
    close: &str,
    mut item: impl FnMut(&mut Cursor<'_>) -> Result<T, TextError>,
) -> Result<Vec<T>, TextError> {
    cursor.expect(open)?;
    let mut items = Vec::new();
    while !cursor.eat(close) {
        if !items.is_empty() && !cursor.eat(",") {
            return Err(cursor.expected(&format!("`,` or `{close}`")));
        }
        items.push(item(cursor)?);
    }
    Ok(items)
}
