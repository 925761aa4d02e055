// SPDX-License-Identifier: GPL-2.0
//! Programs and modules that only Python's index has, of the version in tools/python.tsv, each in a virtual
//! environment of its own in the cache: nothing of the user's Python is touched, nor does one see the other.

use crate::files::write_whole;
use crate::lock::Lock;
use crate::step::{Ctx, Step};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const TABLE: &str = include_str!("../../../python.tsv");

/// The folder of the programs that come with `package`, its own `python` among them; fetched when it is not there.
#[expect(dead_code, reason = "`make send` is the first to call it")]
pub fn programs(ctx: &Ctx, package: &str) -> Result<PathBuf> {
    let version = version(package)?;
    let home = ctx.cache.join(format!("python/{package}-{version}"));
    let whole = home.join("whole");
    fs::create_dir_all(ctx.cache.join("python"))
        .with_context(|| format!("cannot make {}", ctx.cache.join("python").display()))?;
    // The cache is shared by all clones.
    let _lock = Lock::take(
        &ctx.cache.join("python/lock"),
        "the Python programs of the cache",
    )?;
    if !whole.is_file() {
        // It knows its own path, so it cannot be made elsewhere and moved.
        if home.exists() {
            fs::remove_dir_all(&home)
                .with_context(|| format!("cannot remove {}", home.display()))?;
        }
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&home);
        Step::new(ctx, format!("python {package} venv")).run(&mut venv)?;
        let mut pip = Command::new(home.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .arg(format!("{package}=={version}"));
        Step::new(ctx, format!("python {package} {version}")).run(&mut pip)?;
        write_whole(&whole, b"")?;
    }
    Ok(home.join("bin"))
}

fn version(package: &str) -> Result<&'static str> {
    let rows = TABLE.lines().filter(|l| !l.starts_with('#'));
    for row in rows {
        let cells: Vec<&str> = row.split('\t').collect();
        let [name, version, _why] = cells[..] else {
            bail!("tools/python.tsv: want package, version, why; got `{row}`");
        };
        if name == package {
            return Ok(version);
        }
    }
    bail!("tools/python.tsv has no row for {package}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole() {
        for row in TABLE.lines().filter(|l| !l.starts_with('#')) {
            let name = row.split('\t').next().unwrap();
            assert!(version(name).unwrap().contains('.'), "{row}");
        }
        assert!(version("nothing").is_err());
    }
}
