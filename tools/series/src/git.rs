// SPDX-License-Identifier: GPL-2.0
//! git commands that do the same on every machine: no user configuration, no hooks, fixed names.

use crate::step::{capture, output};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

pub const NAME: &str = "series";
pub const EMAIL: &str = "series@localhost";
/// Commits the tool itself makes carry this date, so that the same input gives the same hash.
pub const DATE: &str = "2026-01-01T00:00:00Z";

/// git in one of our own trees.
pub fn git(dir: &Path) -> Command {
    let mut cmd = plain(dir);
    cmd.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_COMMITTER_NAME", NAME)
        .env("GIT_COMMITTER_EMAIL", EMAIL)
        .args(["-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null"])
        .args(["-c", "core.autocrlf=false", "-c", "core.fsmonitor=false"]);
    cmd
}

/// git in the user's tree: their configuration (safe.directory above all), and no write, not even of the index.
pub fn users(dir: &Path) -> Command {
    let mut cmd = plain(dir);
    cmd.env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1");
    cmd
}

fn plain(dir: &Path) -> Command {
    let mut cmd = Command::new("git");
    cmd.arg("-C")
        .arg(dir)
        .env("GIT_EDITOR", "true")
        .env("GIT_PAGER", "cat")
        .env("GIT_TERMINAL_PROMPT", "0");
    cmd
}

/// The trimmed output of a git command in one of our trees.
pub fn line(dir: &Path, args: &[&str]) -> Result<String> {
    Ok(capture(git(dir).args(args))?.trim().to_string())
}

/// The commit a name stands for, if any.
pub fn commit(dir: &Path, name: &str) -> Result<Option<String>> {
    let spec = format!("{name}^{{commit}}");
    let out = output(git(dir).args(["rev-parse", "--verify", "--quiet", &spec]))?;
    let hash = String::from_utf8_lossy(&out.stdout).trim().to_string();
    Ok((out.status.success() && !hash.is_empty()).then_some(hash))
}

/// Tracked files with changes that are in no commit.
pub fn dirt(dir: &Path) -> Result<Vec<String>> {
    let out = capture(git(dir).args(["status", "--porcelain", "--untracked-files=no"]))?;
    Ok(out.lines().map(str::to_string).collect())
}

/// Whether a git question is answered with yes.
pub fn output_ok(dir: &Path, args: &[&str]) -> Result<bool> {
    Ok(output(git(dir).args(args))?.status.success())
}
