// SPDX-License-Identifier: GPL-2.0
//! Memory a workload works on: aligned, advised, filled with words that tell their place, and verified.

use anyhow::{Context, Result, bail};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ops::Range;
use std::ptr::null_mut;

pub const PAGE: usize = 4096;
pub const WORDS_PER_PAGE: usize = PAGE / 8;
pub const PMD: usize = 2 << 20;

/// Anonymous private memory. Dereference it for its words.
pub struct Region {
    base: *mut u64,
    bytes: usize,
}

// SAFETY: it owns its mapping as a Vec owns its allocation.
unsafe impl Send for Region {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for Region {}

impl Region {
    /// `bytes` of whole pages, from an address that is a multiple of `align` (a power of two, at least a page).
    pub fn new(bytes: usize, align: usize) -> Result<Region> {
        if bytes == 0 || bytes % PAGE != 0 || !align.is_power_of_two() || align < PAGE {
            bail!(
                "cannot map {bytes} bytes aligned to {align}: want whole pages and a power of two"
            );
        }
        // Too much first, then cut to the aligned part.
        let whole = bytes + align - PAGE;
        // SAFETY: a fresh mapping where the kernel likes; nothing else is touched.
        let start = unsafe {
            mmap_anonymous(
                null_mut(),
                whole,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .with_context(|| format!("cannot map {whole} bytes"))? as usize;
        let base = start.next_multiple_of(align);
        let cut = |from: usize, to: usize| match to - from {
            0 => Ok(()),
            // SAFETY: this part of the mapping made above is not used.
            n => unsafe { munmap(from as *mut _, n) },
        };
        cut(start, base)
            .and_then(|()| cut(base + bytes, start + whole))
            .context("cannot cut a mapping to its aligned part")?;
        Ok(Region {
            base: base as *mut u64,
            bytes,
        })
    }

    pub fn span(&self) -> Range<usize> {
        span(self)
    }

    pub fn advise(&mut self, advice: Advice) -> Result<()> {
        advise(self, advice)
    }

    /// Writes every word: what it is depends on its place and `seed`.
    pub fn fill(&mut self, seed: u64) {
        fill(self, seed, 0);
    }

    /// Reads every word back; how many.
    pub fn verify(&self, seed: u64) -> Result<u64> {
        verify(self, seed, 0)
    }
}

impl std::ops::Deref for Region {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        // SAFETY: mapped, aligned and readable for as long as `self` lives; anonymous memory is zeroes.
        unsafe { std::slice::from_raw_parts(self.base, self.bytes / 8) }
    }
}

impl std::ops::DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `deref`, and writable, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.bytes / 8) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's and nothing borrows it any more.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

/// Of madvise(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    HugePage,
    NoHugePage,
    /// To THPs, now.
    Collapse,
    PageOut,
    DontNeed,
    /// Read from swap, now and all together.
    WillNeed,
}

impl Advice {
    fn number(self) -> (libc::c_int, &'static str) {
        match self {
            Advice::HugePage => (libc::MADV_HUGEPAGE, "MADV_HUGEPAGE"),
            Advice::NoHugePage => (libc::MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE"),
            Advice::Collapse => (libc::MADV_COLLAPSE, "MADV_COLLAPSE"),
            Advice::PageOut => (libc::MADV_PAGEOUT, "MADV_PAGEOUT"),
            Advice::DontNeed => (libc::MADV_DONTNEED, "MADV_DONTNEED"),
            Advice::WillNeed => (libc::MADV_WILLNEED, "MADV_WILLNEED"),
        }
    }
}

/// Addresses of `words`.
pub fn span(words: &[u64]) -> Range<usize> {
    let start = words.as_ptr() as usize;
    start..start + size_of_val(words)
}

pub fn advise(words: &mut [u64], advice: Advice) -> Result<()> {
    let (number, name) = advice.number();
    let bytes = size_of_val(words);
    // SAFETY: the memory is borrowed exclusively, and after any of these it still holds words: the same or zeroes.
    let rc = unsafe { libc::madvise(words.as_mut_ptr().cast(), bytes, number) };
    if rc != 0 {
        let e = std::io::Error::last_os_error();
        return Err(e).with_context(|| format!("{name} of {} KiB failed", bytes / 1024));
    }
    Ok(())
}

/// The word at place `index`: no two of a region are alike, and no page compresses to a pattern.
pub fn word(seed: u64, index: u64) -> u64 {
    let x = (index ^ seed.rotate_left(32)).wrapping_mul(0xd134_2543_de82_ef95);
    (x ^ (x >> 29)).wrapping_mul(0xaf25_1af3_b0f0_25b5)
}

/// `first` is the place of the first of `words` within its region.
pub fn fill(words: &mut [u64], seed: u64, first: u64) {
    for (word_at, i) in words.iter_mut().zip(first..) {
        *word_at = word(seed, i);
    }
}

/// Reads every word; how many there are. A wrong one is an error that says where.
pub fn verify(words: &[u64], seed: u64, first: u64) -> Result<u64> {
    let wrong = |(w, i): &(&u64, u64)| **w != word(seed, *i);
    let mut bad = words.iter().zip(first..).filter(wrong);
    if let Some((got, i)) = bad.next() {
        bail!(
            "data is damaged: word {i} (page {}) is {got:#018x} where {:#018x} was written, and {} more words are wrong",
            i / WORDS_PER_PAGE as u64,
            word(seed, i),
            bad.count()
        );
    }
    Ok(words.len() as u64)
}

/// Reads one byte of every page.
pub fn touch(words: &[u64]) {
    for page in words.chunks(WORDS_PER_PAGE) {
        // SAFETY: a byte of a word that is borrowed; volatile, so that the read happens.
        unsafe { page.as_ptr().cast::<u8>().read_volatile() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_aligned_and_its_data_verified() {
        let mut r = Region::new(2 * PMD, PMD).unwrap();
        assert_eq!(r.span().start % PMD, 0);
        assert_eq!(r.len(), 2 * PMD / 8);
        r.advise(Advice::NoHugePage).unwrap();
        r.fill(7);
        touch(&r);
        assert_eq!(r.verify(7).unwrap(), (2 * PMD / 8) as u64);
        assert!(r.verify(8).is_err());
        r[513] ^= 1;
        r[9999] = 0;
        let e = r.verify(7).unwrap_err().to_string();
        assert!(e.contains("word 513 (page 1) is"), "{e}");
        assert!(e.contains("and 1 more words are wrong"), "{e}");
    }

    #[test]
    fn a_part_knows_its_place() {
        let mut r = Region::new(2 * PAGE, PAGE).unwrap();
        let half = WORDS_PER_PAGE as u64;
        for (i, part) in r.chunks_mut(WORDS_PER_PAGE).enumerate() {
            fill(part, 1, i as u64 * half);
        }
        assert_eq!(r.verify(1).unwrap(), 2 * half);
        r.advise(Advice::DontNeed).unwrap();
        assert!(r.iter().all(|w| *w == 0));
    }

    #[test]
    fn bad_sizes() {
        for (bytes, align) in [(0, PAGE), (PAGE + 1, PAGE), (PAGE, 3 * PAGE), (PAGE, 8)] {
            assert!(Region::new(bytes, align).is_err(), "{bytes} {align}");
        }
    }
}
