// SPDX-License-Identifier: GPL-2.0
//! The kernel tree: a base commit, the prerequisites, the series, laid with `git am` and nothing softer.
//!
//! Three refs tell what is what: `refs/series/base`, `refs/series/prereq`, `refs/series/laid`. What the user does on top
//! is theirs: it is never moved, only built.

use crate::base::{self, Base};
use crate::debian::hex;
use crate::git::{self, git, line};
use crate::opts::Opts;
use crate::step::{Ctx, Step, capture, output, say};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tree that is ready to be built.
#[derive(Clone, Debug)]
pub struct Tree {
    pub dir: PathBuf,
    pub head: String,
    pub base_name: String,
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
pub const LAID: &str = "refs/series/laid";

/// What was laid, beside the refs; in the tree's git folder.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
struct State {
    source: String,
    /// Of the patches as they were laid or exported.
    patches: String,
}

impl State {
    fn file(dir: &Path) -> PathBuf {
        dir.join(".git/series.json")
    }

    fn read(dir: &Path) -> State {
        let text = fs::read_to_string(State::file(dir)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn write(&self, dir: &Path) -> Result<()> {
        write_whole(&State::file(dir), &serde_json::to_vec(self)?)
    }
}

/// Writes beside, then renames: never half a file.
pub fn write_whole(file: &Path, bytes: &[u8]) -> Result<()> {
    let dir = file.parent().expect("has one");
    let mut temp = tempfile::Builder::new()
        .prefix(".new.")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(dir)
        .with_context(|| format!("cannot write in {}", dir.display()))?;
    std::io::Write::write_all(&mut temp, bytes)
        .with_context(|| format!("cannot write {}", file.display()))?;
    temp.persist(file)
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

/// The series, in order, without the cover letter.
pub fn patches(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    let mut list = patch_files(&ctx.root.join("patches"))?;
    list.retain(|p| !name(p).starts_with("0000-"));
    Ok(list)
}

/// What a released 7.3 needs first.
pub fn prereqs(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    patch_files(&ctx.root.join("patches/for-v7.3"))
}

pub fn patch_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut list = Vec::new();
    if dir.is_dir() {
        for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
            list.push(entry?.path());
        }
    }
    list.retain(|p| p.extension().is_some_and(|e| e == "patch"));
    list.sort();
    Ok(list)
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Changes when a patch does; the cover letter is not laid and does not count.
pub fn patches_key(ctx: &Ctx) -> Result<String> {
    let mut hash = Sha256::new();
    for file in prereqs(ctx)?.into_iter().chain(patches(ctx)?) {
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        hash.update(format!("{} {}\n", name(&file), text.len()));
        hash.update(text);
    }
    Ok(hex(&hash.finalize()))
}

/// The files a set of patches touches: all of them, and those they add.
#[derive(Debug, Default, PartialEq, Eq)]
struct Files {
    touched: BTreeSet<String>,
    added: BTreeSet<String>,
}

fn files_of(patches: &[PathBuf]) -> Result<Files> {
    let mut files = Files::default();
    for patch in patches {
        let text = fs::read(patch).with_context(|| format!("cannot read {}", patch.display()))?;
        scan(&String::from_utf8_lossy(&text), &mut files);
    }
    Ok(files)
}

fn scan(patch: &str, files: &mut Files) {
    let mut old_is_null = false;
    let lines: Vec<&str> = patch.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        for mark in ["rename from ", "rename to ", "copy from ", "copy to "] {
            if let Some(path) = line.strip_prefix(mark) {
                files.touched.insert(path.into());
            }
        }
        // `--- a/x` only counts right before `+++ b/x`: a removed line may look like it.
        let header = |prefix: &str, at: usize| lines.get(at).is_some_and(|l| l.starts_with(prefix));
        if line.starts_with("--- ") && header("+++ ", i + 1) && header("@@ ", i + 2) {
            old_is_null = *line == "--- /dev/null";
            if let Some(path) = line.strip_prefix("--- a/") {
                files.touched.insert(path.into());
            }
        } else if line.starts_with("+++ b/")
            && i > 0
            && lines[i - 1].starts_with("--- ")
            && header("@@ ", i + 1)
        {
            let path = line["+++ b/".len()..].to_string();
            if old_is_null {
                files.added.insert(path.clone());
            }
            files.touched.insert(path);
        }
    }
}

/// In-tree paths of the files the series in `patches/` adds.
pub fn added_by_patches(ctx: &Ctx) -> Result<BTreeSet<String>> {
    Ok(files_of(&patches(ctx)?)?.added)
}

/// Where a kernel comes from.
enum Source {
    Debian(Base),
    Kdir(Kdir),
}

struct Kdir {
    path: PathBuf,
    commit: String,
    has_prereqs: bool,
    has_series: bool,
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

struct Place {
    dir: PathBuf,
    tag: String,
}

fn place(ctx: &Ctx, opts: &Opts) -> Place {
    let (folder, tag) = match (&opts.kdir, opts.base.as_deref()) {
        (Some(_), _) => (ctx.build.join("kdir"), "-kdir".to_string()),
        (None, Some(b)) if b != base::DEFAULT => {
            (ctx.build.join(format!("base-{b}")), format!("-{b}"))
        }
        _ => (ctx.build.clone(), String::new()),
    };
    Place {
        dir: folder.join("linux"),
        tag,
    }
}

/// The folder the tree is in, or will be.
pub fn dir(ctx: &Ctx, opts: &Opts) -> PathBuf {
    place(ctx, opts).dir
}

/// Lays the tree, or leaves it alone when it is laid already.
pub fn ensure(ctx: &Ctx, opts: &Opts) -> Result<Tree> {
    if opts.kdir.is_none() && opts.krev.is_some() {
        bail!(
            "KREV={} names a commit of KDIR: say KDIR=<folder> too",
            opts.krev.as_deref().unwrap_or("")
        );
    }
    if opts.kdir.is_some() && opts.base.is_some() {
        bail!("KDIR and BASE both say which kernel to use: give one of them");
    }
    let source = match &opts.kdir {
        Some(dir) => Source::Kdir(kdir(ctx, dir, opts.krev.as_deref())?),
        None => Source::Debian(base::find(
            ctx,
            opts.base.as_deref().unwrap_or(base::DEFAULT),
        )?),
    };
    let place = place(ctx, opts);
    let dir = &place.dir;
    if dir.exists() && git::commit(dir, BASE)?.is_none() {
        bail!(
            "{} is not a tree this tool laid: move it away, then run again",
            dir.display()
        );
    }
    match &source {
        Source::Debian(base) => debian_tree(ctx, base, dir)?,
        Source::Kdir(k) => kdir_tree(ctx, k, dir)?,
    }
    lay_over(ctx, &source, dir)?;
    Ok(Tree {
        head: line(dir, &["rev-parse", "HEAD"])?,
        dir: place.dir,
        base_name: source.name(),
        tag: place.tag,
    })
}

/// A tree at the base commit. What is there stays, unless it is another version of the base.
fn debian_tree(ctx: &Ctx, base: &Base, dir: &Path) -> Result<()> {
    let id = Source::Debian(base.clone()).id();
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
    State {
        source: id,
        patches: String::new(),
    }
    .write(&new)?;
    if dir.exists() {
        fs::rename(dir, temp.path().join("old"))
            .with_context(|| format!("cannot move {}", dir.display()))?;
    }
    into_place(&new, dir)
}

fn into_place(new: &Path, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir.parent().expect("has one"))?;
    fs::rename(new, dir).with_context(|| format!("cannot write {}", dir.display()))
}

/// A tree that borrows the objects of the user's clone: nothing at all is written there.
fn kdir_tree(ctx: &Ctx, k: &Kdir, dir: &Path) -> Result<()> {
    if dir.exists() {
        if State::read(dir).source == k.commit {
            return Ok(());
        }
        borrow_objects(k, dir)?;
        return Ok(());
    }
    crate::debian::need_space(&ctx.build, 2_000_000_000, "the kernel source")?;
    let temp = ctx.temp("kdir")?;
    let new = temp.path().join("linux");
    fs::create_dir(&new)?;
    let format = capture(git::users(&k.path).args(["rev-parse", "--show-object-format"]))?;
    base::init(&new, &[&format!("--object-format={}", format.trim())])?;
    borrow_objects(k, &new)?;
    capture(git(&new).args(["update-ref", BASE, &k.commit]))?;
    let laid = lay(ctx, &new, &k.commit, &Plan::of(ctx, Some(k))?)?;
    Step::new(ctx, "checkout")
        .run(git(&new).args(["checkout", "--quiet", "-B", "series", &laid.head]))
        .context("is KDIR a partial clone? Then some of its files are not there: fetch them, or use a full clone")?;
    record(ctx, &new, &k.commit, &laid, &k.commit)?;
    into_place(&new, dir)
}

fn borrow_objects(k: &Kdir, dir: &Path) -> Result<()> {
    let theirs = |what: &str| -> Result<PathBuf> {
        let out = capture(git::users(&k.path).args([
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            what,
        ]))?;
        Ok(PathBuf::from(out.trim_end_matches('\n')))
    };
    let file = dir.join(".git/objects/info/alternates");
    fs::create_dir_all(file.parent().expect("has one"))?;
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

/// What to lay.
struct Plan {
    prereqs: Vec<PathBuf>,
    series: Vec<PathBuf>,
}

impl Plan {
    fn of(ctx: &Ctx, kdir: Option<&Kdir>) -> Result<Plan> {
        let mut plan = Plan {
            prereqs: prereqs(ctx)?,
            series: patches(ctx)?,
        };
        if let Some(k) = kdir {
            if k.has_series {
                say(format!(
                    "{} already holds the series: used as it is, nothing applied",
                    k.path.display()
                ));
                return Ok(Plan {
                    prereqs: Vec::new(),
                    series: Vec::new(),
                });
            }
            if k.has_prereqs {
                plan.prereqs.clear();
            }
        }
        if plan.series.is_empty() {
            say("patches/ holds no series yet: laying the base and the prerequisites alone");
        }
        Ok(plan)
    }
}

/// Brings an existing tree to what `patches/` says, unless the user has work there.
fn lay_over(ctx: &Ctx, source: &Source, dir: &Path) -> Result<()> {
    let key = patches_key(ctx)?;
    let state = State::read(dir);
    let laid = git::commit(dir, LAID)?;
    if laid.is_some()
        && state
            == (State {
                source: source.id(),
                patches: key,
            })
    {
        let range = format!("{LAID}..HEAD");
        let own: usize = line(dir, &["rev-list", "--count", &range])?
            .parse()
            .unwrap_or(0);
        let dirty = git::dirt(dir)?.len();
        if own + dirty > 0 {
            say(format!(
                "{}: left as it is, with {own} commits and {dirty} changed files of your own",
                dir.display()
            ));
        }
        return Ok(());
    }

    let kdir = match source {
        Source::Kdir(k) => Some(k),
        Source::Debian(_) => None,
    };
    let base = match source {
        Source::Kdir(k) => k.commit.clone(),
        Source::Debian(_) => line(dir, &["rev-parse", BASE])?,
    };
    let new = lay(ctx, dir, &base, &Plan::of(ctx, kdir)?)?;
    let head = line(dir, &["rev-parse", "HEAD"])?;
    if head != new.head {
        let before = match laid {
            Some(l) => l,
            None => line(dir, &["rev-parse", BASE])?,
        };
        let dirty = git::dirt(dir)?;
        if head != before || !dirty.is_empty() {
            bail!(
                "patches/ (or the base) changed since {0} was laid, and the tree holds work of yours:\n{1}\n\
                 Nothing was touched. Commit what is in no commit, then\n    \
                 git -C {2} switch --detach {LAID}\nand run again: your branch stays, to be rebased onto the new one.",
                dir.display(),
                indent(&if dirty.is_empty() {
                    own_commits(dir, &before)?
                } else {
                    dirty
                }),
                crate::step::quote(&dir.display().to_string()),
            );
        }
        move_to(dir, &new.head, &before)?;
    }
    record(ctx, dir, &base, &new, &source.id())?;
    say(format!(
        "laid {} prerequisites and {} patches on {}",
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

fn record(ctx: &Ctx, dir: &Path, base: &str, laid: &Laid, source: &str) -> Result<()> {
    for (name, commit) in [(BASE, base), (PREREQ, &laid.prereq), (LAID, &laid.head)] {
        capture(git(dir).args(["update-ref", name, commit]))?;
    }
    State {
        source: source.into(),
        patches: patches_key(ctx)?,
    }
    .write(dir)
}

/// After an export: what HEAD holds and what patches/ holds is the same.
pub fn record_export(ctx: &Ctx, dir: &Path) -> Result<()> {
    capture(git(dir).args(["update-ref", LAID, "HEAD"]))?;
    let mut state = State::read(dir);
    state.patches = patches_key(ctx)?;
    state.write(dir)
}

/// Whether patches/ is what was last laid or exported here.
pub fn patches_unchanged(ctx: &Ctx, dir: &Path) -> Result<bool> {
    Ok(State::read(dir).patches == patches_key(ctx)?)
}

struct Laid {
    prereq: String,
    head: String,
    prereqs: usize,
    series: usize,
}

/// Applies in a scratch worktree holding just the files the patches touch: a conflict leaves no trace in the tree.
fn lay(ctx: &Ctx, repo: &Path, base: &str, plan: &Plan) -> Result<Laid> {
    let all: Vec<PathBuf> = plan.prereqs.iter().chain(&plan.series).cloned().collect();
    if all.is_empty() {
        return Ok(Laid {
            prereq: base.into(),
            head: base.into(),
            prereqs: 0,
            series: 0,
        });
    }
    let scratch = Scratch::new(ctx, repo, base, &files_of(&all)?.touched)?;
    let mut done = 0;
    let mut prereq = base.to_string();
    for patch in &all {
        am(ctx, &scratch.dir, patch, base, done)?;
        done += 1;
        if done == plan.prereqs.len() {
            prereq = line(&scratch.dir, &["rev-parse", "HEAD"])?;
        }
    }
    let head = line(&scratch.dir, &["rev-parse", "HEAD"])?;
    Ok(Laid {
        prereq,
        head,
        prereqs: plan.prereqs.len(),
        series: plan.series.len(),
    })
}

struct Scratch {
    dir: PathBuf,
    repo: PathBuf,
    temp: Option<tempfile::TempDir>,
}

impl Scratch {
    fn new(ctx: &Ctx, repo: &Path, base: &str, files: &BTreeSet<String>) -> Result<Scratch> {
        let temp = ctx.temp("lay")?;
        let dir = temp.path().join("lay");
        let scratch = Scratch {
            dir: dir.clone(),
            repo: repo.into(),
            temp: Some(temp),
        };
        capture(git(repo).args(["worktree", "prune"]))?;
        let add = [
            "worktree",
            "add",
            "--quiet",
            "--force",
            "--no-checkout",
            "--detach",
        ];
        capture(git(repo).args(add).arg(&dir).arg(base))?;
        let patterns = files.iter().map(|f| format!("/{f}"));
        capture(
            git(&dir)
                .args(["sparse-checkout", "set", "--no-cone"])
                .args(patterns),
        )?;
        capture(git(&dir).args(["read-tree", "-m", "-u", "HEAD"]))?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.temp.take());
        // Also after Ctrl-C, so not through the helpers that stop then.
        let _ = git(&self.repo).args(["worktree", "prune"]).output();
    }
}

fn am(ctx: &Ctx, dir: &Path, patch: &Path, base: &str, before: usize) -> Result<()> {
    // Options a user's config could change are all said: zero fuzz (no -C), no three-way merge.
    let out = output(
        git(dir)
            .args([
                "-c",
                "am.keepcr=false",
                "-c",
                "apply.ignoreWhitespace=no",
                "am",
                "--quiet",
                "--no-3way",
            ])
            .args([
                "--no-scissors",
                "--no-gpg-sign",
                "--committer-date-is-author-date",
                "--whitespace=nowarn",
            ])
            .arg(patch),
    )?;
    if out.status.success() {
        return Ok(());
    }
    let _ = git(dir).args(["am", "--abort"]).output();
    let said = [&out.stderr[..], &out.stdout[..]].concat();
    let text = fs::read(patch)?;
    let where_ = conflicts(
        &String::from_utf8_lossy(&said),
        &String::from_utf8_lossy(&text),
    );
    let patch = patch.strip_prefix(&ctx.root).unwrap_or(patch);
    bail!(
        "{} does not apply to {} ({before} patches before it did):\n{}\nThe tree was left as it was. \
         Use a base the series fits (make help names them), or rebase the series.",
        patch.display(),
        short(base),
        indent(&where_)
    )
}

/// What git says about a patch that does not apply, with the hunk.
fn conflicts(said: &str, patch: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in said.lines().filter_map(|l| l.strip_prefix("error: ")) {
        if let Some((file, at)) = line
            .strip_prefix("patch failed: ")
            .and_then(|r| r.rsplit_once(':'))
        {
            out.push(match hunk(patch, file, at) {
                Some((n, header)) => format!("{file}: hunk {n} does not match: {header}"),
                None => format!("{file}: the hunk at line {at} does not match"),
            });
        } else if !line.ends_with(": patch does not apply") {
            out.push(line.to_string());
        }
    }
    if out.is_empty() {
        out.extend(
            said.lines()
                .filter(|l| !l.starts_with("hint:"))
                .map(str::to_string),
        );
    }
    out
}

fn hunk(patch: &str, file: &str, at: &str) -> Option<(usize, String)> {
    let start = format!("+++ b/{file}");
    let mut lines = patch.lines().skip_while(|l| *l != start);
    lines.next()?;
    let headers = lines
        .take_while(|l| !l.starts_with("diff --git "))
        .filter(|l| l.starts_with("@@ -"));
    headers.enumerate().find_map(|(n, l)| {
        let line = l["@@ -".len()..].split([',', ' ']).next()?;
        (line == at).then(|| (n + 1, l.to_string()))
    })
}

/// Proves that the series applies to a base of `tools/bases.tsv`, in a scratch repository of just the files it touches.
pub fn check_applies(ctx: &Ctx, name: &str) -> Result<String> {
    let base = base::find(ctx, name)?;
    let plan = Plan::of(ctx, None)?;
    let all: Vec<PathBuf> = plan.prereqs.iter().chain(&plan.series).cloned().collect();
    if all.is_empty() {
        bail!("patches/ holds no patch to apply");
    }
    let main = ctx.build.join("linux");
    let laid = if name == base::DEFAULT
        && State::read(&main).source == Source::Debian(base.clone()).id()
    {
        let commit = line(&main, &["rev-parse", BASE])?;
        lay(ctx, &main, &commit, &plan)?
    } else {
        let files = files_of(&all)?;
        let old: Vec<String> = files.touched.difference(&files.added).cloned().collect();
        let key = hex(&Sha256::digest(format!("{base:?} {old:?}")))[..16].to_string();
        let dir = ctx.build.join("sample").join(format!("{name}-{key}"));
        if !dir.exists() {
            let temp = ctx.temp("sample")?;
            let new = temp.path().join("linux");
            fs::create_dir(&new)?;
            base.sample(ctx, &new, &old)?;
            into_place(&new, &dir)?;
        }
        let commit = line(&dir, &["rev-parse", "HEAD"])?;
        lay(ctx, &dir, &commit, &plan)?
    };
    Ok(format!(
        "{name} ({} {}): {} prerequisites and {} patches apply with git am, zero fuzz",
        base.package, base.version, laid.prereqs, laid.series
    ))
}

/// Looks at the user's clone without writing in it.
fn kdir(ctx: &Ctx, dir: &Path, rev: Option<&str>) -> Result<Kdir> {
    let said = dir.display();
    // Not every shell expands it behind `KDIR=`.
    let home = dir.strip_prefix("~").ok().zip(std::env::var_os("HOME"));
    let dir = home.map_or_else(
        || dir.to_path_buf(),
        |(rest, home)| Path::new(&home).join(rest),
    );
    let path = std::env::current_dir()?
        .join(&dir)
        .canonicalize()
        .map_err(|e| anyhow::anyhow!("KDIR={said}: {e}. It must be a git clone of the kernel."))?;
    if !path.is_dir() {
        bail!("KDIR={said}: not a folder. It must be a git clone of the kernel.");
    }
    let ask =
        |args: &[&str]| -> Result<std::process::Output> { output(git::users(&path).args(args)) };
    let text = |out: std::process::Output| {
        String::from_utf8_lossy(&out.stdout)
            .trim_end_matches('\n')
            .to_string()
    };

    let top = ask(&["rev-parse", "--show-toplevel"])?;
    let mut bare = false;
    if top.status.success() {
        let top = PathBuf::from(text(top));
        if top.canonicalize().ok().as_ref() != Some(&path) {
            bail!(
                "KDIR={said}: not a git tree itself (the repository around it is {}). Give the top of a kernel clone; \
                 for a plain source folder: `git init && git add -A && git commit -m base` in it.",
                top.display()
            );
        }
    } else {
        bare = text(ask(&["rev-parse", "--is-bare-repository"])?) == "true";
        if !bare {
            let why = String::from_utf8_lossy(&top.stderr);
            bail!(
                "KDIR={said}: not a git tree: {}\nGive a git clone of the kernel; for a plain source folder: \
                 `git init && git add -A && git commit -m base` in it.",
                why.trim()
            );
        }
    }
    if path.starts_with(&ctx.build) {
        bail!(
            "KDIR={said}: inside the build folder {}. Leave KDIR out to use what is there.",
            ctx.build.display()
        );
    }

    let wanted = rev.unwrap_or("HEAD");
    let commit = ask(&[
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &format!("{wanted}^{{commit}}"),
    ])?;
    if !commit.status.success() {
        bail!("KDIR={said}: no commit `{wanted}` there");
    }
    let commit = text(commit);
    let show = |file: &str| -> Result<Option<String>> {
        let out = ask(&["show", &format!("{commit}:{file}")])?;
        Ok(out
            .status
            .success()
            .then(|| String::from_utf8_lossy(&out.stdout).into_owned()))
    };
    let makefile = show("Makefile")?.unwrap_or_default();
    let vmscan = show("mm/vmscan.c")?;
    let (true, Some(vmscan)) = (makefile.lines().any(|l| l.starts_with("VERSION =")), vmscan)
    else {
        bail!(
            "KDIR={said}: commit {} is not a kernel (no Makefile with VERSION, or no mm/vmscan.c)",
            short(&commit)
        );
    };
    if rev.is_none() && !bare {
        let dirty = text(ask(&["status", "--porcelain", "--untracked-files=no"])?);
        if !dirty.is_empty() {
            let list: Vec<String> = dirty.lines().map(str::to_string).collect();
            bail!(
                "KDIR={said}: not clean:\n{}\nCommit or stash that, or say KREV=HEAD to use the commit without it.",
                indent(&list)
            );
        }
    }
    let kconfig = show("mm/Kconfig")?.unwrap_or_default();
    Ok(Kdir {
        // The prerequisites' mark: only -E2BIG means that splitting can help.
        has_prereqs: vmscan.contains("ret != -E2BIG"),
        has_series: kconfig.lines().any(|l| l.trim() == "config VMSCAN_RUST"),
        path,
        commit,
    })
}

/// What would be lost with the tree.
pub fn own_work(dir: &Path) -> Result<Vec<String>> {
    let out = capture(git(dir).args(["status", "--porcelain"]))?;
    let mut work: Vec<String> = out.lines().map(str::to_string).collect();
    let laid = match git::commit(dir, LAID)? {
        Some(c) => Some(c),
        None => git::commit(dir, BASE)?,
    };
    if let Some(laid) = laid {
        work.extend(own_commits(dir, &laid)?);
    }
    Ok(work)
}

/// Commits of any branch, of HEAD and of the stash that the tool did not lay.
fn own_commits(dir: &Path, laid: &str) -> Result<Vec<String>> {
    let text = capture(git(dir).args([
        "log",
        "--format=%h %s",
        "--max-count=20",
        "HEAD",
        "--branches",
        "--glob=refs/stash",
        "--not",
        laid,
    ]))?;
    Ok(text.lines().map(str::to_string).collect())
}

fn indent(lines: &[String]) -> String {
    let mut out: Vec<String> = lines.iter().take(20).map(|l| format!("    {l}")).collect();
    if lines.len() > 20 {
        out.push(format!("    … and {} more", lines.len() - 20));
    }
    out.join("\n")
}

/// Removes what was built; a tree with work of the user's stays, and says so.
pub fn clean(ctx: &Ctx) -> Result<()> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(&ctx.build)?.flatten() {
        let path = entry.path();
        if name(&path) == "lock" {
            continue;
        }
        let tree = if path.join(".git").exists() {
            path.clone()
        } else {
            path.join("linux")
        };
        if tree.join(".git").exists() && git::commit(&tree, BASE)?.is_some() {
            let work = own_work(&tree)?;
            if !work.is_empty() {
                kept.push(format!("{}:\n{}", tree.display(), indent(&work)));
                continue;
            }
        } else if tree.join(".git").exists() {
            kept.push(format!("{}: not laid by this tool", tree.display()));
            continue;
        }
        remove(&path)?;
    }
    say(format!(
        "removed what was built in {} (downloads stay in {})",
        ctx.build.display(),
        ctx.cache.display()
    ));
    if !kept.is_empty() {
        bail!(
            "kept, since it holds work that is nowhere else:\n{}\n`make export`, or remove it by hand",
            kept.join("\n")
        );
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let is_dir = path.symlink_metadata()?.is_dir();
    if is_dir {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
    .with_context(|| format!("cannot remove {}", path.display()))
}

/// For messages: how to look at the tree with git.
pub fn git_hint(dir: &Path) -> String {
    crate::step::shown(Command::new("git").arg("-C").arg(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "From 0\nSubject: x\n\n--- a/not/this.c\n---\n mm/vmscan.c | 2 +-\n\n\
        diff --git a/mm/vmscan.c b/mm/vmscan.c\nindex 1..2 100644\n--- a/mm/vmscan.c\n+++ b/mm/vmscan.c\n\
        @@ -10,3 +10,3 @@ one()\n a\n--- a/old\n+++ b/new\n b\n@@ -90,2 +90,3 @@ two()\n c\n+d\n\
        diff --git a/mm/new.rs b/mm/new.rs\nnew file mode 100644\n--- /dev/null\n+++ b/mm/new.rs\n@@ -0,0 +1 @@\n+x\n\
        diff --git a/a.c b/b.c\nsimilarity index 100%\nrename from a.c\nrename to b.c\n";

    #[test]
    fn files_of_a_patch() {
        let mut files = Files::default();
        scan(PATCH, &mut files);
        let touched: Vec<_> = files.touched.iter().map(String::as_str).collect();
        assert_eq!(touched, ["a.c", "b.c", "mm/new.rs", "mm/vmscan.c"]);
        assert_eq!(files.added.into_iter().collect::<Vec<_>>(), ["mm/new.rs"]);
    }

    #[test]
    fn conflict_names_file_and_hunk() {
        let said = "error: patch failed: mm/vmscan.c:90\nerror: mm/vmscan.c: patch does not apply\nhint: x\n\
                    error: mm/new.rs: already exists in index\n";
        assert_eq!(
            conflicts(said, PATCH),
            [
                "mm/vmscan.c: hunk 2 does not match: @@ -90,2 +90,3 @@ two()",
                "mm/new.rs: already exists in index"
            ]
        );
    }

    #[test]
    fn whole_files_replace() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        write_whole(&file, b"one").unwrap();
        write_whole(&file, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
