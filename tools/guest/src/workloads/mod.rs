// SPDX-License-Identifier: GPL-2.0
//! The workloads, one file each, and the processes they start of this same program.

mod cost;
mod cpus;
mod hotcold;
mod mthp_swpout;
mod nonlinear;
mod pageout;
mod team;
mod thrash;

use crate::workload::Workload;
use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    Pageout(pageout::Pageout),
    Hotcold(hotcold::Hotcold),
    Thrash(thrash::Thrash),
    MthpSwpout(mthp_swpout::MthpSwpout),
    Nonlinear(nonlinear::Nonlinear),
    Cost(cost::Cost),
    /// A process a workload starts, with what it hands it on standard input
    #[command(subcommand, hide = true)]
    Child(Child),
}

/// Processes that workloads start; they write to their parent, not to the results.
#[derive(Subcommand)]
pub enum Child {
    HotcoldReader(hotcold::Reader),
}

impl Command {
    pub fn workload(self) -> Result<Box<dyn Workload>, Child> {
        Ok(match self {
            Command::Pageout(w) => Box::new(w),
            Command::Hotcold(w) => Box::new(w),
            Command::Thrash(w) => Box::new(w),
            Command::MthpSwpout(w) => Box::new(w),
            Command::Nonlinear(w) => Box::new(w),
            Command::Cost(w) => Box::new(w),
            Command::Child(child) => return Err(child),
        })
    }
}

impl Child {
    pub fn run(self) -> Result<()> {
        match self {
            Child::HotcoldReader(reader) => reader.run(),
        }
    }
}
