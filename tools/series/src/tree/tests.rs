// SPDX-License-Identifier: GPL-2.0
//! The series and its follow-up in one tree, on a kernel of two files.

use super::state::State;
use super::*;
use crate::git::DATE;
use std::process::Command;
use tempfile::TempDir;

/// A project with `patches/`, and a tree laid at its base.
pub struct Lab {
    pub ctx: Ctx,
    pub dir: PathBuf,
    source: Source,
    _temp: TempDir,
}

impl Lab {
    pub fn new(core: &[&str], follow_up: &[&str]) -> Lab {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().to_path_buf();
        let (dir, scribe) = (root.join("build/linux"), root.join("scribe"));
        let ctx = Ctx {
            build: root.join("build"),
            cache: root.join("cache"),
            root,
            jobs: 1,
        };
        for repo in [&dir, &scribe] {
            fs::create_dir_all(repo).unwrap();
            base::init(repo, &[]).unwrap();
            fs::write(repo.join("list.c"), "a\n".repeat(20)).unwrap();
            commit(repo, "base");
        }
        capture(git(&dir).args(["update-ref", BASE, "HEAD"])).unwrap();
        let mut from = line(&scribe, &["rev-parse", "HEAD"]).unwrap();
        for (folder, names) in [("patches", core), (FOLLOW_UP, follow_up)] {
            for name in names {
                change(&scribe, name);
                commit(&scribe, &format!("mm: {name}"));
            }
            if !names.is_empty() {
                let out = ctx.root.join(folder);
                let mut cmd = git(&scribe);
                cmd.args(["format-patch", "--quiet", "--zero-commit", "--no-signature"]);
                cmd.arg("--numbered").arg("--subject-prefix=RFC PATCH");
                capture(cmd.arg("-o").arg(out).arg(&from)).unwrap();
                from = line(&scribe, &["rev-parse", "HEAD"]).unwrap();
            }
        }
        let base = base::all().remove(0);
        let source = Source::Debian(base);
        Lab {
            ctx,
            dir,
            source,
            _temp: temp,
        }
    }

    pub fn lay(&self, series: Series) -> Result<()> {
        lay_over(&self.ctx, &self.source, &self.dir, series)
    }

    pub fn tree(&self) -> Tree {
        Tree {
            dir: self.dir.clone(),
            head: self.at("HEAD"),
            base_name: String::new(),
            series: laid_series(&self.dir),
            tag: String::new(),
        }
    }

    pub fn at(&self, name: &str) -> String {
        line(&self.dir, &["rev-parse", name]).unwrap()
    }

    pub fn subjects(&self, range: &str) -> Vec<String> {
        let log = line(&self.dir, &["log", "--reverse", "--format=%s", range]).unwrap();
        log.lines().map(str::to_string).collect()
    }

    fn files(&self, tree: &str) -> String {
        line(&self.dir, &["ls-tree", "--name-only", tree]).unwrap()
    }

    pub fn git(&self, args: &[&str]) {
        capture(author(&mut git(&self.dir)).args(args)).unwrap();
    }

    /// A commit of the user's.
    pub fn add(&self, name: &str, subject: &str) {
        change(&self.dir, name);
        commit(&self.dir, subject);
    }

    /// As `git rebase --autosquash` does it: the change goes into the commit with that subject.
    pub fn amend(&self, subject: &str, file: &str) {
        let head = self.at("HEAD");
        let log = line(&self.dir, &["log", "--format=%H %s", &format!("{BASE}..")]).unwrap();
        let found = log.lines().find(|l| l.ends_with(subject)).unwrap();
        let (commit, _) = found.split_once(' ').unwrap();
        self.git(&["checkout", "--quiet", "--detach", commit]);
        fs::write(self.dir.join(file), "amended\n").unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--amend", "--no-edit"]);
        self.git(&["rebase", "--quiet", "--onto", "HEAD", commit, &head]);
    }
}

/// A line a name, so that patches depend on each other.
fn append(repo: &Path, name: &str) {
    let file = repo.join("list.c");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}{name}\n")).unwrap();
}

fn change(repo: &Path, name: &str) {
    let file = repo.join(format!("{name}.c"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("{name}\n")).unwrap();
    append(repo, name);
}

fn author(cmd: &mut Command) -> &mut Command {
    cmd.env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@localhost")
        .env("GIT_AUTHOR_DATE", DATE)
        .env("GIT_COMMITTER_DATE", DATE)
}

fn commit(repo: &Path, subject: &str) {
    capture(git(repo).args(["add", "--all"])).unwrap();
    let body = "Why.";
    let args = ["commit", "--quiet", "-m", subject, "-m", body];
    capture(author(&mut git(repo)).args(args)).unwrap();
}

#[test]
fn both_are_laid_and_a_tree_without_own_work_is_switched() {
    let lab = Lab::new(&["one", "two"], &["three"]);
    lab.lay(Series::Core).unwrap();
    assert_eq!(
        lab.subjects(&format!("{BASE}..HEAD")),
        ["mm: one", "mm: two"]
    );
    assert_eq!(lab.at(CORE), lab.at(LAID));
    let core = lab.at(CORE);
    lab.lay(Series::All).unwrap();
    assert_eq!(lab.at(CORE), core);
    assert_eq!(lab.subjects(&format!("{CORE}..HEAD")), ["mm: three"]);
    assert_eq!(lab.at(LAID), lab.at("HEAD"));
    assert_eq!(laid_series(&lab.dir), Series::All);
    lab.lay(Series::Core).unwrap();
    assert_eq!(lab.at("HEAD"), core);
    assert!(!lab.dir.join("three.c").exists());
}

#[test]
fn own_work_keeps_a_tree_from_being_switched() {
    let lab = Lab::new(&["one"], &["two"]);
    lab.lay(Series::All).unwrap();
    append(&lab.dir, "mine");
    let e = lab.lay(Series::Core).unwrap_err().to_string();
    assert!(
        e.starts_with("SERIES=core is wanted, SERIES=all is how"),
        "{e}"
    );
    assert!(e.contains("list.c"), "{e}");
    assert_eq!(laid_series(&lab.dir), Series::All);
    commit(&lab.dir, "mm: mine");
    let (head, e) = (
        lab.at("HEAD"),
        lab.lay(Series::Core).unwrap_err().to_string(),
    );
    assert!(e.contains("mm: mine"), "{e}");
    assert_eq!(lab.at("HEAD"), head);
    // As it is laid, it stays.
    lab.lay(Series::All).unwrap();
    assert_eq!(lab.at("HEAD"), head);
}

#[test]
fn a_follow_up_that_does_not_apply_is_named_and_nothing_is_touched() {
    let lab = Lab::new(&["one"], &["two", "three"]);
    lab.lay(Series::Core).unwrap();
    let head = lab.at("HEAD");
    // Half a follow-up.
    fs::remove_file(lab.ctx.root.join(FOLLOW_UP).join("0001-mm-two.patch")).unwrap();
    let e = lab.lay(Series::All).unwrap_err().to_string();
    assert!(
        e.starts_with("patches/follow-up/0002-mm-three.patch does not apply"),
        "{e}"
    );
    assert!(e.contains("list.c: hunk 1"), "{e}");
    assert_eq!(lab.at("HEAD"), head);
    assert_eq!(laid_series(&lab.dir), Series::Core);
    let e = files_with(&lab.ctx, &lab.tree(), Series::All)
        .unwrap_err()
        .to_string();
    assert!(
        e.starts_with("patches/follow-up/0002-mm-three.patch does not apply"),
        "{e}"
    );
    let on_top = follow_up_on(&lab.ctx, &lab.dir, &head).unwrap();
    assert!(matches!(on_top, OnTop::Conflict(text) if text.contains("0002-mm-three.patch")));
}

#[test]
fn a_switch_that_was_cut_short_goes_on() {
    let lab = Lab::new(&["one"], &["two"]);
    lab.lay(Series::Core).unwrap();
    let mut state = State::read(&lab.dir);
    (state.patches, state.series) = (String::new(), Series::All);
    let core = lab.at("HEAD");
    lab.lay(Series::All).unwrap();
    let all = lab.at("HEAD");
    // Before the checkout, and after it.
    for head in [&core, &all] {
        lab.git(&["checkout", "--quiet", "-B", "series", head]);
        for name in [CORE, LAID] {
            lab.git(&["update-ref", name, &core]);
        }
        state.write(&lab.dir).unwrap();
        assert!(!patches_unchanged(&lab.ctx, &lab.dir).unwrap());
        lab.lay(laid_series(&lab.dir)).unwrap();
        assert_eq!((lab.at("HEAD"), lab.at(CORE)), (all.clone(), core.clone()));
    }
}

#[test]
fn the_series_ends_where_it_did_also_after_a_rebase() {
    let lab = Lab::new(&["one", "two"], &["three", "four"]);
    lab.lay(Series::All).unwrap();
    assert_eq!(core_tip(&lab.dir).unwrap(), lab.at(CORE));
    lab.amend("mm: three", "three.c");
    assert_eq!(core_tip(&lab.dir).unwrap(), lab.at(CORE));
    lab.amend("mm: one", "one.c");
    let tip = core_tip(&lab.dir).unwrap();
    assert_ne!(tip, lab.at(CORE));
    assert_eq!(
        lab.subjects(&format!("{BASE}..{tip}")),
        ["mm: one", "mm: two"]
    );
    assert_eq!(lab.subjects(&format!("{tip}..")), ["mm: three", "mm: four"]);
}

#[test]
fn where_the_series_ends_is_not_guessed() {
    let lab = Lab::new(&["one", "two"], &["three"]);
    lab.lay(Series::All).unwrap();
    let all = lab.at("HEAD");
    let series: Vec<String> = lab.subjects(&format!("{BASE}..HEAD"));
    assert_eq!(series.len(), 3);
    // The last commit of the series is gone.
    lab.git(&["checkout", "--quiet", "--detach", &format!("{CORE}~1")]);
    append(&lab.dir, "new");
    commit(&lab.dir, "mm: new");
    let e = core_tip(&lab.dir).unwrap_err().to_string();
    assert!(e.contains("ended with `mm: two`, and 0 commits"), "{e}");
    let said = e.lines().last().unwrap().trim();
    assert!(
        said.ends_with(&format!("update-ref {CORE} <commit>")),
        "{e}"
    );
    lab.git(&["update-ref", CORE, "HEAD"]);
    assert_eq!(core_tip(&lab.dir).unwrap(), lab.at("HEAD"));

    // A commit of the series is above it now.
    lab.git(&["update-ref", CORE, &format!("{all}~1")]);
    lab.git(&["checkout", "--quiet", "--detach", BASE]);
    for subject in ["mm: two", "mm: one", "mm: three"] {
        append(&lab.dir, subject);
        commit(&lab.dir, subject);
    }
    let e = core_tip(&lab.dir).unwrap_err().to_string();
    assert!(
        e.contains("mm: one\nwas of the series, and would now be of the follow-up"),
        "{e}"
    );
}

#[test]
fn what_is_built_does_not_depend_on_how_the_tree_is_laid() {
    let lab = Lab::new(&["one", "two"], &["three"]);
    lab.lay(Series::Core).unwrap();
    let take = |series| {
        let id = files_with(&lab.ctx, &lab.tree(), series).unwrap();
        line(&lab.dir, &["rev-parse", &format!("{id}^{{tree}}")]).unwrap()
    };
    let (core, all) = (take(Series::Core), take(Series::All));
    assert_eq!(lab.files(&core), "list.c\none.c\ntwo.c");
    assert_eq!(lab.files(&all), "list.c\none.c\nthree.c\ntwo.c");
    lab.lay(Series::All).unwrap();
    assert_eq!((take(Series::Core), take(Series::All)), (core.clone(), all));
    let first = nth_patch(&lab.dir, 1).unwrap();
    assert_eq!(lab.files(&first), "list.c\none.c");
    let e = nth_patch(&lab.dir, 3).unwrap_err().to_string();
    assert!(e.contains("has 2 patches, and no patch 3"), "{e}");
    // Work in no commit is of what is laid.
    fs::write(lab.dir.join("mine.c"), "x\n").unwrap();
    assert_eq!(take(Series::Core), core);
    assert!(lab.files(&take(Series::All)).contains("mine.c"));
    let none = Lab::new(&["one"], &[]);
    none.lay(Series::Core).unwrap();
    let e = files_with(&none.ctx, &none.tree(), Series::All)
        .unwrap_err()
        .to_string();
    assert!(e.contains("there is no follow-up"), "{e}");
}

#[test]
fn a_tree_from_before_there_was_a_follow_up() {
    let lab = Lab::new(&["one"], &[]);
    lab.lay(Series::Core).unwrap();
    let note = lab.dir.join(".git/series.json");
    let text = fs::read_to_string(&note).unwrap();
    fs::write(&note, text.replace(",\"series\":\"core\"", "")).unwrap();
    lab.git(&["update-ref", "-d", CORE]);
    assert_eq!(laid_series(&lab.dir), Series::Core);
    complete_refs(&lab.dir).unwrap();
    assert_eq!(lab.at(CORE), lab.at(LAID));
    let was = State::read(&lab.dir);
    lab.lay(Series::Core).unwrap();
    assert_eq!(State::read(&lab.dir), was);
}

#[test]
fn a_checkout_is_beside_the_tree_and_the_same_each_time() {
    let lab = Lab::new(&["one"], &["two"]);
    lab.lay(Series::Core).unwrap();
    fs::write(lab.dir.join("mine.c"), "x\n").unwrap();
    let own = checkout(&lab.ctx, &lab.tree(), Series::Core).unwrap();
    assert_eq!((own.dir, own.tag), (lab.dir.clone(), String::new()));
    let all = checkout(&lab.ctx, &lab.tree(), Series::All).unwrap();
    assert_eq!((&all.tag[..], all.series), ("-all", Series::All));
    for file in ["one.c", "two.c", "mine.c"] {
        assert!(all.dir.join(file).is_file(), "{file}");
    }
    assert!(!lab.dir.join("two.c").exists());
    assert_eq!(lab.subjects(&format!("{BASE}..HEAD")), ["mm: one"]);
    let log = line(&all.dir, &["log", "--format=%s", &format!("{CORE}..")]).unwrap();
    assert_eq!(log, "with the follow-up");
    // What somebody edited there does not stay, what is the same is not written again.
    fs::write(all.dir.join("two.c"), "edited\n").unwrap();
    let time = |file: &str| {
        fs::metadata(all.dir.join(file))
            .unwrap()
            .modified()
            .unwrap()
    };
    let was = time("one.c");
    let again = checkout(&lab.ctx, &lab.tree(), Series::All).unwrap();
    assert_eq!(again.head, all.head);
    assert_eq!(fs::read_to_string(all.dir.join("two.c")).unwrap(), "two\n");
    assert_eq!(time("one.c"), was);
    // The other way round.
    fs::remove_file(lab.dir.join("mine.c")).unwrap();
    lab.lay(Series::All).unwrap();
    let core = checkout(&lab.ctx, &lab.tree(), Series::Core).unwrap();
    assert_eq!((&core.tag[..], core.head), ("-core", lab.at(CORE)));
    assert!(!core.dir.join("two.c").exists());
    // With a file of one's own gone, it goes there too.
    lab.lay(Series::Core).unwrap();
    let all = checkout(&lab.ctx, &lab.tree(), Series::All).unwrap();
    assert!(!all.dir.join("mine.c").exists());
}

/// A clone of the user's, at its base, its series, or its follow-up.
#[test]
fn a_clone_gets_what_it_lacks() {
    let lab = Lab::new(&["one"], &["two"]);
    lab.lay(Series::All).unwrap();
    for (at, wanted) in [
        (BASE, &["mm: one", "mm: two"][..]),
        (CORE, &["mm: two"]),
        (LAID, &[]),
    ] {
        lab.git(&["checkout", "--quiet", "--detach", at]);
        fs::create_dir_all(lab.dir.join("mm")).unwrap();
        fs::write(lab.dir.join("Makefile"), "VERSION = 7\n").unwrap();
        fs::write(lab.dir.join("mm/vmscan.c"), "int x;\n").unwrap();
        if at != BASE {
            fs::write(lab.dir.join("mm/Kconfig"), "config VMSCAN_RUST\n").unwrap();
        }
        commit(&lab.dir, "theirs");
        let clone = lab.ctx.root.join("clone");
        let _ = fs::remove_dir_all(&clone);
        let mut cmd = git(&lab.ctx.root);
        capture(cmd.args(["clone", "--quiet"]).args([&lab.dir, &clone])).unwrap();
        let k = kdir::find(&lab.ctx, &clone, None).unwrap();
        let dir = lab.ctx.build.join("kdir/linux");
        let _ = fs::remove_dir_all(&dir);
        kdir_tree(&lab.ctx, &k, &dir, Series::All).unwrap();
        let range = format!("{BASE}..HEAD");
        let log = line(&dir, &["log", "--reverse", "--format=%s", &range]).unwrap();
        assert_eq!(log.lines().collect::<Vec<_>>(), wanted, "{at}");
        assert_eq!(laid_series(&dir), Series::All);
        let state = State::read(&dir);
        lay_over(&lab.ctx, &Source::Kdir(k), &dir, Series::All).unwrap();
        assert_eq!(State::read(&dir), state);
    }
}
