// SPDX-License-Identifier: GPL-2.0
//! Builds the arms. They share one source folder and, unless an option of theirs changes everything, one object folder,
//! so that going from one to the next compiles only what differs; what is kept of each is its bzImage.

use super::arm::Arm;
use crate::debian::need_space;
use crate::files::{hex, write_whole};
use crate::git::{DATE, git};
use crate::step::{Ctx, Step, capture, output, say};
use crate::toolchain::{Toolchain, clang::llvm_tool};
use crate::tree::Tree;
use anyhow::{Context, Result, bail};
use results::{Size, Sizes};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is recorded the size of, and the option it takes.
const MEASURED: [(&str, &str); 5] = [
    ("vmlinux", ""),
    ("mm/vmscan.o", ""),
    ("mm/vmscan_policy.o", "CONFIG_VMSCAN_RUST=y"),
    ("rust/kernel.o", ""),
    ("rust/helpers/helpers.o", ""),
];

/// What is recorded the needs of.
const POLICY: &str = "mm/vmscan_policy.o";

/// An arm that is ready to boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub arm: String,
    /// The git tree it was built from.
    pub source: String,
    /// What `uname -r` says.
    pub release: String,
    /// Of vmlinux and of the objects that the series changes.
    pub sizes: Sizes,
    /// What the policies in Rust call elsewhere; nothing in an arm without them.
    pub needs: Vec<String>,
    /// Everything that went into it, hashed.
    key: String,
    #[serde(skip)]
    pub image: PathBuf,
}

pub struct Kernels<'a> {
    pub ctx: &'a Ctx,
    pub tools: &'a Toolchain,
    pub tree: &'a Tree,
}

impl Kernels<'_> {
    fn dir(&self) -> PathBuf {
        self.ctx.build.join(format!("lab-kernel{}", self.tree.tag))
    }

    fn objects(&self, arm: &Arm) -> PathBuf {
        match arm.own_objects() {
            true => self.dir().join(format!("obj-{}", arm.name)),
            false => self.dir().join("obj"),
        }
    }

    /// Where the kernel's own packer of an initramfs is, once one kernel is built.
    pub fn packer(&self, arm: &Arm) -> PathBuf {
        self.objects(arm).join("usr/gen_init_cpio")
    }

    /// Builds what is not there yet, in the order given.
    pub fn build(&self, arms: &[Arm]) -> Result<Vec<Kernel>> {
        arms.iter().map(|arm| self.one(arm)).collect()
    }

    fn one(&self, arm: &Arm) -> Result<Kernel> {
        let source = self.source_tree(arm)?;
        let config = self.config(arm, &source)?;
        let image = self.dir().join(format!("{}.bzImage", arm.name));
        let note = self.dir().join(format!("{}.json", arm.name));
        let key = hex(&Sha256::digest(format!(
            "{source}\n{config}\n{:?}\n{}",
            self.tools.make_args(),
            self.tools.compilers()?
        )));
        if let Some(known) = recall(&note, &image).filter(|k| k.key == key) {
            return Ok(known);
        }
        need_space(&self.ctx.build, 3_000_000_000, "building a kernel")?;
        // Never an old image beside new objects.
        let _ = fs::remove_file(&note);
        let objects = self.objects(arm);
        fs::create_dir_all(&objects)
            .with_context(|| format!("cannot make {}", objects.display()))?;
        self.check_out(arm, &source)?;
        self.configure(arm, &config)?;
        self.make(arm, "kernel", &["bzImage"])?;
        let built = objects.join("arch/x86/boot/bzImage");
        fs::copy(&built, &image)
            .with_context(|| format!("cannot copy {} to {}", built.display(), image.display()))?;
        let release = objects.join("include/config/kernel.release");
        let release = fs::read_to_string(&release)
            .with_context(|| format!("cannot read {}", release.display()))?;
        let kernel = Kernel {
            arm: arm.name.clone(),
            source,
            release: release.trim().into(),
            needs: self.needs(arm)?,
            sizes: self.sizes(arm)?,
            key,
            image,
        };
        write_whole(&note, &serde_json::to_vec_pretty(&kernel)?)?;
        Ok(kernel)
    }

    fn sizes(&self, arm: &Arm) -> Result<Sizes> {
        let tool = llvm_tool(&self.tools.llvm, "llvm-size");
        let mut sizes = Sizes::new();
        for (file, _) in MEASURED.iter().filter(|(file, _)| builds(arm, file)) {
            let path = self.objects(arm).join(file);
            let text = capture(Command::new(&tool).arg("-A").arg(&path))?;
            let size = Size::parse(&text).with_context(|| path.display().to_string())?;
            sizes.insert((*file).into(), size);
        }
        Ok(sizes)
    }

    fn needs(&self, arm: &Arm) -> Result<Vec<String>> {
        if !builds(arm, POLICY) {
            return Ok(Vec::new());
        }
        let tool = llvm_tool(&self.tools.llvm, "llvm-nm");
        let object = self.objects(arm).join(POLICY);
        let text = capture(Command::new(&tool).args(["-u", "-j"]).arg(&object))?;
        let names = text.lines().map(|l| l.trim().to_string());
        Ok(names.filter(|n| !n.is_empty()).collect())
    }

    fn source(&self) -> PathBuf {
        self.dir().join("src")
    }

    /// The git tree of the arm: its commit and its patches, made without touching any file.
    fn source_tree(&self, arm: &Arm) -> Result<String> {
        let src = self.source();
        let start = arm.start(self.ctx, self.tree)?;
        borrow_objects(&self.tree.dir, &src)?;
        let temp = self.ctx.temp("index")?;
        let index = temp.path().join("index");
        let aside = |args: &[&str]| {
            let mut cmd = git(&src);
            cmd.env("GIT_INDEX_FILE", &index).args(args);
            cmd
        };
        capture(&mut aside(&["read-tree", &start]))?;
        for name in &arm.patches {
            let patch = self.ctx.root.join("lab/patches").join(name);
            let out = output(aside(&["apply", "--cached"]).arg(&patch))?;
            if !out.status.success() {
                bail!(
                    "lab/patches/{name} does not apply for arm {}: {}\nIt follows mm/vmscan.c: rebase it.",
                    arm.name,
                    String::from_utf8_lossy(&out.stderr).trim()
                );
            }
        }
        Ok(capture(&mut aside(&["write-tree"]))?.trim().to_string())
    }

    /// Files that do not differ keep their time stamps: make compiles only what changed.
    fn check_out(&self, arm: &Arm, tree: &str) -> Result<()> {
        let src = self.source();
        let step = |what: &str| Step::new(self.ctx, format!("lab source {}{what}", arm.name));
        step("").run(git(&src).args(["read-tree", "--reset", "-u", tree]))?;
        // Also what somebody edited there: it would be measured under a wrong name.
        capture(git(&src).args(["checkout-index", "--quiet", "--force", "--all"])).map(drop)
    }

    /// The requested options. The kernel's own name says which arm it is and from what, so that a guest can tell.
    fn config(&self, arm: &Arm, source: &str) -> Result<String> {
        let path = self.ctx.root.join("lab/x86_64.config");
        let mut text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for option in &arm.config {
            text += &format!("{option}\n");
        }
        text += &format!(
            "CONFIG_LOCALVERSION=\"-lab.{}.{}\"\n",
            arm.name,
            &source[..12.min(source.len())]
        );
        Ok(text)
    }

    fn configure(&self, arm: &Arm, config: &str) -> Result<()> {
        let wanted = self.dir().join("wanted.config");
        write_whole(&wanted, config.as_bytes())?;
        let all = format!("KCONFIG_ALLCONFIG={}", wanted.display());
        self.make(arm, "config", &["allnoconfig", &all])?;
        let got = self.objects(arm).join(".config");
        let got =
            fs::read_to_string(&got).with_context(|| format!("cannot read {}", got.display()))?;
        let lost = missing(config, &got);
        if !lost.is_empty() {
            bail!(
                "Kconfig did not take, for arm {}: {}. A dependency is missing in lab/x86_64.config or lab/arms.tsv.",
                arm.name,
                lost.join(", ")
            );
        }
        Ok(())
    }

    fn make(&self, arm: &Arm, what: &str, targets: &[&str]) -> Result<()> {
        let mut cmd = Command::new("make");
        cmd.arg("-C")
            .arg(self.source())
            .arg(format!("O={}", self.objects(arm).display()))
            .arg("ARCH=x86_64")
            // The same name, and the same length of the banner, on every machine; no `+` for a tree without a tag.
            .args([
                "LOCALVERSION=",
                "KBUILD_BUILD_USER=lab",
                "KBUILD_BUILD_HOST=lab",
            ])
            .arg(format!("KBUILD_BUILD_TIMESTAMP={DATE}"))
            .args(self.tools.make_args())
            .arg(format!("-j{}", self.ctx.jobs))
            .args(targets);
        let envs = self.tools.envs(self.ctx);
        let step = Step::new(self.ctx, format!("lab {what} {}", arm.name));
        envs.into_iter()
            .fold(step, |s, (k, v)| s.env(k, v))
            .run(&mut cmd)
            .map(drop)
    }
}

/// The folder may still hold what another arm built there.
fn builds(arm: &Arm, file: &str) -> bool {
    let (_, option) = MEASURED.iter().find(|(f, _)| *f == file).expect("measured");
    option.is_empty() || arm.config.iter().any(|o| o == option)
}

fn recall(note: &Path, image: &Path) -> Option<Kernel> {
    let mut kernel: Kernel = serde_json::from_slice(&fs::read(note).ok()?).ok()?;
    kernel.image = image.is_file().then(|| image.to_path_buf())?;
    Some(kernel)
}

/// A repository that has no objects of its own but sees those of the tree: nothing is written to the tree, and its
/// branches do not know of this one.
fn borrow_objects(tree: &Path, src: &Path) -> Result<()> {
    let link = src.join(".git/objects/info/alternates");
    let objects = tree.join(".git/objects");
    let wanted = format!("{}\n", objects.display());
    if fs::read_to_string(&link).is_ok_and(|had| had == wanted) {
        return Ok(());
    }
    if src.exists() {
        say("lab source: the tree was laid anew");
        fs::remove_dir_all(src).with_context(|| format!("cannot remove {}", src.display()))?;
    }
    fs::create_dir_all(src).with_context(|| format!("cannot make {}", src.display()))?;
    capture(git(src).args(["init", "--quiet"]))?;
    write_whole(&link, wanted.as_bytes())
}

/// Options that were asked for and did not come out.
fn missing(wanted: &str, got: &str) -> Vec<String> {
    let has: Vec<&str> = got.lines().collect();
    wanted
        .lines()
        .filter(|l| l.starts_with("CONFIG_") && !l.ends_with("=n") && !has.contains(l))
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_option_is_named() {
        let got = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x\"\n";
        let wanted = "# c\nCONFIG_A=y\nCONFIG_B=y\nCONFIG_C=\"x\"\nCONFIG_D=n\n";
        assert_eq!(missing(wanted, got), ["CONFIG_B=y"]);
    }
}
