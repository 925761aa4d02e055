// SPDX-License-Identifier: GPL-2.0
//! `lab-report`: what the runs of a lab show, as a report, and as the tables of README and cover letter.

mod docs;
mod html;
mod lab;
mod model;
mod plot;
mod report;
mod section;
mod stats;
#[cfg(test)]
mod tests;
mod text;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use lab::Lab;
use std::path::PathBuf;

#[derive(Parser)]
#[command(name = "lab-report", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Writes report.md, report.html, plots/, tables.md, cover.txt, follow-up.txt and policy.rst into a lab's folder.
    Write {
        /// The folder that holds runs/, such as build/lab/<time>.
        dir: PathBuf,
        /// What the runs must show: lab/expect.tsv.
        #[arg(long)]
        expect: Option<PathBuf>,
        /// Writes nothing; fails when the files are not what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Puts the tables of the reference report into README and cover letter.
    Docs {
        /// The folder of the reference report, with its runs.
        dir: PathBuf,
        #[arg(long, default_value = "README.md")]
        readme: PathBuf,
        #[arg(long, default_value = "patches/0000-cover-letter.patch")]
        cover: PathBuf,
        /// The cover letter of the follow-up, where there is one.
        #[arg(long, default_value = "patches/follow-up/0000-cover-letter.patch")]
        follow_up: PathBuf,
        /// The page in the kernel's documentation; only compared, for it comes from the series.
        #[arg(long, default_value = "Documentation/mm/vmscan-rust.rst")]
        page: PathBuf,
        /// Writes nothing; names what drifted and fails.
        #[arg(long)]
        check: bool,
    },
}

fn main() {
    if let Err(e) = run(Cli::parse()) {
        eprintln!("error: {e:#}");
        std::process::exit(1);
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli.what {
        What::Write { dir, expect, check } => {
            let report = report::make(&Lab::read(&dir, expect.as_deref())?)?;
            if !check {
                return report.write(&dir);
            }
            match &report.stale(&dir)[..] {
                [] => Ok(()),
                stale => bail!(
                    "{} in {} are not what its runs give; `lab-report write {}` makes them anew",
                    text::join(stale),
                    dir.display(),
                    dir.display()
                ),
            }
        }
        What::Docs {
            dir,
            readme,
            cover,
            follow_up,
            page,
            check,
        } => {
            let report = report::make(&Lab::read(&dir, None)?)?;
            for line in docs::sync(&report, &readme, &cover, &follow_up, &page, check)? {
                println!("{line}");
            }
            Ok(())
        }
    }
}
