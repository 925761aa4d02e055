// SPDX-License-Identifier: GPL-2.0

//! What is checked about the patches as mail.

use super::none;
use crate::step::{self, Ctx};
use crate::tree::{Tree, subject};
use anyhow::{Context as _, Result, bail};
use regex::Regex;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub fn no_sign_off(patches: &[PathBuf]) -> Result<()> {
    let mut found = Vec::new();
    for path in patches {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        for (i, line) in text.lines().enumerate() {
            if line
                .trim_start()
                .to_ascii_lowercase()
                .starts_with("signed-off-by:")
            {
                found.push(format!(
                    "{}:{}: only the sender may sign off: {line}",
                    path.display(),
                    i + 1
                ));
            }
        }
    }
    none(found)
}

/// One line of patches/checkpatch-exceptions.tsv.
struct Exception {
    subject: Regex,
    kind: String,
    line: usize,
}

fn exceptions(text: &str) -> Result<Vec<Exception>> {
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let at = format!("patches/checkpatch-exceptions.tsv:{}", i + 1);
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [subject, kind, reason] = cells[..] else {
            bail!("{at}: want `subject regex<TAB>checkpatch type<TAB>reason`, got `{line}`");
        };
        if reason.is_empty() {
            bail!("{at}: an exception needs a reason");
        }
        out.push(Exception {
            subject: Regex::new(subject).with_context(|| at.clone())?,
            kind: kind.to_string(),
            line: i + 1,
        });
    }
    Ok(out)
}

pub fn checkpatch(ctx: &Ctx, tree: &Tree, patches: &[PathBuf]) -> Result<()> {
    let list = ctx.root.join("patches/checkpatch-exceptions.tsv");
    let text = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", list.display())),
    };
    let exceptions = exceptions(&text)?;
    let mut used = vec![false; exceptions.len()];
    let mut found = Vec::new();
    for patch in patches {
        let mail = fs::read_to_string(patch)
            .with_context(|| format!("cannot read {}", patch.display()))?;
        // The cover letter changes nothing.
        if !mail.contains("\n+++ ") {
            continue;
        }
        let subject = subject(&mail);
        let mut cmd = Command::new("perl");
        cmd.current_dir(&tree.dir)
            .arg("scripts/checkpatch.pl")
            .args([
                "--strict",
                "--terse",
                "--show-types",
                "--no-summary",
                "--color=never",
            ])
            .arg(patch);
        let out = step::output(&mut cmd)?;
        let said = String::from_utf8_lossy(&out.stdout);
        let complaints: Vec<(&str, &str)> = said.lines().filter_map(complaint).collect();
        if !out.status.success() && complaints.is_empty() {
            bail!(
                "checkpatch failed on {} without a complaint:\n{said}{}",
                patch.display(),
                String::from_utf8_lossy(&out.stderr)
            );
        }
        for (kind, line) in complaints {
            let excepted = exceptions
                .iter()
                .position(|e| e.kind == kind && e.subject.is_match(&subject));
            match excepted {
                Some(i) => used[i] = true,
                None => found.push(line.to_string()),
            }
        }
    }
    for e in exceptions
        .iter()
        .zip(&used)
        .filter(|(_, used)| !**used)
        .map(|(e, _)| e)
    {
        found.push(format!(
            "{}:{}: excepts nothing any more; remove it",
            list.display(),
            e.line
        ));
    }
    none(found)
}

/// `file:line: LEVEL:TYPE: text` as (TYPE, whole line).
fn complaint(line: &str) -> Option<(&str, &str)> {
    let level = ["ERROR:", "WARNING:", "CHECK:"];
    let rest = level
        .iter()
        .find_map(|l| line.split_once(&format!(": {l}")[..]))?
        .1;
    Some((rest.split_once(':')?.0, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_of_checkpatch() {
        let line =
            "patches/0001-x.patch:12: WARNING:LONG_LINE: line length of 101 exceeds 100 columns";
        assert_eq!(complaint(line), Some(("LONG_LINE", line)));
        let line = "x.patch:0: ERROR:MISSING_SIGN_OFF: Missing Signed-off-by: line(s)";
        assert_eq!(complaint(line), Some(("MISSING_SIGN_OFF", line)));
        assert_eq!(
            complaint("x.patch has style problems, please review."),
            None
        );
        assert_eq!(complaint(""), None);
    }

    #[test]
    fn an_exception_needs_a_reason() {
        assert_eq!(
            exceptions("# c\n\n^.*\tMISSING_SIGN_OFF\tthe sender signs off\n").unwrap()[0].line,
            3
        );
        for bad in ["a\tB", "a\tB\t ", "(\tB\tr"] {
            let e = exceptions(bad).err().unwrap();
            assert!(
                format!("{e:#}").contains("checkpatch-exceptions.tsv:1"),
                "{e:#}"
            );
        }
    }

    #[test]
    fn sign_offs_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0001-x.patch");
        fs::write(
            &path,
            "Subject: x\n\nText.\n\nSigned-off-by: A <a@example.org>\n---\n",
        )
        .unwrap();
        let e = no_sign_off(std::slice::from_ref(&path))
            .unwrap_err()
            .to_string();
        assert!(e.contains("0001-x.patch:5:"), "{e}");
        fs::write(&path, "Subject: x\n\nno Signed-off-by: here\n").unwrap();
        no_sign_off(&[path]).unwrap();
    }
}
