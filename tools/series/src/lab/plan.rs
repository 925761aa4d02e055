// SPDX-License-Identifier: GPL-2.0
//! What is run: the rows of lab/plan.tsv, and the order of their boots.

use super::table;
use crate::step::Ctx;
use anyhow::{Context, Result, bail};
use results::{Clock, Expectation, Iommu, Lru};
use std::fmt;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub name: String,
    pub workload: String,
    pub arms: Vec<String>,
    pub lru: Lru,
    pub clock: Clock,
    pub cpus: u32,
    pub memory_mib: u32,
    pub disk_mib: u32,
    pub device: Device,
    pub iommu: Iommu,
    pub rounds: u32,
    /// How long one boot takes on an emulated CPU, about.
    pub about: Duration,
    /// The arms that `make test` boots too.
    pub in_test: Vec<String>,
    /// More words on the kernel's command line.
    pub kernel: Vec<String>,
    pub args: Vec<String>,
}

/// What the guest's disk is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Device {
    /// `mdts` as the specification has it: a request takes 4 KiB times two to it, or anything when it is 0.
    Nvme {
        mdts: u32,
    },
    VirtioBlk,
}

/// QEMU's own: 512 KiB.
const MDTS: u32 = 7;

impl Device {
    fn parse(text: &str) -> Option<Device> {
        match text {
            "nvme" => Some(Device::Nvme { mdts: MDTS }),
            "virtio-blk" => Some(Device::VirtioBlk),
            other => {
                let mdts = other.strip_prefix("nvme-mdts")?.parse().ok()?;
                // One name for one machine, and no more than QEMU can count.
                (mdts != MDTS && mdts <= 16).then_some(Device::Nvme { mdts })
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Nvme { mdts: MDTS } => f.write_str("nvme"),
            Device::Nvme { mdts } => write!(f, "nvme-mdts{mdts}"),
            Device::VirtioBlk => f.write_str("virtio-blk"),
        }
    }
}

/// One boot of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Boot {
    pub arm: String,
    pub round: u32,
    /// Its place among all boots of the plan.
    pub number: u32,
}

pub fn all(ctx: &Ctx) -> Result<Vec<Plan>> {
    let rows = table::read::<15>(&ctx.root, "lab/plan.tsv")?;
    rows.into_iter().map(|r| row(&r)).collect()
}

fn row(row: &table::Row<15>) -> Result<Plan> {
    let [
        name,
        workload,
        arms,
        lru,
        clock,
        cpus,
        memory,
        disk,
        device,
        iommu,
        rounds,
        about,
        test,
        kernel,
        args,
    ] = &row.cells;
    let number = |what: &str, cell: &str| {
        cell.parse::<u32>()
            .ok()
            .filter(|n| *n > 0)
            .with_context(|| format!("{}: {what} `{cell}` is not a number above 0", row.at))
    };
    let lru = match lru.as_str() {
        "classic" => Lru::Classic,
        "mglru" => Lru::Mglru,
        other => bail!("{}: LRU `{other}`: want classic or mglru", row.at),
    };
    let clock = match clock.as_str() {
        "counts" => Clock::Counts,
        "icount" => Clock::Icount,
        other => bail!("{}: clock `{other}`: want counts or icount", row.at),
    };
    let iommu = match iommu.as_str() {
        "translate" => Iommu::Translate,
        "passthrough" => Iommu::Passthrough,
        "none" => Iommu::None,
        other => bail!(
            "{}: IOMMU `{other}`: want translate, passthrough or none",
            row.at
        ),
    };
    let device = Device::parse(device).with_context(|| {
        format!(
            "{}: device `{device}`: want nvme, nvme-mdts<N> (0 to 16, other than 7) or virtio-blk",
            row.at
        )
    })?;
    let cpus = number("CPUs", cpus)?;
    if clock == Clock::Icount && cpus != 1 {
        bail!(
            "{}: instructions are counted on one CPU alone: with more, the clock of a thread runs on with the others",
            row.at
        );
    }
    let arms = table::words(arms, ',');
    let in_test = table::words(test, ',');
    if let Some(other) = in_test.iter().find(|a| !arms.contains(a)) {
        bail!("{}: in make test `{other}`: not an arm of the row", row.at);
    }
    Ok(Plan {
        name: name.clone(),
        workload: workload.clone(),
        arms,
        lru,
        clock,
        cpus,
        memory_mib: number("memory", memory)?,
        disk_mib: number("disk", disk)?,
        device,
        iommu,
        rounds: number("rounds", rounds)?,
        about: Duration::from_secs(number("seconds", about)?.into()),
        in_test,
        kernel: table::words(kernel, ' '),
        args: table::words(args, ' '),
    })
}

/// The rows asked for: `WORKLOAD` names a workload or one row.
pub fn chosen(ctx: &Ctx, workload: Option<&str>, rounds: Option<u32>) -> Result<Vec<Plan>> {
    let all = all(ctx)?;
    let mut known: Vec<String> = Vec::new();
    for plan in &all {
        for name in [&plan.workload, &plan.name] {
            if !known.contains(name) {
                known.push(name.clone());
            }
        }
    }
    if rounds == Some(0) {
        bail!("ROUNDS must be 1 or more");
    }
    let mut plans: Vec<Plan> = match workload {
        None => all,
        Some(w) => all
            .into_iter()
            .filter(|p| p.workload == w || p.name == w)
            .collect(),
    };
    if plans.is_empty() {
        bail!(
            "no workload or row `{}` in lab/plan.tsv; there are: {}",
            workload.unwrap_or_default(),
            known.join(", ")
        );
    }
    for plan in &mut plans {
        plan.rounds = rounds.unwrap_or(plan.rounds);
    }
    Ok(plans)
}

/// What `make test` runs: one round of some arms.
pub fn quick(ctx: &Ctx) -> Result<Vec<Plan>> {
    let rows = all(ctx)?.into_iter().filter(|p| !p.in_test.is_empty());
    Ok(rows
        .map(|p| Plan {
            arms: p.in_test.clone(),
            rounds: 1,
            ..p
        })
        .collect())
}

/// An expectation of a row or an arm that no plan has would never be checked, and nobody would know.
pub fn every_row_runs(plans: &[Plan], expectations: &[Expectation]) -> Result<()> {
    for row in expectations {
        let plan = plans.iter().find(|p| p.name == row.plan);
        let plan = plan.with_context(|| {
            format!(
                "lab/expect.tsv expects of `{}`, which lab/plan.tsv has not",
                row.plan
            )
        })?;
        if let Some(arm) = row.arms.iter().find(|a| !plan.arms.contains(a)) {
            bail!("lab/expect.tsv: {} does not boot `{arm}`", row.plan);
        }
    }
    Ok(())
}

impl Plan {
    /// The first arm before each of the others, so that a drift of the machine shows as a difference of the first arm
    /// with itself: A B A C A. Counts do not drift, so there each arm boots once a round.
    pub fn boots(&self) -> Vec<Boot> {
        let mut arms = Vec::new();
        for round in 0..self.rounds {
            match (self.clock, &self.arms[..]) {
                (Clock::Icount, [first, others @ ..]) if !others.is_empty() => {
                    for other in others {
                        arms.push((round, first));
                        arms.push((round, other));
                    }
                    if round + 1 == self.rounds {
                        arms.push((round, first));
                    }
                }
                (_, all) => arms.extend(all.iter().map(|a| (round, a))),
            }
        }
        arms.into_iter()
            .zip(0..)
            .map(|((round, arm), number)| Boot {
                arm: arm.clone(),
                round,
                number,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "p\tpageout\tbase,c,rust\tclassic\ticount\t1\t2048\t2048\tnvme\ttranslate\t2\t20\t-\t-\t--pages thp";

    fn parse(text: &str) -> Result<Plan> {
        let cells: Vec<String> = text.split('\t').map(str::to_string).collect();
        row(&table::Row {
            cells: cells.try_into().unwrap(),
            at: "lab/plan.tsv:1".into(),
        })
    }

    #[test]
    fn the_first_arm_is_booted_before_each_other_and_last() {
        let boots = parse(ROW).unwrap().boots();
        let arms: Vec<&str> = boots.iter().map(|b| b.arm.as_str()).collect();
        assert_eq!(
            arms,
            [
                "base", "c", "base", "rust", "base", "c", "base", "rust", "base"
            ]
        );
        assert_eq!(boots[4].round, 1);
        assert_eq!(boots[8].number, 8);
    }

    #[test]
    fn an_expectation_that_nothing_meets_is_named() {
        let plans = [parse(ROW).unwrap()];
        for (text, want) in [
            ("p\t*\tc\tbios\t1\t-\tx", None),
            ("q\t*\tc\tbios\t1\t-\tx", Some("`q`")),
            ("p\t*\tc,cc\tbios\t1\t-\tx", Some("`cc`")),
        ] {
            let rows = Expectation::parse(text).unwrap();
            let got = every_row_runs(&plans, &rows).err().map(|e| e.to_string());
            assert_eq!(got.is_some(), want.is_some(), "{got:?}");
            assert!(got.unwrap_or_default().contains(want.unwrap_or_default()));
        }
    }

    #[test]
    fn counts_need_each_arm_once() {
        let boots = parse(&ROW.replace("icount", "counts")).unwrap().boots();
        assert_eq!(boots.len(), 6);
        let alone = parse(&ROW.replace("base,c,rust", "base")).unwrap().boots();
        assert_eq!(alone.len(), 2);
    }

    #[test]
    fn devices() {
        for text in ["nvme", "nvme-mdts0", "nvme-mdts5", "virtio-blk"] {
            assert_eq!(Device::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn bad_cells_are_named() {
        for (from, to, want) in [
            ("classic", "lru", "LRU `lru`"),
            ("icount", "wall", "clock `wall`"),
            ("icount\t1", "icount\t2", "on one CPU alone"),
            ("\t2048\t2048", "\t0\t2048", "memory `0`"),
            ("\t-\t-\t", "\tblind\t-\t", "`blind`"),
            ("nvme", "nvme-mdts7", "device `nvme-mdts7`"),
            ("nvme", "scsi", "device `scsi`"),
            ("translate", "on", "IOMMU `on`"),
        ] {
            let e = format!("{:#}", parse(&ROW.replacen(from, to, 1)).unwrap_err());
            assert!(e.contains(want) && e.contains("lab/plan.tsv:1"), "{e}");
        }
    }
}
