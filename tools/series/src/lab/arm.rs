// SPDX-License-Identifier: GPL-2.0
//! The kernels that are compared: the rows of lab/arms.tsv.

use super::table;
use crate::git::line;
use crate::opts::Series;
use crate::step::Ctx;
use crate::tree::{self, PREREQ, Tree};
use anyhow::{Context, Result, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The base and its prerequisites.
    Prereq,
    /// The series without the follow-up.
    Series,
    /// The first patches of the series, as commits.
    First(usize),
    /// The series and the follow-up.
    All,
}

impl Source {
    fn parse(text: &str) -> Option<Source> {
        match text {
            "prereq" => Some(Source::Prereq),
            "series" => Some(Source::Series),
            "all" => Some(Source::All),
            other => {
                let n = other.strip_prefix("series@")?.parse().ok()?;
                (n > 0).then_some(Source::First(n))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    pub name: String,
    pub source: Source,
    /// On top of lab/x86_64.config.
    pub config: Vec<String>,
    /// In lab/patches/, on top of the source.
    pub patches: Vec<String>,
}

pub fn all(ctx: &Ctx) -> Result<Vec<Arm>> {
    table::read::<5>(&ctx.root, "lab/arms.tsv")?
        .into_iter()
        .map(|row| {
            let [name, source, config, patches, _why] = row.cells;
            let source = Source::parse(&source).with_context(|| {
                format!(
                    "{}: source `{source}`: want prereq, series, series@<patches>, or all",
                    row.at
                )
            })?;
            Ok(Arm {
                name,
                source,
                config: table::words(&config, ' '),
                patches: table::words(&patches, ' '),
            })
        })
        .collect()
}

/// The arms of these names, in the order of the table: one that shares its source with the next is built beside it.
pub fn named(ctx: &Ctx, names: &[String]) -> Result<Vec<Arm>> {
    let all = all(ctx)?;
    let known: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
    if let Some(unknown) = names.iter().find(|n| !known.contains(&n.as_str())) {
        bail!(
            "no arm `{unknown}` in lab/arms.tsv; there are: {}",
            known.join(", ")
        );
    }
    Ok(all
        .into_iter()
        .filter(|a| names.contains(&a.name))
        .collect())
}

impl Arm {
    /// An option of the kernel at large rebuilds it all; the series' own touches a few files, one of Rust only Rust's.
    pub fn own_objects(&self) -> bool {
        let few = ["CONFIG_VMSCAN_", "CONFIG_RUST_"];
        let at_large = |o: &String| !few.iter().any(|f| o.starts_with(f));
        self.config.iter().any(at_large)
    }

    /// What its patches go on: a commit or a tree. Of the arms that take all that build/linux is laid with, work in no
    /// commit counts too, new files as well: it is what gets measured.
    pub fn start(&self, ctx: &Ctx, tree: &Tree) -> Result<String> {
        match self.source {
            Source::Prereq => line(&tree.dir, &["rev-parse", "--verify", PREREQ])
                .context("the tree has no prerequisites ref: make tree lays it"),
            Source::Series => tree::files_with(ctx, tree, Series::Core),
            Source::First(n) => tree::nth_patch(&tree.dir, n),
            Source::All => tree::files_with(ctx, tree, Series::All),
        }
        .with_context(|| format!("arm {} has no source", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        assert_eq!(Source::parse("prereq"), Some(Source::Prereq));
        assert_eq!(Source::parse("series"), Some(Source::Series));
        assert_eq!(Source::parse("series@2"), Some(Source::First(2)));
        assert_eq!(Source::parse("all"), Some(Source::All));
        for bad in ["", "series@", "series@0", "series@x", "series@-1", "core"] {
            assert_eq!(Source::parse(bad), None, "{bad}");
        }
    }
}
