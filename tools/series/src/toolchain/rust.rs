// SPDX-License-Identifier: GPL-2.0
//! rustc, what comes beside it, and the library source of exactly its version.

use super::Toolchain;
use super::fix::{Fix, pair};
use super::probe::{is_program, path_from, version_of, which};
use super::table::{Row, Status, at};
use crate::debian;
use crate::opts::Opts;
use crate::requirements::{Requirement, Version};
use crate::step::{Ctx, output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn rustc(ctx: &Ctx, opts: &Opts, r: &Requirement, row: &mut Row, tools: &mut Toolchain) {
    if let Some(own) = &opts.rustc {
        let said = own.display();
        let Some(path) = which(&own.to_string_lossy()) else {
            row.found = said.to_string();
            row.fix = Fix::Say(format!("RUSTC={said} is no program"));
            return;
        };
        tools.rustc = behind_proxy(path);
        row.judge(r, rustc_version(&tools.rustc).as_ref(), &tools.rustc);
        row.fix = Fix::Say(format!(
            "RUSTC={said} does not fit: leave RUSTC out, or name another"
        ));
        return;
    }
    let rank = |(path, version): &(PathBuf, Version)| {
        if r.minimum.as_ref().is_some_and(|min| version < min) {
            2
        } else if opts.rust_lib_src.is_none() && library_of(ctx, path, version).is_none() {
            1
        } else {
            0
        }
    };
    let best = [which("rustc"), which("/usr/bin/rustc")]
        .into_iter()
        .flatten()
        .map(behind_proxy)
        .filter_map(|path| rustc_version(&path).map(|v| (path, v)))
        .min_by_key(rank);
    if let Some((path, version)) = best {
        row.judge(r, Some(&version), &path);
        tools.rustc = path;
    }
    if let Some(release) = debian::release() {
        row.fix = Fix::Packages(pair(release));
    }
}

/// The version of a rustc and nothing else.
fn rustc_version(rustc: &Path) -> Option<Version> {
    let out = output(Command::new(rustc).arg("--version")).ok()?;
    Version::find(String::from_utf8_lossy(&out.stdout).strip_prefix("rustc ")?)
}

fn sysroot(rustc: &Path) -> PathBuf {
    path_from(rustc, &["--print", "sysroot"])
}

/// A rustup proxy would choose by the folder it runs in: take the compiler behind it.
fn behind_proxy(rustc: PathBuf) -> PathBuf {
    let real = sysroot(&rustc).join("bin/rustc");
    if is_program(&real) { real } else { rustc }
}

pub fn cached_library(ctx: &Ctx, rust: &Version) -> PathBuf {
    ctx.cache.join(format!("rustc-{rust}/library"))
}

/// Where a compiler's library source may be, without fetching anything.
fn library_of(ctx: &Ctx, rustc: &Path, version: &Version) -> Option<PathBuf> {
    [
        sysroot(rustc).join("lib/rustlib/src/rust/library"),
        PathBuf::from(format!("/usr/src/rustc-{version}/library")),
        cached_library(ctx, version),
    ]
    .into_iter()
    .find(|d| is_library(d))
}

fn is_library(dir: &Path) -> bool {
    dir.join("core/src/lib.rs").is_file()
}

pub fn rust_lib_src(ctx: &Ctx, opts: &Opts, row: &mut Row, tools: &mut Toolchain) {
    let rustc = rustc_version(&tools.rustc);
    row.needed = rustc
        .as_ref()
        .map_or("rustc's version".into(), |v| format!("{v}, as rustc"));
    let own = opts.rust_lib_src.as_ref();
    let dir = if let Some(own) = own {
        row.found = own.display().to_string();
        row.fix = Fix::Say(format!(
            "RUST_LIB_SRC={}: no library/core/src/lib.rs there",
            own.display()
        ));
        let places = [own.clone(), own.join("library")];
        let found = places.into_iter().find(|d| is_library(d));
        found.map(|d| d.canonicalize().unwrap_or(d))
    } else {
        rustc
            .as_ref()
            .and_then(|v| library_of(ctx, &tools.rustc, v))
    };
    let Some(dir) = dir else {
        if let (None, Some(rustc)) = (own, rustc) {
            row.fix = Fix::LibSrc(rustc);
        }
        return;
    };
    let source = library_version(&dir);
    row.found = at(source.as_ref(), &dir);
    row.status = Status::Fits;
    tools.rust_lib_src = Some(dir);
    let (Some(source), Some(rustc)) = (source, rustc) else {
        return;
    };
    if !same_release(&source, &rustc) {
        row.status = Status::Wrong("MISMATCH".into());
        if own.is_some() {
            row.fix = Fix::Say(format!(
                "RUST_LIB_SRC is the source of Rust {source}, the compiler ({}) is {rustc}: they must be the same version",
                tools.rustc.display()
            ));
        }
    }
}

/// What version a library source is of: its folder may say, its neighbours, or the newest feature it calls stable.
fn library_version(dir: &Path) -> Option<Version> {
    let dir = dir.canonicalize().ok()?;
    let parent = dir.parent()?;
    let noted = fs::read_to_string(parent.join("src/version")).unwrap_or_default();
    let folder = parent.file_name()?.to_string_lossy();
    if let Some(v) =
        Version::find(&noted).or_else(|| folder.strip_prefix("rustc-").and_then(Version::find))
    {
        return Some(v);
    }
    // <sysroot>/lib/rustlib/src/rust/library
    let rustc = dir.ancestors().nth(5)?.join("bin/rustc");
    if is_program(&rustc) {
        return rustc_version(&rustc);
    }
    newest_stable(&dir.join("core/src"))
}

/// Major and minor of the newest feature the library calls stable: every release brings one.
fn newest_stable(dir: &Path) -> Option<Version> {
    let found = fs::read_dir(dir).ok()?.flatten().filter_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            newest_stable(&path)
        } else {
            stable_since(&fs::read_to_string(&path).unwrap_or_default())
        }
    });
    newest(found)
}

fn stable_since(text: &str) -> Option<Version> {
    let found = text
        .lines()
        .filter(|l| l.contains("stable(feature"))
        .filter_map(|l| Version::find(l.split("since = \"").nth(1)?))
        .map(|v| Version(v.0.into_iter().take(2).collect()));
    newest(found)
}

fn newest(versions: impl Iterator<Item = Version>) -> Option<Version> {
    versions.reduce(|a, b| if b > a { b } else { a })
}

/// The source may only know major and minor.
fn same_release(source: &Version, rustc: &Version) -> bool {
    source.0.iter().zip(&rustc.0).all(|(s, r)| s == r)
}

/// rustfmt and clippy of the very compiler that is used.
pub fn beside_rustc(r: &Requirement, row: &mut Row, tools: &mut Toolchain) {
    let (name, tool) = match r.name {
        "clippy" => ("clippy-driver", &mut tools.clippy),
        _ => ("rustfmt", &mut tools.rustfmt),
    };
    let path = tools.rustc.with_file_name(name);
    if is_program(&path) {
        row.judge(r, version_of(&path).as_ref(), &path);
        *tool = Some(path);
    } else if rustc_version(&tools.rustc).is_some() && !tools.rustc.starts_with("/usr/bin") {
        row.fix = Fix::Say(format!(
            "missing beside {}: `rustup component add {}`",
            tools.rustc.display(),
            r.name
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_release_is_read_from_what_is_stable() {
        let text = "#[stable(feature = \"a\", since = \"1.85.0\")]\n#[rustc_const_stable(feature = \"b\", since = \"1.9.0\")]\n\
                    #[deprecated(since = \"1.99.0\")]\n";
        let v = stable_since(text).unwrap();
        assert_eq!(v.to_string(), "1.85");
        assert!(same_release(&v, &Version(vec![1, 85, 1])));
        assert!(!same_release(&v, &Version(vec![1, 86, 0])));
    }
}
