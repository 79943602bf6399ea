//! Ranges with names for NVIDIA's profilers, by the protocol of NVTX 3: a tool names a library in the environment of a process,
//! and the library puts its functions in a table that the process offers.
//!
//! NVTX is a set of headers around this protocol; no library of NVIDIA is linked or looked up. Numbers are those of its
//! `nvtxTypes.h`, which do not change: tools of any version attach to programs of any version.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// The function of a tool's library that attaches it.
const ENTRY: &[u8] = b"InitializeInjectionNvtx2\0";
/// The export table with the function that hands out tables.
const CALLBACKS: u32 = 1;
/// The export table with our version.
const VERSION_INFO: u32 = 3;
/// The version of the protocol.
const VERSION: u32 = 3;
/// Functions of each module of NVTX, from module 1 on, with the number 0 that is none: core, CUDA, OpenCL, CUDA runtime, core
/// of domains, synchronisation. We call two of the first; a tool may fill in all of them.
const FUNCTIONS: [usize; 6] = [16, 9, 15, 7, 16, 7];
/// The most of these, and the null at the end.
const MOST: usize = 17;
/// Numbers of functions of the core: `nvtxRangePushA` and `nvtxRangePop`.
const PUSH: usize = 9;
const POP: usize = 11;

type Slot = AtomicPtr<c_void>;
type PushFunction = unsafe extern "C" fn(*const c_char) -> c_int;
type PopFunction = unsafe extern "C" fn() -> c_int;
type GetExportTable = extern "C" fn(u32) -> *const c_void;
type Entry = unsafe extern "C" fn(GetExportTable) -> c_int;

/// Where a tool writes its functions.
static SLOTS: [[Slot; MOST]; FUNCTIONS.len()] = [const { [const { Slot::new(null_mut()) }; MOST] }; FUNCTIONS.len()];
/// The tool's function that opens a range, once it is attached.
static OPENS: Slot = Slot::new(null_mut());

/// The table of a module: addresses of slots, by the numbers of functions.
struct Tables([[*const Slot; MOST]; FUNCTIONS.len()]);

// SAFETY: the addresses are of statics, whose slots are written atomically by us and, before anybody reads them, by a tool.
unsafe impl Send for Tables {}
// SAFETY: as above.
unsafe impl Sync for Tables {}

#[repr(C)]
struct Callbacks {
    bytes: usize,
    module_table: extern "C" fn(c_int, *mut *const *const Slot, *mut c_uint) -> c_int,
}

#[repr(C)]
struct VersionInfo {
    bytes: usize,
    version: u32,
    reserved: u32,
    take_version: extern "C" fn(u32),
}

static EXPORTED: Callbacks = Callbacks { bytes: size_of::<Callbacks>(), module_table };
static VERSIONED: VersionInfo =
    VersionInfo { bytes: size_of::<VersionInfo>(), version: VERSION, reserved: 0, take_version };

/// Loads the library of a tool and lets it attach, the first time that it is called in a process.
///
/// # Errors
/// A library that cannot be loaded, that is none of a tool, or that refuses, in words: the same at every call.
pub fn attach(library: &Path) -> Result<(), String> {
    static ATTACHED: OnceLock<Result<(), String>> = OnceLock::new();
    ATTACHED.get_or_init(|| load(library).map_err(|reason| format!("{}: {reason}", library.display()))).clone()
}

fn load(file: &Path) -> Result<(), String> {
    // SAFETY: the user names the library of a tool for this very purpose, and answers for its initialisers.
    let library = unsafe { Library::new(file) }.map_err(|error| system(&error))?;
    // SAFETY: a library that has the function has it of this type, as the protocol says.
    let entry = *unsafe { library.get::<Entry>(ENTRY) }.map_err(|error| system(&error))?;
    // SAFETY: the function is called once, with a function that lives as long as the process.
    if unsafe { entry(export_table) } == 0 {
        return Err("the tool refuses to attach".to_owned());
    }
    // The functions of a tool are called until the process ends.
    std::mem::forget(library);
    let [core, ..] = &SLOTS;
    if !core[POP].load(Ordering::Acquire).is_null() {
        OPENS.store(core[PUSH].load(Ordering::Acquire), Ordering::Release);
    }
    Ok(())
}

/// The system's words of a library that it cannot load.
fn system(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

extern "C" fn export_table(number: u32) -> *const c_void {
    match number {
        CALLBACKS => (&raw const EXPORTED).cast(),
        VERSION_INFO => (&raw const VERSIONED).cast(),
        _ => std::ptr::null(),
    }
}

/// The version of a tool changes nothing.
extern "C" fn take_version(_: u32) {}

extern "C" fn module_table(module: c_int, table: *mut *const *const Slot, functions: *mut c_uint) -> c_int {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    let tables = TABLES.get_or_init(tables);
    let at = usize::try_from(module).ok().and_then(|module| module.checked_sub(1));
    let Some((slots, &count)) = at.and_then(|at| tables.0.get(at).zip(FUNCTIONS.get(at))) else { return 0 };
    if !functions.is_null() {
        // SAFETY: the tool gives the address of a number, or none.
        unsafe { functions.write(count as c_uint) };
    }
    if !table.is_null() {
        // SAFETY: the tool gives the address of a pointer, or none. The table is a static of the process.
        unsafe { table.write(slots.as_ptr()) };
    }
    1
}

fn tables() -> Tables {
    let of = |(slots, &count): (&'static [Slot; MOST], &usize)| {
        std::array::from_fn(|i| if (1..count).contains(&i) { &raw const slots[i] } else { std::ptr::null() })
    };
    let mut modules = SLOTS.iter().zip(&FUNCTIONS).map(of);
    Tables(std::array::from_fn(|_| modules.next().unwrap_or([std::ptr::null(); MOST])))
}

/// Says that a tool takes ranges.
#[inline]
pub(crate) fn is_attached() -> bool {
    !OPENS.load(Ordering::Relaxed).is_null()
}

/// A range of this thread, until it is dropped. Ranges of a thread are nested.
#[must_use]
#[derive(Debug)]
pub struct Range {
    close: PopFunction,
    of_this_thread: PhantomData<*const ()>,
}

/// Opens a range, if a tool is attached; its name is made only then.
#[inline]
pub fn range(name: impl FnOnce() -> String) -> Option<Range> {
    if is_attached() { open(name()) } else { None }
}

#[cold]
fn open(name: String) -> Option<Range> {
    let name = CString::new(name).ok()?;
    let opens = OPENS.load(Ordering::Acquire);
    let closes = SLOTS[0][POP].load(Ordering::Acquire);
    if opens.is_null() || closes.is_null() {
        return None;
    }
    // SAFETY: a tool puts functions of these types in these places, as the protocol says, and stays loaded.
    let (push, close) = unsafe {
        (
            std::mem::transmute::<*mut c_void, PushFunction>(opens),
            std::mem::transmute::<*mut c_void, PopFunction>(closes),
        )
    };
    // SAFETY: the function takes a text with a zero at its end, and keeps no address of it.
    unsafe { push(name.as_ptr()) };
    Some(Range { close, of_this_thread: PhantomData })
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: as of the function that opened the range, on the same thread.
        unsafe { (self.close)() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots that a tool is given for a module, and how many functions that has.
    fn given(module: c_int) -> Option<(*const *const Slot, c_uint)> {
        let (mut table, mut count) = (std::ptr::null(), 0);
        (module_table(module, &mut table, &mut count) == 1).then_some((table, count))
    }

    #[test]
    fn a_tool_is_given_a_slot_for_every_function() {
        for (i, &functions) in FUNCTIONS.iter().enumerate() {
            let (table, count) = given(i as c_int + 1).expect("a module");
            assert_eq!(count as usize, functions);
            // SAFETY: the table has a null behind its functions.
            let slots = unsafe { std::slice::from_raw_parts(table, functions + 1) };
            assert!(slots[0].is_null() && slots[functions].is_null());
            assert!(slots[1..functions].iter().all(|slot| !slot.is_null()));
        }
        assert_eq!([0, -1, 7].map(given), [None, None, None]);
    }

    #[test]
    fn tables_are_laid_out_as_tools_read_them() {
        assert_eq!(
            (size_of::<Callbacks>(), size_of::<VersionInfo>()),
            (2 * size_of::<usize>(), 8 + 2 * size_of::<usize>())
        );
        assert!(!export_table(CALLBACKS).is_null() && !export_table(VERSION_INFO).is_null());
        assert!(export_table(2).is_null());
    }
}
