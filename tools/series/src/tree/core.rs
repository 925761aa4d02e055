// SPDX-License-Identifier: GPL-2.0
//! Where the series ends and the follow-up begins, in a tree that holds both.

use super::{CORE, LAID, PREREQ, laid_series};
use crate::git::{self, git, line};
use crate::opts::Series;
use crate::step::{capture, quote};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// The last commit of the series proper.
///
/// A tree laid without the follow-up is the series as a whole. In one with it, the series ends where it did, at
/// refs/series/core; after a rebase that changed one of its commits, at the one commit with the subject that ref's
/// has. Nothing else is guessed.
pub fn core_tip(dir: &Path) -> Result<String> {
    let head = line(dir, &["rev-parse", "HEAD"])?;
    if laid_series(dir) == Series::Core {
        return Ok(head);
    }
    let core = git::commit(dir, CORE)?
        .with_context(|| format!("{} has no {CORE}: make tree sets it", dir.display()))?;
    if git::output_ok(dir, &["merge-base", "--is-ancestor", &core, &head])? {
        return Ok(core);
    }
    let say_which = format!(
        "Say which commit is the last one of the series now:\n    git -C {} update-ref {CORE} <commit>",
        quote(&dir.display().to_string())
    );
    let last = line(dir, &["log", "-1", "--format=%s", &core])?;
    let now = subjects(dir, PREREQ, &head)?;
    let same: Vec<&(String, String)> = now.iter().filter(|(_, s)| *s == last).collect();
    let [(tip, _)] = same[..] else {
        bail!(
            "{}: the series ended with `{last}`, and {} commits have this subject now. {say_which}",
            dir.display(),
            same.len()
        );
    };
    // A commit that changed sides was not meant to.
    let above = subjects(dir, tip, &head)?;
    let below = subjects(dir, PREREQ, tip)?;
    let (was_core, was_above) = (subjects(dir, PREREQ, &core)?, subjects(dir, &core, LAID)?);
    for (side, then, name) in [
        (
            &above,
            &was_core,
            "the series, and would now be of the follow-up",
        ),
        (
            &below,
            &was_above,
            "the follow-up, and would now be of the series",
        ),
    ] {
        if let Some((commit, subject)) = side.iter().find(|(_, s)| then.iter().any(|(_, t)| t == s))
        {
            bail!(
                "{}: {} {subject}\nwas of {name}: put it back in its place. Or: {say_which}",
                dir.display(),
                super::short(commit)
            );
        }
    }
    Ok(tip.clone())
}

/// Commits and their subjects, the oldest first.
pub fn subjects(dir: &Path, from: &str, to: &str) -> Result<Vec<(String, String)>> {
    let range = format!("{from}..{to}");
    let text = capture(git(dir).args(["log", "--reverse", "--format=%H %s", &range]))?;
    let lines = text.lines().filter_map(|l| l.split_once(' '));
    Ok(lines.map(|(c, s)| (c.into(), s.into())).collect())
}
