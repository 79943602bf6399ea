//! Kernels built by hand, one for each thing that a schedule has to get right.

use fusewright_abi::{DType, ParamAccess};
use fusewright_codegen::kernel::{
    DimDecl, DimOrigin, INNER, InstError, InstOp, Kernel, LANE, Order, Over, Param, ParamId, ROW, SegmentBuilder,
    Shape, Tree, Val, parse_kernels, verify,
};
use fusewright_graph::dim::DimFn;
use fusewright_graph::{Dim, Literal, NanRule, ReduceOp, Rounding, ScalarFn};

/// A result of building.
pub type Built<T> = Result<T, InstError>;

/// A parameter in memory.
pub fn param(name: &str, dtype: DType, shape: &[Dim], access: ParamAccess) -> Param {
    Param { name: name.to_owned(), dtype, shape: shape.to_vec(), access, alias: None, donated: false, early: false }
}

/// The symbol of the row count.
pub fn tokens() -> Dim {
    Dim::symbol("t")
}

/// A kernel of `t` rows with one segment.
pub fn kernel(
    name: &str,
    params: Vec<Param>,
    inner: i64,
    body: impl Fn(&mut SegmentBuilder<'_>) -> Built<()>,
) -> Kernel {
    let mut builder = SegmentBuilder::new("row", Dim::constant(inner), &params);
    body(&mut builder).expect("the hand-built kernel is well-typed");
    let segments = vec![builder.finish()];
    let dims = vec![DimDecl { name: "t".into(), origin: DimOrigin::Extent(ParamId(0), 0) }];
    Kernel { name: name.to_owned(), dims, claims: Vec::new(), params, rows: tokens(), segments }
}

/// The kernels of the text files that test Kernel IR.
pub fn from_filetests() -> Vec<Kernel> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/filetests/kernel");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.map(|e| e.expect("the folder is readable").path()).collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let kernels: String = text.lines().filter(|l| !l.starts_with("test ")).map(|l| format!("{l}\n")).collect();
            parse_kernels(&kernels).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
        .filter(|kernel| verify(kernel).is_ok())
        .collect()
}

/// `row * length + lane + start`.
pub fn at(length: i64, start: i64) -> Dim {
    let row = &Dim::symbol(ROW) * &Dim::constant(length);
    &(&row + &Dim::symbol(LANE)) + &Dim::constant(start)
}

/// Shorthands over the builder.
pub trait Shorthand {
    /// A load of a row of `lanes`.
    fn row(&mut self, param: u32, index: Dim, lanes: i64) -> Built<Val>;
    /// A load of one element.
    fn scalar(&mut self, param: u32, index: Dim) -> Built<Val>;
    /// A store.
    fn store(&mut self, param: u32, index: Dim, value: Val) -> Built<()>;
    /// An elementwise function.
    fn map(&mut self, f: ScalarFn, x: &[Val]) -> Built<Val>;
    /// A conversion to nearest even.
    fn cast(&mut self, x: Val, to: DType, saturate: bool) -> Built<Val>;
    /// An f32 constant.
    fn f32(&mut self, value: f32) -> Built<Val>;
    /// A reduction.
    fn reduce(&mut self, op: ReduceOp, over: Over, order: Order, x: Val) -> Built<Val>;
}

impl Shorthand for SegmentBuilder<'_> {
    fn row(&mut self, param: u32, index: Dim, lanes: i64) -> Built<Val> {
        let shape = Shape::Row(Dim::constant(lanes));
        self.one(InstOp::Load { param: ParamId(param), index, shape, otherwise: None }, &[])
    }

    fn scalar(&mut self, param: u32, index: Dim) -> Built<Val> {
        self.one(InstOp::Load { param: ParamId(param), index, shape: Shape::Scalar, otherwise: None }, &[])
    }

    fn store(&mut self, param: u32, index: Dim, value: Val) -> Built<()> {
        self.push(InstOp::Store { param: ParamId(param), index, otherwise: None }, &[value]).map(|_| ())
    }

    fn map(&mut self, f: ScalarFn, x: &[Val]) -> Built<Val> {
        self.one(InstOp::Map(f), x)
    }

    fn cast(&mut self, x: Val, to: DType, saturate: bool) -> Built<Val> {
        self.one(InstOp::Cast { to, round: Rounding::NearestEven, saturate }, &[x])
    }

    fn f32(&mut self, value: f32) -> Built<Val> {
        self.one(InstOp::Literal(Literal::Float(DType::F32, f64::from(value))), &[])
    }

    fn reduce(&mut self, op: ReduceOp, over: Over, order: Order, x: Val) -> Built<Val> {
        self.one(InstOp::Reduce { op, over, nan: NanRule::Propagate, order }, &[x])
    }
}

/// `bf16(f32(a) + f32(b))` over a whole row, the sum squared and rounded as well: no reduction.
pub fn elementwise(lanes: i64) -> Kernel {
    let d = Dim::constant(lanes);
    let shape = [tokens(), d];
    let params = vec![
        param("a", DType::BF16, &shape, ParamAccess::In),
        param("b", DType::BF16, &shape, ParamAccess::In),
        param("y", DType::F16, &shape, ParamAccess::Out),
    ];
    kernel("elementwise", params, 1, |s| {
        let a = s.row(0, at(lanes, 0), lanes)?;
        let b = s.row(1, at(lanes, 0), lanes)?;
        let (a, b) = (s.cast(a, DType::F32, false)?, s.cast(b, DType::F32, false)?);
        let sum = s.map(ScalarFn::Add, &[a, b])?;
        let square = s.map(ScalarFn::Mul, &[sum, sum])?;
        let y = s.cast(square, DType::F16, false)?;
        s.store(2, at(lanes, 0), y)
    })
}

/// The bf16 residual sum, stored back in place, then its root-mean-square norm; returns the f32 norm.
fn add_rms_norm(s: &mut SegmentBuilder<'_>, lanes: i64, order: Order) -> Built<Val> {
    let x = s.row(0, at(lanes, 0), lanes)?;
    let residual = s.row(1, at(lanes, 0), lanes)?;
    let (x, residual) = (s.cast(x, DType::F32, false)?, s.cast(residual, DType::F32, false)?);
    let sum = s.map(ScalarFn::Add, &[x, residual])?;
    let sum = s.cast(sum, DType::BF16, false)?;
    s.store(1, at(lanes, 0), sum)?;
    let sum = s.cast(sum, DType::F32, false)?;
    let square = s.map(ScalarFn::Mul, &[sum, sum])?;
    let total = s.reduce(ReduceOp::Add, Over::Row, order, square)?;
    let count = s.f32(lanes as f32)?;
    let mean = s.map(ScalarFn::Div, &[total, count])?;
    let eps = s.f32(1e-6)?;
    let mean = s.map(ScalarFn::Add, &[mean, eps])?;
    let root = s.map(ScalarFn::Sqrt, &[mean])?;
    let one = s.f32(1.0)?;
    let scale = s.map(ScalarFn::Div, &[one, root])?;
    let norm = s.map(ScalarFn::Mul, &[sum, scale])?;
    let weight = s.row(2, Dim::symbol(LANE), lanes)?;
    let weight = s.cast(weight, DType::F32, false)?;
    s.map(ScalarFn::Mul, &[norm, weight])
}

fn norm_params(lanes: i64) -> Vec<Param> {
    let shape = [tokens(), Dim::constant(lanes)];
    vec![
        param("x", DType::BF16, &shape, ParamAccess::In),
        param("residual", DType::BF16, &shape, ParamAccess::InOut),
        param("weight", DType::BF16, &shape[1..], ParamAccess::In),
    ]
}

/// Residual add and norm to bf16.
pub fn add_rms_norm_bf16(lanes: i64, order: Order) -> Kernel {
    let mut params = norm_params(lanes);
    params.push(param("y", DType::BF16, &[tokens(), Dim::constant(lanes)], ParamAccess::Out));
    kernel("add_rms_norm", params, 1, |s| {
        let y = add_rms_norm(s, lanes, order)?;
        let y = s.cast(y, DType::BF16, false)?;
        s.store(3, at(lanes, 0), y)
    })
}

/// Residual add, norm, and quantisation to `to` with one scale per token, `largest` being the greatest code.
pub fn add_rms_norm_token_quant(lanes: i64, order: Order, to: DType, largest: f32) -> Kernel {
    let mut params = norm_params(lanes);
    params.push(param("y", to, &[tokens(), Dim::constant(lanes)], ParamAccess::Out));
    params.push(param("scale", DType::F32, &[tokens()], ParamAccess::Out));
    kernel(&format!("add_rms_norm_quant_{to}"), params, 1, |s| {
        let y = add_rms_norm(s, lanes, order)?;
        let size = s.map(ScalarFn::Abs, &[y])?;
        let most = s.reduce(ReduceOp::Max, Over::Row, order, size)?;
        let largest = s.f32(largest)?;
        let scale = s.map(ScalarFn::Div, &[most, largest])?;
        let floor = s.f32(f32::EPSILON)?;
        let scale = s.map(ScalarFn::Max, &[scale, floor])?;
        s.store(4, Dim::symbol(ROW), scale)?;
        let q = s.map(ScalarFn::Div, &[y, scale])?;
        let q = s.cast(q, to, true)?;
        s.store(3, at(lanes, 0), q)
    })
}

/// fp8 quantisation with one scale per `group` lanes.
pub fn group_quant(lanes: i64, group: i64, tree: Tree) -> Kernel {
    let groups = Dim::constant(lanes).ceil_div(&Dim::constant(group));
    let shape = [tokens(), Dim::constant(lanes)];
    let params = vec![
        param("x", DType::BF16, &shape, ParamAccess::In),
        param("y", DType::F8E4M3, &shape, ParamAccess::Out),
        param("scale", DType::F32, &[tokens(), groups.clone()], ParamAccess::Out),
    ];
    kernel("group_quant", params, 1, |s| {
        let x = s.row(0, at(lanes, 0), lanes)?;
        let x = s.cast(x, DType::F32, false)?;
        let size = s.map(ScalarFn::Abs, &[x])?;
        let most = s.reduce(ReduceOp::Max, Over::Group(Dim::constant(group)), Order::Tree(tree), size)?;
        let largest = s.f32(448.0)?;
        let scale = s.map(ScalarFn::Div, &[most, largest])?;
        let row = &Dim::symbol(ROW) * &groups;
        s.store(2, &row + &Dim::symbol(LANE), scale)?;
        let q = s.map(ScalarFn::Div, &[x, scale])?;
        let q = s.cast(q, DType::F8E4M3, true)?;
        s.store(1, at(lanes, 0), q)
    })
}

/// Rotary embedding of the heads of a packed tensor, in place: the halves of a head rotate against each other by the
/// cos and sin of the token's position.
pub fn rope(heads: i64, head: i64) -> Kernel {
    let half = head / 2;
    let params = vec![
        param("q", DType::BF16, &[tokens(), Dim::constant(heads * head)], ParamAccess::InOut),
        param("position", DType::I64, &[tokens()], ParamAccess::In),
        param("table", DType::F32, &[Dim::symbol("t"), Dim::constant(head)], ParamAccess::In),
    ];
    kernel("rope", params, heads, |s| {
        let position = s.scalar(1, Dim::symbol(ROW))?;
        let lane = Dim::symbol(LANE);
        let last = &tokens() - &Dim::constant(1);
        let place = Dim::function(DimFn::Min, &position.symbol(), &last);
        let place = Dim::function(DimFn::Max, &place, &Dim::constant(0));
        let entry = &(&place * &Dim::constant(head)) + &lane;
        let cos = s.row(2, entry.clone(), half)?;
        let sin = s.row(2, &entry + &Dim::constant(half), half)?;
        let token = &Dim::symbol(ROW) * &Dim::constant(heads * head);
        let index = &(&token + &(&Dim::symbol(INNER) * &Dim::constant(head))) + &lane;
        let x = s.row(0, index.clone(), head)?;
        let x = s.cast(x, DType::F32, false)?;
        let part = |start| InstOp::Slice { start: Dim::constant(start), len: Dim::constant(half), step: 1 };
        let (low, high) = (s.one(part(0), &[x])?, s.one(part(half), &[x])?);
        let (lc, hs) = (s.map(ScalarFn::Mul, &[low, cos])?, s.map(ScalarFn::Mul, &[high, sin])?);
        let (hc, ls) = (s.map(ScalarFn::Mul, &[high, cos])?, s.map(ScalarFn::Mul, &[low, sin])?);
        let first = s.map(ScalarFn::Sub, &[lc, hs])?;
        let second = s.map(ScalarFn::Add, &[hc, ls])?;
        let y = s.one(InstOp::Cat, &[first, second])?;
        let y = s.cast(y, DType::BF16, false)?;
        s.store(0, index, y)
    })
}

/// Pairs of lanes swapped and packed as bytes, behind a slot that may be −1; every odd layout op in one kernel.
pub fn layout(lanes: i64) -> Kernel {
    let params = vec![
        param("x", DType::F32, &[tokens(), Dim::constant(lanes)], ParamAccess::In),
        param("slot", DType::I64, &[tokens()], ParamAccess::In),
        param("y", DType::U8, &[tokens(), Dim::constant(lanes / 2)], ParamAccess::Out),
        param("best", DType::I32, &[tokens()], ParamAccess::Out),
    ];
    kernel("layout", params, 1, |s| {
        let slot = s.scalar(1, Dim::symbol(ROW))?;
        let zero = s.one(InstOp::Literal(Literal::Int(DType::I64, 0)), &[])?;
        let valid = s.map(ScalarFn::Ge, &[slot, zero])?;
        let x = s.row(0, at(lanes, 0), lanes)?;
        let every = |start| InstOp::Slice { start: Dim::constant(start), len: Dim::constant(lanes / 2), step: 2 };
        let (even, odd) = (s.one(every(0), &[x])?, s.one(every(1), &[x])?);
        let swapped = s.one(InstOp::Zip, &[odd, even])?;
        let code = s.cast(swapped, DType::F4E2M1, true)?;
        let packed = s.one(InstOp::Pack { ways: 2, to: DType::U8 }, &[code])?;
        let safe = Dim::function(DimFn::Max, &slot.symbol(), &Dim::constant(0));
        let index = &(&safe * &Dim::constant(lanes / 2)) + &Dim::symbol(LANE);
        s.push(InstOp::Store { param: ParamId(2), index, otherwise: None }, &[packed, valid])?;
        let best = s.push(InstOp::ArgReduce(ReduceOp::Max), &[x])?;
        s.store(3, Dim::symbol(ROW), best[1])
    })
}

/// `silu(gate) * up`, both halves of a row, each step rounded to bf16.
pub fn activation(lanes: i64) -> Kernel {
    let params = vec![
        param("x", DType::BF16, &[tokens(), Dim::constant(2 * lanes)], ParamAccess::In),
        param("y", DType::BF16, &[tokens(), Dim::constant(lanes)], ParamAccess::Out),
    ];
    kernel("silu_mul", params, 1, |s| {
        let gate = s.row(0, at(2 * lanes, 0), lanes)?;
        let up = s.row(0, at(2 * lanes, lanes), lanes)?;
        let gate = s.cast(gate, DType::F32, false)?;
        let negative = s.map(ScalarFn::Neg, &[gate])?;
        let power = s.map(ScalarFn::Exp, &[negative])?;
        let one = s.f32(1.0)?;
        let below = s.map(ScalarFn::Add, &[power, one])?;
        let silu = s.map(ScalarFn::Div, &[gate, below])?;
        let silu = s.cast(silu, DType::BF16, false)?;
        let (silu, up) = (s.cast(silu, DType::F32, false)?, s.cast(up, DType::F32, false)?);
        let y = s.map(ScalarFn::Mul, &[silu, up])?;
        let y = s.cast(y, DType::BF16, false)?;
        s.store(1, at(lanes, 0), y)
    })
}

/// Kernels for Ascend in their text: one of each thing that a schedule has to get right.
pub fn model_kernels() -> Vec<Kernel> {
    let (kernels, masked) = (include_str!("../ascend_model/kernels.fw"), include_str!("../ascend_model/masked.fw"));
    kernels_of(&[kernels, masked, include_str!("../ascend_model/repeated.fw")])
}

/// Kernels with functions that NPUs lack and elements of few bits that every lane has, as lowering leaves them.
pub fn function_kernels() -> Vec<Kernel> {
    kernels_of(&[include_str!("../ascend_model/functions.fw")])
}

fn kernels_of(texts: &[&str]) -> Vec<Kernel> {
    let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with("//"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    parse_kernels(&text).unwrap_or_else(|e| panic!("{e}"))
}

/// One of [`model_kernels`].
pub fn model_kernel(name: &str) -> Kernel {
    model_kernels().into_iter().find(|k| k.name == name).unwrap_or_else(|| panic!("no kernel {name}"))
}
