// SPDX-License-Identifier: GPL-2.0
//! `make lab`: builds the arms, boots them as lab/plan.tsv says, judges each run, writes the report.
//!
//! The lab knows nothing of a workload but its name: what it does is the guest's affair, what it must show is in
//! lab/expect.tsv, what it means is the report's.

mod arm;
mod boot;
mod folder;
mod guest;
mod kernel;
mod plan;
mod reference;
mod table;

use crate::accel::{self, Accel, Choice};
use crate::opts::Opts;
use crate::step::{Ctx, Step, capture, elapsed_text, say};
use crate::toolchain::{self, Toolchain, Want};
use crate::tree::{self, Tree};
use anyhow::{Context, Result, bail};
use boot::Machine;
use folder::{Folder, Note};
use guest::Guest;
use kernel::{Kernel, Kernels};
pub use plan::{Plan, quick as quick_plans};
use results::{Expectation, Limit, Run, Sizes};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Kernels, guest and QEMU, ready to run any of the plans they were made for.
pub struct Lab<'a> {
    ctx: &'a Ctx,
    kernels: Vec<Kernel>,
    guest: Guest,
    qemu: PathBuf,
    qemu_version: String,
    base: String,
    choice: Choice,
    expectations: Vec<Expectation>,
    limits: Vec<Limit>,
}

pub fn run(ctx: &Ctx, opts: &Opts, workload: Option<&str>, rounds: Option<u32>) -> Result<()> {
    let plans = plan::chosen(ctx, workload, rounds)?;
    let tools = toolchain::ensure(ctx, opts, Want::Build)?;
    let tree = tree::ensure(ctx, opts)?;
    let lab = Lab::prepare(ctx, &tools, &tree, &plans)?;
    let mut folder = Folder::open(
        &ctx.build.join("lab"),
        lab.note(&plans, command(workload, rounds))?,
    )?;
    let failed = lab.boot_all(&folder.dir, &plans, |p, b| folder.has(p, b))?;
    if failed.is_empty() {
        folder.complete()?;
    }
    let wrong = lab.judge(&folder.dir)?;
    write_report(ctx, &tools, &folder.dir)?;
    let again = match failed.is_empty() {
        true => "All boots ran; the same command starts a new lab.",
        false => "What failed is run again by the same command.",
    };
    let bad = [failed, wrong].concat();
    if !bad.is_empty() {
        bail!("the lab found:\n{}\n{again}", crate::kunit::list(&bad));
    }
    Ok(())
}

fn command(workload: Option<&str>, rounds: Option<u32>) -> String {
    let mut text = "make lab".to_string();
    if let Some(w) = workload {
        text += &format!(" WORKLOAD={w}");
    }
    if let Some(r) = rounds {
        text += &format!(" ROUNDS={r}");
    }
    text
}

impl<'a> Lab<'a> {
    pub fn prepare(
        ctx: &'a Ctx,
        tools: &Toolchain,
        tree: &Tree,
        plans: &[Plan],
    ) -> Result<Lab<'a>> {
        let qemu = tools
            .qemu
            .clone()
            .context("the preflight found no qemu-system-x86_64")?;
        enough_room(ctx, plans)?;
        let text = |name: &str| {
            let path = ctx.root.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let expectations = Expectation::parse(&text("lab/expect.tsv")?)?;
        let limits = Limit::parse(&text("lab/sizes.tsv")?)?;
        plan::every_row_runs(&plan::all(ctx)?, &expectations)?;
        let limited: Vec<String> = limits
            .iter()
            .flat_map(|l| [l.arm.clone(), l.against.clone()])
            .collect();
        arm::named(ctx, &limited).context("lab/sizes.tsv")?;
        let mut names: Vec<String> = plans.iter().flat_map(|p| p.arms.clone()).collect();
        names.sort();
        names.dedup();
        let makes = Kernels { ctx, tools, tree };
        let arms = arm::named(ctx, &names)?;
        let kernels = makes.build(&arms)?;
        let (Some(arm), Some(first)) = (arms.first(), kernels.first()) else {
            bail!("lab/plan.tsv names no arm");
        };
        let guest = guest::build(ctx, tools, &makes.packer(arm))?;
        let choice = accel::choose(ctx, &qemu, &first.image)?;
        let version = capture(Command::new(&qemu).arg("--version"))?;
        Ok(Lab {
            ctx,
            kernels,
            guest,
            qemu,
            qemu_version: version.lines().next().unwrap_or_default().into(),
            base: tree.base_name.clone(),
            choice,
            expectations,
            limits,
        })
    }

    fn note(&self, plans: &[Plan], command: String) -> Result<Note> {
        let date = capture(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
        Ok(Note {
            command,
            date: date.trim().into(),
            qemu: self.qemu_version.clone(),
            kernel: self.base.clone(),
            arms: self
                .kernels
                .iter()
                .map(|k| (k.arm.clone(), k.source.clone()))
                .collect::<BTreeMap<_, _>>(),
            sizes: self.sizes(),
            needs: self
                .kernels
                .iter()
                .filter(|k| !k.needs.is_empty())
                .map(|k| (k.arm.clone(), k.needs.clone()))
                .collect(),
            key: folder::key(plans, &self.kernels, &self.guest.key, &self.machine(plans)),
            complete: false,
        })
    }

    fn sizes(&self) -> BTreeMap<String, Sizes> {
        let of = |k: &Kernel| (k.arm.clone(), k.sizes.clone());
        self.kernels.iter().map(of).collect()
    }

    /// All that makes one boot unlike another with the same kernel and guest.
    fn machine(&self, plans: &[Plan]) -> String {
        let machine = Machine {
            ctx: self.ctx,
            qemu: &self.qemu,
            initramfs: &self.guest.initramfs,
            choice: &self.choice,
        };
        let mut text = self.qemu_version.clone();
        for plan in plans {
            let dir = Path::new("run");
            let command = machine.command(dir, &dir.join("disk"), plan, &self.kernels[0]);
            text += &crate::step::shown(&command);
        }
        text
    }

    /// One row, for `make test`: every boot and every expectation of it.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        let plans = std::slice::from_ref(plan);
        let dir = self.ctx.build.join("lab-test").join(&plan.name);
        let folder = Folder::fresh(dir, self.note(plans, "make test".into())?)?;
        let failed = self.boot_all(&folder.dir, plans, |_, _| false)?;
        let bad = [failed, self.judge(&folder.dir)?].concat();
        if bad.is_empty() {
            return Ok(());
        }
        bail!("{}", crate::kunit::list(&bad))
    }

    /// Boots what is not there yet; a boot that fails does not keep the others from running.
    fn boot_all(
        &self,
        dir: &Path,
        plans: &[Plan],
        has: impl Fn(&Plan, &plan::Boot) -> bool,
    ) -> Result<Vec<String>> {
        let todo: Vec<_> = plans
            .iter()
            .flat_map(|p| p.boots().into_iter().map(move |b| (p, b)))
            .filter(|(p, b)| !has(p, b))
            .collect();
        let machine = Machine {
            ctx: self.ctx,
            qemu: &self.qemu,
            initramfs: &self.guest.initramfs,
            choice: &self.choice,
        };
        say(format!(
            "{} boots to do; counts under {} ({}), instructions under tcg",
            todo.len(),
            self.choice.accel.name(),
            self.choice.why
        ));
        let mut left: Duration = todo.iter().map(|(p, _)| p.about).sum();
        let mut failed = Vec::new();
        let (start, mut spent) = (Instant::now(), Duration::ZERO);
        for (i, (plan, boot)) in todo.iter().enumerate() {
            // The table's seconds are of another machine: corrected by what it has been here.
            let pace = match spent.as_secs_f64() {
                0.0 => 1.0,
                said => start.elapsed().as_secs_f64() / said,
            };
            say(format!(
                "[{}/{}] {} on {}, round {}; about {} left",
                i + 1,
                todo.len(),
                plan.name,
                boot.arm,
                boot.round + 1,
                elapsed_text(left.mul_f64(pace))
            ));
            let kernel = self
                .kernels
                .iter()
                .find(|k| k.arm == boot.arm)
                .with_context(|| format!("no kernel for arm {}", boot.arm))?;
            match machine.run(dir, plan, boot, kernel) {
                Ok(_) => {
                    if self.choice.accel == Accel::Tcg {
                        accel::remember(self.ctx, &self.choice)?;
                    }
                }
                Err(e) => {
                    crate::step::check_interrupt()?;
                    say(format!("{e:#}"));
                    failed.push(format!("{e:#}"));
                }
            }
            left = left.saturating_sub(plan.about);
            spent += plan.about;
        }
        Ok(failed)
    }

    fn judge(&self, dir: &Path) -> Result<Vec<String>> {
        let runs: Vec<Run> = results::load(&dir.join("runs"))?;
        let (held, mut wrong) = results::check(&self.expectations, &runs);
        say(format!(
            "{} runs; {held} expectations of lab/expect.tsv held, {} did not",
            runs.len(),
            wrong.len()
        ));
        let sizes = self.sizes();
        wrong.extend(self.limits.iter().filter_map(|l| l.broken(&sizes)));
        Ok(wrong)
    }
}

fn write_report(ctx: &Ctx, tools: &Toolchain, dir: &Path) -> Result<()> {
    reporter(ctx, tools, "lab report", |cmd| {
        cmd.arg("write")
            .arg(dir)
            .arg("--expect")
            .arg(ctx.root.join("lab/expect.tsv"))
    })?;
    say(format!("report: {}", dir.join("report.html").display()));
    Ok(())
}

/// Runs the program of tools/report. Apart from this one, for it needs much that `make kunit` does not.
fn reporter(
    ctx: &Ctx,
    tools: &Toolchain,
    step: &str,
    args: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<()> {
    let cargo = tools
        .cargo
        .as_deref()
        .context("the preflight found no cargo")?;
    let mut cmd = Command::new(cargo);
    cmd.args(["run", "--quiet", "--locked", "--package", "lab-report"])
        .arg("--manifest-path")
        .arg(ctx.root.join("tools/Cargo.toml"))
        .arg("--target-dir")
        .arg(ctx.build.join("cargo"))
        .env_remove("RUSTC")
        .arg("--");
    Step::new(ctx, step).run(args(&mut cmd)).map(drop)
}

fn docs(ctx: &Ctx, tools: &Toolchain, check: bool) -> Result<()> {
    reporter(ctx, tools, "lab tables", |cmd| {
        cmd.arg("docs")
            .arg(ctx.root.join("lab/reference"))
            .arg("--readme")
            .arg(ctx.root.join("README.md"))
            .arg("--cover")
            .arg(ctx.root.join("patches/0000-cover-letter.patch"))
            .arg("--page")
            .arg(ctx.root.join("Documentation/mm/vmscan-rust.rst"))
            .args(check.then_some("--check"))
    })
}

/// README, cover letter and the page in the kernel's documentation carry the figures of lab/reference and no others.
pub fn reference_agrees(ctx: &Ctx, tools: &Toolchain) -> Result<()> {
    docs(ctx, tools, true)
}

/// `make lab-reference`: the last whole lab becomes the one that is committed.
pub fn make_reference(ctx: &Ctx, opts: &Opts) -> Result<()> {
    let tools = toolchain::ensure(ctx, opts, Want::Build)?;
    let last = folder::last_whole(&ctx.build.join("lab"))?;
    let text = fs::read_to_string(ctx.root.join("lab/expect.tsv"))?;
    let runs = results::load(&last.join("runs"))?;
    let mut wrong = results::check(&Expectation::parse(&text)?, &runs).1;
    let limits = Limit::parse(&fs::read_to_string(ctx.root.join("lab/sizes.tsv"))?)?;
    let sizes = folder::sizes(&last)?;
    wrong.extend(limits.iter().filter_map(|l| l.broken(&sizes)));
    let planned = plan::all(ctx)?
        .iter()
        .map(|p| p.boots().len())
        .sum::<usize>();
    if runs.len() != planned {
        bail!(
            "{} is no reference: it has {} runs, and lab/plan.tsv has {planned} now; run make lab",
            last.display(),
            runs.len()
        );
    }
    if !wrong.is_empty() {
        bail!(
            "{} is no reference, for what it must show does not hold:\n{}",
            last.display(),
            crate::kunit::list(&wrong)
        );
    }
    write_report(ctx, &tools, &last)?;
    let new = reference::copy(ctx, &last)?;
    say(format!("lab/reference is {}: {new} runs", last.display()));
    docs(ctx, &tools, false)
}

/// Said before an hour of building, not after.
fn enough_room(ctx: &Ctx, plans: &[Plan]) -> Result<()> {
    let memory = plans.iter().map(|p| p.memory_mib).max().unwrap_or(0);
    let disk = plans.iter().map(|p| p.disk_mib).max().unwrap_or(0);
    crate::debian::need_space(&ctx.build, u64::from(disk) << 20, "a guest's disk")?;
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let available = available_mib(&text).context("/proc/meminfo names no MemAvailable")?;
    // QEMU's own, and what is left to the host.
    let needed = u64::from(memory) + 512;
    if available < needed {
        bail!(
            "a guest of {memory} MiB needs {needed} MiB of memory, and {available} MiB are available: \
             end what uses it, or choose a smaller one with WORKLOAD= (lab/plan.tsv has the sizes)"
        );
    }
    Ok(())
}

fn available_mib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|l| l.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_host() {
        let text = "MemTotal:  24000000 kB\nMemAvailable:   2097152 kB\n";
        assert_eq!(available_mib(text), Some(2048));
        assert_eq!(available_mib("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn the_command_that_makes_it_again() {
        assert_eq!(command(None, None), "make lab");
        assert_eq!(
            command(Some("pageout"), Some(3)),
            "make lab WORKLOAD=pageout ROUNDS=3"
        );
    }
}
