// SPDX-License-Identifier: GPL-2.0
//! Is swappiness 0 respected? Documentation/admin-guide/sysctl/vm.rst: then the kernel does not swap until free and
//! file-backed pages are fewer than the high watermark of a zone. Reclaim for a cgroup's limit has no such exception.

use super::counters::Counters;
use crate::vm::VmStat;
use anyhow::{Context, Result, bail};
use std::fs;

pub struct Watch {
    cgroup: bool,
    /// The fewest free and file-backed pages that were seen, and the sum of the high watermarks.
    fewest: i64,
    high: i64,
}

impl Watch {
    pub fn new(cgroup: bool) -> Watch {
        Watch {
            cgroup,
            fewest: i64::MAX,
            high: 0,
        }
    }

    pub fn look(&mut self) -> Result<()> {
        let vm = VmStat::now()?;
        let pages =
            vm.get("nr_free_pages")? + vm.get("nr_active_file")? + vm.get("nr_inactive_file")?;
        self.fewest = self.fewest.min(pages);
        let zones = fs::read_to_string("/proc/zoneinfo").context("cannot read /proc/zoneinfo")?;
        self.high = high_watermarks(&zones);
        Ok(())
    }

    pub fn judge(&self, before: &Counters, after: &Counters) -> Result<()> {
        verdict(
            after.swapped_out(before)?,
            self.cgroup,
            self.fewest,
            self.high,
        )
    }
}

fn verdict(swapped: i64, cgroup: bool, fewest: i64, high: i64) -> Result<()> {
    // Between two looks the cache may have been shorter: only a wide margin convicts.
    let excused = !cgroup && fewest < 4 * high;
    if swapped == 0 || excused {
        return Ok(());
    }
    bail!(
        "{swapped} pages were swapped out with swappiness 0, and there were {fewest} free and file pages or more (high \
         watermark {high}): swappiness is not respected"
    );
}

fn high_watermarks(zoneinfo: &str) -> i64 {
    let high =
        |line: &str| -> Option<i64> { line.trim().strip_prefix("high ")?.trim().parse().ok() };
    zoneinfo.lines().filter_map(high).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        verdict(0, true, 0, 100).unwrap();
        verdict(7, false, 399, 100).unwrap();
        assert!(verdict(7, true, 399, 100).is_err());
        let e = verdict(7, false, 400, 100).unwrap_err().to_string();
        assert!(
            e.starts_with("7 pages were swapped out with swappiness 0"),
            "{e}"
        );
    }

    #[test]
    fn zoneinfo() {
        let text = "Node 0, zone DMA\n  pages free 10\n        min      8\n        high     12\n\
                    Node 0, zone DMA32\n        high     300\n    high:  4\n";
        assert_eq!(high_watermarks(text), 312);
    }
}
