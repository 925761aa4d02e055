// SPDX-License-Identifier: GPL-2.0
//! lab/reference: the committed copy of a lab: report, plots, tables, and every sample behind them.

use crate::files::into_place;
use crate::step::{self, Ctx};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Files of a lab's folder, and of each of its runs. Consoles and command lines stay behind: they name the machine.
const OF_LAB: &[&str] = &[
    "lab.json",
    "report.md",
    "tables.md",
    "cover.txt",
    "follow-up.txt",
    "policy.rst",
];
const OF_RUN: &[&str] = &["run.json", "results.jsonl"];

/// Copies what is committed; gives the number of runs.
pub fn copy(ctx: &Ctx, lab: &Path) -> Result<usize> {
    // Beside its place: BUILD may be on another disk.
    let temp = step::temp_in(&ctx.root.join("lab"), ".reference")?;
    let new = temp.path().join("new");
    fs::create_dir(&new)?;
    take(lab, &new, OF_LAB)?;
    for plot in fs::read_dir(lab.join("plots")).context("the lab has no plots")? {
        let plot = plot?;
        fs::create_dir_all(new.join("plots"))?;
        fs::copy(plot.path(), new.join("plots").join(plot.file_name()))?;
    }
    let mut runs = 0;
    for run in fs::read_dir(lab.join("runs"))? {
        let run = run?;
        let to = new.join("runs").join(run.file_name());
        fs::create_dir_all(&to)?;
        take(&run.path(), &to, OF_RUN)?;
        runs += 1;
    }
    let place = ctx.root.join("lab/reference");
    if place.exists() {
        fs::rename(&place, temp.path().join("old"))
            .with_context(|| format!("cannot move {}", place.display()))?;
    }
    into_place(&new, &place)?;
    Ok(runs)
}

fn take(from: &Path, to: &Path, names: &[&str]) -> Result<()> {
    for name in names {
        let file = from.join(name);
        fs::copy(&file, to.join(name))
            .with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}
