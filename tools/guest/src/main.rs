// SPDX-License-Identifier: GPL-2.0
//! The lab's guest: PID 1 of a virtual machine that boots, runs one workload and powers off; or, with `--on-host`, an
//! ordinary command on a real machine.

mod cgroup;
mod clock;
mod host;
mod init;
mod lab;
mod map;
mod mem;
mod membership;
mod pagemap;
mod report;
mod settle;
mod shuffle;
mod swap;
mod trace;
mod undo;
mod vm;
mod workload;
mod workloads;

use anyhow::{Context, Result};
use clap::Parser;
use results::{Clock, Lru};
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use workloads::Command;

/// Runs one workload of the vmscan lab and prints one JSON object a sample on standard output.
///
/// In a guest of the lab this is PID 1 and the kernel command line says what runs. On a real machine it wants
/// --on-host, root, and a directory on the file system that is to be swapped to.
///
/// Metrics end in their unit (_ns, _kib, _pages); without one they are counts. Under icount a nanosecond is one
/// instruction; under emulation without icount no _ns value is reported.
#[derive(Parser)]
#[command(name = "vmscan-lab", version)]
struct Cli {
    /// Run on this machine, under its own kernel; it will swap, and settings change for the time of the run
    #[arg(long, requires = "dir")]
    on_host: bool,
    /// Where swap files and other files go (in a guest: /mnt)
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    if rustix::process::getpid().is_init() {
        init::run();
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            if in_guest() {
                init::complain(&format!("{e:#}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// A child of the lab's PID 1.
fn in_guest() -> bool {
    env::var_os(init::MARK).is_some() && rustix::process::getppid().is_some_and(|p| p.is_init())
}

fn run() -> Result<bool> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // --help and --version are no errors, and on a terminal clap's colours are wanted.
        Err(e) if !in_guest() || !e.use_stderr() => e.exit(),
        Err(e) => anyhow::bail!("wrong arguments: {e}"),
    };
    let workload = match cli.command.workload() {
        Ok(workload) => workload,
        Err(child) => return child.run().map(|()| true),
    };
    let origin = origin(workload.name())?;
    let dir = match (in_guest(), cli.dir) {
        (true, _) => PathBuf::from(init::DISK),
        // As /proc/swaps names it.
        (false, Some(dir)) if cli.on_host => dir
            .canonicalize()
            .with_context(|| format!("--dir {}", dir.display()))?,
        (false, dir) => host::refuse(workload.as_ref(), dir.as_deref())?,
    };
    host::check(workload.needs(), &dir, in_guest())?;
    undo::on_signals()?;
    let mut lab = lab::Lab::new(origin, dir, report::stdout()?);
    let result = workload.run(&mut lab);
    Ok(lab.finish(result))
}

/// Where the lines of this run come from.
fn origin(workload: &str) -> Result<report::Origin> {
    let kernel = report::kernel_release();
    let (accel, clock) = if in_guest() {
        init::accel_and_clock()?
    } else {
        ("host".into(), Clock::Cpu)
    };
    Ok(report::Origin {
        arm: report::arm_of(&kernel).into(),
        kernel,
        lru: lru_in_use().context("cannot tell which LRU is in use")?,
        accel,
        clock,
        workload: workload.into(),
    })
}

const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";

fn lru_in_use() -> Result<Lru> {
    match std::fs::read_to_string(LRU_GEN) {
        Ok(text) => lru_of(&text).with_context(|| format!("{LRU_GEN} is `{}`", text.trim())),
        // A kernel without it.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Lru::Classic),
        Err(e) => Err(e).with_context(|| format!("cannot read {LRU_GEN}")),
    }
}

/// `0x0007`: bit 0 is the LRU itself, the others are about its page table walks.
fn lru_of(text: &str) -> Option<Lru> {
    let bits = u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()?;
    Some(if bits & 1 == 1 {
        Lru::Mglru
    } else {
        Lru::Classic
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bad_arguments_are_refused() {
        for bad in [
            &["vmscan-lab"][..],
            &["vmscan-lab", "swapstorm"],
            &["vmscan-lab", "--on-host", "pageout"],
            &["vmscan-lab", "pageout", "--workers", "3"],
            &["vmscan-lab", "pageout", "--mib", "7"],
            &["vmscan-lab", "pageout", "--mib", "0"],
            &["vmscan-lab", "pageout", "--cycles", "0"],
            &["vmscan-lab", "pageout", "--pages", "huge"],
            &["vmscan-lab", "hotcold", "--mode", "cold"],
        ] {
            assert!(Cli::try_parse_from(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lrus() {
        assert_eq!(lru_of("0x0007\n"), Some(Lru::Mglru));
        assert_eq!(lru_of("0x0006\n"), Some(Lru::Classic));
        assert_eq!(lru_of("0x0000\n"), Some(Lru::Classic));
        assert_eq!(lru_of("on\n"), None);
    }
}
