//! Products of rows with the matrix of the group that each is in.

use fusewright_abi::DType;

use super::domain::{ArrayOf, DataOf, Domain, Product};
use super::fault::Fault;
use super::layout;
use crate::tensor::Data;

/// `x[M, K]` by `w[E, K, N]`, where `ends[E]` says before which row each group ends.
pub(super) fn matmul<D: Domain>(domain: &D, [x, w, ends]: [&ArrayOf<D>; 3], out: DType) -> Result<DataOf<D>, Fault> {
    let (&[m, k], &[_, _, n], dtype) = (x.shape(), w.shape(), x.dtype()) else {
        return Err(format!("{:?} by {:?}", x.shape(), w.shape()).into());
    };
    let matrices = layout::transpose_last(w)?;
    let (Data::Float(rows), Data::Float(matrices), Data::Int(ends)) = (x.data(), &matrices, ends.data()) else {
        return Err(format!("{dtype} does not multiply in groups").into());
    };
    let ends: Vec<(i64, i64)> = ends.iter().map(|&end| domain.range(end)).collect();
    let mut values = super::walk::reserve(m * n)?;
    let mut at = 0;
    while at < m {
        let groups = groups_of(&ends, at);
        let end = (at + 1..m).find(|&row| groups_of(&ends, row) != groups).unwrap_or(m);
        let a = &rows[at * k..end * k];
        let product = |group: usize| {
            let mut part = Vec::new();
            match matrices.get(group * n * k..).and_then(|rest| rest.get(..n * k)).filter(|_| group < ends.len()) {
                Some(b) => domain.product_floats(Product { a, b, m: end - at, n, k, dtype, out }, &mut part),
                None => part.resize((end - at) * n, domain.float(0.0)),
            }
            part
        };
        let mut part = product(groups.0);
        for group in groups.0 + 1..=groups.1 {
            part.iter_mut().zip(product(group)).for_each(|(x, y)| *x = domain.join_floats(*x, y));
        }
        values.extend(part);
        at = end;
    }
    Ok(Data::Float(values))
}

/// The first and the last group that a row may be in; as many as there are groups for none.
fn groups_of(ends: &[(i64, i64)], row: usize) -> (usize, usize) {
    let row = row as i64;
    let first = |inside: &dyn Fn(&(i64, i64)) -> bool| ends.iter().position(inside).unwrap_or(ends.len());
    (first(&|end| row < end.1), first(&|end| row < end.0))
}
