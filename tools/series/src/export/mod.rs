// SPDX-License-Identifier: GPL-2.0
//! `make export`: the commits become `patches/` and the view again. The commits are the truth; nobody edits a patch.

mod commits;
mod compare;
mod cover;
mod write;

pub use commits::touched;

use crate::git::{self, git};
use crate::opts::Opts;
use crate::step::{self, Ctx, say};
use crate::tree::{self, BASE, LAID, PREREQ};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the series' new files are shown at their in-tree paths.
const VIEW: &[&str] = &["Documentation", "include", "mm", "rust"];
const COVER: &str = "patches/0000-cover-letter.patch";

/// What `patches/` and the view should be, by path in the repository.
struct Wanted {
    patches: BTreeMap<String, String>,
    view: BTreeMap<String, Vec<u8>>,
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
    commits::sound(&dir)?;
    let wanted = wanted(ctx, &dir)?;
    if !check {
        return write::write(ctx, &dir, &wanted);
    }
    let wrong = compare::differences(ctx, &wanted)?;
    if !wrong.is_empty() {
        bail!(
            "patches/, the view and {} disagree:\n    {}\n`make export` writes them",
            dir.display(),
            wrong.join("\n    ")
        );
    }
    say(format!("patches/, the view and {} agree", dir.display()));
    Ok(())
}

/// For messages: how to look at the tree with git.
fn git_hint(dir: &Path) -> String {
    step::shown(Command::new("git").arg("-C").arg(dir))
}

fn wanted(ctx: &Ctx, dir: &Path) -> Result<Wanted> {
    let temp = ctx.temp("export")?;
    let series = temp.path().join("patches");
    commits::format(dir, &format!("{PREREQ}..HEAD"), "RFC PATCH", true, &series)?;
    let prereqs = series.join("for-v7.3");
    commits::format(
        dir,
        &format!("{BASE}..{PREREQ}"),
        "PATCH for-v7.3",
        false,
        &prereqs,
    )?;
    let mut wanted = Wanted {
        patches: compare::patches(temp.path())?,
        view: BTreeMap::new(),
    };
    let Some(fresh) = wanted.patches.get(COVER) else {
        bail!(
            "{} holds no commit after the prerequisites: nothing to export",
            dir.display()
        );
    };
    let old = fs::read_to_string(ctx.root.join(COVER)).ok();
    let cover = cover::cover(old.as_deref(), fresh)?;
    if commits::signed_off(&cover) {
        bail!("{COVER} has a Signed-off-by: the sender adds it when sending, take it out here");
    }
    wanted.patches.insert(COVER.into(), cover);
    for path in commits::added(dir)?.into_iter().filter(|p| in_view(p)) {
        let out = step::output(git(dir).args(["cat-file", "blob", &format!("HEAD:{path}")]))?;
        wanted.view.insert(path, out.stdout);
    }
    Ok(wanted)
}

fn in_view(path: &str) -> bool {
    path.split_once('/')
        .is_some_and(|(top, _)| VIEW.contains(&top))
}
