// SPDX-License-Identifier: GPL-2.0
//! How many pieces the emulation of remap_file_pages() can have: each is a VMA, of which a process has so many.

use super::{layout, shared_memory};
use crate::lab::Lab;
use crate::map::Map;
use crate::mem::PAGE;
use anyhow::{Context, Result};
use rustix::mm::ProtFlags;
use std::fs;

/// Where a limit is not looked for any further; the kernel's default is 65530.
const ENOUGH: usize = 1 << 18;

/// Cuts a mapping into single pages in reverse order until the kernel refuses, and reports it. How many it got.
pub fn measure(lab: &mut Lab) -> Result<usize> {
    let limit = known();
    let tries = limit.map_or(ENOUGH, |l| (l + 1024).min(ENOUGH));
    let memory = shared_memory(tries)?;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // Untouched, it takes no memory but that of its VMAs.
    let map = Map::shared(&memory, 0..(tries * PAGE) as u64, prot)?;
    let mut pieces = 0;
    while pieces < tries {
        match layout::remap(&map, pieces, 1, tries - 1 - pieces) {
            Ok(()) => pieces += 1,
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) => break,
            Err(e) => {
                return Err(e).context("remap_file_pages() failed, and not for lack of mappings");
            }
        }
    }
    let met = pieces < tries;
    lab.say(if met {
        format!("remap_file_pages(): the kernel refused after {pieces} pieces (vm.max_map_count)")
    } else {
        format!("remap_file_pages(): no limit met with {pieces} pieces")
    });
    let values = [
        ("pieces", pieces as i64),
        ("limit", limit.unwrap_or(0) as i64),
        ("limit_met", met.into()),
    ];
    lab.sample("map-limit", 0, &values)?;
    Ok(pieces)
}

/// Not readable in a kernel without PROC_SYSCTL.
fn known() -> Option<usize> {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    text.trim().parse().ok()
}
