// SPDX-License-Identifier: GPL-2.0
//! Small things about files.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

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

/// Moves what is whole to where it belongs, on the same disk.
pub fn into_place(new: &Path, place: &Path) -> Result<()> {
    let dir = place.parent().expect("has one");
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    fs::rename(new, place).with_context(|| format!("cannot write {}", place.display()))
}

pub fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A program for a test. `install` writes it: what this process has open for writing could not be run
/// while a test beside it forks.
#[cfg(test)]
pub fn script_in(dir: &Path, program: &str, script: &str) -> std::path::PathBuf {
    let (text, path) = (dir.join("script"), dir.join(program));
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    let mut install = std::process::Command::new("install");
    assert!(install.arg(&text).arg(&path).status().unwrap().success());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

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
