//! Outputs in the memory of inputs: where a row reads of an input only what it writes there itself.

use fusewright_graph::Dim;

use crate::kernel::{INNER, Inst, InstOp, Kernel, LANE, ParamId, ROW, Segment, Shape};

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
            alike || stores.iter().any(|store| store.holds(load, kernel))
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
    fn holds(&self, load: &Access<'_>, kernel: &Kernel) -> bool {
        let parts = |access: &Access<'_>| {
            let (slope, start) = access.index.split_linear(LANE)?;
            Some((slope.as_const()?, start, access.shape.elements()))
        };
        let (Some((step, start, lanes)), Some((stride, from, count))) = (parts(self), parts(load)) else {
            return false;
        };
        if self.masked || step <= 0 || stride < 0 || stride % step != 0 {
            return false;
        }
        // Lanes of the store: the first that the load reads, and how far beyond the end the last one lies.
        let Some(first) = (&from - &start).exact_div(&Dim::constant(step)) else { return false };
        let read = &(&count - &Dim::constant(1)) * &Dim::constant(stride / step);
        let beyond = &(&first + &read) - &lanes;
        let none = count.as_const().is_some_and(|count| count <= 0);
        let before_end = &Dim::constant(-1) - &beyond;
        is_never_negative(&first, kernel) && (none || is_never_negative(&before_end, kernel))
    }
}

/// Whether a dim is at least 0 whatever the counters and the extents of parameters that it mentions are: a sum of these.
fn is_never_negative(dim: &Dim, kernel: &Kernel) -> bool {
    let is_extent = |symbol: &str| kernel.params.iter().flat_map(|p| &p.shape).any(|e| e.as_symbol() == Some(symbol));
    let counts = |symbol: &&str| [ROW, INNER].contains(symbol) || is_extent(symbol);
    let terms = dim.as_polynomial();
    terms.is_some_and(|terms| terms.iter().all(|(factor, symbols)| *factor >= 0 && symbols.iter().all(counts)))
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
