//! Memory that the graphs of all sizes share.
//!
//! One call runs at a time, so that no two sizes need memory at once. Each names the buffers that it needs; the largest of
//! every size lie in one buffer, the second largest in the next, and so on. A buffer is as large as the largest need that
//! is ever put into it, so that all sizes together take about what the largest takes alone.

/// Buffers, the largest first.
#[derive(Debug)]
pub struct MemoryPool<B> {
    buffers: Vec<(usize, B)>,
}

impl<B: Clone> MemoryPool<B> {
    /// A pool for each of these lists of needs, in bytes, one at a time.
    ///
    /// # Errors
    /// What `allocate` fails with.
    pub fn new<E>(
        needs: impl IntoIterator<Item = Vec<usize>>,
        mut allocate: impl FnMut(usize) -> Result<B, E>,
    ) -> Result<MemoryPool<B>, E> {
        let mut largest: Vec<usize> = Vec::new();
        for mut needs in needs {
            needs.sort_unstable_by(|a, b| b.cmp(a));
            largest.resize(largest.len().max(needs.len()), 0);
            largest.iter_mut().zip(needs).for_each(|(most, bytes)| *most = bytes.max(*most));
        }
        let buffers = largest.into_iter().map(|bytes| allocate(bytes).map(|buffer| (bytes, buffer)));
        Ok(MemoryPool { buffers: buffers.collect::<Result<_, _>>()? })
    }

    /// A buffer for each need of a list, no two the same; `None` if the pool was not made for it.
    pub fn lend(&self, needs: &[usize]) -> Option<Vec<B>> {
        let mut order: Vec<usize> = (0..needs.len()).collect();
        order.sort_by_key(|&need| std::cmp::Reverse(needs[need]));
        let mut lent: Vec<Option<B>> = vec![None; needs.len()];
        for (rank, need) in order.into_iter().enumerate() {
            let (bytes, buffer) = self.buffers.get(rank)?;
            if *bytes < needs[need] {
                return None;
            }
            lent[need] = Some(buffer.clone());
        }
        lent.into_iter().collect()
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> usize {
        self.buffers.iter().map(|(bytes, _)| bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_share_memory_and_needs_of_one_size_do_not() {
        let needs = [vec![10, 300, 20], vec![100, 30], vec![5, 5, 5, 5]];
        let mut made = Vec::new();
        let pool = MemoryPool::new(needs.clone(), |bytes| {
            made.push(bytes);
            Ok::<usize, ()>(made.len() - 1)
        });
        let pool = pool.expect("nothing fails");
        assert_eq!((made, pool.bytes()), (vec![300, 30, 10, 5], 345));
        assert!(pool.bytes() < needs.iter().flatten().sum());
        assert_eq!(pool.lend(&needs[0]), Some(vec![2, 0, 1]));
        assert_eq!(pool.lend(&needs[1]), Some(vec![0, 1]));
        assert_eq!(pool.lend(&needs[2]), Some(vec![0, 1, 2, 3]));
        assert_eq!((pool.lend(&[301]), pool.lend(&[1; 5]), pool.lend(&[])), (None, None, Some(Vec::new())));
    }

    #[test]
    fn what_cannot_be_had_is_the_error() {
        let pool = MemoryPool::new([vec![1, 2]], |bytes| if bytes > 1 { Err("full") } else { Ok(()) });
        assert_eq!(pool.err(), Some("full"));
    }
}
