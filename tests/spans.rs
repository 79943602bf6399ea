//! Spans of compiling and launching, as a subscriber of the process gets them. A process has one, so that this is one test.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fusewright::graph::Graph;
use fusewright::{CacheChoice, Compiled, HostTensor, Options, Target, Tiers, compile};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_core::span::Current;

/// The spans that were recorded, in order, and the level of those that are wanted.
static SPANS: Mutex<Vec<Span>> = Mutex::new(Vec::new());
static LEVEL: Mutex<LevelFilter> = Mutex::new(LevelFilter::DEBUG);

/// A span: its name below those that it is in, its fields, and what the library knows it by.
struct Span {
    path: String,
    fields: String,
    metadata: &'static Metadata<'static>,
}

thread_local! {
    /// The spans that this thread is in.
    static OPEN: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

struct Recorder;

/// Writes fields down as `name=value`.
struct Fields<'f>(&'f mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("texts take everything");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, " {}={value}", field.name()).expect("texts take everything");
    }
}

fn spans() -> MutexGuard<'static, Vec<Span>> {
    SPANS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn index(id: &Id) -> usize {
    id.into_u64() as usize - 1
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("fusewright")
            && *metadata.level() <= *LEVEL.lock().expect("no test panics with it")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(*LEVEL.lock().expect("no test panics with it"))
    }

    fn new_span(&self, of: &Attributes<'_>) -> Id {
        let mut spans = spans();
        let outer = OPEN.with_borrow(|open| open.last().map(|id| format!("{}/", spans[index(id)].path)));
        let mut fields = String::new();
        of.record(&mut Fields(&mut fields));
        let path = format!("{}{}", outer.unwrap_or_default(), of.metadata().name());
        spans.push(Span { path, fields, metadata: of.metadata() });
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut spans()[index(span)].fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        OPEN.with_borrow_mut(|open| open.push(span.clone()));
    }

    fn exit(&self, _: &Id) {
        OPEN.with_borrow_mut(Vec::pop);
    }

    fn current_span(&self) -> Current {
        let open = OPEN.with_borrow(|open| open.last().cloned());
        open.map_or_else(Current::none, |id| {
            let metadata = spans()[index(&id)].metadata;
            Current::new(id, metadata)
        })
    }
}

/// Gives the spans since the last time, in order of their texts: threads compile in any order.
fn recorded() -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    thread_local! { static SEEN: RefCell<usize> = const { RefCell::new(0) }; }
    let seen = SEEN.replace(spans().len());
    lines.extend(spans()[seen..].iter().map(|span| format!("{}{}", span.path, span.fields)));
    lines.sort();
    lines
}

fn wanted(level: LevelFilter) {
    *LEVEL.lock().expect("no test panics with it") = level;
    tracing::callsite::rebuild_interest_cache();
}

/// Two layers that are equal, so that both have one kernel, and a product between them.
const LAYERS: &str = "graph @layers(s: 1..; %x: f32[s, 64], %w: f32[64, 64]) {
  %a = exp %x
  %p = matmul %a, %w {out = f32}
  %b = exp %p
  return %b
}
";

fn compiled(folder: &Path, tiers: Tiers) -> Compiled {
    let graph: Graph = LAYERS.parse().expect("it parses");
    let cache = CacheChoice::Folder(folder.to_owned());
    compile(&graph, &Target::Cpu, &Options { cache, tiers, ..Options::default() }).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn compiling_and_launching_have_spans_with_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    // Without a subscriber, and then with one that came later.
    compiled(&folder.path().join("other"), Tiers::Off);
    tracing::subscriber::set_global_default(Recorder).expect("there is no other");
    let first = compiled(&cache, Tiers::Off);
    let kernel = |from: &str| format!("compile/kernel kernel=row target=cpu compiler=cranelift from={from}");
    let graph = "compile graph=layers target=cpu".to_owned();
    assert_eq!(recorded(), [graph.clone(), kernel("compiled"), kernel("memory")]);
    compiled(&cache, Tiers::Off);
    assert_eq!(recorded(), [graph.clone(), kernel("disk"), kernel("memory")]);
    let tensor = |shape: [usize; 2]| HostTensor::zeros(fusewright::DType::F32, &shape);
    let run = |rows: usize| first.program.run(&[&tensor([rows, 64]), &tensor([64, 64])], 1).expect("it runs");
    run(2);
    assert_eq!(recorded(), Vec::<String>::new(), "launches are of a level below");
    wanted(LevelFilter::TRACE);
    run(3);
    assert_eq!(recorded(), ["launch kernel=row rows=3"; 2]);
    wanted(LevelFilter::OFF);
    run(4);
    compiled(&cache, Tiers::Off);
    assert_eq!(recorded(), Vec::<String>::new());
    #[cfg(feature = "llvm")]
    {
        wanted(LevelFilter::DEBUG);
        compiled(&cache, Tiers::Llvm);
        let kernel = |from: &str| format!("compile/kernel kernel=row target=cpu-llvm compiler=llvm from={from}");
        assert_eq!(
            recorded(),
            ["compile graph=layers target=cpu-llvm".to_owned(), kernel("compiled"), kernel("memory")]
        );
    }
}
