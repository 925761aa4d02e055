// SPDX-License-Identifier: GPL-2.0
//! What there is to build, as git objects: with or without the follow-up, whatever the tree is laid with.

use super::patches::{FOLLOW_UP, follow_up};
use super::{PREREQ, Tree, core_tip, laid_series};
use crate::files::name;
use crate::git::{git, line};
use crate::opts::Series;
use crate::step::{Ctx, capture, output};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A commit or a git tree. What the tree is laid with is taken as its files are, committed or not, new ones as well.
pub fn files_with(ctx: &Ctx, tree: &Tree, series: Series) -> Result<String> {
    let dir = &tree.dir;
    match (laid_series(dir), series) {
        (Series::All, Series::Core) => core_tip(dir),
        (Series::Core, Series::All) => {
            let patches = follow_up(ctx)?;
            if patches.is_empty() {
                bail!("there is no follow-up: {FOLLOW_UP} holds no patch");
            }
            working_tree(ctx, dir, |index| {
                for patch in &patches {
                    apply(dir, index, patch)?;
                }
                Ok(())
            })
        }
        _ => working_tree(ctx, dir, |_| Ok(())),
    }
}

/// The commit of the nth patch of the series.
pub fn nth_patch(dir: &Path, n: usize) -> Result<String> {
    let commits = super::core::subjects(dir, PREREQ, &core_tip(dir)?)?;
    let nth = n.checked_sub(1).and_then(|i| commits.get(i));
    nth.map(|(commit, _)| commit.clone()).with_context(|| {
        format!(
            "the series in {} has {} patches, and no patch {n}",
            dir.display(),
            commits.len()
        )
    })
}

fn apply(dir: &Path, index: &OsStr, patch: &Path) -> Result<()> {
    let mut cmd = aside(dir, index);
    let out = output(
        cmd.args(["apply", "--cached", "--whitespace=nowarn"])
            .arg(patch),
    )?;
    if !out.status.success() {
        bail!(
            "{FOLLOW_UP}/{} does not apply on what is in {}:\n{}\nRebase it: make tree SERIES=all, then make export.",
            name(patch),
            dir.display(),
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(())
}

fn aside(dir: &Path, index: &OsStr) -> Command {
    let mut cmd = git(dir);
    cmd.env("GIT_INDEX_FILE", index);
    cmd
}

/// The tree's files as they are, and what is done to them in an index of its own. Its own index stays as it is.
fn working_tree(
    ctx: &Ctx,
    dir: &Path,
    on_top: impl FnOnce(&OsStr) -> Result<()>,
) -> Result<String> {
    let temp = ctx.temp("index")?;
    let index = temp.path().join("index");
    // With what it knows of the files already, so that few have to be read.
    let own = line(dir, &["rev-parse", "--git-path", "index"])?;
    fs::copy(dir.join(&own), &index).with_context(|| format!("cannot copy {own}"))?;
    let index = index.as_os_str();
    capture(aside(dir, index).args(["add", "--all"]))?;
    on_top(index)?;
    let written = capture(aside(dir, index).arg("write-tree"))?;
    Ok(written.trim().to_string())
}
