// SPDX-License-Identifier: GPL-2.0
//! What a machine must have before anything is changed on it. All that it lacks is said at once.

use crate::workload::{Needs, Workload};
use crate::{cgroup, lab, mem, swap, trace, vm};
use anyhow::{Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Without --on-host nothing runs: says what would have.
pub fn refuse(workload: &dyn Workload, dir: Option<&Path>) -> Result<PathBuf> {
    let dir = dir.map_or("PATH".into(), |d| d.display().to_string());
    bail!(
        "`{}` would make and use swap, push memory out, create a cgroup, trace the kernel, and change settings for the \
         time of the run. To do that on this machine: `vmscan-lab --on-host --dir {dir} {0}`, as root, on a machine \
         nobody else needs. In a guest: `make lab`",
        workload.name()
    );
}

/// In a guest the same demands hold, but for those its init has seen to.
pub fn check(needs: Needs, dir: &Path, in_guest: bool) -> Result<()> {
    let mut lacks = Vec::new();
    let mut want = |holds: bool, what: String| {
        if !holds {
            lacks.push(what);
        }
    };
    let root = rustix::process::geteuid().is_root();
    want(root, "not root: swap, pagemap and cgroups need it".into());
    let page = rustix::param::page_size();
    want(
        page == mem::PAGE,
        format!(
            "pages of {page} bytes; the workloads are written for {}",
            mem::PAGE
        ),
    );
    memory(needs, &mut want);
    disk(needs, dir, in_guest, &mut want);
    kernel(needs, &mut want);
    if !in_guest {
        let areas = swap::in_use().unwrap_or_default();
        want(
            areas.is_empty(),
            format!(
                "other swap is in use, and pages would go there: swapoff {}",
                areas.join(" ")
            ),
        );
        let zswap = fs::read_to_string("/sys/module/zswap/parameters/enabled");
        want(
            !zswap.is_ok_and(|v| v.trim() == "Y"),
            "zswap is on and would keep pages from the disk: echo N > /sys/module/zswap/parameters/enabled".into(),
        );
    }
    if lacks.is_empty() {
        return Ok(());
    }
    let this = if in_guest {
        "this guest"
    } else {
        "this machine"
    };
    bail!("{this} cannot run it:\n- {}", lacks.join("\n- "));
}

fn memory(needs: Needs, want: &mut impl FnMut(bool, String)) {
    let mib = vm::meminfo("MemAvailable").unwrap_or(0) / 1024;
    want(
        mib >= needs.memory_mib,
        format!(
            "{mib} MiB of memory available and {} wanted",
            needs.memory_mib
        ),
    );
}

fn disk(needs: Needs, dir: &Path, in_guest: bool, want: &mut impl FnMut(bool, String)) {
    if needs.disk_mib == 0 && in_guest {
        return;
    }
    if in_guest {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let disk = mounts.lines().any(|l| l.split(' ').nth(1) == dir.to_str());
        want(
            disk,
            format!(
                "no disk on {}: the lab gives a guest an NVMe image",
                dir.display()
            ),
        );
    }
    match rustix::fs::statvfs(dir) {
        Err(e) => want(false, format!("{}: {e}", dir.display())),
        Ok(room) => {
            let mib = (room.f_bavail * room.f_frsize) >> 20;
            want(
                mib >= needs.disk_mib,
                format!(
                    "{mib} MiB free in {} and {} wanted",
                    dir.display(),
                    needs.disk_mib
                ),
            );
        }
    }
}

fn kernel(needs: Needs, want: &mut impl FnMut(bool, String)) {
    if needs.thp {
        let path = "/sys/kernel/mm/transparent_hugepage/enabled";
        let mode = fs::read_to_string(path).unwrap_or_default();
        let mode = lab::chosen(&mode);
        want(
            matches!(mode, "madvise" | "always"),
            format!("no THPs for madvise: {path} is `{mode}`; echo madvise > {path}"),
        );
    }
    if needs.memcg {
        let path = Path::new(cgroup::ROOT).join("cgroup.subtree_control");
        let on = fs::read_to_string(&path).unwrap_or_default();
        want(
            on.split_whitespace().any(|c| c == "memory"),
            format!(
                "no cgroup v2 with the memory controller: echo +memory > {}",
                path.display()
            ),
        );
    }
    if needs.tracing {
        let file = Path::new(trace::ROOT).join("available_tracers");
        let tracers = fs::read_to_string(&file).unwrap_or_default();
        want(
            tracers.split_whitespace().any(|t| t == "function"),
            format!(
                "no `function` in {}: mount tracefs; the kernel needs CONFIG_FUNCTION_TRACER",
                file.display()
            ),
        );
    }
    if needs.zram {
        let size = fs::read_to_string("/sys/block/zram0/disksize").unwrap_or_default();
        want(
            size.trim() == "0",
            "no unused zram0: `modprobe zram`, or `echo 1 > /sys/block/zram0/reset` if it may go"
                .into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_at_once() {
        let needs = Needs {
            memory_mib: u64::MAX / 2,
            disk_mib: u64::MAX / 2,
            ..Needs::default()
        };
        let e = check(needs, Path::new("/"), false).unwrap_err().to_string();
        assert!(e.contains("of memory available and"), "{e}");
        assert!(e.contains("free in / and"), "{e}");
        let e = check(needs, Path::new("/no/such"), false)
            .unwrap_err()
            .to_string();
        assert!(e.contains("/no/such: "), "{e}");
    }
}
