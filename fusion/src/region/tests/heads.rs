//! Rows of all heads that meet heads.

use super::*;

/// Rotations of the halves of four heads, in rows of all heads or behind them.
const ROTATION: &str =
    "graph @g(s: 1..8192; %x: bf16[s, 64], %w: bf16[64], %cos: bf16[s, 1, 16], %sin: bf16[s, 1, 16]) {
  BEFORE
  %q = reshape %n {shape = [s, 4, 16]}
  %r = rope_neox %q, %cos, %sin
  %y = reshape %r {shape = [s, 64]}
  BEHIND
}";

fn rotated(before: &str, behind: &str) -> (Graph, Partition) {
    let text = ROTATION.replace("BEFORE", before).replace("BEHIND", behind);
    divided(&text.parse().unwrap_or_else(|e| panic!("{e}: {text}")))
}

const NORM: &str = "%n = rms_norm %x, %w {eps = 1e-6, round = once}";
const COPY: &str = "%n = neg %x";
const CODES: &str = "%c, %z = quantize_dynamic %y {codes = i8, bound = 127.0, floor = 1e-10, floor_of = absmax}
  return %c, %z";

#[test]
fn norms_and_scales_of_all_heads_share_the_kernel_of_their_rotation() {
    for (before, behind) in [(NORM, "return %y"), (COPY, CODES), (NORM, CODES)] {
        let (graph, partition) = rotated(before, behind);
        let [region] = partition.regions.as_slice() else { panic!("{:?}", regions(&graph, &partition)) };
        let space = region.space().expect("a region has rows");
        assert_eq!(space.rows.len(), 1, "heads are lanes");
        let form = space.form.expect("it is computed in parts");
        assert_eq!(form.pieces.iter().filter(|piece| piece.output == 0).count(), 2, "halves are stored apart");
    }
}

/// A sum over parts would be added up in another order than the sum of the row.
#[test]
fn sums_of_joined_lanes_stay_whole() {
    let norm = "%z = rms_norm %y, %w {eps = 1e-6, round = once}\n  return %z";
    let (graph, partition) = rotated(COPY, norm);
    assert_eq!(regions(&graph, &partition), ["neg rope_neox", "rms_norm"]);
}

#[test]
fn heads_that_nothing_combines_are_rows() {
    let (graph, partition) = rotated(COPY, "return %y");
    let [region] = partition.regions.as_slice() else { panic!("{:?}", regions(&graph, &partition)) };
    let space = region.space().expect("a region has rows");
    assert_eq!((space.rows.len(), space.form.is_none()), (2, true));
}

#[test]
fn only_functions_of_joined_lanes_are_parted() {
    let parted = |text: &str| {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}: {text}"));
        parted::parted(&graph).map(|graph| graph.to_string())
    };
    assert_eq!(parted("graph @g(s: 0..; %x: f32[s, 8]) {\n %y = neg %x\n return %y\n}"), None);
    // Each value is looked at once, however many ways lead to it.
    let squares: String = (1..64).map(|i| format!("%a{i} = mul %a{}, %a{}\n", i - 1, i - 1)).collect();
    assert_eq!(parted(&format!("graph @g(s: 0..; %a0: f32[s, 8]) {{\n{squares} return %a63\n}}")), None);
    let joined = "graph @g(s: 0..; %x: f32[s, 8], %y: f32[s, 4]) {
      %c = cat %x, %y {axis = 1}
      %n = neg %c
      %m = reduce %n {op = max, axes = [1]}
      %d = div %n, %m
      return %d
    }";
    expect![[r#"
        graph @g(s: 0..; %x: f32[s, 8], %y: f32[s, 4]) {
          %0 = neg %x
          %1 = neg %y
          %2 = reduce %0 {op = max, axes = [1]}
          %3 = reduce %1 {op = max, axes = [1]}
          %m = max %2, %3
          %4 = div %0, %m
          %5 = div %1, %m
          %d = cat %4, %5 {axis = 1}
          return %d
        }
    "#]]
    .assert_eq(&parted(joined).expect("lanes are joined"));
}

/// Scales of groups, a row of them for each place in a row, filled up to four rows: as lanes these would be as many as there
/// are rows.
#[test]
fn rows_that_are_filled_up_stay_rows() {
    let text = "graph @g(s: 0..; %x: f32[s, 256]) {
  %g = reshape %x {shape = [s, 2, 128]}
  %a = abs %g
  %m = reduce %a {op = max, axes = [2]}
  %y = div %g, %m
  %c = reshape %m {shape = [s, 2]}
  %p = permute %c {perm = [1, 0]}
  %z = literal f32 0.0
  %e = expand %z {shape = [2, -s + floordiv(s + 3, 4)*4]}
  %f = cat %p, %e {axis = 1}
  return %y, %f
}";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}: {text}"));
    let space = Space::find(&graph, true).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let open = |axis: &fusewright_graph::axes::AxisId| space.axes.extent(*axis).as_const().is_none();
    assert!(!space.lanes.rows().iter().flatten().any(open), "{:?}", space.lanes.rows());
    assert!(space.rows.iter().any(open));
}
