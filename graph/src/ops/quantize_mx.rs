//! `quantize_mx(x) → (codes, exponents)`: blocks of 32 lanes with one power of two each, an e8m0 exponent; e2m1 codes two
//! in a byte, the even lane in the low bits, or a byte each.
//!
//! The exponent is made of the bits of the block's largest magnitude `m`, without NaN, and of the codes' largest power
//! `p` and value `v`: `floor` is `⌊log₂ m⌋ − p`, `nearest` the same of `m` rounded to the codes' mantissa, half up, and
//! `ceil` the least power no less than `max(m, 2⁻¹²⁶) / v`. `least` says what an exponent at the lower end means, 2⁻¹²⁷ or
//! codes of zero. `codes = x / 2^exponent` in f32, nearest, saturating. With `nan = block` the exponent of a block that
//! holds NaN or infinity is NaN, and so is every quotient.

use fusewright_abi::DType::{self, F4E2M1, F8E4M3, F8E5M2, F8E8M0, F32, I32, U8};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::{NanBits, NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Lanes of a block.
const BLOCK: i64 = 32;
/// Bits of an f32's mantissa.
const MANTISSA: i64 = 23;
/// The largest exponent's field.
const TOP: i64 = 254;

/// The codes of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MxCodes {
    /// Four bits, two codes in a byte.
    E2M1,
    /// Eight bits, e4m3fn.
    E4M3,
    /// Eight bits, e5m2.
    E5M2,
}

/// How a block's exponent follows from its largest magnitude.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MxScale {
    /// The power of the magnitude less that of the largest code; codes may saturate.
    Floor,
    /// The same for the magnitude rounded to the codes' mantissa.
    Nearest,
    /// The least with which no code saturates.
    Ceil,
}

/// What an exponent at the lower end means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MxLeast {
    /// 2⁻¹²⁷.
    Power,
    /// Nothing: the block's codes are zeros.
    Zero,
}

/// What becomes of a block that holds NaN or infinity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MxNan {
    /// NaN counts for nothing in the exponent, infinity as a number beyond all others.
    Skip,
    /// The exponent is NaN.
    Block,
}

const CODES: [(&str, MxCodes); 3] = [("f4e2m1", MxCodes::E2M1), ("f8e4m3", MxCodes::E4M3), ("f8e5m2", MxCodes::E5M2)];
const SCALES: [(&str, MxScale); 3] =
    [("floor", MxScale::Floor), ("nearest", MxScale::Nearest), ("ceil", MxScale::Ceil)];
const LEASTS: [(&str, MxLeast); 2] = [("power", MxLeast::Power), ("zero", MxLeast::Zero)];
const NANS: [(&str, MxNan); 2] = [("skip", MxNan::Skip), ("block", MxNan::Block)];

/// Codes and exponents of the microscaling formats.
#[derive(Clone, Copy, Debug)]
pub struct QuantizeMx {
    /// What is made.
    pub codes: MxCodes,
    /// How the exponent is made.
    pub scale: MxScale,
    /// What the least exponent means.
    pub least: MxLeast,
    /// What becomes of NaN and infinity.
    pub nan: MxNan,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_mx",
    arity: 1,
    optional: 0,
    parse: |attrs| {
        Ok(Composite::new(QuantizeMx {
            codes: attrs.word("codes", &CODES)?,
            scale: attrs.word("scale", &SCALES)?,
            least: attrs.word_or_first("least", &LEASTS)?,
            nan: attrs.word_or_first("nan", &NANS)?,
        }))
    },
    variants,
    operands: |dtype: DType| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

/// vLLM's eight bits, its four bits in CUDA and in Triton, what OCP's specification says, and Ascend's quantisers.
fn variants() -> Vec<Composite> {
    use MxCodes::{E2M1, E4M3, E5M2};
    use MxLeast::{Power, Zero};
    use MxNan::{Block, Skip};
    use MxScale::{Ceil, Floor, Nearest};
    let all = [
        (E4M3, Ceil, Power, Skip),
        (E2M1, Nearest, Zero, Skip),
        (E2M1, Nearest, Power, Skip),
        (E2M1, Floor, Power, Skip),
        (E2M1, Floor, Zero, Block),
        (E4M3, Floor, Zero, Block),
        (E5M2, Floor, Zero, Block),
        (E4M3, Ceil, Power, Block),
    ];
    all.map(|(codes, scale, least, nan)| Composite::new(QuantizeMx { codes, scale, least, nan })).to_vec()
}

impl MxCodes {
    fn dtype(self) -> DType {
        match self {
            MxCodes::E2M1 => F4E2M1,
            MxCodes::E4M3 => F8E4M3,
            MxCodes::E5M2 => F8E5M2,
        }
    }

    /// Exponent and value of the largest code, and bits of its mantissa.
    fn largest(self) -> (i64, f64, i64) {
        match self {
            MxCodes::E2M1 => (2, 6.0, 1),
            MxCodes::E4M3 => (8, 448.0, 3),
            MxCodes::E5M2 => (15, 57344.0, 2),
        }
    }
}

/// `f` of an i32 value and a constant.
fn with(b: &Builder, f: ScalarFn, x: Value, constant: i64) -> Result<Value, TypeError> {
    b.map(f, &[x, b.int(I32, constant)?])
}

fn bits(b: &Builder, x: Value, to: DType) -> Result<Value, TypeError> {
    b.prim(Prim::Bitcast { to, nan: NanBits::One }, &[x])
}

impl QuantizeMx {
    /// The largest magnitude of every block of f32 lanes.
    fn largest(&self, b: &Builder, groups: Value) -> Result<Value, TypeError> {
        let axes = vec![b.ty(groups).rank().saturating_sub(1)];
        let magnitude = b.map(ScalarFn::Abs, &[groups])?;
        let of = |nan| b.prim(Prim::Reduce { op: ReduceOp::Max, axes: axes.clone(), nan }, &[magnitude]);
        match self.nan {
            MxNan::Skip => b.map(ScalarFn::Max, &[of(NanRule::Ignore)?, b.float(F32, 0.0)?]),
            MxNan::Block => of(NanRule::Propagate),
        }
    }

    /// The exponent's field and the factor of lanes for a largest magnitude.
    fn scaled(&self, b: &Builder, largest: Value) -> Result<[Value; 2], TypeError> {
        let field = self.field(b, largest)?;
        let factor = self.factor(b, field)?;
        if self.nan == MxNan::Skip {
            return Ok([field, factor]);
        }
        let numbers = b.map(ScalarFn::Lt, &[largest, b.float(F32, f64::INFINITY)?])?;
        let field = b.map(ScalarFn::Select, &[numbers, field, b.int(I32, TOP + 1)?])?;
        Ok([field, b.map(ScalarFn::Select, &[numbers, factor, b.float(F32, f64::NAN)?])?])
    }

    /// The exponent's field, in i32, of a block's largest magnitude.
    fn field(&self, b: &Builder, largest: Value) -> Result<Value, TypeError> {
        let (power, value, mantissa) = self.codes.largest();
        let field = match self.scale {
            MxScale::Ceil => {
                let least = b.map(ScalarFn::Max, &[largest, b.float(F32, f64::from(f32::MIN_POSITIVE))?])?;
                let ratio = bits(b, b.div(least, b.float(F32, value)?)?, I32)?;
                let field = with(b, ScalarFn::Shr, ratio, MANTISSA)?;
                let rest = with(b, ScalarFn::And, ratio, (1 << MANTISSA) - 1)?;
                let some = with(b, ScalarFn::Ne, rest, 0)?;
                // The power of a subnormal number's field is its half.
                let more = with(b, ScalarFn::Gt, rest, 1 << (MANTISSA - 1))?;
                let bump = b.map(ScalarFn::Select, &[with(b, ScalarFn::Eq, field, 0)?, more, some])?;
                b.add(field, b.cast(bump, I32)?)?
            }
            MxScale::Floor => with(b, ScalarFn::Sub, with(b, ScalarFn::Shr, bits(b, largest, I32)?, MANTISSA)?, power)?,
            MxScale::Nearest => {
                let half = with(b, ScalarFn::Add, bits(b, largest, I32)?, 1 << (MANTISSA - 1 - mantissa))?;
                with(b, ScalarFn::Sub, with(b, ScalarFn::Shr, half, MANTISSA)?, power)?
            }
        };
        b.clamp(field, b.int(I32, 0)?, b.int(I32, TOP)?)
    }

    /// What lanes are multiplied by: the inverse of the power, which f32 holds for every field.
    fn factor(&self, b: &Builder, field: Value) -> Result<Value, TypeError> {
        let inverse = b.map(ScalarFn::Sub, &[b.int(I32, TOP)?, field])?;
        let shifted = with(b, ScalarFn::Shl, inverse, MANTISSA)?;
        // 2⁻¹²⁷ is subnormal.
        let factor = bits(b, with(b, ScalarFn::Max, shifted, 1 << (MANTISSA - 1))?, F32)?;
        match self.least {
            MxLeast::Power => Ok(factor),
            MxLeast::Zero => {
                let none = with(b, ScalarFn::Eq, field, 0)?;
                b.map(ScalarFn::Select, &[none, b.float(F32, 0.0)?, factor])
            }
        }
    }
}

impl CompositeOp for QuantizeMx {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let codes = CODES.iter().find(|(_, c)| *c == self.codes).map_or("", |(word, _)| word);
        let scale = SCALES.iter().find(|(_, s)| *s == self.scale).map_or("", |(word, _)| word);
        Attrs::of([("codes", AttrValue::Word(codes)), ("scale", AttrValue::Word(scale))])
            .and("least", &LEASTS, &self.least)
            .and("nan", &NANS, &self.nan)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = operands[0];
        let ty = b.ty(x);
        let refuse = |message: &str| TypeError { op: SPEC.name.to_owned(), message: format!("{message}: {ty}") };
        let (axis, lanes) = ty.shape.iter().enumerate().next_back().ok_or_else(|| refuse("no axis"))?;
        let blocks = lanes.exact_div(&Dim::constant(BLOCK)).ok_or_else(|| refuse("lanes that are no whole blocks"))?;
        let mut flat = ty.shape[..axis].to_vec();
        flat.push(blocks);
        let mut grouped = flat.clone();
        grouped.push(Dim::constant(BLOCK));
        let groups = b.cast(b.reshape(x, grouped)?, F32)?;
        let [field, factor] = self.scaled(b, self.largest(b, groups)?)?;
        let codes = b.cast_saturating(b.mul(groups, factor)?, self.codes.dtype())?;
        let codes = b.reshape(codes, ty.shape.clone())?;
        let codes = match self.codes {
            MxCodes::E2M1 => b.prim(Prim::Pack { ways: 2, to: U8 }, &[codes])?,
            MxCodes::E4M3 | MxCodes::E5M2 => codes,
        };
        let exponents = bits(b, b.cast(field, U8)?, F8E8M0)?;
        Ok(vec![codes, b.reshape(exponents, flat)?])
    }
}
