// SPDX-License-Identifier: GPL-2.0
//! The C library's rand(), for the sources use it unseeded: the same numbers make their tables comparable row by row.

/// There is one such generator in a process; nobody else in it may draw.
pub struct Rand(());

impl Rand {
    pub fn new(seed: u32) -> Rand {
        // SAFETY: srand() takes any number.
        unsafe { libc::srand(seed) };
        Rand(())
    }

    pub fn below(&mut self, limit: usize) -> usize {
        // SAFETY: rand() has no preconditions; it is not negative.
        let n = unsafe { libc::rand() };
        n as usize % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The sums of both columns in the thread's first table: 226 + 0, 224 + 0, 221 + 0, 189 + 42, 6 + 212, …
    /// One test, because the generator is the process's.
    #[test]
    fn draws_what_the_thread_drew() {
        let mut rand = Rand::new(1);
        let distinct: Vec<usize> = (0..8)
            .map(|_| {
                (0..256)
                    .map(|_| rand.below(960))
                    .collect::<BTreeSet<_>>()
                    .len()
            })
            .collect();
        assert_eq!(distinct, [226, 224, 221, 231, 218, 227, 224, 222]);
    }
}
