//! Generated Ascend C executed on the host model, equal by bits to the interpreter of Kernel IR. Results are SIMULATED.

use fusewright_abi::DType;
use fusewright_ascend_model::{Dma, Options, Poison};
use fusewright_codegen::backend::ascend::emit;
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::kernel::{Kernel, Order, Tree};

use crate::simulated::{Case, execute, model};
use crate::support::{self, model_kernels as kernels};

const TREE: Order = Order::Tree(Tree::interleaved(64));
/// Kernels of one compilation.
const UNIT: usize = 8;

/// Row counts of one tile in part, of several, and of none for some cores.
const ROWS: [i64; 4] = [1, 3, 70, 131];
/// Values of all dims but the first: lengths that are known when a kernel runs.
const LENGTHS: [i64; 3] = [1, 97, 9001];

/// Each kernel with rows and lengths that turn from kernel to kernel.
fn cases(kernels: &[Kernel], specials: bool) -> Vec<Case> {
    kernels
        .iter()
        .enumerate()
        .map(|(i, kernel)| {
            let value = |at: usize| if at == 0 { ROWS[i % ROWS.len()] } else { LENGTHS[(i + at) % LENGTHS.len()] };
            let dims = kernel.dims.iter().enumerate().map(|(at, d)| (d.name.clone(), value(at))).collect();
            Case { kernel: kernel.clone(), dims, seed: 11 + i as u64, cores: 1 + i as u32 % 5, specials }
        })
        .collect()
}

/// Executes all kernels, of which a chip refuses those of these names alone.
fn check(chip: &str, kernels: &[Kernel], options: &Options, specials: bool, refused: &[&str]) {
    let (emitted, others): (Vec<Kernel>, Vec<Kernel>) = kernels.iter().cloned().partition(|k| emit(k, chip).is_ok());
    let why: Vec<String> = others.iter().filter_map(|k| emit(k, chip).err()).map(|e| e.to_string()).collect();
    let others: Vec<&str> = others.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(others, refused, "refused for {chip}: {why:?}");
    check_cases(chip, &cases(&emitted, specials), options);
}

fn check_cases(chip: &str, cases: &[Case], options: &Options) {
    let Some(model) = model() else { return };
    let mut wrong = Vec::new();
    for unit in cases.chunks(UNIT) {
        for (case, result) in unit.iter().zip(execute(model, chip, unit, options)) {
            if let Err(why) = result {
                wrong.push(format!("{} with {:?}: {why}", case.kernel.name, case.dims));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} on {chip}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

fn delayed() -> Options {
    Options { seed: 1, dma: Dma::Delayed, poison: Poison::Nan, ..Options::default() }
}

#[test]
fn a_910b_computes_what_the_interpreter_does() {
    check("910b1", &kernels(), &Options::default(), true, &[]);
}

#[test]
fn a_950_computes_what_the_interpreter_does() {
    check("950", &kernels(), &delayed(), false, &[]);
}

#[test]
fn a_310p_computes_what_the_interpreter_does() {
    check("310p3", &kernels(), &delayed(), false, &["heads", "formats", "runs"]);
}

/// Of special values as well: zeros of both signs, infinities and NaN.
#[test]
fn functions_are_made_of_others_and_narrow_elements_spread() {
    let native = |k: &Kernel| expand(k, Column::Ascend).unwrap_or_else(|e| panic!("{}: {e}", k.name));
    let kernels: Vec<Kernel> = support::function_kernels().iter().map(native).collect();
    check("910b1", &kernels, &delayed(), true, &[]);
    check("950", &kernels, &delayed(), true, &[]);
    check("310p3", &kernels, &delayed(), true, &["spread_bf16"]);
}

/// Rows of lengths that blocks and vectors do not divide, and that do not fit.
#[test]
fn rows_of_every_length_are_right() {
    let mut kernels = Vec::new();
    for lanes in [1, 7, 64, 100, 193, 1000, 4096, 40_000] {
        kernels.push(support::add_rms_norm_bf16(lanes, TREE));
        kernels.push(support::add_rms_norm_token_quant(lanes, TREE, DType::I8, 127.0));
        kernels.push(support::add_rms_norm_token_quant(lanes, TREE, DType::F8E4M3, 448.0));
        kernels.push(support::activation(lanes));
    }
    kernels.extend([
        support::rope(8, 128),
        support::rope(3, 64),
        support::group_quant(512, 128, Tree::interleaved(64)),
    ]);
    let native = kernels.iter().map(|k| expand(k, Column::Ascend).unwrap_or_else(|e| panic!("{}: {e}", k.name)));
    check("910b1", &native.collect::<Vec<_>>(), &delayed(), false, &[]);
}

/// Lengths that are known when a kernel runs: no rows, one row, no lanes, and lengths around those of tiles, each with NaN
/// and infinities.
#[test]
fn lengths_at_run_time_are_right_to_their_ends() {
    let known =
        ["any_length", "masked_softmax", "orders", "extremes", "verdicts", "verdicts_of_any_length", "integers"];
    let kernels: Vec<Kernel> = kernels().into_iter().filter(|k| known.contains(&k.name.as_str())).collect();
    assert_eq!(kernels.len(), known.len());
    for chip in ["910b1", "310p3", "950"] {
        for (i, [first, second]) in [[0, 5], [4, 0], [1, 1], [9, 1023], [2, 8193], [65, 64]].into_iter().enumerate() {
            let case = |kernel: &Kernel| {
                let value = |at: usize| if at == 0 { first } else { second };
                let dims = kernel.dims.iter().enumerate().map(|(at, d)| (d.name.clone(), value(at))).collect();
                Case { kernel: kernel.clone(), dims, seed: 5 + i as u64, cores: 1 + i as u32, specials: true }
            };
            check_cases(chip, &kernels.iter().map(case).collect::<Vec<_>>(), &delayed());
        }
    }
}

/// Each input once, each output once.
#[test]
fn rows_that_fit_move_once() {
    let Some(model) = model() else { return };
    let kernel = support::add_rms_norm_token_quant(4096, TREE, DType::I8, 127.0);
    let rows = 24;
    let dims = [("t".to_owned(), rows)].into();
    let case = Case { kernel, dims, seed: 3, cores: 1, specials: false };
    let counters = execute(model, "910b1", &[case], &Options::default()).remove(0).unwrap_or_else(|e| panic!("{e}"));
    let (row, rows) = (4096, rows as u64);
    assert_eq!(counters.bytes_in + counters.scalar_bytes_in, rows * row * 4 + row * 2, "two rows of bf16, one weight");
    assert_eq!(counters.bytes_out + counters.scalar_bytes_out, rows * row * 3 + rows * 4, "bf16, i8 and a scale");
}

/// What a kernel keeps for all rows takes bytes that vector instructions have used, a selection does not overwrite what it
/// spreads, and an extreme of zeros of both signs is the one that the order names.
#[test]
fn used_places_spread_operands_and_zeros_are_right() {
    let kept = "kernel @kept(t = extent(y, 0)) rows t {
       param %m: bool[189] in
       param %a: f16[189] in
       param %b: f16[189] in
       param %y: f16[t, 189] out
       segment @rows inner 1 {
         %m = load m[lane] : row<bool, 189>
         %a = load a[lane] : row<f16, 189>
         %b = load b[lane] : row<f16, 189>
         %y = select %m, %a, %b
         store y[row*189 + lane], %y
       }
     }";
    let spread = "kernel @spread(t = extent(x, 0)) rows t {
       param %x: i32[t, 8] in
       param %of: f32[4] in
       param %y: f32[t, 8] out
       segment @rows inner 1 {
         %x = load x[row*8 + lane] : row<i32, 8>
         %one = literal i32 1
         %behind = ge %x, %one
         %a = load of[1] : scalar<f32>
         %b = load of[3] : scalar<f32>
         %y = select %behind, %a, %b
         store y[row*8 + lane], %y
       }
     }";
    let zeros = "kernel @zeros(t = extent(x, 0)) rows t {
       param %x: f32[t, 70] in
       param %w: f32[70] in
       param %y: f32[t, 70] out
       param %z: f32[t, 70] out
       segment @rows inner 1 {
         %x = load x[row*70 + lane] : row<f32, 70>
         %w = load w[lane] : row<f32, 70>
         %plus = literal f32 0.0
         %minus = literal f32 -0.0
         %a = max %x, %w
         %b = max %minus, %a
         %c = min %plus, %x
         store y[row*70 + lane], %b
         store z[row*70 + lane], %c
       }
     }";
    let extremes = "kernel @extremes(t = extent(x, 0)) rows t {
       param %x: f32[t, 24] in
       param %h: f16[t, 24] in
       param %most: f32[t] out
       param %least: f32[t, 3] out
       param %half: f16[t] out
       segment @rows inner 1 {
         %x = load x[row*24 + lane] : row<f32, 24>
         %h = load h[row*24 + lane] : row<f16, 24>
         %plus = literal f32 0.0
         %minus = literal f32 -0.0
         %above = gt %x, %plus
         %z = select %above, %plus, %minus
         %most = reduce max %z over row nan propagate order tree(8)
         %least = reduce min %z over group 8 nan propagate order tree(8)
         %few = min %h, %h
         %half = reduce max %few over row nan propagate order tree(8)
         store most[row], %most
         store least[row*3 + lane], %least
         store half[row], %half
       }
     }";
    let native = |text: &str| {
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        expand(&kernel, Column::Ascend).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
    };
    let kernels = [kept, spread, zeros, extremes].map(native);
    for chip in ["910b1", "310p3", "950"] {
        check(chip, &kernels, &delayed(), true, &[]);
    }
}
