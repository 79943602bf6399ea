//! Rows cut into inner rows, where nothing in a segment needs a whole row.

use fusewright_graph::Dim;

use crate::kernel::expand::rename_index;
use crate::kernel::{INNER, InstOp, Kernel, LANE, Over, ROW, Segment, SegmentBuilder, Shape, Val};

/// The segment with rows cut into `parts` inner rows, if nothing in it needs a whole row.
pub(super) fn cut_rows(kernel: &Kernel, segment: &Segment, parts: i64) -> Option<Segment> {
    let by = Dim::constant(parts);
    let cut = |lanes: &Dim| lanes.as_const().filter(|n| n % parts == 0).map(|n| Dim::constant(n / parts));
    let shape = |shape: &Shape| match shape {
        Shape::Scalar => Some(Shape::Scalar),
        Shape::Row(lanes) => cut(lanes).map(Shape::Row),
        Shape::Group { lanes, size } => {
            let lanes = cut(lanes)?;
            lanes.exact_div(size)?;
            Some(Shape::Group { lanes, size: size.clone() })
        }
    };
    let moved = |index: &Dim, lanes: i64| {
        let first = &Dim::symbol(INNER) * &Dim::constant(lanes / parts);
        index.substitute(&|name| (name == LANE).then(|| &Dim::symbol(LANE) + &first))
    };
    let linear = |index: &Dim| index.split_linear(LANE).is_some() && index.split_linear(ROW).is_some();
    if segment.inner != Dim::constant(1) || segment.types.iter().any(|t| shape(&t.shape).is_none()) {
        return None;
    }
    let mut builder = SegmentBuilder::new(&segment.name, by, &kernel.params);
    let mut renamed: Vec<Val> = Vec::new();
    for inst in &segment.insts {
        let args: Vec<Val> = inst.args.iter().map(|v| renamed[v.0 as usize]).collect();
        let lanes = |shape: &Shape| shape.elements().as_const();
        let op = match rename_index(&inst.op, &renamed) {
            InstOp::Load { param, index, shape: of, otherwise: None } if linear(&index) => {
                let index = moved(&index, lanes(&of)?);
                InstOp::Load { param, index, shape: shape(&of)?, otherwise: None }
            }
            InstOp::Store { param, index, otherwise: None } if linear(&index) => {
                let of = &segment.ty(inst.args[0]).shape;
                if *of == Shape::Scalar {
                    return None;
                }
                InstOp::Store { param, index: moved(&index, lanes(of)?), otherwise: None }
            }
            op @ (InstOp::Reduce { over: Over::Group(_), .. }
            | InstOp::Literal(_)
            | InstOp::Index(_)
            | InstOp::Map(_)
            | InstOp::Cast { .. }
            | InstOp::Bitcast(_)
            | InstOp::Pack { .. }) => op,
            InstOp::Broadcast(of) => InstOp::Broadcast(shape(&of)?),
            _ => return None,
        };
        renamed.extend(builder.push(op, &args).ok()?);
    }
    Some(builder.finish())
}
