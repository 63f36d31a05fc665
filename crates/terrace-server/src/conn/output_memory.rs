//! Memory of sent replies, which later replies of the same worker reuse.

/// Capacity that the memory keeps in all, in bytes.
const MAX_CAPACITY: usize = 1 << 20;

/// Empty buffers with a capacity.
#[derive(Debug, Default)]
pub(super) struct OutputMemory {
    buffers: Vec<Vec<u8>>,
    capacity: usize,
}

impl OutputMemory {
    /// Returns a buffer, without a capacity if there is none.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.capacity -= buffer.capacity();
        buffer
    }

    /// Keeps the memory of an empty buffer, unless there is enough.
    pub(super) fn give(&mut self, buffer: Vec<u8>) {
        let capacity = self.capacity + buffer.capacity();
        if buffer.capacity() > 0 && capacity <= MAX_CAPACITY {
            self.buffers.push(buffer);
            self.capacity = capacity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_a_mebibyte() {
        let mut memory = OutputMemory::default();
        assert_eq!(memory.take().capacity(), 0);
        for capacity in [0, MAX_CAPACITY + 1, MAX_CAPACITY - 10, 20, 10] {
            memory.give(Vec::with_capacity(capacity));
        }
        let kept: Vec<usize> = std::iter::repeat_with(|| memory.take().capacity()).take(4).collect();
        assert_eq!(kept, [10, MAX_CAPACITY - 10, 0, 0]);
    }
}
