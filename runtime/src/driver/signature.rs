//! What a launch is checked against, whatever runs it.

use fusewright_abi::{Count, DType, KernelArtifact, Param, ParamAccess, RowOrder};

use crate::{Arg, RuntimeError};

/// The arguments of a kernel, and its rows.
#[derive(Debug)]
pub(super) struct Signature {
    /// Name of the kernel.
    pub name: String,
    /// Buffer arguments.
    pub params: Vec<Param>,
    /// Number of integer arguments.
    pub dims: usize,
    /// Rows for given integer arguments.
    pub rows: Count,
    /// Which of them may be computed at once.
    pub order: RowOrder,
}

/// What an argument of a launch is, wherever its memory lies; lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Memory {
    /// Memory that is read.
    In(usize),
    /// Memory that may be written.
    Out(usize),
    /// The memory of the argument of that index.
    Same(usize),
}

/// Arguments of launches.
pub(super) trait Argument {
    /// What it is.
    fn memory(&self) -> Memory;
}

impl Argument for Arg<'_> {
    fn memory(&self) -> Memory {
        match self {
            Arg::In(bytes) => Memory::In(bytes.len()),
            Arg::Out(bytes) => Memory::Out(bytes.len()),
            Arg::Same(other) => Memory::Same(*other),
        }
    }
}

impl Signature {
    /// Of a compiled kernel.
    pub fn of(artifact: &KernelArtifact) -> Signature {
        Signature {
            name: artifact.name.clone(),
            params: artifact.params.clone(),
            dims: artifact.dims.len(),
            rows: artifact.launch.rows.clone(),
            order: artifact.launch.order,
        }
    }

    /// Checks a launch, and says how many bytes its buffers have at least.
    ///
    /// # Errors
    /// Arguments of a wrong number or direction, or buffers shorter than the shapes that `dims` imply.
    pub fn check<A: Argument>(&self, args: &[A], dims: &[i64], rows: usize) -> Result<usize, RuntimeError> {
        let refuse = |reason: String| Err(RuntimeError::Arguments { kernel: self.name.clone(), reason });
        if args.len() != self.params.len() || dims.len() != self.dims {
            let (buffers, integers) = (self.params.len(), self.dims);
            let got = (args.len(), dims.len());
            return refuse(format!("takes {buffers} buffers and {integers} integers, got {} and {}", got.0, got.1));
        }
        if rows > self.rows.count(dims) {
            return refuse(format!("has {} rows, asked for {rows}", self.rows.count(dims)));
        }
        let mut bytes = 0;
        for (i, (param, given)) in self.params.iter().zip(args).enumerate() {
            let memory = match given.memory() {
                Memory::Same(other) => match (self.params.get(other), args.get(other).map(Argument::memory)) {
                    (Some(shared), Some(memory @ Memory::Out(_))) if shared.alias == Some(i) => memory,
                    _ => return refuse(format!("`{}` may not share the memory of parameter {other}", param.name)),
                },
                memory => memory,
            };
            let (len, writable) = match memory {
                Memory::In(len) => (len, false),
                Memory::Out(len) => (len, true),
                Memory::Same(_) => (0, false),
            };
            if param.access != ParamAccess::In && !writable {
                return refuse(format!("`{}` is written, but the buffer is read-only", param.name));
            }
            let needed = param.dtype.bytes_for(param.elements.count(dims));
            if len < needed {
                return refuse(format!("`{}` takes {needed} bytes, the buffer has {len}", param.name));
            }
            bytes += needed;
        }
        Ok(bytes)
    }

    /// Whether no two of the rows of a checked launch write the same element.
    pub fn at_once(&self, args: &[Arg<'_>], rows: usize) -> bool {
        let param = match self.order {
            RowOrder::Any => return true,
            RowOrder::Ascending => return false,
            RowOrder::Chosen { param } => param,
        };
        match (self.params.get(param).map(|p| p.dtype), args.get(param)) {
            (Some(DType::I32), Some(Arg::In(bytes))) => {
                all_differ(bytes.as_chunks().0.iter().take(rows).map(|&place| i32::from_ne_bytes(place).into()))
            }
            (Some(DType::I64), Some(Arg::In(bytes))) => {
                all_differ(bytes.as_chunks().0.iter().take(rows).map(|&place| i64::from_ne_bytes(place)))
            }
            _ => false,
        }
    }
}

/// Whether no two places are equal of those that are not negative.
fn all_differ(places: impl Iterator<Item = i64> + Clone) -> bool {
    let places = places.filter(|&place| place >= 0);
    // Most are handed out in order.
    if places.clone().is_sorted_by(|a, b| a < b) {
        return true;
    }
    let mut places: Vec<i64> = places.collect();
    places.sort_unstable();
    places.windows(2).all(|pair| pair[0] != pair[1])
}

/// Two arguments whose memory overlaps, and of which one is written. Nothing is allocated, and few are written.
pub(super) fn overlap<A>(
    args: &[A],
    span: impl Fn(&A) -> Option<(std::ops::Range<u64>, bool)>,
) -> Option<(usize, usize)> {
    args.iter().enumerate().find_map(|(i, arg)| {
        let (a, _) = span(arg).filter(|(_, written)| *written)?;
        let meets = |(j, other): (usize, &A)| {
            (j != i && span(other).is_some_and(|(b, _)| a.start < b.end && b.start < a.end)).then_some(j)
        };
        let other = args.iter().enumerate().find_map(meets)?;
        Some((i.min(other), i.max(other)))
    })
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn memory_that_is_written_is_given_once() {
        type Span = Option<(std::ops::Range<u64>, bool)>;
        let meet = |spans: &[Span]| overlap(spans, Clone::clone);
        let spans =
            |writes: [bool; 3]| [Some((0..16, writes[0])), Some((16..32, writes[1])), None, Some((24..40, writes[2]))];
        assert_eq!(meet(&spans([true, false, false])), None);
        assert_eq!(meet(&spans([true, true, false])), Some((1, 3)));
        assert_eq!(meet(&spans([false, false, true])), Some((1, 3)));
        assert_eq!(meet(&[Some((8..8, true)), Some((8..16, true))]), None, "a buffer without bytes meets none");
    }
}
