// SPDX-License-Identifier: GPL-2.0
//! Where the pages of a mapping are: pagemap, kpageflags, smaps, mincore.

use crate::mem::PAGE;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// One entry of /proc/PID/pagemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page(pub u64);

impl Page {
    pub fn present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }

    pub fn swapped(self) -> bool {
        self.0 >> 62 & 1 == 1
    }

    /// Where it is, if it is present (0 for a caller without CAP_SYS_ADMIN).
    pub fn pfn(self) -> Option<u64> {
        self.present().then_some(self.0 & ((1 << 55) - 1))
    }
}

/// How many pages are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Where {
    pub present: usize,
    pub swapped: usize,
    pub absent: usize,
}

pub fn count<'a>(pages: impl IntoIterator<Item = &'a Page>) -> Where {
    let mut sum = Where::default();
    for page in pages {
        match (page.present(), page.swapped()) {
            (true, _) => sum.present += 1,
            (_, true) => sum.swapped += 1,
            _ => sum.absent += 1,
        }
    }
    sum
}

/// Pages of `pid`, or of the caller, at these addresses.
pub fn of(pid: Option<u32>, span: Range<usize>) -> Result<Vec<Page>> {
    let entries = (span.end - span.start) / PAGE;
    let raw = read_words(&proc_file(pid, "pagemap"), span.start / PAGE, entries)?;
    Ok(raw.into_iter().map(Page).collect())
}

/// Anonymous memory at these addresses that is mapped by PMDs, in KiB.
pub fn anon_huge_kib(pid: Option<u32>, span: Range<usize>) -> Result<u64> {
    let path = proc_file(pid, "smaps");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    anon_huge_of(&text, &span).with_context(|| {
        format!(
            "{path} has no mapping within {:x}-{:x}, or one that reaches beyond",
            span.start, span.end
        )
    })
}

fn anon_huge_of(smaps: &str, span: &Range<usize>) -> Option<u64> {
    let mut within = false;
    let mut sum = None;
    for line in smaps.lines() {
        if let Some(vma) = vma(line) {
            within = vma.start >= span.start && vma.end <= span.end;
            if !within && vma.start < span.end && vma.end > span.start {
                return None;
            }
        } else if let (true, Some(rest)) = (within, line.strip_prefix("AnonHugePages:")) {
            let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
            sum = Some(sum.unwrap_or(0) + kib);
        }
    }
    sum
}

/// The addresses at the start of the first line of a mapping in smaps.
fn vma(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    Some(hex(start)?..hex(end)?)
}

/// Bits of /proc/kpageflags (include/uapi/linux/kernel-page-flags.h).
const COMPOUND_HEAD: u64 = 1 << 15;
const COMPOUND_TAIL: u64 = 1 << 16;
const THP: u64 = 1 << 22;

/// Refuses unless every `chunk` pages of these are one folio: in physical order, with one head, at its own alignment.
pub fn are_thps(pages: &[Page], chunk: usize) -> Result<()> {
    for (nr, chunk_pages) in pages.chunks(chunk).enumerate() {
        let Some(first) = chunk_pages[0].pfn() else {
            bail!("the first page of chunk {nr} is not present");
        };
        if first == 0 {
            bail!("/proc/self/pagemap hides page frame numbers: this needs CAP_SYS_ADMIN");
        }
        let in_order = (first..)
            .zip(chunk_pages)
            .all(|(pfn, p)| p.pfn() == Some(pfn));
        if first % chunk as u64 != 0 || !in_order {
            bail!("the pages of chunk {nr} are not one aligned run from page frame {first}");
        }
        let flags = read_words("/proc/kpageflags", first as usize, chunk)?;
        let is_thp = flags.iter().enumerate().all(|(i, f)| {
            let part = if i == 0 { COMPOUND_HEAD } else { COMPOUND_TAIL };
            f & THP != 0 && f & part != 0
        });
        if !is_thp {
            bail!(
                "page frame {first}, chunk {nr}, is not a THP of {chunk} pages by /proc/kpageflags"
            );
        }
    }
    Ok(())
}

/// How many pages of the caller's could be read without I/O: present, or in the swap cache and up to date.
pub fn in_core(words: &[u64]) -> Result<usize> {
    let bytes = size_of_val(words);
    let mut core = vec![0u8; bytes.div_ceil(PAGE)];
    // SAFETY: the memory is borrowed, and the vector has a byte for each of its pages.
    let rc = unsafe { libc::mincore(words.as_ptr() as *mut _, bytes, core.as_mut_ptr()) };
    if rc != 0 {
        return Err(std::io::Error::last_os_error()).context("mincore failed");
    }
    Ok(core.iter().filter(|b| **b & 1 == 1).count())
}

fn proc_file(pid: Option<u32>, name: &str) -> String {
    match pid {
        Some(pid) => format!("/proc/{pid}/{name}"),
        None => format!("/proc/self/{name}"),
    }
}

fn read_words(path: &str, first: usize, count: usize) -> Result<Vec<u64>> {
    let mut raw = vec![0; count * 8];
    File::open(path)
        .and_then(|f| f.read_exact_at(&mut raw, first as u64 * 8))
        .with_context(|| format!("cannot read {count} entries of {path}"))?;
    let words = raw.chunks_exact(8);
    // chunks_exact(8) gives eight bytes.
    Ok(words
        .map(|b| u64::from_ne_bytes(b.try_into().unwrap()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::{Advice, Region, touch};

    #[test]
    fn entries() {
        let present = Page(1 << 63 | 1 << 61 | 0x1234);
        let swapped = Page(1 << 62 | 5);
        assert_eq!(present.pfn(), Some(0x1234));
        assert_eq!(swapped.pfn(), None);
        let sum = count(&[present, swapped, swapped, Page(0)]);
        assert_eq!((sum.present, sum.swapped, sum.absent), (1, 2, 1));
    }

    #[test]
    fn own_pages() {
        let mut r = Region::new(8 * PAGE, PAGE).unwrap();
        r.advise(Advice::NoHugePage).unwrap();
        assert_eq!(count(&of(None, r.span()).unwrap()).absent, 8);
        r[0] = 1;
        touch(&r[..1]);
        assert_eq!(count(&of(None, r.span()).unwrap()).present, 1);
        assert_eq!(in_core(&r).unwrap(), 1);
    }

    #[test]
    fn huge_pages_of_a_part() {
        let text = "1000-3000 rw-p 00000000 00:00 0\nSize: 8 kB\nAnonHugePages:      4 kB\n\
                    3000-5000 rw-p 00000000 00:00 0 [x]\nAnonHugePages:      2 kB\n\
                    9000-a000 r--p\nAnonHugePages:      1 kB\n";
        assert_eq!(anon_huge_of(text, &(0x1000..0x5000)), Some(6));
        assert_eq!(anon_huge_of(text, &(0x3000..0x5000)), Some(2));
        assert_eq!(anon_huge_of(text, &(0x4000..0x5000)), None);
        assert_eq!(anon_huge_of(text, &(0x6000..0x7000)), None);
    }
}
