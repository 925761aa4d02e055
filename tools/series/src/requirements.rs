// SPDX-License-Identifier: GPL-2.0
//! `tools/requirements.tsv`, and versions to hold against it.

const TABLE: &str = include_str!("../../requirements.tsv");

/// What a piece is needed for; a later one needs the earlier ones too, but for the conditions of RUST and ARCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Tool,
    Tree,
    Build,
    Rust,
    Qemu,
    Test,
    Send,
    Check,
    Matrix,
    Stress,
    Optional,
}

#[derive(Clone, Debug)]
pub struct Requirement {
    pub name: &'static str,
    pub minimum: Option<Version>,
    pub what_for: For,
    pub debian12: Vec<String>,
    pub debian13: Vec<String>,
    pub why: &'static str,
}

impl Requirement {
    pub fn packages(&self, release: u32) -> &[String] {
        if release == 12 {
            &self.debian12
        } else {
            &self.debian13
        }
    }
}

pub fn all() -> Vec<Requirement> {
    let packages = |field: &str| {
        field
            .split(' ')
            .filter(|p| *p != "-")
            .map(str::to_string)
            .collect()
    };
    TABLE
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(|l| {
            let f: Vec<&'static str> = l.split('\t').collect();
            assert!(f.len() == 6, "tools/requirements.tsv: not six columns: {l}");
            Requirement {
                name: f[0],
                minimum: Version::find(f[1]),
                what_for: match f[2] {
                    "tool" => For::Tool,
                    "tree" => For::Tree,
                    "build" => For::Build,
                    "rust" => For::Rust,
                    "qemu" => For::Qemu,
                    "test" => For::Test,
                    "send" => For::Send,
                    "check" => For::Check,
                    "matrix" => For::Matrix,
                    "stress" => For::Stress,
                    "optional" => For::Optional,
                    other => panic!("tools/requirements.tsv: unknown `{other}`: {l}"),
                },
                debian12: packages(f[3]),
                debian13: packages(f[4]),
                why: f[5],
            }
        })
        .collect()
}

/// Numbers between dots; what follows them (`-nightly`, `+dfsg`) does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub Vec<u32>);

impl Version {
    /// The first word of a text that looks like a version.
    pub fn find(text: &str) -> Option<Version> {
        let bytes = text.as_bytes();
        let starts = (0..bytes.len()).filter(|&i| {
            bytes[i].is_ascii_digit()
                && (i == 0 || !(bytes[i - 1].is_ascii_alphanumeric() || bytes[i - 1] == b'.'))
        });
        let mut lone = None;
        for i in starts {
            let end = text[i..]
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .map_or(text.len(), |e| i + e);
            let parts: Option<Vec<u32>> = text[i..end]
                .trim_end_matches('.')
                .split('.')
                .map(|p| p.parse().ok())
                .collect();
            match parts {
                Some(p) if p.len() > 1 => return Some(Version(p)),
                Some(p) if lone.is_none() => lone = Some(Version(p)),
                _ => {}
            }
        }
        lone
    }

    pub fn major(&self) -> u32 {
        self.0.first().copied().unwrap_or(0)
    }

    fn padded(&self) -> [u32; 4] {
        let mut out = [0; 4];
        for (o, v) in out.iter_mut().zip(&self.0) {
            *o = *v;
        }
        out
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.padded().cmp(&other.padded()))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_and_compared() {
        let v = |s: &str| Version::find(s).unwrap();
        assert_eq!(
            v("rustc 1.95.0 (59807616e 2026-04-14)").to_string(),
            "1.95.0"
        );
        assert_eq!(
            v("Debian clang version 22.1.8 (1~deb12u1)").to_string(),
            "22.1.8"
        );
        assert_eq!(
            v("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg)").to_string(),
            "7.2.22"
        );
        assert_eq!(
            v("This is perl 5, version 36, subversion 0 (v5.36.0)").to_string(),
            "5"
        );
        assert_eq!(v("bindgen 0.72.1").to_string(), "0.72.1");
        assert_eq!(v("kmod version 30").to_string(), "30");
        assert!(v("1.85") >= v("1.85.0"));
        assert!(v("0.71.0") < v("0.71.1"));
        assert!(v("1.100.0") > v("1.85.0"));
        assert_eq!(Version::find("none"), None);
    }

    #[test]
    fn table_is_sound() {
        for r in all() {
            assert!(!r.why.is_empty(), "{}", r.name);
            // bindgen comes from its own registry.
            assert_eq!(r.debian13.is_empty(), r.name == "bindgen", "{}", r.name);
        }
    }
}
