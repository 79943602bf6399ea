//! What makes a folder of Ascend C sources a project that a CANN user can build: tables of arguments, a program that launches,
//! build files and a page.

use askama::Template;

/// Files without holes, `(name, text)`: the program that launches, and the form of its tables.
pub const SOURCES: &[(&str, &str)] = &[
    ("main.cpp", include_str!("../ascend/project/main.cpp")),
    ("launch_table.h", include_str!("../ascend/project/launch_table.h")),
];

/// A buffer argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Name.
    pub name: String,
    /// Enumerator of its dtype.
    pub dtype: String,
    /// Enumerator: `IN`, `OUT` or `INOUT`.
    pub access: &'static str,
    /// Position of the buffer whose memory it has, or −1.
    pub alias: i64,
    /// C++ expression of its elements over `d`, the integers.
    pub elements: String,
}

/// A kernel's arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Entry function.
    pub name: String,
    /// Buffers in order.
    pub buffers: Vec<Buffer>,
    /// Integers in order.
    pub dims: Vec<String>,
    /// C++ expression of its rows over `d`, the integers.
    pub rows: String,
    /// C++ expression over `d` that says whether it takes these integers.
    pub fits: String,
    /// Whether its rows are computed one after the other.
    pub ascending: bool,
}

/// `kernels.h`.
#[derive(Clone, Debug, Template)]
#[template(path = "ascend/project/kernels.h", escape = "none")]
pub struct Kernels {
    /// Chip as the vendor spells it.
    pub chip: &'static str,
    /// Architecture of its vector cores.
    pub arch: &'static str,
    /// Its vector cores.
    pub vector_cores: u32,
    /// The kernels.
    pub kernels: Vec<Kernel>,
}

/// A kernel and its launch for the front end.
#[derive(Clone, Debug, Template)]
#[template(path = "ascend/project/kernel.asc", escape = "none")]
pub struct Launcher {
    /// Entry function.
    pub name: String,
    /// Buffers in order.
    pub buffers: Vec<String>,
    /// Integers in order.
    pub dims: Vec<String>,
}

/// `CMakeLists.txt`.
#[derive(Clone, Debug, Template)]
#[template(path = "ascend/project/CMakeLists.txt", escape = "none")]
pub struct Build {
    /// Architecture of the chip's vector cores.
    pub arch: &'static str,
    /// Name of the chip as `SOC_VERSION` spells it.
    pub soc: String,
    /// Names of the kernels.
    pub kernels: Vec<String>,
}

/// A line of the page's table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Entry function.
    pub name: String,
    /// Name of what it computes.
    pub pattern: String,
    /// Buffers in words.
    pub buffers: String,
    /// Integers in words.
    pub dims: String,
    /// Rows over the integers.
    pub rows: String,
}

/// `README.md`.
#[derive(Clone, Debug, Template)]
#[template(path = "ascend/project/README.md", escape = "none")]
pub struct Page {
    /// Name of the graph.
    pub model: String,
    /// Target as on the command line.
    pub target: String,
    /// Chip as the vendor spells it.
    pub chip: &'static str,
    /// Command lines that compile one kernel.
    pub by_hand: Vec<String>,
    /// Arguments of `launch` for one kernel.
    pub example: String,
    /// The kernels.
    pub table: Vec<Line>,
    /// What is not there, and why.
    pub refused: Vec<(String, String)>,
}

/// The text of a template.
///
/// # Errors
/// The template engine's message.
pub fn text(template: &impl Template) -> Result<String, String> {
    template.render().map(|text| text + "\n").map_err(|e| e.to_string())
}
