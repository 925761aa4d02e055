// SPDX-License-Identifier: GPL-2.0
//! How a missing piece comes, and bringing it.

use super::rust::cached_library;
use super::table::{Look, Row};
use crate::debian::{self, Apt};
use crate::requirements::{self, Version};
use crate::step::{Ctx, Step, say};
use anyhow::{Result, bail};
use std::env;
use std::process::Command;

/// The version `cargo install` brings where the distribution has none.
const BINDGEN: &str = "0.72.1";
/// The suite whose `rust-src` matches newer compilers.
const BACKPORTS: &str = "trixie-backports";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    Packages(Vec<String>),
    /// The source of exactly this version, from a package that is only unpacked.
    LibSrc(Version),
    CargoBindgen,
    /// The user's own choice does not fit: only they can change it.
    Say(String),
}

impl Fix {
    pub fn text(&self, release: Option<u32>) -> String {
        match self {
            Fix::Say(text) => text.clone(),
            Fix::Packages(p) if release.is_some() => debian::install_command(p, ""),
            Fix::Packages(p) => format!("(on Debian: {})", p.join(" ")),
            Fix::LibSrc(v) => format!(
                "rustup component add rust-src; or package rust-src {v}, unpacked in the cache"
            ),
            Fix::CargoBindgen => format!("cargo install --locked bindgen-cli --version {BINDGEN}"),
        }
    }
}

fn bad(look: &Look) -> impl Iterator<Item = &Row> {
    look.rows.iter().filter(|r| !r.good())
}

/// Gives the release to bring the pieces from.
pub fn give_up_if_hopeless(look: &Look, release: Option<u32>) -> Result<u32> {
    let own: Vec<String> = bad(look)
        .filter_map(|r| match &r.fix {
            Fix::Say(text) => Some(format!("  {}: {text}", r.name)),
            _ => None,
        })
        .collect();
    if !own.is_empty() {
        bail!("these only you can change:\n{}", own.join("\n"));
    }
    let Some(release) = release else {
        bail!(
            "this is not Debian 12 or 13, so nothing is installed. Bring the pieces above, then run again \
             (tools/requirements.tsv says what each is for)."
        );
    };
    Ok(release)
}

pub fn bring(ctx: &Ctx, look: &Look, release: Option<u32>) -> Result<()> {
    let release = give_up_if_hopeless(look, release)?;
    let mut packages: Vec<String> = Vec::new();
    let mut source = None;
    for row in bad(look) {
        match &row.fix {
            Fix::Packages(p) => packages.extend(p.iter().cloned()),
            Fix::LibSrc(version) => {
                source = library_package(ctx, version);
                if source.is_none() {
                    say(format!(
                        "no package of the library source of rustc {version}: taking the distribution's own pair"
                    ));
                    packages.extend(pair(release));
                }
            }
            Fix::CargoBindgen | Fix::Say(_) => {}
        }
    }
    packages.sort();
    packages.dedup();
    if !packages.is_empty() {
        debian::install(ctx, &packages)?;
    }
    if let Some(source) = source {
        let deb = source.apt.fetch(source.package, &source.version, None)?;
        let inside = format!("./usr/src/rustc-{}/library", source.rust);
        debian::unpack(ctx, &deb, &cached_library(ctx, source.rust), &inside)?;
    }
    if bad(look).any(|r| r.fix == Fix::CargoBindgen) {
        install_bindgen(ctx)?;
    }
    Ok(())
}

/// A compiler and its library source of one version.
pub fn pair(release: u32) -> Vec<String> {
    let all = requirements::all();
    all.iter()
        .filter(|r| r.name == "rustc" || r.name == "rust-lib-src")
        .flat_map(|r| r.packages(release).to_vec())
        .collect()
}

struct LibraryPackage<'a> {
    apt: Apt<'a>,
    package: &'static str,
    version: String,
    rust: &'a Version,
}

/// The library source of exactly this compiler, in the machine's own suites or in Debian 13's backports.
fn library_package<'a>(ctx: &'a Ctx, rust: &'a Version) -> Option<LibraryPackage<'a>> {
    for suite in [None, Some(BACKPORTS)] {
        let apt = match suite {
            None => Apt::system(ctx),
            Some(s) => Apt::suite(ctx, s).ok()?,
        };
        for package in ["rust-src", "rust-web-src"] {
            let served = apt.versions(package).unwrap_or_default();
            let exact = |v: &String| debian::upstream(v) == rust.to_string();
            if let Some(version) = served.into_iter().map(|s| s.version).find(exact) {
                return Some(LibraryPackage {
                    apt,
                    package,
                    version,
                    rust,
                });
            }
        }
    }
    None
}

fn install_bindgen(ctx: &Ctx) -> Result<()> {
    let temp = ctx.temp("bindgen")?;
    let mut cmd = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cmd.args(["install", "--locked", "--force"])
        .args(["bindgen-cli", "--version", BINDGEN, "--root"])
        .arg(ctx.cache.join("bindgen"))
        .env("CARGO_TARGET_DIR", temp.path());
    Step::new(ctx, "install-bindgen").run(&mut cmd).map(drop)
}
