//! Measures the tables of `codegen/src/schedule/costs.rs` and prints their rows as Rust: the time of a function of one element,
//! with a column for each compiler and level that there is; and of a byte of memory and of a call.
#![allow(missing_docs)]

use fusewright::bench::{BenchCase, measure};
use fusewright::graph::{Builder, DType, Dim, ScalarFn, TensorType, TypeError, Value};
use fusewright::{Error, Level, Target};

/// Lanes of a row.
const LANES: i64 = 1024;
/// Rows that stay in a cache, and rows that do not.
const FEW: usize = 48;
const MANY: usize = 1 << 15;
/// The least of so many medians counts: what else the machine does makes all of them longer.
const REPEATS: usize = 3;
/// Additions of the longest chain.
const CHAIN: usize = 9;

/// Figures of a target, in picoseconds.
struct Column {
    /// A call with the host's part of it, which is more than the table says.
    call: f64,
    byte: f64,
    /// In the order of [`ScalarFn::ALL`].
    functions: Vec<f64>,
}

fn main() -> Result<(), Error> {
    let targets = [Target::Cpu, Target::CpuLlvm { level: Some(Level::V3) }, Target::CpuLlvm { level: Some(Level::V4) }];
    let mut columns = Vec::new();
    for target in targets {
        match column(&target) {
            Ok(column) => {
                println!("// {target}: call {:.0}, byte {:.0}", column.call, column.byte);
                columns.push(column);
            }
            Err(error @ Error::Unavailable(_)) => println!("skipped: {target} ({error})"),
            Err(error) => return Err(error),
        }
    }
    for (i, f) in ScalarFn::ALL.iter().enumerate() {
        let row: Vec<String> = columns.iter().map(|column| format!("{:.0}", column.functions[i])).collect();
        println!("    (ScalarFn::{f:?}, [{}]),", row.join(", "));
    }
    Ok(())
}

/// Measures the figures of a target.
fn column(target: &Target) -> Result<Column, Error> {
    let us = |lanes, rows, build: Build<'_>| {
        let case = case(lanes, build)?;
        (0..REPEATS).try_fold(f64::INFINITY, |least, _| {
            Ok::<f64, Error>(least.min(measure(&case, target, Some(rows), 1)?.fused_us))
        })
    };
    let call = us(4, 1, &|b, ty| function(b, ty, ScalarFn::Neg))?;
    let element = |build: Build<'_>| -> Result<f64, Error> {
        Ok((us(LANES, FEW, build)? - call) * 1e6 / (LANES as f64 * FEW as f64))
    };
    let sum = |times: usize| {
        element(&|b, ty| {
            let (x, y) = (b.input("x", ty.clone()), b.input("y", ty.clone()));
            (0..times).try_fold(x, |sum, _| b.add(sum, y))
        })
    };
    let addition = ((sum(CHAIN)? - sum(1)?) / (CHAIN - 1) as f64).max(1.0);
    // Functions of as many operands that take as long as an addition.
    let plain =
        [element(&|b, ty| function(b, ty, ScalarFn::Neg))?, sum(1)?, element(&|b, ty| function(b, ty, ScalarFn::Fma))?];
    let byte = us(LANES, MANY, &|b, ty| function(b, ty, ScalarFn::Neg))? * 1e6 / (MANY as f64 * LANES as f64 * 8.0);
    let mut functions = Vec::with_capacity(ScalarFn::ALL.len());
    for &f in ScalarFn::ALL {
        let all = element(&|b, ty| function(b, ty, f))?;
        functions.push((all - plain[f.spec().arity - 1] + addition).max(addition));
    }
    Ok(Column { call: call * 1e6, byte, functions })
}

/// Makes the result of a graph of rows of a type.
type Build<'a> = &'a dyn Fn(&Builder, &TensorType) -> Result<Value, TypeError>;

fn case(lanes: i64, build: Build<'_>) -> Result<BenchCase, Error> {
    let b = Builder::new("cost");
    let ty = TensorType::new(DType::F32, [b.symbol("s", 0, None), Dim::constant(lanes)]);
    let result = build(&b, &ty).map_err(|e| Error::Input(e.to_string()))?;
    b.output(result);
    Ok(BenchCase { name: "cost".to_owned(), graph: b.finish() })
}

/// One function of inputs, each of the dtype that it takes.
fn function(b: &Builder, ty: &TensorType, f: ScalarFn) -> Result<Value, TypeError> {
    let dtype = |operand: usize| match f {
        ScalarFn::And | ScalarFn::Or | ScalarFn::Xor | ScalarFn::Not | ScalarFn::Shl | ScalarFn::Shr => DType::I32,
        ScalarFn::Select if operand == 0 => DType::Bool,
        _ => DType::F32,
    };
    let operands: Vec<Value> =
        (0..f.spec().arity).map(|i| b.input(&format!("x{i}"), TensorType::new(dtype(i), ty.shape.clone()))).collect();
    b.map(f, &operands)
}
