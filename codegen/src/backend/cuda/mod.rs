//! NVIDIA GPUs: Kernel IR to LLVM IR to PTX.
//!
//! Reductions are in the stated order. Inner rows are independent, so all inner rows of all segments of an outer row run
//! side by side: a block each, whose registers hold the row if it fits (`plan.rs`, `vectors.rs`), or several where nothing
//! is reduced over a whole row. A kernel takes the buffers as device pointers, then the dims and the half-open range of
//! rows as 64-bit integers.
//!
//! Nothing is reassociated, subnormals are kept, and results are those of the kernel's own instructions. Where other
//! instructions give the same bits they are used: short sequences for divisions and roots (`exact.rs`), a fused
//! multiply-add for a sum of exact products (`reduce.rs`), approximate ones for the gates of a bf16 (`gate.rs`).

mod ahead;
mod arch;
mod backend;
mod budget;
mod code;
mod dialect;
mod exact;
mod extents;
mod flush;
mod gate;
mod groups;
mod hazard;
mod held;
mod joined;
mod kind;
mod lanes;
mod magnitude;
mod memory;
mod packed;
mod plan;
mod quotient;
mod range;
mod reduce;
mod rows;
mod rule;
mod search;
mod teams;
mod vectors;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use fusewright_abi::ManyRows;
use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, InitializationConfig, Target, TargetMachine, TargetMachineOptions, TargetTriple};
use inkwell::types::BasicTypeEnum;
use inkwell::values::{FunctionValue, IntValue};
use inkwell::{AddressSpace, IntPredicate, OptimizationLevel};

pub use self::backend::CudaBackend;
pub use self::kind::kind;
pub use self::rule::candidates;

use self::arch::Arch;
use self::code::GLOBAL;
use self::extents::exchanges;
use self::plan::{Held, Plan, Plans, WARP};
use self::rows::{Frame, Rows, Share};
use crate::backend::Grid;
use crate::backend::llvm::code::Code;
use crate::backend::llvm::{BuildError, Built, Value, index};
use crate::kernel::{INNER, Kernel, ROW, Segment};
use crate::schedule::KernelSchedule;

/// LLVM's number of the calling convention of PTX kernels.
const PTX_KERNEL: u32 = 71;
/// What the row program needs of LLVM's optimiser; `ptxas` does the rest.
const PASSES: &str = "function(instcombine<no-verify-fixpoint>,early-cse,simplifycfg)";

/// Why a kernel has no PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The kernel uses something that this backend does not make code for.
    #[error("{place}: no GPU code for {what}")]
    Unsupported {
        /// Segment and instruction.
        place: String,
        /// What it is, and why not.
        what: String,
    },
    /// The kernel cannot be spread as the schedule says.
    #[error("its schedule: {0}")]
    Schedule(String),
    /// The architecture is not in the table.
    #[error("no GPU architecture `{0}`; there are {known}", known = architectures().collect::<Vec<_>>().join(", "))]
    UnknownArch(String),
    /// LLVM refused what was built, which is a defect of this backend.
    #[error("LLVM: {0}")]
    Llvm(String),
}

impl From<BuildError> for EmitError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Unsupported { place, what } => EmitError::Unsupported { place, what },
            BuildError::Llvm(message) => EmitError::Llvm(message),
        }
    }
}

/// A kernel's code in both stages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// LLVM IR as built, before its passes.
    pub ll: String,
    /// PTX.
    pub ptx: String,
    /// How to launch it.
    pub launch: Grid,
}

/// The architectures that code is made for.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    arch::ALL.iter().map(|a| a.name)
}

/// Makes PTX of a kernel whose functions are all native, as the rule of this backend spreads it.
///
/// # Errors
/// An unknown architecture, or something that this backend does not cover, named with its reason.
pub fn emit(kernel: &Kernel, arch: &str) -> Result<Emitted, EmitError> {
    emit_as(kernel, arch, &rule::rule(kernel))
}

/// Makes PTX of a kernel whose functions are all native, with its rows spread as a schedule says.
///
/// # Errors
/// As [`emit`], and a schedule that the kernel cannot have.
pub fn emit_as(kernel: &Kernel, arch: &str, schedule: &KernelSchedule) -> Result<Emitted, EmitError> {
    let mut ll = String::new();
    let ptx = compile(kernel, arch, schedule, &mut |module| ll = module.print_to_string().to_string())?;
    Ok(Emitted { ll, ptx, launch: launch(kernel, arch, schedule) })
}

/// Whether there is code for an architecture of that name.
///
/// # Errors
/// It is not in the table.
pub(super) fn known(arch: &str) -> Result<(), EmitError> {
    architecture(arch).map(drop)
}

fn architecture(name: &str) -> Result<Arch, EmitError> {
    arch::by_name(name).ok_or_else(|| EmitError::UnknownArch(name.to_owned()))
}

/// The PTX of a kernel; `built` sees the module before its passes, which is printed for people only.
fn compile(
    kernel: &Kernel,
    arch: &str,
    schedule: &KernelSchedule,
    built: &mut dyn FnMut(&Module<'_>),
) -> Result<String, EmitError> {
    let arch = architecture(arch)?;
    let plans = Plans::of(kernel, schedule).map_err(EmitError::Schedule)?;
    let machine = machine(arch)?;
    let ctx = Context::create();
    let module = build(&ctx, kernel, &arch, &machine, &plans)?;
    module.verify().map_err(|e| EmitError::Llvm(e.to_string()))?;
    built(&module);
    finish(&module, &machine)
}

/// The PTX of LLVM IR as [`Emitted::ll`] has it, perhaps changed.
///
/// # Errors
/// An unknown architecture; what LLVM says of the text.
pub fn from_ll(text: &[u8], arch: &str) -> Result<String, EmitError> {
    let machine = machine(architecture(arch)?)?;
    let ctx = Context::create();
    let text = MemoryBuffer::create_from_memory_range_copy(text, "ll");
    let module = ctx.create_module_from_ir(text).map_err(|e| EmitError::Llvm(e.to_string()))?;
    module.verify().map_err(|e| EmitError::Llvm(e.to_string()))?;
    finish(&module, &machine)
}

/// Runs the passes and prints the code of a module.
fn finish(module: &Module<'_>, machine: &TargetMachine) -> Result<String, EmitError> {
    let options = PassBuilderOptions::create();
    module.run_passes(PASSES, machine, options).map_err(|e| EmitError::Llvm(e.to_string()))?;
    magnitude::compare_with_itself(module).map_err(|e| EmitError::Llvm(e.to_string()))?;
    let text =
        machine.write_to_memory_buffer(module, FileType::Assembly).map_err(|e| EmitError::Llvm(e.to_string()))?;
    let text = text.as_slice().strip_suffix(&[0]).unwrap_or(text.as_slice());
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// How the rule of this backend spreads the rows of a kernel.
pub fn schedule(kernel: &Kernel) -> KernelSchedule {
    rule::rule(kernel)
}

/// Why a kernel cannot have a schedule, if it cannot.
pub fn refuses(kernel: &Kernel, schedule: &KernelSchedule) -> Option<String> {
    Plans::of(kernel, schedule).err()
}

fn machine(arch: Arch) -> Result<TargetMachine, EmitError> {
    Target::initialize_nvptx(&InitializationConfig::default());
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    let target = Target::from_triple(&triple).map_err(|e| EmitError::Llvm(e.to_string()))?;
    let options =
        TargetMachineOptions::new().set_cpu(arch.name).set_features(arch.ptx).set_level(OptimizationLevel::None);
    target
        .create_target_machine_from_options(&triple, options)
        .ok_or_else(|| EmitError::Llvm(format!("no code generator for {}", arch.name)))
}

/// How the code of a kernel is launched on an architecture. A schedule that it cannot have was refused where its code was
/// made.
fn launch(kernel: &Kernel, arch: &str, schedule: &KernelSchedule) -> Grid {
    let dependent = arch::by_name(arch).is_some_and(|arch| arch.dependent_launch);
    let plans = Plans::of(kernel, schedule).or_else(|_| Plans::of(kernel, &rule::rule(kernel)));
    Grid { dependent, ..plans.expect("the rule gives what a kernel can have").launch(kernel) }
}

fn build<'c>(
    ctx: &'c Context,
    kernel: &Kernel,
    arch: &'c Arch,
    machine: &TargetMachine,
    plans: &Plans,
) -> Built<Module<'c>> {
    let module = ctx.create_module(&kernel.name);
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    let pointer: BasicTypeEnum<'c> = ctx.ptr_type(AddressSpace::from(GLOBAL)).into();
    let integer: BasicTypeEnum<'c> = ctx.i64_type().into();
    let buffers = std::iter::repeat_n(pointer, kernel.params.len());
    let integers = std::iter::repeat_n(integer, kernel.dims.len() + 2);
    let params: Vec<_> = buffers.chain(integers).map(Into::into).collect();
    let ty = ctx.void_type().fn_type(&params, false);
    let mut module = module;
    let many = plans.many.as_ref().map(|(_, plan)| (format!("{}{}", kernel.name, ManyRows::SUFFIX), plan));
    for (name, plan) in [(kernel.name.clone(), &plans.first)].into_iter().chain(many) {
        let function = module.add_function(&name, ty, None);
        function.set_call_conventions(PTX_KERNEL);
        let room = match plan.bound {
            0 => ("nvvm.minctasm", "1".to_owned()),
            bound => ("nvvm.maxnreg", bound.to_string()),
        };
        for (key, value) in [("nvvm.maxntid", plan.threads.to_string()), room] {
            function.add_attribute(AttributeLoc::Function, ctx.create_string_attribute(key, &value));
        }
        let code = Code { ctx, module, b: ctx.create_builder(), function, dialect: arch };
        let entry = code.block();
        code.b.position_at_end(entry);
        segments(&code, kernel, arch, plan)?;
        module = code.module;
    }
    Ok(module)
}

/// The body: finds the block's row and inner row, and runs the segment that owns it.
fn segments<'c>(code: &Code<'c>, kernel: &Kernel, arch: &Arch, plan: &Plan) -> Built<()> {
    let register = |name: &str| -> Built<IntValue<'c>> {
        Ok(code.call(&format!("llvm.nvvm.read.ptx.sreg.{name}.x"), &[], &[])?.into_int_value())
    };
    let (block, own) = (register("ctaid")?, register("tid")?);
    let (buffers, mut names, range) = arguments(code, kernel)?;
    let (index, own) = if plan.unit == plan.threads {
        (block, own)
    } else {
        let unit = code.i32(i64::from(plan.unit));
        let of_block = code.mul(block, code.i32(i64::from(plan.threads / plan.unit)))?;
        let index = code.add(of_block, code.b.build_int_unsigned_div(own, unit, "")?)?;
        (index, code.b.build_int_unsigned_rem(own, unit, "")?)
    };
    let thread = code.resize(own, 64)?;
    // Units of a launch are fewer than 2³¹, and so are those of a row.
    let per_row = index::dim(code, &plan.units_per_row(kernel), &|name| named(&names, name))?;
    let per_row = code.resize(per_row, 32)?;
    let row = code.resize(code.b.build_int_unsigned_div(index, per_row, "")?, 64)?;
    let mut slot = code.resize(code.b.build_int_unsigned_rem(index, per_row, "")?, 64)?;
    let mut row = code.add(range[0], row)?;
    let few = i64::try_from(plan.release).unwrap_or(i64::MAX);
    if few > 0 && arch.dependent_launch {
        let rows = code.b.build_int_sub(range[1], range[0], "")?;
        let (release, begin) = (code.block(), code.block());
        let is_few = code.cmp(IntPredicate::SLE, rows, code.i64(few))?;
        code.b.build_conditional_branch(is_few, release, begin)?;
        code.b.position_at_end(release);
        code.assembly("griddepcontrol.launch_dependents;")?;
        code.b.build_unconditional_branch(begin)?;
        code.b.position_at_end(begin);
    }
    let done = code.block();
    // Whether threads exchange values behind what is decided for their warp.
    let exchanged = kernel.segments.iter().any(exchanges);
    let exchanges = plan.unit == WARP && plan.unit < plan.threads && exchanged;
    // All blocks are of rows, but the last may have units without.
    let mut row_exists = None;
    if plan.unit < plan.threads {
        let exists = code.cmp(IntPredicate::SLT, row, range[1])?;
        if plan.unit == WARP || !exchanged {
            let exists = if exchanges { code.of_warp(exists)? } else { exists };
            let inside = code.block();
            code.b.build_conditional_branch(exists, inside, done)?;
            code.b.position_at_end(inside);
        } else {
            // Threads of a warp stay together.
            let last: Value<'c> = code.b.build_int_sub(range[1], code.i64(1), "")?.into();
            row = code.select(exists, row, last)?.into_int_value();
            row_exists = Some(exists);
        }
    }
    names.insert(ROW.to_owned(), row);
    for (segment, &held) in kernel.segments.iter().zip(&plan.held) {
        let parts = index::dim(code, &plan.parts(segment, held), &|name| named(&names, name))?;
        let blocks = index::dim(code, &plan.units(segment, held), &|name| named(&names, name))?;
        let (run, skip) = (code.block(), code.block());
        let mut own = code.cmp(IntPredicate::SLT, slot, blocks)?;
        if exchanges {
            own = code.of_warp(own)?;
        }
        code.b.build_conditional_branch(own, run, skip)?;
        code.b.position_at_end(run);
        let part = code.b.build_int_unsigned_rem(slot, parts, "")?;
        let first = code.b.build_int_unsigned_div(slot, parts, "")?;
        let passes = held.map_or(1, |held| held.passes);
        let mut frames = Vec::new();
        for pass in 0..passes {
            let (inner, exists) = match held.filter(|held| held.is_team) {
                Some(held) => inner_row(code, segment, held, plan.unit, (first, thread, pass), done)?,
                None => (first, None),
            };
            let exists = exists.or(row_exists);
            let (mut names, buffers) = (names.clone(), buffers.clone());
            names.insert(INNER.to_owned(), inner);
            let share = plan.at_once.map(|at_once| Share { part, at_once });
            frames.push(Frame { code, kernel, arch, threads: plan.unit, thread, buffers, names, exists, share });
        }
        let defining = rows::defining(segment);
        let mut rows: Vec<Rows<'_, 'c>> = frames.iter().map(|frame| Rows::new(frame, segment, &defining)).collect();
        Rows::run(&mut rows, held, part)?;
        code.b.build_unconditional_branch(done)?;
        code.b.position_at_end(skip);
        slot = code.b.build_int_sub(slot, blocks, "")?;
    }
    code.b.build_unconditional_branch(done)?;
    code.b.position_at_end(done);
    code.b.build_return(None)?;
    Ok(())
}

/// The inner row of a thread's team in a pass, and whether there is one, where a block may have teams without. Threads
/// that exchange values go to the end together if their rows do not exist; else they have another row, twice computed.
fn inner_row<'c>(
    code: &Code<'c>,
    segment: &Segment,
    held: Held,
    threads: u32,
    (block, thread, pass): (IntValue<'c>, IntValue<'c>, u32),
    done: BasicBlock<'c>,
) -> Built<(IntValue<'c>, Option<IntValue<'c>>)> {
    let team = i64::from(held.row_threads(threads));
    let teams = i64::from(held.teams);
    let first = code.mul(block, code.i64(teams * i64::from(held.passes)))?;
    let own = code.add(first, code.b.build_int_unsigned_div(thread, code.i64(team), "")?)?;
    let inner = code.add(own, code.i64(i64::from(pass) * teams))?;
    let Some(rows) = segment.inner.as_const() else { return Ok((inner, None)) };
    if rows % (teams * i64::from(held.passes)) == 0 {
        return Ok((inner, None));
    }
    let exists = code.cmp(IntPredicate::SLT, inner, code.i64(rows))?;
    if rows % (i64::from(WARP) / team) == 0 && held.passes == 1 {
        let begin = code.block();
        code.b.build_conditional_branch(exists, begin, done)?;
        code.b.position_at_end(begin);
        return Ok((inner, None));
    }
    let last: Value<'c> = code.i64(rows - 1).into();
    Ok((code.select(exists, inner, last)?.into_int_value(), Some(exists)))
}

type Arguments<'c> = (Vec<IntValue<'c>>, BTreeMap<String, IntValue<'c>>, [IntValue<'c>; 2]);

fn arguments<'c>(code: &Code<'c>, kernel: &Kernel) -> Built<Arguments<'c>> {
    let param = |function: FunctionValue<'c>, i: usize| {
        function.get_nth_param(i as u32).ok_or_else(|| BuildError::Llvm(format!("no parameter {i}")))
    };
    let mut buffers = Vec::new();
    for i in 0..kernel.params.len() {
        let pointer = param(code.function, i)?.into_pointer_value();
        buffers.push(code.b.build_ptr_to_int(pointer, code.ctx.i64_type(), "")?);
    }
    let mut names = BTreeMap::new();
    for (i, dim) in kernel.dims.iter().enumerate() {
        names.insert(dim.name.clone(), param(code.function, buffers.len() + i)?.into_int_value());
    }
    let first = buffers.len() + kernel.dims.len();
    let range = [param(code.function, first)?.into_int_value(), param(code.function, first + 1)?.into_int_value()];
    Ok((buffers, names, range))
}

fn named<'c>(names: &BTreeMap<String, IntValue<'c>>, name: &str) -> Built<IntValue<'c>> {
    names.get(name).copied().ok_or_else(|| BuildError::unsupported(format!("`{name}`, which is no dim of the kernel")))
}
