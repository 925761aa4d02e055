// SPDX-License-Identifier: GPL-2.0
//! PID 1 of a guest: mounts, sets the LRU, runs the workload as a child, sees that its end is on record, powers off.

use crate::report::{self, Origin};
use anyhow::{Context, Result, bail};
use results::{Clock, Lru};
use rustix::mount::{MountFlags, mount, unmount};
use rustix::system::{RebootCommand, reboot};
use rustix::termios::{self, OptionalActions};
use std::convert::Infallible;
use std::env;
use std::ffi::CStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// In the environment of what PID 1 starts.
pub const MARK: &str = "LAB_GUEST";
pub const DISK: &str = "/mnt";
/// Whichever the machine has.
const DISK_DEVICES: [&str; 2] = ["/dev/nvme0n1", "/dev/vda"];
const RESULTS: &str = "/dev/ttyS1";

pub fn run() -> ! {
    let Err(e) = guest();
    eprintln!("init: {e:#}");
    // Nothing below can be handled; power off whatever happens.
    let _ = results_channel().and_then(|mut out| {
        report::write(&mut out, &nameless().error(&format!("init: {e:#}")))?;
        termios::tcdrain(&out).context("cannot drain the results")
    });
    power_off();
}

/// Never returns well: it powers off.
fn guest() -> Result<Infallible> {
    mount_all()?;
    let out = results_channel()?;
    set_lru()?;
    if let Some(disk) = DISK_DEVICES.iter().find(|d| Path::new(d).exists()) {
        // A fresh file system would initialise its inode tables in the background, while something is measured.
        mount_with(disk, DISK, "ext4", Some(c"noinit_itable"))?;
    }
    let status = Command::new("/proc/self/exe")
        .args(env::args_os().skip(1))
        .env(MARK, "1")
        .stdout(Stdio::from(
            out.try_clone()
                .context("cannot hand on the results channel")?,
        ))
        .status()
        .context("cannot run the workload")?;
    let mut out = out;
    if let Some(how) = unexplained(status) {
        eprintln!("init: {how}");
        report::write(&mut out, &nameless().error(&how))?;
    }
    termios::tcdrain(&out).context("cannot drain the results")?;
    power_off();
}

/// What is to be said of a workload that did not say it itself.
fn unexplained(status: ExitStatus) -> Option<String> {
    if let Some(signal) = status.signal() {
        let hint = match signal {
            libc::SIGKILL => " (the OOM killer? the guest may need more memory)",
            libc::SIGABRT => " (a panic: the console has it)",
            _ => "",
        };
        return Some(format!("the workload was killed by signal {signal}{hint}"));
    }
    match status.code() {
        // An end, and an error line of its own.
        Some(0 | 1) => None,
        code => Some(format!(
            "the workload exited with {} without a reason; the console may have it",
            code.unwrap_or(-1)
        )),
    }
}

fn mount_all() -> Result<()> {
    mount_one("proc", "/proc", "proc")?;
    mount_one("sysfs", "/sys", "sysfs")?;
    mount_one("devtmpfs", "/dev", "devtmpfs")?;
    mount_one("tracefs", "/sys/kernel/tracing", "tracefs")?;
    mount_one("debugfs", "/sys/kernel/debug", "debugfs")?;
    mount_one("cgroup2", "/sys/fs/cgroup", "cgroup2")?;
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")
        .context("cannot enable the memory controller: the kernel needs CONFIG_MEMCG")
}

fn mount_one(source: &str, target: &str, kind: &str) -> Result<()> {
    mount_with(source, target, kind, None)
}

fn mount_with(source: &str, target: &str, kind: &str, options: Option<&CStr>) -> Result<()> {
    // In sysfs and proc the place is there already, and nothing can be created.
    if !Path::new(target).is_dir() {
        fs::create_dir(target).with_context(|| format!("no {target} to mount {kind} on"))?;
    }
    mount(source, target, kind, MountFlags::empty(), options)
        .with_context(|| format!("cannot mount {kind} of {source} on {target}"))
}

/// The second serial port, and every byte as it was written.
fn results_channel() -> Result<File> {
    let out = File::options()
        .read(true)
        .write(true)
        .open(RESULTS)
        .with_context(|| {
            format!("cannot open {RESULTS}: the lab gives a guest two serial ports")
        })?;
    let mut mode = termios::tcgetattr(&out).with_context(|| format!("{RESULTS} is no terminal"))?;
    mode.make_raw();
    termios::tcsetattr(&out, OptionalActions::Now, &mode)
        .with_context(|| format!("cannot make {RESULTS} raw"))?;
    Ok(out)
}

/// The LRU the lab asks for; it must then be the one in use.
fn set_lru() -> Result<()> {
    let want = lru_wanted()?;
    let path = Path::new(crate::LRU_GEN);
    if path.exists() {
        let value = if want == Lru::Mglru { "y" } else { "n" };
        fs::write(path, value).with_context(|| format!("cannot write to {}", path.display()))?;
    }
    let got = crate::lru_in_use()?;
    if got != want {
        bail!(
            "the LRU in use is {got} and LAB_LRU asks for {want}: does the kernel have CONFIG_LRU_GEN?"
        );
    }
    Ok(())
}

fn lru_wanted() -> Result<Lru> {
    match word("LAB_LRU")?.as_str() {
        "classic" => Ok(Lru::Classic),
        "mglru" => Ok(Lru::Mglru),
        other => bail!("LAB_LRU=`{other}` on the kernel command line is neither classic nor mglru"),
    }
}

pub fn accel_and_clock() -> Result<(String, Clock)> {
    let clock = match word("LAB_CLOCK")?.as_str() {
        "counts" => Clock::Counts,
        "icount" => Clock::Icount,
        other => {
            bail!("LAB_CLOCK=`{other}` on the kernel command line is neither counts nor icount")
        }
    };
    Ok((word("LAB_ACCEL")?, clock))
}

/// The kernel hands `LAB_*=` words of its command line to init as environment.
fn word(name: &str) -> Result<String> {
    env::var(name).with_context(|| format!("the kernel command line has no {name}="))
}

/// An error before or outside a workload, on the child's own standard output.
pub fn complain(message: &str) {
    let line = nameless().error(message);
    let written = report::stdout().and_then(|mut out| report::write(&mut out, &line));
    if let Err(e) = written {
        eprintln!("error: {e:#}");
    }
}

/// As much of an origin as there is when things went wrong early.
fn nameless() -> Origin {
    let kernel = report::kernel_release();
    let name = env::args().skip(1).find(|a| !a.starts_with('-'));
    let (accel, clock) = accel_and_clock().unwrap_or(("unknown".into(), Clock::Counts));
    Origin {
        arm: report::arm_of(&kernel).into(),
        kernel,
        lru: lru_wanted().unwrap_or(Lru::Classic),
        accel,
        clock,
        workload: name.unwrap_or_default(),
    }
}

fn power_off() -> ! {
    rustix::fs::sync();
    let _ = unmount(DISK, rustix::mount::UnmountFlags::empty());
    if let Err(e) = reboot(RebootCommand::PowerOff) {
        eprintln!("init: cannot power off: {e}");
    }
    // If PID 1 exits the kernel panics; with panic=-1 that ends the guest too.
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_is_explained_once() {
        assert_eq!(unexplained(ExitStatus::from_raw(0)), None);
        assert_eq!(unexplained(ExitStatus::from_raw(1 << 8)), None);
        let killed = unexplained(ExitStatus::from_raw(libc::SIGKILL)).unwrap();
        assert!(killed.contains("signal 9 (the OOM killer?"), "{killed}");
        let odd = unexplained(ExitStatus::from_raw(2 << 8)).unwrap();
        assert!(odd.contains("exited with 2"), "{odd}");
    }
}
