//! The kernel suite: the main families at the row lengths of current models, as graphs in the text form.
//!
//! `benches/bench_cpu.py` has the same ops under the same names, so that figures of both can be compared.

use fusewright_graph::Graph;

use super::BenchCase;
use crate::Error;

/// Names, and the graphs behind `graph @name`.
const CASES: [(&str, &str); 14] = [
    (
        "rms_norm",
        "(s: 0..; %x: bf16[s, 4096], %w: bf16[4096]) {
           %y = rms_norm %x, %w {eps = 1e-6, round = before_weight}
           return %y
         }",
    ),
    (
        "add_rms_norm",
        "(s: 0..; %x: bf16[s, 4096], %r: bf16[s, 4096], %w: bf16[4096]) {
           %h = add %x, %r
           %y = rms_norm %h, %w {eps = 1e-6, round = before_weight}
           return %y, %h
         }",
    ),
    (
        "add_rms_norm_fp8_static",
        "(s: 0..; %x: bf16[s, 4096], %r: bf16[s, 4096], %w: bf16[4096], %inverse: f32[1]) {
           %h = add %x, %r
           %y = rms_norm %h, %w {eps = 1e-6, round = before_weight}
           %q = quantize_static %y, %inverse {codes = f8e4m3, apply = multiply, bound = 448}
           return %q, %h
         }",
    ),
    (
        "add_rms_norm_fp8_token",
        "(s: 0..; %x: bf16[s, 4096], %r: bf16[s, 4096], %w: bf16[4096]) {
           %h = add %x, %r
           %y = rms_norm %h, %w {eps = 1e-6, round = before_weight}
           %q, %scale = quantize_dynamic %y {bound = 448, floor = 4.359654e-6, floor_of = scale}
           return %q, %scale, %h
         }",
    ),
    (
        "rms_norm_int8_static",
        "(s: 0..; %x: bf16[s, 4096], %w: bf16[4096], %inverse: f32[1]) {
           %y = rms_norm %x, %w {eps = 1e-6, round = before_weight}
           %q = quantize_static %y, %inverse {codes = i8, apply = multiply, bound = 127}
           return %q
         }",
    ),
    (
        "rms_norm_int8_token",
        "(s: 0..; %x: bf16[s, 4096], %w: bf16[4096]) {
           %y = rms_norm %x, %w {eps = 1e-6, round = before_weight}
           %q, %scale = quantize_dynamic %y {codes = i8, bound = 127}
           return %q, %scale
         }",
    ),
    (
        "layer_norm",
        "(s: 0..; %x: bf16[s, 4096], %w: bf16[4096], %b: bf16[4096]) {
           %y = layer_norm %x, %w, %b {eps = 1e-6}
           return %y
         }",
    ),
    (
        "softmax",
        "(s: 0..; %x: bf16[s, 4096]) {
           %y = softmax %x
           return %y
         }",
    ),
    (
        "silu_mul",
        "(s: 0..; %x: bf16[s, 24576]) {
           %gate = slice %x {axis = 1, start = 0, end = 12288}
           %up = slice %x {axis = 1, start = 12288, end = 24576}
           %a = silu %gate {form = quotient}
           %y = mul %a, %up
           return %y
         }",
    ),
    (
        "silu_mul_fp8_static",
        "(s: 0..; %x: bf16[s, 24576], %inverse: f32[1]) {
           %gate = slice %x {axis = 1, start = 0, end = 12288}
           %up = slice %x {axis = 1, start = 12288, end = 24576}
           %a = silu %gate {form = quotient}
           %y = mul %a, %up
           %q = quantize_static %y, %inverse {codes = f8e4m3, apply = multiply, bound = 448}
           return %q
         }",
    ),
    (
        "silu_mul_fp8_group128",
        "(s: 0..; %x: bf16[s, 24576]) {
           %gate = slice %x {axis = 1, start = 0, end = 12288}
           %up = slice %x {axis = 1, start = 12288, end = 24576}
           %a = silu %gate {form = quotient}
           %y = mul %a, %up
           %groups = reshape %y {shape = [s, 96, 128]}
           %codes, %scales = quantize_dynamic %groups {bound = 448, floor = 1e-10, floor_of = absmax}
           %q = reshape %codes {shape = [s, 12288]}
           %scale = reshape %scales {shape = [s, 96]}
           return %q, %scale
         }",
    ),
    (
        "gelu_tanh_mul",
        "(s: 0..; %x: bf16[s, 24576]) {
           %gate = slice %x {axis = 1, start = 0, end = 12288}
           %up = slice %x {axis = 1, start = 12288, end = 24576}
           %a = gelu %gate {approximate = tanh}
           %y = mul %a, %up
           return %y
         }",
    ),
    (
        "qk_norm_rope",
        "(
           s: 0..;
           %qkv: bf16[s, 6144],
           %qw: bf16[128],
           %kw: bf16[128],
           %pos: i64[s],
           %table: bf16[8192, 128],
         ) {
           %q_lanes = slice %qkv {axis = 1, start = 0, end = 4096}
           %k_lanes = slice %qkv {axis = 1, start = 4096, end = 5120}
           %q_heads = reshape %q_lanes {shape = [s, 32, 128]}
           %k_heads = reshape %k_lanes {shape = [s, 8, 128]}
           %q = rms_norm %q_heads, %qw {eps = 1e-6, round = before_weight}
           %k = rms_norm %k_heads, %kw {eps = 1e-6, round = before_weight}
           %zero = literal i64 0
           %below = lt %pos, %zero
           %count = literal i64 8192
           %wrapped = add %pos, %count
           %place = select %below, %wrapped, %pos
           %angles = gather %table, %place {axis = 0}
           %cos_lanes = slice %angles {axis = 1, start = 0, end = 64}
           %sin_lanes = slice %angles {axis = 1, start = 64, end = 128}
           %cos = reshape %cos_lanes {shape = [s, 1, 64]}
           %sin = reshape %sin_lanes {shape = [s, 1, 64]}
           %q_turned = rope_half_table %q, %cos, %sin {pairs = neox}
           %k_turned = rope_half_table %k, %cos, %sin {pairs = neox}
           %q_out = reshape %q_turned {shape = [s, 4096]}
           %k_out = reshape %k_turned {shape = [s, 1024]}
           return %q_out, %k_out
         }",
    ),
    (
        "moe_sum",
        "(s: 0..; %x: bf16[s, 4, 256], %weights: f32[s, 4]) {
           %wide = cast %x {to = f32, round = rne}
           %each = reshape %weights {shape = [s, 4, 1]}
           %product = mul %wide, %each
           %sum = reduce %product {op = add, axes = [1]}
           %narrow = cast %sum {to = bf16, round = rne}
           %y = reshape %narrow {shape = [s, 256]}
           return %y
         }",
    ),
];

/// The kernel suite: the main families at the row lengths of current models.
///
/// # Errors
/// None; the bodies are well typed.
pub fn kernel_suite() -> Result<Vec<BenchCase>, Error> {
    let case = |(name, body): (&str, &str)| {
        let graph: Graph = format!("graph @{name}{body}\n")
            .parse()
            .map_err(|e| Error::Internal(format!("suite case `{name}`: {e}")))?;
        Ok(BenchCase { name: name.to_owned(), graph })
    };
    CASES.into_iter().map(case).collect()
}

#[cfg(test)]
mod tests {
    use fusewright_abi::Target;
    use fusewright_graph::verify::verify;

    use super::*;
    use crate::{Options, compile};

    #[test]
    fn every_case_is_one_kernel() {
        for case in kernel_suite().expect("the suite is well typed") {
            verify(&case.graph).unwrap_or_else(|e| panic!("{}: {e:?}", case.name));
            let compiled = compile(&case.graph, &Target::Cpu, &Options::default()).expect("the suite compiles");
            let counts = compiled.program.counts();
            assert_eq!((counts.kernels, counts.copies), (1, 0), "{}", case.name);
        }
    }

    #[test]
    fn the_script_has_the_same_ops() {
        let script = include_str!("../../benches/bench_cpu.py");
        let list = script.split_once("OPS = [").and_then(|(_, rest)| rest.split_once(']')).expect("a list of ops").0;
        let ops: Vec<&str> =
            list.split(',').map(|op| op.trim().trim_matches('"')).filter(|op| !op.is_empty()).collect();
        assert_eq!(ops, CASES.map(|(name, _)| name));
    }
}
