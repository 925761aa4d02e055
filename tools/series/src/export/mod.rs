// SPDX-License-Identifier: GPL-2.0
//! `make export`: the commits become `patches/` and the view again. The commits are the truth; nobody edits a patch.

mod commits;
mod compare;
mod cover;
mod picture;
mod write;

pub use commits::touched;

use crate::git::{self, git};
use crate::opts::{Opts, Series};
use crate::step::{self, Ctx, say};
use crate::tree::{self, BASE, FOLLOW_UP, LAID, OnTop, PREREQ};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the series' new files are shown at their in-tree paths.
const VIEW: &[&str] = &["Documentation", "include", "mm", "rust"];
const COVER: &str = "patches/0000-cover-letter.patch";
const FOLLOW_UP_COVER: &str = "patches/follow-up/0000-cover-letter.patch";

/// What `patches/` and the view should be, by path in the repository.
struct Wanted {
    patches: BTreeMap<String, String>,
    view: BTreeMap<String, Vec<u8>>,
    /// The last commit of the series.
    core: String,
    /// Whether the follow-up is among the patches; if not, that of the repository is left alone.
    follow_up: bool,
}

pub fn run(ctx: &Ctx, opts: &Opts, check: bool) -> Result<()> {
    let (dir, tag) = tree::place(ctx, opts);
    if !tag.is_empty() {
        bail!(
            "patches/ is written from the default tree alone, so that its line numbers stay the same.\n\
             Bring your commits there: {} format-patch --stdout {LAID}.. | git -C {} am",
            git_hint(&dir),
            step::quote(&ctx.build.join("linux").display().to_string())
        );
    }
    if check {
        tree::ensure(ctx, opts)?;
    } else if git::commit(&dir, LAID).ok().flatten().is_none() {
        bail!(
            "there is no tree in {} yet: `make tree` lays it",
            dir.display()
        );
    }
    as_laid(&dir, opts.series)?;
    compared(ctx, &dir, check)
}

/// An export takes the tree as it is.
fn as_laid(dir: &Path, wanted: Option<Series>) -> Result<()> {
    let laid = tree::laid_series(dir);
    if let Some(series) = wanted.filter(|s| *s != laid) {
        bail!(
            "{} is laid with SERIES={}, and an export takes it as it is: leave SERIES out, or `make tree SERIES={}` first",
            dir.display(),
            laid.name(),
            series.name()
        );
    }
    Ok(())
}

fn compared(ctx: &Ctx, dir: &Path, check: bool) -> Result<()> {
    commits::sound(dir)?;
    tree::complete_refs(dir)?;
    not_mixed(ctx, dir)?;
    let core = tree::core_tip(dir)?;
    let all = tree::laid_series(dir) == Series::All;
    let above = match all {
        true => Ok(Some(git::line(dir, &["rev-parse", "HEAD"])?)),
        false => beside(ctx, dir, &core)?,
    };
    if !check {
        let top = above.as_ref().ok().and_then(Option::as_deref);
        write::write(ctx, dir, &wanted(ctx, dir, &core, top.filter(|_| all))?)?;
        if !all {
            say_of_follow_up(ctx, dir, &core, &above)?;
        }
        return picture::draw(ctx);
    }
    let mut wrong = Vec::new();
    let top = above.unwrap_or_else(|conflict| {
        wrong.push(conflict);
        None
    });
    let differ = compare::differences(ctx, &wanted(ctx, dir, &core, top.as_deref())?)?;
    let of_series = differ.iter().any(|w| !w.starts_with(FOLLOW_UP));
    let next = match (all, of_series, wrong.is_empty()) {
        (true, ..) | (_, true, true) => "`make export` writes them",
        (_, _, false) => "`make export` writes the series, and says what the follow-up needs",
        _ => "`make tree SERIES=all`, then `make export` writes the follow-up",
    };
    wrong.extend(differ);
    wrong.extend(picture::stale(ctx)?);
    if !wrong.is_empty() {
        bail!(
            "patches/, the view and {} disagree:\n    {}\n{next}",
            dir.display(),
            wrong.join("\n    ")
        );
    }
    say(format!("patches/, the view and {} agree", dir.display()));
    Ok(())
}

/// The last commit of `patches/follow-up` on a tree that is laid without it, or the conflict.
fn beside(ctx: &Ctx, dir: &Path, core: &str) -> Result<Result<Option<String>, String>> {
    if tree::follow_up(ctx)?.is_empty() {
        return Ok(Ok(None));
    }
    Ok(match tree::follow_up_on(ctx, dir, core)? {
        OnTop::Applies(tip) => Ok(Some(tip)),
        OnTop::Conflict(text) => Err(text),
    })
}

/// What an export of the series alone leaves to be done.
fn say_of_follow_up(
    ctx: &Ctx,
    dir: &Path,
    core: &str,
    above: &Result<Option<String>, String>,
) -> Result<()> {
    match above {
        Ok(None) => {}
        Ok(Some(tip)) => {
            let differ = compare::differences(ctx, &wanted(ctx, dir, core, Some(tip))?)?;
            say(match differ.is_empty() {
                true => format!("{FOLLOW_UP} applies on top, as it is"),
                false => format!(
                    "{FOLLOW_UP} applies on top; `make tree SERIES=all`, then `make export` renews its lines"
                ),
            });
        }
        Err(conflict) => say(format!(
            "{conflict}\n{FOLLOW_UP} was left as it is, and has to be rebased: move its patches aside, not its cover \
             letter; `make tree SERIES=all`; `{} am -3` them; `make export`",
            git_hint(dir)
        )),
    }
    Ok(())
}

/// Commits of the follow-up in a tree that is laid without it would become part of the series.
fn not_mixed(ctx: &Ctx, dir: &Path) -> Result<()> {
    if tree::laid_series(dir) == Series::All {
        return Ok(());
    }
    let titles = tree::titles(&tree::follow_up(ctx)?)?;
    let log = git::line(dir, &["log", "--format=%s", &format!("{PREREQ}..HEAD")])?;
    if let Some(found) = log.lines().find(|s| titles.iter().any(|t| t == s)) {
        bail!(
            "{} is laid without the follow-up, and holds a commit of it:\n    {found}\n\
             An export would make it part of the series. Put your commits on a branch, `make tree SERIES=all`, \
             and bring them there.",
            dir.display()
        );
    }
    Ok(())
}

/// For messages: how to look at the tree with git.
fn git_hint(dir: &Path) -> String {
    step::shown(Command::new("git").arg("-C").arg(dir))
}

/// `top`: the last commit of the follow-up, if that is wanted too.
fn wanted(ctx: &Ctx, dir: &Path, core: &str, top: Option<&str>) -> Result<Wanted> {
    let temp = ctx.temp("export")?;
    let series = temp.path().join("patches");
    commits::format(
        dir,
        &format!("{PREREQ}..{core}"),
        "RFC PATCH",
        true,
        &series,
    )?;
    let prereqs = series.join("for-v7.3");
    commits::format(
        dir,
        &format!("{BASE}..{PREREQ}"),
        "PATCH for-v7.3",
        false,
        &prereqs,
    )?;
    let above = top.filter(|top| *top != core);
    if let Some(top) = above {
        let out = temp.path().join(FOLLOW_UP);
        commits::format(dir, &format!("{core}..{top}"), "RFC PATCH", true, &out)?;
    } else if top.is_some() && !tree::patch_files(&ctx.root.join(FOLLOW_UP))?.is_empty() {
        bail!(
            "{} holds no commit of the follow-up, so an export would remove {FOLLOW_UP}. If that is meant, remove it \
             by hand.",
            dir.display()
        );
    }
    let mut wanted = Wanted {
        patches: compare::patches(temp.path(), above.is_some())?,
        view: BTreeMap::new(),
        core: core.into(),
        follow_up: top.is_some(),
    };
    if !wanted.patches.contains_key(COVER) {
        bail!(
            "{} holds no commit after the prerequisites: nothing to export",
            dir.display()
        );
    }
    for name in [COVER, FOLLOW_UP_COVER] {
        let Some(fresh) = wanted.patches.get_mut(name) else {
            continue;
        };
        let old = fs::read_to_string(ctx.root.join(name)).ok();
        *fresh = cover::cover(name, old.as_deref(), fresh)?;
        if commits::signed_off(fresh) {
            bail!("{name} has a Signed-off-by: the sender adds it when sending, take it out here");
        }
    }
    for path in commits::added(dir, core)?
        .into_iter()
        .filter(|p| in_view(p))
    {
        let out = step::output(git(dir).args(["cat-file", "blob", &format!("{core}:{path}")]))?;
        wanted.view.insert(path, out.stdout);
    }
    Ok(wanted)
}

fn in_view(path: &str) -> bool {
    path.split_once('/')
        .is_some_and(|(top, _)| VIEW.contains(&top))
}

#[cfg(test)]
mod tests;
