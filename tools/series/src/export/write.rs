// SPDX-License-Identifier: GPL-2.0
//! Writes `patches/` and the view, unless that would undo something.

use super::compare::{differences, patches, same};
use super::{COVER, FOLLOW_UP_COVER, Wanted, git_hint, in_view};
use crate::files::into_place;
use crate::git::{git, line};
use crate::step::{self, Ctx, say};
use crate::tree::{self, CORE, FOLLOW_UP, LAID};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

pub fn write(ctx: &Ctx, dir: &Path, wanted: &Wanted) -> Result<()> {
    let wrong = differences(ctx, wanted)?;
    if wrong.is_empty() {
        say("patches/ and the view are up to date: nothing written");
        return tree::record_export(ctx, dir, &wanted.core);
    }
    let head = line(dir, &["rev-parse", "HEAD"])?;
    let patches_differ = wrong.iter().any(|w| w.starts_with("patches/"));
    if patches_differ && !tree::patches_unchanged(ctx, dir)? {
        if head == line(dir, &["rev-parse", LAID])? {
            bail!(
                "patches/ is newer than {}, which holds nothing of yours: `make tree` lays it anew",
                dir.display()
            );
        }
        bail!(
            "patches/ changed since {} was laid, so exporting would undo that. First\n    {} switch --detach {LAID}\n    \
             make tree\nthen rebase your branch onto the new `series`, and export.",
            dir.display(),
            git_hint(dir)
        );
    }
    hand_edits(ctx, dir, wanted)?;
    replace(ctx, wanted)?;
    tree::record_export(ctx, dir, &wanted.core)?;
    let count = |folder: &str| {
        let inside = |p: &&String| Path::new(p).parent() == Some(Path::new(folder));
        let cover = |p: &&String| p.ends_with("/0000-cover-letter.patch");
        let patches = wanted.patches.keys().filter(inside);
        patches.filter(|p| !cover(p)).count()
    };
    let on_top = match wanted.follow_up {
        true => format!(", {} on top of {}", count(FOLLOW_UP), &wanted.core[..12]),
        false => String::new(),
    };
    say(format!(
        "wrote patches/ ({} patches, {} prerequisites{on_top}) and the view ({} files) from {}",
        count("patches"),
        count("patches/for-v7.3"),
        wanted.view.len(),
        &head[..12]
    ));
    let left = differences(ctx, wanted)?;
    if !left.is_empty() {
        bail!(
            "still there, and not written by an export:\n    {}",
            left.join("\n    ")
        );
    }
    for name in [COVER, FOLLOW_UP_COVER] {
        let cover = wanted.patches.get(name);
        if cover.is_some_and(|c| c.contains("*** SUBJECT HERE ***")) {
            say(format!(
                "{name} is new: write its From, subject and text, they are kept from now on"
            ));
        }
    }
    Ok(())
}

/// All is written beside first, then renamed: a full disk leaves the repository as it was.
fn replace(ctx: &Ctx, wanted: &Wanted) -> Result<()> {
    let root = &ctx.root;
    let old = patches(root, wanted.follow_up)?;
    // Only what an earlier export wrote: a file somebody put there is named, not removed.
    let mut stale = tree::added_by_patches(ctx)?;
    stale.retain(|p| in_view(p) && !wanted.view.contains_key(p));
    stale.extend(
        old.keys()
            .filter(|p| !wanted.patches.contains_key(*p))
            .cloned(),
    );

    // A patch that is the same keeps the text it has, see same().
    let changed =
        |(path, text): &(&String, &String)| !old.get(*path).is_some_and(|o| same(o, text));
    let patches = wanted.patches.iter().filter(changed);
    let patches = patches.map(|(path, text)| (path, text.as_bytes()));
    let view = wanted.view.iter().map(|(path, text)| (path, &text[..]));
    let view = view.filter(|(path, text)| fs::read(root.join(path)).ok().as_deref() != Some(*text));
    let temp = tempfile::Builder::new()
        .prefix(".export.")
        .tempdir_in(root)
        .with_context(|| format!("cannot write in {}", root.display()))?;
    let mut new = Vec::new();
    for (path, text) in patches.chain(view) {
        let file = temp.path().join(new.len().to_string());
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        new.push((file, root.join(path)));
    }
    step::check_interrupt()?;
    for (file, place) in new {
        into_place(&file, &place)?;
    }
    for path in stale {
        remove(root, &root.join(path))?;
    }
    Ok(())
}

/// With the folders that are empty then.
fn remove(root: &Path, file: &Path) -> Result<()> {
    if !file.is_file() {
        return Ok(());
    }
    fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    let above = file.ancestors().skip(1).take_while(|f| *f != root);
    for folder in above {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// The view is written, never read: an edit made there would be lost.
fn hand_edits(ctx: &Ctx, dir: &Path, wanted: &Wanted) -> Result<()> {
    for (path, new) in &wanted.view {
        let Ok(now) = fs::read(ctx.root.join(path)) else {
            continue;
        };
        let laid = git(dir)
            .args(["cat-file", "blob", &format!("{CORE}:{path}")])
            .output()?;
        if now != *new && now != laid.stdout {
            bail!(
                "{path} was edited, but it is only a copy of {}, which would replace it.\n\
                 Make the change there and commit it, then `git checkout -- {path}` here, and export.",
                dir.join(path).display()
            );
        }
    }
    Ok(())
}
