// SPDX-License-Identifier: GPL-2.0
//! What is checked about the patches and the source of the series before a kernel boots.

pub mod mail;
pub mod panic;
pub mod rust;

use anyhow::{Result, bail};

/// A check that lists what it found fails when that is anything.
pub fn none(found: Vec<String>) -> Result<()> {
    if found.is_empty() {
        Ok(())
    } else {
        bail!("{}", found.join("\n"))
    }
}
