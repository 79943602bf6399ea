//! Guard bytes: memory behind a buffer that nothing may write; and inputs that begin at odd addresses.
//!
//! Machine code that writes behind its buffer may hit what nobody compares. So comparisons give it buffers with a tail of
//! known bytes, and look at the tail after every launch.

use crate::HostTensor;

/// Length of the tail.
const TAIL: usize = 256;

/// Byte `i` of the tail: no two neighbours are alike, so that a run of any one byte shows.
fn byte(i: usize) -> u8 {
    (i as u8).wrapping_mul(29) ^ 0xa5
}

/// Writes a tail behind the first `used` bytes of a buffer, which grows if it must.
pub(crate) fn arm(buffer: &mut Vec<u8>, used: usize) {
    if buffer.len() < used + TAIL {
        buffer.resize(used + TAIL, 0);
    }
    buffer[used..used + TAIL].iter_mut().enumerate().for_each(|(i, b)| *b = byte(i));
}

/// Whether the tail behind the first `used` bytes holds what [`arm`] wrote; if not, how far behind them the first other
/// byte stands.
pub(crate) fn check(buffer: &[u8], used: usize) -> Result<(), usize> {
    let tail = buffer[used..].iter().take(TAIL).enumerate();
    tail.clone().find(|(i, b)| **b != byte(*i)).map_or(Ok(()), |(i, _)| Err(i))
}

/// The bytes of a tensor behind one element's worth of others, and where they begin: a buffer has an address that vectors
/// divide, and what begins there has none.
pub(crate) fn moved(tensor: &HostTensor) -> (Vec<u8>, usize) {
    let start = tensor.dtype.bytes_for(1);
    let mut bytes = Vec::with_capacity(start + tensor.bytes.len());
    bytes.extend((0..start).map(byte));
    bytes.extend_from_slice(&tensor.bytes);
    (bytes, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_behind_a_buffer_is_found() {
        for used in [0, 3, 1000] {
            let mut buffer = vec![0; 700];
            arm(&mut buffer, used);
            assert_eq!(check(&buffer, used), Ok(()));
            buffer[used + 7] ^= 1;
            assert_eq!(check(&buffer, used), Err(7));
        }
    }
}
