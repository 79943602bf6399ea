//! Graphs for tests, spelled as importers spell them: the training form, with linear layers and attention as one node,
//! and the core form, with transposed weights, flattened products and decomposed activations.

use fusewright_graph::DType::{self, BF16, F32, I64};
use fusewright_graph::ops::{Composite, Sigmoid, Silu, SiluForm};
use fusewright_graph::prim::Sdpa;
use fusewright_graph::{Builder, Dim, Graph, Literal, Prim, ReduceOp, ScalarFn, TensorType, TypeError, Value};

/// Result of building a graph.
pub type Built<T = Value> = Result<T, TypeError>;

/// A builder with the spellings of one form.
pub struct Sample {
    pub b: Builder,
    pub core: bool,
    pub s: Dim,
}

impl Sample {
    pub fn new(core: bool) -> Self {
        let b = Builder::new("sample");
        let s = b.symbol("s", 1, Some(8192));
        Sample { b, core, s }
    }

    /// An extent: negative numbers are the symbol.
    pub fn shape(&self, extents: &[i64]) -> Vec<Dim> {
        extents.iter().map(|&e| if e < 0 { self.s.clone() } else { Dim::constant(e) }).collect()
    }

    pub fn input(&self, name: &str, dtype: DType, extents: &[i64]) -> Value {
        self.b.input(name, TensorType::new(dtype, self.shape(extents)))
    }

    pub fn weight(&self, name: &str, extents: &[i64]) -> Value {
        let kind = fusewright_graph::InputKind::Weight(None);
        self.b.add_input(name, TensorType::new(BF16, self.shape(extents)), kind)
    }

    pub fn view(&self, x: Value, extents: &[i64]) -> Built {
        self.b.prim(Prim::Reshape { shape: self.shape(extents) }, &[x])
    }

    pub fn permute(&self, x: Value, perm: &[usize]) -> Built {
        self.b.prim(Prim::Permute { perm: perm.to_vec() }, &[x])
    }

    pub fn linear(&self, x: Value, w: Value) -> Built {
        let b = &self.b;
        if !self.core {
            return b.prim(Prim::MatMul { transpose_b: true, out: b.dtype(x) }, &[x, w]);
        }
        let (shape, n) = (b.ty(x).shape, b.ty(w).shape[0].clone());
        let (last, leading) = shape.split_last().expect("has lanes");
        let rows = fusewright_graph::dim::product(leading);
        let t = self.permute(w, &[1, 0])?;
        let flat = b.prim(Prim::Reshape { shape: vec![rows, last.clone()] }, &[x])?;
        let y = b.prim(Prim::MatMul { transpose_b: false, out: b.dtype(x) }, &[flat, t])?;
        let shape = leading.iter().cloned().chain([n]).collect();
        b.prim(Prim::Reshape { shape }, &[y])
    }

    /// `mean(x², last) + eps`, rsqrt, product, in f32.
    fn normal(&self, x: Value) -> Built {
        let b = &self.b;
        let x32 = b.cast(x, F32)?;
        let mean = self.mean(b.mul(x32, x32)?)?;
        let r = b.map(ScalarFn::Rsqrt, &[b.add(mean, b.float(F32, f64::from(1e-6f32))?)?])?;
        b.mul(x32, r)
    }

    pub fn mean(&self, x: Value) -> Built {
        self.b.mean_last(x)
    }

    pub fn hf_norm(&self, x: Value, w: Value) -> Built {
        self.b.mul(w, self.b.cast(self.normal(x)?, BF16)?)
    }

    pub fn gemma_norm(&self, x: Value, w: Value) -> Built {
        let b = &self.b;
        let w1 = b.add(b.cast(w, F32)?, b.float(F32, 1.0)?)?;
        b.cast(b.mul(self.normal(x)?, w1)?, BF16)
    }

    pub fn silu(&self, x: Value) -> Built {
        let b = &self.b;
        if !self.core {
            return Ok(b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[x])?[0]);
        }
        let x32 = b.cast(x, F32)?;
        let sigmoid = b.composite(Composite::new(Sigmoid), &[x32])?[0];
        b.cast(b.mul(x32, sigmoid)?, BF16)
    }

    pub fn rope(&self, q: Value, cos: Value, sin: Value) -> Built {
        let b = &self.b;
        let shape = b.ty(q).shape;
        let (axis, lanes) = (shape.len() - 1, shape[shape.len() - 1].clone());
        let half = lanes.exact_div(&Dim::constant(2)).expect("even");
        let direct = b.mul(q, cos)?;
        let low = b.slice(q, axis, Dim::constant(0), half.clone())?;
        let high = b.slice(q, axis, half, lanes)?;
        let rotated = b.cat(&[b.map(ScalarFn::Neg, &[high])?, low], axis)?;
        b.add(direct, b.mul(rotated, sin)?)
    }

    /// cos and sin of `positions · inv_freq`, both halves, times 1.0.
    pub fn table(&self, positions: Value, inv_freq: Value) -> Built<[Value; 2]> {
        let b = &self.b;
        let p = b.cast(self.view(positions, &[1, -1, 1])?, F32)?;
        let f = b.mul(p, inv_freq)?;
        let angles = b.cat(&[f, f], 2)?;
        let part = |g| b.cast(b.mul(b.map(g, &[angles])?, b.float(F32, 1.0)?)?, BF16);
        Ok([part(ScalarFn::Cos)?, part(ScalarFn::Sin)?])
    }

    fn attention(&self, q: Value, k: Value, v: Value, heads: [i64; 2], d: i64) -> Built {
        let b = &self.b;
        if !self.core {
            let sdpa = Prim::Sdpa(Sdpa { causal: true, wide: false, scale_bits: 0.25f64.to_bits() });
            return b.prim(sdpa, &[q, k, v]);
        }
        let root = b.float(F32, 0.5)?;
        let q32 = b.mul(b.cast(q, F32)?, root)?;
        let spread = |x| {
            let x = self.view(x, &[1, heads[1], 1, -1, d])?;
            let shape = self.shape(&[1, heads[1], heads[0] / heads[1], -1, d]);
            self.view(b.prim(Prim::Expand { shape }, &[x])?, &[1, heads[0], -1, d])
        };
        let k32 = spread(b.cast(k, F32)?)?;
        let v32 = self.view(spread(b.cast(v, F32)?)?, &[heads[0], -1, d])?;
        let kt = b.mul(self.permute(k32, &[0, 1, 3, 2])?, root)?;
        let q32 = self.view(q32, &[heads[0], -1, d])?;
        let kt = self.view(kt, &[heads[0], d, -1])?;
        let product = Prim::MatMul { transpose_b: false, out: F32 };
        let scores = self.view(b.prim(product.clone(), &[q32, kt])?, &[1, heads[0], -1, -1])?;
        let scores = b.add(scores, self.causal_mask()?)?;
        let p = self.softmax(scores)?;
        let p = self.view(p, &[heads[0], -1, -1])?;
        let out = self.view(b.prim(product, &[p, v32])?, &[1, heads[0], -1, d])?;
        b.cast(out, BF16)
    }

    fn causal_mask(&self) -> Built {
        let b = &self.b;
        let iota = || b.prim(Prim::Iota { dtype: I64, shape: self.shape(&[-1]), axis: 0 }, &[]);
        let difference = b.sub(self.view(iota()?, &[1, -1])?, self.view(iota()?, &[-1, 1])?)?;
        let below = b.map(ScalarFn::Le, &[difference, b.int(I64, 0)?])?;
        let all = b.prim(Prim::Expand { shape: self.shape(&[-1, -1]) }, &[b.int(DType::Bool, 1)?])?;
        let keep = b.map(ScalarFn::And, &[below, all])?;
        let minus = b.prim(Prim::Literal(Literal::Float(F32, f64::NEG_INFINITY)), &[])?;
        b.map(ScalarFn::Select, &[keep, b.float(F32, 0.0)?, minus])
    }

    pub fn softmax(&self, x: Value) -> Built {
        let b = &self.b;
        let e = b.map(ScalarFn::Exp, &[b.sub(x, b.reduce_last(ReduceOp::Max, x)?)?])?;
        b.div(e, b.reduce_last(ReduceOp::Add, e)?)
    }

    pub fn finish(self, outputs: &[Value]) -> Graph {
        outputs.iter().for_each(|&v| self.b.output(v));
        self.b.finish()
    }

    /// `q = e4m3(clamp(x / max(absmax / 448, floor), ±448))` and the scale.
    pub fn fp8_token(&self, x: Value) -> Built<[Value; 2]> {
        let b = &self.b;
        let x32 = b.cast(x, F32)?;
        let largest = b.reduce_last(ReduceOp::Max, b.map(ScalarFn::Abs, &[x32])?)?;
        let scale = b.div(largest, b.float(F32, 448.0)?)?;
        let floor = b.float(F32, f64::from(4.359_654e-6f32))?;
        let scale = b.map(ScalarFn::Max, &[scale, floor])?;
        Ok([self.fp8(b.div(x32, scale)?)?, scale])
    }

    pub fn fp8(&self, x: Value) -> Built {
        let b = &self.b;
        let clamped = b.clamp(x, b.float(F32, -448.0)?, b.float(F32, 448.0)?)?;
        b.cast(clamped, DType::F8E4M3)
    }
}

/// Sizes of a decoder layer.
pub struct Layer {
    pub hidden: i64,
    pub heads: [i64; 2],
    pub head: i64,
    pub mlp: i64,
}

/// The tiny layer of the tests.
pub const TINY: Layer = Layer { hidden: 64, heads: [4, 2], head: 16, mlp: 176 };

/// A Qwen3 decoder layer.
pub fn qwen3_layer(core: bool, layer: &Layer) -> Built<Graph> {
    let g = Sample::new(core);
    let Layer { hidden, heads: [q_heads, k_heads], head, mlp } = *layer;
    let w = |name: &str, n, k| g.weight(name, &[n, k]);
    let (wq, wk) = (w("wq", q_heads * head, hidden), w("wk", k_heads * head, hidden));
    let (wv, wo) = (w("wv", k_heads * head, hidden), w("wo", hidden, q_heads * head));
    let (nq, nk) = (g.weight("nq", &[head]), g.weight("nk", &[head]));
    let (gate, up, down) = (w("gate", mlp, hidden), w("up", mlp, hidden), w("down", hidden, mlp));
    let (n1, n2) = (g.weight("n1", &[hidden]), g.weight("n2", &[hidden]));
    let inv_freq = g.input("inv_freq", F32, &[head / 2]);
    let x = g.input("hidden", BF16, &[1, -1, hidden]);
    let positions = g.input("positions", I64, &[1, -1]);
    let [cos, sin] = g.table(positions, inv_freq)?;
    let y = g.hf_norm(x, n1)?;
    let project = |w, heads: i64| g.view(g.linear(y, w)?, &[1, -1, heads, head]);
    let q = g.permute(g.hf_norm(project(wq, q_heads)?, nq)?, &[0, 2, 1, 3])?;
    let k = g.permute(g.hf_norm(project(wk, k_heads)?, nk)?, &[0, 2, 1, 3])?;
    let v = g.permute(project(wv, k_heads)?, &[0, 2, 1, 3])?;
    let (cos, sin) = (g.view(cos, &[1, 1, -1, head])?, g.view(sin, &[1, 1, -1, head])?);
    let (q, k) = (g.rope(q, cos, sin)?, g.rope(k, cos, sin)?);
    let a = g.permute(g.attention(q, k, v, layer.heads, head)?, &[0, 2, 1, 3])?;
    let a = g.linear(g.view(a, &[1, -1, q_heads * head])?, wo)?;
    let x = g.b.add(x, a)?;
    let y = g.hf_norm(x, n2)?;
    let m = g.b.mul(g.silu(g.linear(y, gate)?)?, g.linear(y, up)?)?;
    let out = g.b.add(x, g.linear(m, down)?)?;
    Ok(g.finish(&[out]))
}

/// Residual add, norm, fp8 codes with a scale per row.
pub fn add_norm_fp8_token(lanes: i64) -> Built<Graph> {
    let g = Sample::new(false);
    let w = g.weight("w", &[lanes]);
    let (x, r) = (g.input("x", BF16, &[-1, lanes]), g.input("y", BF16, &[-1, lanes]));
    let sum = g.b.add(x, r)?;
    let [code, scale] = g.fp8_token(g.hf_norm(sum, w)?)?;
    Ok(g.finish(&[code, scale, sum]))
}

/// SiLU of one half times the other, fp8 codes with a scale per 128 lanes.
pub fn silu_fp8_group(core: bool, lanes: i64) -> Built<Graph> {
    let g = Sample::new(core);
    let x = g.input("x", BF16, &[-1, 2 * lanes]);
    let half = |from: i64| g.b.slice(x, 1, Dim::constant(from * lanes), Dim::constant((from + 1) * lanes));
    let y = g.b.mul(g.silu(half(0)?)?, half(1)?)?;
    let groups = g.view(g.b.cast(y, F32)?, &[-1, lanes / 128, 128])?;
    let b = &g.b;
    let largest = b.reduce_last(ReduceOp::Max, b.map(ScalarFn::Abs, &[groups])?)?;
    let floored = b.map(ScalarFn::Max, &[largest, b.float(F32, f64::from(1e-10f32))?])?;
    let scale = b.div(floored, b.float(F32, 448.0)?)?;
    let code = g.view(g.fp8(b.div(groups, scale)?)?, &[-1, lanes])?;
    let scale = g.view(scale, &[-1, lanes / 128])?;
    Ok(g.finish(&[code, scale]))
}
