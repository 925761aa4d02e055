// SPDX-License-Identifier: GPL-2.0
//! This process inside a memory cgroup of the lab's, and back where it was before the cgroup goes.

use crate::cgroup::{self, Cgroup};
use crate::lab::Lab;
use crate::mem::PAGE;
use crate::settle;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Take it before anything else that is taken back on a signal: removing the cgroup ends the process.
pub struct Membership {
    group: Cgroup,
    /// The cgroup to go back to.
    back: PathBuf,
}

impl Membership {
    /// A fresh group of `mib`; this process is not in it yet.
    pub fn limited(lab: &mut Lab, name: &str, mib: u64) -> Result<Membership> {
        let back = own_group()?;
        let group = lab.cgroup(name)?;
        group.write("memory.max", &(mib << 20).to_string())?;
        Ok(Membership { group, back })
    }

    /// What this process and its later children allocate from now on is charged to the group.
    pub fn enter(&self) -> Result<()> {
        self.group.enter_child(std::process::id())
    }

    pub fn path(&self) -> &Path {
        self.group.path()
    }

    /// The workload freed all it had: nothing may be left in swap but pages of this program itself, and nobody was killed.
    pub fn finish(self) -> Result<()> {
        let events = fs::read_to_string(self.group.path().join("memory.events"))
            .context("cannot read memory.events")?;
        let kills = oom_kills(&events).context("memory.events has no oom_kill")?;
        ensure!(
            kills == 0,
            "{kills} processes of the cgroup were killed for lack of memory"
        );
        for _ in 0..200 {
            let left = self.group.number("memory.swap.current")? as u64 / PAGE as u64;
            if left <= settle::owned_pages()? {
                return Ok(());
            }
            // A page of the swap cache that was locked when its owner went keeps its slot until reclaim meets it.
            // EAGAIN only says that there was less to reclaim.
            let _ = self.group.write("memory.reclaim", "1G swappiness=200");
            crate::clock::nap(10);
        }
        bail!(
            "{} bytes of swap are still charged to the cgroup after the workload freed all it had",
            self.group.number("memory.swap.current")?
        )
    }
}

impl Drop for Membership {
    /// Fields go after this, so the cgroup is empty when it is removed.
    fn drop(&mut self) {
        if let Err(e) = cgroup::enter(&self.back, std::process::id()) {
            eprintln!("{e:#}");
        }
    }
}

fn own_group() -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").context("cannot read /proc/self/cgroup")?;
    let path = v2_path(&text).context("/proc/self/cgroup names no cgroup v2")?;
    Ok(Path::new(cgroup::ROOT).join(path.trim_start_matches('/')))
}

fn v2_path(text: &str) -> Option<&str> {
    text.lines().find_map(|l| l.strip_prefix("0::"))
}

fn oom_kills(events: &str) -> Option<u64> {
    let line = events.lines().find_map(|l| l.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        assert_eq!(
            v2_path("1:name=x:/a\n0::/user.slice/b\n"),
            Some("/user.slice/b")
        );
        assert_eq!(v2_path("1:memory:/a\n"), None);
        let events = "low 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(oom_kills(events), Some(2));
        assert_eq!(oom_kills("low 0\n"), None);
    }
}
