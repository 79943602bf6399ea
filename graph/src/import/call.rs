//! One node of the file as an importer function sees it: arguments by schema name, defaults filled in.

use std::collections::BTreeMap;

use fusewright_abi::DType;

use super::alias;
use super::custom;
use super::schema::{Argument, NodeJson, SymIntArg};
use super::strided::Strided;
use super::table::Row;
use super::types;
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::Prim;
use crate::ty::TensorType;

/// Why a node is not taken apart; it stays an opaque op that carries the reason.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) String);

impl From<TypeError> for Refusal {
    fn from(error: TypeError) -> Self {
        Refusal(error.to_string())
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Refusal(message)
    }
}

impl From<&str> for Refusal {
    fn from(message: &str) -> Self {
        Refusal(message.to_owned())
    }
}

/// What an importer function yields: one value, or several in the order of the op's results.
pub(super) type Imported = Result<Vec<Value>, Refusal>;

/// A Python number among the arguments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Scalar {
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => f64::from(u8::from(b)),
            Scalar::Int(n) => n as f64,
            Scalar::Float(v) => v,
        }
    }

    /// Whether it is the zero of a sign.
    pub(super) fn is_zero(self, sign: f64) -> bool {
        self.as_f64() == 0.0 && self.as_f64().is_sign_positive() == sign.is_sign_positive()
    }
}

/// A tensor, a number or a size, where an op takes any.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Tensor(Value),
    Scalar(Scalar),
    /// A number that only a call knows, such as a row count, as i64; its dtype counts as that of a number.
    Size(Value),
}

/// Looks up what a node's arguments refer to.
pub(super) trait Names {
    /// The value of a tensor by name.
    fn value(&self, name: &str) -> Option<Value>;
    /// The value of a symbolic integer by name.
    fn size(&self, name: &str) -> Option<Dim>;
    /// The number of ranks of a group, if the file states it.
    fn ranks(&self, group: &str) -> Option<u32>;
    /// Whether a dim is never negative under the ranges of its symbols.
    fn never_negative(&self, dim: &Dim) -> bool;
    /// Takes for granted that a dim is not negative, where calls are checked against that; whether it does.
    fn takes_for_granted(&self, not_negative: &Dim) -> bool;
    /// Whether a tensor is one of complex numbers, of which the value is one of floats with a last axis of two.
    fn is_complex(&self, name: &str) -> bool;
    /// Whether a tensor is on the host, if the file states where it is.
    fn is_on_cpu(&self, name: &str) -> bool;
    /// Where a tensor lies in its memory, if the file states it.
    fn memory(&self, name: &str) -> Option<Strided>;
    /// Whether two extents are the same as far as can be told.
    fn same_extent(&self, a: &Dim, b: &Dim) -> bool;
}

/// A call of one op.
pub(super) struct Call<'a> {
    pub(super) b: &'a Builder,
    pub(super) names: &'a dyn Names,
    pub(super) node: &'a NodeJson,
    pub(super) row: &'a Row,
    /// Types that the file states for the results, in order.
    pub(super) results: &'a [TensorType],
    /// Values of arguments that the node does not name as the op does.
    pub(super) given: BTreeMap<&'a str, Value>,
    /// Last axes of values that the op does not count: one for complex numbers.
    pub(super) uncounted: usize,
}

/// An argument as given or, where it is left out, as the schema's default says.
enum Bound<'a> {
    Given(&'a Argument),
    Default(&'static str),
}

impl<'a> Call<'a> {
    /// Refuses arguments that the op's row does not list.
    pub(super) fn check_names(&self) -> Result<(), Refusal> {
        for input in &self.node.inputs {
            let known = self.row.parameter(&input.name).is_some() || self.given.contains_key(input.name.as_str());
            if !known && !custom::is_description(&input.name) {
                return Err(Refusal(format!("the argument `{}` is not known", input.name)));
            }
        }
        Ok(())
    }

    /// The type that the file states for the only result.
    pub(super) fn out(&self) -> Result<&TensorType, Refusal> {
        self.results.first().ok_or_else(|| Refusal("has no result".into()))
    }

    fn bound(&self, name: &str) -> Result<Bound<'a>, Refusal> {
        if let Some(input) = self.node.inputs.iter().find(|input| input.name == name) {
            return Ok(Bound::Given(&input.arg));
        }
        match self.row.parameter(name) {
            Some(Some(default)) => Ok(Bound::Default(default)),
            _ => Err(Refusal(format!("it has no argument `{name}`"))),
        }
    }

    fn wrong(&self, name: &str, expected: &str) -> Refusal {
        let given = self.node.inputs.iter().find(|input| input.name == name);
        let given = given.map_or_else(|| "nothing".to_owned(), |input| super::opaque::describe(&input.arg, self.names));
        Refusal(format!("the argument `{name}` is not {expected}: it is {given}"))
    }

    /// Refuses an argument as it is given, and says why.
    pub(super) fn refused(&self, name: &str, why: &str) -> Refusal {
        let is = match (self.tensor(name), self.node.inputs.iter().find(|input| input.name == name)) {
            (Ok(value), _) => self.b.ty(value).to_string(),
            (Err(_), Some(input)) => super::opaque::describe(&input.arg, self.names),
            (Err(_), None) => self.row.parameter(name).flatten().unwrap_or("nothing").to_owned(),
        };
        Refusal(format!("`{name}` is {is}: {why}"))
    }

    fn value(&self, name: &str) -> Result<Value, Refusal> {
        self.names.value(name).ok_or_else(|| Refusal(format!("the tensor `{name}` is not defined")))
    }

    fn size(&self, size: &SymIntArg) -> Result<Dim, Refusal> {
        match size {
            SymIntArg::Int(n) => Ok(Dim::constant(*n)),
            SymIntArg::Name(name) => {
                self.names.size(name).ok_or_else(|| Refusal(format!("the size `{name}` is not defined")))
            }
        }
    }

    /// Whether an argument is absent or `None`.
    pub(super) fn is_none(&self, name: &str) -> Result<bool, Refusal> {
        if self.given.contains_key(name) {
            return Ok(false);
        }
        Ok(matches!(self.bound(name)?, Bound::Given(Argument::None) | Bound::Default("None")))
    }

    /// A tensor argument.
    pub(super) fn tensor(&self, name: &str) -> Result<Value, Refusal> {
        if let Some(&value) = self.given.get(name) {
            return Ok(value);
        }
        match self.bound(name)? {
            Bound::Given(Argument::Tensor(tensor)) => self.value(tensor),
            _ => Err(self.wrong(name, "a tensor")),
        }
    }

    /// The name of a tensor argument; empty for another one.
    pub(super) fn tensor_name(&self, name: &str) -> Result<&'a str, Refusal> {
        Ok(match self.bound(name)? {
            Bound::Given(Argument::Tensor(tensor)) => tensor,
            _ => "",
        })
    }

    /// Whether all tensors that the op takes are on the host.
    pub(super) fn is_on_cpu(&self) -> bool {
        let mut operands = alias::operands(self.node).peekable();
        operands.peek().is_some() && operands.all(|name| self.names.is_on_cpu(name))
    }

    /// Where a tensor argument lies in its memory.
    pub(super) fn memory(&self, name: &str) -> Result<Strided, Refusal> {
        let shape = self.b.ty(self.tensor(name)?).shape;
        let memory = self.names.memory(self.tensor_name(name)?).filter(|memory| memory.shape.len() == shape.len());
        let memory = memory.ok_or_else(|| Refusal(format!("`{name}`: its strides are not stated")))?;
        Ok(Strided { shape, ..memory })
    }

    /// A tensor argument that may be `None`.
    pub(super) fn tensor_or_none(&self, name: &str) -> Result<Option<Value>, Refusal> {
        if self.is_none(name)? { Ok(None) } else { self.tensor(name).map(Some) }
    }

    /// A list of tensors.
    pub(super) fn tensors(&self, name: &str) -> Result<Vec<Value>, Refusal> {
        match self.bound(name)? {
            Bound::Given(Argument::Tensors(list)) => list.iter().map(|t| self.value(t)).collect(),
            _ => Err(self.wrong(name, "a list of tensors")),
        }
    }

    /// A list of tensors of which some may be `None`.
    pub(super) fn optional_tensors(&self, name: &str) -> Result<Vec<Option<Value>>, Refusal> {
        match self.bound(name)? {
            Bound::Given(Argument::Tensors(list)) => list.iter().map(|t| self.value(t).map(Some)).collect(),
            Bound::Given(Argument::OptionalTensors(list)) => {
                list.iter().map(|t| t.as_deref().map(|t| self.value(t)).transpose()).collect()
            }
            _ => Err(self.wrong(name, "a list of tensors")),
        }
    }

    /// A Python number.
    pub(super) fn scalar(&self, name: &str) -> Result<Scalar, Refusal> {
        match self.bound(name)? {
            Bound::Given(Argument::Int(n)) => Ok(Scalar::Int(*n)),
            Bound::Given(Argument::Float(v)) => Ok(Scalar::Float(*v)),
            Bound::Given(Argument::Bool(b)) => Ok(Scalar::Bool(*b)),
            Bound::Given(Argument::SymInt(size)) => {
                self.size(size)?.as_const().map(Scalar::Int).ok_or_else(|| self.wrong(name, "a known number"))
            }
            Bound::Default("True") => Ok(Scalar::Bool(true)),
            Bound::Default("False") => Ok(Scalar::Bool(false)),
            Bound::Default(text) => match (text.parse(), text.parse()) {
                (Ok(n), _) => Ok(Scalar::Int(n)),
                (_, Ok(v)) => Ok(Scalar::Float(v)),
                _ => Err(self.wrong(name, "a number")),
            },
            _ => Err(self.wrong(name, "a number")),
        }
    }

    /// A Python number that may be `None`.
    pub(super) fn scalar_or_none(&self, name: &str) -> Result<Option<Scalar>, Refusal> {
        if self.is_none(name)? { Ok(None) } else { self.scalar(name).map(Some) }
    }

    /// A tensor, a number or a size.
    pub(super) fn operand(&self, name: &str) -> Result<Operand, Refusal> {
        match self.bound(name)? {
            Bound::Given(Argument::Tensor(tensor)) => self.value(tensor).map(Operand::Tensor),
            Bound::Given(Argument::SymInt(size)) => match self.size(size)? {
                known if known.as_const().is_some() => self.scalar(name).map(Operand::Scalar),
                symbolic => Ok(Operand::Size(self.b.prim(Prim::SizeOf(symbolic), &[])?)),
            },
            _ => self.scalar(name).map(Operand::Scalar),
        }
    }

    /// An integer.
    pub(super) fn int(&self, name: &str) -> Result<i64, Refusal> {
        match self.scalar(name)? {
            Scalar::Int(n) => Ok(n),
            _ => Err(self.wrong(name, "an integer")),
        }
    }

    /// A boolean.
    pub(super) fn bool(&self, name: &str) -> Result<bool, Refusal> {
        match self.scalar(name)? {
            Scalar::Bool(b) => Ok(b),
            _ => Err(self.wrong(name, "a boolean")),
        }
    }

    /// A list of integers.
    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>, Refusal> {
        let dims = self.dims(name)?;
        let known = dims.iter().map(Dim::as_const).collect::<Option<_>>();
        known.ok_or_else(|| self.wrong(name, "a list of known integers"))
    }

    /// A list of floats that may be `None`.
    pub(super) fn floats_or_none(&self, name: &str) -> Result<Option<Vec<f64>>, Refusal> {
        match self.bound(name)? {
            _ if self.is_none(name)? => Ok(None),
            Bound::Given(Argument::Floats(list)) => Ok(Some(list.clone())),
            _ => Err(self.wrong(name, "a list of floats")),
        }
    }

    /// A size, known or symbolic.
    pub(super) fn dim(&self, name: &str) -> Result<Dim, Refusal> {
        match self.bound(name)? {
            Bound::Given(Argument::SymInt(size)) => self.size(size),
            _ => self.int(name).map(Dim::constant),
        }
    }

    /// A size that may be `None`.
    pub(super) fn dim_or_none(&self, name: &str) -> Result<Option<Dim>, Refusal> {
        if self.is_none(name)? { Ok(None) } else { self.dim(name).map(Some) }
    }

    /// A list of sizes; a lone integer is a list of one.
    pub(super) fn dims(&self, name: &str) -> Result<Vec<Dim>, Refusal> {
        match self.bound(name)? {
            Bound::Given(Argument::Ints(list)) => Ok(list.iter().copied().map(Dim::constant).collect()),
            Bound::Given(Argument::SymInts(list)) => list.iter().map(|s| self.size(s)).collect(),
            Bound::Default("[]") => Ok(Vec::new()),
            Bound::Default(text) if text.starts_with('[') => {
                let listed = text.trim_matches(['[', ']']).split(',').map(|n| n.parse().map(Dim::constant));
                listed.collect::<Result<_, _>>().map_err(|_| self.wrong(name, "a list of integers"))
            }
            _ => self.dim(name).map(|d| vec![d]),
        }
    }

    /// A dtype that may be `None`.
    pub(super) fn dtype_or_none(&self, name: &str) -> Result<Option<DType>, Refusal> {
        match self.bound(name)? {
            Bound::Given(Argument::ScalarType(code)) => Ok(Some(types::dtype(*code)?)),
            Bound::Given(Argument::None) | Bound::Default("None") => Ok(None),
            _ => Err(self.wrong(name, "a dtype")),
        }
    }

    /// A word.
    pub(super) fn word(&self, name: &str) -> Result<&'a str, Refusal> {
        match self.bound(name)? {
            Bound::Given(Argument::Str(text)) => Ok(text),
            Bound::Default(text) => Ok(text),
            Bound::Given(_) => Err(self.wrong(name, "a word")),
        }
    }

    /// An axis of a value of `rank` axes; negative counts from the end. A 0-d tensor has the axis 0 in name only.
    pub(super) fn axis(&self, name: &str, rank: usize) -> Result<usize, Refusal> {
        wrap_axis(self.int(name)?, rank.saturating_sub(self.uncounted))
    }

    /// Distinct axes in ascending order.
    pub(super) fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>, Refusal> {
        let mut axes = self.ints(name)?.into_iter().map(|a| wrap_axis(a, rank)).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        let given = axes.len();
        axes.dedup();
        if axes.len() == given { Ok(axes) } else { Err(self.wrong(name, "a list of distinct axes")) }
    }
}

/// Axis `axis` of `rank`, counted from the end if negative.
pub(super) fn wrap_axis(axis: i64, rank: usize) -> Result<usize, Refusal> {
    let wrapped = if axis < 0 { axis.checked_add_unsigned(rank as u64) } else { Some(axis) };
    let found = wrapped.and_then(|a| usize::try_from(a).ok()).filter(|&a| a < rank);
    found.ok_or_else(|| Refusal(format!("axis {axis} of a tensor of {rank} axes")))
}
