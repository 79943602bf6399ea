//! One kernel in the Kernel IR interpreter and as machine code, on the same bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fusewright_abi::{ParamAccess, Target};
use fusewright_codegen::backend::{HOST_TARGETS, assemble};
use fusewright_codegen::kernel::expand::expand;
use fusewright_codegen::kernel::interp::{Buffer, run};
use fusewright_codegen::kernel::{Kernel, Param};
use fusewright_graph::Dim;
use fusewright_runtime::{Arg, EachTime, Module, device_with};

use super::chain::approximate;
use super::{Agreement, Difference, THREADS, Verdict, at, first_difference};
use crate::compiler::column;
use crate::guard;
use crate::host::zeroed;
use crate::inputs::{Random, Sizes, Values, fill};
use crate::{CompileError, Compiler, Error};

/// The value of every dim of a kernel: as the sizes say, else `default`.
///
/// # Errors
/// A size that no dim takes.
pub fn dims(kernel: &Kernel, sizes: &Sizes, default: i64) -> Result<BTreeMap<String, i64>, Error> {
    if let Some(name) = sizes.dims.keys().find(|name| kernel.dims.iter().all(|d| d.name != **name)) {
        let there: Vec<String> = kernel.dims.iter().map(|d| format!("`{}`", d.name)).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        return Err(Error::Call(format!("no dim `{name}` in kernel `{}`; there is {there}", kernel.name)));
    }
    let value = |name: &str| sizes.dims.get(name).copied().or(sizes.rows).unwrap_or(default);
    Ok(kernel.dims.iter().map(|d| (d.name.clone(), value(&d.name))).collect())
}

/// Memory for every parameter: what is read is made from the seed, integers wide enough for an address count upward so
/// that they name different rows, and what is only written is zero.
///
/// # Errors
/// An extent that has no value, or more elements than memory holds.
pub fn made_buffers(
    kernel: &Kernel,
    dims: &BTreeMap<String, i64>,
    seed: u64,
    values: Values,
) -> Result<Vec<Buffer>, Error> {
    kernel.params.iter().map(|param| buffer(param, dims, seed, values)).collect()
}

fn buffer(param: &Param, dims: &BTreeMap<String, i64>, seed: u64, values: Values) -> Result<Buffer, Error> {
    let bad = |message: String| Error::Call(format!("parameter %{}: {message}", param.name));
    let extent = |dim: &Dim| {
        let value = dim.eval(&|name| dims.get(name).copied()).map_err(|e| bad(e.to_string()))?;
        usize::try_from(value).map_err(|_| bad(format!("extent {dim} is {value}")))
    };
    let shape = param.shape.iter().map(extent).collect::<Result<Vec<usize>, Error>>()?;
    let mut random = Random::named(seed, 0, &param.name);
    let address = !param.dtype.is_float() && param.dtype.bits() >= 32;
    let made = fill(param.dtype, &shape, &mut random, values, None)
        .map_err(|e| e.about(format!("parameter %{}", param.name)))?;
    Ok(Buffer::Bytes(match param.access {
        ParamAccess::Out => zeroed(param.dtype.bytes_for(made.len()))?,
        _ if address => {
            (0..made.len() as u64).flat_map(|i| i.to_le_bytes()[..param.dtype.bits() as usize / 8].to_vec()).collect()
        }
        _ => made.try_to_bytes()?,
    }))
}

/// Compares the Kernel IR interpreter on a kernel, as it stands and as expanded for a target, with its machine code.
/// `Target::Cpu` stands for all targets that are the host.
///
/// # Errors
/// A kernel that the interpreter does not run on made inputs, or that the backend does not take; no device of the target.
pub fn kernel(kernel: &Kernel, target: &Target, cases: &[BTreeMap<String, i64>], seed: u64) -> Result<Verdict, Error> {
    against(kernel, kernel, target, cases, seed)
}

/// The targets that [`kernel`] compares for one that is asked for.
pub fn kernel_targets(target: &Target) -> Vec<Target> {
    if *target == Target::Cpu { HOST_TARGETS.to_vec() } else { vec![target.clone()] }
}

/// As [`kernel`], with machine code of a kernel that must compute the same. It is launched as the kernel that it is judged by.
pub(super) fn against(
    meaning: &Kernel,
    compiled: &Kernel,
    target: &Target,
    cases: &[BTreeMap<String, i64>],
    seed: u64,
) -> Result<Verdict, Error> {
    let for_target = |k: &Kernel| expand(k, column(target)).map_err(|e| Error::Input(e.to_string()));
    let expanded = for_target(meaning)?;
    let machine = for_target(compiled)?;
    let targets = kernel_targets(target);
    let codes =
        targets.iter().map(|target| Code::of(&machine, &expanded, target)).collect::<Result<Vec<_>, Error>>()?;
    let mut agreement = Agreement::default();
    for dims in cases {
        let start = made_buffers(meaning, dims, seed, Values::Edges)?;
        let want = interpret(&expanded, &start, dims)?;
        if !approximate(meaning) {
            let written = interpret(meaning, &start, dims)?;
            if let Some(found) = first(meaning, dims, &want, &written) {
                return Ok(Verdict::Differ(Difference::new("expansion changes bits", found)));
            }
        }
        for (code, threads) in codes.iter().flat_map(|code| [(code, 1), (code, THREADS)]) {
            let got = match code.launch(&start, dims, threads)? {
                Ok(got) => got,
                Err(found) => return Ok(Verdict::Differ(found.of(&code.artifact.target))),
            };
            if let Some(found) = first(meaning, dims, &got, &want) {
                let found = Difference::new("machine code is not its kernel", found);
                return Ok(Verdict::Differ(found.of(&code.artifact.target)));
            }
        }
        let elements = |(p, b): (&Param, &Buffer)| b.bytes().len() * 8 / p.dtype.bits() as usize;
        agreement.elements += meaning.params.iter().zip(&want).map(elements).sum::<usize>();
    }
    agreement.single_valued = agreement.elements;
    Ok(Verdict::Equal(agreement))
}

fn interpret(kernel: &Kernel, start: &[Buffer], dims: &BTreeMap<String, i64>) -> Result<Vec<Buffer>, Error> {
    let bad = |message: String| Error::Call(format!("kernel `{}`: {message}", kernel.name));
    let mut buffers = start.to_vec();
    let rows = kernel.rows.eval(&|name| dims.get(name).copied()).map_err(|e| bad(e.to_string()))?;
    run(kernel, &mut buffers, dims, 0..rows).map_err(|e| bad(e.to_string()))?;
    Ok(buffers)
}

/// The first parameter in which two runs differ, and where.
fn first(kernel: &Kernel, dims: &BTreeMap<String, i64>, got: &[Buffer], want: &[Buffer]) -> Option<String> {
    let mut params = kernel.params.iter().zip(got.iter().zip(want));
    let found = |(param, (got, want)): (&Param, (&Buffer, &Buffer))| {
        first_difference(param.dtype, got.bytes(), want.bytes()).map(|first| format!("%{}{first}", param.name))
    };
    params.find_map(found).map(|place| format!("{place}{}", at(dims)))
}

/// Machine code of a kernel, loaded.
struct Code<'k> {
    kernel: &'k Kernel,
    artifact: fusewright_abi::KernelArtifact,
    module: Arc<dyn Module>,
}

impl<'k> Code<'k> {
    fn of(kernel: &'k Kernel, meaning: &Kernel, target: &Target) -> Result<Code<'k>, Error> {
        let compiler = Compiler::new(target)?;
        let assembled = |kernel| assemble(kernel, "", target, compiler.backend()).map_err(CompileError::from);
        let mut artifact = assembled(kernel)?;
        if kernel != meaning {
            artifact.params = assembled(meaning)?.params;
        }
        let module = device_with(target, Arc::new(EachTime))?.load(&artifact)?;
        Ok(Code { kernel, artifact, module })
    }

    /// What is in the buffers after a launch, or where it wrote behind one of them.
    fn launch(
        &self,
        start: &[Buffer],
        dims: &BTreeMap<String, i64>,
        threads: usize,
    ) -> Result<Result<Vec<Buffer>, Difference>, Error> {
        let lengths: Vec<usize> = start.iter().map(|b| b.bytes().len()).collect();
        let mut buffers: Vec<Vec<u8>> = start.iter().map(|b| b.bytes().to_vec()).collect();
        buffers.iter_mut().zip(&lengths).for_each(|(buffer, &length)| guard::arm(buffer, length));
        let values: Vec<i64> = self.artifact.dims.iter().map(|d| dims[&d.name]).collect();
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(buffers.len());
        for ((bytes, &length), param) in buffers.iter_mut().zip(&lengths).zip(&self.kernel.params) {
            let bytes = &mut bytes[..length];
            args.push(if param.access == ParamAccess::In { Arg::In(bytes) } else { Arg::Out(bytes) });
        }
        self.module.launch(&mut args, &values, self.artifact.launch.rows.count(&values), threads)?;
        for ((buffer, &length), param) in buffers.iter_mut().zip(&lengths).zip(&self.kernel.params) {
            if let Err(behind) = guard::check(buffer, length) {
                let place = format!("%{} holds {length} bytes, byte {}{}", param.name, length + behind, at(dims));
                return Ok(Err(Difference::new("machine code writes behind a buffer", place)));
            }
            buffer.truncate(length);
        }
        Ok(Ok(buffers.into_iter().map(Buffer::Bytes).collect()))
    }
}
