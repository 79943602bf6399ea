//! Ascend C sources: the skeleton of a row program and the headers that it includes.

use askama::Template;

/// Headers of generated sources, `(name, text)`.
pub const HEADERS: &[(&str, &str)] = &[("row_program.h", include_str!("../ascend/include/row_program.h"))];

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
    /// The argument on its other side.
    pub buffer: String,
    /// Element of the argument that a row starts at.
    pub index: String,
    /// Elements of a row.
    pub lanes: u64,
    /// Bytes of a row in unified buffer.
    pub bytes: u64,
    /// Condition under which the row is moved; empty for always.
    pub condition: String,
}

/// One segment of a kernel as a class.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Name of the class.
    pub class: String,
    /// Inner rows per row, as an expression.
    pub inner: String,
    /// Whether anything depends on the inner row.
    pub uses_inner: bool,
    /// Arguments that it touches.
    pub buffers: Vec<Buffer>,
    /// Dims that it uses.
    pub dims: Vec<String>,
    /// Rows that are the same for all rows of the kernel, loaded once per core.
    pub constants: Vec<Queue>,
    /// Rows loaded per inner row.
    pub inputs: Vec<Queue>,
    /// Rows stored per inner row; the first of equal tensors owns the queue.
    pub outputs: Vec<Queue>,
    /// Rows that are only moved.
    pub moves: Vec<Move>,
    /// Scalars that addresses of inputs need, as declarations.
    pub scalars_in: Vec<String>,
    /// Scalars that addresses and conditions of outputs need.
    pub scalars_out: Vec<String>,
    /// Vector statements of an inner row.
    pub body: Vec<String>,
    /// Bytes of temporaries.
    pub work: u64,
    /// Rows in flight per queue.
    pub depth: u32,
}

impl Segment {
    /// Bytes of unified buffer that the class takes.
    pub fn buffer_bytes(&self) -> u64 {
        let bytes = |queue: &Queue| queue.bytes;
        let constants: u64 = self.constants.iter().map(bytes).sum();
        let moves = self.moves.iter().map(|m| m.from.bytes);
        let rows: u64 = self.inputs.iter().map(bytes).chain(self.owned_outputs().map(bytes)).chain(moves).sum();
        constants + rows * u64::from(self.depth) + self.work
    }

    /// Output queues without those that share a tensor.
    pub fn owned_outputs(&self) -> impl Iterator<Item = &Queue> {
        let first = |q: &Queue| self.outputs.iter().position(|o| o.tensor == q.tensor);
        self.outputs.iter().enumerate().filter(move |(i, q)| first(q) == Some(*i)).map(|(_, q)| q)
    }
}

/// A row that goes from one buffer to another unchanged.
#[derive(Clone, Debug)]
pub struct Move {
    /// Where it comes from.
    pub from: Queue,
    /// Where it goes.
    pub to: Queue,
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
    /// Lines of the row program.
    pub program: Vec<String>,
    /// Buffer arguments.
    pub buffers: Vec<String>,
    /// Integer arguments.
    pub dims: Vec<String>,
    /// Segments in order.
    pub segments: Vec<Segment>,
}

impl Kernel {
    /// The source text.
    ///
    /// # Errors
    /// The template engine's message.
    pub fn text(&self) -> Result<String, String> {
        self.render().map(|text| text + "\n").map_err(|e| e.to_string())
    }
}
