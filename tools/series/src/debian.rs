// SPDX-License-Identifier: GPL-2.0
//! Packages from suites the machine does not use, by a second apt configuration in the cache. The archive is the one the
//! machine already uses: its address is read from there, and nothing of the system's own configuration is touched.

use crate::lock::Lock;
use crate::step::{self, Ctx, Step, capture, output, say};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// The release this machine runs, when it is one we know: 12 or 13.
pub fn release() -> Option<u32> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let field = |key: &str| {
        text.lines()
            .find_map(|l| l.strip_prefix(key))
            .map(|v| v.trim_matches('"').to_string())
    };
    if field("ID=")? != "debian" {
        return None;
    }
    field("VERSION_ID=")?
        .parse()
        .ok()
        .filter(|v| [12, 13].contains(v))
}

fn codename() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let value = text
        .lines()
        .find_map(|l| l.strip_prefix("VERSION_CODENAME="))?;
    Some(value.trim_matches('"').to_string())
}

/// One version of a package that an archive serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub version: String,
    pub size: u64,
    pub sha256: String,
}

/// apt reading either the system's configuration or that of one other suite.
pub struct Apt<'a> {
    ctx: &'a Ctx,
    suite: Option<String>,
    dir: PathBuf,
}

impl<'a> Apt<'a> {
    pub fn system(ctx: &'a Ctx) -> Self {
        Apt {
            ctx,
            suite: None,
            dir: PathBuf::new(),
        }
    }

    pub fn suite(ctx: &'a Ctx, suite: &str) -> Result<Self> {
        let dir = ctx.cache.join("apt").join(suite);
        fs::create_dir_all(dir.join("lists/partial"))
            .and_then(|()| fs::create_dir_all(dir.join("archives/partial")))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let archive = own_archive().with_context(|| {
            format!("cannot tell where to read Debian's suite {suite} from; KDIR=<kernel clone> needs no archive")
        })?;
        fs::write(dir.join("series.sources"), archive.stanza(suite))?;
        let path = |p: &str| dir.join(p).display().to_string();
        // Hooks of the machine's own configuration are about its own lists.
        fs::write(
            dir.join("apt.conf"),
            format!(
                "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
                 #clear APT::Update::Post-Invoke-Success;\n\
                 Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"/dev/null\";\n\
                 Dir::State::lists \"{}\";\nDir::State::status \"/dev/null\";\nDir::Cache::archives \"{}\";\n\
                 Dir::Cache::pkgcache \"\";\nDir::Cache::srcpkgcache \"\";\n\
                 APT::Sandbox::User \"\";\nAPT::Update::Error-Mode \"any\";\nAcquire::Languages \"none\";\n\
                 Acquire::Retries \"3\";\n",
                path("series.sources"),
                path("lists"),
                path("archives"),
            ),
        )?;
        Ok(Apt {
            ctx,
            suite: Some(suite.to_string()),
            dir,
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut cmd = Command::new(program);
        if self.suite.is_some() {
            cmd.arg("-c").arg(self.dir.join("apt.conf"));
        }
        cmd
    }

    fn name(&self) -> &str {
        self.suite.as_deref().unwrap_or("system")
    }

    /// Reads the archive's list anew. The system's own lists are left to whoever installs packages.
    fn update(&self) -> Result<()> {
        if self.suite.is_none() {
            return Ok(());
        }
        Step::new(self.ctx, format!("apt-{}", self.name()))
            .run(self.command("apt-get").arg("update"))
            .with_context(|| {
                format!(
                    "cannot read Debian's suite {}; is the network up?",
                    self.name()
                )
            })?;
        fs::write(self.dir.join("updated"), "").context("cannot write in the cache")
    }

    fn updated_within(&self, age: Duration) -> bool {
        let stamp = self
            .dir
            .join("updated")
            .metadata()
            .and_then(|m| m.modified());
        stamp.is_ok_and(|t| SystemTime::now().duration_since(t).is_ok_and(|d| d < age))
    }

    fn listed(&self, package: &str) -> Result<Vec<Served>> {
        // Exit code 100: no such package.
        let out = output(self.command("apt-cache").args(["show", package]))?;
        Ok(served(&String::from_utf8_lossy(&out.stdout)))
    }

    /// The versions served, newest first. Asks the archive when the list here is old or has no such package.
    pub fn versions(&self, package: &str) -> Result<Vec<Served>> {
        if self.suite.is_some() && !self.updated_within(Duration::from_secs(24 * 3600)) {
            self.update()?;
        }
        let found = self.listed(package)?;
        if found.is_empty() && !self.updated_within(Duration::from_secs(600)) {
            self.update()?;
            return self.listed(package);
        }
        Ok(found)
    }

    /// The package file, from the cache or the archive; always whole and with the right SHA-256.
    pub fn fetch(&self, package: &str, version: &str, pin: Option<&str>) -> Result<PathBuf> {
        let file = self
            .ctx
            .cache
            .join("deb")
            .join(format!("{package}_{version}.deb"));
        if cached(&file, pin)? {
            return Ok(file);
        }
        let _lock = Lock::take(&self.ctx.cache.join("lock"), "the download cache")?;
        if cached(&file, pin)? {
            return Ok(file);
        }
        let temp = self.ctx.cache.join("tmp");
        let _ = fs::remove_dir_all(&temp);

        let mut entry = self.entry(package, version)?;
        if let Some(pin) = pin.filter(|p| *p != entry.sha256) {
            bail!(
                "{package} {version}: the archive serves a file with SHA-256 {}, tools/bases.tsv says {pin}. \
                 Not used; if the archive is right, correct the table.",
                entry.sha256
            );
        }
        need_space(&self.ctx.cache, entry.size + entry.size / 4, "the package")?;
        let dir = step::temp_in(&temp, "download")?;
        if self.download(package, version, dir.path()).is_err() {
            step::check_interrupt()?;
            // The list here may be older than the archive.
            self.update()?;
            entry = self.entry(package, version)?;
            self.download(package, version, dir.path())?;
        }
        let got = the_deb(dir.path())?;
        let (size, sum) = (got.metadata()?.len(), sha256(&got)?);
        if size != entry.size || sum != entry.sha256 {
            bail!(
                "{package} {version}: got {size} bytes with SHA-256 {sum}, expected {} bytes with {}. Removed; run again.",
                entry.size,
                entry.sha256
            );
        }
        fs::create_dir_all(file.parent().expect("has one"))?;
        fs::write(beside(&file), format!("{sum}\n"))?;
        fs::rename(&got, &file).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    fn entry(&self, package: &str, version: &str) -> Result<Served> {
        let of = |list: Vec<Served>| list.into_iter().find(|s| s.version == version);
        if let Some(found) = of(self.versions(package)?) {
            return Ok(found);
        }
        if !self.updated_within(Duration::from_secs(600)) {
            self.update()?;
        }
        let list = self.listed(package)?;
        let names: Vec<_> = list.iter().map(|s| s.version.clone()).collect();
        of(list).with_context(|| {
            format!(
                "{package} {version} is not in Debian's suite {} any more; served now: {}",
                self.name(),
                if names.is_empty() {
                    "no version".into()
                } else {
                    names.join(", ")
                }
            )
        })
    }

    fn download(&self, package: &str, version: &str, dir: &Path) -> Result<()> {
        let mut cmd = self.command("apt-get");
        cmd.args(["download", &format!("{package}={version}")])
            .current_dir(dir);
        Step::new(self.ctx, format!("download-{package}"))
            .run(&mut cmd)
            .map(drop)
    }
}

/// Whether the file is there with the SHA-256 written beside it (and the pinned one). A wrong one is removed.
fn cached(file: &Path, pin: Option<&str>) -> Result<bool> {
    if !file.is_file() {
        return Ok(false);
    }
    let noted = fs::read_to_string(beside(file)).unwrap_or_default();
    let sum = sha256(file)?;
    if sum == noted.trim() && pin.is_none_or(|p| p == sum) {
        return Ok(true);
    }
    say(format!(
        "{} is damaged: removed, downloading it again",
        file.display()
    ));
    fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    Ok(false)
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sha256");
    PathBuf::from(name)
}

fn the_deb(dir: &Path) -> Result<PathBuf> {
    fs::read_dir(dir)?
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "deb"))
        .context("apt-get download left no package file")
}

pub fn sha256(file: &Path) -> Result<String> {
    let mut f = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut hash = Sha256::new();
    let mut buf = vec![0; 1 << 20];
    loop {
        step::check_interrupt()?;
        match f
            .read(&mut buf)
            .with_context(|| format!("cannot read {}", file.display()))?
        {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buf[..n]),
        }
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Fails before the work starts rather than in the middle.
pub fn need_space(dir: &Path, bytes: u64, what: &str) -> Result<()> {
    let fs = rustix::fs::statvfs(dir)
        .with_context(|| format!("cannot look at the disk of {}", dir.display()))?;
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    if free < bytes {
        bail!(
            "{what} needs {} MB in {}, which has {} MB free. Free some space, or point BUILD= or XDG_CACHE_HOME at a larger disk.",
            bytes / 1_000_000,
            dir.display(),
            free / 1_000_000
        );
    }
    Ok(())
}

/// The records of `apt-cache show` that can be downloaded.
fn served(text: &str) -> Vec<Served> {
    text.split("\n\n")
        .filter_map(|record| {
            let field = |key: &str| {
                record
                    .lines()
                    .find_map(|l| l.strip_prefix(key)?.strip_prefix(": "))
                    .map(|v| v.trim().to_string())
            };
            Some(Served {
                version: field("Version")?,
                size: field("Size")?.parse().ok()?,
                sha256: field("SHA256")?,
            })
        })
        .collect()
}

/// Where this machine's own Debian comes from.
#[derive(Debug, PartialEq, Eq)]
struct Archive {
    uri: String,
    /// Further deb822 lines (Signed-By, Trusted), kept as they are.
    extra: Vec<String>,
}

impl Archive {
    fn stanza(&self, suite: &str) -> String {
        let mut text = format!(
            "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\n",
            self.uri
        );
        for line in &self.extra {
            text += line;
            text.push('\n');
        }
        text
    }
}

fn own_archive() -> Result<Archive> {
    let codename = codename().context("/etc/os-release names no release")?;
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(dir) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(dir.flatten().map(|e| e.path()));
    }
    files.sort();
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_default();
        let found = match file.extension().and_then(|e| e.to_str()) {
            Some("sources") => in_deb822(&text, &codename),
            Some("list") => in_one_line(&text, &codename),
            _ => None,
        };
        if let Some(archive) = found {
            return Ok(archive);
        }
    }
    bail!("no entry for {codename} in /etc/apt/sources.list or /etc/apt/sources.list.d")
}

fn in_deb822(text: &str, codename: &str) -> Option<Archive> {
    let text: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    text.split(|l| l.trim().is_empty()).find_map(|stanza| {
        let field = |key: &str| {
            stanza.iter().find_map(|l| {
                let (k, v) = l.split_once(':')?;
                k.eq_ignore_ascii_case(key)
                    .then(|| v.split_whitespace().collect::<Vec<_>>())
            })
        };
        let off = field("Enabled").is_some_and(|v| v == ["no"]);
        if off || !field("Types")?.contains(&"deb") || !field("Suites")?.contains(&codename) {
            return None;
        }
        let mut keep = false;
        let mut extra = Vec::new();
        for l in stanza {
            // A line that starts with a space goes on with the field above: a key may be written out.
            if !l.starts_with(' ') {
                let key = l.split(':').next().unwrap_or("").to_ascii_lowercase();
                keep = key == "signed-by" || key == "trusted";
            }
            if keep {
                extra.push(l.to_string());
            }
        }
        Some(Archive {
            uri: field("URIs")?.first()?.to_string(),
            extra,
        })
    })
}

fn in_one_line(text: &str, codename: &str) -> Option<Archive> {
    text.lines().find_map(|line| {
        let rest = line.split('#').next()?.trim().strip_prefix("deb")?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(r) => r.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        if suite != codename || uri.starts_with("cdrom:") {
            return None;
        }
        let extra = options.split_whitespace().filter_map(|o| {
            let (k, v) = o.split_once('=')?;
            match k.to_ascii_lowercase().as_str() {
                "signed-by" => Some(format!("Signed-By: {}", v.replace(',', " "))),
                "trusted" => Some(format!("Trusted: {v}")),
                _ => None,
            }
        });
        Some(Archive {
            uri: uri.to_string(),
            extra: extra.collect(),
        })
    })
}

/// Unpacks one folder of a package file to `dest` in the cache, whole or not at all.
pub fn unpack(ctx: &Ctx, deb: &Path, dest: &Path, inside: &str) -> Result<()> {
    let temp = step::temp_in(&ctx.cache.join("unpack"), "deb")?;
    let script = "set -eo pipefail; dpkg-deb --fsys-tarfile \"$1\" | tar -x --no-same-owner -C \"$2\" \"$3\"";
    let mut cmd = Command::new("bash");
    cmd.args(["-c", script, "unpack"])
        .arg(deb)
        .arg(temp.path())
        .arg(inside);
    let name = deb.file_stem().unwrap_or_default().to_string_lossy();
    Step::new(ctx, format!("unpack-{name}")).run(&mut cmd)?;
    fs::create_dir_all(dest.parent().expect("has one"))?;
    let _ = fs::remove_dir_all(dest);
    fs::rename(temp.path().join(inside), dest)
        .with_context(|| format!("cannot write {}", dest.display()))
}

/// Whether we may install packages, and how.
pub enum Root {
    Yes,
    Sudo,
    No,
}

pub fn root() -> Root {
    if rustix::process::geteuid().is_root() {
        return Root::Yes;
    }
    let quiet =
        |args: &[&str]| output(Command::new("sudo").args(args)).is_ok_and(|o| o.status.success());
    if quiet(&["-n", "true"]) {
        return Root::Sudo;
    }
    // sudo may ask for the password, if somebody is there to type it.
    use std::io::IsTerminal;
    if std::io::stdin().is_terminal()
        && Command::new("sudo")
            .arg("-v")
            .status()
            .is_ok_and(|s| s.success())
    {
        return Root::Sudo;
    }
    Root::No
}

pub fn install_command(packages: &[String], prefix: &str) -> String {
    format!(
        "{prefix}apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    )
}

/// Installs from the machine's own suites, saying so first.
pub fn install(ctx: &Ctx, packages: &[String]) -> Result<()> {
    let sudo = match root() {
        Root::Yes => false,
        Root::Sudo => true,
        Root::No => bail!(
            "these packages are missing, and this user is neither root nor may use sudo. As root:\n    {}\nthen run again.",
            install_command(packages, "")
        ),
    };
    let prefix = if sudo { "sudo " } else { "" };
    say(format!("installing: {}", install_command(packages, prefix)));
    let apt = |args: &[&str]| {
        let mut cmd = Command::new(if sudo { "sudo" } else { "env" });
        if sudo {
            cmd.arg("-n").arg("env");
        }
        cmd.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
            .args(args);
        cmd
    };
    let step = |name: &str| {
        let step = Step::new(ctx, name);
        if sudo { step.foreground() } else { step }
    };
    let mut args = vec!["install", "-y", "--no-install-recommends"];
    args.extend(packages.iter().map(String::as_str));
    step("apt-update").run(&mut apt(&["update"]))?;
    step("apt-install").run(&mut apt(&args)).with_context(|| {
        format!(
            "cannot install the packages; try it by hand:\n    {}",
            install_command(packages, prefix)
        )
    })?;
    Ok(())
}

/// `7.3~rc7-1~exp1` is upstream's 7.3-rc7, `1.95.0+dfsg1-2~bpo13+1` is 1.95.0.
pub fn upstream(version: &str) -> String {
    let v = version.split_once(':').map_or(version, |(_, v)| v);
    let v = v.rsplit_once('-').map_or(v, |(v, _)| v);
    let v = v.split_once("+dfsg").map_or(v, |(v, _)| v);
    v.replace('~', "-")
}

/// Whether apt and dpkg-deb are here at all.
pub fn usable() -> bool {
    capture(Command::new("dpkg-deb").arg("--version")).is_ok()
        && capture(Command::new("apt-get").arg("--version")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_versions() {
        assert_eq!(upstream("7.3~rc7-1~exp1"), "7.3-rc7");
        assert_eq!(upstream("7.3.4-1~bpo13+1"), "7.3.4");
        assert_eq!(upstream("1.95.0+dfsg1-2~bpo13+1"), "1.95.0");
        assert_eq!(upstream("1:22.1.8-1~deb12u1"), "22.1.8");
    }

    #[test]
    fn archive_from_deb822() {
        let text = "Types: deb\n# a comment\nURIs: http://a.example/security\nSuites: trixie-security\n\n\
                    Types: deb deb-src\nURIs: http://a.example/debian http://b.example/debian\n\
                    Suites: trixie trixie-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n x\n";
        let found = in_deb822(text, "trixie").unwrap();
        assert_eq!(found.uri, "http://a.example/debian");
        assert_eq!(found.extra, ["Signed-By:", " -----BEGIN", " .", " x"]);
        assert_eq!(in_deb822(text, "bookworm"), None);
    }

    #[test]
    fn archive_from_one_line() {
        let text = "# deb http://no.example/debian bookworm main\ndeb-src http://src.example/ bookworm main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://a.example/debian bookworm main\n";
        let found = in_one_line(text, "bookworm").unwrap();
        assert_eq!(found.uri, "http://a.example/debian");
        assert_eq!(found.extra, ["Signed-By: /k.gpg"]);
    }

    #[test]
    fn only_downloadable_records_count() {
        let text = "Package: a\nVersion: 2\nSize: 10\nSHA256: ab\n\nPackage: a\nVersion: 1\nStatus: installed\n";
        let list = served(text);
        assert_eq!(
            list,
            [Served {
                version: "2".into(),
                size: 10,
                sha256: "ab".into()
            }]
        );
    }

    #[test]
    fn a_damaged_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x_1.deb");
        fs::write(&file, "whole").unwrap();
        fs::write(beside(&file), sha256(&file).unwrap()).unwrap();
        assert!(cached(&file, None).unwrap());
        assert!(file.exists());
        fs::write(&file, "hal").unwrap();
        assert!(!cached(&file, None).unwrap());
        assert!(!file.exists());
    }

    #[test]
    fn too_little_space_is_said() {
        let err = need_space(Path::new("/"), u64::MAX, "the test").unwrap_err();
        assert!(err.to_string().contains("MB free"), "{err}");
    }
}
