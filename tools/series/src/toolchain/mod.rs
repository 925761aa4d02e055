// SPDX-License-Identifier: GPL-2.0
//! Which compilers and tools to use; what is missing, said all at once; how it is brought.

pub(crate) mod clang;
mod fix;
mod probe;
pub mod python;
mod rust;
mod table;

pub use probe::which;

use crate::debian;
use crate::opts::Opts;
use crate::step::{Ctx, say};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    Tree,
    Send,
    Build,
    Test,
    Check,
    Matrix,
    Stress,
}

#[derive(Clone, Debug, Default)]
pub struct Toolchain {
    pub rustc: PathBuf,
    pub rust_lib_src: Option<PathBuf>,
    pub bindgen: PathBuf,
    /// As the kernel's LLVM=: `-22`, `1` or a folder that ends in a slash.
    pub llvm: String,
    pub libclang_path: PathBuf,
    pub cargo: Option<PathBuf>,
    pub clippy: Option<PathBuf>,
    pub rustfmt: Option<PathBuf>,
    pub ccache: bool,
    pub qemu: Option<PathBuf>,
}

impl Toolchain {
    /// For the kernel's make.
    pub fn make_args(&self) -> Vec<String> {
        let paths = [
            ("RUSTC", Some(&self.rustc)),
            ("RUST_LIB_SRC", self.rust_lib_src.as_ref()),
            ("BINDGEN", Some(&self.bindgen)),
            ("RUSTFMT", self.rustfmt.as_ref()),
            ("CLIPPY_DRIVER", self.clippy.as_ref()),
        ];
        let mut args = vec![format!("LLVM={}", self.llvm)];
        for (key, path) in paths {
            if let Some(path) = path.filter(|p| !p.as_os_str().is_empty()) {
                args.push(format!("{key}={}", path.display()));
            }
        }
        if self.ccache {
            let clang = clang::llvm_tool(&self.llvm, "clang");
            args.push(format!("CC=ccache {clang}"));
        }
        args
    }

    /// What compiles, in its own words: an upgrade in the same place makes other objects.
    pub fn compilers(&self) -> Result<String> {
        let clang = clang::llvm_tool(&self.llvm, "clang");
        let programs = [Path::new(&clang), &self.rustc, &self.bindgen];
        let said = programs
            .iter()
            .map(|p| crate::step::capture(std::process::Command::new(p).arg("--version")));
        said.collect()
    }

    pub fn envs(&self, ctx: &Ctx) -> Vec<(String, String)> {
        let mut envs = Vec::new();
        if !self.libclang_path.as_os_str().is_empty() {
            envs.push((
                "LIBCLANG_PATH".into(),
                self.libclang_path.display().to_string(),
            ));
        }
        // Objects made in one clone serve the next, which has the same paths below its build folder.
        if self.ccache {
            envs.push(("CCACHE_BASEDIR".into(), ctx.build.display().to_string()));
        }
        envs
    }
}

/// Finds the tools; brings what is missing where that is possible, else names all of it and how to get it.
pub fn ensure(ctx: &Ctx, opts: &Opts, want: Want) -> Result<Toolchain> {
    // The kernel's make refuses such a path late and less clearly.
    if want >= Want::Build && make_splits(&ctx.build) {
        bail!(
            "the kernel cannot be built in {}: its make takes no space or colon in a path. BUILD=<folder> puts it elsewhere.",
            ctx.build.display()
        );
    }
    let release = debian::release();
    let mut look = probe::look(ctx, opts, want, release)?;
    if !look.fits() {
        say("missing or not fitting:");
        say(look.table(release, true));
        fix::bring(ctx, &look, release)?;
        look = probe::look(ctx, opts, want, release)?;
        if !look.fits() {
            bail!(
                "still missing or not fitting:\n{}",
                look.table(release, true)
            );
        }
    }
    match want {
        Want::Tree | Want::Send => {}
        Want::Build => say(look.one_line()),
        Want::Test | Want::Check | Want::Matrix | Want::Stress => {
            say(look.table(release, false));
        }
    }
    spaceless(ctx, &mut look.tools)?;
    Ok(look.tools)
}

fn make_splits(path: &Path) -> bool {
    path.to_string_lossy().contains([' ', ':', '\t'])
}

/// The kernel's make splits at spaces: what lies behind one (a cache folder may) is reached through a link.
fn spaceless(ctx: &Ctx, tools: &mut Toolchain) -> Result<()> {
    let paths = [
        (Some(&mut tools.rustc), "rustc"),
        (Some(&mut tools.bindgen), "bindgen"),
        (Some(&mut tools.libclang_path), "libclang"),
        (tools.rust_lib_src.as_mut(), "rust-library"),
        (tools.clippy.as_mut(), "clippy-driver"),
        (tools.rustfmt.as_mut(), "rustfmt"),
    ];
    for (path, name) in paths {
        let Some(path) = path.filter(|p| make_splits(p)) else {
            continue;
        };
        let dir = ctx.build.join("links");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let link = dir.join(name);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&*path, &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
        *path = link;
    }
    Ok(())
}
