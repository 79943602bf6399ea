//! Axes along which some values end before others do. A value and the result of padding it share such an axis.
//!
//! The axis has the extent of its longest value. A dim that ends early is that axis alone, or that axis ahead of others. Behind
//! another axis it is refused: elements of the shorter value lie closer together there than the axes say.

use std::collections::BTreeSet;

use super::{AxisError, AxisId, AxisMap, DimAxes, State};
use crate::dim;
use crate::graph::{Graph, NodeId, Value};

impl AxisMap {
    /// Analyses a graph as [`AxisMap::of`] does, but gives a value and the results of padding it one axis, with the extent of the
    /// longest result. The nodes in `joins` keep an axis of their own.
    ///
    /// # Errors
    /// As [`AxisMap::of`]; padding of a dim of several axes, of one axis to lengths of which none is known to be the longest, or of an
    /// axis that is behind another in one dim.
    pub fn with_padded_rows(graph: &Graph, joins: &BTreeSet<NodeId>) -> Result<AxisMap, AxisError> {
        let keeps_padded = Some(joins.clone());
        let mut map = AxisMap::analyse(graph, AxisMap { keeps_padded, ..AxisMap::default() })?;
        let mut longest: Vec<AxisId> = Vec::new();
        for (node, short, long) in map.padded.clone() {
            let error = |message: &str| AxisError { node, message: message.to_owned() };
            let (&[short], &[long]) = (&map.resolve(&short)[..], &long[..]) else {
                return Err(error("pads a dim of several axes"));
            };
            let long = map.root(long);
            if short == long {
                continue;
            }
            // Of an axis that is padded to two lengths the larger one counts.
            let further = (map.extent(long) - map.extent(short)).as_const();
            let (from, to) = match further {
                Some(by) if by < 0 => (long, short),
                None if longest.contains(&short) => return Err(error("pads an axis to lengths that are not compared")),
                _ => (short, long),
            };
            map.axes[from.0 as usize].1 = State::Same(to);
            longest.retain(|axis| *axis != from);
            longest.push(to);
        }
        map.check_padded(graph)?;
        Ok(map)
    }

    /// Checks that every dim that ends early is a padded axis, or begins with one.
    fn check_padded(&self, graph: &Graph) -> Result<(), AxisError> {
        let padded: Vec<(NodeId, DimAxes)> =
            self.padded.iter().map(|(node, _, long)| (*node, self.resolve(long))).collect();
        for value in (0..graph.value_count() as u32).map(Value) {
            let dims = self.dims(value);
            for i in self.short_dims(graph, value) {
                let begins = padded.iter().find(|(_, axes)| dims[i].starts_with(axes));
                let rest = begins.map_or(&dims[i][..], |(_, axes)| &dims[i][axes.len()..]);
                let behind = padded.iter().find(|(_, axes)| rest.iter().any(|axis| axes.contains(axis)));
                let whole = graph.ty(value).shape[i].exact_div(&dim::product(rest.iter().map(|&a| self.extent(a))));
                if begins.is_none() || behind.is_some() || whole.is_none() {
                    let Some((node, _)) = behind.or(begins).or(padded.first()) else { continue };
                    let message = "pads an axis behind another in one dim".to_owned();
                    return Err(AxisError { node: *node, message });
                }
            }
        }
        Ok(())
    }

    /// The axis that an axis is the same as, however it is split.
    fn root(&self, axis: AxisId) -> AxisId {
        match self.axes[axis.0 as usize].1 {
            State::Same(other) => self.root(other),
            State::Leaf | State::Split(..) => axis,
        }
    }

    /// Says whether a node pads an axis that it keeps.
    pub fn pads(&self, node: NodeId) -> bool {
        self.padded.iter().any(|(id, ..)| *id == node)
    }

    /// Says whether some node pads an axis that it keeps.
    pub fn has_padded_rows(&self) -> bool {
        !self.padded.is_empty()
    }

    /// The dims of a value that end before their axes do.
    pub fn short_dims(&self, graph: &Graph, value: Value) -> Vec<usize> {
        if !self.has_padded_rows() {
            return Vec::new();
        }
        let extents = self.dims(value).into_iter().map(|dim| dim::product(dim.iter().map(|&a| self.extent(a))));
        let shape = &graph.ty(value).shape;
        extents.zip(shape).enumerate().filter(|(_, (axes, dim))| axes != *dim).map(|(i, _)| i).collect()
    }
}
