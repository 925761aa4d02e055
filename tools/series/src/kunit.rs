// SPDX-License-Identifier: GPL-2.0

//! `make kunit`: the tree's own kunit.py configures, builds, boots and parses;
//! this names the steps, picks the accelerator and passes the verdict.

use crate::accel::{self, Accel, Choice};
use crate::gate::{self, Expected};
use crate::opts::{Arch, Opts, Rust, Series};
use crate::report;
use crate::step::{Ctx, Step, elapsed_text, output, say, tail};
use crate::toolchain::{self, Toolchain, Want};
use crate::tree::{self, Tree};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long the suites may take on a real CPU; they need a few seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// How long kunit.py may take to end a kernel of its own accord.
const GRACE: Duration = Duration::from_secs(30);

/// One kernel: its name in kunit/suites.tsv and what it is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    pub arch: Arch,
    pub rust: Rust,
}

impl Config {
    pub fn name(self) -> &'static str {
        match (self.arch, self.rust) {
            (Arch::X86_64, Rust::Y) => "rust",
            (Arch::X86_64, Rust::N) => "c",
            (Arch::Um, Rust::Y) => "um",
            (Arch::Um, Rust::N) => "um-c",
        }
    }

    /// Trees and configurations never share objects.
    pub fn build_dir(self, ctx: &Ctx, tree: &Tree) -> PathBuf {
        let lang = match self.rust {
            Rust::Y => "rust",
            Rust::N => "c",
        };
        ctx.build
            .join(format!("kunit-{}-{lang}{}", self.arch.name(), tree.tag))
    }

    /// What the follow-up adds, if it has options of its own, is in files of its own.
    fn kunitconfigs(self, series: Series, folder: &Path) -> Vec<PathBuf> {
        let mut files = vec![folder.join(format!("{}.kunitconfig", self.arch.name()))];
        let mut optional = vec![folder.join("follow-up.kunitconfig")];
        if self.rust == Rust::Y {
            files.push(folder.join("rust.kunitconfig"));
            optional.push(folder.join("follow-up-rust.kunitconfig"));
        }
        if series == Series::All {
            files.extend(optional.into_iter().filter(|f| f.is_file()));
        }
        files
    }

    /// For names of steps and checks.
    pub fn title(self, series: Series) -> String {
        match series {
            Series::Core => self.name().into(),
            Series::All => format!("{} all", self.name()),
        }
    }
}

/// What a run came to.
pub struct Outcome {
    pub run: gate::Run,
    /// Empty when it passed.
    pub wrong: Vec<String>,
}

pub fn run(ctx: &Ctx, opts: &Opts) -> Result<()> {
    let tools = toolchain::ensure(ctx, opts, Want::Build)?;
    let tree = tree::ensure(ctx, opts)?;
    let config = Config {
        arch: opts.arch,
        rust: opts.rust,
    };
    let outcome = boot(ctx, opts, &tools, &tree, config)?;
    if !outcome.wrong.is_empty() {
        bail!(
            "KUnit ({}) failed:\n{}",
            config.title(tree.series),
            list(&outcome.wrong)
        );
    }
    Ok(())
}

pub fn list(wrong: &[String]) -> String {
    wrong
        .iter()
        .map(|w| format!("  {w}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Configures, builds, boots and judges one kernel. An error means there is no
/// result at all; a bad result is in the outcome.
pub fn boot(
    ctx: &Ctx,
    opts: &Opts,
    tools: &Toolchain,
    tree: &Tree,
    config: Config,
) -> Result<Outcome> {
    let suites = ctx.root.join("kunit/suites.tsv");
    let suites =
        fs::read_to_string(&suites).with_context(|| format!("cannot read {}", suites.display()))?;
    let expected = gate::expected(&suites, config.name(), tree.series)?;
    let kunit = Kunit {
        ctx,
        tools,
        tree,
        config,
        build_dir: config.build_dir(ctx, tree),
    };

    kunit.make("config", &kunit.name("config"), &[])?;
    kunit.make("build", &kunit.name("build"), &[])?;
    let choice = match config.arch {
        Arch::X86_64 => {
            let qemu = tools
                .qemu
                .as_deref()
                .context("the preflight found no qemu-system-x86_64")?;
            let choice = accel::choose(ctx, qemu, &kunit.build_dir.join("arch/x86/boot/bzImage"))?;
            say(format!(
                "accelerator: {} ({})",
                choice.accel.name(),
                choice.why
            ));
            Some(choice)
        }
        // User Mode Linux is an ordinary program.
        Arch::Um => None,
    };
    let limit = match (opts.timeout, &choice) {
        (Some(seconds), _) => Duration::from_secs(seconds),
        (None, Some(choice)) => choice.accel.scale(LIMIT),
        (None, None) => LIMIT,
    };
    kunit.exec(choice.as_ref(), limit, &expected)
}

/// Writes the .config of `config`, without the doctests, into `build_dir`.
pub fn configure(
    ctx: &Ctx,
    tools: &Toolchain,
    tree: &Tree,
    config: Config,
    build_dir: PathBuf,
    step: &str,
) -> Result<()> {
    let kunit = Kunit {
        ctx,
        tools,
        tree,
        config,
        build_dir,
    };
    kunit.make(
        "config",
        step,
        &["--kconfig_add", "CONFIG_RUST_KERNEL_DOCTESTS=n"],
    )
}

struct Kunit<'a> {
    ctx: &'a Ctx,
    tools: &'a Toolchain,
    tree: &'a Tree,
    config: Config,
    build_dir: PathBuf,
}

impl Kunit<'_> {
    fn name(&self, what: &str) -> String {
        format!("kunit {} {what}", self.config.title(self.tree.series))
    }

    fn step(&self, name: &str) -> Step<'_> {
        let step = Step::new(self.ctx, name);
        self.tools
            .envs(self.ctx)
            .into_iter()
            .fold(step, |s, (k, v)| s.env(k, v))
    }

    fn command(&self, verb: &str, accel: Accel) -> Command {
        let mut cmd = Command::new("python3");
        cmd.arg(self.tree.dir.join("tools/testing/kunit/kunit.py"))
            .arg(verb);
        cmd.arg("--arch").arg(self.config.arch.name());
        cmd.arg("--build_dir").arg(&self.build_dir);
        let folder = self.ctx.root.join("kunit");
        for file in self.config.kunitconfigs(self.tree.series, &folder) {
            cmd.arg("--kunitconfig").arg(file);
        }
        if self.config.arch == Arch::X86_64 {
            let file = format!("kunit/qemu/x86_64_{}.py", accel.name());
            cmd.arg("--qemu_config").arg(self.ctx.root.join(file));
        }
        // kunit.py imports from the tree and from kunit/qemu: leave no caches there.
        cmd.env("PYTHONDONTWRITEBYTECODE", "1");
        cmd
    }

    /// `kunit.py config` or `kunit.py build`; both do only what is left to do.
    fn make(&self, verb: &str, step: &str, extra: &[&str]) -> Result<()> {
        // The accelerator decides nothing here; a fixed one keeps .config the same.
        let mut cmd = self.command(verb, Accel::Tcg);
        cmd.args(extra);
        for arg in self.tools.make_args() {
            cmd.arg("--make_options").arg(arg);
        }
        if verb == "build" {
            cmd.arg("--jobs").arg(self.ctx.jobs.to_string());
        }
        self.step(step).run(&mut cmd).map(drop)
    }

    fn exec(
        &self,
        choice: Option<&Choice>,
        limit: Duration,
        expected: &[Expected],
    ) -> Result<Outcome> {
        let json = self.build_dir.join("kunit.json");
        let boot_log = self.build_dir.join("test.log");
        // Results of an earlier boot must not pass for this one's.
        for old in [&json, &boot_log] {
            match fs::remove_file(old) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(e).with_context(|| format!("cannot remove {}", old.display()));
                }
                _ => {}
            }
        }
        let mut cmd = self.command("exec", choice.map_or(Accel::Tcg, |c| c.accel));
        cmd.arg("--timeout").arg(limit.as_secs().to_string());
        // Not a bare --json FILE: kunit.py would take FILE for the filter.
        cmd.arg(format!("--json={}", json.display()));
        // 1 is kunit.py's word for failed cases, which the verdict below names.
        let done = self
            .step(&self.name("boot"))
            .timeout(limit + GRACE)
            .ok_codes(&[0, 1])
            .run(&mut cmd)
            .with_context(|| format!("the boot log is {}", boot_log.display()))?;

        let said = read(&done.log)?;
        let log = read(&boot_log).with_context(|| no_result(&done.log))?;
        if let Some(choice) = choice.filter(|_| log.contains("Linux version")) {
            accel::remember(self.ctx, choice)?;
        }
        let run = gate::parse(&read(&json).with_context(|| no_result(&done.log))?)
            .with_context(|| format!("cannot read {}", json.display()))?;
        let mut wrong = gate::judge(&run, expected, &boot_log.display().to_string(), &log);
        if said.contains("timed out after") {
            wrong.insert(
                0,
                format!(
                    "the kernel was still running after {} s and was killed",
                    limit.as_secs()
                ),
            );
        }
        if done.code != 0 && wrong.is_empty() {
            wrong.push("kunit.py calls the run a failure".into());
        }
        if !wrong.is_empty() {
            self.explain(&log, &boot_log);
        }
        say(report::table(&run, expected).trim_end());
        if let Some(line) = said.lines().rev().find(|l| l.contains("Testing complete.")) {
            say(line);
        }
        say(format!(
            "KUnit ({}) {} in {}; boot log: {}",
            self.config.title(self.tree.series),
            if wrong.is_empty() { "passed" } else { "FAILED" },
            elapsed_text(done.elapsed),
            boot_log.display()
        ));
        Ok(Outcome { run, wrong })
    }

    /// kunit.py's own view of the failing cases alone, or why there is none.
    fn explain(&self, log: &str, boot_log: &Path) {
        if !log.contains("KTAP version") {
            say(format!(
                "KUnit never started; the kernel's last lines:\n{}",
                tail(boot_log, 20)
            ));
            return;
        }
        let mut cmd = Command::new("python3");
        cmd.arg(self.tree.dir.join("tools/testing/kunit/kunit.py"))
            .args(["parse", "--failed"])
            .arg(boot_log)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        if let Ok(out) = output(&mut cmd) {
            say(String::from_utf8_lossy(&out.stdout).trim_end());
        }
    }
}

/// Boot logs may hold anything, not only UTF-8.
fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn no_result(log: &Path) -> String {
    format!(
        "kunit.py left no result; its last lines:\n{}\nwhole log: {}",
        tail(log, 20),
        log.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::capture;

    const ALL: [Config; 4] = [
        Config {
            arch: Arch::X86_64,
            rust: Rust::Y,
        },
        Config {
            arch: Arch::X86_64,
            rust: Rust::N,
        },
        Config {
            arch: Arch::Um,
            rust: Rust::Y,
        },
        Config {
            arch: Arch::Um,
            rust: Rust::N,
        },
    ];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn every_configuration_has_its_files_and_its_own_folder() {
        let ctx = Ctx {
            root: root(),
            build: "/b".into(),
            cache: "/c".into(),
            jobs: 1,
        };
        let tree = |tag: &str| Tree {
            dir: "/b/linux".into(),
            head: String::new(),
            base_name: String::new(),
            series: Default::default(),
            tag: tag.into(),
        };
        let mut dirs = Vec::new();
        for config in ALL {
            for file in config.kunitconfigs(Series::All, &root().join("kunit")) {
                assert!(file.is_file(), "{}", file.display());
            }
            for tag in ["", "-kdir", "-all"] {
                dirs.push(config.build_dir(&ctx, &tree(tag)));
            }
        }
        assert_eq!(dirs[0], Path::new("/b/kunit-x86_64-rust"));
        dirs.sort();
        dirs.dedup();
        assert_eq!(dirs.len(), 3 * ALL.len());
    }

    /// kunit.py refuses two values for one option.
    #[test]
    fn merged_kunitconfigs_agree() {
        for config in ALL {
            let mut seen = Vec::new();
            for file in config.kunitconfigs(Series::All, &root().join("kunit")) {
                let text = fs::read_to_string(file).unwrap();
                for line in text.lines().filter(|l| l.contains("CONFIG_")) {
                    let name = line
                        .split(['=', ' '])
                        .find(|w| w.starts_with("CONFIG_"))
                        .unwrap()
                        .to_string();
                    assert!(!seen.contains(&name), "{name} twice for {}", config.name());
                    seen.push(name);
                }
            }
        }
    }

    #[test]
    fn the_wrapper_drops_the_other_accelerators_alone() {
        let dir = tempfile::tempdir().unwrap();
        let print = "for a; do echo \"$a\"; done";
        crate::files::script_in(dir.path(), "qemu-system-x86_64", print);
        let path = format!(
            "{}:{}",
            dir.path().display(),
            std::env::var("PATH").unwrap()
        );
        let mut cmd = Command::new(root().join("kunit/qemu/qemu-system-x86_64-tcg"));
        cmd.args([
            "-m",
            "1024",
            "-append",
            "a  'b' kvm",
            "-accel",
            "kvm",
            "-accel",
            "hvf",
            "-accel",
            "tcg",
        ]);
        let said = capture(cmd.args(["-serial", "stdio"]).env("PATH", path)).unwrap();
        let args: Vec<&str> = said.lines().collect();
        assert_eq!(
            args,
            [
                "-m",
                "1024",
                "-append",
                "a  'b' kvm",
                "-accel",
                "tcg",
                "-serial",
                "stdio"
            ]
        );
    }
}
