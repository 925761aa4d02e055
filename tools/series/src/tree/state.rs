// SPDX-License-Identifier: GPL-2.0
//! What was laid last: the refs, and beside them a note in the tree's git folder.

use super::lay::Laid;
use super::patches::patches_key;
use super::{BASE, CORE, LAID, PREREQ};
use crate::files::write_whole;
use crate::git::{self, git};
use crate::opts::Series;
use crate::step::{Ctx, capture};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct State {
    pub source: String,
    /// Of the patches as they were laid or exported; empty before that.
    pub patches: String,
    /// How much is laid. A note from before there was a follow-up does not say.
    #[serde(default)]
    pub series: Series,
}

impl State {
    fn file(dir: &Path) -> PathBuf {
        dir.join(".git/series.json")
    }

    pub fn read(dir: &Path) -> State {
        let text = fs::read_to_string(State::file(dir)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub fn write(&self, dir: &Path) -> Result<()> {
        write_whole(&State::file(dir), &serde_json::to_vec(self)?)
    }
}

pub fn record(dir: &Path, base: &str, laid: &Laid, state: &State) -> Result<()> {
    for (name, commit) in [
        (BASE, base),
        (PREREQ, &laid.prereq),
        (CORE, &laid.core),
        (LAID, &laid.head),
    ] {
        capture(git(dir).args(["update-ref", name, commit]))?;
    }
    state.write(dir)
}

/// A tree from before there was a follow-up lacks this ref.
pub fn complete_refs(dir: &Path) -> Result<()> {
    if let (None, Some(laid)) = (git::commit(dir, CORE)?, git::commit(dir, LAID)?) {
        capture(git(dir).args(["update-ref", CORE, &laid]))?;
    }
    Ok(())
}

/// How much of the series the tree holds.
pub fn laid_series(dir: &Path) -> Series {
    State::read(dir).series
}

/// After an export: what HEAD holds and what patches/ holds is the same.
pub fn record_export(ctx: &Ctx, dir: &Path, core: &str) -> Result<()> {
    capture(git(dir).args(["update-ref", CORE, core]))?;
    capture(git(dir).args(["update-ref", LAID, "HEAD"]))?;
    let mut state = State::read(dir);
    state.patches = patches_key(ctx, state.series)?;
    state.write(dir)
}

/// Whether patches/ is what was last laid or exported here.
pub fn patches_unchanged(ctx: &Ctx, dir: &Path) -> Result<bool> {
    let state = State::read(dir);
    Ok(state.patches == patches_key(ctx, state.series)?)
}
