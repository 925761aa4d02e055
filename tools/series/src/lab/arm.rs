// SPDX-License-Identifier: GPL-2.0
//! The kernels that are compared: the rows of lab/arms.tsv.

use super::table;
use crate::git::{git, line};
use crate::step::{Ctx, capture};
use crate::tree::{PREREQ, Tree};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The base and its prerequisites.
    Prereq,
    /// What is in build/linux, committed or not.
    Series,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    pub name: String,
    pub source: Source,
    /// On top of lab/x86_64.config.
    pub config: Vec<String>,
    /// In lab/patches/, on top of the source.
    pub patches: Vec<String>,
}

pub fn all(ctx: &Ctx) -> Result<Vec<Arm>> {
    table::read::<5>(&ctx.root, "lab/arms.tsv")?
        .into_iter()
        .map(|row| {
            let [name, source, config, patches, _why] = row.cells;
            let source = match source.as_str() {
                "prereq" => Source::Prereq,
                "series" => Source::Series,
                other => bail!("{}: source `{other}`: want prereq or series", row.at),
            };
            Ok(Arm {
                name,
                source,
                config: table::words(&config, ' '),
                patches: table::words(&patches, ' '),
            })
        })
        .collect()
}

/// The arms of these names, in the order of the table: one that shares its source with the next is built beside it.
pub fn named(ctx: &Ctx, names: &[String]) -> Result<Vec<Arm>> {
    let all = all(ctx)?;
    let known: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|n| !known.contains(&n.as_str())) {
        bail!(
            "no arm `{unknown}` in lab/arms.tsv; there are: {}",
            known.join(", ")
        );
    }
    Ok(all
        .into_iter()
        .filter(|a| names.contains(&a.name))
        .collect())
}

impl Arm {
    /// An option of the kernel at large rebuilds it all; the series' own touches a few files.
    pub fn own_objects(&self) -> bool {
        self.config.iter().any(|o| !o.starts_with("CONFIG_VMSCAN_"))
    }

    /// What its patches go on: a commit or a tree. Work in build/linux that is in no commit counts too, new files as
    /// well: it is what gets measured.
    pub fn start(&self, ctx: &Ctx, tree: &Tree) -> Result<String> {
        match self.source {
            Source::Prereq => line(&tree.dir, &["rev-parse", "--verify", PREREQ])
                .context("the tree has no prerequisites ref: make tree lays it"),
            Source::Series => working_tree(ctx, &tree.dir),
        }
    }
}

/// The tree's files as they are, as a git tree. Its index stays as it is.
fn working_tree(ctx: &Ctx, dir: &Path) -> Result<String> {
    let temp = ctx.temp("index")?;
    let index = temp.path().join("index");
    // With what it knows of the files already, so that few have to be read.
    let own = line(dir, &["rev-parse", "--git-path", "index"])?;
    fs::copy(dir.join(&own), &index).with_context(|| format!("cannot copy {own}"))?;
    capture(
        git(dir)
            .env("GIT_INDEX_FILE", &index)
            .args(["add", "--all"]),
    )?;
    let written = capture(git(dir).env("GIT_INDEX_FILE", &index).arg("write-tree"))?;
    Ok(written.trim().to_string())
}
