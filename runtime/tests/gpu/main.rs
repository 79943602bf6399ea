//! Work that stays on a GPU: what is checked, what runs, and what graphs keep. Where there is no GPU, it says so.

use fusewright_abi::{
    ContentKey, Count, DType, DimArg, DimSource, KernelArtifact, LaunchRule, Param, ParamAccess, Payload, PayloadKind,
    RowOrder, Target,
};
use std::cell::Cell;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fusewright_runtime::capture::{CaptureSizes, Part, Pieces, Recorder, Steps};
use fusewright_runtime::cuda::{
    Blas, DeviceArg, DeviceBuffer, Gpu, GraphRecorder, Kernel, LaunchOptions, Prepared, Stream,
};
use fusewright_runtime::{MatMul, Matrix, RuntimeError};

mod devices;
mod dropped;
#[path = "../../../xtask/src/skipped.rs"]
mod skipped;
use skipped::skipped;

/// Adds one to every word; a block of one thread for each row.
const PTX: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 x, .param .u64 y, .param .u64 s, .param .u64 begin, .param .u64 end)
{
    .reg .u64 %a<6>;
    .reg .u32 %r<3>;
    ld.param.u64 %a0, [x];
    ld.param.u64 %a1, [y];
    ld.param.u64 %a2, [begin];
    cvta.to.global.u64 %a0, %a0;
    cvta.to.global.u64 %a1, %a1;
    mov.u32 %r0, %ctaid.x;
    cvt.u64.u32 %a3, %r0;
    add.u64 %a3, %a3, %a2;
    shl.b64 %a3, %a3, 2;
    add.u64 %a4, %a0, %a3;
    add.u64 %a5, %a1, %a3;
    ld.global.u32 %r1, [%a4];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%a5], %r1;
    ret;
}
";

fn artifact() -> KernelArtifact {
    kernel_of("add_one", PTX)
}

fn kernel_of(name: &str, ptx: &str) -> KernelArtifact {
    let param = |name: &str, access| Param {
        name: name.to_owned(),
        dtype: DType::I32,
        access,
        rank: 1,
        elements: Count::Dim(0),
        alias: (access == ParamAccess::Out).then_some(0),
        early: false,
    };
    KernelArtifact {
        name: name.to_owned(),
        target: "cuda:sm_80".parse().expect("a target"),
        key: ContentKey([0; 32]),
        params: vec![param("x", ParamAccess::In), param("y", ParamAccess::Out)],
        dims: vec![DimArg { name: "s".to_owned(), source: DimSource::Extent { param: 0, axis: 0 } }],
        claims: Vec::new(),
        launch: LaunchRule {
            rows: Count::Dim(0),
            order: RowOrder::Any,
            blocks_per_row: Count::Constant(1),
            shares: 1,
            many: None,
            threads: 1,
            shared: Count::Constant(0),
            alignment: 16,
            tables: 0,
            dependent: false,
        },
        payload: Payload { kind: PayloadKind::Ptx, bytes: ptx.as_bytes().to_vec() },
    }
}

/// Held by each test while it runs: one of them measures time, and what loads, allocates or frees may wait for a busy GPU.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A kernel and a stream on the GPU of this machine, or none, which is said under the name of the test.
fn kernel(test: &str) -> Option<(Gpu, Stream, Kernel)> {
    let target: Target = "cuda:sm_80".parse().expect("a target");
    let gpu = match Gpu::of(&target) {
        Ok(gpu) => gpu,
        Err(error) => {
            skipped(test, error);
            return None;
        }
    };
    let loaded = gpu.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
    let stream = gpu.stream().unwrap_or_else(|e| panic!("{e}"));
    Some((gpu, stream, loaded))
}

fn words(buffer: &DeviceBuffer, stream: &Stream) -> Vec<u32> {
    let mut bytes = vec![0; buffer.len()];
    buffer.download(stream, 0, &mut bytes).unwrap_or_else(|e| panic!("{e}"));
    bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect()
}

#[test]
fn launches_graphs_and_events() {
    let _turn = turn();
    let Some((gpu, mut stream, kernel)) = kernel("launches_graphs_and_events") else { return };
    let mut run = || -> Result<(), RuntimeError> {
        assert!(kernel.registers()? > 0 && gpu.processors() > 0 && gpu.cache_bytes() > 0 && gpu.driver().0 >= 12);
        let (x, y) = (gpu.buffer(12)?, gpu.buffer(12)?);
        x.upload(&stream, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])?;
        let options = LaunchOptions { dependent: true, distinct: true, unordered: false };
        let apart = kernel.prepare(&[DeviceArg::In(&x), DeviceArg::Out(&y)], &[3], 3, options)?;
        apart.enqueue(&stream)?;
        assert_eq!(words(&y, &stream), [2, 3, 4]);
        let in_place = kernel.prepare(&[DeviceArg::Same(1), DeviceArg::Out(&y)], &[3], 2, options)?;
        let graph = stream.capture(|stream| {
            in_place.enqueue(stream)?;
            in_place.enqueue(stream)
        })?;
        assert_eq!(words(&y, &stream), [2, 3, 4], "a capture runs nothing");
        // The graph keeps what it uses.
        let kept = y.clone();
        drop((apart, in_place, y));
        graph.upload(&stream)?;
        let (begin, end) = (gpu.event()?, gpu.event()?);
        begin.record(&stream)?;
        graph.launch(&stream)?;
        graph.launch(&stream)?;
        end.record(&stream)?;
        assert!(begin.us_until(&end)? > 0.0);
        assert_eq!(words(&kept, &stream), [6, 7, 4]);
        kept.copy_from(&stream, &x)?;
        assert_eq!(words(&kept, &stream), [1, 2, 3]);
        kept.fill(&stream, 0xff)?;
        assert_eq!(words(&kept, &stream), [u32::MAX; 3]);
        let refused = stream.capture(|stream| kept.upload(stream, &[0]));
        assert!(refused.is_err(), "a graph holds no copies from the host");
        stream.wait()
    };
    run().unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let _turn = turn();
    let Some((gpu, stream, kernel)) = kernel("launches_that_do_not_fit_are_refused") else { return };
    let buffer = |bytes| gpu.buffer(bytes).unwrap_or_else(|e| panic!("{e}"));
    let (x, y, short) = (buffer(12), buffer(12), buffer(8));
    let refused = |args: &[DeviceArg<'_>], rows, said: &str| {
        let error = kernel.prepare(args, &[3], rows, LaunchOptions::default()).expect_err("does not fit").to_string();
        assert!(error.contains(said), "{error}");
    };
    refused(&[DeviceArg::In(&x), DeviceArg::Out(&short)], 3, "takes 12 bytes, the buffer has 8");
    refused(&[DeviceArg::In(&x), DeviceArg::In(&y)], 3, "is written, but the buffer is read-only");
    refused(&[DeviceArg::In(&x), DeviceArg::Out(&x)], 3, "share memory");
    refused(&[DeviceArg::In(&x)], 3, "takes 2 buffers");
    refused(&[DeviceArg::In(&x), DeviceArg::Out(&y)], 4, "has 3 rows");
    assert!(x.upload(&stream, &[0; 13]).is_err() && x.download(&stream, 8, &mut [0; 5]).is_err());
}

/// Steps that each add one to what the step before made, in two buffers by turns.
struct Chain {
    kernel: Kernel,
    parts: Vec<Part>,
    /// A step that cannot be enqueued.
    broken: Cell<Option<usize>>,
}

impl Chain {
    fn launch(&self, step: usize, rows: usize, buffers: &[DeviceBuffer]) -> Result<Prepared, RuntimeError> {
        let args = [DeviceArg::In(&buffers[step % 2]), DeviceArg::Out(&buffers[(step + 1) % 2])];
        self.kernel.prepare(
            &args,
            &[rows as i64],
            rows,
            LaunchOptions { dependent: true, distinct: true, unordered: false },
        )
    }
}

impl Steps<GraphRecorder> for Chain {
    type Frame = (Vec<DeviceBuffer>, Vec<Prepared>);
    type Error = RuntimeError;

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn needs(&self, rows: usize) -> Result<Vec<usize>, RuntimeError> {
        Ok(vec![4 * rows; 2])
    }

    fn frame(&self, rows: usize, lent: &[DeviceBuffer], _: &GraphRecorder) -> Result<Self::Frame, RuntimeError> {
        let launches = (0..self.parts.len()).map(|step| self.launch(step, rows, lent));
        Ok((lent.to_vec(), launches.collect::<Result<_, _>>()?))
    }

    fn enqueue(
        &self,
        (buffers, launches): &Self::Frame,
        steps: Range<usize>,
        rows: usize,
        stream: &Stream,
    ) -> Result<(), RuntimeError> {
        for step in steps {
            if self.broken.get() == Some(step) {
                // A call that a graph cannot hold, in the middle of one.
                return buffers[0].upload(stream, &[0]);
            }
            if self.parts[step] == Part::Split {
                self.launch(step, rows, buffers)?.enqueue(stream)?;
            } else {
                launches[step].enqueue(stream)?;
            }
        }
        Ok(())
    }
}

#[test]
fn pieces_of_steps_are_cuda_graphs_that_share_memory() {
    let _turn = turn();
    let Some((gpu, stream, kernel)) = kernel("pieces_of_steps_are_cuda_graphs_that_share_memory") else { return };
    let run = || -> Result<(), RuntimeError> {
        use Part::{Captured as C, Split as S};
        let chain = Chain { kernel, parts: vec![C, C, S, C], broken: Cell::new(Some(1)) };
        let sizes = CaptureSizes::default();
        let mut pieces = Pieces::new(GraphRecorder::new(gpu.clone(), stream), chain, sizes.clone())?;
        let call = |pieces: &mut Pieces<GraphRecorder, Chain>, rows: usize| {
            let given: Vec<u8> = (0..rows as u32).flat_map(|row| (1000 * rows as u32 + row).to_le_bytes()).collect();
            pieces.run(
                rows,
                |_, (buffers, _), recorder| buffers[0].upload(recorder.stream(), &given),
                |_, (buffers, _), recorder| Ok(words(&buffers[0], recorder.stream())[..rows].to_vec()),
            )
        };
        assert!(call(&mut pieces, 3).is_err(), "the second step cannot be recorded");
        pieces.steps().broken.set(None);
        pieces.prepare()?;
        for rows in (0..=520).chain([5, 300, 1]) {
            let expected: Vec<u32> = (0..rows as u32).map(|row| 1000 * rows as u32 + row + 4).collect();
            assert_eq!(call(&mut pieces, rows)?, sizes.fit(rows).map(|_| expected), "{rows} rows");
        }
        let report = pieces.report();
        assert_eq!(report.graphs.len(), 2 * sizes.all().len());
        assert!(report.graphs.iter().all(|graph| graph.cost.nodes == graph.steps.len()), "{:?}", report.graphs);
        assert_eq!(report.pool_bytes, 2 * 4 * 512);
        let (us, bytes) = report.graphs.iter().fold((0, 0), |sum, g| (sum.0 + g.us, sum.1 + g.cost.bytes));
        println!("{} graphs in {us} µs, {bytes} bytes of device memory beside the pool", report.graphs.len());
        Ok(())
    };
    run().unwrap_or_else(|e| panic!("{e}"));
}

/// Products of numbers whose sums are exact, so that every order of summing gives the same bits.
#[test]
fn products_are_those_of_the_host_wherever_matrices_lie() {
    let _turn = turn();
    const TEST: &str = "products_are_those_of_the_host_wherever_matrices_lie";
    let Some((gpu, mut stream, _)) = kernel(TEST) else { return };
    let folders: Vec<_> = std::env::var_os("FUSEWRIGHT_CUBLASLT_DIR").into_iter().map(Into::into).collect();
    let blas = match Blas::open(&gpu, &folders) {
        Ok(blas) => blas,
        Err(error) => return println!("skipped: {TEST} ({error})"),
    };
    assert!(blas.version() >= 110_000);
    let matrix =
        |row_stride, column_stride, batch_stride| Matrix { dtype: DType::F32, row_stride, column_stride, batch_stride };
    let (m, n, k) = (9, 17, 33);
    let row_major = [matrix(k, 1, m * k), matrix(n, 1, k * n), matrix(n, 1, m * n)];
    let [a, b, c] = row_major;
    for [a, b, c] in [
        row_major,
        [a, matrix(1, k, n * k), c],
        [a, matrix(n, 1, 0), c],
        [matrix(1, m, m * k), b, matrix(1, m, m * n)],
        [matrix(3 * k, 1, k), matrix(3 * n, 1, n), matrix(3 * n, 1, n)],
    ] {
        let product = MatMul { batch: 3, m, n, k, a, b, c };
        let value = |i: usize| ((i * 7) % 13) as f32 - 6.0;
        let at = |x: &Matrix, batch: usize, i: usize, j: usize| {
            batch * x.batch_stride + i * x.row_stride + j * x.column_stride
        };
        let run = || -> Result<Vec<f32>, RuntimeError> {
            let count = 3 * k * m.max(n) * 3;
            let bytes: Vec<u8> = (0..count).flat_map(|i| value(i).to_le_bytes()).collect();
            let (x, y, out) = (gpu.buffer(4 * count)?, gpu.buffer(4 * count)?, gpu.buffer(4 * count)?);
            x.upload(&stream, &bytes)?;
            // The right one begins at an address that few powers of two divide.
            y.part(4..4 * count)?.upload(&stream, &bytes[..4 * count - 4])?;
            out.fill(&stream, 0)?;
            let prepared = blas.prepare(&product, [&x, &y.part(4..4 * count)?, &out])?;
            prepared.enqueue(&stream)?;
            let mut results = vec![0; 4 * count];
            out.download(&stream, 0, &mut results)?;
            Ok(results.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
        };
        let got = run().unwrap_or_else(|e| panic!("{product:?}: {e}"));
        for (batch, i, j) in (0..3).flat_map(|l| (0..m).flat_map(move |i| (0..n).map(move |j| (l, i, j)))) {
            let sum: f32 = (0..k).map(|l| value(at(&a, batch, i, l)) * value(at(&b, batch, l, j))).sum();
            assert_eq!(got[at(&c, batch, i, j)], sum, "{product:?} at {batch}, {i}, {j}");
        }
    }
    codes(&gpu, &stream, &blas);
    let product = MatMul { batch: 1, m, n, k, a, b, c };
    let (x, short) = (gpu.buffer(4 * 3 * k * n).expect("small"), gpu.buffer(8).expect("small"));
    let error = blas.prepare(&product, [&x, &x, &short]).expect_err("too short").to_string();
    assert!(error.contains("the buffer has 8"), "{error}");
    let out = gpu.buffer(4 * m * n).expect("small");
    let prepared = blas.prepare(&product, [&x, &x, &out]).unwrap_or_else(|e| panic!("{e}"));
    let graph = stream.capture(|stream| prepared.enqueue(stream)).unwrap_or_else(|e| panic!("{e}"));
    graph.launch(&stream).and_then(|()| stream.wait()).unwrap_or_else(|e| panic!("{e}"));
}

/// Products of i8 into i32.
fn codes(gpu: &Gpu, stream: &Stream, blas: &std::sync::Arc<Blas>) {
    let matrix = |dtype, row_stride, column_stride| Matrix { dtype, row_stride, column_stride, batch_stride: 0 };
    let (m, n, k) = (5, 32, 48);
    let (a, b, c) = (matrix(DType::I8, k, 1), matrix(DType::I8, 1, k), matrix(DType::I32, n, 1));
    let value = |i: usize| ((i * 37) % 256) as u8 as i8;
    let run = || -> Result<Vec<i32>, RuntimeError> {
        let bytes: Vec<u8> = (0..n * k).map(|i| value(i) as u8).collect();
        let (x, w, out) = (gpu.buffer(n * k)?, gpu.buffer(n * k)?, gpu.buffer(4 * m * n)?);
        x.upload(stream, &bytes)?;
        w.upload(stream, &bytes)?;
        blas.prepare(&MatMul { batch: 1, m, n, k, a, b, c }, [&x, &w, &out])?.enqueue(stream)?;
        let mut results = vec![0; 4 * m * n];
        out.download(stream, 0, &mut results)?;
        Ok(results.as_chunks().0.iter().map(|&word| i32::from_le_bytes(word)).collect())
    };
    let got = run().unwrap_or_else(|e| panic!("{e}"));
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let sum: i32 = (0..k).map(|l| i32::from(value(i * k + l)) * i32::from(value(j * k + l))).sum();
        assert_eq!(got[i * n + j], sum, "at {i}, {j}");
    }
}
