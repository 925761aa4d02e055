// SPDX-License-Identifier: GPL-2.0
//! MADV_PAGEOUT of THPs to a swap file, then a refault from the swap cache: the RFC's measurement.

mod cycle;
mod pages;
mod reclaim;

use crate::lab::Lab;
use crate::mem::{PMD, Region};
use crate::swap::SwapArea;
use crate::workload::{Needs, Workload};
use crate::workloads::cpus;
use crate::workloads::team::{Order, Team};
use anyhow::{Result, bail};
use cycle::Cycle;
use pages::Pages;
use reclaim::{Reclaim, Reclaimer};
use results::Clock;

/// Pages THPs out to a swap file, which never takes one whole, and refaults them from the swap cache
///
/// From: [RFC PATCH] mm: preserve physical order in swap fallback splitting (Chengfeng Lin).
///
/// A cycle fills the memory with a pattern, makes it THPs (MADV_COLLAPSE), calls MADV_PAGEOUT, waits 20 ms and until
/// every page is unmapped, written, and still in the swap cache, then reads a byte of each base page and verifies every
/// word. The total size is the same for any number of workers. Each invocation has a fresh swap area, and a first cycle
/// that does not count: in it the header makes a swap cluster short. Folios of other sizes than 2 MiB are made by the
/// first touch, anew in each cycle. Pages that zram holds, or that another reclaimer than MADV_PAGEOUT took, are not
/// in the swap cache any more and are read back.
///
/// --measure counts prints a sample a cycle, of what paging out led to: splits (of folios of the size), bios (calls of submit_bio by
/// whoever reclaims, or by kblockd for them), bio_splits (BIOs cut off by the block layer), requests, iova_links
/// (dma_iova_link), dma_maps (dma_map_phys), swapped_pages (of the memory) and written_pages (of all). Where these differ,
/// counts are scaled to the former. The first sample (of base pages the first of each invocation) lists the page frame
/// numbers in the order in which they were handed to swap, from a cycle of its own (pfns). With two workers the order in
/// which they get swap slots, and so a few BIOs, depends on how they take turns.
///
/// --measure cpu prints a sample an invocation: CPU time of all workers, the mean of its cycles: pageout_ns, refault_ns,
/// total_ns; a nanosecond is one instruction under icount.
#[derive(clap::Args)]
pub struct Pageout {
    /// What the memory is made of when it is paged out: base, thp, or a size as 64k; a list of them is a case each
    #[arg(long, default_value = "thp", value_delimiter = ',', value_parser = Pages::parse)]
    pages: Vec<Pages>,
    /// Where pages go
    #[arg(long, value_enum, default_value_t = Swap::File)]
    swap: Swap,
    /// Who pushes them out
    #[arg(long, value_enum, default_value_t = Reclaim::Pageout)]
    reclaim: Reclaim,
    /// In what order base pages are first touched
    #[arg(long, value_enum, default_value_t = Layout::Shuffled)]
    layout: Layout,
    /// Give half of each large folio up (MADV_DONTNEED) before the rest is reclaimed
    #[arg(long)]
    partial: bool,
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
enum Swap {
    /// A file, which takes no large folio whole
    File,
    /// zram, which does, and writes while the caller waits
    Zram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Layout {
    /// By address
    Ordered,
    /// By chance, so that neighbours are no physical neighbours
    Shuffled,
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
            memory_mib: match self.swap {
                Swap::File => 4 * self.mib + 64,
                Swap::Zram => 4 * self.mib + self.swap_mib() + 64,
            },
            disk_mib: match self.swap {
                Swap::File => self.swap_mib() + 16,
                Swap::Zram => 0,
            },
            thp: self.pages.iter().any(|p| *p != Pages::Base),
            memcg: self.reclaim != Reclaim::Pageout,
            zram: self.swap == Swap::Zram,
            tracing: self.measure == Measure::Counts,
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
        if self.partial && (self.reclaim == Reclaim::Pageout || self.pages.contains(&Pages::Base)) {
            bail!(
                "--partial wants large folios, and --reclaim memcg or kswapd: MADV_PAGEOUT splits such a folio before it \
                 reclaims"
            );
        }
        if self.measure == Measure::Cpu && self.reclaim == Reclaim::Kswapd {
            bail!(
                "--measure cpu takes the time of the caller, and kswapd has none: --measure counts"
            );
        }
        if self.measure == Measure::Cpu && lab.clock() == Clock::Counts {
            bail!(
                "CPU time of an emulated CPU means nothing without icount: boot with icount, or --measure counts"
            );
        }
        let cpus = cpus::choose(&self.cpus, self.workers as usize)?;
        let reclaimer = Reclaimer::new(self.reclaim, lab, self.mib)?;
        for pages in &self.pages {
            let case = Case {
                of: self,
                pages: *pages,
                cpus: &cpus,
                reclaimer: &reclaimer,
            };
            let _size = pages.enable(lab)?;
            match self.measure {
                Measure::Counts => case.counts(lab)?,
                Measure::Cpu => case.cpu(lab)?,
            }
        }
        reclaimer.end()
    }
}

impl Pageout {
    /// Room for every cycle of an invocation to find swap clusters that were never used: free ones come in the order
    /// of the file, used ones in the order in which they were freed, and each break in that order costs a BIO. No more,
    /// so that the file is one extent.
    fn swap_mib(&self) -> u64 {
        (u64::from(self.cycles) + 3) * self.mib
    }

    fn swap_area(&self, lab: &mut Lab) -> Result<SwapArea> {
        match self.swap {
            Swap::File => lab.swap_file(self.swap_mib()),
            Swap::Zram => lab.zram_swap(self.swap_mib(), "lzo"),
        }
    }
}

/// One kind of pages.
struct Case<'a> {
    of: &'a Pageout,
    pages: Pages,
    cpus: &'a [usize],
    reclaimer: &'a Reclaimer,
}

impl Case<'_> {
    fn name(&self) -> String {
        let how = match (self.pages, self.of.layout, self.of.partial) {
            (Pages::Base, Layout::Ordered, _) => "-ordered",
            (_, _, true) => "-partial",
            _ => "",
        };
        format!("{}{how}/{}", self.pages, self.of.workers)
    }

    fn counts(&self, lab: &mut Lab) -> Result<()> {
        // Base pages lie where the allocator put them, which differs from one invocation to the next; large folios do not
        // need another cycle in each.
        let each = self.pages == Pages::Base;
        let mut pfns = Vec::new();
        if !each {
            pfns = self.cycles(1, lab, |cycle| cycle.traced())?.concat();
        }
        for _ in 0..self.of.warmups {
            self.cycles(self.of.cycles, lab, |cycle| cycle.counted())?;
        }
        let mut index = 0;
        for _ in 0..self.of.invocations {
            let mut traced = !each;
            let samples = self.cycles(self.of.cycles + u32::from(each), lab, |cycle| {
                if !std::mem::replace(&mut traced, true) {
                    pfns = cycle.traced()?;
                    return Ok(Vec::new());
                }
                cycle.counted()
            })?;
            for values in samples.iter().filter(|values| !values.is_empty()) {
                // With the first sample of those it is of.
                let list = std::mem::take(&mut pfns);
                let lists: &[(&str, &[i64])] = &[("pfns", &list)];
                let lists = if list.is_empty() { &[] } else { lists };
                lab.sample_with_lists(&self.name(), index, values, lists)?;
                index += 1;
            }
        }
        Ok(())
    }

    fn cpu(&self, lab: &mut Lab) -> Result<()> {
        let case = self.name();
        for nr in 0..self.of.warmups + self.of.invocations {
            let cycles = self.cycles(self.of.cycles, lab, |cycle| cycle.timed())?;
            let mean = |pick: fn(&(u64, u64)) -> u64| {
                (cycles.iter().map(pick).sum::<u64>() / cycles.len() as u64) as i64
            };
            let (out, back) = (mean(|c| c.0), mean(|c| c.1));
            let values = [
                ("pageout_ns", out),
                ("refault_ns", back),
                ("total_ns", out + back),
            ];
            match nr.checked_sub(self.of.warmups) {
                Some(index) => lab.sample(&case, index, &values)?,
                None => lab.sample(&format!("{case}/warmup"), nr, &values)?,
            }
        }
        Ok(())
    }

    /// A fresh swap area, fresh memory, fresh threads, and `count` cycles.
    fn cycles<T>(
        &self,
        count: u32,
        lab: &mut Lab,
        mut measure: impl FnMut(&mut Cycle) -> Result<T>,
    ) -> Result<Vec<T>> {
        let swap = self.of.swap_area(lab)?;
        let mut region = Region::new((self.of.mib as usize) << 20, PMD)?;
        region.advise(self.pages.advice())?;
        let span = region.span();
        let results = std::thread::scope(|scope| {
            let team = Team::start(scope, &mut region, self.cpus)?;
            let mut cycle = Cycle {
                team: &team,
                span,
                pages: self.pages,
                partial: self.of.partial,
                reclaimer: self.reclaimer,
                on_disk: self.of.swap == Swap::File,
                verified: 0,
            };
            if self.pages == Pages::Base && self.of.layout == Layout::Shuffled {
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
        self.reclaimer.finish(swap)?;
        Ok(results)
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
