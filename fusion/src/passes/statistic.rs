//! Statistics of rows without the axis that was reduced: functions of them are computed with the axis, which is taken
//! away behind them. A scale or a root is thus spelled alike, whether its reduction kept the axis or a later step put it
//! back.

use fusewright_graph::{Builder, Op, Prim, ScalarFn, TypeError, Value};

use super::rewrite;
use crate::rewrites::{Form, uniform};

/// What a function of a statistic and numbers is, if the axis of the statistic was taken away before it.
pub(super) fn rule(b: &Builder, f: ScalarFn, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    let mut variable = operands.iter().enumerate().filter(|(_, v)| !is_number(b, **v));
    let (Some((at, &x)), None) = (variable.next(), variable.next()) else { return Ok(None) };
    let Some((Op::Prim(Prim::Reshape { shape }), source)) = b.definition(x) else { return Ok(None) };
    let whole = b.ty(source[0]).shape;
    let reduced = whole.split_last().is_some_and(|(last, rest)| last.as_const() == Some(1) && rest == shape);
    if !reduced || !is_computed(b, source[0]) {
        return Ok(None);
    }
    let mut inputs = operands.to_vec();
    inputs[at] = source[0];
    let value = rewrite::emit(b, &Op::Prim(Prim::Map(f)), &inputs)?[0];
    Ok(Some(Form::prim(Prim::Reshape { shape }, vec![value])))
}

/// Whether a value is one number, without axes.
fn is_number(b: &Builder, value: Value) -> bool {
    b.ty(value).rank() == 0 && uniform(b, value).is_some()
}

/// Whether a value is a reduction, or a function of one as this file leaves it.
fn is_computed(b: &Builder, value: Value) -> bool {
    matches!(b.definition(value), Some((Op::Prim(Prim::Reduce { .. } | Prim::Map(_)), _)))
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType::F32;
    use fusewright_graph::ReduceOp;

    use super::*;
    use crate::passes::tests::{self, dims};

    /// The ops left but for literals.
    fn ops(build: impl Fn(&Builder, Value) -> Result<Value, TypeError>) -> Vec<String> {
        tests::ops(build).into_iter().filter(|name| name != "literal").collect()
    }

    #[test]
    fn an_axis_is_taken_away_behind_functions_of_a_statistic() {
        let largest = |b: &Builder, x| b.reshape(b.reduce_last(ReduceOp::Max, x)?, dims(&[4]));
        let scale = |b: &Builder, x| {
            b.div(b.map(ScalarFn::Max, &[largest(b, x)?, b.float(F32, 1e-10)?])?, b.float(F32, 448.0)?)
        };
        assert_eq!(ops(scale), ["reduce", "max", "div", "reshape"]);
        assert_eq!(ops(|b, x| b.map(ScalarFn::Rsqrt, &[largest(b, x)?])), ["reduce", "rsqrt", "reshape"]);
        // Where the axis is put back there is no reshape left.
        let used = |b: &Builder, x| b.div(x, b.reshape(scale(b, x)?, dims(&[4, 1]))?);
        assert_eq!(ops(used), ["reduce", "max", "div", "div"]);
        // The other operand is no number, and the axis is another one.
        let two = |b: &Builder, x| {
            b.map(ScalarFn::Max, &[largest(b, x)?, b.slice(b.reshape(x, dims(&[32]))?, 1, 0.into(), 4.into())?])
        };
        assert_eq!(ops(two), ["reduce", "reshape", "reshape", "slice", "max"]);
        let rows = |b: &Builder, x| b.map(ScalarFn::Exp, &[b.reshape(b.map(ScalarFn::Neg, &[x])?, dims(&[32]))?]);
        assert_eq!(ops(rows), ["neg", "reshape", "exp"]);
    }
}
