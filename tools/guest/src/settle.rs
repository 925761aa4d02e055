// SPDX-License-Identifier: GPL-2.0
//! Accounting of swap where the whole machine was under pressure: not only the workload's pages went there, so what
//! is left must have other owners.

use crate::clock;
use crate::mem::PAGE;
use crate::swap::{self, SwapArea};
use crate::vm::VmStat;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::Error;

/// Keeps what this program consists of now in memory, for its own pages are no part of the measurement. Large
/// mappings come later and are not locked.
pub fn lock_program() -> Result<()> {
    // SAFETY: pins pages and changes nothing else.
    if unsafe { libc::mlockall(libc::MCL_CURRENT) } != 0 {
        return Err(Error::last_os_error()).context("cannot lock this program into memory");
    }
    Ok(())
}

/// The workload has freed all it had. Every slot still in use must be of a living process, or have its page in the
/// swap cache; then swap is taken away.
pub fn settle(swap: SwapArea) -> Result<()> {
    let (mut used, mut owned) = (0, 0);
    // Slots of exited processes are freed a moment later.
    for _ in 0..200 {
        used = swap.used_pages()?;
        owned = owned_pages()?;
        if used <= owned {
            break;
        }
        clock::nap(10);
    }
    if used > owned {
        bail!(
            "{used} pages of swap are in use after the workload freed all it had, and other processes own {owned} of them: swap \
             slots leak, or a tmpfs was swapped out (boot guests with rootfstype=ramfs)"
        );
    }
    if used == 0 {
        return swap.finish();
    }
    drop(swap);
    let left = swap::in_use()?;
    ensure!(
        !left.iter().any(|path| path.contains("vmscan-lab")),
        "swap could not be taken away: swapoff {}",
        left.join(" ")
    );
    Ok(())
}

/// Swapped out of living processes, or cached.
pub fn owned_pages() -> Result<u64> {
    let mut kib = 0;
    for entry in fs::read_dir("/proc").context("cannot list /proc")? {
        // A process that has just gone owns nothing.
        let status = fs::read_to_string(entry?.path().join("status"));
        kib += status.ok().and_then(|s| vm_swap_kib(&s)).unwrap_or(0);
    }
    let cached = VmStat::now()?.get("nr_swapcached")?;
    Ok(kib * 1024 / PAGE as u64 + cached as u64)
}

fn vm_swap_kib(status: &str) -> Option<u64> {
    let rest = status.lines().find_map(|l| l.strip_prefix("VmSwap:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_process() {
        assert_eq!(
            vm_swap_kib("Name:\tinit\nVmSwap:\t     120 kB\n"),
            Some(120)
        );
        // A kernel thread has no memory.
        assert_eq!(vm_swap_kib("Name:\tkswapd0\n"), None);
        owned_pages().unwrap();
    }
}
