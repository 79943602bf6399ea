//! Random numbers of a stated sequence, and the operands of a case: ordinary values mixed with every edge.

use fusewright::graph::{DType, Dim, Graph, InputKind, Tensor, num};

/// A SplitMix64 generator.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed and a number.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
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
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

const EDGES: [f64; 18] = [
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

/// How the values of one row are drawn.
#[derive(Clone, Copy)]
enum Mood {
    Zero,
    Ordinary,
    Wide,
    Edges,
}

/// The user inputs of a graph with `rows` rows. An input's values depend on the seed and its name alone, so that
/// graphs that share inputs share operands.
pub fn operands(graph: &Graph, rows: usize, seed: u64) -> Vec<Tensor> {
    let users = graph.inputs().iter().filter(|input| matches!(input.kind, InputKind::User));
    let tensor = |input: &fusewright::graph::Input| {
        let ty = graph.ty(input.value);
        let extent = |dim: &Dim| dim.eval(&|_| Some(rows as i64)).expect("the rows are the only symbol") as usize;
        let shape: Vec<usize> = ty.shape.iter().map(extent).collect();
        let name = input.name.bytes().fold(rows as u64, |h, b| h.wrapping_mul(0x100_0000_01b3) ^ u64::from(b));
        values(ty.dtype, &shape, &mut Random::new(seed, name))
    };
    users.map(tensor).collect()
}

fn values(dtype: DType, shape: &[usize], random: &mut Random) -> Tensor {
    let count: usize = shape.iter().product();
    let lanes = shape.last().copied().unwrap_or(1).max(1);
    let mut floats = Vec::with_capacity(count);
    let mut ints = Vec::with_capacity(count);
    let mut mood = Mood::Ordinary;
    for i in 0..count {
        if i % lanes == 0 {
            mood = random.pick(&[Mood::Zero, Mood::Ordinary, Mood::Ordinary, Mood::Ordinary, Mood::Wide, Mood::Edges]);
        }
        if dtype.is_float() {
            floats.push(float(mood, random));
        } else {
            ints.push(if matches!(mood, Mood::Zero) { 0 } else { random.next() as i64 });
        }
    }
    let made = if dtype.is_float() {
        // Formats without an infinity or a NaN take the nearest value that they have.
        let held = |x: f64| {
            num::decode(
                dtype,
                num::encode(dtype, num::round_to(dtype, x, fusewright::graph::Rounding::NearestEven, false)),
            )
        };
        Tensor::from_f64(dtype, shape, floats.into_iter().map(held).collect())
    } else {
        Tensor::from_i64(dtype, shape, ints)
    };
    made.expect("as many values as the shape takes")
}

fn float(mood: Mood, random: &mut Random) -> f64 {
    match mood {
        Mood::Zero => 0.0,
        Mood::Ordinary => random.unit() * 4.0,
        Mood::Wide => random.unit() * (random.unit() * 40.0).exp2(),
        Mood::Edges if random.once_in(6) => random.pick(&EDGES),
        Mood::Edges => random.unit() * 100.0,
    }
}
