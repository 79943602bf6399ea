//! What the ops of the GPU bench run on: normal activations, weights near one, positions and places in any order.

use std::f64::consts::TAU;

use fusewright_abi::DType;
use fusewright_graph::{Graph, Input, InputKind, Rounding, num};

use crate::inputs::Random;

/// Elements that are drawn; longer inputs repeat them.
const POOL: usize = 1 << 20;
/// Base of the angles of the table `cs`.
const THETA: f64 = 1e6;
/// Static scales, and the scale of scales.
const SCALE: f64 = 0.02;
const GLOBAL: f64 = 100.0;

/// Makes the bytes of inputs.
pub(super) struct Data {
    seed: u64,
    /// Normal numbers as `bf16`.
    normal: Vec<u8>,
}

impl Data {
    /// From a seed.
    pub fn new(seed: u64) -> Data {
        let mut random = Random::new(seed, 0);
        let mut values = Vec::with_capacity(POOL);
        while values.len() < POOL {
            values.extend(normals(&mut random));
        }
        Data { seed, normal: encoded(DType::BF16, values) }
    }

    /// Whether an input holds positions or places, which differ from set to set.
    pub fn is_index(graph: &Graph, input: &Input) -> bool {
        !graph.ty(input.value).dtype.is_float() && matches!(graph.ty(input.value).dtype, DType::I64 | DType::I32)
    }

    /// Bytes of an input of a shape, for the set of that number.
    pub fn of(&self, graph: &Graph, input: &Input, shape: &[usize], set: usize) -> Vec<u8> {
        let dtype = graph.ty(input.value).dtype;
        let count: usize = shape.iter().product();
        let mut random = Random::named(self.seed, set as u64, &input.name);
        let updated = graph.outputs().iter().any(|o| o.updates.as_deref() == Some(input.name.as_str()));
        let paged = updated && shape.len() > 2;
        match (input.name.as_str(), dtype) {
            ("slots", _) => integers(dtype, places(graph, count, &mut random)),
            ("pos", _) => {
                let table = extent_of(graph, "cs").max(1);
                integers(dtype, (0..count).map(|_| random.below(table) as i64).collect())
            }
            ("cs", _) => encoded(dtype, angles(shape)),
            ("scale" | "ks" | "vs", _) => encoded(dtype, vec![SCALE; count]),
            ("global", _) => encoded(dtype, vec![GLOBAL; count]),
            // What a cache holds before is not read.
            _ if paged => vec![0; dtype.bytes_for(count)],
            (_, DType::BF16) if matches!(input.kind, InputKind::Weight(_)) => {
                let values = (0..count.div_ceil(2)).flat_map(|_| normals(&mut random)).take(count);
                encoded(dtype, values.map(|n| 1.0 + 0.1 * n).collect())
            }
            (_, DType::BF16) => self.repeated(count, random.below(POOL)),
            _ => vec![0; dtype.bytes_for(count)],
        }
    }

    /// Normal numbers, from one of those that were drawn.
    fn repeated(&self, count: usize, from: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * count);
        let mut from = 2 * from;
        while bytes.len() < 2 * count {
            let take = (2 * count - bytes.len()).min(self.normal.len() - from);
            bytes.extend_from_slice(&self.normal[from..from + take]);
            from = 0;
        }
        bytes
    }
}

/// Two independent normal numbers.
fn normals(random: &mut Random) -> [f64; 2] {
    let [a, b] = [random.unit(), random.unit()].map(|u| u.mul_add(0.5, 0.5));
    let radius = (-2.0 * (1.0 - a).max(f64::MIN_POSITIVE).ln()).sqrt();
    [radius * (TAU * b).cos(), radius * (TAU * b).sin()]
}

fn encoded(dtype: DType, values: Vec<f64>) -> Vec<u8> {
    let bits = |v: f64| num::encode(dtype, num::round_to(dtype, v, Rounding::NearestEven, false));
    values.into_iter().flat_map(|v| bits(v).to_le_bytes().into_iter().take(dtype.bits() as usize / 8)).collect()
}

pub(super) fn integers(dtype: DType, values: Vec<i64>) -> Vec<u8> {
    values.into_iter().flat_map(|v| v.to_le_bytes().into_iter().take(dtype.bits() as usize / 8)).collect()
}

/// Different places of twice as many, rounded up to pages.
fn places(graph: &Graph, count: usize, random: &mut Random) -> Vec<i64> {
    let page = graph.inputs().iter().find(|i| i.name == "kc").and_then(|i| graph.ty(i.value).shape.get(1).cloned());
    let page = page.and_then(|dim| dim.as_const()).unwrap_or(1).max(1);
    // As many as `GpuCase::symbols_at` gives a cache.
    let all = 2 * ((count as i64 + page - 1) / page) * page;
    let mut left: Vec<i64> = (0..all).collect();
    (0..count).map(|_| left.swap_remove(random.below(left.len()))).collect()
}

fn extent_of(graph: &Graph, name: &str) -> usize {
    let input = graph.inputs().iter().find(|i| i.name == name);
    let extent = input.and_then(|i| graph.ty(i.value).shape.first().and_then(|dim| dim.as_const()));
    extent.and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
}

/// Cosines, then sines, of a row per position.
fn angles(shape: &[usize]) -> Vec<f64> {
    let [positions, lanes] = *shape else { return vec![0.0; shape.iter().product()] };
    let half = lanes / 2;
    let angle = |p: usize, l: usize| p as f64 / THETA.powf(2.0 * l as f64 / lanes as f64);
    let row = |p: usize| (0..half).map(move |l| angle(p, l).cos()).chain((0..half).map(move |l| angle(p, l).sin()));
    (0..positions).flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_what_their_names_say() {
        let text = "graph @g(s: 0..; %x: bf16[s, 4], %w: weight bf16[4], %pos: i64[s], %cs: weight bf16[8, 4], \
                    %kc: bf16[s, 2, 4], %slots: i64[s]) {\n  %y = mul %x, %w\n  return %y\n}\n";
        let graph: Graph = text.parse().expect("the text is right");
        let data = Data::new(1);
        let of = |i: usize, shape: &[usize], set| data.of(&graph, &graph.inputs()[i], shape, set);
        let ints = |bytes: Vec<u8>| -> Vec<i64> {
            bytes.as_chunks().0.iter().map(|&place| i64::from_le_bytes(place)).collect()
        };
        assert_eq!((of(0, &[3, 4], 0).len(), of(1, &[4], 0).len(), of(3, &[8, 4], 0).len()), (24, 8, 64));
        assert_eq!(of(3, &[8, 4], 0)[..8], encoded(DType::BF16, vec![1.0, 1.0, 0.0, 0.0]));
        assert!(ints(of(2, &[100], 0)).iter().all(|p| (0..8).contains(p)));
        let mut slots = ints(of(5, &[100], 0));
        assert_ne!(slots, ints(of(5, &[100], 1)));
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.len() == 100 && slots.iter().all(|p| (0..200).contains(p)), "{slots:?}");
    }

    #[test]
    fn normals_are_normal() {
        let mut random = Random::new(3, 0);
        let values: Vec<f64> = (0..5000).flat_map(|_| normals(&mut random)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.05 && (square - 1.0).abs() < 0.06, "{mean} {square}");
    }
}
