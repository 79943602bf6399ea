//! What a launch is checked against, whatever runs it.

use fusewright_abi::{Claim, DType, KernelArtifact, Param, ParamAccess, RowOrder};

use super::size::Size;
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
    /// Their names, in order.
    names: Box<[String]>,
    /// These hold of every launch that has rows.
    claims: Box<[Claim]>,
    /// Rows for given integer arguments.
    pub rows: Size,
    /// Which of them may be computed at once.
    pub order: RowOrder,
    /// What each parameter needs.
    needs: Box<[Need]>,
}

/// What a buffer is compared with, without what is only said of it.
#[derive(Debug)]
struct Need {
    elements: Size,
    dtype: DType,
    /// Whether it is written.
    written: bool,
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
        let need = |param: &Param| {
            let (elements, written) = (Size::of(&param.elements), param.access != ParamAccess::In);
            Need { elements, dtype: param.dtype, written }
        };
        Signature {
            name: artifact.name.clone(),
            params: artifact.params.clone(),
            dims: artifact.dims.len(),
            names: artifact.dims.iter().map(|dim| dim.name.clone()).collect(),
            claims: artifact.claims.clone().into(),
            rows: Size::of(&artifact.launch.rows),
            order: artifact.launch.order,
            needs: artifact.params.iter().map(need).collect(),
        }
    }

    /// Checks a launch, and says how many bytes its buffers have at least.
    ///
    /// # Errors
    /// Arguments of a wrong number or direction, `dims` that are negative or not as the kernel claims, or buffers shorter
    /// than the shapes that `dims` imply. The proof that a kernel keeps within its buffers relies on this.
    pub fn check<A: Argument>(&self, args: &[A], dims: &[i64], rows: usize) -> Result<usize, RuntimeError> {
        self.check_each(args, dims, rows, |_, _| Ok(()))
    }

    /// As [`Signature::check`], with something else that each argument is checked for, in the same pass.
    ///
    /// # Errors
    /// As [`Signature::check`], and what `also` fails with.
    #[inline]
    pub fn check_each<A: Argument>(
        &self,
        args: &[A],
        dims: &[i64],
        rows: usize,
        mut also: impl FnMut(usize, &A) -> Result<(), RuntimeError>,
    ) -> Result<usize, RuntimeError> {
        if args.len() != self.needs.len() || dims.len() != self.dims || rows > self.rows.count(dims) {
            return Err(self.refuse(self.unlike(args.len(), dims, rows)));
        }
        if dims.iter().any(|dim| *dim < 0) || (rows > 0 && !self.claims.iter().all(|claim| claim.holds(dims))) {
            return Err(self.refuse(self.unclaimed(dims)));
        }
        let mut bytes = 0;
        for (i, (need, given)) in self.needs.iter().zip(args).enumerate() {
            let memory = match given.memory() {
                Memory::Same(other) => self.shared(args, i, other)?,
                memory => memory,
            };
            let (len, writable) = match memory {
                Memory::In(len) => (len, false),
                Memory::Out(len) => (len, true),
                Memory::Same(_) => (0, false),
            };
            // A number beyond 64 bits is longer than any buffer.
            let elements = need.elements.counted(dims).unwrap_or(usize::MAX);
            let needed = need.dtype.bytes_for(elements);
            if len < needed || (need.written && !writable) {
                return Err(self.refuse(self.unfit(i, (len, writable), needed)));
            }
            bytes += needed;
            also(i, given)?;
        }
        Ok(bytes)
    }

    /// The memory of another argument, which an argument shares.
    fn shared<A: Argument>(&self, args: &[A], i: usize, other: usize) -> Result<Memory, RuntimeError> {
        match (self.params.get(other), args.get(other).map(Argument::memory)) {
            (Some(shared), Some(memory @ Memory::Out(_))) if shared.alias == Some(i) => Ok(memory),
            _ => {
                let name = self.params.get(i).map_or("", |param| &param.name);
                Err(self.refuse(format!("`{name}` may not share the memory of parameter {other}")))
            }
        }
    }

    /// In words, in which numbers a launch differs.
    #[cold]
    fn unlike(&self, buffers: usize, dims: &[i64], rows: usize) -> String {
        let (takes, integers) = ((self.needs.len(), self.dims), dims.len());
        if takes != (buffers, integers) {
            return format!("takes {} buffers and {} integers, got {buffers} and {integers}", takes.0, takes.1);
        }
        format!("has {} rows, asked for {rows}", self.rows.count(dims))
    }

    /// In words, what integer arguments are not.
    #[cold]
    fn unclaimed(&self, dims: &[i64]) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if let Some((name, value)) = names.iter().zip(dims).find(|(_, value)| **value < 0) {
            return format!("`{name}` is {value}, which is negative");
        }
        let broken = self.claims.iter().find(|claim| !claim.holds(dims));
        let values: Vec<String> = names.iter().zip(dims).map(|(name, value)| format!("{name} = {value}")).collect();
        let words = |claim: &Claim| {
            format!("{} is not above {}", claim.least.with_names(&names), claim.most.with_names(&names))
        };
        format!("takes only sizes of which {}; {}", broken.map_or_else(String::new, words), values.join(", "))
    }

    /// In words, why a buffer of so many bytes does not fit.
    #[cold]
    fn unfit(&self, i: usize, (len, writable): (usize, bool), needed: usize) -> String {
        let name = self.params.get(i).map_or("", |param| &param.name);
        if self.needs.get(i).is_some_and(|need| need.written) && !writable {
            return format!("`{name}` is written, but the buffer is read-only");
        }
        format!("`{name}` takes {needed} bytes, the buffer has {len}")
    }

    /// That two arguments share memory that is written.
    #[cold]
    pub fn share(&self, a: usize, b: usize) -> RuntimeError {
        let [a, b] = [a, b].map(|i| self.params.get(i).map_or("", |param| &param.name));
        self.refuse(format!("`{a}` and `{b}` share memory, and one is written"))
    }

    /// That a launch is refused.
    #[cold]
    pub fn refuse(&self, reason: String) -> RuntimeError {
        RuntimeError::Arguments { kernel: self.name.clone(), reason }
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

/// Where the memory of an argument lies on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub begin: u64,
    /// Zero of an argument that shares the memory of another, so that it meets none.
    pub end: u64,
    /// Whether it may be written.
    pub written: bool,
}

/// Two arguments whose memory overlaps, and of which one is written. Few are.
pub(super) fn overlap(spans: &[Span]) -> Option<(usize, usize)> {
    for (i, a) in spans.iter().enumerate().filter(|(_, a)| a.written) {
        for (j, b) in spans.iter().enumerate() {
            // With itself it overlaps, too.
            if b.begin < a.end && a.begin < b.end && i != j {
                return Some((i.min(j), i.max(j)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Span, overlap};

    #[test]
    fn memory_that_is_written_is_given_once() {
        let span = |begin, end, written| Span { begin, end, written };
        let spans = |writes: [bool; 3]| {
            [span(0, 16, writes[0]), span(16, 32, writes[1]), span(24, 0, false), span(24, 40, writes[2])]
        };
        assert_eq!(overlap(&spans([true, false, false])), None);
        assert_eq!(overlap(&spans([true, true, false])), Some((1, 3)));
        assert_eq!(overlap(&spans([false, false, true])), Some((1, 3)));
        assert_eq!(overlap(&[span(8, 8, true), span(8, 16, true)]), None, "a buffer without bytes meets none");
    }
}
