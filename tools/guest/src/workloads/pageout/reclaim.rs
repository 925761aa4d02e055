// SPDX-License-Identifier: GPL-2.0
//! Who pushes the memory out: the caller of MADV_PAGEOUT, the writer of memory.reclaim, or kswapd.

use crate::mem::{Advice, PAGE, Region};
use crate::membership::Membership;
use crate::trace::Event;
use crate::undo::{self, Undo};
use crate::vm;
use crate::workloads::team::{Order, Team};
use crate::{clock, lab::Lab, settle, swap::SwapArea};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reclaim {
    /// MADV_PAGEOUT by the workers
    Pageout,
    /// memory.reclaim of a cgroup that holds the workers
    Memcg,
    /// The machine's watermarks, raised until kswapd has reclaimed all of the memory
    Kswapd,
}

const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
const CACHE: usize = 1 << 20;
const SCALE: &str = "/proc/sys/vm/watermark_scale_factor";

/// What has to be in place before the memory is taken.
pub struct Reclaimer {
    kind: Reclaim,
    /// This process is in it.
    group: Option<Membership>,
    /// min_free_kbytes as it was.
    min_free: String,
    /// Something that can be reclaimed at any time.
    file: Option<(PathBuf, Undo)>,
}

impl Reclaimer {
    pub fn new(kind: Reclaim, lab: &mut Lab, mib: u64) -> Result<Reclaimer> {
        let mut group = None;
        let mut min_free = String::new();
        let mut file = None;
        if kind != Reclaim::Pageout {
            // A limit that is never met.
            let new = Membership::limited(lab, "pageout", 8 * mib + 256)?;
            settle::lock_program()?;
            new.enter()?;
            group = Some(new);
        }
        if kind == Reclaim::Kswapd {
            file = Some(file_to_reclaim(lab.dir())?);
            min_free = fs::read_to_string(MIN_FREE)
                .with_context(|| format!("cannot read {MIN_FREE}"))?
                .trim()
                .to_string();
            // Restored at the end, whatever happens.
            lab.set(MIN_FREE, &min_free)?;
            lab.set("/proc/sys/vm/swappiness", "200")?;
        }
        Ok(Reclaimer {
            kind,
            group,
            min_free,
            file,
        })
    }

    /// Pages that are written are still in the swap cache: a reclaimer that goes on drops them.
    pub fn keeps_cache(&self) -> bool {
        self.kind == Reclaim::Pageout
    }

    /// Whether the event is of a thread that reclaims.
    pub fn did(&self, event: &Event, workers: &[u32]) -> bool {
        match self.kind {
            Reclaim::Pageout => workers.contains(&event.tid),
            Reclaim::Memcg => event.tid == std::process::id(),
            Reclaim::Kswapd => event.comm.starts_with("kswapd"),
        }
    }

    /// Until `left` pages of the memory are no more resident; CPU time of who did it, if that can be told.
    pub fn reclaim(&self, team: &Team, left: impl Fn() -> Result<usize>) -> Result<u64> {
        match self.kind {
            Reclaim::Pageout => team.all(Order::PageOut),
            Reclaim::Memcg => self.by_cgroup(left),
            Reclaim::Kswapd => self.by_kswapd(left),
        }
    }

    fn by_cgroup(&self, left: impl Fn() -> Result<usize>) -> Result<u64> {
        let group = self.group.as_ref().context("no cgroup to reclaim from")?;
        clear_references()?;
        let mut ns = 0;
        let mut why = String::new();
        for _ in 0..100 {
            let pages = left()?;
            if pages == 0 {
                return Ok(ns);
            }
            let start = clock::thread_ns();
            // EAGAIN says that there was less to reclaim: the pages that are being written are not reclaimed yet.
            let tried = fs::write(
                group.path().join("memory.reclaim"),
                format!("{} swappiness=max", pages * PAGE),
            );
            ns += clock::thread_ns() - start;
            why = tried.err().map_or(String::new(), |e| format!(" ({e})"));
            clock::nap(5);
        }
        bail!("memory.reclaim left {} pages where they are{why}", left()?)
    }

    /// kswapd never reaches watermarks as high as these and gives up, maybe too early: then it is tried again.
    fn by_kswapd(&self, left: impl Fn() -> Result<usize>) -> Result<u64> {
        let group = self.group.as_ref().context("no cgroup")?;
        let (file, _) = self.file.as_ref().context("no file")?;
        clear_references()?;
        let scale = fs::read_to_string(SCALE).with_context(|| format!("cannot read {SCALE}"))?;
        for _ in 0..10 {
            encourage(group, file)?;
            let done = wake_kswapd(&left);
            put(MIN_FREE, &self.min_free)?;
            put(SCALE, scale.trim())?;
            if done? {
                return Ok(0);
            }
        }
        bail!("kswapd left {} pages where they are", left()?)
    }

    /// Takes the swap away; pages of others may be in it when others were reclaimed from.
    pub fn finish(&self, swap: SwapArea) -> Result<()> {
        match self.kind {
            Reclaim::Pageout => swap.finish(),
            Reclaim::Memcg | Reclaim::Kswapd => settle::settle(swap),
        }
    }

    pub fn end(self) -> Result<()> {
        self.group.map_or(Ok(()), Membership::finish)
    }
}

fn put(file: &str, value: &str) -> Result<()> {
    fs::write(file, value).with_context(|| format!("cannot write `{value}` to {file}"))
}

/// A kswapd that gave up works again once somebody else has reclaimed a page while there was enough memory.
fn encourage(group: &Membership, file: &Path) -> Result<()> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    // EAGAIN says that it was not all of it.
    let _ = fs::write(
        group.path().join("memory.reclaim"),
        format!("{} swappiness=0", text.len()),
    );
    Ok(())
}

fn file_to_reclaim(dir: &Path) -> Result<(PathBuf, Undo)> {
    let path = dir.join(format!("vmscan-lab-{}.cache", std::process::id()));
    let gone = path.clone();
    let undo = undo::later(move || {
        let _ = fs::remove_file(&gone);
    });
    let mut file =
        File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(&vec![1; CACHE])
        .and_then(|()| file.sync_all())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok((path, undo))
}

/// An allocation that finds less free memory than the low watermark wakes it. Whether it took everything.
fn wake_kswapd(left: impl Fn() -> Result<usize>) -> Result<bool> {
    let free = vm::meminfo("MemFree")?;
    // More is free than the lowest watermark, so that nobody else reclaims, and less than the next one.
    put(MIN_FREE, &(free * 8 / 10).to_string())?;
    put(SCALE, "3000")?;
    let mut bait = Region::new(16 * PAGE, PAGE)?;
    for _ in 0..50 {
        if left()? == 0 {
            return Ok(true);
        }
        bait.advise(Advice::DontNeed)?;
        bait.fill(1);
        clock::nap(10);
    }
    Ok(false)
}

/// What was touched just now would be left alone at first, and a partially mapped folio be split by its shrinker
/// meanwhile.
fn clear_references() -> Result<()> {
    fs::write("/proc/self/clear_refs", "1").context("cannot write 1 to /proc/self/clear_refs")
}
