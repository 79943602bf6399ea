//! The public vocabulary of names, for callers that ask for one: every name that a query may give, and those that
//! `fixtures/README.md` keeps for later ones.

/// Names without a suffix.
const BASES: [&str; 20] = [
    "rms_norm",
    "add_rms_norm",
    "layer_norm",
    "add_layer_norm",
    "qk_norm_rope",
    "rope",
    "silu_mul",
    "mul_silu",
    "gelu_mul",
    "mul_gelu",
    "relu2_mul",
    "mul_relu2",
    "fatrelu_mul",
    "mul_fatrelu",
    "sigmoid_mul",
    "mul_sigmoid",
    "clamped_swiglu",
    "swiglu_step",
    "softmax",
    "soft_cap",
];
/// The name of a quantiser without any of these in its region; it has a suffix.
const QUANTISER: &str = "quant";
/// Quantisers that have no number of lanes.
const SUFFIXES: [&str; 16] = [
    "fp8_static",
    "fp8_token",
    "fp8_tensor",
    "int8_static",
    "int8_token",
    "int8_tensor",
    "int8_azp_token",
    "int8_azp_tensor",
    "int4_static",
    "int4_token",
    "int4_tensor",
    "int4_azp_token",
    "int4_azp_tensor",
    "nvfp4",
    "mxfp4",
    "mxfp8",
];
/// Quantisers that a number of lanes follows.
const GROUPED: [&str; 5] = ["fp8_group", "int8_group", "int8_azp_group", "int4_group", "int4_azp_group"];
/// The lanes of a group where a name stands as an example.
const USUAL_LANES: u32 = 128;
/// What a write to a cache adds.
const CACHE: &str = "kv";

/// Whether a region may have this name.
pub fn is_name(name: &str) -> bool {
    let name = name.strip_suffix(CACHE).and_then(|rest| rest.strip_suffix('.')).unwrap_or(name);
    match name.split_once('.') {
        None => BASES.contains(&name),
        Some((base, suffix)) => (BASES.contains(&base) || base == QUANTISER) && is_suffix(suffix),
    }
}

fn is_suffix(suffix: &str) -> bool {
    let lanes = |kind: &&str| suffix.strip_prefix(*kind).is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 0));
    SUFFIXES.contains(&suffix) || GROUPED.iter().any(lanes)
}

/// Every name without `.kv`; groups stand with the number of lanes that is usual.
pub fn all_names() -> Vec<String> {
    let grouped = GROUPED.iter().map(|kind| format!("{kind}{USUAL_LANES}"));
    let suffixes: Vec<String> = SUFFIXES.iter().map(ToString::to_string).chain(grouped).collect();
    let mut names: Vec<String> = BASES.iter().map(ToString::to_string).collect();
    let suffixed =
        BASES.iter().chain([&QUANTISER]).flat_map(|base| suffixes.iter().map(move |s| format!("{base}.{s}")));
    names.extend(suffixed);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bases_with_suffixes_in_their_order() {
        assert!(all_names().iter().all(|name| is_name(name)));
        for name in ["rms_norm", "add_rms_norm.fp8_group64", "rope.kv", "rms_norm.fp8_static.kv", "quant.nvfp4"] {
            assert!(is_name(name), "{name}");
        }
        for name in
            ["", "row", "quant", "rmsnorm", "rms_norm.fp8", "rms_norm.fp8_group", "rms_norm.kv.fp8_static", "kv", ".kv"]
        {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn the_page_of_names_lists_every_part() {
        let page = include_str!("../../../fixtures/README.md");
        for part in BASES.iter().chain([&QUANTISER]) {
            assert!(page.contains(&format!("`{part}`")), "fixtures/README.md does not list `{part}`");
        }
        let grouped = GROUPED.iter().map(|kind| format!("{kind}{USUAL_LANES}"));
        for suffix in SUFFIXES.iter().chain([&CACHE]).map(ToString::to_string).chain(grouped) {
            assert!(page.contains(&format!("`.{suffix}`")), "fixtures/README.md does not list `.{suffix}`");
        }
    }
}
