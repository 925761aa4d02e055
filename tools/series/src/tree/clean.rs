// SPDX-License-Identifier: GPL-2.0
//! `make clean`, and what a tree holds that is nowhere else.

use super::{BASE, laid_or_base};
use crate::files::name;
use crate::git::{self, git};
use crate::lock;
use crate::step::{Ctx, capture, say};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

/// What would be lost with the tree.
pub fn own_work(dir: &Path) -> Result<Vec<String>> {
    let out = capture(git(dir).args(["status", "--porcelain"]))?;
    let mut work: Vec<String> = out.lines().map(str::to_string).collect();
    work.extend(own_commits(dir, &laid_or_base(dir)?)?);
    Ok(work)
}

/// Commits of any branch or tag, of HEAD and of the stash that the tool did not lay.
pub fn own_commits(dir: &Path, laid: &str) -> Result<Vec<String>> {
    let text = capture(git(dir).args([
        "log",
        "--format=%h %s",
        "--max-count=20",
        "HEAD",
        "--exclude=refs/series/*",
        "--all",
        "--not",
        laid,
    ]))?;
    Ok(text.lines().map(str::to_string).collect())
}

pub fn indent(lines: &[String]) -> String {
    let mut out: Vec<String> = lines.iter().take(20).map(|l| format!("    {l}")).collect();
    if lines.len() > 20 {
        out.push(format!("    … and {} more", lines.len() - 20));
    }
    out.join("\n")
}

/// Removes what was built; a tree with work of the user's stays, and says so.
pub fn clean(ctx: &Ctx) -> Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(&ctx.build)?.flatten() {
        let path = entry.path();
        // What was measured took hours, and nothing else holds it.
        if [lock::FILE, "lab"].contains(&name(&path).as_str()) {
            continue;
        }
        let trees = [path.clone(), path.join("linux")];
        if let Some(tree) = trees.iter().find(|t| t.join(".git").exists()) {
            let work = match git::commit(tree, BASE)? {
                Some(_) => own_work(tree)?,
                None => vec!["not laid by this tool".into()],
            };
            if !work.is_empty() {
                kept.push(format!("{}:\n{}", tree.display(), indent(&work)));
                continue;
            }
        }
        remove(&path)?;
    }
    say(format!(
        "removed what was built in {0} (results of make lab stay in {0}/lab, downloads in {1})",
        ctx.build.display(),
        ctx.cache.display()
    ));
    if !kept.is_empty() {
        bail!(
            "kept, since it holds work that is nowhere else:\n{}\n`make export`, or remove it by hand",
            kept.join("\n")
        );
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    if path.symlink_metadata()?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
    .with_context(|| format!("cannot remove {}", path.display()))
}
