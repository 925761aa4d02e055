// SPDX-License-Identifier: GPL-2.0
//! The tree with, or without, the follow-up when it is laid the other way: a checkout of its own beside it, to build
//! in. The tree is left alone.

use super::{BASE, CORE, LAID, PREREQ, Tree, core_tip, files_with};
use crate::base;
use crate::files::write_whole;
use crate::git::{self, DATE, EMAIL, NAME, git, line};
use crate::opts::Series;
use crate::step::{Ctx, Step, capture, say};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The tree itself where it is laid that way.
pub fn checkout(ctx: &Ctx, tree: &Tree, series: Series) -> Result<Tree> {
    if tree.series == series {
        return Ok(tree.clone());
    }
    let files = files_with(ctx, tree, series)?;
    let tag = format!("{}-{}", tree.tag, series.name());
    let src = ctx.build.join(format!("checkout{tag}/src"));
    say(format!(
        "{} is laid with SERIES={}; SERIES={} is built in {}",
        tree.dir.display(),
        tree.series.name(),
        series.name(),
        src.display()
    ));
    borrow_objects(&tree.dir, &src)?;
    let prereq = line(&tree.dir, &["rev-parse", PREREQ])?;
    let core = core_tip(&tree.dir)?;
    let head = match git::commit(&src, &files)? {
        Some(commit) => commit,
        // The same files give the same commit.
        None => {
            let mut cmd = git(&src);
            cmd.env("GIT_AUTHOR_NAME", NAME)
                .env("GIT_AUTHOR_EMAIL", EMAIL)
                .env("GIT_AUTHOR_DATE", DATE)
                .env("GIT_COMMITTER_DATE", DATE)
                .args([
                    "commit-tree",
                    "-m",
                    "with the follow-up",
                    "-p",
                    &core,
                    &files,
                ]);
            capture(&mut cmd)?.trim().to_string()
        }
    };
    let base = line(&tree.dir, &["rev-parse", BASE])?;
    for (name, commit) in [
        (BASE, &base),
        (PREREQ, &prereq),
        (CORE, &core),
        (LAID, &head),
        ("HEAD", &head),
    ] {
        capture(git(&src).args(["update-ref", name, commit]))?;
    }
    // Files that do not differ keep their time stamps: make rebuilds only what changed.
    Step::new(ctx, format!("checkout{tag}")).run(git(&src).args([
        "read-tree",
        "--reset",
        "-u",
        &head,
    ]))?;
    // Also what somebody edited there.
    capture(git(&src).args(["checkout-index", "--quiet", "--force", "--all"]))?;
    Ok(Tree {
        dir: src,
        head,
        base_name: tree.base_name.clone(),
        series,
        tag,
    })
}

/// A repository that sees the objects of the tree, and writes its own elsewhere.
fn borrow_objects(tree: &Path, src: &Path) -> Result<()> {
    let link = src.join(".git/objects/info/alternates");
    let wanted = format!("{}\n", tree.join(".git/objects").display());
    if fs::read_to_string(&link).is_ok_and(|had| had == wanted) {
        return Ok(());
    }
    if src.exists() {
        fs::remove_dir_all(src).with_context(|| format!("cannot remove {}", src.display()))?;
    }
    fs::create_dir_all(src).with_context(|| format!("cannot make {}", src.display()))?;
    let format = line(tree, &["rev-parse", "--show-object-format"])?;
    base::init(src, &[&format!("--object-format={format}")])?;
    let info = link.parent().expect("has one");
    fs::create_dir_all(info).with_context(|| format!("cannot make {}", info.display()))?;
    write_whole(&link, wanted.as_bytes())
}
