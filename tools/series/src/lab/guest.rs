// SPDX-License-Identifier: GPL-2.0
//! The guest: one static program, alone in an initramfs.

use crate::files::{hex, into_place, write_whole};
use crate::step::{Ctx, Step, output};
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// glibc can be linked statically too, and is on every Debian; musl's target is not.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub struct Guest {
    pub initramfs: PathBuf,
    /// The program's hash: samples of different programs are not compared.
    pub key: String,
}

/// `packer` is the kernel's gen_init_cpio, which needs no root.
pub fn build(ctx: &Ctx, tools: &Toolchain, packer: &Path) -> Result<Guest> {
    let program = compile(ctx, tools)?;
    let bytes = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    let key = hex(&Sha256::digest(&bytes))[..16].to_string();
    let dir = ctx.build.join("lab-kernel");
    let initramfs = dir.join(format!("initramfs-{key}"));
    if !initramfs.is_file() {
        pack(ctx, packer, &program, &initramfs)?;
    }
    Ok(Guest { initramfs, key })
}

fn compile(ctx: &Ctx, tools: &Toolchain) -> Result<PathBuf> {
    let cargo = tools
        .cargo
        .as_deref()
        .context("the preflight found no cargo")?;
    let target = ctx.build.join("cargo-guest");
    let mut cmd = Command::new(cargo);
    cmd.args(["build", "--release", "--locked", "--package", "vmscan-lab"])
        .args(["--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .arg("--manifest-path")
        .arg(ctx.root.join("tools/Cargo.toml"))
        // The kernel's compiler is not this program's.
        .env_remove("RUSTC")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    Step::new(ctx, "lab guest").run(&mut cmd)?;
    Ok(target.join(TARGET).join("release/vmscan-lab"))
}

fn pack(ctx: &Ctx, packer: &Path, program: &Path, initramfs: &Path) -> Result<()> {
    let temp = ctx.temp("initramfs")?;
    let list = temp.path().join("list");
    let text = format!(
        "dir /dev 755 0 0\nnod /dev/console 600 0 0 c 5 1\nfile /init {} 755 0 0\n",
        program.display()
    );
    write_whole(&list, text.as_bytes())?;
    // A fixed time, so that the same program gives the same archive.
    let out = output(Command::new(packer).args(["-t", "0"]).arg(&list))?;
    if !out.status.success() {
        bail!(
            "cannot pack the initramfs: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    let new = temp.path().join("initramfs");
    write_whole(&new, &out.stdout)?;
    into_place(&new, initramfs)
}
