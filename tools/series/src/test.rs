// SPDX-License-Identifier: GPL-2.0

//! `make test`: every promise of the repository as a named check. A failing one
//! does not keep the others from running.

use crate::check::{mail, none, panic, rust};
use crate::kunit::{self, Config};
use crate::lab::{self, Lab};
use crate::opts::{Arch, Opts, Rust, Series};
use crate::report::Tally;
use crate::step::{self, Ctx, Step, capture, say};
use crate::toolchain::{self, Toolchain, Want};
use crate::tree::{self, Tree};
use crate::{base, export};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Extensions and names of files that have no room for an SPDX line.
const NO_SPDX: &[&str] = &[
    ".patch",
    ".json",
    ".png",
    ".svg",
    "Cargo.lock",
    "LICENSE",
    "COPYING",
];

pub fn run(ctx: &Ctx, opts: &Opts) -> Result<()> {
    // `make test` proves both languages whatever RUST= says.
    let opts = &Opts {
        rust: Rust::Y,
        arch: Arch::X86_64,
        ..opts.clone()
    };
    let mut checks = Checks {
        ctx,
        tally: Tally::default(),
    };

    let tools = checks.run("preflight", || toolchain::ensure(ctx, opts, Want::Test))?;
    if let Some(tools) = &tools {
        checks.run("tools: rustfmt", || {
            cargo(ctx, tools, "fmt", &["--all", "--check"])
        })?;
        checks.run("tools: clippy", || {
            cargo(
                ctx,
                tools,
                "clippy",
                &[
                    "--workspace",
                    "--all-targets",
                    "--locked",
                    "--",
                    "-D",
                    "warnings",
                ],
            )
        })?;
        checks.run("tools: tests", || {
            cargo(ctx, tools, "test", &["--workspace", "--locked"])
        })?;
    }
    checks.run("SPDX lines", || spdx(&ctx.root))?;
    checks.run("no Signed-off-by", || mail::no_sign_off(&all_patches(ctx)?))?;
    let Some(tools) = tools else {
        return checks.finish();
    };

    let follow_up = !tree::follow_up(ctx)?.is_empty();
    for base in base::all() {
        checks.run(&format!("applies to {}", base.name), || {
            tree::check_applies(ctx, &base.name, Series::Core).map(say)
        })?;
        if follow_up {
            checks.run(&format!("follow-up applies to {}", base.name), || {
                tree::check_applies(ctx, &base.name, Series::All).map(say)
            })?;
        }
    }
    let Some(tree) = checks.run("tree", || tree::ensure(ctx, opts))? else {
        return checks.finish();
    };
    checks.run("patches, view and tree agree", || {
        export::run(ctx, opts, true)
    })?;
    checks.run("checkpatch", || {
        mail::checkpatch(ctx, &tree, &all_patches(ctx)?)
    })?;
    let core = match tree.series {
        Series::Core => Some(tree.clone()),
        Series::All => checks.run("tree without the follow-up", || {
            tree::checkout(ctx, &tree, Series::Core)
        })?,
    };
    if let Some(core) = core {
        checks.source("series", &tools, &core)?;
        checks.boots(opts, &tools, &core, &[Rust::Y, Rust::N])?;
    }
    if follow_up {
        checks.follow_up(opts, &tools, &tree)?;
    }
    checks.lab(&tools, &tree)?;
    checks.finish()
}

struct Checks<'a> {
    ctx: &'a Ctx,
    tally: Tally,
}

impl Checks<'_> {
    /// Runs one check. An error is its failure, not ours; only Ctrl-C ends the run.
    fn run<T>(&mut self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        let start = Instant::now();
        let result = body();
        step::check_interrupt()?;
        match result {
            Ok(value) => {
                self.tally.check(name, true, start.elapsed(), None);
                Ok(Some(value))
            }
            Err(e) => {
                let text = format!("{e:#}");
                let file = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
                let log = self.ctx.build.join(format!("log/check-{file}.log"));
                fs::create_dir_all(log.with_file_name(""))
                    .and_then(|()| fs::write(&log, &text))
                    .with_context(|| format!("cannot write {}", log.display()))?;
                say(&text);
                self.tally.check(name, false, start.elapsed(), Some(&log));
                Ok(None)
            }
        }
    }

    fn source(&mut self, what: &str, tools: &Toolchain, tree: &Tree) -> Result<()> {
        let ctx = self.ctx;
        self.run(&format!("{what}: rustfmt"), || {
            rust::rustfmt(ctx, tools, tree)
        })?;
        self.run(&format!("{what}: clippy"), || {
            rust::clippy(ctx, tools, tree)
        })?;
        Ok(())
    }

    fn boots(
        &mut self,
        opts: &Opts,
        tools: &Toolchain,
        tree: &Tree,
        languages: &[Rust],
    ) -> Result<()> {
        let ctx = self.ctx;
        for &lang in languages {
            let config = Config {
                arch: Arch::X86_64,
                rust: lang,
            };
            self.kunit(opts, tools, tree, config)?;
            if lang == Rust::Y {
                let name = match tree.series {
                    Series::Core => "no way to a panic",
                    Series::All => "follow-up: no way to a panic",
                };
                self.run(name, || {
                    panic::none_reached(ctx, tools, tree, &config.build_dir(ctx, tree))
                })?;
            }
        }
        Ok(())
    }

    /// The series with the follow-up, in Rust.
    fn follow_up(&mut self, opts: &Opts, tools: &Toolchain, tree: &Tree) -> Result<()> {
        let ctx = self.ctx;
        let all = self.run("tree with the follow-up", || {
            tree::checkout(ctx, tree, Series::All)
        })?;
        let Some(all) = all else {
            return Ok(());
        };
        if tree::changes_rust(&tree::follow_up(ctx)?)? {
            self.source("follow-up", tools, &all)?;
        }
        self.boots(opts, tools, &all, &[Rust::Y])
    }

    /// A boot counts as its cases, and as one check for everything a case cannot say.
    fn kunit(&mut self, opts: &Opts, tools: &Toolchain, tree: &Tree, config: Config) -> Result<()> {
        let ctx = self.ctx;
        let mut cases = None;
        self.run(&format!("kunit {}", config.title(tree.series)), || {
            let outcome = kunit::boot(ctx, opts, tools, tree, config)?;
            cases = Some(outcome.run);
            if !outcome.wrong.is_empty() {
                bail!("{}", kunit::list(&outcome.wrong));
            }
            Ok(())
        })?;
        if let Some(run) = cases {
            self.tally.cases(&run);
        }
        Ok(())
    }

    /// The counts that the series is about, on the kernels themselves.
    fn lab(&mut self, tools: &Toolchain, tree: &Tree) -> Result<()> {
        let ctx = self.ctx;
        let prepared = self.run("lab: kernels and guest", || {
            let plans = lab::quick_plans(ctx)?;
            Ok((Lab::prepare(ctx, tools, tree, &plans)?, plans))
        })?;
        for (lab, plan) in prepared
            .iter()
            .flat_map(|(l, p)| p.iter().map(move |p| (l, p)))
        {
            self.run(&format!("lab: {}", plan.name), || lab.check(plan))?;
        }
        self.run("lab: the tables are those of the reference report", || {
            lab::reference_agrees(ctx, tools)
        })?;
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let ok = self.tally.ok();
        say(self.tally.finish());
        // Nothing may follow the closing line, so no error text either.
        if ok { Ok(()) } else { std::process::exit(1) }
    }
}

fn cargo(ctx: &Ctx, tools: &Toolchain, verb: &str, args: &[&str]) -> Result<()> {
    let cargo = tools
        .cargo
        .as_deref()
        .context("the preflight found no cargo")?;
    let mut cmd = Command::new(cargo);
    cmd.arg(verb)
        .arg("--manifest-path")
        .arg(ctx.root.join("tools/Cargo.toml"))
        .args(args);
    Step::new(ctx, format!("cargo {verb}"))
        .run(&mut cmd)
        .map(drop)
}

fn all_patches(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    let mut all = tree::prereqs(ctx)?;
    all.extend(tree::patches(ctx)?);
    all.extend(tree::follow_up(ctx)?);
    if all.is_empty() {
        bail!("no patches in {}", ctx.root.join("patches").display());
    }
    Ok(all)
}

fn spdx(root: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = capture(&mut git)?;
    let mut found = Vec::new();
    for name in listed.split('\0').filter(|n| !n.is_empty()) {
        // What the lab wrote is data.
        if name.starts_with("lab/reference/") || NO_SPDX.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        // Listed but deleted is git's affair.
        let Ok(bytes) = fs::read(root.join(name)) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes);
        if !text
            .lines()
            .take(3)
            .any(|l| l.contains("SPDX-License-Identifier: GPL-2.0"))
        {
            found.push(format!(
                "{name}: no `SPDX-License-Identifier: GPL-2.0` in its first three lines"
            ));
        }
    }
    none(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_spdx_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        capture(Command::new("git").arg("init").arg("-q").arg(root)).unwrap();
        fs::write(
            root.join("good.rs"),
            "// SPDX-License-Identifier: GPL-2.0\n",
        )
        .unwrap();
        fs::write(
            root.join("run.sh"),
            "#!/bin/sh\n# SPDX-License-Identifier: GPL-2.0\n",
        )
        .unwrap();
        fs::write(root.join("x.patch"), "From\n").unwrap();
        spdx(root).unwrap();
        fs::write(root.join("bad.rs"), "fn main() {}\n").unwrap();
        let e = spdx(root).unwrap_err().to_string();
        assert!(e.starts_with("bad.rs: "), "{e}");
    }
}
