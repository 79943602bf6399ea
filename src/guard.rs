//! Guard bytes: memory behind a buffer that nothing may write.
//!
//! Machine code that writes behind its buffer may hit what nobody compares. So comparisons give it buffers with a tail of
//! known bytes, and look at the tail after every launch.

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
