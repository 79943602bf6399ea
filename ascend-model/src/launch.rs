//! What a launch is given and what it tells.

/// Memory that a kernel gets a pointer to.
#[derive(Debug)]
pub enum Argument<'a> {
    /// Read; what the kernel writes to it is dropped.
    In(&'a [u8]),
    /// Written: the kernel finds nothing in it, and must write it whole.
    Out(&'a mut [u8]),
    /// Read and written, in whole or in part.
    InOut(&'a mut [u8]),
}

impl Argument<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Argument::In(bytes) => bytes.len(),
            Argument::Out(bytes) | Argument::InOut(bytes) => bytes.len(),
        }
    }

    /// What is in it before the launch.
    pub(crate) fn given(&self) -> Option<&[u8]> {
        match self {
            Argument::In(bytes) => Some(bytes),
            Argument::InOut(bytes) => Some(bytes),
            Argument::Out(_) => None,
        }
    }

    pub(crate) fn must_be_written(&self) -> bool {
        matches!(self, Argument::Out(_))
    }

    pub(crate) fn take(&mut self, contents: &[u8]) {
        match self {
            Argument::In(_) => {}
            Argument::Out(bytes) | Argument::InOut(bytes) => bytes.copy_from_slice(contents),
        }
    }
}

/// When transfers and instructions take place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dma {
    /// As they are issued.
    #[default]
    Immediate,
    /// At the last moment that flags and barriers allow.
    Delayed,
}

/// What fills unified buffer where a padded transfer leaves it unspecified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Poison {
    /// The first element of the block.
    #[default]
    First,
    /// NaN, or all ones.
    Nan,
}

/// How a launch varies where the interface leaves freedom. The default varies nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Seed of what follows.
    pub seed: u64,
    /// When transfers take place.
    pub dma: Dma,
    /// What padding holds.
    pub poison: Poison,
    /// Whether the vendor's reductions add in a seeded order.
    pub order: bool,
    /// Most units in the last place by which Div, Sqrt and Exp are off.
    pub ulps: u32,
    /// Where documents do not settle what a chip does, the other plausible result: NaN to the largest integer,
    /// subnormal results to 0, what is beyond half and bfloat16 to the largest.
    pub unknown: bool,
}

/// `ascend_model_options`.
#[repr(C)]
pub(crate) struct RawOptions {
    size: usize,
    seed: u64,
    dma: u32,
    poison: u32,
    jitter_order: u32,
    jitter_ulps: u32,
    unknown: u32,
}

impl Options {
    pub(crate) fn raw(&self) -> RawOptions {
        RawOptions {
            size: size_of::<RawOptions>(),
            seed: self.seed,
            dma: self.dma as u32,
            poison: self.poison as u32,
            jitter_order: self.order.into(),
            jitter_ulps: self.ulps,
            unknown: self.unknown.into(),
        }
    }
}

/// What a launch did, on all cores together. SIMULATED.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes from global memory to unified buffer.
    pub bytes_in: u64,
    /// Bytes from unified buffer to global memory.
    pub bytes_out: u64,
    /// Bytes read from global memory as scalars.
    pub scalar_bytes_in: u64,
    /// Bytes written to global memory as scalars.
    pub scalar_bytes_out: u64,
    /// Calls of vector instructions.
    pub vector_instructions: u64,
    /// Transfers between global memory and unified buffer.
    pub transfers: u64,
    /// Most bytes of unified buffer that a core gave out.
    pub peak_ub_bytes: u64,
}

/// `ascend_model_counters`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawCounters {
    size: usize,
    bytes_in: u64,
    bytes_out: u64,
    scalar_bytes_in: u64,
    scalar_bytes_out: u64,
    vector_instructions: u64,
    transfers: u64,
    peak_ub_bytes: u64,
}

impl RawCounters {
    pub(crate) fn sized() -> RawCounters {
        RawCounters { size: size_of::<RawCounters>(), ..RawCounters::default() }
    }
}

impl From<RawCounters> for Counters {
    fn from(raw: RawCounters) -> Counters {
        Counters {
            bytes_in: raw.bytes_in,
            bytes_out: raw.bytes_out,
            scalar_bytes_in: raw.scalar_bytes_in,
            scalar_bytes_out: raw.scalar_bytes_out,
            vector_instructions: raw.vector_instructions,
            transfers: raw.transfers,
            peak_ub_bytes: raw.peak_ub_bytes,
        }
    }
}
