// SPDX-License-Identifier: GPL-2.0
//! Puts the sections together: the report, and what the documents take from it.

use crate::html;
use crate::lab::{Info, Lab};
use crate::plot::{self, Plot};
use crate::section::{self, Block, Claim, Section};
use crate::text::{self, Table, join};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Everything that is written, as text.
pub struct Report {
    pub markdown: String,
    pub html: String,
    /// For the README.
    pub tables: String,
    /// For the cover letter.
    pub cover: String,
    /// For the cover letter of the follow-up, if anything was measured for it.
    pub follow_up: Option<String>,
    /// For the page in the kernel's documentation, if the workload it is about ran.
    pub policy: Option<String>,
    /// By file name.
    pub plots: BTreeMap<String, String>,
}

pub fn make(lab: &Lab) -> Result<Report> {
    let (sections, absent) = section::all(lab)?;
    let markdown = markdown(lab, &sections, &absent);
    let mut plots = BTreeMap::new();
    let mut captions = BTreeMap::new();
    for plot in sections.iter().flat_map(|s| &s.blocks).filter_map(plot_of) {
        plots.insert(file(plot), plot::svg(plot)?);
        captions.insert(file(plot), plot.caption.clone());
    }
    Ok(Report {
        html: html::page(&markdown, &plots, &captions),
        tables: summary(&sections, |c| c.thread != "–").markdown(),
        cover: cover(&lab.info, &sections),
        follow_up: follow_up(&lab.info, &sections),
        policy: sections.iter().find_map(|s| s.page.clone()),
        markdown,
        plots,
    })
}

impl Report {
    /// Plots of an earlier report are removed: they would be taken for this one's.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let plots = dir.join("plots");
        fs::create_dir_all(&plots).with_context(|| format!("cannot make {}", plots.display()))?;
        for entry in fs::read_dir(&plots)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "svg") {
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        for (name, text) in self.files() {
            write(&dir.join(name), text)?;
        }
        Ok(())
    }

    /// The files that are missing or say something else.
    pub fn stale(&self, dir: &Path) -> Vec<String> {
        let differs = |(name, text): &(String, &str)| {
            fs::read_to_string(dir.join(name)).ok().as_deref() != Some(text)
        };
        let stale = self.files().into_iter().filter(differs);
        stale.map(|(name, _)| name).collect()
    }

    fn files(&self) -> Vec<(String, &str)> {
        let plots = self.plots.iter();
        let mut files: Vec<(String, &str)> = plots
            .map(|(name, svg)| (format!("plots/{name}"), svg.as_str()))
            .collect();
        for (name, text) in [
            ("tables.md", &self.tables),
            ("cover.txt", &self.cover),
            ("report.md", &self.markdown),
            ("report.html", &self.html),
        ] {
            files.push((name.into(), text));
        }
        for (name, text) in [
            ("follow-up.txt", &self.follow_up),
            ("policy.rst", &self.policy),
        ] {
            files.extend(text.as_deref().map(|t| (name.into(), t)));
        }
        files
    }
}

pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn plot_of(block: &Block) -> Option<&Plot> {
    match block {
        Block::Plot(plot) => Some(plot),
        _ => None,
    }
}

fn file(plot: &Plot) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{}.svg", plot.name.chars().map(keep).collect::<String>())
}

fn markdown(lab: &Lab, sections: &[Section], absent: &[&str]) -> String {
    let mut out = String::from("# The lab's report\n\n");
    out += &setting(lab);
    out += "\n## Summary\n\n";
    out += &summary(sections, |_| true).markdown();
    if !absent.is_empty() {
        out += &format!("\nNot in this lab: {}.\n", join(absent));
    }
    out += &expectations(lab);
    for section in sections {
        out += &format!("\n## {}\n", section.title);
        for block in &section.blocks {
            out.push('\n');
            match block {
                Block::Text(text) => out += &format!("{text}\n"),
                Block::Table(table) => out += &table.markdown(),
                Block::Plot(plot) => {
                    out += &format!(
                        "![{}](plots/{})\n\n*{}*\n",
                        plot.name,
                        file(plot),
                        plot.caption
                    );
                }
            }
        }
    }
    out
}

/// What ran where, and what may be concluded from it.
fn setting(lab: &Lab) -> String {
    let mut out = String::new();
    let info = &lab.info;
    if info.complete == Some(false) {
        out += "**This lab is not complete: boots are missing or failed.** The same command goes on with it.\n\n";
    }
    if let Some(command) = &info.command {
        out += &format!("Made by `{command}`");
        out += &info
            .date
            .as_ref()
            .map_or(String::new(), |d| format!(" on {d}"));
        out += ".\n";
    }
    let set = |of: fn(&results::Run) -> String| -> Vec<String> {
        lab.runs
            .iter()
            .map(of)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    };
    let accels = set(|r| r.meta.accel.clone());
    out += &format!(
        "{} boots; kernel {}; {}; accelerator {}.\n\n",
        lab.runs.len(),
        info.kernel.as_deref().unwrap_or("not recorded"),
        info.qemu.as_deref().unwrap_or("QEMU not recorded"),
        join(&accels)
    );
    out += &rules(&accels);
    let trees = trees(lab);
    if !trees.rows.is_empty() {
        out.push('\n');
        out += &trees.markdown();
    }
    out
}

fn rules(accels: &[String]) -> String {
    let mut out = String::from(
        "How to read it:\n\n\
         - Counts (BIOs, links, faults, splits) are exact. A boot is a sample; where boots differ, the range is shown.\n\
         - Instruction counts are what the kernel charges to the thread on one emulated CPU that counts guest instructions \
         (QEMU's icount); interrupts that the thread takes are among them. They are not time: no cache misses, no waiting.\n",
    );
    out += if accels.iter().any(|a| a == "host") {
        "- CPU time is of this real machine, where a row says so. No wall time is a result here.\n"
    } else {
        "- The machine is emulated, so nothing here is wall time.\n"
    };
    out + "- What a thread measured on its author's hardware is shown as theirs, beside ours, never mixed with it.\n"
}

fn trees(lab: &Lab) -> Table {
    let mut table = Table::of_words(&["arm", "git tree it was built from", "boots"]);
    let arms: BTreeSet<&String> = lab
        .runs
        .iter()
        .map(|r| &r.meta.arm)
        .chain(lab.info.arms.keys())
        .collect();
    for arm in arms {
        let runs: Vec<_> = lab.runs.iter().filter(|r| r.meta.arm == *arm).collect();
        let recorded = runs.first().map(|r| r.meta.source.clone());
        let tree = lab.info.arms.get(arm).cloned().or(recorded);
        table.row(vec![
            arm.clone(),
            format!("`{}`", tree.unwrap_or_default()),
            runs.len().to_string(),
        ]);
    }
    table
}

/// A row a claim. The README has those that a thread made.
fn summary(sections: &[Section], keep: fn(&Claim) -> bool) -> Table {
    let mut table = Table::of_words(&["claim", "thread", "here", "verdict"]);
    for section in sections {
        for claim in section.claims.iter().filter(|c| keep(c)) {
            let Claim {
                what,
                thread,
                ours,
                verdict,
            } = claim.clone();
            table.row(vec![
                format!("{}: {what}", section.workload),
                thread,
                ours,
                verdict,
            ]);
        }
    }
    table
}

fn expectations(lab: &Lab) -> String {
    let Some(rows) = &lab.expectations else {
        return "\nExpectations were not checked; `--expect lab/expect.tsv` names them.\n".into();
    };
    let (held, wrong) = results::check(rows, &lab.runs);
    let mut out = format!(
        "\nOf the expectations in lab/expect.tsv, {held} values held and {} rows did not.\n",
        wrong.len()
    );
    if !wrong.is_empty() {
        out.push('\n');
    }
    for sentence in wrong {
        out += &format!("- {sentence}\n");
    }
    out
}

/// The body below `Measurements`, for mail.
fn cover(info: &Info, sections: &[Section]) -> String {
    let arms = "the arms base (no series), c (the series, Rust off) and rust (Rust on)";
    mail(info, arms, sections.iter().flat_map(|s| &s.mail))
}

fn follow_up(info: &Info, sections: &[Section]) -> Option<String> {
    let arms = "the arms base (no series), c (the series, Rust off), all-c and all-rust (the series and these patches on top, \
                Rust off and on)";
    let mut blocks = sections.iter().flat_map(|s| &s.follow_up).peekable();
    blocks.peek()?;
    Some(mail(info, arms, blocks))
}

fn mail<'a>(info: &Info, arms: &str, blocks: impl Iterator<Item = &'a Block>) -> String {
    let command = info.command.as_deref().unwrap_or("make lab");
    let mut parts = vec![text::wrap(&format!(
        "Made by `{command}`, under QEMU, with {arms}. Counts are exact. Instruction counts are what the kernel charges to a \
         thread on one emulated CPU, interrupts included: they are not time. What the threads measured is theirs, on hardware."
    ))];
    for block in blocks {
        match block {
            Block::Table(table) => parts.push(table.mail()),
            Block::Text(text) => parts.push(text::wrap(text)),
            Block::Plot(_) => {}
        }
    }
    parts.join("\n")
}
