// SPDX-License-Identifier: GPL-2.0
//! Installing packages from the machine's own suites, as root or with sudo, saying so first.

use crate::step::{Ctx, Step, output, say};
use anyhow::{Context, Result, bail};
use std::io::IsTerminal;
use std::process::Command;

pub fn install_command(packages: &[String], prefix: &str) -> String {
    format!(
        "{prefix}apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    )
}

pub fn install(ctx: &Ctx, packages: &[String]) -> Result<()> {
    let sudo = !rustix::process::geteuid().is_root();
    if sudo && !may_sudo() {
        bail!(
            "these packages are missing, and this user is neither root nor may use sudo. As root:\n    {}\nthen run again.",
            install_command(packages, "")
        );
    }
    let shown = install_command(packages, if sudo { "sudo " } else { "" });
    say(format!("installing: {shown}"));
    let apt = |name: &str, args: &[&str]| {
        let (program, before): (_, &[&str]) = if sudo {
            ("sudo", &["-n", "env"])
        } else {
            ("env", &[])
        };
        let mut cmd = Command::new(program);
        cmd.args(before)
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
            .args(args);
        let step = Step::new(ctx, name);
        let step = if sudo { step.foreground() } else { step };
        step.run(&mut cmd)
    };
    let mut args = vec!["install", "-y", "--no-install-recommends"];
    args.extend(packages.iter().map(String::as_str));
    apt("apt-update", &["update"])?;
    apt("apt-install", &args)
        .with_context(|| format!("cannot install the packages; try it by hand:\n    {shown}"))?;
    Ok(())
}

/// sudo may ask for the password, if somebody is there to type it.
fn may_sudo() -> bool {
    output(Command::new("sudo").args(["-n", "true"])).is_ok_and(|o| o.status.success())
        || std::io::stdin().is_terminal()
            && Command::new("sudo")
                .arg("-v")
                .status()
                .is_ok_and(|s| s.success())
}
