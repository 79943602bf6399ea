//! Outputs in the memory of inputs: where a row reads of an input only what it writes there itself.

use crate::kernel::{InstOp, Kernel, ParamId, Segment};

/// Why an output of a kernel may not lie in the memory of an input of its type; `None` if it may.
///
/// It may where every load of the input has the index and the shape of the stores of the output, in the same rows: then
/// no row reads what another one writes, and stores of a row happen after its loads.
pub fn why_not(kernel: &Kernel, input: ParamId, output: ParamId) -> Option<String> {
    let (read, written) = (kernel.param(input), kernel.param(output));
    if (read.dtype, &read.shape) != (written.dtype, &written.shape) {
        return Some(format!("`{}` is of another type than `{}`", read.name, written.name));
    }
    let others = || kernel.params.iter().enumerate().filter(|(i, _)| *i != output.0 as usize);
    if let Some((_, other)) = others().find(|(_, p)| p.alias == Some(input)) {
        return Some(format!("`{}` lies where `{}` does", other.name, read.name));
    }
    kernel.segments.iter().find_map(|segment| {
        let loads = accesses(segment, input, false);
        let stores = accesses(segment, output, true);
        if loads.is_empty() {
            return None;
        }
        let alike = !stores.is_empty() && loads.iter().all(|load| stores.iter().all(|store| load == store));
        (!alike).then(|| "other rows or lanes read an old element than the one that overwrites it".to_owned())
    })
}

/// Index and shape of every load or store of a parameter, as text and in order.
fn accesses(segment: &Segment, of: ParamId, stores: bool) -> Vec<(String, String)> {
    let access = |inst: &crate::kernel::Inst| match &inst.op {
        InstOp::Load { param, index, shape, .. } if !stores && *param == of => {
            Some((index.to_string(), shape.to_string()))
        }
        InstOp::Store { param, index, .. } if stores && *param == of => {
            Some((index.to_string(), segment.ty(inst.args[0]).shape.to_string()))
        }
        _ => None,
    };
    segment.insts.iter().filter_map(access).collect()
}

/// Takes back the aliases that the instructions do not allow.
pub(super) fn settle(kernel: &mut Kernel) {
    for output in 0..kernel.params.len() {
        let param = &kernel.params[output];
        if param.access != fusewright_abi::ParamAccess::Out {
            continue;
        }
        if let Some(input) = param.alias
            && why_not(kernel, input, ParamId(output as u32)).is_some()
        {
            kernel.params[output].alias = None;
        }
    }
}
