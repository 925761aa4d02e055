// SPDX-License-Identifier: GPL-2.0
//! `make export`: the commits become `patches/` and the view again. The commits are the truth; nobody edits a patch.

use crate::git::{self, git, line};
use crate::opts::Opts;
use crate::step::{self, Ctx, capture, say};
use crate::tree::{self, BASE, LAID, PREREQ, Tree};
use anyhow::{Context, Result, bail};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the series' new files are shown at their in-tree paths.
const VIEW: &[&str] = &["Documentation", "include", "mm", "rust"];
const COVER: &str = "0000-cover-letter.patch";

/// File name to text.
type Patches = BTreeMap<String, String>;

/// Everything that `patches/` and the view should be.
struct Wanted {
    series: Patches,
    prereqs: Patches,
    view: BTreeMap<String, Vec<u8>>,
}

pub fn run(ctx: &Ctx, opts: &Opts, check: bool) -> Result<()> {
    if opts.kdir.is_some()
        || opts
            .base
            .as_deref()
            .is_some_and(|b| b != crate::base::DEFAULT)
    {
        let hint = tree::git_hint(&tree::dir(ctx, opts));
        bail!(
            "patches/ is written from the default tree alone, so that its line numbers stay the same.\n\
             Bring your commits there: {hint} format-patch --stdout {LAID}.. | git -C {} am",
            step::quote(&ctx.build.join("linux").display().to_string())
        );
    }
    let dir = ctx.build.join("linux");
    if check {
        tree::ensure(ctx, opts)?;
    } else if git::commit(&dir, LAID).ok().flatten().is_none() {
        bail!(
            "there is no tree in {} yet: `make tree` lays it",
            dir.display()
        );
    }
    sound(&dir)?;
    let wanted = wanted(ctx, &dir)?;
    if check {
        let wrong = differences(ctx, &wanted)?;
        if !wrong.is_empty() {
            bail!(
                "patches/, the view and {} disagree:\n{}\n`make export` writes them",
                dir.display(),
                wrong.join("\n")
            );
        }
        say(format!("patches/, the view and {} agree", dir.display()));
        return Ok(());
    }
    write(ctx, &dir, &wanted)
}

/// Refuses what would lose something or make a series nobody can send.
fn sound(dir: &Path) -> Result<()> {
    let hint = tree::git_hint(dir);
    let dirty = capture(git(dir).args(["status", "--porcelain"]))?;
    if !dirty.is_empty() {
        bail!(
            "{} has changes in no commit:\n{dirty}Commit them (`{hint} commit -a --fixup=<commit>`), or stash them.",
            dir.display()
        );
    }
    let prereq = line(dir, &["rev-parse", PREREQ])?;
    let base = git::output_ok(dir, &["merge-base", "--is-ancestor", PREREQ, "HEAD"])?;
    if !base {
        bail!(
            "HEAD of {} does not hold the last prerequisite, {}. If you changed the prerequisites, say which is the last one now:\n    \
             {hint} update-ref {PREREQ} <commit>",
            dir.display(),
            &prereq[..12]
        );
    }
    let range = format!("{BASE}..HEAD");
    let merges = line(dir, &["log", "--merges", "--format=%h %s", &range])?;
    if !merges.is_empty() {
        bail!("merges cannot be mailed:\n{merges}");
    }
    let log = line(
        dir,
        &["log", "--reverse", "--format=%h%x00%s%x00%B%x01", &range],
    )?;
    for commit in log.split('\u{1}').map(str::trim).filter(|c| !c.is_empty()) {
        let mut parts = commit.splitn(3, '\0');
        let (hash, subject, body) = (
            parts.next().unwrap_or(""),
            parts.next().unwrap_or(""),
            parts.next().unwrap_or(""),
        );
        if ["fixup!", "squash!", "amend!"]
            .iter()
            .any(|m| subject.starts_with(m))
        {
            bail!(
                "{hash} {subject}\nis still to be folded in: {hint} rebase -i --autosquash {PREREQ}"
            );
        }
        if signed_off(body) {
            bail!(
                "{hash} {subject}\nhas a Signed-off-by: the sender adds it when sending, take it out here"
            );
        }
    }
    Ok(())
}

fn signed_off(text: &str) -> bool {
    text.lines().any(|l| {
        l.trim_start()
            .to_ascii_lowercase()
            .starts_with("signed-off-by:")
    })
}

fn wanted(ctx: &Ctx, dir: &Path) -> Result<Wanted> {
    let temp = ctx.temp("export")?;
    let series = format(
        dir,
        &format!("{PREREQ}..HEAD"),
        "RFC PATCH",
        true,
        &temp.path().join("series"),
    )?;
    let prereqs = format(
        dir,
        &format!("{BASE}..{PREREQ}"),
        "PATCH for-v7.3",
        false,
        &temp.path().join("prereqs"),
    )?;
    let mut wanted = Wanted {
        series,
        prereqs,
        view: BTreeMap::new(),
    };
    if wanted.series.len() < 2 {
        bail!(
            "{} holds no commit after the prerequisites: nothing to export",
            dir.display()
        );
    }
    let fresh = wanted
        .series
        .remove(COVER)
        .context("git format-patch wrote no cover letter")?;
    let old = fs::read_to_string(ctx.root.join("patches").join(COVER)).ok();
    let cover = cover(old.as_deref(), &fresh)?;
    if signed_off(&cover) {
        bail!(
            "patches/{COVER} has a Signed-off-by: the sender adds it when sending, take it out here"
        );
    }
    wanted.series.insert(COVER.into(), cover);
    for path in added_in(dir)? {
        if VIEW.contains(&path.split('/').next().unwrap_or("")) {
            let out = step::output(git(dir).args(["cat-file", "blob", &format!("HEAD:{path}")]))?;
            wanted.view.insert(path, out.stdout);
        }
    }
    Ok(wanted)
}

/// `git format-patch` with every option said that a configuration could change.
fn format(dir: &Path, range: &str, prefix: &str, cover: bool, out: &Path) -> Result<Patches> {
    let cover = if cover {
        "--cover-letter"
    } else {
        "--no-cover-letter"
    };
    let mut cmd = git(dir);
    for setting in [
        "diff.noprefix=false",
        "diff.mnemonicPrefix=false",
        "diff.orderFile=/dev/null",
        "diff.interHunkContext=0",
        "diff.suppressBlankEmpty=false",
        "diff.statGraphWidth=0",
        "core.quotePath=true",
        "format.useAutoBase=false",
        "format.encodeEmailHeaders=true",
        "format.filenameMaxLength=64",
    ] {
        cmd.args(["-c", setting]);
    }
    cmd.args([
        "format-patch",
        "--quiet",
        "--zero-commit",
        "--no-signature",
        "--abbrev=12",
        "--numbered",
    ])
    .args([
        "--suffix=.patch",
        "--no-thread",
        "--no-attach",
        "--no-to",
        "--no-cc",
        "--no-notes",
    ])
    .args([
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "-U3",
        "--diff-algorithm=myers",
        "-M",
    ])
    .args(["--cover-from-description=none", cover])
    .arg(format!("--subject-prefix={prefix}"))
    .arg("-o")
    .arg(out)
    .arg(range);
    capture(&mut cmd)?;
    read_patches(out)
}

fn read_patches(dir: &Path) -> Result<Patches> {
    let mut out = Patches::new();
    for file in tree::patch_files(dir)? {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let text =
            String::from_utf8(text).with_context(|| format!("{}: not UTF-8", file.display()))?;
        out.insert(name, text);
    }
    Ok(out)
}

/// The cover letter: the text is kept, what git knows better (the count, the shortlog, the diffstat) is renewed.
fn cover(old: Option<&str>, fresh: &str) -> Result<String> {
    let mark = "*** BLURB HERE ***\n\n";
    let at = fresh
        .find(mark)
        .context("git's cover letter has no place for the text")?;
    let summary = fresh[at + mark.len()..].trim_end();
    let Some(old) = old else {
        return Ok(format!("{}\n", fresh.trim_end()));
    };
    let first_line = fresh.lines().next().unwrap_or("");
    let count = Regex::new(r"\[RFC PATCH \d+/\d+\]").expect("a fixed pattern");
    let count_now = count
        .find(fresh)
        .context("git's cover letter has no number")?
        .as_str();

    let (head, body) = old
        .split_once("\n\n")
        .context("patches/0000-cover-letter.patch: no empty line after its head")?;
    let mut head: Vec<String> = head.lines().map(str::to_string).collect();
    if head.first().is_some_and(|l| l.starts_with("From ")) {
        head[0] = first_line.to_string();
    } else {
        head.insert(0, first_line.to_string());
    }
    let subject = head.iter_mut().find(|l| l.starts_with("Subject:"));
    let subject = subject.context("patches/0000-cover-letter.patch: no Subject line")?;
    if !count.is_match(subject) {
        bail!("patches/0000-cover-letter.patch: its Subject must start with [RFC PATCH 0/n]");
    }
    *subject = count.replace(subject, count_now).into_owned();

    let (text, rest) = around_summary(body);
    let mut out = format!(
        "{}\n\n{}\n\n{summary}\n",
        head.join("\n"),
        text.trim_matches('\n')
    );
    if !rest.trim().is_empty() {
        out += &format!("\n{}\n", rest.trim());
    }
    Ok(out)
}

/// Splits the body into what is before and after the shortlog and diffstat.
fn around_summary(body: &str) -> (String, String) {
    let lines: Vec<&str> = body.lines().collect();
    let total = Regex::new(r"^ \d+ files? changed").expect("a fixed pattern");
    let heading = Regex::new(r"^\S.* \(\d+\):$").expect("a fixed pattern");
    let join = |l: &[&str]| l.join("\n");
    let Some(sum) = lines.iter().rposition(|l| total.is_match(l)) else {
        // Not there yet: it goes before the trailers that name the base.
        let at = lines
            .iter()
            .position(|l| l.starts_with("base-commit:"))
            .unwrap_or(lines.len());
        return (join(&lines[..at]), join(&lines[at..]));
    };
    // Upwards: the diffstat, then blocks of `Name (n):` with their subjects. Anything else is the author's text.
    let mut start = sum;
    while start > 0 && lines[start - 1].starts_with(' ') && lines[start - 1].contains(" | ") {
        start -= 1;
    }
    loop {
        let mut at = start;
        while at > 0 && lines[at - 1].is_empty() {
            at -= 1;
        }
        let end = at;
        while at > 0 && lines[at - 1].starts_with("  ") {
            at -= 1;
        }
        if at == end || at == 0 || !heading.is_match(lines[at - 1]) {
            break;
        }
        start = at - 1;
    }
    let mut end = sum + 1;
    let mode = Regex::new(r"^ (create|delete) mode |^ mode change |^ rename |^ rewrite ")
        .expect("a fixed pattern");
    while end < lines.len() && mode.is_match(lines[end]) {
        end += 1;
    }
    (join(&lines[..start]), join(&lines[end..]))
}

/// What is in the repository's `patches/`, folder by folder, against what should be.
fn differences(ctx: &Ctx, wanted: &Wanted) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (folder, want) in [
        ("patches", &wanted.series),
        ("patches/for-v7.3", &wanted.prereqs),
    ] {
        let have = read_patches(&ctx.root.join(folder))?;
        let names: BTreeSet<_> = have.keys().chain(want.keys()).collect();
        for name in names {
            match (have.get(name), want.get(name)) {
                (Some(h), Some(w)) if same(h, w) => {}
                (Some(_), Some(_)) => {
                    wrong.push(format!("    {folder}/{name} differs from its commit"))
                }
                (Some(_), None) => wrong.push(format!("    {folder}/{name} has no commit")),
                _ => wrong.push(format!("    {folder}/{name} is missing")),
            }
        }
    }
    let have = view_files(&ctx.root)?;
    let names: BTreeSet<_> = have.iter().chain(wanted.view.keys()).collect();
    for name in names {
        match wanted.view.get(name) {
            None => wrong.push(format!("    {name} is not a file the series adds")),
            Some(_) if !have.contains(name) => wrong.push(format!("    {name} is missing")),
            Some(text) if fs::read(ctx.root.join(name)).ok().as_ref() != Some(text) => {
                wrong.push(format!("    {name} differs from the commit"));
            }
            Some(_) => {}
        }
    }
    Ok(wrong)
}

/// The function name after a hunk's `@@` is for the reader, and git versions disagree about it.
fn same(a: &str, b: &str) -> bool {
    let plain = |l: &str| match l.strip_prefix("@@ ").and_then(|r| r.split_once(" @@")) {
        Some((range, _)) => format!("@@ {range} @@"),
        None => l.to_string(),
    };
    a.ends_with('\n') == b.ends_with('\n') && a.lines().map(plain).eq(b.lines().map(plain))
}

fn view_files(root: &Path) -> Result<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    let mut todo: Vec<PathBuf> = VIEW
        .iter()
        .map(|d| root.join(d))
        .filter(|d| d.is_dir())
        .collect();
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir)?.flatten() {
            if entry.file_type()?.is_dir() {
                todo.push(entry.path());
            } else {
                let path = entry.path();
                out.insert(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    Ok(out)
}

fn write(ctx: &Ctx, dir: &Path, wanted: &Wanted) -> Result<()> {
    let wrong = differences(ctx, wanted)?;
    if wrong.is_empty() {
        say("patches/ and the view are up to date: nothing written");
        return tree::record_export(ctx, dir);
    }
    let head = line(dir, &["rev-parse", "HEAD"])?;
    let same_patches = wrong.iter().all(|w| !w.starts_with("    patches/"));
    if !same_patches && !tree::patches_unchanged(ctx, dir)? {
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
            tree::git_hint(dir)
        );
    }
    let stale = tree::added_by_patches(ctx)?;
    step::check_interrupt()?;
    if !same_patches {
        swap_patches(&ctx.root, wanted)?;
    }
    for (path, text) in &wanted.view {
        let file = ctx.root.join(path);
        if fs::read(&file).ok().as_ref() != Some(text) {
            let folder = file.parent().expect("has one");
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            tree::write_whole(&file, text)?;
        }
    }
    // Only what an earlier export wrote: a file somebody put there is named, not removed.
    for path in stale.iter().filter(|p| !wanted.view.contains_key(*p)) {
        let file = ctx.root.join(path);
        if VIEW.contains(&path.split('/').next().unwrap_or("")) && file.is_file() {
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
            let mut folder = file.parent();
            while let Some(f) = folder.filter(|f| *f != ctx.root && fs::remove_dir(f).is_ok()) {
                folder = f.parent();
            }
        }
    }
    tree::record_export(ctx, dir)?;
    say(format!(
        "wrote patches/ ({} patches, {} prerequisites) and the view ({} files) from {}",
        wanted.series.len() - 1,
        wanted.prereqs.len(),
        wanted.view.len(),
        &head[..12]
    ));
    let left = differences(ctx, wanted)?;
    if !left.is_empty() {
        bail!(
            "still there, and not written by an export:\n{}",
            left.join("\n")
        );
    }
    if wanted.series[COVER].contains("*** SUBJECT HERE ***") {
        say(format!(
            "patches/{COVER} is new: write its From, subject and text, they are kept from now on"
        ));
    }
    Ok(())
}

/// A whole new `patches/`, exchanged with the old one in one step. What is no patch in it is carried over.
fn swap_patches(root: &Path, wanted: &Wanted) -> Result<()> {
    let place = root.join("patches");
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let temp = tempfile::Builder::new()
        .prefix(".patches.")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir_in(root)
        .with_context(|| format!("cannot write in {}", root.display()))?;
    carry(&place, temp.path(), true)?;
    let folders = [
        (temp.path().to_path_buf(), &wanted.series),
        (temp.path().join("for-v7.3"), &wanted.prereqs),
    ];
    for (folder, patches) in folders {
        if patches.is_empty() {
            continue;
        }
        fs::create_dir_all(&folder)?;
        // A patch that is the same keeps the text it has, see same().
        let old = read_patches(&place.join(folder.strip_prefix(temp.path())?))?;
        for (name, text) in patches {
            let text = old.get(name).filter(|o| same(o, text)).unwrap_or(text);
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
    }
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if renameat_with(CWD, temp.path(), CWD, &place, RenameFlags::EXCHANGE).is_err() {
        // Not every file system can exchange.
        let old = temp.path().with_extension("old");
        fs::rename(&place, &old).with_context(|| format!("cannot move {}", place.display()))?;
        fs::rename(temp.path(), &place)
            .with_context(|| format!("cannot write {}", place.display()))?;
        fs::remove_dir_all(&old)?;
    }
    Ok(())
}

fn carry(from: &Path, to: &Path, top: bool) -> Result<()> {
    for entry in fs::read_dir(from)?.flatten() {
        let (path, dest) = (entry.path(), to.join(entry.file_name()));
        let ours = path.extension().is_some_and(|e| e == "patch");
        if entry.file_type()?.is_dir() {
            fs::create_dir(&dest)?;
            let prereqs = top && entry.file_name() == "for-v7.3";
            carry(&path, &dest, prereqs)?;
        } else if !(top && ours) {
            fs::copy(&path, &dest).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// In-tree paths of the files the series adds.
pub fn added(_ctx: &Ctx, tree: &Tree) -> Result<Vec<String>> {
    added_in(&tree.dir)
}

fn added_in(dir: &Path) -> Result<Vec<String>> {
    names(dir, &["--diff-filter=A"])
}

/// In-tree paths of all files the series touches.
pub fn touched(_ctx: &Ctx, tree: &Tree) -> Result<Vec<String>> {
    names(&tree.dir, &[])
}

fn names(dir: &Path, filter: &[&str]) -> Result<Vec<String>> {
    let mut cmd = git(dir);
    cmd.args(["diff", "--name-only", "--no-renames", "-z"])
        .args(filter)
        .args([PREREQ, "HEAD"]);
    Ok(capture(&mut cmd)?
        .split('\0')
        .filter(|n| !n.is_empty())
        .map(str::to_string)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: &str = "From 0000 Mon Sep 17 00:00:00 2001\nFrom: x\nDate: d\n\
        Subject: [RFC PATCH 00/12] *** SUBJECT HERE ***\n\n*** BLURB HERE ***\n\n\
        Ann Author (2):\n  mm: one\n  mm: two\n\nBob B (1):\n  mm: three\n\n\
        \x20mm/vmscan.c | 10 ++++++++++\n mm/x.rs     |  2 ++\n 2 files changed, 12 insertions(+)\n\
        \x20create mode 100644 mm/x.rs\n\n";

    const OLD: &str = "From 0000 Mon Sep 17 00:00:00 2001\nFrom: Me <me@x>\nDate: then\n\
        Subject: [RFC PATCH 0/3] mm: vmscan: a long\n subject\n\nWhy (1):\nbecause.\n\n  indented end\n\n\
        Ann Author (1):\n  mm: old\n\n mm/vmscan.c | 1 +\n 1 file changed, 1 insertion(+)\n\n\
        base-commit: abc\n";

    #[test]
    fn cover_keeps_the_text_and_renews_the_rest() {
        let new = cover(Some(OLD), FRESH).unwrap();
        assert!(new.contains("Subject: [RFC PATCH 00/12] mm: vmscan: a long\n subject\n\nWhy (1):\nbecause.\n\n  indented end\n\nAnn Author (2):\n"), "{new}");
        assert!(new.contains("From: Me <me@x>\nDate: then\n"));
        assert!(!new.contains("mm: old"));
        assert!(
            new.ends_with(" create mode 100644 mm/x.rs\n\nbase-commit: abc\n"),
            "{new}"
        );
        assert_eq!(cover(Some(&new), FRESH).unwrap(), new);
    }

    #[test]
    fn cover_without_a_summary_gets_one_before_the_base() {
        let old = "From: Me\nSubject: [RFC PATCH 0/1] x\n\nText.\n\nbase-commit: abc\n";
        let new = cover(Some(old), FRESH).unwrap();
        assert!(new.starts_with("From 0000 Mon Sep 17 00:00:00 2001\nFrom: Me\n"));
        assert!(new.contains("Text.\n\nAnn Author (2):"));
        assert!(new.ends_with("\n\nbase-commit: abc\n"));
        assert_eq!(cover(Some(&new), FRESH).unwrap(), new);
    }

    #[test]
    fn function_names_in_hunks_do_not_count() {
        assert!(same(
            "@@ -1,2 +1,3 @@ static int a()\n x\n",
            "@@ -1,2 +1,3 @@\n x\n"
        ));
        assert!(!same("@@ -1,2 +1,3 @@\n x\n", "@@ -1,2 +2,3 @@\n x\n"));
        assert!(!same(" x\n", " y\n"));
    }

    #[test]
    fn sign_offs_are_seen() {
        assert!(signed_off("x\n\n Signed-off-by: A <a@b>\n"));
        assert!(!signed_off(
            "the Signed-off-by: line is added by the sender\n"
        ));
    }
}
