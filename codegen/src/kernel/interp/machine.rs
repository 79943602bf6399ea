//! Running one segment on one outer row.

use std::collections::BTreeMap;

use fusewright_graph::{Dim, ScalarFn, num};

use super::memory::{Memory, Refused};
use super::reduce::{arg_reduce, reduce, top_k};
use super::scalar::{cast, map, with_one_nan};
use super::{MAX_ELEMENTS, RunError};
use crate::kernel::simplify::gathered;
use crate::kernel::text::InstText;
use crate::kernel::{INNER, Inst, InstOp, Kernel, LANE, Level, Over, ROW, Segment, Shape, Val};

/// The value of a dim of the kernel.
pub(super) fn eval(dim: &Dim, dims: &BTreeMap<String, i64>, place: &str) -> Result<i64, RunError> {
    let value = dim.eval(&|name| dims.get(name).copied());
    value.map_err(|error| RunError::Dim { place: place.to_owned(), error })
}

/// Elements of a value, and lanes per element of a group.
#[derive(Clone, Copy)]
struct Size {
    elements: usize,
    group: usize,
}

/// Whether an instruction is a store at a place that values say: of two rows with the same place the later one's stays.
fn is_chosen(inst: &Inst) -> bool {
    matches!(inst.op, InstOp::Store { .. }) && gathered(&inst.op).next().is_some()
}

/// A store that waits for the end of its row.
struct Pending {
    inst: usize,
    param: usize,
    index: i64,
    bits: u64,
}

pub(super) struct Machine<'a> {
    kernel: &'a Kernel,
    segment: &'a Segment,
    dims: &'a BTreeMap<String, i64>,
    inner: i64,
    sizes: Vec<Size>,
    levels: Vec<Level>,
    values: Vec<Vec<u64>>,
    /// By instruction, whether it is a store at a place that values say.
    chosen: Vec<bool>,
    started: bool,
    at: (i64, i64),
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        segment: &'a Segment,
        dims: &'a BTreeMap<String, i64>,
    ) -> Result<Self, RunError> {
        let place = format!("segment @{}", segment.name);
        let sizes = segment.types.iter().map(|ty| size(&ty.shape, dims, &place)).collect::<Result<Vec<_>, _>>()?;
        let values = vec![Vec::new(); sizes.len()];
        let inner = eval(&segment.inner, dims, &place)?;
        Ok(Machine {
            kernel,
            segment,
            dims,
            inner,
            sizes,
            levels: segment.levels(),
            chosen: segment.insts.iter().map(is_chosen).collect(),
            values,
            started: false,
            at: (0, 0),
        })
    }

    /// Runs every inner row of an outer row.
    pub(super) fn row(&mut self, row: i64, memory: &mut Memory<'_>) -> Result<(), RunError> {
        for inner in 0..self.inner {
            self.at = (row, inner);
            let mut pending = Vec::new();
            for (i, inst) in self.segment.insts.iter().enumerate() {
                if let InstOp::Store { .. } = inst.op {
                    self.store(i, inst, &mut pending)?;
                    continue;
                }
                let level = inst.results.first().map_or(Level::Inner, |v| self.levels[v.0 as usize]);
                // Memory that the kernel writes is read anew, so that rows that meet are found.
                let volatile = matches!(inst.op, InstOp::Load { param, .. } if memory.is_written(param.0 as usize));
                let known = match level {
                    _ if volatile => false,
                    Level::Kernel => self.started,
                    Level::Outer => inner > 0,
                    Level::Inner => false,
                };
                if !known {
                    let results = self.inst(inst, memory)?;
                    for (value, elements) in inst.results.iter().zip(results) {
                        self.values[value.0 as usize] = elements;
                    }
                }
            }
            self.started = true;
            for store in pending {
                let chosen = self.chosen[store.inst];
                let done = memory.store(store.param, store.index, store.bits, row, chosen);
                done.map_err(|r| self.refused(r, &self.segment.insts[store.inst], store.param, store.index))?;
            }
        }
        Ok(())
    }

    fn inst(&self, inst: &Inst, memory: &Memory<'_>) -> Result<Vec<Vec<u64>>, RunError> {
        let arg = |i: usize| self.values[inst.args[i].0 as usize].as_slice();
        let dtype = |i: usize| self.segment.ty(inst.args[i]).dtype;
        let out = inst.results.first().map(|v| self.sizes[v.0 as usize].elements).unwrap_or_default();
        let one = |elements: Vec<u64>| Ok(vec![elements]);
        match &inst.op {
            InstOp::Literal(literal) => one(vec![literal.code()]),
            InstOp::Index(index) => one(vec![self.address(index, None, inst)? as u64]),
            InstOp::Iota(_) => one((0..out as u64).collect()),
            InstOp::Load { .. } => one(self.load(inst, memory)?),
            InstOp::Store { .. } => Ok(Vec::new()),
            InstOp::Map(f) => one(self.map(inst, *f, out)),
            InstOp::Cast { to, round, saturate } => {
                one(arg(0).iter().map(|&b| cast(dtype(0), b, *to, *round, *saturate)).collect())
            }
            InstOp::Bitcast(_) | InstOp::AsRow | InstOp::AsGroup { .. } => one(arg(0).to_vec()),
            InstOp::Reduce { op, over, nan, order } => {
                let size = match over {
                    Over::Row => arg(0).len().max(1),
                    Over::Group(_) => self.sizes[inst.results[0].0 as usize].group,
                };
                let groups = if *over == Over::Row { 1 } else { out };
                let end = |lane: usize| arg(0).len().min(lane);
                let group = |g: usize| &arg(0)[end(g * size)..end((g + 1) * size)];
                one((0..groups).map(|g| reduce(dtype(0), group(g), *op, *nan, *order)).collect())
            }
            InstOp::ArgReduce(op) => {
                let lane = arg_reduce(dtype(0), arg(0), *op);
                let lane = lane.ok_or_else(|| self.extent(inst, "a row of no lanes has no extreme".to_owned()))?;
                Ok(vec![vec![with_one_nan(dtype(0), arg(0)[lane])], vec![lane as u64]])
            }
            InstOp::TopK { k, over } => {
                let count =
                    |n: &Dim| eval(n, self.dims, &self.place(inst)).map(|n| usize::try_from(n).unwrap_or_default());
                let (k, order) = (count(k)?, dtype(inst.args.len() - 1));
                let size = match over {
                    Over::Row => arg(0).len().max(1),
                    Over::Group(size) => count(size)?.max(1),
                };
                let (mut found, mut places) = (Vec::with_capacity(out), Vec::with_capacity(out));
                let keys = inst.args.len() - 1;
                for (group, keys) in arg(0).chunks(size).zip(arg(keys).chunks(size)) {
                    let lanes = top_k(order, keys, k);
                    found.extend(lanes.iter().map(|&l| with_one_nan(dtype(0), group[l])));
                    places.extend(lanes.iter().map(|&l| l as u64));
                }
                if found.len() != out {
                    return Err(self.extent(inst, format!("{out} of {} lanes", arg(0).len())));
                }
                Ok(vec![found, places])
            }
            InstOp::Slice { start, step, .. } => one(self.slice(inst, arg(0), start, out, *step)?),
            InstOp::Cat => one((0..inst.args.len()).flat_map(|i| arg(i).iter().copied()).collect()),
            InstOp::Zip => {
                let ways = inst.args.len();
                one((0..out).map(|lane| arg(lane % ways)[lane / ways]).collect())
            }
            InstOp::Pack { ways, .. } => {
                let bits = dtype(0).bits();
                let word = |codes: &[u64]| codes.iter().rev().fold(0, |word, code| word << (bits % 64) | code);
                one(arg(0).chunks_exact(*ways as usize).map(word).collect())
            }
            InstOp::Broadcast(shape) => one((0..out).map(|l| self.element(inst.args[0], shape, l)).collect()),
        }
    }

    fn map(&self, inst: &Inst, f: ScalarFn, out: usize) -> Vec<u64> {
        let shape = &self.segment.ty(inst.results[0]).shape;
        let count = inst.args.len();
        let dtype = self.segment.ty(inst.args[count - 1]).dtype;
        let mut operands = [0u64; 3];
        let mut elements = Vec::with_capacity(out);
        for lane in 0..out {
            for (slot, &v) in operands.iter_mut().zip(&inst.args) {
                *slot = self.element(v, shape, lane);
            }
            elements.push(map(f, dtype, &operands[..count]));
        }
        elements
    }

    fn slice(&self, inst: &Inst, lanes: &[u64], start: &Dim, len: usize, step: i64) -> Result<Vec<u64>, RunError> {
        let start = eval(start, self.dims, &self.place(inst))?;
        let lane = |i: usize| usize::try_from((i as i64).checked_mul(step)?.checked_add(start)?).ok();
        let taken: Option<Vec<u64>> = (0..len).map(|i| lanes.get(lane(i)?).copied()).collect();
        taken.ok_or_else(|| self.extent(inst, format!("{len} lanes from {start} by {step} of {}", lanes.len())))
    }

    /// Element `lane` of a value spread over a shape.
    fn element(&self, value: Val, shape: &Shape, lane: usize) -> u64 {
        let elements = &self.values[value.0 as usize];
        match (&self.segment.ty(value).shape, shape) {
            (Shape::Scalar, _) => elements[0],
            (Shape::Group { .. }, Shape::Row(_)) => elements[lane / self.sizes[value.0 as usize].group],
            _ => elements[lane],
        }
    }

    fn load(&self, inst: &Inst, memory: &Memory<'_>) -> Result<Vec<u64>, RunError> {
        let InstOp::Load { param, index, shape, otherwise } = &inst.op else { return Ok(Vec::new()) };
        let param = param.0 as usize;
        let out = self.sizes[inst.results[0].0 as usize].elements;
        let addresses = Addresses::new(self, index, inst)?;
        let mut elements = Vec::with_capacity(out);
        for lane in 0..out {
            let skip = otherwise.filter(|_| self.element(inst.args[0], shape, lane) == 0);
            elements.push(match skip {
                Some(literal) => literal.code(),
                None => {
                    let index = addresses.at(lane)?;
                    memory.load(param, index, self.at.0).map_err(|r| self.refused(r, inst, param, index))?
                }
            });
        }
        Ok(elements)
    }

    fn store(&self, at: usize, inst: &Inst, pending: &mut Vec<Pending>) -> Result<(), RunError> {
        let InstOp::Store { param, index, otherwise } = &inst.op else { return Ok(()) };
        let shape = &self.segment.ty(inst.args[0]).shape;
        let addresses = Addresses::new(self, index, inst)?;
        for (lane, &bits) in self.values[inst.args[0].0 as usize].iter().enumerate() {
            let holds = inst.args.get(1).is_none_or(|&p| self.element(p, shape, lane) != 0);
            let bits = match (holds, otherwise) {
                (true, _) => bits,
                (false, Some(literal)) => literal.code(),
                (false, None) => continue,
            };
            pending.push(Pending { inst: at, param: param.0 as usize, index: addresses.at(lane)?, bits });
        }
        Ok(())
    }

    /// The value of an index at a lane.
    fn address(&self, index: &Dim, lane: Option<usize>, inst: &Inst) -> Result<i64, RunError> {
        let symbol = |name: &str| match name {
            ROW => Some(self.at.0),
            INNER => Some(self.at.1),
            LANE => lane.map(|l| l as i64),
            name => match Val::from_symbol(name) {
                Some(v) => {
                    let bits = *self.values[v.0 as usize].first()?;
                    Some(num::decode_int(self.segment.ty(v).dtype, bits))
                }
                None => self.dims.get(name).copied(),
            },
        };
        index.eval(&symbol).map_err(|error| RunError::Dim { place: self.place(inst), error })
    }

    fn place(&self, inst: &Inst) -> String {
        format!("segment @{}: {}", self.segment.name, InstText { kernel: self.kernel, inst })
    }

    fn extent(&self, inst: &Inst, message: String) -> RunError {
        RunError::Extent { place: self.place(inst), message }
    }

    fn refused(&self, refused: Refused, inst: &Inst, param: usize, element: i64) -> RunError {
        let (place, param) = (self.place(inst), self.kernel.params[param].name.clone());
        let (row, inner) = self.at;
        match refused {
            Refused::Missing => RunError::OutOfBounds { place, param, element, row, inner },
            Refused::WrittenBy(writer) => RunError::Conflict { place, param, element, row, inner, writer },
        }
    }
}

/// The addresses of one access; linear ones are not evaluated lane by lane.
struct Addresses<'m> {
    machine: &'m Machine<'m>,
    index: &'m Dim,
    inst: &'m Inst,
    linear: Option<(i64, i64)>,
}

impl<'m> Addresses<'m> {
    fn new(machine: &'m Machine<'m>, index: &'m Dim, inst: &'m Inst) -> Result<Self, RunError> {
        let linear = match index.split_linear(LANE) {
            // Parts that have no value of their own are left to the whole.
            Some((slope, base)) => {
                let slope = machine.address(&slope, None, inst).ok();
                slope.zip(machine.address(&base, None, inst).ok())
            }
            None => None,
        };
        Ok(Addresses { machine, index, inst, linear })
    }

    fn at(&self, lane: usize) -> Result<i64, RunError> {
        let fast = self.linear.and_then(|(slope, base)| slope.checked_mul(lane as i64)?.checked_add(base));
        fast.map_or_else(|| self.machine.address(self.index, Some(lane), self.inst), Ok)
    }
}

fn size(shape: &Shape, dims: &BTreeMap<String, i64>, place: &str) -> Result<Size, RunError> {
    let bounded = |dim: &Dim, least: i64| {
        let value = eval(dim, dims, place)?;
        let fits = (least..=MAX_ELEMENTS).contains(&value);
        let message = || format!("an extent of {value}");
        if fits { Ok(value as usize) } else { Err(RunError::Extent { place: place.to_owned(), message: message() }) }
    };
    Ok(match shape {
        Shape::Scalar => Size { elements: 1, group: 1 },
        Shape::Row(lanes) => Size { elements: bounded(lanes, 0)?, group: 1 },
        Shape::Group { lanes, size } => {
            let lanes = bounded(lanes, 0)?;
            let group = bounded(size, i64::from(lanes > 0))?.max(1);
            // Groups of no lanes are as many as they are of any other size; where that is not known, there are none.
            let empty = || bounded(&shape.elements(), 0).unwrap_or(0);
            Size { elements: if lanes == 0 { empty() } else { lanes.div_ceil(group) }, group }
        }
    })
}
