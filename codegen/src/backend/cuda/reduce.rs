//! Reductions in the stated order.
//!
//! Thread `t` of a tree holds its accumulators in registers. Ways are combined in the thread, threads of a block of 32
//! by shuffles, blocks through shared memory, every step straight-line and in the order of [`Tree::combine_steps`].
//! Every thread computes the last steps itself, so the result needs no second barrier; two alternating slots keep one
//! reduction's partial results apart from the next one's.

use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal, NanRule, ReduceOp, ScalarFn};
use inkwell::types::{BasicTypeEnum, IntType};
use inkwell::values::IntValue;
use inkwell::{FloatPredicate, IntPredicate};

use super::code::{SHARED, WIDEST};
use super::rows::Rows;
use crate::backend::llvm::cast::literal;
use crate::backend::llvm::map::map;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{InstOp, Order, Tree, Val};

/// Threads of a block that shuffles reach.
const WARP: u32 = 32;

/// A reduction over groups.
pub(super) struct Groups<'a> {
    pub op: ReduceOp,
    pub nan: NanRule,
    pub order: Order,
    pub x: Val,
    pub size: &'a Dim,
}

/// Lanes that one tree combines: `count` of them from `first`.
struct Span<'c> {
    first: IntValue<'c>,
    count: IntValue<'c>,
    /// Whether the count is known to be a multiple of the tree's vector.
    whole_vectors: bool,
}

/// Combines two partial results, each of one or more values.
type Combine<'s, 'a, 'c> = &'s dyn Fn(&Rows<'a, 'c>, &[Value<'c>], &[Value<'c>]) -> Built<Vec<Value<'c>>>;

/// The type of a value of 32 bits.
fn word_type(value: Value<'_>) -> Option<BasicTypeEnum<'_>> {
    let bits = match value {
        Value::FloatValue(value) => value.get_type().get_bit_width(),
        Value::IntValue(value) => value.get_type().get_bit_width(),
        _ => return None,
    };
    (bits == 32).then(|| value.get_type())
}

/// The greatest integer with a sign.
fn greatest(ty: IntType<'_>) -> IntValue<'_> {
    ty.const_int(u64::MAX >> (65 - ty.get_bit_width()), false)
}

pub(super) fn start(op: ReduceOp, dtype: DType) -> Built<Literal> {
    if let DType::F8E4M3 | DType::F8E8M0 | DType::F4E2M1 = dtype {
        return Err(BuildError::unsupported(format!("a reduction in {dtype}, which has no infinity")));
    }
    Ok(op.start(dtype))
}

/// The tree of an order, with `threads` threads where it is free.
pub(super) fn tree(order: Order, threads: u32) -> Built<Tree> {
    match order {
        Order::Tree(tree) if tree.threads == 0 || tree.ways == 0 || tree.vec == 0 => {
            Err(BuildError::unsupported(format!("a tree without accumulators: {order}")))
        }
        Order::Tree(tree) if tree.threads > 1024 => {
            Err(BuildError::unsupported(format!("{} threads of a reduction tree; a block has 1024", tree.threads)))
        }
        Order::Tree(tree) => Ok(tree),
        Order::Relaxed => Ok(Tree::interleaved(threads)),
    }
}

impl<'a, 'c> Rows<'a, 'c> {
    /// Reduces a row to a scalar that every thread holds.
    pub fn reduce_row(&mut self, op: ReduceOp, nan: NanRule, order: Order, x: Val) -> Built<Value<'c>> {
        if let Some(value) = self.reduce_own_row(op, nan, x)? {
            return Ok(value);
        }
        let tree = tree(order, self.frame.threads)?;
        let lanes = self.segment.ty(x).shape.elements();
        let whole_vectors = lanes.exact_div(&Dim::constant(i64::from(tree.vec))).is_some();
        let span = Span { first: self.code.i64(0), count: self.dim(&lanes)?, whole_vectors };
        let dtype = self.segment.ty(x).dtype;
        let f = op.step(nan);
        let combine = move |rows: &Rows<'a, 'c>, a: &[Value<'c>], b: &[Value<'c>]| {
            Ok(vec![map(rows.code, f, dtype, &[a[0], b[0]])?])
        };
        let thread = self.frame.thread;
        let is_of_warps = tree.threads == self.frame.threads && tree.threads.is_multiple_of(WARP);
        let held = self.lanes.as_ref().map_or(0, |lanes| lanes.held.vectors as usize);
        if is_of_warps && let Some(bits) = self.greatest_magnitude(op, nan, x, 0..held)? {
            return self.greatest_of_block(bits);
        }
        let extreme = if is_of_warps { self.packed_extreme(op, nan, x, 0..held)? } else { None };
        let own = match (self.own_lanes(), extreme) {
            (_, Some(extreme)) => vec![extreme],
            (Some(vectors), None) => {
                let start = vec![self.start_of(op, x)?; 2];
                let ways = vectors.iter().enumerate().try_fold(start, |ways, (vector, lanes)| {
                    let folded = self.fold_lanes(op, nan, x, lanes, ways.clone())?;
                    let Some(present) = self.present(vector) else { return Ok(folded) };
                    folded
                        .into_iter()
                        .zip(ways)
                        .map(|(with, without)| self.code.select(present, with, without))
                        .collect()
                })?;
                combine(self, &ways[..1], &ways[1..])?
            }
            (None, None) => self.accumulate(x, &tree, thread, &span, self.start_of(op, x)?, &combine)?,
        };
        if self.is_magnitude(op, nan, x) && is_of_warps {
            let bits = self.code.bits(own[0], self.code.ctx.i32_type())?;
            return self.greatest_of_block(bits.into_int_value());
        }
        if is_of_warps && op == ReduceOp::Max && nan == NanRule::Propagate && dtype == DType::F32 {
            let key = self.ordered(own[0])?;
            let greatest = self.greatest_of_block(key)?;
            let bits = self.turned(self.code.bits(greatest, self.code.ctx.i32_type())?.into_int_value())?;
            return self.code.bits(bits, self.code.ctx.f32_type());
        }
        let warp = self.combine_warp(own, tree.threads, WARP, &combine)?;
        Ok(self.combine_blocks(warp, tree.threads.div_ceil(WARP), &combine)?[0])
    }

    /// Whether a reduction is for the greatest of numbers in f32 without a sign, or NaN: their order is that of their bits.
    fn is_magnitude(&self, op: ReduceOp, nan: NanRule, x: Val) -> bool {
        let defining = &self.segment.insts[self.defining[x.0 as usize]].op;
        op == ReduceOp::Max
            && nan == NanRule::Propagate
            && self.segment.ty(x).dtype == DType::F32
            && matches!(defining, InstOp::Map(ScalarFn::Abs))
    }

    /// The greatest magnitude of a block, of which each thread has one as the bits of an f32, or those of −∞ if it has no
    /// lanes: a warp's in one instruction.
    fn greatest_of_block(&mut self, own: IntValue<'c>) -> Built<Value<'c>> {
        let code = self.code;
        let warp = code.call("llvm.nvvm.redux.sync.max", &[], &[own.into(), code.i32(-1).into()])?;
        let combine = |rows: &Rows<'a, 'c>, a: &[Value<'c>], b: &[Value<'c>]| {
            let ty = [rows.code.ctx.i32_type().into()];
            Ok(vec![rows.code.call("llvm.smax", &ty, &[a[0], b[0]])?])
        };
        let all = self.combine_blocks(vec![warp], self.frame.threads / WARP, &combine)?;
        code.bits(all[0], code.ctx.f32_type())
    }

    /// An integer with a sign that is in the order of a float of 32 or 64 bits: of two zeros the negative is less, and NaN
    /// is the greatest.
    pub fn ordered(&self, x: Value<'c>) -> Built<IntValue<'c>> {
        let code = self.code;
        let float = x.into_float_value();
        let is_nan = code.b.build_float_compare(FloatPredicate::UNO, float, float, "")?;
        let bits = code.bits_of(x)?.into_int_value();
        let key = self.turned(bits)?;
        Ok(code.select(is_nan, greatest(bits.get_type()), key)?.into_int_value())
    }

    /// Bits of a float with those below the sign turned where it is negative, which turns them back as well.
    fn turned(&self, bits: IntValue<'c>) -> Built<IntValue<'c>> {
        let (code, ty) = (self.code, bits.get_type());
        let last = ty.const_int(u64::from(ty.get_bit_width()) - 1, false);
        let sign = code.b.build_right_shift(bits, last, true, "")?;
        let below = code.b.build_and(sign, greatest(ty), "")?;
        Ok(code.b.build_xor(bits, below, "")?)
    }

    /// What a reduction of a value starts from.
    pub fn start_of(&self, op: ReduceOp, x: Val) -> Built<Value<'c>> {
        literal(self.code, &start(op, self.segment.ty(x).dtype)?)
    }

    /// Folds lanes into accumulators that take turns.
    pub fn fold_lanes(
        &mut self,
        op: ReduceOp,
        nan: NanRule,
        x: Val,
        lanes: &[IntValue<'c>],
        mut ways: Vec<Value<'c>>,
    ) -> Built<Vec<Value<'c>>> {
        let (dtype, count) = (self.segment.ty(x).dtype, ways.len());
        let factors = self.exact_factors(op, x);
        let inst = &self.segment.insts[self.defining[x.0 as usize]];
        let is_magnitude = dtype == DType::F32 && matches!(inst.op, InstOp::Map(ScalarFn::Abs));
        let magnitude = is_magnitude.then(|| inst.args[0]);
        for (j, &lane) in lanes.iter().enumerate() {
            if let Some([a, b]) = factors {
                let factors = [self.element(a, lane)?, self.element(b, lane)?];
                ways[j % count] = self.fma(factors[0], factors[1], ways[j % count])?;
                continue;
            }
            let element = match magnitude {
                // The bits of a NaN do not matter here; elsewhere magnitudes keep them.
                Some(of) => {
                    let element = self.element(of, lane)?;
                    self.code.call("llvm.fabs", &[element.get_type()], &[element])?
                }
                None => self.element(x, lane)?,
            };
            ways[j % count] = map(self.code, op.step(nan), dtype, &[ways[j % count], element])?;
        }
        Ok(ways)
    }

    /// The factors of products that are summed, if products are exact: those of two bf16 are but where they are tiny, which
    /// must not show. Then a sum of the product and the product itself round alike.
    fn exact_factors(&self, op: ReduceOp, x: Val) -> Option<[Val; 2]> {
        let segment = self.segment;
        let defining = |value: Val| &segment.insts[self.defining[value.0 as usize]];
        let product = defining(x);
        let &[a, b] = product.args.as_slice() else { return None };
        let narrow = |value: Val| {
            let inst = defining(value);
            inst.op.is_widening() && segment.ty(inst.args[0]).dtype == DType::BF16
        };
        let of_bf16 = matches!(product.op, InstOp::Map(ScalarFn::Mul)) && narrow(a) && narrow(b);
        let hidden = || {
            let mut reductions = segment
                .insts
                .iter()
                .filter(|inst| matches!(inst.op, InstOp::Reduce { op: ReduceOp::Add, .. }) && inst.args.contains(&x));
            a == b && reductions.all(|inst| self.ranges.hides_what_is_tiny(inst.results[0]))
        };
        (op == ReduceOp::Add && of_bf16 && hidden()).then_some([a, b])
    }

    /// Folds the lanes of one thread and combines its ways.
    fn accumulate(
        &mut self,
        x: Val,
        tree: &Tree,
        thread: IntValue<'c>,
        span: &Span<'c>,
        start: Value<'c>,
        combine: Combine<'_, 'a, 'c>,
    ) -> Built<Vec<Value<'c>>> {
        let code = self.code;
        let vec = code.i64(i64::from(tree.vec));
        let idle = code.cmp(IntPredicate::SGE, thread, code.i64(i64::from(tree.threads)))?;
        let first = code.select(idle, span.count, code.mul(thread, vec)?)?.into_int_value();
        let step = code.i64(i64::from(tree.vec) * i64::from(tree.threads));
        let ways = tree.ways as usize;
        let folded = self.each(first, span.count, step, vec![start; ways], |rows, base, carried| {
            let mut ways_so_far = carried.to_vec();
            for j in 0..tree.vec as usize {
                let lane = rows.code.add(base, rows.code.i64(j as i64))?;
                let at = rows.code.add(span.first, lane)?;
                let so_far = ways_so_far[j % ways];
                ways_so_far[j % ways] = if j == 0 || span.whole_vectors {
                    let element = rows.element(x, at)?;
                    combine(rows, &[so_far], &[element])?[0]
                } else {
                    let inside = rows.code.cmp(IntPredicate::SLT, lane, span.count)?;
                    let fold = |rows: &mut Self| {
                        let element = rows.element(x, at)?;
                        combine(rows, &[so_far], &[element])
                    };
                    rows.branch(inside, fold, |_| Ok(vec![so_far]))?[0]
                };
            }
            Ok(ways_so_far)
        })?;
        let mut parts: Vec<Vec<Value<'c>>> = folded.into_iter().map(|v| vec![v]).collect();
        self.halve(&mut parts, combine)
    }

    /// Halves partial results that this thread holds down to one.
    fn halve(&self, parts: &mut Vec<Vec<Value<'c>>>, combine: Combine<'_, 'a, 'c>) -> Built<Vec<Value<'c>>> {
        while parts.len() > 1 {
            let half = parts.len().div_ceil(2);
            for i in 0..parts.len() - half {
                parts[i] = combine(self, &parts[i], &parts[i + half])?;
            }
            parts.truncate(half);
        }
        parts.pop().ok_or_else(|| BuildError::unsupported("a reduction without accumulators"))
    }

    /// Combines the threads of each block of `width` lanes; lane 0 of each block ends with the result.
    pub fn combine_warp(
        &mut self,
        own: Vec<Value<'c>>,
        threads: u32,
        width: u32,
        combine: Combine<'_, 'a, 'c>,
    ) -> Built<Vec<Value<'c>>> {
        let (full, rest) = (threads / width, threads % width);
        match (full, rest) {
            (0, _) => self.combine_lanes(own, rest, width, combine),
            (_, 0) => self.combine_lanes(own, width, width, combine),
            _ => {
                let warp = self.code.b.build_right_shift(self.frame.thread, self.code.i64(5), false, "")?;
                let last = self.code.cmp(IntPredicate::EQ, warp, self.code.i64(i64::from(full)))?;
                let own = &own;
                self.branch(
                    last,
                    |rows| rows.combine_lanes(own.clone(), rest, width, combine),
                    |rows| rows.combine_lanes(own.clone(), width, width, combine),
                )
            }
        }
    }

    fn combine_lanes(
        &self,
        own: Vec<Value<'c>>,
        count: u32,
        width: u32,
        combine: Combine<'_, 'a, 'c>,
    ) -> Built<Vec<Value<'c>>> {
        let lane = self.code.b.build_and(self.frame.thread, self.code.i64(i64::from(width) - 1), "")?;
        let (mut values, mut left) = (own, count);
        while left > 1 {
            let half = left.div_ceil(2);
            let from = values.iter().map(|&v| self.code.shuffle_down(v, half, width)).collect::<Built<Vec<_>>>()?;
            let combined = combine(self, &values, &from)?;
            values = if left % 2 == 0 {
                combined
            } else {
                // The middle one has no partner.
                let paired = self.code.cmp(IntPredicate::ULT, lane, self.code.i64(i64::from(left - half)))?;
                let chosen = combined.iter().zip(&values).map(|(&c, &v)| self.code.select(paired, c, v));
                chosen.collect::<Built<Vec<_>>>()?
            };
            left = half;
        }
        Ok(values)
    }

    /// Combines the results of `count` warps; every thread ends with the result.
    pub fn combine_blocks(
        &mut self,
        warp: Vec<Value<'c>>,
        count: u32,
        combine: Combine<'_, 'a, 'c>,
    ) -> Built<Vec<Value<'c>>> {
        let slot = self.reductions % 2;
        self.reductions += 1;
        let mut slots = Vec::new();
        for (i, value) in warp.iter().enumerate() {
            slots.push(self.slot(*value, slot + 2 * i as u32)?);
        }
        let thread = self.frame.thread;
        let lane = self.code.b.build_and(thread, self.code.i64(31), "")?;
        let index = self.code.b.build_right_shift(thread, self.code.i64(5), false, "")?;
        let leads = self.code.cmp(IntPredicate::EQ, lane, self.code.i64(0))?;
        let counts = self.code.cmp(IntPredicate::ULT, index, self.code.i64(i64::from(count)))?;
        let writes = self.code.b.build_and(leads, counts, "")?;
        self.when(writes, |rows| slots.iter().zip(&warp).try_for_each(|(&slot, &value)| rows.put(slot, index, value)))?;
        self.code.barrier()?;
        let mut parts = Vec::new();
        if let ([slot], [value]) = (&slots[..], &warp[..])
            && let Some(ty) = word_type(*value)
        {
            let words = self.code.load_words(*slot, (4 * count).next_multiple_of(WIDEST), SHARED)?;
            for word in &words[..count as usize] {
                parts.push(vec![self.code.bits(*word, ty)?]);
            }
            return self.halve(&mut parts, combine);
        }
        for i in 0..i64::from(count) {
            let mut part = Vec::new();
            for (&slot, value) in slots.iter().zip(&warp) {
                let (stored, bytes) = self.in_memory(*value)?;
                let address = self.code.add(slot, self.code.i64(i * bytes))?;
                part.push(self.code.load(stored.get_type(), address, SHARED)?);
            }
            parts.push(part);
        }
        self.halve(&mut parts, combine)
    }

    fn slot(&mut self, value: Value<'c>, slot: u32) -> Built<IntValue<'c>> {
        let (stored, bytes) = self.in_memory(value)?;
        let key = (bytes as u32, stored.is_float_value(), slot);
        if let Some(&address) = self.partials.get(&key) {
            return Ok(address);
        }
        let name = format!("{}.partial", self.segment.name);
        let address = self.code.shared_array(&name, stored.get_type(), WARP)?;
        self.partials.insert(key, address);
        Ok(address)
    }

    /// Reduces every group by its own tree into shared memory.
    pub fn reduce_groups(&mut self, groups: &Groups<'_>, results: IntValue<'c>) -> Built<()> {
        let tree = tree(groups.order, 16)?;
        let dtype = self.segment.ty(groups.x).dtype;
        let f = groups.op.step(groups.nan);
        let combine = move |rows: &Rows<'a, 'c>, a: &[Value<'c>], b: &[Value<'c>]| {
            Ok(vec![map(rows.code, f, dtype, &[a[0], b[0]])?])
        };
        let start = self.start_of(groups.op, groups.x)?;
        // A team of lanes per group; trees wider than a warp take the whole block, one group after the other.
        let width = tree.threads.next_power_of_two();
        let (team, lane, teams) = if width <= WARP {
            let width = i64::from(width);
            let team = self.quotient(self.frame.thread, self.code.i64(width))?;
            let lane = self.code.b.build_and(self.frame.thread, self.code.i64(width - 1), "")?;
            (team, lane, i64::from(self.frame.threads) / width)
        } else {
            (self.code.i64(0), self.frame.thread, 1)
        };
        let lanes = self.segment.ty(groups.x).shape.elements();
        let count = self.dim(&lanes.ceil_div(groups.size))?;
        let size = self.dim(groups.size)?;
        let lanes_value = self.dim(&lanes)?;
        let whole_vectors =
            [&lanes, groups.size].iter().all(|d| d.exact_div(&Dim::constant(i64::from(tree.vec))).is_some());
        self.each(self.code.i64(0), count, self.code.i64(teams), Vec::new(), |rows, base, _| {
            let code = rows.code;
            let group = code.add(base, team)?;
            let first = code.mul(group, size)?;
            let left = code.b.build_int_sub(lanes_value, first, "")?;
            let ty = [code.ctx.i64_type().into()];
            let bounded = code.call("llvm.smin", &ty, &[left.into(), size.into()])?;
            let bounded = code.call("llvm.smax", &ty, &[bounded, code.i64(0).into()])?.into_int_value();
            let span = Span { first, count: bounded, whole_vectors };
            let own = rows.accumulate(groups.x, &tree, lane, &span, start, &combine)?;
            let value = if width <= WARP {
                rows.combine_lanes(own, tree.threads, width, &combine)?
            } else {
                let warp = rows.combine_warp(own, tree.threads, WARP, &combine)?;
                rows.combine_blocks(warp, tree.threads.div_ceil(WARP), &combine)?
            };
            let leads = code.cmp(IntPredicate::EQ, lane, code.i64(0))?;
            let exists = code.cmp(IntPredicate::SLT, group, count)?;
            let writes = code.b.build_and(leads, exists, "")?;
            rows.when(writes, |rows| rows.put(results, group, value[0]))?;
            if width > WARP {
                rows.code.barrier()?;
            }
            Ok(Vec::new())
        })?;
        self.code.barrier()
    }
}
