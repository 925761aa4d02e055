// SPDX-License-Identifier: GPL-2.0
//! The commits of the tree: whether they can be mailed, as patches, and what files they touch.

use super::git_hint;
use crate::git::{self, git, line};
use crate::step::{Ctx, capture};
use crate::tree::{BASE, PREREQ, Tree};
use anyhow::{Result, bail};
use std::path::Path;

/// Refuses what would lose something or make a series nobody can send.
pub fn sound(dir: &Path) -> Result<()> {
    let hint = git_hint(dir);
    for state in [
        "rebase-merge",
        "rebase-apply",
        "CHERRY_PICK_HEAD",
        "BISECT_LOG",
    ] {
        if dir.join(".git").join(state).exists() {
            bail!(
                "{} is in the middle of something (.git/{state}): finish or abort it, see `{hint} status`",
                dir.display()
            );
        }
    }
    let dirty = capture(git(dir).args(["status", "--porcelain"]))?;
    if !dirty.is_empty() {
        bail!(
            "{} has changes in no commit:\n{dirty}Commit them (`{hint} commit -a --fixup=<commit>`), or stash them.",
            dir.display()
        );
    }
    if !git::output_ok(dir, &["merge-base", "--is-ancestor", PREREQ, "HEAD"])? {
        bail!(
            "HEAD of {} does not hold the last prerequisite, {}. If you changed the prerequisites, say which is the last one now:\n    \
             {hint} update-ref {PREREQ} <commit>",
            dir.display(),
            line(dir, &["rev-parse", "--short=12", PREREQ])?
        );
    }
    let range = format!("{BASE}..HEAD");
    let merges = line(dir, &["log", "--merges", "--format=%h %s", &range])?;
    if !merges.is_empty() {
        bail!("merges cannot be mailed:\n{merges}");
    }
    let log = line(dir, &["log", "--reverse", "--format=%h %s%n%B%x01", &range])?;
    for commit in log.split('\u{1}').map(str::trim) {
        let (title, body) = commit.split_once('\n').unwrap_or_default();
        let subject = title.split_once(' ').map_or("", |(_, s)| s);
        if ["fixup!", "squash!", "amend!"]
            .iter()
            .any(|m| subject.starts_with(m))
        {
            bail!("{title}\nis still to be folded in: {hint} rebase -i --autosquash {PREREQ}");
        }
        if signed_off(body) {
            bail!(
                "{title}\nhas a Signed-off-by: the sender adds it when sending, take it out here"
            );
        }
    }
    Ok(())
}

pub fn signed_off(text: &str) -> bool {
    text.lines().any(|l| {
        l.trim_start()
            .to_ascii_lowercase()
            .starts_with("signed-off-by:")
    })
}

/// As mail in `out`. The user's configuration has no say, see [`git`].
pub fn format(dir: &Path, range: &str, prefix: &str, cover: bool, out: &Path) -> Result<()> {
    let mut cmd = git(dir);
    cmd.args(["format-patch", "--quiet", "--zero-commit", "--no-signature"])
        .args(["--abbrev=12", "--numbered"])
        .arg(format!("--subject-prefix={prefix}"));
    if cover {
        cmd.args(["--cover-letter", "--cover-from-description=none"]);
    }
    capture(cmd.arg("-o").arg(out).arg(range)).map(drop)
}

/// In-tree paths of the files the series adds.
pub fn added(dir: &Path, core: &str) -> Result<Vec<String>> {
    names(dir, &["--diff-filter=A"], core)
}

/// In-tree paths of all files that what is laid touches.
pub fn touched(_ctx: &Ctx, tree: &Tree) -> Result<Vec<String>> {
    names(&tree.dir, &[], "HEAD")
}

fn names(dir: &Path, filter: &[&str], to: &str) -> Result<Vec<String>> {
    let mut cmd = git(dir);
    cmd.args(["diff", "--name-only", "--no-renames", "-z"])
        .args(filter)
        .args([PREREQ, to]);
    let names = capture(&mut cmd)?;
    Ok(names.split_terminator('\0').map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_offs_are_seen() {
        assert!(signed_off("x\n\n Signed-off-by: A <a@b>\n"));
        assert!(!signed_off(
            "the Signed-off-by: line is added by the sender\n"
        ));
    }
}
