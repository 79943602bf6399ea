//! Generated Rust: one safe function per kernel over the objects of a build script.

use std::fmt::Write;

use fusewright_abi::{DType, DimSource, KernelArtifact, ParamAccess};
use fusewright_codegen::kernel::Kernel;
use fusewright_graph::Dim;

use crate::Error;

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

/// A safe function that checks lengths and calls the kernel of that symbol for all rows on the caller's thread.
/// Symbols of the shapes are arguments named like them.
///
/// # Errors
/// A parameter name that is no identifier, or a shape that is no polynomial of its symbols.
pub(super) fn function(kernel: &Kernel, artifact: &KernelArtifact, symbol: &str) -> Result<String, Error> {
    let mut symbols: Vec<&str> = kernel.dims.iter().map(|d| d.name.as_str()).collect();
    symbols.sort_unstable();
    let mut text = String::new();
    let mut line = |s: std::fmt::Arguments<'_>| writeln!(text, "{s}").map_err(|e| Error::Internal(e.to_string()));
    line(format_args!("/// Generated kernel `{}`, key `{}`.", artifact.name, artifact.key.short()))?;
    line(format_args!("///"))?;
    for param in &kernel.params {
        let shape: Vec<String> = param.shape.iter().map(ToString::to_string).collect();
        line(format_args!("/// * `{}`: {} `[{}]`", param.name, param.dtype, shape.join(", ")))?;
    }
    line(format_args!("///\n/// # Errors\n/// The name of a tensor whose length does not fit."))?;
    let mut arguments: Vec<String> = symbols.iter().map(|s| format!("{s}: usize")).collect();
    for param in &kernel.params {
        identifier(&param.name)?;
        let mutable = if param.access == ParamAccess::In { "" } else { "mut " };
        arguments.push(format!("{}: &{mutable}[{}]", param.name, rust_type(param.dtype)));
    }
    line(format_args!("pub fn {}({}) -> Result<(), &'static str> {{", artifact.name, arguments.join(", ")))?;
    line(format_args!("    unsafe extern \"C\" {{"))?;
    line(format_args!("        fn {symbol}(buffers: *const *mut u8, dims: *const i64, begin: i64, end: i64);"))?;
    line(format_args!("    }}"))?;
    for param in &kernel.params {
        let elements = expression(&fusewright_graph::dim::product(&param.shape))?;
        let per = if param.dtype.bits() < 8 { format!("({elements}).div_ceil(2)") } else { elements };
        line(format_args!("    if {}.len() != {per} {{\n        return Err(\"{}\");\n    }}", param.name, param.name))?;
    }
    let pointer = |p: &fusewright_codegen::kernel::Param| match p.access {
        ParamAccess::In => format!("{}.as_ptr().cast_mut().cast::<u8>()", p.name),
        ParamAccess::Out | ParamAccess::InOut => format!("{}.as_mut_ptr().cast::<u8>()", p.name),
    };
    let pointers: Vec<String> = kernel.params.iter().map(pointer).collect();
    line(format_args!("    let buffers = [{}];", pointers.join(", ")))?;
    let values: Vec<String> = artifact
        .dims
        .iter()
        .map(|d| match d.source {
            DimSource::Extent { .. } | DimSource::Symbol => Ok(format!("{} as i64", d.name)),
            DimSource::Stride { .. } => Err(Error::Input(format!("kernel `{}` takes strides", artifact.name))),
        })
        .collect::<Result<_, Error>>()?;
    line(format_args!("    let dims: [i64; {}] = [{}];", values.len(), values.join(", ")))?;
    line(format_args!("    let rows = ({}) as i64;", expression(&kernel.rows)?))?;
    line(format_args!(
        "    // SAFETY: every buffer has the length that its shape says, and the kernel keeps within shapes."
    ))?;
    line(format_args!("    unsafe {{ {symbol}(buffers.as_ptr(), dims.as_ptr(), 0, rows) }};\n    Ok(())\n}}"))?;
    Ok(text)
}

/// A dim over symbols as a Rust expression of `usize` variables.
fn expression(dim: &Dim) -> Result<String, Error> {
    let terms = dim.as_polynomial().ok_or_else(|| Error::Input(format!("`{dim}` is no polynomial")))?;
    if terms.iter().any(|(coefficient, _)| *coefficient < 0) {
        return Err(Error::Input(format!("`{dim}` has a negative coefficient")));
    }
    let term = |(coefficient, names): &(i64, Vec<&str>)| {
        let factors: Vec<String> = names.iter().map(ToString::to_string).collect();
        match (*coefficient, factors.is_empty()) {
            (c, true) => c.to_string(),
            (1, false) => factors.join(" * "),
            (c, false) => format!("{} * {c}", factors.join(" * ")),
        }
    };
    Ok(if terms.is_empty() { "0".to_owned() } else { terms.iter().map(term).collect::<Vec<_>>().join(" + ") })
}

fn identifier(name: &str) -> Result<(), Error> {
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if valid { Ok(()) } else { Err(Error::Input(format!("`{name}` is no Rust identifier"))) }
}
