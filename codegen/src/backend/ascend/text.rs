//! Names and index expressions as C++ text.

use std::collections::BTreeSet;
use std::convert::Infallible;

use fusewright_abi::DType;
use fusewright_graph::Dim;
use fusewright_graph::dim::{DimFn, DimFold};

/// Words that generated names must not be.
const TAKEN: &[&str] = &[
    "and", "begin", "bool", "break", "case", "char", "class", "const", "continue", "default", "do", "double", "else",
    "end", "enum", "float", "for", "half", "if", "inner", "innerRow", "int", "long", "new", "not", "or", "pipe",
    "private", "public", "return", "row", "rowBegin", "rowEnd", "rows", "short", "signed", "sizeof", "static",
    "struct", "switch", "template", "this", "tile", "tileIn", "tileOut", "tiles", "results", "kept", "i", "r", "true",
    "false", "typename", "union", "unsigned", "using", "void", "while", "work", "xor",
];

/// Names that are in use.
#[derive(Clone, Debug)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    pub fn new() -> Self {
        Names(TAKEN.iter().map(|&w| w.to_owned()).collect())
    }

    /// A name like `wish` that nothing else has.
    pub fn claim(&mut self, wish: &str) -> String {
        let mut stem: String = wish.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if stem.is_empty() || stem.starts_with(|c: char| c.is_ascii_digit()) {
            stem.insert(0, 'v');
        }
        let gap = if stem.ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
        let numbered = (2..).map(|n| format!("{stem}{gap}{n}"));
        let name = std::iter::once(stem.clone()).chain(numbered).find(|n| !self.0.contains(n)).unwrap_or(stem);
        self.0.insert(name.clone());
        name
    }
}

/// `add_rms_norm` as `AddRmsNorm`.
pub(super) fn camel_case(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    let camel: String = words.map(|w| w[..1].to_ascii_uppercase() + &w[1..]).collect();
    if camel.starts_with(|c: char| c.is_ascii_digit()) || camel.is_empty() { format!("Rows{camel}") } else { camel }
}

/// The C++ type of an element.
pub(super) fn element(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "float",
        DType::BF16 => "bfloat16_t",
        DType::F16 => "half",
        DType::F8E4M3 => "fp8_e4m3fn_t",
        DType::F8E5M2 => "fp8_e5m2_t",
        DType::I64 => "int64_t",
        DType::I32 => "int32_t",
        DType::I16 => "int16_t",
        DType::I8 => "int8_t",
        DType::U64 => "uint64_t",
        DType::U32 => "uint32_t",
        DType::U16 => "uint16_t",
        DType::U8 => "uint8_t",
        _ => return None,
    })
}

/// Whether an identifier occurs in a text.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name)
}

/// Whether a variable occurs in a text: an identifier that is no member of something.
pub(super) fn mentions_variable(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(|c| part(c) || c == '.') && !after.is_some_and(part)
    })
}

/// An f32 constant; `None` for what has no literal.
pub(super) fn float(value: f32) -> Option<String> {
    value.is_finite().then(|| format!("{value:?}f"))
}

/// An index expression; `name` spells its symbols.
pub(super) fn index(dim: &Dim, name: &dyn Fn(&str) -> String) -> String {
    match dim.fold(&mut Index { name }) {
        Ok(part) => part.text,
    }
}

struct Index<'e> {
    name: &'e dyn Fn(&str) -> String,
}

/// Text, and whether it is a sum, which a product has to bracket.
#[derive(Clone)]
struct Part {
    text: String,
    sum: bool,
}

impl Part {
    fn factor(self) -> String {
        if self.sum { format!("({})", self.text) } else { self.text }
    }
}

impl DimFold for Index<'_> {
    type Value = Part;
    type Error = Infallible;

    fn constant(&mut self, value: i64) -> Result<Part, Infallible> {
        Ok(Part { text: value.to_string(), sum: value < 0 })
    }

    fn symbol(&mut self, name: &str) -> Result<Part, Infallible> {
        Ok(Part { text: (self.name)(name), sum: false })
    }

    fn add(&mut self, a: Part, b: Part) -> Result<Part, Infallible> {
        let text = match b.text.strip_prefix('-') {
            Some(rest) => format!("{} - {rest}", a.text),
            None => format!("{} + {}", a.text, b.text),
        };
        Ok(Part { text, sum: true })
    }

    fn mul(&mut self, a: Part, b: Part) -> Result<Part, Infallible> {
        Ok(Part { text: format!("{} * {}", a.factor(), b.factor()), sum: false })
    }

    fn function(&mut self, f: DimFn, a: Part, b: Part) -> Result<Part, Infallible> {
        let name = match f {
            DimFn::FloorDiv => "FloorDiv",
            DimFn::Mod => "FloorMod",
            DimFn::Max => "Larger",
            DimFn::Min => "Smaller",
        };
        Ok(Part { text: format!("fusewright::{name}({}, {})", a.text, b.text), sum: false })
    }
}

/// The name of a value without what says where it lives.
pub(super) fn stem(name: &str) -> &str {
    ["In", "Out", "F32", "Bf16", "F16", "I32"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// What a dtype adds to the name of a value.
pub(super) fn suffix(dtype: DType) -> String {
    let name = dtype.name();
    name[..1].to_ascii_uppercase() + &name[1..]
}
