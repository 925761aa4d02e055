// SPDX-License-Identifier: GPL-2.0
//! A region whose units are released and refilled, and what each page of it must hold.

use super::rand::Rand;
use crate::mem::{self, Advice, PAGE, Region, WORDS_PER_PAGE as WORDS};
use anyhow::{Result, bail};

/// Pages of a 64 kB folio.
const LARGE: usize = 16;

pub struct Area {
    region: Region,
    /// Pages released and refilled at once.
    unit: usize,
    /// How often each page was filled; 0 is a page that was never touched.
    filled: Vec<u32>,
    tag: u64,
}

impl Area {
    pub fn large(pages: usize) -> Result<Area> {
        Area::new(pages, LARGE, 1, Advice::HugePage)
    }

    pub fn small(pages: usize) -> Result<Area> {
        Area::new(pages, 1, 2, Advice::NoHugePage)
    }

    fn new(pages: usize, unit: usize, tag: u64, advice: Advice) -> Result<Area> {
        let mut region = Region::new(pages * PAGE, LARGE * PAGE)?;
        region.advise(advice)?;
        Ok(Area {
            region,
            unit,
            filled: vec![0; pages],
            tag,
        })
    }

    pub fn fill_all(&mut self) {
        (0..self.filled.len()).for_each(|p| self.write(p));
    }

    /// Releases and refills units at random, `pages` in all; how many different ones it met.
    pub fn refill(&mut self, rand: &mut Rand, pages: usize) -> Result<usize> {
        let units = self.filled.len() / self.unit;
        let mut met = vec![false; units];
        for _ in 0..pages / self.unit {
            let n = rand.below(units);
            let range = n * self.unit..(n + 1) * self.unit;
            let words = range.start * WORDS..range.end * WORDS;
            mem::advise(&mut self.region[words], Advice::DontNeed)?;
            range.for_each(|p| self.write(p));
            met[n] = true;
        }
        Ok(met.into_iter().filter(|&m| m).count())
    }

    /// Verifies and rewrites single pages at random, as small faults do; the words verified.
    pub fn swap_in(&mut self, rand: &mut Rand, pages: usize) -> Result<u64> {
        let mut words = 0;
        for _ in 0..pages {
            let page = rand.below(self.filled.len());
            words += self.verify_page(page)?;
            self.write(page);
        }
        Ok(words)
    }

    pub fn page_out(&mut self) -> Result<()> {
        self.region.advise(Advice::PageOut)
    }

    /// Every word of every page; how many.
    pub fn verify(&self) -> Result<u64> {
        (0..self.filled.len()).map(|p| self.verify_page(p)).sum()
    }

    fn write(&mut self, page: usize) {
        self.filled[page] += 1;
        for word in 0..WORDS {
            self.region[page * WORDS + word] = self.expected(page, word);
        }
    }

    fn verify_page(&self, page: usize) -> Result<u64> {
        for (word, &got) in self.region[page * WORDS..][..WORDS].iter().enumerate() {
            let want = self.expected(page, word);
            if got != want {
                bail!(
                    "word {word} of page {page} is {got:#x} where {want:#x} was written: swap lost data"
                );
            }
        }
        Ok(WORDS as u64)
    }

    /// Differs by region, page, refill and word, and yet compresses: the swap device is to hold it.
    fn expected(&self, page: usize, word: usize) -> u64 {
        match self.filled[page] {
            0 => 0,
            n => (self.tag << 60) | ((page as u64) << 40) | (u64::from(n) << 16) | word as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_refill_is_seen() {
        let mut area = Area::large(LARGE * 4).unwrap();
        area.write(5);
        assert_eq!(area.verify().unwrap(), (LARGE * 4 * WORDS) as u64);
        area.region[5 * WORDS + 7] -= 1 << 16;
        let e = area.verify().unwrap_err().to_string();
        assert!(e.contains("word 7 of page 5"), "{e}");
    }
}
