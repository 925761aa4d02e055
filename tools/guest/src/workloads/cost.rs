// SPDX-License-Identifier: GPL-2.0
//! What the two policies cost in instructions: by themselves, and the split within a real MADV_PAGEOUT.

mod policies;
mod split;

use crate::lab::Lab;
use crate::workload::{Needs, Workload};
use anyhow::{Context, Result, bail};
use results::Clock;
use std::fs;

/// Counts the instructions that the order of a split's children and the decision on deactivation take
///
/// Only in a kernel of the lab with lab/patches/cost.patch, and only under icount: it reads the TSC, which counts
/// instructions there and is checked with a known number of them.
///
/// --measure policies: samples order/N (N children put in order), decide/CASE (inactive_is_low()) and ask/CASE (all of
/// inactive_list_is_low()). Metrics are the implementation and _instructions, the least of some turns: stub puts the
/// children on the list and nothing more, move is the list_move_tail() loop of the RFC; then spread_instructions, how
/// far apart turns are at most; in order/N what C and Rust take of what the loop takes, each without the stub
/// (c_of_move_permille, rust_of_move_permille); in decide/CASE rust_above_c_instructions.
///
/// --measure split: one sample, thp: splits within MADV_PAGEOUT of 8 MiB of THPs to a swap file, disturbed_splits of
/// which an interrupt or another task was part, and of the others least_instructions and median_instructions, from
/// just before to just after the call; all of them as a list.
#[derive(clap::Args)]
pub struct Cost {
    #[arg(long, value_enum, default_value_t = Measure::Policies)]
    measure: Measure,
    /// Times that 8 MiB are paged out
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=500))]
    cycles: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Measure {
    Policies,
    Split,
}

impl Workload for Cost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn needs(&self) -> Needs {
        match self.measure {
            Measure::Policies => Needs {
                thp: true,
                ..Needs::default()
            },
            Measure::Split => split::needs(),
        }
    }

    fn run(&self, lab: &mut Lab) -> Result<()> {
        if lab.clock() != Clock::Icount {
            bail!("the TSC counts instructions only under icount: boot with it");
        }
        match self.measure {
            Measure::Policies => policies::measure(lab),
            Measure::Split => split::measure(lab, self.cycles),
        }
    }
}

/// A file of the lab's kernels alone.
fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| match fs::exists(path) {
        Ok(true) => {
            format!("cannot read {path}: if an order or an answer is wrong, the console says which")
        }
        _ => format!("no {path}: is the arm one with lab/patches/cost.patch, and debugfs mounted?"),
    })
}
