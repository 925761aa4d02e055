// SPDX-License-Identifier: GPL-2.0
//! `series`: lays the patches on a kernel, builds it, boots it, checks it, and writes the patches back.

mod accel;
mod base;
mod check;
mod debian;
mod export;
mod files;
mod gate;
mod git;
mod kunit;
mod lab;
mod lock;
mod opts;
mod report;
mod requirements;
mod step;
mod test;
mod toolchain;
mod tree;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use opts::Opts;
use std::path::{Path, PathBuf};
use step::{Ctx, Interrupted, say};

#[derive(Parser)]
#[command(name = "series", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    opts: Opts,
}

#[derive(Subcommand)]
enum What {
    /// Names every missing or mismatched tool at once, and installs it where that is possible.
    Preflight,
    /// Lays base, prerequisites and series as commits in build/linux.
    Tree,
    /// Writes patches/ and the view back from the commits in build/linux.
    Export {
        /// Writes nothing; names what disagrees.
        #[arg(long)]
        check: bool,
    },
    /// Builds the kernel, boots it, reports its KUnit suites.
    Kunit,
    /// Measures: builds the arms, boots them, writes a report.
    Lab {
        /// A workload, or one row of lab/plan.tsv (default: all rows).
        #[arg(long, env = "WORKLOAD")]
        workload: Option<String>,
        /// How often each arm is booted (default: as the row says).
        #[arg(long, env = "ROUNDS")]
        rounds: Option<u32>,
    },
    /// Makes the last complete lab the committed one.
    LabReference,
    /// Proves the whole repository.
    Test,
    /// Removes what was built, but not a kernel tree holding work that is nowhere else.
    Clean,
}

fn main() {
    scrub_environment();
    let cli = Cli::parse();
    let code = match run(cli) {
        Ok(()) => 0,
        // The child may have failed because of the same Ctrl-C.
        Err(e) if e.is::<Interrupted>() || step::check_interrupt().is_err() => {
            eprintln!("\ninterrupted");
            130
        }
        Err(e) => {
            eprintln!("\nerror: {e:#}");
            1
        }
    };
    std::process::exit(code);
}

fn run(cli: Cli) -> Result<()> {
    step::catch_signals()?;
    let ctx = context(&cli.opts)?;
    let opts = &cli.opts;
    let _lock = lock::Lock::take(&ctx.build.join(lock::FILE), "this build folder")?;
    sweep(&ctx);
    match cli.what {
        What::Preflight => toolchain::ensure(&ctx, opts, toolchain::Want::Test).map(drop),
        What::Tree => {
            toolchain::ensure(&ctx, opts, toolchain::Want::Tree)?;
            let tree = tree::ensure(&ctx, opts)?;
            say(format!(
                "{} is at {} on {}, SERIES={}",
                tree.dir.display(),
                tree.short(),
                tree.base_name,
                tree.series.name()
            ));
            Ok(())
        }
        What::Export { check } => {
            toolchain::ensure(&ctx, opts, toolchain::Want::Tree)?;
            export::run(&ctx, opts, check)
        }
        What::Kunit => kunit::run(&ctx, opts),
        What::Lab { workload, rounds } => lab::run(&ctx, opts, workload.as_deref(), rounds),
        What::LabReference => lab::make_reference(&ctx, opts),
        What::Test => test::run(&ctx, opts),
        What::Clean => tree::clean(&ctx),
    }
}

/// Variables that would reach the kernel's make or git and change what they do behind our back.
/// MAKEFLAGS above all: it carries `ARCH=um RUST=n` from `make kunit ARCH=um RUST=n` into every make below.
fn scrub_environment() {
    const DROP: &[&str] = &[
        "MAKEFLAGS",
        "MFLAGS",
        "MAKEOVERRIDES",
        "MAKELEVEL",
        "GNUMAKEFLAGS",
        "KBUILD_OUTPUT",
        "KCONFIG_CONFIG",
        "KCFLAGS",
        "KRUSTFLAGS",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_PREFIX",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "CDPATH",
    ];
    // An empty variable (`BUILD= make kunit`) means the default, as in make.
    const OURS: &[&str] = &[
        "BUILD",
        "KDIR",
        "KREV",
        "BASE",
        "SERIES",
        "RUST",
        "ARCH",
        "LLVM",
        "RUSTC",
        "RUST_LIB_SRC",
        "LIBCLANG_PATH",
        "BINDGEN",
        "JOBS",
        "TIMEOUT",
        "WORKLOAD",
        "ROUNDS",
    ];
    let empty = |k: &&&str| std::env::var_os(k).is_some_and(|v| v.is_empty());
    for key in DROP.iter().chain(OURS.iter().filter(empty)) {
        // SAFETY: no other thread exists yet.
        unsafe { std::env::remove_var(key) };
    }
    // Messages of git and apt are read, and sorting must not depend on the place.
    // SAFETY: no other thread exists yet.
    unsafe { std::env::set_var("LC_ALL", "C.UTF-8") };
}

fn context(opts: &Opts) -> Result<Ctx> {
    let root = find_root()?;
    let build = root.join(&opts.build);
    std::fs::create_dir_all(&build).with_context(|| {
        format!(
            "cannot make the build folder {}; BUILD=<folder> puts it elsewhere",
            build.display()
        )
    })?;
    let build = build.canonicalize()?;
    if build == root {
        bail!("BUILD must not be the project's own folder; leave it out, or name another one");
    }
    only_ours(&build)?;
    let cache = match std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() => dir,
        _ => PathBuf::from(
            std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?,
        )
        .join(".cache"),
    }
    .join("vmscan-rust");
    std::fs::create_dir_all(&cache).with_context(|| {
        format!(
            "cannot make {}; XDG_CACHE_HOME=<folder> puts it elsewhere",
            cache.display()
        )
    })?;
    let jobs = match opts.jobs {
        Some(0) => bail!("JOBS must be 1 or more"),
        Some(n) => n,
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    Ok(Ctx {
        root,
        build,
        cache,
        jobs,
    })
}

/// `make clean` empties the build folder, so it must not be one that holds anything else.
fn only_ours(build: &Path) -> Result<()> {
    if build.join(lock::FILE).exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(build)? {
        let name = entry?.file_name();
        // The tool itself is compiled before it can lock anything.
        if name != "cargo" {
            bail!(
                "BUILD={} is not a build folder of this project, and not empty (it holds {}): name a new one",
                build.display(),
                name.to_string_lossy()
            );
        }
    }
    Ok(())
}

/// The folder that holds `patches/`: at or above the current one.
fn find_root() -> Result<PathBuf> {
    let here = std::env::current_dir().context("the current folder is gone")?;
    let is_root = |d: &&Path| d.join("tools/requirements.tsv").is_file();
    here.ancestors()
        .find(is_root)
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is not inside a clone of this project", here.display()))
}

/// What a killed run left; nobody else can be using it while we hold the lock.
fn sweep(ctx: &Ctx) {
    let _ = std::fs::remove_dir_all(ctx.build.join("tmp"));
}
