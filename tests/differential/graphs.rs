//! Random graphs whose rows are independent: what a fused region may hold, in every combination that types allow.

use fusewright::graph::ops::{Composite, Floor, QuantizeDynamic, RmsNorm, RmsRounding, Sigmoid, Silu, SiluForm};
use fusewright::graph::{
    Builder, DType, Dim, Graph, Literal, NanRule, Op, Prim, ReduceOp, Rounding, ScalarFn, TensorType, Value, infer, num,
};

use fusewright::inputs::Random;

#[path = "heads.rs"]
mod heads;
#[path = "masks.rs"]
mod masks;
#[path = "padded.rs"]
mod padded;
#[path = "places.rs"]
mod places;
#[path = "shifts.rs"]
mod shifts;

/// What a graph leans to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Plain rows: maps, casts, reductions, quantisers.
    Rows,
    /// Rows of heads and groups: reshapes, permutations, cuts, rotations as well.
    Heads,
    /// Short axes that are filled up, cut, joined, written into and reduced, in every order.
    Padded,
    /// Slices that are read, written and combined at places along every axis.
    Places,
    /// Tensors beside themselves, some places further along an axis.
    Shifted,
}

const FLOATS: [DType; 6] = [DType::BF16, DType::BF16, DType::BF16, DType::F32, DType::F32, DType::F16];
const LANES: [i64; 16] = [1, 2, 3, 8, 15, 16, 17, 24, 31, 64, 65, 127, 128, 255, 257, 300];
/// Most elements of one row of any value.
const WIDEST: i64 = 1024;
const MOST_OUTPUTS: usize = 6;

const UNARY: [ScalarFn; 9] = [
    ScalarFn::Neg,
    ScalarFn::Abs,
    ScalarFn::Sqrt,
    ScalarFn::Recip,
    ScalarFn::Floor,
    ScalarFn::Ceil,
    ScalarFn::Trunc,
    ScalarFn::RoundEven,
    ScalarFn::Neg,
];
const APPROXIMATE: [ScalarFn; 11] = [
    ScalarFn::Rsqrt,
    ScalarFn::Exp,
    ScalarFn::Exp2,
    ScalarFn::Log,
    ScalarFn::Log2,
    ScalarFn::Sin,
    ScalarFn::Cos,
    ScalarFn::Tanh,
    ScalarFn::Erf,
    ScalarFn::Erfc,
    ScalarFn::Erfinv,
];
const BINARY: [ScalarFn; 12] = [
    ScalarFn::Add,
    ScalarFn::Add,
    ScalarFn::Sub,
    ScalarFn::Mul,
    ScalarFn::Mul,
    ScalarFn::Mul,
    ScalarFn::Div,
    ScalarFn::Max,
    ScalarFn::Min,
    ScalarFn::MaxNum,
    ScalarFn::MinNum,
    ScalarFn::Rem,
];
const COMPARE: [ScalarFn; 6] = [ScalarFn::Eq, ScalarFn::Ne, ScalarFn::Lt, ScalarFn::Le, ScalarFn::Gt, ScalarFn::Ge];
const INTEGER: [ScalarFn; 10] = [
    ScalarFn::Add,
    ScalarFn::Sub,
    ScalarFn::Mul,
    ScalarFn::Max,
    ScalarFn::Min,
    ScalarFn::And,
    ScalarFn::Or,
    ScalarFn::Xor,
    ScalarFn::Shl,
    ScalarFn::Shr,
];
const CONSTANTS: [f64; 12] =
    [0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 3.140_625, 448.0, -127.0, 1e-6, 0.007_812_5, f64::NEG_INFINITY];

/// The graph of a seed and a case.
pub fn random(profile: Profile, seed: u64, case: u64) -> Graph {
    let random = Random::new(seed, case);
    let b = Builder::new("random");
    let s = b.symbol("s", 0, Some(8192));
    let mut growing = Gen { b, s, random, profile, given: Vec::new(), pool: Vec::new(), used: Vec::new() };
    match profile {
        Profile::Rows | Profile::Heads => growing.inputs(),
        Profile::Padded | Profile::Places => growing.short_inputs(),
        Profile::Shifted => growing.inputs_to_shift(),
    }
    let wanted = 4 + growing.random.below(16);
    let (mut made, mut tries) = (0, 0);
    while made < wanted && tries < 10 * wanted {
        tries += 1;
        if let Some(value) = growing.step() {
            growing.pool.push(value);
            made += 1;
        }
    }
    growing.outputs()
}

/// Adds an op, unless what is there forbids it.
type Grow = fn(&mut Gen) -> Option<Value>;

struct Gen {
    b: Builder,
    s: Dim,
    random: Random,
    profile: Profile,
    /// Inputs and their names.
    given: Vec<(String, Value)>,
    /// Values that ops may take, oldest first.
    pool: Vec<Value>,
    /// Values that an op takes.
    used: Vec<Value>,
}

impl Gen {
    fn inputs(&mut self) {
        let n = if self.random.once_in(2) { self.random.pick(&LANES) } else { 1 + self.random.below(300) as i64 };
        let rows = vec![self.s.clone(), n.into()];
        for i in 0..1 + self.random.below(3) {
            let dtype = self.random.pick(&FLOATS);
            self.input(&format!("x{i}"), dtype, rows.clone());
        }
        if self.random.once_in(2) {
            let dtype = self.random.pick(&FLOATS);
            self.input("w", dtype, vec![n.into()]);
        }
        if self.random.once_in(3) {
            let dtype = self.random.pick(&FLOATS);
            self.input("c", dtype, vec![self.s.clone(), 1.into()]);
        }
        if self.random.once_in(3) {
            let dtype = self.random.pick(&FLOATS);
            let shape = if self.random.once_in(2) { Vec::new() } else { vec![1.into()] };
            self.input("k", dtype, shape);
        }
        if self.random.once_in(4) {
            let dtype = self.random.pick(&[DType::F8E4M3, DType::I8, DType::I32, DType::F8E5M2, DType::U8]);
            self.input("q", dtype, rows);
        }
    }

    fn input(&mut self, name: &str, dtype: DType, shape: Vec<Dim>) {
        let value = self.b.input(name, TensorType::new(dtype, shape));
        self.given.push((name.to_owned(), value));
        self.pool.push(value);
    }

    fn outputs(self) -> Graph {
        let Gen { b, mut random, profile, given, pool, used, .. } = self;
        let computed: Vec<Value> = pool.into_iter().filter(|&v| b.definition(v).is_some()).collect();
        let mut chosen: Vec<Value> =
            computed.iter().copied().filter(|v| !used.contains(v) || random.once_in(8)).collect();
        while chosen.len() > MOST_OUTPUTS {
            chosen.remove(random.below(chosen.len()));
        }
        for (value, over) in shifts::updates(&b, &mut random, &given, profile, chosen) {
            b.add_output(value, over);
        }
        b.finish()
    }

    fn step(&mut self) -> Option<Value> {
        let steps: &[(usize, Grow)] = match self.profile {
            Profile::Rows => &[
                (8, Gen::binary),
                (3, Gen::unary),
                (2, Gen::approximate),
                (3, Gen::cast),
                (4, Gen::reduce),
                (1, Gen::fma),
                (1, Gen::select),
                (1, Gen::integer),
                (1, Gen::bits),
                (1, Gen::narrow),
                (2, Gen::composite),
                (1, Gen::expand),
                (1, Gen::iota),
                (1, Gen::arg_reduce),
                (1, Gen::top_k),
                (1, Gen::masked),
            ],
            Profile::Heads => &[
                (7, Gen::binary),
                (2, Gen::unary),
                (1, Gen::approximate),
                (2, Gen::cast),
                (3, Gen::reduce),
                (1, Gen::narrow),
                (2, Gen::composite),
                (4, Gen::split),
                (2, Gen::merge),
                (2, Gen::permute),
                (2, Gen::slice),
                (2, Gen::rotate),
                (1, Gen::cat),
                (2, Gen::stack),
                (2, Gen::between),
                (1, Gen::arg_reduce),
                (1, Gen::reduce_heads),
                (1, Gen::in_turn),
                (1, Gen::expand),
                (2, Gen::masked),
            ],
            Profile::Padded => &[
                (4, Gen::binary),
                (2, Gen::unary),
                (1, Gen::cast),
                (4, Gen::pad),
                (3, Gen::cut),
                (3, Gen::assign),
                (4, Gen::reduce_any),
                (1, Gen::reduce),
                (1, Gen::repeated),
                (1, Gen::turn),
                (1, Gen::merge),
                (1, Gen::cat),
                (1, Gen::narrow),
            ],
            Profile::Places => &[
                (3, Gen::binary),
                (2, Gen::unary),
                (1, Gen::cast),
                (4, Gen::choose),
                (3, Gen::write),
                (2, Gen::combine),
                (2, Gen::reduce_any),
                (1, Gen::turn),
                (1, Gen::merge),
                (1, Gen::narrow),
            ],
            Profile::Shifted => &[
                (6, Gen::shift),
                (3, Gen::binary),
                (2, Gen::unary),
                (1, Gen::cast),
                (1, Gen::pad),
                (1, Gen::cut),
                (2, Gen::reduce_any),
                (1, Gen::reduce),
                (1, Gen::turn),
                (1, Gen::merge),
                (1, Gen::cat),
                (1, Gen::narrow),
            ],
        };
        let mut at = self.random.below(steps.iter().map(|(weight, _)| weight).sum());
        for (weight, step) in steps {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return step(self),
            }
        }
        None
    }

    /// A value, late ones more often.
    fn value(&mut self) -> Value {
        let n = self.pool.len();
        self.pool[self.random.below(n).max(self.random.below(n))]
    }

    fn shape(&self, value: Value) -> Vec<Dim> {
        self.b.ty(value).shape
    }

    /// Adds a primitive, unless types or sizes forbid it.
    fn prim(&mut self, prim: Prim, operands: &[Value]) -> Option<Value> {
        let types: Vec<TensorType> = operands.iter().map(|&v| self.b.ty(v)).collect();
        let results = infer(&prim, &types.iter().collect::<Vec<_>>()).ok()?;
        let width = |ty: &TensorType| ty.shape.iter().filter_map(Dim::as_const).product::<i64>();
        let by_rows = |ty: &TensorType| ty.shape.iter().filter(|e| e.as_const().is_none()).count();
        if results.iter().any(|ty| width(ty) > WIDEST || by_rows(ty) > 1) {
            return None;
        }
        self.used.extend(operands);
        self.b.prim(prim, operands).ok()
    }

    fn map(&mut self, f: ScalarFn, operands: &[Value]) -> Option<Value> {
        self.prim(Prim::Map(f), operands)
    }

    fn to(&mut self, x: Value, to: DType) -> Option<Value> {
        if self.b.dtype(x) == to {
            return Some(x);
        }
        let saturate = self.random.once_in(2) || !to.is_float();
        self.prim(Prim::Cast { to, round: Rounding::NearestEven, saturate }, &[x])
    }

    /// A value in a dtype that computes.
    fn float(&mut self) -> Option<Value> {
        let x = self.value();
        if matches!(self.b.dtype(x), DType::F32 | DType::BF16 | DType::F16) {
            return Some(x);
        }
        let to = self.random.pick(&FLOATS);
        self.to(x, to)
    }

    fn constant(&mut self, dtype: DType) -> Option<Value> {
        let value = num::round_to(dtype, self.random.pick(&CONSTANTS), Rounding::NearestEven, true);
        self.prim(Prim::Literal(Literal::Float(dtype, value)), &[])
    }

    /// A second operand for `x`: of its dtype, often of its shape.
    fn beside(&mut self, x: Value) -> Option<Value> {
        let dtype = self.b.dtype(x);
        if self.random.once_in(4) {
            return self.constant(dtype);
        }
        let y = self.float()?;
        self.to(y, dtype)
    }

    fn unary(&mut self) -> Option<Value> {
        let (x, f) = (self.float()?, self.random.pick(&UNARY));
        self.map(f, &[x])
    }

    fn approximate(&mut self) -> Option<Value> {
        let (x, f) = (self.float()?, self.random.pick(&APPROXIMATE));
        self.map(f, &[x])
    }

    fn binary(&mut self) -> Option<Value> {
        let x = self.float()?;
        let y = self.beside(x)?;
        let f = self.random.pick(&BINARY);
        let operands = if self.random.once_in(2) { [x, y] } else { [y, x] };
        self.map(f, &operands)
    }

    fn fma(&mut self) -> Option<Value> {
        let x = self.float()?;
        let (y, z) = (self.beside(x)?, self.beside(x)?);
        self.map(ScalarFn::Fma, &[x, y, z])
    }

    fn select(&mut self) -> Option<Value> {
        let x = self.float()?;
        let (y, z) = (self.beside(x)?, self.beside(x)?);
        let f = self.random.pick(&COMPARE);
        let mut condition = self.map(f, &[x, y])?;
        if self.random.once_in(3) {
            condition = self.map(ScalarFn::Not, &[condition])?;
        }
        self.map(ScalarFn::Select, &[condition, z, x])
    }

    fn integer(&mut self) -> Option<Value> {
        let rare = self.random.once_in(8);
        let dtype = if rare { self.random.pick(&[DType::I8, DType::I64, DType::U8, DType::I16]) } else { DType::I32 };
        let (x, y) = (self.value(), self.value());
        let (x, y) = (self.to(x, dtype)?, self.to(y, dtype)?);
        let f = self.random.pick(&INTEGER);
        self.map(f, &[x, y])
    }

    /// The bits of a float, computed or not.
    fn bits(&mut self) -> Option<Value> {
        let x = self.float()?;
        let to = if self.b.dtype(x) == DType::F32 { DType::I32 } else { DType::I16 };
        self.used.push(x);
        self.b.bitcast(x, to).ok()
    }

    fn cast(&mut self) -> Option<Value> {
        let x = self.float()?;
        let to = self.random.pick(&FLOATS);
        let round = if self.random.once_in(8) { self.random.pick(&Rounding::ALL) } else { Rounding::NearestEven };
        let saturate = self.random.once_in(4);
        (self.b.dtype(x) != to).then_some(())?;
        self.prim(Prim::Cast { to, round, saturate }, &[x])
    }

    /// To codes of 8 bits, and often back.
    fn narrow(&mut self) -> Option<Value> {
        let x = self.float()?;
        let to = self.random.pick(&[DType::F8E4M3, DType::F8E4M3, DType::I8, DType::F8E5M2, DType::U8]);
        let round = if to.is_float() || self.random.once_in(2) {
            Rounding::NearestEven
        } else {
            self.random.pick(&Rounding::ALL)
        };
        let codes = self.prim(Prim::Cast { to, round, saturate: true }, &[x])?;
        if self.random.once_in(2) {
            return Some(codes);
        }
        self.to(codes, DType::F32)
    }

    /// Over the last axis or the last two.
    fn reduce(&mut self) -> Option<Value> {
        let x = self.float()?;
        let rank = self.b.ty(x).rank();
        let last = rank.checked_sub(1)?;
        self.shape(x)[last].as_const()?;
        let both = rank == 3 && self.shape(x)[1].as_const().is_some() && self.random.once_in(4);
        let axes = if both { vec![last - 1, last] } else { vec![last] };
        let op = self.random.pick(&[ReduceOp::Add, ReduceOp::Add, ReduceOp::Add, ReduceOp::Max, ReduceOp::Min]);
        let nan = self.random.pick(&[NanRule::Propagate, NanRule::Propagate, NanRule::Ignore]);
        let nan = if op == ReduceOp::Add { NanRule::Propagate } else { nan };
        let wide = if op == ReduceOp::Add && !self.random.once_in(4) { self.to(x, DType::F32)? } else { x };
        let reduced = self.prim(Prim::Reduce { op, axes, nan }, &[wide])?;
        if op == ReduceOp::Add && self.random.once_in(2) {
            let count = self.constant(self.b.dtype(reduced))?;
            return self.map(ScalarFn::Div, &[reduced, count]);
        }
        Some(reduced)
    }

    fn arg_reduce(&mut self) -> Option<Value> {
        let x = self.float()?;
        let axis = self.b.ty(x).rank().checked_sub(1)?;
        self.shape(x)[axis].as_const()?;
        let op = self.random.pick(&[ReduceOp::Max, ReduceOp::Min]);
        self.prim(Prim::ArgReduce { op, axis }, &[x])
    }

    /// The largest of each row; both results may be taken.
    fn top_k(&mut self) -> Option<Value> {
        let x = self.float()?;
        let n = self.shape(x).last()?.as_const()?;
        let k = 1 + self.random.below(n.clamp(1, 12) as usize) as i64;
        let results = self.b.op(Op::Prim(Prim::TopK { k: k.min(n).into() }), &[x]).ok()?;
        self.used.push(x);
        self.pool.push(results[1]);
        Some(results[0])
    }

    fn iota(&mut self) -> Option<Value> {
        let like = self.value();
        let shape = self.shape(like);
        let axis = self.random.below(shape.len().max(1));
        let dtype = self.random.pick(&[DType::I64, DType::I32, DType::F32]);
        self.prim(Prim::Iota { dtype, shape, axis }, &[])
    }

    fn composite(&mut self) -> Option<Value> {
        let x = self.float()?;
        let last = self.shape(x).last()?.as_const()?;
        let (composite, operands) = match self.random.below(5) {
            0 | 1 => {
                let round = self.random.pick(&[RmsRounding::BeforeWeight, RmsRounding::Once]);
                let w = self.pool.iter().copied().find(|&v| self.shape(v) == [Dim::constant(last)])?;
                let w = self.to(w, self.b.dtype(x))?;
                (Composite::new(RmsNorm::new(f64::from(1e-6f32), round)), vec![x, w])
            }
            2 => (Composite::new(Silu { form: self.random.pick(&[SiluForm::Quotient, SiluForm::Product]) }), vec![x]),
            3 => (Composite::new(Sigmoid), vec![self.to(x, DType::F32)?]),
            _ => {
                let floor_of = self.random.pick(&[Floor::Scale, Floor::AbsMax]);
                let floor = f64::from(1e-10f32);
                (Composite::new(QuantizeDynamic { floor, floor_of, ..QuantizeDynamic::default() }), vec![x])
            }
        };
        let results = self.b.composite(composite, &operands).ok()?;
        self.used.extend(operands);
        let (&first, rest) = results.split_first()?;
        self.pool.extend(rest);
        Some(first)
    }

    fn expand(&mut self) -> Option<Value> {
        let (x, like) = (self.value(), self.value());
        let shape = self.shape(like);
        (self.shape(x) != shape).then_some(())?;
        self.prim(Prim::Expand { shape }, &[x])
    }

    fn cat(&mut self) -> Option<Value> {
        let (x, y) = (self.value(), self.value());
        let y = self.to(y, self.b.dtype(x))?;
        let last = self.b.ty(x).rank().checked_sub(1)?;
        let axis = if self.random.once_in(3) { self.random.below(last + 1) } else { last };
        self.shape(x)[axis].as_const()?;
        self.prim(Prim::Cat { axis }, &[x, y])
    }
}
