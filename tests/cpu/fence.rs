//! Memory beside which nothing can be read: code that goes one element too far ends the process there.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

/// On which side of bytes the next one is out of reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Ahead of the first.
    Ahead,
    /// Behind the last.
    Behind,
}

/// Bytes between two pages that no access is allowed to, beside one of them.
pub struct Fenced {
    /// The first of the pages.
    pages: *mut u8,
    /// Bytes of all pages.
    mapped: usize,
    /// Where the bytes begin.
    start: usize,
    length: usize,
}

impl Fenced {
    /// A copy beside the page on that side.
    ///
    /// # Panics
    /// The system gives no memory.
    pub fn new(bytes: &[u8], side: Side) -> Self {
        // SAFETY: the call has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("the system has pages");
        let inside = bytes.len().next_multiple_of(page);
        let mapped = inside + 2 * page;
        let (readable, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at an address of the system's choice.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), mapped, readable, flags, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED, "memory for {mapped} bytes");
        let pages = pages.cast::<u8>();
        for fence in [0, page + inside] {
            // SAFETY: the first and the last page of those mapped above, which nothing uses yet.
            let fenced = unsafe { libc::mprotect(pages.add(fence).cast(), page, libc::PROT_NONE) };
            assert_eq!(fenced, 0, "a page that cannot be accessed");
        }
        let start = match side {
            Side::Ahead => page,
            Side::Behind => page + inside - bytes.len(),
        };
        let mut all = Fenced { pages, mapped, start, length: bytes.len() };
        all.copy_from_slice(bytes);
        all
    }
}

impl Deref for Fenced {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start + length` readable bytes were mapped, and zeroed, for this value alone.
        unsafe { std::slice::from_raw_parts(self.pages.add(self.start), self.length) }
    }
}

impl DerefMut for Fenced {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; the value is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pages.add(self.start), self.length) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the pages were mapped by `new` and are not used again.
        unsafe { libc::munmap(self.pages.cast(), self.mapped) };
    }
}
