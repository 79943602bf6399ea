//! Index expressions and addresses.
//!
//! The part of an address that no loop
//! counter enters is computed once, where it is first asked for.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::Dim;
use inkwell::values::IntValue;

use super::eval::{Eval, Key};
use crate::backend::host::index::split_constant;
use crate::backend::host::place;
use crate::backend::llvm::{BuildError, Built, index};
use crate::kernel::{INNER, LANE, ParamId, ROW, Val};

/// A position in lanes or groups.
pub(super) type Pos<'c> = place::Pos<IntValue<'c>>;

impl<'c> Eval<'_, '_, 'c> {
    fn symbol(&mut self, name: &str) -> Built<IntValue<'c>> {
        if let Some(v) = Val::from_symbol(name) {
            let signed = self.dtype(v).is_signed_int();
            let value = self.scalar(v)?;
            return Ok(self.code.extend(value, 64, signed)?.into_int_value());
        }
        let bound = match name {
            ROW => self.row,
            INNER => self.inner,
            _ => self.dims.get(name).copied(),
        };
        bound.ok_or_else(|| BuildError::unsupported(format!("`{name}` in an index, which has no value here")))
    }

    fn fold(&mut self, dim: &Dim, lane: Option<IntValue<'c>>) -> Built<IntValue<'c>> {
        let mut names = BTreeSet::new();
        dim.collect_symbols(&mut names);
        let mut values = BTreeMap::new();
        for name in names {
            let value = match lane.filter(|_| name == LANE) {
                Some(lane) => lane,
                None => self.symbol(&name)?,
            };
            values.insert(name, value);
        }
        let named = |name: &str| values.get(name).copied();
        index::dim(self.code, dim, &|name| named(name).ok_or_else(|| BuildError::unsupported(format!("`{name}`"))))
    }

    /// The value of a dim without lanes.
    pub fn dim(&mut self, dim: &Dim) -> Built<IntValue<'c>> {
        if let Some(constant) = dim.as_const() {
            return Ok(self.code.i64(constant));
        }
        let key = Key::Dim(dim.clone());
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.into_int_value());
        }
        let value = self.fold(dim, None)?;
        Ok(self.memo.remember(key, value.into()).into_int_value())
    }

    /// The lane of a position.
    pub fn lane(&mut self, pos: &Pos<'c>) -> Built<IntValue<'c>> {
        if pos.scale == 1 && pos.offset.as_const() == Some(0) {
            return Ok(pos.base);
        }
        let key = Key::Lane(pos.clone());
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.into_int_value());
        }
        let scaled = self.scaled(pos.base, pos.scale)?;
        let offset = self.dim(&pos.offset)?;
        let lane = self.code.add(scaled, offset)?;
        Ok(self.memo.remember(key, lane.into()).into_int_value())
    }

    pub fn scaled(&self, v: IntValue<'c>, by: i64) -> Built<IntValue<'c>> {
        if by == 1 { Ok(v) } else { self.code.mul(v, self.code.i64(by)) }
    }

    /// The element's number for an index at a position.
    pub fn element(&mut self, index: &Dim, pos: Option<&Pos<'c>>) -> Built<IntValue<'c>> {
        if !index.mentions(LANE) {
            return self.dim(index);
        }
        let lane = pos.map(|p| self.lane(p)).transpose()?;
        self.fold(index, lane)
    }

    /// The address of an element of a parameter of at least 8 bits.
    pub fn address(&mut self, param: ParamId, index: &Dim, pos: Option<&Pos<'c>>) -> Built<IntValue<'c>> {
        let buffer = self.buffers[param.0 as usize];
        let bytes = i64::from(self.kernel.param(param).dtype.bits() / 8);
        let linear = index.split_linear(LANE).and_then(|(slope, rest)| Some((slope.as_const()?, rest)));
        let Some((slope, rest)) = linear else {
            let element = self.element(index, pos)?;
            return self.code.add(buffer, self.scaled(element, bytes)?);
        };
        let zero = Dim::constant(0);
        let lanes = pos.map_or(&zero, |p| &p.offset);
        let (start, constant) = split_constant(&(&rest + &(&Dim::constant(slope) * lanes)));
        let mut address = buffer;
        if start.as_const() != Some(0) {
            let elements = self.dim(&start)?;
            address = self.code.add(address, self.scaled(elements, bytes)?)?;
        }
        if let Some(pos) = pos.filter(|_| slope != 0) {
            let step = self.scaled(pos.base, slope.saturating_mul(pos.scale).saturating_mul(bytes))?;
            address = self.code.add(address, step)?;
        }
        let constant = constant.wrapping_mul(bytes);
        if constant == 0 { Ok(address) } else { self.code.add(address, self.code.i64(constant)) }
    }

    /// Computes what of an index no lane enters.
    pub fn prepare_index(&mut self, index: &Dim) -> Built<()> {
        if let Some((slope, rest)) = index.split_linear(LANE)
            && slope.as_const().is_some()
        {
            self.dim(&split_constant(&rest).0)?;
        }
        let mut names = BTreeSet::new();
        index.collect_symbols(&mut names);
        for v in names.iter().filter_map(|name| Val::from_symbol(name)) {
            self.scalar(v)?;
        }
        Ok(())
    }
}
