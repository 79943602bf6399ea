//! Operands: values that break wrong equations.

use fusewright_graph::{DType, Graph, Tensor, num};

/// What the elements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// Every pair of edge values meets.
    Edges,
    /// Codes at random.
    Random,
    /// Positive numbers near one.
    Positive,
}

/// Extents of a symbol.
pub(super) const ROWS: usize = 3;

fn edges(dtype: DType) -> Vec<f64> {
    let largest = num::max_finite(dtype);
    let least = num::next_up(dtype, 0.0);
    let one = num::ulp(dtype, 1.0);
    let near = [0.0, 1.0, 1.0 + one, 0.5, 1.5, 2.0, 3.0, 7.0, least, 3.0 * least, largest, largest / 2.0];
    let signed = near.into_iter().flat_map(|x| [x, -x]);
    let all = signed.chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    all.map(|x| num::round_to(dtype, x, fusewright_graph::Rounding::NearestEven, false)).collect()
}

fn int_edges(dtype: DType) -> Vec<i64> {
    let (least, greatest) = num::int_range(dtype);
    [0, 1, 2, 3, -1, -2, 63, 64, 255, least as i64, greatest as i64, (greatest / 2) as i64, (least + 1) as i64].to_vec()
}

/// A tensor per input. Inputs differ in the stride at which they go through the edge values, so that all pairs meet.
pub fn tensors(graph: &Graph, values: Values) -> Vec<Tensor> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
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
            |d: &fusewright_graph::Dim| d.eval(&|_| Some(ROWS as i64)).expect("small sums and products") as usize;
        let shape: Vec<usize> = ty.shape.iter().map(extent).collect();
        let count: usize = shape.iter().product();
        let dtype = ty.dtype;
        let tensor = if dtype.is_float() {
            let edges = edges(dtype);
            let element = |i: usize| match values {
                Values::Edges => edges[i / stride % edges.len()],
                Values::Random => num::decode(dtype, next()),
                Values::Positive => 0.75 + (next() >> 12) as f64 / (1u64 << 53) as f64,
            };
            let elements = (0..count).map(element).collect();
            stride = stride.saturating_mul(edges.len());
            Tensor::from_f64(dtype, &shape, elements)
        } else {
            let edges = int_edges(dtype);
            let element = |i: usize| match values {
                Values::Edges if dtype == DType::Bool => (i / stride % 2) as i64,
                Values::Edges => edges[i / stride % edges.len()],
                Values::Random | Values::Positive => next() as i64,
            };
            let elements = (0..count).map(element).collect();
            stride = stride.saturating_mul(if dtype == DType::Bool { 2 } else { edges.len() });
            Tensor::from_i64(dtype, &shape, elements)
        };
        made.push(tensor.expect("as many elements as the shape takes"));
    }
    made
}
