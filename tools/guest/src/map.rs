// SPDX-License-Identifier: GPL-2.0
//! A shared mapping of a file or of shared memory, read and written word by word, for other tasks see the same pages.

use crate::mem::{PAGE, WORDS_PER_PAGE};
use anyhow::{Context, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Unmapped on drop.
pub struct Map {
    start: *mut c_void,
    pages: usize,
}

// SAFETY: the memory belongs to the mapping and not to a thread; each word is accessed as an atomic.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Whole pages of `file`, `bytes` of it.
    pub fn shared(file: impl AsFd, bytes: Range<u64>, prot: ProtFlags) -> Result<Map> {
        let len = (bytes.end - bytes.start) as usize;
        // SAFETY: a new mapping where the kernel finds room overlaps nothing.
        let start = unsafe { mmap(null_mut(), len, prot, MapFlags::SHARED, file, bytes.start) };
        let start = start.with_context(|| {
            let exec = prot.contains(ProtFlags::EXEC);
            let hint = if exec {
                ": is its file system mounted noexec?"
            } else {
                ""
            };
            format!("cannot map {len} bytes of a file{hint}")
        })?;
        Ok(Map {
            start,
            pages: len / PAGE,
        })
    }

    /// No readahead on faults.
    pub fn expect_random_access(&self) -> Result<()> {
        // SAFETY: the range is this mapping, and the advice changes no data.
        unsafe { madvise(self.start, self.pages * PAGE, Advice::Random) }
            .context("MADV_RANDOM failed")
    }

    pub fn pages(&self) -> usize {
        self.pages
    }

    pub fn at(&self, page: usize) -> *mut c_void {
        assert!(page < self.pages);
        // SAFETY: inside the mapping, as asserted.
        unsafe { self.start.add(page * PAGE) }
    }

    fn word(&self, page: usize, word: usize) -> *mut u64 {
        assert!(word < WORDS_PER_PAGE);
        // SAFETY: `at` is the start of a page of the mapping and `word` lies in it.
        unsafe { self.at(page).cast::<u64>().add(word) }
    }

    pub fn load(&self, page: usize, word: usize) -> u64 {
        self.atomic(page, word).load(Relaxed)
    }

    /// For what tasks change at the same time.
    pub fn atomic(&self, page: usize, word: usize) -> &AtomicU64 {
        // SAFETY: an aligned address inside the mapping, which lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.word(page, word)) }
    }

    pub fn store(&self, page: usize, word: usize, value: u64) {
        self.atomic(page, word).store(value, Relaxed)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        let _ = unsafe { munmap(self.start, self.pages * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    #[test]
    fn two_mappings_see_the_same_words() {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 4 * PAGE as u64).unwrap();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let whole = Map::shared(&fd, 0..4 * PAGE as u64, both).unwrap();
        let part = Map::shared(&fd, PAGE as u64..2 * PAGE as u64, ProtFlags::READ).unwrap();
        assert_eq!((whole.pages(), part.pages()), (4, 1));
        whole.store(1, WORDS_PER_PAGE - 1, 7);
        assert_eq!(part.load(0, WORDS_PER_PAGE - 1), 7);
    }
}
