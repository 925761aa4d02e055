// SPDX-License-Identifier: GPL-2.0
//! `thrash`: is a file that is read again and again cached beside anonymous memory, and what did reclaim decide?

mod counters;
mod data;
mod monitor;
mod play;
mod sizes;
mod swappiness;

use crate::cgroup;
use crate::lab::Lab;
use crate::mem::{Advice, PAGE, Region};
use crate::membership::Membership;
use crate::settle;
use crate::vm;
use crate::workload::{Needs, Workload};
use anyhow::{Context, Result};
use counters::Counters;
use monitor::Monitor;
use play::Play;
use sizes::{Shape, Sizes};
use std::path::Path;
use swappiness::Watch;

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const MIB: usize = 1 << 20;
/// Of the anonymous memory; files have the next ones.
const ANON_SEED: u64 = 1;

/// What is read from disk, and refaulted, per round of file accesses beside anonymous memory.
///
/// Source: Kuo-Hsin Yang, "mm: vmscan: scan anonymous pages on file refaults", 2019: 2048 MiB of anonymous memory on a
/// machine of 2 GiB, then 200 MiB of a file that is read 10 times through two mappings, half of it executable, one
/// access a page. --shape has more, made to find where the refault comparison of prepare_scan_control() decides.
///
/// Reported per round: `major_faults` and `minor_faults` of the workload; `file_refaults`, `anon_refaults`,
/// `file_activates`, `anon_activates` (refaults that went to an active list), `scanned_file_pages`,
/// `scanned_anon_pages`, `stolen_*`, `activated_pages`, `deactivated_pages`, `swapin_pages`, `swapout_pages` of the machine; `read_pages`: all that was read from disk,
/// swap included; the lengths of the LRU lists at the end; `policy_*`: the counters of a lab kernel. Case `total` is
/// their sum. Each access checks a word of its page; at the end all anonymous words are verified.
///
/// Sizes not given are the shape's own for 2048 MiB of memory, or in proportion for --memcg-mib.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Thrash {
    /// What is read, written and left alone
    #[arg(long, value_enum)]
    shape: Option<Shape>,
    /// Anonymous memory that is filled first, and not touched in the rounds
    #[arg(long)]
    anon_mib: Option<u64>,
    /// The file that is read in every round
    #[arg(long)]
    file_mib: Option<u64>,
    /// transition: the file whose pages are active when the rounds begin
    #[arg(long)]
    active_file_mib: Option<u64>,
    /// mixed: another file, read on from round to round and around its end
    #[arg(long)]
    stream_mib: Option<u64>,
    /// mixed: how many pages of the stream go by after each page of the file; 4
    #[arg(long)]
    stream_pages: Option<u32>,
    /// spill: size of the files that are there at once
    #[arg(long)]
    ring_mib: Option<u64>,
    #[arg(long)]
    rounds: Option<u32>,
    /// How the file is accessed, in the order of its pages; mmap, and mmap-random in shape mixed
    #[arg(long, value_enum)]
    touch: Option<Touch>,
    /// Read memory.stat after every so many pages that were accessed, as monitors do; 0: never. With memory cgroups the
    /// kernel compares refault counters that are brought up to date every two seconds, or when somebody reads them
    #[arg(long)]
    stat_every: Option<u32>,
    /// Threads that read the whole file, from places as far apart as can be; means --shape streaming
    #[arg(long)]
    readers: Option<u32>,
    /// How readers read
    #[arg(long, value_enum, default_value = "read")]
    access: Access,
    /// vm.swappiness for the time of the run. With 0 the workload fails if anything was swapped out for which the kernel
    /// has no excuse: in a cgroup there is none, on a whole machine a file cache below the high watermark
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=200))]
    swappiness: Option<u32>,
    /// Run inside a memory cgroup with this limit instead of on the whole machine; 0: do not
    #[arg(long, default_value_t = 0)]
    memcg_mib: u64,
    /// Size of the swap file
    #[arg(long)]
    swap_mib: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, clap::ValueEnum)]
pub enum Access {
    #[default]
    Read,
    Mmap,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, clap::ValueEnum)]
pub enum Touch {
    /// Two mappings, half of the file executable, a page of each in turn
    #[default]
    Mmap,
    /// One mapping without readahead: a major fault reads one page
    MmapRandom,
    /// pread() of a page without readahead
    Read,
}

impl Workload for Thrash {
    fn name(&self) -> &'static str {
        "thrash"
    }

    fn needs(&self) -> Needs {
        Needs {
            memory_mib: if self.memcg_mib == 0 {
                0
            } else {
                self.memcg_mib + 64
            },
            disk_mib: Sizes::of(self).map_or(0, |s| s.disk_mib()),
            memcg: self.memcg_mib != 0,
            ..Needs::default()
        }
    }

    fn run(&self, lab: &mut Lab) -> Result<()> {
        let sizes = Sizes::of(self)?;
        sizes.fit(vm::meminfo("MemTotal")? / 1024)?;
        let group = match self.memcg_mib {
            0 => None,
            mib => Some(Membership::limited(lab, "thrash", mib)?),
        };
        settle::lock_program()?;
        if let Some(swappiness) = self.swappiness {
            lab.set(SWAPPINESS, &swappiness.to_string())
                .context("--swappiness needs a kernel with CONFIG_PROC_SYSCTL")?;
        }
        let swap = lab.swap_file(sizes.swap)?;
        let play = Play::prepare(lab, &sizes, self.access)?;
        let path = group
            .as_ref()
            .map_or(Path::new(cgroup::ROOT), Membership::path);
        let monitor = Monitor::new(path, sizes.stat_every)?;
        group.as_ref().map_or(Ok(()), Membership::enter)?;
        let watch = (self.swappiness == Some(0)).then(|| Watch::new(group.is_some()));
        rounds(lab, &sizes, play, monitor, watch)?;
        group.map_or(Ok(()), Membership::finish)?;
        settle::settle(swap)
    }
}

fn rounds(
    lab: &mut Lab,
    sizes: &Sizes,
    mut play: Play,
    mut monitor: Monitor,
    mut watch: Option<Watch>,
) -> Result<()> {
    lab.say(format_args!(
        "filling {} MiB of anonymous memory",
        sizes.anon
    ));
    let mut anon = Region::new(sizes.anon as usize * MIB, PAGE)?;
    anon.advise(Advice::NoHugePage)?;
    anon.fill(ANON_SEED);
    play.warm_up(lab, &mut monitor)?;
    let first = Counters::now()?;
    let mut before = first.clone();
    for round in 0..sizes.rounds {
        lab.verified(play.round(&mut monitor)?);
        if let Some(watch) = &mut watch {
            watch.look()?;
        }
        let now = Counters::now()?;
        report(lab, sizes.shape.case(), round, &now.since(&before)?)?;
        before = now;
    }
    report(lab, "total", 0, &before.since(&first)?)?;
    if let Some(watch) = watch {
        watch.judge(&first, &before)?;
    }
    lab.say("verifying the anonymous memory");
    lab.verified(play.finish()?);
    lab.verified(anon.verify(ANON_SEED)?);
    Ok(())
}

fn report(lab: &mut Lab, case: &str, index: u32, values: &[(String, i64)]) -> Result<()> {
    let values: Vec<(&str, i64)> = values.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    lab.sample(case, index, &values)
}
