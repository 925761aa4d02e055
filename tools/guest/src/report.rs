// SPDX-License-Identifier: GPL-2.0
//! The channel of results: JSON lines on standard output and nothing else there.

use anyhow::{Context, Result};
use results::{Clock, Kind, Line, Lru, SCHEMA};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;

/// What every line of a run has in common.
#[derive(Clone, Debug)]
pub struct Origin {
    pub kernel: String,
    pub arm: String,
    pub lru: Lru,
    pub accel: String,
    pub clock: Clock,
    pub workload: String,
}

impl Origin {
    pub fn line(&self, kind: Kind) -> Line {
        Line {
            schema: SCHEMA,
            kind,
            kernel: self.kernel.clone(),
            arm: self.arm.clone(),
            lru: self.lru,
            accel: self.accel.clone(),
            clock: self.clock,
            workload: self.workload.clone(),
            case: String::new(),
            index: 0,
            values: BTreeMap::new(),
            lists: BTreeMap::new(),
            message: String::new(),
        }
    }

    pub fn error(&self, message: &str) -> Line {
        let mut line = self.line(Kind::Error);
        line.message = message.into();
        line
    }
}

/// A line goes out whole, in one write, so that it cannot be torn by another's.
pub fn write(out: &mut impl Write, line: &Line) -> Result<()> {
    let text = format!("{}\n", line.json());
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write a line of results")
}

/// Standard output without the standard library's buffer.
pub fn stdout() -> Result<File> {
    use std::os::fd::AsFd;
    let fd = std::io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .context("standard output is closed: results go there")?;
    Ok(fd.into())
}

pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// The arm a kernel was built as: `7.3.4-lab.rust.22280960c1ab` is `rust`; a kernel not of the lab is `host`.
pub fn arm_of(release: &str) -> &str {
    let Some((_, rest)) = release.rsplit_once("-lab.") else {
        return "host";
    };
    match rest.split_once('.') {
        Some((arm, hex)) if !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()) => arm,
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms() {
        for (release, arm) in [
            ("7.3.4-lab.rust.22280960c1ab", "rust"),
            ("7.3.4-lab.refault-blind", "refault-blind"),
            ("7.3.4-lab.c", "c"),
            ("6.1.0-42-amd64", "host"),
            ("7.3.4-laboratory", "host"),
        ] {
            assert_eq!(arm_of(release), arm, "{release}");
        }
    }

    #[test]
    fn a_line_is_one_line() {
        let origin = Origin {
            kernel: "7.3.4-lab.c".into(),
            arm: "c".into(),
            lru: Lru::Mglru,
            accel: "tcg".into(),
            clock: Clock::Counts,
            workload: "pageout".into(),
        };
        let mut out = Vec::new();
        write(&mut out, &origin.error("two\nlines")).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1);
        let line = Line::parse(text.trim_end()).unwrap();
        assert_eq!(line.kind, Kind::Error);
        assert_eq!(line.message, "two\nlines");
    }
}
