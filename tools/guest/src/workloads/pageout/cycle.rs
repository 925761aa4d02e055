// SPDX-License-Identifier: GPL-2.0
//! One turn of filling, paging out, refaulting and verifying, and what is measured of it.

use super::pages::Pages;
use super::reclaim::Reclaimer;
use crate::mem::PAGE;
use crate::trace::{Calls, Events};
use crate::vm::{self, VmStat};
use crate::workloads::team::{Order, Team};
use crate::{clock, pagemap};
use anyhow::{Context, Result, bail};
use std::ops::Range;

/// Functions whose calls are counted, and what the counts are called.
const CALLS: [(&str, &str); 5] = [
    ("submit_bio", "bios"),
    // Called for each part that is cut off; what is cut off does not come through submit_bio() again.
    ("bio_submit_split_bioset", "bio_splits"),
    // Each driver calls it for each request it is handed.
    ("blk_mq_start_request", "requests"),
    ("dma_iova_link", "iova_links"),
    // What is not linked into a range of its own: all there is without translation.
    ("dma_map_phys", "dma_maps"),
];

pub struct Cycle<'a> {
    pub team: &'a Team,
    pub span: Range<usize>,
    pub pages: Pages,
    /// Half of each folio is given up before it is paged out.
    pub partial: bool,
    pub reclaimer: &'a Reclaimer,
    /// Swap is a file on a disk, which takes no folio whole and writes while the caller goes on.
    pub on_disk: bool,
    pub verified: u64,
}

impl Cycle<'_> {
    /// What there is to page out.
    fn base_pages(&self) -> usize {
        self.span.len() / PAGE / if self.partial { 2 } else { 1 }
    }

    /// Whether pages stay in the swap cache, and the refault must find them there.
    fn cached(&self) -> bool {
        self.on_disk && self.reclaimer.keeps_cache()
    }

    /// Filled, resident, and of the pages that were asked for.
    fn prepare(&self, seed: u64) -> Result<()> {
        // Only a first touch makes folios of these sizes; what is to be collapsed must not have been swapped.
        if matches!(self.pages, Pages::Mthp(_)) || self.partial {
            self.team.all(Order::Drop)?;
        }
        self.team.all(Order::Fill(seed))?;
        if self.pages == Pages::Thp {
            self.team.all(Order::Collapse)?;
        }
        self.pages.check(self.span.clone())?;
        if self.partial {
            self.team.all(Order::DropHalves(self.pages.folio()))?;
            self.pages.check_halves(self.span.clone())?;
        }
        Ok(())
    }

    pub fn turn<T>(
        &mut self,
        seed: u64,
        mut measure: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.prepare(seed)
            .with_context(|| format!("preparing cycle {seed}"))?;
        let result = measure(self).with_context(|| format!("cycle {seed}"))?;
        self.verified += self.team.all(match self.partial {
            true => Order::VerifyHalves(seed, self.pages.folio()),
            false => Order::Verify(seed),
        })?;
        Ok(result)
    }

    fn page_out(&self) -> Result<u64> {
        let left = || Ok(self.base_pages().saturating_sub(self.swapped()?));
        self.reclaimer.reclaim(self.team, left)
    }

    /// The refault, which must find everything in the swap cache if it can be there.
    fn refault(&self) -> Result<u64> {
        self.wait_until_ready()?;
        let before = VmStat::now()?;
        let ns = self.team.all(Order::Touch)?;
        let after = VmStat::now()?;
        let read = vm::delta(&before, &after, "pswpin")?;
        if self.cached() && read != 0 {
            bail!("{read} pages were read from swap: the refault was not from the swap cache");
        }
        let all = self.span.len() / PAGE;
        let present = pagemap::count(&pagemap::of(None, self.span.clone())?).present;
        if present != all {
            bail!("{present} pages of {all} are resident after the refault");
        }
        Ok(ns)
    }

    /// 20 ms, then as long as the disk needs: with icount guest time passes faster than an emulated disk writes.
    fn wait_until_ready(&self) -> Result<()> {
        let mut why = String::new();
        for _ in 0..500 {
            clock::nap(20);
            match self.not_ready()? {
                None => return Ok(()),
                Some(reason) => why = reason,
            }
        }
        bail!("not ready for a refault: {why}")
    }

    fn not_ready(&self) -> Result<Option<String>> {
        let all = self.base_pages();
        let swapped = self.swapped()?;
        if swapped != all {
            return Ok(Some(format!("{swapped} pages of {all} are unmapped")));
        }
        if self.cached() {
            let cached = self.team.all(Order::InCore)? as usize;
            if cached != all {
                return Ok(Some(format!(
                    "{cached} pages of {all} are in the swap cache"
                )));
            }
        }
        let busy = VmStat::now()?.get("nr_writeback")?;
        Ok((busy != 0).then(|| format!("{busy} pages are still being written")))
    }

    fn swapped(&self) -> Result<usize> {
        Ok(pagemap::count(&pagemap::of(None, self.span.clone())?).swapped)
    }

    pub fn timed(&mut self) -> Result<(u64, u64)> {
        Ok((self.page_out()?, self.refault()?))
    }

    /// Names and counts of what paging out led to.
    pub fn counted(&mut self) -> Result<Vec<(&'static str, i64)>> {
        let before = VmStat::now()?;
        let splits = self.pages.splits()?;
        // Four calls a page at the worst.
        let kib = 256 + self.base_pages() * 4 * 40 / 1024;
        let calls = Calls::start(&CALLS.map(|c| c.0), kib)?;
        self.page_out()?;
        // What was left to kblockd is then done too.
        self.wait_until_ready()?;
        let tids = self.team.tids();
        // On a real machine others have work for kblockd too.
        let all_ours = crate::in_guest();
        let calls =
            calls.stop(|call| self.reclaimer.did(call, &tids) || all_ours && call.of_kblockd())?;
        let after = VmStat::now()?;
        let swapped = self.swapped()? as i64;
        self.refault()?;
        let written = vm::delta(&before, &after, "pswpout")?;
        let scale = |count| match self.reclaimer.keeps_cache() {
            true => count,
            false => per_pages(count, written, swapped),
        };
        let mut counts = vec![
            ("splits", self.pages.splits()? - splits),
            ("swapped_pages", swapped),
            ("written_pages", written),
        ];
        counts.extend(CALLS.map(|(function, name)| (name, scale(calls[function]))));
        Ok(counts)
    }

    /// Page frames in the order in which reclaim handed them to swap.
    pub fn traced(&mut self) -> Result<Vec<i64>> {
        let events = Events::start("vmscan/mm_vmscan_write_folio", "")?;
        self.page_out()?;
        let tids = self.team.tids();
        let events = events.stop()?.into_iter();
        let pfns: Vec<i64> = events
            .filter(|e| self.reclaimer.did(e, &tids))
            .map(|e| {
                e.number("pfn")
                    .with_context(|| format!("no pfn in `{}`", e.text))
            })
            .collect::<Result<_>>()?;
        // A folio that is taken whole is one event, and not only these pages may have been in a reclaimer's way.
        if self.cached() && pfns.len() != self.base_pages() {
            bail!(
                "{} pages were handed to swap, of {}",
                pfns.len(),
                self.base_pages()
            );
        }
        self.refault()?;
        Ok(pfns)
    }
}

/// `count` of `written` pages as one of `wanted`: a reclaimer that is not told what to take may take others too.
fn per_pages(count: i64, written: i64, wanted: i64) -> i64 {
    match written {
        0 => count,
        n => (count * wanted + n / 2) / n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_more_pages_than_asked_for() {
        assert_eq!(per_pages(65, 2048, 2048), 65);
        assert_eq!(per_pages(130, 4096, 2048), 65);
        assert_eq!(per_pages(66, 2080, 2048), 65);
        assert_eq!(per_pages(7, 0, 2048), 7);
    }
}
