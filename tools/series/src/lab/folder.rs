// SPDX-License-Identifier: GPL-2.0
//! Where a lab keeps what it measured. An interrupted one is taken up again, when nothing it measures has changed.

use super::kernel::Kernel;
use super::plan::{Boot, Plan};
use crate::files::{hex, write_whole};
use crate::step::{capture, say};
use anyhow::{Context, Result, bail};
use results::Sizes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `lab.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    pub command: String,
    pub date: String,
    pub qemu: String,
    pub kernel: String,
    /// The git tree each arm was built from.
    pub arms: BTreeMap<String, String>,
    /// Of each arm's objects.
    pub sizes: BTreeMap<String, Sizes>,
    /// Of each arm that has the policies in Rust: what their object takes from elsewhere. Not in older labs.
    #[serde(default)]
    pub needs: BTreeMap<String, Vec<String>>,
    /// Plans, kernels and guest, hashed.
    pub key: String,
    pub complete: bool,
}

pub struct Folder {
    pub dir: PathBuf,
    note: Note,
}

/// `machine` is QEMU's version, the accelerator, and QEMU's arguments for each plan.
pub fn key(plans: &[Plan], kernels: &[Kernel], guest: &str, machine: &str) -> String {
    hex(&Sha256::digest(format!(
        "{plans:?}{kernels:?}{guest}{machine}"
    )))[..16]
        .to_string()
}

impl Folder {
    /// A new folder below `labs`, or the unfinished one with the same key.
    pub fn open(labs: &Path, note: Note) -> Result<Folder> {
        fs::create_dir_all(labs).with_context(|| format!("cannot make {}", labs.display()))?;
        if let Some(old) = unfinished(labs, &note.key)? {
            say(format!("going on with {}", old.dir.display()));
            return Ok(old);
        }
        let stamp = capture(Command::new("date").args(["-u", "+%Y%m%dT%H%M%SZ"]))?;
        let dir = labs.join(stamp.trim());
        fs::create_dir_all(dir.join("runs"))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let folder = Folder { dir, note };
        folder.write()?;
        Ok(folder)
    }

    /// One that is made anew.
    pub fn fresh(dir: PathBuf, note: Note) -> Result<Folder> {
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        fs::create_dir_all(dir.join("runs"))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let folder = Folder { dir, note };
        folder.write()?;
        Ok(folder)
    }

    pub fn has(&self, plan: &Plan, boot: &Boot) -> bool {
        let run = self.dir.join("runs").join(super::boot::name(plan, boot));
        run.join("run.json").is_file()
    }

    pub fn complete(&mut self) -> Result<()> {
        self.note.complete = true;
        self.write()
    }

    fn write(&self) -> Result<()> {
        write_whole(
            &self.dir.join("lab.json"),
            &serde_json::to_vec_pretty(&self.note)?,
        )
    }
}

/// The latest lab of all rows of the plan in which every boot passed its gates; what it showed is not judged here.
pub fn last_whole(labs: &Path) -> Result<PathBuf> {
    let whole = found(labs)?
        .into_iter()
        .rfind(|f| f.note.complete && f.note.command == "make lab");
    match whole {
        Some(f) => Ok(f.dir),
        None => bail!(
            "no complete lab of all rows in {}: run make lab first",
            labs.display()
        ),
    }
}

/// What a lab noted of its kernels' objects.
pub fn sizes(lab: &Path) -> Result<BTreeMap<String, Sizes>> {
    let file = lab.join("lab.json");
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let note: Note = serde_json::from_slice(&text)
        .with_context(|| format!("{} is of another version of this tool", file.display()))?;
    Ok(note.sizes)
}

fn unfinished(labs: &Path, key: &str) -> Result<Option<Folder>> {
    let all = found(labs)?;
    Ok(all
        .into_iter()
        .rfind(|f| f.note.key == key && !f.note.complete))
}

/// By date, for that is what they are called.
fn found(labs: &Path) -> Result<Vec<Folder>> {
    let mut found = Vec::new();
    if !labs.exists() {
        return Ok(found);
    }
    for entry in fs::read_dir(labs)? {
        let dir = entry?.path();
        let Ok(text) = fs::read(dir.join("lab.json")) else {
            continue;
        };
        // A folder of another version of this tool is not ours to go on with.
        let Ok(note) = serde_json::from_slice::<Note>(&text) else {
            continue;
        };
        found.push(Folder { dir, note });
    }
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(key: &str) -> Note {
        Note {
            command: "make lab".into(),
            date: "2026-01-01".into(),
            qemu: "7.2".into(),
            kernel: "7.3.4".into(),
            arms: BTreeMap::new(),
            sizes: BTreeMap::new(),
            needs: BTreeMap::new(),
            key: key.into(),
            complete: false,
        }
    }

    #[test]
    fn only_an_unfinished_lab_of_the_same_things_goes_on() {
        let temp = tempfile::tempdir().unwrap();
        let mut first = Folder::open(temp.path(), note("a")).unwrap();
        assert_eq!(Folder::open(temp.path(), note("a")).unwrap().dir, first.dir);
        assert!(unfinished(temp.path(), "b").unwrap().is_none());
        first.complete().unwrap();
        assert!(unfinished(temp.path(), "a").unwrap().is_none());
        fs::write(first.dir.join("lab.json"), "{").unwrap();
        assert!(unfinished(temp.path(), "a").unwrap().is_none());
    }
}
