//! The host driver: maps machine code and calls it.
//!
//! Code is copied into an anonymous mapping that is then made executable and no longer writable. It is unmapped when
//! the module is dropped.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fusewright_abi::{KernelArtifact, LaunchRule, PayloadKind, Target};
use memmap2::{Mmap, MmapMut};

use super::pace::{Next, Pace};
use super::signature::Signature;
use crate::{Arg, Device, Module, Pool, RuntimeError, trace};

/// The host's CPU, for the code of one compiler or the other.
#[derive(Clone, Debug)]
pub struct Host {
    target: Target,
    pool: Arc<dyn Pool>,
}

impl Host {
    /// For kernels of a target, if its code runs on the host, on the threads of a pool.
    pub fn new(target: &Target, pool: Arc<dyn Pool>) -> Option<Host> {
        matches!(target, Target::Cpu | Target::CpuLlvm { .. }).then(|| Host { target: target.clone(), pool })
    }
}

/// Ranges of rows per thread: threads do not begin at once, and the last to come finds less to do.
const PARTS_PER_THREAD: usize = 4;
/// Buffers whose addresses need no memory of their own.
const FEW: usize = 16;

/// Entry of a kernel: buffers, integer arguments, first row, one past the last row.
type Entry = unsafe extern "C" fn(*const *mut u8, *const i64, i64, i64);

#[derive(Debug)]
struct HostModule {
    signature: Signature,
    pool: Arc<dyn Pool>,
    pace: Pace,
    /// What the code looks up, filled by itself; its own memory, which nothing writes any more.
    tables: Vec<Mmap>,
    code: Mmap,
}

impl Device for Host {
    fn target(&self) -> Target {
        self.target.clone()
    }

    fn takes(&self, kind: PayloadKind) -> bool {
        kind == PayloadKind::HostCode
    }

    fn load(&self, artifact: &KernelArtifact) -> Result<Arc<dyn Module>, RuntimeError> {
        let refuse = |reason: String| Err(RuntimeError::Artifact { kernel: artifact.name.clone(), reason });
        if artifact.target != self.target {
            return refuse(format!("it is for target `{}`, not `{}`", artifact.target, self.target));
        }
        if artifact.payload.kind != PayloadKind::HostCode || artifact.payload.bytes.is_empty() {
            return refuse("its payload is no machine code".to_owned());
        }
        let unmapped = |source| RuntimeError::Code { kernel: artifact.name.clone(), source };
        let mut map = MmapMut::map_anon(artifact.payload.bytes.len()).map_err(unmapped)?;
        map.copy_from_slice(&artifact.payload.bytes);
        let code = map.make_exec().map_err(unmapped)?;
        let tables = (0..artifact.launch.tables)
            .map(|_| MmapMut::map_anon(LaunchRule::TABLE_BYTES))
            .collect::<Result<Vec<_>, _>>();
        let tables = filled(&code, artifact.params.len(), tables.map_err(unmapped)?).map_err(unmapped)?;
        let (signature, pool) = (Signature::of(artifact), Arc::clone(&self.pool));
        Ok(Arc::new(HostModule { signature, pool, pace: Pace::default(), tables, code }))
    }
}

/// The entry of a payload.
fn entry(code: &Mmap) -> Entry {
    // SAFETY: the payload is position-independent code of this calling convention with its entry at offset 0, as the
    // artifact's kind promises. It is called only while the mapping lives.
    unsafe { std::mem::transmute::<*const u8, Entry>(code.as_ptr()) }
}

/// Calls with the arithmetic that a process begins with: rounded to nearest, subnormal values as they are. A thread may have
/// another for a while, and tables outlive that.
fn usual_arithmetic(call: impl FnOnce()) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::asm;
        /// All exceptions masked, and nothing else.
        const USUAL: u32 = 0x1f80;
        let mut own = 0u32;
        // SAFETY: the control word is written to and read from memory of that size, and is again what it was behind the call.
        unsafe { asm!("stmxcsr [{0}]", "ldmxcsr [{1}]", in(reg) &mut own, in(reg) &USUAL) };
        call();
        // SAFETY: as above.
        unsafe { asm!("ldmxcsr [{0}]", in(reg) &own) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    call();
}

/// Tables as the code fills them, which has so many buffers besides.
fn filled(code: &Mmap, buffers: usize, mut tables: Vec<MmapMut>) -> std::io::Result<Vec<Mmap>> {
    if !tables.is_empty() {
        let places = tables.iter_mut().map(|table| table.as_mut_ptr());
        let addresses: Vec<*mut u8> = std::iter::repeat_n(std::ptr::null_mut(), buffers).chain(places).collect();
        // SAFETY: called for rows from -1 on, the code writes its tables and touches nothing else; there are as many, and as
        // large, as the artifact says.
        usual_arithmetic(|| unsafe { entry(code)(addresses.as_ptr(), std::ptr::null(), -1, -1) });
    }
    tables.into_iter().map(MmapMut::make_read_only).collect()
}

impl HostModule {
    /// On how many threads a launch runs: on as many as have enough to do, and on one if rows write the same elements.
    fn threads(&self, args: &[Arg<'_>], rows: usize, bytes: usize, most: usize) -> usize {
        let least = self.pool.bytes_per_thread().max(1);
        let threads = most.min(rows).min(bytes / least);
        if threads <= 1 || self.signature.at_once(args, rows) { threads } else { 1 }
    }

    /// Calls `range` with all rows of a launch that has too few bytes for a second thread, which then are perhaps few rows of
    /// much work.
    fn small(&self, args: &[Arg<'_>], rows: usize, most: usize, range: &(dyn Fn(usize, usize) + Sync)) {
        let Some(each) = self.pool.nanos_per_thread().filter(|_| most > 1 && rows > 1) else { return range(0, rows) };
        let Some(nanos) = self.pace.nanos(rows) else { return self.pace.measure(rows, || range(0, rows)) };
        let threads = most.min(rows).min(usize::try_from(nanos / each.max(1)).unwrap_or(usize::MAX));
        if threads <= 1 || !self.signature.at_once(args, rows) {
            return range(0, rows);
        }
        let share = || {
            split(rows, threads, range, &|work| self.pool.run_small(threads - 1, nanos, work));
        };
        match self.pace.next() {
            Next::Alone { measured: false } => range(0, rows),
            Next::Alone { measured: true } => self.pace.measure(rows, || range(0, rows)),
            Next::Shared { measured: false } => share(),
            Next::Shared { measured: true } => self.pace.compare(nanos, share),
        }
    }
}

/// Calls `range` with ranges that make up all rows, on so many threads, which are those that `run` calls work on.
fn split(rows: usize, threads: usize, range: &(dyn Fn(usize, usize) + Sync), run: &dyn Fn(&(dyn Fn() + Sync))) {
    let per_part = rows.div_ceil(threads * PARTS_PER_THREAD);
    // Ranges are handed out here, so that the pool has no say in which rows are computed: each is once.
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let begin = next.fetch_add(per_part, Ordering::Relaxed);
            if begin >= rows {
                return;
            }
            range(begin, (begin + per_part).min(rows));
        }
    };
    run(&work);
    work();
}

/// Buffer addresses, shared with the threads of one launch.
struct Addresses(*const *mut u8);

// SAFETY: the addresses are only handed to the kernel. Rows that are computed at once write disjoint elements
// (`HostModule::threads`), so threads that compute disjoint ranges of rows never write what another thread touches.
unsafe impl Sync for Addresses {}

impl Module for HostModule {
    fn launch(&self, args: &mut [Arg<'_>], dims: &[i64], rows: usize, threads: usize) -> Result<(), RuntimeError> {
        let bytes = self.signature.check(args, dims, rows)?;
        let _watched = trace::launch(&self.signature.name, rows);
        let most = threads;
        let threads = self.threads(args, rows, bytes, most);
        let address = |arg: &mut Arg<'_>| match arg {
            Arg::In(bytes) => bytes.as_ptr().cast_mut(),
            Arg::Out(bytes) => bytes.as_mut_ptr(),
            Arg::Same(_) => std::ptr::null_mut(),
        };
        // Most kernels have few buffers, and memory for their addresses costs as much as the rest of a small launch.
        let (mut few, mut many) = ([std::ptr::null_mut(); FEW], Vec::new());
        let addresses = args.len() + self.tables.len();
        let buffers = match few.get_mut(..addresses) {
            Some(few) => few,
            None => {
                many.resize(addresses, std::ptr::null_mut());
                &mut many[..]
            }
        };
        buffers.iter_mut().zip(args.iter_mut()).for_each(|(buffer, arg)| *buffer = address(arg));
        for (i, arg) in args.iter().enumerate() {
            if let Arg::Same(other) = arg {
                buffers[i] = buffers[*other];
            }
        }
        for (buffer, table) in buffers[args.len()..].iter_mut().zip(&self.tables) {
            *buffer = table.as_ptr().cast_mut();
        }
        let addresses = Addresses(buffers.as_ptr());
        let entry = entry(&self.code);
        let call = |begin: usize, end: usize| {
            let addresses = &addresses;
            // SAFETY: the signature compared every buffer with the shape that `dims` imply, and a kernel stays within the
            // shapes of its parameters and never writes one that is only read. The addresses are borrowed from `buffers`,
            // which outlives all calls.
            unsafe { entry(addresses.0, dims.as_ptr(), begin as i64, end as i64) };
        };
        match threads {
            0 | 1 => self.small(args, rows, most, &call),
            _ => split(rows, threads, &call, &|work| self.pool.run(threads - 1, work)),
        }
        Ok(())
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::arch::asm;

    use super::*;

    fn control_word() -> u32 {
        let mut word = 0u32;
        // SAFETY: the control word is written to memory of its size.
        unsafe { asm!("stmxcsr [{0}]", in(reg) &mut word) };
        word
    }

    #[test]
    fn tables_are_filled_with_the_arithmetic_of_a_new_process() {
        let (usual, flushing) = (control_word(), control_word() | 0x8040);
        // SAFETY: subnormal values are flushed until the next call, which takes that back.
        unsafe { asm!("ldmxcsr [{0}]", in(reg) &flushing) };
        let mut inside = 0;
        usual_arithmetic(|| inside = control_word());
        let after = control_word();
        // SAFETY: as it was.
        unsafe { asm!("ldmxcsr [{0}]", in(reg) &usual) };
        assert_eq!((inside & 0x8040, after & 0x8040), (0, 0x8040));
    }
}
