//! Removes what computes nothing: identity layout ops, layout ops of layout ops, casts that undo each other, neutral
//! operands.
//!
//! Rules look at the operands of a node as already rebuilt, so one sweep reaches their fixed point. Every rule keeps all
//! bits, −0 and infinities included; only NaN payloads may differ.

use fusewright_graph::prim::Literal;
use fusewright_graph::{Builder, DType, Dim, Graph, Op, Prim, ScalarFn, TypeError, Value, num};

use crate::pass::{Diagnostic, Outcome, Pass, PassResult};
use crate::passes::layout;

/// The pass.
pub const PASS: Pass = Pass { name: "noop", required: false, run: |graph, _| run(graph) };

fn run(graph: &Graph) -> PassResult {
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, _, node, operands| {
        let mut fired = 0;
        let results = emit(b, &node.op, operands, &mut fired);
        changed += usize::from(fired > 0);
        results.map_err(|e| Diagnostic::rebuilt("noop", &node.origin, &e))
    });
    Ok((rebuilt?, Outcome { changed }))
}

/// What a node may be replaced by.
pub(super) enum Rewrite {
    /// A value that stands already.
    Value(Value),
    /// Another node.
    Node(Prim, Vec<Value>),
}

/// Adds a node in its simplest form; `fired` counts the rules that applied.
pub(super) fn emit(b: &Builder, op: &Op, operands: &[Value], fired: &mut usize) -> Result<Vec<Value>, TypeError> {
    let (mut op, mut operands) = (op.clone(), operands.to_vec());
    // Each rule makes the chain of definitions shorter, so this ends.
    while let Op::Prim(prim) = &op {
        match rule(b, prim, &operands)? {
            None => break,
            Some(Rewrite::Value(value)) => {
                *fired += 1;
                return Ok(vec![value]);
            }
            Some(Rewrite::Node(prim, inputs)) => {
                *fired += 1;
                (op, operands) = (Op::Prim(prim), inputs);
            }
        }
    }
    b.op(op, &operands)
}

fn rule(b: &Builder, prim: &Prim, operands: &[Value]) -> Result<Option<Rewrite>, TypeError> {
    Ok(match prim {
        Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. } | Prim::Cat { .. } => {
            layout::rule(b, prim, operands)?
        }
        Prim::Cast { to, .. } => cast(b, prim, *to, operands[0]),
        Prim::Map(f) => match neutral(b, *f, operands) {
            Some(value) => Some(Rewrite::Value(value)),
            None => layout::unbroadcast(b, *f, operands),
        },
        _ => None,
    })
}

/// Casts to the same dtype, and casts of a cast that lost nothing.
fn cast(b: &Builder, prim: &Prim, to: DType, x: Value) -> Option<Rewrite> {
    if b.dtype(x) == to {
        return Some(Rewrite::Value(x));
    }
    let (Op::Prim(Prim::Cast { to: middle, .. }), source) = b.definition(x)? else { return None };
    let from = b.dtype(source[0]);
    widens(from, middle).then(|| Rewrite::Node(prim.clone(), source))
}

/// Whether a float dtype holds every value of another.
fn widens(from: DType, to: DType) -> bool {
    use DType::{BF16, F4E2M1, F8E4M3, F8E5M2, F16, F32, F64};
    match from {
        F32 => to == F64,
        BF16 | F16 => matches!(to, F32 | F64),
        F8E4M3 | F8E5M2 | F4E2M1 => matches!(to, F16 | BF16 | F32 | F64),
        _ => false,
    }
}

/// The operand that a function of neutral operands yields.
fn neutral(b: &Builder, f: ScalarFn, operands: &[Value]) -> Option<Value> {
    let defined_by = |x: Value, g: ScalarFn| match b.definition(x) {
        Some((Op::Prim(Prim::Map(h)), inner)) if h == g => Some(inner[0]),
        _ => None,
    };
    let &[x, y] = operands else {
        return match (f, operands) {
            (ScalarFn::Neg | ScalarFn::Not, &[x]) => defined_by(x, f),
            _ => None,
        };
    };
    let candidates = if f.spec().commutative { [Some((x, y)), Some((y, x))] } else { [Some((x, y)), None] };
    let ty = b.ty(x);
    let shape = if b.ty(y).shape.len() > ty.shape.len() { b.ty(y).shape } else { ty.shape };
    candidates.into_iter().flatten().find_map(|(kept, other)| {
        let literal = uniform(b, other)?;
        let kept_ty = b.ty(kept);
        // Broadcasting against the other operand must not have added elements.
        let same_shape = kept_ty.shape == shape && covers(&kept_ty.shape, &b.ty(other).shape);
        (same_shape && is_neutral(f, literal)).then_some(kept)
    })
}

/// Whether broadcasting to `shape` reaches `other` without stretching `shape`.
fn covers(shape: &[Dim], other: &[Dim]) -> bool {
    let skip = shape.len().checked_sub(other.len());
    skip.is_some_and(|skip| other.iter().zip(&shape[skip..]).all(|(o, s)| o.as_const() == Some(1) || o == s))
}

/// The literal that every element of a value is.
fn uniform(b: &Builder, value: Value) -> Option<Literal> {
    match b.definition(value)? {
        (Op::Prim(Prim::Literal(literal)), _) => Some(literal),
        (Op::Prim(Prim::Reshape { .. } | Prim::Expand { .. } | Prim::Permute { .. }), source) => uniform(b, source[0]),
        (Op::Prim(Prim::Cast { to, round, saturate }), source) => match uniform(b, source[0])? {
            Literal::Float(_, v) if to.is_float() => Some(Literal::Float(to, num::round_to(to, v, round, saturate))),
            _ => None,
        },
        _ => None,
    }
}

/// Whether `f(x, literal)` is `x` for every `x`.
fn is_neutral(f: ScalarFn, literal: Literal) -> bool {
    match (f, literal) {
        (ScalarFn::Mul | ScalarFn::Div, Literal::Float(_, v)) => v == 1.0,
        (ScalarFn::Mul | ScalarFn::Div, Literal::Int(_, v)) => v == 1,
        // Adding +0 turns −0 into +0; adding −0 and subtracting +0 do not.
        (ScalarFn::Add, Literal::Float(_, v)) => v == 0.0 && v.is_sign_negative(),
        (ScalarFn::Sub, Literal::Float(_, v)) => v == 0.0 && v.is_sign_positive(),
        (ScalarFn::Add | ScalarFn::Sub | ScalarFn::Or | ScalarFn::Xor, Literal::Int(_, v)) => v == 0,
        (ScalarFn::And, Literal::Int(DType::Bool, v)) => v == 1,
        (ScalarFn::And, Literal::Int(_, v)) => v == -1,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::{BF16, Bool, F32};
    use fusewright_graph::{Rounding, TensorType};

    use super::*;
    use crate::passes::dce;

    /// Runs the pass on one expression of `x: bf16[s, 8]`; whether only `x` is left.
    fn vanishes(build: impl Fn(&Builder, Value) -> Result<Value, TypeError>) -> bool {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(BF16, [Dim::symbol("s"), Dim::constant(8)]));
        let y = build(&b, x).expect("types");
        b.output(y);
        let (out, _) = run(&b.finish()).expect("runs");
        dce(&out).0.nodes().is_empty()
    }

    fn cast(b: &Builder, x: Value, to: DType) -> Result<Value, TypeError> {
        b.prim(Prim::Cast { to, round: Rounding::NearestEven, saturate: false }, &[x])
    }

    #[test]
    fn neutral_operands_vanish() {
        assert!(vanishes(|b, x| b.mul(x, b.float(BF16, 1.0)?)));
        assert!(vanishes(|b, x| b.mul(b.float(BF16, 1.0)?, x)));
        assert!(vanishes(|b, x| b.div(x, b.float(BF16, 1.0)?)));
        assert!(vanishes(|b, x| b.add(x, b.float(BF16, -0.0)?)));
        assert!(vanishes(|b, x| b.sub(x, b.float(BF16, 0.0)?)));
        assert!(vanishes(|b, x| b.map(ScalarFn::Neg, &[b.map(ScalarFn::Neg, &[x])?])));
    }

    #[test]
    fn operands_that_change_a_bit_or_the_shape_stay() {
        assert!(!vanishes(|b, x| b.add(x, b.float(BF16, 0.0)?)));
        assert!(!vanishes(|b, x| b.sub(x, b.float(BF16, -0.0)?)));
        assert!(!vanishes(|b, x| b.div(b.float(BF16, 1.0)?, x)));
        assert!(!vanishes(|b, x| b.mul(x, b.float(BF16, 1.5)?)));
        let stretch = |b: &Builder, x: Value| {
            let shape = vec![Dim::constant(3), Dim::symbol("s"), Dim::constant(8)];
            b.mul(x, b.prim(Prim::Expand { shape }, &[b.float(BF16, 1.0)?])?)
        };
        assert!(!vanishes(stretch));
    }

    #[test]
    fn only_lossless_casts_are_looked_through() {
        assert!(vanishes(|b, x| cast(b, x, BF16)));
        assert!(vanishes(|b, x| cast(b, cast(b, x, F32)?, BF16)));
        assert!(!vanishes(|b, x| cast(b, cast(b, x, DType::F16)?, BF16)));
        assert!(!vanishes(|b, x| cast(b, cast(b, x, DType::F8E4M3)?, BF16)));
        assert!(!vanishes(|b, x| cast(b, cast(b, x, Bool)?, BF16)));
    }
}
