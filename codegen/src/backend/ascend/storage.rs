//! Where values are: tensors in output queues, in joins, among temporaries, or kept for the whole kernel.

use fusewright_abi::DType;
use fusewright_templates::ascend as template;

use super::EmitError;
use super::memory::{BLOCK, Tensor};
use super::segment::{Made, Writer};
use super::text;
use crate::kernel::Val;

/// Where the places of what is kept begin, as [`Tensor::work`] counts.
const KEPT: u64 = 1 << 40;

impl Writer<'_> {
    /// The tensor of a value.
    pub fn tensor(&self, value: Val) -> Made<Tensor> {
        let found = self.tensors.get(&value).cloned();
        found.ok_or_else(|| EmitError::unsupported(format!("{value:?} is not in unified buffer")))
    }

    /// Whether a value is in unified buffer lane by lane.
    pub fn has_tensor(&self, value: Val) -> bool {
        self.tensors.contains_key(&value)
    }

    /// Makes `tensor` the place of a value.
    pub fn bind(&mut self, value: Val, tensor: Tensor) {
        self.tensors.insert(value, tensor);
    }

    /// Where to compute a value: its output queue, its place in a join, the place of a dying operand of equal size, or
    /// new bytes.
    pub fn destination(&mut self, value: Val, wish: &str, operands: &[Val]) -> Made<Tensor> {
        if let Some(tensor) = self.tensors.get(&value) {
            return Ok(tensor.clone());
        }
        if let Some(&(whole, start)) = self.placed.get(&value) {
            let lanes = self.lanes(value)?;
            let part = self.destination(whole, "joined", &[])?.part(start, lanes)?;
            self.tensors.insert(value, part.clone());
            return Ok(part);
        }
        let dtype = self.dtype(value);
        let (lanes, size) = (self.most(value)?, self.size(dtype));
        let last = self.last_of(value);
        let dying = operands.iter().find_map(|&o| {
            let tensor = self.tensors.get(&o)?;
            let fits = tensor.offset == 0 && tensor.lanes == lanes && tensor.size == size && self.root(o) == o;
            tensor.work.filter(|_| fits)
        });
        let step = self.step;
        let at = match dying {
            Some(at) if last != usize::MAX && self.work.take_over(at, lanes * size, step, last) => at,
            _ => self.claim(lanes * size, step, last),
        };
        let element = self.element(dtype)?;
        let tensor = self.declare_tensor(wish, element, lanes, size, at);
        self.tensors.insert(value, tensor.clone());
        Ok(tensor)
    }

    /// Whether a tensor of temporaries is needed by no later step.
    pub fn dies(&self, tensor: &Tensor) -> bool {
        let holders = self.tensors.iter().filter(|(_, t)| t.work == tensor.work && t.var == tensor.var);
        let mut last = holders.map(|(v, _)| self.last_of(*v)).peekable();
        tensor.work.is_some_and(|at| at < KEPT) && last.peek().is_some() && last.all(|last| last <= self.step)
    }

    /// The last step that needs a value.
    pub fn last_of(&self, value: Val) -> usize {
        self.last_use.get(&self.root(value)).copied().unwrap_or(self.step)
    }

    /// A tensor that only this step uses.
    pub fn scratch(&mut self, wish: &str, element: &'static str, lanes: u64, size: u64) -> Tensor {
        let step = self.step;
        let at = self.claim(lanes * size, step, step);
        self.declare_tensor(wish, element, lanes, size, at)
    }

    /// A tensor that stays until a step.
    pub fn lasting(&mut self, wish: &str, element: &'static str, lanes: u64, size: u64, last: usize) -> Tensor {
        let step = self.step;
        let at = self.claim(lanes * size, step, last);
        self.declare_tensor(wish, element, lanes, size, at)
    }

    /// A tensor that stays for all tiles.
    pub fn kept_tensor(&mut self, wish: &str, element: &'static str, lanes: u64, size: u64) -> Tensor {
        let before = std::mem::replace(&mut self.at_start, true);
        let tensor = self.lasting(wish, element, lanes, size, usize::MAX);
        self.at_start = before;
        tensor
    }

    /// Bytes for a value that lives until a step; what all tiles use has a buffer of its own.
    fn claim(&mut self, bytes: u64, step: usize, last: usize) -> u64 {
        if last == usize::MAX { KEPT + self.kept.claim(bytes, 0, last) } else { self.work.claim(bytes, step, last) }
    }

    fn declare_tensor(&mut self, wish: &str, element: &'static str, lanes: u64, size: u64, at: u64) -> Tensor {
        let var = self.names.claim(wish);
        let lanes_of_block = (BLOCK / size).max(1);
        let (buffer, place) = if at >= KEPT { ("kept", at - KEPT) } else { ("work", at) };
        let lanes_there = lanes.next_multiple_of(lanes_of_block).max(lanes_of_block);
        let line = format!("LocalTensor<{element}> {var} = {buffer}.GetWithOffset<{element}>({lanes_there}, {place});");
        if self.at_start {
            // Statements of tiles use it as well.
            self.out.kept.push(template::Kept { tensor: var.clone(), element });
            let assigned = line.split_once("> ").map_or(line.clone(), |(_, rest)| rest.to_owned());
            self.fixed.plain(assigned);
        } else {
            self.tiled.plain(line);
        }
        Tensor { var, offset: 0, lanes, size, work: Some(at) }
    }

    /// The C++ type of an element as this chip has it in unified buffer.
    pub fn element(&self, dtype: DType) -> Made<&'static str> {
        let missing = |why: &str| Err(EmitError::unsupported(format!("{dtype} on {}: {why}", self.chip.vendor)));
        if let Some(why) = self.chip.lacks(dtype) {
            return missing(why);
        }
        match dtype {
            DType::F8E4M3 | DType::F8E5M2 if !self.chip.fp8 => Ok("uint8_t"),
            DType::Bool | DType::F8E8M0 => Ok("uint8_t"),
            // A code in the low bits of a word until it is packed.
            DType::F4E2M1 => Ok("int32_t"),
            DType::F64 => missing("its vector unit has none"),
            _ => text::element(dtype).map_or_else(|| missing("no such element"), Ok),
        }
    }

    /// Bytes of an element in unified buffer.
    pub fn size(&self, dtype: DType) -> u64 {
        match dtype {
            DType::F4E2M1 => 4,
            other => u64::from(other.bits()).div_ceil(8),
        }
    }
}
