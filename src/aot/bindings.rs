//! Generated Rust: one safe function per kernel over the objects of a build script.
//!
//! The functions check every length before the kernel sees a pointer, in arithmetic that saturates: a product that
//! saturates is longer than any slice. They need nothing but `core`, or `std` where code for several levels of processors
//! is chosen from.

use std::collections::BTreeSet;
use std::fmt::Write;

use fusewright_abi::{DType, DimSource, KernelArtifact, Level, ParamAccess, Target};
use fusewright_codegen::kernel::{Claim, Kernel, Param};
use fusewright_graph::Dim;
use fusewright_graph::dim::product;

use crate::Error;

/// Words that no argument may be called, in any edition.
const KEYWORDS: &str = "Self abstract as async await become box break const continue crate do dyn else enum extern \
    false final fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static \
    struct super trait true try type typeof unsafe unsized use virtual where while yield";

/// The Rust type that stores elements of a dtype; 16-bit floats are their bits.
fn rust_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        DType::F32 => "f32",
        DType::BF16 | DType::F16 | DType::U16 => "u16",
        DType::I64 => "i64",
        DType::I32 => "i32",
        DType::I16 => "i16",
        DType::I8 => "i8",
        DType::U64 => "u64",
        DType::U32 => "u32",
        DType::F8E4M3
        | DType::F8E5M2
        | DType::F8E8M0
        | DType::F4E2M1
        | DType::U8
        | DType::I4
        | DType::U4
        | DType::Bool => "u8",
    }
}

/// A safe function `name` that checks lengths and calls, for all rows on the caller's thread, the symbol of the first
/// artifact that the processor has the instructions of.
/// Symbols of the shapes are arguments named like them, before the tensors. An output in the memory of an input is no
/// argument of its own: the input is then overwritten.
///
/// # Errors
/// A name that is no identifier, or a shape that is no sum of products of its symbols.
pub(super) fn function(name: &str, kernel: &Kernel, artifacts: &[KernelArtifact]) -> Result<String, Error> {
    let symbols: BTreeSet<&str> = kernel.dims.iter().map(|d| d.name.as_str()).collect();
    let names: Vec<&str> = symbols.iter().copied().chain(kernel.params.iter().map(|p| p.name.as_str())).collect();
    for (i, argument) in names.iter().chain([&name]).enumerate() {
        check_identifier(argument)?;
        if names[..i.min(names.len())].contains(argument) && i < names.len() {
            return Err(Error::Input(format!("kernel `{name}`: two arguments are called `{argument}`")));
        }
    }
    let mut text = documentation(kernel, artifacts);
    let mut arguments: Vec<String> = symbols.iter().map(|s| format!("{s}: usize")).collect();
    arguments.extend(given(kernel).map(|(i, param)| {
        let mutable = if param.access == ParamAccess::In && !is_overwritten(kernel, i) { "" } else { "mut " };
        format!("{}: &{mutable}[{}]", param.name, rust_type(param.dtype))
    }));
    let (arguments, checks, launch) =
        (arguments.join(", "), checks(kernel, &symbols)?, launch(name, kernel, artifacts)?);
    write!(
        text,
        "#[allow(unsafe_code, clippy::too_many_arguments)]\n\
         pub fn {name}({arguments}) -> Result<(), &'static str> {{\n\
         {checks}{launch}    Ok(())\n}}\n\n",
    )
    .map_err(|e| Error::Internal(e.to_string()))?;
    Ok(text)
}

/// The parameters that are arguments, and their indices.
fn given(kernel: &Kernel) -> impl Iterator<Item = (usize, &Param)> {
    kernel.params.iter().enumerate().filter(|(_, param)| param.alias.is_none())
}

/// Whether an output lies in the memory of a parameter.
fn is_overwritten(kernel: &Kernel, param: usize) -> bool {
    kernel.params.iter().any(|p| p.alias.is_some_and(|alias| alias.0 as usize == param))
}

fn documentation(kernel: &Kernel, artifacts: &[KernelArtifact]) -> String {
    let made: Vec<String> = artifacts.iter().map(|a| format!("`{}`", a.name)).collect();
    let mut lines = vec![format!("Kernel {}, made ahead of time.", made.join(", ")), String::new()];
    for (i, param) in given(kernel) {
        let shape: Vec<String> = param.shape.iter().map(ToString::to_string).collect();
        let access = match param.access {
            ParamAccess::In if is_overwritten(kernel, i) => "overwritten",
            ParamAccess::In => "read",
            ParamAccess::Out => "written",
            ParamAccess::InOut => "overwritten",
        };
        lines.push(format!("* `{}`: `{}[{}]`, {access}", param.name, param.dtype, shape.join(", ")));
    }
    let errors = "The name of the first argument whose length or value does not fit; nothing is written.";
    lines.extend(["", "# Errors", errors].map(str::to_owned));
    if let Some(least) = artifacts.iter().filter_map(level).min() {
        lines.push(format!("`{NO_LEVEL}`, where it is not of level {least}."));
    }
    lines.iter().map(|line| format!("/// {line}").trim_end().to_owned() + "\n").collect()
}

/// Statements that return the name of an argument that does not fit.
fn checks(kernel: &Kernel, symbols: &BTreeSet<&str>) -> Result<String, Error> {
    let check =
        |condition: String, name: &str| format!("    if {condition} {{\n        return Err(\"{name}\");\n    }}\n");
    let mut text: String = symbols.iter().map(|s| check(format!("i64::try_from({s}).is_err()"), s)).collect();
    for (_, param) in given(kernel) {
        let elements = expression(&product(&param.shape))?;
        let length = if param.dtype.bits() < 8 { format!("{elements}.div_ceil(2)") } else { elements };
        text += &check(format!("{}.len() != {length}", param.name), &param.name);
    }
    for claim in &kernel.claims {
        let (condition, name) = broken(claim)?;
        text += &check(condition, &name);
    }
    Ok(text)
}

/// Writes a condition that a claim does not hold, and names a symbol of it. Each term stands on the side where it is positive.
fn broken(claim: &Claim) -> Result<(String, String), Error> {
    let difference = &claim.most - &claim.least;
    let terms =
        difference.as_polynomial().ok_or_else(|| Error::Input(format!("`{difference}` is no sum of products")))?;
    let (mut ours, mut theirs) = (Dim::constant(0), Dim::constant(0));
    let mut name = None;
    for (coefficient, names) in terms {
        name = name.or_else(|| names.first().map(ToString::to_string));
        let symbols: Vec<Dim> = names.into_iter().map(Dim::symbol).collect();
        let side = if coefficient < 0 { &mut ours } else { &mut theirs };
        *side = &*side + &(&Dim::constant(coefficient.saturating_abs()) * &product(&symbols));
    }
    let name = name.ok_or_else(|| Error::Internal(format!("`{difference}` claims nothing of any size")))?;
    Ok((format!("{} > {}", expression(&ours)?, expression(&theirs)?), name))
}

/// What does not fit if the processor runs none of the codes; no argument is called so.
const NO_LEVEL: &str = "the processor";

/// The processors that the code of an artifact is for, if not the building machine's.
fn level(artifact: &KernelArtifact) -> Option<Level> {
    match artifact.target {
        Target::CpuLlvm { level } => level,
        _ => None,
    }
}

/// The call of the kernel. No name that it brings hides an argument.
fn launch(name: &str, kernel: &Kernel, artifacts: &[KernelArtifact]) -> Result<String, Error> {
    let fresh = |name: &str| {
        let mut fresh = name.to_owned();
        let taken = |fresh: &String| {
            kernel.params.iter().map(|p| &p.name).chain(kernel.dims.iter().map(|d| &d.name)).any(|n| n == fresh)
        };
        while taken(&fresh) {
            fresh.push('_');
        }
        fresh
    };
    let callee = fresh("kernel");
    // Both parameters of one memory take one address.
    let mut shared = String::new();
    for (_, param) in given(kernel).filter(|(i, _)| is_overwritten(kernel, *i)) {
        let address = fresh(&format!("{}_address", param.name));
        shared += &format!("    let {address}: *mut u8 = {}.as_mut_ptr().cast();\n", param.name);
    }
    let pointer = |(i, p): (usize, &Param)| {
        let of = p.alias.map_or(i, |alias| alias.0 as usize);
        match p.access {
            _ if is_overwritten(kernel, of) => fresh(&format!("{}_address", kernel.params[of].name)),
            ParamAccess::In => format!("{}.as_ptr().cast_mut().cast()", p.name),
            ParamAccess::Out | ParamAccess::InOut => format!("{}.as_mut_ptr().cast()", p.name),
        }
    };
    let pointers: Vec<String> = kernel.params.iter().enumerate().map(pointer).collect();
    let value = |d: &fusewright_abi::DimArg| match d.source {
        DimSource::Extent { .. } | DimSource::Symbol => Ok(format!("{} as i64", d.name)),
        DimSource::Stride { .. } => Err(Error::Input(format!("kernel `{name}` takes strides"))),
    };
    let dims = artifacts[0].dims.iter().map(value).collect::<Result<Vec<String>, Error>>()?;
    let (pointers, dims, rows) = (pointers.join(", "), dims.join(", "), expression(&kernel.rows)?);
    let entry = match artifacts {
        [one] if level(one).is_none() => declaration(one, &callee),
        several => choice(several, &callee, &fresh),
    };
    Ok(format!(
        "{entry}{shared}    \
         // SAFETY: every buffer has the length that its shape says, the kernel keeps within shapes, and it only\n    \
         // reads what is borrowed for reading.\n    \
         unsafe {{ {callee}([{pointers}].as_ptr(), [{dims}].as_ptr(), 0, {rows} as i64) }};\n"
    ))
}

/// The declaration of an artifact's symbol, as a function of another name.
fn declaration(artifact: &KernelArtifact, name: &str) -> String {
    let symbol = &artifact.name;
    format!(
        "    unsafe extern \"C\" {{\n        \
         #[link_name = \"{symbol}\"]\n        \
         fn {name}(buffers: *const *mut u8, dims: *const i64, begin: i64, end: i64);\n    }}\n"
    )
}

/// Statements that make `callee` the first artifact of a level that the processor has; what that is stays in a static.
fn choice(artifacts: &[KernelArtifact], callee: &str, fresh: &dyn Fn(&str) -> String) -> String {
    let chosen = fresh("CHOSEN");
    let (mut declarations, mut choices) = (String::new(), String::new());
    for (i, artifact) in artifacts.iter().enumerate() {
        let name = fresh(&format!("code_{i}"));
        declarations += &declaration(artifact, &name);
        let features = level(artifact).map_or(&[][..], Level::features).iter();
        let features: Vec<String> =
            features.map(|feature| format!("std::arch::is_x86_feature_detected!(\"{feature}\")")).collect();
        let condition = features.join("\n            && ");
        choices += &format!("        if {condition} {{\n            return Some({name});\n        }}\n");
    }
    format!(
        "    type Entry = unsafe extern \"C\" fn(*const *mut u8, *const i64, i64, i64);\n{declarations}    \
         static {chosen}: std::sync::OnceLock<Option<Entry>> = std::sync::OnceLock::new();\n    \
         let {callee} = {chosen}.get_or_init(|| {{\n{choices}        None\n    }});\n    \
         let Some({callee}) = *{callee} else {{\n        return Err(\"{NO_LEVEL}\");\n    }};\n"
    )
}

/// A dim over symbols as a Rust expression of `usize` variables that saturates; a call or a literal, so that methods
/// and casts can follow.
fn expression(dim: &Dim) -> Result<String, Error> {
    let terms = dim.as_polynomial().ok_or_else(|| Error::Input(format!("`{dim}` is no sum of products")))?;
    let mut sum: Option<String> = None;
    for (coefficient, names) in &terms {
        let count =
            usize::try_from(*coefficient).map_err(|_| Error::Input(format!("`{dim}` has a negative coefficient")))?;
        let factors: Vec<String> = (count != 1 || names.is_empty())
            .then(|| format!("{count}usize"))
            .into_iter()
            .chain(names.iter().map(ToString::to_string))
            .collect();
        let product = factors.into_iter().reduce(|a, b| format!("{a}.saturating_mul({b})")).unwrap_or_default();
        sum = Some(sum.map_or(product.clone(), |sum| format!("{sum}.saturating_add({product})")));
    }
    Ok(sum.unwrap_or_else(|| "0usize".to_owned()))
}

/// Refuses what cannot name a function or an argument.
pub(super) fn check_identifier(name: &str) -> Result<(), Error> {
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name != "_"
        && !KEYWORDS.split_whitespace().any(|word| word == name);
    if valid { Ok(()) } else { Err(Error::Input(format!("`{name}` is no Rust identifier"))) }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::Dim;

    use super::{check_identifier, expression};

    #[track_caller]
    fn check(dim: &Dim, expected: Result<&str, &str>) {
        assert_eq!(expression(dim).map_err(|e| e.to_string()), expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn sums_of_products_are_saturating_calls() {
        let (s, t) = (Dim::symbol("s"), Dim::symbol("t"));
        check(&s, Ok("s"));
        check(&Dim::constant(0), Ok("0usize"));
        check(&Dim::constant(7), Ok("7usize"));
        check(&(&s * &Dim::constant(64)), Ok("64usize.saturating_mul(s)"));
        check(&(&(&s * &t) + &Dim::constant(2)), Ok("s.saturating_mul(t).saturating_add(2usize)"));
        check(&(&s - &Dim::constant(1)), Err("`s - 1` has a negative coefficient"));
    }

    #[test]
    fn keywords_and_odd_characters_are_no_identifiers() {
        for name in ["in", "self", "_", "", "1x", "a-b", "ä"] {
            assert!(check_identifier(name).is_err(), "{name}");
        }
        for name in ["x", "_x", "in_", "out0"] {
            assert!(check_identifier(name).is_ok(), "{name}");
        }
    }
}
