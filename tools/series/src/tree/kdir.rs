// SPDX-License-Identifier: GPL-2.0
//! KDIR: the user's own clone. Nothing is written there; our tree borrows its objects (and git may renew the time stamp
//! of an object it would have written itself).

use super::clean::indent;
use super::{BASE, short};
use crate::base;
use crate::files::write_whole;
use crate::git::{self, git};
use crate::step::{Ctx, capture, output};
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

pub struct Kdir {
    pub path: PathBuf,
    pub commit: String,
    pub has_prereqs: bool,
    pub has_series: bool,
}

/// Looks at the user's clone, and says what keeps it from being used.
pub fn find(ctx: &Ctx, dir: &Path, rev: Option<&str>) -> Result<Kdir> {
    let said = dir.display();
    let path = absolute(dir)
        .map_err(|e| anyhow!("KDIR={said}: {e}. It must be a git clone of the kernel."))?;
    let ask = |args: &[&str]| output(git::users(&path).args(args));
    let bare = top_of_a_repository(&path).map_err(|e| anyhow!("KDIR={said}: {e}"))?;
    if path.starts_with(&ctx.build) {
        bail!(
            "KDIR={said}: inside the build folder {}. Leave KDIR out to use what is there.",
            ctx.build.display()
        );
    }

    let wanted = rev.unwrap_or("HEAD");
    let spec = format!("{wanted}^{{commit}}");
    let options = ["rev-parse", "--verify", "--quiet", "--end-of-options"];
    let commit = ask(&[&options[..], &[&spec]].concat())?;
    if !commit.status.success() {
        bail!("KDIR={said}: no commit `{wanted}` there");
    }
    let commit = text(&commit);
    // Empty when it is not there.
    let show = |file: &str| ask(&["show", &format!("{commit}:{file}")]).map(|out| text(&out));
    let (makefile, vmscan) = (show("Makefile")?, show("mm/vmscan.c")?);
    if !makefile.lines().any(|l| l.starts_with("VERSION =")) || vmscan.is_empty() {
        bail!(
            "KDIR={said}: commit {} is not a kernel (no Makefile with VERSION, or no mm/vmscan.c)",
            short(&commit)
        );
    }
    if rev.is_none() && !bare {
        let dirty = text(&ask(&["status", "--porcelain", "--untracked-files=no"])?);
        if !dirty.is_empty() {
            let list: Vec<String> = dirty.lines().map(str::to_string).collect();
            bail!(
                "KDIR={said}: not clean:\n{}\nCommit or stash that, or say KREV=HEAD to use the commit without it.",
                indent(&list)
            );
        }
    }
    let kconfig = show("mm/Kconfig")?;
    Ok(Kdir {
        // The prerequisites' mark: only -E2BIG means that splitting can help.
        has_prereqs: vmscan.contains("ret != -E2BIG"),
        has_series: kconfig.lines().any(|l| l.trim() == "config VMSCAN_RUST"),
        path,
        commit,
    })
}

/// Whether commits of all these subjects are in its recent history.
pub fn has_all(k: &Kdir, titles: &[String]) -> Result<bool> {
    let log = ["log", "--max-count=1000", "--format=%s", &k.commit];
    let log = capture(git::users(&k.path).args(log))?;
    let has: Vec<&str> = log.lines().collect();
    Ok(titles.iter().all(|t| has.contains(&t.as_str())))
}

fn text(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stdout);
    text.trim_end_matches('\n').to_string()
}

fn absolute(dir: &Path) -> std::io::Result<PathBuf> {
    // Not every shell expands it behind `KDIR=`.
    let home = dir.strip_prefix("~").ok().zip(std::env::var_os("HOME"));
    match home {
        Some((rest, home)) => Path::new(&home).join(rest).canonicalize(),
        None => dir.canonicalize(),
    }
}

/// Whether it is a bare one.
fn top_of_a_repository(path: &Path) -> Result<bool> {
    let ask = |what: &str| output(git::users(path).args(["rev-parse", what]));
    let top = ask("--show-toplevel")?;
    if !top.status.success() {
        let bare = text(&ask("--is-bare-repository")?) == "true";
        if !bare {
            bail!(
                "not a git tree: {}\nGive a git clone of the kernel; for a plain source folder: \
                 `git init && git add -A && git commit -m base` in it.",
                String::from_utf8_lossy(&top.stderr).trim()
            );
        }
        return Ok(true);
    }
    let top = PathBuf::from(text(&top));
    if top.canonicalize()? != path {
        bail!(
            "not a git tree itself (the repository around it is {}). Give the top of a kernel clone; \
             for a plain source folder: `git init && git add -A && git commit -m base` in it.",
            top.display()
        );
    }
    Ok(false)
}

/// An empty repository in which KDIR's commit is the base.
pub fn init(k: &Kdir, dir: &Path) -> Result<()> {
    let format = capture(git::users(&k.path).args(["rev-parse", "--show-object-format"]))?;
    base::init(dir, &[&format!("--object-format={}", format.trim())])?;
    borrow_objects(k, dir)?;
    capture(git(dir).args(["update-ref", BASE, &k.commit])).map(drop)
}

pub fn borrow_objects(k: &Kdir, dir: &Path) -> Result<()> {
    let theirs = |what: &str| -> Result<PathBuf> {
        let absolute = ["rev-parse", "--path-format=absolute", "--git-path"];
        let out = capture(git::users(&k.path).args(absolute).arg(what))?;
        Ok(PathBuf::from(out.trim_end_matches('\n')))
    };
    let info = dir.join(".git/objects/info");
    fs::create_dir_all(&info)?;
    let file = info.join("alternates");
    let mut text = fs::read_to_string(&file).unwrap_or_default();
    let objects = theirs("objects")?.display().to_string();
    // Those of an earlier KDIR stay: what was laid on it still needs them.
    if !text.lines().any(|l| l == objects) {
        text += &format!("{objects}\n");
        write_whole(&file, text.as_bytes())?;
    }
    let shallow = theirs("shallow")?;
    if shallow.exists() {
        fs::copy(&shallow, dir.join(".git/shallow"))
            .context("cannot copy KDIR's list of shallow commits")?;
    }
    Ok(())
}
