//! Tensors of a framework as memory: addresses that the caller vouches for.

/// Bytes that are read.
///
/// # Safety
/// The address is of so many readable bytes that nobody writes while the result lives; any address will do for none.
#[allow(unsafe_code)]
pub unsafe fn read<'m>(address: usize, bytes: usize) -> &'m [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }
}

/// Bytes that are written.
///
/// # Safety
/// The address is of so many writable bytes that nobody else touches while the result lives; any address will do for none.
#[allow(unsafe_code)]
pub unsafe fn written<'m>(address: usize, bytes: usize) -> &'m mut [u8] {
    if bytes == 0 {
        return &mut [];
    }
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) }
}
