// SPDX-License-Identifier: GPL-2.0
//! Looks for every piece of `tools/requirements.tsv` that is needed here.

use super::fix::Fix;
use super::table::{Look, Row, Status};
use super::{Toolchain, Want, clang, rust};
use crate::opts::{Arch, Opts, Rust};
use crate::requirements::{self, For, Requirement, Version};
use crate::step::{self, Ctx, output};
use anyhow::Result;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn look(ctx: &Ctx, opts: &Opts, want: Want, release: Option<u32>) -> Result<Look> {
    let mut look = Look {
        rows: Vec::new(),
        tools: Toolchain {
            llvm: clang::llvm(opts),
            ..Toolchain::default()
        },
    };
    let tools = &mut look.tools;
    for r in &requirements::all() {
        if !applies(r, opts, want) {
            continue;
        }
        step::check_interrupt()?;
        let mut row = Row {
            name: r.name,
            found: "-".into(),
            needed: r
                .minimum
                .as_ref()
                .map_or("any".into(), |m| format!(">= {m}")),
            status: Status::Missing,
            why: r.why,
            fix: Fix::Packages(r.packages(release.unwrap_or(13)).to_vec()),
        };
        match r.name {
            "rustc" => rust::rustc(ctx, opts, r, &mut row, tools),
            "rust-lib-src" => rust::rust_lib_src(ctx, opts, &mut row, tools),
            "rustfmt" | "clippy" => rust::beside_rustc(r, &mut row, tools),
            "bindgen" => clang::bindgen(ctx, opts, r, &mut row, tools),
            "libclang" => clang::libclang(ctx, opts, &mut row, tools),
            "clang" | "lld" | "llvm" => clang::llvm_piece(opts, r, &mut row, &tools.llvm),
            "libelf" => header("gelf.h", &mut row),
            "openssl" => header("openssl/opensslv.h", &mut row),
            "python3-venv" => module(&["venv", "ensurepip"], &mut row),
            _ => program(r, &mut row, tools),
        }
        if r.what_for == For::Optional && row.status != Status::Fits {
            row.status = Status::Absent;
        }
        look.rows.push(row);
    }
    Ok(look)
}

fn applies(r: &Requirement, opts: &Opts, want: Want) -> bool {
    let rust = opts.rust == Rust::Y || want >= Want::Test;
    let qemu = opts.arch == Arch::X86_64 || want >= Want::Test;
    match r.what_for {
        For::Tool | For::Tree => true,
        For::Build | For::Optional => want >= Want::Build,
        For::Rust => want >= Want::Build && rust,
        For::Qemu => want >= Want::Build && qemu,
        For::Test => want >= Want::Test,
        // What is sent is also tested.
        For::Send => want == Want::Send || want >= Want::Test,
        For::Check => want == Want::Check,
        For::Matrix => want == Want::Matrix,
        For::Stress => want == Want::Stress,
    }
}

fn program(r: &Requirement, row: &mut Row, tools: &mut Toolchain) {
    let name = match r.name {
        "qemu" => "qemu-system-x86_64",
        other => other,
    };
    let Some(path) = which(name) else { return };
    row.judge(r, version_of(&path).as_ref(), &path);
    match r.name {
        "cargo" => tools.cargo = Some(path),
        "qemu" => tools.qemu = Some(path),
        "ccache" => tools.ccache = row.status == Status::Fits,
        _ => {}
    }
}

fn header(name: &str, row: &mut Row) {
    let script = "printf '#include <%s>\\n' \"$1\" | cc -E -x c - -o /dev/null";
    let found = output(Command::new("sh").args(["-c", script, "header", name]));
    if found.is_ok_and(|o| o.status.success()) {
        row.found = name.into();
        row.status = Status::Fits;
    }
}

fn module(names: &[&str], row: &mut Row) {
    let import = format!("import {}", names.join(", "));
    if output(Command::new("python3").args(["-c", &import])).is_ok_and(|o| o.status.success()) {
        row.found = names.join(", ");
        row.status = Status::Fits;
    }
}

/// A program by name, in PATH and where the system's own tools are.
pub fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return is_program(Path::new(name)).then(|| PathBuf::from(name));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|d| d.join(name))
        .find(|p| is_program(p))
}

pub fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

pub fn version_of(program: &Path) -> Option<Version> {
    let mut cmd = Command::new(program);
    if program.ends_with("perl") {
        // Its --version is prose.
        cmd.args(["-e", "print $^V =~ s/v//r"]);
    } else {
        cmd.arg("--version");
    }
    let out = output(&mut cmd).ok().filter(|o| o.status.success())?;
    let text = [&out.stdout[..], &out.stderr[..]].concat();
    Version::find(&String::from_utf8_lossy(&text))
}

/// The path a program answers with; empty when it does not.
pub fn path_from(program: &Path, args: &[&str]) -> PathBuf {
    let out = output(Command::new(program).args(args));
    out.map(|o| String::from_utf8_lossy(&o.stdout).trim().into())
        .unwrap_or_default()
}
