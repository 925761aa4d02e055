// SPDX-License-Identifier: GPL-2.0

//! Which accelerator QEMU gets. /dev/kvm may exist, open, and still hang every
//! guest (nested hosts without vmx or svm), so KVM is used only when the kernel
//! just built is seen to boot under it.

use crate::step::{Ctx, check_interrupt, elapsed_text, say};
use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    Kvm,
    Tcg,
}

impl Accel {
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Accel::Kvm, Accel::Tcg]
            .into_iter()
            .find(|a| a.name() == name)
    }

    /// A time limit for KVM, stretched for an emulated CPU.
    pub fn scale(self, limit: Duration) -> Duration {
        match self {
            Accel::Kvm => limit,
            Accel::Tcg => limit * 10,
        }
    }
}

/// A choice and the reason that is printed with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub accel: Accel,
    pub why: String,
}

/// A working KVM prints its first line in well under a second.
const PROOF: Duration = Duration::from_secs(20);

/// Proves or refuses KVM with `kernel`, once per boot of this machine.
pub fn choose(ctx: &Ctx, qemu: &Path, kernel: &Path) -> Result<Choice> {
    // Opened on every call: permissions change without a reboot.
    if let Err(e) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Ok(tcg(format!("/dev/kvm: {e}")));
    }
    if let Some(known) = recall(ctx) {
        return Ok(known);
    }
    let start = Instant::now();
    say(format!(
        "accelerator ... does a kernel boot under KVM? (at most {} s)",
        PROOF.as_secs()
    ));
    if boots(qemu, kernel, PROOF)? {
        let choice = Choice {
            accel: Accel::Kvm,
            why: format!("booted under KVM in {}", elapsed_text(start.elapsed())),
        };
        remember(ctx, &choice)?;
        return Ok(choice);
    }
    Ok(tcg(format!(
        "/dev/kvm opens, but a kernel printed nothing under it for {}",
        elapsed_text(start.elapsed())
    )))
}

fn tcg(why: String) -> Choice {
    Choice {
        accel: Accel::Tcg,
        why,
    }
}

/// Whether `kernel` gets as far as its banner under KVM and nothing else.
fn boots(qemu: &Path, kernel: &Path, limit: Duration) -> Result<bool> {
    let mut child = Command::new(qemu)
        .args([
            "-accel",
            "kvm",
            "-nodefaults",
            "-display",
            "none",
            "-m",
            "1024",
            "-no-reboot",
        ])
        .args(["-bios", "qboot.rom", "-serial", "stdio", "-append"])
        .arg("console=ttyS0 earlyprintk=serial,ttyS0 kunit.enable=0")
        .arg("-kernel")
        .arg(kernel)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {}", qemu.display()))?;
    let seen = banner(&mut child, limit);
    // A guest that hangs does not listen to anything milder.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    seen
}

fn banner(child: &mut Child, limit: Duration) -> Result<bool> {
    let Some(stdout) = child.stdout.take() else {
        return Ok(false);
    };
    let (send, lines) = channel();
    // Ends with the pipe, so with the child.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let end = Instant::now() + limit;
    while Instant::now() < end {
        check_interrupt()?;
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) if String::from_utf8_lossy(&line).contains("Linux version") => {
                return Ok(true);
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        }
    }
    Ok(false)
}

fn file(ctx: &Ctx) -> PathBuf {
    ctx.build.join("accelerator")
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_string()
}

/// Keeps a choice until the next boot. A refusal of KVM may only be kept once
/// the same kernel has booted under TCG: else the kernel was to blame.
pub fn remember(ctx: &Ctx, choice: &Choice) -> Result<()> {
    let path = file(ctx);
    let temp = path.with_extension("new");
    fs::write(
        &temp,
        format!("{}\t{}\t{}\n", boot_id(), choice.accel.name(), choice.why),
    )
    .and_then(|()| fs::rename(&temp, &path))
    .with_context(|| format!("cannot write {}", path.display()))
}

fn recall(ctx: &Ctx) -> Option<Choice> {
    parse(&fs::read_to_string(file(ctx)).ok()?, &boot_id())
}

fn parse(text: &str, boot_id: &str) -> Option<Choice> {
    let mut cells = text.trim_end().splitn(3, '\t');
    // An unknown boot is equal to no other.
    if boot_id.is_empty() || cells.next()? != boot_id {
        return None;
    }
    Some(Choice {
        accel: Accel::named(cells.next()?)?,
        why: cells.next()?.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::script_in;

    fn boots_with(script: &str, limit_ms: u64) -> bool {
        let dir = tempfile::tempdir().unwrap();
        boots(
            &script_in(dir.path(), "qemu", script),
            Path::new("bzImage"),
            Duration::from_millis(limit_ms),
        )
        .unwrap()
    }

    #[test]
    fn a_banner_is_proof() {
        let start = Instant::now();
        assert!(boots_with(
            "echo '[    0.000000] Linux version 7.3.4'; sleep 30",
            20_000
        ));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_hang_is_killed_and_is_none() {
        assert!(!boots_with("echo 'Decompressing Linux...'; sleep 30", 500));
    }

    #[test]
    fn a_qemu_that_cannot_open_kvm_is_none() {
        let start = Instant::now();
        assert!(!boots_with("exit 1", 20_000));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_choice_lasts_until_the_next_boot() {
        let text = "boot-1\ttcg\t/dev/kvm opens, but\n";
        let choice = parse(text, "boot-1").unwrap();
        assert_eq!(choice.accel, Accel::Tcg);
        assert_eq!(choice.why, "/dev/kvm opens, but");
        assert_eq!(parse(text, "boot-2"), None);
        assert_eq!(parse("\ttcg\twhy\n", ""), None);
        assert_eq!(parse("boot-1\txen\twhy\n", "boot-1"), None);
        assert_eq!(parse("", "boot-1"), None);
    }

    #[test]
    fn emulation_gets_ten_times_as_long() {
        let minute = Duration::from_secs(60);
        assert_eq!(Accel::Kvm.scale(minute), minute);
        assert_eq!(Accel::Tcg.scale(minute), 10 * minute);
    }
}
