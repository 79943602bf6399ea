//! The combining steps of reduction trees whose accumulators are in memory.

/// The most accumulators that fit the stack.
pub(in crate::backend) const MOST_ACCUMULATORS: usize = 16384;
/// Combining steps up to this number are written out.
pub(in crate::backend) const UNROLLED: usize = 64;

/// Equal steps a fixed distance apart.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Run {
    pub into: usize,
    pub from: usize,
    pub stride: usize,
    pub count: usize,
}

/// Combining steps as runs; no step of a run reads what an earlier one of it wrote.
pub(in crate::backend) fn runs(steps: &[(usize, usize)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &(into, from) in steps {
        if let Some(run) = runs.last_mut() {
            let stride = into.wrapping_sub(run.into + run.stride * (run.count - 1));
            let steady = run.count == 1 || stride == run.stride;
            if steady && stride > 0 && stride < into + 1 && from == run.from + stride * run.count {
                run.stride = stride;
                run.count += 1;
                continue;
            }
        }
        runs.push(Run { into, from, stride: 0, count: 1 });
    }
    runs
}
