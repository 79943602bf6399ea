//! Ascend C sources: the skeleton of a row program and the headers that it includes.

use askama::Template;

/// Headers of generated sources, `(name, text)`.
pub const HEADERS: &[(&str, &str)] = &[
    ("row_program.h", include_str!("../ascend/include/row_program.h")),
    ("tiles.h", include_str!("../ascend/include/tiles.h")),
    ("copies.h", include_str!("../ascend/include/copies.h")),
    ("whole_copies.h", include_str!("../ascend/include/whole_copies.h")),
    ("combine.h", include_str!("../ascend/include/combine.h")),
    ("masks.h", include_str!("../ascend/include/masks.h")),
    ("reduce.h", include_str!("../ascend/include/reduce.h")),
    ("convert.h", include_str!("../ascend/include/convert.h")),
];

/// A buffer argument.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Name of the argument.
    pub name: String,
    /// C++ element type.
    pub element: &'static str,
}

/// A queue between global memory and unified buffer.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Name of the tensor that passes through it.
    pub tensor: String,
    /// C++ element type.
    pub element: &'static str,
    /// Bytes of a tile in unified buffer.
    pub bytes: u64,
}

/// A tensor that stays for the whole kernel.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Name of the tensor.
    pub tensor: String,
    /// C++ element type.
    pub element: &'static str,
}

/// A tensor on its way to memory.
#[derive(Clone, Debug)]
pub struct Store {
    /// Name of the tensor.
    pub tensor: String,
    /// C++ element type.
    pub element: &'static str,
    /// Statements that copy it.
    pub copies: Vec<String>,
}

/// A row that goes from one buffer to another unchanged.
#[derive(Clone, Debug)]
pub struct Move {
    /// The queue that it passes through.
    pub queue: Queue,
    /// Where it comes from.
    pub buffer: String,
    /// Where it stands there.
    pub index: String,
}

/// What a segment moves and computes: bytes that are loaded once per core, and loaded and stored per outer row and per inner
/// row; vector instructions of a tile, and the repeats of 256 bytes that they have in a full one. Nothing of it is text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Inner rows of an outer row, as an expression that a dim is read from.
    pub inner: String,
    /// How often each row is passed over: the segment's own inner rows, where lanes are inner rows, as such an expression.
    pub inner_rows: String,
    /// Bytes loaded once per core.
    pub loaded_once: u64,
    /// Bytes loaded per outer row.
    pub loaded_outer: u64,
    /// Bytes loaded per inner row.
    pub loaded_inner: u64,
    /// Bytes stored per outer row.
    pub stored_outer: u64,
    /// Bytes stored per inner row.
    pub stored_inner: u64,
    /// Vector instructions of a tile.
    pub instructions: u64,
    /// Repeats of a full tile.
    pub repeats: u64,
}

/// One segment of a kernel as a class.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// Name of the class.
    pub class: String,
    /// Inner rows per row, as an expression.
    pub inner: String,
    /// Most rows of a tile.
    pub rows: u64,
    /// Most inner rows of a row in a tile.
    pub inners: u64,
    /// Arguments that it touches.
    pub buffers: Vec<Buffer>,
    /// Dims that it uses.
    pub dims: Vec<String>,
    /// Tiles that are loaded.
    pub inputs: Vec<Queue>,
    /// Tiles that are stored.
    pub outputs: Vec<Queue>,
    /// Tiles that are only moved.
    pub moves: Vec<Queue>,
    /// Tensors that stay.
    pub kept: Vec<Kept>,
    /// Statements before the first tile.
    pub start: Vec<String>,
    /// Statements that load a tile.
    pub copy_in: Vec<String>,
    /// Vector statements of a tile.
    pub body: Vec<String>,
    /// Declarations before the stores of a tile.
    pub rows_out: Vec<String>,
    /// What is stored of a tile.
    pub stores: Vec<Store>,
    /// Bytes of temporaries.
    pub work: u64,
    /// Bytes of what stays.
    pub kept_bytes: u64,
    /// Tiles in flight per queue.
    pub depth: u32,
    /// Whether it is one of several passes over a row, which share results.
    pub passes: bool,
    /// Inner rows of the row that it passes over one by one, as an expression; empty where that is one.
    pub inner_rows: String,
    /// Results that it leaves to later passes.
    pub results: u64,
    /// Statements after the last tile.
    pub finish: Vec<String>,
    /// What it moves and computes.
    pub figures: Figures,
}

impl Segment {
    /// Bytes of unified buffer that the class takes.
    pub fn buffer_bytes(&self) -> u64 {
        let queues = self.inputs.iter().chain(&self.outputs).chain(&self.moves);
        queues.map(|queue| queue.bytes).sum::<u64>() * u64::from(self.depth) + self.work + self.kept_bytes
    }

    /// Whether something is loaded before the first tile.
    pub fn loads_at_start(&self) -> bool {
        self.start.iter().any(|line| line.contains("::LoadFixed("))
    }

    /// Queues of the class with their C++ types.
    pub fn queues(&self) -> Vec<(&'static str, &Queue)> {
        let of = |kind: &'static str, queues: &'_ [Queue]| queues.iter().map(move |_| kind).collect::<Vec<_>>();
        let kinds = [
            of("TQue<TPosition::VECIN, DEPTH>", &self.inputs),
            of("TQueBind<TPosition::VECIN, TPosition::VECOUT, DEPTH>", &self.moves),
            of("TQue<TPosition::VECOUT, DEPTH>", &self.outputs),
        ];
        kinds.concat().into_iter().zip(self.inputs.iter().chain(&self.moves).chain(&self.outputs)).collect()
    }

    /// Whether a row may have no lanes, and this pass then nothing to do: no result of a reduction to leave.
    pub fn may_skip(&self) -> bool {
        self.passes && self.finish.is_empty() && self.inner.parse::<u64>().is_err()
    }

    /// Whether anything is computed.
    pub fn computes(&self) -> bool {
        !self.inputs.is_empty() || !self.outputs.is_empty() || !self.body.is_empty()
    }
}

/// The passes over the rows of a segment: one where rows fit unified buffer.
#[derive(Clone, Debug)]
pub struct Group {
    /// Classes in order.
    pub passes: Vec<Segment>,
}

impl Group {
    /// Bytes of the results that passes leave to each other; none where there is one pass alone.
    pub fn result_bytes(&self) -> u64 {
        32 * self.passes.iter().map(|pass| pass.results).sum::<u64>()
    }

    /// Bytes of unified buffer that the passes take together.
    pub fn buffer_bytes(&self) -> u64 {
        let results = if self.is_split() { self.result_bytes().max(32) } else { 0 };
        self.passes.iter().map(Segment::buffer_bytes).sum::<u64>() + results
    }

    /// Inner rows of each row, which are passed over one by one, as an expression; empty where that is one.
    pub fn inner_rows(&self) -> &str {
        self.passes.first().map_or("", |pass| &pass.inner_rows)
    }

    /// Whether rows are passed over one by one.
    pub fn is_split(&self) -> bool {
        self.passes.iter().any(|pass| pass.passes)
    }
}

/// A kernel's source.
#[derive(Clone, Debug, Template)]
#[template(path = "ascend/kernel.cpp", escape = "none")]
pub struct Kernel {
    /// Name of the entry function.
    pub name: String,
    /// Chip as the vendor spells it.
    pub chip: &'static str,
    /// Architecture of its vector cores.
    pub arch: &'static str,
    /// Rows whose multiples cores begin at.
    pub granule: u64,
    /// Header of copies that the chip has.
    pub copies: &'static str,
    /// Lines of the row program.
    pub program: Vec<String>,
    /// Buffer arguments.
    pub buffers: Vec<String>,
    /// Integer arguments.
    pub dims: Vec<String>,
    /// Segments in order.
    pub groups: Vec<Group>,
}

impl Kernel {
    /// All classes.
    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.groups.iter().flat_map(|group| &group.passes)
    }

    /// Whether some rows are loaded several times.
    fn is_split(&self) -> bool {
        self.groups.iter().any(Group::is_split)
    }

    /// The source text.
    ///
    /// # Errors
    /// The template engine's message.
    pub fn text(&self) -> Result<String, String> {
        self.render().map(|text| text + "\n").map_err(|e| e.to_string())
    }
}
