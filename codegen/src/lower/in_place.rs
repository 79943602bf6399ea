//! Outputs in the memory of inputs: where a row reads of an input only what it writes there itself.

use fusewright_graph::{Dim, Symbol, dim_range};

use crate::kernel::{INNER, Inst, InstOp, Kernel, LANE, ParamId, ROW, Segment, Shape};

/// Why an output of a kernel may not lie in the memory of an input of its type; `None` if it may.
///
/// It may where every load of the input has the index and the shape of the stores of the output, or reads elements that
/// one of the stores writes in the same row: then no row reads what another one writes, and stores of a row happen after
/// its loads. It also may where all rows have stretches of their own, in which what a row reads before it stores is
/// overwritten by no inner row and no segment before.
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
            let held = alike || stores.iter().any(|store| store.holds(load, kernel));
            held || is_of_own_row(kernel, output, segment, load)
        };
        (!loads.iter().all(own))
            .then(|| format!("a row reads elements of `{}` that other rows may overwrite", read.name))
    })
}

/// Whether every store of an output is in the stretch of its row, and none that may be before a load touches the same.
fn is_of_own_row(kernel: &Kernel, output: ParamId, segment: &Segment, load: &Access<'_>) -> bool {
    let Some(read) = Span::of(load, segment) else { return false };
    kernel.segments.iter().all(|other| {
        let together = std::ptr::eq(other, segment);
        let one = other.inner.as_const() == Some(1);
        accesses(other, output, true).iter().all(|store| {
            let written = Span::of(store, other).filter(|written| written.period == read.period);
            let own = |written: &Span| one || store.is_alike(load) || written.is_of_inner_row(&read);
            written.is_some_and(|written| written.is_apart(&read) || (together && own(&written)))
        })
    })
}

/// The elements that an access may touch of the stretch that its row has alone, counted from the beginning of that.
struct Span {
    /// How many elements lie between the beginnings of two rows.
    period: i64,
    first: i128,
    last: i128,
    /// How many elements lie between two inner rows, and the first and the last element of the first inner row.
    inner: Option<(i64, i128, i128)>,
}

impl Span {
    /// The elements of an access; `None` if they are not known to be of its own row.
    fn of(access: &Access<'_>, segment: &Segment) -> Option<Span> {
        let (period, within) = access.index.split_linear(ROW)?;
        let period = period.as_const()?;
        let counter = |name: &str, count: &Dim| {
            let last = count.as_const().filter(|count| *count > 0)? - 1;
            Some(Symbol { name: name.to_owned(), min: 0, max: Some(last) })
        };
        let counters = [counter(LANE, &access.shape.elements())?, counter(INNER, &segment.inner)?];
        let (first, last) = dim_range(&within, &counters)?;
        let inner = within.split_linear(INNER).and_then(|(distance, rest)| {
            let (first, last) = dim_range(&rest, &counters)?;
            Some((distance.as_const()?, first, last))
        });
        (first >= 0 && last < period.into()).then_some(Span { period, first, last, inner })
    }

    /// Whether no inner row touches what another one does in another access of the same segment.
    fn is_of_inner_row(&self, other: &Span) -> bool {
        let (Some((distance, first, last)), Some((same, from, to))) = (self.inner, other.inner) else { return false };
        distance == same && last.max(to) - first.min(from) < distance.into()
    }

    /// Whether no element is one of another access of the same row.
    fn is_apart(&self, other: &Span) -> bool {
        self.last < other.first || other.last < self.first
    }
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
        if self.masked {
            return false;
        }
        if self.is_alike(load) {
            return true;
        }
        let parts = |access: &Access<'_>| {
            let (slope, start) = access.index.split_linear(LANE)?;
            Some((slope.as_const()?, start, access.shape.elements()))
        };
        let (Some((step, start, lanes)), Some((stride, from, count))) = (parts(self), parts(load)) else {
            return false;
        };
        if step <= 0 || stride < 0 || stride % step != 0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `y` may lie in the memory of `x` where a second segment, of so many inner rows, reads from a place on.
    fn fits(period: &str, second: &str) -> bool {
        let text = format!(
            "kernel @heads(s = extent(x, 0)) rows s {{
               param %x: f32[s, {period}] in
               param %y: f32[s, {period}] out
               param %z: f32[s] out
               segment @first inner 1 {{
                 %a = load x[row*{period} + lane] : row<f32, 64>
                 %m = reduce max %a over row nan propagate order tree(16)
                 %b = load x[row*{period} + floordiv(lane, 16)*32 + mod(lane, 16)] : row<f32, 32>
                 %c = load x[row*{period} + floordiv(lane, 16)*32 + mod(lane, 16) + 16] : row<f32, 32>
                 %d = mul %b, %m
                 %e = mul %c, %m
                 store y[row*{period} + floordiv(lane, 16)*32 + mod(lane, 16)], %d
                 store y[row*{period} + floordiv(lane, 16)*32 + mod(lane, 16) + 16], %e
                 store z[row], %m
               }}
               segment @second inner 2 {{
                 %f = load x[{second}] : row<f32, 16>
                 %g = slice %f start 0 len 8 step 1
                 %h = slice %f start 8 len 8 step 1
                 store y[row*{period} + inner*16 + lane + 64], %h
                 store y[row*{period} + inner*16 + lane + 72], %g
               }}
             }}"
        );
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let why = why_not(&kernel, ParamId(0), ParamId(1));
        assert!(why.iter().all(|why| why == "a row reads elements of `x` that other rows may overwrite"), "{why:?}");
        why.is_none()
    }

    #[test]
    fn what_a_row_reads_may_be_overwritten_in_other_pieces_of_it() {
        assert!(fits("96", "row*96 + inner*16 + lane + 64"));
        assert!(!fits("96", "row*96 + inner*16 + lane"), "the first segment has overwritten it");
        assert!(!fits("96", "row*96 + inner*16 + lane + 63"), "its last lane");
        assert!(!fits("96", "row*96 - inner*16 + lane + 80"), "the inner row before has overwritten it");
        assert!(!fits("96", "row*96 + inner*16 + lane + 96"), "of the next row");
    }
}
