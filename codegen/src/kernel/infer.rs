//! Types of instruction results; the builder and the verifier both call [`infer`].

use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal, ReduceOp, ScalarFn, TensorType};

use super::{InstOp, LANE, Over, Param, Shape, Ty};

/// Why operands do not fit an instruction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{op}: {message}")]
pub struct InstError {
    /// Name of the instruction.
    pub op: String,
    /// What is wrong.
    pub message: String,
}

/// Result types of an instruction.
///
/// # Errors
/// Operands of a wrong number, dtype or shape.
pub fn infer(op: &InstOp, args: &[&Ty], params: &[Param]) -> Result<Vec<Ty>, InstError> {
    results(op, args, params).map_err(|message| InstError { op: op.name().to_owned(), message })
}

fn results(op: &InstOp, args: &[&Ty], params: &[Param]) -> Result<Vec<Ty>, String> {
    let one = |ty: Ty| Ok(vec![ty]);
    match op {
        InstOp::Literal(literal) => take::<0>(args).and_then(|_| one(Ty::scalar(literal.dtype()))),
        InstOp::Index(index) => {
            let [] = take(args)?;
            ensure(!index.mentions(LANE), || format!("`{index}` mentions `{LANE}`"))?;
            one(Ty::scalar(DType::I64))
        }
        InstOp::Iota(lanes) => take::<0>(args).and_then(|_| one(Ty::row(DType::I32, lanes.clone()))),
        InstOp::Load { param, shape, otherwise, .. } => {
            let param = params.get(param.0 as usize).ok_or("no such parameter")?;
            one(load(param, shape, otherwise.as_ref(), args)?)
        }
        InstOp::Store { param, otherwise, .. } => {
            let param = params.get(param.0 as usize).ok_or("no such parameter")?;
            store(param, otherwise.as_ref(), args).map(|()| Vec::new())
        }
        InstOp::Map(f) => one(map(*f, args)?),
        InstOp::Cast { to, .. } => take(args).and_then(|[x]| one(Ty { dtype: *to, shape: x.shape.clone() })),
        InstOp::Bitcast(to) => {
            let [x] = take(args)?;
            ensure(to.bits() == x.dtype.bits(), || format!("{} and {to} differ in width", x.dtype))?;
            one(Ty { dtype: *to, shape: x.shape.clone() })
        }
        InstOp::Reduce { over, .. } => {
            let [x] = take(args)?;
            let lanes = row(x)?;
            one(match over {
                Over::Row => Ty::scalar(x.dtype),
                Over::Group(size) => Ty { dtype: x.dtype, shape: Shape::Group { lanes, size: size.clone() } },
            })
        }
        InstOp::ArgReduce(op) => {
            let [x] = take(args)?;
            row(x)?;
            ensure(matches!(op, ReduceOp::Max | ReduceOp::Min), || format!("no lane of `{}`", op.name()))?;
            Ok(vec![Ty::scalar(x.dtype), Ty::scalar(DType::I32)])
        }
        InstOp::TopK { k, over } => {
            let [x] = take(&args[..args.len().min(1)])?;
            let lanes = row(x)?;
            if let Some(keys) = args.get(1..).filter(|keys| !keys.is_empty()) {
                let [key] = take(keys)?;
                ensure(*key == Ty::row(DType::I32, lanes.clone()), || format!("{key} does not order {x}"))?;
            }
            let count = match over {
                Over::Row => k.clone(),
                Over::Group(size) => &lanes.exact_div(size).ok_or("lanes are not a multiple of the group")? * k,
            };
            Ok(vec![Ty::row(x.dtype, count.clone()), Ty::row(DType::I32, count)])
        }
        InstOp::Slice { start, len, step } => {
            let [x] = take(args)?;
            cut(&row(x)?, start, len, *step)?;
            one(Ty::row(x.dtype, len.clone()))
        }
        InstOp::Cat => one(join(args, |lanes| lanes.iter().fold(Dim::constant(0), |acc, n| &acc + n))?),
        InstOp::Zip => {
            ensure(args.windows(2).all(|w| w[0].shape == w[1].shape), || "rows differ in length".into())?;
            let count = Dim::constant(args.len() as i64);
            one(join(args, |lanes| &lanes[0] * &count)?)
        }
        InstOp::Pack { ways, to } => {
            let [x] = take(args)?;
            let fits = *ways > 0 && x.dtype.bits().checked_mul(*ways) == Some(to.bits());
            ensure(fits, || format!("{ways} × {} do not fill {to}", x.dtype))?;
            let packed = row(x)?.exact_div(&Dim::constant(i64::from(*ways)));
            one(Ty::row(*to, packed.ok_or("lanes are not a multiple")?))
        }
        InstOp::Broadcast(shape) => {
            let [x] = take(args)?;
            let fits = join_shapes(&x.shape, shape)? == *shape;
            ensure(fits, || format!("{x} does not spread over {shape}"))?;
            one(Ty { dtype: x.dtype, shape: shape.clone() })
        }
        InstOp::AsRow => {
            let [x] = take(args)?;
            ensure(matches!(x.shape, Shape::Group { .. }), || format!("{x} is not a group"))?;
            one(Ty::row(x.dtype, x.shape.elements()))
        }
        InstOp::AsGroup { lanes, size } => {
            let [x] = take(args)?;
            let shape = Shape::Group { lanes: lanes.clone(), size: size.clone() };
            ensure(row(x)? == shape.elements(), || format!("{x} has not one lane per group"))?;
            one(Ty { dtype: x.dtype, shape })
        }
    }
}

fn load(param: &Param, shape: &Shape, otherwise: Option<&Literal>, args: &[&Ty]) -> Result<Ty, String> {
    ensure(args.len() == usize::from(otherwise.is_some()), || "a predicate goes with `else`".into())?;
    if let Some(literal) = otherwise {
        ensure(literal.dtype() == param.dtype, || format!("`else` is {}", literal.dtype()))?;
        predicate(args[0], shape)?;
    }
    Ok(Ty { dtype: param.dtype, shape: shape.clone() })
}

fn store(param: &Param, otherwise: Option<&Literal>, args: &[&Ty]) -> Result<(), String> {
    ensure(matches!(args.len(), 1 | 2), || format!("takes 1 or 2 operands, got {}", args.len()))?;
    ensure(args[0].dtype == param.dtype, || format!("{} into {}", args[0], param.dtype))?;
    ensure(otherwise.is_none() || args.len() == 2, || "`else` without a predicate".into())?;
    if let Some(literal) = otherwise {
        ensure(literal.dtype() == param.dtype, || format!("`else` is {}", literal.dtype()))?;
    }
    args.get(1).map_or(Ok(()), |p| predicate(p, &args[0].shape))
}

/// Whether every `step`th of `len` lanes from `start` is there, as far as extents are known.
fn cut(lanes: &Dim, start: &Dim, len: &Dim, step: i64) -> Result<(), String> {
    ensure(step >= 1, || format!("step {step}"))?;
    let (Some(s), Some(l), Some(n)) = (start.as_const(), len.as_const(), lanes.as_const()) else { return Ok(()) };
    let last = l.checked_sub(1).and_then(|l| l.checked_mul(step)).and_then(|d| d.checked_add(s));
    let inside = s >= 0 && l >= 0 && (l == 0 || last.is_some_and(|last| last < n));
    ensure(inside, || format!("{l} lanes from {s} by {step} of {n}"))
}

fn map(f: ScalarFn, args: &[&Ty]) -> Result<Ty, String> {
    let scalars: Vec<TensorType> = args.iter().map(|t| TensorType::scalar(t.dtype)).collect();
    let operands: Vec<&TensorType> = scalars.iter().collect();
    let inferred = fusewright_graph::infer(&fusewright_graph::Prim::Map(f), &operands).map_err(|e| e.message)?;
    let mut shape = Shape::Scalar;
    for arg in args {
        shape = join_shapes(&shape, &arg.shape)?;
    }
    Ok(Ty { dtype: inferred[0].dtype, shape })
}

/// The broadcast of two shapes: scalar < group < row; a group spreads over a row of its own length.
fn join_shapes(a: &Shape, b: &Shape) -> Result<Shape, String> {
    match (a, b) {
        _ if a == b => Ok(a.clone()),
        (Shape::Scalar, other) | (other, Shape::Scalar) => Ok(other.clone()),
        (Shape::Row(n), Shape::Group { lanes, .. }) | (Shape::Group { lanes, .. }, Shape::Row(n)) if n == lanes => {
            Ok(Shape::Row(n.clone()))
        }
        _ => Err(format!("{a} and {b} do not broadcast")),
    }
}

fn predicate(p: &Ty, shape: &Shape) -> Result<(), String> {
    let fits = p.dtype == DType::Bool && (p.shape == Shape::Scalar || p.shape == *shape);
    ensure(fits, || format!("the predicate is {p}"))
}

fn join(args: &[&Ty], lanes: impl Fn(&[Dim]) -> Dim) -> Result<Ty, String> {
    let first = args.first().ok_or("takes at least one operand")?;
    let all = args.iter().map(|t| row(t)).collect::<Result<Vec<Dim>, String>>()?;
    ensure(args.iter().all(|t| t.dtype == first.dtype), || "operands differ in dtype".into())?;
    Ok(Ty::row(first.dtype, lanes(&all)))
}

fn row(ty: &Ty) -> Result<Dim, String> {
    match &ty.shape {
        Shape::Row(lanes) => Ok(lanes.clone()),
        _ => Err(format!("{ty} is not a row")),
    }
}

fn take<'a, const N: usize>(args: &[&'a Ty]) -> Result<[&'a Ty; N], String> {
    <[&Ty; N]>::try_from(args.to_vec()).map_err(|got: Vec<_>| format!("takes {N} operands, got {}", got.len()))
}

fn ensure(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}
