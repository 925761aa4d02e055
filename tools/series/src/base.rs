// SPDX-License-Identifier: GPL-2.0
//! The kernels the series is laid on, from Debian's packaged source.

use crate::debian::{self, Apt};
use crate::git::{self, git};
use crate::step::{Ctx, Step, capture};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const DEFAULT: &str = "7.3.4";
const TABLE: &str = include_str!("../../bases.tsv");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    pub name: String,
    pub package: String,
    pub version: String,
    pub suite: String,
    /// None for a version the table does not name: then the archive's signed list alone vouches for it.
    pub sha256: Option<String>,
}

/// The bases the series is known to fit.
pub fn all() -> Vec<Base> {
    TABLE
        .lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        .map(|l| {
            let f: Vec<&str> = l.split('\t').collect();
            assert!(f.len() == 5, "tools/bases.tsv: not five columns: {l}");
            Base {
                name: f[0].into(),
                package: f[1].into(),
                version: f[2].into(),
                suite: f[3].into(),
                sha256: Some(f[4].into()),
            }
        })
        .collect()
}

/// The base of that name; or any version of the same package that the same suites serve.
pub fn find(ctx: &Ctx, name: &str) -> Result<Base> {
    let known = all();
    if let Some(base) = known.iter().find(|b| b.name == name || b.version == name) {
        return Ok(base.clone());
    }
    if !name.starts_with(|c: char| c.is_ascii_digit()) {
        bail!("BASE={name}: not a version. Known: {}", names(&known));
    }
    let served = served(ctx)?;
    let fits = |b: &&Base| b.version == name || b.name == name;
    served.iter().find(fits).cloned().with_context(|| {
        format!(
            "BASE={name}: no such base. Known: {}; served now: {}",
            names(&known),
            names(&served)
        )
    })
}

fn names(list: &[Base]) -> String {
    let names: Vec<_> = list.iter().map(|b| b.name.as_str()).collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

fn served(ctx: &Ctx) -> Result<Vec<Base>> {
    let mut out = Vec::new();
    let known = all();
    let places: BTreeSet<_> = known.iter().map(|b| (&b.suite, &b.package)).collect();
    for (suite, package) in places {
        for s in Apt::suite(ctx, suite)?.versions(package)? {
            out.push(Base {
                name: debian::upstream(&s.version),
                package: package.clone(),
                version: s.version,
                suite: suite.clone(),
                sha256: None,
            });
        }
    }
    Ok(out)
}

impl Base {
    fn deb(&self, ctx: &Ctx) -> Result<PathBuf> {
        let got = Apt::suite(ctx, &self.suite)
            .and_then(|apt| apt.fetch(&self.package, &self.version, self.sha256.as_deref()));
        got.map_err(|e| match served(ctx) {
            Ok(list) if !list.iter().any(|b| b.version == self.version) && !list.is_empty() => e.context(format!(
                "base {} cannot be had. The archive now serves {}; take one of them with BASE=<version>, \
                 or your own clone with KDIR=<folder>",
                self.name,
                names(&list)
            )),
            _ => e,
        })
    }

    /// Unpacks the source, or only some files of it, into an existing empty folder.
    fn extract(&self, ctx: &Ctx, dest: &Path, files: &[String]) -> Result<()> {
        let deb = self.deb(ctx)?;
        if files.is_empty() {
            debian::need_space(&ctx.build, 2_600_000_000, "the kernel source")?;
        }
        let inner = format!("./usr/src/{}.tar.xz", self.package);
        let script = "set -eo pipefail; deb=$1 inner=$2 to=$3; shift 3; \
                      dpkg-deb --fsys-tarfile \"$deb\" | tar -xO \"$inner\" | xz -dc | \
                      tar -x --no-same-owner --strip-components=1 -C \"$to\" \"$@\"";
        let mut cmd = Command::new("bash");
        cmd.args(["-c", script, "extract"])
            .arg(deb)
            .arg(inner)
            .arg(dest)
            .args(files.iter().map(|f| format!("{}/{f}", self.package)));
        Step::new(ctx, format!("extract-{}", self.name)).run(&mut cmd)?;
        Ok(())
    }

    /// The whole source as one commit in `dest`, checked out on the branch `series`. Gives the commit.
    pub fn repository(&self, ctx: &Ctx, dest: &Path) -> Result<String> {
        self.extract(ctx, dest, &[])?;
        self.commit(ctx, dest)
    }

    /// Only these files as one commit in `dest`: enough to try patches on.
    pub fn sample(&self, ctx: &Ctx, dest: &Path, files: &[String]) -> Result<String> {
        self.extract(ctx, dest, files)?;
        self.commit(ctx, dest)
    }

    fn commit(&self, ctx: &Ctx, dir: &Path) -> Result<String> {
        let ignore = dir.join(".gitignore");
        if let Ok(text) = fs::read_to_string(&ignore) {
            fs::write(&ignore, without_debian_block(&text))?;
        }
        init(dir, &["--object-format=sha1"])?;
        // -f: some files that upstream tracks match .gitignore; `git clean -xd` must not take them.
        // The low threshold makes git write one pack instead of 90,000 small files.
        let fast = [
            "core.bigFileThreshold=1",
            "core.compression=1",
            "core.fsync=none",
        ];
        let settings = fast.iter().flat_map(|s| ["-c", s]);
        Step::new(ctx, format!("commit-{}", self.name))
            .run(git(dir).args(settings).args(["add", "-A", "-f", "."]))?;
        let text = format!("Linux {} ({} {})", self.name, self.package, self.version);
        capture(
            git(dir)
                .env("GIT_AUTHOR_NAME", git::NAME)
                .env("GIT_AUTHOR_EMAIL", git::EMAIL)
                .env("GIT_AUTHOR_DATE", git::DATE)
                .env("GIT_COMMITTER_DATE", git::DATE)
                .args(["commit", "--quiet", "--no-gpg-sign", "-m", &text]),
        )?;
        git::line(dir, &["rev-parse", "HEAD"])
    }
}

/// A repository of ours. It never packs itself in the background: that would fight the build for the CPUs.
pub fn init(dir: &Path, options: &[&str]) -> Result<()> {
    capture(
        git(dir)
            .args(["init", "--quiet", "--template=", "--initial-branch=series"])
            .args(options),
    )?;
    capture(git(dir).args(["config", "gc.auto", "0"]))?;
    capture(git(dir).args(["config", "maintenance.auto", "false"]))?;
    Ok(())
}

/// Debian's tarball ends its .gitignore with a block that ignores everything at top level.
fn without_debian_block(text: &str) -> String {
    let mark = "# Debian packaging: ignore everything at the top level";
    let lines: Vec<&str> = text.lines().collect();
    let Some(mut end) = lines.iter().position(|l| l.starts_with(mark)) else {
        return text.to_string();
    };
    while end > 0 && matches!(lines[end - 1].trim(), "#" | "") {
        end -= 1;
    }
    lines[..end].iter().map(|l| format!("{l}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sound() {
        let bases = all();
        assert!(bases.iter().any(|b| b.name == DEFAULT));
        for b in &bases {
            assert_eq!(b.name, debian::upstream(&b.version));
            assert_eq!(b.sha256.as_ref().unwrap().len(), 64);
        }
    }

    #[test]
    fn debian_block_goes() {
        let text = "*.o\n!x\n\n#\n# Debian packaging: ignore everything at the top level, since\n#\n/*\n!/debian/\n";
        assert_eq!(without_debian_block(text), "*.o\n!x\n");
        assert_eq!(without_debian_block("*.o\n"), "*.o\n");
    }
}
