// SPDX-License-Identifier: GPL-2.0
//! One boot: QEMU with the disk and the IOMMU of the plan's row, a console and a channel for results; and what makes it a sample.

use super::kernel::Kernel;
use super::plan::{Boot, Device, Plan};
use crate::accel::{Accel, Choice};
use crate::gate;
use crate::step::{Ctx, Step, capture, check_interrupt, shown, tail};
use anyhow::{Context, Result, bail};
use results::{Clock, Iommu, Meta, Run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub struct Machine<'a> {
    pub ctx: &'a Ctx,
    pub qemu: &'a Path,
    pub initramfs: &'a Path,
    /// For counts. Instructions can only be counted by an emulator.
    pub choice: &'a Choice,
}

/// What a run is called, in its folder and in messages.
pub fn name(plan: &Plan, boot: &Boot) -> String {
    format!("{}.{:02}.{}", plan.name, boot.number, boot.arm)
}

impl Machine<'_> {
    fn accel(&self, plan: &Plan) -> Accel {
        match plan.clock {
            Clock::Counts => self.choice.accel,
            Clock::Icount | Clock::Cpu => Accel::Tcg,
        }
    }

    /// Boots, and leaves the run in `lab`/runs when it passed every gate, else in `lab`/failed.
    pub fn run(&self, lab: &Path, plan: &Plan, boot: &Boot, kernel: &Kernel) -> Result<Run> {
        let name = name(plan, boot);
        let temp = self.ctx.temp("boot")?;
        let dir = temp.path().join(&name);
        fs::create_dir(&dir)?;
        let meta = self.meta(plan, boot, kernel);
        match self.attempt(&dir, &name, plan, kernel, &meta) {
            Ok(samples) => {
                let meta_file = dir.join("run.json");
                fs::write(&meta_file, serde_json::to_vec_pretty(&meta)?)
                    .with_context(|| format!("cannot write {}", meta_file.display()))?;
                keep(&dir, &lab.join("runs").join(&name))?;
                Ok(Run {
                    name,
                    meta,
                    samples,
                })
            }
            Err(e) => {
                // Nothing failed when it was the user who ended it.
                check_interrupt()?;
                let failed = lab.join("failed").join(&name);
                keep(&dir, &failed)?;
                Err(e.context(format!("{name}: its logs are in {}", failed.display())))
            }
        }
    }

    fn meta(&self, plan: &Plan, boot: &Boot, kernel: &Kernel) -> Meta {
        Meta {
            plan: plan.name.clone(),
            workload: plan.workload.clone(),
            args: plan.args.join(" "),
            arm: boot.arm.clone(),
            lru: plan.lru,
            clock: plan.clock,
            accel: self.accel(plan).name().into(),
            cpus: plan.cpus,
            memory_mib: plan.memory_mib,
            device: plan.device.to_string(),
            iommu: plan.iommu,
            round: boot.round,
            boot: boot.number,
            source: kernel.source.clone(),
        }
    }

    fn attempt(
        &self,
        dir: &Path,
        name: &str,
        plan: &Plan,
        kernel: &Kernel,
        meta: &Meta,
    ) -> Result<Vec<results::Line>> {
        let disk = dir.join("disk");
        disk_image(&disk, plan.disk_mib)?;
        let mut cmd = self.command(dir, &disk, plan, kernel);
        fs::write(dir.join("qemu.txt"), format!("{}\n", shown(&cmd)))?;
        let limit = self.accel(plan).scale(plan.about) + Duration::from_secs(120);
        let ran = Step::new(self.ctx, format!("lab {name}"))
            .timeout(limit)
            .run(&mut cmd);
        let _ = fs::remove_file(&disk);
        let console = dir.join("console.log");
        ran.with_context(|| format!("the guest's last lines:\n{}", tail(&console, 10)))?;
        judge(dir, kernel, meta)
    }

    pub fn command(&self, dir: &Path, disk: &Path, plan: &Plan, kernel: &Kernel) -> Command {
        let mut cmd = Command::new(self.qemu);
        let accel = self.accel(plan).name();
        // Interrupts are not remapped: with an emulated interrupt controller that only costs.
        cmd.args(["-machine", "q35,kernel-irqchip=off", "-cpu", "max"]);
        match plan.clock {
            Clock::Icount => cmd.args([
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,align=off,sleep=off",
            ]),
            Clock::Counts | Clock::Cpu => cmd.args(["-accel", accel]),
        };
        let file = |name: &str| dir.join(name).display().to_string().replace(',', ",,");
        cmd.args([
            "-smp",
            &plan.cpus.to_string(),
            "-m",
            &plan.memory_mib.to_string(),
        ])
        .args(["-nodefaults", "-display", "none", "-no-reboot"])
        // Nothing of the day of the run gets in.
        .args(["-rtc", "base=2026-01-01T00:00:00,clock=vm"])
        .args(iommu(plan))
        .arg("-drive")
        .arg(format!(
            "file={},if=none,id=disk,format=raw,cache=unsafe",
            disk.display().to_string().replace(',', ",,")
        ))
        .args(["-device", &device(plan)])
        .arg("-chardev")
        .arg(format!("file,id=console,path={}", file("console.log")))
        .args(["-serial", "chardev:console", "-chardev"])
        .arg(format!("file,id=results,path={}", file("results.jsonl")))
        .args(["-serial", "chardev:results"])
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(self.initramfs)
        .arg("-append")
        .arg(append(plan, accel));
        cmd
    }
}

fn iommu(plan: &Plan) -> &'static [&'static str] {
    match plan.iommu {
        Iommu::Translate | Iommu::Passthrough => &["-device", "intel-iommu,intremap=off"],
        Iommu::None => &[],
    }
}

fn device(plan: &Plan) -> String {
    match plan.device {
        Device::Nvme { mdts } => format!("nvme,serial=lab,drive=disk,mdts={mdts}"),
        // Without more, virtio goes past the IOMMU.
        Device::VirtioBlk if plan.iommu != Iommu::None => {
            "virtio-blk-pci,drive=disk,disable-legacy=on,iommu_platform=on".into()
        }
        Device::VirtioBlk => "virtio-blk-pci,drive=disk".into(),
    }
}

/// The kernel's command line. What it does not know goes to the guest: `LAB_…` as environment, what follows `--` as
/// arguments. The root is no tmpfs: reclaim would swap the guest itself out. On a busy host the timer check fails.
fn append(plan: &Plan, accel: &str) -> String {
    let clock = match plan.clock {
        Clock::Icount => " tsc=reliable clocksource=tsc",
        Clock::Counts | Clock::Cpu => "",
    };
    let iommu = match plan.iommu {
        Iommu::Translate => "intel_iommu=on iommu.passthrough=0",
        Iommu::Passthrough => "intel_iommu=on iommu.passthrough=1",
        Iommu::None => "intel_iommu=off",
    };
    let more: String = plan.kernel.iter().map(|w| format!(" {w}")).collect();
    let args: String = plan.args.iter().map(|a| format!(" {a}")).collect();
    format!(
        "console=ttyS0 panic=-1 rootfstype=ramfs no_timer_check norandmaps {iommu}{clock}{more} \
         LAB_ACCEL={accel} LAB_CLOCK={} LAB_LRU={} -- {}{args}",
        plan.clock, plan.lru, plan.workload,
    )
}

/// An empty ext4, the same one for every boot.
fn disk_image(disk: &Path, mib: u32) -> Result<()> {
    fs::File::create(disk)
        .and_then(|f| f.set_len(u64::from(mib) << 20))
        .with_context(|| format!("cannot make {}", disk.display()))?;
    let id = "00000000-0000-0000-0000-000000000001";
    let mut cmd = Command::new("mke2fs");
    cmd.env("PATH", path_with_sbin())
        // No time of day in it.
        .env("E2FSPROGS_FAKE_TIME", "1767225600")
        .args(["-q", "-F", "-t", "ext4", "-U", id, "-E"])
        .arg(format!("hash_seed={id},lazy_itable_init=1,nodiscard"))
        .arg(disk);
    capture(&mut cmd).map(drop)
}

/// mke2fs is where an ordinary user's PATH does not lead.
fn path_with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}

/// Everything that must hold before what the guest said is believed.
fn judge(dir: &Path, kernel: &Kernel, meta: &Meta) -> Result<Vec<results::Line>> {
    let read = |name: &str| -> Result<String> {
        let path = dir.join(name);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let console = read("console.log")?;
    let reports = gate::scan(&console);
    let told = results::samples(&read("results.jsonl")?, meta);
    if let Some(first) = reports.first() {
        // The workload's own words come with it: a kill explains what it says, and the other way round.
        let also = told.err().map_or(String::new(), |e| format!("; {e:#}"));
        bail!(
            "{} reports of the kernel, the first in line {} of its console: {}{also}",
            reports.len(),
            first.line,
            first.text
        );
    }
    if !console.contains(&kernel.release) {
        bail!(
            "the console does not name the kernel {}: it is not the one that was built, or never started",
            kernel.release
        );
    }
    let samples = told?;
    if let Some(line) = samples.iter().find(|l| l.kernel != kernel.release) {
        bail!(
            "the guest runs {}, and the arm {} is {}: kernels were mixed up",
            line.kernel,
            kernel.arm,
            kernel.release
        );
    }
    Ok(samples)
}

/// Replaces an older run of the same name.
fn keep(from: &Path, to: &PathBuf) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    crate::files::into_place(from, to)
}
