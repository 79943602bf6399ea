//! Moving elements between strided and row-major memory.

use crate::error::Error;
use crate::host::zeroed;

/// Elements at strides over memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Strided {
    pub shape: Vec<usize>,
    /// In elements, per axis.
    pub strides: Vec<usize>,
    /// Place of the first element.
    pub offset: usize,
}

impl Strided {
    /// Row-major order from the start of the memory.
    pub fn contiguous(shape: &[usize]) -> Strided {
        // Extents behind one of zero may be too many together; they are never walked.
        let below = |i: usize| shape[i + 1..].iter().fold(1, |n: usize, &extent| n.saturating_mul(extent));
        let strides = (0..shape.len()).map(below).collect();
        Strided { shape: shape.to_vec(), strides, offset: 0 }
    }

    /// Whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.elements() == 0 || self.run().0 == 0
    }

    /// How many elements there are, those that stand at one place counted often.
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |n: usize, &extent| n.saturating_mul(extent))
    }

    /// One past the last element's place; zero if there is none. `None` beyond the address space.
    pub fn end(&self) -> Option<usize> {
        if self.elements() == 0 {
            return Some(0);
        }
        let mut last = self.offset;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add((extent - 1).checked_mul(stride)?)?;
        }
        last.checked_add(1)
    }

    /// The same with axes that stand still of extent one.
    pub fn unstretched(&self) -> Strided {
        let shape = self.shape.iter().zip(&self.strides);
        let shape = shape.map(|(&extent, &stride)| if stride == 0 { extent.min(1) } else { extent }).collect();
        Strided { shape, ..self.clone() }
    }

    /// The axes before the innermost ones that are walked without gaps, and how many elements those hold.
    fn run(&self) -> (usize, usize) {
        let (mut outer, mut run) = (self.shape.len(), 1);
        while let Some(axis) = outer.checked_sub(1) {
            if self.shape[axis] != 1 && self.strides[axis] != run {
                break;
            }
            run *= self.shape[axis];
            outer = axis;
        }
        (outer, run)
    }

    /// Calls with the place of each run of neighbours, in row-major order, and the run's length.
    fn each_run(&self, mut call: impl FnMut(usize, usize)) {
        if self.elements() == 0 {
            return;
        }
        let (outer, run) = self.run();
        let mut index = vec![0; outer];
        let mut place = self.offset;
        loop {
            call(place, run);
            let mut axis = outer;
            loop {
                let Some(next) = axis.checked_sub(1) else { return };
                axis = next;
                index[axis] += 1;
                place += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                place -= self.strides[axis] * self.shape[axis];
                index[axis] = 0;
            }
        }
    }

    /// The elements of `bits` bits each in row-major order.
    ///
    /// # Errors
    /// Too little memory for them.
    pub fn gather(&self, bits: u32, memory: &[u8]) -> Result<Vec<u8>, Error> {
        let bits_of_all = self.elements().saturating_mul(bits as usize);
        let mut out = zeroed(bits_of_all.div_ceil(8))?;
        let mut done = 0;
        self.each_run(|place, run| {
            copy(bits, (memory, place), (&mut out, done), run);
            done += run;
        });
        Ok(out)
    }

    /// Writes elements given in row-major order.
    pub fn scatter(&self, bits: u32, elements: &[u8], memory: &mut [u8]) {
        let mut done = 0;
        self.each_run(|place, run| {
            copy(bits, (elements, done), (memory, place), run);
            done += run;
        });
    }
}

/// Copies neighbouring elements, counted from the start of both memories.
fn copy(bits: u32, (from, read): (&[u8], usize), (to, write): (&mut [u8], usize), count: usize) {
    let bits = bits as usize;
    if bits.is_multiple_of(8) {
        let width = bits / 8;
        to[write * width..][..count * width].copy_from_slice(&from[read * width..][..count * width]);
        return;
    }
    let mask = (1u8 << bits) - 1;
    for i in 0..count {
        let (source, target) = ((read + i) * bits, (write + i) * bits);
        let code = (from[source / 8] >> (source % 8)) & mask;
        let kept = to[target / 8] & !(mask << (target % 8));
        to[target / 8] = kept | (code << (target % 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(shape: &[usize], strides: &[usize], offset: usize) -> Strided {
        Strided { shape: shape.to_vec(), strides: strides.to_vec(), offset }
    }

    #[test]
    fn a_transposed_slice_is_gathered_and_scattered_back() {
        let memory: Vec<u8> = (0..12).collect();
        // Columns 1 and 2 of three rows of four, transposed.
        let view = strided(&[2, 3], &[1, 4], 1);
        assert_eq!(view.gather(8, &memory).expect("there is memory"), [1, 5, 9, 2, 6, 10]);
        assert_eq!(view.end(), Some(11));
        let mut back = vec![0; 12];
        view.scatter(8, &[1, 5, 9, 2, 6, 10], &mut back);
        assert_eq!(back, [0, 1, 2, 0, 0, 5, 6, 0, 0, 9, 10, 0]);
    }

    #[test]
    fn runs_of_neighbours_are_whole_rows_where_nothing_lies_between() {
        let memory: Vec<u8> = (0..24).collect();
        let rows = strided(&[2, 1, 4], &[12, 99, 1], 8);
        assert_eq!(rows.run(), (1, 4));
        assert_eq!(rows.gather(8, &memory).expect("there is memory"), [8, 9, 10, 11, 20, 21, 22, 23]);
        assert!(!rows.is_contiguous() && Strided::contiguous(&[2, 3, 4]).is_contiguous());
    }

    #[test]
    fn halves_of_bytes_move_one_by_one() {
        // Elements 0..8 of four bits; every other one, backwards rows of two.
        let memory = [0x10, 0x32, 0x54, 0x76];
        assert_eq!(strided(&[4], &[2], 1).gather(4, &memory).expect("there is memory"), [0x31, 0x75]);
        let mut back = [0xff; 4];
        strided(&[4], &[2], 1).scatter(4, &[0x31, 0x75], &mut back);
        assert_eq!(back, [0x1f, 0x3f, 0x5f, 0x7f]);
    }

    #[test]
    fn stretched_axes_repeat_and_empty_ones_hold_nothing() {
        let stretched = strided(&[3, 2], &[0, 1], 0);
        assert_eq!(stretched.gather(8, &[7, 8]).expect("there is memory"), [7, 8, 7, 8, 7, 8]);
        assert_eq!(stretched.unstretched().gather(8, &[7, 8]).expect("there is memory"), [7, 8]);
        let empty = strided(&[0, 2], &[5, 9], 100);
        assert_eq!((empty.gather(8, &[]).expect("there is memory"), empty.end()), (Vec::new(), Some(0)));
    }
}
