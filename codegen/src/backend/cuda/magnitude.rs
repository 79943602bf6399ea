//! Comparisons that NVIDIA's assembler decides although an operand may be NaN.
//!
//! `ptxas` (of CUDA 13.0 and 13.5, for every architecture, with optimisation) knows the range of a magnitude, and takes `|x| > c`
//! for true wherever `c` is below zero; of a NaN it is false. Here such a comparison becomes one of the operand with itself,
//! which says the same. It runs behind LLVM's passes, which make magnitudes of other forms.

use inkwell::FloatPredicate;
use inkwell::builder::BuilderError;
use inkwell::context::ContextRef;
use inkwell::module::Module;
use inkwell::values::{
    AnyValue, BasicValueEnum, CallSiteValue, FloatValue, InstructionOpcode, InstructionValue, Operand, PhiValue,
};

/// Functions whose results are not below zero.
const NOT_NEGATIVE: [&str; 2] = ["llvm.fabs.f32", "llvm.nvvm.ex2.approx"];
/// How many selects and merges are looked through.
const DEPTH: u32 = 8;

/// A value is NaN, or on this side of zero, or zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Above,
    Below,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Above => Side::Below,
            Side::Below => Side::Above,
        }
    }
}

/// Rewrites the comparisons of a module that are true of all numbers.
pub(super) fn compare_with_itself(module: &Module<'_>) -> Result<(), BuilderError> {
    let functions = module.get_functions();
    let instructions = functions.flat_map(|f| f.get_basic_blocks()).flat_map(|block| block.get_instructions());
    let found: Vec<_> = instructions.filter_map(|inst| Some((inst, true_of_numbers(inst)?))).collect();
    let builder = module.get_context().create_builder();
    for (old, x) in found {
        builder.position_before(&old);
        let new = builder.build_float_compare(FloatPredicate::ORD, x, x, "")?;
        if let Some(new) = new.as_instruction() {
            old.replace_all_uses_with(&new);
            old.erase_from_basic_block();
        }
    }
    Ok(())
}

/// The operand of a comparison that is true unless that is NaN.
fn true_of_numbers<'c>(inst: InstructionValue<'c>) -> Option<FloatValue<'c>> {
    let predicate = inst.get_fcmp_predicate()?;
    let (a, b) = (float(inst, 0)?, float(inst, 1)?);
    let (x, predicate, bound) = match (a.get_constant(), b.get_constant()) {
        (None, Some((bound, _))) => (a, predicate, bound),
        (Some((bound, _)), None) => (b, turned(predicate)?, bound),
        _ => return None,
    };
    let is_true = match (predicate, side(x, DEPTH)?) {
        (FloatPredicate::OGT, Side::Above) => bound < 0.0,
        (FloatPredicate::OGE, Side::Above) => bound <= 0.0,
        (FloatPredicate::OLT, Side::Below) => bound > 0.0,
        (FloatPredicate::OLE, Side::Below) => bound >= 0.0,
        _ => false,
    };
    is_true.then_some(x)
}

/// The comparison with its operands in the other order.
fn turned(predicate: FloatPredicate) -> Option<FloatPredicate> {
    match predicate {
        FloatPredicate::OGT => Some(FloatPredicate::OLT),
        FloatPredicate::OGE => Some(FloatPredicate::OLE),
        FloatPredicate::OLT => Some(FloatPredicate::OGT),
        FloatPredicate::OLE => Some(FloatPredicate::OGE),
        _ => None,
    }
}

fn side(x: FloatValue<'_>, depth: u32) -> Option<Side> {
    let (inst, depth) = (x.as_instruction()?, depth.checked_sub(1)?);
    match inst.get_opcode() {
        InstructionOpcode::Call => {
            let called = CallSiteValue::try_from(inst).ok()?.get_called_fn_value()?;
            let name = called.get_name().to_string_lossy().into_owned();
            NOT_NEGATIVE.iter().any(|known| name.starts_with(known)).then_some(Side::Above)
        }
        InstructionOpcode::FNeg => side(float(inst, 0)?, depth).map(Side::other),
        InstructionOpcode::Select => one_side([float(inst, 1)?, float(inst, 2)?].into_iter(), depth),
        InstructionOpcode::Phi => {
            let phi = PhiValue::try_from(inst).ok()?;
            let others = phi
                .get_incomings()
                .map(|(value, _)| value)
                .filter(|value| value.as_any_value_enum() != x.as_any_value_enum());
            let floats: Option<Vec<FloatValue<'_>>> = others.map(as_float).collect();
            one_side(floats?.into_iter(), depth)
        }
        _ => None,
    }
}

/// The side on which all of some values are.
fn one_side<'c>(mut values: impl Iterator<Item = FloatValue<'c>>, depth: u32) -> Option<Side> {
    let first = side(values.next()?, depth)?;
    values.all(|value| side(value, depth) == Some(first)).then_some(first)
}

/// An operand that is one `f32`.
fn float<'c>(inst: InstructionValue<'c>, at: u32) -> Option<FloatValue<'c>> {
    inst.get_operand(at).and_then(Operand::value).and_then(as_float)
}

fn as_float<'c>(value: BasicValueEnum<'c>) -> Option<FloatValue<'c>> {
    let BasicValueEnum::FloatValue(value) = value else { return None };
    let context: ContextRef<'c> = value.get_type().get_context();
    (value.get_type() == context.f32_type()).then_some(value)
}
