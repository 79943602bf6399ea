//! Rows of which nothing but parts is needed, computed part by part.

use fusewright_graph::Dim;

use super::expand::rename_index;
use super::infer::InstError;
use super::simplify::without_unused;
use super::{Inst, InstOp, Kernel, LANE, Segment, SegmentBuilder, Shape, Val};

/// The kernel with such rows cut where they are loaded, in segments that compute lane by lane: they then have shorter rows,
/// of which several blocks of threads may compute one.
///
/// # Errors
/// None for a kernel that was verified.
pub(crate) fn by_parts(kernel: &Kernel) -> Result<Kernel, InstError> {
    let segments = kernel.segments.iter().map(|segment| match is_by_lanes(segment) {
        true => cut(kernel, segment),
        false => Ok(segment.clone()),
    });
    let segments = segments.collect::<Result<Vec<_>, _>>()?;
    Ok(without_unused(&Kernel { segments, ..kernel.clone() }))
}

/// Whether lanes are computed apart from each other.
fn is_by_lanes(segment: &Segment) -> bool {
    segment.insts.iter().all(|inst| {
        matches!(
            inst.op,
            InstOp::Literal(_)
                | InstOp::Index(_)
                | InstOp::Iota(_)
                | InstOp::Load { .. }
                | InstOp::Store { .. }
                | InstOp::Map(_)
                | InstOp::Cast { .. }
                | InstOp::Slice { .. }
        )
    })
}

fn cut(kernel: &Kernel, segment: &Segment) -> Result<Segment, InstError> {
    let mut builder = SegmentBuilder::new(&segment.name, segment.inner.clone(), &kernel.params);
    let is_parted = parted(segment);
    let mut renamed: Vec<Val> = Vec::with_capacity(segment.types.len());
    let mut parted = Vec::new();
    for inst in &segment.insts {
        let args: Vec<Val> = inst.args.iter().map(|v| renamed[v.0 as usize]).collect();
        let part = match (&inst.op, &args[..]) {
            (InstOp::Slice { start, len, step: 1 }, &[x]) => {
                part(&mut builder, &|v| parted.contains(&v), x, [start, len])?
            }
            _ => None,
        };
        match part {
            Some(value) => renamed.push(value),
            None => renamed.extend(builder.push(rename_index(&inst.op, &renamed), &args)?),
        }
        parted.extend(inst.results.iter().filter(|v| is_parted[v.0 as usize]).map(|v| renamed[v.0 as usize]));
    }
    Ok(builder.finish())
}

/// By value: whether it is a row, computed lane by lane, of which nothing but parts is needed.
pub(crate) fn parted(segment: &Segment) -> Vec<bool> {
    let mut parted = vec![false; segment.types.len()];
    for inst in segment.insts.iter().rev() {
        let lanes = matches!(inst.op, InstOp::Load { otherwise: None, .. } | InstOp::Map(_) | InstOp::Cast { .. });
        for &result in &inst.results {
            let mut uses = segment.insts.iter().filter(|user| user.args.contains(&result)).peekable();
            let used = uses.peek().is_some();
            let cut = |user: &Inst| match &user.op {
                InstOp::Slice { step: 1, .. } => true,
                InstOp::Map(_) | InstOp::Cast { .. } => user.results.iter().all(|v| parted[v.0 as usize]),
                _ => false,
            };
            parted[result.0 as usize] =
                lanes && used && matches!(segment.ty(result).shape, Shape::Row(_)) && uses.all(cut);
        }
    }
    parted
}

/// Part of a row that is computed lane by lane, from the parts of what it is computed from: from lane `start` on, `len` of
/// them. None of a row that is not `parted`.
///
/// # Errors
/// None for rows that have these lanes.
pub(crate) fn part(
    builder: &mut SegmentBuilder<'_>,
    parted: &dyn Fn(Val) -> bool,
    x: Val,
    [start, len]: [&Dim; 2],
) -> Result<Option<Val>, InstError> {
    if !parted(x) {
        return Ok(None);
    }
    let Some(inst) = builder.definition(x).cloned() else { return Ok(None) };
    match inst.op {
        InstOp::Load { param, index, otherwise: None, .. } => {
            let index = index.substitute(&|name| (name == LANE).then(|| &Dim::symbol(LANE) + start));
            let shape = Shape::Row(len.clone());
            builder.one(InstOp::Load { param, index, shape, otherwise: None }, &[]).map(Some)
        }
        op @ (InstOp::Map(_) | InstOp::Cast { .. }) => {
            let mut args = Vec::new();
            for arg in inst.args {
                args.push(match &builder.ty(arg).shape {
                    Shape::Scalar => arg,
                    Shape::Group { .. } => return Ok(None),
                    Shape::Row(_) => match part(builder, parted, arg, [start, len])? {
                        Some(part) => part,
                        None => {
                            let slice = InstOp::Slice { start: start.clone(), len: len.clone(), step: 1 };
                            builder.one(slice, &[arg])?
                        }
                    },
                });
            }
            builder.one(op, &args).map(Some)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(kernel: &Kernel) -> Vec<String> {
        crate::kernel::verify(kernel).unwrap_or_else(|e| panic!("{e}"));
        kernel.to_string().lines().filter(|l| l.starts_with("    ")).map(|l| l.trim().to_owned()).collect()
    }

    #[test]
    fn rows_that_are_cut_are_loaded_in_parts() {
        let text = "kernel @k(s = extent(x, 0)) rows s { param %x: f32[s, 16] in param %m: f32[s] in \
            param %y: f32[s, 8] out segment @r inner 1 { %0 = load m[row] : scalar<f32> \
            %1 = load x[lane + row*16] : row<f32, 16> %2 = mul %0, %1 %3 = slice %2 start 0 len 8 step 1 \
            %4 = slice %2 start 8 len 8 step 1 %5 = mul %3, %4 store y[lane + row*8], %5 } }";
        let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let cut = by_parts(&kernel).unwrap_or_else(|e| panic!("{e}"));
        let expected = [
            "%0 = load m[row] : scalar<f32>",
            "%1 = load x[lane + row*16] : row<f32, 8>",
            "%2 = mul %0, %1",
            "%3 = load x[lane + row*16 + 8] : row<f32, 8>",
            "%4 = mul %0, %3",
            "%5 = mul %2, %4",
            "store y[lane + row*8], %5",
        ];
        assert_eq!(lines(&cut), expected);
        assert_eq!(by_parts(&cut).unwrap_or_else(|e| panic!("{e}")), cut);
    }

    #[test]
    fn rows_that_are_needed_whole_stay() {
        for needed in [
            "store y[lane + row*16], %1",
            "%3 = reduce add %1 over row nan propagate order tree(8) store y[row*16], %3",
        ] {
            let text = format!(
                "kernel @k(s = extent(x, 0)) rows s {{ param %x: f32[s, 16] in param %y: f32[s, 16] out \
                 param %z: f32[s, 8] out segment @r inner 1 {{ %0 = load x[lane + row*16] : row<f32, 16> \
                 %1 = mul %0, %0 %2 = slice %1 start 0 len 8 step 1 store z[lane + row*8], %2 {needed} }} }}"
            );
            let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}"));
            let cut = by_parts(&kernel).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(lines(&cut), lines(&kernel), "{needed}");
        }
    }
}
