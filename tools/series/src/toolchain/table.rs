// SPDX-License-Identifier: GPL-2.0
//! What was found of each piece, and the table that says so.

use super::Toolchain;
use super::fix::Fix;
use crate::requirements::{Requirement, Version};
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Fits,
    Missing,
    Wrong(String),
    /// Better with it, fine without.
    Absent,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub name: &'static str,
    pub found: String,
    pub needed: String,
    pub status: Status,
    pub fix: Fix,
    pub why: &'static str,
}

impl Row {
    pub fn good(&self) -> bool {
        matches!(self.status, Status::Fits | Status::Absent)
    }

    pub fn judge(&mut self, r: &Requirement, version: Option<&Version>, path: &Path) {
        self.found = at(version, path);
        self.status = match (&r.minimum, version) {
            (Some(min), Some(v)) if v < min => Status::Wrong("TOO OLD".into()),
            (Some(_), None) => Status::Wrong("DOES NOT RUN".into()),
            _ => Status::Fits,
        };
    }
}

pub fn at(version: Option<&Version>, path: &Path) -> String {
    match version {
        Some(v) => format!("{v} ({})", path.display()),
        None => path.display().to_string(),
    }
}

pub struct Look {
    pub rows: Vec<Row>,
    pub tools: Toolchain,
}

impl Look {
    pub fn fits(&self) -> bool {
        self.rows.iter().all(Row::good)
    }

    /// Name, found, needed, status, the command that brings it.
    pub fn table(&self, release: Option<u32>, only_bad: bool) -> String {
        let (why, fix) = if only_bad {
            ("for", "brought by")
        } else {
            ("", "")
        };
        let mut cells = vec![["piece", "found", "needed", "", why, fix].map(String::from)];
        for r in self.rows.iter().filter(|r| !(only_bad && r.good())) {
            let status = match &r.status {
                Status::Fits => "ok",
                Status::Missing => "MISSING",
                Status::Absent => "optional",
                Status::Wrong(why) => why,
            };
            let (why, fix) = match r.status {
                Status::Fits => ("", String::new()),
                _ => (r.why, r.fix.text(release)),
            };
            cells.push([
                r.name.into(),
                r.found.clone(),
                r.needed.clone(),
                status.into(),
                why.into(),
                fix,
            ]);
        }
        let width = |c: usize| cells.iter().map(|r| r[c].chars().count()).max();
        let widths = [0, 1, 2, 3, 4].map(|c| width(c).unwrap_or(0));
        let lines = cells.iter().map(|r| {
            let mut line = String::from(" ");
            for (cell, w) in r.iter().zip(widths) {
                line += &format!(" {cell:<w$} ");
            }
            format!("{line} {}", r[5]).trim_end().to_string()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    pub fn one_line(&self) -> String {
        let show = ["clang", "rustc", "bindgen", "qemu"];
        let parts: Vec<String> = self
            .rows
            .iter()
            .filter(|r| show.contains(&r.name))
            .map(|r| format!("{} {}", r.name, r.found))
            .collect();
        format!("tools: {}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fix::give_up_if_hopeless;
    use super::*;

    #[test]
    fn table_names_found_needed_and_command() {
        let row = |name, status, package: &str| Row {
            name,
            found: "1.0 (/x)".into(),
            needed: ">= 2".into(),
            status,
            fix: Fix::Packages(vec![package.into()]),
            why: "a reason",
        };
        let look = Look {
            rows: vec![
                row("fine", Status::Fits, "fine"),
                row("b", Status::Wrong("TOO OLD".into()), "b-22"),
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
        assert!(give_up_if_hopeless(&look, None).is_err());
        assert!(give_up_if_hopeless(&look, Some(13)).is_ok());
    }
}
