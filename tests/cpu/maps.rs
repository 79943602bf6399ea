//! Every scalar function of the table on every dtype that it is defined on, in vectors and lane by lane.

use fusewright_abi::DType;
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::kernel::interp::put_bits;
use fusewright_graph::ScalarFn;
use fusewright_graph::scalar::Yields;

use fusewright_graph::operands::Random;

use crate::support::{check_on, each, fill};

const DTYPES: [DType; 13] = [
    DType::F32,
    DType::BF16,
    DType::F16,
    DType::F64,
    DType::I32,
    DType::I64,
    DType::I16,
    DType::I8,
    DType::U32,
    DType::U64,
    DType::U16,
    DType::U8,
    DType::Bool,
];

/// The kernel of one function, or `None` where the function is not defined.
fn kernel(f: ScalarFn, dtype: DType) -> Option<Kernel> {
    let spec = f.spec();
    let out = if spec.yields == Yields::Bool { DType::Bool } else { dtype };
    let of = |i: usize| if f == ScalarFn::Select && i == 0 { DType::Bool } else { dtype };
    let params: String = (0..spec.arity).map(|i| format!("param %x{i}: {}[n] in\n", of(i))).collect();
    let loads: String = (0..spec.arity).map(|i| format!("%{i} = load x{i}[lane] : row<{}, n>\n", of(i))).collect();
    let args: Vec<String> = (0..spec.arity).map(|i| format!("%{i}")).collect();
    let text = format!(
        "kernel @map(n = extent(x0, 0)) rows 1 {{
           {params} param %y: {out}[n] out
           segment @m inner 1 {{ {loads} %y = {} {}\n store y[lane], %y }} }}",
        spec.name,
        args.join(", ")
    );
    expand(&text.parse().ok()?, Column::Cpu).ok()
}

#[test]
fn every_function_agrees_with_the_interpreter() {
    let mut checked = 0;
    for &f in ScalarFn::ALL {
        for dtype in DTYPES {
            let Some(kernel) = kernel(f, dtype) else { continue };
            let refused: Vec<String> =
                each(&kernel).into_iter().filter_map(|made| Some(made.err()?.to_string())).collect();
            if let Some(error) = refused.first() {
                assert!(refused.iter().all(|error| error.contains(&format!("` of {dtype}"))), "{error}");
                assert!(dtype == DType::Bool, "{error}");
                continue;
            }
            let mut random = Random::new(0x5eed, checked);
            // An odd number of lanes, so that some run alone.
            let n = 1001;
            let mut buffers: Vec<Vec<u8>> = kernel.params.iter().map(|p| fill(p.dtype, n, &mut random, 400)).collect();
            // Small shift counts, zero and minus one as divisors.
            if dtype.is_int() && f.arity() == 2 {
                for i in (0..n).step_by(3) {
                    put_bits(dtype, &mut buffers[1], i, (i as u64 % 70).wrapping_sub(2));
                    put_bits(
                        dtype,
                        &mut buffers[0],
                        i,
                        if i / 2 % 2 == 0 { 1 << (dtype.bits() - 1) } else { i as u64 },
                    );
                }
            }
            check_on(&kernel, &[("n", n as i64)], buffers, 1);
            checked += 1;
        }
    }
    assert!(checked > 220, "{checked} functions");
}
