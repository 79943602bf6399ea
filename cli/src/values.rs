//! Elements of tensors as text and as JSON.

use fusewright::graph::text::print_literal;
use fusewright::graph::{Literal, Tensor};
use serde_json::{Value, json};

/// Most rows that are printed, and most elements of each.
const ROWS: usize = 8;
const LANES: usize = 16;

/// A tensor's rows for people; what is too much is counted.
pub fn row_lines(tensor: &Tensor) -> Vec<String> {
    let lanes = tensor.shape().last().copied().unwrap_or(1);
    let values = words(tensor);
    let rows = values.len().checked_div(lanes).unwrap_or(0);
    let row = |row: &[String]| {
        let more = if row.len() > LANES { format!(" … {} more", row.len() - LANES) } else { String::new() };
        row[..row.len().min(LANES)].join(" ") + &more
    };
    let mut lines: Vec<String> = values.chunks(lanes.max(1)).take(ROWS).map(row).collect();
    if rows > ROWS {
        lines.push(format!("… {} more rows", rows - ROWS));
    }
    lines
}

/// A tensor's elements as the text form writes them.
fn words(tensor: &Tensor) -> Vec<String> {
    let dtype = tensor.dtype();
    let floats = tensor.floats().unwrap_or_default().iter().map(|&v| Literal::Float(dtype, v));
    let ints = tensor.ints().unwrap_or_default().iter().map(|&v| Literal::Int(dtype, v));
    let word = |literal: Literal| print_literal(&literal).split(' ').next_back().unwrap_or_default().to_owned();
    floats.chain(ints).map(word).collect()
}

/// A tensor's elements: numbers, and `"nan"`, `"inf"` and `"-inf"`, which JSON has no numbers for.
pub fn value_json(tensor: &Tensor) -> Vec<Value> {
    let finite = |v: f64| if v.is_finite() { json!(v) } else { json!(v.to_string().to_lowercase()) };
    let floats = tensor.floats().unwrap_or_default().iter().map(|&v| finite(v));
    floats.chain(tensor.ints().unwrap_or_default().iter().map(|&v| json!(v))).collect()
}
