//! Compiled kernels as values.
//!
//! An artifact is a function of its key. Its calling convention is the same on every target: buffer addresses in the
//! order of `params`, then 64-bit integers in the order of `dims`, then the half-open range of rows to compute.

use crate::{ContentKey, Count, DType, Target};

/// How a kernel touches a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ParamAccess {
    /// Only read.
    In,
    /// Only written; every element the kernel's rows cover is written exactly once.
    Out,
    /// Overwritten in place: rows read of it what they write themselves, and what they do not write stays.
    InOut,
}

impl ParamAccess {
    /// Name in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            ParamAccess::In => "in",
            ParamAccess::Out => "out",
            ParamAccess::InOut => "inout",
        }
    }

    /// What a manifest calls so.
    pub fn of_name(name: &str) -> Option<ParamAccess> {
        [ParamAccess::In, ParamAccess::Out, ParamAccess::InOut].into_iter().find(|access| access.name() == name)
    }
}

/// One buffer argument.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// Name in the kernel's text form, without `%`.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// How it is touched.
    pub access: ParamAccess,
    /// Number of axes.
    pub rank: u32,
    /// Elements that the kernel may touch, for concrete integer arguments.
    pub elements: Count,
    /// Index of the parameter whose memory this one may be. What is [`ParamAccess::InOut`] holds its elements at the
    /// launch, be it in the same memory or copied.
    pub alias: Option<usize>,
    /// Whether a dependent launch reads it while the launch before it runs, so that it has to be complete before that one
    /// begins.
    pub early: bool,
}

/// Where an integer argument's value comes from at launch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DimSource {
    /// Extent of an axis of a parameter.
    Extent {
        /// Index into `params`.
        param: usize,
        /// Axis of that parameter.
        axis: usize,
    },
    /// Stride, in elements, of an axis of a parameter.
    Stride {
        /// Index into `params`.
        param: usize,
        /// Axis of that parameter.
        axis: usize,
    },
    /// Given by the caller under the argument's name.
    Symbol,
}

/// One integer argument.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DimArg {
    /// Symbol name in the kernel's text form.
    pub name: String,
    /// Where its value comes from.
    pub source: DimSource,
}

/// A claim says that one count is not above another, and that both have a value of 64 bits. A kernel whose claims hold keeps
/// its rows in their memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    /// This side is not the larger.
    pub least: Count,
    /// This side is not the smaller.
    pub most: Count,
}

impl Claim {
    /// Says whether the claim holds of integer arguments.
    pub fn holds(&self, dims: &[i64]) -> bool {
        self.least.eval(dims).zip(self.most.eval(dims)).is_some_and(|(least, most)| least <= most)
    }
}

/// In which order the rows of a launch may be computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RowOrder {
    /// In any, at once too: no two write the same element.
    Any,
    /// Rows write the places that these elements of a parameter choose, one for each row: in any order if no two are
    /// equal of those that are not negative, else ascending.
    Chosen {
        /// Index into `params`, of `i32` or `i64`.
        param: usize,
    },
    /// One after another from the first to the last: of two that write the same element the later one is what stays.
    Ascending,
}

/// Code of a kernel that is better for many rows, of the same shared memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ManyRows {
    /// From how many rows of a launch on.
    pub from: usize,
    /// Blocks per outer row.
    pub blocks_per_row: Count,
    /// How many of these share a block of threads.
    pub shares: u32,
    /// Threads of a block.
    pub threads: u32,
}

impl ManyRows {
    /// What its symbol has behind the kernel's name.
    pub const SUFFIX: &str = "__many";
}

/// How a kernel is launched: the one place where a backend and a driver agree on a grid.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LaunchRule {
    /// Outer rows; a launch covers a range of them.
    pub rows: Count,
    /// Which of them may be computed at once.
    pub order: RowOrder,
    /// Blocks per outer row; one on hosts.
    pub blocks_per_row: Count,
    /// How many of these share a block of threads; one on hosts. The last block of a launch may have fewer.
    pub shares: u32,
    /// Other code of the same results, for launches of many rows.
    pub many: Option<ManyRows>,
    /// Threads of a block; one on hosts.
    pub threads: u32,
    /// Whether the code waits by itself for what is ahead of it, so that a launch may begin before that ends; never on hosts.
    pub dependent: bool,
    /// Bytes of shared memory of a block that a launch states; none on hosts.
    pub shared: Count,
    /// What the address of every buffer is a multiple of, in bytes; one on hosts.
    pub alignment: u32,
    /// Tables of results, of [`LaunchRule::TABLE_BYTES`] each, whose addresses code of [`PayloadKind::HostCode`] finds behind
    /// those of the buffers. Called for rows from -1 on, it fills them and touches nothing else. Other code has none.
    pub tables: u32,
}

impl LaunchRule {
    /// Bytes of a table: a word for each code of 16 bits.
    pub const TABLE_BYTES: usize = 4 << 16;
    /// Most tables of a kernel.
    pub const MOST_TABLES: u32 = 2;
}

/// What the payload bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PayloadKind {
    /// Position-independent machine code of the host, entry at offset 0, no relocations.
    HostCode,
    /// A relocatable object file of the host.
    HostObject,
    /// PTX text.
    Ptx,
    /// What an assembler made of PTX, for devices of one architecture.
    Cubin,
    /// Ascend C source text.
    AscendC,
    /// What a compiler made of Ascend C: for a device, or for the host model of one as the target says.
    AscendObject,
}

impl PayloadKind {
    const ALL: [PayloadKind; 6] = [
        PayloadKind::HostCode,
        PayloadKind::HostObject,
        PayloadKind::Ptx,
        PayloadKind::Cubin,
        PayloadKind::AscendC,
        PayloadKind::AscendObject,
    ];

    /// The kind of a file extension.
    pub fn of_extension(extension: &str) -> Option<PayloadKind> {
        PayloadKind::ALL.into_iter().find(|kind| kind.extension() == extension)
    }

    /// File extension, which is also the stage's name.
    pub const fn extension(self) -> &'static str {
        match self {
            PayloadKind::HostCode => "bin",
            PayloadKind::HostObject => "o",
            PayloadKind::Ptx => "ptx",
            PayloadKind::Cubin => "cubin",
            PayloadKind::AscendC => "cpp",
            PayloadKind::AscendObject => "npu",
        }
    }
}

/// Code of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    /// What the bytes are.
    pub kind: PayloadKind,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A compiled kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelArtifact {
    /// Symbol name, valid as a C identifier.
    pub name: String,
    /// What it runs on.
    pub target: Target,
    /// Hash of kernel text, schedule, target, tool versions and [`crate::ABI_VERSION`].
    pub key: ContentKey,
    /// Buffer arguments.
    pub params: Vec<Param>,
    /// Integer arguments.
    pub dims: Vec<DimArg>,
    /// These hold of every launch that has rows.
    pub claims: Vec<Claim>,
    /// How it is launched.
    pub launch: LaunchRule,
    /// The code.
    pub payload: Payload,
}
