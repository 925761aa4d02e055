// SPDX-License-Identifier: GPL-2.0
//! Where this machine's own Debian comes from: the address is read from apt's sources, which are only read.

use super::os_release;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;

#[derive(Debug, PartialEq, Eq)]
pub struct Archive {
    uri: String,
    /// Further deb822 lines (Signed-By, Trusted), kept as they are.
    extra: Vec<String>,
}

impl Archive {
    pub fn stanza(&self, suite: &str) -> String {
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

pub fn own_archive() -> Result<Archive> {
    let codename = os_release("VERSION_CODENAME").context("/etc/os-release names no release")?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
