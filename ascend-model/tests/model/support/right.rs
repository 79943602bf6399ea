//! Table of right kernels: the C++ of their bodies, and what they yield of `x`, 512 floats in [-2, 2).
//!
//! Bodies have `xs` and `ys` (512 zeros) and `frame.h`. Results are the first floats of `ys`, to the bit.

/// One kernel: its name, its body, its results.
pub type Right = (&'static str, &'static str, fn(&[f32]) -> Vec<f32>);

/// Loads x, computes, stores 512 floats.
macro_rules! through {
    ($body:literal) => {
        concat!(
            "Frame<float> f(xs, ys); f.Through(512, [&](const LocalTensor<float>& y, const LocalTensor<float>& x) { ",
            $body,
            " });"
        )
    };
}

fn map(x: &[f32], f: impl Fn(f32) -> f32) -> Vec<f32> {
    x.iter().map(|v| f(*v)).collect()
}

fn largest(x: &[f32]) -> (usize, f32) {
    x.iter().copied().enumerate().fold((0, f32::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a })
}

/// Neighbours added to neighbours, as the vector unit adds.
fn tree(x: &[f32]) -> f32 {
    let mut x = x.to_vec();
    while x.len() > 1 {
        x = x.chunks(2).map(|pair| pair.iter().copied().reduce(|a, b| a + b).unwrap_or(0.0)).collect();
    }
    x[0]
}

/// All of them.
pub const RIGHT: &[Right] = &[
    ("adds", through!("Adds(y, x, 1.5f, 512);"), |x| map(x, |v| v + 1.5)),
    ("squares", through!("Mul(y, x, x, 512);"), |x| map(x, |v| v * v)),
    ("in_place", through!("Muls(y, x, 2.0f, 512); PipeBarrier<PIPE_V>(); Sub(y, y, x, 512);"), |x| x.to_vec()),
    ("extremes", through!("Maxs(y, x, -0.5f, 512); PipeBarrier<PIPE_V>(); Mins(y, y, 0.5f, 512);"), |x| {
        map(x, |v| v.clamp(-0.5, 0.5))
    }),
    ("relus", through!("Relu(y, x, 256); LeakyRelu(y[256], x[256], 0.25f, 256);"), |x| {
        x.iter()
            .enumerate()
            .map(|(i, v)| {
                if *v >= 0.0 {
                    *v
                } else if i < 256 {
                    0.0
                } else {
                    v * 0.25
                }
            })
            .collect()
    }),
    ("axpy", through!("Duplicate(y, 1.0f, 512); PipeBarrier<PIPE_V>(); Axpy(y, x, 3.0f, 512);"), |x| {
        map(x, |v| v * 3.0 + 1.0)
    }),
    ("multiply_add", through!("Duplicate(y, 1.0f, 512); PipeBarrier<PIPE_V>(); MulAddDst(y, x, x, 512);"), |x| {
        map(x, |v| v * v + 1.0)
    }),
    (
        "repeats",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); Adds(y, x, 1.0f, 64, 4, UnaryRepeatParams(1, 1, 16, 8));"
        ),
        |x| (0..512).map(|i| if i / 64 % 2 == 0 { x[i / 128 * 64 + i % 64] + 1.0 } else { 0.0 }).collect(),
    ),
    (
        "mask_of_bits",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); uint64_t odd[2] = {0xaaaaaaaaaaaaaaaa, 0}; Adds(y, x, 1.0f, odd, 8, UnaryRepeatParams());"
        ),
        |x| x.iter().enumerate().map(|(i, v)| if i % 2 == 1 { v + 1.0 } else { 0.0 }).collect(),
    ),
    (
        "counter",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(100); Adds<float, false>(y, x, 1.0f, MASK_PLACEHOLDER, 1, UnaryRepeatParams()); SetMaskNorm(); ResetMask();"
        ),
        |x| x.iter().enumerate().map(|(i, v)| if i < 100 { v + 1.0 } else { 0.0 }).collect(),
    ),
    (
        "registers",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); SetVectorMask<float>(10); Adds<float, false>(y, x, 1.0f, MASK_PLACEHOLDER, 8, UnaryRepeatParams()); ResetMask();"
        ),
        |x| x.iter().enumerate().map(|(i, v)| if i % 64 < 10 { v + 1.0 } else { 0.0 }).collect(),
    ),
    (
        "accumulates",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); Add(y, x, y, 64, 8, BinaryRepeatParams(1, 1, 1, 0, 8, 0));"
        ),
        |x| (0..64).map(|lane| (0..8).fold(0.0, |sum: f32, r| x[r * 64 + lane] + sum)).collect(),
    ),
    ("one_block_for_all", through!("Add(y, x, x, 64, 8, BinaryRepeatParams(1, 1, 0, 8, 8, 0));"), |x| {
        x.iter().enumerate().map(|(i, v)| v + x[i % 8]).collect()
    }),
    ("copied_within", through!("DataCopy(y, x[256], 256); DataCopy(y[256], x, DataCopyParams(8, 4, 0, 0));"), |x| {
        x[256..].iter().chain(&x[..256]).copied().collect()
    }),
    ("copied_by_repeats", through!("Copy(y, x, 64, 8, CopyRepeatParams(1, 1, 8, 8));"), |x| x.to_vec()),
    ("spread", through!("Brcb(y, x, 8, {1, 8});"), |x| (0..512).map(|i| x[i / 8]).collect()),
    (
        "sums_of_repeats",
        through!("Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); WholeReduceSum(y, x, 64, 8, 1, 1, 8);"),
        |x| x.chunks(64).map(tree).chain([0.0]).collect(),
    ),
    (
        "sums_of_parts",
        through!("Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); WholeReduceSum(y, x, 10, 8, 2, 1, 8);"),
        |x| x.chunks(64).flat_map(|c| [tree(&c[..10]), 0.0]).collect(),
    ),
    (
        "largest_of_repeats",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); WholeReduceMax(y, x, 64, 8, 1, 1, 8, ReduceOrder::ORDER_VALUE_INDEX);"
        ),
        |x| {
            x.chunks(64)
                .flat_map(|c| {
                    let (i, v) = largest(c);
                    [v, f32::from_bits(i as u32)]
                })
                .collect()
        },
    ),
    (
        "index_first",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); WholeReduceMax(y, x, 64, 8, 1, 1, 8, ReduceOrder::ORDER_INDEX_VALUE);"
        ),
        |x| {
            x.chunks(64)
                .flat_map(|c| {
                    let (i, v) = largest(c);
                    [f32::from_bits(i as u32), v]
                })
                .collect()
        },
    ),
    (
        "smallest_values",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); WholeReduceMin(y, x, 64, 8, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);"
        ),
        |x| x.chunks(64).map(|c| c.iter().copied().fold(f32::INFINITY, f32::min)).collect(),
    ),
    (
        "blocks_summed",
        through!("Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); BlockReduceSum(y, x, 8, 64, 1, 1, 8);"),
        |x| x.chunks(8).map(tree).collect(),
    ),
    (
        "blocks_largest",
        through!("Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); BlockReduceMax(y, x, 8, 64, 1, 1, 8);"),
        |x| x.chunks(8).map(|c| largest(c).1).collect(),
    ),
    (
        "pairs_summed",
        through!("Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); PairReduceSum(y, x, 8, 64, 1, 1, 8);"),
        |x| x.chunks(2).map(tree).collect(),
    ),
    (
        "sum",
        through!("Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); ReduceSum(y, x, f.work.template Get<float>(), 500);"),
        |x| vec![x[..500].chunks(64).map(tree).reduce(|a, b| a + b).unwrap_or(0.0), 0.0],
    ),
    (
        "sum_of_repeats",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); ReduceSum(y, x, f.work.template Get<float>(), 64, 8, 8);"
        ),
        |x| vec![tree(&x.chunks(64).map(tree).collect::<Vec<_>>()), 0.0],
    ),
    (
        "largest_and_where",
        through!(
            "Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); ReduceMax(y, x, f.work.template Get<float>(), 512, true);"
        ),
        |x| {
            let (i, v) = largest(x);
            vec![v, f32::from_bits(i as u32), 0.0]
        },
    ),
    (
        "selected",
        through!(
            "LocalTensor<uint8_t> m = f.work.template Get<uint8_t>(); CompareScalar(m, x, 0.0f, CMPMODE::GT, 512); Duplicate(y, 7.0f, 512); PipeBarrier<PIPE_V>(); Select(y, m, x, y, SELMODE::VSEL_TENSOR_TENSOR_MODE, 512);"
        ),
        |x| map(x, |v| if v > 0.0 { v } else { 7.0 }),
    ),
    (
        "selected_scalar",
        through!(
            "LocalTensor<uint8_t> m = f.work.template Get<uint8_t>(); Compare(m, x, x, CMPMODE::EQ, 64, 8, BinaryRepeatParams(1, 1, 0, 8, 8, 0)); PipeBarrier<PIPE_V>(); Select(y, m, x, -1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 512);"
        ),
        |x| x.iter().enumerate().map(|(i, v)| if *v == x[i % 8] { *v } else { -1.0 }).collect(),
    ),
    (
        "selected_same_bits",
        through!(
            "LocalTensor<uint8_t> m = f.work.template Get<uint8_t>(); Duplicate(m.ReinterpretCast<uint16_t>(), uint16_t(0x5555), 4); Duplicate(y, 7.0f, 512); PipeBarrier<PIPE_V>(); Select(y, m, x, y, SELMODE::VSEL_CMPMASK_SPR, 512);"
        ),
        |x| x.iter().enumerate().map(|(i, v)| if i % 2 == 0 { *v } else { 7.0 }).collect(),
    ),
    (
        "gathered",
        through!(
            "LocalTensor<int32_t> i = f.work.template Get<int32_t>(); CreateVecIndex(i, 0, 511); PipeBarrier<PIPE_V>(); Muls(i, i, -4, 511); PipeBarrier<PIPE_V>(); Adds(i, i, 2040, 511); PipeBarrier<PIPE_V>(); Gather(y, x, i.ReinterpretCast<uint32_t>(), 4, 511); PipeBarrier<PIPE_V>(); Duplicate(y[504], 0.0f, 8);"
        ),
        |x| x.iter().rev().copied().take(504).collect(),
    ),
    (
        "blocks_gathered",
        through!(
            "LocalTensor<uint32_t> i = f.work.template Get<uint32_t>(); for (uint32_t n = 0; n < 64; ++n) i.SetValue(n, (63 - n) * 32); Hand<HardEvent::S_V>(); Gatherb(y, x, i, 8, GatherRepeatParams(1, 8));"
        ),
        |x| x.chunks(8).rev().flatten().copied().collect(),
    ),
    ("counted", through!("(void)x; CreateVecIndex(y, 3.0f, 512);"), |_| (3..515).map(|i| i as f32).collect()),
    (
        "transposed",
        through!(
            "DataCopy(y[128], x[128], 384); LocalTensor<half> h = y.ReinterpretCast<half>(); Transpose(h, x.ReinterpretCast<half>());"
        ),
        |x| {
            let words: Vec<u16> = x[..128]
                .iter()
                .flat_map(|v| {
                    let b = v.to_bits();
                    [b as u16, (b >> 16) as u16]
                })
                .collect();
            let turned: Vec<u16> = (0..256).map(|i| words[i % 16 * 16 + i / 16]).collect();
            turned
                .chunks(2)
                .map(|c| f32::from_bits(u32::from(c[0]) | u32::from(c[1]) << 16))
                .chain(x[128..].iter().copied())
                .collect()
        },
    ),
    (
        "bits",
        through!(
            "And(y.ReinterpretCast<uint16_t>(), x.ReinterpretCast<uint16_t>(), x.ReinterpretCast<uint16_t>(), 1024); PipeBarrier<PIPE_V>(); Not(y.ReinterpretCast<uint16_t>(), y.ReinterpretCast<uint16_t>(), 1024);"
        ),
        |x| map(x, |v| f32::from_bits(!v.to_bits())),
    ),
    (
        "shifts",
        through!(
            "ShiftLeft(y.ReinterpretCast<uint32_t>(), x.ReinterpretCast<uint32_t>(), 1u, 512); PipeBarrier<PIPE_V>(); ShiftRight(y.ReinterpretCast<uint32_t>(), y.ReinterpretCast<uint32_t>(), 24u, 512);"
        ),
        |x| map(x, |v| f32::from_bits(v.to_bits() << 1 >> 24)),
    ),
    (
        "arithmetic_shift",
        through!("ShiftRight(y.ReinterpretCast<int32_t>(), x.ReinterpretCast<int32_t>(), 31, 512);"),
        |x| map(x, |v| f32::from_bits((v.to_bits() as i32 >> 31) as u32)),
    ),
    (
        "padded_both_sides",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.in.AllocTensor<float>(); DataCopyPad(t, f.x[3], DataCopyExtParams{2, 20, 12, 1, 0}, DataCopyPadExtParams<float>{true, 2, 1, 9.0f}); f.in.EnQue(t); t = f.in.DeQue<float>(); LocalTensor<float> y = f.out.AllocTensor<float>(); Duplicate(y, 0.0f, 32); PipeBarrier<PIPE_V>(); Adds(y, t, 0.0f, 8); Adds(y[16], t[16], 0.0f, 8); f.in.FreeTensor(t); f.out.EnQue(y); f.Store(32);",
        |x| {
            let block = |at: usize| [vec![9.0, 9.0], x[at..at + 5].to_vec(), vec![9.0]].concat();
            [block(3), vec![0.0; 8], block(11)].concat()
        },
    ),
    (
        "padded_out",
        "Frame<float> f(xs, ys); f.Load(64); LocalTensor<float> t = f.in.DeQue<float>(); LocalTensor<float> y = f.out.AllocTensor<float>(); Adds(y, t, 1.0f, 64); f.in.FreeTensor(t); f.out.EnQue(y); y = f.out.DeQue<float>(); DataCopyPad(f.y[1], y, DataCopyExtParams{3, 12, 1, 8, 0}); f.out.FreeTensor(y);",
        |x| {
            [
                vec![0.0],
                (0..3).flat_map(|b| [x[b * 16] + 1.0, x[b * 16 + 1] + 1.0, x[b * 16 + 2] + 1.0, 0.0, 0.0]).collect(),
            ]
            .concat()
        },
    ),
    (
        "strided_blocks",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.in.AllocTensor<float>(); DataCopy(t, f.x, DataCopyParams(4, 2, 2, 0)); f.in.EnQue(t); t = f.in.DeQue<float>(); LocalTensor<float> y = f.out.AllocTensor<float>(); Adds(y, t, 0.0f, 64); f.in.FreeTensor(t); f.out.EnQue(y); y = f.out.DeQue<float>(); DataCopy(f.y, y, DataCopyParams(4, 2, 0, 1)); f.out.FreeTensor(y);",
        |x| (0..4).flat_map(|b| x[b * 32..b * 32 + 16].iter().copied().chain(vec![0.0; 8])).collect(),
    ),
    (
        "bound_queue",
        "TPipe p; TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> q; GlobalTensor<float> x, y; x.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(xs)); y.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(ys)); p.InitBuffer(q, 2, 256); for (int i = 0; i < 8; ++i) { LocalTensor<float> t = q.AllocTensor<float>(); DataCopy(t, x[i * 64], 64); q.EnQue(t); t = q.DeQue<float>(); DataCopy(y[i * 64], t, 64); q.FreeTensor(t); }",
        |x| x.to_vec(),
    ),
    (
        "own_flags",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); const TEventID loaded = f.pipe.AllocEventID<HardEvent::MTE2_V>(); DataCopy(t, f.x, 512); SetFlag<HardEvent::MTE2_V>(loaded); WaitFlag<HardEvent::MTE2_V>(loaded); f.pipe.ReleaseEventID<HardEvent::MTE2_V>(loaded); Adds(t, t, 1.0f, 512); Hand<HardEvent::V_MTE3>(); DataCopy(f.y, t, 512);",
        |x| map(x, |v| v + 1.0),
    ),
    (
        "handed_on_by_scalars",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); DataCopy(t, f.x, 512); Hand<HardEvent::MTE2_S>(); Adds(t, t, 1.0f, 512); Hand<HardEvent::V_S>(); DataCopy(f.y, t, 512);",
        |x| map(x, |v| v + 1.0),
    ),
    (
        "all_barriers",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); DataCopy(t, f.x, 512); PipeBarrier<PIPE_ALL>(); Adds(t, t, 1.0f, 512); PipeBarrier<PIPE_ALL>(); DataCopy(f.y, t, 512);",
        |x| map(x, |v| v + 1.0),
    ),
    (
        "scratch_queue",
        "Frame<float> f(xs, ys); TQue<TPosition::VECCALC, 1> c; f.pipe.InitBuffer(c, 1, 2048); f.Through(512, [&](const LocalTensor<float>& y, const LocalTensor<float>& x) { LocalTensor<float> t = c.AllocTensor<float>(); Adds(t, x, 1.0f, 512); c.EnQue(t); t = c.DeQue<float>(); Adds(y, t, 1.0f, 512); c.FreeTensor(t); });",
        |x| map(x, |v| v + 1.0 + 1.0),
    ),
    (
        "reset",
        "Frame<float> f(xs, ys); f.Through(512, [&](const LocalTensor<float>& y, const LocalTensor<float>& x) { Adds(y, x, 1.0f, 512); }); PipeBarrier<PIPE_ALL>(); f.pipe.Reset(); f.pipe.InitBuffer(f.work, 8192); LocalTensor<float> t = f.work.Get<float>(); DataCopy(t, f.y, 512); Hand<HardEvent::MTE2_V>(); Adds(t, t, 1.0f, 512); Hand<HardEvent::V_MTE3>(); DataCopy(f.y, t, 512);",
        |x| map(x, |v| v + 1.0 + 1.0),
    ),
    (
        "scalars",
        "Frame<float> f(xs, ys); f.y.SetValue(0, f.x.GetValue(5)); DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(f.y);",
        |x| vec![x[5], 0.0],
    ),
    (
        "two_segments_of_a_block",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); uint64_t low[2] = {15, 0}; uint64_t high[2] = {240, 0}; Duplicate(t, 1.0f, low, 1, 1, 8); Duplicate(t, 2.0f, high, 1, 1, 8); Hand<HardEvent::V_MTE3>(); DataCopy(f.y, t, 8);",
        |_| vec![1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 0.0],
    ),
];
