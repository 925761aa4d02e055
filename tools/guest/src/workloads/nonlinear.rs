// SPDX-License-Identifier: GPL-2.0
//! `nonlinear`: many tasks swapping one shared mapping, in pieces out of order and in order, and first touches under
//! reclaim.

mod first_touch;
mod gate;
mod layout;
mod map_limit;
mod sampler;
mod task;

use crate::lab::Lab;
use crate::mem::PAGE;
use crate::workload::{Needs, Workload};
use crate::{membership::Membership, settle, vm};
use anyhow::{Context, Result, bail, ensure};
use gate::Gate;
use layout::Layout;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use sampler::Sampler;
use std::os::fd::OwnedFd;
use std::time::Duration;
use task::Task;

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Mapping {
    Both,
    Nonlinear,
    Linear,
}

/// Tasks that swap one shared mapping far larger than memory.
///
/// Source: Andrea Arcangeli, "Re: nonlinear swapping w/o pte_chains", March 2004: 200 tasks, each with 1.7 GiB mapped
/// nonlinearly, on 1 GiB of memory, against the same in linear mappings. Since Linux 4.0 remap_file_pages() is
/// emulated with one VMA a piece, so it costs what that mail said it must not: a VMA per --piece-pages, of which a
/// process may have vm.max_map_count.
///
/// Each task fills its share of the pages, and then walks its whole mapping --passes times. It verifies every word that does not change and one of its own
/// in each page, and rewrites that; at the end all words are verified. Reported per second of guest time: `runnable`
/// and `blocked` tasks, `swapped_kib`, `free_kib`, `cached_kib` now; `swapin_kib`, `swapout_kib`, `faults`,
/// `major_faults` in that second. Case `<mapping>/total`: the sums, and the `vmas` of a task. Case `map-limit`: the
/// `pieces` one process got when it asked for single pages, and the `limit` (0: not readable). The thread's own sizes
/// are --memory-mib 0 --tasks 200 --map-mib 1740 in a guest of 1 GiB.
///
/// --first-touch does that alone: threads that first touch neighbouring anonymous pages while these are reclaimed,
/// the state in which 2004's BUG_ON(!page->mapcount) fired. A kernel with DEBUG_VM checks more.
#[derive(Clone, Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Nonlinear {
    #[arg(long, default_value_t = 8)]
    tasks: u32,
    /// Limit of the cgroup in which all this runs; 0: the whole machine
    #[arg(long, default_value_t = 16)]
    memory_mib: u64,
    /// Size of the mapping; 1.7 times the memory
    #[arg(long)]
    map_mib: Option<u64>,
    /// Pages that stay neighbours in a nonlinear mapping
    #[arg(long, default_value_t = 16)]
    piece_pages: usize,
    /// How often each task walks its mapping
    #[arg(long, default_value_t = 1)]
    passes: u32,
    #[arg(long, value_enum, default_value = "both")]
    mapping: Mapping,
    /// Threads that first touch anonymous pages, instead of mappings
    #[arg(long)]
    first_touch: bool,
    /// How often the memory of --first-touch is released and touched again
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Size of the swap file; the mapping and a quarter
    #[arg(long)]
    swap_mib: Option<u64>,
    /// Where the order of pieces and touches starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Nonlinear {
    /// Of a machine with `total_mib`.
    fn sizes(&self, total_mib: u64) -> Result<Sizes> {
        let memory = match self.memory_mib {
            0 => total_mib,
            n => n,
        };
        let map = self.map_mib.unwrap_or(memory * 17 / 10);
        let swap = self.swap_mib.unwrap_or(map + map / 4 + 16);
        let pages = map as usize * 256;
        ensure!(map > 0, "--map-mib 0: there would be nothing to map");
        ensure!(
            (1..=task::MAX_TASKS).contains(&self.tasks),
            "--tasks {}: from 1 to {}, for each has a word in every page",
            self.tasks,
            task::MAX_TASKS
        );
        ensure!(self.passes > 0, "--passes 0: nothing would be verified");
        ensure!(
            (1..=pages).contains(&self.piece_pages),
            "--piece-pages {}: a mapping of {map} MiB has {pages} pages",
            self.piece_pages
        );
        if self.memory_mib != 0 && memory + 64 > total_mib {
            bail!(
                "--memory-mib {memory} of the {total_mib} MiB of this machine leaves no limit to meet: lower it, or \
                 use 0 for the whole machine"
            );
        }
        if map > memory + swap {
            bail!(
                "a mapping of {map} MiB does not fit into {memory} MiB of memory and {swap} MiB of swap: raise \
                 --swap-mib or lower --map-mib"
            );
        }
        Ok(Sizes { map, swap, pages })
    }
}

#[derive(Debug, PartialEq)]
struct Sizes {
    map: u64,
    swap: u64,
    pages: usize,
}

impl Workload for Nonlinear {
    fn name(&self) -> &'static str {
        "nonlinear"
    }

    fn needs(&self) -> Needs {
        let total = vm::meminfo("MemTotal").unwrap_or(0) / 1024;
        Needs {
            memory_mib: if self.memory_mib == 0 {
                0
            } else {
                self.memory_mib + 64
            },
            disk_mib: self.sizes(total).map_or(0, |s| s.swap),
            memcg: self.memory_mib != 0,
            ..Needs::default()
        }
    }

    fn run(&self, lab: &mut Lab) -> Result<()> {
        let sizes = self.sizes(vm::meminfo("MemTotal")? / 1024)?;
        let group = match self.memory_mib {
            0 => None,
            mib => Some(Membership::limited(lab, "nonlinear", mib)?),
        };
        // Outside the cgroup: so many VMAs take more memory than a small one has.
        let mappings = match self.first_touch || self.mapping == Mapping::Linear {
            true => 0,
            false => map_limit::measure(lab)?,
        };
        group.as_ref().map_or(Ok(()), Membership::enter)?;
        settle::lock_program()?;
        let swap = lab.swap_file(sizes.swap)?;
        if self.first_touch {
            first_touch::run(lab, self, sizes.pages)?;
        } else {
            self.mappings(lab, &sizes, mappings)?;
        }
        group.map_or(Ok(()), Membership::finish)?;
        settle::settle(swap)
    }
}

impl Nonlinear {
    /// `limit`: how many mappings a process may have.
    fn mappings(&self, lab: &mut Lab, sizes: &Sizes, limit: usize) -> Result<()> {
        if self.mapping != Mapping::Linear {
            let layout = Layout::new(sizes.pages, self.piece_pages);
            // A few mappings are the program's own.
            ensure!(
                layout.pieces() + 64 <= limit,
                "a nonlinear mapping of {} MiB in pieces of {} pages needs {} VMAs, and this kernel gave a process {limit}: raise \
                 --piece-pages, or vm.max_map_count",
                sizes.map,
                self.piece_pages,
                layout.pieces()
            );
            self.mapping(lab, "nonlinear", sizes.pages, Some(layout))?;
        }
        if self.mapping != Mapping::Nonlinear {
            self.mapping(lab, "linear", sizes.pages, None)?;
        }
        Ok(())
    }

    fn mapping(
        &self,
        lab: &mut Lab,
        case: &str,
        pages: usize,
        layout: Option<Layout>,
    ) -> Result<()> {
        lab.say(format_args!(
            "{case}: {} tasks over {pages} pages",
            self.tasks
        ));
        let memory = shared_memory(pages)?;
        let gate = Gate::new(self.tasks)?;
        let vmas = layout.as_ref().map_or(1, Layout::pieces);
        let mut sampler = Sampler::new(case)?;
        let mut children = task::Children::new();
        for number in 0..self.tasks {
            let task = Task {
                number,
                tasks: self.tasks,
                passes: self.passes,
                seed: self.seed,
                pages,
                layout: layout.as_ref(),
                memory: &memory,
                gate: &gate,
            };
            children.fork(|| task.run())?;
        }
        while children.running()? {
            std::thread::sleep(Duration::from_secs(1));
            sampler.second(lab)?;
        }
        lab.verified(gate.verified());
        sampler.total(lab, vmas)?;
        lab.verified(task::verify_all(&memory, pages, self.tasks, self.passes)?);
        Ok(())
    }
}

fn shared_memory(pages: usize) -> Result<OwnedFd> {
    let memory = memfd_create("nonlinear", MemfdFlags::CLOEXEC)
        .context("no shared memory: this needs CONFIG_MEMFD_CREATE and CONFIG_SHMEM")?;
    ftruncate(&memory, (pages * PAGE) as u64).context("cannot size the shared memory")?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Nonlinear,
    }

    fn sizes(text: &str) -> Result<Sizes> {
        let args = ["x"].into_iter().chain(text.split_whitespace());
        Cli::parse_from(args).args.sizes(1024)
    }

    #[test]
    fn the_seed_s_shape_is_the_default_s() {
        let all = sizes("--memory-mib 0").unwrap();
        assert_eq!((all.map, all.pages), (1740, 1740 * 256));
        assert_eq!(sizes("").unwrap().map, 27);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        for (text, want) in [
            ("--map-mib 0", "nothing to map"),
            ("--tasks 0", "from 1 to 256"),
            ("--tasks 257", "from 1 to 256"),
            ("--passes 0", "nothing would be verified"),
            ("--piece-pages 0", "--piece-pages 0"),
            ("--piece-pages 9999999", "has 6912 pages"),
            ("--memory-mib 1000", "leaves no limit to meet"),
            ("--map-mib 500 --swap-mib 200", "raise --swap-mib"),
        ] {
            let e = sizes(text).unwrap_err().to_string();
            assert!(e.contains(want), "{text}: {e}");
        }
    }
}
