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
pub(super) const QUANTISER: &str = "quant";
/// Quantisers that have no number of lanes.
const SUFFIXES: [&str; 21] = [
    "fp8_static",
    "fp8_token",
    "fp8_tensor",
    "fp8_channel",
    "int8_static",
    "int8_token",
    "int8_tensor",
    "int8_channel",
    "int8_azp_token",
    "int8_azp_tensor",
    "int8_azp_channel",
    "int4_static",
    "int4_token",
    "int4_tensor",
    "int4_channel",
    "int4_azp_token",
    "int4_azp_tensor",
    "int4_azp_channel",
    "nvfp4",
    "mxfp4",
    "mxfp8",
];
/// Quantisers that a number of lanes follows.
const GROUPED: [&str; 5] = ["fp8_group", "int8_group", "int8_azp_group", "int4_group", "int4_azp_group"];
/// Quantisers that a number of rows and a number of lanes follow.
const BLOCKS: [&str; 5] = ["fp8_block", "int8_block", "int8_azp_block", "int4_block", "int4_azp_block"];
/// The lanes of a group, and the rows and lanes of a block, where a name stands as an example.
const USUAL_LANES: u32 = 128;
/// What a write to a cache adds.
const CACHE: &str = "kv";

/// Whether a region may have this name.
pub fn is_name(name: &str) -> bool {
    let name = name.strip_suffix(CACHE).and_then(|rest| rest.strip_suffix('.')).unwrap_or(name);
    let mut parts = name.split('.');
    let base = parts.next().unwrap_or_default();
    let suffixes: Vec<&str> = parts.collect();
    let ranks: Option<Vec<Rank>> = suffixes.iter().map(|suffix| rank(suffix)).collect();
    // Each quantiser once, in order.
    let ordered = ranks.is_some_and(|ranks| ranks.is_sorted_by(|a, b| a < b));
    ordered && (BASES.contains(&base) || base == QUANTISER && !suffixes.is_empty())
}

/// The place of a suffix among others in a name: its kind, then its rows and lanes.
type Rank = (usize, u32, u32);

fn rank(suffix: &str) -> Option<Rank> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|&n| n > 0 && text == n.to_string());
    let place = |kinds: &[&str], of: &dyn Fn(&str) -> Option<(u32, u32)>| {
        kinds.iter().enumerate().find_map(|(i, kind)| Some((i, of(suffix.strip_prefix(kind)?)?)))
    };
    let plain = place(&SUFFIXES, &|rest| rest.is_empty().then_some((0, 0)));
    let grouped = || place(&GROUPED, &|rest| Some((0, number(rest)?)));
    let blocks =
        || place(&BLOCKS, &|rest| rest.split_once('x').and_then(|(rows, lanes)| Some((number(rows)?, number(lanes)?))));
    let behind = |of: &[&str], found: Option<(usize, (u32, u32))>| found.map(|(i, numbers)| (of.len() + i, numbers));
    let found = plain.or_else(|| behind(&SUFFIXES, grouped()));
    let found = found.or_else(|| behind(&[SUFFIXES.as_slice(), &GROUPED].concat(), blocks()));
    found.map(|(kind, (rows, lanes))| (kind, rows, lanes))
}

/// Suffixes of one name in the order in which it has them, each once.
pub(super) fn ordered(suffixes: impl Iterator<Item = String>) -> Vec<String> {
    let mut ranked: Vec<_> = suffixes.map(|suffix| (rank(&suffix), suffix)).collect();
    ranked.sort();
    ranked.dedup();
    ranked.into_iter().map(|(_, suffix)| suffix).collect()
}

/// Every name without `.kv` and with one quantiser at most; groups and blocks stand with the numbers that are usual.
pub fn all_names() -> Vec<String> {
    let suffixes: Vec<String> = SUFFIXES.iter().map(ToString::to_string).chain(sized()).collect();
    let mut names: Vec<String> = BASES.iter().map(ToString::to_string).collect();
    let suffixed =
        BASES.iter().chain([&QUANTISER]).flat_map(|base| suffixes.iter().map(move |s| format!("{base}.{s}")));
    names.extend(suffixed);
    names
}

/// Suffixes with numbers, those that are usual.
fn sized() -> impl Iterator<Item = String> {
    let grouped = GROUPED.iter().map(|kind| format!("{kind}{USUAL_LANES}"));
    grouped.chain(BLOCKS.iter().map(|kind| format!("{kind}{USUAL_LANES}x{USUAL_LANES}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bases_with_suffixes_in_their_order() {
        assert!(all_names().iter().all(|name| is_name(name)));
        let names = "rms_norm add_rms_norm.fp8_group64 rope.kv rms_norm.fp8_static.kv quant.nvfp4 quant.fp8_block64x32 \
                     rms_norm.fp8_static.int8_token rms_norm.fp8_group64.fp8_group128.kv quant.int8_channel";
        for name in names.split(' ') {
            assert!(is_name(name), "{name}");
        }
        // Suffixes stand in one order, each once.
        let none = " row quant rmsnorm rms_norm.fp8 rms_norm.fp8_group rms_norm.kv.fp8_static kv .kv quant.kv quant.fp8_block64 \
                    quant.fp8_block0x64 quant.fp8_block64x64x64 rms_norm.int8_token.fp8_static rms_norm.fp8_static.fp8_static \
                    rms_norm.fp8_group128.fp8_group64 rms_norm. rms_norm.fp8_group064";
        for name in none.split(' ') {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn the_page_of_names_lists_every_part() {
        let page = include_str!("../../../fixtures/README.md");
        for part in BASES.iter().chain([&QUANTISER]) {
            assert!(page.contains(&format!("`{part}`")), "fixtures/README.md does not list `{part}`");
        }
        for suffix in SUFFIXES.iter().chain([&CACHE]).map(ToString::to_string).chain(sized()) {
            assert!(page.contains(&format!("`.{suffix}`")), "fixtures/README.md does not list `.{suffix}`");
        }
    }
}
