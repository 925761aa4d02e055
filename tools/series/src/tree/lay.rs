// SPDX-License-Identifier: GPL-2.0
//! Lays patches with `git am` and nothing softer, in a scratch worktree holding just the files they touch: a conflict
//! leaves no trace in the tree.

use super::clean::indent;
use super::conflict::conflicts;
use super::kdir::{self, Kdir};
use super::patches::{FOLLOW_UP, files_of, follow_up, patches, prereqs, titles};
use super::short;
use crate::base;
use crate::files::{hex, into_place, name};
use crate::git::{git, line};
use crate::opts::Series;
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
    follow_up: Vec<PathBuf>,
}

impl Plan {
    pub fn of(ctx: &Ctx, kdir: Option<&Kdir>, series: Series) -> Result<Plan> {
        let mut plan = Plan::default();
        if series == Series::All {
            plan.follow_up = follow_up(ctx)?;
            if plan.follow_up.is_empty() {
                say(format!(
                    "{FOLLOW_UP} holds no patch yet: what is committed on top of the series becomes the first"
                ));
            }
        }
        if let Some(k) = kdir.filter(|k| k.has_series) {
            if kdir::has_all(k, &titles(&plan.follow_up)?)? {
                plan.follow_up.clear();
            }
            say(format!(
                "{} already holds the series: used as it is, {} patches applied",
                k.path.display(),
                plan.follow_up.len()
            ));
            return Ok(plan);
        }
        plan.prereqs = prereqs(ctx)?;
        plan.series = patches(ctx)?;
        if kdir.is_some_and(|k| k.has_prereqs) {
            plan.prereqs.clear();
        }
        if plan.series.is_empty() {
            say("patches/ holds no series yet: laying the base and the prerequisites alone");
        }
        Ok(plan)
    }

    fn all(&self) -> Vec<PathBuf> {
        [&self.prereqs[..], &self.series, &self.follow_up].concat()
    }
}

pub struct Laid {
    pub prereq: String,
    /// The last commit of the series, below the follow-up.
    pub core: String,
    pub head: String,
    pub prereqs: usize,
    pub series: usize,
    pub follow_up: usize,
}

pub fn lay(ctx: &Ctx, repo: &Path, base: &str, plan: &Plan) -> Result<Laid> {
    let mut laid = Laid {
        prereq: base.into(),
        core: base.into(),
        head: base.into(),
        prereqs: plan.prereqs.len(),
        series: plan.series.len(),
        follow_up: plan.follow_up.len(),
    };
    let all = plan.all();
    if all.is_empty() {
        return Ok(laid);
    }
    let scratch = Scratch::new(ctx, repo, base, &all)?;
    for (before, patch) in all.iter().enumerate() {
        am(ctx, &scratch.dir(), patch, base, before)?;
        laid.head = line(&scratch.dir(), &["rev-parse", "HEAD"])?;
        if before < laid.prereqs {
            laid.prereq = laid.head.clone();
        }
        if before < laid.prereqs + laid.series {
            laid.core = laid.head.clone();
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
    let Some(places) = conflict_of(dir, patch)? else {
        return Ok(());
    };
    bail!(
        "{} does not apply to {} ({before} patches before it did):\n{}\nThe tree was left as it was. \
         Use a base the series fits (make help names them), or rebase the series.",
        patch.strip_prefix(&ctx.root).unwrap_or(patch).display(),
        short(base),
        indent(&places)
    )
}

/// Applies a patch, or says where it does not.
fn conflict_of(dir: &Path, patch: &Path) -> Result<Option<Vec<String>>> {
    // Zero fuzz (no -C), no three-way merge, and no other input to the hash than the patch.
    let options = [
        "--quiet",
        "--no-3way",
        "--committer-date-is-author-date",
        "--whitespace=nowarn",
    ];
    let out = output(git(dir).arg("am").args(options).arg(patch))?;
    if out.status.success() {
        return Ok(None);
    }
    let said = [&out.stderr[..], &out.stdout[..]].concat();
    Ok(Some(conflicts(
        &String::from_utf8_lossy(&said),
        &String::from_utf8_lossy(&fs::read(patch)?),
    )))
}

/// `patches/follow-up` as it applies on a commit, without a trace in the tree.
pub enum OnTop {
    /// Its last commit.
    Applies(String),
    /// The first patch that does not, and where.
    Conflict(String),
}

pub fn follow_up_on(ctx: &Ctx, repo: &Path, core: &str) -> Result<OnTop> {
    let all = follow_up(ctx)?;
    let scratch = Scratch::new(ctx, repo, core, &all)?;
    for patch in &all {
        if let Some(places) = conflict_of(&scratch.dir(), patch)? {
            return Ok(OnTop::Conflict(format!(
                "{FOLLOW_UP}/{} does not apply on the series at {}:\n{}",
                name(patch),
                short(core),
                indent(&places)
            )));
        }
    }
    line(&scratch.dir(), &["rev-parse", "HEAD"]).map(OnTop::Applies)
}

/// Proves that the series, or the follow-up on top of it, applies to a base of `tools/bases.tsv`, in a repository of
/// just the files they touch.
pub fn check_applies(ctx: &Ctx, name: &str, series: Series) -> Result<String> {
    let base = base::find(ctx, name)?;
    let plan = Plan::of(ctx, None, series)?;
    if plan.all().is_empty() {
        bail!("patches/ holds no patch to apply");
    }
    // One sample for both.
    let files = files_of(&[plan.all(), follow_up(ctx)?].concat())?;
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
    let on_top = match series {
        Series::Core => String::new(),
        Series::All => format!(", then {} of the follow-up", laid.follow_up),
    };
    Ok(format!(
        "{name} ({} {}): {} prerequisites and {} patches{on_top} apply with git am, zero fuzz",
        base.package, base.version, laid.prereqs, laid.series
    ))
}
