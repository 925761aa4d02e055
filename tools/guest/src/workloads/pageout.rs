// SPDX-License-Identifier: GPL-2.0
//! MADV_PAGEOUT of THPs to a swap file, then a refault from the swap cache: the RFC's measurement.

use crate::lab::Lab;
use crate::mem::{Advice, PAGE, PMD, Region};
use crate::pagemap;
use crate::trace::{Calls, Events};
use crate::vm::{self, VmStat};
use crate::workload::{Needs, Workload};
use crate::workloads::team::{Order, Team};
use crate::{clock, workloads::cpus};
use anyhow::{Context, Result, bail};
use results::Clock;
use std::ops::Range;

/// Pages THPs out to a swap file, which never takes one whole, and refaults them from the swap cache
///
/// From: [RFC PATCH] mm: preserve physical order in swap fallback splitting (Chengfeng Lin).
///
/// A cycle fills the memory with a pattern, makes it THPs (MADV_COLLAPSE), calls MADV_PAGEOUT, waits 20 ms and until
/// every page is unmapped, written, and still in the swap cache, then reads a byte of each base page and verifies every
/// word. The total size is the same for any number of workers. Base pages are first touched in a shuffled order. Each
/// invocation has a fresh swap file, and a first cycle that does not count: in it the header makes a swap cluster short.
/// Wants ext4 on NVMe behind an IOMMU that translates.
///
/// --measure counts prints a sample a cycle, of what MADV_PAGEOUT led to: splits (THPs), bios (calls of submit_bio by the
/// workers, or by kblockd for them), iova_links (the same of dma_iova_link), swapped_pages; the first sample lists the
/// page frame numbers in the order in which they were handed to swap (pfns), from a cycle of its own. With two workers
/// the order in which they get swap slots, and so a few BIOs, depends on how they take turns.
///
/// --measure cpu prints a sample an invocation: CPU time of all workers, the mean of its cycles: pageout_ns, refault_ns,
/// total_ns; a nanosecond is one instruction under icount.
#[derive(clap::Args)]
pub struct Pageout {
    /// What the memory is made of when it is paged out
    #[arg(long, value_enum, default_value_t = Pages::Thp)]
    pages: Pages,
    /// Threads that share the work, each an equal part of the memory
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    workers: u32,
    /// Cycles of an invocation
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    cycles: u32,
    /// Invocations before those that count (with --measure counts they are not reported)
    #[arg(long, default_value_t = 2)]
    warmups: u32,
    /// Invocations that count
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    invocations: u32,
    /// Exact counts, or CPU time (with nothing traced)
    #[arg(long, value_enum, default_value_t = Measure::Counts)]
    measure: Measure,
    /// Memory of all workers together, in MiB; a multiple of 2 MiB a worker
    #[arg(long, default_value_t = 8, value_parser = parse_mib)]
    mib: u64,
    /// CPUs to pin the workers to, as 2,4 (default: the first ones)
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cpus: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Pages {
    /// THPs of 2 MiB
    Thp,
    /// 4 KiB pages: not the patched path, so a control
    Base,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Measure {
    Counts,
    Cpu,
}

fn parse_mib(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(n) if n > 0 && n % 2 == 0 && n <= 1 << 20 => Ok(n),
        Ok(_) => Err("want an even number of MiB: a THP has 2".into()),
        Err(e) => Err(format!("{e}")),
    }
}

impl Workload for Pageout {
    fn name(&self) -> &'static str {
        "pageout"
    }

    fn needs(&self) -> Needs {
        Needs {
            memory_mib: 4 * self.mib + 64,
            disk_mib: self.swap_mib() + 16,
            thp: self.pages == Pages::Thp,
            tracing: self.measure == Measure::Counts,
            ..Needs::default()
        }
    }

    fn run(&self, lab: &mut Lab) -> Result<()> {
        if self.mib % (2 * u64::from(self.workers)) != 0 {
            bail!(
                "--mib {} does not give each of {} workers whole THPs of 2 MiB",
                self.mib,
                self.workers
            );
        }
        if self.measure == Measure::Cpu && lab.clock() == Clock::Counts {
            bail!(
                "CPU time of an emulated CPU means nothing without icount: boot with icount, or --measure counts"
            );
        }
        let cpus = cpus::choose(&self.cpus, self.workers as usize)?;
        match self.measure {
            Measure::Counts => self.counts(lab, &cpus),
            Measure::Cpu => self.cpu(lab, &cpus),
        }
    }
}

/// What happened within MADV_PAGEOUT.
struct Counts {
    splits: i64,
    bios: i64,
    iova_links: i64,
    swapped: i64,
}

impl Pageout {
    fn case(&self) -> String {
        let pages = match self.pages {
            Pages::Thp => "thp",
            Pages::Base => "base",
        };
        format!("{pages}/{}", self.workers)
    }

    /// Room for every cycle of an invocation to find swap clusters that were never used: free ones come in the order
    /// of the file, used ones in the order in which they were freed, and each break in that order costs a BIO. No more,
    /// so that the file is one extent.
    fn swap_mib(&self) -> u64 {
        (u64::from(self.cycles) + 3) * self.mib
    }

    fn counts(&self, lab: &mut Lab, cpus: &[usize]) -> Result<()> {
        let pfns = self.cycles(1, lab, cpus, |cycle| cycle.traced())?.concat();
        for _ in 0..self.warmups {
            self.invocation(lab, cpus, |cycle| cycle.counted())?;
        }
        let case = self.case();
        let mut index = 0;
        for _ in 0..self.invocations {
            for c in self.invocation(lab, cpus, |cycle| cycle.counted())? {
                let values = [
                    ("splits", c.splits),
                    ("bios", c.bios),
                    ("iova_links", c.iova_links),
                    ("swapped_pages", c.swapped),
                ];
                let lists: &[(&str, &[i64])] = &[("pfns", &pfns)];
                let lists = if index == 0 { lists } else { &[] };
                lab.sample_with_lists(&case, index, &values, lists)?;
                index += 1;
            }
        }
        Ok(())
    }

    fn cpu(&self, lab: &mut Lab, cpus: &[usize]) -> Result<()> {
        let case = self.case();
        for nr in 0..self.warmups + self.invocations {
            let cycles = self.invocation(lab, cpus, |cycle| cycle.timed())?;
            let mean = |pick: fn(&(u64, u64)) -> u64| {
                (cycles.iter().map(pick).sum::<u64>() / cycles.len() as u64) as i64
            };
            let (out, back) = (mean(|c| c.0), mean(|c| c.1));
            let values = [
                ("pageout_ns", out),
                ("refault_ns", back),
                ("total_ns", out + back),
            ];
            match nr.checked_sub(self.warmups) {
                Some(index) => lab.sample(&case, index, &values)?,
                None => lab.sample(&format!("{case}/warmup"), nr, &values)?,
            }
        }
        Ok(())
    }

    fn invocation<T>(
        &self,
        lab: &mut Lab,
        cpus: &[usize],
        measure: impl FnMut(&mut Cycle) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.cycles(self.cycles, lab, cpus, measure)
    }

    /// A fresh swap area, fresh memory, fresh threads, and `count` cycles.
    fn cycles<T>(
        &self,
        count: u32,
        lab: &mut Lab,
        cpus: &[usize],
        mut measure: impl FnMut(&mut Cycle) -> Result<T>,
    ) -> Result<Vec<T>> {
        let swap = lab.swap_file(self.swap_mib())?;
        let mut region = Region::new((self.mib as usize) << 20, PMD)?;
        region.advise(match self.pages {
            Pages::Thp => Advice::HugePage,
            Pages::Base => Advice::NoHugePage,
        })?;
        let span = region.span();
        let results = std::thread::scope(|scope| {
            let team = Team::start(scope, &mut region, cpus)?;
            let mut cycle = Cycle {
                team: &team,
                span,
                pages: self.pages,
                verified: 0,
            };
            if self.pages == Pages::Base {
                team.all(Order::Scatter)?;
            }
            // The first cluster of an area is short by the page of its header, so the first cycle is unlike the others.
            cycle.turn(0, |cycle| cycle.timed())?;
            let results: Result<Vec<T>> = (1..=count)
                .map(|nr| cycle.turn(nr.into(), &mut measure))
                .collect();
            lab.verified(cycle.verified);
            results
        });
        drop(region);
        let results = results?;
        swap.finish()?;
        Ok(results)
    }
}

/// One turn of filling, paging out, refaulting and verifying.
struct Cycle<'a> {
    team: &'a Team,
    span: Range<usize>,
    pages: Pages,
    verified: u64,
}

impl Cycle<'_> {
    fn base_pages(&self) -> usize {
        self.span.len() / PAGE
    }

    /// Filled, resident, and of the pages that were asked for.
    fn prepare(&self, seed: u64) -> Result<()> {
        self.team.all(Order::Fill(seed))?;
        if self.pages == Pages::Thp {
            self.team.all(Order::Collapse)?;
        }
        let pages = pagemap::of(None, self.span.clone())?;
        let kib = pagemap::anon_huge_kib(None, self.span.clone())?;
        match self.pages {
            Pages::Thp => {
                pagemap::are_thps(&pages, PMD / PAGE).context("after MADV_COLLAPSE")?;
                if kib != self.span.len() as u64 / 1024 {
                    bail!("{kib} KiB of {} are mapped as THPs", self.span.len() / 1024);
                }
            }
            Pages::Base if kib != 0 => bail!("{kib} KiB are THPs in spite of MADV_NOHUGEPAGE"),
            Pages::Base => {}
        }
        let present = pagemap::count(&pages).present;
        if present != pages.len() {
            bail!(
                "{present} pages of {} are resident after filling",
                pages.len()
            );
        }
        Ok(())
    }

    fn turn<T>(&mut self, seed: u64, mut measure: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        self.prepare(seed)
            .with_context(|| format!("preparing cycle {seed}"))?;
        let result = measure(self).with_context(|| format!("cycle {seed}"))?;
        self.verified += self.team.all(Order::Verify(seed))?;
        Ok(result)
    }

    fn page_out(&self) -> Result<u64> {
        self.team.all(Order::PageOut)
    }

    /// The refault, which must find everything in the swap cache.
    fn refault(&self) -> Result<u64> {
        self.wait_until_ready()?;
        let before = VmStat::now()?;
        let ns = self.team.all(Order::Touch)?;
        let after = VmStat::now()?;
        let read = vm::delta(&before, &after, "pswpin")?;
        if read != 0 {
            bail!("{read} pages were read from swap: the refault was not from the swap cache");
        }
        let present = pagemap::count(&pagemap::of(None, self.span.clone())?).present;
        if present != self.base_pages() {
            bail!(
                "{present} pages of {} are resident after the refault",
                self.base_pages()
            );
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
        bail!("not ready for a refault from the swap cache: {why}")
    }

    fn not_ready(&self) -> Result<Option<String>> {
        let all = self.base_pages();
        let swapped = self.swapped()?;
        if swapped != all {
            return Ok(Some(format!("{swapped} pages of {all} are unmapped")));
        }
        let cached = self.team.all(Order::InCore)? as usize;
        if cached != all {
            return Ok(Some(format!(
                "{cached} pages of {all} are in the swap cache"
            )));
        }
        let busy = VmStat::now()?.get("nr_writeback")?;
        Ok((busy != 0).then(|| format!("{busy} pages are still being written")))
    }

    fn swapped(&self) -> Result<usize> {
        Ok(pagemap::count(&pagemap::of(None, self.span.clone())?).swapped)
    }

    fn timed(&mut self) -> Result<(u64, u64)> {
        Ok((self.page_out()?, self.refault()?))
    }

    fn counted(&mut self) -> Result<Counts> {
        let before = VmStat::now()?;
        // Two calls a page at the worst.
        let kib = 256 + self.base_pages() * 2 * 40 / 1024;
        let calls = Calls::start(&["submit_bio", "dma_iova_link"], kib)?;
        self.page_out()?;
        // What was left to kblockd is then done too.
        self.wait_until_ready()?;
        let tids = self.team.tids();
        // On a real machine others have work for kblockd too.
        let all_ours = crate::in_guest();
        let calls = calls.stop(|call| tids.contains(&call.tid) || all_ours && call.of_kblockd())?;
        let after = VmStat::now()?;
        let swapped = self.swapped()? as i64;
        self.refault()?;
        Ok(Counts {
            splits: vm::delta(&before, &after, "thp_split_page")?,
            bios: calls["submit_bio"],
            iova_links: calls["dma_iova_link"],
            swapped,
        })
    }

    /// Page frames in the order in which reclaim handed them to swap.
    fn traced(&mut self) -> Result<Vec<i64>> {
        let events = Events::start("vmscan/mm_vmscan_write_folio", "")?;
        self.page_out()?;
        let tids = self.team.tids();
        let ours = events.stop()?.into_iter().filter(|e| tids.contains(&e.tid));
        let pfns: Vec<i64> = ours
            .map(|e| {
                e.number("pfn")
                    .with_context(|| format!("no pfn in `{}`", e.text))
            })
            .collect::<Result<_>>()?;
        if pfns.len() != self.base_pages() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_mib("8"), Ok(8));
        for bad in ["0", "7", "-2", "x", "99999999999"] {
            assert!(parse_mib(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn verify_counts_words() {
        // What Team's workers verify adds up to the whole region.
        let mut region = Region::new(2 * PMD, PMD).unwrap();
        let words = std::thread::scope(|scope| {
            let team = Team::start(scope, &mut region, &[0, 0]).unwrap();
            team.all(Order::Fill(3)).unwrap();
            assert!(team.all(Order::Verify(4)).is_err());
            team.all(Order::Verify(3)).unwrap()
        });
        assert_eq!(words, (2 * PMD / 8) as u64);
        assert_eq!(crate::mem::word(3, 0), region[0]);
    }
}
