// SPDX-License-Identifier: GPL-2.0
//! Files with real data, each page of which tells its place, and the ways to read them.

use super::Touch;
use crate::map::Map;
use crate::mem::{self, PAGE, WORDS_PER_PAGE};
use crate::undo::{self, Undo};
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Advice, fadvise};
use rustix::mm::ProtFlags;
use std::fs::{self, File};
use std::io::Write;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

const MIB: usize = 1 << 20;
const MIB_PAGES: usize = MIB / PAGE;
const MIB_WORDS: usize = MIB / 8;
/// What is read at once where every word is verified.
const UNIT: usize = 128 << 10;

/// Removed when dropped.
pub struct Data {
    file: File,
    path: PathBuf,
    seed: u64,
    mib: u64,
    _undo: Undo,
}

impl Data {
    /// Written and on disk; in the page cache too.
    pub fn write(dir: &Path, name: &str, mib: u64, seed: u64) -> Result<Data> {
        let path = dir.join(format!("vmscan-lab-{}.{name}", std::process::id()));
        let at = || format!("cannot write {}", path.display());
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .with_context(at)?;
        let gone = path.clone();
        let undo = undo::later(move || {
            if let Err(e) = fs::remove_file(&gone) {
                eprintln!("cannot remove {}: {e}", gone.display());
            }
        });
        let mut buffer = Buffer::new();
        for n in 0..mib {
            mem::fill(&mut buffer.0, seed, n * MIB_WORDS as u64);
            (&file).write_all(buffer.bytes()).with_context(at)?;
        }
        file.sync_data().with_context(at)?;
        Ok(Data {
            file,
            path,
            seed,
            mib,
            _undo: undo,
        })
    }

    /// Written, on disk, and not in the page cache.
    pub fn cold(dir: &Path, name: &str, mib: u64, seed: u64) -> Result<Data> {
        let data = Data::write(dir, name, mib, seed)?;
        let len = NonZeroU64::new(mib << 20);
        let mut cached = data.pages();
        // A page that somebody holds on to for a moment stays, a large one whole.
        for wait in 0..5 {
            thread::sleep(Duration::from_millis(100 * wait));
            fadvise(&data.file, 0, len, Advice::DontNeed)
                .with_context(|| format!("cannot drop {} from the cache", data.path.display()))?;
            cached = data.cached_pages()?;
            if cached == 0 {
                break;
            }
        }
        ensure!(
            cached <= data.pages() / 100,
            "{cached} of {} pages of {} stay in the page cache although they were written and dropped",
            data.pages(),
            data.path.display()
        );
        Ok(data)
    }

    pub fn pages(&self) -> usize {
        self.mib as usize * MIB_PAGES
    }

    fn cached_pages(&self) -> Result<usize> {
        let map = Map::shared(&self.file, 0..self.mib << 20, ProtFlags::READ)?;
        let mut resident = vec![0u8; map.pages()];
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        let rc = unsafe { libc::mincore(map.at(0), map.pages() * PAGE, resident.as_mut_ptr()) };
        if rc != 0 {
            return Err(std::io::Error::last_os_error()).context("mincore() failed");
        }
        Ok(resident.into_iter().filter(|r| r & 1 == 1).count())
    }

    /// Opens the file for accesses page by page.
    pub fn pages_by(&self, touch: Touch) -> Result<Pages> {
        let whole = 0..self.mib << 20;
        let half = self.mib << 19;
        let by = match touch {
            Touch::Mmap => By::Halves(
                Map::shared(&self.file, 0..half, ProtFlags::READ | ProtFlags::EXEC)?,
                Map::shared(&self.file, half..2 * half, ProtFlags::READ)?,
            ),
            Touch::MmapRandom => {
                let map = Map::shared(&self.file, whole, ProtFlags::READ)?;
                map.expect_random_access()?;
                By::Mapping(map)
            }
            Touch::Read => {
                let file = self.open()?;
                fadvise(&file, 0, None, Advice::Random).context("fadvise() failed")?;
                By::Reading(file)
            }
        };
        Ok(Pages {
            by,
            pages: self.pages(),
            seed: self.seed,
        })
    }

    /// A place and a readahead of its own.
    pub fn reader(&self) -> Result<Reader> {
        Ok(Reader {
            file: self.open()?,
            buffer: Buffer::new(),
            seed: self.seed,
            mib: self.mib,
        })
    }

    fn open(&self) -> Result<File> {
        File::open(&self.path).with_context(|| format!("cannot open {}", self.path.display()))
    }

    /// One access to each page of a plain mapping, from `first` on and around.
    pub fn read_mapped(&self, first: usize) -> Result<u64> {
        let map = Map::shared(&self.file, 0..self.mib << 20, ProtFlags::READ)?;
        let around = (first..map.pages()).chain(0..first);
        around
            .map(|page| check(self.seed, page, map.load(page, 0)))
            .sum()
    }
}

enum By {
    /// The first half executable, the second not, as a browser maps its code and its data.
    Halves(Map, Map),
    Mapping(Map),
    Reading(File),
}

pub struct Pages {
    by: By,
    pages: usize,
    seed: u64,
}

impl Pages {
    pub fn len(&self) -> usize {
        self.pages
    }

    /// The access that comes `nth` in a round over all pages, and a check of the word it reads.
    pub fn access(&self, nth: usize) -> Result<u64> {
        let half = self.pages / 2;
        let (page, word) = match &self.by {
            By::Halves(code, _) if nth % 2 == 0 => (nth / 2, code.load(nth / 2, 0)),
            By::Halves(_, data) => (half + nth / 2, data.load(nth / 2, 0)),
            By::Mapping(map) => (nth, map.load(nth, 0)),
            By::Reading(file) => (nth, read_page(file, nth)?),
        };
        check(self.seed, page, word)
    }
}

/// Reads the whole page, and returns its first word.
fn read_page(file: &File, page: usize) -> Result<u64> {
    let mut bytes = [0; PAGE];
    file.read_exact_at(&mut bytes, (page * PAGE) as u64)
        .context("cannot read a file of the workload")?;
    let (first, _) = bytes.split_at(8);
    Ok(u64::from_ne_bytes(first.try_into().expect("eight bytes")))
}

/// Reads from start to end.
pub struct Reader {
    file: File,
    buffer: Buffer,
    seed: u64,
    mib: u64,
}

impl Reader {
    /// Page `n`, around the end.
    pub fn page(&self, n: u64) -> Result<u64> {
        let page = (n % (self.mib * MIB_PAGES as u64)) as usize;
        check(self.seed, page, read_page(&self.file, page)?)
    }

    /// The `n`th MiB, around the end; a word of each page is checked.
    pub fn mib(&mut self, n: u64) -> Result<u64> {
        let n = n % self.mib;
        self.load(n << 20, MIB)?;
        let pages = self.buffer.0.chunks_exact(WORDS_PER_PAGE).enumerate();
        pages
            .map(|(i, words)| check(self.seed, n as usize * MIB_PAGES + i, words[0]))
            .sum()
    }

    /// The whole file once, all words; `between` runs after so many pages.
    pub fn every_word(&mut self, mut between: impl FnMut(u32) -> Result<()>) -> Result<u64> {
        let mut words = 0;
        for n in 0..self.mib * (MIB / UNIT) as u64 {
            self.load(n * UNIT as u64, UNIT)?;
            let first = n * (UNIT / 8) as u64;
            words += mem::verify(&self.buffer.0[..UNIT / 8], self.seed, first)?;
            between((UNIT / PAGE) as u32)?;
        }
        Ok(words)
    }

    fn load(&mut self, at: u64, bytes: usize) -> Result<()> {
        let buffer = &mut self.buffer.bytes_mut()[..bytes];
        self.file
            .read_exact_at(buffer, at)
            .context("cannot read a file of the workload")
    }
}

fn check(seed: u64, page: usize, got: u64) -> Result<u64> {
    let want = mem::word(seed, (page * WORDS_PER_PAGE) as u64);
    if got != want {
        bail!(
            "page {page} of a file begins with {got:#x} where {want:#x} was written: data is damaged"
        );
    }
    Ok(1)
}

/// A MiB of words that is read and written as bytes.
struct Buffer(Vec<u64>);

impl Buffer {
    fn new() -> Buffer {
        Buffer(vec![0; MIB_WORDS])
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the same memory; any word is eight bytes.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), MIB) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same memory, borrowed exclusively; any eight bytes are a word.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), MIB) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_in_every_way_and_gone() {
        let data = Data::write(&std::env::temp_dir(), "test", 2, 5).unwrap();
        assert_eq!(data.pages(), 512);
        let mut reader = data.reader().unwrap();
        let ways = [Touch::Mmap, Touch::MmapRandom, Touch::Read].map(|t| data.pages_by(t).unwrap());
        for pages in &ways {
            assert_eq!(pages.len(), 512);
            let words: u64 = (0..512).map(|n| pages.access(n).unwrap()).sum();
            assert_eq!(words, 512);
        }
        assert_eq!(data.read_mapped(300).unwrap(), 512);
        assert_eq!(reader.mib(3).unwrap(), 256);
        assert_eq!(reader.page(513).unwrap(), 1);
        let mut seen = 0;
        let words = reader.every_word(|pages| {
            seen += pages;
            Ok(())
        });
        assert_eq!((words.unwrap(), seen), (2 * MIB_WORDS as u64, 512));
        data.file.write_all_at(&[1; 8], 4096).unwrap();
        let e = reader.mib(0).unwrap_err().to_string();
        assert!(e.contains("page 1 of a file"), "{e}");
        for pages in &ways {
            assert!((0..512).any(|n| pages.access(n).is_err()));
        }
        let path = data.path.clone();
        drop(data);
        assert!(!path.exists());
    }
}
