// SPDX-License-Identifier: GPL-2.0
//! A line a second, as vmstat prints it.

use crate::lab::Lab;
use crate::vm::{VmStat, delta, meminfo};
use anyhow::{Context, Result};
use std::fs;

pub struct Sampler {
    case: String,
    first: VmStat,
    last: VmStat,
    seconds: u32,
    most_swapped_kib: i64,
    most_blocked: i64,
}

impl Sampler {
    pub fn new(case: &str) -> Result<Sampler> {
        let now = VmStat::now()?;
        Ok(Sampler {
            case: case.into(),
            first: now.clone(),
            last: now,
            seconds: 0,
            most_swapped_kib: 0,
            most_blocked: 0,
        })
    }

    pub fn second(&mut self, lab: &mut Lab) -> Result<()> {
        let now = VmStat::now()?;
        let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let blocked = tasks(&stat, "procs_blocked")?;
        let swapped = meminfo("SwapTotal")? as i64 - meminfo("SwapFree")? as i64;
        self.most_swapped_kib = self.most_swapped_kib.max(swapped);
        self.most_blocked = self.most_blocked.max(blocked);
        let mut values = vec![
            ("runnable", tasks(&stat, "procs_running")?),
            ("blocked", blocked),
            ("swapped_kib", swapped),
            ("free_kib", meminfo("MemFree")? as i64),
            ("cached_kib", meminfo("Cached")? as i64),
        ];
        values.extend(traffic(&self.last, &now)?);
        lab.sample(&self.case, self.seconds, &values)?;
        self.seconds += 1;
        self.last = now;
        Ok(())
    }

    pub fn total(&self, lab: &mut Lab, vmas: usize) -> Result<()> {
        let mut values = traffic(&self.first, &VmStat::now()?)?.to_vec();
        values.extend([
            ("vmas", vmas as i64),
            ("most_swapped_kib", self.most_swapped_kib),
            ("most_blocked", self.most_blocked),
        ]);
        lab.sample(&format!("{}/total", self.case), 0, &values)
    }
}

pub fn traffic(before: &VmStat, after: &VmStat) -> Result<[(&'static str, i64); 4]> {
    let pages = |key| delta(before, after, key);
    Ok([
        ("swapin_kib", pages("pswpin")? * 4),
        ("swapout_kib", pages("pswpout")? * 4),
        ("faults", pages("pgfault")?),
        ("major_faults", pages("pgmajfault")?),
    ])
}

fn tasks(stat: &str, name: &str) -> Result<i64> {
    let value = stat
        .lines()
        .find_map(|l| l.strip_prefix(name)?.trim().parse().ok());
    value.with_context(|| format!("/proc/stat has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat() {
        let stat = "cpu 1 2\nprocs_running 12\nprocs_blocked 3\n";
        assert_eq!(tasks(stat, "procs_running").unwrap(), 12);
        assert_eq!(tasks(stat, "procs_blocked").unwrap(), 3);
        assert!(tasks("cpu 1", "procs_blocked").is_err());
    }
}
