//! The files that make a folder of Ascend C sources a project: a CANN user builds it as it stands and launches its kernels.

use fusewright_abi::{Claim, Count, CountOp, ParamAccess, RowOrder};
use fusewright_codegen::backend::ascend::Chip;
use fusewright_templates::project::{self as template, text};
use serde_json::{Value, json};

use super::bundle::{BundleEntry, BundleRefusal, claims};
use crate::Error;
use crate::ascend::{CannVersion, FrontEnd, Toolkit, device_object, front_end};

/// Where the page assumes a toolkit.
const HOME: &str = "/usr/local/Ascend/cann";
/// What the page assumes of integers.
const EXAMPLE: i64 = 16;

/// The files of a project by name.
///
/// # Errors
/// A template that does not render, which is a bug.
pub(super) fn files(
    model: &str,
    chip: &Chip,
    entries: &[&BundleEntry],
    refused: &[&BundleRefusal],
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let rendered = |text: Result<String, String>| text.map(String::into_bytes).map_err(Error::Internal);
    let kernels: Vec<template::Kernel> = entries.iter().map(|entry| kernel(entry)).collect();
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for kernel in &kernels {
        let buffers = kernel.buffers.iter().map(|buffer| buffer.name.clone()).collect();
        let launcher = template::Launcher { name: kernel.name.clone(), buffers, dims: kernel.dims.clone() };
        files.push((format!("{}.asc", kernel.name), rendered(text(&launcher))?));
    }
    let names = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    let build = template::Build { arch: chip.arch, soc: chip.vendor.replace(' ', ""), kernels: names };
    let tables = template::Kernels { chip: chip.vendor, arch: chip.arch, vector_cores: chip.vector_cores, kernels };
    files.push(("CMakeLists.txt".to_owned(), rendered(text(&build))?));
    files.push(("README.md".to_owned(), rendered(text(&page(model, chip, entries, refused)?))?));
    files.push(("kernels.h".to_owned(), rendered(text(&tables))?));
    files.push(("tiling.json".to_owned(), format!("{:#}\n", tiling(chip, entries)).into_bytes()));
    files.extend(template::SOURCES.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())));
    Ok(files)
}

fn kernel(entry: &BundleEntry) -> template::Kernel {
    let artifact = &entry.artifact;
    let buffers = artifact.params.iter().map(|param| template::Buffer {
        name: param.name.clone(),
        dtype: param.dtype.name().to_ascii_uppercase(),
        access: access(param.access),
        alias: param.alias.map_or(-1, |buffer| buffer as i64),
        elements: expression(&param.elements),
    });
    template::Kernel {
        name: artifact.name.clone(),
        buffers: buffers.collect(),
        dims: artifact.dims.iter().map(|dim| dim.name.clone()).collect(),
        rows: expression(&artifact.launch.rows),
        fits: fits(&artifact.claims),
        ascending: artifact.launch.order != RowOrder::Any,
    }
}

/// Writes a condition that all claims hold, as C++ over the integers `d`.
fn fits(claims: &[Claim]) -> String {
    let holds = |claim: &Claim| format!("{} <= {}", expression(&claim.least), expression(&claim.most));
    let all: Vec<String> = claims.iter().map(holds).collect();
    if all.is_empty() { "true".to_owned() } else { all.join(" && ") }
}

fn access(access: ParamAccess) -> &'static str {
    match access {
        ParamAccess::In => "IN",
        ParamAccess::Out => "OUT",
        ParamAccess::InOut => "INOUT",
    }
}

/// A count as C++ over the integers `d`.
fn expression(count: &Count) -> String {
    match count {
        Count::Constant(value) => format!("int64_t({value})"),
        Count::Dim(index) => format!("d[{index}]"),
        Count::Binary(op, a, b) => {
            let (a, b) = (expression(a), expression(b));
            match op {
                CountOp::Add => format!("({a} + {b})"),
                CountOp::Mul => format!("({a} * {b})"),
                CountOp::FloorDiv => format!("FloorDiv({a}, {b})"),
                CountOp::Mod => format!("FloorMod({a}, {b})"),
                CountOp::Max => format!("Larger({a}, {b})"),
                CountOp::Min => format!("Smaller({a}, {b})"),
            }
        }
    }
}

/// Which argument is what, and how a kernel is launched, for programs.
fn tiling(chip: &Chip, entries: &[&BundleEntry]) -> Value {
    let kernel = |entry: &&BundleEntry| {
        let artifact = &entry.artifact;
        let names: Vec<&str> = artifact.dims.iter().map(|dim| dim.name.as_str()).collect();
        let buffers = artifact.params.iter().zip(&entry.shapes).map(|(param, shape)| {
            json!({
                "is": "buffer", "name": param.name, "dtype": param.dtype.name(), "shape": shape,
                "access": access(param.access).to_ascii_lowercase(), "alias": param.alias,
            })
        });
        let dims = names.iter().map(|name| json!({ "is": "integer", "name": name }));
        let range = ["row_begin", "row_end"].map(|is| json!({ "is": is }));
        let blocks = match artifact.launch.order {
            RowOrder::Any => "vector_cores, at most one for each row, at least 1",
            RowOrder::Chosen { .. } | RowOrder::Ascending => "1: rows are computed in order",
        };
        json!({
            "entry": artifact.name,
            "file": format!("{}.cpp", artifact.name),
            "bytes_per_argument": size_of::<u64>(),
            "claims": claims(artifact, &names),
            "arguments": buffers.chain(dims).chain(range).collect::<Vec<_>>(),
            "launch": { "rows": artifact.launch.rows.with_names(&names), "row_range": "0 and the number of rows, for all", "blocks": blocks },
        })
    };
    json!({
        "chip": chip.vendor, "npu_arch": chip.arch, "vector_cores": chip.vector_cores, "kernel_type": "AIV_ONLY",
        "kernels": entries.iter().map(kernel).collect::<Vec<_>>(),
    })
}

fn page(
    model: &str,
    chip: &Chip,
    entries: &[&BundleEntry],
    refused: &[&BundleRefusal],
) -> Result<template::Page, Error> {
    let target = format!("ascend:{}", chip.name);
    let line = |entry: &&BundleEntry| {
        let artifact = &entry.artifact;
        let names: Vec<&str> = artifact.dims.iter().map(|dim| dim.name.as_str()).collect();
        let buffers = artifact.params.iter().zip(&entry.shapes).map(|(param, shape)| {
            let how = match param.access {
                ParamAccess::In => "",
                ParamAccess::Out => "→ ",
                ParamAccess::InOut => "↔ ",
            };
            let place = param.alias.and_then(|buffer| artifact.params.get(buffer));
            let place = place.map_or_else(String::new, |other| format!(" where `{}` lies", other.name));
            format!("{how}`{}: {}[{}]`{place}", param.name, param.dtype.name(), shape.join(", "))
        });
        template::Line {
            name: artifact.name.clone(),
            pattern: entry.pattern.clone(),
            buffers: buffers.collect::<Vec<_>>().join(", "),
            dims: names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
            rows: format!("`{}`", artifact.launch.rows.with_names(&names)),
        }
    };
    let first = entries.first().map(|entry| &entry.artifact);
    let name = first.map_or("", |artifact| artifact.name.as_str());
    let dims = first.into_iter().flat_map(|artifact| &artifact.dims).map(|dim| format!(" {}={EXAMPLE}", dim.name));
    let example = dims.fold(name.to_owned(), |text, dim| text + &dim);
    Ok(template::Page {
        model: model.to_owned(),
        target,
        chip: chip.vendor,
        by_hand: by_hand(chip, name)?,
        example,
        table: entries.iter().map(line).collect(),
        refused: refused.iter().map(|refusal| (refusal.pattern.clone(), refusal.reason.replace('\n', " "))).collect(),
    })
}

/// Command lines that compile one kernel.
fn by_hand(chip: &Chip, name: &str) -> Result<Vec<String>, Error> {
    let toolkit = Toolkit::assumed(HOME.as_ref(), CannVersion::FRONT_END);
    let [cpp, object, asc, shared] = ["cpp", "o", "asc", "so"].map(|extension| format!("{name}.{extension}"));
    let wrong = |reason: &dyn std::fmt::Display| Error::Internal(reason.to_string());
    let [compile, link] = device_object(&toolkit, chip.arch, cpp.as_ref(), object.as_ref()).map_err(|e| wrong(&e))?;
    let whole = front_end(&toolkit, chip.arch, &[asc.as_ref()], shared.as_ref(), FrontEnd::SharedLibrary);
    let whole = whole.map_err(|e| wrong(&e))?;
    let comment = |text: &str| format!("# {text}");
    Ok(vec![
        comment("an object for aclrtBinaryLoadFromFile, with any version"),
        compile.to_string(),
        link.to_string(),
        comment("a library with its launcher, with CANN 8.5 and later"),
        whole.to_string(),
    ])
}

/// Every dtype has an enumerator in `launch_table.h`.
#[cfg(test)]
mod tests {
    use fusewright_abi::DType;

    use super::*;

    #[test]
    fn every_dtype_has_an_enumerator() {
        let table = template::SOURCES.iter().find(|(name, _)| *name == "launch_table.h").expect("it is there").1;
        let list = table.split_once("enum class DType {").and_then(|(_, rest)| rest.split_once('}')).expect("a list").0;
        let names: Vec<&str> = list.split(',').map(str::trim).collect();
        for dtype in DType::ALL {
            assert!(names.contains(&dtype.name().to_ascii_uppercase().as_str()), "{}", dtype.name());
        }
    }

    #[test]
    fn counts_are_expressions() {
        let binary = |op, a, b| Count::Binary(op, Box::new(a), Box::new(b));
        let padded =
            binary(CountOp::FloorDiv, binary(CountOp::Add, Count::Dim(1), Count::Constant(3)), Count::Constant(4));
        assert_eq!(expression(&padded), "FloorDiv((d[1] + int64_t(3)), int64_t(4))");
    }
}
