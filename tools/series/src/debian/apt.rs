// SPDX-License-Identifier: GPL-2.0
//! apt on the system's own configuration, or on a second one in the cache for a suite the machine does not use.

use super::archive::own_archive;
use crate::step::{Ctx, Step, output};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// One version of a package that an archive serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub version: String,
    pub size: u64,
    pub sha256: String,
}

pub struct Apt<'a> {
    pub(super) ctx: &'a Ctx,
    /// None: the system's own.
    suite: Option<Suite>,
}

struct Suite {
    name: String,
    /// Its configuration and lists.
    dir: PathBuf,
}

/// How old a list may be, and how old when it does not hold what is wanted.
const OLD: Duration = Duration::from_secs(24 * 3600);
const RECENT: Duration = Duration::from_secs(600);

impl<'a> Apt<'a> {
    pub fn system(ctx: &'a Ctx) -> Self {
        Apt { ctx, suite: None }
    }

    pub fn suite(ctx: &'a Ctx, suite: &str) -> Result<Self> {
        let dir = ctx.cache.join("apt").join(suite);
        fs::create_dir_all(dir.join("lists/partial"))
            .and_then(|()| fs::create_dir_all(dir.join("archives/partial")))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let archive = own_archive().with_context(|| {
            format!("cannot tell where to read Debian's suite {suite} from; KDIR=<kernel clone> needs no archive")
        })?;
        fs::write(dir.join("series.sources"), archive.stanza(suite))?;
        fs::write(dir.join("apt.conf"), configuration(&dir))?;
        let name = suite.to_string();
        Ok(Apt {
            ctx,
            suite: Some(Suite { name, dir }),
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut cmd = Command::new(program);
        if let Some(suite) = &self.suite {
            cmd.arg("-c").arg(suite.dir.join("apt.conf"));
        }
        cmd
    }

    /// Reads the archive's list anew when it is older than `age`.
    /// The system's own lists are left to whoever installs packages.
    pub(super) fn update(&self, age: Duration) -> Result<()> {
        let Some(Suite { name, dir }) = &self.suite else {
            return Ok(());
        };
        let stamp = dir.join("updated");
        let since = stamp.metadata().and_then(|m| m.modified()).ok();
        let since = since.and_then(|t| SystemTime::now().duration_since(t).ok());
        if since.is_some_and(|d| d < age) {
            return Ok(());
        }
        Step::new(self.ctx, format!("apt-{name}"))
            .run(self.command("apt-get").arg("update"))
            .with_context(|| format!("cannot read Debian's suite {name}; is the network up?"))?;
        fs::write(stamp, "").context("cannot write in the cache")
    }

    fn listed(&self, package: &str) -> Result<Vec<Served>> {
        // Exit code 100: no such package.
        let out = output(self.command("apt-cache").args(["show", package]))?;
        Ok(served(&String::from_utf8_lossy(&out.stdout)))
    }

    /// The versions served, newest first. Asks the archive when the list here is old or has no such package.
    pub fn versions(&self, package: &str) -> Result<Vec<Served>> {
        self.update(OLD)?;
        let found = self.listed(package)?;
        if !found.is_empty() {
            return Ok(found);
        }
        self.update(RECENT)?;
        self.listed(package)
    }

    pub(super) fn entry(&self, package: &str, version: &str) -> Result<Served> {
        let of = |list: &[Served]| list.iter().find(|s| s.version == version).cloned();
        if let Some(found) = of(&self.versions(package)?) {
            return Ok(found);
        }
        self.update(RECENT)?;
        let list = self.listed(package)?;
        of(&list).with_context(|| {
            let names: Vec<_> = list.iter().map(|s| s.version.as_str()).collect();
            format!(
                "{package} {version} is not in Debian's suite {} any more; served now: {}",
                self.suite.as_ref().map_or("system", |s| &s.name),
                if names.is_empty() {
                    "no version".into()
                } else {
                    names.join(", ")
                }
            )
        })
    }

    pub(super) fn download(&self, package: &str, version: &str, dir: &Path) -> Result<()> {
        let mut cmd = self.command("apt-get");
        cmd.args(["download", &format!("{package}={version}")])
            .current_dir(dir);
        Step::new(self.ctx, format!("download-{package}"))
            .run(&mut cmd)
            .map(drop)
    }
}

/// Hooks of the machine's own configuration are about its own lists.
fn configuration(dir: &Path) -> String {
    let path = |p: &str| dir.join(p).display().to_string();
    format!(
        "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\n\
         Dir::State::lists \"{}\";\nDir::State::status \"/dev/null\";\nDir::Cache::archives \"{}\";\n\
         Dir::Cache::pkgcache \"\";\nDir::Cache::srcpkgcache \"\";\n\
         APT::Sandbox::User \"\";\nAPT::Update::Error-Mode \"any\";\nAcquire::Languages \"none\";\n\
         Acquire::Retries \"3\";\n",
        path("series.sources"),
        path("lists"),
        path("archives"),
    )
}

/// The records of `apt-cache show` that can be downloaded.
fn served(text: &str) -> Vec<Served> {
    text.split("\n\n")
        .filter_map(|record| {
            let field = |key: &str| {
                record
                    .lines()
                    .find_map(|l| l.strip_prefix(key)?.strip_prefix(": "))
                    .map(|v| v.trim().to_string())
            };
            Some(Served {
                version: field("Version")?,
                size: field("Size")?.parse().ok()?,
                sha256: field("SHA256")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_downloadable_records_count() {
        let text = "Package: a\nVersion: 2\nSize: 10\nSHA256: ab\n\nPackage: a\nVersion: 1\nStatus: installed\n";
        let list = served(text);
        assert_eq!(
            list,
            [Served {
                version: "2".into(),
                size: 10,
                sha256: "ab".into()
            }]
        );
    }
}
