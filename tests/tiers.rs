//! Kernels that get better behind their calls, threads that the caller brings, and what a process leaves for the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fusewright::graph::{Builder, DType, ScalarFn, TensorType, TypeError, Value};
use fusewright::{CacheChoice, Compiled, Error, HostTensor, Options, Pool, Target, ThreadPool, Tiers, compile};

const LANES: usize = 4096;

/// `exp(x · w) · x`, summed up over the row: what both compilers do much with.
fn body(b: &Builder) -> Result<Vec<Value>, TypeError> {
    let rows = b.symbol("s", 0, None);
    let x = b.input("x", TensorType::new(DType::F32, [rows, (LANES as i64).into()]));
    let w = b.input("w", TensorType::new(DType::F32, [(LANES as i64).into()]));
    let scaled = b.map(ScalarFn::Exp, &[b.mul(x, w)?])?;
    Ok(vec![b.mul(scaled, x)?])
}

fn compiled(options: &Options) -> Compiled {
    let b = Builder::new("tiers");
    body(&b).expect("the body is well typed").into_iter().for_each(|value| b.output(value));
    compile(&b.finish(), &Target::Cpu, options).unwrap_or_else(|e| panic!("{e}"))
}

fn inputs(rows: usize) -> [HostTensor; 2] {
    let tensor = |shape: Vec<usize>, seed: usize| {
        let elements: usize = shape.iter().product();
        let value = |i: usize| ((i * 7919 + seed) % 2003) as f32 / 1001.5 - 1.0;
        HostTensor { dtype: DType::F32, shape, bytes: (0..elements).flat_map(|i| value(i).to_ne_bytes()).collect() }
    };
    [tensor(vec![rows, LANES], 1), tensor(vec![LANES], 2)]
}

fn run(compiled: &Compiled, inputs: &[HostTensor; 2], threads: usize) -> Vec<HostTensor> {
    compiled.program.run(&inputs.each_ref(), threads).unwrap_or_else(|e| panic!("{e}"))
}

fn choose(tiers: Tiers) -> Options {
    Options { cache: CacheChoice::Off, tiers, ..Options::default() }
}

#[cfg(not(feature = "llvm"))]
#[test]
fn without_llvm_there_is_one_tier_and_asking_for_more_is_an_error() {
    assert_eq!(compiled(&choose(Tiers::Environment)).program.tiers(), fusewright::TierCounts::default());
    let b = Builder::new("tiers");
    body(&b).expect("the body is well typed").into_iter().for_each(|value| b.output(value));
    let error = compile(&b.finish(), &Target::Cpu, &choose(Tiers::On)).expect_err("it is not in this build");
    assert!(matches!(&error, Error::Unavailable(said) if said.contains("feature `llvm`")), "{error}");
}

#[cfg(feature = "llvm")]
mod llvm {
    use std::time::{Duration, Instant};

    use fusewright::{TierCounts, settle};

    use super::*;

    const SWAPPED: TierCounts = TierCounts { asked: 1, swapped: 1, refused: 0 };

    #[test]
    fn calls_go_on_while_llvm_compiles_and_bits_stay() {
        let (program, inputs) = (compiled(&choose(Tiers::On)), inputs(16));
        let expected = run(&program, &inputs, 1);
        assert_eq!(program.program.tiers(), TierCounts::default(), "a few rows are worth no compilation");
        // Calls before LLVM was asked for, and beside its compilation: how many, and the longest.
        let mut calls = [(0, Duration::ZERO); 2];
        let start = Instant::now();
        while program.program.tiers().swapped == 0 {
            let asked = program.program.tiers().asked > 0;
            let call = Instant::now();
            let results = run(&program, &inputs, 1);
            let (count, longest) = &mut calls[usize::from(asked)];
            (*count, *longest) = (*count + 1, (*longest).max(call.elapsed()));
            assert!(results == expected, "other bits");
            assert!(start.elapsed() < Duration::from_secs(120), "LLVM's code never came");
        }
        assert_eq!((program.program.tiers(), program.fused.partition.regions.len()), (SWAPPED, 1));
        assert!(run(&program, &inputs, 1) == expected, "other bits");
        assert!(calls.iter().all(|(count, _)| *count > 0), "{calls:?}");
        println!("calls before and beside the compilation, and the longest: {calls:?}");
    }

    #[test]
    fn off_and_llvm_alone_have_one_tier() {
        let inputs = inputs(3);
        let expected = run(&compiled(&choose(Tiers::Off)), &inputs, 1);
        for tiers in [Tiers::Off, Tiers::Llvm] {
            let program = compiled(&choose(tiers));
            program.program.promote();
            assert_eq!(program.program.tiers(), TierCounts::default(), "{tiers:?}");
            assert!(run(&program, &inputs, 1) == expected, "{tiers:?}");
        }
    }

    #[test]
    fn promoted_kernels_are_better_at_once_and_the_next_process_has_them_from_disk() {
        let folder = tempfile::tempdir().expect("the system has a place for temporary files");
        let cache = CacheChoice::Folder(folder.path().to_owned());
        let options = |tiers| Options { cache: cache.clone(), tiers, ..Options::default() };
        let (first, inputs) = (compiled(&options(Tiers::On)), inputs(3));
        let expected = run(&first, &inputs, 1);
        assert!(first.kernels.iter().all(|kernel| !kernel.from_disk));
        first.program.promote();
        first.program.promote();
        assert_eq!(first.program.tiers(), SWAPPED);
        assert!(run(&first, &inputs, 1) == expected);
        // What LLVM made is loaded in place of the first tier, so that nothing is left to be made better.
        let second = compiled(&options(Tiers::On));
        second.program.promote();
        assert!(second.kernels.iter().all(|kernel| kernel.from_disk));
        assert_eq!((second.program.tiers(), second.warning.clone()), (TierCounts::default(), None));
        assert!(run(&second, &inputs, 1) == expected);
        // Either tier alone finds its own.
        for tiers in [Tiers::Off, Tiers::Llvm] {
            assert!(compiled(&options(tiers)).kernels.iter().all(|kernel| kernel.from_disk), "{tiers:?}");
        }
    }

    /// In the children of the test below.
    const END: &str = "FUSEWRIGHT_TEST_END";

    /// Not a test of its own: it ends while LLVM compiles.
    #[test]
    fn child_that_ends() {
        if std::env::var_os(END).is_some() {
            let (program, inputs) = (compiled(&choose(Tiers::On)), inputs(256));
            while program.program.tiers().asked == 0 {
                run(&program, &inputs, 1);
            }
            // The program is not dropped, and its compiler not waited for.
            std::mem::forget(program);
            std::process::exit(0);
        }
    }

    #[test]
    fn a_process_ends_well_while_llvm_compiles() {
        let this = std::env::current_exe().expect("a test is a file");
        for _ in 0..10 {
            let mut child = std::process::Command::new(&this);
            child.args(["--exact", "llvm::child_that_ends"]).env(END, "1");
            let ended = child.output().expect("the test starts");
            assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
        }
    }

    #[test]
    fn programs_are_called_and_dropped_on_many_threads_while_kernels_are_swapped() {
        let inputs = inputs(2);
        let expected = run(&compiled(&choose(Tiers::Off)), &inputs, 1);
        let program = Arc::new(compiled(&choose(Tiers::On)));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (program, inputs, expected) = (Arc::clone(&program), &inputs, &expected);
                scope.spawn(move || {
                    for call in 0..200 {
                        if (thread, call) == (0, 20) {
                            program.program.promote();
                        }
                        assert!(run(&program, inputs, 2) == *expected, "thread {thread}, call {call}");
                    }
                });
            }
        });
        assert_eq!(program.program.tiers(), SWAPPED);
        drop(program);
        settle();
    }
}

/// Threads of the caller, who counts what they are asked for.
#[derive(Debug)]
struct Own {
    launches: Arc<AtomicUsize>,
    /// How often it calls the work of a launch: a pool that calls too seldom or too often changes nothing.
    calls: usize,
}

impl Pool for Own {
    fn run(&self, _: usize, work: &(dyn Fn() + Sync)) {
        self.launches.fetch_add(1, Ordering::Relaxed);
        (0..self.calls).for_each(|_| work());
    }
}

#[test]
fn the_caller_may_bring_threads_and_small_launches_ask_for_none() {
    for calls in [0, 1, 5] {
        let launches = Arc::new(AtomicUsize::new(0));
        let pool = ThreadPool::of(Own { launches: Arc::clone(&launches), calls });
        let program = compiled(&Options { pool, ..choose(Tiers::Off) });
        let (small, large) = (inputs(2), inputs(300));
        let shared = compiled(&choose(Tiers::Off));
        assert!(run(&program, &small, 8) == run(&shared, &small, 1));
        assert_eq!(launches.load(Ordering::Relaxed), 0, "two rows are not worth a thread");
        assert!(run(&program, &large, 8) == run(&shared, &large, 1));
        assert_eq!(launches.load(Ordering::Relaxed), 1);
        assert!(run(&program, &large, 1) == run(&shared, &large, 3));
        assert_eq!(launches.load(Ordering::Relaxed), 1, "one thread is no matter of a pool");
    }
}

#[test]
fn launches_from_many_threads_share_the_pool() -> Result<(), Error> {
    let (program, inputs) = (compiled(&choose(Tiers::Off)), inputs(200));
    let expected = run(&program, &inputs, 1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10).for_each(|_| assert!(run(&program, &inputs, 3) == expected, "other bits")));
        }
    });
    Ok(())
}

#[test]
fn rows_that_write_one_place_are_computed_one_after_another() {
    const ROWS: usize = 300;
    let launches = Arc::new(AtomicUsize::new(0));
    let pool = ThreadPool::of(Own { launches: Arc::clone(&launches), calls: 1 });
    let compiled = |slots: &str, at: &str| {
        let graph = format!(
            "graph @write(s: 1..; %x: f32[s, {LANES}], %c: f32[{ROWS}, {LANES}], %slots: {slots}) {{
               %y = neg %x
               {at}
               %o = scatter %c, %at, %y {{axis = 0}}
               return %o
             }}"
        );
        let graph = graph.parse().unwrap_or_else(|e| panic!("{e}"));
        let options = Options { pool: pool.clone(), ..choose(Tiers::Off) };
        compile(&graph, &Target::Cpu, &options).unwrap_or_else(|e| panic!("{e}"))
    };
    let [x, _] = inputs(ROWS);
    let cache = HostTensor { bytes: vec![0; x.bytes.len()], ..x.clone() };
    // How often the pool is asked, and which row is left in slot 0.
    let check = |program: &Compiled, dtype: DType, slots: &dyn Fn(usize) -> i64, asked: usize, left: usize| {
        let bytes = |i: usize| {
            let slot = slots(i).to_ne_bytes().to_vec();
            if dtype == DType::I64 { slot } else { (slots(i) as i32).to_ne_bytes().to_vec() }
        };
        let slots = HostTensor { dtype, shape: vec![ROWS], bytes: (0..ROWS).flat_map(bytes).collect() };
        launches.store(0, Ordering::Relaxed);
        let results = program.program.run(&[&x, &cache, &slots], 8).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(launches.load(Ordering::Relaxed), asked);
        let row = |of: &HostTensor, i: usize| of.bytes[i * LANES * 4..][..4].to_vec();
        let mut expected = row(&x, left);
        expected[3] ^= 128;
        assert_eq!(row(&results[0], 0), expected);
    };
    for (dtype, name) in [(DType::I64, "i64[s]"), (DType::I32, "i32[s]")] {
        let cast =
            if dtype == DType::I64 { "%at = reshape %slots {shape = [s]}" } else { "%at = cast %slots {to = i64}" };
        let given = compiled(name, cast);
        check(&given, dtype, &|i| i as i64, 1, 0);
        check(&given, dtype, &|i| (ROWS - 1 - i) as i64, 1, ROWS - 1);
        check(&given, dtype, &|_| 0, 0, ROWS - 1);
        check(&given, dtype, &|i| if i == 7 { 0 } else { i as i64 }, 0, 7);
        // Rows that are written nowhere are no reason to wait.
        check(&given, dtype, &|i| if i % 2 == 0 { i as i64 } else { -1 }, 1, 0);
    }
    let computed = compiled("i64[s]", "%two = literal i64 2\n%at = div %slots, %two");
    check(&computed, DType::I64, &|i| i as i64, 0, 1);
}
