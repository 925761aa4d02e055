// SPDX-License-Identifier: GPL-2.0
//! What is in the repository against what should be, by path.

use super::{VIEW, Wanted};
use crate::files::name;
use crate::step::Ctx;
use crate::tree::{self, FOLLOW_UP};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

pub fn differences(ctx: &Ctx, wanted: &Wanted) -> Result<Vec<String>> {
    let mut wrong = compare(
        &patches(&ctx.root, wanted.follow_up)?,
        &wanted.patches,
        |a, b| same(a, b),
        ["differs from its commit", "has no commit"],
    );
    wrong.extend(compare(
        &view(&ctx.root)?,
        &wanted.view,
        |a, b| a == b,
        ["differs from the commit", "is not a file the series adds"],
    ));
    Ok(wrong)
}

fn compare<T>(
    have: &BTreeMap<String, T>,
    want: &BTreeMap<String, T>,
    same: impl Fn(&T, &T) -> bool,
    [differs, extra]: [&str; 2],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in have.keys().chain(want.keys()).collect::<BTreeSet<_>>() {
        let word = match (have.get(path), want.get(path)) {
            (Some(h), Some(w)) if same(h, w) => continue,
            (Some(_), Some(_)) => differs,
            (Some(_), None) => extra,
            (None, _) => "is missing",
        };
        wrong.push(format!("{path} {word}"));
    }
    wrong
}

/// The function name after a hunk's `@@` is for the reader, and git versions disagree about it.
pub fn same(a: &str, b: &str) -> bool {
    let plain = |l: &str| match l.strip_prefix("@@ ").and_then(|r| r.split_once(" @@")) {
        Some((range, _)) => format!("@@ {range} @@"),
        None => l.to_string(),
    };
    a.ends_with('\n') == b.ends_with('\n') && a.lines().map(plain).eq(b.lines().map(plain))
}

/// All of `patches/` below a folder, with or without the follow-up.
pub fn patches(root: &Path, follow_up: bool) -> Result<BTreeMap<String, String>> {
    let mut out = BTreeMap::new();
    let folders = ["patches", "patches/for-v7.3", FOLLOW_UP];
    for folder in &folders[..if follow_up { 3 } else { 2 }] {
        for file in tree::patch_files(&root.join(folder))? {
            let text =
                fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let text = String::from_utf8(text)
                .with_context(|| format!("{}: not UTF-8", file.display()))?;
            out.insert(format!("{folder}/{}", name(&file)), text);
        }
    }
    Ok(out)
}

fn view(root: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut out = BTreeMap::new();
    let folders = VIEW.iter().map(|d| root.join(d));
    let mut todo: Vec<_> = folders.filter(|d| d.is_dir()).collect();
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir)?.flatten() {
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                todo.push(path);
                continue;
            }
            let text = fs::read(&path).unwrap_or_default();
            let path = path.strip_prefix(root)?.to_string_lossy().into_owned();
            out.insert(path, text);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_names_in_hunks_do_not_count() {
        assert!(same(
            "@@ -1,2 +1,3 @@ static int a()\n x\n",
            "@@ -1,2 +1,3 @@\n x\n"
        ));
        assert!(!same("@@ -1,2 +1,3 @@\n x\n", "@@ -1,2 +2,3 @@\n x\n"));
        assert!(!same(" x\n", " y\n"));
    }
}
