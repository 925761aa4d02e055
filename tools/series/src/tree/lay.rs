// SPDX-License-Identifier: GPL-2.0
//! Lays patches with `git am` and nothing softer, in a scratch worktree holding just the files they touch: a conflict
//! leaves no trace in the tree.

use super::clean::indent;
use super::conflict::conflicts;
use super::kdir::Kdir;
use super::patches::{files_of, patches, prereqs};
use super::short;
use crate::base;
use crate::files::{hex, into_place};
use crate::git::{git, line};
use crate::step::{Ctx, capture, output, say};
use anyhow::{Result, bail};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// What to lay.
#[derive(Default)]
pub struct Plan {
    prereqs: Vec<PathBuf>,
    series: Vec<PathBuf>,
}

impl Plan {
    pub fn of(ctx: &Ctx, kdir: Option<&Kdir>) -> Result<Plan> {
        if let Some(k) = kdir.filter(|k| k.has_series) {
            say(format!(
                "{} already holds the series: used as it is, nothing applied",
                k.path.display()
            ));
            return Ok(Plan::default());
        }
        let mut plan = Plan {
            prereqs: prereqs(ctx)?,
            series: patches(ctx)?,
        };
        if kdir.is_some_and(|k| k.has_prereqs) {
            plan.prereqs.clear();
        }
        if plan.series.is_empty() {
            say("patches/ holds no series yet: laying the base and the prerequisites alone");
        }
        Ok(plan)
    }

    fn all(&self) -> Vec<PathBuf> {
        [&self.prereqs[..], &self.series].concat()
    }
}

pub struct Laid {
    pub prereq: String,
    pub head: String,
    pub prereqs: usize,
    pub series: usize,
}

pub fn lay(ctx: &Ctx, repo: &Path, base: &str, plan: &Plan) -> Result<Laid> {
    let mut laid = Laid {
        prereq: base.into(),
        head: base.into(),
        prereqs: plan.prereqs.len(),
        series: plan.series.len(),
    };
    let all = plan.all();
    if all.is_empty() {
        return Ok(laid);
    }
    let scratch = Scratch::new(ctx, repo, base, &all)?;
    for (before, patch) in all.iter().enumerate() {
        am(ctx, &scratch.dir(), patch, base, before)?;
        laid.head = line(&scratch.dir(), &["rev-parse", "HEAD"])?;
        if before + 1 == laid.prereqs {
            laid.prereq = laid.head.clone();
        }
    }
    Ok(laid)
}

struct Scratch<'a> {
    repo: &'a Path,
    temp: tempfile::TempDir,
}

impl<'a> Scratch<'a> {
    fn new(ctx: &Ctx, repo: &'a Path, base: &str, patches: &[PathBuf]) -> Result<Self> {
        // A killed run may have left one.
        capture(git(repo).args(["worktree", "prune"]))?;
        let scratch = Scratch {
            repo,
            temp: ctx.temp("lay")?,
        };
        let dir = scratch.dir();
        let add = ["worktree", "add", "--quiet", "--no-checkout", "--detach"];
        capture(git(repo).args(add).arg(&dir).arg(base))?;
        let files = files_of(patches)?.touched;
        let patterns = files.iter().map(|f| format!("/{f}"));
        let sparse = ["sparse-checkout", "set", "--no-cone"];
        capture(git(&dir).args(sparse).args(patterns))?;
        capture(git(&dir).args(["read-tree", "-m", "-u", "HEAD"]))?;
        Ok(scratch)
    }

    fn dir(&self) -> PathBuf {
        self.temp.path().join("lay")
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // Also after Ctrl-C, so not through the helpers that stop then.
        let remove = ["worktree", "remove", "--force"];
        let _ = git(self.repo).args(remove).arg(self.dir()).output();
    }
}

fn am(ctx: &Ctx, dir: &Path, patch: &Path, base: &str, before: usize) -> Result<()> {
    // Zero fuzz (no -C), no three-way merge, and no other input to the hash than the patch.
    let options = [
        "--quiet",
        "--no-3way",
        "--committer-date-is-author-date",
        "--whitespace=nowarn",
    ];
    let out = output(git(dir).arg("am").args(options).arg(patch))?;
    if out.status.success() {
        return Ok(());
    }
    let said = [&out.stderr[..], &out.stdout[..]].concat();
    let places = conflicts(
        &String::from_utf8_lossy(&said),
        &String::from_utf8_lossy(&fs::read(patch)?),
    );
    bail!(
        "{} does not apply to {} ({before} patches before it did):\n{}\nThe tree was left as it was. \
         Use a base the series fits (make help names them), or rebase the series.",
        patch.strip_prefix(&ctx.root).unwrap_or(patch).display(),
        short(base),
        indent(&places)
    )
}

/// Proves that the series applies to a base of `tools/bases.tsv`, in a repository of just the files it touches.
pub fn check_applies(ctx: &Ctx, name: &str) -> Result<String> {
    let base = base::find(ctx, name)?;
    let plan = Plan::of(ctx, None)?;
    let all = plan.all();
    if all.is_empty() {
        bail!("patches/ holds no patch to apply");
    }
    let files = files_of(&all)?;
    let old: Vec<String> = files.touched.difference(&files.added).cloned().collect();
    let key = &hex(&Sha256::digest(format!("{base:?} {old:?}")))[..16];
    let dir = ctx.build.join("sample").join(format!("{name}-{key}"));
    if !dir.exists() {
        let temp = ctx.temp("sample")?;
        let new = temp.path().join("linux");
        fs::create_dir(&new)?;
        base.sample(ctx, &new, &old)?;
        into_place(&new, &dir)?;
    }
    let commit = line(&dir, &["rev-parse", "HEAD"])?;
    let laid = lay(ctx, &dir, &commit, &plan)?;
    Ok(format!(
        "{name} ({} {}): {} prerequisites and {} patches apply with git am, zero fuzz",
        base.package, base.version, laid.prereqs, laid.series
    ))
}
