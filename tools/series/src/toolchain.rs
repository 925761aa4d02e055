// SPDX-License-Identifier: GPL-2.0
//! Which compilers and tools to use; what is missing, said all at once; how it is brought.

use crate::debian::{self, Apt};
use crate::opts::{Arch, Opts, Rust};
use crate::requirements::{self, For, Requirement, Version};
use crate::step::{self, Ctx, Step, output, say};
use anyhow::{Context, Result, bail};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version `cargo install` brings where the distribution has none.
const BINDGEN: &str = "0.72.1";
/// The LLVM that is installed when there is none.
const LLVM: &str = "-22";
/// The suite whose `rust-src` matches newer compilers.
const BACKPORTS: &str = "trixie-backports";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    Tree,
    Build,
    Test,
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
        let mut args = vec![format!("LLVM={}", self.llvm)];
        let mut path = |key: &str, value: &Path| {
            if !value.as_os_str().is_empty() {
                args.push(format!("{key}={}", value.display()));
            }
        };
        path("RUSTC", &self.rustc);
        if let Some(src) = &self.rust_lib_src {
            path("RUST_LIB_SRC", src);
        }
        path("BINDGEN", &self.bindgen);
        if let Some(tool) = &self.rustfmt {
            path("RUSTFMT", tool);
        }
        if let Some(tool) = &self.clippy {
            path("CLIPPY_DRIVER", tool);
        }
        if self.ccache {
            let clang = llvm_tool(&self.llvm, "clang");
            args.push(format!("CC=ccache {clang}"));
        }
        args
    }

    pub fn envs(&self) -> Vec<(String, String)> {
        if self.libclang_path.as_os_str().is_empty() {
            return Vec::new();
        }
        vec![(
            "LIBCLANG_PATH".into(),
            self.libclang_path.display().to_string(),
        )]
    }
}

fn llvm_tool(llvm: &str, tool: &str) -> String {
    if llvm.ends_with('/') {
        format!("{llvm}{tool}")
    } else if llvm.starts_with('-') {
        format!("{tool}{llvm}")
    } else {
        tool.to_string()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Status {
    Fits,
    Missing,
    Wrong(String),
    /// Better with it, fine without.
    Absent,
}

/// How a missing piece comes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fix {
    None,
    Packages(Vec<String>),
    /// The source of exactly this version, from a package that is only unpacked.
    LibSrc(Version),
    CargoBindgen,
    /// The user's own choice does not fit: only they can change it.
    Say(String),
}

#[derive(Clone, Debug)]
struct Row {
    name: &'static str,
    found: String,
    needed: String,
    status: Status,
    fix: Fix,
    why: &'static str,
}

impl Row {
    fn good(&self) -> bool {
        matches!(self.status, Status::Fits | Status::Absent)
    }
}

struct Look {
    rows: Vec<Row>,
    tools: Toolchain,
}

/// Finds the tools; brings what is missing where that is possible, else names all of it and how to get it.
pub fn ensure(ctx: &Ctx, opts: &Opts, want: Want) -> Result<Toolchain> {
    if want >= Want::Build {
        no_space_in(&ctx.build)?;
    }
    let release = debian::release().filter(|_| debian::usable());
    let mut look = look(ctx, opts, want, release)?;
    if !look.fits() {
        say("missing or not fitting:");
        say(look.table(release, true));
        look.give_up_if_hopeless(release)?;
        bring(ctx, &look, release)?;
        look = self::look(ctx, opts, want, release)?;
        if !look.fits() {
            bail!(
                "still missing or not fitting:\n{}",
                look.table(release, true)
            );
        }
    }
    if want == Want::Test {
        say(look.table(release, false));
    } else if want == Want::Build {
        say(look.one_line());
    }
    Ok(look.tools)
}

/// The kernel's make refuses such a path late and less clearly.
fn no_space_in(build: &Path) -> Result<()> {
    if build.to_string_lossy().contains([' ', ':', '\t']) {
        bail!(
            "the kernel cannot be built in {}: its make takes no space or colon in a path. BUILD=<folder> puts it elsewhere.",
            build.display()
        );
    }
    Ok(())
}

impl Look {
    fn fits(&self) -> bool {
        self.rows.iter().all(Row::good)
    }

    /// Name, found, needed, status, the command that brings it.
    fn table(&self, release: Option<u32>, only_bad: bool) -> String {
        let head = if only_bad {
            ["piece", "found", "needed", "", "for", "brought by"]
        } else {
            ["piece", "found", "needed", "", "", ""]
        };
        let mut cells = vec![head.map(String::from)];
        for r in &self.rows {
            if only_bad && r.good() {
                continue;
            }
            let status = match &r.status {
                Status::Fits => "ok".into(),
                Status::Missing => "MISSING".into(),
                Status::Absent => "optional".into(),
                Status::Wrong(why) => why.clone(),
            };
            let (why, fix) = if r.status == Status::Fits {
                ("", String::new())
            } else {
                (r.why, r.fix.text(release))
            };
            cells.push([
                r.name.into(),
                r.found.clone(),
                r.needed.clone(),
                status,
                why.into(),
                fix,
            ]);
        }
        let width = |c: usize| {
            cells
                .iter()
                .map(|r| r[c].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths = [width(0), width(1), width(2), width(3), width(4)];
        let lines: Vec<String> = cells
            .iter()
            .map(|r| {
                let mut line = String::from(" ");
                for (c, w) in widths.iter().enumerate() {
                    line += &format!(" {:<w$} ", r[c]);
                }
                format!("{line} {}", r[5]).trim_end().to_string()
            })
            .collect();
        lines.join("\n")
    }

    fn one_line(&self) -> String {
        let show = ["clang", "rustc", "bindgen", "qemu"];
        let parts: Vec<String> = self
            .rows
            .iter()
            .filter(|r| show.contains(&r.name))
            .map(|r| format!("{} {}", r.name, r.found))
            .collect();
        format!("tools: {}", parts.join(", "))
    }

    fn give_up_if_hopeless(&self, release: Option<u32>) -> Result<()> {
        let own: Vec<String> = self
            .rows
            .iter()
            .filter_map(|r| match &r.fix {
                Fix::Say(text) if r.status != Status::Fits => Some(format!("  {}: {text}", r.name)),
                _ => None,
            })
            .collect();
        if !own.is_empty() {
            bail!("these only you can change:\n{}", own.join("\n"));
        }
        if release.is_none() {
            bail!(
                "this is not Debian 12 or 13, so nothing is installed. Bring the pieces above, then run again \
                 (tools/requirements.tsv says what each is for)."
            );
        }
        Ok(())
    }
}

impl Fix {
    fn text(&self, release: Option<u32>) -> String {
        match self {
            Fix::None => String::new(),
            Fix::Say(text) => text.clone(),
            Fix::Packages(p) if release.is_some() => debian::install_command(p, ""),
            Fix::Packages(p) => format!("(on Debian: {})", p.join(" ")),
            Fix::LibSrc(v) => format!(
                "rustup component add rust-src; or package rust-src {v}, unpacked in the cache"
            ),
            Fix::CargoBindgen => format!("cargo install --locked bindgen-cli --version {BINDGEN}"),
        }
    }
}

fn bring(ctx: &Ctx, look: &Look, release: Option<u32>) -> Result<()> {
    let Some(release) = release else {
        return Ok(());
    };
    let bad = || look.rows.iter().filter(|r| !r.good());
    let mut packages: Vec<String> = Vec::new();
    for row in bad() {
        if let Fix::Packages(p) = &row.fix {
            packages.extend(p.iter().cloned());
        }
    }
    let mut source = None;
    for row in bad() {
        if let Fix::LibSrc(version) = &row.fix {
            source = library_package(ctx, version);
            if source.is_none() {
                say(format!(
                    "no package of the library source of rustc {version}: taking the distribution's own pair"
                ));
                packages.extend(pair(release));
            }
        }
    }
    packages.sort();
    packages.dedup();
    if !packages.is_empty() {
        debian::install(ctx, &packages)?;
    }
    if let Some(found) = source {
        found.bring(ctx)?;
    }
    if bad().any(|r| r.fix == Fix::CargoBindgen) {
        install_bindgen(ctx)?;
    }
    Ok(())
}

/// A compiler and its library source of one version.
fn pair(release: u32) -> Vec<String> {
    let both = requirements::all();
    both.iter()
        .filter(|r| r.name == "rustc" || r.name == "rust-lib-src")
        .flat_map(|r| r.packages(release).to_vec())
        .collect()
}

struct LibraryPackage {
    suite: Option<&'static str>,
    package: &'static str,
    version: String,
    rust: Version,
}

/// The library source of exactly this compiler, in the machine's own suites or in Debian 13's backports.
fn library_package(ctx: &Ctx, rust: &Version) -> Option<LibraryPackage> {
    for suite in [None, Some(BACKPORTS)] {
        let apt = match suite {
            None => Apt::system(ctx),
            Some(s) => Apt::suite(ctx, s).ok()?,
        };
        for package in ["rust-src", "rust-web-src"] {
            let served = apt.versions(package).unwrap_or_default();
            if let Some(s) = served
                .iter()
                .find(|s| debian::upstream(&s.version) == rust.to_string())
            {
                return Some(LibraryPackage {
                    suite,
                    package,
                    version: s.version.clone(),
                    rust: rust.clone(),
                });
            }
        }
    }
    None
}

impl LibraryPackage {
    fn bring(&self, ctx: &Ctx) -> Result<()> {
        let apt = match self.suite {
            None => Apt::system(ctx),
            Some(s) => Apt::suite(ctx, s)?,
        };
        let deb = apt.fetch(self.package, &self.version, None)?;
        let inside = format!("./usr/src/rustc-{}/library", self.rust);
        debian::unpack(ctx, &deb, &cached_library(ctx, &self.rust), &inside)
    }
}

fn cached_library(ctx: &Ctx, rust: &Version) -> PathBuf {
    ctx.cache.join(format!("rustc-{rust}/library"))
}

fn install_bindgen(ctx: &Ctx) -> Result<()> {
    let cargo = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let temp = ctx.temp("bindgen")?;
    let mut cmd = Command::new(cargo);
    cmd.args([
        "install",
        "--locked",
        "bindgen-cli",
        "--version",
        BINDGEN,
        "--force",
        "--root",
    ])
    .arg(ctx.cache.join("bindgen"))
    .env("CARGO_TARGET_DIR", temp.path());
    Step::new(ctx, "install-bindgen").run(&mut cmd).map(drop)
}

/// A program by name, in PATH and where the system's own tools are.
fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return is_program(Path::new(name)).then(|| PathBuf::from(name));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|d| d.join(name))
        .find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn version_of(program: &Path, args: &[&str]) -> Option<Version> {
    let out = output(Command::new(program).args(args)).ok()?;
    let text = [&out.stdout[..], &out.stderr[..]].concat();
    out.status
        .success()
        .then(|| Version::find(&String::from_utf8_lossy(&text)))
        .flatten()
}

/// As [`version_of`], but of a rustc and nothing else.
fn rustc_version(rustc: &Path) -> Option<Version> {
    let out = output(Command::new(rustc).arg("--version")).ok()?;
    Version::find(String::from_utf8_lossy(&out.stdout).strip_prefix("rustc ")?)
}

fn at(version: Option<&Version>, path: &Path) -> String {
    match version {
        Some(v) => format!("{v} ({})", path.display()),
        None => path.display().to_string(),
    }
}

fn applies(r: &Requirement, opts: &Opts, want: Want) -> bool {
    let rust = opts.rust == Rust::Y || want == Want::Test;
    let qemu = opts.arch == Arch::X86_64 || want == Want::Test;
    match r.what_for {
        For::Tool | For::Tree => true,
        For::Build | For::Optional => want >= Want::Build,
        For::Rust => want >= Want::Build && rust,
        For::Qemu => want >= Want::Build && qemu,
        For::Test => want == Want::Test,
    }
}

fn look(ctx: &Ctx, opts: &Opts, want: Want, release: Option<u32>) -> Result<Look> {
    let mut tools = Toolchain {
        ccache: false,
        ..Toolchain::default()
    };
    tools.llvm = llvm(opts);
    let mut rows = Vec::new();
    for r in requirements::all()
        .iter()
        .filter(|r| applies(r, opts, want))
    {
        step::check_interrupt()?;
        let packages = r.packages(release.unwrap_or(13)).to_vec();
        let mut row = Row {
            name: r.name,
            found: "-".into(),
            needed: r
                .minimum
                .as_ref()
                .map_or("any".into(), |m| format!(">= {m}")),
            status: Status::Missing,
            why: r.why,
            fix: if packages.is_empty() {
                Fix::None
            } else {
                Fix::Packages(packages)
            },
        };
        match r.name {
            "rustc" => rustc(ctx, opts, r, &mut row, &mut tools),
            "rust-lib-src" => rust_lib_src(ctx, opts, &mut row, &mut tools),
            "bindgen" => bindgen(ctx, opts, r, &mut row, &mut tools),
            "libclang" => libclang(ctx, opts, &mut row, &mut tools),
            "clang" | "lld" | "llvm" => llvm_piece(opts, r, &mut row, &tools.llvm),
            "rustfmt" | "clippy" => beside_rustc(r, &mut row, &mut tools),
            "libelf" => header("gelf.h", &mut row),
            "openssl" => header("openssl/opensslv.h", &mut row),
            _ => program(r, &mut row, &mut tools),
        }
        if r.what_for == For::Optional && row.status != Status::Fits {
            row.status = Status::Absent;
        }
        rows.push(row);
    }
    spaceless(ctx, &mut tools)?;
    Ok(Look { rows, tools })
}

fn judge(row: &mut Row, r: &Requirement, version: Option<Version>, path: &Path) {
    row.found = at(version.as_ref(), path);
    row.status = match (&r.minimum, &version) {
        (Some(min), Some(v)) if v < min => Status::Wrong("TOO OLD".into()),
        (Some(_), None) => Status::Wrong("DOES NOT RUN".into()),
        _ => Status::Fits,
    };
}

fn program(r: &Requirement, row: &mut Row, tools: &mut Toolchain) {
    let (name, args): (&str, &[&str]) = match r.name {
        "cargo" => ("cargo", &["--version"]),
        "qemu" => ("qemu-system-x86_64", &["--version"]),
        "perl" => ("perl", &["-e", "print $^V =~ s/v//r"]),
        other => (other, &["--version"]),
    };
    let Some(path) = which(name) else { return };
    let version = version_of(&path, args);
    judge(row, r, version, &path);
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

/// $LLVM; else the newest that is installed whole enough to have a clang; else what would be installed.
fn llvm(opts: &Opts) -> String {
    if let Some(llvm) = &opts.llvm {
        // As in the kernel's Makefile: a number alone is no suffix.
        return if llvm.starts_with('-') || llvm.ends_with('/') {
            llvm.clone()
        } else {
            "1".into()
        };
    }
    (17..=22)
        .rev()
        .map(|n| format!("-{n}"))
        .find(|suffix| which(&format!("clang{suffix}")).is_some())
        .unwrap_or_else(|| LLVM.into())
}

fn llvm_piece(opts: &Opts, r: &Requirement, row: &mut Row, llvm: &str) {
    let tool = match r.name {
        "lld" => "ld.lld",
        "llvm" => "llvm-ar",
        other => other,
    };
    let name = llvm_tool(llvm, tool);
    if let Some(path) = which(&name) {
        judge(row, r, version_of(&path, &["--version"]), &path);
    }
    if row.status != Status::Fits {
        // Only a suffix that is new enough names packages.
        let suffix = llvm.strip_prefix('-').and_then(Version::find);
        let packaged =
            suffix.is_some_and(|v| r.minimum.as_ref().is_some_and(|m| v.major() >= m.major()));
        row.fix = match &opts.llvm {
            Some(l) if !packaged => Fix::Say(format!(
                "LLVM={l} has no fitting {name}: leave LLVM out, or name another"
            )),
            _ => Fix::Packages(vec![format!("{}{llvm}", r.name)]),
        };
    }
}

/// Where a compiler's library source may be, without fetching anything.
fn library_of(ctx: &Ctx, rustc: &Path, version: &Version) -> Option<PathBuf> {
    let sysroot = output(Command::new(rustc).args(["--print", "sysroot"])).ok()?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    [
        sysroot.join("lib/rustlib/src/rust/library"),
        PathBuf::from(format!("/usr/src/rustc-{version}/library")),
        cached_library(ctx, version),
    ]
    .into_iter()
    .find(|d| is_library(d))
}

fn is_library(dir: &Path) -> bool {
    dir.join("core/src/lib.rs").is_file()
}

/// A rustup proxy would choose by the folder it runs in: take the compiler behind it.
fn behind_proxy(rustc: &Path) -> PathBuf {
    let out = output(Command::new(rustc).args(["--print", "sysroot"]));
    let sysroot = out
        .map(|o| PathBuf::from(String::from_utf8_lossy(&o.stdout).trim()))
        .unwrap_or_default();
    let real = sysroot.join("bin/rustc");
    if is_program(&real) {
        real
    } else {
        rustc.to_path_buf()
    }
}

fn rustc(ctx: &Ctx, opts: &Opts, r: &Requirement, row: &mut Row, tools: &mut Toolchain) {
    if let Some(own) = &opts.rustc {
        let Some(path) = which(&own.to_string_lossy()) else {
            row.found = own.display().to_string();
            row.fix = Fix::Say(format!("RUSTC={} is no program", own.display()));
            return;
        };
        tools.rustc = behind_proxy(&path);
        judge(row, r, rustc_version(&tools.rustc), &tools.rustc);
        row.fix = Fix::Say(format!(
            "RUSTC={} does not fit: leave RUSTC out, or name another",
            own.display()
        ));
        return;
    }
    let mut seen: Vec<(PathBuf, Version)> = Vec::new();
    for path in [which("rustc"), which("/usr/bin/rustc")]
        .into_iter()
        .flatten()
    {
        let path = behind_proxy(&path);
        if let Some(v) = rustc_version(&path) {
            seen.push((path, v));
        }
    }
    let min = r.minimum.as_ref().expect("rustc has a minimum");
    let fits = |v: &Version| v >= min;
    let has_source = |(p, v): &&(PathBuf, Version)| {
        fits(v) && (opts.rust_lib_src.is_some() || library_of(ctx, p, v).is_some())
    };
    let best = seen
        .iter()
        .find(has_source)
        .or_else(|| seen.iter().find(|(_, v)| fits(v)))
        .or(seen.first());
    if let Some((path, version)) = best {
        tools.rustc = path.clone();
        judge(row, r, Some(version.clone()), path);
    }
    if row.status != Status::Fits {
        if let Some(release) = debian::release() {
            row.fix = Fix::Packages(pair(release));
        }
    }
}

fn rust_lib_src(ctx: &Ctx, opts: &Opts, row: &mut Row, tools: &mut Toolchain) {
    let rustc = rustc_version(&tools.rustc);
    row.needed = rustc
        .as_ref()
        .map_or("rustc's version".into(), |v| format!("{v}, as rustc"));
    if let Some(own) = &opts.rust_lib_src {
        row.found = own.display().to_string();
        row.fix = Fix::Say(format!(
            "RUST_LIB_SRC={}: no library/core/src/lib.rs there",
            own.display()
        ));
        let Some(own) = [own.clone(), own.join("library")]
            .into_iter()
            .find(|d| is_library(d))
        else {
            return;
        };
        let own = own.canonicalize().unwrap_or(own);
        let version = library_version(&own);
        row.found = at(version.as_ref(), &own);
        match (version, rustc) {
            (Some(source), Some(rustc)) if !same_release(&source, &rustc) => {
                row.status = Status::Wrong("MISMATCH".into());
                row.fix = Fix::Say(format!(
                    "RUST_LIB_SRC is the source of Rust {source}, the compiler ({}) is {rustc}: they must be the same version",
                    tools.rustc.display()
                ));
            }
            _ => row.status = Status::Fits,
        }
        tools.rust_lib_src = Some(own);
        return;
    }
    let Some(rustc) = rustc else { return };
    match library_of(ctx, &tools.rustc, &rustc) {
        Some(dir) => {
            let version = library_version(&dir);
            row.found = at(version.as_ref(), &dir);
            row.status = match version {
                Some(v) if !same_release(&v, &rustc) => Status::Wrong("MISMATCH".into()),
                _ => Status::Fits,
            };
            tools.rust_lib_src = Some(dir);
        }
        None if opts.rustc.is_none() || debian::release().is_some() => row.fix = Fix::LibSrc(rustc),
        None => {}
    }
}

/// What version a library source is of: its folder may say, its neighbours, or the newest feature it calls stable.
fn library_version(dir: &Path) -> Option<Version> {
    let dir = dir.canonicalize().ok()?;
    let parent = dir.parent()?;
    if let Some(v) = fs::read_to_string(parent.join("src/version"))
        .ok()
        .as_deref()
        .and_then(Version::find)
    {
        return Some(v);
    }
    if let Some(v) = parent
        .file_name()?
        .to_str()?
        .strip_prefix("rustc-")
        .and_then(Version::find)
    {
        return Some(v);
    }
    // <sysroot>/lib/rustlib/src/rust/library
    let rustc = dir.ancestors().nth(5)?.join("bin/rustc");
    if is_program(&rustc) {
        return rustc_version(&rustc);
    }
    newest_stable(&dir.join("core/src"))
}

/// Major and minor of the newest feature the library calls stable: every release brings one.
fn newest_stable(dir: &Path) -> Option<Version> {
    let mut best: Option<Version> = None;
    for entry in fs::read_dir(dir).ok()?.flatten() {
        let path = entry.path();
        let found = if path.is_dir() {
            newest_stable(&path)
        } else {
            let text = fs::read_to_string(&path).unwrap_or_default();
            stable_since(&text)
        };
        if let Some(v) = found.filter(|v| best.as_ref().is_none_or(|b| v > b)) {
            best = Some(v);
        }
    }
    best
}

fn stable_since(text: &str) -> Option<Version> {
    text.lines()
        .filter(|l| l.contains("stable(feature"))
        .filter_map(|l| Version::find(l.split("since = \"").nth(1)?))
        .map(|v| Version(v.0.into_iter().take(2).collect()))
        .max_by(|a, b| a.partial_cmp(b).expect("versions are ordered"))
}

/// The source may only know major and minor.
fn same_release(source: &Version, rustc: &Version) -> bool {
    source.0.iter().zip(&rustc.0).all(|(s, r)| s == r)
}

fn bindgen(ctx: &Ctx, opts: &Opts, r: &Requirement, row: &mut Row, tools: &mut Toolchain) {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut places: Vec<PathBuf> = Vec::new();
    match &opts.bindgen {
        Some(own) => places.extend(which(&own.to_string_lossy())),
        None => {
            places.extend(which("bindgen"));
            places.push(home.join(".cargo/bin/bindgen"));
            places.push(ctx.cache.join("bindgen/bin/bindgen"));
        }
    }
    for path in places.into_iter().filter(|p| is_program(p)) {
        let had = row.found != "-";
        let mut this = row.clone();
        judge(&mut this, r, version_of(&path, &["--version"]), &path);
        if this.status == Status::Fits || !had {
            let fits = this.status == Status::Fits;
            *row = this;
            tools.bindgen = path;
            if fits {
                break;
            }
        }
    }
    if let Some(own) = &opts.bindgen {
        row.fix = Fix::Say(format!(
            "BINDGEN={} does not fit: leave BINDGEN out, or name another",
            own.display()
        ));
    } else if row.fix == Fix::None || row.found != "-" {
        // Debian 12 has none new enough; and a package does not replace one that is earlier in PATH.
        row.fix = Fix::CargoBindgen;
    }
}

/// The libclang that bindgen really loads: asked from bindgen itself, as the kernel does.
fn libclang(ctx: &Ctx, opts: &Opts, row: &mut Row, tools: &mut Toolchain) {
    let clang = which(&llvm_tool(&tools.llvm, "clang"));
    let clang_version = clang.as_ref().and_then(|c| version_of(c, &["--version"]));
    if let Some(v) = &clang_version {
        row.needed = format!("{}, >= {v}", v.major());
    }
    tools.libclang_path = match &opts.libclang_path {
        Some(own) => own.clone(),
        None => libdir(&tools.llvm, clang_version.as_ref()).unwrap_or_default(),
    };
    let place = tools.libclang_path.clone();
    let file = library_file(&place);
    match &opts.libclang_path {
        Some(own) => {
            row.fix = Fix::Say(format!(
                "LIBCLANG_PATH={} does not fit: leave it out, or name another",
                own.display()
            ));
        }
        None if tools.llvm.starts_with('-') => {
            row.fix = Fix::Packages(vec![format!("libclang{}-dev", tools.llvm)]);
        }
        None => row.fix = Fix::Say("none found for that LLVM: LIBCLANG_PATH=<its folder>".into()),
    }
    let Some(file) = file else { return };
    row.found = file.display().to_string();
    row.status = Status::Fits;
    let Some(version) = loaded_libclang(ctx, &tools.bindgen, &place) else {
        return;
    };
    row.found = at(Some(&version), &file);
    if let Some(clang) = clang_version {
        if version.major() != clang.major() {
            row.status = Status::Wrong(format!("NOT CLANG'S MAJOR {}", clang.major()));
        } else if version < clang {
            row.status = Status::Wrong(format!("OLDER THAN CLANG {clang}"));
        }
    }
}

fn libdir(llvm: &str, clang: Option<&Version>) -> Option<PathBuf> {
    let config = which(&llvm_tool(llvm, "llvm-config"));
    let said = config.and_then(|c| output(Command::new(c).arg("--libdir")).ok());
    let said = said.map(|o| PathBuf::from(String::from_utf8_lossy(&o.stdout).trim()));
    let major = clang.map(Version::major);
    let debian = major.map(|m| PathBuf::from(format!("/usr/lib/llvm-{m}/lib")));
    [said, debian]
        .into_iter()
        .flatten()
        .find(|d| library_file(d).is_some())
}

fn library_file(dir: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libclang.so")
                || (name.starts_with("libclang-") && name.contains(".so"))
        })
        .collect();
    found.sort();
    found.into_iter().next()
}

fn loaded_libclang(ctx: &Ctx, bindgen: &Path, place: &Path) -> Option<Version> {
    let temp = ctx.temp("libclang").ok()?;
    let file = temp.path().join("version.h");
    fs::write(
        &file,
        "#pragma message(\"clang version \" __clang_version__)\n",
    )
    .ok()?;
    let out = output(Command::new(bindgen).arg(&file).env("LIBCLANG_PATH", place)).ok()?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    Version::find(text.split("clang version").nth(1)?)
}

/// rustfmt and clippy of the very compiler that is used.
fn beside_rustc(r: &Requirement, row: &mut Row, tools: &mut Toolchain) {
    let name = if r.name == "clippy" {
        "clippy-driver"
    } else {
        "rustfmt"
    };
    let path = tools.rustc.with_file_name(name);
    if !is_program(&path) {
        if rustc_version(&tools.rustc).is_some() && !tools.rustc.starts_with("/usr/bin") {
            row.fix = Fix::Say(format!(
                "missing beside {}: `rustup component add {}`",
                tools.rustc.display(),
                r.name
            ));
        }
        return;
    }
    judge(row, r, version_of(&path, &["--version"]), &path);
    match r.name {
        "clippy" => tools.clippy = Some(path),
        _ => tools.rustfmt = Some(path),
    }
}

/// The kernel's make splits at spaces: what lies behind one (a cache folder may) is reached through a link.
fn spaceless(ctx: &Ctx, tools: &mut Toolchain) -> Result<()> {
    let link = |path: &mut PathBuf, name: &str| -> Result<()> {
        if path.to_string_lossy().contains([' ', ':', '\t']) {
            let dir = ctx.build.join("links");
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
            let new = dir.join(name);
            let _ = fs::remove_file(&new);
            std::os::unix::fs::symlink(&*path, &new)
                .with_context(|| format!("cannot make {}", new.display()))?;
            *path = new;
        }
        Ok(())
    };
    link(&mut tools.rustc, "rustc")?;
    link(&mut tools.bindgen, "bindgen")?;
    link(&mut tools.libclang_path, "libclang")?;
    for (path, name) in [
        (&mut tools.rust_lib_src, "rust-library"),
        (&mut tools.clippy, "clippy-driver"),
        (&mut tools.rustfmt, "rustfmt"),
    ] {
        if let Some(p) = path {
            link(p, name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llvm_names() {
        assert_eq!(llvm_tool("-22", "ld.lld"), "ld.lld-22");
        assert_eq!(llvm_tool("/opt/llvm/bin/", "clang"), "/opt/llvm/bin/clang");
        assert_eq!(llvm_tool("1", "clang"), "clang");
    }

    #[test]
    fn source_release_is_read_from_what_is_stable() {
        let text = "#[stable(feature = \"a\", since = \"1.85.0\")]\n#[rustc_const_stable(feature = \"b\", since = \"1.9.0\")]\n\
                    #[deprecated(since = \"1.99.0\")]\n";
        let v = stable_since(text).unwrap();
        assert_eq!(v.to_string(), "1.85");
        assert!(same_release(&v, &Version(vec![1, 85, 1])));
        assert!(!same_release(&v, &Version(vec![1, 86, 0])));
    }

    #[test]
    fn table_names_found_needed_and_command() {
        let row = |name, status, fix| Row {
            name,
            found: "1.0 (/x)".into(),
            needed: ">= 2".into(),
            status,
            fix,
            why: "a reason",
        };
        let look = Look {
            rows: vec![
                row("fine", Status::Fits, Fix::None),
                row(
                    "b",
                    Status::Wrong("TOO OLD".into()),
                    Fix::Packages(vec!["b-22".into()]),
                ),
            ],
            tools: Toolchain::default(),
        };
        let text = look.table(Some(12), true);
        assert!(!text.contains("fine"), "{text}");
        let line = text.lines().nth(1).unwrap();
        for part in [
            "b",
            "1.0 (/x)",
            ">= 2",
            "TOO OLD",
            "apt-get install -y --no-install-recommends b-22",
        ] {
            assert!(line.contains(part), "{line}");
        }
        assert!(look.give_up_if_hopeless(None).is_err());
        assert!(look.give_up_if_hopeless(Some(13)).is_ok());
    }
}
