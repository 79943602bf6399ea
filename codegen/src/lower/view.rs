//! Values that are index maps of inputs: reached from an input through layout ops alone.
//!
//! A view addresses its input as `offset + Σ stride · index of axis`, where an offset may hold gathered integers. Such
//! values cost nothing: their layout goes into the index of a load.

use fusewright_graph::axes::{AxisId, AxisMap, Strides};
use fusewright_graph::{Dim, Graph, Node, Op, Prim, Value};

use super::LowerError;

/// An index map of an input.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Index of the input.
    pub input: usize,
    /// Offset of the first element.
    pub offset: Dim,
    /// The distance that one step along each axis moves, in elements.
    pub strides: Strides,
    /// Integer tensors whose elements add to the offset.
    pub gathers: Vec<Gathered>,
}

/// An integer tensor that an index map reads.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    /// The tensor.
    pub indices: Value,
    /// Extents and strides of the axes that an index walks, outermost first.
    pub walked: Vec<(Dim, Dim)>,
    /// What indices are below.
    pub extent: Dim,
    /// Slices along its axes, taken after the gather.
    cuts: Vec<Cut>,
}

/// A dim that a slice replaced.
#[derive(Clone, Debug)]
struct Cut {
    from: Vec<AxisId>,
    to: Vec<AxisId>,
    start: Dim,
    step: i64,
}

impl Gathered {
    /// The index map of the indices that are read, if they are one.
    pub fn view(&self, axes: &AxisMap, indices: &View) -> Option<View> {
        self.cuts.iter().try_fold(indices.clone(), |view, cut| view.cut(axes, cut))
    }

    /// Whether every index is read as it stands in the tensor.
    pub fn is_whole(&self) -> bool {
        self.cuts.is_empty()
    }
}

impl View {
    /// The view of every value that is one, by value.
    pub fn all(body: &Graph, axes: &AxisMap) -> Result<Vec<Option<View>>, LowerError> {
        let mut views: Vec<Option<View>> = vec![None; body.value_count()];
        for (i, input) in body.inputs().iter().enumerate() {
            let strides = Strides::contiguous(axes, &axes.dims(input.value), &body.ty(input.value).shape);
            views[input.value.0 as usize] =
                Some(View { input: i, offset: Dim::constant(0), strides, gathers: Vec::new() });
        }
        for id in body.node_ids() {
            let node = body.node(id);
            let Some(view) = node.operands.first().and_then(|v| views[v.0 as usize].as_ref()) else { continue };
            if let Some(result) = view.through(body, axes, node) {
                views[node.results[0].0 as usize] = Some(result);
            }
        }
        Ok(views)
    }

    /// The view of a node's result if the node is a layout op on this view.
    fn through(&self, body: &Graph, axes: &AxisMap, node: &Node) -> Option<View> {
        let Op::Prim(prim) = &node.op else { return None };
        match prim {
            Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } => Some(self.clone()),
            Prim::Slice { axis, start, step, .. } => {
                let source = &axes.dims(node.operands[0])[*axis];
                let result = &axes.dims(node.results[0])[*axis];
                if Strides::stays(source, result, start, *step) {
                    return Some(self.clone());
                }
                self.cut(axes, &Cut { from: source.clone(), to: result.clone(), start: start.clone(), step: *step })
            }
            Prim::Gather { axis } => {
                let source = &axes.dims(node.operands[0])[*axis];
                let walked = self.strides.walked(axes, source);
                let mut view = self.clone();
                view.strides = view.strides.without(source);
                let extent = body.ty(node.operands[0]).shape[*axis].clone();
                view.gathers.push(Gathered { indices: node.operands[1], walked, extent, cuts: Vec::new() });
                Some(view)
            }
            _ => None,
        }
    }

    /// The view whose dim a slice has replaced.
    fn cut(&self, axes: &AxisMap, cut: &Cut) -> Option<View> {
        let stride = self.strides.merged(axes, &cut.from)?;
        let mut view = self.clone();
        view.offset = &view.offset + &(&cut.start * &stride);
        view.strides = self.strides.cut(axes, &cut.from, &cut.to, cut.step)?;
        for gathered in &mut view.gathers {
            if axes.flat(gathered.indices).iter().any(|a| cut.from.contains(a)) {
                gathered.cuts.push(cut.clone());
            }
        }
        Some(view)
    }

    /// The axes along which an element of the view moves, be it because one of those moves that say where it lies.
    pub fn walked(&self, axes: &AxisMap, views: &[Option<View>]) -> Vec<AxisId> {
        let mut walked: Vec<AxisId> = self.strides.iter().map(|(axis, _)| *axis).collect();
        for gathered in &self.gathers {
            let indices = views[gathered.indices.0 as usize].as_ref();
            let indices = indices.and_then(|indices| gathered.view(axes, indices));
            walked.extend(indices.iter().flat_map(|view| view.strides.iter().map(|(axis, _)| *axis)));
        }
        walked
    }
}
