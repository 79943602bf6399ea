//! Elements in bytes: little-endian, 4-bit types two in a byte.

use fusewright_abi::DType;

/// The bits of an element, or `None` if the bytes end before it.
pub fn bits_at(dtype: DType, bytes: &[u8], element: usize) -> Option<u64> {
    if dtype.bits() == 4 {
        return bytes.get(element / 2).map(|byte| u64::from(byte >> (element % 2 * 4) & 15));
    }
    let size = dtype.bits() as usize / 8;
    let start = element.checked_mul(size)?;
    let mut wide = [0; 8];
    wide[..size].copy_from_slice(bytes.get(start..start.checked_add(size)?)?);
    Some(u64::from_le_bytes(wide))
}

/// Writes the low bits of an element; false if the bytes end before it.
pub fn put_bits(dtype: DType, bytes: &mut [u8], element: usize, bits: u64) -> bool {
    if dtype.bits() == 4 {
        let Some(byte) = bytes.get_mut(element / 2) else { return false };
        let shift = element % 2 * 4;
        *byte = *byte & !(15 << shift) | ((bits & 15) as u8) << shift;
        return true;
    }
    let size = dtype.bits() as usize / 8;
    let place = element.checked_mul(size).and_then(|start| bytes.get_mut(start..start.checked_add(size)?));
    place.map(|place| place.copy_from_slice(&bits.to_le_bytes()[..size])).is_some()
}
