// SPDX-License-Identifier: GPL-2.0
//! What a user can say. Every option is a Make variable of the same name.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rust {
    /// The Rust policy and its suites.
    Y,
    /// The C implementation and the C suites.
    N,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Arch {
    #[value(name = "x86_64")]
    X86_64,
    Um,
}

impl Arch {
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Um => "um",
        }
    }
}

/// How much of `patches/` is laid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Series {
    /// The series proper.
    #[default]
    Core,
    /// With the follow-up on top.
    All,
}

impl Series {
    pub fn name(self) -> &'static str {
        match self {
            Series::Core => "core",
            Series::All => "all",
        }
    }
}

#[derive(Args, Clone, Debug)]
pub struct Opts {
    /// Where everything made goes.
    #[arg(long, env = "BUILD", global = true, default_value = "build")]
    pub build: PathBuf,

    /// Your own kernel clone to use instead of Debian's source.
    #[arg(long, env = "KDIR", global = true)]
    pub kdir: Option<PathBuf>,

    /// The commit of KDIR to use (default: its HEAD, which must be clean).
    #[arg(long, env = "KREV", global = true)]
    pub krev: Option<String>,

    /// The kernel to put the series on: a name in tools/bases.tsv or a version the archive serves.
    #[arg(long, env = "BASE", global = true)]
    pub base: Option<String>,

    /// core: the series; all: the follow-up on top (default: what the tree is laid with, core for a new one).
    #[arg(long, env = "SERIES", global = true, value_enum)]
    pub series: Option<Series>,

    /// y: the Rust policy; n: the C implementation.
    #[arg(long, env = "RUST", global = true, value_enum, default_value = "y")]
    pub rust: Rust,

    /// x86_64: under QEMU; um: user mode, without THP.
    #[arg(
        long,
        env = "ARCH",
        global = true,
        value_enum,
        default_value = "x86_64"
    )]
    pub arch: Arch,

    /// As the kernel's own LLVM= (such as -22).
    #[arg(long, env = "LLVM", global = true, allow_hyphen_values = true)]
    pub llvm: Option<String>,

    /// The Rust compiler.
    #[arg(long, env = "RUSTC", global = true)]
    pub rustc: Option<PathBuf>,

    /// The library source of exactly that compiler.
    #[arg(long, env = "RUST_LIB_SRC", global = true)]
    pub rust_lib_src: Option<PathBuf>,

    /// The folder of libclang.so.
    #[arg(long, env = "LIBCLANG_PATH", global = true)]
    pub libclang_path: Option<PathBuf>,

    /// The bindgen program.
    #[arg(long, env = "BINDGEN", global = true)]
    pub bindgen: Option<PathBuf>,

    /// Parallel jobs (default: the number of CPUs).
    #[arg(long, env = "JOBS", global = true)]
    pub jobs: Option<usize>,

    /// Seconds the kernel under test may run (default: scaled to the accelerator).
    #[arg(long, env = "TIMEOUT", global = true)]
    pub timeout: Option<u64>,
}
