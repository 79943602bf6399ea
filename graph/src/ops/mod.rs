//! Composites: ops whose meaning is their expansion into primitives.
//!
//! One file per op and one line in the list below. From the file come shapes, reference, recognition of decomposed graphs,
//! every lowering and the generated tests.

macro_rules! composites {
    ($( $module:ident: $($spec:ident),+ => $($item:ident),+; )*) => {
        $( mod $module; pub use $module::{$($item),+}; )*

        /// Every composite, in alphabetical order of files.
        pub const LIST: &[&OpSpec] = &[$( $( &$module::$spec, )+ )*];
    };
}

composites! {
    clamped_swiglu: SPEC => ClampedSwiglu, SwigluAct, SwigluRounding;
    fatrelu: SPEC => FatRelu, FatReluNan;
    gated_rms_norm: SPEC => GateAct, GateOrder, GatedRmsNorm;
    gelu: SPEC => Gelu, GeluForm, GeluRounding;
    gemma_rms_norm: SPEC => GemmaRmsNorm;
    layer_norm: SPEC => LayerNorm, Moments;
    nvfp4: SPEC => QuantizeNvfp4;
    quantize: SPEC => DynamicScale, Floor, QuantizeDynamic;
    quantize_affine: SPEC => Offset, QuantizeAffine;
    quantize_asymmetric: SPEC => QuantizeAsymmetric;
    quantize_mx: SPEC => MxCodes, MxLeast, MxNan, MxScale, QuantizeMx;
    quantize_static: SPEC => Apply, Codes, NanCode, QuantizeStatic;
    relu_squared: SPEC => ReluSquared;
    rms_norm: SPEC => RmsNorm, RmsRounding;
    rms_scale: SPEC => Mean, RmsScale, Root;
    rope: NEOX, INTERLEAVED, HALF_TABLE => Pairs, RopeHalfTable, RopeInterleaved, RopeNeox;
    silu: SIGMOID, SILU => Sigmoid, Silu, SiluForm;
    soft_cap: SPEC => SoftCap;
    softmax: SPEC => Softmax;
    swiglu_step: SPEC => StepRounding, SwigluStep;
}

mod known;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use fusewright_abi::DType;

use crate::builder::Builder;
use crate::graph::{Graph, Value};
use crate::infer::TypeError;
use crate::text::print_float;
use crate::ty::TensorType;

pub(crate) use known::Known;

/// What the rest of the program needs to know of a composite.
#[derive(Debug)]
pub struct OpSpec {
    /// Name in text forms.
    pub name: &'static str,
    /// Number of operands that are always there.
    pub arity: usize,
    /// Number of operands behind them that may be left out, from the last.
    pub optional: usize,
    /// Makes the op from its printed attributes.
    pub parse: fn(&Attrs) -> Result<Composite, String>,
    /// The choices of discrete attributes that graphs hold; continuous ones are captured with [`Builder::attr`].
    pub variants: fn() -> Vec<Composite>,
    /// Types of all operands for an activation dtype, with symbolic rows `s` and static lanes.
    pub operands: fn(DType) -> Vec<TensorType>,
}

impl OpSpec {
    /// Whether the op takes that many operands.
    pub fn takes(&self, operands: usize) -> bool {
        (self.arity..=self.arity + self.optional).contains(&operands)
    }

    /// How many operands the op takes, in words.
    pub fn arity_text(&self) -> String {
        match self.optional {
            0 => format!("{} operands", self.arity),
            n => format!("{} to {} operands", self.arity, self.arity + n),
        }
    }

    /// Types of operands for an activation dtype, for each number of operands; for recognition and tests.
    pub fn samples(&self, dtype: DType) -> Vec<Vec<TensorType>> {
        let all = (self.operands)(dtype);
        (self.arity..=all.len()).map(|n| all[..n].to_vec()).collect()
    }
}

/// The spec of a composite by name.
pub fn by_name(name: &str) -> Option<&'static OpSpec> {
    LIST.iter().copied().find(|spec| spec.name == name)
}

/// The meaning of a composite.
pub trait CompositeOp: fmt::Debug + Send + Sync {
    /// The op's row in [`LIST`].
    fn spec(&self) -> &'static OpSpec;

    /// Attributes as printed; [`OpSpec::parse`] reads them back.
    fn attrs(&self) -> Attrs;

    /// The op in primitives and other composites; every rounding is a written cast.
    ///
    /// # Errors
    /// Operands that do not fit.
    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError>;

    /// The op with the freedom that PyTorch's kernels take beyond [`CompositeOp::expand`]: its intervals hold what they give.
    /// `None` where they take none.
    ///
    /// # Errors
    /// Operands that do not fit.
    fn expand_freely(&self, _: &Builder, _: &[Value]) -> Option<Result<Vec<Value>, TypeError>> {
        None
    }
}

/// A composite with its attributes; equal when name and attributes are.
#[derive(Clone)]
pub struct Composite(Arc<Printed<dyn CompositeOp>>);

/// An op beside its printed attributes, by which composites are compared.
struct Printed<T: ?Sized> {
    attrs: Attrs,
    op: T,
}

impl Composite {
    /// Wraps an op.
    pub fn new(op: impl CompositeOp + 'static) -> Self {
        Composite(Arc::new(Printed { attrs: op.attrs(), op }))
    }

    /// Name in text forms.
    pub fn name(&self) -> &'static str {
        self.spec().name
    }

    /// The op's row in [`LIST`].
    pub fn spec(&self) -> &'static OpSpec {
        self.0.op.spec()
    }

    /// Attributes as printed.
    pub fn attrs(&self) -> &Attrs {
        &self.0.attrs
    }

    /// Adds the expansion to a graph under construction.
    ///
    /// # Errors
    /// Operands that do not fit.
    pub fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        if !self.spec().takes(operands.len()) {
            let message = format!("takes {}, got {}", self.spec().arity_text(), operands.len());
            return Err(TypeError { op: self.name().to_owned(), message });
        }
        self.0.op.expand(b, operands).map_err(|error| match operands.first().map(|&x| b.ty(x)) {
            Some(ty) if ty.rank() == 0 => {
                TypeError { op: self.name().to_owned(), message: format!("runs over lanes, and {ty} has none") }
            }
            _ => error,
        })
    }

    /// Adds the expansion with the freedom that PyTorch's kernels take, where they take more than the op's own has.
    ///
    /// # Errors
    /// Operands that do not fit.
    pub fn expand_freely(&self, b: &Builder, operands: &[Value]) -> Option<Result<Vec<Value>, TypeError>> {
        self.0.op.expand_freely(b, operands)
    }

    /// The expansion as a graph of its own, with inputs `x0, x1, …`.
    ///
    /// # Errors
    /// Operand types that do not fit.
    pub fn body(&self, operands: &[&TensorType]) -> Result<Graph, TypeError> {
        let b = Builder::new(self.name());
        let mut symbols = BTreeSet::new();
        operands.iter().flat_map(|ty| &ty.shape).for_each(|dim| dim.collect_symbols(&mut symbols));
        symbols.iter().for_each(|name| drop(b.symbol(name, 0, None)));
        let values: Vec<Value> =
            operands.iter().enumerate().map(|(i, ty)| b.input(&format!("x{i}"), (*ty).clone())).collect();
        for result in self.expand(&b, &values)? {
            b.output(result);
        }
        Ok(b.finish())
    }

    /// Result types, by typing the expansion.
    ///
    /// # Errors
    /// Operand types that do not fit.
    pub fn infer(&self, operands: &[&TensorType]) -> Result<Vec<TensorType>, TypeError> {
        let body = self.body(operands)?;
        Ok(body.outputs().iter().map(|o| body.ty(o.value).clone()).collect())
    }
}

impl PartialEq for Composite {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.name() == other.name() && self.attrs() == other.attrs())
    }
}

impl Eq for Composite {}

impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name(), self.attrs())
    }
}

/// An attribute value.
#[derive(Clone, PartialEq, Debug)]
pub enum AttrValue {
    /// A value that f32 holds, printed with as few digits as identify it among f32 values.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A word: an enum name or a dtype.
    Word(&'static str),
}

/// Printed attributes in a fixed order.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Attrs(pub Vec<(String, AttrText)>);

/// An attribute's text.
pub type AttrText = String;

impl Attrs {
    /// Attributes from pairs.
    pub fn of<const N: usize>(pairs: [(&str, AttrValue); N]) -> Self {
        Attrs(pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_string())).collect())
    }

    /// The text of an attribute.
    ///
    /// # Errors
    /// The attribute is missing.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        let found = self.0.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str());
        found.ok_or_else(|| format!("needs an attribute `{name}`"))
    }

    /// An attribute as the nearest f32 value.
    ///
    /// # Errors
    /// Missing or not a number.
    pub fn float(&self, name: &str) -> Result<f64, String> {
        let text = self.text(name).map_err(|missing| format!("{missing}, a number"))?;
        let value: f32 = text.parse().map_err(|_| format!("attribute `{name}`: `{text}` is not a number"))?;
        if value.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
            return Err(format!("attribute `{name}`: `{text}` is beyond the range of f32"));
        }
        Ok(value.into())
    }

    /// An attribute as one of several words.
    ///
    /// # Errors
    /// Missing or none of the words.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, String> {
        let known = || words.iter().map(|w| w.0).collect::<Vec<_>>().join(", ");
        let text = self.text(name).map_err(|missing| format!("{missing}, one of {}", known()))?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| format!("attribute `{name}`: `{text}` is none of {}", known()))
    }

    /// These attributes and others behind them.
    pub fn join(mut self, other: Attrs) -> Self {
        self.0.extend(other.0);
        self
    }

    /// These attributes and one more, which is left out where it is the first of its words.
    pub fn and<T: PartialEq>(mut self, name: &str, words: &[(&'static str, T)], value: &T) -> Self {
        let chosen = words.iter().skip(1).find(|(_, v)| v == value);
        self.0.extend(chosen.map(|(word, _)| (name.to_owned(), (*word).to_owned())));
        self
    }

    /// An attribute as one of several words; where it is missing, as the first.
    ///
    /// # Errors
    /// None of the words.
    pub fn word_or_first<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, String> {
        match words {
            [(_, first), ..] if self.text(name).is_err() => Ok(*first),
            _ => self.word(name, words),
        }
    }

    /// A copy with one attribute changed.
    pub fn with(&self, name: &str, value: AttrValue) -> Self {
        let pairs = self.0.iter().map(|(k, v)| (k.clone(), if k == name { value.to_string() } else { v.clone() }));
        Attrs(pairs.collect())
    }
}

impl fmt::Display for AttrValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttrValue::Float(v) => f.write_str(&print_float(DType::F32, *v)),
            AttrValue::Int(v) => write!(f, "{v}"),
            AttrValue::Word(v) => f.write_str(v),
        }
    }
}
