// SPDX-License-Identifier: GPL-2.0
//! Package files in the cache: always whole and with the right SHA-256, or not there.

use super::apt::{Apt, Served};
use crate::files::{hex, into_place};
use crate::lock::Lock;
use crate::step::{self, Ctx, Step, say};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

impl Apt<'_> {
    /// The package file, from the cache or the archive.
    pub fn fetch(&self, package: &str, version: &str, pin: Option<&str>) -> Result<PathBuf> {
        let cache = &self.ctx.cache;
        let file = cache.join("deb").join(format!("{package}_{version}.deb"));
        if cached(&file, pin)? {
            return Ok(file);
        }
        let _lock = Lock::take(&cache.join("lock"), "the download cache")?;
        // Whoever held the lock may have brought it.
        if cached(&file, pin)? {
            return Ok(file);
        }
        let temp = cache.join("tmp");
        let _ = fs::remove_dir_all(&temp);
        let dir = step::temp_in(&temp, "download")?;

        let mut entry = self.pinned(package, version, pin)?;
        need_space(cache, entry.size + entry.size / 4, "the package")?;
        if self.download(package, version, dir.path()).is_err() {
            step::check_interrupt()?;
            // The list here may be older than the archive.
            self.update(Duration::ZERO)?;
            entry = self.pinned(package, version, pin)?;
            self.download(package, version, dir.path())?;
        }
        let got = the_deb(dir.path())?;
        let (size, sum) = (got.metadata()?.len(), sha256(&got)?);
        if size != entry.size || sum != entry.sha256 {
            bail!(
                "{package} {version}: got {size} bytes with SHA-256 {sum}, expected {} bytes with {}. Removed; run again.",
                entry.size,
                entry.sha256
            );
        }
        fs::create_dir_all(cache.join("deb"))?;
        fs::write(beside(&file), format!("{sum}\n"))?;
        into_place(&got, &file)?;
        Ok(file)
    }

    fn pinned(&self, package: &str, version: &str, pin: Option<&str>) -> Result<Served> {
        let entry = self.entry(package, version)?;
        if let Some(pin) = pin.filter(|p| *p != entry.sha256) {
            bail!(
                "{package} {version}: the archive serves a file with SHA-256 {}, tools/bases.tsv says {pin}. \
                 Not used; if the archive is right, correct the table.",
                entry.sha256
            );
        }
        Ok(entry)
    }
}

/// Whether the file is there with the SHA-256 written beside it (and the pinned one). A wrong one is removed.
fn cached(file: &Path, pin: Option<&str>) -> Result<bool> {
    if !file.is_file() {
        return Ok(false);
    }
    let noted = fs::read_to_string(beside(file)).unwrap_or_default();
    let sum = sha256(file)?;
    if sum == noted.trim() && pin.is_none_or(|p| p == sum) {
        return Ok(true);
    }
    say(format!(
        "{} is damaged: removed, downloading it again",
        file.display()
    ));
    fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    Ok(false)
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sha256");
    PathBuf::from(name)
}

fn the_deb(dir: &Path) -> Result<PathBuf> {
    fs::read_dir(dir)?
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "deb"))
        .context("apt-get download left no package file")
}

fn sha256(file: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", file.display());
    let mut f = File::open(file).with_context(cannot)?;
    let mut hash = Sha256::new();
    let mut buf = vec![0; 1 << 20];
    loop {
        step::check_interrupt()?;
        match f.read(&mut buf).with_context(cannot)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buf[..n]),
        }
    }
}

/// Fails before the work starts rather than in the middle.
pub fn need_space(dir: &Path, bytes: u64, what: &str) -> Result<()> {
    let fs = rustix::fs::statvfs(dir)
        .with_context(|| format!("cannot look at the disk of {}", dir.display()))?;
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    if free < bytes {
        bail!(
            "{what} needs {} MB in {}, which has {} MB free. Free some space, or point BUILD= or XDG_CACHE_HOME at a larger disk.",
            bytes / 1_000_000,
            dir.display(),
            free / 1_000_000
        );
    }
    Ok(())
}

/// Unpacks one folder of a package file to `dest` in the cache, whole or not at all.
pub fn unpack(ctx: &Ctx, deb: &Path, dest: &Path, inside: &str) -> Result<()> {
    let temp = step::temp_in(&ctx.cache.join("unpack"), "deb")?;
    let script = "set -eo pipefail; dpkg-deb --fsys-tarfile \"$1\" | tar -x --no-same-owner -C \"$2\" \"$3\"";
    let mut cmd = Command::new("bash");
    cmd.args(["-c", script, "unpack"])
        .arg(deb)
        .arg(temp.path())
        .arg(inside);
    let name = deb.file_stem().unwrap_or_default().to_string_lossy();
    Step::new(ctx, format!("unpack-{name}")).run(&mut cmd)?;
    let _ = fs::remove_dir_all(dest);
    into_place(&temp.path().join(inside), dest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x_1.deb");
        fs::write(&file, "whole").unwrap();
        fs::write(beside(&file), sha256(&file).unwrap()).unwrap();
        assert!(cached(&file, None).unwrap());
        assert!(file.exists());
        fs::write(&file, "hal").unwrap();
        assert!(!cached(&file, None).unwrap());
        assert!(!file.exists());
    }

    #[test]
    fn too_little_space_is_said() {
        let err = need_space(Path::new("/"), u64::MAX, "the test").unwrap_err();
        assert!(err.to_string().contains("MB free"), "{err}");
    }
}
