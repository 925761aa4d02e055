// SPDX-License-Identifier: GPL-2.0
//! What a workload is to the rest of the program.

use crate::lab::Lab;
use anyhow::Result;

pub trait Workload {
    /// As it stands in every line of the results.
    fn name(&self) -> &'static str;

    /// What the machine must have; asked before anything is changed.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Writes samples; verifies every word of its data and leaves no process, swap or cgroup behind.
    fn run(&self, lab: &mut Lab) -> Result<()>;
}

/// Room a workload takes. Zero is no demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Memory that must be available at the start.
    pub memory_mib: u64,
    /// Room in the directory, for swap files and other files.
    pub disk_mib: u64,
    pub thp: bool,
    /// Cgroup v2 with the memory controller.
    pub memcg: bool,
    pub zram: bool,
    /// The function tracer and tracepoints.
    pub tracing: bool,
}
