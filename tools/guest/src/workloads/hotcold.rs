// SPDX-License-Identifier: GPL-2.0
//! memory.reclaim of a process that keeps reading a quarter of its THPs: the RFC's follow-up.

mod reader;

pub use reader::Reader;

use crate::lab::Lab;
use crate::mem::{PAGE, PMD};
use crate::pagemap::{self, Page};
use crate::vm::{self, VmStat};
use crate::workload::{Needs, Workload};
use crate::{clock, workloads::cpus};
use anyhow::{Context, Result, bail};
use reader::Reading;
use results::Clock;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The reading process's memory, and how much of it memory.reclaim is asked for.
const MIB: u64 = 256;
const RECLAIM_BYTES: u64 = 64 << 20;
/// Every fourth chunk of 2 MiB is read again and again.
const HOT_EVERY: usize = 4;

/// Asks memory.reclaim for 64 MiB of a process of 256 MiB that keeps reading 64 MiB of it
///
/// From: Chengfeng Lin's second mail on the RFC "mm: preserve physical order in swap fallback splitting".
///
/// A process fills 256 MiB in chunks of 2 MiB in a shuffled order. Every fourth chunk is hot: one word of each of its
/// 4 KiB pages is read, over and over, for two windows. At the start of the second window another process writes
/// `64M swappiness=200` to memory.reclaim of the reader's cgroup (memory.max 512 MiB, memory.swap.max 256 MiB). Nothing
/// is collapsed or paged out by madvise. Every word is verified at the end, and memory.events must be zero.
///
/// The second window lasts until memory.reclaim has returned, if that takes longer. On one CPU, as under icount, reader
/// and reclaim take turns; then the reader's CPU time is not in reclaim_ns.
///
/// A sample is one such process: splits (THPs), cold_swapped_pages and hot_swapped_pages after the window, huge_kib
/// before it, scanned_pages and stolen_pages (pgscan and pgsteal of the cgroup), reclaim_errno (0, or 11 for EAGAIN:
/// less than asked for was reclaimed), and except on an emulated CPU without icount reclaim_ns (CPU time of the caller in
/// memory.reclaim; instructions under icount), aged_lookups and hot_lookups (words read in the first and second window).
#[derive(clap::Args)]
pub struct Hotcold {
    /// What is done; several, separated by commas, take turns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "thp")]
    mode: Vec<Mode>,
    /// Samples of each mode
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    invocations: u32,
    /// Samples of each mode before those, not reported
    #[arg(long, default_value_t = 0)]
    warmups: u32,
    /// Length of a window in ms of the guest's time (default: 2000 as in the mail; 250 under icount, where it is 250
    /// million instructions)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..60_000))]
    window_ms: Option<u64>,
    /// CPUs of reader and reclaim, as 2,4 (default: the first two, or the only one)
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cpus: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// THPs are reclaimed
    Thp,
    /// 4 KiB pages are reclaimed: not the patched path, so a control
    Base,
    /// THPs, and no reclaim: the control for the rate of reading
    Idle,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Thp => "thp",
            Mode::Base => "base",
            Mode::Idle => "idle",
        }
    }
}

impl Workload for Hotcold {
    fn name(&self) -> &'static str {
        "hotcold"
    }

    fn needs(&self) -> Needs {
        Needs {
            memory_mib: 3 * MIB,
            disk_mib: 2 * MIB + 16,
            thp: true,
            memcg: true,
            ..Needs::default()
        }
    }

    fn run(&self, lab: &mut Lab) -> Result<()> {
        let cpus = cpus::choose(&self.cpus, 2)?;
        cpus::pin(cpus[1])?;
        for index in 0..self.warmups + self.invocations {
            for mode in &self.mode {
                let values = self.one(lab, *mode, cpus[0])?;
                if let Some(index) = index.checked_sub(self.warmups) {
                    lab.sample(mode.name(), index, &values)?;
                }
            }
        }
        Ok(())
    }
}

/// What the call of memory.reclaim came to.
#[derive(Default)]
struct Call {
    ns: u64,
    errno: i32,
}

impl Hotcold {
    fn window_ms(&self, clock: Clock) -> u64 {
        let default = if clock == Clock::Icount { 250 } else { 2000 };
        self.window_ms.unwrap_or(default)
    }

    fn one(&self, lab: &mut Lab, mode: Mode, cpu: usize) -> Result<Vec<(&'static str, i64)>> {
        let swap = lab.swap_file(2 * MIB)?;
        let group = lab.cgroup("hotcold")?;
        group.write("memory.max", &((2 * MIB) << 20).to_string())?;
        group.write("memory.swap.max", &(MIB << 20).to_string())?;
        let (mut reading, aged) = Reading::start(&Reader {
            cgroup: group.path().into(),
            base_pages: mode == Mode::Base,
            mib: MIB,
            window_ms: self.window_ms(lab.clock()),
            hot_every: HOT_EVERY,
            cpu,
        })?;
        let huge_kib = filled(&reading, mode)?;
        let (stat, vmstat) = (group.stat()?, VmStat::now()?);
        reading.go()?;
        let call = match mode {
            Mode::Idle => Call::default(),
            _ => reclaim(group.path())?,
        };
        let hot = reading.end_of_window()?;
        let (stat_after, vmstat_after) = (group.stat()?, VmStat::now()?);
        let (hot_swapped, cold_swapped) =
            swapped(&pagemap::of(Some(reading.pid()), reading.span())?);
        lab.verified(reading.verify()?);
        group.events_are_zero()?;
        group.finish()?;
        swap.finish()?;
        let mut values = vec![
            (
                "splits",
                vm::delta(&vmstat, &vmstat_after, "thp_split_page")?,
            ),
            ("cold_swapped_pages", cold_swapped),
            ("hot_swapped_pages", hot_swapped),
            ("huge_kib", huge_kib),
            ("scanned_pages", vm::delta(&stat, &stat_after, "pgscan")?),
            ("stolen_pages", vm::delta(&stat, &stat_after, "pgsteal")?),
            ("reclaim_errno", call.errno.into()),
        ];
        if lab.clock() != Clock::Counts {
            values.extend([
                ("reclaim_ns", call.ns as i64),
                ("aged_lookups", aged as i64),
                ("hot_lookups", hot as i64),
            ]);
        }
        Ok(values)
    }
}

/// The state the measurement starts from: all resident, and of the pages that were asked for.
fn filled(reading: &Reading, mode: Mode) -> Result<i64> {
    let pages = pagemap::of(Some(reading.pid()), reading.span())?;
    let present = pagemap::count(&pages).present;
    if present != pages.len() {
        bail!(
            "{present} pages of {} are resident before reclaim",
            pages.len()
        );
    }
    let kib = pagemap::anon_huge_kib(Some(reading.pid()), reading.span())?;
    let least = MIB * 1024 / 4 * 3;
    match mode {
        Mode::Base if kib != 0 => bail!("{kib} KiB are THPs in spite of MADV_NOHUGEPAGE"),
        Mode::Thp | Mode::Idle if kib < least => bail!(
            "only {kib} KiB are THPs, and at least {least} are wanted: memory is fragmented; boot afresh"
        ),
        _ => Ok(kib as i64),
    }
}

fn reclaim(group: &Path) -> Result<Call> {
    let path = group.join("memory.reclaim");
    let mut file = File::options()
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    let request = format!("{RECLAIM_BYTES} swappiness=200\n");
    let start = clock::thread_ns();
    // One write is one request; it is not repeated.
    let written = file.write(request.as_bytes());
    let ns = clock::thread_ns() - start;
    let errno = match written {
        Ok(n) if n == request.len() => 0,
        Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => libc::EAGAIN,
        Err(e) => {
            return Err(e).with_context(|| {
                format!("cannot write `{}` to {}", request.trim(), path.display())
            });
        }
        Ok(n) => bail!("{} took {n} bytes of `{}`", path.display(), request.trim()),
    };
    Ok(Call { ns, errno })
}

/// Hot and cold pages that are in swap.
fn swapped(pages: &[Page]) -> (i64, i64) {
    let (mut hot, mut cold) = (0, 0);
    for (nr, chunk) in pages.chunks(PMD / PAGE).enumerate() {
        let n = pagemap::count(chunk).swapped as i64;
        *(if nr % HOT_EVERY == 0 {
            &mut hot
        } else {
            &mut cold
        }) += n;
    }
    (hot, cold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fourth_chunk_is_hot() {
        let mut pages = vec![Page(1 << 63); 8 * 512];
        pages[512] = Page(1 << 62);
        pages[513] = Page(1 << 62);
        pages[4 * 512 + 1] = Page(1 << 62);
        assert_eq!(swapped(&pages), (1, 2));
    }
}
