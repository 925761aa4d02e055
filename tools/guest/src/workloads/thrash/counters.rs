// SPDX-License-Identifier: GPL-2.0
//! What a round is reported by: how far the kernel's counters went.

use crate::vm::{VmStat, delta};
use anyhow::{Context, Result};
use std::mem::MaybeUninit;
use std::path::Path;

/// Only in kernels with the lab's counters: what prepare_scan_control() decided.
const POLICY: &str = "/sys/kernel/debug/vmscan_lab";

/// Metric, and counter in /proc/vmstat.
const FLOWS: [(&str, &str); 13] = [
    ("file_refaults", "workingset_refault_file"),
    ("anon_refaults", "workingset_refault_anon"),
    ("file_activates", "workingset_activate_file"),
    ("anon_activates", "workingset_activate_anon"),
    ("file_restores", "workingset_restore_file"),
    ("scanned_file_pages", "pgscan_file"),
    ("scanned_anon_pages", "pgscan_anon"),
    ("stolen_file_pages", "pgsteal_file"),
    ("stolen_anon_pages", "pgsteal_anon"),
    ("activated_pages", "pgactivate"),
    ("deactivated_pages", "pgdeactivate"),
    ("swapin_pages", "pswpin"),
    ("swapout_pages", "pswpout"),
];

/// Metric, and length in /proc/vmstat.
const LENGTHS: [(&str, &str); 4] = [
    ("active_file_pages", "nr_active_file"),
    ("inactive_file_pages", "nr_inactive_file"),
    ("active_anon_pages", "nr_active_anon"),
    ("inactive_anon_pages", "nr_inactive_anon"),
];

#[derive(Clone)]
pub struct Counters {
    vm: VmStat,
    policy: Option<VmStat>,
    major_faults: i64,
    minor_faults: i64,
}

impl Counters {
    pub fn now() -> Result<Counters> {
        let path = Path::new(POLICY);
        let usage = usage()?;
        Ok(Counters {
            vm: VmStat::now()?,
            policy: path.exists().then(|| VmStat::read(path)).transpose()?,
            major_faults: usage.ru_majflt,
            minor_faults: usage.ru_minflt,
        })
    }

    pub fn swapped_out(&self, before: &Counters) -> Result<i64> {
        delta(&before.vm, &self.vm, "pswpout")
    }

    pub fn since(&self, before: &Counters) -> Result<Vec<(String, i64)>> {
        let mut values = vec![
            ("major_faults", self.major_faults - before.major_faults),
            ("minor_faults", self.minor_faults - before.minor_faults),
            // The kernel counts KiB here.
            ("read_pages", delta(&before.vm, &self.vm, "pgpgin")? / 4),
        ];
        for (metric, counter) in FLOWS {
            values.push((metric, delta(&before.vm, &self.vm, counter)?));
        }
        for (metric, counter) in LENGTHS {
            values.push((metric, self.vm.get(counter)?));
        }
        let mut values: Vec<(String, i64)> =
            values.into_iter().map(|(k, v)| (k.into(), v)).collect();
        if let (Some(before), Some(after)) = (&before.policy, &self.policy) {
            for (name, value) in after.iter() {
                values.push((format!("policy_{name}"), value - before.get(name)?));
            }
        }
        Ok(values)
    }
}

/// Of all threads of this process.
fn usage() -> Result<libc::rusage> {
    let mut usage = MaybeUninit::zeroed();
    // SAFETY: a valid pointer to a rusage.
    let rc = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if rc != 0 {
        return Err(std::io::Error::last_os_error()).context("getrusage() failed");
    }
    // SAFETY: zeroed, and then filled by the kernel.
    Ok(unsafe { usage.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_here_has_the_counters() {
        let before = Counters::now().unwrap();
        let names = before.since(&before).unwrap();
        assert!(names.iter().any(|(n, v)| n == "read_pages" && *v == 0));
    }
}
