//! Operands by dtype: ordinary values, and edge values in every pair.

use fusewright::graph::{DType, Dim, Graph, Rounding, Tensor, num};

/// What the elements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// Of ordinary size.
    Ordinary,
    /// Every pair of edge values meets.
    Edges,
    /// Codes at random.
    Codes,
}

impl Values {
    /// Every kind.
    pub const ALL: [Values; 3] = [Values::Ordinary, Values::Edges, Values::Codes];
}

fn float_edges(dtype: DType) -> Vec<f64> {
    let (largest, least) = (num::max_finite(dtype), num::next_up(dtype, 0.0));
    let near = [0.0, least, 3.0 * least, 1e-5, 0.5, 1.0, 1.5, 3.0, 17.0, 448.0, largest / 2.0, largest];
    let signed = near.into_iter().flat_map(|x| [x, -x]);
    let all = signed.chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    all.map(|x| num::round_to(dtype, x, Rounding::NearestEven, false)).collect()
}

fn int_edges(dtype: DType) -> Vec<i64> {
    if dtype == DType::Bool {
        return vec![0, 1];
    }
    let (least, greatest) = num::int_range(dtype);
    [0, 1, 2, 3, -1, -2, 31, 32, 63, 64, 255, least as i64, greatest as i64, (least + 1) as i64].to_vec()
}

/// A tensor per input at `rows` for every symbol. Inputs go through the edge values at different strides.
pub fn tensors(graph: &Graph, rows: i64, values: Values) -> Vec<Tensor> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut stride = 1;
    let mut made = Vec::new();
    for input in graph.inputs() {
        let ty = graph.ty(input.value);
        let extent =
            |d: &Dim| usize::try_from(d.eval(&|_| Some(rows)).expect("symbols are rows")).expect("not negative");
        let shape: Vec<usize> = ty.shape.iter().map(extent).collect();
        let count: usize = shape.iter().product();
        let dtype = ty.dtype;
        let tensor = if dtype.is_float() {
            let edges = float_edges(dtype);
            let element = |i: usize| match values {
                Values::Ordinary => (next() >> 11) as f64 / (1u64 << 53) as f64 * 8.0 - 4.0,
                Values::Edges => edges[i / stride % edges.len()],
                Values::Codes => num::decode(dtype, next()),
            };
            let elements = (0..count).map(element).collect();
            stride *= edges.len();
            Tensor::from_f64(dtype, &shape, elements)
        } else {
            let edges = int_edges(dtype);
            let element = |i: usize| match values {
                Values::Ordinary => (next() % 9) as i64,
                Values::Edges => edges[i / stride % edges.len()],
                Values::Codes => next() as i64,
            };
            let elements = (0..count).map(element).collect();
            stride *= edges.len();
            Tensor::from_i64(dtype, &shape, elements)
        };
        made.push(tensor.expect("as many elements as the shape takes"));
    }
    made
}
