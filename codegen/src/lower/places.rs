//! Which places of memory a row reads and writes: rows that are padding, indices of gathers and scatters.

use fusewright_fusion::region::Scattered;
use fusewright_graph::axes::Strides;
use fusewright_graph::{DType, Dim, Literal, ScalarFn, Value};

use super::LowerError;
use super::claims::has_places;
use super::emit::Emitter;
use super::space::linear;
use super::view::Gathered;
use crate::kernel::{InstOp, Shape, Val};

impl Emitter<'_> {
    /// Whether this row is one that a value has, if some are padding.
    pub(super) fn before_end(&mut self, value: Value) -> Result<Option<Val>, LowerError> {
        let mut all: Option<Val> = None;
        for i in self.axes.short_dims(self.body, value) {
            let mut dim = self.axes.dims(value).swap_remove(i);
            let mut end = self.body.ty(value).shape[i].clone();
            // Lanes are there as a whole or not at all: no row has both elements and padding.
            let rows = dim.iter().take_while(|&&axis| self.space.is_row(axis)).count();
            let lanes = dim.split_off(rows);
            if !lanes.is_empty() {
                let whole = end.exact_div(&self.count(&lanes)).filter(|_| !dim.is_empty());
                let only_lanes = !lanes.iter().any(|&axis| self.space.is_row(axis));
                end = whole.filter(|_| only_lanes).ok_or_else(|| LowerError::new("lanes that some values fill up"))?;
            }
            let known = self.ends.iter().find(|(axes, e, _)| *axes == dim && *e == end).map(|(_, _, here)| *here);
            let here = match known {
                Some(here) => here,
                None => {
                    let row = self.index(&Strides::of(self.axes, [(&dim[..], &Dim::constant(1))]), &[]);
                    let row = self.push(InstOp::Index(row), &[]).map_err(LowerError::new)?[0];
                    let bound = self.push(InstOp::Index(end.clone()), &[]).map_err(LowerError::new)?[0];
                    self.push(InstOp::Map(ScalarFn::Lt), &[row, bound]).map_err(LowerError::new)?[0]
                }
            };
            if known.is_none() {
                self.ends.push((dim, end, here));
            }
            all = Some(match all {
                Some(before) => self.push(InstOp::Map(ScalarFn::And), &[before, here]).map_err(LowerError::new)?[0],
                None => here,
            });
        }
        Ok(all)
    }

    /// The index that this row gathers from.
    pub(super) fn place(&mut self, gathered: &Gathered, here: Option<Val>) -> Result<Val, LowerError> {
        let along_lanes = || LowerError::new("a gather along lanes");
        if gathered.is_whole() {
            let place = self.value(gathered.indices)?;
            return if self.segment.ty(place).shape == Shape::Scalar { Ok(place) } else { Err(along_lanes()) };
        }
        let views = self.views;
        let whole = views[gathered.indices.0 as usize].as_ref();
        let view = whole.and_then(|view| gathered.view(self.axes, view));
        let view = view.ok_or_else(|| LowerError::new("a slice of what computed indices gather"))?;
        if view.strides.iter().any(|(axis, _)| !self.space.is_row(*axis)) {
            return Err(along_lanes());
        }
        self.load_lanes(&view, &[], Shape::Scalar, here)
    }

    /// Where a scatter writes this row, in elements from its start along the indexed axis, and whether it does.
    pub(super) fn chosen(&mut self, scattered: Scattered, strides: &Strides) -> Result<(Dim, Val), LowerError> {
        let Scattered { node: id, axis, .. } = scattered;
        let operands = &self.body.node(id).operands;
        let place = self.value(operands[1])?;
        if self.segment.ty(place).shape != Shape::Scalar {
            return Err(LowerError::at(id, "a scatter along lanes"));
        }
        let walked = strides.walked(self.axes, &self.axes.dims(operands[0])[axis]);
        let extent = self.body.ty(operands[0]).shape[axis].clone();
        let clamped = self.clamped(place, &extent).map_err(|m| LowerError::at(id, m))?;
        let wide = self.as_i64(place).map_err(|m| LowerError::at(id, m))?;
        let mut here = self.push_at(id, InstOp::Map(ScalarFn::Eq), &[wide, clamped])?[0];
        if !has_places(self.body, &extent) {
            // Of an axis without places the last one is in front of memory.
            let first =
                self.push(InstOp::Literal(Literal::Int(DType::I64, 0)), &[]).map_err(|m| LowerError::at(id, m))?[0];
            let is_place = self.push_at(id, InstOp::Map(ScalarFn::Ge), &[wide, first])?[0];
            here = self.push_at(id, InstOp::Map(ScalarFn::And), &[here, is_place])?[0];
        }
        Ok((linear(&clamped.symbol(), &walked), here))
    }

    /// An index moved into its range: a gather reads the nearest slice, a scatter sees that it was moved and writes none.
    pub(super) fn clamped(&mut self, place: Val, extent: &Dim) -> Result<Val, String> {
        let known = self.clamped.iter().find(|(p, e, _)| *p == place && e == extent);
        if let Some((_, _, clamped)) = known {
            return Ok(*clamped);
        }
        let wide = self.as_i64(place)?;
        let least = self.push(InstOp::Literal(Literal::Int(DType::I64, 0)), &[])?[0];
        let most = self.push(InstOp::Index(extent - &Dim::constant(1)), &[])?[0];
        let above = self.push(InstOp::Map(ScalarFn::Max), &[wide, least])?[0];
        let clamped = self.push(InstOp::Map(ScalarFn::Min), &[above, most])?[0];
        self.clamped.push((place, extent.clone(), clamped));
        Ok(clamped)
    }
}
