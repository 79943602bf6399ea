//! Right kernels: the model says nothing and yields the right bits, immediately and with everything delayed. SIMULATED.

use crate::support::right::RIGHT;
use crate::support::{self, A2, f32_bytes, from_f32, values};
use fusewright_ascend_model::{Argument, Dma, Error, Kernels, Options, Poison, Source};

fn load(kernels: &[(&str, &str)]) -> Option<Kernels> {
    let model = support::model()?;
    let frame = support::read("ascend-model/tests/model/support/frame.h");
    let mut text = String::new();
    for (i, (name, body)) in kernels.iter().enumerate() {
        // The old declaration, and the one that replaces it.
        let declared =
            if i % 2 == 0 { "extern \"C\" __global__ __aicore__" } else { "extern \"C\" __global__ __vector__" };
        text += &format!("{declared} void {name}(GM_ADDR xs, GM_ADDR ys)\n{{\n{body}\n}}\n");
    }
    let headers = [Source { name: "frame.h", text: &frame }];
    let object = model.compile(&[Source { name: "right.cpp", text: &text }], &headers, A2);
    Some(model.load(&object.unwrap_or_else(|e| panic!("{e}"))).unwrap_or_else(|e| panic!("{e}")))
}

fn run(kernels: &Kernels, name: &str, x: &[f32], options: &Options) -> (Vec<f32>, Result<(), Error>) {
    let kernel = kernels.kernel(name).unwrap_or_else(|e| panic!("{e}"));
    let mut y = vec![0; 2048];
    let arguments = &mut [Argument::In(&f32_bytes(x)), Argument::InOut(&mut y)];
    let said = kernel.launch(1, arguments, &[], options);
    (from_f32(&y), said.map(|_| ()))
}

#[test]
fn right_kernels_yield_the_right_bits() {
    let sources: Vec<_> = RIGHT.iter().map(|(name, body, _)| (*name, *body)).collect();
    let Some(kernels) = load(&sources) else { return };
    assert!(RIGHT.len() >= 40);
    let x = values(11, 512);
    for dma in [Dma::Immediate, Dma::Delayed] {
        for poison in [Poison::First, Poison::Nan] {
            for (name, _, wanted) in RIGHT {
                let (got, said) = run(&kernels, name, &x, &Options { dma, poison, ..Options::default() });
                said.unwrap_or_else(|e| panic!("{name} ({dma:?}): {e}"));
                for (i, (g, w)) in got.iter().zip(wanted(&x)).enumerate() {
                    assert_eq!(g.to_bits(), w.to_bits(), "{name}[{i}] ({dma:?}): {g}, wanted {w}");
                }
            }
        }
    }
}

const NOT_ORDERED: [(&str, &str); 3] = [
    (
        "before_the_load",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 3.0f, 64); \
         PipeBarrier<PIPE_ALL>(); DataCopy(t, f.x, 64); Adds(t[64], t, 1.0f, 64); Hand<HardEvent::V_MTE3>(); \
         DataCopy(f.y, t[64], 64);",
    ),
    (
        "before_the_vector",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); DataCopy(t, f.x, 64); \
         Hand<HardEvent::MTE2_V>(); Adds(t[64], t, 1.0f, 64); DataCopy(f.y, t[64], 64);",
    ),
    (
        "after_the_next",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); Duplicate(t, 1.0f, 64); \
         Hand<HardEvent::V_MTE3>(); DataCopy(f.y, t, 64); Duplicate(t, 2.0f, 64); Hand<HardEvent::V_S>();",
    ),
];

#[test]
fn what_nothing_orders_yields_other_data_when_it_is_delayed() {
    let Some(kernels) = load(&NOT_ORDERED) else { return };
    let x = values(12, 512);
    for (name, _) in NOT_ORDERED {
        let [now, late] = [Dma::Immediate, Dma::Delayed].map(|dma| {
            let (y, said) = run(&kernels, name, &x, &Options { dma, ..Options::default() });
            let said = said.expect_err("a race").to_string();
            assert!(said.contains("race") && said.contains("SIMULATED"), "{name}: {said}");
            y.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        });
        assert_ne!(now, late, "{name}");
    }
}

const VARIED: [(&str, &str); 5] = [
    (
        "padding",
        "Frame<float> f(xs, ys); LocalTensor<float> t = f.work.Get<float>(); DataCopyPad(t, f.x, \
         DataCopyExtParams{1, 20, 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0}); \
         Hand<HardEvent::MTE2_MTE3>(); DataCopy(f.y, t, 8);",
    ),
    (
        "quotients",
        "Frame<float> f(xs, ys); f.Through(512, [&](const LocalTensor<float>& y, const LocalTensor<float>& x) { \
         Adds(f.work.Get<float>(), x, 5.0f, 512); PipeBarrier<PIPE_V>(); Div(y, x, f.work.Get<float>(), 512); });",
    ),
    (
        "sums",
        "Frame<float> f(xs, ys); f.Through(512, [&](const LocalTensor<float>& y, const LocalTensor<float>& x) { \
         Duplicate(y, 0.0f, 512); PipeBarrier<PIPE_V>(); ReduceSum(y, x, f.work.Get<float>(), 512); });",
    ),
    (
        "approximations",
        "Frame<float> f(xs, ys); f.Through(512, [&](const LocalTensor<float>& y, const LocalTensor<float>& x) { \
         Reciprocal(y, x, 512); });",
    ),
    (
        "unknowns",
        "Frame<float> f(xs, ys); f.Through(512, [&](const LocalTensor<float>& y, const LocalTensor<float>& x) { \
         Muls(y, x, 1e-39f, 512); PipeBarrier<PIPE_V>(); \
         Cast(y.ReinterpretCast<int32_t>(), x, RoundMode::CAST_RINT, 8); });",
    ),
];

#[test]
fn variations_are_seeded_and_vary_what_they_say() {
    let Some(kernels) = load(&VARIED) else { return };
    let mut x = values(13, 512);
    x[0] = f32::NAN;
    let plain = Options::default();
    let of = |name: &str, x: &[f32], options: Options| run(&kernels, name, x, &options).0;
    let bits = |y: &[f32]| y.iter().map(|v| v.to_bits()).collect::<Vec<_>>();

    assert_eq!(bits(&of("padding", &x, plain))[5..8], [x[0].to_bits(); 3]);
    let y = of("padding", &values(1, 512), Options { poison: Poison::Nan, ..plain });
    assert!(y[5..8].iter().all(|v| v.is_nan()), "{:?}", &y[..8]);

    let x = values(14, 512);
    let exact = of("quotients", &x, plain);
    let [a, again, b] = [1, 1, 2].map(|seed| of("quotients", &x, Options { seed, ulps: 1, ..plain }));
    assert_eq!(bits(&a), bits(&again));
    assert_ne!(bits(&a), bits(&b));
    assert!(bits(&a).iter().zip(bits(&exact)).all(|(a, e)| a.abs_diff(e) <= 1));
    assert_ne!(bits(&a), bits(&exact));

    let orders: std::collections::BTreeSet<u32> =
        (0..8).map(|seed| of("sums", &x, Options { seed, order: true, ..plain })[0].to_bits()).collect();
    assert!(orders.len() > 1, "{orders:?}");

    let coarse = of("approximations", &x, plain);
    let worst = coarse.iter().zip(&x).map(|(c, x)| (c * x - 1.0).abs()).fold(0.0, f32::max);
    assert!(worst > 1e-4 && worst < 1e-2, "reciprocals are as coarse as documented: {worst}");

    let mut x = x;
    x[0] = f32::NAN;
    let usual = of("unknowns", &x, plain);
    let other = of("unknowns", &x, Options { unknown: true, ..plain });
    assert_eq!((usual[0].to_bits(), other[0].to_bits()), (0, i32::MAX as u32));
    assert!(usual[9] != 0.0 && usual[9].is_subnormal() && other[9] == 0.0, "{} {}", usual[9], other[9]);
}
