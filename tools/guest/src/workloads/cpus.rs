// SPDX-License-Identifier: GPL-2.0
//! Which CPUs threads run on: a thread that moves would spread its pages over the folio batches of several.

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// As many as there are threads: `wanted`, or the first ones this process may use, over again if they are few.
pub fn choose(wanted: &[usize], threads: usize) -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot ask for the CPUs")?;
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect();
    pick(&usable, wanted, threads)
}

fn pick(usable: &[usize], wanted: &[usize], threads: usize) -> Result<Vec<usize>> {
    if wanted.is_empty() {
        return Ok(usable.iter().copied().cycle().take(threads).collect());
    }
    if wanted.len() < threads {
        bail!("--cpus names {} CPUs for {threads} threads", wanted.len());
    }
    if let Some(cpu) = wanted.iter().find(|c| !usable.contains(c)) {
        bail!("--cpus: no CPU {cpu} here; there are {usable:?}");
    }
    Ok(wanted[..threads].to_vec())
}

/// Pins the calling thread.
pub fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPU {cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks() {
        assert_eq!(pick(&[0, 1], &[], 1).unwrap(), [0]);
        assert_eq!(pick(&[0], &[], 2).unwrap(), [0, 0]);
        assert_eq!(pick(&[0, 1, 2, 3, 4], &[2, 4], 2).unwrap(), [2, 4]);
        let e = pick(&[0, 1], &[2, 4], 2).unwrap_err().to_string();
        assert_eq!(e, "--cpus: no CPU 2 here; there are [0, 1]");
        assert!(pick(&[0, 1], &[1], 2).is_err());
    }
}
