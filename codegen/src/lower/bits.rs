//! Bits of floats as another dtype. Of what was computed every NaN reads as the canonical one: which one an instruction
//! gives differs by target, and by what shares its kernel.

use fusewright_graph::{
    DType, Def, Graph, Literal, NanBits, NanRule, Node, NodeId, Op, Prim, ReduceOp, ScalarFn, Value, num,
};

use super::LowerError;
use super::emit::Emitter;
use crate::kernel::{InstOp, Val};

impl Emitter<'_> {
    /// The bits of a value. A NaN is replaced among integers: a compiler may take any NaN for another among floats.
    pub(super) fn bitcast(&mut self, id: NodeId, node: &Node, to: DType, nan: NanBits) -> Result<Vec<Val>, LowerError> {
        let operand = node.operands[0];
        let (x, from) = (self.value(operand)?, self.body.ty(operand).dtype);
        if nan == NanBits::Kept || has_one_nan(self.body, operand) {
            return self.push_at(id, InstOp::Bitcast(to), &[x]);
        }
        let word = if to.is_float() { word(from) } else { to };
        let one = Literal::Int(word, num::decode_int(word, num::encode(from, f64::NAN)));
        let is_nan = self.push_at(id, InstOp::Map(ScalarFn::Ne), &[x, x])?[0];
        let one = self.push_at(id, InstOp::Literal(one), &[])?[0];
        let bits = self.push_at(id, InstOp::Bitcast(word), &[x])?[0];
        let bits = self.push_at(id, InstOp::Map(ScalarFn::Select), &[is_nan, one, bits])?;
        if word == to { Ok(bits) } else { self.push_at(id, InstOp::Bitcast(to), &bits) }
    }
}

/// The unsigned integer that is as wide as a float.
pub(super) fn word(dtype: DType) -> DType {
    match dtype.bits() {
        64 => DType::U64,
        32 => DType::U32,
        16 => DType::U16,
        4 => DType::U4,
        _ => DType::U8,
    }
}

/// Whether a value is no NaN but the canonical one of its dtype, on every target.
fn has_one_nan(body: &Graph, value: Value) -> bool {
    let dtype = body.ty(value).dtype;
    if !num::has_nans(dtype) {
        return true;
    }
    let Def::Node(id, _) = body.def(value) else { return false };
    let node = body.node(id);
    match &node.op {
        // Functions of short floats end in a conversion, and a conversion to one makes the canonical NaN.
        Op::Prim(prim) if dtype.bits() == 8 && !prim.moves() => true,
        Op::Prim(Prim::Slice { .. } | Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. }) => {
            has_one_nan(body, node.operands[0])
        }
        _ => is_number(body, value),
    }
}

/// Whether a value is never NaN.
fn is_number(body: &Graph, value: Value) -> bool {
    let Def::Node(id, _) = body.def(value) else { return false };
    let node = body.node(id);
    let is = |i: usize| is_number(body, node.operands[i]);
    let Op::Prim(prim) = &node.op else { return false };
    match prim {
        Prim::Literal(Literal::Float(_, x)) => !x.is_nan(),
        Prim::Iota { .. } => true,
        // What is beyond a short float without infinities is NaN.
        Prim::Cast { to, .. } if to.bits() > 8 => !body.ty(node.operands[0]).dtype.is_float() || is(0),
        Prim::Reduce { op: ReduceOp::Max | ReduceOp::Min, nan: NanRule::Ignore, .. } => true,
        Prim::Map(ScalarFn::Ue8m0Ceil) => true,
        Prim::Map(ScalarFn::MaxNum | ScalarFn::MinNum) => is(0) || is(1),
        Prim::Map(ScalarFn::Max | ScalarFn::Min) => is(0) && is(1),
        Prim::Map(ScalarFn::Select) => is(1) && is(2),
        Prim::Map(ScalarFn::Abs | ScalarFn::Neg) => is(0),
        Prim::Slice { .. } | Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } => is(0),
        _ => false,
    }
}
