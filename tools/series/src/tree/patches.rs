// SPDX-License-Identifier: GPL-2.0
//! The patches in `patches/`, and the files they touch.

use crate::files::{hex, name};
use crate::opts::Series;
use crate::step::Ctx;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub const FOLLOW_UP: &str = "patches/follow-up";

/// The series, in order, without the cover letter.
pub fn patches(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    let mut list = patch_files(&ctx.root.join("patches"))?;
    list.retain(|p| !name(p).starts_with("0000-"));
    Ok(list)
}

/// What goes on top of the series, in order, without its cover letter.
pub fn follow_up(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    let mut list = patch_files(&ctx.root.join(FOLLOW_UP))?;
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

/// Changes when a patch that is laid does; a cover letter is not laid and does not count.
pub fn patches_key(ctx: &Ctx, series: Series) -> Result<String> {
    let mut hash = Sha256::new();
    let mut files = [prereqs(ctx)?, patches(ctx)?].concat();
    if series == Series::All {
        files.extend(follow_up(ctx)?);
    }
    for file in files {
        let text = read(&file)?;
        hash.update(format!("{} {}\n", name(&file), text.len()));
        hash.update(text);
    }
    Ok(hex(&hash.finalize()))
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The files a set of patches touches: all of them, and those they add.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Files {
    pub touched: BTreeSet<String>,
    pub added: BTreeSet<String>,
}

pub fn files_of(patches: &[PathBuf]) -> Result<Files> {
    let mut files = Files::default();
    for patch in patches {
        scan(&String::from_utf8_lossy(&read(patch)?), &mut files);
    }
    Ok(files)
}

fn scan(patch: &str, files: &mut Files) {
    let lines: Vec<&str> = patch.lines().collect();
    for line in &lines {
        for mark in ["rename from ", "rename to ", "copy from ", "copy to "] {
            if let Some(path) = line.strip_prefix(mark) {
                files.touched.insert(path.into());
            }
        }
    }
    // Only all three lines are a header: a removed line may look like `--- a/x`.
    for header in lines.windows(3).filter(|w| w[2].starts_with("@@ ")) {
        let old = header[0].strip_prefix("--- ");
        let new = header[1].strip_prefix("+++ ");
        let (Some(old), Some(new)) = (old, new) else {
            continue;
        };
        if let Some(path) = old.strip_prefix("a/") {
            files.touched.insert(path.into());
        }
        if let Some(path) = new.strip_prefix("b/") {
            files.touched.insert(path.into());
            if old == "/dev/null" {
                files.added.insert(path.into());
            }
        }
    }
}

/// Whether some patches change anything in Rust.
pub fn changes_rust(patches: &[PathBuf]) -> Result<bool> {
    let files = files_of(patches)?.touched;
    Ok(files.iter().any(|f| f.ends_with(".rs")))
}

/// In-tree paths of the files the series in `patches/` adds.
pub fn added_by_patches(ctx: &Ctx) -> Result<BTreeSet<String>> {
    Ok(files_of(&patches(ctx)?)?.added)
}

/// The unfolded Subject: header.
pub fn subject(mail: &str) -> String {
    let mut lines = mail.lines().skip_while(|l| !l.starts_with("Subject: "));
    let mut out = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("Subject: ")
        .to_string();
    for line in lines.take_while(|l| l.starts_with(' ')) {
        out += line;
    }
    out
}

/// The subjects that the commits of some patches have.
pub fn titles(patches: &[PathBuf]) -> Result<Vec<String>> {
    let title = |patch: &PathBuf| {
        let subject = subject(&String::from_utf8_lossy(&read(patch)?));
        let (_, title) = subject.split_once("] ").unwrap_or(("", &subject));
        Ok(title.to_string())
    };
    patches.iter().map(title).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const PATCH: &str = "From 0\nSubject: x\n\n--- a/not/this.c\n---\n mm/vmscan.c | 2 +-\n\n\
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
    fn subjects_are_unfolded() {
        let mail = "From 0 Mon Sep 17 00:00:00 2001\nSubject: [RFC PATCH 1/9] mm: vmscan: order\n children\nTo: x\n\nSubject: no\n";
        assert_eq!(subject(mail), "[RFC PATCH 1/9] mm: vmscan: order children");
        assert_eq!(subject("nothing"), "");
    }
}
