// SPDX-License-Identifier: GPL-2.0
//! Exports of a tree with a follow-up, into a project in a temporary folder.

use super::*;
use crate::tree::tests::Lab;
use std::path::PathBuf;

fn text(lab: &Lab, path: &str) -> String {
    fs::read_to_string(lab.ctx.root.join(path)).unwrap_or_default()
}

fn list(lab: &Lab, folder: &str) -> Vec<String> {
    let files = tree::patch_files(&lab.ctx.root.join(folder)).unwrap();
    files.iter().map(|f| crate::files::name(f)).collect()
}

fn check(lab: &Lab) -> Result<()> {
    compared(&lab.ctx, &lab.dir, true)
}

fn export(lab: &Lab) -> Result<()> {
    compared(&lab.ctx, &lab.dir, false)
}

/// As a first export leaves it: with cover letters.
fn exported(core: &[&str], follow_up: &[&str]) -> Lab {
    let lab = Lab::new(core, follow_up);
    lab.lay(Series::All).unwrap();
    export(&lab).unwrap();
    check(&lab).unwrap();
    lab
}

#[test]
fn each_series_has_its_numbers_and_its_cover_letter() {
    let lab = exported(&["mm/one", "mm/two"], &["mm/three"]);
    let names = [
        "0000-cover-letter.patch",
        "0001-mm-mm-one.patch",
        "0002-mm-mm-two.patch",
    ];
    assert_eq!(list(&lab, "patches"), names);
    let names = ["0000-cover-letter.patch", "0001-mm-mm-three.patch"];
    assert_eq!(list(&lab, FOLLOW_UP), names);
    let first = text(&lab, "patches/follow-up/0001-mm-mm-three.patch");
    assert!(
        first.contains("Subject: [RFC PATCH 1/1] mm: mm/three"),
        "{first}"
    );
    // The view is of the series alone.
    assert!(lab.ctx.root.join("mm/two.c").is_file());
    assert!(!lab.ctx.root.join("mm/three.c").exists());
    // The text of a cover letter stays.
    let cover = lab.ctx.root.join(FOLLOW_UP_COVER);
    let mine = text(&lab, FOLLOW_UP_COVER).replace("*** SUBJECT HERE ***", "mm: mine");
    fs::write(&cover, &mine).unwrap();
    lab.add("mm/four", "mm: four");
    export(&lab).unwrap();
    let now = text(&lab, FOLLOW_UP_COVER);
    assert!(now.contains("[RFC PATCH 0/2] mm: mine"), "{now}");
    assert!(now.contains("  mm: four\n"), "{now}");
    assert!(text(&lab, COVER).contains("[RFC PATCH 0/2] ***"));
}

#[test]
fn both_are_checked_whatever_is_laid() {
    let lab = exported(&["one", "two"], &["three"]);
    for series in [Series::Core, Series::All] {
        lab.lay(series).unwrap();
        check(&lab).unwrap();
        let path = lab.ctx.root.join("patches/follow-up/0001-mm-three.patch");
        let was = fs::read_to_string(&path).unwrap();
        fs::write(&path, was.replace("Why.", "Why not.")).unwrap();
        let e = check(&lab);
        // Laid without it, the patch itself is what the commits are made from.
        assert_eq!(e.is_err(), series == Series::All, "{e:?}");
        fs::write(&path, was.replace(" 1 +\n", " 2 +\n")).unwrap();
        let e = check(&lab).unwrap_err().to_string();
        assert!(
            e.contains("follow-up/0001-mm-three.patch differs from its commit"),
            "{e}"
        );
        let first = e.contains("`make tree SERIES=all`, then `make export` writes the follow-up");
        assert_eq!(first, series == Series::Core, "{e}");
        fs::write(&path, was).unwrap();
        check(&lab).unwrap();
    }
}

#[test]
fn an_export_of_the_series_leaves_the_follow_up_alone() {
    let lab = exported(&["one", "two"], &["three"]);
    lab.lay(Series::Core).unwrap();
    let was = text(&lab, "patches/follow-up/0001-mm-three.patch");
    lab.add("other", "mm: other");
    export(&lab).unwrap();
    assert_eq!(list(&lab, "patches").len(), 4);
    assert_eq!(text(&lab, "patches/follow-up/0001-mm-three.patch"), was);
    // It does not apply any more, and is named.
    let e = check(&lab).unwrap_err().to_string();
    assert!(
        e.contains("follow-up/0001-mm-three.patch does not apply on the series"),
        "{e}"
    );
    assert!(e.contains("says what the follow-up needs"), "{e}");
}

#[test]
fn a_follow_up_that_lost_its_ground_is_rebased_as_the_export_says() {
    let lab = exported(&["one", "two"], &["three"]);
    lab.lay(Series::Core).unwrap();
    lab.add("other", "mm: other");
    export(&lab).unwrap();
    let mail = lab.ctx.root.join("patches/follow-up/0001-mm-three.patch");
    let aside = lab.ctx.root.join("aside.patch");
    fs::rename(&mail, &aside).unwrap();
    lab.lay(Series::All).unwrap();
    lab.add("three", "mm: three");
    export(&lab).unwrap();
    check(&lab).unwrap();
    assert!(mail.is_file());
    assert_eq!(list(&lab, "patches").len(), 4);
    assert_eq!(list(&lab, FOLLOW_UP).len(), 2);
}

#[test]
fn an_amended_series_moves_its_end_along() {
    let lab = exported(&["one", "two"], &["three"]);
    lab.amend("mm: one", "one.c");
    export(&lab).unwrap();
    assert!(text(&lab, "patches/0001-mm-one.patch").contains("+amended"));
    assert_eq!(list(&lab, "patches").len(), 3);
    assert_eq!(
        list(&lab, FOLLOW_UP),
        ["0000-cover-letter.patch", "0001-mm-three.patch"]
    );
    assert_eq!(
        lab.subjects(&format!("{}..HEAD", tree::CORE)),
        ["mm: three"]
    );
    check(&lab).unwrap();
    lab.lay(Series::Core).unwrap();
    check(&lab).unwrap();
}

#[test]
fn what_would_be_lost_or_mixed_up_is_refused() {
    let lab = exported(&["one"], &["two"]);
    let files = |lab: &Lab| -> Vec<PathBuf> { tree::follow_up(&lab.ctx).unwrap() };
    lab.git(&["checkout", "--quiet", "--detach", tree::CORE]);
    let e = export(&lab).unwrap_err().to_string();
    assert!(e.contains("would remove patches/follow-up"), "{e}");
    assert_eq!(files(&lab).len(), 1);
    let e = as_laid(&lab.dir, Some(Series::Core))
        .unwrap_err()
        .to_string();
    assert!(e.contains("is laid with SERIES=all"), "{e}");
    for series in [None, Some(Series::All)] {
        as_laid(&lab.dir, series).unwrap();
    }
    let mail = lab.ctx.root.join("patches/follow-up/0001-mm-two.patch");
    let aside = lab.ctx.root.join("aside.patch");
    fs::rename(&mail, &aside).unwrap();
    assert!(export(&lab).is_err());
    assert_eq!(list(&lab, FOLLOW_UP), ["0000-cover-letter.patch"]);
    fs::rename(&aside, &mail).unwrap();
    lab.git(&["checkout", "--quiet", "series"]);
    lab.lay(Series::Core).unwrap();
    lab.git(&["am", "--quiet", &mail.display().to_string()]);
    let e = export(&lab).unwrap_err().to_string();
    assert!(e.contains("holds a commit of it:\n    mm: two"), "{e}");
    assert_eq!(list(&lab, "patches").len(), 2);
}

#[test]
fn without_a_follow_up_there_is_no_word_of_it() {
    let lab = Lab::new(&["one"], &[]);
    lab.lay(Series::Core).unwrap();
    export(&lab).unwrap();
    check(&lab).unwrap();
    assert!(!lab.ctx.root.join(FOLLOW_UP).exists());
}
