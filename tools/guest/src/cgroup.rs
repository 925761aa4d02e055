// SPDX-License-Identifier: GPL-2.0
//! A memory cgroup of the lab's own.

use crate::clock;
use crate::undo::{self, Undo};
use crate::vm::{self, VmStat};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

pub const ROOT: &str = "/sys/fs/cgroup";

pub struct Cgroup {
    path: PathBuf,
    _undo: Undo,
}

impl Cgroup {
    /// `name` alone; the process is made part of it, so that two labs do not meet.
    pub fn new(name: &str) -> Result<Cgroup> {
        let controllers = Path::new(ROOT).join("cgroup.subtree_control");
        let on = fs::read_to_string(&controllers).with_context(|| {
            format!(
                "cannot read {}: is cgroup v2 mounted?",
                controllers.display()
            )
        })?;
        if !on.split_whitespace().any(|c| c == "memory") {
            bail!(
                "{} lacks `memory`: write `+memory` there",
                controllers.display()
            );
        }
        let path = Path::new(ROOT).join(format!("vmscan-lab-{name}-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let gone = path.clone();
        let undo = undo::later(move || remove(&gone));
        Ok(Cgroup { path, _undo: undo })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `value` to `file` of this group, as `memory.max`.
    pub fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value)
            .with_context(|| format!("cannot write `{value}` to {}", path.display()))
    }

    /// A file with one number, as `memory.current`.
    pub fn number(&self, file: &str) -> Result<i64> {
        vm::number(&self.path.join(file))
    }

    /// All of memory.stat.
    pub fn stat(&self) -> Result<VmStat> {
        VmStat::read(&self.path.join("memory.stat"))
    }

    /// One counter of memory.stat.
    pub fn read_stat(&self, key: &str) -> Result<i64> {
        self.stat()?.get(key)
    }

    /// Moves a process here; what it has allocated before stays charged where it was.
    pub fn enter_child(&self, pid: u32) -> Result<()> {
        enter(&self.path, pid)
    }

    /// The workload's processes have gone, so nothing may be charged here any more.
    pub fn finish(self) -> Result<()> {
        let mut left = (0, 0);
        // A killed page table, a batch of folios or a rate-limited counter follows a moment later.
        for _ in 0..400 {
            left = (self.read_stat("anon")?, self.number("memory.swap.current")?);
            if left == (0, 0) {
                return Ok(());
            }
            clock::nap(10);
        }
        bail!(
            "{} bytes of anonymous memory and {} of swap are still charged to {}, whose processes have gone",
            left.0,
            left.1,
            self.path.display()
        );
    }

    /// Nothing may have met a limit or the OOM killer. (memory.swap.events also counts, as `fail`, each THP that swap did
    /// not take whole; that is no limit.)
    pub fn events_are_zero(&self) -> Result<()> {
        let events = VmStat::read(&self.path.join("memory.events"))?;
        let swap_max = VmStat::read(&self.path.join("memory.swap.events"))?.get("max")?;
        let met = events
            .iter()
            .chain([("swap max", swap_max)])
            .find(|(_, n)| *n != 0);
        if let Some((name, count)) = met {
            bail!(
                "memory.events of the workload's cgroup counts {count} of `{name}`: it met a limit, so this is not \
                 the workload that was asked for"
            );
        }
        Ok(())
    }
}

/// For a child that has the path only: `pid` 0 is the caller.
pub fn enter(group: &Path, pid: u32) -> Result<()> {
    let file = group.join("cgroup.procs");
    fs::write(&file, pid.to_string())
        .with_context(|| format!("cannot write {pid} to {}", file.display()))
}

fn remove(path: &Path) {
    // On a signal this process may be in it: it must outlive the kill, or the group and what else is to be taken back stay.
    let own = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    if own.lines().any(|pid| pid == std::process::id().to_string()) {
        let _ = enter(Path::new(ROOT), std::process::id());
    }
    // Killing an empty group does nothing; a killed process takes a moment to go.
    let _ = fs::write(path.join("cgroup.kill"), "1");
    for _ in 0..200 {
        match fs::remove_dir(path) {
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => clock::nap(10),
            Ok(()) => return,
            Err(e) => {
                eprintln!("cannot remove {}: {e}", path.display());
                return;
            }
        }
    }
    eprintln!(
        "{} still has processes: kill them and rmdir it",
        path.display()
    );
}
