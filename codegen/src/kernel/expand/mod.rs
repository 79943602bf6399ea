//! Legalisation: a kernel in the functions that a target has.
//!
//! After [`expand`] every map is on `f32`, `f64`, integers or booleans and is a function that the target's column of
//! the scalar table calls native; `select` alone stays on every dtype, since it moves bits. What a target lacks
//! becomes a sequence of native functions, bitcasts and selects, written here once: the interpreter of the expanded
//! kernel and the generated code then agree to the bit. Each file states the greatest error that its tests measure.
//!
//! | before | after |
//! |---|---|
//! | map on a float of 16 bits or less | casts to `f32`, the map there, a cast back: the same bits for exact functions |
//! | `fma` on such a float | `f64` with the sum rounded to odd |
//! | max/min reduction, `arg_reduce`, `top_k` of such a float | the same on `f32` |
//! | comparison of an `iota` as `i64` with a scalar | on `i32` |
//! | sum of two `i32` as `i64`, kept within bounds of 32 bits, on CPUs | the nearest `i32`, within these bounds |
//! | `arg_reduce` of floats of which only the lane is used, on CPUs | an extreme, and the first lane that equals it |
//! | `top_k` of `f32` or a narrower float, on CPUs | ordered by integers |
//! | function that the column expands | polynomials and exact sequences of this folder |
//!
//! Sums and products of narrow floats keep their dtype: every partial result rounds to it. Casts stay casts.

mod emit;
mod erf;
mod exact;
pub(crate) mod exp;
mod forms;
pub(crate) mod gates;
mod lanes;
mod log;
mod narrow;
mod plane;
mod pow;
mod rem;
mod tanh;
mod trig;

use fusewright_graph::scalar::{ScalarSpec, Spelling};
use fusewright_graph::{DType, Dim, ReduceOp, ScalarFn};

use super::cut_rows::cut_rows;
use super::infer::InstError;
use super::parts::by_parts;
use super::{InstOp, Kernel, Segment, SegmentBuilder, Val, simplify, verify};
use emit::Emit;
use exp::Argument;
use forms::{Form, Forms};
use gates::Gate;

/// A column of the scalar table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Column {
    /// Cranelift and LLVM on CPUs.
    Cpu,
    /// LLVM for NVIDIA.
    Cuda,
    /// Ascend C.
    Ascend,
}

impl Column {
    /// Every column, in declaration order.
    pub const ALL: [Column; 3] = [Column::Cpu, Column::Cuda, Column::Ascend];

    /// The column's entry of a row.
    pub const fn of(self, spec: &ScalarSpec) -> Spelling {
        match self {
            Column::Cpu => spec.cpu,
            Column::Cuda => spec.cuda,
            Column::Ascend => spec.ascend,
        }
    }

    /// The targets of the column, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Column::Cpu => "a CPU",
            Column::Cuda => "an NVIDIA GPU",
            Column::Ascend => "an Ascend NPU",
        }
    }

    /// Whether the target computes a function itself.
    pub fn is_native(self, f: ScalarFn) -> bool {
        matches!(self.of(f.spec()), Spelling::Native(_))
    }
}

/// The kernel in functions that are native in a column, without unused values.
///
/// # Errors
/// A function with no expansion on its operands' dtype: transcendental functions on `f64`.
pub fn expand(kernel: &Kernel, column: Column) -> Result<Kernel, InstError> {
    // Of the others, CPUs loop over lanes, and NPUs move whole rows.
    let parts = (column == Column::Cuda).then(|| by_parts(kernel)).transpose()?;
    let kernel = parts.as_ref().unwrap_or(kernel);
    let segments = kernel.segments.iter().map(|segment| expand_segment(kernel, segment, column));
    let segments = segments.collect::<Result<Vec<_>, _>>()?;
    let expanded = Kernel { segments, ..kernel.clone() };
    let expanded = simplify::without_unused(&expanded);
    // Threads of the others share a row by themselves.
    // A cut whose indices the verifier cannot follow is none.
    let cut = || cut_rows(&expanded).ok().filter(|cut| verify(cut).is_ok());
    Ok(if column == Column::Cpu { cut().unwrap_or(expanded) } else { expanded })
}

fn expand_segment(kernel: &Kernel, segment: &Segment, column: Column) -> Result<Segment, InstError> {
    let builder = SegmentBuilder::new(&segment.name, segment.inner.clone(), &kernel.params);
    let mut emit = Emit::new(builder, column);
    let mut renamed: Vec<Val> = Vec::with_capacity(segment.types.len());
    let forms = Forms::of(segment);
    for inst in &segment.insts {
        let args: Vec<Val> = inst.args.iter().map(|v| renamed[v.0 as usize]).collect();
        let new = |v: Val| renamed[v.0 as usize];
        let results = match (&inst.op, forms.form(inst, column)) {
            (InstOp::Map(_), Some(Form::ExpOfNegative { x })) if !column.is_native(ScalarFn::Exp) => {
                vec![emit.exp(Argument { negative: true, ..Argument::of(new(x)) })]
            }
            (InstOp::Map(_), Some(Form::ExpBelowOne { x, share })) if !column.is_native(ScalarFn::Exp) => {
                vec![if share { emit.exp_below_one_as_share(new(x)) } else { emit.exp_below_one(new(x)) }]
            }
            (InstOp::Map(_), Some(Form::OnePlusExp { one, x, negative })) if !column.is_native(ScalarFn::Exp) => {
                let power = emit.exp_beside_one(Argument { negative, ..Argument::of(new(x)) });
                vec![emit.add(new(one), power)]
            }
            // Approximate instructions give every one of these the same bf16 (`backend/cuda/gate.rs`).
            (InstOp::Map(_), Some(Form::Narrow(gate))) if column == Column::Cuda => vec![emit.whole_gate(gate, new)],
            (InstOp::Map(_), Some(Form::Narrow(Gate::OnePlusTanh { u, .. }))) => vec![emit.one_plus_tanh(new(u))],
            (InstOp::Map(f), Some(Form::LaneAgainst { lane, scalar, lane_first })) => {
                vec![emit.lane_against(*f, new(lane), new(scalar), lane_first)]
            }
            // Measured on CPUs alone.
            (InstOp::ArgReduce(_), Some(Form::ExtremeLane { op, x })) if column == Column::Cpu => {
                emit.extreme_lane(op, new(x), segment.ty(x).shape.elements())
            }
            (op, Some(Form::ExtremeOfZeros { op: extreme, x })) => {
                let found = emit.ordering(op, &args);
                vec![emit.extreme_with_zeros_ordered(op, extreme, new(x), found[0])]
            }
            (op, Some(Form::SumWithin { a, b, bounds })) => {
                let [a, b] = [a, b].map(|v| emit.cast(new(v), DType::I32));
                let sum = emit.saturating_add(a, b);
                let within = bounds.into_iter().fold(sum, |v, (f, bound)| {
                    let bound = emit.i(bound);
                    emit.raw(f, &[v, bound])
                });
                emit.inst(op.clone(), &[within])
            }
            (op, Some(Form::Unbounded { x })) => emit.inst(op.clone(), &[new(x)]),
            (op, _) => emit.whole(op, &args, &renamed),
        };
        renamed.extend(emit.checked(results)?);
    }
    emit.finish()
}

impl Emit<'_> {
    /// An instruction as it stands.
    fn whole(&mut self, op: &InstOp, args: &[Val], renamed: &[Val]) -> Vec<Val> {
        match op {
            InstOp::Map(f) => vec![self.map(*f, args)],
            InstOp::Reduce { op: ReduceOp::Max | ReduceOp::Min, .. } | InstOp::ArgReduce(_) | InstOp::TopK { .. } => {
                self.ordering(op, args)
            }
            op => self.inst(rename_index(op, renamed), args),
        }
    }
}

/// The instruction with gathered integers under their new names.
pub(crate) fn rename_index(op: &InstOp, renamed: &[Val]) -> InstOp {
    let new =
        |index: &Dim| index.substitute(&|symbol| Some(renamed.get(Val::from_symbol(symbol)?.0 as usize)?.symbol()));
    match op.clone() {
        InstOp::Index(index) => InstOp::Index(new(&index)),
        InstOp::Load { param, index, shape, otherwise } => InstOp::Load { param, index: new(&index), shape, otherwise },
        InstOp::Store { param, index, otherwise } => InstOp::Store { param, index: new(&index), otherwise },
        other => other,
    }
}

impl Emit<'_> {
    /// A map, in native functions.
    fn map(&mut self, f: ScalarFn, args: &[Val]) -> Val {
        let dtype = args.last().map_or(DType::F32, |v| self.dtype(*v));
        if dtype.is_float() && dtype.bits() < 32 && f != ScalarFn::Select {
            return self.narrow(f, args);
        }
        let found = self.native(f, args, dtype);
        match (f, args) {
            // The maximum of zeros is any of them on NPUs.
            (ScalarFn::Max | ScalarFn::MaxNum | ScalarFn::Min | ScalarFn::MinNum, &[a, b])
                if self.column == Column::Ascend && dtype == DType::F32 && self.may_be_unlike_zeros(a, b) =>
            {
                self.with_zeros_ordered(f, [a, b], found)
            }
            _ => found,
        }
    }

    /// A map as its instruction, or as its expansion where there is none.
    fn native(&mut self, f: ScalarFn, args: &[Val], dtype: DType) -> Val {
        if self.column.is_native(f) {
            return self.raw(f, args);
        }
        match (f, args) {
            (ScalarFn::Recip, [x]) => self.recip(*x),
            (ScalarFn::Rsqrt, [x]) => self.rsqrt(*x),
            (ScalarFn::MaxNum, [a, b]) => self.maxnum(ScalarFn::Max, *a, *b),
            (ScalarFn::MinNum, [a, b]) => self.maxnum(ScalarFn::Min, *a, *b),
            (ScalarFn::Xor, [a, b]) => self.xor(*a, *b),
            (ScalarFn::Ue8m0Ceil, [x]) if dtype == DType::F32 => self.ue8m0_ceil(*x),
            (ScalarFn::Rem, [a, b]) if dtype == DType::F32 => self.rem(*a, *b),
            (ScalarFn::Rem, [a, b]) if !dtype.is_float() => self.rem_int(*a, *b),
            (ScalarFn::Exp, [x]) if dtype == DType::F32 => self.exp(Argument::of(*x)),
            (ScalarFn::Exp2, [x]) if dtype == DType::F32 => self.exp2(*x),
            (ScalarFn::Log, [x]) if dtype == DType::F32 => self.log(*x),
            (ScalarFn::Log2, [x]) if dtype == DType::F32 => self.log2(*x),
            (ScalarFn::Sin, [x]) if dtype == DType::F32 => self.sin(*x),
            (ScalarFn::Cos, [x]) if dtype == DType::F32 => self.cos(*x),
            (ScalarFn::Tanh, [x]) if dtype == DType::F32 => self.tanh(*x),
            (ScalarFn::Erf, [x]) if dtype == DType::F32 => self.erf(*x),
            (ScalarFn::Erfc, [x]) if dtype == DType::F32 => self.erfc(*x),
            (ScalarFn::Erfinv, [x]) if dtype == DType::F32 => self.erfinv(*x),
            (ScalarFn::Atan2, [a, b]) if dtype == DType::F32 => self.atan2(*a, *b),
            (ScalarFn::Hypot, [a, b]) if dtype == DType::F32 => self.hypot(*a, *b),
            (ScalarFn::Pow, [a, b]) if dtype == DType::F32 => self.pow(*a, *b),
            _ => self.refuse(f, dtype),
        }
    }
}

#[cfg(test)]
mod tests;
