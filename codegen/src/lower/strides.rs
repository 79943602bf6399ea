//! Outputs in wider memory: the distance of their rows is an integer argument of the kernel.

use fusewright_abi::ParamAccess;
use fusewright_graph::dim::{DimFn, product};
use fusewright_graph::{Dim, Graph};

use crate::kernel::Param;

/// Where the elements of a kernel's outputs lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outputs {
    /// One behind the other.
    #[default]
    Contiguous,
    /// Those of one step along the first axis one behind the other, and these steps as far apart as the argument
    /// [`stride_name`] says: of outputs of two axes or more that overwrite no input.
    Strided,
}

/// The integer argument that says how many elements lie between the beginnings of two rows of an output.
pub fn stride_name(output: usize) -> String {
    format!("out{output}_stride")
}

/// Gives outputs their strides, by parameter, and the memory that these span.
pub(super) fn declare(body: &Graph, params: &mut [Param], outputs: Outputs) -> Vec<Option<Dim>> {
    let first = body.inputs().len();
    let strided = |i: usize, param: &mut Param| {
        let output = i.checked_sub(first)?;
        let [rows, row @ ..] = &param.shape[..] else { return None };
        let plain = param.access == ParamAccess::Out && body.outputs().get(output)?.updates.is_none();
        if outputs == Outputs::Contiguous || row.is_empty() || !plain {
            return None;
        }
        let stride = Dim::symbol(&stride_name(output));
        let before = &(rows - &Dim::constant(1)) * &stride;
        param.shape = vec![Dim::function(DimFn::Max, &(&before + &product(row)), &Dim::constant(0))];
        Some(stride)
    };
    params.iter_mut().enumerate().map(|(i, param)| strided(i, param)).collect()
}
