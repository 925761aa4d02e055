// SPDX-License-Identifier: GPL-2.0
//! The kernel tree: a base commit, the prerequisites, the series.
//!
//! Four refs tell what is what: `refs/series/base`, `refs/series/prereq`, `refs/series/core`, the last commit of the
//! series, and `refs/series/laid`, the same or the last of the follow-up. What the user does on top is theirs: it is
//! never moved, only built.

mod checkout;
mod clean;
mod conflict;
mod core;
mod kdir;
mod lay;
mod patches;
mod source;
mod state;
#[cfg(test)]
pub mod tests;

pub use checkout::checkout;
pub use clean::clean;
pub use core::core_tip;
pub use lay::{OnTop, check_applies, follow_up_on};
pub use patches::{
    FOLLOW_UP, added_by_patches, changes_rust, follow_up, patch_files, patches, prereqs, subject,
    titles,
};
pub use source::{files_with, nth_patch};
pub use state::{complete_refs, laid_series, patches_unchanged, record_export};

use crate::base::{self, Base};
use crate::debian::need_space;
use crate::files::into_place;
use crate::git::{self, git, line};
use crate::opts::{Opts, Series};
use crate::step::{Ctx, Step, capture, output, quote, say};
use anyhow::{Context, Result, bail};
use clean::{indent, own_commits, own_work};
use kdir::Kdir;
use lay::{Plan, lay};
use patches::patches_key;
use state::{State, record};
use std::fs;
use std::path::{Path, PathBuf};

/// A tree that is ready to be built.
#[derive(Clone, Debug)]
pub struct Tree {
    pub dir: PathBuf,
    pub head: String,
    pub base_name: String,
    /// How much of patches/ it holds.
    pub series: Series,
    /// Goes into the names of build folders, so that trees do not share objects: empty for the default one.
    pub tag: String,
}

impl Tree {
    pub fn short(&self) -> &str {
        short(&self.head)
    }
}

fn short(commit: &str) -> &str {
    &commit[..commit.len().min(12)]
}

pub const BASE: &str = "refs/series/base";
pub const PREREQ: &str = "refs/series/prereq";
pub const CORE: &str = "refs/series/core";
pub const LAID: &str = "refs/series/laid";

/// Where a kernel comes from.
enum Source {
    Debian(Base),
    Kdir(Kdir),
}

impl Source {
    fn id(&self) -> String {
        match self {
            Source::Debian(b) => format!("{} {}", b.package, b.version),
            Source::Kdir(k) => k.commit.clone(),
        }
    }

    fn name(&self) -> String {
        match self {
            Source::Debian(b) => b.name.clone(),
            Source::Kdir(k) => format!("{} of {}", short(&k.commit), k.path.display()),
        }
    }
}

/// The folder the tree is in, or will be, and its tag.
pub fn place(ctx: &Ctx, opts: &Opts) -> (PathBuf, String) {
    let (folder, tag) = match (&opts.kdir, opts.base.as_deref()) {
        (Some(_), _) => (ctx.build.join("kdir"), "-kdir".to_string()),
        (None, Some(b)) if b != base::DEFAULT => {
            (ctx.build.join(format!("base-{b}")), format!("-{b}"))
        }
        _ => (ctx.build.clone(), String::new()),
    };
    (folder.join("linux"), tag)
}

/// Lays the tree, or leaves it alone when it is laid already.
pub fn ensure(ctx: &Ctx, opts: &Opts) -> Result<Tree> {
    let source = match (&opts.kdir, &opts.krev, &opts.base) {
        (None, Some(rev), _) => {
            bail!("KREV={rev} names a commit of KDIR: say KDIR=<folder> too")
        }
        (Some(_), _, Some(_)) => {
            bail!("KDIR and BASE both say which kernel to use: give one of them")
        }
        (Some(dir), rev, None) => Source::Kdir(kdir::find(ctx, dir, rev.as_deref())?),
        (None, None, name) => {
            let name = name.as_deref().unwrap_or(base::DEFAULT);
            Source::Debian(base::find(ctx, name)?)
        }
    };
    let (dir, tag) = place(ctx, opts);
    if dir.exists() && git::commit(&dir, BASE)?.is_none() {
        bail!(
            "{} is not a tree this tool laid: move it away, then run again",
            dir.display()
        );
    }
    match &source {
        Source::Debian(base) => debian_tree(ctx, base, &source.id(), &dir)?,
        Source::Kdir(k) => kdir_tree(ctx, k, &dir, opts.series.unwrap_or_default())?,
    }
    complete_refs(&dir)?;
    let series = opts.series.unwrap_or_else(|| laid_series(&dir));
    lay_over(ctx, &source, &dir, series)?;
    Ok(Tree {
        series,
        head: line(&dir, &["rev-parse", "HEAD"])?,
        dir,
        base_name: source.name(),
        tag,
    })
}

/// A tree at the base commit. What is there stays, unless it is another version of the base.
fn debian_tree(ctx: &Ctx, base: &Base, id: &str, dir: &Path) -> Result<()> {
    if dir.exists() {
        let had = State::read(dir).source;
        if had == id {
            return Ok(());
        }
        let work = own_work(dir)?;
        if !work.is_empty() {
            bail!(
                "{} is laid on {had}, wanted is {id}, and it holds work of yours:\n{}\nMove the folder away, then run again.",
                dir.display(),
                indent(&work)
            );
        }
    }
    let temp = ctx.temp("linux")?;
    let new = temp.path().join("linux");
    fs::create_dir(&new)?;
    let commit = base.repository(ctx, &new)?;
    capture(git(&new).args(["update-ref", BASE, &commit]))?;
    let state = State {
        source: id.into(),
        ..State::default()
    };
    state.write(&new)?;
    if dir.exists() {
        fs::rename(dir, temp.path().join("old"))
            .with_context(|| format!("cannot move {}", dir.display()))?;
    }
    into_place(&new, dir)
}

/// A tree that borrows the objects of the user's clone. Laid before it is checked out, which takes long.
fn kdir_tree(ctx: &Ctx, k: &Kdir, dir: &Path, series: Series) -> Result<()> {
    if dir.exists() {
        return kdir::borrow_objects(k, dir);
    }
    need_space(&ctx.build, 2_000_000_000, "the kernel source")?;
    let temp = ctx.temp("kdir")?;
    let new = temp.path().join("linux");
    fs::create_dir(&new)?;
    kdir::init(k, &new)?;
    let laid = lay(ctx, &new, &k.commit, &Plan::of(ctx, Some(k), series)?)?;
    Step::new(ctx, "checkout")
        .run(git(&new).args(["checkout", "--quiet", "-B", "series", &laid.head]))
        .context("is KDIR a partial clone? Then some of its files are not there: fetch them, or use a full clone")?;
    let state = State {
        source: k.commit.clone(),
        patches: patches_key(ctx, series)?,
        series,
    };
    record(&new, &k.commit, &laid, &state)?;
    into_place(&new, dir)
}

/// The commit below the user's own work.
fn laid_or_base(dir: &Path) -> Result<String> {
    match git::commit(dir, LAID)? {
        Some(laid) => Ok(laid),
        None => line(dir, &["rev-parse", BASE]),
    }
}

/// Brings an existing tree to what `patches/` says, unless the user has work there.
fn lay_over(ctx: &Ctx, source: &Source, dir: &Path, series: Series) -> Result<()> {
    let now = State {
        source: source.id(),
        patches: patches_key(ctx, series)?,
        series,
    };
    let was = State::read(dir);
    if was == now {
        let range = format!("{LAID}..HEAD");
        let own = line(dir, &["rev-list", "--count", &range])?;
        let dirty = git::dirt(dir)?.len();
        if own != "0" || dirty > 0 {
            say(format!(
                "{}: left as it is, with {own} commits and {dirty} changed files of your own",
                dir.display()
            ));
        }
        return Ok(());
    }

    let (base, kdir) = match source {
        Source::Kdir(k) => (k.commit.clone(), Some(k)),
        Source::Debian(_) => (line(dir, &["rev-parse", BASE])?, None),
    };
    let new = lay(ctx, dir, &base, &Plan::of(ctx, kdir, series)?)?;
    let head = line(dir, &["rev-parse", "HEAD"])?;
    if head != new.head {
        let before = laid_or_base(dir)?;
        let dirty = git::dirt(dir)?;
        if head != before || !dirty.is_empty() {
            let work = if dirty.is_empty() {
                own_commits(dir, &before)?
            } else {
                dirty
            };
            let why = match was.series == series {
                true => "patches/ (or the base) changed since".to_string(),
                false => format!(
                    "SERIES={} is wanted, SERIES={} is how",
                    series.name(),
                    was.series.name()
                ),
            };
            bail!(
                "{why} {0} was laid, and the tree holds work of yours:\n{1}\n\
                 Nothing was touched. Commit what is in no commit, then\n    \
                 git -C {2} switch --detach {LAID}\nand run again: your branch stays, to be rebased onto the new one.",
                dir.display(),
                indent(&work),
                quote(&dir.display().to_string()),
            );
        }
        // Said before: a run that is killed in between must not take one series for the other.
        let between = State {
            patches: String::new(),
            ..now.clone()
        };
        between.write(dir)?;
        move_to(dir, &new.head, &before)?;
    }
    record(dir, &base, &new, &now)?;
    let on_top = match series {
        Series::Core => String::new(),
        Series::All => format!(", then {} of the follow-up,", new.follow_up),
    };
    say(format!(
        "laid {} prerequisites and {} patches{on_top} on {}",
        new.prereqs,
        new.series,
        source.name()
    ));
    Ok(())
}

/// Files that do not differ keep their time stamps: make rebuilds only what changed.
fn move_to(dir: &Path, head: &str, before: &str) -> Result<()> {
    // Somebody who detached to get out of the way has work on the branch.
    let branch = git::commit(dir, "refs/heads/series")?;
    let on_it = output(git(dir).args(["symbolic-ref", "--quiet", "HEAD"]))?;
    let on_it = String::from_utf8_lossy(&on_it.stdout).trim() == "refs/heads/series";
    if let Some(tip) = branch.filter(|tip| !on_it && tip != before) {
        let saved = format!("series-{}", short(&tip));
        capture(git(dir).args(["branch", "--move", "--force", "series", &saved]))?;
        say(format!("your branch is now called {saved}"));
    }
    capture(git(dir).args(["checkout", "--quiet", "-B", "series", head]))?;
    Ok(())
}
