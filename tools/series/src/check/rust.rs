// SPDX-License-Identifier: GPL-2.0

//! What is checked about the series' Rust files before a kernel boots.

use super::none;
use crate::export;
use crate::kunit::{self, Config};
use crate::opts::{Arch, Rust};
use crate::step::{Ctx, Step};
use crate::toolchain::Toolchain;
use crate::tree::Tree;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// The Rust files that the series adds or changes, at their in-tree paths.
fn rust_files(ctx: &Ctx, tree: &Tree) -> Result<Vec<String>> {
    let mut files = export::touched(ctx, tree)?;
    files.retain(|f| f.ends_with(".rs"));
    if files.is_empty() {
        bail!("the series has no Rust file");
    }
    Ok(files)
}

pub fn rustfmt(ctx: &Ctx, tools: &Toolchain, tree: &Tree) -> Result<()> {
    let rustfmt = tools
        .rustfmt
        .as_deref()
        .context("the preflight found no rustfmt")?;
    let mut found = Vec::new();
    for name in rust_files(ctx, tree)? {
        // By standard input, else rustfmt follows `mod` lines into files that are not ours.
        let source = tree.dir.join(&name);
        let out = Command::new(rustfmt)
            .arg("--check")
            .arg("--config-path")
            .arg(tree.dir.join(".rustfmt.toml"))
            .stdin(
                File::open(&source).with_context(|| format!("cannot read {}", source.display()))?,
            )
            .stdout(Stdio::piped())
            .output()
            .with_context(|| format!("cannot run {}", rustfmt.display()))?;
        if !out.status.success() {
            let said = [&out.stdout[..], &out.stderr[..]].concat();
            found.push(format!(
                "{name}:\n{}",
                String::from_utf8_lossy(&said).trim_end()
            ));
        }
    }
    none(found)
}

/// `make CLIPPY=1` in a build folder of its own: switching the KUnit kernel's
/// folder to clippy and back would rebuild all of its Rust twice.
pub fn clippy(ctx: &Ctx, tools: &Toolchain, tree: &Tree) -> Result<()> {
    let files = rust_files(ctx, tree)?;
    if tools.clippy.is_none() {
        bail!("the preflight found no clippy-driver");
    }
    let dir = ctx.build.join(format!("clippy{}", tree.tag));
    kunit::configure(
        ctx,
        tools,
        tree,
        Config {
            arch: Arch::X86_64,
            rust: Rust::Y,
        },
        dir.clone(),
        "clippy config",
    )?;
    // rust/ as a whole is one crate.
    let mut objects = vec!["rust/kernel.o".to_string()];
    objects.extend(self::objects(ctx, tree)?);
    // Clippy speaks only when it compiles.
    for object in &objects {
        let _ = fs::remove_file(dir.join(object));
    }
    let mut cmd = Command::new("make");
    cmd.arg("-C")
        .arg(&tree.dir)
        .arg(format!("O={}", dir.display()))
        .arg("ARCH=x86_64");
    cmd.arg(format!("-j{}", ctx.jobs)).args(tools.make_args());
    cmd.arg("CLIPPY=1").args(&objects);
    let step = tools
        .envs(ctx)
        .into_iter()
        .fold(Step::new(ctx, "clippy make"), |s, (k, v)| s.env(k, v));
    let done = step.run(&mut cmd)?;
    let log = fs::read(&done.log).with_context(|| format!("cannot read {}", done.log.display()))?;
    none(lints(&String::from_utf8_lossy(&log), &files))
}

/// The objects that the series' Rust files outside rust/ become.
pub fn objects(ctx: &Ctx, tree: &Tree) -> Result<Vec<String>> {
    let files = rust_files(ctx, tree)?;
    Ok(files.iter().filter_map(|f| object(&tree.dir, f)).collect())
}

/// The object of a Rust file that is one by itself, not a module of another.
fn object(tree: &Path, file: &str) -> Option<String> {
    let object = Path::new(file).with_extension("o");
    let makefile = fs::read_to_string(tree.join(file).with_file_name("Makefile")).ok()?;
    let name = object.file_name()?.to_str()?;
    makefile
        .split_whitespace()
        .any(|word| word == name)
        .then(|| object.display().to_string())
}

/// The lints of a compiler log that point into `files`, with their place.
fn lints(log: &str, files: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut title = "";
    for line in log.lines() {
        if line.starts_with("warning") || line.starts_with("error") {
            title = line;
        } else if let Some((_, place)) = line.split_once("--> ") {
            let file = place.split(':').next().unwrap_or_default();
            if files.iter().any(|f| Path::new(file).ends_with(f)) {
                found.push(format!("{place}: {title}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_lints_count() {
        let log = "warning: unused\n  --> /b/linux/rust/kernel/other.rs:1:2\n\
                   warning: this could be simpler\n  --> /b/linux/mm/vmscan_rust.rs:7:9\n";
        let ours = ["mm/vmscan_rust.rs".to_string()];
        assert_eq!(
            lints(log, &ours),
            ["/b/linux/mm/vmscan_rust.rs:7:9: warning: this could be simpler"]
        );
        assert!(lints(log, &["mm/scan_rust.rs".to_string()]).is_empty());
    }

    #[test]
    fn a_module_is_no_object() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("Makefile"), "obj-$(CONFIG_X) += policy.o\n").unwrap();
        assert_eq!(object(dir.path(), "policy.rs").as_deref(), Some("policy.o"));
        assert_eq!(object(dir.path(), "policy_kunit.rs"), None);
        assert_eq!(object(dir.path(), "tests/policy.rs"), None);
    }
}
