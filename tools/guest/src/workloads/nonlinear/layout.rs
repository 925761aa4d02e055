// SPDX-License-Identifier: GPL-2.0
//! Which page of the shared memory lies where in a task's mapping, and the system call that puts it there.

use crate::map::Map;
use crate::mem::{self, PAGE};
use anyhow::{Context, Result};
use std::io::Error;

/// `pages` cut into pieces, the last of which may be shorter and stays in its place.
pub struct Layout {
    pages: usize,
    piece: usize,
}

/// Where the pieces of one mapping lie.
pub struct Order {
    piece: usize,
    /// By place in the mapping: the piece of the shared memory.
    pieces: Vec<usize>,
}

impl Layout {
    pub fn new(pages: usize, piece: usize) -> Layout {
        Layout { pages, piece }
    }

    /// Nearly as many VMAs: pieces that happen to stay neighbours are merged.
    pub fn pieces(&self) -> usize {
        self.pages.div_ceil(self.piece)
    }

    /// A random order of the pieces, the same for the same seed.
    pub fn order(&self, seed: u64) -> Order {
        let whole = self.pages / self.piece;
        let mut pieces: Vec<usize> = (0..self.pieces()).collect();
        for i in (1..whole).rev() {
            let other = mem::word(seed, i as u64) >> 16;
            pieces.swap(i, (other % (i as u64 + 1)) as usize);
        }
        Order {
            piece: self.piece,
            pieces,
        }
    }
}

impl Order {
    /// The page of the shared memory that lies at `page` of the mapping.
    pub fn page(&self, page: usize) -> usize {
        self.pieces[page / self.piece] * self.piece + page % self.piece
    }

    /// Puts every piece of a linear mapping into its place.
    pub fn apply(&self, map: &Map) -> Result<()> {
        for (place, piece) in self.pieces.iter().enumerate() {
            let first = place * self.piece;
            let pages = self.piece.min(map.pages() - first);
            remap(map, first, pages, piece * self.piece).with_context(|| {
                format!(
                    "remap_file_pages() of piece {place} of {}: out of mappings? Raise --piece-pages",
                    self.pieces.len()
                )
            })?;
        }
        Ok(())
    }
}

/// `pages` at `first` of the mapping show the shared memory from page `from` on.
pub fn remap(map: &Map, first: usize, pages: usize, from: usize) -> std::io::Result<()> {
    assert!(first + pages <= map.pages());
    // Without MAP_NONBLOCK the emulation populates the pages at once.
    let flags = libc::MAP_NONBLOCK;
    // SAFETY: replaces a part of our own mapping by another part of the same shared memory; nobody holds references
    // into it.
    match unsafe { libc::remap_file_pages(map.at(first), pages * PAGE, 0, from, flags) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_lies_somewhere_once() {
        let layout = Layout::new(1003, 16);
        assert_eq!(layout.pieces(), 63);
        let order = layout.order(1);
        let mut pages: Vec<usize> = (0..1003).map(|p| order.page(p)).collect();
        assert_ne!(pages, (0..1003).collect::<Vec<_>>());
        assert_eq!(pages[1002], 1002);
        pages.sort_unstable();
        assert_eq!(pages, (0..1003).collect::<Vec<_>>());
        assert_eq!(layout.order(1).pieces, layout.order(1).pieces);
        assert_ne!(layout.order(1).pieces, layout.order(2).pieces);
    }
}
