//! Outputs in the memory of inputs: where a row reads of an input only what it writes there itself.

use fusewright_graph::Dim;

use crate::kernel::{Inst, InstOp, Kernel, LANE, ParamId, Segment, Shape};

/// Why an output of a kernel may not lie in the memory of an input of its type; `None` if it may.
///
/// It may where every load of the input has the index and the shape of the stores of the output, or reads elements that
/// one of the stores writes in the same row: then no row reads what another one writes, and stores of a row happen after
/// its loads.
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
        let own = |load: &Access<'_>| {
            let alike = !stores.is_empty() && stores.iter().all(|store| store.is_alike(load));
            alike || stores.iter().any(|store| store.holds(load))
        };
        (!loads.iter().all(own))
            .then(|| format!("a row reads elements of `{}` that other rows may overwrite", read.name))
    })
}

/// A load or a store of a parameter.
struct Access<'a> {
    index: &'a Dim,
    shape: &'a Shape,
    masked: bool,
}

impl Access<'_> {
    fn is_alike(&self, other: &Access<'_>) -> bool {
        (self.index, self.shape) == (other.index, other.shape)
    }

    /// Whether every element of a load is one that this store writes in the same row.
    fn holds(&self, load: &Access<'_>) -> bool {
        let parts = |access: &Access<'_>| {
            let (slope, start) = access.index.split_linear(LANE)?;
            Some((slope.as_const()?, start, access.shape.elements().as_const()?))
        };
        let (Some((step, start, lanes)), Some((stride, from, count))) = (parts(self), parts(load)) else {
            return false;
        };
        let Some(ahead) = (&from - &start).as_const() else { return false };
        let aligned = step > 0 && stride >= 0 && ahead % step == 0 && stride % step == 0;
        let last = stride.checked_mul((count - 1).max(0)).and_then(|run| ahead.checked_add(run));
        !self.masked && aligned && ahead >= 0 && last.is_some_and(|last| last / step < lanes)
    }
}

/// The loads or the stores of a parameter, in order.
fn accesses<'s>(segment: &'s Segment, of: ParamId, stores: bool) -> Vec<Access<'s>> {
    let access = |inst: &'s Inst| match &inst.op {
        InstOp::Load { param, index, shape, .. } if !stores && *param == of => {
            Some(Access { index, shape, masked: false })
        }
        InstOp::Store { param, index, .. } if stores && *param == of => {
            Some(Access { index, shape: &segment.ty(inst.args[0]).shape, masked: inst.args.len() > 1 })
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
