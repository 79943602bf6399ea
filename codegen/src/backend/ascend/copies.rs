//! What moves between global memory and unified buffer: loads, stores, and the loops that address them.

use std::collections::BTreeSet;

use fusewright_abi::DType;
use fusewright_graph::Dim;
use fusewright_templates::ascend as template;

use super::EmitError;
use super::lanes::Offsets;
use super::memory::{BLOCK, Tensor};
use super::runs::{Runs, runs};
use super::segment::{Made, Writer};
use super::text;
use crate::kernel::{INNER, Inst, InstOp, Level, Param, ROW, Shape, Val};

/// Most blocks of one copy.
const MOST_BLOCKS: u64 = 4095;

/// One side of a copy.
struct Side {
    param: u32,
    runs: Runs,
    /// Elements per row.
    elements: u64,
    size: u64,
    level: Level,
    /// Condition under which a row is moved.
    condition: Option<String>,
}

impl Side {
    /// Says whether data chooses where it lies.
    fn is_chosen(&self) -> bool {
        let mut names = BTreeSet::new();
        self.runs.start.collect_symbols(&mut names);
        names.iter().any(|name| Val::from_symbol(name).is_some())
    }
}

/// Which way a copy goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

impl Writer<'_> {
    /// A row, or scalars of which each is one lane.
    pub fn load(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let InstOp::Load { param, index, otherwise: None, .. } = &inst.op else {
            return Err(EmitError::unsupported("a masked load"));
        };
        self.places_are_scalars(index)?;
        let dtype = self.dtype(result);
        let scalar = !matches!(self.shape(result), Shape::Row(_));
        let single = self.tile.most(self.level(result)) == 1 && *self.shape(result) == Shape::Scalar;
        if single && dtype == DType::F32 {
            return self.load_single(param.0, index, result);
        }
        let side = self.side(param.0, index, result, None)?;
        let lanes = self.tile.most(self.level(result)) * side.elements;
        let (element, size) = (self.element(dtype)?, side.size);
        if !self.at_start && self.is_scattered(&side) && matches!(size, 2 | 4) {
            return self.load_scattered(side, result);
        }
        let wish = format!("{}In", self.params[param.0 as usize]);
        if self.at_start {
            if side.runs.run as u64 != side.elements {
                let what = format!("lanes that are {} apart in memory, the same for all rows", side.runs.step);
                return Err(EmitError::unsupported(what));
            }
            let last = self.last_of(result);
            let tensor = self.lasting(&wish, element, lanes, size, last);
            let from = self.place(&side, &[]);
            let line = format!("{}::LoadFixed({}, {from}, {});", self.chip.copies().1, tensor.text(), side.elements);
            self.fixed.plain(line);
            return self.loaded(result, tensor, scalar);
        }
        let var = self.names.claim(&wish);
        let tensor = Tensor { var: var.clone(), offset: 0, lanes, size, work: None };
        let bytes = (lanes * size).next_multiple_of(BLOCK).max(BLOCK);
        let queue = template::Queue { tensor: var.clone(), element, bytes };
        let copies = self.copies(Way::In, &tensor, &side)?;
        let stored: Vec<&Inst> = self.uses(result).filter(|i| matches!(i.op, InstOp::Store { .. })).collect();
        if stored.len() == 1 && self.uses(result).count() == 1 {
            let own = self.params[param.0 as usize].clone();
            self.moved.insert(result, template::Move { queue: queue.clone(), buffer: own, index: index.to_string() });
            self.out.moves.push(queue);
            self.copy_in(&var, element, copies);
            return Ok(());
        }
        self.out.inputs.push(queue);
        self.copy_in(&var, element, copies);
        self.loaded(result, tensor, scalar)
    }

    /// Makes what was loaded the place of a value; of conditions, which lie in bytes, that of their bits.
    fn loaded(&mut self, value: Val, tensor: Tensor, scalar: bool) -> Made<()> {
        if self.dtype(value) == DType::Bool && !scalar {
            return self.mask_of_bytes(value, &tensor);
        }
        self.put(value, tensor, scalar);
        Ok(())
    }

    /// Whether a tile's part of a value is single elements that lie apart.
    fn is_scattered(&self, side: &Side) -> bool {
        side.elements == 1
            && self.tile.rows.min(self.tile.inners) == 1
            && self.tile.most(side.level) > 1
            && !self.is_contiguous(side)
            && self.per_row(side).is_some()
    }

    /// Elements that lie apart in memory: each into a block, then side by side.
    fn load_scattered(&mut self, side: Side, result: Val) -> Made<()> {
        let dtype = self.dtype(result);
        let (element, size) = (self.element(dtype)?, side.size);
        let most = self.tile.most(side.level);
        let var = self.names.claim(&format!("{}Apart", self.params[side.param as usize]));
        let tensor = Tensor { var: var.clone(), offset: 0, lanes: most * BLOCK / size, size, work: None };
        let copies = self.tile_copies(Way::In, &tensor, &side);
        let copies =
            copies.ok_or_else(|| EmitError::TooLarge(format!("{most} elements that lie apart in one copy")))?;
        self.out.inputs.push(template::Queue { tensor: var.clone(), element, bytes: most * BLOCK });
        self.copy_in(&var, element, copies);
        let table = self.table(most, Offsets { scale: BLOCK, ..Offsets::default() });
        let last = self.last_of(result);
        let to = self.lasting(&format!("{}In", self.params[side.param as usize]), element, most, size, last);
        let count = self.tile.times(side.level);
        let line = format!("Gather({}, {}, {}, 0, {count});", to.text(), tensor.text(), table.text());
        self.steps().vector(line, &[&tensor, &table], &to);
        let scalar = !matches!(self.shape(result), Shape::Row(_));
        self.put(result, to, scalar);
        Ok(())
    }

    fn put(&mut self, value: Val, tensor: Tensor, scalar: bool) {
        if scalar {
            self.packed.insert(value, tensor);
        } else {
            self.bind(value, tensor);
        }
    }

    fn copy_in(&mut self, var: &str, element: &str, copies: Vec<String>) {
        let lines = &mut self.out.copy_in;
        lines.push(format!("LocalTensor<{element}> {var} = {var}Queue.AllocTensor<{element}>();"));
        lines.extend(copies);
        lines.push(format!("{var}Queue.EnQue({var});"));
    }

    /// An f32 that there is one of: read as a scalar.
    fn load_single(&mut self, param: u32, index: &Dim, result: Val) -> Made<()> {
        let buffer = self.buffer(param)?;
        let at = self.address(index);
        let name = self.names.claim(&buffer);
        if !self.at_start {
            self.declare_ahead(std::slice::from_ref(&at));
        }
        let to = self.destination(result, &name, &[])?;
        let line = format!("Duplicate({}, {buffer}Gm.GetValue({at}), {});", to.text(), super::tile::COPIES);
        self.steps().vector(line, &[], &to);
        Ok(())
    }

    /// A row to memory.
    pub fn store(&mut self, inst: &Inst) -> Made<()> {
        let InstOp::Store { param, index, otherwise: None } = &inst.op else {
            return Err(EmitError::unsupported("a store that writes something else where it is masked"));
        };
        let value = inst.args[0];
        let condition = match inst.args.get(1) {
            None => None,
            Some(&mask) => Some(
                self.expression(mask)
                    .ok_or_else(|| EmitError::unsupported("a mask with a lane of its own for every element"))?,
            ),
        };
        let side = self.side(param.0, index, value, condition)?;
        if let Some(moved) = self.moved.remove(&value) {
            self.check_move(&moved, self.kernel.param(*param), index)?;
            let var = moved.queue.tensor.clone();
            let tensor = Tensor { var: var.clone(), offset: 0, lanes: 0, size: side.size, work: None };
            let copies = self.copies(Way::Out, &tensor, &side)?;
            self.copy_out(&var, moved.queue.element, copies);
            return Ok(());
        }
        let tensor = self.in_output(value, param.0)?;
        let copies = self.copies(Way::Out, &tensor, &side)?;
        let element = self.element(self.dtype(value))?;
        self.copy_out(&tensor.var, element, copies);
        Ok(())
    }

    /// Copies of a tensor that is stored several times stand together.
    fn copy_out(&mut self, var: &str, element: &'static str, copies: Vec<String>) {
        match self.out.stores.iter_mut().find(|s| s.tensor == var) {
            Some(store) => store.copies.extend(copies),
            None => self.out.stores.push(template::Store { tensor: var.to_owned(), element, copies }),
        }
    }

    /// Rows are moved on their own way, before or behind what is computed.
    fn check_move(&self, moved: &template::Move, into: &Param, index: &Dim) -> Made<()> {
        let from = &moved.buffer;
        let alias = |p: &Param| p.alias.is_some_and(|i| self.params[i.0 as usize] == *from);
        if let Some(other) = self.kernel.params.iter().find(|p| alias(p) && p.name != into.name) {
            return Err(EmitError::unsupported(format!("a copy of what `{}` overwrites", other.name)));
        }
        if alias(into) && moved.index != index.to_string() {
            return Err(EmitError::unsupported("a copy to other places of what it overwrites"));
        }
        Ok(())
    }

    /// Refuses an index that mentions a place which no scalar of the loop over rows holds.
    fn places_are_scalars(&self, index: &Dim) -> Made<()> {
        let mut names = BTreeSet::new();
        index.collect_symbols(&mut names);
        let unknown = |name: &&String| Val::from_symbol(name).is_some_and(|v| self.expression(v).is_none());
        match names.iter().find(unknown) {
            Some(name) => Err(EmitError::unsupported(format!("the place {name}, which no scalar of a row holds"))),
            None => Ok(()),
        }
    }

    fn side(&mut self, param: u32, index: &Dim, value: Val, condition: Option<String>) -> Made<Side> {
        let elements = self.elements(value)?;
        let found = i64::try_from(elements).ok().and_then(|n| runs(index, n));
        let runs =
            found.ok_or_else(|| EmitError::unsupported(format!("lanes at `{index}`: copies take runs of elements")))?;
        self.places_are_scalars(index)?;
        self.buffer(param)?;
        let size = self.size(self.dtype(value));
        Ok(Side { param, runs, elements, size, level: self.level(value), condition })
    }

    /// The memory of a side from a tile's first row on; `names` are variables of loops around it.
    fn place(&self, side: &Side, names: &[&str]) -> String {
        let at = text::index(&side.runs.start, &|name| match name {
            ROW | INNER if !names.contains(&name) => format!("tile.{name}"),
            _ => self.symbol(name),
        });
        format!("{}Gm[{at}]", self.params[side.param as usize])
    }

    /// The statements that copy a tile's part of a value.
    fn copies(&mut self, way: Way, tensor: &Tensor, side: &Side) -> Made<Vec<String>> {
        let aligned = (side.elements * side.size).is_multiple_of(BLOCK);
        if !self.tile.is_single() && !aligned && !self.is_contiguous(side) {
            return Err(EmitError::Single);
        }
        let whole = side.runs.run as u64 == side.elements;
        let plain = whole && side.condition.is_none() && self.per_row(side).is_some();
        if plain && let Some(lines) = self.tile_copies(way, tensor, side) {
            return Ok(lines);
        }
        self.row_copies(way, tensor, side)
    }

    /// Elements from row to row and from inner row to inner row, where addresses are linear in both.
    fn per_row(&self, side: &Side) -> Option<(Dim, Dim)> {
        let (by_row, rest) = side.runs.start.split_linear(ROW)?;
        let (by_inner, rest) = rest.split_linear(INNER)?;
        let mut names = BTreeSet::new();
        rest.collect_symbols(&mut names);
        let varies = names.iter().any(|n| Val::from_symbol(n).is_some_and(|v| self.tile.most(self.level(v)) > 1));
        (!varies && !by_row.mentions(INNER)).then_some((by_row, by_inner))
    }

    /// Whether a tile's part of a value is one run of memory.
    fn is_contiguous(&self, side: &Side) -> bool {
        let Some((by_row, by_inner)) = self.per_row(side) else { return false };
        let n = Dim::constant(side.elements as i64);
        let inner_fits = side.level != Level::Inner || self.tile.inners == 1 || by_inner == n;
        let wide = if side.level == Level::Inner { &n * &self.tile.inner } else { n };
        let rows_fit = side.level == Level::Kernel || self.tile.rows == 1 || by_row == wide;
        inner_fits && rows_fit && side.condition.is_none() && side.runs.run as u64 == side.elements
    }

    /// Whole tiles in one copy, or in one per outer row.
    fn tile_copies(&mut self, way: Way, tensor: &Tensor, side: &Side) -> Option<Vec<String>> {
        let (by_row, by_inner) = self.per_row(side)?;
        let gm = self.place(side, &[]);
        let n = side.elements;
        let dim = |n: u64| Dim::constant(n as i64);
        let far_enough = |step: &Dim, n: u64| step.as_const().is_none_or(|s| s >= n as i64);
        let declared = |writer: &Self, lines: Vec<String>| {
            let mut all = writer.declared(&lines);
            all.extend(lines);
            all
        };
        if self.is_contiguous(side) {
            let count = self.tile.times(side.level).of(n);
            return Some(declared(self, self.copy(way, side, [&tensor.text(), &gm], &[count.to_string()])));
        }
        let inner_level = side.level == Level::Inner && self.tile.inners > 1;
        if !inner_level || by_inner == dim(n) {
            // Each outer row is one run.
            let per_row = if inner_level { self.tile.inners * n } else { n };
            if !far_enough(&by_row, per_row) || self.tile.rows > MOST_BLOCKS {
                return None;
            }
            let pitch = text::index(&by_row, &|name| self.symbol(name));
            let shape = ["tile.rows".to_owned(), per_row.to_string(), pitch];
            return Some(declared(self, self.copy(way, side, [&tensor.text(), &gm], &shape)));
        }
        if !far_enough(&by_inner, n) || self.tile.inners > MOST_BLOCKS {
            return None;
        }
        let pitch = text::index(&by_inner, &|name| self.symbol(name));
        let shape = ["tile.inners".to_owned(), n.to_string(), pitch];
        if self.tile.rows == 1 {
            return Some(declared(self, self.copy(way, side, [&tensor.text(), &gm], &shape)));
        }
        let at = format!("{}[r * {}]", tensor.var, self.tile.inners * n);
        let gm = self.place(side, &[ROW]);
        let body = self.copy(way, side, [&at, &gm], &shape);
        Some(self.over_rows(body))
    }

    /// Row by row.
    fn row_copies(&mut self, way: Way, tensor: &Tensor, side: &Side) -> Made<Vec<String>> {
        let n = side.elements;
        let inner_level = side.level == Level::Inner && self.tile.inners > 1;
        let at = match (self.tile.rows > 1 && side.level != Level::Kernel, inner_level) {
            (false, false) => String::new(),
            (true, false) => format!("r * {n}"),
            (false, true) => format!("i * {n}"),
            (true, true) => format!("(r * tile.inners + i) * {n}"),
        };
        let rows_looped = self.tile.rows > 1 && side.level != Level::Kernel;
        let looped = [(rows_looped, ROW), (inner_level, INNER)];
        let names: Vec<&str> = looped.into_iter().filter(|(looped, _)| *looped).map(|(_, name)| name).collect();
        let gm = self.place(side, &names);
        let at = if at.is_empty() { tensor.text() } else { format!("{}[{at}]", tensor.var) };
        let run = side.runs.run as u64;
        let shape = if run == n {
            vec![n.to_string()]
        } else {
            if run > 1 && !(run * side.size).is_multiple_of(BLOCK) || run == 1 {
                let what = format!("lanes that are {} apart in memory", side.runs.step);
                return Err(EmitError::unsupported(what));
            }
            vec![(n / run).to_string(), run.to_string(), text::index(&side.runs.step, &|name| self.symbol(name))]
        };
        let mut body = self.copy(way, side, [&at, &gm], &shape);
        if let Some(condition) = &side.condition {
            body = [vec![format!("if ({condition}) {{")], indented(body), vec!["}".to_owned()]].concat();
        }
        if inner_level {
            body = self.loop_of("i", "tile.inners", INNER, body);
        }
        if self.tile.rows > 1 && side.level != Level::Kernel {
            return Ok(self.over_rows(body));
        }
        let mut lines = self.declared(&body);
        lines.extend(body);
        Ok(lines)
    }

    /// One copy. Of two rows that chose one place the later one has to stay, and copies out are in no order by themselves.
    fn copy(&self, way: Way, side: &Side, [tensor, gm]: [&str; 2], shape: &[String]) -> Vec<String> {
        let (copies, shape) = (self.chip.copies().1, shape.join(", "));
        match way {
            Way::In => vec![format!("{copies}::CopyIn({tensor}, {gm}, {shape});")],
            Way::Out => {
                let barrier = side.is_chosen().then(|| "PipeBarrier<PIPE_MTE3>();".to_owned());
                let copy = format!("{copies}::CopyOut({gm}, {tensor}, {shape});");
                barrier.into_iter().chain([copy]).collect()
            }
        }
    }

    fn over_rows(&self, body: Vec<String>) -> Vec<String> {
        self.loop_of("r", "tile.rows", ROW, body)
    }

    fn loop_of(&self, variable: &str, count: &str, name: &str, body: Vec<String>) -> Vec<String> {
        let mut inside = self.declared(&body);
        inside.extend(body);
        if inside.iter().any(|l| text::mentions_variable(l, name)) {
            inside.insert(0, format!("const int64_t {name} = tile.{name} + {variable};"));
        }
        let head = format!("for (uint32_t {variable} = 0; {variable} < {count}; ++{variable}) {{");
        [vec![head], indented(inside), vec!["}".to_owned()]].concat()
    }
}

fn indented(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| format!("    {line}")).collect()
}
