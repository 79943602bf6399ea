//! Made-up tensors: a generator with a stated sequence, the values at which arithmetic goes wrong, and operands of
//! graphs made from both. Tests of equations, checks of users' patterns and runs without a file share them.

use fusewright_abi::DType;

use crate::dim::Dim;
use crate::graph::{Graph, Input};
use crate::num;
use crate::prim::{Literal, Rounding};
use crate::tensor::{Tensor, TensorError};
use crate::ty::TensorType;

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed and a number.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        random.next_bits();
        random
    }

    /// The sequence of a seed and a name.
    pub fn named(seed: u64, number: u64, name: &str) -> Self {
        Random::new(seed, name.bytes().fold(number, |h, b| h.wrapping_mul(0x100_0000_01b3) ^ u64::from(b)))
    }

    /// 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_bits() % n as u64) as usize
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of `items`.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A number in −1..1.
    pub fn unit(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Values at and beyond the ends of what some dtype holds, zeros, infinities and NaN.
pub const THRESHOLDS: [f64; 18] = [
    0.0,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-40,
    -1e-45,
    6e-8,
    1.0,
    -1.0,
    448.0,
    -464.0,
    480.0,
    65519.0,
    -65520.0,
    3.4e38,
    -1.17e-38,
    0.000_976_562_5,
];

/// Values of a float dtype at which functions change: its ends, both sides of one, zeros, infinities and NaN. They are
/// few, so that every pair can meet.
pub fn float_edges(dtype: DType) -> Vec<f64> {
    let (largest, least, step) = (num::max_finite(dtype), num::next_up(dtype, 0.0), num::ulp(dtype, 1.0));
    let near = [0.0, 1.0, 1.0 + step, 0.5, 1.5, 2.0, 3.0, 7.0, least, 3.0 * least, largest, largest / 2.0];
    let signed = near.into_iter().flat_map(|x| [x, -x]);
    let all = signed.chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    all.map(|x| num::round_to(dtype, x, Rounding::NearestEven, false)).collect()
}

/// Values of an integer dtype at which functions change: its ends, numbers about zero, counts of bits.
pub fn int_edges(dtype: DType) -> Vec<i64> {
    if dtype == DType::Bool {
        return vec![0, 1];
    }
    let (least, greatest) = num::int_range(dtype);
    let ends = [least, greatest, greatest / 2, least + 1].map(|v| v as i64);
    [0, 1, 2, 3, -1, -2, 31, 32, 63, 64, 255].into_iter().chain(ends).collect()
}

/// The number in a float dtype, and its neighbours there.
fn float_near(dtype: DType, x: f64) -> Vec<f64> {
    let nearest = num::round_to(dtype, x, Rounding::NearestEven, true);
    [nearest, num::next_down(dtype, nearest), num::next_up(dtype, nearest)]
        .into_iter()
        .filter(|x| !x.is_nan())
        .collect()
}

/// Constants and their neighbours in a float dtype, the constants as that dtype holds them.
fn floats_near(dtype: DType, constants: &[Literal]) -> Vec<f64> {
    let number = |literal: &Literal| match *literal {
        Literal::Float(_, x) => x,
        Literal::Int(_, v) => v as f64,
    };
    let near = constants.iter().flat_map(|literal| float_near(dtype, number(literal)));
    let edges = [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let held = |x: f64| num::decode(dtype, num::encode(dtype, num::round_to(dtype, x, Rounding::NearestEven, false)));
    near.chain(edges).map(held).collect()
}

/// Constants and their neighbours in an integer dtype.
fn ints_near(dtype: DType, constants: &[Literal]) -> Vec<i64> {
    if dtype == DType::Bool {
        return vec![0, 1];
    }
    let number = |literal: &Literal| match *literal {
        Literal::Float(_, x) => x as i64,
        Literal::Int(_, v) => v,
    };
    let near = constants.iter().map(number).flat_map(|v| [v, v.wrapping_sub(1), v.wrapping_add(1)]);
    near.chain([0, 1, -1]).map(|v| num::wrap_int(dtype, v)).collect()
}

/// What the elements of operands are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// Of ordinary size.
    Ordinary,
    /// Positive numbers near one.
    Positive,
    /// Edge values; the inputs differ in the stride at which they go through them, so that pairs meet.
    Edges,
    /// Codes at random.
    Codes,
}

/// A tensor per user input, with `rows` for every symbol. The same graph gives the same tensors.
///
/// # Panics
/// Extents that are negative or beyond 64 bits there: a caller knows its graphs.
pub fn tensors(graph: &Graph, rows: i64, values: Values) -> Vec<Tensor> {
    let mut random = Random::new(1, values as u64);
    let mut stride = 1usize;
    let made = |ty: &TensorType, shape: &[usize]| {
        let (dtype, count) = (ty.dtype, shape.iter().product());
        if dtype.is_float() {
            let edges = float_edges(dtype);
            let element = |i: usize| match values {
                Values::Ordinary => random.unit() * 4.0,
                Values::Positive => 1.0 + random.unit() / 4.0,
                Values::Edges => edges[i / stride % edges.len()],
                Values::Codes => num::decode(dtype, random.next_bits()),
            };
            let elements = (0..count).map(element).collect();
            stride = stride.saturating_mul(edges.len());
            Tensor::from_f64(dtype, shape, elements)
        } else {
            let edges = int_edges(dtype);
            let element = |i: usize| match values {
                Values::Ordinary => random.below(9) as i64,
                Values::Edges => edges[i / stride % edges.len()],
                Values::Positive | Values::Codes => random.next_bits() as i64,
            };
            let elements = (0..count).map(element).collect();
            stride = stride.saturating_mul(edges.len());
            Tensor::from_i64(dtype, shape, elements)
        }
    };
    of_users(graph, rows, made)
}

/// As [`tensors`], of constants and their neighbours in each dtype, beside zeros, ones and what is not finite. Inputs go
/// through them at different strides, beginning with the one at `start`; pairs meet where shapes are large enough.
///
/// # Panics
/// As [`tensors`].
pub fn tensors_near(graph: &Graph, rows: i64, constants: &[Literal], start: usize) -> Vec<Tensor> {
    let mut stride = 1usize;
    let made = |ty: &TensorType, shape: &[usize]| {
        let (dtype, count): (DType, usize) = (ty.dtype, shape.iter().product());
        let at = |i: usize, edges: usize| (i / stride + start) % edges;
        let (edges, tensor) = if dtype.is_float() {
            let near = floats_near(dtype, constants);
            let elements = (0..count).map(|i| near[at(i, near.len())]).collect();
            (near.len(), Tensor::from_f64(dtype, shape, elements))
        } else {
            let near = ints_near(dtype, constants);
            let elements = (0..count).map(|i| near[at(i, near.len())]).collect();
            (near.len(), Tensor::from_i64(dtype, shape, elements))
        };
        stride = stride.saturating_mul(edges);
        tensor
    };
    of_users(graph, rows, made)
}

/// A tensor per user input, made from its type and shape.
fn of_users<F>(graph: &Graph, rows: i64, mut made: F) -> Vec<Tensor>
where
    F: FnMut(&TensorType, &[usize]) -> Result<Tensor, TensorError>,
{
    let users = graph.inputs().iter().filter(|input| input.kind.is_given());
    let tensor = |input: &Input| {
        let ty = graph.ty(input.value);
        let extent = |dim: &Dim| dim.eval(&|_| Some(rows)).ok().and_then(|n| usize::try_from(n).ok());
        let shape: Option<Vec<usize>> = ty.shape.iter().map(extent).collect();
        let shape = shape.expect("extents are small sums and products of rows");
        made(ty, &shape).expect("there are as many elements as the shape takes")
    };
    users.map(tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_the_same_each_time_and_pairs_of_edges_meet() {
        let text =
            "graph @g(s: 0..; %x: bf16[s, 64], %y: bf16[s, 64], %b: bool[s]) {\n  %z = add %x, %y\n  return %z\n}\n";
        let graph: Graph = text.parse().expect("the text is right");
        for values in [Values::Ordinary, Values::Positive, Values::Edges, Values::Codes] {
            let bytes = || tensors(&graph, 12, values).iter().map(Tensor::to_bytes).collect::<Vec<_>>();
            assert_eq!(bytes(), bytes(), "{values:?}");
        }
        let made = tensors(&graph, 12, Values::Edges);
        let codes = |i: usize| (0..made[i].len()).filter_map(|at| made[i].code(at)).collect::<Vec<_>>();
        let (x, y) = (codes(0), codes(1));
        let distinct: std::collections::BTreeSet<u64> = x.iter().copied().collect();
        let pairs: std::collections::BTreeSet<(u64, u64)> = x.into_iter().zip(y).collect();
        assert_eq!(pairs.len(), distinct.len() * distinct.len());
        let positive = tensors(&graph, 3, Values::Positive);
        assert!(positive[0].floats().expect("floats").iter().all(|x| (0.75..=1.25).contains(x)));
    }

    #[test]
    fn constants_meet_their_neighbours() {
        let text = "graph @g(s: 0..; %x: bf16[s, 64], %i: u8[s, 64]) {\n  %z = add %x, %x\n  return %z, %i\n}\n";
        let graph: Graph = text.parse().expect("the text is right");
        let constants = [Literal::Float(DType::F32, 12345.678), Literal::Int(DType::I32, 255)];
        let made = tensors_near(&graph, 12, &constants, 0);
        let floats = made[0].floats().expect("floats");
        let nearest = num::round_to(DType::BF16, 12345.678, Rounding::NearestEven, false);
        for x in [nearest, num::next_up(DType::BF16, nearest), num::next_down(DType::BF16, nearest), 255.0] {
            assert!(floats.contains(&x), "{x}");
        }
        let ints = made[1].ints().expect("integers");
        assert!([0, 1, 254, 255].iter().all(|v| ints.contains(v)), "{ints:?}");
        // A tensor of one element has each of them in turn.
        let one: Graph =
            "graph @g(%x: f32[]) {\n  %z = add %x, %x\n  return %z\n}\n".parse().expect("the text is right");
        let turns = (0..13).map(|start| tensors_near(&one, 1, &constants, start)[0].code(0));
        let distinct: std::collections::BTreeSet<Option<u64>> = turns.collect();
        assert!(distinct.len() >= 12, "{distinct:?}");
    }
}
