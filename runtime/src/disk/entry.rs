//! The form of an entry: a head, a label, the code, and the SHA-256 of all of that.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `fwkernel` |
//! | 4, 4 | version of this form, version of the calling convention |
//! | 32 | key of the kernel |
//! | 4, 4, 8 | kind of the code, length of the label, length of the code |
//! | | label: target, a line break, name of the kernel |
//! | | code |
//! | 32 | SHA-256 of everything before |
//!
//! Numbers are little-endian.

use fusewright_abi::{ABI_VERSION, ContentKey, Payload, PayloadKind, Target};
use sha2::{Digest, Sha256};

const MAGIC: [u8; 8] = *b"fwkernel";
/// Version of this form.
const FORMAT: u32 = 1;
/// Bytes before the label.
const HEAD: usize = 64;
const DIGEST: usize = 32;

/// The kinds of code by their numbers.
const KINDS: [(u32, PayloadKind); 6] = [
    (1, PayloadKind::HostCode),
    (2, PayloadKind::HostObject),
    (3, PayloadKind::Ptx),
    (4, PayloadKind::AscendC),
    (5, PayloadKind::Cubin),
    (6, PayloadKind::AscendObject),
];

/// What an entry says it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// What the code runs on.
    pub target: Target,
    /// Name of the kernel.
    pub kernel: String,
}

/// The bytes of an entry.
pub(super) fn encode(key: &ContentKey, label: &Label, payload: &Payload) -> Vec<u8> {
    let text = format!("{}\n{}", label.target, label.kernel);
    let kind = KINDS.iter().find(|(_, kind)| *kind == payload.kind).map_or(0, |(number, _)| *number);
    let mut bytes = Vec::with_capacity(HEAD + text.len() + payload.bytes.len() + DIGEST);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(ABI_VERSION.to_le_bytes());
    bytes.extend(key.0);
    bytes.extend(kind.to_le_bytes());
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend((payload.bytes.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(&payload.bytes);
    let digest = Sha256::digest(&bytes);
    bytes.extend(digest);
    bytes
}

/// What the bytes of an entry hold, once all of them are checked.
///
/// # Errors
/// What is wrong with them, as what follows the name of the file in a sentence.
pub(super) fn decode(bytes: &[u8], key: &ContentKey) -> Result<(Label, Payload), String> {
    let cut = || format!("is cut off after {} bytes", bytes.len());
    if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
        return Err("is no entry of a kernel cache".to_owned());
    }
    let mut head = Reader { rest: bytes.get(MAGIC.len()..HEAD).ok_or_else(cut)? };
    let (format, abi) = (head.u32(), head.u32());
    if (format, abi) != (FORMAT, ABI_VERSION) {
        return Err(format!("is of version {format}.{abi}, not {FORMAT}.{ABI_VERSION}"));
    }
    if head.take::<32>() != key.0 {
        return Err("holds another kernel than its name says".to_owned());
    }
    let (kind, label, code) = (head.u32(), head.u32() as usize, head.u64());
    let code = usize::try_from(code).map_err(|_| cut())?;
    let end = (HEAD + label).checked_add(code).ok_or_else(cut)?;
    match bytes.len().checked_sub(DIGEST) {
        Some(given) if given == end => {}
        Some(given) if given > end => return Err(format!("has {} bytes behind its end", given - end)),
        _ => return Err(cut()),
    }
    if Sha256::digest(&bytes[..end])[..] != bytes[end..] {
        return Err("is damaged: its checksum does not fit".to_owned());
    }
    let text = std::str::from_utf8(&bytes[HEAD..HEAD + label]).ok().and_then(|text| text.split_once('\n'));
    let (target, kernel) = text.ok_or("has no label")?;
    let target = target.parse().map_err(|e| format!("has a label of no target: {e}"))?;
    let kind = KINDS.iter().find(|(number, _)| *number == kind).map(|(_, kind)| *kind);
    let kind = kind.ok_or("holds code of no known kind")?;
    let payload = Payload { kind, bytes: bytes[HEAD + label..end].to_vec() };
    Ok((Label { target, kernel: kernel.to_owned() }, payload))
}

/// The rest of a head, which is long enough for what is taken of it.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.rest.split_first_chunk().expect("a head has a fixed length");
        self.rest = rest;
        *taken
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (ContentKey, Label, Payload) {
        let label = Label { target: Target::Cpu, kernel: "rms_norm".to_owned() };
        (ContentKey([7; 32]), label, Payload { kind: PayloadKind::HostCode, bytes: (0..=255).collect() })
    }

    #[test]
    fn what_is_written_is_read() {
        let (key, label, payload) = sample();
        assert_eq!(decode(&encode(&key, &label, &payload), &key), Ok((label, payload)));
    }

    #[test]
    fn no_changed_bit_and_no_other_length_passes() {
        let (key, label, payload) = sample();
        let whole = encode(&key, &label, &payload);
        for at in 0..whole.len() {
            assert!(decode(&whole[..at], &key).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                assert!(decode(&changed, &key).is_err(), "bit {bit} of byte {at}");
            }
        }
        let longer: Vec<u8> = whole.iter().copied().chain([0]).collect();
        assert_eq!(decode(&longer, &key), Err("has 1 bytes behind its end".to_owned()));
    }

    #[test]
    fn what_is_foreign_says_so() {
        let (key, label, payload) = sample();
        let whole = encode(&key, &label, &payload);
        let said = |bytes: &[u8], key: &ContentKey| decode(bytes, key).expect_err("it is refused");
        assert_eq!(said(&whole, &ContentKey([8; 32])), "holds another kernel than its name says");
        assert_eq!(said(b"#!/bin/sh\n", &key), "is no entry of a kernel cache");
        assert_eq!(said(&[], &key), "is cut off after 0 bytes");
        let mut newer = whole.clone();
        newer[8] = 2;
        assert_eq!(said(&newer, &key), format!("is of version 2.{ABI_VERSION}, not 1.{ABI_VERSION}"));
        let mut huge = whole;
        huge[56..64].fill(0xff);
        assert_eq!(said(&huge, &key), "is cut off after 364 bytes");
    }

    #[test]
    fn a_checksum_alone_makes_no_entry() {
        let (key, label, payload) = sample();
        let resealed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = encode(&key, &label, &payload);
            bytes.truncate(bytes.len() - DIGEST);
            change(&mut bytes);
            let digest = Sha256::digest(&bytes);
            bytes.extend(digest);
            decode(&bytes, &key).expect_err("it is refused")
        };
        assert_eq!(resealed(&|bytes| bytes[48] = 9), "holds code of no known kind");
        assert!(resealed(&|bytes| bytes[HEAD] = b'x').starts_with("has a label of no target"));
        assert_eq!(resealed(&|bytes| bytes[HEAD + 3] = b' '), "has no label");
    }
}
