// SPDX-License-Identifier: GPL-2.0
//! Splits of THPs within MADV_PAGEOUT, as the kernel notes them.

use crate::lab::Lab;
use crate::mem::{Advice, PAGE, PMD, Region};
use crate::vm::VmStat;
use crate::workload::Needs;
use crate::workloads::cpus;
use crate::workloads::team::{Order, Team};
use crate::{clock, pagemap};
use anyhow::{Context, Result, bail};

const FILE: &str = "/sys/kernel/debug/vmscan_split";
const MIB: u64 = 8;
const SWAP_MIB: u64 = 8 * MIB;

/// One split.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    instructions: i64,
    /// Interrupts and task switches meanwhile.
    others: i64,
}

pub fn needs() -> Needs {
    Needs {
        memory_mib: 4 * MIB + 64,
        disk_mib: SWAP_MIB + 16,
        thp: true,
        ..Needs::default()
    }
}

pub fn measure(lab: &mut Lab, cycles: u32) -> Result<()> {
    let (_, before) = parse(&super::read(FILE)?)?;
    page_out(lab, cycles)?;
    let (nothing, mut splits) = parse(&super::read(FILE)?)?;
    splits.drain(..before.len());
    let expected = cycles as usize * (MIB << 20) as usize / PMD;
    if splits.len() != expected {
        bail!(
            "{FILE} has {} splits where {expected} THPs were paged out",
            splits.len()
        );
    }
    let quiet = quiet(nothing, &splits);
    let (Some(least), Some(median)) = (quiet.first(), quiet.get(quiet.len() / 2)) else {
        bail!("an interrupt or another task was part of each of {expected} splits");
    };
    let values = [
        ("splits", splits.len() as i64),
        ("disturbed_splits", (splits.len() - quiet.len()) as i64),
        ("least_instructions", *least),
        ("median_instructions", *median),
    ];
    lab.sample_with_lists("thp", 0, &values, &[("split_instructions", &quiet)])
}

fn page_out(lab: &mut Lab, cycles: u32) -> Result<()> {
    let swap = lab.swap_file(SWAP_MIB)?;
    let mut region = Region::new((MIB as usize) << 20, PMD)?;
    region.advise(Advice::HugePage)?;
    let span = region.span();
    let cpus = cpus::choose(&[], 1)?;
    let verified = std::thread::scope(|scope| {
        let team = Team::start(scope, &mut region, &cpus)?;
        let mut verified = 0;
        for seed in 0..u64::from(cycles) {
            team.all(Order::Fill(seed))?;
            team.all(Order::Collapse)?;
            let pages = pagemap::of(None, span.clone())?;
            pagemap::are_thps(&pages, PMD / PAGE).context("after MADV_COLLAPSE")?;
            team.all(Order::PageOut)?;
            written()?;
            verified += team.all(Order::Verify(seed))?;
        }
        anyhow::Ok(verified)
    })?;
    lab.verified(verified);
    drop(region);
    swap.finish()
}

/// What is still being written would be waited for, or interrupt, in the next cycle.
fn written() -> Result<()> {
    for _ in 0..500 {
        clock::nap(20);
        if VmStat::now()?.get("nr_writeback")? == 0 {
            return Ok(());
        }
    }
    bail!("pages are still being written after 10 s")
}

/// The first line is what measuring takes by itself; the splits.
fn parse(text: &str) -> Result<(i64, Vec<Split>)> {
    let mut splits = text.lines().map(|line| {
        let numbers = line
            .split_once(' ')
            .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (instructions, others) =
            numbers.with_context(|| format!("{FILE}: `{line}` is not two numbers"))?;
        Ok(Split {
            instructions,
            others,
        })
    });
    let nothing: Result<Split> = splits
        .next()
        .with_context(|| format!("{FILE} is empty: it begins with what measuring takes"))?;
    let splits: Result<Vec<Split>> = splits.collect();
    Ok((nothing?.instructions, splits?))
}

/// Instructions of those that nothing interrupted, in ascending order.
fn quiet(nothing: i64, splits: &[Split]) -> Vec<i64> {
    let mut quiet: Vec<i64> = splits
        .iter()
        .filter(|s| s.others == 0)
        .map(|s| s.instructions - nothing)
        .collect();
    quiet.sort_unstable();
    quiet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_interrupted_counts() {
        let (nothing, splits) = parse("20 0\n1050 0\n9999 1\n1020 0\n").unwrap();
        assert_eq!((nothing, splits.len()), (20, 3));
        assert_eq!(quiet(nothing, &splits), [1000, 1030]);
    }

    #[test]
    fn bad_files_are_named() {
        for (bad, want) in [
            ("", "is empty"),
            ("20 0\n10\n", "`10`"),
            ("20 0\nx 1\n", "`x 1`"),
        ] {
            let e = format!("{:#}", parse(bad).unwrap_err());
            assert!(e.contains(want), "{e}");
        }
    }
}
