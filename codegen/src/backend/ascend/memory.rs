//! Temporaries in unified buffer: which bytes a value occupies while it lives, and which steps must wait for others.

use super::EmitError;

/// Alignment of every tensor.
pub(super) const BLOCK: u64 = 32;

/// A tensor in unified buffer, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    /// Variable that holds the whole tensor.
    pub var: String,
    /// First element of the part.
    pub offset: u64,
    /// Elements of the part.
    pub lanes: u64,
    /// Bytes of an element.
    pub size: u64,
    /// First byte in the work buffer, if it lives there.
    pub work: Option<u64>,
}

impl Tensor {
    /// As an operand.
    pub fn text(&self) -> String {
        if self.offset == 0 { self.var.clone() } else { format!("{}[{}]", self.var, self.offset) }
    }

    /// Part of the tensor.
    pub fn part(&self, start: u64, lanes: u64) -> Result<Tensor, EmitError> {
        if !(start * self.size).is_multiple_of(BLOCK) {
            let what =
                format!("lanes of {} bytes from lane {start}: tensors start at multiples of {BLOCK} bytes", self.size);
            return Err(EmitError::unsupported(what));
        }
        Ok(Tensor { offset: self.offset + start, lanes, ..self.clone() })
    }

    fn overlaps(&self, other: &Tensor) -> bool {
        let base = |t: &Tensor| t.work.unwrap_or(0) + t.offset * t.size;
        let same_memory = match (self.work, other.work) {
            (Some(_), Some(_)) => true,
            (None, None) => base_name(&self.var) == base_name(&other.var),
            _ => false,
        };
        same_memory && base(self) < base(other) + other.bytes() && base(other) < base(self) + self.bytes()
    }

    fn bytes(&self) -> u64 {
        (self.lanes * self.size).next_multiple_of(BLOCK)
    }
}

/// The variable that a tensor is, or is seen as another type of.
fn base_name(var: &str) -> &str {
    var.split('.').next().unwrap_or(var)
}

/// The work buffer: live ranges in it, and the most that was ever needed.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// `(first byte, bytes, last step that uses it)`.
    live: Vec<(u64, u64, usize)>,
    /// Bytes needed.
    pub bytes: u64,
}

impl Work {
    /// The lowest free place for `bytes` that are used from `step` to `last`. What dies in `step` is still occupied.
    pub fn claim(&mut self, bytes: u64, step: usize, last: usize) -> u64 {
        let bytes = bytes.next_multiple_of(BLOCK).max(BLOCK);
        self.live.retain(|&(_, _, until)| until >= step);
        self.live.sort_unstable();
        let mut at = 0;
        for &(start, len, _) in &self.live {
            if at + bytes <= start {
                break;
            }
            at = at.max(start + len);
        }
        self.live.push((at, bytes, last));
        self.bytes = self.bytes.max(at + bytes);
        at
    }

    /// Hands the place at `at`, which dies in `step`, to another value of the same size that lives until `last`.
    pub fn take_over(&mut self, at: u64, bytes: u64, step: usize, last: usize) -> bool {
        let bytes = bytes.next_multiple_of(BLOCK).max(BLOCK);
        let dying = self.live.iter_mut().find(|(start, len, until)| *start == at && *len == bytes && *until == step);
        dying.map(|slot| slot.2 = last.max(step)).is_some()
    }
}

/// Bytes that one repeat of a vector instruction takes.
const REPEAT: u64 = 256;

/// Vector instructions, and their repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Cost {
    pub instructions: u64,
    pub repeats: u64,
}

impl Cost {
    /// Adds instructions over so many bytes each.
    pub fn add(&mut self, instructions: u64, bytes: u64) {
        self.instructions += instructions;
        self.repeats += instructions * bytes.div_ceil(REPEAT).max(1);
    }
}

/// Statements of the vector pipe, with a barrier wherever one depends on another that may still run.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// The statements.
    pub lines: Vec<String>,
    /// What those cost that are one instruction each.
    pub cost: Cost,
    /// What may still run.
    pending: Touched,
    /// What may run before the first barrier.
    head: Touched,
    /// Whether there was a barrier.
    waited: bool,
}

/// Tensors that statements touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    reads: Vec<Tensor>,
    writes: Vec<Tensor>,
}

impl Touched {
    fn add(&mut self, reads: &[&Tensor], writes: &[&Tensor]) {
        self.reads.extend(reads.iter().map(|&t| t.clone()));
        self.writes.extend(writes.iter().map(|&t| t.clone()));
    }

    /// Both together.
    pub fn and(mut self, other: Touched) -> Touched {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self
    }

    /// Whether what touches those has to wait for this.
    fn holds_up(&self, reads: &[&Tensor], writes: &[&Tensor]) -> bool {
        let among = |earlier: &[Tensor], t: &Tensor| earlier.iter().any(|e| e.overlaps(t));
        let waits_to_read = reads.iter().any(|t| among(&self.writes, t));
        waits_to_read || writes.iter().any(|t| among(&self.writes, t) || among(&self.reads, t))
    }
}

/// Those of no queue.
fn in_work(tensors: &[Tensor]) -> Vec<&Tensor> {
    tensors.iter().filter(|t| t.work.is_some()).collect()
}

impl Steps {
    /// A statement that the vector pipe does not run.
    pub fn plain(&mut self, line: String) {
        self.lines.push(line);
    }

    /// A vector statement.
    pub fn vector(&mut self, line: String, reads: &[&Tensor], writes: &Tensor) {
        self.vector_to(line, reads, &[writes]);
    }

    /// A vector statement that writes several tensors.
    pub fn vector_to(&mut self, line: String, reads: &[&Tensor], writes: &[&Tensor]) {
        if self.pending.holds_up(reads, writes) {
            self.barrier();
        }
        self.lines.push(line);
        let widest = reads.iter().chain(writes).copied().map(Tensor::bytes).max();
        self.cost.add(1, widest.unwrap_or(0));
        self.pending.add(reads, writes);
        if !self.waited {
            self.head.add(reads, writes);
        }
    }

    /// A call that touches `reads` and `writes` before its first barrier and ends with one, its results visible.
    pub fn settled(&mut self, line: String, reads: &[&Tensor], writes: &[&Tensor]) {
        if self.pending.holds_up(reads, writes) {
            self.barrier();
        }
        self.lines.push(line);
        if !self.waited {
            self.head.add(reads, writes);
        }
        self.waited = true;
        self.pending = Touched::default();
    }

    /// A barrier at the end, where what runs next would not wait for what may still run; if that is not known, where
    /// anything in the work buffer may. Tensors of queues wait for each other as they pass them.
    pub fn finish(&mut self, next: Option<&Touched>) {
        let waits = match next {
            Some(next) => {
                let (reads, writes) = (in_work(&next.reads), in_work(&next.writes));
                self.pending.holds_up(&reads, &writes)
            }
            None => self.pending.reads.iter().chain(&self.pending.writes).any(|t| t.work.is_some()),
        };
        if waits {
            self.barrier();
        }
    }

    /// What these statements may touch before a barrier.
    pub fn head(&self) -> Touched {
        self.head.clone()
    }

    fn barrier(&mut self) {
        self.lines.push("PipeBarrier<PIPE_V>();".to_owned());
        self.waited = true;
        self.pending = Touched::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_bytes_are_used_again() {
        let mut work = Work::default();
        let a = work.claim(100, 0, 2);
        let b = work.claim(64, 1, 5);
        assert_eq!((a, b), (0, 128));
        assert_eq!(work.claim(100, 2, 3), 192, "what dies in a step is occupied in it");
        assert_eq!(work.claim(128, 3, 4), 0);
        assert!(work.take_over(0, 128, 4, 9));
        assert_eq!((work.claim(32, 5, 5), work.bytes), (192, 320));
    }

    #[test]
    fn only_dependent_steps_wait() {
        let tensor = |var: &str, at| Tensor { var: var.into(), offset: 0, lanes: 8, size: 4, work: Some(at) };
        let (a, b, c) = (tensor("a", 0), tensor("b", 32), tensor("c", 64));
        let mut steps = Steps::default();
        steps.vector("1".into(), &[&a], &b);
        steps.vector("2".into(), &[&a], &c);
        steps.vector("3".into(), &[&b], &b);
        assert_eq!(steps.lines, ["1", "2", "PipeBarrier<PIPE_V>();", "3"]);
    }
}
