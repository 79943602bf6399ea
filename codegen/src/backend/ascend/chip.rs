//! Chips: cores, memory and what their vector units convert.
//!
//! Sources are the vendor's platform descriptions; nothing here was measured. The usable unified buffer is what is left
//! after the reserved parts, so that code for a chip fits under every documented setting.

use fusewright_abi::DType;

/// One chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    /// Name in targets, lower case.
    pub name: &'static str,
    /// Name as the vendor spells it.
    pub vendor: &'static str,
    /// Architecture of the vector core, as the compiler is told.
    pub arch: &'static str,
    /// Vector cores.
    pub vector_cores: u32,
    /// Bytes of unified buffer that a kernel may use.
    pub buffer_bytes: u64,
    /// Whether bf16 is converted to and from f32.
    pub bf16: bool,
    /// Whether f32 is converted to the two fp8 formats.
    pub fp8: bool,
    /// Whether integers of 32 bits are compared.
    pub compares_words: bool,
    /// Whether copies of any number of bytes exist; else they are of whole 32 bytes, and what is left goes by the scalar
    /// unit.
    pub ragged_copies: bool,
}

impl Chip {
    /// Why no vector of a dtype is computed on this chip, where it is one that chips compute with.
    pub const fn lacks(&self, dtype: DType) -> Option<&'static str> {
        match dtype {
            DType::BF16 if !self.bf16 => Some("its vector unit does not convert it"),
            _ => None,
        }
    }

    /// The header that copies, and its namespace.
    pub(super) const fn copies(&self) -> (&'static str, &'static str) {
        if self.ragged_copies { ("copies.h", "fusewright") } else { ("whole_copies.h", "fusewright::whole") }
    }
}

const fn a2(name: &'static str, vendor: &'static str, vector_cores: u32) -> Chip {
    Chip {
        name,
        vendor,
        arch: "dav-2201",
        vector_cores,
        // 192 KiB less 256 bytes and the 8 KiB that some interfaces reserve.
        buffer_bytes: 188_160,
        bf16: true,
        fp8: false,
        compares_words: true,
        ragged_copies: true,
    }
}

/// Every chip that code is made for.
pub const ALL: &[Chip] = &[
    a2("910b1", "Ascend 910B1", 48),
    a2("910b2", "Ascend 910B2", 48),
    a2("910b3", "Ascend 910B3", 40),
    a2("910b4", "Ascend 910B4", 40),
    a2("910_9362", "Ascend 910_9362", 40),
    a2("910_9372", "Ascend 910_9372", 40),
    a2("910_9381", "Ascend 910_9381", 48),
    a2("910_9382", "Ascend 910_9382", 48),
    a2("910_9391", "Ascend 910_9391", 48),
    a2("910_9392", "Ascend 910_9392", 48),
    Chip {
        name: "310p3",
        vendor: "Ascend 310P3",
        arch: "dav-2002",
        vector_cores: 15,
        buffer_bytes: 253_696,
        bf16: false,
        fp8: false,
        compares_words: false,
        ragged_copies: false,
    },
    Chip {
        name: "950",
        vendor: "Ascend 950",
        arch: "dav-3510",
        vector_cores: 64,
        buffer_bytes: 245_504,
        bf16: true,
        fp8: true,
        compares_words: true,
        ragged_copies: true,
    },
];

/// The chip of that name.
pub fn by_name(name: &str) -> Option<Chip> {
    ALL.iter().copied().find(|c| c.name == name)
}
